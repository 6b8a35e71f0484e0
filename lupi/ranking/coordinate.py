"""Dual coordinate descent for the hinge ranking loss over an explicit list of few pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from scipy import sparse

from lupi.inputs.types import MatrixLike
from lupi.ranking.pairwise import Array, PairSet, RankingProblem
from lupi.solution import Solution, relative_gap, slices

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
def _value(
    C: float,
    scale: float,
    squared: float,
    winner: np.ndarray,
    loser: np.ndarray,
    margin: np.ndarray,
    scores: np.ndarray,
) -> tuple[float, float]:
    """P at `scale` times the weights, and its derivative by the scale."""
    loss, slope = 0.0, 0.0
    for k in range(margin.size):
        reached = scores[winner[k]] - scores[loser[k]]
        slack = margin[k] - scale * reached
        if slack > 0.0:
            loss += slack
            slope -= reached
    return 0.5 * scale * scale * squared + C * loss, scale * squared + C * slope


@njit(cache=True)
def _best_scale(
    C: float,
    tol: float,
    squared: float,
    bound: float,
    winner: np.ndarray,
    loser: np.ndarray,
    margin: np.ndarray,
    scores: np.ndarray,
) -> tuple[float, float]:
    """The multiple of the weights with the least P, or the first one within the tolerance of the bound.

    With a large C tiny slacks are expensive; slightly longer weights remove them.
    """
    best, slope = _value(C, 1.0, squared, winner, loser, margin, scores)
    best_scale, low, high = 1.0, 1.0, 1.0
    if slope < 0.0:
        # No gain beyond the length at which no slack is left.
        enough = 1.0
        for k in range(margin.size):
            reached = scores[winner[k]] - scores[loser[k]]
            if margin[k] > enough * reached:
                enough = margin[k] / reached if reached > 0.0 else np.inf
        high = min(1.5, enough)
    else:
        low = 0.5
    for evaluation in range(12):
        if best - bound <= tol * best:
            break
        scale = high if evaluation == 0 else 0.5 * (low + high)
        value, slope = _value(C, scale, squared, winner, loser, margin, scores)
        if value < best:
            best, best_scale = value, scale
        if slope < 0.0:
            low = scale
        else:
            high = scale
    return best, best_scale


@njit(cache=True)
def _pass(
    gram: np.ndarray,
    C: float,
    winner: np.ndarray,
    loser: np.ndarray,
    margin: np.ndarray,
    alpha: np.ndarray,
    weight: np.ndarray,
    scores: np.ndarray,
    order: np.ndarray,
    n_active: int,
    state: np.ndarray,
) -> int:
    """One exact step for each of the first pairs of `order`, in random order; returns how many have not settled at a bound.

    In a fixed order, pairs that share an example follow each other, which takes several times as many passes.
    """
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


@njit(cache=True)
def _passes(
    gram: np.ndarray,
    C: float,
    tol: float,
    winner: np.ndarray,
    loser: np.ndarray,
    margin: np.ndarray,
    alpha: np.ndarray,
    scale: np.ndarray,
    max_passes: int,
) -> tuple[int, float]:
    """Pass over the pairs until the gap is at most `tol`; returns passes and gap, `alpha` and `scale` change in place."""
    n_pairs = margin.size
    order, state = np.arange(n_pairs), np.array([88172645463325252], np.uint64)
    weight = np.zeros(gram.shape[0])
    for k in range(n_pairs):
        weight[winner[k]] += alpha[k]
        weight[loser[k]] -= alpha[k]
    done = 0
    while True:
        # Recompute the scores, so that rounding errors do not accumulate in the bound.
        scores = gram @ weight
        squared = float(weight @ scores)
        bound = -0.5 * squared
        for k in range(n_pairs):
            bound += alpha[k] * margin[k]
        objective, scale[0] = _best_scale(C, tol, squared, bound, winner, loser, margin, scores)
        gap = (objective - bound) / max(objective, 1e-300)
        if gap <= tol or done >= max_passes:
            return done, gap
        # Later passes visit only the pairs that have not settled, and compute the gap less often.
        n_active = n_pairs
        for _ in range(min(1 if done < EAGER else PATIENT, max_passes - done)):
            n_active = _pass(gram, C, winner, loser, margin, alpha, weight, scores, order, n_active, state)
            done += 1


def solve_ranking_coordinate(
    problem: RankingProblem, *, tol: float = 1e-3, max_iter: int = 500, start: Array | Solution | None = None
) -> Solution:
    r"""Maximize the dual of a hinge ranking problem, one pair at a time, in at most `max_iter` passes (Hsieh et al., 2008).

    The step of a pair is exact and costs n operations: the scores of all examples are updated with the Gram matrix. The
    result is the best multiple of :math:`w = \sum \alpha_{ij} (x_i - x_j)`. `start` is a solution of this solver for the
    same pairs and another C.
    """
    pairs, C = problem.pairs, float(problem.C)
    if problem.loss != "hinge":
        raise ValueError(f"solver='coordinate' needs loss='hinge'; got loss={problem.loss!r}. Use solver='newton'.")
    if pairs.n_pairs > MOST_PAIRS or pairs.n_examples > MOST_EXAMPLES:
        raise ValueError(
            f"solver='coordinate' lists all pairs: at most {MOST_PAIRS} pairs of {MOST_EXAMPLES} examples, got {pairs.n_pairs} "
            f"of {pairs.n_examples}. Use solver='newton'."
        )
    alpha, gram = np.zeros(pairs.n_pairs), None
    before = start.certificate if isinstance(start, Solution) else None
    if isinstance(before, PairDual) and before.X is problem.X:
        gram = before.gram
        if before.pairs is pairs:
            alpha = np.minimum(before.alpha, C)
    gram = _gram(problem.X) if gram is None else gram
    winner, loser, margin = pairs.written_down
    scale = np.ones(1)
    n_iter = 0
    for part in slices(max_iter, work=pairs.n_pairs * pairs.n_examples):
        passes, _ = _passes(gram, C, tol, winner, loser, margin, alpha, scale, part)
        n_iter += passes
        if passes < part:
            break
    return _certified(problem, PairDual(pairs, alpha, problem.X, gram), float(scale[0]), n_iter, tol)


def _gram(X: MatrixLike) -> np.ndarray:
    gram = X @ X.T
    return np.ascontiguousarray(gram.toarray() if sparse.issparse(gram) else gram, dtype=np.float64)


def _certified(problem: RankingProblem, dual: PairDual, scale: float, n_iter: int, tol: float) -> Solution:
    """Objective and bound from the dual variables, by the dominance sums that the other solver uses."""
    winner, loser, margin = dual.pairs.written_down
    n = dual.pairs.n_examples
    weight = np.bincount(winner, dual.alpha, n) - np.bincount(loser, dual.alpha, n)
    w = np.asarray(problem.X.T @ weight)
    objective = problem.hinge(scale * w)[0]
    reached = float(dual.alpha @ margin)
    rounding = 4 * np.finfo(float).eps * n * (reached + float(w @ w))
    bound = max(0.0, reached - 0.5 * float(w @ w) - rounding)
    converged = relative_gap(objective, bound) <= tol
    return Solution(scale * w, objective, bound, n_iter, converged, "coordinate", certificate=dual)
