"""Structural SVM that uses privileged information."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from lupi.inputs import PrivilegedInput, is_per_space, names_of_spaces
from lupi.inputs.decorators import fit_context
from lupi.inputs.types import MatrixLike, PrivilegedLike, RandomState
from lupi.kernels.several_spaces import PER_SPACE, values_per_space
from lupi.model_parts import model_part
from lupi.solution import deadline
from lupi.structured.joint import INFERENCE, JointOracle
from lupi.structured.margin_rescaling import StructuralProblem
from lupi.structured.oracle import task_oracle
from lupi.structured.several import TaskSum
from lupi.structured.structural_svm import (
    TASK_METHODS,
    StructuralPredictor,
    StructuralSVM,
    check_examples,
    check_privileged_inputs,
)


@model_part
class StructuralSVMPlus(StructuralPredictor):
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
    solver, tol, max_iter, max_time, average, n_jobs, callback, random_state
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
    nothing about it. The tasks of all spaces are of one class of ``lupi.structured`` (or one with ``argmax_sum``), or list their
    ``outputs``.

    References
    ----------
    .. [1] Feyereisl, Kwak, Son and Han, Object localization based on structural SVM using privileged information, 2014,
       eq. 6, 7, 12-18 and Algorithm 1.

    Examples
    --------
    >>> from lupi import StructuralSVMPlus
    >>> from lupi.datasets.planted_boxes import make_planted_boxes
    >>> from lupi.structured import BoxLocalization
    >>> X, Y, Z = make_planted_boxes(20, shape=(12, 16), n_words=30, n_points=80, n_privileged_words=5, random_state=0)
    >>> model = StructuralSVMPlus(BoxLocalization(30), BoxLocalization(35), C=10.0, tol=0.01, random_state=0)
    >>> model = model.fit(X, Y, privileged=Z)
    >>> model.dual_gap_ <= 0.01, len(model.predict(X[:2]))
    (True, 2)
    """

    __metadata_request__fit = {"privileged": True}

    _parameter_constraints = {
        **StructuralSVM._parameter_constraints,
        "privileged_task": [TASK_METHODS, None, list, tuple, dict],
        "lam": PER_SPACE["lam"],
        "rho": [Interval(Real, 0, None, closed="neither")],
        "inference": [StrOptions(set(INFERENCE))],
    }

    def __init__(
        self,
        task: Any,
        privileged_task: Any = None,
        C: float = 1.0,
        lam: float | list[float] | dict[Any, float] = 1.0,
        rho: float = 2.0,
        *,
        inference: str = "exact",
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
        self.privileged_task = privileged_task
        self.C = C
        self.lam = lam
        self.rho = rho
        self.inference = inference
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.average = average
        self.n_jobs = n_jobs
        self.callback = callback
        self.random_state = random_state

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
            given = X
            X, Y = check_examples(X, Y, self.task)
            star, privileged, lam = self._privileged_side(given, Y, privileged)
            if privileged is None or not privileged.available.any():
                problem = StructuralProblem(task_oracle(self.task, X, Y, self.n_jobs), float(self.C))
                solution = self._solve(problem)
                self.coef_, self.first_branch_share_ = solution.point, None
                self.privileged_coef_: Any = None
                return self._store(solution)
            oracle = JointOracle(
                self.task,
                star,
                X,
                privileged.data,
                privileged.available,
                Y,
                lam=lam,
                rho=self.rho,
                n_jobs=self.n_jobs,
            )
            problem = StructuralProblem(oracle, float(self.C))
            if self.inference == "exact":
                solution = self._solve(problem)
            else:
                solution = self._solve(StructuralProblem(oracle.searched_by(self.inference), float(self.C)))
                # Its own search may have missed the most violated planes; the exact one tells the true objective.
                solution = replace(solution, objective=problem.primal(solution.point, *oracle.planes(solution.point)))
                solution = replace(solution, converged=solution.gap <= self.tol)
            w, w_star = (part.copy() for part in oracle.split(solution.point))
            self.coef_, self.privileged_coef_ = w, star.by_space(w_star) if isinstance(star, TaskSum) else w_star
            self.first_branch_share_ = oracle.first_branch_share(solution.point)
            return self._store(solution)

    def _privileged_side(
        self, X: MatrixLike, Y: Sequence[Any], privileged: PrivilegedLike
    ) -> tuple[Any, PrivilegedInput | None, Any]:
        """The privileged task, its checked inputs and the weight of its norm; several spaces become one."""
        who = type(self).__name__
        several = any(map(is_per_space, (self.privileged_task, self.lam))) or isinstance(privileged, dict)
        if not several and isinstance(privileged, list | tuple):
            tabular = getattr(self.task if self.privileged_task is None else self.privileged_task, "tabular", False)
            # A list of matrices is several tables; where inputs are sequences, it is one space.
            several = tabular and names_of_spaces(privileged) != [None]
        if privileged is None or not several:
            star = None if is_per_space(self.privileged_task) else self.privileged_task
            star = self.task if star is None else star
            return star, check_privileged_inputs(privileged, X, Y, star, estimator_name=who), self.lam
        if not isinstance(privileged, list | tuple | dict) or not privileged:
            raise ValueError(
                f"{who}: `privileged_task` or `lam` has one value per space, so `privileged` must be a list or dict with the "
                f"inputs of each space; got {privileged!r:.60}."
            )
        names = list(privileged) if isinstance(privileged, dict) else list(range(len(privileged)))
        tasks = values_per_space(self, "privileged_task", names)
        tasks = [self.task if task is None else task for task in tasks]
        lams = values_per_space(self, "lam", names)
        spaces: list[Any] = []
        for name, task in zip(names, tasks):
            if privileged[name] is None:
                raise ValueError(
                    f"{who}: `privileged` has None for the space {name!r}; give inputs for each space, or privileged=None."
                )
            argument = f"privileged[{name!r}]"
            spaces.append(check_privileged_inputs(privileged[name], X, Y, task, estimator_name=who, argument=argument))
        try:
            star = TaskSum(tasks, [1.0 / np.sqrt(lam) for lam in lams], names)
            rows = [tuple(one.data[i] if one.available[i] else None for one in spaces) for i in range(len(Y))]
            star.check(rows, Y)
        except ValueError as error:
            raise ValueError(f"{who}: {error}") from None
        return star, PrivilegedInput(rows, np.any([one.available for one in spaces], axis=0)), 1.0
