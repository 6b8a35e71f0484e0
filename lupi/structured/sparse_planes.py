"""A plane as a row of values: all of its entries, or only those that are not zero with their positions."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numba import njit

# Of all slots: values, positions, and how many entries there are.
PlaneArrays: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]

_FAST = {"reassoc", "contract", "nsz"}


@njit(cache=True, nogil=True)
def compress(psi: np.ndarray, values: np.ndarray, index: np.ndarray) -> int:
    """Write a plane into a slot and return its size: the length of psi if it is stored whole, else its entries that are not 0."""
    d = psi.shape[0]
    size = int(np.count_nonzero(psi))
    if 2 * size >= d:
        values[:d] = psi
        return d
    q = 0
    for j in range(d):
        if psi[j] != 0.0:
            values[q] = psi[j]
            index[q] = j
            q += 1
    return size


@njit(cache=True, nogil=True, fastmath=_FAST)
def plane_dot(values: np.ndarray, index: np.ndarray, size: int, w: np.ndarray) -> float:
    """Scalar product of a stored plane with a vector."""
    s = 0.0
    if size == w.shape[0]:
        for j in range(size):
            s += values[j] * w[j]
    else:
        for j in range(size):
            s += values[j] * w[index[j]]
    return s


@njit(cache=True, nogil=True, fastmath=_FAST)
def add_times(values: np.ndarray, index: np.ndarray, size: int, factor: float, w: np.ndarray) -> None:
    """Add a multiple of a stored plane to a vector."""
    if size == w.shape[0]:
        for j in range(size):
            w[j] += factor * values[j]
    else:
        for j in range(size):
            w[index[j]] += factor * values[j]
