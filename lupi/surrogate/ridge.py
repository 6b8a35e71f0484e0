"""Weighted ridge regression: every penalty, every target and every left-out prediction from one eigendecomposition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from lupi.inputs.chunked_rows import Affine, ChunkedRows, chunkwise, in_a_row, total

# Penalties that are tried, relative to the number of rows (of columns, where those are more).
GRID = np.array([0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0])
# Eigenvalues below this share of the largest one are rounding errors.
RANK_TOLERANCE = 1e-12
BLOCK = 4096
EPS, TINY = np.finfo(float).eps, np.finfo(float).tiny


class RidgePath:
    r"""Ridge regressions of one table that differ in penalty and target only.

    .. math::

        \min_{\beta, b} \sum_i w_i (t_i - b - a_i^\top \beta)^2 + \alpha \|\beta\|^2

    The columns are centered implicitly (with the weighted means), so that a sparse table stays sparse and the intercept is
    not penalized. One eigendecomposition of the smaller of :math:`A^\top W A` and :math:`W^{1/2} A A^\top W^{1/2}` gives
    rows :math:`q_i` with :math:`\sum_i w_i q_i q_i^\top = \mathrm{diag}(e)`, and all else follows in O(n r).

    Parameters
    ----------
    A : ndarray or sparse matrix of shape (n, p)
        The table.
    weight : ndarray of shape (n,), optional
        Positive weights; weight 2 is the row twice.
    scale : ndarray of shape (p,), optional
        Multiplies the columns (without a copy of the table where p <= n); coefficients belong to the unscaled columns.

    Attributes
    ----------
    eigenvalues : ndarray of shape (r,)
    rows : ndarray of shape (n, r)
        The rows in the eigenbasis.
    total : float
        Sum of the weights.

    Examples
    --------
    >>> import numpy as np
    >>> path = RidgePath(np.array([[0.0], [1.0], [2.0]]))
    >>> coef, intercept = path.solve(np.array([[0.0], [1.0], [2.0]]), alpha=0.0)
    >>> coef.round(12), intercept.round(12)
    (array([[1.]]), array([0.]))
    """

    def __init__(self, A: Any, weight: np.ndarray | None = None, scale: np.ndarray | None = None):
        n, p = A.shape
        self._table = A
        self._scale = scale = np.ones(p) if scale is None else scale
        self.weight = np.ones(n) if weight is None else weight
        self.total = float(self.weight.sum())
        self.size = max(self.total, p)
        self.mean = np.asarray(A.T @ self.weight).ravel() / self.total
        if p > n:
            self._decompose_rows(A, scale)
        else:
            self._decompose_columns(A, scale)

    def _decompose_columns(self, A: Any, scale: np.ndarray) -> None:
        gram = _weighted_gram(A, self.weight)
        gram = (gram - self.total * np.outer(self.mean, self.mean)) * scale * scale[:, None]
        values, vectors = np.linalg.eigh((gram + gram.T) / 2)
        kept = values > RANK_TOLERANCE * max(values[-1], TINY)
        self.eigenvalues, self._basis = values[kept], scale[:, None] * vectors[:, kept]
        self._turn: Any = None
        self.rows: Any
        if isinstance(A, ChunkedRows):
            self.rows = A.mapped(Affine(self._basis, -self.mean @ self._basis), len(self.eigenvalues))
            return
        self.rows = np.asarray(A @ self._basis)
        self.rows -= self.mean @ self._basis

    def _decompose_rows(self, A: Any, scale: np.ndarray) -> None:
        scaled = A @ sparse.diags_array(np.square(scale)) if sparse.issparse(A) else A * np.square(scale)
        products = scaled @ A.T
        self._turn = self._decompose_products(products.toarray() if sparse.issparse(products) else products)

    def _coefficients(self, coordinates: np.ndarray) -> np.ndarray:
        """Coefficients of the columns, from those in the eigenbasis (which has p rows: not formed where p > n)."""
        if self._turn is None:
            return np.asarray(self._basis @ coordinates)
        dual = self._turn @ coordinates
        return np.asarray(
            np.square(self._scale)[:, None] * (np.asarray(self._table.T @ dual) - np.outer(self.mean, dual.sum(axis=0)))
        )

    def from_eigenbasis(self, coordinates: np.ndarray) -> np.ndarray:
        """Coefficients of the columns, of shape (p, k), that are these in the eigenbasis."""
        return self._coefficients(coordinates)

    def _basis_rows(self, columns: Any) -> np.ndarray:
        if self._turn is None:
            return np.asarray(self._basis[columns])
        part = self._table[:, columns]
        return np.asarray(
            np.square(self._scale[columns])[:, None]
            * (np.asarray(part.T @ self._turn) - np.outer(self.mean[columns], self._turn.sum(axis=0)))
        )

    def _decompose_products(self, products: np.ndarray) -> np.ndarray:
        """Eigenbasis from the inner products of the rows; returns W^(1/2) U e^(-1/2): A' times it are basis vectors."""
        shift = products @ self.weight / self.total
        centered = products - shift - shift[:, None] + self.weight @ shift / self.total
        root = np.sqrt(self.weight)
        values, vectors = np.linalg.eigh(centered * root * root[:, None])
        kept = values > RANK_TOLERANCE * max(values[-1], TINY)
        self.eigenvalues = values[kept]
        self.rows = vectors[:, kept] * np.sqrt(self.eigenvalues) / root[:, None]
        return np.asarray(self.weight[:, None] * self.rows / self.eigenvalues)

    def alphas(self, grid: np.ndarray = GRID) -> np.ndarray:
        """Penalties for this table: the grid times the number of rows, or of columns where they are more."""
        return np.asarray(grid * self.size)

    def project(self, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means of the targets, and their coordinates in the eigenbasis."""
        mean = self.weight @ targets / self.total
        return mean, self.rows.T @ (self.weight[:, None] * (targets - mean))

    def fitted(
        self, targets: np.ndarray, alpha: float, projected: tuple[np.ndarray, np.ndarray] | None = None
    ) -> np.ndarray:
        """Values of the regressions on the rows, for targets of shape (n, k)."""
        mean, coordinates = self.project(targets) if projected is None else projected
        return np.asarray(mean + self.rows @ (coordinates / (self.eigenvalues + alpha)[:, None]))

    def solve(self, targets: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients of shape (p, k) and intercepts of shape (k,)."""
        mean, projected = self.project(targets)
        coef = self._coefficients(projected / (self.eigenvalues + alpha)[:, None])
        return coef, mean - self.mean @ coef

    def degrees_of_freedom(self, alpha: float) -> float:
        """Trace of the hat matrix, without the intercept."""
        return float(np.sum(self.eigenvalues / (self.eigenvalues + alpha)))

    def leverage(self, alpha: float) -> np.ndarray:
        """Diagonal of the unweighted hat matrix, without the intercept."""
        return _squares_times(self.rows, 1.0 / (self.eigenvalues + alpha))

    def left_out(
        self,
        targets: np.ndarray,
        alpha: float,
        groups: np.ndarray | None = None,
        refit_intercept: bool = True,
        projected: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> np.ndarray:
        r"""Prediction of each row by the regression without that row, or without the row's group.

        A row of weight :math:`w > 1` stands for w rows, so one unit of its weight is left out:
        :math:`t_i - f_i^- = (t_i - f_i) / (1 - d_i (q_i^\top (E + \alpha)^{-1} q_i + 1/W))` with
        :math:`d_i = \min(w_i, 1)`. A group is left out with all its weight.

        Parameters
        ----------
        targets : ndarray of shape (n, k)
        alpha : float
        groups : ndarray of int, shape (n,), optional
            Rows with the same number are left out together.
        refit_intercept : bool, default=True
            Whether the means are those of the remaining rows. With the means of all rows (False) the left-out values of
            a useless table do not follow the target backwards, which is what a correlation needs.
        projected : tuple of ndarray, optional
            What :meth:`project` made of the targets, if several penalties are tried on them.

        Returns
        -------
        ndarray of shape (n, k)
        """
        residual = targets - self.fitted(targets, alpha, projected)
        shared = 1.0 / self.total if refit_intercept else 0.0
        if groups is None:
            out = np.minimum(self.weight, 1.0)
            keep = 1.0 - out * (self.leverage(alpha) + shared)
            return np.asarray(targets - residual / np.maximum(keep, EPS)[:, None])
        predictions: np.ndarray = np.empty_like(residual)
        for members in groups_of_equal_size(groups):
            predictions[members] = targets[members] - self._group_residuals(members, targets, residual, alpha, shared)
        return predictions

    def left_out_at(
        self, at: np.ndarray, targets: np.ndarray, alpha: float, groups: np.ndarray | None = None
    ) -> np.ndarray:
        r"""Value at another point for each row, by the regression without that row, or without the row's group.

        With left-out residuals :math:`r_j` and :math:`M = A^\top W A + \alpha I` (of centered columns), leaving rows G out
        changes the value at a point by :math:`- \sum_{j \in G} w_j (1/W + (at_i - \bar a)^\top M^{-1} (a_j - \bar a)) r_j`.

        Parameters
        ----------
        at : ndarray of shape (n, p)
            A point for each row, in the columns of the table.
        targets : ndarray of shape (n, k)
        alpha : float
        groups : ndarray of int, shape (n,), optional

        Returns
        -------
        ndarray of shape (n, k)
        """
        coef, intercept = self.solve(targets, alpha)
        values: np.ndarray = at @ coef + intercept
        residual = targets - self.left_out(targets, alpha, groups)
        inverse = 1.0 / (self.eigenvalues + alpha)
        points = ((at - self.mean) @ self.from_eigenbasis(np.eye(len(inverse)))) * inverse
        if groups is None:
            cross = 1.0 / self.total + (points * self.rows).sum(axis=1)
            return np.asarray(values - (np.minimum(self.weight, 1.0) * cross)[:, None] * residual)
        for members in groups_of_equal_size(groups):
            cross = 1.0 / self.total + points[members] @ self.rows[members].transpose(0, 2, 1)
            values[members] -= cross @ (self.weight[members][:, :, None] * residual[members])
        return values

    def _group_residuals(
        self, members: np.ndarray, targets: np.ndarray, residual: np.ndarray, alpha: float, shared: float
    ) -> np.ndarray:
        """Residuals of left-out groups; `members` of shape (n_groups, size)."""
        rows, weight = self.rows[members], self.weight[members]
        penalized = self.eigenvalues + alpha
        if members.shape[1] <= len(penalized) + 1:
            block = (rows / penalized) @ rows.transpose(0, 2, 1) + shared
            system = np.eye(members.shape[1]) - block * weight[:, None, :]
            return np.linalg.solve(system, residual[members])
        # More rows in the group than columns: take the group out of the normal equations instead.
        ones = np.full((*members.shape, 1), 1.0 if shared else 0.0)
        rows = np.concatenate([rows, ones], axis=2)
        weighted = rows * weight[:, :, None]
        normal = np.diag(np.append(penalized, self.total)) - weighted.transpose(0, 2, 1) @ rows
        change = np.linalg.solve(normal, weighted.transpose(0, 2, 1) @ residual[members])
        return np.asarray(residual[members] + rows @ change)

    def errors_without(
        self, targets: np.ndarray, alpha: float, columns: np.ndarray, groups: np.ndarray | None = None
    ) -> np.ndarray:
        r"""Left-out squared error of the regression without one column, for each of several columns, at one penalty.

        With :math:`M = A^\top W A + \alpha I`, taking column j out changes the fitted values by
        :math:`- A M^{-1} e_j \, \beta_j / (M^{-1})_{jj}` and the leverages by
        :math:`- (a_i^\top M^{-1} e_j)^2 / (M^{-1})_{jj}`, so no regression is fitted again.

        Parameters
        ----------
        targets : ndarray of shape (n, k)
        alpha : float
        columns : ndarray of int
            Positions of the columns.
        groups : ndarray of int, shape (n,), optional

        Returns
        -------
        ndarray of shape (len(columns),)
        """
        inverse = 1.0 / (self.eigenvalues + alpha)
        basis = self._basis_rows(columns)
        pivots = (1.0 - np.square(basis) @ (self.eigenvalues * inverse)) / alpha
        towards = (basis * inverse).T
        _, projected = self.project(targets)
        coefs = towards.T @ projected
        residual = targets - self.fitted(targets, alpha)
        if groups is not None:
            change = self.rows @ towards, pivots, coefs, inverse
            return self._group_errors_without(residual, groups, *change)
        free = self.leverage(alpha) + 1.0 / self.total
        return _errors_without(self.rows, self.weight, residual.T, free, towards, pivots, coefs) / self.total

    def _group_errors_without(
        self,
        residual: np.ndarray,
        groups: np.ndarray,
        directions: np.ndarray,
        pivots: np.ndarray,
        coefs: np.ndarray,
        inverse: np.ndarray,
    ) -> np.ndarray:
        errors = np.zeros(len(pivots))
        for members in groups_of_equal_size(groups):
            rows, weight = self.rows[members], self.weight[members]
            block = (rows * inverse) @ rows.transpose(0, 2, 1) + 1.0 / self.total
            for j, (pivot, direction, coef) in enumerate(zip(pivots, directions.T, coefs)):
                part = direction[members]
                changed = block - part[:, :, None] * part[:, None, :] / pivot
                system = np.eye(members.shape[1]) - changed * weight[:, None, :]
                left_out = np.linalg.solve(system, residual[members] + part[:, :, None] * (coef / pivot))
                errors[j] += (weight * np.square(left_out).sum(axis=2)).sum()
        return errors / self.total


@chunkwise(total, "weight")
def _weighted_gram(A: Any, weight: np.ndarray) -> np.ndarray:
    """A' W A."""
    gram = np.zeros((A.shape[1], A.shape[1]))
    for start in range(0, A.shape[0], BLOCK):
        part = A[start : start + BLOCK]
        product = part.T @ _times(part, weight[start : start + BLOCK])
        gram += product.toarray() if sparse.issparse(product) else product
    return gram


@chunkwise(in_a_row)
def _squares_times(rows: Any, vector: np.ndarray) -> np.ndarray:
    """Squared entries of the rows times a vector."""
    out = np.empty(len(rows))
    for start in range(0, len(out), BLOCK):
        out[start : start + BLOCK] = np.square(rows[start : start + BLOCK]) @ vector
    return out


@chunkwise(total, "weight", "residual", "leverage")
def _errors_without(
    rows: np.ndarray,
    weight: np.ndarray,
    residual: np.ndarray,
    leverage: np.ndarray,
    towards: np.ndarray,
    pivots: np.ndarray,
    coefs: np.ndarray,
) -> np.ndarray:
    """Weighted sums of the squared left-out errors without each of several columns; `residual` of shape (k, n)."""
    directions = rows @ towards
    free = leverage[:, None] - np.square(directions) / pivots
    keep = np.maximum(1.0 - np.minimum(weight, 1.0)[:, None] * free, EPS)
    left_out = ((r[:, None] + directions * (c / pivots)) / keep for r, c in zip(residual, coefs.T))
    return np.asarray(sum(weight @ np.square(part) for part in left_out))


def _times(A: Any, weight: np.ndarray) -> Any:
    return sparse.diags_array(weight) @ A if sparse.issparse(A) else A * weight[:, None]


class KernelPath(RidgePath):
    """The same for a kernel matrix: coefficients belong to the rows, and predict with their kernel values.

    Parameters
    ----------
    products : ndarray of shape (n, n)
        Kernel matrix.
    weight : ndarray of shape (n,), optional

    Examples
    --------
    >>> import numpy as np
    >>> A, t = np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [1.0], [4.0]])
    >>> dual, intercept = KernelPath(A @ A.T).solve(t, alpha=1.0)
    >>> coef, same = RidgePath(A).solve(t, alpha=1.0)
    >>> np.allclose(A.T @ dual, coef), np.allclose(intercept, same)
    (True, True)
    """

    def __init__(self, products: np.ndarray, weight: np.ndarray | None = None):
        self.weight = np.ones(len(products)) if weight is None else weight
        self.total = self.size = float(self.weight.sum())
        self.mean = products @ self.weight / self.total
        self._turn = self._decompose_products(products)

    def _coefficients(self, coordinates: np.ndarray) -> np.ndarray:
        dual = self._turn @ coordinates
        return np.asarray(dual - np.outer(self.weight / self.total, dual.sum(axis=0)))


def groups_of_equal_size(groups: np.ndarray) -> list[np.ndarray]:
    """Rows of each group, groups of one size stacked: arrays of shape (number of groups, size).

    Examples
    --------
    >>> import numpy as np
    >>> [members.tolist() for members in groups_of_equal_size(np.array([0, 1, 0, 2]))]
    [[[1], [3]], [[0, 2]]]
    """
    order = np.argsort(groups, kind="stable")
    _, start, size = np.unique(groups[order], return_index=True, return_counts=True)
    return [order[start[size == s][:, None] + np.arange(s)] for s in np.unique(size)]


@dataclass(frozen=True)
class RidgeFit:
    """A ridge regression whose penalty was chosen by its left-out predictions.

    Attributes
    ----------
    coef : ndarray of shape (p, k)
    intercept : ndarray of shape (k,)
    alpha : float
        The penalty.
    left_out : ndarray of shape (n, k)
        Leave-one-out (leave-group-out) predictions; with the intercept of all rows, if chosen by correlation: after much
        shrinkage the jitter of the mean, which goes against the target, would outweigh the rest.
    spread : float
        Standard deviation of the fitted values, over all targets.
    degrees_of_freedom : float
    """

    coef: np.ndarray
    intercept: np.ndarray
    alpha: float
    left_out: np.ndarray
    spread: float
    degrees_of_freedom: float

    def predict(self, A: Any) -> np.ndarray:
        """Values for new rows, of shape (n, k)."""
        return np.asarray(A @ self.coef + self.intercept)


def squared_error(predictions: np.ndarray, targets: np.ndarray, weight: np.ndarray) -> float:
    """Weighted mean of the squared errors, summed over the targets."""
    return float(weight @ np.square(predictions - targets).sum(axis=1) / weight.sum())


def correlation(predictions: np.ndarray, targets: np.ndarray, weight: np.ndarray) -> float:
    """Weighted correlation, pooled over the targets (columns), each centered by itself.

    Examples
    --------
    >>> import numpy as np
    >>> t = np.array([[0.0], [1.0], [5.0]])
    >>> round(correlation(3 * t + 1, t, np.ones(3)), 12)
    1.0
    """
    p, t = (a - weight @ a / weight.sum() for a in (predictions, targets))
    scale = np.sqrt((weight @ np.square(p)).sum() * (weight @ np.square(t)).sum())
    return float((weight @ (p * t)).sum() / max(scale, TINY))


def fit_ridge(
    A: Any, targets: np.ndarray, weight: np.ndarray, groups: np.ndarray | None = None, by: str = "error"
) -> RidgeFit:
    """Ridge regression with the penalty that predicts left-out rows best.

    Parameters
    ----------
    A : ndarray or sparse matrix of shape (n, p)
    targets : ndarray of shape (n, k)
    weight : ndarray of shape (n,)
    groups : ndarray of int, shape (n,), optional
        Rows that are left out together.
    by : {"error", "correlation"}
        Least squared error, or largest correlation with the target (where only the direction matters: a score is
        scaled and calibrated afterwards).

    Returns
    -------
    RidgeFit
    """
    path = RidgePath(A, weight)
    return choose_penalty(path, targets, groups, by)


def choose_penalty(
    path: RidgePath, targets: np.ndarray, groups: np.ndarray | None, by: str, grid: np.ndarray = GRID
) -> RidgeFit:
    """The second half of :func:`fit_ridge`, for a table that is decomposed already."""
    weight = path.weight
    projected = path.project(targets)
    best: tuple[float, float, np.ndarray] | None = None
    for alpha in path.alphas(grid):
        left_out = path.left_out(targets, alpha, groups, by == "error", projected)
        value = squared_error(left_out, targets, weight) if by == "error" else -correlation(left_out, targets, weight)
        if best is None or value < best[0]:
            best = (value, float(alpha), left_out)
    assert best is not None
    _, alpha, left_out = best
    coef, intercept = path.solve(targets, alpha)
    return RidgeFit(
        coef=coef,
        intercept=intercept,
        alpha=alpha,
        left_out=left_out,
        spread=spread(path.fitted(targets, alpha), weight),
        degrees_of_freedom=path.degrees_of_freedom(alpha),
    )


def spread(values: np.ndarray, weight: np.ndarray) -> float:
    """Weighted standard deviation, root of the mean variance over the columns."""
    centered = values - weight @ values / weight.sum()
    return float(np.sqrt((weight @ np.square(centered)).mean() / weight.sum()))
