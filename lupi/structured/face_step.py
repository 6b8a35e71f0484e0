"""A subspace step for the dual of a structural SVM: conjugate gradients on the planes that carry weight.

Block ascent finds the active planes quickly but then creeps, since all blocks pull at the same w. On the face of active planes
the dual is an unconstrained quadratic apart from the blocks' sums; a few conjugate-gradient steps there, projected back onto the
simplices, do the work of hundreds of sweeps (the idea of Moré and Toraldo's GPCG).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from lupi.structured.sparse_planes import add_times, plane_dot

if TYPE_CHECKING:
    from lupi.structured.sparse_planes import PlaneArrays


@njit(cache=True, nogil=True)
def _center(v: np.ndarray, start: np.ndarray) -> None:
    """Subtract each block's mean: projection onto directions that keep the blocks' sums."""
    for i in range(start.shape[0] - 1):
        n = start[i + 1] - start[i]
        if n > 0:
            mean = 0.0
            for k in range(start[i], start[i + 1]):
                mean += v[k]
            mean /= n
            for k in range(start[i], start[i + 1]):
                v[k] -= mean


@njit(cache=True, nogil=True)
def _combine(planes: PlaneArrays, block: np.ndarray, slot: np.ndarray, v: np.ndarray, d: int) -> np.ndarray:
    """Sum of the face's planes, plane k times v[k]."""
    values, index, sizes = planes
    out = np.zeros(d)
    for k in range(v.shape[0]):
        if v[k] != 0.0:
            i, q = block[k], slot[k]
            add_times(values[i, q], index[i, q], sizes[i, q], v[k], out)
    return out


@njit(cache=True, nogil=True)
def _apply(planes: PlaneArrays, block: np.ndarray, slot: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Scalar products of the face's planes with u."""
    values, index, sizes = planes
    out = np.empty(block.shape[0])
    for k in range(block.shape[0]):
        i, q = block[k], slot[k]
        out[k] = plane_dot(values[i, q], index[i, q], sizes[i, q], u)
    return out


@njit(cache=True, nogil=True)
def _project(v: np.ndarray, start: np.ndarray, cap: float) -> None:
    """Euclidean projection of each block onto its simplex of mass `cap`."""
    for i in range(start.shape[0] - 1):
        a, b = start[i], start[i + 1]
        if a == b:
            continue
        order = np.sort(v[a:b])[::-1]
        total = 0.0
        level = 0.0
        for k in range(b - a):
            total += order[k]
            candidate = (total - cap) / (k + 1)
            if order[k] > candidate:
                level = candidate
        for k in range(a, b):
            v[k] = max(v[k] - level, 0.0)


@njit(cache=True, nogil=True)
def face_step(
    planes: PlaneArrays,
    losses: np.ndarray,
    alpha: np.ndarray,
    count: np.ndarray,
    w: np.ndarray,
    cap: float,
    max_cg: int,
) -> float:
    """One projected conjugate-gradient step on the active planes; updates alpha and w, returns the gain of the dual."""
    n, d = alpha.shape[0], w.shape[0]
    start = np.zeros(n + 1, dtype=np.int64)
    for i in range(n):
        active = 0
        for k in range(count[i]):
            if alpha[i, k] > 0.0:
                active += 1
        start[i + 1] = start[i] + (active if active > 1 else 0)
    m = start[n]
    if m == 0:
        return 0.0
    block = np.empty(m, dtype=np.int64)
    slot = np.empty(m, dtype=np.int64)
    loss = np.empty(m)
    now = np.empty(m)
    for i in range(n):
        q = start[i]
        if start[i + 1] > q:
            for k in range(count[i]):
                if alpha[i, k] > 0.0:
                    block[q], slot[q] = i, k
                    loss[q] = losses[i, k]
                    now[q] = alpha[i, k]
                    q += 1
    r = loss - _apply(planes, block, slot, w)
    _center(r, start)
    p = r.copy()
    move = np.zeros(m)
    rr = np.dot(r, r)
    target = 1e-4 * rr
    for _ in range(max_cg):
        u = _combine(planes, block, slot, p, d)
        curvature = np.dot(u, u)
        if curvature <= 1e-14 * rr or rr <= target:
            break
        a = rr / curvature
        move += a * p
        hp = _apply(planes, block, slot, u)
        _center(hp, start)
        r -= a * hp
        new = np.dot(r, r)
        p = r + (new / rr) * p
        rr = new
    scale = 1.0
    for _ in range(5):
        trial = now + scale * move
        _project(trial, start, cap)
        shift = _combine(planes, block, slot, trial - now, d)
        gain = np.dot(loss, trial - now) - np.dot(shift, w) - 0.5 * np.dot(shift, shift)
        if gain > 0.0:
            for i in range(n):
                q = start[i]
                if start[i + 1] > q:
                    for k in range(count[i]):
                        if alpha[i, k] > 0.0:
                            alpha[i, k] = trial[q]
                            q += 1
            w += shift
            return gain
        scale *= 0.4
    return 0.0
