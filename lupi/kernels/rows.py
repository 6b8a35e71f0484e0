"""Rows of a kernel matrix that is too large to be held."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lupi.inputs.types import MatrixLike
from lupi.kernels.blocks import KernelBlocks

if TYPE_CHECKING:
    from lupi.kernels.space import Kernel

# Rows that are computed at a time, in a product where more than this share of all rows counts.
BAND = 256
MANY = 0.5


class KernelRows:
    """Rows of a kernel matrix, computed when they are needed and not kept.

    Parameters
    ----------
    kernel : Kernel
    X : ndarray or CSR matrix
    available : bool ndarray, optional
        Rows and columns of the others are 0.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.kernels import Kernel
    >>> rows = KernelRows(Kernel("linear"), np.array([[1.0], [2.0], [3.0]]))
    >>> rows.rows(np.array([2]))
    array([[3., 6., 9.]])
    """

    def __init__(self, kernel: Kernel, X: MatrixLike, available: np.ndarray | None = None) -> None:
        self.kernel, self.X, self.available = kernel, X, available
        self._known = X if available is None else X[available]

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def rows(self, index: np.ndarray) -> np.ndarray:
        """Full rows of the kernel matrix."""
        if self.available is None:
            return self.kernel(self.X[index], self.X)
        block = np.zeros((len(index), len(self)))
        rows = np.flatnonzero(self.available[index])
        if len(rows):
            block[np.ix_(rows, self.available)] = self.kernel(self.X[index[rows]], self._known)
        return block

    def dense(self) -> np.ndarray:
        """The whole matrix."""
        if self.available is None or self.available.all():
            return self.kernel(self.X)
        return self.rows(np.arange(len(self)))

    def product(self, coefficients: np.ndarray, chunk: int = 512) -> np.ndarray:
        """Kernel matrix times a vector, a few rows of the non-zero coefficients at a time."""
        used = np.flatnonzero(coefficients)
        out = np.zeros(len(self))
        if len(used) > MANY * len(self) and self.kernel.name != "precomputed":
            known = slice(None) if self.available is None else self.available
            out[known] = self._symmetric_product(coefficients[known])
            return out
        for start in range(0, len(used), chunk):
            part = used[start : start + chunk]
            out += coefficients[part] @ self.rows(part)
        return out

    def _symmetric_product(self, coefficients: np.ndarray) -> np.ndarray:
        """The same with every value computed once, for the row and for the column that it stands in."""
        X, out = self._known, np.zeros(len(coefficients))
        for start in range(0, len(out), BAND):
            end = min(start + BAND, len(out))
            values = self.kernel(X[start:end], X[start:])
            out[start:end] += values @ coefficients[start:]
            out[end:] += coefficients[start:end] @ values[:, end - start :]
        return out

    def diagonal(self, chunk: int = 64) -> np.ndarray:
        """Kernel of every example with itself."""
        parts = [self._known[start : start + chunk] for start in range(0, self._known.shape[0], chunk)]
        values = np.zeros(len(self))
        values[slice(None) if self.available is None else self.available] = np.concatenate(
            [np.diagonal(self.kernel(part, part)) for part in parts]
        )
        return values

    def blocks(self, single: bool) -> KernelBlocks:
        """The same matrix by blocks of which none is kept."""
        return KernelBlocks(self.kernel, self.X, self.available, single=single)

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """A sub-matrix."""
        if self.available is None:
            return self.kernel(self.X[rows], self.kernel.rows(self.X, columns))
        return self.rows(rows)[:, columns]
