"""The kernel space of a training set: a matrix, features, or kernel values computed on demand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from lupi.inputs.memory import USABLE, available_memory, require_memory
from lupi.inputs.types import Matrix, MatrixLike
from lupi.kernels.kernel import PROBE, Kernel, check_definite

# Linear kernels are represented by features if these are fewer than this share of the examples.
FEW_FEATURES = 0.7
# From this many examples on, single precision pays.
LARGE_MATRIX = 1500
# Skip the memory check below this size (bytes).
ALWAYS_FREE = 2**24
# Rows of kernel values on demand that are computed at a time; the block stays in the processor's cache.
BAND = 256
# A product computes every value once and uses it twice if more than this share of the coefficients is not zero.
MANY = 0.5
# Up to this share of its rows, a copy of them is multiplied faster than the whole matrix.
FEW_ROWS = 0.3
# Single precision loses about 1e-7 of every term of gamma |a - b|^2: with terms up to this size, 2e-5 of the smallest values.
LARGEST_EXPONENT = 128.0
# The diagonal of rounded matrices is raised by this share: a step between two different examples must stay finite.
RAISED = 4e-6


@dataclass(frozen=True)
class Space:
    """Kernel matrix of one feature space.

    Parameters
    ----------
    matrix : ndarray of shape (n, n), optional
        The kernel matrix, before ``weight``.
    factor : ndarray of shape (n, r), optional
        Features with ``matrix = factor @ factor.T``. Solvers that work in O(n r^2) need it.
    source : KernelRows, optional
        Computes kernel values on demand.
    weight : float
        Multiplies the kernel (1 / lam for a privileged space).
    bias : bool
        Whether the space's function has an intercept, i.e. whether its coefficients sum to a constant.
    inexact : bool
        Whether ``matrix`` only approximates the kernel of ``product``: solvers then check their result with the latter.
    """

    matrix: np.ndarray | None = None
    factor: np.ndarray | None = None
    source: KernelRows | None = None
    weight: float = 1.0
    bias: bool = True
    inexact: bool = False

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        for array in (self.matrix, self.factor, self.source):
            if array is not None:
                return len(array)
        raise ValueError("a Space needs a matrix, a factor or a source")

    @property
    def few_features(self) -> bool:
        """Whether the features are cheaper than the kernel matrix."""
        return self.factor is not None and self.factor.shape[1] < FEW_FEATURES * self.n_examples

    @property
    def on_demand(self) -> bool:
        """Whether the matrix does not fit into memory."""
        return self.source is not None

    @cached_property
    def dense(self) -> np.ndarray:
        """The kernel matrix (before ``weight``), formed where it was not given."""
        if self.matrix is not None:
            return self.matrix
        require_matrix(self.n_examples, "a kernel matrix")
        if self.factor is not None:
            return np.asarray(self.factor @ self.factor.T)
        assert self.source is not None
        return self.source.dense()

    @cached_property
    def rounded(self) -> np.ndarray:
        """The kernel matrix in single precision, for steps that are checked in double precision."""
        return rounded(self.dense)

    def diagonal(self) -> np.ndarray:
        """Weighted diagonal."""
        if self.factor is not None:
            return np.asarray(self.weight * np.einsum("ij,ij->i", self.factor, self.factor))
        if self.matrix is not None:
            return self.weight * np.diagonal(self.matrix)
        assert self.source is not None
        return self.weight * self.source.diagonal()

    def product(self, coefficients: np.ndarray) -> np.ndarray:
        """Weighted kernel matrix times a vector."""
        if self.factor is not None:
            return np.asarray(self.weight * (self.factor @ (self.factor.T @ coefficients)))
        if self.source is not None:
            return self.weight * self.source.product(coefficients)
        used = np.flatnonzero(coefficients)
        if len(used) > FEW_ROWS * len(coefficients):
            return np.asarray(self.weight * (self.dense @ coefficients))
        return np.asarray(self.weight * (coefficients[used] @ self.dense[used]))

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Weighted sub-matrix."""
        if self.source is not None:
            return self.weight * self.source.block(rows, columns)
        if self.matrix is None and self.factor is not None:
            return np.asarray(self.weight * (self.factor[rows] @ self.factor[columns].T))
        block: np.ndarray = self.dense[np.ix_(rows, columns)]
        block *= self.weight
        return block

    def add_block(self, out: np.ndarray, index: np.ndarray, signs: np.ndarray) -> None:
        """Add the weighted sub-matrix of some examples, rows and columns times signs, to ``out``."""
        used = np.flatnonzero(signs)
        s = signs[used]
        block = self.block(index[used], index[used])
        if np.any(s != s[:1]):
            block *= np.multiply.outer(s, s)
        if len(used) == len(out):
            out += block
        else:
            out[np.ix_(used, used)] += block

    def blocks(self, single: bool) -> Blocks:
        """The matrix (before ``weight``) in blocks, for solvers that never hold all of it."""
        return Blocks(self, single)


class KernelRows:
    """A kernel matrix whose values are computed when they are needed, and not kept.

    Parameters
    ----------
    kernel : Kernel
    X : ndarray or CSR matrix
    available : bool ndarray, optional
        Rows and columns of unavailable examples are 0.

    Examples
    --------
    >>> import numpy as np
    >>> rows = KernelRows(Kernel("linear"), np.array([[1.0], [2.0], [3.0]]))
    >>> rows.block(np.array([2]))
    array([[3., 6., 9.]])
    """

    def __init__(self, kernel: Kernel, X: MatrixLike, available: np.ndarray | None = None) -> None:
        self.kernel, self.X = kernel, X
        self.available = None if available is None or available.all() else available
        self._known = X if self.available is None else X[self.available]

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def block(self, rows: np.ndarray, columns: np.ndarray | None = None) -> np.ndarray:
        """Values between some examples and others (default: all)."""
        if self.available is None:
            return self.kernel(self.X[rows], self.X if columns is None else self.X[columns])
        out = np.zeros((len(rows), len(self) if columns is None else len(columns)))
        here = np.flatnonzero(self.available[rows])
        there = np.flatnonzero(self.available if columns is None else self.available[columns])
        if len(here) and len(there):
            others = self._known if columns is None else self.X[columns[there]]
            out[np.ix_(here, there)] = self.kernel(self.X[rows[here]], others)
        return out

    def dense(self) -> np.ndarray:
        """The whole matrix."""
        return self.kernel(self.X) if self.available is None else self.block(np.arange(len(self)))

    def product(self, coefficients: np.ndarray) -> np.ndarray:
        """Kernel matrix times a vector."""
        used = np.flatnonzero(coefficients)
        out = np.zeros(len(self))
        if len(used) <= MANY * len(self):
            for start in range(0, len(used), 2 * BAND):
                part = used[start : start + 2 * BAND]
                out += coefficients[part] @ self.block(part)
            return out
        known = slice(None) if self.available is None else self.available
        X, c = self._known, coefficients[known]
        sums = np.zeros(len(c))
        for start in range(0, len(c), BAND):
            end = min(start + BAND, len(c))
            values = self.kernel(X[start:end], X[start:])
            sums[start:end] += values @ c[start:]
            sums[end:] += c[start:end] @ values[:, end - start :]
        out[known] = sums
        return out

    def diagonal(self, chunk: int = 64) -> np.ndarray:
        """Kernel of every example with itself."""
        parts = [self._known[start : start + chunk] for start in range(0, self._known.shape[0], chunk)]
        values = np.zeros(len(self))
        values[slice(None) if self.available is None else self.available] = np.concatenate(
            [np.diagonal(self.kernel(part, part)) for part in parts]
        )
        return values


class Blocks:
    """Blocks of a space's kernel matrix, in single or double precision.

    Single precision computes the rbf kernel on demand in half the time, with a relative error of about 1e-6; other values are
    computed in double precision and rounded.

    Examples
    --------
    >>> import numpy as np
    >>> space = Space(source=KernelRows(Kernel("rbf"), np.array([[0.0], [1.0], [3.0]])))
    >>> Blocks(space, single=True).among(np.array([0, 1])).round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]], dtype=float32)
    """

    def __init__(self, space: Space, single: bool) -> None:
        self.space, self.single = space, single
        self.left: np.ndarray | None = None
        self._buffer = np.empty((0, 0), dtype=np.float32)
        source = space.source
        if single and source is not None and source.kernel.name == "rbf" and not sparse.issparse(source.X):
            self._prepare_rbf(source)

    def _prepare_rbf(self, source: KernelRows) -> None:
        """Features with -gamma |a - b|^2 = left(a) . right(b): one product instead of one and four passes."""
        known = slice(None) if source.available is None else source.available
        # A shift does not change the kernel, and squares of features far from 0 would cancel.
        centered = (source.X - source.X[known].mean(axis=0)).astype(np.float32)
        squares = np.einsum("ij,ij->i", centered, centered)
        gamma = np.float32(source.kernel.gamma)
        if gamma * float(squares[known].max(initial=0.0)) > LARGEST_EXPONENT:
            return
        if source.available is not None:
            squares[~source.available] = np.float32(1e30) / gamma  # the kernel is 0 there
        one = np.ones((len(centered), 1), dtype=np.float32)
        self.left = np.hstack([2 * gamma * centered, -gamma * squares[:, None], -gamma * one])
        self.right = np.hstack([centered, one, squares[:, None]])

    def _rbf(self, rows: np.ndarray, columns: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Kernel values in single precision, in bands that stay in the processor's cache."""
        assert self.left is not None
        for i in range(0, len(rows), BAND):
            band = np.matmul(self.left[rows[i : i + BAND]], columns.T, out=out[i : i + BAND])
            np.minimum(band, 0.0, out=band)
            np.exp(band, out=band)
        return out

    def among(self, index: np.ndarray) -> np.ndarray:
        """The block of some examples; overwritten by the next one of the same size."""
        if self.left is None:
            block = self.space.block(index, index) / self.space.weight
            return rounded(block) if self.single else block
        if len(self._buffer) != len(index):
            self._buffer = np.empty((len(index), len(index)), dtype=np.float32)
        block = self._rbf(index, self.right[index], self._buffer)
        block[np.diag_indices(len(index))] = np.round(np.diagonal(block))
        return rounded(block, block)

    def add_product(self, out: np.ndarray, index: np.ndarray, coefficients: np.ndarray) -> None:
        """Add some rows, each times its coefficient, to values at all examples; sums are in double precision."""
        source, factor = self.space.source, self.space.factor
        if source is None and self.space.matrix is None and factor is not None:
            out += factor @ (coefficients @ factor[index])
            return
        if source is None:
            out += coefficients @ self.space.dense[index]
            return
        # Allocating memory anew costs as much as a third of the values in it.
        buffer = np.empty((BAND, len(out)), dtype=np.float32)
        for i in range(0, len(index), BAND):
            rows, c = index[i : i + BAND], coefficients[i : i + BAND]
            if self.left is None:
                out += c @ source.block(rows)
            else:
                out += c.astype(np.float32) @ self._rbf(rows, self.right, buffer[: len(rows)])


def rounded(matrix: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """A kernel matrix in single precision, with a diagonal that is never below that of ``matrix``."""
    out = matrix.astype(np.float32) if out is None else out
    out[np.diag_indices(len(out))] *= np.float32(1.0 + RAISED)
    return out


def make_space(kernel: Kernel, data: Matrix, cache_size: float, *, available: np.ndarray | None = None) -> Space:
    """Space of the training data.

    Features where the kernel is linear and they are few, the matrix where it fits into ``cache_size`` megabytes, otherwise
    kernel values on demand.
    """
    n = data.shape[0]
    if kernel.name == "linear" and not sparse.issparse(data) and data.shape[1] < FEW_FEATURES * n:
        return Space(factor=data)
    if kernel.name != "precomputed" and not fits(n, cache_size):
        if kernel.unsafe:
            index = np.arange(n) if available is None else np.flatnonzero(available)
            index = np.random.default_rng(0).choice(index, min(len(index), PROBE), replace=False)
            check_definite(kernel, kernel(data[index]))
        return Space(source=KernelRows(kernel, data, available))
    # A kernel function never gets the placeholder rows of unavailable examples.
    part = available is not None and not available.all() and kernel.name != "precomputed"
    if kernel.name != "precomputed":
        require_matrix(n, f"the kernel matrix of `{kernel.argument}`", copies=2 if part else 1)
    matrix = kernel(data[available] if part else data)
    if kernel.unsafe:
        check_definite(kernel, matrix)
    if part and available is not None:
        known, matrix = matrix, np.zeros((n, n))
        matrix[np.ix_(available, available)] = known
    return Space(matrix=np.ascontiguousarray(matrix))


def fits(n: int, cache_size: float) -> bool:
    """Whether an n x n matrix stays within cache_size megabytes and within the available memory."""
    size = 8 * n * n
    # Callers without a limit need the matrix: `require_matrix` raises if it does not fit.
    if size > cache_size * 2**20 or np.isinf(cache_size):
        return size <= cache_size * 2**20
    return size <= ALWAYS_FREE or size <= USABLE * available_memory()


def require_matrix(n: int, name: str, copies: int = 1) -> None:
    """Raise MemoryError if copies of an n x n matrix do not fit into memory."""
    size = 8.0 * n * n * copies
    if size > ALWAYS_FREE:
        require_memory(
            size,
            f"{name} ({n} x {n})",
            "take fewer examples, or use SVMPlus or SVM2Plus with solver='auto': with linear kernels or n_components they "
            "need no such matrix, with others they compute blocks of it on demand",
        )
