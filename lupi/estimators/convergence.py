"""The one warning of a fit that stopped before its tolerance."""

import warnings

from sklearn.exceptions import ConvergenceWarning


def warn_not_converged(estimator, solution, advice="raise max_iter or tol"):
    """Say how far an estimator's solution is from the optimum.

    Parameters
    ----------
    estimator : estimator
        The one that is being fitted.
    solution : Solution
        What its solver returned.
    advice : str
        What would help.
    """
    warnings.warn(
        f"{type(estimator).__name__} stopped after {solution.n_iter} iterations at a relative duality gap of "
        f"{solution.gap:.2g} > tol={estimator.tol:g}; {advice}.",
        ConvergenceWarning,
        stacklevel=2,
    )
