"""Blocks of a kernel matrix that is too large to be held: computed fast, used once, forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from lupi.inputs.types import MatrixLike

if TYPE_CHECKING:
    from lupi.kernels.space import Kernel

# Single precision loses about 1e-7 of every term of gamma |a - b|^2: with terms up to this size, 2e-5 of the values of the
# examples that are farthest out.
LARGEST_EXPONENT = 128.0
# The diagonal of what is rounded is raised by this share: rounding must not make two different examples one, between which a
# step would have no end.
RAISED = 4e-6
# Rows of a block that is multiplied with a vector at once: it stays in the cache of a processor.
ROWS = 256


def rounded(matrix: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """A kernel matrix in single precision for steps between pairs: never less curved than the one that it stands for."""
    out = matrix.astype(np.float32) if out is None else out
    out[np.diag_indices(len(out))] *= np.float32(1.0 + RAISED)
    return out


class KernelBlocks:
    """Kernel values between some examples and some or all others.

    Parameters
    ----------
    kernel : Kernel
    X : ndarray or CSR matrix
    available : bool ndarray, optional
        Rows and columns of the others are 0.
    single : bool
        Compute the rbf kernel of dense features in single precision: half the time, and a relative error of about 1e-6.
        Values of other kernels are computed in double precision, and blocks of them are kept in single precision.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.kernels import Kernel
    >>> blocks = KernelBlocks(Kernel("rbf"), np.array([[0.0], [1.0], [3.0]]), single=True)
    >>> blocks.among(np.array([0, 1])).round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]], dtype=float32)
    """

    def __init__(
        self, kernel: Kernel, X: MatrixLike, available: np.ndarray | None = None, *, single: bool = True
    ) -> None:
        self.kernel, self.X, self.available, self.single = kernel, X, available, single
        self._left: np.ndarray | None = None
        self._buffer = np.empty((0, 0))
        if single and kernel.name == "rbf" and not sparse.issparse(X):
            self._prepare_rbf()

    def _prepare_rbf(self) -> None:
        """Features with -gamma |a - b|^2 = left(a) . right(b): one product in place of one and four passes."""
        known = self.X if self.available is None else self.X[self.available]
        # The kernel does not see a shift; without one, squares of features far from 0 would cancel.
        centered = (self.X - known.mean(axis=0)).astype(np.float32)
        squares = np.einsum("ij,ij->i", centered, centered)
        gamma = np.float32(self.kernel.gamma)
        if gamma * float(squares.max(initial=0.0)) > LARGEST_EXPONENT:
            return
        one = np.ones((len(centered), 1), dtype=np.float32)
        self._left = np.hstack([2 * gamma * centered, -gamma * squares[:, None], -gamma * one])
        self._right = np.hstack([centered, one, squares[:, None]])

    def _values(self, rows: np.ndarray, columns: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Kernel values of known examples, for columns as :meth:`_columns` gives them; in ``out`` if that is possible."""
        if self._left is None:
            return self.kernel(self.X[rows], columns)
        exponents = np.matmul(self._left[rows], columns.T, out=out)
        np.minimum(exponents, 0.0, out=exponents)
        return np.exp(exponents, out=exponents)

    def _columns(self, index: np.ndarray | None) -> np.ndarray:
        data = self.X if self._left is None else self._right
        return data if index is None else data[index]

    def among(self, index: np.ndarray) -> np.ndarray:
        """The block of some examples; overwritten by the next one of the same size."""
        m = len(index)
        if len(self._buffer) != m:
            self._buffer = np.empty((m, m), dtype=np.float32 if self.single else np.float64)
        known = np.arange(m) if self.available is None else np.flatnonzero(self.available[index])
        if len(known) < m:
            self._buffer[:] = 0.0
        columns = self._columns(index[known])
        for i in range(0, len(known), ROWS):
            part = known[i : i + ROWS]
            if len(known) < m:
                self._buffer[np.ix_(part, known)] = self._values(index[part], columns)
                continue
            band = self._buffer[i : i + ROWS]
            values = self._values(index[part], columns, band if self.single else None)
            if values is not band:
                band[:] = values
        if self._left is not None:
            self._buffer[known, known] = 1.0  # rounding must not make an example unlike itself
        return rounded(self._buffer, self._buffer) if self.single else self._buffer

    def add_product(self, out: np.ndarray, index: np.ndarray, coefficients: np.ndarray) -> None:
        """Add some rows, each times its coefficient, to values at all examples; sums are in double precision."""
        known = None if self.available is None or self.available.all() else np.flatnonzero(self.available)
        columns = self._columns(known)
        # Memory that is asked for anew costs as much as a third of the values in it.
        space = None if self._left is None else np.empty((ROWS, len(columns)), dtype=np.float32)
        for i in range(0, len(index), ROWS):
            rows = index[i : i + ROWS]
            values = self._values(rows, columns, None if space is None else space[: len(rows)])
            part = coefficients[i : i + ROWS].astype(values.dtype) @ values
            if known is None:
                out += part
            else:
                out[known] += part


class FeatureBlocks:
    """The same for a kernel that is known by features: products need no block at all."""

    def __init__(self, features: np.ndarray, *, single: bool = True) -> None:
        self.features, self.single = features, single

    def among(self, index: np.ndarray) -> np.ndarray:
        """The block of some examples."""
        part = self.features[index]
        if not self.single:
            return np.asarray(part @ part.T)
        part = part.astype(np.float32)
        block = part @ part.T
        return rounded(block, block)

    def add_product(self, out: np.ndarray, index: np.ndarray, coefficients: np.ndarray) -> None:
        """Add some rows, each times its coefficient, to values at all examples."""
        out += self.features @ (coefficients @ self.features[index])


class MatrixBlocks:
    """The same for a matrix that is at hand."""

    def __init__(self, matrix: np.ndarray, *, single: bool = True) -> None:
        self.matrix, self.single = matrix, single

    def among(self, index: np.ndarray) -> np.ndarray:
        """The block of some examples."""
        block = self.matrix[np.ix_(index, index)]
        return rounded(block) if self.single else block

    def add_product(self, out: np.ndarray, index: np.ndarray, coefficients: np.ndarray) -> None:
        """Add some rows, each times its coefficient, to values at all examples."""
        out += coefficients @ self.matrix[index]
