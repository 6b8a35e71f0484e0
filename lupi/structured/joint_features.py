"""Joint features of inputs and outputs, and kernels between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics.pairwise import additive_chi2_kernel

from lupi.inputs.types import MatrixLike
from lupi.kernels import Kernel, resolve_gamma
from lupi.model_parts import model_part

if TYPE_CHECKING:
    from lupi.structured.protocol import Task

JOINT_KERNELS = {"chi2", "intersection", "rbf", "linear"}


@model_part
@dataclass(frozen=True)
class PlacedKernel(Kernel):
    r"""A kernel of word histograms times a Gaussian of where the boxes lie.

    .. math::

        K((x, y), (x', y')) = k(h, h') \, \exp(-\|g - g'\|^2)

    where :math:`g` are the last ``n_geometry`` features, the geometry of a box times its scale, and :math:`h` are the others.
    """

    n_geometry: int = 0

    def __call__(self, A: Any, B: Any = None) -> np.ndarray:
        """Kernel matrix between the rows of A and of B (of A itself by default)."""
        words, places = _split(A, self.n_geometry)
        other_words, other_places = (None, None) if B is None else _split(B, self.n_geometry)
        return np.asarray(super().__call__(words, other_words) * Kernel("rbf")(places, other_places))


def joint_kernel(name: str, gamma: float | str, features: np.ndarray, argument: str, n_geometry: int = 0) -> Kernel:
    """Kernel on joint features, its gamma resolved: "scale" makes the mean chi2 distance 1, and is scikit-learn's for rbf.

    The last ``n_geometry`` features are compared by a Gaussian of their own.
    """
    words, _ = _split(features, n_geometry)
    value = 1.0
    if name == "chi2" and gamma == "scale":
        if words.min() >= 0:
            distance = -additive_chi2_kernel(words)
            mean = distance.sum() / max(len(distance) * (len(distance) - 1), 1)
            value = 1.0 / mean if mean >= np.finfo(float).tiny else 1.0
    elif name in ("chi2", "rbf"):
        value = resolve_gamma(gamma, words)
    if n_geometry:
        return PlacedKernel(name, gamma=value, argument=argument, n_geometry=n_geometry)
    return Kernel(name, gamma=value, argument=argument)


def joint_features(task: Task, X: MatrixLike, Y: Sequence[Any], normalize: bool) -> np.ndarray:
    """Joint features of pairs, one row each."""
    out = np.array([task.joint_feature(x, y) for x, y in zip(X, Y)], dtype=float)
    return normalized(out, geometry_of(task)) if normalize else out


def geometry_of(task: Task) -> int:
    """How many of the last joint features of a task tell where an output lies."""
    return getattr(task, "n_geometry", 0)


def normalized(features: np.ndarray, n_geometry: int = 0) -> np.ndarray:
    """Rows divided by their sum, but for the last ``n_geometry`` features; empty rows stay zero."""
    words, places = _split(features, n_geometry)
    total = words.sum(axis=1, keepdims=True)
    return np.hstack([words / np.where(total > 0, total, 1.0), places])


def _split(features: np.ndarray, n_geometry: int) -> tuple[np.ndarray, np.ndarray]:
    cut = features.shape[1] - n_geometry
    return features[:, :cut], features[:, cut:]
