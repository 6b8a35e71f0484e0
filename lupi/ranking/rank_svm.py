"""Ranking SVM: learn scores from graded examples; and what all rankers share."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints
from sklearn.utils.validation import check_is_fitted, validate_data

from lupi.inputs import check_group, check_magnitude, check_partial_targets, is_chunked, warn_of_minus_one
from lupi.inputs.chunked_input import check_target, read_chunks
from lupi.inputs.chunked_rows import ChunkedRows
from lupi.inputs.decorators import fit_context
from lupi.inputs.types import KernelName, MatrixLike, RandomState, VectorLike
from lupi.kernels import KERNEL_CONSTRAINTS, FeatureSpace, Kernel
from lupi.model_parts import model_part
from lupi.ranking.pairwise import RankingProblem, plain_pairs
from lupi.ranking.ranking_metrics import default_metric
from lupi.ranking.solve import SOLVERS, solve
from lupi.solution import MAX_TIME, deadline, unfinished

if TYPE_CHECKING:
    from lupi.ranking.pairwise import PairSet
    from lupi.solution import Solution

RANKER_CONSTRAINTS = {
    "C": [Interval(Real, 0.0, None, closed="neither")],
    **KERNEL_CONSTRAINTS,
    "loss": [StrOptions({"squared_hinge", "hinge"})],
    "n_components": [None, Interval(Integral, 1, None, closed="left")],
    "solver": [StrOptions(set(SOLVERS))],
    "tol": [Interval(Real, 0.0, None, closed="neither")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "max_time": MAX_TIME,
    "random_state": ["random_state"],
}


class RankingInput(NamedTuple):
    """Features (float64, dense or CSR) with their names, if they have any; grades, and queries as integers or None."""

    X: np.ndarray | sparse.csr_array | sparse.csr_matrix
    y: np.ndarray
    group: np.ndarray | None
    names: np.ndarray | None = None

    @property
    def labeled(self) -> np.ndarray:
        """Examples that have a grade."""
        return np.asarray(~np.isnan(self.y))

    def take(self, rows: np.ndarray, precomputed: bool = False) -> RankingInput:
        """Some of the examples; of a kernel matrix these rows and columns."""
        X = self.X[np.ix_(rows, rows)] if precomputed else self.X[rows]
        return RankingInput(X, self.y[rows], None if self.group is None else self.group[rows])


def check_ranking_input(
    estimator: BaseRanker, X: MatrixLike, y: VectorLike, group: VectorLike | None = None, *, partial: bool = False
) -> RankingInput:
    """Input of a ranker's ``fit``: numeric grades, at least two examples to rank; sets ``n_features_in_`` and names.

    With ``partial``, grades may be missing (NaN in what is returned). Rows in blocks stay there.
    """
    if is_chunked(X):
        chunks = read_chunks(estimator, X, dtypes=(np.float64,), y=y, group=group)
        X = chunks.table()
        y, group = chunks.vectors.values()
        chunks.set_columns(estimator)
    if y is not None and not sparse.issparse(y) and np.asarray(y).dtype.kind in "USOT":
        try:
            np.asarray(y).astype(float)
        except (TypeError, ValueError):
            raise ValueError(
                f"y must hold numeric grades, higher = ranked higher; got labels of type {np.asarray(y).dtype}. "
                "Unknown label type: map the labels to numbers, e.g. y == positive_label."
            ) from None
    if y is not None and np.asarray(y).dtype.kind == "c":
        raise ValueError("y must hold real grades; got complex data. Complex data not supported.")
    chunked = isinstance(X, ChunkedRows)
    if chunked and estimator.kernel != "linear":
        raise ValueError(
            f"{type(estimator).__name__} on {X.shape[0]} examples in chunks needs kernel='linear'; got {estimator.kernel!r}."
        )
    if partial:
        X = X if chunked else validate_data(estimator, X, accept_sparse="csr", dtype=np.float64)
        name = type(estimator).__name__
        y = check_partial_targets(y, X, classification=False, unlabeled=estimator.unlabeled, estimator_name=name).y
        if estimator.unlabeled is None:
            warn_of_minus_one(np.unique(y), name, stacklevel=4)
    elif chunked:
        y = check_target(y).astype(np.float64)
    else:
        X, y = validate_data(estimator, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True)
    check_magnitude(X, "X", estimator_name=type(estimator).__name__)
    if group is not None:
        group = check_group(group, len(y), estimator_name=type(estimator).__name__)
    known = ~np.isnan(y)
    check_has_pairs(y[known], None if group is None else group[known])
    return RankingInput(X, y, group, getattr(estimator, "feature_names_in_", None))


def check_has_pairs(y: np.ndarray, group: np.ndarray | None) -> None:
    """Raise if no two examples have to be ranked."""
    if y.min() == y.max():
        raise ValueError(
            f"y has only one class (grade {y[0]}) in {len(y)} examples; ranking needs at least two different grades."
        )
    if group is not None:
        order = np.lexsort((y, group))
        # Sorted by query and grade, a choice is a change of grade without a change of query.
        if not ((np.diff(group[order]) == 0) & (y[order][1:] != y[order][:-1])).any():
            raise ValueError("group leaves nothing to rank: no query has two examples of different grades.")


class BaseRanker(BaseEstimator):
    """Prediction and score of a fitted ranker."""

    __metadata_request__score: ClassVar = {"group": True}
    # Models of files that were written before the parameter was there.
    max_time: float | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Read the state of earlier versions, too: kernel parameters and Nystroem's map as attributes of their own."""
        super().__setstate__(state)
        old = self.__dict__
        if "kernel_params_" in old:
            self._kernel = Kernel(self.kernel, **old.pop("kernel_params_"))
        if "nystroem_" in old:
            nystroem, weights = old.pop("nystroem_"), old.pop("nystroem_coef_")
            params = {name: getattr(nystroem, name) for name in ("gamma", "degree", "coef0")}
            self._kernel = Kernel(self.kernel, **{name: value for name, value in params.items() if value is not None})
            self.X_fit_, self.dual_coef_ = nystroem.components_, nystroem.normalization_.T @ weights

    def _space(self, X: MatrixLike) -> FeatureSpace:
        """Coordinates in which the ranker is linear."""
        if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"kernel='precomputed' needs a square matrix of shape (n_samples, n_samples) as `X`; got {X.shape}."
            )
        # The linear kernel has no parameters to resolve.
        kernel = Kernel("linear") if self.kernel == "linear" else Kernel.of(self, X)
        return FeatureSpace.of(kernel, X, n_components=self.n_components, random_state=self.random_state)

    def _solve(self, space: FeatureSpace, pairs: PairSet, start: Solution | None = None) -> Solution:
        """Solve for this C, from a neighbor's solution if there is one."""
        problem = RankingProblem(space.values, pairs, float(self.C), self.loss)
        return solve(problem, self.solver, tol=self.tol, max_iter=self.max_iter, start=start)

    def _store(self, data: RankingInput, space: FeatureSpace, pairs: PairSet, solution: Solution) -> Self:
        # A refit with another kernel must not leave the old one's.
        for name in ("coef_", "dual_coef_", "X_fit_"):
            self.__dict__.pop(name, None)
        for name, value in space.fitted_attributes(solution.point).items():
            setattr(self, name, value)
        self._kernel = space.kernel
        self.n_features_in_ = data.X.shape[1]
        if data.names is not None:
            self.feature_names_in_ = data.names
        self.grades_ = np.unique(data.y[data.labeled])
        self.n_pairs_ = pairs.n_pairs
        self.objective_, self.dual_gap_, self.n_iter_ = solution.objective, solution.gap, solution.n_iter
        if not solution.converged:
            warnings.warn(unfinished(self, solution, "raise max_iter or tol, or scale the features"), stacklevel=4)
        return self

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Ranking scores: higher is ranked higher.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Examples; with ``kernel="precomputed"`` the kernel values with all training examples.

        Returns
        -------
        ndarray of shape (n_samples,)
            The scores. Only their differences have a meaning.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return path_scores([self], X)[0]

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Ranking scores; the same as :meth:`decision_function`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Examples.

        Returns
        -------
        ndarray of shape (n_samples,)
            The scores.
        """
        return self.decision_function(X)

    def score(self, X: MatrixLike, y: VectorLike, group: VectorLike | None = None) -> float:
        """Average precision if the training grades were two, NDCG if more.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features)
            Examples. A Dask array or frame stays in its chunks (linear kernels); the other arguments are chunked alike.
        y : array-like of shape (n_samples,)
            Grades.
        group : array-like of shape (n_samples,), default=None
            Query of each example; the score is then the mean over queries.

        Returns
        -------
        float
            The score.
        """
        scores = self.decision_function(X)
        return default_metric(len(self.grades_))(y, scores, group)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.target_tags.required = True
        return tags


def path_scores(models: Sequence[BaseRanker], X: MatrixLike) -> list[np.ndarray]:
    """Scores of checked examples by each ranker of one path; they share kernel and rows, so kernel values are computed once."""
    if hasattr(models[0], "coef_"):
        return [X @ model.coef_ for model in models]
    coefficients = np.stack([model.dual_coef_ for model in models])
    return list(models[0]._kernel.expand(X, models[0].X_fit_, coefficients).T)


def prepare_path(
    estimator: BaseRanker, candidates: list[dict[str, Any]], free: set[str]
) -> tuple[list[Any], Iterable[list[int]]]:
    """Clones for the candidates of a path (a ValueError where a parameter is not allowed), and who shares with whom.

    Candidates share their data's coordinates if they differ in the ``free`` parameters alone.
    """
    models: list[Any] = []
    shares: dict[Any, list[int]] = {}
    given = clone(estimator).get_params(deep=False)
    for k, params in enumerate(candidates):
        try:
            if not set(params) <= set(given):
                raise ValueError(f"{type(estimator).__name__} has no parameter {min(set(params) - set(given))!r}.")
            allowed = {name: estimator._parameter_constraints[name] for name in params}
            validate_parameter_constraints(allowed, params, caller_name=type(estimator).__name__)
            models.append(type(estimator)(**given | params))
            shares.setdefault(tuple(sorted((n, v) for n, v in params.items() if n not in free)), []).append(k)
        except ValueError as problem:
            models.append(problem)
    return models, list(shares.values())


@model_part
class RankSVM(BaseRanker):
    r"""Ranking SVM that never writes its pairs down.

    .. math:: \min_w \; \tfrac12 \|w\|^2 + C \sum_{(i, j):\, y_i > y_j} \ell(\xi_{ij}), \qquad
              \xi_{ij} = [1 - w \cdot (x_i - x_j)]_+ ,

    with :math:`\ell(\xi) = \xi^2` or :math:`\xi`, eq. (6)-(7) of [1]_. If ``group`` is given, the sum runs over pairs
    of one query. Loss, gradient and Hessian products are dominance sums: O(n log n) for n examples, whatever the number
    of pairs, and exact.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss of **one pair**. The number of pairs grows with the square of the number of examples: keep
        ``C * n_pairs_`` fixed to compare training sets of different sizes.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        Loss of a pair.
    kernel : {"linear", "rbf", "poly", "sigmoid", "chi2", "laplacian", "intersection", "precomputed"} or callable, default="linear"
        Kernel; a function takes two feature matrices and returns their kernel matrix. Exact up to 2000 examples (kernel
        expansion); above, or with ``n_components``, Nystroem's approximation. With "precomputed", ``X`` is the kernel
        matrix of shape (n_samples, n_samples).
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel coefficient of "poly", "rbf", "sigmoid", "laplacian", "chi2".
    degree : float, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Constant of "poly" and "sigmoid".
    n_components : int, default=None
        Use Nystroem with so many components. None: only above 2000 examples, with 500.
    solver : {"auto", "newton", "coordinate", "bundle"}, default="auto"
        Truncated Newton (the hinge through a sharpening smooth loss); for the hinge alone coordinate descent over written
        pairs, or cutting planes. "auto": coordinate descent for the hinge with few pairs of wide data, otherwise Newton.
    tol : float, default=1e-5
        Relative gap at which the solver stops.
    max_iter : int, default=500
        Newton steps, passes over the pairs or cutting planes at most.
    max_time : float or None, default=None
        Seconds after which a fit ends with the best point so far, its gap and a ``ConvergenceWarning``; None for no limit.
    random_state : int, RandomState instance or None, default=None
        Choice of Nystroem's components.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights (linear kernel).
    dual_coef_ : ndarray of shape (n_rows,)
        Coefficients of the kernel expansion (other kernels).
    X_fit_ : ndarray or CSR matrix of shape (n_rows, n_features)
        Its rows: all training examples, or Nystroem's; their positions with ``kernel="precomputed"``.
    grades_ : ndarray
        The different values of y.
    n_pairs_ : int
        Number of pairs in the loss.
    objective_ : float
        Value of the objective above.
    dual_gap_ : float
        Certified relative duality gap: no weights have an objective below ``objective_ * (1 - dual_gap_)``.
    n_iter_ : int
        Iterations.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Their names, if X has them.

    See Also
    --------
    RankTransfer : The same with margins from privileged features.

    References
    ----------
    .. [1] V. Sharmanska, N. Quadrianto, C. H. Lampert, *Learning to rank using privileged information*, ICCV 2013.
    .. [2] T. Joachims, *Optimizing search engines using clickthrough data*, KDD 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi import RankSVM
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 5))
    >>> y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=2000), [-1, 0, 1])
    >>> ranker = RankSVM(C=1e-6).fit(X, y)
    >>> ranker.n_pairs_
    1465319
    >>> round(ranker.score(X, y), 2)
    0.99
    """

    __metadata_request__fit: ClassVar = {"group": True}

    _parameter_constraints: ClassVar[dict[str, Any]] = RANKER_CONSTRAINTS

    def __init__(
        self,
        C: float = 1.0,
        loss: str = "squared_hinge",
        *,
        kernel: KernelName = "linear",
        gamma: str | float = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        n_components: int | None = None,
        solver: str = "auto",
        tol: float = 1e-5,
        max_iter: int = 500,
        max_time: float | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.C = C
        self.loss = loss
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_components = n_components
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: VectorLike, group: VectorLike | None = None) -> Self:
        """Learn to rank.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Examples.
        y : array-like of shape (n_samples,)
            Grades, higher = to be ranked higher. Any numbers; only their order counts.
        group : array-like of shape (n_samples,), default=None
            Query of each example: only examples of the same query are compared.

        Returns
        -------
        RankSVM
            Itself.
        """
        with deadline(self.max_time):
            data = check_ranking_input(self, X, y, group)
            space = self._space(data.X)
            pairs = plain_pairs(data.y, data.group)
            return self._store(data, space, pairs, self._solve(space, pairs))

    def fit_path(
        self, candidates: list[dict[str, Any]], X: MatrixLike, y: VectorLike, group: VectorLike | None = None
    ) -> list[Any]:
        """Fit for several values of C at less cost than one by one: each fit starts at the solution for the next smaller C.

        Parameters
        ----------
        candidates : sequence of dict
            Parameters of each fit; those that differ in C alone form a path.
        X, y, group : array-like
            As in :meth:`fit`.

        Returns
        -------
        list of RankSVM or ValueError
            For each candidate the fitted clone, or why there is none.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from lupi import RankSVM
        >>> X, y = load_iris(return_X_y=True)
        >>> [model.C for model in RankSVM().fit_path([{"C": 0.1}, {"C": 0.01}], X, y)]
        [0.1, 0.01]
        """
        with deadline(self.max_time):
            models, shares = prepare_path(self, candidates, {"C"})
            for members in shares:
                first, start = models[members[0]], None
                try:
                    first._validate_params()
                    data = check_ranking_input(first, X, y, group)
                    space = first._space(data.X)
                    pairs = plain_pairs(data.y, data.group)
                except ValueError as problem:
                    for k in members:
                        models[k] = problem
                    continue
                for k in sorted(members, key=lambda k: models[k].C):
                    solution = models[k]._solve(space, pairs, start)
                    start = solution
                    models[k]._store(data, space, pairs, solution)
            return models
