"""Cutting planes of a structural SVM, a few for each block, and ascent on their dual.

The zero plane of the true output belongs to every block and is not stored: with it the block's constraint is an equality. Two
outputs often differ in few features, so planes are the rows of a sparse matrix; those with many nonzeros keep all entries.

Steps on one block after the other find the active planes quickly but then slow down, since all blocks share one w. On the face of
active planes the dual is an unconstrained quadratic apart from the blocks' sums. A few conjugate-gradient steps there, projected
back onto the simplices, replace hundreds of sweeps (the idea of Moré and Toraldo's GPCG).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from scipy import sparse

from lupi.solution import out_of_time

# Stored numbers of all planes (400 MB, and half of that for their positions).
_BUDGET = 50_000_000
# Rounds without weight after which a plane is dropped.
_PATIENCE = 4
# Sweeps over the planes with weight between two over all planes, and conjugate-gradient steps after them.
_SWEEPS = 24
_CG = 10
# Share of the mass of a block below which the rest of its mass is rounding.
_ROUNDING = 1e-12
# Share of nonzeros above which products with all entries of a plane are faster.
_DENSE = 0.3


_FAST = {"reassoc", "contract", "nsz"}
_INNER: dict[str, Any] = {"cache": True, "fastmath": _FAST, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


@njit(**_INNER)
def _dot(planes, p, v):  # type: ignore[no-untyped-def]
    """Product of plane p with a vector."""
    values, positions, ends = planes
    values, positions = values[ends[p] : ends[p + 1]], positions[ends[p] : ends[p + 1]]
    total = 0.0
    if len(values) == len(v):
        for j in range(len(values)):
            total += values[j] * v[j]
    else:
        for j in range(len(values)):
            total += values[j] * v[positions[j]]
    return total


@njit(**_INNER)
def _add(planes, p, factor, v):  # type: ignore[no-untyped-def]
    """Add a multiple of plane p to a vector."""
    values, positions, ends = planes
    values, positions = values[ends[p] : ends[p + 1]], positions[ends[p] : ends[p + 1]]
    if len(values) == len(v):
        for j in range(len(values)):
            v[j] += factor * values[j]
    else:
        for j in range(len(values)):
            v[positions[j]] += factor * values[j]


@njit(cache=True, nogil=True, error_model="numpy")
def _sweep(planes, norms, losses, blocks, order, alpha, w, cap, zeros, active_only):  # type: ignore[no-untyped-def]
    """One pair step per block: mass moves from the active plane with the smallest gradient to the one with the largest.

    `order` sorts the planes by block, `zeros` is a buffer, and plane -1 is the zero plane. `active_only` skips planes without
    weight. Updates alpha and w; returns the sum of the blocks' gaps, each before its step.
    """
    none = np.int64(-1)  # a literal -1 would have `_dot` and `_add` compiled for its type as well
    total, first, end = 0.0, 0, 0
    while end < len(order):
        first, rest, active = end, cap, 0
        while end < len(order) and blocks[order[end]] == blocks[order[first]]:
            rest -= alpha[order[end]]
            active += alpha[order[end]] > 0.0
            end += 1
        zero_active = rest > _ROUNDING * cap
        if active_only and active + zero_active < 2:
            continue
        high = low = none
        mean = top = least = 0.0
        for k in range(first, end):
            p = order[k]
            if active_only and alpha[p] == 0.0:
                continue
            grad = losses[p] - _dot(planes, p, w)
            mean += alpha[p] * grad
            if grad > top:
                high, top = p, grad
            if alpha[p] > 0.0 and (low < 0 or grad < least):
                low, least = p, grad
        if low < 0 or (zero_active and least >= 0.0):
            low, least = none, 0.0
        total += cap * top - mean
        if high == low or top <= least:
            continue
        curvature = (norms[high] if high >= 0 else 0.0) + (norms[low] if low >= 0 else 0.0)
        if high >= 0 and low >= 0:
            _add(planes, high, 1.0, zeros)
            curvature -= 2.0 * _dot(planes, low, zeros)
            _add(planes, high, -1.0, zeros)
        most = rest if low < 0 else alpha[low]
        move = (top - least) / curvature if top - least < most * curvature else most
        if high >= 0:
            alpha[high] += move
            _add(planes, high, move, w)
        if low >= 0:
            alpha[low] = alpha[low] - move if move < most else 0.0
            _add(planes, low, -move, w)
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
        self._zeros = np.zeros(d)
        self.psi = sparse.csr_array((0, d))
        self.blocks: np.ndarray = np.zeros(0, dtype=int)
        self.idle: np.ndarray = np.zeros(0, dtype=int)
        self.losses, self.norms, self.alpha = np.zeros((3, 0))

    @property
    def dual(self) -> float:
        """Dual objective of the stored weights, which are made feasible first; ``w`` is not used."""
        alpha = np.maximum(self.alpha, 0.0)
        mass = np.bincount(self.blocks, alpha, minlength=self.n)
        alpha *= (self.cap / np.maximum(mass, self.cap))[self.blocks]
        w = self.psi.T @ alpha
        return float(alpha @ self.losses - 0.5 * w @ w)

    def add(self, blocks: np.ndarray, psi: np.ndarray, losses: np.ndarray) -> None:
        """Store a plane without weight for each of some blocks, a row of psi."""
        if self.psi.nnz + np.count_nonzero(psi) > _BUDGET:
            self._merge()
        stored = psi != 0.0
        stored[stored.mean(axis=1) > _DENSE] = True
        ends, columns = np.append(0, np.cumsum(stored.sum(axis=1))), stored.nonzero()[1]
        rows = sparse.csr_array((psi[stored], columns.astype(np.int32), ends.astype(np.int32)), psi.shape)
        self.psi = sparse.vstack([self.psi, rows], format="csr")
        self.blocks, self.losses = np.append(self.blocks, blocks), np.append(self.losses, losses)
        self.norms = np.append(self.norms, np.einsum("ij,ij->i", psi, psi))
        self.alpha = np.append(self.alpha, np.zeros(len(blocks)))
        self.idle = np.append(self.idle, np.zeros(len(blocks), dtype=int))

    def step(self, blocks: np.ndarray) -> None:
        """Pair steps on some blocks."""
        chosen = np.flatnonzero(np.isin(self.blocks, blocks))
        order = chosen[np.argsort(self.blocks[chosen], kind="stable")]
        for _ in range(2):
            self._sweep(order, False)

    def _sweep(self, order: np.ndarray, active_only: bool) -> float:
        """Sweep over planes that are sorted by block; returns their total gap before."""
        psi = self.psi
        planes = (psi.data, psi.indices, psi.indptr), self.norms, self.losses, self.blocks, order
        return float(_sweep(*planes, self.alpha, self.w, self.cap, self._zeros, active_only))

    def ascend(self, *, max_sweeps: int, target: float) -> float:
        """Sweeps and face steps over the stored planes until their total gap is below `target`; returns the gap."""
        gap, order = np.inf, np.argsort(self.blocks, kind="stable")
        for _ in range(max_sweeps):
            if out_of_time():
                break
            gap = self._sweep(order, False)
            if gap <= target:
                break
            for _ in range(_SWEEPS):
                self._sweep(order, True)
            self._face_step()
        return gap

    def _face_step(self) -> None:
        """Conjugate gradients on the planes with weight, then a projected step if it increases the dual."""
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
            if norm <= target or curvature <= 1e-12 * self.norms.max() * np.vdot(direction, direction):
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
            kept = [column[keep] for column in (self.blocks, self.losses, self.norms, self.alpha, self.idle)]
            self.blocks, self.losses, self.norms, self.alpha, self.idle = kept
        self.w[:] = self.psi.T @ self.alpha

    def _merge(self) -> None:
        """Replace the planes of each block by their mean, weighted by alpha, which leaves w and the dual unchanged."""
        used = np.flatnonzero(self.alpha > 0.0)
        self.blocks, rows = np.unique(self.blocks[used], return_inverse=True)
        mass: np.ndarray = np.bincount(rows, self.alpha[used])
        shares = sparse.csr_array((self.alpha[used] / mass[rows], (rows, used)), (len(mass), len(self.alpha)))
        self.psi, self.losses, self.alpha = (shares @ self.psi).sorted_indices(), shares @ self.losses, mass
        self.idle, self.norms = np.zeros_like(self.blocks), (self.psi * self.psi).sum(axis=1)
