"""Cutting planes of a structural SVM, a few for each example, with exact ascent on one example's dual block at a time.

Slot 0 of every block is the zero plane of the true output: with it the block's constraint is an equality. Planes of large feature
spaces are mostly zeros (two outputs differ in few features): those with fewer than half of their entries are kept as
index and value, which halves the memory traffic of the sweeps or better.

Block ascent finds the active planes quickly but then slows down, since all blocks share one w. On the face of active planes the
dual is an unconstrained quadratic apart from the blocks' sums. A few conjugate-gradient steps there, projected back onto the
simplices, replace hundreds of sweeps (the idea of Moré and Toraldo's GPCG).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from lupi.solution import out_of_time

# Memory of the stored planes, in doubles (400 MB).
_BUDGET = 50_000_000
# Rounds without weight after which a plane is dropped.
_PATIENCE = 4
# Pair steps on a block in a sweep: an exact optimum of one block is lost when the others move.
_STEPS = 3
# Sweeps over the planes with weight between two over all planes, and conjugate-gradient steps after them.
_SWEEPS = 3
_CG = 8
# Gap, per unit of its mass, to which a block is solved when it got a plane.
EXACT = 1e-10
# Entries per slot at first.
_FIRST_WIDTH = 64
_FAST = {"reassoc", "contract", "nsz"}


class Planes(NamedTuple):
    """Arrays of a store, block by block and slot by slot.

    A plane is its first ``sizes`` values: all entries, or those at ``positions``. ``alpha`` are the dual weights, ``idle`` the
    rounds without weight, ``used`` the numbers of slots in use; ``w`` is the sum of all planes times their weights, and
    ``cap`` the mass of a block.
    """

    values: np.ndarray
    positions: np.ndarray
    sizes: np.ndarray
    losses: np.ndarray
    gram: np.ndarray
    alpha: np.ndarray
    idle: np.ndarray
    used: np.ndarray
    w: np.ndarray
    cap: float


@njit(cache=True, nogil=True, fastmath=_FAST)
def _dot(p: Planes, i: int, k: int, v: np.ndarray) -> float:
    """Scalar product of plane k of block i with a vector."""
    values, index, size = p.values[i, k], p.positions[i, k], p.sizes[i, k]
    s = 0.0
    if size == v.shape[0]:
        for j in range(size):
            s += values[j] * v[j]
    else:
        for j in range(size):
            s += values[j] * v[index[j]]
    return s


@njit(cache=True, nogil=True, fastmath=_FAST)
def _add(p: Planes, i: int, k: int, factor: float, v: np.ndarray) -> None:
    """Add a multiple of plane k of block i to a vector."""
    values, index, size = p.values[i, k], p.positions[i, k], p.sizes[i, k]
    if size == v.shape[0]:
        for j in range(size):
            v[j] += factor * values[j]
    else:
        for j in range(size):
            v[index[j]] += factor * values[j]


@njit(cache=True, nogil=True)
def simplex_ascent(gram: np.ndarray, grad: np.ndarray, alpha: np.ndarray, m: int, tol: float, max_steps: int) -> int:
    """Maximize a block's dual over its simplex by pair steps; `grad` is kept up to date. Returns the steps taken.

    Mass moves from the active plane with the smallest gradient to the plane of the best second-order gain.
    """
    for step in range(max_steps):
        low = -1
        for k in range(m):
            if alpha[k] > 0.0 and (low < 0 or grad[k] < grad[low]):
                low = k
        high = -1
        gain = widest = 0.0
        for k in range(m):
            rise = grad[k] - grad[low]
            widest = max(widest, rise)
            if rise > 0.0:
                curvature = max(gram[k, k] + gram[low, low] - 2.0 * gram[k, low], 1e-300)
                move = min(rise / curvature, alpha[low])
                value = move * (rise - 0.5 * move * curvature)
                if high < 0 or value > gain:
                    gain = value
                    high = k
        if high < 0 or widest <= tol:
            return step
        curvature = max(gram[high, high] + gram[low, low] - 2.0 * gram[high, low], 1e-300)
        move = (grad[high] - grad[low]) / curvature
        if move >= alpha[low]:
            move = alpha[low]
            alpha[low] = 0.0
        else:
            alpha[low] -= move
        alpha[high] += move
        for k in range(m):
            grad[k] -= move * (gram[k, high] - gram[k, low])
    return max_steps


@njit(cache=True, nogil=True)
def _ascend_block(p: Planes, i: int, tol: float, max_steps: int, active_only: bool) -> float:
    """Ascend on one block with the others fixed; updates alpha and w. Returns the block's gap before the step.

    `active_only` skips planes without weight, which saves reading them.
    """
    m, alpha = p.used[i], p.alpha[i]
    grad, before = np.empty(m), np.empty(m)
    top = -np.inf
    mean = 0.0
    active = 0
    for k in range(m):
        before[k] = alpha[k]
        active += alpha[k] > 0.0
    if active_only and active == 1:
        return 0.0
    for k in range(m):
        grad[k] = -np.inf
        if alpha[k] > 0.0 or not active_only:
            grad[k] = p.losses[i, k] - _dot(p, i, k, p.w)
            top = max(top, grad[k])
            mean += alpha[k] * grad[k]
    gap = p.cap * top - mean
    if gap <= tol * p.cap:
        return gap
    simplex_ascent(p.gram[i], grad, alpha, m, 0.1 * tol, max_steps)
    for k in range(m):
        if alpha[k] != before[k]:
            _add(p, i, k, alpha[k] - before[k], p.w)
    return gap


@njit(cache=True, nogil=True)
def _sweep(p: Planes, tol: float, target: float) -> float:
    """Sweep over all stored planes, then over those with weight. Returns the total gap before; below `target` it is all."""
    gap = np.inf
    for turn in range(1 + _SWEEPS):
        total = 0.0
        for i in range(len(p.used)):
            total += _ascend_block(p, i, tol, _STEPS, turn > 0)
        if turn == 0:
            gap = total
            if gap <= target:
                break
    return gap


@njit(cache=True, nogil=True)
def _center(v: np.ndarray, start: np.ndarray) -> None:
    """Subtract each block's mean: projection onto directions that keep the blocks' sums."""
    for i in range(start.shape[0] - 1):
        mean = 0.0
        for k in range(start[i], start[i + 1]):
            mean += v[k] / (start[i + 1] - start[i])
        for k in range(start[i], start[i + 1]):
            v[k] -= mean


@njit(cache=True, nogil=True)
def _project(v: np.ndarray, start: np.ndarray, cap: float) -> None:
    """Euclidean projection of each block onto its simplex of mass `cap`."""
    for i in range(start.shape[0] - 1):
        a, b = start[i], start[i + 1]
        if a == b:
            continue
        largest = v[a]
        for k in range(a + 1, b):
            largest = max(largest, v[k])
        # Shifted values: with the largest at 0, nothing is lost to rounding however large the values were.
        for k in range(a, b):
            v[k] -= largest
        # Newton's method on the decreasing, convex function sum max(v - level, 0) - cap.
        low = -cap
        while True:
            total, n = -cap, 0
            for k in range(a, b):
                if v[k] > low:
                    total += v[k] - low
                    n += 1
            level = low + total / n
            if level <= low:
                break
            low = level
        total = 0.0
        for k in range(a, b):
            v[k] = max(v[k] - low, 0.0)
            total += v[k]
        for k in range(a, b):
            v[k] *= cap / total


@njit(cache=True, nogil=True)
def _combine(p: Planes, block: np.ndarray, slot: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Sum of the face's planes, plane k times v[k]."""
    out = np.zeros(len(p.w))
    for k in range(v.shape[0]):
        if v[k] != 0.0:
            _add(p, block[k], slot[k], v[k], out)
    return out


@njit(cache=True, nogil=True)
def _product(a: np.ndarray, b: np.ndarray) -> float:
    s = 0.0
    for k in range(len(a)):
        s += a[k] * b[k]
    return s


@njit(cache=True, nogil=True)
def _face_step(p: Planes) -> None:
    """Conjugate gradients on the planes with weight, then a projected step if it increases the dual."""
    n = len(p.used)
    start = np.zeros(n + 1, dtype=np.int64)
    for i in range(n):
        active = 0
        for k in range(p.used[i]):
            active += p.alpha[i, k] > 0.0
        start[i + 1] = start[i] + (active if active > 1 else 0)
    m = start[n]
    if m == 0:
        return
    block, slot = np.empty(m, dtype=np.int64), np.empty(m, dtype=np.int64)
    r, move, trial = np.empty(m), np.zeros(m), np.empty(m)
    steepest = 0.0
    for i in range(n):
        q = start[i]
        for k in range(p.used[i]):
            if p.alpha[i, k] > 0.0 and q < start[i + 1]:
                block[q], slot[q] = i, k
                r[q] = p.losses[i, k] - _dot(p, i, k, p.w)
                steepest = max(steepest, p.gram[i, k, k])
                q += 1
    _center(r, start)
    direction = r.copy()
    rr = _product(r, r)
    target = 1e-4 * rr
    hp = np.empty(m)
    for _ in range(_CG):
        u = _combine(p, block, slot, direction)
        curvature = _product(u, u)
        # A direction of no curvature, up to rounding: the quadratic is unbounded there.
        if curvature <= 1e-12 * steepest * _product(direction, direction) or rr <= target:
            break
        a = rr / curvature
        for k in range(m):
            move[k] += a * direction[k]
            hp[k] = _dot(p, block[k], slot[k], u)
        _center(hp, start)
        for k in range(m):
            r[k] -= a * hp[k]
        new = _product(r, r)
        for k in range(m):
            direction[k] = r[k] + (new / rr) * direction[k]
        rr = new
    scale = 1.0
    for _ in range(5):
        for k in range(m):
            trial[k] = p.alpha[block[k], slot[k]] + scale * move[k]
        _project(trial, start, p.cap)
        gain = 0.0
        for k in range(m):
            hp[k] = trial[k] - p.alpha[block[k], slot[k]]
            gain += p.losses[block[k], slot[k]] * hp[k]
        shift = _combine(p, block, slot, hp)
        gain -= _product(shift, p.w) + 0.5 * _product(shift, shift)
        if gain > 0.0:
            for k in range(m):
                p.alpha[block[k], slot[k]] = trial[k]
            for j in range(len(shift)):
                p.w[j] += shift[j]
            return
        scale *= 0.4


@njit(cache=True, nogil=True)
def _put(p: Planes, i: int, k: int, psi: np.ndarray, loss: float) -> None:
    """Store a plane in slot k of block i, without weight."""
    d, size = len(psi), 0
    for j in range(d):
        size += psi[j] != 0.0
    whole = 2 * size >= d
    q = 0
    for j in range(d):
        if whole or psi[j] != 0.0:
            p.values[i, k, q] = psi[j]
            p.positions[i, k, q] = j
            q += 1
    p.sizes[i, k], p.losses[i, k], p.alpha[i, k], p.idle[i, k] = q, loss, 0.0, 0
    p.used[i] = max(p.used[i], k + 1)
    for other in range(p.used[i]):
        p.gram[i, k, other] = p.gram[i, other, k] = _dot(p, i, other, psi)


@njit(cache=True, nogil=True)
def _take(p: Planes, order: np.ndarray, psi: np.ndarray, loss: np.ndarray, gaps: np.ndarray, ascend: bool) -> int:
    """Store one plane per example of `order`, a row of psi, if it is violated; writes the blocks' gaps.

    `ascend` solves each block. Returns the number of planes before one that found no free slot.
    """
    for row in range(len(order)):
        i, new = order[row], loss[row]
        top, mean = -np.inf, 0.0
        for k in range(p.used[i]):
            s = p.losses[i, k] - _dot(p, i, k, p.w)
            top = max(top, s)
            mean += p.alpha[i, k] * s
        for j in range(psi.shape[1]):
            new -= psi[row, j] * p.w[j]
        if new > top + 1e-12 * (1.0 + abs(new)):
            if p.used[i] == p.values.shape[1]:
                return row
            _put(p, i, p.used[i], psi[row], loss[row])
        gaps[i] = p.cap * max(new, top) - mean
        if ascend:
            _ascend_block(p, i, EXACT, 1000, False)
    return len(order)


@njit(cache=True, nogil=True)
def _tidy(p: Planes, patience: int) -> None:
    """Drop planes that had no weight for `patience` rounds, and recompute w from the others."""
    for j in range(len(p.w)):
        p.w[j] = 0.0
    for i in range(len(p.used)):
        q = 1
        for k in range(1, p.used[i]):
            p.idle[i, k] = 0 if p.alpha[i, k] > 0.0 else p.idle[i, k] + 1
            if p.idle[i, k] > patience:
                continue
            if q < k:
                for j in range(p.sizes[i, k]):
                    p.values[i, q, j], p.positions[i, q, j] = p.values[i, k, j], p.positions[i, k, j]
                p.sizes[i, q], p.losses[i, q] = p.sizes[i, k], p.losses[i, k]
                p.alpha[i, q], p.idle[i, q] = p.alpha[i, k], p.idle[i, k]
                for j in range(p.used[i]):
                    p.gram[i, q, j] = p.gram[i, k, j]
                for j in range(p.used[i]):
                    p.gram[i, j, q] = p.gram[i, j, k]
            q += 1
        for k in range(q, p.used[i]):
            p.alpha[i, k] = 0.0
        p.used[i] = q
        for k in range(q):
            if p.alpha[i, k] > 0.0:
                _add(p, i, k, p.alpha[i, k], p.w)


class PlaneStore:
    """Planes, their Gram blocks and dual weights; ``w`` is always the weighted sum of all planes."""

    def __init__(self, n: int, d: int, cap: float) -> None:
        slots, width = int(np.clip(_BUDGET // max(n * d, 1), 3, 40)), min(d, _FIRST_WIDTH)
        self.arrays = Planes(
            values=np.zeros((n, slots, width)),
            positions=np.zeros((n, slots, width), dtype=np.int32),
            sizes=np.zeros((n, slots), dtype=np.int64),
            losses=np.zeros((n, slots)),
            gram=np.zeros((n, slots, slots)),
            alpha=np.zeros((n, slots)),
            idle=np.zeros((n, slots), dtype=np.int64),
            used=np.ones(n, dtype=np.int64),
            w=np.zeros(d),
            cap=float(cap),
        )
        self.arrays.alpha[:, 0] = cap

    @property
    def w(self) -> np.ndarray:
        """Weighted sum of all planes."""
        return self.arrays.w

    @property
    def dual(self) -> float:
        """Dual objective."""
        return float((self.arrays.alpha * self.arrays.losses).sum() - 0.5 * self.w @ self.w)

    def start_from(self, blocks: np.ndarray, linear: np.ndarray) -> None:
        """Begin with one plane for each block: the mean plane of another solver, with all of the weight."""
        self._widen(blocks)
        for i, (psi, loss) in enumerate(zip(blocks / self.arrays.cap, linear / self.arrays.cap)):
            _put(self.arrays, i, 1, psi, loss)
        self.arrays.alpha[:, :2] = 0.0, self.arrays.cap
        self.w[:] = blocks.sum(axis=0)

    def take(self, order: np.ndarray, psi: np.ndarray, loss: np.ndarray, gaps: np.ndarray, *, ascend: bool) -> None:
        """Store one plane for each example of `order`, a row of psi, and write the blocks' gaps; `ascend` solves every block."""
        self._widen(psi)
        done = _take(self.arrays, order, psi, loss, gaps, ascend)
        while done < len(order):
            self._make_room(order[done])
            done += _take(self.arrays, order[done:], psi[done:], loss[done:], gaps, ascend)

    def ascend_all(self, *, max_sweeps: int, target: float) -> float:
        """Sweeps and face steps over the stored planes until their total gap is below `target`; returns the gap."""
        gap, tol = np.inf, 0.1 * target / (self.arrays.cap * len(self.arrays.used))
        for _ in range(max_sweeps):
            if out_of_time():
                break
            gap = _sweep(self.arrays, tol, target)
            if gap <= target:
                break
            _face_step(self.arrays)
        return gap

    def tidy(self) -> None:
        """Drop idle planes and recompute w from the others, which removes the rounding of thousands of updates."""
        _tidy(self.arrays, _PATIENCE)

    def plane(self, i: int, k: int) -> np.ndarray:
        """Plane k of block i, all entries."""
        out = np.zeros(len(self.w))
        _add(self.arrays, i, k, 1.0, out)
        return out

    def _widen(self, psi: np.ndarray) -> None:
        """Widen all slots if one of some planes has more entries than they hold."""
        d, width = len(self.w), self.arrays.values.shape[2]
        size = int(np.count_nonzero(psi, axis=1).max(initial=0))
        needed = d if 2 * size >= d else size
        if needed > width:
            more = ((0, 0), (0, 0), (0, min(d, max(needed, 2 * width)) - width))
            values, positions = np.pad(self.arrays.values, more), np.pad(self.arrays.positions, more)
            self.arrays = self.arrays._replace(values=values, positions=positions)

    def _make_room(self, i: int) -> None:
        """Free the last slot of a full block: drop an idle plane, or else replace the two lightest planes by their mean."""
        alpha, losses, last = self.arrays.alpha[i], self.arrays.losses[i], int(self.arrays.used[i]) - 1

        def need(k: int) -> tuple[float, float]:
            return alpha[k], 0.0 if alpha[k] > 0.0 else losses[k] - self.plane(i, k) @ self.w

        free, kept = sorted(range(1, last + 1), key=need)[:2]
        if alpha[free] > 0.0:
            # Weighted by alpha, which leaves w and the dual unchanged.
            weight = alpha[free] + alpha[kept]
            share = alpha[free] / weight
            mean = share * self.plane(i, free) + (1.0 - share) * self.plane(i, kept)
            self._widen(mean[None])
            _put(self.arrays, i, kept, mean, share * losses[free] + (1.0 - share) * losses[kept])
            alpha[kept] = weight
        if free != last:
            weight = alpha[last]
            _put(self.arrays, i, free, self.plane(i, last), losses[last])
            alpha[free] = weight
        alpha[last] = 0.0
        self.arrays.used[i] = last
