"""A kernel space: a Gram matrix, the features whose inner products it would hold, or a source of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numba import njit


@njit(cache=True, fastmath=True, nogil=True)
def _sparse_product(matrix, coefficients):
    """Symmetric matrix times a vector with many zeros: reads only the rows that count."""
    out = np.zeros(matrix.shape[0])
    for i in range(coefficients.shape[0]):
        c = coefficients[i]
        if c != 0.0:
            row = matrix[i]
            for t in range(row.shape[0]):
                out[t] += c * row[t]
    return out


class RowSource(Protocol):
    """Rows of a kernel matrix that is too large to be held (``lupi.kernels.KernelRows``)."""

    capacity: int

    def __len__(self) -> int: ...

    def rows(self, index: np.ndarray) -> np.ndarray:
        """Full rows."""

    def product(self, coefficients: np.ndarray) -> np.ndarray:
        """Matrix times vector."""

    def diagonal(self) -> np.ndarray:
        """Kernel of every example with itself."""

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Sub-matrix."""


@dataclass(frozen=True)
class Space:
    """Kernel matrix of one feature space.

    Parameters
    ----------
    matrix : ndarray of shape (n, n), optional
        The kernel matrix, before ``weight``.
    factor : ndarray of shape (n, r), optional
        Features with ``matrix = factor @ factor.T``. Solvers that work in O(n r^2) need it.
    source : RowSource, optional
        Computes rows on demand.
    weight : float
        Multiplies the kernel (1 / lam for a privileged space).
    bias : bool
        Whether the space's function has an intercept, i.e. whether its coefficients sum to a constant.
    """

    matrix: np.ndarray | None = None
    factor: np.ndarray | None = None
    source: RowSource | None = None
    weight: float = 1.0
    bias: bool = True

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        for array in (self.matrix, self.factor, self.source):
            if array is not None:
                return len(array)
        raise ValueError("a Space needs a matrix, a factor or a source")

    @property
    def rank(self) -> int:
        """Number of explicit features, or n when there are none."""
        return self.n_examples if self.factor is None else self.factor.shape[1]

    @property
    def on_demand(self) -> bool:
        """Whether the full matrix is out of reach."""
        return self.source is not None

    @cached_property
    def dense(self) -> np.ndarray:
        """The kernel matrix (before ``weight``), formed where it was not given."""
        if self.matrix is not None:
            return self.matrix
        if self.factor is not None:
            return self.factor @ self.factor.T
        assert self.source is not None
        return self.source.rows(np.arange(self.n_examples))

    def diagonal(self) -> np.ndarray:
        """Weighted diagonal."""
        if self.factor is not None:
            return self.weight * np.einsum("ij,ij->i", self.factor, self.factor)
        if self.matrix is not None:
            return self.weight * np.diagonal(self.matrix)
        assert self.source is not None
        return self.weight * self.source.diagonal()

    def product(self, coefficients: np.ndarray) -> np.ndarray:
        """Weighted kernel matrix times a vector."""
        if self.factor is not None:
            return self.weight * (self.factor @ (self.factor.T @ coefficients))
        if self.source is not None:
            return self.weight * self.source.product(coefficients)
        return self.weight * _sparse_product(self.dense, coefficients)

    def rows(self, index: np.ndarray) -> np.ndarray:
        """Full rows, before ``weight``."""
        if self.source is not None:
            return self.source.rows(index)
        if self.matrix is None and self.factor is not None:
            return self.factor[index] @ self.factor.T
        return self.dense[index]

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Weighted sub-matrix."""
        if self.source is not None:
            return self.weight * self.source.block(rows, columns)
        if self.matrix is None and self.factor is not None:
            return self.weight * (self.factor[rows] @ self.factor[columns].T)
        return self.weight * self.dense[np.ix_(rows, columns)]
