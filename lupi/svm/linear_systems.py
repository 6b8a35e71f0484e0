"""Newton directions over the weights: a factorized Hessian where it is small, conjugate gradients where it is not."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from lupi.svm.feature_products import hessian_sums, second_moment, squares_times, stored_entries
from lupi.svm.linear import LinearPrimal

# Conjugate gradients where forming the Hessian costs more than this many products with the stored entries of the rows.
PRODUCTS = 2000
MOST_ITERATIONS = 500
# Sums are updated where fewer than one in this many of their terms have changed.
FEW_CHANGES = 4
# The direction is as exact as the gradient has fallen: early steps need not be.
FIRST_ACCURACY = 0.1


def many_weights(problem: LinearPrimal) -> bool:
    """Whether conjugate gradients are cheaper than a matrix over the weights."""
    entries = (stored_entries(problem.X) + stored_entries(problem.Z)) / problem.n_examples
    return problem.n_weights**2 > PRODUCTS * entries


class FactorizedSystem:
    """The Hessian over the weights, factorized; its sums over the examples are kept for small changes."""

    def __init__(self, problem: LinearPrimal):
        self.problem = problem
        self.sums = np.zeros((problem.n_weights, problem.n_weights))
        self.slopes = np.zeros_like(problem.lower)

    def factorize(self, slopes: np.ndarray) -> None:
        """Form and factorize the Hessian for these derivatives of the dual variables."""
        p = self.problem
        change, self.slopes = slopes - self.slopes, slopes
        few = FEW_CHANGES * np.count_nonzero(change.any(axis=0)) < np.count_nonzero(slopes.any(axis=0))
        self.sums = hessian_sums(p.X, p.Z, p.y, p.s, change if few else slopes) + (self.sums if few else 0.0)
        H, d = self.sums.copy(), p.n_features
        H[np.arange(d), np.arange(d)] += 1.0
        H[d + 1 :, d + 1 :] += p.privileged_metric
        self.factor = _cholesky(H)

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """Solve with the factorized Hessian."""
        return np.asarray(cho_solve(self.factor, rhs, check_finite=False))


def _cholesky(H: np.ndarray) -> tuple[Any, ...]:
    """Factor of a positive semi-definite matrix; intercepts without a norm may lack curvature."""
    diagonal = np.diagonal(H).copy()
    ridge = 1e-14 * float(diagonal.max())
    for _ in range(8):
        H[np.diag_indices(len(H))] = diagonal + ridge
        try:
            factor: tuple[Any, ...] = cho_factor(H, lower=True, check_finite=False)
            return factor
        except LinAlgError:
            ridge *= 100.0
    raise LinAlgError("the Hessian over the weights is not positive definite")


class IterativeSystem:
    """Preconditioned conjugate gradients: the Hessian is known by its products only."""

    def __init__(self, problem: LinearPrimal):
        self.problem = problem
        self.first_size: float | None = None

    def factorize(self, slopes: np.ndarray) -> None:
        """Prepare for the derivatives of the dual variables, of shape (1, n)."""
        p = self.problem
        index = np.flatnonzero(slopes[0] > 0)
        # Leaving rows out takes a copy, which pays unless it would hold most of them.
        fewer = len(index) < 0.7 * p.n_examples
        self.part = p.rows(index) if fewer else p
        self.weights = slopes[0][index] if fewer else slopes[0]
        columns = 1.0 + squares_times(self.part.X, self.weights)
        self.diagonal = np.append(columns, max(float(self.weights.sum()), 1e-300))
        if p.Z is not None:
            # The privileged features are few: their block of the Hessian is taken whole.
            self.block = _cholesky(p.privileged_metric + second_moment(self.part.Z, self.weights * self.part.s**2))

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """Solve to an accuracy that follows the size of the right-hand side."""
        z = self._precondition(rhs)
        rz = float(rhs @ z)
        size = np.sqrt(rz)
        self.first_size = self.first_size or size
        accuracy = min(FIRST_ACCURACY, size / self.first_size)
        u, r, direction = np.zeros_like(rhs), rhs, z
        for _ in range(MOST_ITERATIONS):
            if np.sqrt(rz) <= accuracy * size:
                break
            image = self.part.metric(direction) - self.part.adjoint(self.part.changes(direction) * self.weights)
            t = rz / float(direction @ image)
            u, r = u + t * direction, r - t * image
            z = self._precondition(r)
            rz, last = float(r @ z), rz
            direction = z + (rz / last) * direction
        return u

    def _precondition(self, r: np.ndarray) -> np.ndarray:
        decision, privileged = self.problem.split(r)
        if self.problem.Z is None:
            return np.asarray(decision / self.diagonal)
        return np.concatenate([decision / self.diagonal, cho_solve(self.block, privileged, check_finite=False)])
