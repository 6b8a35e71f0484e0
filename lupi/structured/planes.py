"""A store of cutting planes, a few for each example, with exact ascent on one example's dual block at a time.

Slot 0 of every block is the zero plane of the true output: with it the block's constraint is an equality. Planes of large feature
spaces are mostly zeros (two outputs differ in few features): those with fewer than half of their entries are kept as
index and value, which saves reading memory, the time of the sweeps.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numba import njit

from lupi.solution import SLICE, out_of_time
from lupi.structured.face_step import face_step
from lupi.structured.sparse_planes import PlaneArrays, add_times, compress, plane_dot

# The arrays of a store: planes, losses, Gram blocks, weights, idle rounds, counts, their sum w; and the mass of a block.
StoreArrays: TypeAlias = tuple[
    PlaneArrays, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, float
]

# Memory that the stored planes may take, in doubles (400 MB).
_BUDGET = 50_000_000
# Rounds without weight after which a plane is forgotten.
_PATIENCE = 4
# Pair steps on a block in a sweep: the next sweep comes soon, and an exact optimum of one block is lost when the others move.
_STEPS = 3
# Sweeps over the planes with weight between two over all planes, and conjugate-gradient steps after them.
_SWEEPS = 3
_CG = 8
# Gap, per unit of its mass, to which a block is solved when it got a plane.
EXACT = 1e-10
# Entries that a slot holds at first.
_FIRST_WIDTH = 64


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
        gain = 0.0
        widest = 0.0
        for k in range(m):
            rise = grad[k] - grad[low]
            if rise > widest:
                widest = rise
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
def ascend_block(
    planes: PlaneArrays,
    losses: np.ndarray,
    gram: np.ndarray,
    alpha: np.ndarray,
    m: int,
    w: np.ndarray,
    cap: float,
    tol: float,
    max_steps: int,
    active_only: bool,
) -> float:
    """Solve one block exactly with the others fixed; updates alpha and w. Returns the block's gap before the step.

    `active_only` leaves planes without weight alone, which saves reading them.
    """
    values, index, sizes = planes
    if active_only and np.count_nonzero(alpha[:m]) == 1:
        return 0.0
    grad = np.empty(m)
    before = alpha[:m].copy()
    top = -np.inf
    mean = 0.0
    active = 0
    for k in range(m):
        if alpha[k] == 0.0 and active_only:
            grad[k] = -np.inf
            continue
        active += 1
        s = losses[k] - plane_dot(values[k], index[k], sizes[k], w)
        grad[k] = s
        top = max(top, s)
        mean += alpha[k] * s
    gap = cap * top - mean
    if gap <= tol * cap or active == 1:
        return gap
    simplex_ascent(gram, grad, alpha, m, 0.1 * tol, max_steps)
    for k in range(m):
        move = alpha[k] - before[k]
        if move != 0.0:
            add_times(values[k], index[k], sizes[k], move, w)
    return gap


@njit(cache=True, nogil=True)
def ascend_all(
    planes: PlaneArrays,
    losses: np.ndarray,
    gram: np.ndarray,
    alpha: np.ndarray,
    count: np.ndarray,
    w: np.ndarray,
    cap: float,
    max_sweeps: int,
    target: float,
) -> tuple[float, int]:
    """Sweeps and face steps over the stored planes until their total gap is below `target`. Returns gap and sweeps."""
    values, index, sizes = planes
    n = values.shape[0]
    gap = np.inf
    tol = 0.1 * target / (cap * n)
    for sweep in range(max_sweeps):
        gap = 0.0
        for i in range(n):
            own = (values[i], index[i], sizes[i])
            gap += ascend_block(own, losses[i], gram[i], alpha[i], count[i], w, cap, tol, _STEPS, False)
        if gap <= target:
            return gap, sweep + 1
        for _ in range(_SWEEPS):
            for i in range(n):
                own = (values[i], index[i], sizes[i])
                ascend_block(own, losses[i], gram[i], alpha[i], count[i], w, cap, tol, _STEPS, True)
        face_step(planes, losses, alpha, count, w, cap, _CG)
    return gap, max_sweeps


@njit(cache=True, nogil=True)
def drop_idle(
    planes: PlaneArrays,
    losses: np.ndarray,
    gram: np.ndarray,
    alpha: np.ndarray,
    idle: np.ndarray,
    count: np.ndarray,
    patience: int,
) -> None:
    """Forget planes that had no weight for `patience` rounds: sweeps read less memory."""
    values, index, sizes = planes
    for i in range(values.shape[0]):
        q = 1
        for k in range(1, count[i]):
            idle[i, k] = 0 if alpha[i, k] > 0.0 else idle[i, k] + 1
            if idle[i, k] > patience:
                continue
            if q < k:
                size = sizes[i, k]
                values[i, q, :size] = values[i, k, :size]
                index[i, q, :size] = index[i, k, :size]
                sizes[i, q] = size
                losses[i, q] = losses[i, k]
                alpha[i, q] = alpha[i, k]
                idle[i, q] = idle[i, k]
                for j in range(count[i]):
                    gram[i, q, j] = gram[i, k, j]
                for j in range(count[i]):
                    gram[i, j, q] = gram[i, j, k]
            q += 1
        for k in range(q, count[i]):
            alpha[i, k] = 0.0
        count[i] = q


@njit(cache=True, nogil=True)
def add_plane(
    planes: PlaneArrays,
    losses: np.ndarray,
    gram: np.ndarray,
    alpha: np.ndarray,
    idle: np.ndarray,
    count: np.ndarray,
    i: int,
    psi: np.ndarray,
    loss: float,
    w: np.ndarray,
    cap: float,
) -> tuple[float, bool]:
    """Store a plane of block i if it is violated. Returns the block's exact gap, and False if it found no free slot."""
    values, index, sizes = planes
    m = count[i]
    top = -np.inf
    mean = 0.0
    for k in range(m):
        s = losses[i, k] - plane_dot(values[i, k], index[i, k], sizes[i, k], w)
        top = max(top, s)
        mean += alpha[i, k] * s
    new = loss - np.dot(psi, w)
    gap = cap * max(new, top) - mean
    if new <= top + 1e-12 * (1.0 + abs(new)):
        return gap, True
    if m == values.shape[1]:
        return gap, False
    put_plane(planes, losses, gram, alpha, idle, count, i, m, psi, loss)
    return gap, True


@njit(cache=True, nogil=True)
def take_plane(
    planes: PlaneArrays,
    losses: np.ndarray,
    gram: np.ndarray,
    alpha: np.ndarray,
    idle: np.ndarray,
    count: np.ndarray,
    w: np.ndarray,
    cap: float,
    i: int,
    psi: np.ndarray,
    loss: float,
    ascend: bool,
) -> tuple[float, bool]:
    """Store a plane if it is violated and solve its block. Returns the block's gap before, and False if there was no room."""
    values, index, sizes = planes
    size = np.count_nonzero(psi)
    if (psi.shape[0] if 2 * size >= psi.shape[0] else size) > values.shape[2]:
        return np.inf, False
    gap, done = add_plane(planes, losses, gram, alpha, idle, count, i, psi, loss, w, cap)
    if done and ascend:
        own = (values[i], index[i], sizes[i])
        ascend_block(own, losses[i], gram[i], alpha[i], count[i], w, cap, EXACT, 1000, False)
    return gap, done


@njit(cache=True, nogil=True)
def take_planes(
    store: StoreArrays, order: np.ndarray, psi: np.ndarray, loss: np.ndarray, gaps: np.ndarray, ascend: bool
) -> int:
    """`take_plane` for every example of `order`, row by row of psi. Returns how many came before one that found no room."""
    planes, losses, gram, alpha, idle, count, w, cap = store
    for q in range(order.shape[0]):
        i = order[q]
        gap, done = take_plane(planes, losses, gram, alpha, idle, count, w, cap, i, psi[q], loss[q], ascend)
        if not done:
            return q
        gaps[i] = gap
    return order.shape[0]


@njit(cache=True, nogil=True)
def put_plane(
    planes: PlaneArrays,
    losses: np.ndarray,
    gram: np.ndarray,
    alpha: np.ndarray,
    idle: np.ndarray,
    count: np.ndarray,
    i: int,
    k: int,
    psi: np.ndarray,
    loss: float,
) -> None:
    """Store a plane in slot k of block i, without weight."""
    values, index, sizes = planes
    sizes[i, k] = compress(psi, values[i, k], index[i, k])
    losses[i, k], alpha[i, k], idle[i, k] = loss, 0.0, 0
    count[i] = max(count[i], k + 1)
    for q in range(count[i]):
        gram[i, k, q] = gram[i, q, k] = plane_dot(values[i, q], index[i, q], sizes[i, q], psi)


@njit(cache=True, nogil=True)
def weighted_sum(planes: PlaneArrays, alpha: np.ndarray, count: np.ndarray, d: int) -> np.ndarray:
    """The sum of all planes with their weights."""
    values, index, sizes = planes
    out = np.zeros(d)
    for i in range(values.shape[0]):
        for k in range(count[i]):
            if alpha[i, k] > 0.0:
                add_times(values[i, k], index[i, k], sizes[i, k], alpha[i, k], out)
    return out


class PlaneStore:
    """Planes, their Gram blocks and dual weights; ``w`` is always the weighted sum of all planes."""

    def __init__(self, n: int, d: int, cap: float):
        self.n, self.d, self.cap = n, d, cap
        self.slots = int(np.clip(_BUDGET // max(n * d, 1), 3, 40))
        width = min(d, _FIRST_WIDTH)
        self.values = np.zeros((n, self.slots, width))
        self.index = np.zeros((n, self.slots, width), dtype=np.int32)
        self.sizes = np.zeros((n, self.slots), dtype=np.int64)
        self.losses = np.zeros((n, self.slots))
        self.gram = np.zeros((n, self.slots, self.slots))
        self.alpha = np.zeros((n, self.slots))
        self.alpha[:, 0] = cap
        self.idle = np.zeros((n, self.slots), dtype=np.int64)
        self.count = np.ones(n, dtype=np.int64)
        self.w = np.zeros(d)

    @property
    def _planes(self) -> PlaneArrays:
        return self.values, self.index, self.sizes

    def _make_room(self, psi: np.ndarray) -> None:
        """Widen all slots if a plane has more entries than they hold."""
        size = int(np.count_nonzero(psi))
        needed = self.d if 2 * size >= self.d else size
        width = self.values.shape[2]
        if needed > width:
            more = ((0, 0), (0, 0), (0, min(self.d, max(needed, 2 * width)) - width))
            self.values, self.index = np.pad(self.values, more), np.pad(self.index, more)

    def _put(self, i: int, k: int, psi: np.ndarray, loss: float) -> None:
        self._make_room(psi)
        put_plane(
            self._planes, self.losses, self.gram, self.alpha, self.idle, self.count, i, k, np.asarray(psi), float(loss)
        )

    def dense(self, i: int, k: int) -> np.ndarray:
        """Plane k of block i."""
        out = np.zeros(self.d)
        add_times(self.values[i, k], self.index[i, k], self.sizes[i, k], 1.0, out)
        return out

    def start_from(self, blocks: np.ndarray, linear: np.ndarray) -> None:
        """Begin with one plane for each block: the mean plane of another solver, with all of the weight."""
        for i in range(self.n):
            self._put(i, 1, blocks[i] / self.cap, linear[i] / self.cap)
        self.alpha[:, 0], self.alpha[:, 1] = 0.0, self.cap
        self.w = blocks.sum(axis=0)

    @property
    def dual(self) -> float:
        """Dual objective."""
        return float((self.alpha * self.losses).sum() - 0.5 * self.w @ self.w)

    def add(self, i: int, psi: np.ndarray, loss: float) -> float:
        """Store a plane of block i and return the block's exact gap; a plane that is not violated is not stored."""
        self._make_room(psi)
        psi, loss = np.ascontiguousarray(psi), float(loss)
        state = (self.losses, self.gram, self.alpha, self.idle, self.count)
        gap, done = add_plane(self._planes, *state, i, psi, loss, self.w, self.cap)
        if not done:
            self._put(i, self._free(i), psi, loss)
        return float(gap)

    def _free(self, i: int) -> int:
        idle = np.flatnonzero(self.alpha[i, 1:] == 0.0) + 1
        if len(idle):
            return min(idle.tolist(), key=lambda k: self.losses[i, k] - self.dense(i, k) @ self.w)
        # All planes carry weight: the two lightest become their weighted mean, which leaves w and the dual unchanged.
        a, b = 1 + np.argsort(self.alpha[i, 1:])[:2]
        weight = self.alpha[i, a] + self.alpha[i, b]
        share = self.alpha[i, a] / weight
        plane = share * self.dense(i, a) + (1.0 - share) * self.dense(i, b)
        self._put(i, b, plane, share * self.losses[i, a] + (1.0 - share) * self.losses[i, b])
        self.alpha[i, a], self.alpha[i, b] = 0.0, weight
        return int(a)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What :func:`take_plane` takes, for compiled loops that find the planes themselves."""
        return (self._planes, self.losses, self.gram, self.alpha, self.idle, self.count, self.w, self.cap)

    def take(self, order: np.ndarray, psi: np.ndarray, loss: np.ndarray, gaps: np.ndarray, *, ascend: bool) -> None:
        """Store one plane for each example of `order`, a row of psi, and write the blocks' gaps; `ascend` solves every block."""
        psi, done = np.ascontiguousarray(psi, dtype=float), 0
        while done < len(order):
            done += take_planes(self.arrays, order[done:], psi[done:], loss[done:], gaps, ascend)
            if done < len(order):
                self.take_with_room(order[done], psi[done], loss[done], gaps, ascend=ascend)
                done += 1

    def take_with_room(self, i: int, psi: np.ndarray, loss: float, gaps: np.ndarray, *, ascend: bool) -> None:
        """Store a plane for which there may be no room yet."""
        gaps[i] = self.add(i, psi, loss)
        if ascend:
            self.ascend(i, EXACT)

    def ascend(self, i: int, tol: float) -> None:
        """Solve block i over its stored planes."""
        ascend_block(
            (self.values[i], self.index[i], self.sizes[i]),
            self.losses[i],
            self.gram[i],
            self.alpha[i],
            self.count[i],
            self.w,
            self.cap,
            tol,
            1000,
            False,
        )

    def ascend_all(self, *, max_sweeps: int, target: float) -> float:
        """Re-optimize over stored planes only; returns the remaining gap of the restricted problem."""
        arrays = self._planes, self.losses, self.gram, self.alpha, self.count, self.w, self.cap
        # A sweep reads the planes about ten times.
        together = max(1, SLICE // (10 * int(self.sizes.sum() + self.n)))
        gap, done = np.inf, 0
        while gap > target and done < max_sweeps and not out_of_time():
            gap, sweeps = ascend_all(*arrays, min(together, max_sweeps - done), target)
            done += sweeps
        return gap

    def tidy(self) -> None:
        """Drop idle planes and recompute w from the others, which removes the rounding of thousands of updates."""
        drop_idle(self._planes, self.losses, self.gram, self.alpha, self.idle, self.count, _PATIENCE)
        self.w = weighted_sum(self._planes, self.alpha, self.count, self.d)
