"""Kernels and the spaces they span: parameters resolved once; a matrix, features, or rows on demand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cholesky, eigvalsh
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils._param_validation import Interval, StrOptions

from lupi.inputs import is_per_space
from lupi.inputs.memory import USABLE, available_memory, require_memory
from lupi.inputs.types import Matrix, MatrixLike
from lupi.kernels.blocks import FeatureBlocks, KernelBlocks, MatrixBlocks, rounded
from lupi.kernels.products import OPERATIONS, add_signed_block, scale_and_mirror, self_products, sparse_product
from lupi.kernels.rows import KernelRows
from lupi.model_parts import model_part

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

# Every kernel of the library, with its parameters.
KERNELS: dict[str, tuple[str, ...]] = {
    "linear": (),
    "rbf": ("gamma",),
    "poly": ("gamma", "degree", "coef0"),
    "sigmoid": ("gamma", "coef0"),
    "chi2": ("gamma",),
    "laplacian": ("gamma",),
    "intersection": (),
    "precomputed": (),
}
# Of the estimators' parameters that choose a kernel.
KERNEL_CONSTRAINTS: dict[str, list[Any]] = {
    "kernel": [StrOptions(set(KERNELS)), callable],
    "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
    "degree": [Interval(Real, 0, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
}
PRIVILEGED_KERNEL_CONSTRAINTS = {f"privileged_{name}": constraint for name, constraint in KERNEL_CONSTRAINTS.items()}
# An indefinite matrix betrays itself in a principal sub-matrix of this size.
PROBE = 1500
# Kernel values that a prediction holds at a time.
LARGEST_BLOCK = 2**24
# Rows of a kernel matrix that are computed at a time.
BAND = 128
# Kernels without a matrix product, and the operations of one call that computes them: Ctrl-C has to wait for its end.
SLOW_KERNELS = ("chi2", "laplacian")
SLOW_OPERATIONS = 3e8
# From so many examples on, the time that a matrix in double precision takes is worth saving.
LARGE_MATRIX = 1500
# Bytes of a matrix for which nobody is asked.
ALWAYS_FREE = 2**24


@model_part
@dataclass(frozen=True)
class Kernel:
    """A kernel function with all parameters fixed.

    Parameters
    ----------
    name : str or callable
        One of ``KERNELS``, or a function of two feature matrices that returns their kernel matrix.
    gamma, degree, coef0 : float
        Parameters; those that a kernel does not have are ignored.
    argument : str
        Name of the data it applies to, for messages: "X" or "privileged".

    Examples
    --------
    >>> import numpy as np
    >>> Kernel("poly", gamma=1.0, degree=2, coef0=1.0)(np.array([[1.0], [2.0]]))
    array([[ 4.,  9.],
           [ 9., 25.]])
    """

    name: str | Callable[..., Any]
    gamma: float = 1.0
    degree: float = 3
    coef0: float = 0.0
    argument: str = "X"

    @classmethod
    def of(cls, estimator: BaseEstimator, data: Matrix, prefix: str = "", weight: np.ndarray | None = None) -> Kernel:
        """Kernel of an estimator's parameters, with ``prefix="privileged_"`` of the privileged ones; gamma from the data."""
        name, gamma, degree, coef0 = (
            getattr(estimator, prefix + key) for key in ("kernel", "gamma", "degree", "coef0")
        )
        uses_gamma = isinstance(name, str) and "gamma" in KERNELS[name]
        gamma = resolve_gamma(gamma, data, weight) if uses_gamma else 1.0
        return cls(name, gamma, degree, coef0, argument="privileged" if prefix else "X")

    @property
    def unsafe(self) -> bool:
        """Whether the kernel matrix may have negative eigenvalues."""
        if self.name == "poly":
            return self.coef0 < 0 or self.degree != int(self.degree)
        return callable(self.name) or self.name in ("sigmoid", "precomputed")

    def __call__(self, A: Matrix, B: Matrix | None = None) -> np.ndarray:
        """Kernel matrix between the rows of A and of B (of A itself by default).

        Of a precomputed kernel A holds the values with all training examples, and B the positions of some of them.
        """
        if callable(self.name):
            return self._checked(self.name(A, A if B is None else B), A, A if B is None else B)
        if self.name == "precomputed":
            return np.ascontiguousarray(A if B is None else A[:, B], dtype=np.float64)
        if self.name in ("chi2", "laplacian", "intersection"):
            A, B = self._prepared(A), self._prepared(A if B is None else B)
        if B is None:
            with np.errstate(over="ignore", invalid="ignore"):
                return self._finite(self._values(A))
        most = SLOW_OPERATIONS if self.name in SLOW_KERNELS else OPERATIONS
        step = max(1, int(most / max(1.0, _length(B) * B.shape[0])))
        if step >= A.shape[0]:
            return self._values(A, B)
        out = np.empty((A.shape[0], B.shape[0]))
        for start in range(0, A.shape[0], step):
            out[start : start + step] = self._values(A[start : start + step], B)
        return out

    def _values(self, A: MatrixLike, B: MatrixLike = None) -> np.ndarray:
        if self.name == "intersection":
            return np.asarray(sum(np.minimum(A[:, k, None], B[None, :, k]) for k in range(A.shape[1])))
        if self.name == "linear" and B is None and not sparse.issparse(A):
            return self_products(A)
        if self.name == "rbf" and not (sparse.issparse(A) or sparse.issparse(B)):
            return _rbf(A, B, self.gamma)
        return np.asarray(
            pairwise_kernels(A, B, metric=self.name, **{key: getattr(self, key) for key in KERNELS[str(self.name)]})
        )

    def _checked(self, matrix: MatrixLike, A: Matrix, B: Matrix) -> np.ndarray:
        matrix = np.ascontiguousarray(matrix, dtype=np.float64)
        if matrix.shape != (A.shape[0], B.shape[0]):
            raise ValueError(
                f"the kernel function for `{self.argument}` returned shape {matrix.shape} for {A.shape[0]} and {B.shape[0]} "
                f"rows; it must return one value per pair, shape {(A.shape[0], B.shape[0])}."
            )
        return np.asarray(matrix)

    def _finite(self, matrix: np.ndarray) -> np.ndarray:
        """The matrix, unless its values are too large for a computer."""
        if not np.isfinite(matrix.sum()):
            raise ValueError(
                f"the {self.name} kernel of `{self.argument}` has values beyond the range of double precision; scale the "
                "features, e.g. with StandardScaler, or choose other parameters of the kernel."
            )
        return matrix

    def _prepared(self, block: MatrixLike) -> Matrix:
        """What the compiled loops of these kernels take: writable arrays, sparse ones with short indices."""
        if self.name != "laplacian":
            block = self._histograms(block)
        if not sparse.issparse(block):
            return np.require(block, requirements=["C", "W"])
        if block.indices.dtype == np.int32:
            return block
        return sparse.csr_matrix(
            (block.data, block.indices.astype(np.int32), block.indptr.astype(np.int32)), shape=block.shape
        )

    def _histograms(self, block: MatrixLike) -> np.ndarray:
        if block.size and block.min() < 0:
            raise ValueError(
                f"the {self.name} kernel compares histograms, but `{self.argument}` has negative values (the smallest is "
                f"{block.min():g}). Use non-negative features, or another kernel."
            )
        return np.asarray(block.toarray() if sparse.issparse(block) else block)

    def rows(self, X: MatrixLike, index: np.ndarray) -> Matrix:
        """Some training examples as the kernel's second argument: their rows, or positions if it is precomputed."""
        return index if self.name == "precomputed" else X[index]

    def among(self, X: MatrixLike, index: np.ndarray) -> np.ndarray:
        """Kernel matrix of some training examples."""
        return np.asarray(X[np.ix_(index, index)]) if self.name == "precomputed" else self(X[index])

    def expand(self, X: MatrixLike, rows: Matrix, coefficients: np.ndarray) -> np.ndarray:
        """Values at X of the kernel expansion over rows, one column for each row of coefficients.

        In blocks, so that predicting for many examples needs no large kernel matrix.
        """
        step = max(1, LARGEST_BLOCK // max(1, coefficients.shape[-1]))
        return np.concatenate([self(X[i : i + step], rows) @ coefficients.T for i in range(0, X.shape[0], step)])


def _length(block: Any) -> float:
    """Entries of a row that a product reads."""
    return float(block.nnz / max(1, block.shape[0]) if sparse.issparse(block) else block.shape[1])


def _rbf(A: np.ndarray, B: np.ndarray | None, gamma: float) -> np.ndarray:
    """exp(-gamma |a - b|^2), by scikit-learn's formula; its checks take longer than a matrix of 100 x 100."""
    if B is None:
        return _rbf_with_itself(A, gamma)
    squares = np.einsum("ij,ij->i", A, A)
    distances = -2.0 * (A @ B.T)
    distances += squares[:, None]
    distances += np.einsum("ij,ij->i", B, B)
    np.maximum(distances, 0.0, out=distances)
    distances *= -gamma
    return np.asarray(np.exp(distances, out=distances))


def _rbf_with_itself(A: np.ndarray, gamma: float) -> np.ndarray:
    """The upper triangle by bands that stay in a processor's cache, then mirrored."""
    n = len(A)
    squares = np.einsum("ij,ij->i", A, A)
    out = np.empty((n, n))
    for i in range(0, n, BAND):
        band = -2.0 * (A[i : i + BAND] @ A[i:].T)
        band += squares[i : i + BAND, None]
        band += squares[i:]
        np.maximum(band, 0.0, out=band)
        band *= -gamma
        np.exp(band, out=out[i : i + BAND, i:])
    scale_and_mirror(out, np.ones(n), out)
    np.fill_diagonal(out, 1.0)  # rounding must not make an example unlike itself
    return out


def all_are(value: Any, kernel: str) -> bool:
    """Whether a kernel parameter, of one space or of several, has this value throughout."""
    values = list(value.values() if isinstance(value, dict) else value) if is_per_space(value) else [value]
    return bool(values) and all(isinstance(one, str) and one == kernel for one in values)


def resolve_gamma(gamma: float | str, X: MatrixLike, weight: np.ndarray | None = None) -> float:
    """Value of ``gamma``: "scale" is 1 / (n_features * X.var()), "auto" 1 / n_features, a number itself.

    With ``weight`` the variance counts every row that often, so that an integer weight equals repeating the row.

    Examples
    --------
    >>> import numpy as np
    >>> resolve_gamma("scale", np.array([[0.0], [2.0]]))
    1.0
    """
    if gamma == "auto":
        return 1.0 / int(X.shape[1])
    if gamma != "scale":
        return float(gamma)
    weight = np.ones(X.shape[0]) if weight is None else weight
    total = weight.sum() * X.shape[1]
    mean = float((X.T @ weight).sum()) / total
    if sparse.issparse(X):
        variance = float((X.multiply(X).T @ weight).sum()) / total - mean * mean
        constant = variance <= 1e-15 * mean * mean
    else:
        # Deviations first: the difference of two squares would cancel for features far from 0.
        variance = float((((X - mean) ** 2).T @ weight).sum()) / total
        constant = variance <= 1e-30 * mean * mean
    # A variance of values around 1e-155 has no digits left, and its inverse is no number.
    constant = constant or X.shape[1] * variance < np.finfo(float).tiny
    return 1.0 if constant else float(1.0 / (X.shape[1] * variance))


def check_definite(kernel: Kernel, matrix: np.ndarray) -> None:
    """Refuse a kernel matrix with negative eigenvalues: the problem would have no optimum to certify."""
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"a precomputed kernel for `{kernel.argument}` must be square; its shape is {matrix.shape}.")
    asymmetry = float(np.max(np.abs(matrix - matrix.T), initial=0.0))
    size = float(np.max(np.abs(np.diagonal(matrix)), initial=0.0))
    if asymmetry > 1e-8 * max(size, float(np.max(np.abs(matrix), initial=0.0))):
        raise ValueError(
            f"the kernel matrix of `{kernel.argument}` is not symmetric (entries differ by up to {asymmetry:g}); "
            "a kernel gives the same value for (a, b) and (b, a)."
        )
    probe = matrix
    if len(matrix) > PROBE:
        index = np.random.default_rng(0).choice(len(matrix), PROBE, replace=False)
        probe = matrix[np.ix_(index, index)]
    # Kernels computed in single precision are off by about this much.
    shift = 1e-5 * max(size, 1e-300)
    try:
        cholesky(probe + shift * np.eye(len(probe)), lower=True, check_finite=False, overwrite_a=True)
    except LinAlgError:
        smallest = float(eigvalsh(probe, subset_by_index=[0, 0])[0])
        name = kernel.name if isinstance(kernel.name, str) else getattr(kernel.name, "__name__", "callable")
        advice = {
            "sigmoid": "choose a smaller gamma or coef0 >= 0, or use kernel='rbf'",
            "precomputed": "pass a positive semi-definite matrix, e.g. clip its negative eigenvalues at 0",
        }.get(name, "use a positive semi-definite kernel function")
        raise ValueError(
            f"the {name} kernel matrix of `{kernel.argument}` is indefinite (an eigenvalue of {smallest:.3g} or below): the "
            f"training problem is not convex and has no certified optimum; {advice}."
        ) from None


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
        Computes rows on demand.
    weight : float
        Multiplies the kernel (1 / lam for a privileged space).
    bias : bool
        Whether the space's function has an intercept, i.e. whether its coefficients sum to a constant.
    inexact : bool
        Whether ``matrix`` is only near the kernel of ``product``: solvers then look at the latter again.
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
        """Whether features describe the space better than its kernel matrix would."""
        return self.factor is not None and self.factor.shape[1] < 0.7 * self.n_examples

    @property
    def on_demand(self) -> bool:
        """Whether the full matrix is out of reach."""
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

    def weighted(self, single: bool = False) -> np.ndarray:
        """The kernel matrix with ``weight`` in it."""
        matrix = self.rounded if single else self.dense
        return matrix if self.weight == 1.0 else self.weight * matrix

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
        return self.weight * sparse_product(self.dense, coefficients)

    def rows(self, index: np.ndarray) -> np.ndarray:
        """Full rows, before ``weight``."""
        if self.source is not None:
            return self.source.rows(index)
        if self.matrix is None and self.factor is not None:
            return np.asarray(self.factor[index] @ self.factor.T)
        return np.asarray(self.dense[index])

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Weighted sub-matrix."""
        if self.source is not None:
            return self.weight * self.source.block(rows, columns)
        if self.matrix is None and self.factor is not None:
            return np.asarray(self.weight * (self.factor[rows] @ self.factor[columns].T))
        return np.asarray(self.weight * self.dense[np.ix_(rows, columns)])

    def add_block(self, out: np.ndarray, index: np.ndarray, signs: np.ndarray) -> None:
        """Add the weighted sub-matrix of some examples, rows and columns times signs, to the lower triangle of ``out``."""
        signs = np.sqrt(self.weight) * signs
        if self.source is None and (self.matrix is not None or self.factor is None):
            add_signed_block(out, self.dense, index, signs)
        elif self.source is None:
            assert self.factor is not None
            features = self.factor[index] * signs[:, None]
            out += features @ features.T
        else:
            used = np.flatnonzero(signs)
            block = self.source.block(index[used], index[used])
            out[np.ix_(used, used)] += signs[used][:, None] * block * signs[used]

    def blocks(self, single: bool) -> KernelBlocks | FeatureBlocks | MatrixBlocks:
        """The matrix (before ``weight``) by blocks, for solvers that never see all of it."""
        if self.source is not None:
            return self.source.blocks(single)
        if self.matrix is None and self.factor is not None:
            return FeatureBlocks(self.factor, single=single)
        return MatrixBlocks(self.dense, single=single)

    def features(self) -> np.ndarray:
        """Explicit features of a space that has them, ``weight`` included."""
        assert self.factor is not None
        return np.asarray(np.sqrt(self.weight) * self.factor)


def make_space(kernel: Kernel, data: Matrix, cache_size: float, *, available: np.ndarray | None = None) -> Space:
    """Space of the training data.

    Features where the kernel is linear and they are fewer than the examples, the full matrix where it fits into
    ``cache_size`` megabytes, otherwise rows on demand.
    """
    n = data.shape[0]
    if kernel.name == "linear" and not sparse.issparse(data) and data.shape[1] < 0.7 * n:
        return Space(factor=data)
    if kernel.name != "precomputed" and not fits(n, cache_size):
        if kernel.unsafe:
            index = np.arange(n) if available is None else np.flatnonzero(available)
            index = np.random.default_rng(0).choice(index, min(len(index), PROBE), replace=False)
            check_definite(kernel, kernel(data[index]))
        return Space(source=KernelRows(kernel, data, available))
    # A kernel function never sees the placeholder rows of examples that are not available.
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
    """Whether a full n x n matrix stays within cache_size megabytes, and within the memory that there is."""
    size = 8 * n * n
    # A caller without a limit cannot do without the matrix: it is told why there is none.
    if size > cache_size * 2**20 or np.isinf(cache_size):
        return size <= cache_size * 2**20
    return size <= ALWAYS_FREE or size <= USABLE * available_memory()


def require_matrix(n: int, what: str, copies: int = 1) -> None:
    """Refuse a square matrix over n examples or variables that does not fit, with what would."""
    size = 8.0 * n * n * copies
    if size > ALWAYS_FREE:
        require_memory(
            size,
            f"{what} ({n} x {n})",
            "take fewer examples, or use SVMPlus or SVM2Plus with solver='auto': with linear kernels or n_components they "
            "need no such matrix, with others they compute blocks of it on demand",
        )
