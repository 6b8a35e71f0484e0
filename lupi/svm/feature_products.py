"""Sums over the rows of feature tables: dense, sparse or in blocks, single or double precision, never a second copy of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from lupi.inputs import chunkwise

# Rows of a block: large enough for BLAS, small enough for the cache.
BLOCK = 1024


def stored_entries(data: Any) -> int:
    """Entries that a product with the data visits."""
    return 0 if data is None else int(data.nnz) if sparse.issparse(data) else int(data.size)


@chunkwise("concatenate")
def times(data: Any, vector: np.ndarray) -> np.ndarray:
    """Rows times a vector; single precision rows are summed in double precision, block by block."""
    if sparse.issparse(data) or data.dtype == np.float64:
        return np.asarray(data @ vector)
    blocks = [data[i : i + BLOCK].astype(np.float64) @ vector for i in range(0, len(data), BLOCK)]
    return np.concatenate(blocks) if blocks else np.zeros(0)


@chunkwise("sum", "vector")
def transposed_times(data: Any, vector: np.ndarray) -> np.ndarray:
    """Columns times a vector, in double precision."""
    if sparse.issparse(data) or data.dtype == np.float64:
        return np.asarray(data.T @ vector)
    out = np.zeros(data.shape[1])
    for i in range(0, len(data), BLOCK):
        out += vector[i : i + BLOCK] @ data[i : i + BLOCK].astype(np.float64)
    return out


@chunkwise("concatenate")
def both_times(X: Any, Z: Any, decision: np.ndarray, privileged: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values of both functions on the rows, from weights and intercepts; 0 for the second without a table Z."""
    f = times(X, decision[:-1]) + decision[-1]
    return f, np.zeros(len(f)) if Z is None else times(Z, privileged[:-1]) + privileged[-1]


@chunkwise("sum", "beta", "eta")
def both_transposed_times(X: Any, Z: Any, beta: np.ndarray, eta: np.ndarray) -> np.ndarray:
    """[X, 1]' beta and [Z, 1]' eta, one after the other; without a table Z the first alone."""
    parts = [transposed_times(X, beta), np.array([beta.sum()])]
    if Z is not None:
        parts += [transposed_times(Z, eta), np.array([eta.sum()])]
    return np.concatenate(parts)


@chunkwise("sum", "y", "s", "weights")
def hessian_sums(
    X: Any, Z: Any, y: np.ndarray, s: np.ndarray, weights: np.ndarray, index: np.ndarray | None, signed: bool
) -> np.ndarray:
    r"""Sums over the rows that the Hessian over the weights consists of.

    .. math:: \sum_i w_{0i} (y_i x_i, y_i, s_i z_i, s_i)(\cdot)' + w_{1i} (0, 0, s_i z_i, s_i)(\cdot)'

    Parameters
    ----------
    X, Z : ndarray, csr matrix or DaskRows, Z also None
    y, s : ndarray of shape (n,)
    weights : ndarray of shape (1, n) or (2, n)
    index : ndarray of int, optional
        Some rows of tables in memory, in place of all.
    signed : bool
        Whether weights may be negative; without a sign they take half the work.
    """
    d = X.shape[1]
    n_weights = d + 1 + (0 if Z is None else Z.shape[1] + 1)
    size = X.shape[0] if index is None else len(index)
    out = np.zeros((n_weights, n_weights))
    buffer = np.empty((min(BLOCK, size), n_weights))
    for i in range(0, size, BLOCK):
        rows = slice(i, i + BLOCK) if index is None else index[i : i + BLOCK]
        w, own = weights[0, rows], s[rows]
        left = buffer[: len(w)]
        root = np.ones(len(w)) if signed else np.sqrt(w)
        _scaled(X[rows], y[rows] * root, left[:, : d + 1])
        if Z is not None:
            _scaled(Z[rows], own * root, left[:, d + 1 :])
        out += left.T @ (left * w[:, None] if signed else left)
        if len(weights) == 2:
            w = weights[1, rows]
            part = left[:, d + 1 :]
            _scaled(Z[rows], own if signed else own * np.sqrt(w), part)
            out[d + 1 :, d + 1 :] += part.T @ (part * w[:, None] if signed else part)
    return out


def _scaled(rows: Any, factor: np.ndarray, out: np.ndarray) -> None:
    """[rows, 1], each row times its factor."""
    np.multiply(rows.toarray() if sparse.issparse(rows) else rows, factor[:, None], out=out[:, :-1])
    out[:, -1] = factor


@chunkwise("sum", "weight")
def squares_times(data: Any, weight: np.ndarray) -> np.ndarray:
    """Sum of the squares of every column, each row counted with its weight."""
    if sparse.issparse(data):
        return np.asarray(data.power(2).T @ weight)
    out = np.zeros(data.shape[1])
    for i in range(0, len(data), BLOCK):
        out += weight[i : i + BLOCK] @ np.square(data[i : i + BLOCK], dtype=np.float64)
    return out


@chunkwise("sum", "weight")
def second_moment(Z: Any, weight: np.ndarray) -> np.ndarray:
    """[Z, 1]' diag(weight) [Z, 1] without a second copy of Z.

    Examples
    --------
    >>> import numpy as np
    >>> second_moment(np.array([[1.0], [2.0]]), np.array([1.0, 2.0]))
    array([[9., 5.],
           [5., 3.]])
    """
    s = Z.shape[1]
    out = np.zeros((s + 1, s + 1))
    for i in range(0, Z.shape[0], BLOCK):
        rows, w = Z[i : i + BLOCK], weight[i : i + BLOCK]
        block = rows.toarray() if sparse.issparse(rows) else rows
        block = np.hstack([block, np.ones((len(w), 1))])
        out += (block * w[:, None]).T @ block
    return out
