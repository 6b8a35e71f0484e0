"""The one warning of a fit that stopped before its tolerance."""

import numpy as np
from sklearn.exceptions import ConvergenceWarning


def unfinished(estimator, solution):
    """What to say of a solution that is not within the tolerance.

    Parameters
    ----------
    estimator : estimator
        The one that is being fitted.
    solution : Solution
        What its solver returned.

    Returns
    -------
    ConvergenceWarning
    """
    gap = f"relative duality gap {{}} {solution.gap:.2g}"
    measure = f"{gap.format('of')} > tol={estimator.tol:g}"
    if np.isfinite(solution.violation):
        measure = f"KKT violation of {solution.violation:.2g} (tol={estimator.tol:g}); the {gap.format('is')}"
    return ConvergenceWarning(
        f"{type(estimator).__name__} stopped after {solution.n_iter} iterations with a {measure}. Increase max_iter or tol, "
        "scale the features, or make slack cheaper (a smaller C)."
    )
