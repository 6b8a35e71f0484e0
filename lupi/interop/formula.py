r"""The prediction function of a fitted model as data.

.. math::

    f(x) = b + \sum_t T_t(s(x)),

with a chain s of scalings, and terms T that are linear, kernel expansions or forests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from lupi.kernels import Kernel


@dataclass(frozen=True)
class Scaling:
    """(x - shift) / scale per column, clipped to [-limit, limit]."""

    shift: np.ndarray
    scale: np.ndarray
    limit: float = np.inf


@dataclass(frozen=True)
class Linear:
    """x @ coef, with `coef` of shape (n_features, k)."""

    coef: np.ndarray


@dataclass(frozen=True)
class SupportVectorSum:
    """K(x, rows) @ coef, with `coef` of shape (n_rows, k)."""

    kernel: Kernel
    rows: np.ndarray
    coef: np.ndarray


@dataclass(frozen=True)
class Trees:
    """Mean over trees of the leaf values that x reaches, times a factor.

    Node k leads to ``left[k]`` if x[feature] <= threshold. One array holds the nodes of all trees; a leaf leads to itself.
    """

    factor: float
    roots: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray


@dataclass(frozen=True)
class Formula:
    """Prediction function of a fitted model."""

    n_features: int
    intercept: np.ndarray  # of shape (k,)
    terms: tuple[Any, ...]
    # Of a classifier, the k values are one log-odds or margin (two classes), or one value per class.
    kind: Literal["classifier", "regressor", "ranker", "outlier"]
    scalings: tuple[Scaling, ...] = ()  # in the order of their application
    classes: np.ndarray | None = None
    logistic: bool = False  # whether probabilities are the logistic function (softmax) of the values
    feature_names: np.ndarray | None = None

    def __post_init__(self) -> None:
        """Add up the linear terms."""
        linear = [term.coef for term in self.terms if isinstance(term, Linear)]
        others = tuple(term for term in self.terms if not isinstance(term, Linear))
        if len(linear) > 1:
            object.__setattr__(self, "terms", (Linear(np.sum(linear, axis=0)), *others))
