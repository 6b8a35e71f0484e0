"""Sums over the rows of a feature matrix: dense or sparse, single or double precision, never a second copy of it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

# Rows of a block: large enough for BLAS, small enough for the cache.
BLOCK = 1024


def stored_entries(data: Any) -> int:
    """Entries that a product with the data visits."""
    return 0 if data is None else int(data.nnz) if sparse.issparse(data) else int(data.size)


def times(data: Any, vector: np.ndarray) -> np.ndarray:
    """Rows times a vector; single precision rows are summed in double precision, block by block."""
    if sparse.issparse(data) or data.dtype == np.float64:
        return np.asarray(data @ vector)
    blocks = [data[i : i + BLOCK].astype(np.float64) @ vector for i in range(0, len(data), BLOCK)]
    return np.concatenate(blocks) if blocks else np.zeros(0)


def transposed_times(data: Any, vector: np.ndarray) -> np.ndarray:
    """Columns times a vector, in double precision."""
    if sparse.issparse(data) or data.dtype == np.float64:
        return np.asarray(data.T @ vector)
    out = np.zeros(data.shape[1])
    for i in range(0, len(data), BLOCK):
        out += vector[i : i + BLOCK] @ data[i : i + BLOCK].astype(np.float64)
    return out


def squares_times(data: Any, weight: np.ndarray) -> np.ndarray:
    """Sum of the squares of every column, each row counted with its weight."""
    if sparse.issparse(data):
        return np.asarray(data.power(2).T @ weight)
    out = np.zeros(data.shape[1])
    for i in range(0, len(data), BLOCK):
        out += weight[i : i + BLOCK] @ np.square(data[i : i + BLOCK], dtype=np.float64)
    return out


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


class SharedMoment:
    """The sums of :func:`second_moment`, taken when they are first needed: few examples with many features do without.

    Examples
    --------
    >>> import numpy as np
    >>> np.asarray(SharedMoment(np.array([[1.0], [2.0]]), np.array([1.0, 2.0])))
    array([[9., 5.],
           [5., 3.]])
    """

    def __init__(self, Z: Any, weight: np.ndarray):
        self.Z, self.weight = Z, weight

    @cached_property
    def matrix(self) -> np.ndarray:
        """The sums."""
        return second_moment(self.Z, self.weight)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.matrix, dtype=dtype) if copy else np.asarray(self.matrix, dtype=dtype)
