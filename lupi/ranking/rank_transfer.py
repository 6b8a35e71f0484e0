"""Rank Transfer: rank with the margins that a teacher reaches on privileged features."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import chdtri
from scipy.stats import rankdata
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold, check_cv
from sklearn.utils._param_validation import Interval, StrOptions

from lupi.inputs.decorators import fit_context
from lupi.inputs.training_set import TrainingSet
from lupi.inputs.types import Array, KernelName, MatrixLike, PrivilegedLike, VectorLike
from lupi.kernels.kernel import PRIVILEGED_KERNEL_CONSTRAINTS, BlockStack
from lupi.privacy import WithoutPrivilegedRows, model_part
from lupi.ranking.pairwise import transfer_pairs
from lupi.ranking.ranker import (
    BaseRanker,
    RankSVM,
    check_has_pairs,
    check_ranking_set,
    fit_candidates,
    fit_on_pairs,
    make_features,
    path_scores,
)
from lupi.ranking.ranking_metrics import RANKING_METRICS, default_metric
from lupi.solution import deadline, out_of_time

# Largest number of examples on which a teacher is judged.
JUDGED_ROWS = 500
# Warn if the teacher gives a smaller share of the pairs across grades a margin above the threshold.
FEW_PAIRS = 0.01
# Parameters that a teacher takes from the student.
SHARED = ("loss", "n_components", "solver", "tol", "max_iter", "max_time", "random_state")


@dataclass(eq=False, repr=False)
class TransferRanker(WithoutPrivilegedRows, BaseRanker):
    """Further parameters of Rank Transfer and its cross-validation."""

    _: KW_ONLY
    pairs: str = "across"
    margin_threshold: float = 0.1
    loss: str = "squared_hinge"
    privileged_kernel: KernelName = "linear"
    privileged_gamma: str | float = "scale"
    privileged_degree: float = 3
    privileged_coef0: float = 0.0
    unlabeled: Any = None

    __metadata_request__fit: ClassVar = {"privileged": True, "group": True}
    _needed = ("coef_", "grades_")
    _needed_without_coef = ("dual_coef_", "X_fit_", "_kernel")

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseRanker._parameter_constraints,
        **PRIVILEGED_KERNEL_CONSTRAINTS,
        "C_privileged": BaseRanker._parameter_constraints["C"],
        "pairs": [StrOptions({"all", "across"})],
        "margin_threshold": [Interval(Real, 0.0, None, closed="left")],
        "unlabeled": "no_validation",
    }


@model_part
@dataclass(eq=False, repr=False)
class RankTransfer(TransferRanker):
    r"""Ranking SVM whose margins are those of a ranking on the privileged features.

    Algorithm 1 of [1]_: a :class:`RankSVM` on the privileged features, the teacher, gives each training example a score
    :math:`f^*_i`. The student on the ordinary features learns the teacher's margins,

    .. math:: \min_w \; \tfrac12 \|w\|^2 + C \sum_{(i, j)} \ell(\xi_{ij}), \qquad
              \xi_{ij} = [\rho_{ij} - w \cdot (x_i - x_j)]_+ , \quad \rho_{ij} = f^*_i - f^*_j ,

    eq. (8)-(9), over the pairs with :math:`\rho_{ij} > \tau` and :math:`y_i \ge y_j` (or :math:`y_i > y_j`). Pairs that
    the teacher ranks easily get a large margin; pairs that it cannot rank are left out. With
    :math:`r_i = f^*_i - w \cdot x_i` a pair's slack is :math:`[r_i - r_j]_+`, so all sums over pairs are dominance
    sums in (y, f*, r): exact, in O(n log n log L) for L grades, without a list of pairs.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss of one pair in the student.
    C_privileged : float, default=1.0
        Weight of the loss of one pair in the teacher.
    pairs : {"across", "all"}, default="across"
        "across" uses pairs of different grades only. "all" is the paper's :math:`y_i \ge y_j`: examples of the same grade
        keep the teacher's order, too. These pairs outnumber the others: with a teacher near chance the student may rank
        backwards.
    margin_threshold : float, default=0.1
        :math:`\tau`. The paper's value is 0.1.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        Loss of a pair, for teacher and student.
    kernel, gamma, degree, coef0
        Kernel of the student; see :class:`RankSVM`.
    privileged_kernel, privileged_gamma, privileged_degree, privileged_coef0
        Kernel of the teacher. With several privileged tables one value for all, or a list or dict with one value per
        table; the kernels are added.
    n_components : int, default=None
        Number of Nystroem components. None: exact up to 2000 examples, 500 components above.
    solver : {"auto", "newton", "coordinate"}, default="auto"
        See :class:`RankSVM`.
    tol : float, default=1e-5
        Relative duality gap that a fit aims at; it ends above it only with a ``ConvergenceWarning``.
    max_iter : int, default=500
        Largest number of Newton steps and of passes over the pairs.
    max_time : float or None, default=None
        Seconds after which a fit ends with the best point so far, its gap and a ``ConvergenceWarning``; None for no limit.
    random_state : int, RandomState instance or None, default=None
        Selects Nystroem's components.
    unlabeled : object, default=None
        Value of `y` that marks unlabeled rows, such as -1, in addition to NaN, None and pandas' NA.

    Attributes
    ----------
    teacher_ : RankSVM or None
        Ranker on the privileged features; None without privileged features.
    margins_ : ndarray of shape (n_samples,)
        The teacher's score of each training example, NaN where it had no privileged data. :math:`\rho_{ij}` is the
        difference of two of them.
    coef_, dual_coef_, grades_, n_pairs_, objective_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        Of the student; see :class:`RankSVM`.

    Notes
    -----
    A row of ``privileged`` that is entirely NaN marks an example without privileged features. The teacher does not use it,
    and its pairs are those of the ranking SVM: margin 1, only if :math:`y_i > y_j`. So ``privileged=None`` gives
    :class:`RankSVM`, and so does ``privileged`` without an available row.

    Unlabeled rows that have privileged features are scored by the teacher and paired with each other in the teacher's
    order. Unlabeled rows without privileged features are dropped.

    References
    ----------
    .. [1] V. Sharmanska, N. Quadrianto, C. H. Lampert, *Learning to rank using privileged information*, ICCV 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi import RankTransfer
    >>> rng = np.random.default_rng(0)
    >>> quality = rng.normal(size=400)
    >>> X = quality[:, None] + rng.normal(size=(400, 8))
    >>> privileged = quality[:, None] + 0.1 * rng.normal(size=(400, 2))
    >>> y = quality + 0.5 * rng.normal(size=400) > 0
    >>> ranker = RankTransfer(C=1e-4, C_privileged=1e-2).fit(X, y, privileged=privileged)
    >>> round(ranker.score(X, y), 2)
    0.91
    """

    C: float = 1.0
    C_privileged: float = 1.0

    _path_parameters = ("C", "C_privileged")

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: MatrixLike, y: VectorLike, privileged: PrivilegedLike | None = None, group: VectorLike | None = None
    ) -> Self:
        """Fit the teacher, then the student.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features)
            Examples. A Dask array or frame stays in its chunks (linear kernels); the other arguments are chunked alike.
        y : array-like of shape (n_samples,)
            Grades, higher = to be ranked higher; NaN, None, pandas' NA and the value `unlabeled` mark unlabeled rows.
        privileged : {array-like, sparse matrix} of shape (n_samples, n_privileged), default=None
            Features that exist at training time only. A row that is entirely NaN is not available for this example.
            A list or dict holds several tables, from which one teacher learns. None fits a :class:`RankSVM`.
        group : array-like of shape (n_samples,), default=None
            Query of each example: only examples of the same query are compared.

        Returns
        -------
        RankTransfer
            This object.
        """
        with deadline(self.max_time):
            data = check_ranking_set(self, X, y, privileged, group)
            self._fit_path([self], data)
            warn_about_teacher(self, data)
        return self

    def fit_path(
        self,
        candidates: list[dict[str, Any]],
        X: MatrixLike,
        y: VectorLike,
        privileged: PrivilegedLike | None = None,
        group: VectorLike | None = None,
    ) -> list[Any]:
        """Fit for several parameters; candidates that differ in C and C_privileged alone share their work.

        Each teacher is fitted once, students share their features, and students of one teacher share their pairs. Teachers
        and students start at the solution for the next smaller C.

        Parameters
        ----------
        candidates : sequence of dict
            Parameters of each fit.
        X, y, privileged, group : array-like
            As in :meth:`fit`.

        Returns
        -------
        list of RankTransfer or ValueError
            For each candidate the fitted clone, or the error of its fit.
        """
        return fit_candidates(self, candidates, X, y, privileged, group)

    def _fit_path(self, models: list[Any], data: TrainingSet) -> None:
        """Fit rankers that differ in C and C_privileged alone."""
        space, within = make_features(self, data), self.pairs == "all"
        for C, (teacher, scores) in _fit_teachers(self, data, {model.C_privileged for model in models}).items():
            students = [model for model in models if model.C_privileged == C]
            margins = np.full(data.n_rows, np.nan)
            margins[data.kept] = scores
            for model in students:
                model.teacher_, model.margins_ = teacher, margins
            pairs = transfer_pairs(data.target, scores, tau=self.margin_threshold, within=within, group=data.groups)
            fit_on_pairs(students, data, space, pairs)


def _fit_teachers(ranker: RankTransfer, data: TrainingSet, Cs: set[float]) -> dict[float, tuple[RankSVM | None, Array]]:
    """For each C_privileged the teacher and its scores of all rows, NaN where privileged features are not available."""
    scores = np.full((len(Cs), len(data)), np.nan)
    if not data.available.any():
        return {C: (None, row) for C, row in zip(Cs, scores)}
    if len(data.privileged) == 1:
        joined = data.privileged[0]
        settings: dict[str, Any] = {
            name: getattr(ranker, f"privileged_{name}") for name in ("kernel", "gamma", "degree", "coef0")
        }
    else:
        stack = BlockStack.of(ranker, data.privileged)
        joined = stack.join(data.privileged)
        kernel = stack.kernel(ranker, joined, np.ones(len(data)))
        settings = {"kernel": kernel if kernel.name == "sum" else kernel.name}
    settings |= {name: getattr(ranker, name) for name in SHARED}
    rows, scored = np.flatnonzero(joined.available & data.labeled), np.flatnonzero(joined.available)
    seen = replace(
        data.take(rows), X=joined.rows.gather(rows), kept=np.arange(len(rows)), privileged=(), feature_names=None
    )
    teachers = [RankSVM(C=C, **settings) for C in sorted(Cs)]
    try:
        teachers[0]._fit_path(teachers, seen)
    except ValueError as error:
        raise ValueError(
            f"no teacher can be trained on the {len(rows)} examples that have `privileged`, its X: {error}"
        ) from None
    square = joined.rows.square
    given = joined.rows.values[np.ix_(scored, rows)] if square else joined.rows.gather(scored).operand
    scores[:, scored] = path_scores(teachers, given)
    return {teacher.C: (teacher, row) for teacher, row in zip(teachers, scores)}


def warn_about_teacher(ranker: RankTransfer, data: TrainingSet) -> None:
    """Warn if the margins of a fitted ranker's teacher are of little use."""
    for message in _judge_teacher(ranker, data):
        warnings.warn(message, UserWarning, stacklevel=4)


def _judge_teacher(ranker: RankTransfer, data: TrainingSet) -> Iterator[str]:
    """What is wrong with the teacher."""
    teacher, scores = ranker.teacher_, ranker.margins_[data.kept]
    if teacher is None:
        return
    threshold = f"margin_threshold={ranker.margin_threshold:g}"
    advice = f"lower margin_threshold or raise C_privileged={ranker.C_privileged:g}."
    if ranker.n_pairs_ == 0:
        largest = np.nanmax(scores) - np.nanmin(scores)
        yield f"{threshold} leaves no pair: the teacher's largest margin is {largest:.2g}, so all scores are 0; {advice}"
        return
    rows = np.flatnonzero(data.labeled & ~np.isnan(scores))
    rows = rows[:: 1 + len(rows) // JUDGED_ROWS]
    y, scores = data.target[rows], scores[rows]
    across = y[:, None] > y
    if data.groups is not None:
        across &= data.groups[rows][:, None] == data.groups[rows]
    margins = (scores[:, None] - scores)[across]
    if not len(margins):
        return
    share = np.mean(margins > ranker.margin_threshold)
    if share < FEW_PAIRS:
        yield (
            f"RankTransfer: the teacher gives {share:.1%} of the pairs across grades a margin above {threshold}, so the "
            f"student learns little from the grades; {advice}"
        )
    correct = np.mean(margins > 0) + np.mean(margins == 0) / 2
    # Pairs that share an example depend on each other: about as many are independent as the rarer side has examples.
    rarer = min(across.any(axis=1).sum(), across.any(axis=0).sum())
    n_features = len(getattr(teacher, "dual_coef_" if hasattr(teacher, "dual_coef_") else "coef_"))
    # The largest z-score that noise reaches over d directions is the root of a chi-squared variable; with fewer than ten
    # examples per feature, regularization makes this bound far too high.
    n_directions = n_features if 10 * n_features <= rarer else 1
    chance = 0.5 + np.sqrt(chdtri(n_directions, 0.1) / (6.0 * rarer))
    if correct < chance:
        yield (
            f"RankTransfer: the teacher ranks {correct:.0%} of the training pairs across grades correctly, no better than "
            f"chance ({n_features} features of noise reach up to {chance:.0%}), so its margins may mislead the student; "
            "compare with privileged=None."
        )


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
        default = default_metric(len(np.unique(data.target[data.labeled])))
        metric = self.scoring if callable(self.scoring) else RANKING_METRICS.get(self.scoring, default)
        scores: list[Any] = []
        folds = list(self._folds(data))
        for train, test in folds:
            seen = replace(data.take(train), kept=np.arange(len(train)), n_rows=len(train))
            models[0]._fit_path(models, seen)
            X = data.X.values[np.ix_(test, train)] if data.X.square else data.X.load(test)
            queries = None if data.groups is None else data.groups[test]
            found = [metric(data.target[test], values, queries) for values in path_scores(models, X)]
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
