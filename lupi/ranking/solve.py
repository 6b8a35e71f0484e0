"""Solvers of ranking problems by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lupi.ranking.bundle import solve_ranking_bundle
from lupi.ranking.coordinate import solve_ranking_coordinate
from lupi.ranking.newton import solve_ranking_auto, solve_ranking_newton
from lupi.solution import Solution, run_solver

SOLVERS: dict[str, Callable[..., Solution]] = {
    "auto": solve_ranking_auto,
    "newton": solve_ranking_newton,
    "coordinate": solve_ranking_coordinate,
    "bundle": solve_ranking_bundle,
}


def solve(problem: Any, solver: str, *, tol: float, max_iter: int, **options: Any) -> Solution:
    """Solve a ranking problem with the solver of that name; see :func:`lupi.solution.run_solver`."""
    return run_solver(SOLVERS, problem, solver, tol=tol, max_iter=max_iter, **options)
