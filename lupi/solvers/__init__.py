"""How it is solved: one file a solver, one registry, one ``Solution``."""

from lupi.solvers.deadline import deadline, out_of_time
from lupi.solvers.registry import SOLVERS, solve, solve_near
from lupi.solvers.solution import Solution, relative_gap

__all__ = ["SOLVERS", "Solution", "deadline", "out_of_time", "relative_gap", "solve", "solve_near"]
