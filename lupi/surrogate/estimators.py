"""Any scikit-learn estimator as a student or teacher: soft labels, scores and cross-fitting."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from joblib import Parallel, delayed
from scipy.special import log_softmax
from sklearn import get_config
from sklearn.base import BaseEstimator, RegressorMixin, clone, is_classifier
from sklearn.model_selection import check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_random_state, get_tags
from sklearn.utils.validation import has_fit_parameter

from lupi.inputs.types import Array, MatrixLike, RandomState, VectorLike
from lupi.privacy import WithoutPrivilegedRows, model_part
from lupi.surrogate.ridge import correlation, unit_of
from lupi.surrogate.targets import LOGIT_LIMIT, class_shares

if TYPE_CHECKING:
    from lupi.surrogate.members import Sample

# Smaller class probabilities do not change a fit, but would multiply the rows by the number of classes.
SMALLEST_SHARE = 1e-3


@model_part
@dataclass(eq=False, repr=False)
class SoftLabelStudent(RegressorMixin, BaseEstimator):
    """A classifier that learns soft labels: every row appears once per class, weighted with the class's probability."""

    estimator: Any

    def fit(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike | None = None) -> Self:
        """Fit to logits of two classes, of shape (n, 1), or to probabilities of several, of shape (n, n_classes)."""
        shares = class_shares(y)
        self.n_outputs_ = y.shape[1]
        row, label = np.nonzero(shares > SMALLEST_SHARE)
        weight = shares[row, label]
        if sample_weight is not None:
            weight = weight * sample_weight[row]
        self.estimator_ = fit_weighted(clone(self.estimator), _safe_indexing(X, row), label, weight)
        return self

    def predict(self, X: MatrixLike) -> Array:
        """Logits of shape (n, k)."""
        return class_scores(self.estimator_, X, self.n_outputs_)


def class_scores(classifier: BaseEstimator, X: MatrixLike, n_outputs: int) -> Array:
    """Scores of shape (n, n_outputs) from a classifier that was fitted to class codes."""
    n_classes = 2 if n_outputs == 1 else n_outputs
    seen = np.asarray(classifier.classes_, dtype=int)
    if hasattr(classifier, "decision_function"):
        values = classifier.decision_function(X)
        if n_outputs == 1:
            return np.asarray(values.reshape(-1, 1))
        scores = np.full((X.shape[0], n_classes), values.min())
        scores[:, seen] = np.column_stack([-values, values]) if values.ndim == 1 else values
        return scores
    shares = np.zeros((X.shape[0], n_classes))
    shares[:, seen] = classifier.predict_proba(X)
    logs = np.log(np.maximum(shares, np.exp(-2 * LOGIT_LIMIT)))
    if n_outputs == 1:
        return np.asarray(np.clip(logs[:, 1:] - logs[:, :1], -LOGIT_LIMIT, LOGIT_LIMIT))
    return centered_logits(logs)


def centered_logits(logits: Array) -> Array:
    """Logits of several classes with sum 0 and no log-probability below -2 * LOGIT_LIMIT."""
    logs = np.maximum(log_softmax(logits, axis=1), -2 * LOGIT_LIMIT)
    return np.asarray(logs - logs.mean(axis=1, keepdims=True))


def weight_keyword(estimator: BaseEstimator) -> str | None:
    """Keyword argument of ``fit`` for sample weights; None if it has none."""
    if isinstance(estimator, BaseSearchCV):
        return weight_keyword(estimator.estimator)
    if isinstance(estimator, Pipeline) and not get_config()["enable_metadata_routing"]:
        name, last = estimator.steps[-1]
        inner = weight_keyword(last)
        return None if inner is None else f"{name}__{inner}"
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


def fit_weighted(estimator: BaseEstimator, X: MatrixLike, y: Array, weight: Array) -> BaseEstimator:
    """Fit with weights; raise if they differ and ``fit`` does not accept weights."""
    keyword = weight_keyword(estimator)
    # scikit-learn's boosting takes ten times as long with weights, even if they are all 1.
    if keyword is not None and (weight != 1).any():
        return estimator.fit(X, y, **{keyword: weight})
    if np.ptp(weight) > 0:
        raise TypeError(
            f"`fit` of {type(estimator).__name__} must take `sample_weight`, because the rows have different weights (soft "
            "labels are weights of a classifier's rows); choose another estimator, or a regressor instead of a classifier."
        )
    return estimator.fit(X, y)


@model_part
def soft_correlation(
    estimator: BaseEstimator, X: MatrixLike, y: Array, sample_weight: VectorLike | None = None
) -> float:
    """Scorer of a search: correlation of the output with the soft target."""
    target = np.asarray(y).reshape(len(y), -1)
    if isinstance(estimator, SoftLabelStudent) and target.shape[1] > 1:
        target = centered_logits(np.log(np.maximum(target, np.finfo(float).tiny)))
    weight = np.ones(len(target)) if sample_weight is None else sample_weight
    return correlation(np.asarray(estimator.predict(X)).reshape(target.shape), target, weight)


@model_part
@dataclass(eq=False, repr=False)
class EstimatorMember(WithoutPrivilegedRows, BaseEstimator):
    """A scikit-learn estimator as the member of a pool, or as a teacher; `cv` folds make its left-out predictions.

    A regressor learns the targets, a classifier learns soft labels, and a search is scored against the targets. ``estimator_``
    is a list, one per class, if the estimator cannot predict several columns at once.
    """

    estimator: Any
    cv: Any = 5
    n_jobs: int | None = None
    random_state: RandomState = None

    _needed = ("estimator_", "n_outputs_", "on_labels_")

    def fit_left_out(self, sample: Sample) -> Array:
        """Fit to all rows, and refit without each fold; rows that are not cross-fitted get NaN."""
        self.n_outputs_ = sample.targets.shape[1]
        self.on_labels_ = sample.labels is not None and is_classifier(self.estimator)
        everything, left_out = np.arange(len(sample.targets)), np.full(sample.targets.shape, np.nan)
        rows = everything if sample.cross_fit_rows is None else sample.cross_fit_rows
        strata = np.zeros_like(everything) if sample.labels is None else sample.labels
        folds = make_folds(rows, strata, sample.groups, check_random_state(self.random_state), self.cv)
        units = everything if sample.groups is None else sample.groups
        parts = [everything, *(np.flatnonzero(~np.isin(units, units[fold])) for fold in folds)]
        jobs = (delayed(self._fit_rows)(sample, part) for part in parts)
        self.estimator_, *refitted = Parallel(n_jobs=self.n_jobs)(jobs)
        for fold, estimator in zip(folds, refitted):
            left_out[fold] = self._values(estimator, _safe_indexing(sample.X.values, fold))
        found = ~np.isnan(left_out[:, 0])
        self.spread_ = unit_of(left_out[found], sample.weight[found]) if found.any() else 1.0
        return left_out

    def _fit_rows(self, sample: Sample, rows: Array) -> BaseEstimator | list[BaseEstimator]:
        X, targets, weight = _safe_indexing(sample.X.values, rows), sample.targets[rows], sample.weight[rows]
        if self.on_labels_:
            return fit_weighted(clone(self.estimator), X, np.asarray(sample.labels)[rows], weight)
        student = _for_soft_targets(self.estimator)
        if is_classifier(self.estimator):
            return fit_weighted(student, X, targets, weight)
        if targets.shape[1] > 1 and not get_tags(student).target_tags.multi_output:
            return [fit_weighted(clone(student), X, column, weight) for column in targets.T]
        return fit_weighted(student, X, targets[:, 0] if targets.shape[1] == 1 else targets, weight)

    def _values(self, estimator: BaseEstimator | list[BaseEstimator], X: MatrixLike) -> Array:
        if self.on_labels_:
            return class_scores(estimator, X, self.n_outputs_)
        if isinstance(estimator, list):
            return np.column_stack([np.ravel(part.predict(X)) for part in estimator])
        return np.asarray(estimator.predict(X), dtype=float).reshape(-1, self.n_outputs_)

    def predict(self, X: MatrixLike) -> Array:
        """Scores of shape (n, k)."""
        return self._values(self.estimator_, X)


def _for_soft_targets(estimator: BaseEstimator) -> BaseEstimator:
    """A clone that learns soft targets; a search is scored against them."""
    if not isinstance(estimator, BaseSearchCV):
        return SoftLabelStudent(estimator) if is_classifier(estimator) else clone(estimator)
    search = clone(estimator).set_params(scoring=soft_correlation)
    if is_classifier(estimator):
        name = "param_grid" if hasattr(search, "param_grid") else "param_distributions"
        grids = [grid] if isinstance(grid := getattr(search, name), dict) else grid
        grids = [{f"estimator__{key}": values for key, values in grid.items()} for grid in grids]
        search.set_params(estimator=SoftLabelStudent(search.estimator), **{name: grids})
    return search


def make_folds(rows: Array, strata: Array, groups: Array | None, rng: np.random.RandomState, cv: Any) -> list[Array]:
    """Folds of `rows` with every stratum spread evenly; rows of a group stay together."""
    unit = rows if groups is None else groups[rows]
    units, place = np.unique(unit, return_inverse=True)
    if len(units) < 2:
        return []
    if not isinstance(cv, Integral):
        splits = check_cv(cv).split(rows, strata[rows], None if groups is None else unit)
        return [rows[test] for _, test in splits]
    # Strata are numbered by the first unit that has no other, whatever they are called; a unit of several has the first of them.
    s, low, high = strata[rows], np.full(len(units), strata.max()), np.zeros(len(units), dtype=int)
    np.minimum.at(low, place, s)
    np.maximum.at(high, place, s)
    earliest, stratum = np.full(strata.max() + 1, len(units)), np.full(len(units), len(units))
    np.minimum.at(earliest, low[low == high], np.flatnonzero(low == high))
    np.minimum.at(stratum, place, earliest[s])
    order = rng.permutation(len(units))
    order = order[np.argsort(stratum[order], kind="stable")]
    number = np.empty(len(units), dtype=int)
    number[order] = np.arange(len(units)) % min(int(cv), len(units))
    fold_of = number[place]
    return [rows[fold_of == fold] for fold in range(fold_of.max() + 1)]
