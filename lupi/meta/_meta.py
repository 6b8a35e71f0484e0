"""What the meta-estimators around any scikit-learn estimator share."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy, deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import Tags, get_tags

from lupi.inputs.decorators import available_if
from lupi.inputs.types import MatrixLike, PrivilegedLike, VectorLike

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


def student_fitter(
    meta: BaseEstimator, X: MatrixLike, y: VectorLike, privileged: PrivilegedLike
) -> Callable[..., BaseEstimator]:
    """Do once what does not depend on the student's parameters.

    Parameters
    ----------
    meta : KnowledgeTransfer or Distillation
        Unfitted.
    X, y, privileged : array-like
        As in ``fit``.

    Returns
    -------
    callable
        From parameters of the student to ``meta`` with that student, fitted.
    """
    meta = clone(meta)
    features, target, weights = meta._lesson(X, y, privileged)

    def fit(**params: Any) -> BaseEstimator:
        model = copy(meta)
        model.estimator = clone(meta.estimator).set_params(**params)
        model.estimator_ = clone(model.estimator).fit(features, target, **weights)
        return model

    return fit


class Delegation:
    """Prediction by a fitted ``estimator_`` that sees ``_features(X)``, what the meta-estimator makes of X."""

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
        features = self._features(X)
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
        features = self._features(X)
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
        features = self._features(X)
        return np.asarray(self.estimator_.predict_proba(features))


class StudentMethods(Delegation):
    """Tags and score of a student."""

    def __sklearn_tags__(self) -> Any:
        tags = delegated_tags(self, super().__sklearn_tags__())  # type: ignore[misc]  # the estimator's, beside this class
        tags.target_tags.multi_output = False  # one target, whatever the wrapped estimator could do
        return tags

    def score(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike | None = None) -> float:
        """Score of the student: accuracy or R2.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        float
        """
        features = self._features(X)
        return float(self.estimator_.score(features, y, sample_weight=sample_weight))
