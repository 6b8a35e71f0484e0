"""Structural SVM, with and without privileged information."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from lupi.inputs.decorators import fit_context
from lupi.inputs.structured_set import read_outputs
from lupi.inputs.training_set import check_rows, check_training_set, per_space, values_per_space
from lupi.inputs.types import MatrixLike, PrivilegedLike, RandomState
from lupi.privacy import WithoutPrivilegedRows, model_part
from lupi.solution import MAX_TIME, deadline, unfinished
from lupi.structured.oracle import INFERENCE, Oracle
from lupi.structured.solvers import SOLVERS, solve_structured
from lupi.structured.task import Examples, Task, as_task, privileged_tasks, searches_of

if TYPE_CHECKING:
    from lupi.inputs.training_set import TrainingSet

TASK_METHODS = HasMethods(["joint_feature", "loss", "argmax"])
POSITIVE = [Interval(Real, 0, None, closed="neither")]


class StructuredEstimator(BaseEstimator):
    """Prediction and scoring with ``task``."""

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
        task = as_task(self.task)
        X = check_rows(self, X, task=task)
        task.check(X)
        outputs = self._outputs(task, X) if len(X) else []
        return np.asarray(outputs) if len(outputs) and isinstance(outputs[0], (Integral, Real)) else list(outputs)

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
        predicted, Y = self.predict(X), read_outputs(Y, type(self).__name__)
        if len(Y) != len(predicted):
            raise ValueError(f"X has {len(predicted)} examples and Y has {len(Y)}; they must have the same length.")
        return 1.0 - float(np.mean([self.task.loss(y, p) for y, p in zip(Y, predicted)]))


@dataclass(eq=False, repr=False)
class StructuralMachine(StructuredEstimator):
    """What structural SVMs with and without privileged information have in common; the fields are parameters."""

    _: KW_ONLY
    solver: str = "bcfw"
    tol: float = 1e-3
    max_iter: int = 1000
    max_time: float | None = None
    n_jobs: int | None = None
    callback: Callable[..., Any] | None = None
    random_state: RandomState = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "task": [TASK_METHODS],
        "C": POSITIVE,
        "solver": [StrOptions(set(SOLVERS))],
        "tol": POSITIVE,
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_time": MAX_TIME,
        "n_jobs": [Integral, None],
        "callback": [callable, None],
        "random_state": ["random_state"],
    }

    def _examples(self, data: TrainingSet) -> Examples:
        """Searches in the decision space."""
        task, X = as_task(self.task), data.X.values
        task.check(X, data.target)
        return searches_of([task])([task], [X], [np.ones(len(data), dtype=bool)], data.target, [1.0])

    def _solve(self, oracle: Oracle) -> np.ndarray:
        """Minimize, store the certificate and return the weights."""
        options: dict[str, Any] = {name: getattr(self, name) for name in ("tol", "max_iter", "callback")}
        solution = solve_structured(oracle, self.solver, rng=check_random_state(self.random_state), **options)
        self.objective_, self.dual_gap_, self.n_iter_ = solution.objective, solution.gap, solution.n_iter
        self.n_oracle_calls_ = solution.certificate.n_oracle_calls
        if not solution.converged:
            warnings.warn(unfinished(self, solution), stacklevel=4)
        return solution.point

    def _outputs(self, task: Task, X: Any) -> Any:
        """The best output of each input."""
        return searches_of([task]).predict(task, self.coef_, X, self.n_jobs)


@model_part
@dataclass(eq=False, repr=False)
class StructuralSVM(StructuralMachine):
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
        Block-coordinate Frank-Wolfe, which for all tasks but :class:`~lupi.structured.Multiclass` stores its planes; one-slack
        or n-slack cutting planes. All reach the same optimum.
    tol : float, default=1e-3
        Relative duality gap that a fit aims at; it ends above it only with a ``ConvergenceWarning``.
    max_iter : int, default=1000
        Largest number of passes over the training set.
    max_time : float or None, default=None
        Seconds after which a fit ends with the best point so far, its gap and a ``ConvergenceWarning``; None for no limit.
    n_jobs : int or None, default=None
        Threads for inferences that do not depend on each other.
    callback : callable or None, default=None
        Called after each certificate with a dict (n_iter, primal, dual, dual_gap, n_oracle_calls); true stops the fit.
    random_state : int, RandomState or None, default=None
        Order in which ``solver="bcfw"`` visits the examples; from the third pass on, all tasks but
        :class:`~lupi.structured.Multiclass` search all of them at the same weights.

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

    task: Any
    C: float = 1.0

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
            data = check_training_set(self, X, Y, target="outputs", task=as_task(self.task))
            self.coef_ = self._solve(Oracle(self._examples(data), C=self.C, n_jobs=self.n_jobs))
            return self


@model_part
@dataclass(eq=False, repr=False)
class StructuralSVMPlus(WithoutPrivilegedRows, StructuralMachine):
    r"""SSVM+: a structural SVM whose training examples have a second, privileged input.

    .. math::

        \min_{w, w^*} \tfrac12 \|w\|^2 + \tfrac{\lambda}{2} \|w^*\|^2 + \tfrac{C}{n} \sum_i \max_{y, y^*} \big[
            \bar\Delta_i(y, y^*) - \langle w, \delta\Psi_i(y) \rangle - \langle w^*, \delta\Psi^*_i(y^*) \rangle \big],
        \qquad \bar\Delta = \tfrac1\rho \Delta^* + [\Delta - \Delta^*]_+

    The inner maximum is global: four independent searches, two in each space. Prediction uses w alone.

    Parameters
    ----------
    task : Task
        Joint feature, loss and inference of the decision space.
    privileged_task : Task, list or dict of these, or None, default=None
        The same for the privileged inputs; its outputs are of the same kind. None means ``task``. One for each of several
        privileged spaces; see the notes.
    C : float, default=1.0
        Weight of the loss.
    lam : float, or list or dict of these, default=1.0
        Weight of the privileged norm (gamma in the paper); of several spaces one for all, or one each.
    rho : float, default=2.0
        How strongly the privileged loss is penalized, as its inverse.
    inference : {"exact", "alternating"}, default="exact"
        Global joint search, or the paper's alternation, which stops at local maxima. ``objective_`` and ``dual_gap_`` always
        come from the exact search, so an alternating fit usually warns that it has not converged.
    solver, tol, max_iter, max_time, n_jobs, callback, random_state
        As in :class:`StructuralSVM`.

    Attributes
    ----------
    coef_ : ndarray
        w, the only weights that prediction needs.
    privileged_coef_ : ndarray, list or dict of these, or None
        w*, of several spaces one each, a dict where these have names; None after a fit without privileged inputs.
    first_branch_share_ : float or None
        Share of training examples whose most violated pair has a decision loss above its privileged loss; the others
        are governed by the privileged space.
    objective_, dual_gap_, n_iter_, n_oracle_calls_
        As in :class:`StructuralSVM`; an oracle call is one joint inference.

    Notes
    -----
    Several privileged spaces are given as a dict of inputs by the names of the spaces, or, with a list of tasks or of values of
    ``lam``, as a list in their order. They have one y* in common, and their scores and norms add up:
    :math:`\langle w^*, \delta\Psi^*_i \rangle` becomes :math:`\sum_m \langle w^*_m, \delta\Psi^*_{mi} \rangle`, and
    :math:`\lambda \|w^*\|^2` becomes :math:`\sum_m \lambda_m \|w^*_m\|^2`. An example may lack some of the spaces, which then say
    nothing about it. The tasks of all spaces are of one class of ``lupi.structured``, or list their ``outputs``.

    References
    ----------
    .. [1] Feyereisl, Kwak, Son and Han, Object localization based on structural SVM using privileged information, 2014,
       eq. 6, 7, 12-18 and Algorithm 1.

    Examples
    --------
    >>> from lupi import StructuralSVMPlus
    >>> from lupi.datasets import make_planted_boxes
    >>> from lupi.structured import BoxLocalization
    >>> X, Y, Z = make_planted_boxes(20, shape=(12, 16), n_words=30, n_points=80, n_privileged_words=5, random_state=0)
    >>> model = StructuralSVMPlus(BoxLocalization(30), BoxLocalization(35), C=10.0, tol=0.01, random_state=0)
    >>> model = model.fit(X, Y, privileged=Z)
    >>> model.dual_gap_ <= 0.01, len(model.predict(X[:2]))
    (True, 2)
    """

    task: Any
    privileged_task: Any = None
    C: float = 1.0
    lam: float | list[float] | dict[Any, float] = 1.0
    rho: float = 2.0
    _: KW_ONLY
    inference: str = "exact"

    __metadata_request__fit = {"privileged": True}
    _needed = ("coef_",)

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **StructuralMachine._parameter_constraints,
        "privileged_task": per_space([TASK_METHODS, None]),
        "lam": per_space(POSITIVE),
        "rho": POSITIVE,
        "inference": [StrOptions(set(INFERENCE))],
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, Y: Any, privileged: PrivilegedLike | None = None) -> Self:
        """Learn w and w*.

        Parameters
        ----------
        X : sequence of inputs
        Y : sequence of true outputs
        privileged : sequence of privileged inputs, dict or list of these, or None
            An entry None (a row of NaN, if the task reads tables) is not available for this example, which then keeps the
            plain hinge. Several spaces: one sequence each. None gives the plain structural SVM.

        Returns
        -------
        self
        """
        with deadline(self.max_time):
            tasks = self.task if self.privileged_task is None else self.privileged_task
            options: dict[str, Any] = {"task": as_task(self.task), "privileged_task": tasks}
            data = check_training_set(self, X, Y, privileged, target="outputs", **options)
            decision = self._examples(data)
            spaces = self._privileged_examples(data) if data.available.any() else None
            search: dict[str, Any] = {name: getattr(self, name) for name in ("C", "rho", "inference", "n_jobs")}
            oracle = Oracle(decision, spaces, data.available, **search)
            self.privileged_coef_: Any = None
            self.first_branch_share_: float | None = None
            point = self._solve(oracle)
            self.coef_, names = point[: oracle.n_decision], [block.name for block in data.privileged]
            if spaces is not None:
                weights = spaces.split(point[oracle.n_decision :])
                numbered = names == list(range(len(names)))
                self.privileged_coef_ = (
                    weights[0] if names == [None] else weights if numbered else dict(zip(names, weights))
                )
                pairs = oracle.exact().search(point, np.flatnonzero(data.available))
                self.first_branch_share_ = float(np.mean(pairs.decision_larger))
            return self

    def _privileged_examples(self, data: TrainingSet) -> Examples:
        """Searches in the privileged spaces, which have one output in common."""
        blocks, names = data.privileged, [block.name for block in data.privileged]
        tasks = privileged_tasks(self, blocks, data.target, as_task(self.task))
        inputs, search = [block.rows.values for block in blocks], searches_of(tasks)
        if len(tasks) > 1:
            try:
                (tasks[0] if search is type(tasks[0]).examples else Task()).check_several(tasks, inputs, names)
            except ValueError as error:
                raise ValueError(f"{type(self).__name__}: {error}") from None
        scales = [1.0 / np.sqrt(lam) for lam in values_per_space(self, "lam", names)]
        return search(tasks, inputs, [block.available for block in blocks], data.target, scales)
