"""Which solver suits a ranking problem."""

from __future__ import annotations

from dataclasses import replace

from lupi.problems.ranking.pairwise import Array, RankingProblem
from lupi.solvers.ranking.coordinate import solve_ranking_coordinate, suits_coordinate
from lupi.solvers.ranking.newton import solve_ranking_newton
from lupi.solvers.solution import Solution, out_of_time, steps_left

# Passes over the pairs that are worth it: where they are not enough, Newton's method goes on.
PASSES = 60
# A pass costs pairs times examples: beyond this a Newton step, which never sees the pairs, is cheaper.
MOST_WORK = 30_000_000


def solve_ranking_auto(
    problem: RankingProblem, *, tol: float = 1e-5, max_iter: int = 500, start: Array | Solution | None = None
) -> Solution:
    """Coordinate descent for the hinge with few pairs of wide data, Newton's method for the rest and for what it leaves.

    With fewer features than half of the examples the dual variables of many pairs are tied to each other, and passes are
    many: Newton's method took a tenth of the time at 200 examples of 10 features, ten times as much at 200 of 500.

    Parameters
    ----------
    problem : RankingProblem
        What to minimize.
    tol : float
        Relative gap to reach.
    max_iter : int
        Passes and Newton steps at most, together.
    start : Solution or array of shape (d,), optional
        Of a similar problem.

    Returns
    -------
    Solution
    """
    n, d = problem.X.shape
    if not suits_coordinate(problem) or 2 * d < n or problem.pairs.n_pairs * n > MOST_WORK:
        return solve_ranking_newton(problem, tol=tol, max_iter=max_iter, start=start)
    first = solve_ranking_coordinate(problem, tol=tol, max_iter=min(PASSES, max_iter), start=start)
    left = steps_left(max_iter, first.n_iter)
    if first.converged or not left or out_of_time():
        return first
    second = solve_ranking_newton(problem, tol=tol, max_iter=left, start=first)
    # Both bounds hold for both points.
    best = min(first, second, key=lambda found: found.objective)
    bound = max(first.lower_bound, second.lower_bound)
    joint = replace(best, lower_bound=bound, n_iter=first.n_iter + second.n_iter, certificate=first.certificate)
    return replace(joint, converged=joint.gap <= tol)
