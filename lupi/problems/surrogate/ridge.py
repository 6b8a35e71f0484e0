"""Weighted ridge regression: every penalty, every target and every left-out prediction from one eigendecomposition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

# Penalties that are tried, relative to the number of rows (of columns, where those are more).
GRID = np.array([0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0])
# Eigenvalues below this share of the largest one are rounding errors.
RANK_TOLERANCE = 1e-12
BLOCK = 4096


class RidgePath:
    r"""Ridge regressions of one table that differ in penalty and target only.

    .. math::

        \min_{\beta, b} \sum_i w_i (t_i - b - a_i^\top \beta)^2 + \alpha \|\beta\|^2

    The columns are centred implicitly (with the weighted means), so that a sparse table stays sparse and the intercept is
    not penalized. One eigendecomposition of the smaller of :math:`A^\top W A` and :math:`W^{1/2} A A^\top W^{1/2}` gives
    rows :math:`q_i` with :math:`\sum_i w_i q_i q_i^\top = \mathrm{diag}(e)`, and all else follows in O(n r).

    Parameters
    ----------
    A : ndarray or sparse matrix of shape (n, p)
        The table.
    weight : ndarray of shape (n,), optional
        Positive weights; weight 2 is the row twice.

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

    def __init__(self, A, weight: np.ndarray | None = None):
        n, p = A.shape
        self.weight = np.ones(n) if weight is None else weight
        self.total = float(self.weight.sum())
        self.size = max(self.total, p)
        self.mean = np.asarray(A.T @ self.weight).ravel() / self.total
        if p > n:
            self._decompose_rows(A)
        else:
            self._decompose_columns(A)

    def _decompose_columns(self, A):
        weighted = sparse.diags_array(self.weight) @ A if sparse.issparse(A) else A * self.weight[:, None]
        gram = A.T @ weighted
        gram = gram.toarray() if sparse.issparse(gram) else gram
        gram = gram - self.total * np.outer(self.mean, self.mean)
        values, vectors = np.linalg.eigh((gram + gram.T) / 2)
        kept = values > RANK_TOLERANCE * max(values[-1], np.finfo(float).tiny)
        self.eigenvalues, self._basis = values[kept], np.ascontiguousarray(vectors[:, kept])
        self.rows = np.asarray(A @ self._basis) - self.mean @ self._basis

    def _decompose_rows(self, A):
        products = A @ A.T
        scaled = self._decompose_products(products.toarray() if sparse.issparse(products) else products)
        self._basis = np.asarray(A.T @ scaled) - np.outer(self.mean, scaled.sum(axis=0))

    def _decompose_products(self, products):
        """Eigenbasis from the inner products of the rows; returns W U e^(-1/2), which turns rows into basis vectors."""
        shift = products @ self.weight / self.total
        centred = products - shift - shift[:, None] + self.weight @ shift / self.total
        root = np.sqrt(self.weight)
        values, vectors = np.linalg.eigh(centred * root * root[:, None])
        kept = values > RANK_TOLERANCE * max(values[-1], np.finfo(float).tiny)
        self.eigenvalues = values[kept]
        self.rows = vectors[:, kept] * np.sqrt(self.eigenvalues) / root[:, None]
        return self.weight[:, None] * self.rows / self.eigenvalues

    def alphas(self, grid: np.ndarray = GRID) -> np.ndarray:
        """Penalties for this table: the grid times the number of rows, or of columns where they are more."""
        return grid * self.size

    def _projected(self, targets):
        mean = self.weight @ targets / self.total
        return mean, self.rows.T @ (self.weight[:, None] * (targets - mean))

    def fitted(self, targets: np.ndarray, alpha: float) -> np.ndarray:
        """Values of the regressions on the rows, for targets of shape (n, k)."""
        mean, projected = self._projected(targets)
        return mean + self.rows @ (projected / (self.eigenvalues + alpha)[:, None])

    def solve(self, targets: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients of shape (p, k) and intercepts of shape (k,)."""
        mean, projected = self._projected(targets)
        coef = self._basis @ (projected / (self.eigenvalues + alpha)[:, None])
        return coef, mean - self.mean @ coef

    def degrees_of_freedom(self, alpha: float) -> float:
        """Trace of the hat matrix, without the intercept."""
        return float(np.sum(self.eigenvalues / (self.eigenvalues + alpha)))

    def leverage(self, alpha: float) -> np.ndarray:
        """Diagonal of the unweighted hat matrix, without the intercept."""
        inverse = 1.0 / (self.eigenvalues + alpha)
        leverage = np.empty(len(self.rows))
        for start in range(0, len(leverage), BLOCK):
            leverage[start : start + BLOCK] = np.square(self.rows[start : start + BLOCK]) @ inverse
        return leverage

    def left_out(
        self, targets: np.ndarray, alpha: float, groups: np.ndarray | None = None, refit_intercept: bool = True
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

        Returns
        -------
        ndarray of shape (n, k)
        """
        residual = targets - self.fitted(targets, alpha)
        shared = 1.0 / self.total if refit_intercept else 0.0
        if groups is None:
            out = np.minimum(self.weight, 1.0)
            keep = 1.0 - out * (self.leverage(alpha) + shared)
            return targets - residual / np.maximum(keep, np.finfo(float).eps)[:, None]
        predictions = np.empty_like(residual)
        for members in groups_of_equal_size(groups):
            predictions[members] = targets[members] - self._group_residuals(members, targets, residual, alpha, shared)
        return predictions

    def _group_residuals(self, members, targets, residual, alpha, shared):
        """Residuals of left-out groups; `members` of shape (n_groups, size)."""
        rows, weight = self.rows[members], self.weight[members]
        penalized = self.eigenvalues + alpha
        if members.shape[1] <= len(penalized) + 1:
            block = (rows / penalized) @ rows.transpose(0, 2, 1) + shared
            system = np.eye(members.shape[1]) - block * weight[:, None, :]
            return np.linalg.solve(system, residual[members])
        # More rows in the group than columns: take the group out of the normal equations instead.
        change = np.empty((len(members), len(penalized) + 1, targets.shape[1]))
        ones = np.full((*members.shape, 1), 1.0 if shared else 0.0)
        rows = np.concatenate([rows, ones], axis=2)
        weighted = rows * weight[:, :, None]
        normal = np.diag(np.append(penalized, self.total)) - weighted.transpose(0, 2, 1) @ rows
        change = np.linalg.solve(normal, weighted.transpose(0, 2, 1) @ residual[members])
        return residual[members] + rows @ change

    def without_column(self, A, targets: np.ndarray, alpha: float, column: int) -> tuple[np.ndarray, np.ndarray]:
        """Residuals and leverages of the regressions on all columns but one, at the same penalty.

        Parameters
        ----------
        A : ndarray of shape (n, p)
            The table of this path.
        targets : ndarray of shape (n, k)
        alpha : float
        column : int

        Returns
        -------
        residual : ndarray of shape (n, k)
        leverage : ndarray of shape (n,)
        """
        shrink = self.eigenvalues / (self.eigenvalues + alpha)
        basis = self._basis[column]
        pivot = (1.0 - np.square(basis) @ shrink) / alpha
        direction = self.rows @ (basis / (self.eigenvalues + alpha))
        _, projected = self._projected(targets)
        coef = basis @ (projected / (self.eigenvalues + alpha)[:, None])
        residual = targets - self.fitted(targets, alpha) + np.outer(direction, coef / pivot)
        return residual, self.leverage(alpha) - np.square(direction) / pivot


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
        scaled = self._decompose_products(products)
        self._basis = scaled - np.outer(self.weight / self.total, scaled.sum(axis=0))


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
        Leave-one-out (leave-group-out) predictions, with the intercept refitted.
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

    def predict(self, A) -> np.ndarray:
        """Values for new rows, of shape (n, k)."""
        return np.asarray(A @ self.coef) + self.intercept


def squared_error(predictions: np.ndarray, targets: np.ndarray, weight: np.ndarray) -> float:
    """Weighted mean of the squared errors, summed over the targets."""
    return float(weight @ np.square(predictions - targets).sum(axis=1) / weight.sum())


def correlation(predictions: np.ndarray, targets: np.ndarray, weight: np.ndarray) -> float:
    """Weighted correlation, pooled over the targets (columns), each centred by itself.

    Examples
    --------
    >>> import numpy as np
    >>> t = np.array([[0.0], [1.0], [5.0]])
    >>> round(correlation(3 * t + 1, t, np.ones(3)), 12)
    1.0
    """
    p, t = (a - weight @ a / weight.sum() for a in (predictions, targets))
    scale = np.sqrt((weight @ np.square(p)).sum() * (weight @ np.square(t)).sum())
    return float((weight @ (p * t)).sum() / max(scale, np.finfo(float).tiny))


def fit_ridge(
    A, targets: np.ndarray, weight: np.ndarray, groups: np.ndarray | None = None, by: str = "error"
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
    best: tuple[float, float, np.ndarray] | None = None
    for alpha in path.alphas(grid):
        left_out = path.left_out(targets, alpha, groups, refit_intercept=by == "error")
        value = squared_error(left_out, targets, weight) if by == "error" else -correlation(left_out, targets, weight)
        if best is None or value < best[0]:
            best = (value, float(alpha), left_out)
    assert best is not None
    _, alpha, left_out = best
    if by != "error":
        left_out = path.left_out(targets, alpha, groups)
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
    centred = values - weight @ values / weight.sum()
    return float(np.sqrt((weight @ np.square(centred)).mean() / weight.sum()))
