"""Every solver by its name, and the one call that runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from lupi.solvers.kernel.auto import solve_auto, solve_interior_point, solve_kernel_near
from lupi.solvers.kernel.decomposition import solve_decomposition
from lupi.solvers.kernel.linear_auto import solve_linear, solve_linear_near
from lupi.solvers.kernel.linear_interior import solve_weights
from lupi.solvers.kernel.linear_newton import solve_newton
from lupi.solvers.kernel.reference import solve_reference
from lupi.solvers.kernel.smo import solve_smo
from lupi.solvers.ranking.bundle import solve_ranking_bundle
from lupi.solvers.ranking.coordinate import solve_ranking_coordinate
from lupi.solvers.ranking.newton import solve_ranking_auto, solve_ranking_newton
from lupi.solvers.solution import Solution, out_of_time
from lupi.solvers.structural.cutting_plane import solve_n_slack, solve_one_slack
from lupi.solvers.structural.frank_wolfe import solve_frank_wolfe

BEYOND = (
    "the optimization met numbers beyond the range of double precision. Scale the features of `X` and `privileged` (e.g. with "
    "StandardScaler), and bring C and the other prices nearer to 1."
)
# Family of problems -> name (the estimators' ``solver``) -> function (problem, *, tol, max_iter, ...) -> Solution.
SOLVERS: dict[str, dict[str, Callable[..., Solution]]] = {
    "kernel": {
        "auto": solve_auto,
        "smo": solve_smo,
        "decomposition": solve_decomposition,
        "interior_point": solve_interior_point,
        "reference": solve_reference,
    },
    "linear": {"auto": solve_linear, "newton": solve_newton, "interior_point": solve_weights},
    "ranking": {
        "auto": solve_ranking_auto,
        "newton": solve_ranking_newton,
        "coordinate": solve_ranking_coordinate,
        "bundle": solve_ranking_bundle,
    },
    "structural": {"bcfw": solve_frank_wolfe, "cutting_plane": solve_one_slack, "n_slack": solve_n_slack},
}
# Family of problems -> function (problem, neighbour, solved, *, tol) that starts from the solution of a neighbour.
NEAR: dict[str, Callable[..., Solution | None]] = {"kernel": solve_kernel_near, "linear": solve_linear_near}


def solve(problem: Any, solver: str, *, tol: float, max_iter: int, **options: Any) -> Solution:
    """Solve a problem with the solver of that name.

    Parameters
    ----------
    problem : KernelQP, LinearPrimal, RankingProblem or StructuralProblem
        Its ``family`` says which solvers there are.
    solver : str
        One of ``SOLVERS[problem.family]``.
    tol : float
        Tolerance of the solver.
    max_iter : int
        Limit on its iterations.
    **options
        What a family's solvers take beyond these, such as a start.

    Returns
    -------
    Solution
    """
    try:
        # What cannot be computed shows in the result.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            found = SOLVERS[problem.family][solver](problem, tol=tol, max_iter=max_iter, **options)
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


def solve_near(problem: Any, neighbour: Any, solved: Solution, *, tol: float) -> Solution | None:
    """Solve from the solution of a problem with the same examples and other prices, as in a grid search.

    Parameters
    ----------
    problem, neighbour : KernelQP or LinearPrimal
        The problem, and the one that was solved.
    solved : Solution
        Its solution.
    tol : float
        Tolerance of the solver.

    Returns
    -------
    Solution or None
        None where the neighbour is of no use: solve from scratch then.
    """
    if problem.family != neighbour.family:
        return None
    found = NEAR[problem.family](problem, neighbour, solved, tol=tol)
    return None if found is None or found.vague else found
