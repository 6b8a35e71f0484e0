"""SMO that goes on until the duality gap is small: how small a violation that takes depends on the prices."""

from __future__ import annotations

from dataclasses import replace

from lupi.solution import Solution
from lupi.svm import KernelQP
from lupi.svm.smo import state_of

# The gap falls about as the violation does; aim below what is wanted, but not at once by more than this.
AIM = 0.5
STEEPEST = 0.03
LEAST_TOLERANCE = 1e-9


def solve_smo_to_gap(problem: KernelQP, *, gap: float, tol: float, max_iter: int) -> Solution:
    """Sequential minimal optimization with a falling tolerance, each run going on where the last one ended.

    Parameters
    ----------
    problem : KernelQP
        With one or two variables per example (``layout``) and its kernel matrices at hand.
    gap : float
        Relative duality gap at which to stop.
    tol : float
        Violation of the optimality conditions of the first run.
    max_iter : int
        Largest number of steps of all runs together.

    Returns
    -------
    Solution
        Converged where its gap is the one asked for.
    """
    state = state_of(problem, problem.start(), solver="smo")
    matrices = state.matrices(problem)
    steps = 0
    while True:
        done, violation = state.run(*matrices, tol, max_iter - steps)
        steps += done
        found = Solution.certify(problem, state.variables(problem), steps, True, "smo")
        finished = found.gap <= gap
        if finished or violation >= tol or tol <= LEAST_TOLERANCE or problem.diverges(found.point):
            return replace(found, converged=finished)
        tol *= max(STEEPEST, min(AIM, AIM * gap / found.gap))
