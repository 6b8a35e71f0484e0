"""How it is solved: one file a solver, one registry, one ``Solution``."""

from lupi.solvers.kernel.auto import solve_auto, solve_near
from lupi.solvers.kernel.decomposition import solve_decomposition
from lupi.solvers.kernel.interior_point import solve_interior_point
from lupi.solvers.kernel.reference import solve_reference
from lupi.solvers.kernel.smo import solve_smo
from lupi.solvers.solution import Solution

# Name (the estimators' ``solver``) -> function (problem, *, tol, max_iter) -> Solution.
SOLVERS = {
    "auto": solve_auto,
    "smo": solve_smo,
    "decomposition": solve_decomposition,
    "interior_point": solve_interior_point,
    "reference": solve_reference,
}

__all__ = ["SOLVERS", "Solution", "solve_near"]
