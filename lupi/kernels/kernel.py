"""Kernel functions: their parameters, values and expansions; the sum of the kernels of several privileged blocks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, blas, cholesky, eigvalsh
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils._param_validation import Interval, StrOptions

from lupi.inputs.training_set import (
    ArrayRows,
    PrivilegedBlock,
    check_privileged_rows,
    is_per_space,
    per_space,
    side_by_side,
    values_per_space,
)
from lupi.inputs.types import Matrix, MatrixLike
from lupi.kernels.linalg import OPERATIONS
from lupi.privacy import model_part

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

# Name -> parameters.
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
KERNEL_CONSTRAINTS: dict[str, list[Any]] = {
    "kernel": [StrOptions(set(KERNELS)), callable],
    "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
    "degree": [Interval(Real, 0, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
}
# The same for the privileged space, with one value or one per space.
PRIVILEGED_KERNEL_CONSTRAINTS: dict[str, Any] = {
    f"privileged_{name}": per_space(constraint) for name, constraint in KERNEL_CONSTRAINTS.items()
}
# Largest principal sub-matrix whose eigenvalues are checked.
PROBE = 1500
# Kernel values that a prediction holds at a time.
LARGEST_BLOCK = 2**24
# Rows of a kernel matrix that are computed at a time; the block stays in the processor's cache.
BAND = 128
# A matrix of this many rows stays in the cache as a whole.
WHOLE_ROWS = 320
# A column is far from 0 if its variance is less than this share of its mean square, in so many rows.
NEARLY_CONSTANT, SAMPLE_ROWS = 1e-4, 64
# Kernels without a matrix product, and the operations of one call: Ctrl-C waits for its end.
SLOW_KERNELS = ("chi2", "laplacian")
SLOW_OPERATIONS = 3e8


@model_part
@dataclass(frozen=True)
class Kernel:
    """A kernel function with all parameters fixed.

    Parameters
    ----------
    name : str or callable
        One of ``KERNELS``, or a function of two feature matrices that returns their kernel matrix.
    gamma, degree, coef0 : float
        Parameters; a kernel ignores those that it does not have.
    argument : str
        Name of the data in messages: "X" or "privileged".

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
        """Kernel of an estimator's parameters (``prefix="privileged_"``: the privileged ones); gamma from the data."""
        values = (getattr(estimator, prefix + key) for key in KERNEL_CONSTRAINTS)
        return cls.fixed(*values, data=data, weight=weight, argument="privileged" if prefix else "X")

    @classmethod
    def fixed(
        cls,
        name: str | Callable[..., Any],
        gamma: float | str,
        degree: float,
        coef0: float,
        *,
        data: Matrix,
        weight: np.ndarray | None = None,
        argument: str = "X",
    ) -> Kernel:
        """Kernel whose gamma, where it has one, is resolved on the data."""
        uses_gamma = isinstance(name, str) and "gamma" in KERNELS[name]
        return cls(name, resolve_gamma(gamma, data, weight) if uses_gamma else 1.0, degree, coef0, argument)

    @property
    def unsafe(self) -> bool:
        """Whether the kernel matrix may have negative eigenvalues."""
        if self.name == "poly":
            return self.coef0 < 0 or self.degree != int(self.degree)
        return callable(self.name) or self.name in ("sigmoid", "precomputed")

    def __call__(self, A: Matrix, B: Matrix | None = None) -> np.ndarray:
        """Kernel matrix between the rows of A and of B (default: A).

        Of a precomputed kernel A holds the values with all training examples, and B positions of training examples.
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
        entries: Any = getattr(B, "nnz", B.size)
        most = SLOW_OPERATIONS if self.name in SLOW_KERNELS else OPERATIONS
        step = max(1, int(most / max(1.0, float(entries))))
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
        if self.name == "rbf":
            A, B = _near_zero(A, B)
            if not (sparse.issparse(A) or sparse.issparse(B)):
                return _rbf_matrix(A, self.gamma) if B is None else _rbf(A, B, self.gamma)
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
        if not np.isfinite(matrix.sum()):
            raise ValueError(
                f"the {self.name} kernel of `{self.argument}` has values beyond the range of double precision; scale the "
                "features, e.g. with StandardScaler, or choose other parameters of the kernel."
            )
        return matrix

    def _prepared(self, block: MatrixLike) -> Matrix:
        """Writable arrays, or sparse matrices with 32-bit indices: scikit-learn's compiled loops need them."""
        if self.name != "laplacian":
            if block.size and block.min() < 0:
                raise ValueError(
                    f"the {self.name} kernel compares histograms, but `{self.argument}` has negative values (the smallest is "
                    f"{block.min():g}). Use non-negative features, or another kernel."
                )
            block = block.toarray() if sparse.issparse(block) else block
        if not sparse.issparse(block):
            return np.require(block, requirements=["C", "W"])
        if block.indices.dtype == np.int32:
            return block
        return sparse.csr_matrix(
            (block.data, block.indices.astype(np.int32), block.indptr.astype(np.int32)), shape=block.shape
        )

    def rows(self, X: MatrixLike, index: np.ndarray) -> Matrix:
        """Some training examples as the kernel's second argument: rows, or positions if it is precomputed."""
        return index if self.name == "precomputed" else X[index]

    def among(self, X: MatrixLike, index: np.ndarray) -> np.ndarray:
        """Kernel matrix of some training examples."""
        return np.asarray(X[np.ix_(index, index)]) if self.name == "precomputed" else self(X[index])

    def expand(self, X: MatrixLike, rows: Matrix, coefficients: np.ndarray) -> np.ndarray:
        """Values at X of the kernel expansion over rows, one column per row of coefficients; computed in blocks."""
        step = max(1, LARGEST_BLOCK // max(1, coefficients.shape[-1]))
        return np.concatenate([self(X[i : i + step], rows) @ coefficients.T for i in range(0, X.shape[0], step)])


@model_part
@dataclass(frozen=True)
class SumKernel(Kernel):
    r"""Weighted sum of kernels, each on columns of its own.

    .. math:: K(z, z') = \sum_m w_m \, o_m(z) \, o_m(z') \, K_m(z_m, z'_m)

    The columns are those of the first space, of the second space and so on, followed by one column :math:`o_m` per space: 1
    where the example has the space, else 0. A missing space contributes nothing.

    Parameters
    ----------
    name : str
        "sum".
    parts : tuple of Kernel
    widths : tuple of int
        Number of columns of each space.
    weights : tuple of float

    Examples
    --------
    >>> import numpy as np
    >>> kernel = SumKernel("sum", parts=(Kernel("linear"), Kernel("linear")), widths=(1, 1), weights=(1.0, 10.0))
    >>> kernel(np.array([[1.0, 2.0, 1.0, 1.0], [3.0, 0.0, 1.0, 0.0]]))  # the second example has no second space
    array([[41.,  3.],
           [ 3.,  9.]])
    """

    parts: tuple[Kernel, ...] = ()
    widths: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()

    @property
    def unsafe(self) -> bool:
        """Whether the kernel matrix may have negative eigenvalues."""
        return any(part.unsafe for part in self.parts)

    def __call__(self, A: np.ndarray, B: np.ndarray | None = None) -> np.ndarray:
        """Kernel matrix between the rows of A and of B (default: A)."""
        other = A if B is None else B
        out = np.zeros((A.shape[0], other.shape[0]))
        ends = np.cumsum((0, *self.widths))
        for m, (part, weight) in enumerate(zip(self.parts, self.weights)):
            columns, present = slice(ends[m], ends[m + 1]), ends[-1] + m
            left, right = (np.flatnonzero(block[:, present]) for block in (A, other))
            if not len(left) or not len(right):
                continue
            values = part(A[left, columns], None if B is None else B[right, columns])
            values *= weight
            if values.shape == out.shape:
                out += values
            else:
                out[np.ix_(left, right)] += values
        return out


@model_part
@dataclass(frozen=True)
class BlockStack:
    r"""How privileged blocks become one: the kernel :math:`\sum_m w_m K_m` with :math:`w_m = \lambda_0 / \lambda_m`.

    With :math:`1 / \lambda_0 = \sum_m 1 / \lambda_m`, this kernel over :math:`\lambda_0` is :math:`\sum_m K_m / \lambda_m`.
    An example that lacks a block contributes nothing to its kernel.

    Attributes
    ----------
    columns : tuple of (name, n_columns)
        Of each block.
    weights : tuple of float
        :math:`w_m`; 1 for an estimator without ``lam``.
    form : {"single", "linear", "precomputed", "sum"}
        One block; columns times roots of the weights; kernel matrices added up; columns and one flag per block that
        marks the examples that have it, for a :class:`SumKernel`.
    """

    columns: tuple[tuple[Hashable | None, int], ...]
    weights: tuple[float, ...]
    form: str

    @classmethod
    def of(cls, estimator: Any, blocks: Sequence[PrivilegedBlock]) -> BlockStack:
        """Stack of the blocks of a training set, by the parameters of an estimator."""
        columns = tuple((block.name, block.rows.shape[1]) for block in blocks)
        if len(blocks) == 1:
            return cls(columns, (1.0,), "single")
        names = [block.name for block in blocks]
        values = values_per_space(estimator, "privileged_kernel", names)
        kernels = [kernel if isinstance(kernel, str) else "" for kernel in values]
        form = kernels[0] if set(kernels) in ({"linear"}, {"precomputed"}) else "sum"
        if form == "sum" and "precomputed" in kernels:
            raise ValueError(
                f"{type(estimator).__name__}: `privileged_kernel` is 'precomputed' for some spaces only; pass kernel matrices "
                "for all spaces, or features for all."
            )
        weights = (1.0,) * len(names)
        if hasattr(estimator, "lam"):
            shares = 1.0 / np.array(values_per_space(estimator, "lam", names), dtype=float)
            weights = tuple(map(float, shares / shares.sum()))
        return cls(columns, weights, form)

    def lam(self, estimator: Any) -> float:
        r"""Weight :math:`\lambda_0` of the norm that belongs to the kernel."""
        return float(1.0 / np.sum(1.0 / np.array(values_per_space(estimator, "lam", self.names), dtype=float)))

    @property
    def names(self) -> list[Any]:
        """Names of the blocks."""
        return [name for name, _ in self.columns]

    @property
    def column_scale(self) -> np.ndarray:
        """Factors of the columns of a linear stack."""
        return np.repeat(np.sqrt(self.weights), [n_columns for _, n_columns in self.columns])

    def join(self, blocks: Sequence[PrivilegedBlock]) -> PrivilegedBlock:
        """The blocks as one; an example is available where it has any of them."""
        if self.form == "single":
            return blocks[0]
        available = np.any([block.available for block in blocks], axis=0)
        if self.form == "linear":
            return PrivilegedBlock(
                None, side_by_side([b.rows for b in blocks], np.sqrt(self.weights).tolist()), available
            )
        values = [block.rows.values for block in blocks]
        if self.form == "precomputed":
            total = sum(weight * matrix for weight, matrix in zip(self.weights, values))
            return PrivilegedBlock(None, ArrayRows(total, square=blocks[0].rows.square), available)
        flags = np.column_stack([block.available for block in blocks]).astype(float)
        dense = [matrix.toarray() if sparse.issparse(matrix) else matrix for matrix in values]
        return PrivilegedBlock(None, ArrayRows(np.ascontiguousarray(np.hstack([*dense, flags]))), available)

    def kernel(self, estimator: Any, joined: PrivilegedBlock, weight: np.ndarray) -> Kernel:
        """Kernel of the joined block; gamma of each block is resolved on the examples that have it."""
        if self.form == "single":
            rows = joined.rows if joined.rows.square else joined.rows.take(np.flatnonzero(joined.available))
            return Kernel.of(estimator, rows.operand, "privileged_", weight[joined.available])
        if self.form != "sum":
            return Kernel(self.form, argument="privileged")
        settings = zip(*(values_per_space(estimator, f"privileged_{key}", self.names) for key in KERNEL_CONSTRAINTS))
        return self.sum_kernel(
            [
                replace(
                    Kernel.fixed(*setting, data=data if len(data) else np.zeros((1, data.shape[1])), weight=kept),
                    argument=f"privileged[{name!r}]",
                )
                for setting, name, (data, kept) in zip(settings, self.names, self._parts(joined, weight))
            ]
        )

    def sum_kernel(self, parts: Sequence[Kernel]) -> SumKernel:
        """Sum of one kernel per block, on the columns of a joined block."""
        widths = tuple(n_columns for _, n_columns in self.columns)
        return SumKernel("sum", argument="privileged", parts=tuple(parts), widths=widths, weights=self.weights)

    def _parts(self, joined: PrivilegedBlock, weight: np.ndarray) -> list[tuple[np.ndarray, np.ndarray | None]]:
        """Features and weights of the examples that have each block."""
        values, ends = joined.rows.values, np.cumsum([0, *(n_columns for _, n_columns in self.columns)])
        masks = [values[:, ends[-1] + m] > 0 for m in range(len(self.columns))]
        return [
            (values[mask, start:end], weight[mask] if mask.any() else None)
            for mask, start, end in zip(masks, ends, ends[1:])
        ]

    def read(self, estimator: Any, privileged: Any) -> PrivilegedBlock:
        """New privileged rows, checked against those of `fit` and joined."""
        return self.join(check_privileged_rows(estimator, privileged, self.columns))


def _near_zero(A: Any, B: Any) -> tuple[Any, Any]:
    """Rows with columns far from 0 centered, because squares would cancel in a distance; sparse rows stay sparse."""
    sample = (B if B is not None and B.shape[0] else A)[:SAMPLE_ROWS]
    squares = sample.multiply(sample) if sparse.issparse(sample) else np.square(sample)
    mean, square = np.ravel(sample.mean(axis=0)), np.ravel(squares.mean(axis=0))
    center = np.where(square - mean**2 < NEARLY_CONSTANT * square, mean, 0.0)
    if not center.any():
        return A, B

    def moved(rows: Any) -> Any:
        row = sparse.csr_matrix(center)
        return rows - (sparse.kron(np.ones((rows.shape[0], 1)), row, "csr") if sparse.issparse(rows) else center)

    return moved(A), None if B is None else moved(B)


def _rbf(A: np.ndarray, B: np.ndarray, gamma: float) -> np.ndarray:
    """exp(-gamma |a - b|^2); scikit-learn's checks take longer than a matrix of 100 x 100."""
    distances = -2.0 * (A @ B.T)
    distances += np.einsum("ij,ij->i", A, A)[:, None]
    distances += np.einsum("ij,ij->i", B, B)
    np.maximum(distances, 0.0, out=distances)
    distances *= -gamma
    return np.asarray(np.exp(distances, out=distances))


def _rbf_matrix(A: np.ndarray, gamma: float) -> np.ndarray:
    """The same of A with itself; of large matrices the upper triangle in bands, then mirrored."""
    n = len(A)
    squares = np.einsum("ij,ij->i", A, A)
    if n <= WHOLE_ROWS:
        out: np.ndarray = A @ A.T  # symmetric to the last bit, as every step below
        out *= -2.0
        out += squares[:, None] + squares
        np.maximum(out, 0.0, out=out)
        out *= -gamma
        np.exp(out, out=out)
        np.fill_diagonal(out, 1.0)
        return out
    out = np.empty((n, n))
    for i in range(0, n, BAND):
        band = -2.0 * (A[i : i + BAND] @ A[i:].T)
        band += squares[i : i + BAND, None]
        band += squares[i:]
        np.maximum(band, 0.0, out=band)
        band *= -gamma
        np.exp(band, out=out[i : i + BAND, i:])
    scale_and_mirror(out)
    np.fill_diagonal(out, 1.0)
    return out


def self_products(X: np.ndarray) -> np.ndarray:
    """X X' at half the work of a general product."""
    n, d = X.shape
    if d == 0:  # BLAS refuses, on the error stream
        return np.zeros((n, n))
    together = max(1, int(OPERATIONS / max(1, n * n)))
    product: np.ndarray = blas.dsyrk(1.0, np.ascontiguousarray(X[:, :together]).T, trans=1, lower=1)
    for start in range(together, d, together):
        columns = np.ascontiguousarray(X[:, start : start + together]).T
        product = blas.dsyrk(1.0, columns, trans=1, lower=1, beta=1.0, c=product, overwrite_c=1)
    product = product.T
    scale_and_mirror(product)
    return product


def scale_and_mirror(matrix: np.ndarray, scale: np.ndarray | None = None) -> None:
    """Overwrite a matrix by scale_i scale_j matrix_ij (default: 1) of its upper triangle, and its transpose."""
    for i in range(0, len(matrix), BAND):
        band = matrix[i : i + BAND, i:]
        if scale is not None:
            band *= np.multiply.outer(scale[i : i + BAND], scale[i:])
        corner = band[:, : len(band)]
        corner[:] = np.triu(corner) + np.triu(corner, 1).T
        matrix[i + BAND :, i : i + BAND] = band[:, BAND:].T


def all_are(value: Any, kernel: str) -> bool:
    """Whether a kernel parameter, of one space or of several, has this value throughout."""
    values = list(value.values() if isinstance(value, dict) else value) if is_per_space(value) else [value]
    return bool(values) and all(isinstance(one, str) and one == kernel for one in values)


def resolve_gamma(gamma: float | str, X: MatrixLike, weight: np.ndarray | None = None) -> float:
    """Value of ``gamma``: "scale" is 1 / (n_features * X.var()), "auto" 1 / n_features, a number itself.

    Sample weights enter the variance, so that an integer weight equals repeated rows.

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
    # Deviations first: the difference of two squares would cancel for features far from 0.
    if sparse.issparse(X):
        stored = np.diff(X.indptr)
        squares = np.repeat(weight, stored) @ (X.data - mean) ** 2 + weight @ (X.shape[1] - stored) * mean**2
    else:
        squares = (((X - mean) ** 2).T @ weight).sum()
    variance = float(squares) / total
    # Variances near the smallest float have no finite inverse.
    constant = variance <= 1e-30 * mean * mean or X.shape[1] * variance < np.finfo(float).tiny
    return 1.0 if constant else float(1.0 / (X.shape[1] * variance))


def check_definite(kernel: Kernel, matrix: np.ndarray) -> None:
    """Raise if a kernel matrix is not symmetric or has negative eigenvalues: the problem would have no optimum."""
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
    # The error of kernels that were computed in single precision.
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
