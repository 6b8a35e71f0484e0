"""Maxima that run at vector speed.

LLVM does not vectorize a running maximum of floats, but it does vectorize ``lane[k] = max(lane[k], ...)`` over a small
array of lanes. The lane that holds the maximum also tells where to look for its index.
"""

from __future__ import annotations

import numpy as np
from numba import njit

LANES = 64


@njit(cache=True, fastmath=True, nogil=True)
def highest(values: np.ndarray, mask: np.ndarray, lanes: np.ndarray) -> float:
    """Maximum of values + mask, with the maximum of every LANES-th entry left in lanes."""
    n = values.shape[0]
    lanes[:] = -np.finfo(lanes.dtype).max
    many = n - n % (4 * LANES)
    # Four blocks at a time: the lanes themselves are read and written a quarter as often.
    for start in range(0, many, 4 * LANES):
        block = values[start : start + 4 * LANES]
        block_mask = mask[start : start + 4 * LANES]
        for k in range(LANES):
            first = max(block[k] + block_mask[k], block[k + LANES] + block_mask[k + LANES])
            second = max(
                block[k + 2 * LANES] + block_mask[k + 2 * LANES], block[k + 3 * LANES] + block_mask[k + 3 * LANES]
            )
            lanes[k] = max(lanes[k], max(first, second))
    full = n - n % LANES
    for start in range(many, full, LANES):
        block = values[start : start + LANES]
        block_mask = mask[start : start + LANES]
        for k in range(LANES):
            lanes[k] = max(lanes[k], block[k] + block_mask[k])
    for t in range(full, n):
        lanes[t - full] = max(lanes[t - full], values[t] + mask[t])
    # Four at a time again: a comparison takes longer to finish than to begin.
    a, b, c, d = lanes[0], lanes[1], lanes[2], lanes[3]
    for k in range(4, LANES, 4):
        a, b, c, d = max(a, lanes[k]), max(b, lanes[k + 1]), max(c, lanes[k + 2]), max(d, lanes[k + 3])
    return max(max(a, b), max(c, d))


@njit(cache=True, fastmath=True, nogil=True)
def lowest(values: np.ndarray, mask: np.ndarray, lanes: np.ndarray) -> float:
    """Minimum of values + mask, with the minimum of every LANES-th entry left in lanes."""
    n = values.shape[0]
    lanes[:] = np.finfo(lanes.dtype).max
    many = n - n % (4 * LANES)
    # Four blocks at a time: the lanes themselves are read and written a quarter as often.
    for start in range(0, many, 4 * LANES):
        block = values[start : start + 4 * LANES]
        block_mask = mask[start : start + 4 * LANES]
        for k in range(LANES):
            first = min(block[k] + block_mask[k], block[k + LANES] + block_mask[k + LANES])
            second = min(
                block[k + 2 * LANES] + block_mask[k + 2 * LANES], block[k + 3 * LANES] + block_mask[k + 3 * LANES]
            )
            lanes[k] = min(lanes[k], min(first, second))
    full = n - n % LANES
    for start in range(many, full, LANES):
        block = values[start : start + LANES]
        block_mask = mask[start : start + LANES]
        for k in range(LANES):
            lanes[k] = min(lanes[k], block[k] + block_mask[k])
    for t in range(full, n):
        lanes[t - full] = min(lanes[t - full], values[t] + mask[t])
    # Four at a time again: a comparison takes longer to finish than to begin.
    a, b, c, d = lanes[0], lanes[1], lanes[2], lanes[3]
    for k in range(4, LANES, 4):
        a, b, c, d = min(a, lanes[k]), min(b, lanes[k + 1]), min(c, lanes[k + 2]), min(d, lanes[k + 3])
    return min(min(a, b), min(c, d))


@njit(cache=True, fastmath=True, nogil=True)
def position(values: np.ndarray, mask: np.ndarray, lanes: np.ndarray, extreme: float) -> int:
    """Index at which values + mask reaches the extreme that ``highest`` or ``lowest`` returned.

    The sum of two numbers is the same in every loop, so equality is exact.
    """
    for k in range(LANES):
        if lanes[k] == extreme:
            for t in range(k, values.shape[0], LANES):
                if values[t] + mask[t] == extreme:
                    return t
    return 0
