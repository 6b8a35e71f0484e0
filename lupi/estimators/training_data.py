"""Checked training data of the kernel machines, with the spaces that their kernels span."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from lupi.estimators.chunked_input import not_linear
from lupi.kernels import FeatureSpace, Kernel, Space, make_space
from lupi.problems import over_weights
from lupi.problems.chunked_rows import ChunkedRows
from lupi.solvers import SOLVERS
from lupi.validation import check_privileged

# What linear functions can be trained in; kernel matrices are always in the first.
PRECISIONS = [np.float64, np.float32]


@dataclass
class TrainingData:
    """Checked input of a fit and its spaces: what does not depend on prices such as C and lam.

    Attributes
    ----------
    X : array or sparse matrix of shape (n, n_features)
        Examples with a positive weight.
    kept : ndarray of shape (n,)
        Their rows in what the user gave.
    weight : ndarray of shape (n,)
        Their weights; of a classifier with the weights of the classes.
    kernel : Kernel
    cache_size : float
        Megabytes for a kernel matrix.
    Z : array, sparse matrix or None
        Privileged features, and None where no example has any.
    available : ndarray of bool, shape (n,)
        Which examples have them.
    privileged_kernel : Kernel or None
    n_privileged : int
        Number of privileged features in what the user gave.
    privileged : Space or None
        Formed when it is first needed.
    by_features : bool
        Whether both functions are to be linear in features: a number of components was asked for.
    landmarks : FeatureSpace or None
        These features in place of a decision kernel that is not linear.
    approximation : FeatureSpace or None
        Features of the available examples that stand for the privileged kernel where its matrix is out of reach.
    remarks : list of Warning
        What a user should know about the spaces.
    labels, classes : ndarray
        Of a classifier: the positions of the examples' classes, and the classes.
    columns : dict
        What scikit-learn's check of X has set on the estimator.
    """

    X: object
    kept: np.ndarray
    weight: np.ndarray
    kernel: Kernel
    cache_size: float
    Z: object
    available: np.ndarray
    privileged_kernel: Kernel | None
    n_privileged: int
    privileged: Space | None = None
    by_features: bool = False
    landmarks: FeatureSpace | None = None
    approximation: FeatureSpace | None = None
    remarks: list[Warning] = field(default_factory=list)
    labels: np.ndarray | None = None
    classes: np.ndarray | None = None
    columns: dict = field(default_factory=dict)

    @classmethod
    def of(cls, estimator, X, privileged, weight, cache_size=np.inf, *, index_of):
        """Check the privileged features (``index_of``: X as the user gave it), and resolve both kernels on what counts."""
        if estimator.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"kernel='precomputed' needs a square matrix of shape (n_samples, n_samples) as `X`; got {X.shape}."
            )
        given = estimator.privileged_kernel == "precomputed"
        checked = check_privileged(
            privileged,
            X.shape[0],
            estimator_name=type(estimator).__name__,
            precomputed=given,
            index_of=index_of,
            dtypes=PRECISIONS if linear_in_both(estimator) else PRECISIONS[:1],
        )
        # An example of weight 0 is one that is not there.
        kept = np.flatnonzero(weight > 0)
        X, weight = _rows(X, kept, estimator.kernel), weight[kept]
        kernel = Kernel.of(estimator, X, weight=weight)
        Z, available, privileged_kernel = None, np.zeros(len(kept), dtype=bool), None
        if checked is not None and checked.available[kept].any():
            Z, available = _rows(checked.data, kept, estimator.privileged_kernel), checked.available[kept]
            known = Z if given or available.all() or isinstance(Z, ChunkedRows) else Z[available]
            privileged_kernel = Kernel.of(estimator, known, "privileged_", weight[available])
        n_privileged = 0 if checked is None else checked.data.shape[1]
        return cls(X, kept, weight, kernel, cache_size, Z, available, privileged_kernel, n_privileged)

    @cached_property
    def decision(self) -> Space:
        """Space of the decision features."""
        return make_space(self.kernel, self.X.astype(np.float64, copy=False), self.cache_size)

    def over_weights(self, solver, smooth) -> bool:
        """Whether to solve over the weights of linear functions, which needs no kernel matrix."""
        if self.by_features:
            return True
        linear = all(kernel is None or kernel.name == "linear" for kernel in (self.kernel, self.privileged_kernel))
        if solver == "newton" and not linear:
            raise ValueError(
                "solver='newton' works on the weights of linear functions: use kernel='linear' and "
                "privileged_kernel='linear', or solver='auto'."
            )
        n_weights = self.X.shape[1] + 1 + (0 if self.Z is None else self.Z.shape[1] + 1)
        possible = linear and solver in SOLVERS["linear"]
        chosen = possible and (solver == "newton" or over_weights(self.X.shape[0], n_weights, smooth))
        if isinstance(self.X, ChunkedRows) and not chosen:
            raise not_linear(self.X)
        return chosen

    def approximate(self, n_components, solver, random_state) -> None:
        """Put Nystroem's features in the place of both kernels; linear ones have features of their own."""
        if solver not in SOLVERS["linear"]:
            raise ValueError(
                f"solver={solver!r} works on kernel matrices, but n_components={n_components} puts features in their place; "
                "use solver='auto'."
            )
        self.by_features = True
        if self.kernel.name != "linear":
            self.landmarks = FeatureSpace.nystroem(self.kernel, self.X, n_components, random_state)
        if self.Z is not None and self.privileged_kernel.name != "linear":
            self.approximation = FeatureSpace.nystroem(
                self.privileged_kernel, self.known_privileged, n_components, random_state
            )

    @property
    def known_privileged(self):
        """Privileged features of the examples that have them; of a kernel matrix also their columns only."""
        if self.available.all():
            return self.Z
        given = self.privileged_kernel.name == "precomputed"
        return self.Z[np.ix_(self.available, self.available)] if given else self.Z[self.available]

    @property
    def explicit(self) -> tuple:
        """Features of both spaces of which the functions are linear."""
        X = self.X if self.landmarks is None else self.landmarks.values
        return X, self.Z if self.approximation is None else self.approximated_rows()

    def approximated_rows(self) -> np.ndarray:
        """Privileged features of the approximation; 0 for examples that have none."""
        values = self.approximation.values
        if self.available.all():
            return values
        out = np.zeros((len(self.available), values.shape[1]), dtype=values.dtype)
        out[self.available] = values
        return out

    def privileged_space(self, cache_size=np.inf) -> Space:
        """Space of the privileged features, formed once for all prices that are tried on the data."""
        if self.privileged is None:
            Z = self.Z.astype(np.float64, copy=False)
            self.privileged = make_space(self.privileged_kernel, Z, cache_size, available=self.available)
        return self.privileged

    @property
    def signs(self) -> list[np.ndarray]:
        """Labels -1 and +1 of the one-vs-rest problems; of the second class alone when there are two."""
        signs = [np.where(self.labels == k, 1.0, -1.0) for k in range(len(self.classes))]
        return signs[1:] if len(signs) == 2 else signs


def linear_in_both(estimator):
    """Whether both functions are linear: these are kept in single precision where the user gave that."""
    return estimator.kernel == estimator.privileged_kernel == "linear"


def _rows(data, kept, kernel):
    """Rows (and, of a kernel matrix, columns) of the examples that count."""
    if len(kept) == data.shape[0]:
        return data
    if isinstance(data, ChunkedRows):
        return data.view(kept)
    return data[np.ix_(kept, kept)] if kernel == "precomputed" else data[kept]
