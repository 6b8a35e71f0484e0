"""Fits that end before their tolerance: because their time is over, and the one warning that says so."""

import functools
import math
from numbers import Real

from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from lupi.solvers import deadline

# Of the parameter ``max_time`` of every estimator whose solver iterates.
MAX_TIME = [None, Interval(Real, 0, None, closed="neither")]


def timed(fit):
    """Decorator of ``fit`` and ``fit_path``: the solvers inside stop after ``self.max_time`` seconds."""

    @functools.wraps(fit)
    def fit_in_time(self, *args, **kwargs):
        with deadline(self.max_time):
            return fit(self, *args, **kwargs)

    return fit_in_time


def unfinished(estimator, solution, advice="raise max_iter or tol"):
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
        limit = "" if estimator.max_time is None else f" of max_time={estimator.max_time:g} s"
        return ConvergenceWarning(
            f"{name} stopped at the end{limit} after {solution.n_iter} iterations {measures} (tol={estimator.tol:g}); "
            "this is the best point so far: allow more time, or raise tol."
        )
    return ConvergenceWarning(
        f"{name} stopped after {solution.n_iter} iterations {measures} > tol={estimator.tol:g}; {advice}."
    )
