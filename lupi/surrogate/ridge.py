"""Weighted ridge regression: every penalty, target and left-out prediction from one eigendecomposition."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from scipy import sparse

from lupi.inputs.training_set import ArrayRows, affine, chunkwise
from lupi.inputs.types import Array

# Candidate penalties, relative to the number of rows (of columns, if there are more).
GRID = np.array([0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0])
# Eigenvalues below this fraction of the largest one are rounding errors.
RANK_TOLERANCE = 1e-12
# A spread below this fraction of the largest value is a rounding error.
SMALLEST_SPREAD = 1e-12
BLOCK = 4096
EPS, TINY = np.finfo(float).eps, np.finfo(float).tiny


class RidgePath:
    r"""Ridge regressions on one table for any penalty and any target.

    .. math::

        \min_{\beta, b} \sum_i w_i (t_i - b - a_i^\top \beta)^2 + \alpha \|\beta\|^2

    The columns are centered implicitly, so a sparse table stays sparse and the intercept is not penalized. One
    eigendecomposition of the smaller of :math:`A^\top W A` and :math:`W^{1/2} A A^\top W^{1/2}` gives ``rows`` :math:`q_i` and
    ``eigenvalues`` e with :math:`\sum_i w_i q_i q_i^\top = \mathrm{diag}(e)`. Everything else takes O(n r).

    Weight 2 equals two copies of a row. `scale` multiplies the columns; coefficients refer to the unscaled columns. ``total``
    is the sum of the weights, and ``size``, the unit of the penalties, the larger one of it and the number of columns.
    """

    # From the eigenbasis to coefficients: `_basis`, or A' `_dual` where that would be a matrix of p > n rows.
    _basis: Array
    _dual: Array | None = None
    rows: Any

    def __init__(self, A: Any, weight: Array | None = None, scale: Array | None = None):
        A = ArrayRows(A) if isinstance(A, np.ndarray) or sparse.issparse(A) else A
        n, p = A.shape
        scale = np.ones(p) if scale is None else scale
        self.weight = np.ones(n) if weight is None else weight
        self.total = float(self.weight.sum())
        self.size = max(self.total, p)
        self.mean = A.transposed_times(self.weight) / self.total
        if p > n:
            self._table, self._scale = A, scale
            table, square = A.load(), np.square(scale)
            products = (table @ sparse.diags_array(square) if sparse.issparse(table) else table * square) @ table.T
            self._dual = self._decompose_products(products.toarray() if sparse.issparse(products) else products)
            return
        gram = (A.gram(self.weight) - self.total * np.outer(self.mean, self.mean)) * scale * scale[:, None]
        values, vectors = np.linalg.eigh((gram + gram.T) / 2)
        kept = values > RANK_TOLERANCE * max(values[-1], TINY)
        self.eigenvalues, self._basis = values[kept], scale[:, None] * vectors[:, kept]
        self.rows = A.map(partial(affine, matrix=self._basis, shift=-self.mean @ self._basis), len(self.eigenvalues))

    @classmethod
    def of_kernel(cls, products: Array, weight: Array) -> Self:
        """Regressions in the space of a kernel matrix: coefficients refer to kernel values with the training rows."""
        path = cls.__new__(cls)
        path.weight = weight
        path.total = path.size = float(weight.sum())
        path.mean = products @ weight / path.total
        dual = path._decompose_products(products)
        path._basis = dual - np.outer(weight / path.total, dual.sum(axis=0))
        return path

    def _decompose_products(self, products: Array) -> Array:
        """Eigenbasis from the inner products of the rows; returns D such that A' D is the (uncentered) basis."""
        shift = products @ self.weight / self.total
        centered = products - shift - shift[:, None] + self.weight @ shift / self.total
        root = np.sqrt(self.weight)
        values, vectors = np.linalg.eigh(centered * root * root[:, None])
        kept = values > RANK_TOLERANCE * max(values[-1], TINY)
        self.eigenvalues = values[kept]
        rows = vectors[:, kept] * np.sqrt(self.eigenvalues) / root[:, None]
        self.rows = ArrayRows(rows)
        return np.asarray(self.weight[:, None] * rows / self.eigenvalues)

    def coefficients(self, coordinates: Array) -> Array:
        """Coefficients of the columns, of shape (p, k), from those in the eigenbasis."""
        if self._dual is None:
            return np.asarray(self._basis @ coordinates)
        dual = self._dual @ coordinates
        centered = self._table.transposed_times(dual) - np.outer(self.mean, dual.sum(axis=0))
        return np.asarray(np.square(self._scale)[:, None] * centered)

    def _basis_of(self, columns: Array) -> Array:
        """Rows of the basis that belong to some of the columns."""
        if self._dual is None:
            return np.asarray(self._basis[columns])
        part = np.asarray(self._table.load()[:, columns].T @ self._dual)
        centered = part - np.outer(self.mean[columns], self._dual.sum(axis=0))
        return np.asarray(np.square(self._scale[columns])[:, None] * centered)

    def project(self, targets: Array) -> tuple[Array, Array]:
        """Means of the targets and their coordinates in the eigenbasis."""
        mean = self.weight @ targets / self.total
        return mean, self.rows.transposed_times(self.weight[:, None] * (targets - mean))

    def fitted(self, targets: Array, alpha: Any) -> Array:
        """Fitted values of shape (n, k); several penalties, which take one pass over the rows, add a first axis."""
        alphas = np.atleast_1d(alpha)
        mean, coordinates = self.project(targets)
        shrunk = coordinates[:, None] / (self.eigenvalues[:, None] + alphas)[:, :, None]
        shape = len(targets), len(alphas), targets.shape[1]
        values = self.rows.times(shrunk.reshape(len(shrunk), shape[1] * shape[2])).reshape(shape).swapaxes(0, 1)
        return np.asarray(mean + (values if np.ndim(alpha) else values[0]))

    def solve(self, targets: Array, alpha: float) -> tuple[Array, Array]:
        """Coefficients of shape (p, k) and intercepts of shape (k,)."""
        mean, projected = self.project(targets)
        coef = self.coefficients(projected / (self.eigenvalues + alpha)[:, None])
        return coef, mean - self.mean @ coef

    def _leverage(self, alpha: Any) -> Array:
        """Diagonals of the unweighted hat matrices without intercept, of shape (n, n_alphas)."""
        return _squares_times(self.rows.operand, 1.0 / (self.eigenvalues[:, None] + alpha))

    def left_out(self, targets: Array, alpha: Any, groups: Array | None = None, refit_intercept: bool = True) -> Array:
        r"""Prediction of each row by the regression without that row, or without the row's group.

        A row of weight :math:`w > 1` stands for w rows, so one unit of its weight is left out:
        :math:`t_i - f_i^- = (t_i - f_i) / (1 - d_i (q_i^\top (E + \alpha)^{-1} q_i + 1/W))` with
        :math:`d_i = \min(w_i, 1)`. A group is left out with all its weight. With ``refit_intercept=False`` the means are
        those of all rows: the left-out values of a useless table are then not anticorrelated with the target. Several
        penalties add a first axis to the result.
        """
        alphas = np.atleast_1d(alpha)
        residual = targets - self.fitted(targets, alphas)
        shared = 1.0 / self.total if refit_intercept else 0.0
        if groups is None:
            keep = 1.0 - np.minimum(self.weight, 1.0)[:, None] * (self._leverage(alphas) + shared)
            predictions = targets - residual / np.maximum(keep, EPS).T[:, :, None]
        else:
            predictions = np.empty_like(residual)
            for members in groups_of_equal_size(groups):
                for j, one in enumerate(alphas):
                    left = self._group_residuals(members, residual[j], one, shared)
                    predictions[j][members] = targets[members] - left
        return np.asarray(predictions if np.ndim(alpha) else predictions[0])

    def _group_residuals(self, members: Array, residual: Array, alpha: float, shared: float) -> Array:
        """Residuals of left-out groups; `members` of shape (n_groups, size)."""
        rows, weight = self.rows.values[members], self.weight[members]
        penalized = self.eigenvalues + alpha
        if members.shape[1] <= len(penalized) + 1:
            block = (rows / penalized) @ rows.transpose(0, 2, 1) + shared
            return np.linalg.solve(np.eye(members.shape[1]) - block * weight[:, None, :], residual[members])
        # More rows in the group than columns: take the group out of the normal equations instead.
        ones = np.full((*members.shape, 1), 1.0 if shared else 0.0)
        rows = np.concatenate([rows, ones], axis=2)
        weighted = (rows * weight[:, :, None]).transpose(0, 2, 1)
        normal = np.diag(np.append(penalized, self.total)) - weighted @ rows
        return np.asarray(residual[members] + rows @ np.linalg.solve(normal, weighted @ residual[members]))

    def left_out_at(self, at: Array, targets: Array, alpha: float, groups: Array | None = None) -> Array:
        r"""Prediction at another point per row, by the regression without that row, or without the row's group.

        With left-out residuals :math:`r_j` and :math:`M = A^\top W A + \alpha I` (of centered columns), leaving out rows G
        changes the prediction at a point by
        :math:`- \sum_{j \in G} w_j (1/W + (at_i - \bar a)^\top M^{-1} (a_j - \bar a)) r_j`.
        """
        coef, intercept = self.solve(targets, alpha)
        values: Array = at @ coef + intercept
        residual = targets - self.left_out(targets, alpha, groups)
        inverse = 1.0 / (self.eigenvalues + alpha)
        points = ((at - self.mean) @ self.coefficients(np.eye(len(inverse)))) * inverse
        units = np.arange(len(targets)) if groups is None else groups
        weight = np.minimum(self.weight, 1.0) if groups is None else self.weight
        for members in groups_of_equal_size(units):
            cross = 1.0 / self.total + points[members] @ self.rows.values[members].transpose(0, 2, 1)
            values[members] -= cross @ (weight[members][:, :, None] * residual[members])
        return values

    def errors_without(self, targets: Array, alpha: float, columns: Array, groups: Array | None = None) -> Array:
        r"""Left-out squared error without each of several columns, at the same penalty.

        With :math:`M = A^\top W A + \alpha I`, removing column j changes the fitted values by
        :math:`- A M^{-1} e_j \, \beta_j / (M^{-1})_{jj}` and the leverages by
        :math:`- (a_i^\top M^{-1} e_j)^2 / (M^{-1})_{jj}`, so no regression is refitted.
        """
        inverse = 1.0 / (self.eigenvalues + alpha)
        basis = self._basis_of(columns)
        pivots = (1.0 - np.square(basis) @ (self.eigenvalues * inverse)) / alpha
        towards = (basis * inverse).T
        coefs = towards.T @ self.project(targets)[1]
        residual = targets - self.fitted(targets, alpha)
        if groups is None:
            leverage = self._leverage(alpha)[:, 0] + 1.0 / self.total
            without = towards, pivots, coefs
            return _errors_without(self.rows.operand, self.weight, residual.T, leverage, without) / self.total
        directions = self.rows.times(towards)
        errors = np.zeros(len(pivots))
        for members in groups_of_equal_size(groups):
            rows, weight = self.rows.values[members], self.weight[members]
            block = (rows * inverse) @ rows.transpose(0, 2, 1) + 1.0 / self.total
            for j, (pivot, direction, coef) in enumerate(zip(pivots, directions.T, coefs)):
                part = direction[members]
                changed = block - part[:, :, None] * part[:, None, :] / pivot
                system = np.eye(members.shape[1]) - changed * weight[:, None, :]
                left_out = np.linalg.solve(system, residual[members] + part[:, :, None] * (coef / pivot))
                errors[j] += (weight * np.square(left_out).sum(axis=2)).sum()
        return errors / self.total


@chunkwise("concatenate")
def _squares_times(rows: Any, matrix: Array) -> Array:
    """Squared entries of the rows times a matrix."""
    out = np.empty((len(rows), matrix.shape[1]))
    for start in range(0, len(out), BLOCK):
        out[start : start + BLOCK] = np.square(rows[start : start + BLOCK]) @ matrix
    return out


@chunkwise("sum", "weight", "residual", "leverage")
def _errors_without(rows: Any, weight: Array, residual: Array, leverage: Array, change: tuple[Array, ...]) -> Array:
    """Weighted sums of squared left-out errors without each of several columns; `residual` of shape (k, n)."""
    towards, pivots, coefs = change
    directions = rows @ towards
    free = leverage[:, None] - np.square(directions) / pivots
    keep = np.maximum(1.0 - np.minimum(weight, 1.0)[:, None] * free, EPS)
    left_out = ((r[:, None] + directions * (c / pivots)) / keep for r, c in zip(residual, coefs.T))
    return np.asarray(sum(weight @ np.square(part) for part in left_out))


def groups_of_equal_size(groups: Array) -> list[Array]:
    """Rows of each group, as arrays of shape (n_groups, size), one array per size."""
    order = np.argsort(groups, kind="stable")
    _, start, size = np.unique(groups[order], return_index=True, return_counts=True)
    return [order[start[size == s][:, None] + np.arange(s)] for s in np.unique(size)]


@dataclass(frozen=True)
class RidgeFit:
    """A ridge regression with the penalty of the best left-out predictions.

    Chosen by correlation, the left-out predictions keep the intercept of all rows: after strong shrinkage the changes of the
    mean, which are anticorrelated with the target, would outweigh the rest.
    """

    coef: Array  # (p, k)
    intercept: Array
    alpha: float
    left_out: Array  # (n, k)
    spread: float  # of the fitted values

    def predict(self, A: Any) -> Array:
        """Values of new rows, of shape (n, k)."""
        return np.asarray(A @ self.coef + self.intercept)


def fit_ridge(
    path: RidgePath, targets: Array, groups: Array | None = None, by: str = "error", grid: Array = GRID
) -> RidgeFit:
    """Ridge regression with the penalty of the least left-out squared error, or of the largest correlation with the target."""
    alphas = grid * path.size
    left_out = path.left_out(targets, alphas, groups, refit_intercept=by == "error")
    measures = [(squared_error if by == "error" else correlation)(part, targets, path.weight) for part in left_out]
    best = measures.index(min(measures) if by == "error" else max(measures))
    mean, coordinates = path.project(targets)
    shrunk = coordinates / (path.eigenvalues + alphas[best])[:, None]
    coef, variance = path.coefficients(shrunk), (path.eigenvalues @ np.square(shrunk)).mean() / path.total
    return RidgeFit(coef, mean - path.mean @ coef, float(alphas[best]), left_out[best], float(np.sqrt(variance)))


def squared_error(predictions: Array, targets: Array, weight: Array) -> float:
    """Weighted mean of the squared errors, summed over the targets."""
    return float(weight @ np.square(predictions - targets).sum(axis=1) / weight.sum())


def correlation(predictions: Array, targets: Array, weight: Array) -> float:
    """Weighted correlation, pooled over the columns after centering each."""
    p, t = (a - weight @ a / weight.sum() for a in (predictions, targets))
    scale = np.sqrt((weight @ np.square(p)).sum() * (weight @ np.square(t)).sum())
    return float((weight @ (p * t)).sum() / max(scale, TINY))


def spread(values: Array, weight: Array) -> float:
    """Weighted standard deviation: root of the mean variance over the columns."""
    centered = values - weight @ values / weight.sum()
    return float(np.sqrt((weight @ np.square(centered)).mean() / weight.sum()))


def unit_of(values: Array, weight: Array) -> float:
    """Spread by which values can be divided: above rounding errors, and 1 if all values are 0."""
    return max(spread(values, weight), SMALLEST_SPREAD * float(np.abs(values).max())) or 1.0
