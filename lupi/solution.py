"""What every solver returns, the one measure of how good it is, and when a solver has to come to its end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.linalg import LinAlgError
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

# Of a solution that says something about the optimum.
MOST_GAP = 0.1
# Compiled loops cannot be interrupted: they return after about this many elementary operations, a tenth of a second.
SLICE = 20_000_000

BEYOND = (
    "the optimization met numbers beyond the range of double precision. Scale the features of `X` and `privileged` (e.g. with "
    "StandardScaler), and bring C and the other prices nearer to 1."
)
# Constraint of the parameter ``max_time`` of every estimator whose solver iterates.
MAX_TIME = [None, Interval(Real, 0, None, closed="neither")]

_END: ContextVar[float] = ContextVar("end", default=float("inf"))


def relative_gap(objective: float, lower_bound: float) -> float:
    """Distance of a value from a lower bound of the optimum, relative to the larger of the two; never below 0.

    Infinite where one of them is: such a point proves nothing.

    Examples
    --------
    >>> relative_gap(2.0, 1.5), relative_gap(0.0, 0.0), relative_gap(1.0, -float("inf"))
    (0.25, 0.0, inf)
    """
    size = max(abs(objective), abs(lower_bound))
    if not np.isfinite(size):
        return np.inf
    return max(0.0, float(objective - lower_bound)) / size if size > 0 else 0.0


@dataclass(frozen=True)
class Solution:
    """A point with the proof of how good it is.

    Attributes
    ----------
    point : ndarray
        Dual variables of a kernel machine in the problem's order, weights of a ranker or a structural SVM.
    objective : float
        Value of the primal problem at the point, or at the feasible point built from it.
    lower_bound : float
        No point has a value below it; -inf where nothing is proved.
    n_iter : int
        Iterations of the solver (of all its stages together).
    converged : bool
        Whether the solver met its own tolerance.
    solver : str
        Name of the stage that produced the point.
    violation : float
        Largest violation of the optimality conditions; NaN where the solver does not measure it.
    in_time : bool
        False where the solver was stopped because its time was over.
    certificate : object, optional
        What a family's problem says about the point beyond these numbers, such as intercepts.
    """

    point: np.ndarray
    objective: float
    lower_bound: float
    n_iter: int
    converged: bool
    solver: str
    violation: float = np.nan
    certificate: Any = None
    in_time: bool = True

    @property
    def gap(self) -> float:
        """Relative distance of the objective from the lower bound."""
        return relative_gap(self.objective, self.lower_bound)

    @property
    def vague(self) -> bool:
        """Whether the gap is so large that the point is not known to be any good, whatever conditions it meets."""
        return not self.gap <= MOST_GAP

    @classmethod
    def certify(
        cls,
        problem: Any,
        point: np.ndarray,
        n_iter: int,
        converged: bool,
        solver: str,
        biases: np.ndarray | None = None,
    ) -> Solution:
        """Solution whose values are computed by ``problem.certificate`` from the point alone."""
        proof = problem.certificate(point, biases)
        return cls(point, proof.primal, proof.lower_bound, n_iter, converged, solver, proof.violation, proof)

    def better(self, other: Solution) -> Solution:
        """The one with the smaller gap (of two that prove nothing the larger dual value), with the iterations of both."""
        mine, its = ((s.gap, -s.certificate.dual) for s in (self, other))
        best = self if mine <= its else other
        return replace(best, n_iter=self.n_iter + other.n_iter, converged=self.converged or other.converged)


def stop_behind(problem: BaseException | None) -> BaseException | None:
    """Ctrl-C or the end of the process among the causes of an error; None if there is none.

    Of a signal that comes while compiled code returns an array, numba makes SystemErrors, one the cause of the other.
    """
    while problem is not None and not isinstance(problem, KeyboardInterrupt | SystemExit):
        problem = problem.__cause__
    return problem


@contextmanager
def deadline(seconds: float | None) -> Iterator[None]:
    """Let the solvers that run inside stop after so many seconds; within another deadline the earlier one counts.

    Parameters
    ----------
    seconds : float or None
        None for no limit.

    Examples
    --------
    >>> with deadline(0.0):
    ...     out_of_time()
    True
    >>> out_of_time()
    False
    """
    end = _END.get() if seconds is None else min(_END.get(), time.monotonic() + seconds)
    before = _END.set(end)
    try:
        yield
    except SystemError as problem:
        # A search would take it for a fit that failed, and go on.
        stop = stop_behind(problem)
        if stop is None:
            raise
        raise stop from None
    finally:
        _END.reset(before)


def out_of_time() -> bool:
    """Whether the time of the innermost :func:`deadline` is over; solvers ask between two steps."""
    return time.monotonic() >= _END.get()


def steps_left(max_iter: int, done: int, most: int = -1) -> int:
    """What is left for the next stage of a solver whose ``max_iter`` counts the steps of all stages.

    Parameters
    ----------
    max_iter : int
        Limit on all stages; -1 for none.
    done : int
        Steps that were taken.
    most : int
        Limit on the next stage alone; -1 for none.

    Examples
    --------
    >>> steps_left(100, 90), steps_left(100, 90, 4), steps_left(-1, 90), steps_left(-1, 90, 4)
    (10, 4, -1, 4)
    """
    if max_iter < 0:
        return most
    left = max(0, max_iter - done)
    return left if most < 0 else min(left, most)


def run_in_slices(run: Callable[[int], tuple[int, float]], limit: int, work: int) -> tuple[int, float]:
    """Repeat a compiled loop that goes on where it stopped.

    Parameters
    ----------
    run : callable
        From the largest number of steps to the steps taken, fewer where it has come to its end, and a measure of the point.
    limit : int
        Largest number of steps in all.
    work : int
        Elementary operations of a step.

    Returns
    -------
    int, float
        Steps in all, and the last measure.
    """
    size = max(1, SLICE // max(1, work))
    done = 0
    while True:
        part = min(size, limit - done)
        steps, measure = run(part)
        done += steps
        if steps < part or done >= limit or out_of_time():
            return done, measure


def run_solver(
    solvers: dict[str, Callable[..., Solution]], problem: Any, solver: str, *, tol: float, max_iter: int, **options: Any
) -> Solution:
    """Solve a problem with the solver of that name, and judge the result.

    Parameters
    ----------
    solvers : dict of str to callable
        The solvers of the problem's family: functions (problem, *, tol, max_iter, ...) -> Solution.
    problem : KernelQP, LinearPrimal, RankingProblem or StructuralProblem
    solver : str
        One of the keys.
    tol : float
        Tolerance of the solver.
    max_iter : int
        Limit on its iterations.
    **options
        Further arguments of the family's solvers, such as a start.

    Returns
    -------
    Solution
    """
    try:
        # Overflow shows in the result, which `_judged` checks.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            found = solvers[solver](problem, tol=tol, max_iter=max_iter, **options)
            return _judged(problem, found, tol)
    except (LinAlgError, ArithmeticError) as error:
        raise ValueError(BEYOND) from error


def _judged(problem: Any, solution: Solution, tol: float) -> Solution:
    """The solution as an estimator may report it: converged only where its gap says something, and with its lack of time."""
    # Only a constraint without slack, when it is missed, costs infinitely much.
    unlimited = problem.family in ("kernel", "linear") and any(side.any() for side in problem.hard)
    if not np.isfinite(solution.point).all() or not (np.isfinite(solution.objective) or unlimited):
        raise ValueError(BEYOND)
    if problem.family == "kernel" and np.isneginf(solution.lower_bound):
        solution = replace(solution, lower_bound=problem.value(problem.start()))
    # Where `tol` is the gap itself, whoever asks for a large one gets it.
    if solution.converged and (solution.gap <= tol or not solution.vague):
        return solution
    return replace(solution, converged=False, in_time=not out_of_time())


def unfinished(
    estimator: BaseEstimator, solution: Solution, advice: str = "raise max_iter or tol"
) -> ConvergenceWarning:
    """How far an estimator's solution is from the optimum, as a warning for ``fit`` to give.

    Parameters
    ----------
    estimator : estimator
        The one that is being fitted.
    solution : Solution
        What its solver returned.
    advice : str
        What would help.

    Returns
    -------
    ConvergenceWarning
    """
    name = type(estimator).__name__
    measures = f"at a relative duality gap of {solution.gap:.2g}"
    if not math.isnan(solution.violation):
        measures += f" and a KKT violation of {solution.violation:.2g}"
    if not solution.in_time:
        limit = "its time" if estimator.max_time is None else f"max_time={estimator.max_time:g} s"
        return ConvergenceWarning(
            f"{name} stopped at the end of {limit} after {solution.n_iter} iterations {measures} (tol={estimator.tol:g}); "
            "this is the best point so far: allow more time, or raise tol."
        )
    if solution.vague and solution.violation <= estimator.tol:
        return ConvergenceWarning(
            f"{name} met the optimality conditions to tol={estimator.tol:g} after {solution.n_iter} iterations, but with a "
            f"relative duality gap of {solution.gap:.2g}: its solution is not known to be near the optimum; lower tol, or {advice}."
        )
    return ConvergenceWarning(
        f"{name} stopped after {solution.n_iter} iterations {measures} > tol={estimator.tol:g}; {advice}."
    )
