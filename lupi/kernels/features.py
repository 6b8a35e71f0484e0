"""Explicit features in which a linear learner is the kernel machine itself, with the way back to what an estimator keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh, qr
from sklearn.utils import check_random_state

from lupi.inputs.memory import require_memory
from lupi.inputs.types import Matrix, MatrixLike, RandomState
from lupi.kernels.space import LARGEST_BLOCK, Kernel, check_definite

# Up to here an eigendecomposition of the kernel matrix takes about a second.
EXACT_KERNEL_LIMIT = 2000
DEFAULT_COMPONENTS = 500
# With fewer examples than features, n coordinates of the examples' span are exact and cheaper than d features.
WIDE_LIMIT = 500
# Examples that an approximation's error is measured on.
TRACE_SAMPLE = 2000
# More values than this are kept in single precision: the approximation is far coarser.
MOST_IN_DOUBLE = 2**25


@dataclass(frozen=True)
class FeatureSpace:
    """Features whose inner products are the kernel: exactly so on the span of ``rows``, an approximation elsewhere.

    Attributes
    ----------
    kernel : Kernel
    values : ndarray or CSR matrix of shape (n, r)
        Features of the training examples.
    rows : ndarray, CSR matrix or None
        Examples of the kernel expansion, as the second argument of the kernel: all of them, or Nystroem's landmarks. None
        for the linear kernel, whose functions are weights of the features.
    projection : ndarray or None
        From the kernel's values at ``rows`` (of the linear kernel: from the features) to ``values``; None for the identity.
    landmarks : ndarray or None
        Which training examples ``rows`` are, where they are Nystroem's landmarks.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> space = FeatureSpace.of(Kernel("rbf"), X)
    >>> bool(np.allclose(space.features() @ space.features().T, Kernel("rbf")(X)))
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
        """Exact features where they are affordable: of the linear kernel always, of others up to 2000 examples.

        Parameters
        ----------
        kernel : Kernel
        X : array or CSR matrix of shape (n, d)
            Training examples; the kernel matrix of a precomputed kernel.
        n_components : int, optional
            Use Nystroem with so many landmarks. None: only beyond 2000 examples, with 500.
        random_state : int, RandomState or None
            Chooses the landmarks.
        """
        if kernel.name == "linear":
            return cls._linear(kernel, X)
        if n_components is None and X.shape[0] <= EXACT_KERNEL_LIMIT:
            return cls._exact(kernel, X)
        return cls.nystroem(kernel, X, n_components or DEFAULT_COMPONENTS, random_state)

    @classmethod
    def _linear(cls, kernel: Kernel, X: MatrixLike) -> FeatureSpace:
        n, d = X.shape
        if not (n < d and n <= WIDE_LIMIT and n * d <= 2**25):
            return cls(kernel, X)
        basis, triangle = qr((X.toarray() if sparse.issparse(X) else X).T, mode="economic")
        return cls(kernel, np.ascontiguousarray(triangle.T), projection=basis)

    @classmethod
    def _exact(cls, kernel: Kernel, X: MatrixLike) -> FeatureSpace:
        matrix = kernel(X)
        if kernel.unsafe:
            check_definite(kernel, matrix)
        values, vectors = eigh(matrix)
        keep = values > len(values) * np.finfo(float).eps * max(values[-1], 0.0)
        root = np.sqrt(values[keep])
        rows = kernel.rows(X, np.arange(X.shape[0]))
        return cls(kernel, vectors[:, keep] * root, rows, vectors[:, keep] / root)

    @classmethod
    def nystroem(
        cls, kernel: Kernel, X: MatrixLike, n_landmarks: int, random_state: RandomState = None
    ) -> FeatureSpace:
        """Features from a random sample of the rows, the landmarks: the kernel is exact there, and approximate elsewhere."""
        n = X.shape[0]
        index = np.sort(check_random_state(random_state).choice(n, min(n_landmarks, n), replace=False))
        matrix = kernel.among(X, index)
        if kernel.unsafe:
            check_definite(kernel, matrix)
        values, vectors = eigh(matrix)
        keep = values > 1e-12 * values[-1]
        rows, projection = kernel.rows(X, index), vectors[:, keep] / np.sqrt(values[keep])
        return cls(kernel, _projected(kernel, X, rows, projection), rows, projection, index)

    def features(self) -> Any:
        """Features of the training examples."""
        return self.values

    def trace_error(self, X: MatrixLike, random_state: RandomState = None) -> float:
        """Share of the kernel's trace that the features miss: 0 where they are exact, 1 where they see nothing.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)
            The training examples.
        random_state : int, RandomState or None
            Chooses the examples that are looked at, where there are many.

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
        """Of a function with these weights: its coefficients over ``rows``, or weights of the linear kernel's features."""
        return weights if self.projection is None else self.projection @ weights

    def fitted_attributes(self, weights: np.ndarray) -> dict[str, Any]:
        """What an estimator keeps of a solution: ``coef_``, or ``dual_coef_`` with the rows ``X_fit_`` that it belongs to."""
        if self.rows is None:
            return {"coef_": self.coefficients(weights)}
        return {"dual_coef_": self.coefficients(weights), "X_fit_": self.rows}


def _projected(kernel: Kernel, X: MatrixLike, rows: np.ndarray, projection: np.ndarray) -> np.ndarray:
    """Features of all examples, some examples at a time; many of them in single precision."""
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
