"""Prediction and tags that meta-estimators take over from a wrapped estimator."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import Tags, get_tags

from lupi.inputs.decorators import available_if
from lupi.inputs.types import MatrixLike

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


def has_method(method: str) -> Callable[[Any], bool]:
    """Whether the wrapped estimator has a method, as the condition of ``available_if``."""

    def check(self: Any) -> bool:
        getattr(getattr(self, "estimator_", self.estimator), method)
        return True

    return check


def delegated_tags(meta: BaseEstimator, tags: Tags) -> Tags:
    """Tags of the wrapped estimator, so that a wrapped classifier is a classifier."""
    inner = get_tags(meta.estimator)
    tags.estimator_type = inner.estimator_type
    tags.classifier_tags = deepcopy(inner.classifier_tags)
    tags.regressor_tags = deepcopy(inner.regressor_tags)
    tags.target_tags = deepcopy(inner.target_tags)
    tags.input_tags.sparse = inner.input_tags.sparse
    return tags


class Delegation:
    """Prediction by a fitted ``estimator_`` on ``_features(X)``."""

    estimator_: Any
    _features: Callable[..., Any]

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
