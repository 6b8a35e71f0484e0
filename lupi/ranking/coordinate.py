"""Dual coordinate descent for the hinge ranking loss over an explicit list of few pairs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from scipy import sparse

from lupi.inputs.types import Array
from lupi.ranking.pairwise import PairSet, RankingProblem
from lupi.solution import Solution, out_of_time, relative_gap

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
        objective, scale = min(
            (0.5 * scale**2 * squared + C * float(np.maximum(margin - scale * reached, 0.0).sum()), scale)
            for scale in (1.0, longest)
        )
        converged = relative_gap(objective, bound) <= tol
        if converged or n_iter >= max_iter or (n_iter and out_of_time()):
            point, certificate = scale * np.asarray(problem.X.T @ weight), PairDual(pairs, alpha, problem.X, gram)
            return Solution(point, objective, bound, n_iter, converged, "coordinate", certificate=certificate)
        # Later passes visit only the pairs that have not settled, and compute the gap less often.
        n_active = pairs.n_pairs
        for _ in range(min(1 if n_iter < EAGER else PATIENT, max_iter - n_iter)):
            n_active = _pass(gram, C, listed, (alpha, weight, scores), order, n_active, state)
            n_iter += 1
