"""Solvers of kernel machines by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lupi.solution import Solution, run_solver
from lupi.svm.auto import solve_auto, solve_interior_point, solve_kernel_near
from lupi.svm.decomposition import solve_decomposition
from lupi.svm.interior_point import solve_weights
from lupi.svm.newton import solve_newton
from lupi.svm.reference import solve_reference
from lupi.svm.row_generation import solve_linear, solve_linear_near
from lupi.svm.smo import solve_smo

# Kind of problem -> name (the estimators' ``solver``) -> function (problem, *, tol, max_iter, ...) -> Solution.
SOLVERS: dict[str, dict[str, Callable[..., Solution]]] = {
    "kernel": {
        "auto": solve_auto,
        "smo": solve_smo,
        "decomposition": solve_decomposition,
        "interior_point": solve_interior_point,
        "reference": solve_reference,
    },
    "linear": {"auto": solve_linear, "newton": solve_newton, "interior_point": solve_weights},
}
# Kind of problem -> function (problem, neighbor, solved, *, tol) that starts from the solution of a neighbor.
NEAR: dict[str, Callable[..., Solution | None]] = {"kernel": solve_kernel_near, "linear": solve_linear_near}


def solve(problem: Any, solver: str, *, tol: float, max_iter: int, **options: Any) -> Solution:
    """Solve a kernel machine's problem with the solver of that name; see :func:`lupi.solution.run_solver`."""
    return run_solver(SOLVERS[problem.family], problem, solver, tol=tol, max_iter=max_iter, **options)


def solve_near(problem: Any, neighbor: Any, solved: Solution, *, tol: float) -> Solution | None:
    """Solve from the solution of a problem with the same examples and other prices, as in a grid search.

    Returns None where the neighbor does not help: solve from scratch then.
    """
    if problem.family != neighbor.family:
        return None
    found = NEAR[problem.family](problem, neighbor, solved, tol=tol)
    return None if found is None or found.vague else found
