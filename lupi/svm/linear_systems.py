"""Newton directions over the weights: a factorized Hessian where it is small, conjugate gradients where it is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from lupi.inputs import is_resident
from lupi.svm.feature_products import hessian_sums, second_moment, squares_times, stored_entries
from lupi.svm.linear import LinearPrimal

# Conjugate gradients where forming the Hessian costs more than this many products with the stored entries of the rows.
PRODUCTS = 2000
MOST_ITERATIONS = 500
# Sums are updated where fewer than one in so many of their terms have changed.
FEW_CHANGES = 4
# The direction is as exact as the gradient has fallen: early steps need not be.
FIRST_ACCURACY = 0.1


def wide(problem: LinearPrimal) -> bool:
    """Whether the weights are too many for a matrix over them to pay."""
    entries = (stored_entries(problem.X) + stored_entries(problem.Z)) / problem.n_examples
    return problem.n_weights**2 > PRODUCTS * entries


class System(Protocol):
    """What the solvers need of the Hessian."""

    def factorize(self, slopes: np.ndarray) -> None:
        """Prepare for the dual variables' derivatives, of shape (n_kinds, n)."""

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """Solve with the Hessian of the last call."""


def linear_system(problem: LinearPrimal) -> System:
    """The system for a problem's number of weights."""
    return IterativeSystem(problem) if wide(problem) else FactorizedSystem(problem)


class FactorizedSystem:
    """The Hessian over the weights, factorized.

    With ``updates`` the sums over the examples are kept, and only examples whose derivatives change are visited again.
    """

    def __init__(self, problem: LinearPrimal, *, updates: bool = True):
        self.problem = problem
        self.updates = updates
        self.sums = np.zeros((problem.n_weights, problem.n_weights))
        # All zero, as the sums: every derivative has changed when the first ones come.
        self.slopes = np.zeros((problem.n_kinds, problem.n_examples if updates else 0))

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
        return np.asarray(cho_solve(self.factor, rhs, check_finite=False))

    def _update(self, slopes: np.ndarray) -> None:
        """Sums over the examples; where few derivatives have changed, only those examples are visited."""
        inside = np.any(slopes > 0, axis=0)
        if self.updates:
            changed = np.any(slopes != self.slopes, axis=0)
            change, self.slopes = slopes - self.slopes, slopes
            if FEW_CHANGES * np.count_nonzero(changed) < np.count_nonzero(inside):
                self._add(change, np.flatnonzero(changed), signed=True)
                return
        self.sums[:] = 0.0
        self._add(slopes, None if inside.all() else np.flatnonzero(inside), signed=False)

    def _add(self, weights: np.ndarray, index: np.ndarray | None, signed: bool) -> None:
        """Add the rows of some examples, or of all."""
        p = self.problem
        if index is not None and len(index) == 0:
            return
        if index is None or is_resident(p.X):
            self.sums += hessian_sums(p.X, p.Z, p.y, p.s, weights, index, signed)
            return
        X, Z = p.X.take(index), None if p.Z is None else p.Z.take(index)
        self.sums += hessian_sums(X, Z, p.y[index], p.s[index], weights[:, index], None, signed)


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
        """Prepare for the variables' derivatives, of shape (1, n)."""
        p = self.problem
        index = np.flatnonzero(slopes[0] > 0)
        # Leaving rows out takes a copy, which pays unless it would hold most of them.
        fewer = len(index) < 0.7 * p.n_examples
        self.part = p.rows(index) if fewer else replace(p, outside=None, gained=0.0)
        self.weights = slopes[0][index] if fewer else slopes[0]
        columns = 1.0 + squares_times(self.part.X, self.weights)
        self.diagonal = np.append(columns, max(float(self.weights.sum()), 1e-300))
        if p.Z is not None:
            # The privileged features are few: their block of the Hessian is taken whole.
            self.block = _cholesky(p.privileged_metric + second_moment(self.part.Z, self.weights * self.part.s**2))

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """Solve to an accuracy that follows the size of the right-hand side."""
        size = np.sqrt(float(rhs @ self._precondition(rhs)))
        self.first_size = self.first_size or size
        accuracy = min(FIRST_ACCURACY, size / self.first_size)
        u = np.zeros_like(rhs)
        r = rhs.copy()
        z = self._precondition(r)
        direction = z.copy()
        rz = float(r @ z)
        for _ in range(MOST_ITERATIONS):
            if np.sqrt(rz) <= accuracy * size:
                break
            image = self._product(direction)
            t = rz / float(direction @ image)
            u += t * direction
            r -= t * image
            z = self._precondition(r)
            rz, last = float(r @ z), rz
            direction = z + (rz / last) * direction
        return u

    def _product(self, u: np.ndarray) -> np.ndarray:
        p = self.part
        f, g = p.fields(u)
        t = (p.y * f + p.s * g) * self.weights
        return np.asarray(p.metric(u) + p.adjoint(p.y * t, p.s * t))

    def _precondition(self, r: np.ndarray) -> np.ndarray:
        decision, privileged = self.problem.split(r)
        out: np.ndarray = decision / self.diagonal
        if self.problem.Z is None:
            return out
        return np.concatenate([out, cho_solve(self.block, privileged, check_finite=False)])
