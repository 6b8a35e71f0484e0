"""Fit on one table that contains the privileged columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from inspect import Parameter, signature
from numbers import Integral
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, _safe_indexing, get_tags
from sklearn.utils._indexing import _get_column_indices
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted

from lupi.inputs.decorators import available_if
from lupi.inputs.tables import column_names
from lupi.inputs.training_set import refuse_masked
from lupi.inputs.types import MatrixLike, VectorLike
from lupi.privacy import WithoutPrivilegedRows, model_part


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


@model_part
class PrivilegedColumns(Delegation):
    """Fit on one table that contains the privileged columns; predict with or without them.

    `fit` splits off the privileged columns and passes them to the estimator as `privileged=`. Prediction ignores them if
    present. Because `X` is one table, every scikit-learn tool that splits rows (cross-validation, grid search, bagging, ...)
    works unchanged.

    Parameters
    ----------
    estimator : estimator
        One whose `fit` takes `privileged`, such as :class:`~lupi.SVM2Plus`, or a pipeline that ends in one (its earlier
        steps then see the decision features only).
    columns : str, int, slice, list of str or int, boolean mask, callable, or dict of these
        The privileged columns: names (of a data frame), positions, a slice of either, or a function that takes the
        table and returns one of these, such as :class:`sklearn.compose.make_column_selector`. An empty list fits the
        estimator with `privileged=None`. A dict from names to columns makes several privileged tables.
    privileged_transformer : transformer, optional
        Fitted to the privileged columns of the training rows, and applied to them before the estimator is fitted (of several
        tables a copy each), such as a scaler, an imputer or an encoder. It is fitted to the rows that have a value.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator.
    classes_ : ndarray of shape (n_classes,)
        The labels, if the estimator is a classifier.
    privileged_transformer_ : transformer, or dict of them by space
        The fitted transformer, if one was given and there are privileged columns.
    privileged_columns_ : ndarray of int
        Positions of the privileged columns in the table.
    n_features_in_ : int
        Number of columns at `fit`, privileged ones included.
    feature_names_in_ : ndarray of str
        Names of the columns at `fit`, if they all are strings.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from lupi import PrivilegedColumns, SVM2Plus
    >>> from lupi.datasets import load_breast_cancer_followup
    >>> cancer = load_breast_cancer_followup(as_frame=True)
    >>> table = cancer.frame.drop(columns="target")
    >>> model = PrivilegedColumns(
    ...     make_pipeline(StandardScaler(), SVM2Plus()),
    ...     columns=cancer.privileged_names,
    ...     privileged_transformer=StandardScaler(),
    ... )
    >>> cross_val_score(model, table, cancer.target).shape
    (5,)
    >>> model.fit(table, cancer.target).predict(table[cancer.feature_names]).shape
    (569,)
    """

    _needed = ("estimator_", "privileged_columns_")

    def __init__(self, estimator: Any, columns: Any, privileged_transformer: Any = None) -> None:
        self.estimator = estimator
        self.columns = columns
        self.privileged_transformer = privileged_transformer

    def fit(self, X: MatrixLike, y: VectorLike | None = None, **fit_params: Any) -> Self:
        """Split off the privileged columns and fit the estimator.

        Parameters
        ----------
        X : data frame, array-like or sparse matrix of shape (n_samples, n_features)
            Decision features and privileged features. A row whose privileged columns are all NaN means that they are
            not available for this example.
        y : array-like of shape (n_samples,)
            Targets.
        **fit_params : dict
            Passed on to the estimator's `fit`, e.g. `sample_weight`.

        Returns
        -------
        PrivilegedColumns
            This object.
        """
        keyword = _privileged_keyword(self.estimator)
        if "privileged" in fit_params:
            raise TypeError(
                "PrivilegedColumns takes the privileged features from the columns of `X`; leave out privileged=."
            )
        X = _as_table(X)
        names = column_names(X)
        groups = _groups(self.columns, X)
        privileged = np.unique(np.concatenate(list(groups.values())))
        decision = np.setdiff1d(np.arange(X.shape[1]), privileged)
        if len(decision) == 0:
            raise ValueError(
                f"`columns` makes all {X.shape[1]} columns of `X` privileged; at least one must be left for prediction."
            )
        if get_config()["enable_metadata_routing"]:
            fit_params = process_routing(self, "fit", **fit_params).estimator.fit
        blocks: Any = {name: _columns(X, index) for name, index in groups.items() if len(index)}
        several = isinstance(self.columns, Mapping)
        if blocks and self.privileged_transformer is not None:
            fitted = {name: clone(self.privileged_transformer) for name in blocks}
            blocks = {name: _fit_transform(fitted[name], block, y) for name, block in blocks.items()}
            self.privileged_transformer_ = fitted if several else fitted[None]
        fit_params[keyword] = blocks if several else blocks.get(None)
        self.estimator_ = clone(self.estimator)
        self.estimator_.fit(_columns(X, decision), y, **fit_params)
        self.privileged_columns_ = privileged
        self.n_features_in_ = X.shape[1]
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = names
        return self

    def _features(self, X: MatrixLike) -> MatrixLike:
        """Decision columns of a table with or without the privileged ones."""
        check_is_fitted(self)
        X = _as_table(X)
        names = column_names(X)
        n_decision = self.n_features_in_ - len(self.privileged_columns_)
        if names is not None and hasattr(self, "feature_names_in_"):
            kept = np.flatnonzero(~np.isin(names, self.feature_names_in_[self.privileged_columns_]))
        elif X.shape[1] == self.n_features_in_:
            kept = np.setdiff1d(np.arange(X.shape[1]), self.privileged_columns_)
        elif X.shape[1] == n_decision:
            kept = np.arange(n_decision)
        else:
            raise ValueError(
                f"X has {X.shape[1]} features, but PrivilegedColumns is expecting {self.n_features_in_} features as "
                f"input ({n_decision} without the privileged columns)."
            )
        return X if len(kept) == X.shape[1] else _columns(X, kept)

    @available_if(has_method("score"))
    def score(self, X: MatrixLike, y: VectorLike | None = None, **score_params: Any) -> float:
        """Score of the fitted estimator.

        Parameters
        ----------
        X : data frame, array-like or sparse matrix
            Table as in `fit`, with or without the privileged columns.
        y : array-like of shape (n_samples,)
            True targets.
        **score_params : dict
            Passed on to the estimator's `score`, e.g. `sample_weight`.

        Returns
        -------
        float
        """
        if get_config()["enable_metadata_routing"]:
            score_params = process_routing(self, "score", **score_params).estimator.score
        features = self._features(X)  # raises NotFittedError
        return float(self.estimator_.score(features, y, **score_params))

    def get_metadata_routing(self) -> Any:
        """Routing of metadata: all of it goes to the estimator.

        Returns
        -------
        MetadataRouter
        """
        mapping = MethodMapping().add(caller="fit", callee="fit").add(caller="score", callee="score")
        return MetadataRouter(owner=self).add(estimator=self.estimator, method_mapping=mapping)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = get_tags(self.estimator).input_tags.allow_nan
        return tags


def _columns(X: MatrixLike, positions: np.ndarray) -> MatrixLike:
    return _safe_indexing(X, positions.tolist(), axis=1)


def _fit_transform(transformer: BaseEstimator, block: MatrixLike, y: VectorLike | None) -> MatrixLike:
    """Features by a transformer that is fitted to the rows with a value; NaN throughout in the other rows."""
    cells = block.toarray() if sparse.issparse(block) else np.asarray(block)
    known = np.flatnonzero(~np.asarray(pd.isna(cells)).all(axis=1))
    if not len(known):
        raise ValueError(
            "no row has a value in the privileged columns: `privileged_transformer` has nothing to be fitted to."
        )
    targets = None if y is None else _safe_indexing(y, known)
    values = transformer.fit_transform(_safe_indexing(block, known), targets)
    if len(known) == block.shape[0]:
        return values
    features = np.full((block.shape[0], values.shape[1]), np.nan)
    features[known] = values.toarray() if sparse.issparse(values) else values
    return features


def _privileged_keyword(estimator: Any) -> str:
    """Argument of `fit` for the privileged columns; TypeError if there is none."""
    final = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    parameters = signature(final.fit).parameters if hasattr(final, "fit") and not isinstance(final, type) else {}
    # Grid searches and other wrappers take **params and hand them on.
    if "privileged" not in parameters and all(p.kind != Parameter.VAR_KEYWORD for p in parameters.values()):
        name = f"{final.__name__} (a class; pass an object)" if isinstance(final, type) else type(final).__name__
        raise TypeError(
            f"PrivilegedColumns needs an estimator whose `fit` takes `privileged`, such as lupi.SVM2Plus(), but got {name}."
        )
    if isinstance(estimator, Pipeline) and not get_config()["enable_metadata_routing"]:
        return f"{estimator.steps[-1][0]}__privileged"
    return "privileged"


def _as_table(X: MatrixLike) -> MatrixLike:
    refuse_masked(X, "PrivilegedColumns: `X`")
    if not sparse.issparse(X) and not (hasattr(X, "columns") and hasattr(X, "dtypes")):
        X = np.asarray(X)
    if len(X.shape) != 2:
        raise ValueError(
            f"Expected 2D array, got {len(X.shape)}D array instead: `X` must be a table that contains the privileged "
            "columns. Reshape your data, e.g. with X.reshape(-1, 1) if it has one column."
        )
    if X.shape[1] == 0:
        raise ValueError(f"Found array with 0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
    return X.tocsr() if sparse.issparse(X) else X


def _groups(columns: Any, X: MatrixLike) -> dict[Any, np.ndarray]:
    """Positions of the privileged columns of each space; of the only one by the name None."""
    if not isinstance(columns, Mapping):
        return {None: _positions(columns, X)}
    groups = {name: _positions(group, X) for name, group in columns.items()}
    empty = [name for name, group in groups.items() if len(group) == 0]
    if empty or not groups:
        raise ValueError(
            f"`columns` {f'names no column for the space {empty[0]!r}' if empty else 'names no space'}; give every space "
            "its columns."
        )
    return groups


def _positions(columns: Any, X: MatrixLike) -> np.ndarray:
    """Sorted positions of the selected columns."""
    selected = columns(X) if callable(columns) else columns
    if not isinstance(selected, str | Integral | slice):
        selected = np.asarray(selected).tolist()
    if isinstance(selected, list) and bool in map(type, selected) and len(selected) != X.shape[1]:
        raise ValueError(f"`columns` is a mask of length {len(selected)}, but `X` has {X.shape[1]} columns.")
    names = column_names(X)
    if names is not None and len(set(names)) < len(names):
        raise ValueError(f"`X` must have distinct column names to select from, got {names.tolist()}.")
    try:
        positions = _get_column_indices(X, selected)
    except (ValueError, TypeError, NotImplementedError) as error:
        shown = f"{X.shape[1]} columns without names" if names is None else f"the columns {names.tolist()}"
        raise ValueError(f"`columns` is {columns!r}, but `X` has {shown}: {error}") from None
    if callable(columns) and len(positions) == 0:
        raise ValueError(
            "The function given as `columns` selected no column of `X`; pass columns=[] to fit without privileged features."
        )
    return np.unique(np.asarray(positions, dtype=np.intp))
