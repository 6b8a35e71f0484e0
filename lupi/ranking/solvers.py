"""Solvers of ranking problems: truncated Newton, dual coordinate descent for few pairs, and the choice between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from scipy import linalg, sparse

from lupi.inputs.training_set import Rows
from lupi.inputs.types import Array
from lupi.ranking.pairwise import PairSet, RankingPoint, RankingProblem
from lupi.solution import Solution, out_of_time, relative_gap, steps_left

# Limits of the explicit list of pairs and the Gram matrix: 50 MB.
MOST_PAIRS, MOST_EXAMPLES = 1_000_000, 2_000
# The gap is computed after each of the first passes, later after this many passes.
EAGER, PATIENT = 8, 10


class PairDual(NamedTuple):
    """Dual variables of the pairs and Gram matrix of the examples, from which the next fit of a path starts."""

    pairs: PairSet
    alpha: Array
    X: object
    gram: Array


@njit(cache=True)
def _pass(gram: Array, C: float, pairs: Any, point: Any, order: Array, n_active: int, state: Array) -> int:
    """One exact step for each of the first pairs of `order`, in random order; returns how many have not settled at a bound.

    In a fixed order, pairs that share an example follow each other, which takes several times as many passes.
    """
    (winner, loser, margin), (alpha, weight, scores) = pairs, point
    moving = n_active
    for last in range(n_active - 1, -1, -1):
        state[0] ^= state[0] << np.uint64(13)
        state[0] ^= state[0] >> np.uint64(7)
        state[0] ^= state[0] << np.uint64(17)
        drawn = np.int64(state[0] % np.uint64(last + 1))
        pair = order[drawn]
        order[drawn], order[last] = order[last], pair
        i, j = winner[pair], loser[pair]
        slack = margin[pair] - (scores[i] - scores[j])
        value = alpha[pair]
        if (slack <= 0.0 and value == 0.0) or (slack >= 0.0 and value == C):
            # Pairs that stay at a bound are moved to the end.
            moving -= 1
            order[last], order[moving] = order[moving], order[last]
            continue
        curvature = gram[i, i] + gram[j, j] - 2.0 * gram[i, j]
        if curvature > 0.0:
            new = min(C, max(0.0, value + slack / curvature))
        else:
            new = C if slack > 0.0 else 0.0
        step = new - value
        alpha[pair] = new
        weight[i] += step
        weight[j] -= step
        first, second = gram[i], gram[j]
        for k in range(scores.size):
            scores[k] += step * (first[k] - second[k])
    return moving


def solve_ranking_coordinate(
    problem: RankingProblem, *, tol: float = 1e-3, max_iter: int = 500, start: Solution | None = None
) -> Solution:
    r"""Maximize the dual of a hinge ranking problem, one pair at a time, in at most `max_iter` passes (Hsieh et al., 2008).

    The step of a pair is exact and costs n operations: the scores of all examples are updated with the Gram matrix. The
    result is the best multiple of :math:`w = \sum \alpha_{ij} (x_i - x_j)`. `start` is a solution of this solver for the
    same pairs and another C.
    """
    pairs, C, n = problem.pairs, float(problem.C), problem.pairs.n_examples
    if problem.loss != "hinge":
        raise ValueError(f"solver='coordinate' needs loss='hinge'; got loss={problem.loss!r}. Use solver='newton'.")
    if pairs.n_pairs > MOST_PAIRS or n > MOST_EXAMPLES:
        raise ValueError(
            f"solver='coordinate' lists all pairs: at most {MOST_PAIRS} pairs of {MOST_EXAMPLES} examples, got {pairs.n_pairs} "
            f"of {n}. Use solver='newton'."
        )
    before: Any = None if start is None else start.certificate
    known = isinstance(before, PairDual) and before.X is problem.X
    gram = before.gram if known else problem.X @ problem.X.T
    gram = np.ascontiguousarray(gram.toarray() if sparse.issparse(gram) else gram, dtype=np.float64)
    alpha = np.minimum(before.alpha, C) if known and before.pairs is pairs else np.zeros(pairs.n_pairs)
    winner, loser, margin = listed = pairs.written_down
    order, state = np.arange(pairs.n_pairs), np.array([88172645463325252], np.uint64)
    n_iter = 0
    while True:
        # Recompute the scores, so that rounding errors do not accumulate in the bound.
        weight = np.bincount(winner, alpha, n) - np.bincount(loser, alpha, n)
        scores = gram @ weight
        reached, squared, dual = scores[winner] - scores[loser], float(weight @ scores), float(alpha @ margin)
        bound = max(0.0, dual - 0.5 * squared - 4 * np.finfo(float).eps * n * (dual + squared))
        # With a large C tiny slacks are expensive; slightly longer weights remove them.
        longest = min(1.5, float(np.max(margin / np.maximum(reached, 1e-100), initial=1.0)))
        loss = [float(np.maximum(margin - scale * reached, 0.0).sum()) for scale in (1.0, longest)]
        objective, scale = min((0.5 * s**2 * squared + C * part, s) for s, part in zip((1.0, longest), loss))
        converged = relative_gap(objective, bound) <= tol
        if converged or n_iter >= max_iter or (n_iter and out_of_time()):
            point, certificate = scale * np.asarray(problem.X.T @ weight), PairDual(pairs, alpha, problem.X, gram)
            return Solution(point, objective, bound, n_iter, converged, "coordinate", certificate=certificate)
        # Later passes visit only the pairs that have not settled, and compute the gap less often.
        n_active = pairs.n_pairs
        for _ in range(min(1 if n_iter < EAGER else PATIENT, max_iter - n_iter)):
            n_active = _pass(gram, C, listed, (alpha, weight, scores), order, n_active, state)
            n_iter += 1


# Largest number of features for which the Hessian is formed when conjugate gradients stall.
DENSE_LIMIT = 500
# Up to this many pairs and examples the Hessian is formed pair by pair, at the cost of several products with it; up to
# CHEAP_PAIRS it is cheaper than one.
FEW_PAIRS, FEW_EXAMPLES, CHEAP_PAIRS, FEW_PRODUCTS = 50_000, 500, 3_000, 10
# Passes over the pairs before Newton's method takes over.
PASSES = 60
# Largest cost of a pass, pairs times examples; above, a Newton step is cheaper.
MOST_WORK = 30_000_000


def _conjugate_gradients(point: RankingPoint, goal: float, max_products: int) -> tuple[Array, bool]:
    """Solve H p = -gradient until the residual's square is at most ``goal``."""
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


def _newton_direction(point: RankingPoint, forcing: float, stalled: bool) -> tuple[Array, bool]:
    """Solve H p = -gradient to a residual of `forcing` times the gradient; form H if conjugate gradients stall, or `stalled`.

    Returns p and whether H was formed.
    """
    d, pairs = len(point.gradient), point.problem.pairs
    few = pairs.n_pairs <= FEW_PAIRS and pairs.n_examples <= FEW_EXAMPLES and not isinstance(point.problem.X, Rows)
    if d > DENSE_LIMIT or not (stalled or (few and pairs.n_pairs <= CHEAP_PAIRS)):
        goal = float(point.gradient @ point.gradient) * forcing**2
        most = FEW_PRODUCTS if few and d <= DENSE_LIMIT else max(10, min(d, DENSE_LIMIT))
        p, solved = _conjugate_gradients(point, goal, most)
        if solved or d > DENSE_LIMIT:
            return p, False
    hessian = point.hessian() if few else np.stack([point.hessian_product(column) for column in np.eye(d)])
    return np.asarray(-linalg.solve(0.5 * (hessian + hessian.T), point.gradient, assume_a="pos")), True


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
    idle, stalled = 0, False
    for n_iter in range(max_iter):
        if is_done(point) or idle > 10 or not point.gradient.any() or out_of_time():
            return point, n_iter
        # With 0.1 instead of 1e-3, separable sparse data took ten times as many products.
        forcing = min(1e-3, float(np.linalg.norm(point.gradient)) / start)
        p, stalled = _newton_direction(point, max(forcing, 1e-8), stalled)
        trial = _line_search(problem, point, p)
        if trial is None:
            return point, n_iter
        idle = idle + 1 if trial.value > point.value - point.noise else 0
        point = trial
    is_done(point)
    return point, max_iter


def solve_ranking_newton(
    problem: RankingProblem, *, tol: float = 1e-6, max_iter: int = 200, start: Solution | None = None
) -> Solution:
    """Minimize a ranking problem to a certified relative gap in at most `max_iter` Newton steps.

    The squared hinge is piecewise quadratic: Newton's method identifies the active pairs and then converges at once. The
    hinge is smoothed by a parabola of shrinking width; each stage starts at the solution of the one before, and the duality
    gap of the hinge itself decides when to stop.
    """
    smooth, width = problem.loss == "squared_hinge", 0.0
    if not smooth:
        spread = float(np.ptp(problem.pairs.offset)) if problem.pairs.n_pairs else 0.0
        width = float(2.0 ** np.ceil(np.log2(spread or 1.0)))
    best_w = w = np.zeros(problem.X.shape[1]) if start is None else start.point
    best, bound, n_iter = np.inf, 0.0, 0

    def is_done(point: RankingPoint) -> bool:
        nonlocal best_w, best, bound
        bound = max(bound, point.lower_bound)
        if point.objective < best:
            best_w, best = point.w, point.objective
        if smooth or relative_gap(best, bound) <= tol:
            return relative_gap(best, bound) <= tol
        # A stage needs no more accuracy than its smoothing error.
        newton_part = 0.5 * float(point.gradient @ point.gradient)
        return newton_part <= max(0.1 * tol * point.objective, 0.1 * (point.objective - point.lower_bound))

    while n_iter < max_iter:
        point, steps = _minimize(replace(problem, width=width), w, is_done, max_iter - n_iter)
        n_iter += steps
        gap = relative_gap(best, bound)
        if smooth or gap <= tol or point.noise > tol * best or out_of_time():
            break
        n_iter += not steps
        w = point.w
        # The smoothing error falls between linearly and quadratically with the width.
        width = float(2.0 ** np.floor(np.log2(width * np.clip(0.7 * np.sqrt(tol / gap), 0.1, 0.5))))
    return Solution(best_w, best, bound, n_iter, relative_gap(best, bound) <= tol, "newton")


def solve_ranking_auto(
    problem: RankingProblem, *, tol: float = 1e-5, max_iter: int = 500, start: Solution | None = None
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
