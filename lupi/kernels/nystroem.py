"""Explicit features of a kernel: linear, exact, or Nystroem's from landmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh, qr
from sklearn.utils import check_random_state

from lupi.inputs.memory import require_memory
from lupi.inputs.types import Matrix, MatrixLike, RandomState
from lupi.kernels.kernel import LARGEST_BLOCK, Kernel, check_definite

# Up to here an eigendecomposition of the kernel matrix takes about a second.
EXACT_KERNEL_LIMIT = 2000
DEFAULT_COMPONENTS = 500
# With fewer examples than features, n coordinates of the examples' span are exact and cheaper than d features.
WIDE_LIMIT = 500
# Examples on which the error of an approximation is measured.
TRACE_SAMPLE = 2000
# More values than this are kept in single precision: the approximation is far coarser.
MOST_IN_DOUBLE = 2**25


@dataclass(frozen=True)
class FeatureSpace:
    """Features whose inner products are the kernel: exact on the span of ``rows``, approximate elsewhere.

    Attributes
    ----------
    kernel : Kernel
    values : ndarray or CSR matrix of shape (n, r)
        Features of the training examples.
    rows : ndarray, CSR matrix or None
        Examples of the kernel expansion, as the kernel's second argument: all of them, or Nystroem's landmarks. None for the
        linear kernel.
    projection : ndarray or None
        From the kernel's values at ``rows`` (linear kernel: from the features) to ``values``; None for the identity.
    landmarks : ndarray or None
        Positions of Nystroem's landmarks among the training examples.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> space = FeatureSpace.of(Kernel("rbf"), X)
    >>> bool(np.allclose(space.values @ space.values.T, Kernel("rbf")(X)))
    True
    """

    kernel: Kernel
    values: Any
    rows: Any = None
    projection: np.ndarray | None = None
    landmarks: np.ndarray | None = None

    @classmethod
    def of(
        cls, kernel: Kernel, X: MatrixLike, *, n_components: int | None = None, random_state: RandomState = None
    ) -> FeatureSpace:
        """Features of the training examples X (of a precomputed kernel: its matrix).

        Exact for the linear kernel and, without ``n_components``, for up to 2000 examples; otherwise Nystroem with
        ``n_components`` (default 500) landmarks.
        """
        n, d = X.shape
        if kernel.name == "linear" and n < d and n <= WIDE_LIMIT and n * d <= 2**25:
            basis, triangle = qr((X.toarray() if sparse.issparse(X) else X).T, mode="economic")
            return cls(kernel, np.ascontiguousarray(triangle.T), projection=basis)
        if kernel.name == "linear":
            return cls(kernel, X)
        if n_components is not None or n > EXACT_KERNEL_LIMIT:
            return cls.nystroem(kernel, X, n_components or DEFAULT_COMPONENTS, random_state)
        matrix = kernel(X)
        if kernel.unsafe:
            check_definite(kernel, matrix)
        values, vectors = eigh(matrix)
        keep = values > n * np.finfo(float).eps * max(values[-1], 0.0)
        root = np.sqrt(values[keep])
        return cls(kernel, vectors[:, keep] * root, kernel.rows(X, np.arange(n)), vectors[:, keep] / root)

    @classmethod
    def nystroem(
        cls, kernel: Kernel, X: MatrixLike, n_landmarks: int, random_state: RandomState = None, tol: float = 1e-12
    ) -> FeatureSpace:
        """Features from random rows, the landmarks, where the kernel is exact; eigenvalues below ``tol`` are dropped."""
        n = X.shape[0]
        index = np.sort(check_random_state(random_state).choice(n, min(n_landmarks, n), replace=False))
        matrix = kernel.among(X, index)
        if kernel.unsafe:
            check_definite(kernel, matrix)
        values, vectors = eigh(matrix)
        keep = values > tol * values[-1]
        rows, projection = kernel.rows(X, index), vectors[:, keep] / np.sqrt(values[keep])
        return cls(kernel, _projected(kernel, X, rows, projection), rows, projection, index)

    def trace_error(self, X: MatrixLike, random_state: RandomState = None) -> float:
        """Share of the kernel's trace that the features miss, on up to 2000 random training examples: 0 where exact.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.array([[0.0], [1.0], [2.0]])
        >>> round(FeatureSpace.nystroem(Kernel("rbf"), X, 1, random_state=0).trace_error(X), 3)
        0.621
        """
        n = X.shape[0]
        index = check_random_state(random_state).choice(n, min(n, TRACE_SAMPLE), replace=False)
        parts = [index[i : i + 64] for i in range(0, len(index), 64)]
        trace = sum(float(np.trace(self.kernel.among(X, part))) for part in parts)
        kept = np.square(self.values[index], dtype=np.float64).sum()
        return max(0.0, 1.0 - float(kept) / trace) if trace > 0 else 0.0

    def transform(self, X: MatrixLike) -> Matrix:
        """Features of new examples."""
        X = X if self.rows is None else self.kernel(X, self.rows)
        return X if self.projection is None else X @ self.projection

    def coefficients(self, weights: np.ndarray) -> np.ndarray:
        """Coefficients over ``rows`` (linear kernel: weights of the features) of a function with these weights."""
        return weights if self.projection is None else self.projection @ weights

    def fitted_attributes(self, weights: np.ndarray) -> dict[str, Any]:
        """Attributes of a fitted estimator: ``coef_``, or ``dual_coef_`` with the rows ``X_fit_`` that it belongs to."""
        if self.rows is None:
            return {"coef_": self.coefficients(weights)}
        return {"dual_coef_": self.coefficients(weights), "X_fit_": self.rows}


def _projected(kernel: Kernel, X: MatrixLike, rows: np.ndarray, projection: np.ndarray) -> np.ndarray:
    """Features of all examples, computed in blocks."""
    n, r = X.shape[0], projection.shape[1]
    dtype = np.float64 if n * r <= MOST_IN_DOUBLE else np.float32
    require_memory(
        float(n) * r * np.dtype(dtype).itemsize,
        f"{r} features of {n} examples in place of the kernel of `{kernel.argument}`",
        "take fewer components or examples",
    )
    out = np.empty((n, r), dtype=dtype)
    step = max(1, LARGEST_BLOCK // max(1, len(projection)))
    for i in range(0, n, step):
        out[i : i + step] = kernel(X[i : i + step], rows) @ projection
    return out
