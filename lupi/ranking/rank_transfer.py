"""Rank Transfer: rank with the margins that a teacher reaches on privileged features."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from lupi.inputs import check_privileged, is_chunked, is_per_space
from lupi.inputs.chunked_input import read_chunks
from lupi.inputs.decorators import fit_context
from lupi.inputs.types import KernelName, MatrixLike, PrivilegedLike, RandomState, VectorLike
from lupi.kernels.several_spaces import PER_SPACE, StackedInput, check_spaces, refuse_several
from lupi.model_parts import model_part
from lupi.privacy import WithoutPrivilegedRows
from lupi.ranking.pairwise import plain_pairs, transfer_pairs
from lupi.ranking.rank_svm import (
    RANKER_CONSTRAINTS,
    BaseRanker,
    RankSVM,
    check_ranking_input,
    path_scores,
    prepare_path,
)
from lupi.solution import deadline

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from lupi.inputs.checks import PrivilegedInput
    from lupi.ranking.pairwise import PairSet
    from lupi.ranking.rank_svm import RankingInput

# Examples on which a teacher is judged, at most; and the share of pairs below which hardly any are left.
LOOKED_AT = 1000
FEW_PAIRS = 0.01


def check_transfer_input(
    estimator: BaseEstimator, X: MatrixLike, y: VectorLike, privileged: PrivilegedLike, group: VectorLike | None
) -> tuple[RankingInput, PrivilegedInput | None]:
    """Input of a ranker with privileged features: a RankingInput, and a PrivilegedInput or None."""
    if is_chunked(X):
        refuse_several(estimator, privileged)
        chunks = read_chunks(estimator, X, privileged, (np.float64,), y=y, group=group)
        X, privileged = chunks.table(), chunks.privileged
        y, group = chunks.vectors.values()
        chunks.set_columns(estimator)
    data = check_ranking_input(estimator, X, y, group, partial=True)
    if is_per_space(privileged) or any(is_per_space(getattr(estimator, name, None)) for name in PER_SPACE):
        return data, _with_kernel(estimator, check_spaces(estimator, privileged, len(data.y), index_of=X))
    given, name = estimator.privileged_kernel == "precomputed", type(estimator).__name__
    found = check_privileged(privileged, len(data.y), estimator_name=name, precomputed=given, index_of=X)
    return data, _with_kernel(estimator, found)


def _gives_matrix(estimator: RankTransfer, privileged: PrivilegedInput) -> bool:
    """Whether the privileged features, of one or several spaces, are kernel values."""
    stack = getattr(privileged, "stack", None)
    return estimator.privileged_kernel == "precomputed" if stack is None else stack.form == "precomputed"


def _with_kernel(estimator: BaseEstimator, privileged: PrivilegedInput | None) -> PrivilegedInput | None:
    """Several spaces with the kernel of their sum, which all teachers share."""
    if not isinstance(privileged, StackedInput) or privileged.stack is None or privileged.kernel is not None:
        return privileged
    if not privileged.available.any():
        return privileged
    known = privileged.data[privileged.available]
    return replace(privileged, kernel=privileged.stack.kernel(estimator, known, np.ones(known.shape[0])))


@model_part
class RankTransfer(WithoutPrivilegedRows, BaseRanker):
    r"""Ranking SVM whose margins are those of a ranking on the privileged features.

    Algorithm 1 of [1]_: a :class:`RankSVM` on the privileged features, the teacher, gives each training example a score
    :math:`f^*_i`. The student on the ordinary features is asked for the teacher's margins,

    .. math:: \min_w \; \tfrac12 \|w\|^2 + C \sum_{(i, j)} \ell(\xi_{ij}), \qquad
              \xi_{ij} = [\rho_{ij} - w \cdot (x_i - x_j)]_+ , \quad \rho_{ij} = f^*_i - f^*_j ,

    eq. (8)-(9), over the pairs with :math:`\rho_{ij} > \tau` and :math:`y_i \ge y_j` (or :math:`y_i > y_j`). Pairs that
    the teacher finds easy get a large margin, pairs that it cannot rank are left out. With
    :math:`r_i = f^*_i - w \cdot x_i` a pair's slack is :math:`[r_i - r_j]_+`, so all sums over pairs are dominance
    sums in (y, f*, r): O(n log n log L) for L grades, exact, no pair is ever written down.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss of one pair in the student.
    C_privileged : float, default=1.0
        Weight of the loss of one pair in the teacher.
    pairs : {"across", "all"}, default="across"
        "across" takes pairs of different grades only. "all" is the paper's :math:`y_i \ge y_j`: inside a grade, too,
        examples keep the teacher's order. These pairs outnumber the others, so that with a teacher near chance the
        student may rank backwards.
    margin_threshold : float, default=0.1
        :math:`\tau`. The paper's value is 0.1.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        Loss of a pair, for teacher and student.
    kernel, gamma, degree, coef0
        Student's kernel; see :class:`RankSVM`.
    privileged_kernel, privileged_gamma, privileged_degree, privileged_coef0
        Teacher's kernel. Of several spaces one value for all, or a list or dict with one each; the kernels are added up.
    n_components : int, default=None
        Use Nystroem with so many components. None: only above 2000 examples, with 500.
    solver : {"auto", "newton", "coordinate", "bundle"}, default="auto"
        See :class:`RankSVM`.
    tol : float, default=1e-5
        Relative gap at which the solvers stop.
    max_iter : int, default=500
        Newton steps, passes over the pairs or cutting planes at most.
    max_time : float or None, default=None
        Seconds after which a fit ends with the best point so far, its gap and a ``ConvergenceWarning``; None for no limit.
    random_state : int, RandomState instance or None, default=None
        Choice of Nystroem's components.
    unlabeled : object, default=None
        A value of `y` that means "no grade", such as -1, beside NaN, None and pandas' NA.

    Attributes
    ----------
    teacher_ : RankSVM or None
        The ranker on the privileged features; None if there were none.
    margins_ : ndarray of shape (n_samples,)
        The teacher's score of each training example, NaN where it had no privileged data. :math:`\rho_{ij}` is the
        difference of two of them.
    coef_, dual_coef_, grades_, n_pairs_, objective_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        Of the student; see :class:`RankSVM`.

    Notes
    -----
    A row of ``privileged`` that is entirely NaN is an example without privileged data. It takes no part in the teacher,
    and each pair that it belongs to falls back to the ranking SVM: margin 1, and only if :math:`y_i > y_j`. So
    ``privileged=None`` and all rows missing are the plain :class:`RankSVM`.

    An example without a grade but with privileged features is scored by the teacher and paired with the others of its
    kind, in the teacher's order; without either it takes no part.

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

    __metadata_request__fit: ClassVar = {"privileged": True, "group": True}
    # A kernel teacher keeps its training rows, and its scores describe them.
    _privileged_rows_in: ClassVar = ("teacher_", "margins_")

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **RANKER_CONSTRAINTS,
        **{name: constraint for name, constraint in PER_SPACE.items() if name != "lam"},
        "C_privileged": RANKER_CONSTRAINTS["C"],
        "pairs": [StrOptions({"all", "across"})],
        "margin_threshold": [Interval(Real, 0.0, None, closed="left")],
        "unlabeled": "no_validation",
    }

    # Models of files that were written before this parameter existed.
    unlabeled = None

    def __init__(
        self,
        C: float = 1.0,
        C_privileged: float = 1.0,
        *,
        pairs: str = "across",
        margin_threshold: float = 0.1,
        loss: str = "squared_hinge",
        kernel: KernelName = "linear",
        gamma: str | float = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        privileged_kernel: KernelName = "linear",
        privileged_gamma: str | float = "scale",
        privileged_degree: float = 3,
        privileged_coef0: float = 0.0,
        n_components: int | None = None,
        solver: str = "auto",
        tol: float = 1e-5,
        max_iter: int = 500,
        max_time: float | None = None,
        random_state: RandomState = None,
        unlabeled: Any = None,
    ) -> None:
        self.C = C
        self.C_privileged = C_privileged
        self.pairs = pairs
        self.margin_threshold = margin_threshold
        self.loss = loss
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.privileged_kernel = privileged_kernel
        self.privileged_gamma = privileged_gamma
        self.privileged_degree = privileged_degree
        self.privileged_coef0 = privileged_coef0
        self.n_components = n_components
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.random_state = random_state
        self.unlabeled = unlabeled

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: MatrixLike, y: VectorLike, privileged: PrivilegedLike | None = None, group: VectorLike | None = None
    ) -> Self:
        """Train the teacher, then the student.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features)
            Examples. A Dask array or frame stays in its chunks (linear kernels); the other arguments are chunked alike.
        y : array-like of shape (n_samples,)
            Grades, higher = to be ranked higher; NaN, None, pandas' NA and the value `unlabeled` mark rows without one.
        privileged : {array-like, sparse matrix} of shape (n_samples, n_privileged), default=None
            Features that exist at training time only. A row that is entirely NaN: not available for this example.
            A list or dict of tables is several spaces, of which one teacher learns.
            None: the plain ranking SVM.
        group : array-like of shape (n_samples,), default=None
            Query of each example: only examples of the same query are compared.

        Returns
        -------
        RankTransfer
            Itself.
        """
        with deadline(self.max_time):
            data, privileged = check_transfer_input(self, X, y, privileged, group)
            self.teacher_, self.margins_ = self._teach(data, privileged, [self.C_privileged])[0]
            pairs = self._pairs(data, self.margins_)
            if pairs.n_pairs == 0:
                warnings.warn(
                    f"margin_threshold={self.margin_threshold:g} leaves no pair: the teacher's margins reach "
                    f"{np.ptp(self.margins_[~np.isnan(self.margins_)]):.2g} only, so all scores are 0; lower margin_threshold "
                    f"or raise C_privileged={self.C_privileged:g}.",
                    UserWarning,
                    stacklevel=3,
                )
            elif self.teacher_ is not None and privileged is not None:
                for doubt in self._doubts(data, privileged, self.margins_):
                    warnings.warn(doubt, UserWarning, stacklevel=3)
            space = self._space(data.X)
            return self._store(data, space, pairs, self._solve(space, pairs))

    def fit_path(
        self,
        candidates: list[dict[str, Any]],
        X: MatrixLike,
        y: VectorLike,
        privileged: PrivilegedLike | None = None,
        group: VectorLike | None = None,
    ) -> list[Any]:
        """Fit for several pairs of (C, C_privileged) at less cost than one by one.

        Each teacher is trained once, all students share their features' coordinates, those of one teacher their pairs; and
        teachers and students start at the solution for the next smaller C.

        Parameters
        ----------
        candidates : sequence of dict
            Parameters of each fit; those that differ in C and C_privileged alone share their work.
        X, y, privileged, group : array-like
            As in :meth:`fit`.

        Returns
        -------
        list of RankTransfer or ValueError
            For each candidate the fitted clone, or why there is none.
        """
        with deadline(self.max_time):
            models, shares = prepare_path(self, candidates, {"C", "C_privileged"})
            for members in shares:
                first = models[members[0]]
                by_teacher: dict[float, list[int]] = {}
                for k in sorted(members, key=lambda k: models[k].C):
                    by_teacher.setdefault(models[k].C_privileged, []).append(k)
                try:
                    first._validate_params()
                    data, checked = check_transfer_input(first, X, y, privileged, group)
                    space = first._space(data.X)
                    lessons = first._teach(data, checked, list(by_teacher))
                except ValueError as problem:
                    for k in members:
                        models[k] = problem
                    continue
                for (teacher, margins), students in zip(lessons, by_teacher.values()):
                    pairs, start = first._pairs(data, margins), None
                    for k in students:
                        models[k].teacher_, models[k].margins_ = teacher, margins
                        solution = models[k]._solve(space, pairs, start)
                        start = solution
                        models[k]._store(data, space, pairs, solution)
            return models

    def _teach(
        self, data: RankingInput, privileged: PrivilegedInput | None, Cs: list[float]
    ) -> list[tuple[RankSVM | None, np.ndarray]]:
        """For each C_privileged the teacher and its scores of the training examples, NaN where it has none."""
        margins = np.full((len(Cs), len(data.y)), np.nan)
        if privileged is None or not privileged.available.any():
            return [(None, scores) for scores in margins]
        rows = np.flatnonzero(privileged.available & data.labeled)
        scored = np.flatnonzero(privileged.available)
        precomputed = _gives_matrix(self, privileged)
        seen = data._replace(X=privileged.data).take(rows, precomputed)
        teachers = self._rankers(seen, Cs, privileged)
        for problem in teachers:
            if isinstance(problem, ValueError):
                raise ValueError(
                    f"no teacher can be trained on the {len(rows)} examples that have `privileged`, its X: {problem}"
                )
        given = privileged.data[np.ix_(scored, rows)] if precomputed else privileged.data[scored]
        margins[:, scored] = path_scores(teachers, given)
        return list(zip(teachers, margins))

    def _rankers(self, seen: RankingInput, Cs: list[float], privileged: PrivilegedInput) -> list[Any]:
        """Teachers on the privileged features of some examples."""
        shared = ("loss", "n_components", "solver", "tol", "max_iter", "max_time", "random_state")
        kernel = {name: getattr(self, f"privileged_{name}") for name in ("kernel", "gamma", "degree", "coef0")}
        whole = getattr(privileged, "kernel", None)
        if whole is not None:
            kernel = {"kernel": whole if whole.name == "sum" else whole.name}
        ranker = RankSVM(**{name: getattr(self, name) for name in shared}, **kernel)
        return ranker.fit_path([{"C": C} for C in Cs], seen.X, seen.y, seen.group)

    def _pairs(self, data: RankingInput, margins: np.ndarray) -> PairSet:
        labeled = data.labeled
        if np.isnan(margins).all() and labeled.all():
            return plain_pairs(data.y, data.group)
        y = np.where(labeled, data.y, data.y[labeled][0])
        return transfer_pairs(
            y, margins, tau=self.margin_threshold, within=self.pairs == "all", group=data.group, labeled=labeled
        )

    def _doubts(self, data: RankingInput, privileged: PrivilegedInput, margins: np.ndarray) -> Iterator[str]:
        """What a user should know of a teacher: near chance, or hardly a pair across grades that he can rank."""
        rows = np.flatnonzero(privileged.available & data.labeled)
        rows = rows[:: 1 + len(rows) // LOOKED_AT]
        y, scores = data.y[rows], margins[rows]
        group = np.zeros(len(rows), int) if data.group is None else data.group[rows]
        across = (y[:, None] > y) & (group[:, None] == group)
        share = np.mean((scores[:, None] - scores)[across] > self.margin_threshold) if across.any() else 1.0
        if share < FEW_PAIRS:
            yield (
                f"RankTransfer: of the pairs across grades the teacher gives {share:.1%} a margin above "
                f"margin_threshold={self.margin_threshold:g}, so the student learns little of the grades; lower "
                f"margin_threshold or raise C_privileged={self.C_privileged:g}."
            )
        quality, chance = self._left_out_quality(data, privileged, rows, across)
        if quality < chance:
            yield (
                f"RankTransfer: the teacher ranks left-out examples no better than chance would ({quality:.0%} of the "
                f"pairs across grades in the right order; {chance:.0%} would be no accident), so his margins may mislead "
                "the student; compare with privileged=None."
            )

    def _left_out_quality(
        self, data: RankingInput, privileged: PrivilegedInput, rows: np.ndarray, across: np.ndarray
    ) -> tuple[float, float]:
        """Share of pairs across grades that teachers of the other examples rank rightly, and what chance may reach."""
        values = np.full(len(rows), np.nan)
        precomputed = _gives_matrix(self, privileged)
        queries = rows if data.group is None else data.group[rows]
        folds = np.unique(queries, return_inverse=True)[1] % 2
        for fold in (0, 1):
            test, train = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
            seen = data._replace(X=privileged.data).take(rows[train], precomputed)
            teachers: list[Any] = self._rankers(seen, [self.C_privileged], privileged) if len(train) else [ValueError()]
            if isinstance(teachers[0], ValueError):  # nothing to rank in one half: nothing is said
                return 1.0, 0.0
            given = privileged.data[np.ix_(rows[test], rows[train])] if precomputed else privileged.data[rows[test]]
            values[test] = path_scores(teachers, given)[0]
        # Scores of two teachers are on two scales: only pairs of the same half are compared.
        across = across & (folds[:, None] == folds)
        difference = (values[:, None] - values)[across]
        if not len(difference):
            return 1.0, 0.0
        # Pairs that share an example go together: about as many independent ones as examples of the rarer side.
        rarer = max(1, min(int((across.sum(axis=1) > 0).sum()), int((across.sum(axis=0) > 0).sum())))
        return float(np.mean(difference > 0) + np.mean(difference == 0) / 2), 0.5 + 1.64 / np.sqrt(6.0 * rarer)
