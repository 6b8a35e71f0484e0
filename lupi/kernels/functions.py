"""Kernel functions of either space: parameters resolved once, full matrices, and rows on demand."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy import sparse
from scipy.linalg import LinAlgError, blas, cholesky, eigh, eigvalsh
from sklearn.metrics.pairwise import pairwise_kernels

from lupi.engine.model_parts import model_part

KERNELS = ("linear", "rbf", "poly", "sigmoid", "chi2", "laplacian", "precomputed")
# Kernels that are not positive semi-definite for every choice of parameters or user's code.
UNSAFE = ("sigmoid", "precomputed")
# An indefinite matrix betrays itself in a principal sub-matrix of this size.
PROBE = 1500


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

    name: str | Callable
    gamma: float = 1.0
    degree: float = 3
    coef0: float = 0.0
    argument: str = "X"

    @property
    def unsafe(self) -> bool:
        """Whether the kernel matrix may have negative eigenvalues."""
        return callable(self.name) or self.name in UNSAFE

    def __call__(self, A, B=None) -> np.ndarray:
        """Kernel matrix between the rows of A and of B (of A itself by default)."""
        if callable(self.name):
            return self._checked(self.name(A, A if B is None else B), A, A if B is None else B)
        if self.name == "precomputed":
            return np.ascontiguousarray(A, dtype=np.float64)
        if self.name == "chi2":
            for block in (A, B):
                if block is not None and block.size and block.min() < 0:
                    raise ValueError(
                        f"the chi2 kernel compares histograms, but `{self.argument}` has negative values (the smallest is "
                        f"{block.min():g}). Use non-negative features, or another kernel."
                    )
            A, B = (x.toarray() if sparse.issparse(x) else x for x in (A, A if B is None else B))
        if self.name == "linear" and B is None and not sparse.issparse(A):
            return _self_products(A)
        if self.name == "rbf" and not (sparse.issparse(A) or sparse.issparse(B)):
            return _rbf(A, B, self.gamma)
        used = {"rbf": ("gamma",), "laplacian": ("gamma",), "chi2": ("gamma",), "sigmoid": ("gamma", "coef0")}
        keys = ("gamma", "degree", "coef0") if self.name == "poly" else used.get(self.name, ())
        return pairwise_kernels(A, B, metric=self.name, **{key: getattr(self, key) for key in keys})

    def _checked(self, matrix, A, B) -> np.ndarray:
        matrix = np.ascontiguousarray(matrix, dtype=np.float64)
        if matrix.shape != (A.shape[0], B.shape[0]):
            raise ValueError(
                f"the kernel function for `{self.argument}` returned shape {matrix.shape} for {A.shape[0]} and {B.shape[0]} "
                f"rows; it must return one value per pair, shape {(A.shape[0], B.shape[0])}."
            )
        return matrix


def _rbf(A: np.ndarray, B: np.ndarray | None, gamma: float) -> np.ndarray:
    """exp(-gamma |a - b|^2), by scikit-learn's formula; its checks take longer than a matrix of 100 x 100."""
    squares = np.einsum("ij,ij->i", A, A)
    distances = -2.0 * (A @ (A if B is None else B).T)
    distances += squares[:, None]
    distances += squares if B is None else np.einsum("ij,ij->i", B, B)
    np.maximum(distances, 0.0, out=distances)
    if B is None:
        np.fill_diagonal(distances, 0.0)  # rounding must not make an example unlike itself
    distances *= -gamma
    return np.exp(distances, out=distances)


def _self_products(X: np.ndarray) -> np.ndarray:
    """X X' at half the work of a general product."""
    product = blas.dsyrk(1.0, np.ascontiguousarray(X).T, trans=1, lower=1).T
    scale_and_mirror(product, np.ones(len(product)))
    return product


@njit(cache=True)
def scale_and_mirror(matrix, scale):
    """From the upper triangle, in place: matrix_ij = matrix_ji = scale_i scale_j matrix_ij, block by block."""
    n = matrix.shape[0]
    for bi in range(0, n, 64):
        for bj in range(bi, n, 64):
            for i in range(bi, min(bi + 64, n)):
                for j in range(max(bj, i), min(bj + 64, n)):
                    value = scale[i] * scale[j] * matrix[i, j]
                    matrix[i, j] = value
                    matrix[j, i] = value


def resolve_gamma(gamma, X, weight=None) -> float:
    """Value of ``gamma``: "scale" is 1 / (n_features * X.var()), "auto" 1 / n_features, a number itself.

    With ``weight`` the variance counts every row that often, so that an integer weight equals repeating the row.

    Examples
    --------
    >>> import numpy as np
    >>> resolve_gamma("scale", np.array([[0.0], [2.0]]))
    1.0
    """
    if gamma == "auto":
        return 1.0 / X.shape[1]
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


class KernelRows:
    """Rows of a kernel matrix, computed when needed and kept while ``cache_size`` allows: the least recently used go first.

    Parameters
    ----------
    kernel : Kernel
    X : ndarray or CSR matrix
    cache_size : float
        Megabytes.
    available : bool ndarray, optional
        Rows and columns of the others are 0.

    Examples
    --------
    >>> import numpy as np
    >>> rows = KernelRows(Kernel("linear"), np.array([[1.0], [2.0], [3.0]]), cache_size=1)
    >>> rows.rows(np.array([2]))
    array([[3., 6., 9.]])
    """

    def __init__(self, kernel: Kernel, X, cache_size: float = 200, available: np.ndarray | None = None):
        self.kernel, self.X, self.available = kernel, X, available
        self._known = X if available is None else X[available]
        n = X.shape[0]
        self.capacity = max(2, min(n, int(cache_size * 2**20 / (8 * n))))
        self._store: np.ndarray | None = None
        self._slot: OrderedDict[int, int] = OrderedDict()

    def __len__(self) -> int:
        return self.X.shape[0]

    def rows(self, index: np.ndarray) -> np.ndarray:
        """Full rows of the kernel matrix, from the cache where they are still there."""
        if self._store is None:
            self._store = np.empty((self.capacity, len(self)))
        out = np.empty((len(index), len(self)))
        missing = []
        for place, i in enumerate(index.tolist()):
            if i in self._slot:
                self._slot.move_to_end(i)
                out[place] = self._store[self._slot[i]]
            else:
                missing.append(place)
        if missing:
            out[missing] = self._compute(index[missing])
            for place in missing[-self.capacity :]:
                i = int(index[place])
                if i in self._slot:  # the same row was asked for twice
                    continue
                slot = len(self._slot) if len(self._slot) < self.capacity else self._slot.popitem(last=False)[1]
                self._slot[i] = slot
                self._store[slot] = out[place]
        return out

    def _compute(self, index: np.ndarray) -> np.ndarray:
        if self.available is None:
            return self.kernel(self.X[index], self.X)
        block = np.zeros((len(index), len(self)))
        rows = np.flatnonzero(self.available[index])
        if len(rows):
            block[np.ix_(rows, self.available)] = self.kernel(self.X[index[rows]], self._known)
        return block

    def product(self, coefficients: np.ndarray, chunk: int = 512) -> np.ndarray:
        """Kernel matrix times a vector, a few rows of the non-zero coefficients at a time."""
        used = np.flatnonzero(coefficients)
        out = np.zeros(len(self))
        for start in range(0, len(used), chunk):
            part = used[start : start + chunk]
            out += coefficients[part] @ self._compute(part)
        return out

    def diagonal(self, chunk: int = 64) -> np.ndarray:
        """Kernel of every example with itself."""
        parts = [self._known[start : start + chunk] for start in range(0, self._known.shape[0], chunk)]
        values = np.zeros(len(self))
        values[slice(None) if self.available is None else self.available] = np.concatenate(
            [np.diagonal(self.kernel(part, part)) for part in parts]
        )
        return values

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """A sub-matrix."""
        return self.rows(rows)[:, columns]


@dataclass(frozen=True)
class LandmarkFeatures:
    """Nystroem features: ``features(A) @ features(B).T`` approximates the kernel, exactly so at the landmarks.

    Attributes
    ----------
    kernel : Kernel
    landmarks : ndarray or CSR matrix
        Randomly chosen rows.
    projection : ndarray
        Inverse square root of the landmarks' kernel matrix.

    Examples
    --------
    >>> import numpy as np
    >>> Z = np.array([[0.0], [1.0], [2.0]])
    >>> features = LandmarkFeatures.choose(Kernel("rbf"), Z, 3, np.random.RandomState(0))
    >>> bool(np.allclose(features(Z) @ features(Z).T, Kernel("rbf")(Z)))
    True
    """

    kernel: Kernel
    landmarks: np.ndarray
    projection: np.ndarray

    @classmethod
    def choose(cls, kernel: Kernel, Z, n_landmarks: int, random_state: np.random.RandomState) -> LandmarkFeatures:
        """Features from a random sample of the rows of Z."""
        index = random_state.choice(Z.shape[0], min(n_landmarks, Z.shape[0]), replace=False)
        landmarks = Z[np.sort(index)]
        values, vectors = eigh(kernel(landmarks))
        keep = values > 1e-12 * values[-1]
        return cls(kernel, landmarks, vectors[:, keep] / np.sqrt(values[keep]))

    def __call__(self, Z) -> np.ndarray:
        """Feature matrix, one row per example."""
        return self.kernel(Z, self.landmarks) @ self.projection


def fits(n: int, cache_size: float) -> bool:
    """Whether a full n x n matrix stays within cache_size megabytes."""
    return 8 * n * n <= cache_size * 2**20
