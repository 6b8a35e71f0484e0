"""Which solver when, for linear kernels in both spaces."""

from __future__ import annotations

from dataclasses import replace

from lupi.solution import Solution
from lupi.svm.linear import LinearPrimal
from lupi.svm.linear_newton import solve_newton
from lupi.svm.linear_rows import FEW_EXAMPLES, solve_rows
from lupi.svm.linear_systems import wide

# The last digits cost little where the examples are few: the gap is then this share of the tolerance.
DIGITS = 1e-3


def solve_linear(problem: LinearPrimal, *, tol: float = 1e-3, max_iter: int = -1) -> Solution:
    """Choose by the losses and the shape.

    ======================================  ======================================================================
    squared hinges                          Newton's method, from the weights of a sample where there are many
                                            examples; the interior point where it does not end after a few steps
    hinges, constraints                     interior point; with many examples on the rows near a kink, all others
                                            being fixed and checked
    ======================================  ======================================================================

    Parameters
    ----------
    problem : LinearPrimal
    tol : float
        Relative duality gap.
    max_iter : int
        Largest number of steps; -1 for the solvers' own limits.

    Returns
    -------
    Solution
        Of weights; its certificate are the dual variables.
    """
    few = problem.n_examples <= FEW_EXAMPLES
    found = solve_rows(problem, tol=DIGITS * tol if few else tol, max_iter=max_iter)
    return replace(found, converged=found.gap <= tol)


def solve_linear_near(
    problem: LinearPrimal, neighbor: LinearPrimal, solved: Solution, *, tol: float = 1e-3
) -> Solution | None:
    """Newton's method from the weights that another price has; None where it is of no use."""
    if not problem.smooth or not solved.converged or wide(problem):
        return None
    found = solve_newton(problem, tol=DIGITS * tol if problem.n_examples <= FEW_EXAMPLES else tol, start=solved.point)
    return found if found.converged else None
