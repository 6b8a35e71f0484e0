r"""What a fitted model computes at prediction, as data.

.. math::

    f(x) = b + \sum_t T_t(s(x)),

with s a chain of scalings, and each term T linear, a kernel expansion or a forest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from lupi.kernels import Kernel


@dataclass(frozen=True)
class Scaling:
    """(x - shift) / scale, column by column, then clipped at +-limit."""

    shift: np.ndarray
    scale: np.ndarray
    limit: float = np.inf


@dataclass(frozen=True)
class Linear:
    """x @ coef, of shape (n_features, k)."""

    coef: np.ndarray


@dataclass(frozen=True)
class SupportVectorSum:
    """K(x, rows) @ coef, of shape (n_rows, k)."""

    kernel: Kernel
    rows: np.ndarray
    coef: np.ndarray


@dataclass(frozen=True)
class Trees:
    """Mean of the leaves' values that x reaches, times a factor. Node k goes to ``left[k]`` if x[feature] <= threshold.

    Nodes of all trees stand in one array; a leaf leads to itself.
    """

    factor: float
    roots: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray

    @property
    def leaf(self) -> np.ndarray:
        """Which nodes are leaves."""
        return np.asarray(self.left == np.arange(len(self.left)))

    def spans(self) -> list[tuple[int, int]]:
        """First and last + 1 node of each tree."""
        return list(zip(self.roots.tolist(), [*self.roots[1:].tolist(), len(self.left)]))


@dataclass(frozen=True)
class Formula:
    """A fitted predictor.

    Attributes
    ----------
    n_features : int
        Of the raw input.
    intercept : ndarray of shape (k,)
    terms : tuple of Linear, SupportVectorSum or Trees
        At most one is linear.
    kind : {"classifier", "regressor", "ranker", "outlier"}
        What the values mean: with two classes one log-odds or margin (k = 1), with several one a class; a number; a rank;
        a distance from the border.
    scalings : tuple of Scaling
    classes : ndarray or None
        Of a classifier.
    logistic : bool
        Whether probabilities are the logistic function (softmax) of the values.
    feature_names : ndarray of str or None
    """

    n_features: int
    intercept: np.ndarray
    terms: tuple[Any, ...]
    kind: Literal["classifier", "regressor", "ranker", "outlier"]
    scalings: tuple[Scaling, ...] = ()
    classes: np.ndarray | None = None
    logistic: bool = False
    feature_names: np.ndarray | None = None

    def __post_init__(self) -> None:
        """Add up the linear terms."""
        linear = [term.coef for term in self.terms if isinstance(term, Linear)]
        others = tuple(term for term in self.terms if not isinstance(term, Linear))
        if len(linear) > 1:
            object.__setattr__(self, "terms", (Linear(np.sum(linear, axis=0)), *others))

    @property
    def n_outputs(self) -> int:
        """Number k of values."""
        return len(self.intercept)

    def after(self, scaling: Scaling) -> Formula:
        """The same on features that are scaled first."""
        return replace(self, scalings=(scaling, *self.scalings))
