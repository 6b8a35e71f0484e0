"""How it is solved: one file a solver, one registry, one ``Solution``."""

from lupi.solvers.registry import SOLVERS, solve, solve_near
from lupi.solvers.solution import Solution, relative_gap

__all__ = ["SOLVERS", "Solution", "relative_gap", "solve", "solve_near"]
