"""Where a linear ranker lives: the features themselves, an exact kernel expansion, or Nystroem's approximation."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import pairwise_kernels

# Up to here an eigendecomposition of the kernel matrix takes about a second.
EXACT_KERNEL_LIMIT = 2000
DEFAULT_COMPONENTS = 500
# With fewer examples than features, n coordinates of the examples' span are exact and cheaper than d features.
WIDE_LIMIT = 500

KERNELS = {"linear", "poly", "rbf", "laplacian", "chi2"}


@dataclass(frozen=True)
class KernelSpec:
    """A kernel by name or function, with the parameters of scikit-learn's SVMs."""

    kernel: Any = "linear"
    gamma: Any = "scale"
    degree: float = 3
    coef0: float = 0.0
    n_components: int | None = None
    random_state: Any = None

    def resolve(self, X) -> dict[str, Any]:
        """Keyword arguments for ``pairwise_kernels`` and ``Nystroem``; gamma becomes a number."""
        if callable(self.kernel):
            return {}
        gamma = self.gamma
        if gamma == "scale":
            variance = X.multiply(X).mean() - X.mean() ** 2 if sparse.issparse(X) else X.var()
            gamma = 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
        elif gamma == "auto":
            gamma = 1.0 / X.shape[1]
        params = {"gamma": gamma}
        if self.kernel == "poly":
            params |= {"degree": self.degree, "coef0": self.coef0}
        return params


@dataclass(frozen=True)
class LinearSpace:
    """Features as they are (``basis`` None), or coordinates in an orthonormal basis of the examples' span."""

    features: Any
    basis: Any = None

    def transform(self, X):
        """Coordinates of new examples."""
        return X if self.basis is None else X @ self.basis

    def fitted_attributes(self, w) -> dict[str, Any]:
        """What an estimator keeps of a solution."""
        return {"coef_": w if self.basis is None else self.basis @ w}


@dataclass(frozen=True)
class KernelSpace:
    """Coordinates in the span of the training examples' images: K = features @ features.T."""

    features: Any
    whitening: Any
    X: Any
    kernel: Any
    params: dict[str, Any]

    def transform(self, X):
        """Coordinates of new examples."""
        return pairwise_kernels(X, self.X, metric=self.kernel, **self.params) @ self.whitening

    def fitted_attributes(self, w) -> dict[str, Any]:
        """What an estimator keeps of a solution."""
        return {"dual_coef_": self.whitening @ w, "X_fit_": self.X, "kernel_params_": self.params}


@dataclass(frozen=True)
class NystroemSpace:
    """Coordinates in the span of the images of a random subset of the examples."""

    features: Any
    nystroem: Nystroem

    def transform(self, X):
        """Coordinates of new examples."""
        return self.nystroem.transform(X)

    def fitted_attributes(self, w) -> dict[str, Any]:
        """What an estimator keeps of a solution."""
        return {"nystroem_": self.nystroem, "nystroem_coef_": w}


def _kernel_space(X, kernel, params):
    K = pairwise_kernels(X, metric=kernel, **params)
    values, vectors = linalg.eigh(K)
    if values[0] < -1e-8 * max(values[-1], 1e-300):
        raise ValueError(
            f"kernel={kernel!r} is not positive semidefinite on X: its matrix has the eigenvalue {values[0]:.3g}; "
            "use a positive semidefinite kernel such as 'rbf'."
        )
    keep = values > len(values) * np.finfo(float).eps * max(values[-1], 0.0)
    root = np.sqrt(values[keep])
    return KernelSpace(vectors[:, keep] * root, vectors[:, keep] / root, X, kernel, params)


def decision_space(X, spec: KernelSpec):
    """Choose the coordinates in which the ranker is linear.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
        Checked features.
    spec : KernelSpec
        The kernel.

    Returns
    -------
    LinearSpace, KernelSpace or NystroemSpace
        The space, with the coordinates of X in ``features``.
    """
    n, d = X.shape
    if isinstance(spec.kernel, str) and spec.kernel == "linear":
        if n < d and n <= WIDE_LIMIT and n * d <= 2**25:
            basis, triangle = linalg.qr((X.toarray() if sparse.issparse(X) else X).T, mode="economic")
            return LinearSpace(np.ascontiguousarray(triangle.T), basis)
        return LinearSpace(X)
    params = spec.resolve(X)
    if spec.n_components is None and n <= EXACT_KERNEL_LIMIT:
        return _kernel_space(X, spec.kernel, params)
    n_components = min(n, spec.n_components or DEFAULT_COMPONENTS)
    nystroem = Nystroem(spec.kernel, n_components=n_components, random_state=spec.random_state, **params)
    return NystroemSpace(nystroem.fit_transform(X), nystroem)
