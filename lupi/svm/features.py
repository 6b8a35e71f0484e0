"""Linear functions by their weights: sums over the rows of feature tables, dense, sparse or in chunks, without a copy of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from lupi.inputs.training_set import chunkwise
from lupi.kernels import Space

# Rows of a block: large enough for BLAS, small enough for the cache.
BLOCK = 1024
# An intercept is a feature without a norm; this much of one keeps the matrix positive definite.
BIAS_NORM = 1e-11


@dataclass(frozen=True)
class LinearSpace(Space):
    """Linear functions of rows that may be sparse, in single precision or in Dask chunks.

    With a ``metric`` M the functions have the squared norm :math:`(w, b)' M (w, b)`, intercept included.
    """

    metric: np.ndarray | None = None

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        assert self.factor is not None
        return int(self.factor.shape[0])

    def product(self, coefficients: np.ndarray) -> np.ndarray:
        """Weighted kernel matrix times a vector."""
        functions = Functions([self])
        return functions.fields(functions.inverse_metric(functions.sums([coefficients])))[0]

    def diagonal(self) -> np.ndarray:
        """Weighted diagonal."""
        root = None if self.metric is None else np.linalg.cholesky(np.linalg.inv(self.metric))
        return self.weight * squared_norms(self.factor, root)


class Functions:
    """Functions of spaces with features; all weights, each space's followed by its intercept, are one vector theta.

    Spaces after the first one have the same features.
    """

    def __init__(self, spaces: Sequence[Space]) -> None:
        tables: list[Any] = [space.factor for space in spaces]
        self.X, self.Z = (*tables[:2], None, None)[:2]
        ends = np.cumsum([0, *(table.shape[1] + 1 for table in tables)])
        self.n_weights = int(ends[-1])
        self.parts = [slice(start, end) for start, end in pairwise(ends)]
        self.intercepts = ends[1:] - 1
        # An intercept without a norm has 0 here.
        self.norms = [_norm(space) for space in spaces]
        used = [
            np.append(np.ones(len(norm) - 1), space.bias or norm.ndim == 2) for space, norm in zip(spaces, self.norms)
        ]
        self.free = np.flatnonzero(np.concatenate([np.zeros(0), *used]))

    def fields(self, theta: np.ndarray) -> tuple[np.ndarray, ...]:
        """Values of every function on the examples."""
        return values(self.X, self.Z, [theta[part] for part in self.parts]) if self.parts else ()

    def sums(self, betas: Sequence[np.ndarray]) -> np.ndarray:
        """Sums of the features, and of ones, times the coefficients of every space."""
        return transposed_values(self.X, self.Z, np.array(betas)) if self.parts else np.zeros(0)

    def metric(self, theta: np.ndarray) -> np.ndarray:
        """Derivative of half the squared norm."""
        parts = zip(self.norms, self.parts)
        return np.concatenate([np.zeros(0), *(N * theta[i] if N.ndim == 1 else N @ theta[i] for N, i in parts)])

    def inverse_metric(self, q: np.ndarray) -> np.ndarray:
        """Pseudo-inverse of the metric times a vector."""
        out = np.zeros(self.n_weights)
        for norm, part, factor in zip(self.norms, self.parts, self._factors):
            out[part] = (
                np.divide(q[part], norm, out=out[part], where=norm > 0)
                if factor is None
                else cho_solve(factor, q[part])
            )
        return out

    @cached_property
    def _factors(self) -> list[Any]:
        return [None if norm.ndim == 1 else cho_factor(norm, lower=True) for norm in self.norms]

    def hessian(self, weights: np.ndarray) -> np.ndarray:
        """Lower triangle of the sums over the examples of w_mk times the products of features of spaces m and k."""
        return weighted_products(self.X, self.Z, weights)

    def regularized(self, sums: np.ndarray) -> np.ndarray:
        """Sums plus the metric, over the weights that can be other than 0."""
        out = sums.copy()
        for norm, part in zip(self.norms, self.parts):
            out[part, part] += np.diag(np.maximum(norm, BIAS_NORM)) if norm.ndim == 1 else norm
        return out[np.ix_(self.free, self.free)]

    def factorize(self, sums: np.ndarray) -> Any:
        """Cholesky factor of the sums plus the metric."""
        H = self.regularized(sums)
        diagonal = np.diagonal(H).copy()
        ridge = 0.0
        for _ in range(9):
            H[np.diag_indices(len(H))] = diagonal + ridge
            try:
                return cho_factor(H, lower=True, check_finite=False)
            except LinAlgError:
                ridge = 100.0 * ridge or 1e-14 * float(diagonal.max())
        raise LinAlgError("the Hessian over the weights is not positive definite")


def _norm(space: Space) -> np.ndarray:
    """Diagonal of the metric of a space's weights and intercept, or the whole metric."""
    assert space.factor is not None
    if isinstance(space, LinearSpace) and space.metric is not None:
        return space.metric
    return np.append(np.full(space.factor.shape[1], 1.0 / space.weight), 0.0)


def stored_entries(data: Any) -> int:
    """Entries that a product with the data visits."""
    return 0 if data is None else int(data.nnz) if sparse.issparse(data) else int(data.size)


@chunkwise("concatenate")
def values(X: Any, Z: Any, thetas: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Values of a function of X and of others of Z, each with its weights and, last, its intercept."""
    return tuple(_times(Z if m else X, theta) for m, theta in enumerate(thetas))


def _times(data: Any, theta: np.ndarray) -> np.ndarray:
    """Rows times weights plus intercept, in double precision."""
    if sparse.issparse(data) or data.dtype == np.float64:
        return np.asarray(data @ theta[:-1] + theta[-1])
    blocks = [data[i : i + BLOCK].astype(np.float64) @ theta[:-1] for i in range(0, len(data), BLOCK)]
    return np.concatenate([np.zeros(0), *blocks]) + theta[-1]


@chunkwise("sum", "betas")
def transposed_values(X: Any, Z: Any, betas: np.ndarray) -> np.ndarray:
    """[X, 1]' times the first row of coefficients and [Z, 1]' times every other, one after the other."""
    parts = [_transposed_times(Z if k else X, beta) for k, beta in enumerate(betas)]
    return np.concatenate([np.append(part, beta.sum()) for part, beta in zip(parts, betas)])


def _transposed_times(data: Any, vector: np.ndarray) -> Any:
    """Columns times a vector, in double precision."""
    if sparse.issparse(data) or data.dtype == np.float64:
        return data.T @ vector
    out = np.zeros(data.shape[1])
    for i in range(0, len(data), BLOCK):
        out += vector[i : i + BLOCK] @ data[i : i + BLOCK].astype(np.float64)
    return out


@chunkwise("sum", "weights")
def weighted_products(X: Any, Z: Any, weights: np.ndarray) -> np.ndarray:
    r"""Blocks m >= k of :math:`\sum_i w_{mki} \phi_{mi} \phi_{ki}'` with :math:`\phi_0 = (x, 1)` and :math:`\phi_m = (z, 1)`.

    Examples
    --------
    >>> import numpy as np
    >>> weighted_products(np.array([[1.0], [2.0]]), None, np.array([[[1.0, 4.0]]]))
    array([[17.,  9.],
           [ 9.,  5.]])
    """
    tables = [Z if m else X for m in range(len(weights))]
    ends = np.cumsum([0, *(table.shape[1] + 1 for table in tables)])
    parts = [slice(start, end) for start, end in pairwise(ends)]
    used = np.flatnonzero(weights.any(axis=(0, 1)))
    # Without a negative weight, the product of a matrix with itself takes half the work.
    signed = any(np.any(weights[m, m] < 0) for m in range(len(tables)))
    out = np.zeros((ends[-1], ends[-1]))
    for i in range(0, len(used), BLOCK):
        rows = slice(i, i + BLOCK) if len(used) == weights.shape[2] else used[i : i + BLOCK]
        halves: list[np.ndarray] = []
        roots: list[np.ndarray] = []
        for m, table in enumerate(tables):
            block, w = table[rows], weights[m][:, rows]
            roots.append(np.ones(w.shape[1]) if signed else np.sqrt(w[m]))
            halves.append(_scaled(block, roots[m]))
            for k in range(m):
                # A pair of spaces has no weight where one of them has none.
                ratio = np.divide(w[k], roots[k], out=np.zeros_like(w[k]), where=roots[k] > 0)
                out[parts[m], parts[k]] += _scaled(block, ratio).T @ halves[k]
            out[parts[m], parts[m]] += halves[m].T @ (halves[m] * w[m, :, None] if signed else halves[m])
    return out


def _scaled(rows: Any, factor: np.ndarray) -> np.ndarray:
    """[rows, 1], each row times its factor."""
    out = np.empty((len(factor), rows.shape[1] + 1))
    np.multiply(rows.toarray() if sparse.issparse(rows) else rows, factor[:, None], out=out[:, :-1])
    out[:, -1] = factor
    return out


@chunkwise("concatenate")
def squared_norms(data: Any, root: np.ndarray | None) -> np.ndarray:
    """Squared norm of every row, or of [rows, 1] times a matrix."""
    out = []
    for i in range(0, data.shape[0], BLOCK):
        part = _scaled(data[i : i + BLOCK], np.ones(min(BLOCK, data.shape[0] - i)))
        part = part[:, :-1] if root is None else part @ root
        out.append(np.einsum("ij,ij->i", part, part))
    return np.concatenate([np.zeros(0), *out])


@chunkwise("sum", "weight")
def squares_times(data: Any, weight: np.ndarray) -> np.ndarray:
    """Sum of the squares of every column, each row counted with its weight."""
    if sparse.issparse(data):
        return np.asarray(data.power(2).T @ weight)
    out = np.zeros(data.shape[1])
    for i in range(0, len(data), BLOCK):
        out += weight[i : i + BLOCK] @ np.square(data[i : i + BLOCK], dtype=np.float64)
    return out
