"""Ranking SVM, and what the rankers share: input, features, solvers, fitted attributes, scores and paths of parameters."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils._param_validation import Interval, StrOptions

from lupi.inputs.decorators import fit_context
from lupi.inputs.training_set import TrainingSet, check_rows, check_training_set, is_per_space
from lupi.inputs.types import Array, KernelName, MatrixLike, PrivilegedLike, RandomState, VectorLike
from lupi.kernels import KERNEL_CONSTRAINTS, FeatureSpace, Kernel
from lupi.privacy import model_part
from lupi.ranking.pairwise import PairSet, RankingProblem, plain_pairs
from lupi.ranking.ranking_metrics import default_metric
from lupi.ranking.solvers import solve_ranking_auto, solve_ranking_coordinate, solve_ranking_newton
from lupi.solution import MAX_TIME, Solution, deadline, double_precision, judge, unfinished

POSITIVE = [Interval(Real, 0.0, None, closed="neither")]
SOLVERS: dict[str, Callable[..., Solution]] = {
    "auto": solve_ranking_auto,
    "newton": solve_ranking_newton,
    "coordinate": solve_ranking_coordinate,
}


@dataclass(eq=False, repr=False)
class BaseRanker(BaseEstimator):
    """Parameters of all rankers (the fields), prediction and score."""

    _: KW_ONLY
    kernel: KernelName = "linear"
    gamma: str | float = "scale"
    degree: float = 3
    coef0: float = 0.0
    n_components: int | None = None
    solver: str = "auto"
    tol: float = 1e-5
    max_iter: int = 500
    max_time: float | None = None
    random_state: RandomState = None

    __metadata_request__score: ClassVar = {"group": True}
    # Parameters whose values may differ between fits that share their work.
    _path_parameters: ClassVar[tuple[str, ...]] = ()

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **KERNEL_CONSTRAINTS,
        "C": POSITIVE,
        "loss": [StrOptions({"squared_hinge", "hinge"})],
        "n_components": [None, Interval(Integral, 1, None, closed="left")],
        "solver": [StrOptions(set(SOLVERS))],
        "tol": POSITIVE,
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_time": MAX_TIME,
        "random_state": ["random_state"],
    }

    def decision_function(self, X: MatrixLike) -> Array:
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
        return path_scores([self], check_rows(self, X))[0]

    def predict(self, X: MatrixLike) -> Array:
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
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Examples.
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


def check_ranking_set(
    ranker: BaseRanker, X: MatrixLike, y: VectorLike, privileged: PrivilegedLike = None, group: VectorLike | None = None
) -> TrainingSet:
    """Check the input of a ranker's `fit`."""
    given: Any = getattr(ranker, "privileged_kernel", "linear")
    kernels = list(given.values() if isinstance(given, dict) else given) if is_per_space(given) else [given]
    linear = all(isinstance(kernel, str) and kernel == "linear" for kernel in (ranker.kernel, *kernels))
    options: dict[str, Any] = {"target": "grades", "groups_argument": "group"}
    options["in_memory"] = "" if linear else "linear kernels"
    return check_training_set(ranker, X, y, privileged, groups=group, **options)


def check_has_pairs(data: TrainingSet) -> None:
    """Raise if no two labeled rows can be ranked."""
    y = data.target[data.labeled]
    if y.min() == y.max():
        found = f"y has only one class (grade {y[0]}) in {len(y)} examples"
        raise ValueError(f"{found}; ranking needs at least two different grades.")
    if data.groups is not None and not plain_pairs(y, data.groups[data.labeled]).n_pairs:
        raise ValueError("group leaves nothing to rank: no query has two examples of different grades.")


def make_features(ranker: BaseRanker, data: TrainingSet) -> FeatureSpace:
    """Features in which the ranker is linear; raises if there is nothing to rank."""
    check_has_pairs(data)
    X = data.X.operand
    # The linear kernel has no parameters to resolve.
    kernel = Kernel("linear") if ranker.kernel == "linear" else Kernel.of(ranker, X)
    return FeatureSpace.of(kernel, X, n_components=ranker.n_components, random_state=ranker.random_state)


def solve_ranking(problem: RankingProblem, solver: str, *, tol: float, max_iter: int, **options: Any) -> Solution:
    """Solve a ranking problem with the solver of that name; ``options`` are further arguments of it, such as a start."""
    with double_precision():
        return judge(SOLVERS[solver](problem, tol=tol, max_iter=max_iter, **options), tol)


def fit_on_pairs(models: Sequence[Any], data: TrainingSet, space: FeatureSpace, pairs: PairSet) -> None:
    """Fit rankers that differ in C to the same pairs; each fit starts at the solution for the next smaller C."""
    solution = None
    for model in sorted(models, key=lambda model: model.C):
        problem = RankingProblem(space.values, pairs, float(model.C), model.loss)
        solution = solve_ranking(problem, model.solver, tol=model.tol, max_iter=model.max_iter, start=solution)
        for name in ("coef_", "dual_coef_", "X_fit_"):
            vars(model).pop(name, None)
        vars(model).update(space.fitted_attributes(solution.point))
        if space.kernel.name == "precomputed":
            model.X_fit_ = data.kept[model.X_fit_]
        model._kernel = space.kernel
        data.set_columns(model)
        model.grades_ = np.unique(data.target[data.labeled])
        model.n_pairs_ = pairs.n_pairs
        model.objective_, model.dual_gap_, model.n_iter_ = solution.objective, solution.gap, solution.n_iter
        if not solution.converged:
            warnings.warn(unfinished(model, solution, "raise max_iter or tol, or scale the features"), stacklevel=5)


def path_scores(models: Sequence[Any], X: MatrixLike) -> list[Array]:
    """Scores of checked rows by the rankers of one path, which share their kernel and its rows."""
    if hasattr(models[0], "coef_"):
        return [X @ model.coef_ for model in models]
    coefficients = np.stack([model.dual_coef_ for model in models])
    return list(models[0]._kernel.expand(X, models[0].X_fit_, coefficients).T)


def fit_candidates(estimator: Any, candidates: list[dict[str, Any]], *data_of_fit: Any) -> list[Any]:
    """Clone a ranker for every candidate, and fit the clones that differ in its path parameters alone together.

    Returns the fitted clones, with a ValueError in place of those that cannot be fitted.
    """
    models: list[Any] = []
    together: dict[str, list[int]] = {}
    for k, params in enumerate(candidates):
        try:
            models.append(clone(estimator).set_params(**params))
            models[k]._validate_params()
            fixed = sorted((name, value) for name, value in params.items() if name not in estimator._path_parameters)
            together.setdefault(repr(fixed), []).append(k)
        except ValueError as error:
            models[k:] = [error]
    with deadline(estimator.max_time):
        for members in together.values():
            try:
                path = [models[k] for k in members]
                path[0]._fit_path(path, check_ranking_set(path[0], *data_of_fit))
            except ValueError as error:
                for k in members:
                    models[k] = error
    return models


@model_part
@dataclass(eq=False, repr=False)
class RankSVM(BaseRanker):
    r"""Ranking SVM whose cost does not depend on the number of pairs.

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
        Kernel; a function takes two feature matrices and returns their kernel matrix. With "precomputed", ``X`` is the
        kernel matrix of shape (n_samples, n_samples).
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel coefficient of "poly", "rbf", "sigmoid", "laplacian", "chi2".
    degree : float, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Constant of "poly" and "sigmoid".
    n_components : int, default=None
        Number of Nystroem components. None: exact up to 2000 examples, 500 components above.
    solver : {"auto", "newton", "coordinate"}, default="auto"
        Truncated Newton, which smooths the hinge less and less; or, for the hinge alone, coordinate descent over explicit
        pairs. "auto" uses coordinate descent for the hinge if pairs are few and features many, otherwise Newton.
    tol : float, default=1e-5
        Relative duality gap that a fit aims at; it ends above it only with a ``ConvergenceWarning``.
    max_iter : int, default=500
        Largest number of Newton steps and of passes over the pairs.
    max_time : float or None, default=None
        Seconds after which a fit ends with the best point so far, its gap and a ``ConvergenceWarning``; None for no limit.
    random_state : int, RandomState instance or None, default=None
        Selects Nystroem's components.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights (linear kernel).
    dual_coef_ : ndarray of shape (n_rows,)
        Coefficients of the kernel expansion (other kernels).
    X_fit_ : ndarray or CSR matrix of shape (n_rows, n_features)
        Rows of the kernel expansion: all training examples, or Nystroem's components; their positions with
        ``kernel="precomputed"``.
    grades_ : ndarray
        Distinct values of y.
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
        Names of the features, if X has column names.

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

    C: float = 1.0
    loss: str = "squared_hinge"

    _path_parameters = ("C",)

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: VectorLike, group: VectorLike | None = None) -> Self:
        """Learn to rank.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features)
            Examples. A Dask array or frame stays in its chunks (linear kernels).
        y : array-like of shape (n_samples,)
            Grades, higher = to be ranked higher. Only their order counts.
        group : array-like of shape (n_samples,), default=None
            Query of each example: only examples of the same query are compared.

        Returns
        -------
        RankSVM
            This object.
        """
        with deadline(self.max_time):
            self._fit_path([self], check_ranking_set(self, X, y, group=group))
        return self

    def fit_path(
        self, candidates: list[dict[str, Any]], X: MatrixLike, y: VectorLike, group: VectorLike | None = None
    ) -> list[Any]:
        """Fit for several parameters; each fit starts at the solution for the next smaller C.

        Parameters
        ----------
        candidates : sequence of dict
            Parameters of each fit; candidates that differ in C alone form a path.
        X, y, group : array-like
            As in :meth:`fit`.

        Returns
        -------
        list of RankSVM or ValueError
            For each candidate the fitted clone, or the error of its fit.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from lupi import RankSVM
        >>> X, y = load_iris(return_X_y=True)
        >>> [model.C for model in RankSVM().fit_path([{"C": 0.1}, {"C": 0.01}], X, y)]
        [0.1, 0.01]
        """
        return fit_candidates(self, candidates, X, y, None, group)

    def _fit_path(self, models: list[Any], data: TrainingSet) -> None:
        """Fit rankers that differ in C alone, on labeled rows."""
        fit_on_pairs(models, data, make_features(self, data), plain_pairs(data.target, data.groups))
