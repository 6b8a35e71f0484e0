"""Kernel machines whose kernels are replaced by Nystroem's features: what these are made of, and what a fit leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from lupi.kernels import FeatureSpace
from lupi.svm.solve import SOLVERS

if TYPE_CHECKING:
    from lupi.svm.kernel_machine import TrainingData
    from lupi.svm.kernel_qp import Expansion


def weights_of(functions: Sequence[Expansion]) -> np.ndarray:
    """Weights of linear functions, one row each."""
    return np.vstack([np.asarray(function.weights) for function in functions])


class LandmarkFeatures:
    """What training data of kernel machines know of features in the place of their kernels."""

    X: Any
    Z: Any
    kernel: Any
    privileged_kernel: Any
    available: np.ndarray
    landmarks: Any
    approximation: Any

    def approximate(self, n_components: int, solver: str, random_state: Any) -> None:
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
    def known_privileged(self) -> Any:
        """Privileged features of the examples that have them; of a kernel matrix also their columns only."""
        if self.available.all():
            return self.Z
        given = self.privileged_kernel.name == "precomputed"
        return self.Z[np.ix_(self.available, self.available)] if given else self.Z[self.available]

    @property
    def explicit(self) -> tuple[Any, Any]:
        """Features of both spaces of which the functions are linear."""
        X = self.X if self.landmarks is None else self.landmarks.values
        return X, self.Z if self.approximation is None else self.approximated_rows()

    def approximated_rows(self) -> np.ndarray:
        """Privileged features of the approximation; 0 for examples that have none."""
        values: np.ndarray = self.approximation.values
        if self.available.all():
            return values
        out = np.zeros((len(self.available), values.shape[1]), dtype=values.dtype)
        out[self.available] = values
        return out


class LandmarkExpansions:
    """What a kernel machine keeps of functions that are linear in such features."""

    random_state: Any
    privileged_dual_coef_: np.ndarray
    _privileged_rows: np.ndarray

    def _store_landmarks(self, data: TrainingData, weights: np.ndarray) -> None:
        """The decision functions as expansions over the landmarks, and how much of the kernel these miss."""
        features = cast("FeatureSpace", data.landmarks)
        self.support_ = data.kept[features.landmarks]
        self.dual_coef_ = features.coefficients(weights.T).T
        if data.kernel.name != "precomputed":
            self.support_vectors_ = features.rows
        self.approximation_error_ = features.trace_error(data.X, self.random_state)

    def _store_privileged_landmarks(self, data: TrainingData, functions: list[Expansion]) -> None:
        """The correcting functions as expansions over the landmarks, and how much of the kernel these miss."""
        features = cast("FeatureSpace", data.approximation)
        if functions[0].weights is None:
            weights = self.privileged_dual_coef_ @ features.values
        else:
            weights = weights_of(functions)
        self._landmark_coef = features.coefficients(weights.T).T
        self._privileged_data = features.rows
        if data.privileged_kernel.name == "precomputed":
            self._privileged_rows = self._privileged_rows[features.landmarks]
        self.privileged_approximation_error_ = features.trace_error(data.known_privileged, self.random_state)
