"""Cutting planes of a structural SVM, a few for each block, and ascent on their dual.

The zero plane of the true output belongs to every block and is not stored: with it the block's constraint is an equality. Two
outputs differ in few features, so planes are the rows of a sparse matrix.

Steps on one block after the other find the active planes quickly but then slow down, since all blocks share one w. On the face of
active planes the dual is an unconstrained quadratic apart from the blocks' sums. A few conjugate-gradient steps there, projected
back onto the simplices, replace hundreds of sweeps (the idea of Moré and Toraldo's GPCG).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from scipy import sparse

from lupi.solution import out_of_time

# Stored numbers of all planes (400 MB, and half of that for their positions).
_BUDGET = 50_000_000
# Rounds without weight after which a plane is dropped.
_PATIENCE = 4
# Sweeps over the planes with weight between two over all planes, and conjugate-gradient steps after them.
_SWEEPS = 8
_CG = 12
# Share of the mass of a block below which the rest of its mass is rounding.
_ROUNDING = 1e-12
# Share of nonzeros above which products with a dense matrix are faster.
_DENSE = 0.3


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _sweep(values, positions, ends, losses, blocks, order, alpha, w, cap, difference, active_only):  # type: ignore[no-untyped-def]
    """One pair step per block: mass moves from the active plane with the smallest gradient to the one with the largest.

    `order` sorts the planes by block, `difference` is a buffer of zeros, and plane -1 is the zero plane. `active_only` skips
    planes without weight. Updates alpha and w; returns the sum of the blocks' gaps, each before its step.
    """
    total, k = 0.0, 0
    while k < len(order):
        block, high, low = blocks[order[k]], -1, -1
        rest, mean, top, least = cap, 0.0, 0.0, 0.0
        while k < len(order) and blocks[order[k]] == block:
            p = order[k]
            k += 1
            if active_only and alpha[p] == 0.0:
                continue
            grad = losses[p]
            for j in range(ends[p], ends[p + 1]):
                grad -= values[j] * w[positions[j]]
            rest -= alpha[p]
            mean += alpha[p] * grad
            if grad > top:
                high, top = p, grad
            if alpha[p] > 0.0 and (low < 0 or grad < least):
                low, least = p, grad
        if low < 0 or (rest > _ROUNDING * cap and least >= 0.0):
            low, least = -1, 0.0
        total += cap * top - mean
        if high == low or top <= least:
            continue
        most = rest if low < 0 else alpha[low]
        # Three passes over both planes: their difference, its squared norm, and the step.
        curvature = move = 0.0
        for stage in range(3):
            for side in range(2):
                p, sign = (high, 1.0) if side == 0 else (low, -1.0)
                if p < 0:
                    continue
                for j in range(ends[p], ends[p + 1]):
                    if stage == 0:
                        difference[positions[j]] += sign * values[j]
                    elif stage == 1:
                        curvature += sign * values[j] * difference[positions[j]]
                    else:
                        w[positions[j]] += sign * move * values[j]
                        difference[positions[j]] = 0.0
            if stage == 1:
                move = (top - least) / curvature if top - least < most * curvature else most
        if high >= 0:
            alpha[high] += move
        if low >= 0:
            alpha[low] = alpha[low] - move if move < most else 0.0
    return total


def project(values: np.ndarray, cap: float) -> np.ndarray:
    """Euclidean projection of each row onto its simplex of mass `cap`; entries of -inf become 0."""
    # With the largest value at 0, nothing is lost to rounding however large the values are.
    values = values - values.max(axis=1, keepdims=True)
    descending = -np.sort(-values, axis=1)
    excess = np.cumsum(descending, axis=1) - cap
    count = (descending * np.arange(1, values.shape[1] + 1) > excess).sum(axis=1, keepdims=True)
    out = np.maximum(values - np.take_along_axis(excess, count - 1, axis=1) / count, 0.0)
    return np.asarray(out * (cap / out.sum(axis=1, keepdims=True)))


class PlaneStore:
    """Planes with their blocks, losses and dual weights; ``w`` is always the weighted sum of all planes."""

    def __init__(self, n: int, d: int, cap: float) -> None:
        self.n, self.cap, self.w = n, float(cap), np.zeros(d)
        self.psi = sparse.csr_array((0, d))
        self.blocks: np.ndarray = np.zeros(0, dtype=int)
        self.idle: np.ndarray = np.zeros(0, dtype=int)
        self.losses, self.alpha = np.zeros((2, 0))

    @property
    def dual(self) -> float:
        """Dual objective."""
        return float(self.alpha @ self.losses - 0.5 * self.w @ self.w)

    def add(self, blocks: np.ndarray, psi: np.ndarray, losses: np.ndarray) -> None:
        """Store a plane without weight for each of some blocks, a row of psi."""
        if self.psi.nnz + np.count_nonzero(psi) > _BUDGET:
            self._merge()
        self.psi = sparse.vstack([self.psi, sparse.csr_array(psi)], format="csr")
        self.blocks, self.losses = np.append(self.blocks, blocks), np.append(self.losses, losses)
        self.alpha = np.append(self.alpha, np.zeros(len(blocks)))
        self.idle = np.append(self.idle, np.zeros(len(blocks), dtype=int))

    def ascend(self, *, max_sweeps: int, target: float) -> float:
        """Sweeps and face steps over the stored planes until their total gap is below `target`; returns the gap."""
        gap, psi, buffer = np.inf, self.psi, np.zeros(len(self.w))
        order = np.argsort(self.blocks, kind="stable")
        planes = psi.data, psi.indices, psi.indptr, self.losses, self.blocks, order
        steepest = float((psi * psi).sum(axis=1).max(initial=0.0))
        for _ in range(max_sweeps):
            if out_of_time():
                break
            gap = _sweep(*planes, self.alpha, self.w, self.cap, buffer, False)
            if gap <= target:
                break
            for _ in range(_SWEEPS):
                _sweep(*planes, self.alpha, self.w, self.cap, buffer, True)
            self._face_step(steepest)
        return gap

    def _face_step(self, steepest: float) -> None:
        """Conjugate gradients on the planes with weight, then a projected step if it increases the dual.

        `steepest` is the largest squared norm of a plane.
        """
        mass = np.bincount(self.blocks, self.alpha, minlength=self.n)
        active = self.alpha > 0.0
        zero_active = mass < (1.0 - _ROUNDING) * self.cap
        count = np.bincount(self.blocks[active], minlength=self.n) + zero_active
        used = np.flatnonzero(active & (count[self.blocks] > 1))
        if not len(used):
            return
        # A row for each block with at least two active planes, the zero plane in column 0.
        names, rows = np.unique(self.blocks[used], return_inverse=True)
        count, psi, losses = count[names, None], self.psi[used], self.losses[used]
        order = np.argsort(rows, kind="stable")
        columns = np.empty(len(used), dtype=int)
        columns[order] = 1 + np.arange(len(used)) - np.searchsorted(rows[order], rows[order])
        at, shape = (rows, columns), (len(names), columns.max() + 1)
        free = np.zeros(shape, dtype=bool)
        free[at], free[:, 0] = True, zero_active[names]
        if psi.nnz > _DENSE * psi.shape[0] * psi.shape[1]:
            psi = psi.toarray()
        transposed = psi.T

        def centered(values: np.ndarray) -> np.ndarray:
            """Directions that keep the sums of the blocks."""
            table = np.zeros(shape)
            table[at] = values
            return np.where(free, table - table.sum(axis=1, keepdims=True) / count, 0.0)

        alpha, move = np.zeros(shape), np.zeros(shape)
        alpha[at], alpha[:, 0] = self.alpha[used], zero_active[names] * (self.cap - mass[names])
        residual = centered(losses - psi @ self.w)
        direction, norm = residual, np.vdot(residual, residual)
        target = 1e-4 * norm
        for _ in range(_CG):
            change = transposed @ direction[at]
            curvature = change @ change
            # A direction of no curvature, up to rounding: the quadratic is unbounded there.
            if norm <= target or curvature <= 1e-12 * steepest * np.vdot(direction, direction):
                break
            move = move + norm / curvature * direction
            residual = residual - norm / curvature * centered(psi @ change)
            before, norm = norm, np.vdot(residual, residual)
            direction = residual + norm / before * direction
        for scale in 0.4 ** np.arange(5):
            trial = project(np.where(free, alpha + scale * move, -np.inf), self.cap)[at]
            shift = trial - self.alpha[used]
            change = transposed @ shift
            if shift @ losses - change @ self.w - 0.5 * change @ change > 0.0:
                self.alpha[used] = trial
                self.w += change
                return

    def tidy(self) -> None:
        """Drop idle planes and recompute w from the others, which removes the rounding of thousands of updates."""
        self.idle = np.where(self.alpha > 0.0, 0, self.idle + 1)
        if self.idle.max(initial=0) > _PATIENCE:
            keep = self.idle <= _PATIENCE
            self.psi = self.psi[keep]
            kept = [column[keep] for column in (self.blocks, self.losses, self.alpha, self.idle)]
            self.blocks, self.losses, self.alpha, self.idle = kept
        self.w[:] = self.psi.T @ self.alpha

    def _merge(self) -> None:
        """Replace the planes of each block by their mean, weighted by alpha, which leaves w and the dual unchanged."""
        used = np.flatnonzero(self.alpha > 0.0)
        self.blocks, rows = np.unique(self.blocks[used], return_inverse=True)
        mass: np.ndarray = np.bincount(rows, self.alpha[used])
        shares = sparse.csr_array((self.alpha[used] / mass[rows], (rows, used)), (len(mass), len(self.alpha)))
        self.psi, self.losses, self.alpha = shares @ self.psi, shares @ self.losses, mass
        self.idle = np.zeros_like(self.blocks)
