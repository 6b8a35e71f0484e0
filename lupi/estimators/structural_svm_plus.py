"""Structural SVM that uses privileged information."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from numbers import Real
from typing import Any, Self

from sklearn.utils._param_validation import Interval, StrOptions

from lupi.engine.model_parts import model_part
from lupi.estimators.structural_svm import (
    TASK_METHODS,
    StructuralPredictor,
    StructuralSVM,
    check_examples,
    check_privileged_inputs,
)
from lupi.problems.structural.margin_rescaling import StructuralProblem
from lupi.solvers.solution import deadline
from lupi.tasks.joint import INFERENCE, JointOracle
from lupi.tasks.oracle import task_oracle
from lupi.validation.decorators import fit_context
from lupi.validation.types import MatrixLike, PrivilegedLike, RandomState


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
    privileged_task : Task or None, default=None
        The same for the privileged inputs; its outputs are of the same kind. None means ``task``.
    C : float, default=1.0
        Weight of the loss.
    lam : float, default=1.0
        Weight of the privileged norm (gamma in the paper).
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
    privileged_coef_ : ndarray or None
        w*; None after a fit without privileged inputs.
    first_branch_share_ : float or None
        Share of training examples whose most violated pair has a decision loss above its privileged loss; the others
        are governed by the privileged space.
    objective_, dual_gap_, n_iter_, n_oracle_calls_
        As in :class:`StructuralSVM`; an oracle call is one joint inference.

    References
    ----------
    .. [1] Feyereisl, Kwak, Son and Han, Object localization based on structural SVM using privileged information, 2014,
       eq. 6, 7, 12-18 and Algorithm 1.

    Examples
    --------
    >>> from lupi import StructuralSVMPlus
    >>> from lupi.datasets.planted_boxes import make_planted_boxes
    >>> from lupi.tasks import BoxLocalization
    >>> X, Y, Z = make_planted_boxes(20, shape=(12, 16), n_words=30, n_points=80, n_privileged_words=5, random_state=0)
    >>> model = StructuralSVMPlus(BoxLocalization(30), BoxLocalization(35), C=10.0, tol=0.01, random_state=0)
    >>> model = model.fit(X, Y, privileged=Z)
    >>> model.dual_gap_ <= 0.01, len(model.predict(X[:2]))
    (True, 2)
    """

    __metadata_request__fit = {"privileged": True}

    _parameter_constraints = {
        **StructuralSVM._parameter_constraints,
        "privileged_task": [TASK_METHODS, None],
        "lam": [Interval(Real, 0, None, closed="neither")],
        "rho": [Interval(Real, 0, None, closed="neither")],
        "inference": [StrOptions(set(INFERENCE))],
    }

    def __init__(
        self,
        task: Any,
        privileged_task: Any = None,
        C: float = 1.0,
        lam: float = 1.0,
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
        privileged : sequence of privileged inputs or None
            An entry None (a row of NaN, if the task reads tables) is not available for this example, which then keeps the
            plain hinge. None gives the plain structural SVM.

        Returns
        -------
        self
        """
        with deadline(self.max_time):
            star = self.task if self.privileged_task is None else self.privileged_task
            given = X
            X, Y = check_examples(X, Y, self.task)
            privileged = check_privileged_inputs(privileged, given, Y, star, estimator_name=type(self).__name__)
            if privileged is None or not privileged.available.any():
                problem = StructuralProblem(task_oracle(self.task, X, Y, self.n_jobs), float(self.C))
                solution = self._solve(problem)
                self.coef_, self.privileged_coef_, self.first_branch_share_ = solution.point, None, None
                return self._store(solution)
            oracle = JointOracle(
                self.task,
                star,
                X,
                privileged.data,
                privileged.available,
                Y,
                lam=self.lam,
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
            self.coef_, self.privileged_coef_ = (part.copy() for part in oracle.split(solution.point))
            self.first_branch_share_ = oracle.first_branch_share(solution.point)
            return self._store(solution)
