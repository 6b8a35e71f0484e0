"""Solutions with their certificates, time limits of solvers, and convergence warnings."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
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

# Rounding errors of an objective and its bound, relative to the sum of the absolute values of their terms.
ROUNDING = 1e-9
# Compiled loops cannot be interrupted: they return after about this many elementary operations, a tenth of a second.
SLICE = 20_000_000

BEYOND = (
    "the optimization met numbers beyond the range of double precision. Scale the features of `X` and `privileged` (e.g. with "
    "StandardScaler), and bring C and the other weights closer to 1."
)
# Constraint of the parameter ``max_time`` of every estimator whose solver iterates.
MAX_TIME = [None, Interval(Real, 0, None, closed="neither")]

_END: ContextVar[float] = ContextVar("end", default=float("inf"))


def relative_gap(objective: float, lower_bound: float) -> float:
    """Distance between an objective and a lower bound, relative to the larger of the two; infinite if one of them is.

    The optimum lies between the two: a bound above the objective by more than rounding is wrong, and proves nothing.

    Examples
    --------
    >>> relative_gap(2.0, 1.5), relative_gap(0.0, 0.0), relative_gap(1.0, -float("inf")), relative_gap(1.0, 1e21)
    (0.25, 0.0, inf, inf)
    """
    size = max(abs(objective), abs(lower_bound))
    if not np.isfinite(size) or lower_bound - objective > ROUNDING * size:
        return np.inf
    return max(0.0, float(objective - lower_bound)) / size if size > 0 else 0.0


@dataclass(frozen=True)
class Solution:
    """A point and its certificate.

    Attributes
    ----------
    point : ndarray
        Dual variables of a kernel machine in the problem's order; weights of a ranker or a structural SVM.
    objective : float
        Value of the primal problem at the point, or at the feasible point built from it.
    lower_bound : float
        Lower bound of the optimum; -inf where nothing is proved.
    n_iter : int
        Iterations of all stages of the solver.
    converged : bool
        Whether the solver met its tolerance.
    solver : str
        Name of the stage that produced the point.
    violation : float
        Largest violation of the optimality conditions; NaN where the solver does not measure it.
    certificate : object, optional
        Further values that the problem computed from the point, such as intercepts.
    in_time : bool
        False if the time limit stopped the solver.
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
        """Relative duality gap."""
        return relative_gap(self.objective, self.lower_bound)


def best_of(first: Solution, second: Solution) -> Solution:
    """The solution of a kernel QP with the smaller gap (ties: the larger dual value), with the iterations of both."""
    best = min(first, second, key=lambda solution: (solution.gap, -solution.certificate.dual))
    return replace(best, n_iter=first.n_iter + second.n_iter, converged=first.converged or second.converged)


def stop_behind(problem: BaseException | None) -> BaseException | None:
    """KeyboardInterrupt or SystemExit among the causes of an error, or None.

    Numba turns a signal that arrives while compiled code returns an array into SystemErrors, each the cause of the next.
    """
    while problem is not None and not isinstance(problem, KeyboardInterrupt | SystemExit):
        problem = problem.__cause__
    return problem


@contextmanager
def deadline(seconds: float | None) -> Iterator[None]:
    """Stop the solvers that run inside after this many seconds (None: no limit); the earlier of nested deadlines counts.

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
        # A search would record a failed fit and continue.
        stop = stop_behind(problem)
        if stop is None:
            raise
        raise stop from None
    finally:
        _END.reset(before)


def out_of_time() -> bool:
    """Whether the time of the innermost :func:`deadline` is over; solvers check it between steps."""
    return time.monotonic() >= _END.get()


def steps_left(max_iter: int, done: int, most: int = -1) -> int:
    """Limit on the next stage of a solver whose ``max_iter`` counts the steps of all stages; -1 for no limit.

    Examples
    --------
    >>> steps_left(100, 90), steps_left(100, 90, 4), steps_left(-1, 90), steps_left(-1, 90, 4)
    (10, 4, -1, 4)
    """
    if max_iter < 0:
        return most
    left = max(0, max_iter - done)
    return left if most < 0 else min(left, most)


def slices(limit: int, work: int) -> Iterator[int]:
    """Numbers of steps in which to run a compiled loop, until they reach the limit or the time is over.

    Parameters
    ----------
    limit : int
        Largest number of steps in all.
    work : int
        Elementary operations of a step.

    Examples
    --------
    >>> list(slices(50, work=1_000_000))
    [20, 20, 10]
    """
    size = max(1, SLICE // max(1, work))
    yield min(size, limit)
    for done in range(size, limit, size):
        if out_of_time():
            return
        yield min(size, limit - done)


@contextmanager
def double_precision() -> Iterator[None]:
    """Run a solver: overflow shows in its result, and a failed factorization raises the same ValueError."""
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            yield
    except (LinAlgError, ArithmeticError) as error:
        raise ValueError(BEYOND) from error


def judge(solution: Solution, tol: float, *, hard: bool = False) -> Solution:
    """Solution whose ``converged`` is a gap of at most ``tol``; raises ValueError for numbers beyond double precision.

    With ``hard`` the problem has constraints without slack: its objective is infinite where one of them is missed.
    """
    if not np.isfinite(solution.point).all() or not (np.isfinite(solution.objective) or hard):
        raise ValueError(BEYOND)
    converged = solution.gap <= tol
    return replace(solution, converged=converged, in_time=converged or not out_of_time())


def unfinished(
    estimator: BaseEstimator, solution: Solution, advice: str = "raise max_iter or tol"
) -> ConvergenceWarning:
    """Warning that a solver stopped early, with its gap and what would help."""
    name = type(estimator).__name__
    measures = f"at a relative duality gap of {solution.gap:.2g} > tol={estimator.tol:g}"
    if not math.isnan(solution.violation):
        measures += f" and a KKT violation of {solution.violation:.2g}"
    if not solution.in_time:
        limit = "its time" if estimator.max_time is None else f"max_time={estimator.max_time:g} s"
        return ConvergenceWarning(
            f"{name} stopped at the end of {limit} after {solution.n_iter} iterations {measures}; "
            "this is the best point so far: allow more time, or raise tol."
        )
    return ConvergenceWarning(f"{name} stopped after {solution.n_iter} iterations {measures}; {advice}.")
