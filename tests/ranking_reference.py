"""Reference solver of the hinge ranking loss: cutting planes with a certified gap."""

from __future__ import annotations

import numpy as np
from numba import njit

from lupi.ranking.pairwise import Array, RankingProblem
from lupi.solution import Solution, out_of_time, relative_gap, slices

# Stop after this many planes in a row that shrink the gap by less than this share: rounding dominates.
_PATIENCE, _PROGRESS = 30, 1e-6


@njit(cache=True)
def _simplex_qp(
    gram: np.ndarray, gradient: np.ndarray, lam: np.ndarray, tol: float, max_steps: int
) -> tuple[int, float]:
    """Maximize height.lam - lam'gram lam / 2 over the simplex, by steps along pairs; lam and gradient change in place.

    Returns the steps taken and the rise that the next one would have.
    """
    rise = 0.0
    for step_number in range(max_steps):
        up, down = -1, -1
        for i in range(lam.size):
            if up < 0 or gradient[i] > gradient[up]:
                up = i
            if lam[i] > 0 and (down < 0 or gradient[i] < gradient[down]):
                down = i
        rise = gradient[up] - gradient[down]
        if rise <= tol:
            return step_number, rise
        curvature = gram[up, up] + gram[down, down] - 2 * gram[up, down]
        step = min(lam[down], rise / curvature) if curvature > 0 else lam[down]
        lam[up] += step
        lam[down] = lam[down] - step if step < lam[down] else 0.0
        for i in range(lam.size):
            gradient[i] -= step * (gram[i, up] - gram[i, down])
    return max_steps, rise


def hinge(problem: RankingProblem, w: Array) -> tuple[float, Array, float]:
    """Objective of the hinge at w, and its cutting plane: the loss is at least ``height - plane @ v`` at every v."""
    pairs, key = problem.pairs, problem.pairs.keys(np.asarray(problem.X @ w))
    slope = problem.C * np.where(pairs.winner, 1.0, -1.0) * pairs.active(key).degree
    return 0.5 * float(w @ w) + float(slope @ key), problem.pull(slope), float(slope @ pairs.offset)


def _search(problem: RankingProblem, w: Array, target: Array, max_evaluations: int = 10) -> float:
    """Minimize P on the line from w through target, by bisection on its slope; P there is convex."""
    pairs, direction = problem.pairs, target - w
    start, change = np.asarray(problem.X @ w), np.asarray(problem.X @ direction)
    change_of_element = change[pairs.element]
    sign = problem.C * np.where(pairs.winner, 1.0, -1.0)
    linear, quadratic = float(w @ direction), float(direction @ direction)

    def slope(step: float) -> float:
        degree = pairs.active(pairs.keys(start + step * change)).degree
        return linear + step * quadratic - float((sign * degree) @ change_of_element)

    low, high = 0.0, 1.0
    while slope(high) < 0 and high < 8:
        low, high = high, 2 * high
    for _ in range(max_evaluations):
        middle = 0.5 * (low + high)
        if slope(middle) < 0:
            low = middle
        else:
            high = middle
        if high - low < 0.02 * high:
            break
    return 0.5 * (low + high)


def solve_ranking_bundle(problem: RankingProblem, *, tol: float = 1e-3, max_iter: int = 500) -> Solution:
    """Minimize a hinge ranking problem by cutting planes with a line search.

    The loss is bounded from below by the maximum of its cutting planes; minimizing that model gives a lower bound on
    the optimum. As in OCAS, the next plane is taken between the best point found and the model's minimizer.

    Parameters
    ----------
    problem : RankingProblem
        What to minimize; its loss must be the hinge.
    tol : float
        Relative gap to reach.
    max_iter : int
        Planes to add at most.

    Returns
    -------
    Solution

    References
    ----------
    V. Franc and S. Sonnenburg, *Optimized cutting plane algorithm for support vector machines*, ICML 2008.
    """
    if problem.loss != "hinge":
        raise ValueError(f"solver='bundle' needs loss='hinge'; got loss={problem.loss!r}. Use solver='newton'.")
    best_w = np.zeros(problem.X.shape[1])
    best, plane, height = hinge(problem, best_w)
    # The first plane is "the loss is not negative".
    planes, heights = np.stack([np.zeros_like(plane), plane]), np.array([0.0, height])
    gram = planes @ planes.T
    lam = np.array([1.0, 0.0])
    bound, n_iter = 0.0, 0
    least, idle = np.inf, 0
    while n_iter < max_iter and idle < _PATIENCE and not out_of_time():
        gradient = heights - gram @ lam
        for part in slices(200 * len(lam) + 10_000, work=3 * len(lam)):
            if _simplex_qp(gram, gradient, lam, 0.1 * tol * max(best, 1e-300), part)[0] < part:
                break
        w = planes.T @ lam
        bound = max(bound, float(heights @ lam) - 0.5 * float(w @ w))
        gap = relative_gap(best, bound)
        if gap <= tol:
            break
        idle = 0 if gap < (1.0 - _PROGRESS) * least else idle + 1
        least = min(least, gap)
        n_iter += 1
        step = _search(problem, best_w, w)
        candidate = best_w + step * (w - best_w)
        objective, plane, height = hinge(problem, candidate)
        if objective < best:
            best_w, best = candidate, objective
        added = [(plane, height)]
        if n_iter % 2:
            # A plane on the way to the model's minimizer improves the model away from the line search.
            added.append(hinge(problem, best_w + 0.1 * (w - best_w))[1:])
        for plane, height in added:
            products = planes @ plane
            gram = np.block([[gram, products[:, None]], [products[None, :], np.array([[plane @ plane]])]])
            planes, heights, lam = np.vstack([planes, plane]), np.append(heights, height), np.append(lam, 0.0)
    return Solution(best_w, best, bound, n_iter, relative_gap(best, bound) <= tol, "bundle")
