"""Which solver when, for linear kernels in both spaces."""

from __future__ import annotations

from dataclasses import replace

from lupi.solution import Solution, out_of_time
from lupi.svm import LinearPrimal
from lupi.svm.auto import finish, smo_budget
from lupi.svm.feature_products import stored_entries
from lupi.svm.linear_newton import solve_newton
from lupi.svm.linear_rows import FEW_EXAMPLES, solve_rows
from lupi.svm.linear_systems import wide
from lupi.svm.smo_to_gap import solve_smo_to_gap

# The last digits cost little where the examples are few: the gap is then this share of the tolerance.
DIGITS = 1e-3
# Nanoseconds, as measured: an operation of a matrix product, and one example in a step of SMO.
PRODUCT = 0.035
SMO_STEP = 5.0
# Steps that Newton's method and the interior point usually take, and what a step costs beside its products.
NEWTON_STEPS, INTERIOR_STEPS = 5, 18
STEP_NANOSECONDS = 3e5
# After so many problems on which SMO was too slow, the other classes' are not tried.
MOST_FAILURES = 2
# A violation below this is rounding.
LEAST_VIOLATION = 1e-12


def solve_linear(problem: LinearPrimal, *, tol: float = 1e-3, max_iter: int = -1) -> Solution:
    """Choose by the losses and the shape.

    ======================================  ======================================================================
    fewer examples than weights             the solvers on kernel matrices, which all classes share
    few examples                            SMO on kernel matrices that all classes share, for as long as solving
                                            over the weights would take; then as below
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
    if max_iter < 0:
        tried = _try_matrices(problem, tol)
        if tried is not None:
            return tried
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


def _try_matrices(problem: LinearPrimal, tol: float) -> Solution | None:
    """SMO with a budget; None where its matrices do not pay or the budget did not suffice."""
    matrices, n = problem.matrices, problem.n_examples
    if matrices is None or matrices.failures >= MOST_FAILURES:
        return None
    # Matrices over the examples are the smaller ones where the weights are more.
    smaller = problem.n_weights >= n
    expected = _nanoseconds(problem)
    forming = PRODUCT * n * (stored_entries(problem.X) + 2 * stored_entries(problem.Z))
    if not smaller and forming > 0.5 * matrices.n_problems * expected:
        return None
    dual = matrices.dual(problem.y)
    budget = smo_budget(n) if smaller else max(1, int(expected / (SMO_STEP * n)))
    found = solve_smo_to_gap(dual, gap=tol, tol=matrices.sufficient or tol, max_iter=budget)
    matrices.sufficient = min(tol, max(found.violation, LEAST_VIOLATION))
    if found.gap > tol and smaller and not out_of_time():
        found = finish(dual, found, 0.5 * tol * min(1.0, found.violation / found.gap), max_iter=-1)
        found = replace(found, converged=found.gap <= tol)
    elif found.gap > tol and not out_of_time():
        matrices.failures += 1
        return None
    theta, x = problem.from_dual(found.point, found.certificate)
    return replace(found, point=theta, certificate=x)


def _nanoseconds(problem: LinearPrimal) -> float:
    """What solving over the weights will take, about."""
    n, p = problem.n_examples, problem.n_weights
    step = PRODUCT * (n * p * p * (0.5 if problem.smooth else 1.0) + p**3 / 3) + STEP_NANOSECONDS
    return step * (NEWTON_STEPS if problem.smooth else INTERIOR_STEPS)
