"""Newton directions over the weights: a factorized Hessian where it is small, conjugate gradients where it is not."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from lupi.problems.kernel.linear import BLOCK, LinearPrimal

# More weights than this are never put into a matrix.
MOST_WEIGHTS = 1500


def linear_system(problem: LinearPrimal) -> FactorizedSystem:
    """The system for a problem's number of weights."""
    return FactorizedSystem(problem)


class FactorizedSystem:
    """The Hessian over the weights, factorized."""

    def __init__(self, problem: LinearPrimal):
        self.problem = problem
        self.sums: np.ndarray | None = None
        self.slopes: np.ndarray | None = None

    def factorize(self, slopes: np.ndarray) -> None:
        """Form and factorize the Hessian for the variables' derivatives, of shape (n_kinds, n)."""
        p = self.problem
        self._update(slopes)
        H = self.sums.copy()
        d = p.n_features
        H[np.arange(d), np.arange(d)] += 1.0
        if p.Z is not None:
            H[d + 1 :, d + 1 :] += p.privileged_metric
        self.factor = _cholesky(H)

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """Solve with the factorized Hessian."""
        return cho_solve(self.factor, rhs, check_finite=False)

    def _update(self, slopes: np.ndarray) -> None:
        """Sums over the examples; where few derivatives have changed, only those examples are visited."""
        inside = np.any(slopes > 0, axis=0)
        if self.sums is not None:
            changed = np.any(slopes != self.slopes, axis=0)
            if 4 * np.count_nonzero(changed) < np.count_nonzero(inside):
                self._add(slopes - self.slopes, np.flatnonzero(changed), signed=True)
                self.slopes = slopes.copy()
                return
        self.sums = np.zeros((self.problem.n_weights, self.problem.n_weights))
        self._add(slopes, None if inside.all() else np.flatnonzero(inside), signed=False)
        self.slopes = slopes.copy()

    def _add(self, weights: np.ndarray, index: np.ndarray | None, signed: bool) -> None:
        p, d = self.problem, self.problem.n_features
        size = p.n_examples if index is None else len(index)
        buffer = np.empty((min(BLOCK, size), p.n_weights))
        for i in range(0, size, BLOCK):
            rows = slice(i, i + BLOCK) if index is None else index[i : i + BLOCK]
            y, s = p.y[rows], p.s[rows]
            w = weights[0, rows]
            left = buffer[: len(y)]
            root = np.ones(len(y)) if signed else np.sqrt(w)
            _scaled(p.X[rows], y * root, left[:, : d + 1])
            if p.Z is not None:
                _scaled(p.Z[rows], s * root, left[:, d + 1 :])
            self.sums += left.T @ (left * w[:, None] if signed else left)
            if len(weights) == 2:
                w = weights[1, rows]
                part = left[:, d + 1 :]
                _scaled(p.Z[rows], s if signed else s * np.sqrt(w), part)
                self.sums[d + 1 :, d + 1 :] += part.T @ (part * w[:, None] if signed else part)


def _scaled(rows, factor: np.ndarray, out: np.ndarray) -> None:
    """[rows, 1], each row times its factor."""
    np.multiply(rows.toarray() if sparse.issparse(rows) else rows, factor[:, None], out=out[:, :-1])
    out[:, -1] = factor


def _cholesky(H: np.ndarray) -> tuple:
    """Factor of a positive semi-definite matrix; intercepts without a norm may lack curvature."""
    diagonal = np.diagonal(H).copy()
    ridge = 1e-14 * float(diagonal.max())
    for _ in range(8):
        H[np.diag_indices(len(H))] = diagonal + ridge
        try:
            return cho_factor(H, lower=True, check_finite=False)
        except LinAlgError:
            ridge *= 100.0
    raise LinAlgError("the Hessian over the weights is not positive definite")
