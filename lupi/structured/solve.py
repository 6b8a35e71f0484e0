"""Solvers of structural SVMs by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lupi.solution import Solution, run_solver
from lupi.structured.cutting_plane import solve_n_slack, solve_one_slack
from lupi.structured.frank_wolfe import solve_frank_wolfe

SOLVERS: dict[str, Callable[..., Solution]] = {
    "bcfw": solve_frank_wolfe,
    "cutting_plane": solve_one_slack,
    "n_slack": solve_n_slack,
}


def solve(problem: Any, solver: str, *, tol: float, max_iter: int, **options: Any) -> Solution:
    """Solve a structural SVM with the solver of that name; see :func:`lupi.solution.run_solver`."""
    return run_solver(SOLVERS, problem, solver, tol=tol, max_iter=max_iter, **options)
