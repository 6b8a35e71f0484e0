"""Prediction and tags that meta-estimators take over from a wrapped estimator."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import Tags, get_tags

from lupi.inputs.decorators import available_if
from lupi.inputs.types import MatrixLike
from lupi.privacy import WithoutPrivilegedRows


def has_method(method: str) -> Callable[[Any], bool]:
    """Condition of ``available_if``: the wrapped estimator has a method (its own AttributeError gives the reason)."""
    return lambda meta: bool(getattr(getattr(meta, "estimator_", meta.estimator), method))


class Delegation(WithoutPrivilegedRows, MetaEstimatorMixin, BaseEstimator):
    """Prediction by a fitted ``estimator_`` on ``_features(X)``, with the tags of the wrapped estimator."""

    estimator: Any
    estimator_: Any
    _features: Callable[..., Any]

    def __sklearn_tags__(self) -> Tags:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        for name in ("estimator_type", "classifier_tags", "regressor_tags", "target_tags"):
            setattr(tags, name, deepcopy(getattr(inner, name)))
        tags.input_tags.sparse = inner.input_tags.sparse
        return tags

    @property
    def classes_(self) -> np.ndarray:
        """Labels of the fitted classifier."""
        return np.asarray(self.estimator_.classes_)

    @available_if(has_method("predict"))
    def predict(self, X: MatrixLike) -> np.ndarray:
        """Predict with the wrapped estimator, without privileged features.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        features = self._features(X)  # raises NotFittedError
        return np.asarray(self.estimator_.predict(features))

    @available_if(has_method("decision_function"))
    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Decision values of the wrapped estimator.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        features = self._features(X)  # raises NotFittedError
        return np.asarray(self.estimator_.decision_function(features))

    @available_if(has_method("predict_proba"))
    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Class probabilities of the wrapped estimator.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        features = self._features(X)  # raises NotFittedError
        return np.asarray(self.estimator_.predict_proba(features))
