"""Truncated Newton for ranking problems; the hinge is smoothed less and less. The choice between Newton and coordinates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numba import njit
from scipy import linalg

from lupi.ranking.coordinate import MOST_EXAMPLES, solve_ranking_coordinate
from lupi.ranking.dominance import ranking_hessian_product
from lupi.ranking.pairwise import Array, RankingPoint, RankingProblem
from lupi.solution import SLICE, Solution, out_of_time, relative_gap, steps_left

# Largest number of features for which the Hessian is formed when conjugate gradients stall.
DENSE_LIMIT = 500
# Up to this many pairs and examples, from this many features on, the Hessian is cheaper than several products with it.
FEW_PAIRS, FEW_EXAMPLES, SOME_FEATURES = 50_000, 500, 20
# Passes over the pairs before Newton's method takes over.
PASSES = 60
# Largest cost of a pass, pairs times examples; above, a Newton step is cheaper.
MOST_WORK = 30_000_000


@njit(cache=True)
def _dense_conjugate_gradients(
    X: np.ndarray,
    gradient: np.ndarray,
    goal: float,
    max_products: int,
    graphs: tuple[Any, ...],
    element: np.ndarray,
    winner: np.ndarray,
    node_ptr: np.ndarray,
    complete: np.ndarray,
) -> tuple[np.ndarray, bool]:
    """The loop of :func:`_conjugate_gradients` for small dense problems, where calls cost more than sums."""
    residual = -gradient
    p, direction = np.zeros_like(residual), residual.copy()
    squared = residual @ residual
    for _ in range(max_products):
        product = ranking_hessian_product(X, direction, graphs, element, winner, node_ptr, complete)
        step = squared / (direction @ product)
        p += step * direction
        residual -= step * product
        previous, squared = squared, residual @ residual
        if squared <= goal:
            return p, True
        direction = residual + squared / previous * direction
    return p, False


def _conjugate_gradients(point: RankingPoint, goal: float, max_products: int) -> tuple[Array, bool]:
    """Solve H p = -gradient until the residual's square is at most ``goal``."""
    problem, pairs = point.problem, point.problem.pairs
    if isinstance(problem.X, np.ndarray) and problem.X.size * max_products <= SLICE:
        X = np.ascontiguousarray(problem.X, dtype=np.float64)
        graph = pairs.element, pairs.winner, pairs.node_ptr, pairs.complete
        return _dense_conjugate_gradients(X, point.gradient, goal, max_products, point.graphs(), *graph)
    residual = -point.gradient
    p, direction = np.zeros_like(residual), residual.copy()
    squared = float(residual @ residual)
    for _ in range(max_products):
        product = point.hessian_product(direction)
        step = squared / float(direction @ product)
        p += step * direction
        residual -= step * product
        previous, squared = squared, float(residual @ residual)
        if squared <= goal or out_of_time():
            return p, True
        direction = residual + squared / previous * direction
    return p, False


def _newton_direction(point: RankingPoint, forcing: float) -> Array:
    """Solve H p = -gradient to a residual of `forcing` times the gradient; form H if d products are not enough."""
    d = len(point.gradient)
    problem = point.problem
    few = problem.pairs.n_pairs <= FEW_PAIRS and problem.pairs.n_examples <= FEW_EXAMPLES
    if few and SOME_FEATURES <= d <= DENSE_LIMIT and isinstance(problem.X, np.ndarray):
        return np.asarray(-linalg.solve(point.hessian(), point.gradient, assume_a="pos"))
    goal = float(point.gradient @ point.gradient) * forcing**2
    p, solved = _conjugate_gradients(point, goal, max(10, min(d, DENSE_LIMIT)))
    if solved or d > DENSE_LIMIT:
        return p
    hessian = np.stack([point.hessian_product(column) for column in np.eye(d)])
    return np.asarray(-linalg.solve(0.5 * (hessian + hessian.T), point.gradient, assume_a="pos"))


def _line_search(problem: RankingProblem, point: RankingPoint, p: Array, flatness: float = 0.3) -> RankingPoint | None:
    """Find a step at which the slope along p is `flatness` of that at 0; None if rounding leaves no gain.

    The slope is increasing and piecewise linear: false position with bisection. Backtracking takes several times as many
    Newton steps on separable data with a large C.
    """
    start = float(point.gradient @ p)
    low, low_slope, high, high_slope = 0.0, start, np.inf, np.inf
    step, best = 1.0, None
    for evaluation in range(40):
        trial = problem.at(point.w + step * p)
        slope = float(trial.gradient @ p)
        # Rounding hides the last digits of the value, not the sign of the slope.
        improves = trial.value <= point.value + point.noise
        if improves and abs(slope) <= -flatness * start:
            return trial
        if improves and (best is None or trial.value < best.value):
            best = trial
        if best is not None and evaluation >= 15:
            break
        if slope < 0:
            low, low_slope = step, slope
        else:
            high, high_slope = step, slope
        if not np.isfinite(high):
            step *= 2.0
        elif evaluation % 2:
            step = 0.5 * (low + high)
        else:
            step = low + (high - low) * float(np.clip(low_slope / (low_slope - high_slope), 0.01, 0.99))
    return best


def _minimize(
    problem: RankingProblem, w: Array, is_done: Callable[[RankingPoint], bool], max_iter: int
) -> tuple[RankingPoint, int]:
    point = problem.at(w)
    start = float(np.linalg.norm(point.gradient))
    stalled = 0
    for n_iter in range(max_iter):
        if is_done(point) or stalled > 10 or not point.gradient.any() or out_of_time():
            return point, n_iter
        # With 0.1 instead of 1e-3, separable sparse data took ten times as many products.
        forcing = min(1e-3, float(np.linalg.norm(point.gradient)) / start)
        trial = _line_search(problem, point, _newton_direction(point, max(forcing, 1e-8)))
        if trial is None:
            return point, n_iter
        stalled = stalled + 1 if trial.value > point.value - point.noise else 0
        point = trial
    is_done(point)
    return point, max_iter


def start_weights(problem: RankingProblem, start: Array | Solution | None) -> Array:
    """Initial weights: 0, or those of `start`."""
    if start is None:
        return np.zeros(problem.X.shape[1])
    return np.asarray(start.point if isinstance(start, Solution) else start, dtype=float)


def solve_ranking_newton(
    problem: RankingProblem, *, tol: float = 1e-6, max_iter: int = 200, start: Array | Solution | None = None
) -> Solution:
    """Minimize a ranking problem to a certified relative gap in at most `max_iter` Newton steps.

    The squared hinge is piecewise quadratic: Newton's method identifies the active pairs and then converges at once. The
    hinge is smoothed by a parabola of shrinking width; each stage starts at the solution of the one before, and the duality
    gap of the hinge itself decides when to stop.
    """
    w = start_weights(problem, start)
    if problem.loss == "squared_hinge":
        point, n_iter = _minimize(problem, w, lambda p: relative_gap(p.objective, p.lower_bound) <= tol, max_iter)
        converged = relative_gap(point.objective, point.lower_bound) <= tol
        return Solution(point.w, point.objective, point.lower_bound, n_iter, converged, "newton")
    return _sharpen(problem, w, tol, max_iter)


def _sharpen(problem: RankingProblem, w: Array, tol: float, max_iter: int) -> Solution:
    spread = float(np.ptp(problem.pairs.offset)) if len(problem.pairs.offset) else 1.0
    width = float(2.0 ** np.ceil(np.log2(spread))) if spread > 0 else 1.0
    best_w, best, bound, n_iter = w, np.inf, 0.0, 0

    def is_done(point: RankingPoint) -> bool:
        nonlocal best_w, best, bound
        objective, lower_bound = point.objective, point.lower_bound
        bound = max(bound, lower_bound)
        if objective < best:
            best_w, best = point.w, objective
        if relative_gap(best, bound) <= tol:
            return True
        # A stage needs no more accuracy than its smoothing error.
        newton_part = 0.5 * float(point.gradient @ point.gradient)
        return newton_part <= max(0.1 * tol * objective, 0.1 * (objective - lower_bound))

    while n_iter < max_iter:
        point, steps = _minimize(replace(problem, width=width), w, is_done, max_iter - n_iter)
        n_iter += max(1, steps)
        gap = relative_gap(best, bound)
        if gap <= tol or point.noise > tol * best or out_of_time():
            break
        w = point.w
        # The smoothing error falls between linearly and quadratically with the width.
        width = float(2.0 ** np.floor(np.log2(width * np.clip(0.7 * np.sqrt(tol / gap), 0.1, 0.5))))
    return Solution(best_w, best, bound, n_iter, relative_gap(best, bound) <= tol, "newton")


def solve_ranking_auto(
    problem: RankingProblem, *, tol: float = 1e-5, max_iter: int = 500, start: Array | Solution | None = None
) -> Solution:
    """Coordinate descent for the hinge with few pairs and many features, then Newton's method; else Newton's method.

    With fewer features than half of the examples, coordinate descent takes many passes: ten times Newton's time at 200 examples
    of 10 features, a tenth of it at 200 of 500.
    """
    n, d = problem.X.shape
    few = n <= MOST_EXAMPLES and problem.pairs.n_pairs * n <= MOST_WORK
    if problem.loss != "hinge" or not few or 2 * d < n:
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
