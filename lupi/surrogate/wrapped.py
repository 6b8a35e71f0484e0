"""Any scikit-learn estimator as a student or teacher of surrogate learning: soft labels in, scores out, cross-fitting."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit, log_softmax
from sklearn import get_config
from sklearn.base import BaseEstimator, RegressorMixin, clone, is_classifier
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_random_state, get_tags
from sklearn.utils.validation import has_fit_parameter

from lupi.inputs.types import MatrixLike, RandomState, VectorLike
from lupi.model_parts import model_part
from lupi.surrogate import correlation, spread

# Logits beyond this are as good as certain; a forest's probabilities of 0 and 1 end here.
LOGIT_LIMIT = 6.0
# Shares of a class below this change no fit, but would multiply the rows by the number of classes.
SMALLEST_SHARE = 1e-3
FOLDS = 5


@model_part
class SoftLabelStudent(RegressorMixin, BaseEstimator):
    """A classifier that learns soft labels: every row once for each class, weighted with that class's share.

    Parameters
    ----------
    estimator : classifier
        Its ``fit`` takes ``sample_weight``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> x = np.linspace(-2, 2, 50)[:, None]
    >>> student = SoftLabelStudent(LogisticRegression(C=100)).fit(x, 1.5 * x)
    >>> np.abs(student.predict(x) - 1.5 * x).max().round(1)
    np.float64(0.0)
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike | None = None) -> Self:
        """Fit to `y` of shape (n, 1), logits of two classes, or (n, n_classes), probabilities of several."""
        shares = class_shares(y)
        self.n_outputs_ = y.shape[1]
        row, label = np.nonzero(shares > SMALLEST_SHARE)
        weight = shares[row, label]
        if sample_weight is not None:
            weight = weight * sample_weight[row]
        self.estimator_ = fit_weighted(clone(self.estimator), _safe_indexing(X, row), label, weight)
        return self

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Logits of shape (n, k)."""
        return class_scores(self.estimator_, X, self.n_outputs_)


def class_shares(target: np.ndarray) -> np.ndarray:
    """Probabilities of shape (n, n_classes) from the surrogate: logits of two classes, probabilities of several."""
    if target.shape[1] > 1:
        return target
    positive = expit(target[:, 0])
    return np.column_stack([1.0 - positive, positive])


def class_scores(classifier: BaseEstimator, X: MatrixLike, n_outputs: int) -> np.ndarray:
    """Scores of shape (n, n_outputs) from a fitted classifier whose labels are positions of classes."""
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


def centered_logits(logits: np.ndarray) -> np.ndarray:
    """Logits of several classes that sum to 0, no log-probability below -2 * LOGIT_LIMIT."""
    logs = np.maximum(log_softmax(logits, axis=1), -2 * LOGIT_LIMIT)
    return np.asarray(logs - logs.mean(axis=1, keepdims=True))


def weight_keyword(estimator: BaseEstimator) -> str | None:
    """Name of the keyword by which ``fit`` takes the weights; None if it takes none."""
    if isinstance(estimator, BaseSearchCV):
        return weight_keyword(estimator.estimator)
    if isinstance(estimator, Pipeline) and not get_config()["enable_metadata_routing"]:
        name, last = estimator.steps[-1]
        inner = weight_keyword(last)
        return None if inner is None else f"{name}__{inner}"
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


def fit_weighted(estimator: BaseEstimator, X: MatrixLike, y: np.ndarray, weight: np.ndarray) -> BaseEstimator:
    """Fit with weights, which a ``fit`` without them gets only if they are all equal."""
    keyword = weight_keyword(estimator)
    # Weights of 1 are none; scikit-learn's boosting takes ten times as long with them.
    if keyword is not None and (weight != 1).any():
        return estimator.fit(X, y, **{keyword: weight})
    if np.ptp(weight) > 0:
        raise TypeError(
            f"the weights of the rows differ (a classifier gets soft labels as weights), so the `fit` of "
            f"{type(estimator).__name__} must take `sample_weight`, which it does not; choose another estimator, or a "
            "regressor in place of a classifier."
        )
    return estimator.fit(X, y)


@model_part
def soft_correlation(
    estimator: BaseEstimator, X: MatrixLike, y: np.ndarray, sample_weight: VectorLike | None = None
) -> float:
    """Score of a search: correlation of the output with the soft target."""
    target = np.asarray(y).reshape(len(y), -1)
    if isinstance(estimator, SoftLabelStudent) and target.shape[1] > 1:
        target = centered_logits(np.log(np.maximum(target, np.finfo(float).tiny)))
    weight = np.ones(len(target)) if sample_weight is None else sample_weight
    return correlation(np.asarray(estimator.predict(X)).reshape(target.shape), target, weight)


@model_part
class WrappedStudent(BaseEstimator):
    """A user's estimator in the role of a student or a teacher.

    Parameters
    ----------
    estimator : estimator
        A regressor learns the target itself, a classifier soft labels, a search is scored against the target.
    cross_fit : bool, default=True
        Whether to compute ``left_out_`` by refits without a fifth of the rows each.
    n_jobs : int or None
    random_state : int, RandomState or None

    Attributes
    ----------
    estimator_ : estimator or list of estimators
        One fitted estimator; a list, one a class, if it cannot predict several columns at once.
    left_out_ : ndarray of shape (n, k)
        Cross-fitted values of the rows asked for (NaN elsewhere).
    spread_ : float
    """

    def __init__(self, estimator: Any, n_jobs: int | None = None, random_state: RandomState = None) -> None:
        self.estimator = estimator
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        X: MatrixLike,
        targets: np.ndarray,
        weight: np.ndarray,
        groups: np.ndarray | None = None,
        labels: np.ndarray | None = None,
        honest: np.ndarray | None = None,
    ) -> Self:
        """Fit to targets of shape (n, k), or to the class numbers `labels`; cross-fit the rows `honest`."""
        self.n_outputs_ = targets.shape[1]
        self.on_labels_ = labels is not None and is_classifier(self.estimator)
        rows = np.arange(len(targets)) if honest is None else honest
        strata = np.zeros(len(targets), dtype=int) if labels is None else labels
        folds = deal(rows, strata, groups, check_random_state(self.random_state))
        jobs = [
            np.arange(len(targets)),
            *(np.setdiff1d(np.arange(len(targets)), _with_group(f, groups)) for f in folds),
        ]
        fitted = Parallel(n_jobs=self.n_jobs)(
            delayed(self._fit_rows)(X, targets, weight, labels, kept) for kept in jobs
        )
        self.estimator_, *others = fitted
        self.left_out_ = np.full(targets.shape, np.nan)
        for fold, estimator in zip(folds, others):
            self.left_out_[fold] = self._values(estimator, _safe_indexing(X, fold))
        there = ~np.isnan(self.left_out_[:, 0])
        self.spread_ = max(spread(self.left_out_[there], weight[there]), 1e-12) if there.any() else 1.0
        return self

    def _fit_rows(
        self, X: MatrixLike, targets: np.ndarray, weight: np.ndarray, labels: np.ndarray | None, kept: np.ndarray
    ) -> BaseEstimator | list[BaseEstimator]:
        X, targets, weight = _safe_indexing(X, kept), targets[kept], weight[kept]
        if self.on_labels_:
            return fit_weighted(clone(self.estimator), X, np.asarray(labels)[kept], weight)
        student = _against_soft_target(self.estimator)
        if is_classifier(self.estimator):
            return fit_weighted(student, X, targets, weight)
        if targets.shape[1] > 1 and not get_tags(student).target_tags.multi_output:
            return [fit_weighted(clone(student), X, column, weight) for column in targets.T]
        return fit_weighted(student, X, targets[:, 0] if targets.shape[1] == 1 else targets, weight)

    def _values(self, estimator: BaseEstimator | list[BaseEstimator], X: MatrixLike) -> np.ndarray:
        if self.on_labels_:
            return class_scores(estimator, X, self.n_outputs_)
        if isinstance(estimator, list):
            return np.column_stack([np.ravel(part.predict(X)) for part in estimator])
        return np.asarray(estimator.predict(X), dtype=float).reshape(-1, self.n_outputs_)

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Scores of shape (n, k)."""
        return self._values(self.estimator_, X)


def _against_soft_target(estimator: BaseEstimator) -> BaseEstimator:
    """A clone that learns from soft targets; a search in it is scored against them."""
    if not isinstance(estimator, BaseSearchCV):
        return SoftLabelStudent(estimator) if is_classifier(estimator) else clone(estimator)
    search = clone(estimator).set_params(scoring=soft_correlation)
    if is_classifier(estimator):
        grids = {
            name: _prefixed(value)
            for name, value in search.get_params(deep=False).items()
            if name in ("param_grid", "param_distributions")
        }
        search.set_params(estimator=SoftLabelStudent(search.estimator), **grids)
    return search


def _prefixed(grid: dict[str, Any] | list[Any]) -> dict[str, Any] | list[Any]:
    if isinstance(grid, dict):
        return {f"estimator__{name}": values for name, values in grid.items()}
    return [_prefixed(part) for part in grid]


def _with_group(fold: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    return fold if groups is None else np.flatnonzero(np.isin(groups, groups[fold]))


def deal(
    rows: np.ndarray, strata: np.ndarray, groups: np.ndarray | None, rng: np.random.RandomState, n_folds: int = FOLDS
) -> list[np.ndarray]:
    """Folds of `rows`, every stratum spread evenly; rows of one group stay together.

    Examples
    --------
    >>> folds = deal(np.arange(6), np.array([0, 0, 0, 0, 1, 1]), None, np.random.RandomState(0), n_folds=2)
    >>> [sorted(np.array([0, 0, 0, 0, 1, 1])[fold].tolist()) for fold in folds]
    [[0, 0, 1], [0, 0, 1]]
    """
    unit = rows if groups is None else groups[rows]
    units, first = np.unique(unit, return_index=True)
    order = rng.permutation(len(units))
    order = order[np.argsort(strata[rows][first][order], kind="stable")]
    number = np.empty(len(units), dtype=int)
    number[order] = np.arange(len(units)) % min(n_folds, len(units))
    fold_of = number[np.searchsorted(units, unit)]
    return [rows[fold_of == fold] for fold in range(fold_of.max() + 1)] if len(units) > 1 else []
