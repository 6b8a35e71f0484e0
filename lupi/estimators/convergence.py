"""The one warning of a fit that stopped before its tolerance."""

import math

from sklearn.exceptions import ConvergenceWarning


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
    measures = f"at a relative duality gap of {solution.gap:.2g}"
    if not math.isnan(solution.violation):
        measures += f" and a KKT violation of {solution.violation:.2g}"
    return ConvergenceWarning(
        f"{type(estimator).__name__} stopped after {solution.n_iter} iterations {measures} > tol={estimator.tol:g}; {advice}."
    )
