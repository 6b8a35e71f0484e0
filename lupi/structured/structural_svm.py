"""Structural SVM: max-margin learning of structured outputs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from lupi.inputs import check_privileged, check_privileged_sequence
from lupi.inputs.decorators import fit_context
from lupi.inputs.types import MatrixLike, PrivilegedLike, RandomState
from lupi.model_parts import model_part
from lupi.solution import MAX_TIME, deadline, unfinished
from lupi.structured.margin_rescaling import StructuralProblem
from lupi.structured.oracle import task_oracle
from lupi.structured.protocol import predict_batch
from lupi.structured.solve import SOLVERS, solve

if TYPE_CHECKING:
    from lupi.inputs.checks import PrivilegedInput
    from lupi.solution import Solution
    from lupi.structured.protocol import Task

TASK_METHODS = HasMethods(["joint_feature", "loss", "argmax"])


def check_examples(X: MatrixLike, Y: Sequence[Any], task: Task) -> tuple[Sequence[Any], Sequence[Any]]:
    """Sequences of the same positive length that the task accepts; tables and columns become arrays."""
    if sparse.issparse(X):
        raise ValueError("X is a sparse matrix, and structured tasks take dense inputs; pass X.toarray().")
    for value, name in ((X, "X"), (Y, "Y")):
        if value is None or not hasattr(value, "__len__") or not hasattr(value, "__getitem__"):
            raise ValueError(f"{name} must be a sequence with one entry for each example, got {type(value).__name__}.")
    if len(X) == 0:
        raise ValueError("X is empty; a fit needs at least one example.")
    if len(X) != len(Y):
        raise ValueError(f"X has {len(X)} examples and Y has {len(Y)}; they must have the same length.")
    if hasattr(task, "check"):
        task.check(X, Y)
    X = np.asarray(X, dtype=float) if getattr(task, "tabular", False) else X
    return X, Y.to_numpy() if hasattr(Y, "to_numpy") else Y


def check_privileged_inputs(
    privileged: PrivilegedLike,
    X: MatrixLike,
    Y: Sequence[Any],
    task: Task,
    *,
    estimator_name: str,
    argument: str = "privileged",
) -> PrivilegedInput | None:
    """Inputs that a privileged task accepts, read by the rules of all estimators; X is what the user gave as X."""
    names: dict[str, Any] = {"estimator_name": estimator_name, "argument": argument}
    if getattr(task, "tabular", False):
        given = check_privileged(privileged, len(X), accept_sparse=False, index_of=X, **names)
    else:
        given = check_privileged_sequence(privileged, len(X), **names)
    if given is not None and given.available.any() and hasattr(task, "check"):
        rows = np.flatnonzero(given.available)
        try:
            task.check([given.data[i] for i in rows], [Y[int(i)] for i in rows])
        except ValueError as error:
            raise ValueError(
                f"{estimator_name}: `{argument}` does not fit the privileged task, which says of the inputs that are "
                f"available: {error}"
            ) from None
    return given


class StructuralPredictor(BaseEstimator):
    """Prediction and scoring with ``task`` and ``coef_``; the part that all linear structural estimators share."""

    # Models of files that were written before the parameter was there.
    max_time: float | None = None

    def predict(self, X: MatrixLike) -> np.ndarray | list[Any]:
        """The best output of each input.

        Parameters
        ----------
        X : sequence of inputs

        Returns
        -------
        list or ndarray
            One output for each input; an array when the outputs are numbers.
        """
        check_is_fitted(self, "coef_")
        found = predict_batch(self.task, self.coef_, X, self.n_jobs)
        return np.asarray(found) if len(found) and isinstance(found[0], (Integral, Real)) else found

    def score(self, X: MatrixLike, Y: Any) -> float:
        """1 - mean loss of the predictions.

        Parameters
        ----------
        X : sequence of inputs
        Y : sequence of true outputs

        Returns
        -------
        float
        """
        predicted = self.predict(X)
        return 1.0 - float(np.mean([self.task.loss(y, p) for y, p in zip(Y, predicted)]))

    def _solve(self, problem: StructuralProblem) -> Solution:
        options = {"callback": self.callback}
        if self.solver == "bcfw":
            options |= {"average": self.average, "random_state": check_random_state(self.random_state)}
        return solve(problem, self.solver, tol=self.tol, max_iter=self.max_iter, **options)

    def _store(self, solution: Solution) -> Self:
        self.objective_, self.dual_gap_, self.n_iter_ = solution.objective, solution.gap, solution.n_iter
        self.n_oracle_calls_ = solution.certificate.n_oracle_calls
        if not solution.converged:
            warnings.warn(unfinished(self, solution), stacklevel=4)
        return self


@model_part
class StructuralSVM(StructuralPredictor):
    r"""Structural SVM with margin rescaling.

    .. math::

        \min_w \; \tfrac12 \|w\|^2 + \tfrac{C}{n} \sum_i \max_y
            \big[ \Delta(y_i, y) - \langle w, \Psi(x_i, y_i) - \Psi(x_i, y) \rangle \big]

    Parameters
    ----------
    task : Task
        Joint feature, loss and inference: one of ``lupi.structured`` or a class of your own with three methods.
    C : float, default=1.0
        Weight of the loss.
    solver : {"bcfw", "cutting_plane", "n_slack"}, default="bcfw"
        Block-coordinate Frank-Wolfe with cached planes, one-slack or n-slack cutting planes. All reach the same optimum.
    tol : float, default=1e-3
        Certified relative duality gap at which the fit stops.
    max_iter : int, default=1000
        Largest number of passes over the training set.
    max_time : float or None, default=None
        Seconds after which a fit ends with the best point so far, its gap and a ``ConvergenceWarning``; None for no limit.
    average : bool, default=False
        Average the iterates (``solver="bcfw"``): smoother predictions when the fit is stopped early.
    n_jobs : int or None, default=None
        Threads for inferences that do not depend on each other.
    callback : callable or None, default=None
        Called after each certificate with a dict (n_iter, primal, dual, dual_gap, n_oracle_calls); true stops the fit.
    random_state : int, RandomState or None, default=None
        Order in which the examples are visited.

    Attributes
    ----------
    coef_ : ndarray of shape (task.n_features,)
        Weights.
    objective_ : float
        Primal objective.
    dual_gap_ : float
        Relative duality gap: (primal - dual) / primal, by exact inference on all examples.
    n_iter_ : int
        Passes.
    n_oracle_calls_ : int
        Loss-augmented inferences.

    References
    ----------
    .. [1] Tsochantaridis et al., Large margin methods for structured and interdependent output variables, 2005.
    .. [2] Lacoste-Julien et al., Block-coordinate Frank-Wolfe optimization for structural SVMs, 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from lupi import StructuralSVM
    >>> from lupi.structured import Multiclass
    >>> X, y = load_iris(return_X_y=True)
    >>> model = StructuralSVM(Multiclass(3, 4), C=10.0, random_state=0).fit(X, y)
    >>> model.dual_gap_ < 1e-3, round(model.score(X, y), 2)
    (True, 0.97)
    """

    _parameter_constraints = {
        "task": [TASK_METHODS],
        "C": [Interval(Real, 0, None, closed="neither")],
        "solver": [StrOptions(set(SOLVERS))],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_time": MAX_TIME,
        "average": ["boolean"],
        "n_jobs": [Integral, None],
        "callback": [callable, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        task: Any,
        C: float = 1.0,
        *,
        solver: str = "bcfw",
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        average: bool = False,
        n_jobs: int | None = None,
        callback: Callable[..., Any] | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.task = task
        self.C = C
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.average = average
        self.n_jobs = n_jobs
        self.callback = callback
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, Y: Any) -> Self:
        """Learn the weights.

        Parameters
        ----------
        X : sequence of inputs
        Y : sequence of true outputs

        Returns
        -------
        self
        """
        with deadline(self.max_time):
            X, Y = check_examples(X, Y, self.task)
            problem = StructuralProblem(task_oracle(self.task, X, Y, self.n_jobs), float(self.C))
            solution = self._solve(problem)
            self.coef_ = solution.point
            return self._store(solution)
