"""A kernel space: a Gram matrix, or the features whose inner products it would hold."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Space:
    """Kernel matrix of one feature space, given in full or through explicit features.

    Parameters
    ----------
    matrix : ndarray of shape (n, n), optional
        The kernel matrix, before ``weight``.
    factor : ndarray of shape (n, r), optional
        Features with ``matrix = factor @ factor.T``. Solvers that work in O(n r^2) need it.
    weight : float
        Multiplies the kernel (1 / lam for a privileged space).
    bias : bool
        Whether the space's function has an intercept, i.e. whether its coefficients sum to a constant.
    """

    matrix: np.ndarray | None = None
    factor: np.ndarray | None = None
    weight: float = 1.0
    bias: bool = True

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        array = self.matrix if self.matrix is not None else self.factor
        assert array is not None
        return len(array)

    @property
    def rank(self) -> int:
        """Number of explicit features, or n when there are none."""
        return self.n_examples if self.factor is None else self.factor.shape[1]

    @cached_property
    def dense(self) -> np.ndarray:
        """The kernel matrix (before ``weight``), formed from the features where it was not given."""
        if self.matrix is not None:
            return self.matrix
        assert self.factor is not None
        return self.factor @ self.factor.T

    def product(self, coefficients: np.ndarray) -> np.ndarray:
        """Weighted kernel matrix times a vector."""
        if self.factor is not None:
            return self.weight * (self.factor @ (self.factor.T @ coefficients))
        return self.weight * (self.dense @ coefficients)

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Weighted sub-matrix."""
        if self.matrix is None and self.factor is not None:
            return self.weight * (self.factor[rows] @ self.factor[columns].T)
        return self.weight * self.dense[np.ix_(rows, columns)]
