"""The one warning of a fit that stopped before its tolerance, by its time or otherwise."""

from __future__ import annotations

import math
from numbers import Real
from typing import TYPE_CHECKING

from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from lupi.solvers.solution import Solution

# Of the parameter ``max_time`` of every estimator whose solver iterates.
MAX_TIME = [None, Interval(Real, 0, None, closed="neither")]


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
