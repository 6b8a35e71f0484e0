"""An estimator that takes tables as they are: what comparisons fit, `lupi fit` trains and `lupi predict` uses."""

from __future__ import annotations

from copy import copy

import numpy as np
from scipy.linalg import qr
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.metrics import accuracy_score, r2_score
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from lupi.inputs import is_frame
from lupi.model_parts import model_part
from lupi.svm.paths import fit_path
from lupi.tabular.encoder import RawTable, TableEncoder, encode_privileged, missing_targets, plain_labels


def _gives(method):
    return lambda self: hasattr(getattr(self, "estimator_", self.estimator), method)


@model_part
class TabularModel(BaseEstimator):
    """An estimator on raw tables: words, dates and gaps are encoded inside.

    Nothing of the privileged columns but their names is kept: neither values nor the encoder.

    Parameters
    ----------
    estimator : estimator
        With or without `privileged` in its `fit`; gets numeric features and labels 0, 1, ...
    regression : bool, default=False
        Whether the target is a number (it is standardized for the estimator) and not a label.
    standardize : bool, default=True
        Whether numeric columns are standardized.
    privileged_columns : list of str, optional
        Columns of the frame given to `fit` that are privileged, where `fit` gets no `privileged`: so a whole table can go
        through scikit-learn's tools.

    Attributes
    ----------
    estimator_ : estimator
        The fitted one.
    classes_ : ndarray
        Labels, unless `regression`.
    encoder_ : TableEncoder
        Of the decision columns.

    Examples
    --------
    >>> from lupi import SVM2Plus
    >>> from lupi.datasets import load_breast_cancer_followup
    >>> cancer = load_breast_cancer_followup(as_frame=True)
    >>> model = TabularModel(SVM2Plus()).fit(cancer.data, cancer.target, privileged=cancer.privileged)
    >>> model.predict(cancer.data.head(2)).shape
    (2,)
    """

    __metadata_request__fit = {"privileged": True, "groups": True}
    privileged_columns = None

    def __init__(self, estimator, regression=False, standardize=True, privileged_columns=None):
        self.estimator = estimator
        self.regression = regression
        self.standardize = standardize
        self.privileged_columns = privileged_columns

    def __setstate__(self, state):
        # Files of earlier versions hold the encoder of the privileged columns; it does not get into another one.
        super().__setstate__({name: value for name, value in state.items() if name != "privileged_encoder_"})

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = "regressor" if self.regression else "classifier"
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.target_tags.required = True
        tags.input_tags.allow_nan = tags.input_tags.string = True
        return tags

    def fit(self, X, y, privileged=None, groups=None):
        """Fit encoders and estimator.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Missing values (NaN, None) are rows without a label, for estimators that use these.
        privileged : data frame or array, optional
            A row without any value is not available for that example; other gaps are filled.
        groups : array-like of shape (n_samples,), optional
            For estimators that take them.

        Returns
        -------
        TabularModel
        """
        hidden = [str(name) for name in self.privileged_columns or ()]
        if privileged is None and hidden and is_frame(X):
            X = X.rename(columns=str)
            missing = [name for name in hidden if name not in X.columns]
            if missing:
                raise ValueError(f"X lacks the privileged column(s) {', '.join(missing)}, which fit needs.")
            X, privileged = X.drop(columns=hidden), X[hidden]
        (fitted,) = fit_candidates(self, [{}], X, y, privileged, groups)
        if isinstance(fitted, ValueError):
            raise fitted
        vars(self).update({name: value for name, value in vars(fitted).items() if name.endswith("_")})
        return self

    @property
    def ranks(self):
        """Whether the fitted estimator orders rows, without a line between classes."""
        check_is_fitted(self)
        return not self.regression and not hasattr(self.estimator_, "classes_")

    def features_of(self, X):
        """What the fitted estimator sees of these rows.

        Returns
        -------
        ndarray
        """
        features = self.encoder_.transform(X)
        return features @ self.basis_ if hasattr(self, "basis_") else features

    def decision_function(self, X):
        """Scores of the rows, from the decision columns alone.

        Parameters
        ----------
        X : data frame or array
            Further columns of a frame, such as privileged ones, are ignored.

        Returns
        -------
        ndarray
        """
        check_is_fitted(self)
        return scores_of(self.estimator_, self.features_of(X))

    @available_if(_gives("predict_proba"))
    def predict_proba(self, X):
        """Probabilities of the classes, where the estimator gives them.

        Parameters
        ----------
        X : data frame or array

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        return self.estimator_.predict_proba(self.features_of(X))

    def predict(self, X):
        """Predicted labels, numbers, or, from a ranker, scores.

        Parameters
        ----------
        X : data frame or array
            Further columns of a frame, such as privileged ones, are ignored.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        raw = self.estimator_.predict(self.features_of(X))
        if self.regression:
            return raw * self.target_scale_ + self.target_mean_
        return raw if self.ranks else self.classes_[np.asarray(raw).astype(np.intp)]

    def score(self, X, y):
        """Accuracy of a classifier, R² of a regression; a ranker has no line between classes to be scored.

        Parameters
        ----------
        X : data frame or array
        y : array-like

        Returns
        -------
        float
        """
        if self.regression:
            return float(r2_score(y, self.predict(X)))
        return float(accuracy_score(np.asarray(y), self.predict(X)))


def scores_of(model, X):
    """Scores by which a fitted model orders rows: decision values, or else probabilities.

    Returns
    -------
    ndarray of shape (n_samples,) for two classes and rankers, else (n_samples, n_classes)
    """
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(X))
    shares = np.asarray(model.predict_proba(X))
    return shares[:, 1] if shares.shape[1] == 2 else shares


def fit_candidates(model, candidates, X, y, privileged=None, groups=None, rotate=False):
    """Encode once, then fit the model's estimator for each candidate: the one way from a table to a fitted model.

    Parameters
    ----------
    model : TabularModel
        Unfitted; its parameters are used.
    candidates : list of dict
        Parameters of the estimator.
    X, privileged : data frame, array or RawTable
    y : array-like
        Target; missing values are rows without a label.
    groups : array-like, optional
    rotate : bool
        Whether inner products are all that the estimator uses (linear kernels): with more features than rows they are
        then kept in fewer dimensions.

    Returns
    -------
    list of TabularModel or ValueError
    """
    shared, features, target = encoded(model, X, y, rotate)
    extra = {}
    if privileged is not None:
        extra["privileged"] = encode_privileged(privileged, model.standardize)
    if groups is not None and has_fit_parameter(model.estimator, "groups"):
        extra["groups"] = groups
    fitted = fit_path(model.estimator, candidates, features, target, **extra)
    return [found if isinstance(found, ValueError) else with_estimator(shared, found) for found in fitted]


def encoded(model, X, y, rotate=False):
    """A copy of an unfitted model with its encoder, and the features and the target that its estimator is to see.

    Returns
    -------
    TabularModel, ndarray or data frame, ndarray
    """
    shared = TabularModel(model.estimator, model.regression, model.standardize, model.privileged_columns)
    table = RawTable.of(X)
    allows_gaps = get_tags(model.estimator).input_tags.allow_nan
    as_frame = table.names is not None and takes_frames(model.estimator)
    shared.encoder_ = TableEncoder(model.standardize, fill=not allows_gaps, as_frame=as_frame).fit(table)
    features = shared.encoder_.transform(table)
    if rotate and not as_frame and features.shape[1] > features.shape[0]:
        shared.basis_, triangle = qr(features.T, mode="economic")
        features = np.ascontiguousarray(triangle.T)
    target = _encoded_target(shared, np.asarray(y))
    return shared, features, target


def takes_frames(estimator):
    """Whether an estimator (in a search: its own; in a pipeline: the first step) wants columns by name or knows words.

    Examples
    --------
    >>> from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    >>> takes_frames(HistGradientBoostingClassifier()), takes_frames(RandomForestClassifier())
    (True, False)
    """
    first = estimator
    while isinstance(first, Pipeline) or hasattr(first, "refit"):  # only searches have that
        first = first.steps[0][1] if isinstance(first, Pipeline) else first.estimator
    tags = get_tags(first).input_tags
    by_type = getattr(first, "categorical_features", None) == "from_dtype" or getattr(
        first, "enable_categorical", False
    )
    return tags.categorical or tags.string or bool(by_type) or isinstance(first, ColumnTransformer)


def with_estimator(shared, estimator):
    """The model with this fitted estimator."""
    model = copy(shared)
    model.estimator, model.estimator_ = clone(estimator), estimator
    return model


def _encoded_target(model, y):
    """Standardized numbers, or positions of the labels among the classes; NaN where there is none."""
    missing = missing_targets(y)
    if model.regression:
        numbers = np.where(missing, np.nan, 0.0)
        numbers[~missing] = y[~missing].astype(np.float64)
        model.target_mean_ = float(numbers[~missing].mean())
        model.target_scale_ = float(numbers[~missing].std()) or 1.0
        return (numbers - model.target_mean_) / model.target_scale_
    model.classes_, codes = np.unique(plain_labels(y[~missing]), return_inverse=True)
    if not missing.any():
        return codes
    target = np.full(len(y), np.nan)
    target[~missing] = codes
    return target
