"""Knowledge transfer: predict the privileged features and hand the predictions to an ordinary estimator."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from lupi.inputs import check_magnitude, check_partial_targets, check_privileged
from lupi.inputs.types import MatrixLike, PrivilegedLike, RandomState, VectorLike
from lupi.meta._meta import StudentMethods
from lupi.model_parts import model_part
from lupi.privacy import WithoutPrivilegedRows, restores_rows


@model_part
class KnowledgeTransfer(StudentMethods, WithoutPrivilegedRows, MetaEstimatorMixin, BaseEstimator):
    """Learn to predict the privileged features, append the predictions to X, and fit any estimator on both [1]_.

    The estimator is trained on out-of-fold predictions, so that it meets in training what it will meet later: guesses
    of the privileged features, not the features themselves.

    Parameters
    ----------
    estimator : estimator
        Classifier or regressor that is fitted on the extended features: the student.
    regressor : estimator, default=None
        Predicts all privileged features from X; ``Ridge()`` if None. If it is linear and the student is linear too, the
        predictions change no more than the regularization; use a non-linear one of the two.
    passthrough : bool, default=True
        Whether the student sees X beside the predictions. False is the two-stage estimator of a mediated effect,
        X -> Z -> y: right only where y does not depend on X once Z is known, and then the better one; elsewhere it loses
        what X says by itself.
    cv : int, default=5
        Folds of the out-of-fold predictions.
    unlabeled : object, default=None
        A value of `y` that means "no label", such as -1, beside NaN, None and pandas' NA.
    random_state : int, RandomState or None, default=None
        Seed of the folds.

    Attributes
    ----------
    estimator_ : estimator
        The fitted student.
    regressor_ : estimator or None
        The fitted regressor; None without privileged features.
    classes_ : ndarray
        The labels, if the student is a classifier.
    n_features_in_ : int
        Number of decision features.

    Notes
    -----
    Rows of ``privileged`` that are entirely NaN are left out when the regressor is trained, rows without a label when the
    student is. ``privileged=None`` fits the student alone.

    The regressor is needed for prediction, so it is part of every file and pickle of the model. One that holds something for
    every training row, as kernel methods, neighbors, trees and Gaussian processes do, would bring the privileged rows along:
    :func:`lupi.save` and pickle refuse the model then, unless :func:`lupi.keep_privileged` allows it.

    References
    ----------
    .. [1] V. Vapnik, R. Izmailov. Learning using privileged information: similarity control and knowledge transfer.
       JMLR, 2015.

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> from lupi import KnowledgeTransfer
    >>> from lupi.datasets import load_digits_lowres
    >>> X, y, privileged = load_digits_lowres(classes=(3, 8), return_X_y_privileged=True)
    >>> model = KnowledgeTransfer(SVC(), random_state=0).fit(X[::2], y[::2], privileged=privileged[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    __metadata_request__fit = {"privileged": True}

    _parameter_constraints: dict[str, Any] = {
        "estimator": [HasMethods(["fit", "predict"])],
        "regressor": [HasMethods(["fit", "predict"]), None],
        "passthrough": ["boolean"],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "random_state": ["random_state"],
        "unlabeled": "no_validation",
    }

    # Models of files that were written before these existed.
    unlabeled, _regressor_restores_rows = None, False

    def __init__(
        self,
        estimator: Any,
        regressor: Any = None,
        *,
        passthrough: bool = True,
        cv: Any = 5,
        unlabeled: Any = None,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.regressor = regressor
        self.passthrough = passthrough
        self.cv = cv
        self.unlabeled = unlabeled
        self.random_state = random_state

    def fit(self, X: MatrixLike, y: VectorLike, privileged: PrivilegedLike | None = None) -> Self:
        """Fit the regressor of the privileged features, then the student.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Decision features.
        y : array-like of shape (n_samples,)
            Targets; NaN, None, pandas' NA and the value `unlabeled` mark rows without one.
        privileged : array-like of shape (n_samples, n_privileged), optional
            Features that exist at training time only. A row that is entirely NaN is not available for that example.

        Returns
        -------
        KnowledgeTransfer
            This object.
        """
        features, y, _ = self._lesson(X, y, privileged)
        self.estimator_ = clone(self.estimator).fit(features, y)
        return self

    def _lesson(
        self, X: MatrixLike, y: VectorLike, privileged: PrivilegedLike
    ) -> tuple[MatrixLike, VectorLike, dict[str, Any]]:
        """Fit the regressor; returns what the student is fitted on: features, target, keywords."""
        self._validate_params()
        given = X
        X = validate_data(self, X, accept_sparse="csr", dtype="numeric")
        check_magnitude(X, "X", estimator_name="KnowledgeTransfer")
        known = check_partial_targets(
            y,
            X,
            classification=is_classifier(self.estimator),
            unlabeled=self.unlabeled,
            estimator_name="KnowledgeTransfer",
        )
        privileged = check_privileged(
            privileged, X.shape[0], estimator_name="KnowledgeTransfer", accept_sparse=False, index_of=given
        )
        self.regressor_: BaseEstimator | None = None
        self._regressor_restores_rows = False
        features = X
        if privileged is not None and privileged.available.sum() > 1:
            predictions = self._cross_fit(X, privileged)
            features = self._extend(X, predictions)
        rows = np.flatnonzero(known.labeled)
        return _safe_indexing(features, rows), known.values[rows], {}

    def _cross_fit(self, X: MatrixLike, privileged: PrivilegedLike) -> np.ndarray:
        """Fit the regressor on all available rows; out-of-fold predictions for these, ordinary ones for the rest."""
        rows = np.flatnonzero(privileged.available)
        Z = privileged.data[rows]
        regressor = Ridge() if self.regressor is None else self.regressor
        self.regressor_ = clone(regressor).fit(X[rows], Z)
        folds = KFold(min(self.cv, len(rows)), shuffle=True, random_state=self.random_state)
        predictions = np.empty((X.shape[0], Z.shape[1]))
        refitted = []
        for seen, left_out in folds.split(rows):
            refitted.append(clone(regressor).fit(X[rows[seen]], Z[seen]))
            predictions[rows[left_out]] = np.reshape(refitted[-1].predict(X[rows[left_out]]), (len(left_out), -1))
        self._regressor_restores_rows = restores_rows(self.regressor_, refitted, Z)
        others = np.flatnonzero(~privileged.available)
        if len(others):
            predictions[others] = np.reshape(self.regressor_.predict(X[others]), (len(others), -1))
        return predictions

    def _check_leaves(self) -> None:
        if self._regressor_restores_rows:
            raise TypeError(
                f"this KnowledgeTransfer is neither saved nor pickled: the privileged training rows can be restored from its "
                f"regressor, {type(self.regressor_).__name__}, because it holds something for each of them. Use one with a fixed "
                "number of coefficients, such as Ridge or MLPRegressor, or allow it with lupi.save(..., keep_privileged=True)."
            )

    def _extend(self, X: MatrixLike, predictions: np.ndarray) -> MatrixLike:
        if not self.passthrough:
            return predictions
        return sparse.hstack([X, predictions], format="csr") if sparse.issparse(X) else np.hstack([X, predictions])

    def _features(self, X: MatrixLike) -> MatrixLike:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype="numeric", reset=False)
        if self.regressor_ is None:
            return X
        return self._extend(X, np.reshape(self.regressor_.predict(X), (X.shape[0], -1)))
