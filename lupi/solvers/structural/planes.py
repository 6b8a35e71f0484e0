"""A store of cutting planes, a few for each example, with exact ascent on one example's dual block at a time.

Slot 0 of every block is the zero plane of the true output: with it the block's constraint is an equality.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from lupi.solvers.deadline import SLICE, out_of_time
from lupi.solvers.structural.face_step import face_step

# Memory that the stored planes may take, in doubles (400 MB).
_BUDGET = 50_000_000
# Rounds without weight after which a plane is forgotten.
_PATIENCE = 4


@njit(cache=True, nogil=True)
def simplex_ascent(gram, grad, alpha, m, tol, max_steps):
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


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def ascend_block(planes, losses, gram, alpha, m, w, cap, tol, max_steps, active_only):
    """Solve one block exactly with the others fixed; updates alpha and w. Returns the block's gap before the step.

    `active_only` leaves planes without weight alone, which saves reading them.
    """
    d = w.shape[0]
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
        s = 0.0
        for j in range(d):
            s += planes[k, j] * w[j]
        s = losses[k] - s
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
            for j in range(d):
                w[j] += move * planes[k, j]
    return gap


@njit(cache=True, nogil=True)
def ascend_all(planes, losses, gram, alpha, count, w, cap, max_sweeps, target):
    """Sweeps and face steps over the stored planes until their total gap is below `target`. Returns gap and sweeps."""
    n = planes.shape[0]
    gap = np.inf
    tol = 0.1 * target / (cap * n)
    for sweep in range(max_sweeps):
        gap = 0.0
        for i in range(n):
            gap += ascend_block(planes[i], losses[i], gram[i], alpha[i], count[i], w, cap, tol, 1000, False)
        if gap <= target:
            return gap, sweep + 1
        for _ in range(4):
            for i in range(n):
                ascend_block(planes[i], losses[i], gram[i], alpha[i], count[i], w, cap, tol, 1000, True)
        face_step(planes, losses, alpha, count, w, cap, 5)
    return gap, max_sweeps


@njit(cache=True, nogil=True)
def drop_idle(planes, losses, gram, alpha, idle, count, patience):
    """Forget planes that had no weight for `patience` rounds: sweeps read less memory."""
    for i in range(planes.shape[0]):
        q = 1
        for k in range(1, count[i]):
            idle[i, k] = 0 if alpha[i, k] > 0.0 else idle[i, k] + 1
            if idle[i, k] > patience:
                continue
            if q < k:
                planes[i, q] = planes[i, k]
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


class PlaneStore:
    """Planes, their Gram blocks and dual weights; ``w`` is always the weighted sum of all planes."""

    def __init__(self, n: int, d: int, cap: float):
        self.n, self.d, self.cap = n, d, cap
        self.slots = int(np.clip(_BUDGET // max(n * d, 1), 3, 40))
        self.planes = np.zeros((n, self.slots, d))
        self.losses = np.zeros((n, self.slots))
        self.gram = np.zeros((n, self.slots, self.slots))
        self.alpha = np.zeros((n, self.slots))
        self.alpha[:, 0] = cap
        self.idle = np.zeros((n, self.slots), dtype=np.int64)
        self.count = np.ones(n, dtype=np.int64)
        self.w = np.zeros(d)

    def start_from(self, blocks: np.ndarray, linear: np.ndarray) -> None:
        """Begin with one plane for each block: the mean plane of another solver, with all of the weight."""
        self.planes[:, 1], self.losses[:, 1] = blocks / self.cap, linear / self.cap
        self.alpha[:, 0], self.alpha[:, 1] = 0.0, self.cap
        self.gram[:, 1, 1] = np.einsum("id,id->i", self.planes[:, 1], self.planes[:, 1])
        self.count[:] = 2
        self.w = blocks.sum(axis=0)

    @property
    def dual(self) -> float:
        """Dual objective."""
        return float((self.alpha * self.losses).sum() - 0.5 * self.w @ self.w)

    def add(self, i: int, psi: np.ndarray, loss: float) -> float:
        """Store a plane of block i and return the block's exact gap; a plane that is not violated is not stored."""
        m = self.count[i]
        grad = self.losses[i, :m] - self.planes[i, :m] @ self.w
        new = loss - psi @ self.w
        gap = float(self.cap * max(new, grad.max()) - self.alpha[i, :m] @ grad)
        if new <= grad.max() + 1e-12 * (1.0 + abs(new)):
            return gap
        k = m if m < self.slots else self._free(i, grad)
        self.planes[i, k], self.losses[i, k], self.alpha[i, k], self.idle[i, k] = psi, loss, 0.0, 0
        self.count[i] = max(m, k + 1)
        m = self.count[i]
        self.gram[i, k, :m] = self.gram[i, :m, k] = self.planes[i, :m] @ psi
        return gap

    def _free(self, i: int, grad: np.ndarray) -> int:
        idle = np.flatnonzero(self.alpha[i, 1:] == 0.0) + 1
        if len(idle):
            return int(idle[np.argmin(grad[idle])])
        # All planes carry weight: the two lightest become their weighted mean, which leaves w and the dual unchanged.
        a, b = 1 + np.argsort(self.alpha[i, 1:])[:2]
        share = self.alpha[i, a] / (self.alpha[i, a] + self.alpha[i, b])
        self.planes[i, b] = share * self.planes[i, a] + (1.0 - share) * self.planes[i, b]
        self.losses[i, b] = share * self.losses[i, a] + (1.0 - share) * self.losses[i, b]
        self.alpha[i, b] += self.alpha[i, a]
        self.alpha[i, a] = 0.0
        self.gram[i, b] = self.gram[i, :, b] = self.planes[i] @ self.planes[i, b]
        return int(a)

    def ascend(self, i: int, tol: float) -> None:
        """Solve block i over its stored planes."""
        ascend_block(
            self.planes[i],
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
        arrays = self.planes, self.losses, self.gram, self.alpha, self.count, self.w, self.cap
        # A sweep reads the planes about ten times.
        together = max(1, SLICE // (10 * int(self.count.sum()) * self.d))
        gap, done = np.inf, 0
        while gap > target and done < max_sweeps and not out_of_time():
            gap, sweeps = ascend_all(*arrays, min(together, max_sweeps - done), target)
            done += sweeps
        return gap

    def tidy(self) -> None:
        """Drop idle planes and recompute w from the others, which removes the rounding of thousands of updates."""
        drop_idle(self.planes, self.losses, self.gram, self.alpha, self.idle, self.count, _PATIENCE)
        active = self.alpha > 0.0
        self.w = self.alpha[active] @ self.planes[active]
