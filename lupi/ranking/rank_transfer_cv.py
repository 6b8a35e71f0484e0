"""The paper's joint cross-validation of (C, C_privileged), with each teacher trained once per fold."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from scipy.stats import rankdata
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold, check_cv
from sklearn.utils._param_validation import Interval, StrOptions

from lupi.inputs.decorators import fit_context
from lupi.inputs.training_set import TrainingSet
from lupi.inputs.types import Array, MatrixLike, PrivilegedLike, VectorLike
from lupi.privacy import model_part
from lupi.ranking.rank_transfer import RankTransfer, TransferRanker, warn_about_teacher
from lupi.ranking.ranker import check_has_pairs, check_ranking_set, path_scores
from lupi.ranking.ranking_metrics import RANKING_METRICS, default_metric
from lupi.solution import deadline, out_of_time

# Parameters of the grid.
TUNED = ("C", "C_privileged")
PAPER_GRID = (1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3)


@model_part
@dataclass(eq=False, repr=False)
class RankTransferCV(TransferRanker):
    r"""Rank Transfer with (C, C_privileged) chosen jointly by cross-validation.

    The result is that of scikit-learn's grid search over the same folds. A teacher depends on ``C_privileged`` only and is
    fitted once per fold; students of a fold share their features, students of a teacher their pairs; both start at the
    solution for the next smaller C. The paper's 7 x 7 grid [1]_ costs 7 teachers and 49 warm-started students per fold
    instead of 49 of each from scratch.

    Parameters
    ----------
    Cs : array-like of float, default=(1e-3, ..., 1e3)
        Values of C to try; the paper's seven.
    Cs_privileged : array-like of float, default=(1e-3, ..., 1e3)
        Values of C_privileged to try. Not used without privileged features.
    cv : int, cross-validation generator or iterable, default=5
        Folds: stratified for two grades, by query (:class:`~sklearn.model_selection.GroupKFold`) if ``group`` is given.
    scoring : str or callable, default=None
        What to maximize: "average_precision", "roc_auc", "ndcg" or "ndcg@k" with k in 1, 3, 5, 10, 20; a callable gets
        ``(y, scores, group)``. None: average precision for two grades, NDCG for more.
    pairs, margin_threshold, loss, kernel, gamma, degree, coef0, n_components
        Of :class:`RankTransfer`.
    privileged_kernel, privileged_gamma, privileged_degree, privileged_coef0
        Of :class:`RankTransfer`.
    solver, tol, max_iter, max_time, random_state
        Of :class:`RankTransfer`. ``max_time`` limits the search and, separately, the final fit; the finished folds
        choose.

    Attributes
    ----------
    best_estimator_ : RankTransfer
        Refitted on all examples with the best pair of values.
    best_params_ : dict
        ``{"C": ..., "C_privileged": ...}``.
    best_score_ : float
        Mean score of the best pair over the folds.
    best_index_ : int
        Its position in ``cv_results_``.
    cv_results_ : dict of ndarrays
        As in scikit-learn's :class:`~sklearn.model_selection.GridSearchCV`.
    n_splits_ : int
        Number of folds.
    coef_, dual_coef_, grades_, n_pairs_, objective_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        Of the refitted student; see :class:`RankSVM`.

    References
    ----------
    .. [1] V. Sharmanska, N. Quadrianto, C. H. Lampert, *Learning to rank using privileged information*, ICCV 2013,
       section 4, "Model selection".

    Examples
    --------
    >>> import numpy as np
    >>> from lupi import RankTransferCV
    >>> rng = np.random.default_rng(0)
    >>> quality = rng.normal(size=100)
    >>> X = quality[:, None] + rng.normal(size=(100, 30))
    >>> privileged = quality[:, None] + 0.1 * rng.normal(size=(100, 2))
    >>> y = quality + 0.5 * rng.normal(size=100) > 0
    >>> search = RankTransferCV(cv=3).fit(X, y, privileged=privileged)
    >>> len(search.cv_results_["params"])
    49
    >>> search.best_estimator_.C == search.best_params_["C"]
    True
    """

    Cs: Any = PAPER_GRID
    Cs_privileged: Any = PAPER_GRID
    _: KW_ONLY
    cv: Any = 5
    scoring: Any = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **{name: allowed for name, allowed in TransferRanker._parameter_constraints.items() if name not in TUNED},
        "Cs": ["array-like"],
        "Cs_privileged": ["array-like"],
        "cv": ["cv_object", Interval(Integral, 2, None, closed="left")],
        "scoring": [None, StrOptions(set(RANKING_METRICS)), callable],
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: MatrixLike, y: VectorLike, privileged: PrivilegedLike | None = None, group: VectorLike | None = None
    ) -> Self:
        """Choose C and C_privileged, then refit on everything.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Examples.
        y : array-like of shape (n_samples,)
            Grades, higher = to be ranked higher.
        privileged : {array-like, sparse matrix} of shape (n_samples, n_privileged), default=None
            Features that exist at training time only; see :meth:`RankTransfer.fit`.
        group : array-like of shape (n_samples,), default=None
            Query of each example. Queries are kept together in the folds.

        Returns
        -------
        RankTransferCV
            This object.
        """
        fixed = {name: getattr(self, name) for name in RankTransfer().get_params() if name not in TUNED}
        data = check_ranking_set(self, X, y, privileged, group)
        check_has_pairs(data)
        Cs, Cs_privileged = _check_grid("Cs", self.Cs), _check_grid("Cs_privileged", self.Cs_privileged)
        if not data.available.any():
            Cs_privileged = np.array([RankTransfer().C_privileged])
        params: list[dict[str, Any]] = [{"C": float(c), "C_privileged": float(p)} for p in Cs_privileged for c in Cs]
        with deadline(self.max_time):
            scores = self._score_folds([RankTransfer(**fixed, **one) for one in params], data)
        self.n_splits_, self.cv_results_ = len(scores), _results(params, scores)
        mean = self.cv_results_["mean_test_score"]
        self.best_index_ = int(np.nanargmax(mean))
        self.best_params_, self.best_score_ = params[self.best_index_], float(mean[self.best_index_])
        self.best_estimator_ = RankTransfer(**fixed, **self.best_params_)
        with deadline(self.max_time):
            self.best_estimator_._fit_path([self.best_estimator_], data)
        warn_about_teacher(self.best_estimator_, data)
        for name in vars(self.best_estimator_).keys() - self.best_estimator_.get_params(deep=False).keys():
            setattr(self, name, getattr(self.best_estimator_, name))
        return self

    def _score_folds(self, models: list[RankTransfer], data: TrainingSet) -> Array:
        """Scores of the grid on every fold; on the finished folds if time runs out."""
        scores: list[Any] = []
        folds = list(self._folds(data))
        for fold in folds:
            found = self._score_fold(models, data, *fold)
            if out_of_time():
                message = (
                    f"RankTransferCV reached max_time={self.max_time:g} s in fold {len(scores) + 1} of {len(folds)}: the "
                    f"values were chosen by {max(1, len(scores))} of them; allow more time, or try fewer values."
                )
                warnings.warn(ConvergenceWarning(message), stacklevel=4)
                # In an unfinished fold the last candidates have stopped early.
                return np.array(scores or [found])
            scores.append(found)
        return np.array(scores)

    def _folds(self, data: TrainingSet) -> Iterator[tuple[Array, Array]]:
        """Folds of the labeled rows; unlabeled rows are in every training set."""
        labeled, others = np.flatnonzero(data.labeled), np.flatnonzero(~data.labeled)
        y, group = data.target[labeled], None if data.groups is None else data.groups[labeled]
        by_query = group is not None and isinstance(self.cv, Integral)
        splitter = GroupKFold(self.cv) if by_query else check_cv(self.cv, y, classifier=len(np.unique(y)) == 2)
        for train, test in splitter.split(np.zeros(len(y)), y, group):
            yield np.concatenate([labeled[train], others]), labeled[test]

    def _score_fold(self, models: list[RankTransfer], data: TrainingSet, train: Array, test: Array) -> list[float]:
        """Scores of the grid on one fold."""
        default = default_metric(len(np.unique(data.target[data.labeled])))
        metric = self.scoring if callable(self.scoring) else RANKING_METRICS.get(self.scoring, default)
        seen = data.take(train)
        models[0]._fit_path(models, replace(seen, kept=np.arange(len(train)), n_rows=len(train)))
        X = data.X.values[np.ix_(test, train)] if data.X.square else data.X.load(test)
        queries = None if data.groups is None else data.groups[test]
        return [metric(data.target[test], scores, queries) for scores in path_scores(models, X)]


def _check_grid(name: str, values: Sequence[float]) -> Array:
    grid = np.atleast_1d(np.asarray(values, dtype=float))
    if grid.ndim != 1 or not len(grid) or not (grid > 0).all() or not np.isfinite(grid).all():
        raise ValueError(f"{name} must be a list of positive numbers; got {values!r}.")
    return grid


def _results(params: list[dict[str, Any]], scores: Array) -> dict[str, Any]:
    mean, split = scores.mean(axis=0), {f"split{k}_test_score": fold for k, fold in enumerate(scores)}
    rank = rankdata(-mean, method="min").astype(np.int32)
    tried = {f"param_{name}": np.array([one[name] for one in params]) for name in TUNED}
    found = {"mean_test_score": mean, "std_test_score": scores.std(axis=0), "rank_test_score": rank}
    return {**tried, "params": params, **split, **found}
