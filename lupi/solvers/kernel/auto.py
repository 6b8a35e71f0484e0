"""Which solver when."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lupi.problems import KernelQP, OneSpaceDual, TwoSpaceDual
from lupi.solvers.kernel.active_set import polish
from lupi.solvers.kernel.decomposition import solve_decomposition
from lupi.solvers.kernel.interior_point import solve_interior_point
from lupi.solvers.kernel.newton_systems import few_features
from lupi.solvers.kernel.smo import solve_smo, start_point
from lupi.solvers.solution import Solution

# A tolerance below this is met by SMO to this one, followed by active-set steps.
LOOSE = 1e-3
# With this many variables active-set steps take about a millisecond: exactness for free.
SMALL = 200
# Beyond this many variables a factorization would cost more memory and time than further SMO steps.
MOST_FACTORIZED = 8000
# A relative gap above this says little about the solution.
VAGUE = 1e-2
# With this many free variables a few factorizations take less time than SMO from scratch.
MOST_FACTORIZED_FREELY = 1000


def solve_auto(problem: KernelQP, *, tol: float = 1e-3, max_iter: int = -1) -> Solution:
    """Choose by regime.

    ========================================================  ==================================================
    both spaces have few explicit features (linear kernels)   interior point on the features
    the kernel matrix does not fit into ``cache_size``        SMO on working sets, rows on demand
    otherwise                                                 SMO with a budget; active-set steps when the budget
                                                              is spent, ``tol`` is below 1e-3 or they are cheap;
                                                              interior point where those fail
    not a one- or two-space dual (SVM-2K)                     interior point
    ========================================================  ==================================================
    """
    n_spaces = len(problem.spaces)
    pairwise = isinstance(problem, OneSpaceDual | TwoSpaceDual)
    if pairwise and any(space.on_demand for space in problem.spaces):
        return solve_decomposition(problem, tol=tol, max_iter=max_iter)
    if all(few_features(problem, m) for m in range(n_spaces)) and problem.n_examples > 200:
        return _finish(problem, solve_interior_point(problem, tol=min(tol, 1e-6), max_iter=max_iter), tol, max_iter)
    if not pairwise:
        return solve_interior_point(problem, tol=tol, max_iter=max_iter)
    budget = _smo_budget(problem.n_examples)
    budget = budget if max_iter < 0 else min(budget, max_iter)
    solution = solve_smo(problem, tol=max(tol, LOOSE), max_iter=budget)
    return _finish(problem, solution, tol, max_iter)


# Up to here an interior point takes some 20 milliseconds whatever the prices are: where a neighbour's bounds do not help in a
# two-space problem, SMO does not either.
FEW_VARIABLES = 600
# Rounds from a neighbour's active set; where more are needed, the sets have little in common.
ROUNDS_FROM_NEIGHBOUR = 8


def solve_near(problem: KernelQP, neighbour: KernelQP, solved: Solution, *, tol: float = 1e-3) -> Solution | None:
    """Solve from the solution of a problem with the same examples and other prices, as in a grid search.

    The neighbour's active bounds are the first guess of active-set steps. Nothing is taken on trust: the certificate is
    computed from the new point alone.

    Parameters
    ----------
    problem : KernelQP
    neighbour : KernelQP
        The problem that was solved.
    solved : Solution
        Its solution.
    tol : float
        Largest violation of the optimality conditions.

    Returns
    -------
    Solution or None
        None where the guess is of no use: solve from scratch then.
    """
    if any(space.on_demand for space in problem.spaces) or len(solved.x) != problem.n_variables:
        return None
    free = int(np.sum((solved.x > neighbour.lower) & (solved.x < neighbour.upper)))
    if free > MOST_FACTORIZED_FREELY or not solved.converged:
        return None
    # A bound that the neighbour has and the problem does not (another kappa) is no guess.
    guess = (
        (solved.x <= neighbour.lower) & np.isfinite(problem.lower),
        (solved.x >= neighbour.upper) & np.isfinite(problem.upper),
    )
    start = Solution.certify(problem, start_point(problem), 0, False, "neighbour")
    start = replace(start, x=np.clip(solved.x, problem.lower, problem.upper))
    found = polish(problem, start, guess=guess, max_iter=ROUNDS_FROM_NEIGHBOUR)
    usable = _exact(found) and _good(found, tol)
    if not usable and isinstance(problem, TwoSpaceDual) and problem.n_variables <= FEW_VARIABLES:
        found = solve_interior_point(problem, tol=tol)
        usable = _good(found, tol)
    return replace(found, converged=True) if usable and not problem.diverges(found.x) else None


def _smo_budget(n: int) -> int:
    """Steps that cost about as much as active-set steps would.

    A round of these costs n^3, an SMO step n: small problems should turn to them early. Beyond n = 640 the number of
    steps that usually suffice counts.
    """
    return min(40 * n, max(1000, n * n // 16))


def _finish(problem: KernelQP, solution: Solution, tol: float, max_iter: int) -> Solution:
    """Bring a point within the tolerance, by the cheapest means that works."""
    if problem.diverges(solution.x):
        return replace(solution, converged=False)
    free = int(np.sum((solution.x > problem.lower) & (solution.x < problem.upper)))
    # With large prices a small violation still costs much: the conditions are met, and the value is far off.
    vague = solution.certificate.gap > VAGUE and free <= MOST_FACTORIZED_FREELY
    if not _good(solution, tol) or problem.n_variables <= SMALL or vague:
        if free <= MOST_FACTORIZED and not _exact(solution):
            solution = polish(problem, solution)
        if _good(solution, tol):
            return replace(solution, converged=True)
    else:
        return solution
    if max_iter >= 0 and solution.n_iter >= max_iter:
        return replace(solution, converged=False)
    if problem.n_variables <= MOST_FACTORIZED:
        solution = solution.better(solve_interior_point(problem, tol=tol))
        if problem.diverges(solution.x):
            return replace(solution, converged=False)
        if _good(solution, tol):
            return replace(solution, converged=True)
    # Where even the interior point ran out of digits, SMO would not find more.
    if isinstance(problem, OneSpaceDual | TwoSpaceDual) and solution.certificate.gap > 1e-4:
        more = solve_smo(
            problem, tol=tol, max_iter=max(1_000_000, 2000 * problem.n_examples) if max_iter < 0 else max_iter
        )
        solution = more.better(solution)
    return replace(solution, converged=_good(solution, tol))


def _exact(solution: Solution) -> bool:
    return solution.solver.endswith("active_set")


def _good(solution: Solution, tol: float) -> bool:
    """Optimality conditions met, or (interior points meet none of them exactly) a gap far below what they would give."""
    return solution.certificate.violation <= tol or solution.certificate.gap <= 1e-3 * min(tol, 1e-3)
