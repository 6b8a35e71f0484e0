"""Sums over the rows of feature tables: dense, sparse or in chunks, single or double precision, without a copy of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from lupi.inputs.training_set import chunkwise

# Rows of a block: large enough for BLAS, small enough for the cache.
BLOCK = 1024


def stored_entries(data: Any) -> int:
    """Entries that a product with the data visits."""
    return 0 if data is None else int(data.nnz) if sparse.issparse(data) else int(data.size)


@chunkwise("concatenate")
def both_times(X: Any, Z: Any, decision: np.ndarray, privileged: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values of both functions on the rows, from weights and intercepts; 0 for the second without a table Z."""
    f = _times(X, decision[:-1]) + decision[-1]
    return f, np.zeros(len(f)) if Z is None else _times(Z, privileged[:-1]) + privileged[-1]


def _times(data: Any, vector: np.ndarray) -> np.ndarray:
    """Rows times a vector, in double precision."""
    if sparse.issparse(data) or data.dtype == np.float64:
        return np.asarray(data @ vector)
    blocks = [data[i : i + BLOCK].astype(np.float64) @ vector for i in range(0, len(data), BLOCK)]
    return np.concatenate([np.zeros(0), *blocks])


@chunkwise("sum", "beta", "eta")
def both_transposed_times(X: Any, Z: Any, beta: np.ndarray, eta: np.ndarray) -> np.ndarray:
    """[X, 1]' beta and [Z, 1]' eta, one after the other; without a table Z the first alone."""
    parts = [_transposed_times(X, beta), [beta.sum()]]
    if Z is not None:
        parts += [_transposed_times(Z, eta), [eta.sum()]]
    return np.concatenate(parts)


def _transposed_times(data: Any, vector: np.ndarray) -> Any:
    """Columns times a vector, in double precision."""
    if sparse.issparse(data) or data.dtype == np.float64:
        return data.T @ vector
    out = np.zeros(data.shape[1])
    for i in range(0, len(data), BLOCK):
        out += vector[i : i + BLOCK] @ data[i : i + BLOCK].astype(np.float64)
    return out


@chunkwise("sum", "y", "s", "weights")
def hessian_sums(X: Any, Z: Any, y: np.ndarray, s: np.ndarray, weights: np.ndarray) -> np.ndarray:
    r"""Sums over the rows that the Hessian over the weights consists of; `weights` has one or two rows.

    .. math:: \sum_i w_{0i} (y_i x_i, y_i, s_i z_i, s_i)(\cdot)' + w_{1i} (0, 0, s_i z_i, s_i)(\cdot)'
    """
    d = X.shape[1]
    n_weights = d + 1 + (0 if Z is None else Z.shape[1] + 1)
    used = np.flatnonzero(weights.any(axis=0))
    everything = len(used) == len(y)
    # Without a negative weight, the product of a matrix with itself takes half the work.
    signed = bool(np.any(weights < 0))
    out = np.zeros((n_weights, n_weights))
    buffer = np.empty((min(BLOCK, len(used)), n_weights))
    for i in range(0, len(used), BLOCK):
        rows = slice(i, i + BLOCK) if everything else used[i : i + BLOCK]
        w = weights[:, rows]
        root = np.ones_like(w) if signed else np.sqrt(w)
        left = buffer[: w.shape[1]]
        _scaled(X[rows], y[rows] * root[0], left[:, : d + 1])
        if Z is not None:
            _scaled(Z[rows], s[rows] * root[0], left[:, d + 1 :])
        out += left.T @ (left * w[0, :, None] if signed else left)
        if len(w) == 2:
            part = left[:, d + 1 :]
            _scaled(Z[rows], s[rows] * root[1], part)
            out[d + 1 :, d + 1 :] += part.T @ (part * w[1, :, None] if signed else part)
    return out


def _scaled(rows: Any, factor: np.ndarray, out: np.ndarray) -> None:
    """[rows, 1], each row times its factor."""
    np.multiply(rows.toarray() if sparse.issparse(rows) else rows, factor[:, None], out=out[:, :-1])
    out[:, -1] = factor


def second_moment(Z: Any, weight: np.ndarray) -> np.ndarray:
    """[Z, 1]' diag(weight) [Z, 1].

    Examples
    --------
    >>> import numpy as np
    >>> second_moment(np.array([[1.0], [2.0]]), np.array([1.0, 4.0]))
    array([[17.,  9.],
           [ 9.,  5.]])
    """
    return hessian_sums(Z, None, np.ones(len(weight)), weight, weight[None])


@chunkwise("sum", "weight")
def squares_times(data: Any, weight: np.ndarray) -> np.ndarray:
    """Sum of the squares of every column, each row counted with its weight."""
    if sparse.issparse(data):
        return np.asarray(data.power(2).T @ weight)
    out = np.zeros(data.shape[1])
    for i in range(0, len(data), BLOCK):
        out += weight[i : i + BLOCK] @ np.square(data[i : i + BLOCK], dtype=np.float64)
    return out
