"""Maxima that run at vector speed.

LLVM does not vectorise a running maximum of floats, but it does vectorise ``lane[k] = max(lane[k], ...)`` over a small
array of lanes. The lane that holds the maximum also tells where to look for its index.
"""

from __future__ import annotations

import numpy as np
from numba import njit

LANES = 64


@njit(cache=True, fastmath=True, nogil=True)
def highest(values, mask, lanes):
    """Maximum of values + mask, with the maximum of every LANES-th entry left in lanes."""
    n = values.shape[0]
    lanes[:] = -np.finfo(np.float64).max
    full = n - n % LANES
    for start in range(0, full, LANES):
        block = values[start : start + LANES]
        block_mask = mask[start : start + LANES]
        for k in range(LANES):
            lanes[k] = max(lanes[k], block[k] + block_mask[k])
    for t in range(full, n):
        lanes[t - full] = max(lanes[t - full], values[t] + mask[t])
    best = lanes[0]
    for k in range(1, LANES):
        best = max(best, lanes[k])
    return best


@njit(cache=True, fastmath=True, nogil=True)
def lowest(values, mask, lanes):
    """Minimum of values + mask, with the minimum of every LANES-th entry left in lanes."""
    n = values.shape[0]
    lanes[:] = np.finfo(np.float64).max
    full = n - n % LANES
    for start in range(0, full, LANES):
        block = values[start : start + LANES]
        block_mask = mask[start : start + LANES]
        for k in range(LANES):
            lanes[k] = min(lanes[k], block[k] + block_mask[k])
    for t in range(full, n):
        lanes[t - full] = min(lanes[t - full], values[t] + mask[t])
    least = lanes[0]
    for k in range(1, LANES):
        least = min(least, lanes[k])
    return least


@njit(cache=True, fastmath=True, nogil=True)
def position(values, mask, lanes, extreme):
    """Index at which values + mask reaches the extreme that ``highest`` or ``lowest`` returned.

    The sum of two numbers is the same in every loop, so equality is exact.
    """
    for k in range(LANES):
        if lanes[k] == extreme:
            for t in range(k, values.shape[0], LANES):
                if values[t] + mask[t] == extreme:
                    return t
    return 0
