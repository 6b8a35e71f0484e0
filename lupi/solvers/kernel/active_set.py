"""Primal-dual active set: from a nearly optimal point to the optimum, to rounding error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from lupi.problems import KernelQP
from lupi.solvers.solution import Solution

# Relative size of the proximal term that keeps singular systems solvable; repeated steps remove its effect.
PROXIMAL = 1e-11
# After so many rounds without fewer corrections of the guess than ever before, it goes in circles.
PATIENCE = 3


def polish(
    problem: KernelQP,
    start: Solution,
    *,
    guess: tuple[np.ndarray, np.ndarray] | None = None,
    max_iter: int = 15,
) -> Solution:
    """Guess which bounds are active, solve for the rest exactly, correct the guess; keep the better of both points.

    Each round is a semismooth Newton step: the free variables solve a linear system with the equalities, those that leave
    their box are put on its boundary, bounded ones whose multiplier has the wrong sign are released. Near the optimum 2 to 8
    rounds suffice; the cost is one factorization of the free block a round.

    Parameters
    ----------
    problem : KernelQP
    start : Solution
        Where to start.
    guess : pair of bool ndarray, optional
        Variables believed to be at their lower and upper bound; by default those that ``start`` has there.
    max_iter : int
        Largest number of rounds.
    """
    x = start.x.copy()
    at_lower, at_upper = (x <= problem.lower, x >= problem.upper) if guess is None else guess
    E, total = problem.coef[problem.biased], problem.total[problem.biased]
    scale = float(np.max(np.abs(x), initial=0.0)) or 1.0
    done = stuck = 0
    fewest = len(x) + 1
    for done in range(1, max_iter + 1):
        free = np.flatnonzero(~(at_lower | at_upper))
        x[at_lower], x[at_upper] = problem.lower[at_lower], problem.upper[at_upper]
        try:
            biases = _newton_on_free(problem, x, free, E, total)
        except LinAlgError:
            break
        gradient = problem.margins(x) - problem.ridge * x - E.T @ biases
        below = np.zeros(len(x), dtype=bool)
        above = np.zeros(len(x), dtype=bool)
        below[free] = x[free] < problem.lower[free]
        above[free] = x[free] > problem.upper[free]
        slope = 1e-10 * max(1.0, float(np.max(np.abs(gradient))))
        release = (at_lower & (gradient > slope)) | (at_upper & (gradient < -slope))
        tiny = 1e-10 * scale
        small_exit = np.all(x >= problem.lower - tiny) and np.all(x <= problem.upper + tiny)
        if not release.any() and small_exit:
            # A variable within rounding of a bound is on it: it must not pin an intercept that is free in an interval.
            grain = 1e-13 * max(scale, float(np.max(np.abs(x), initial=0.0)))
            x = np.where(x <= problem.lower + grain, problem.lower, x)
            x = np.where(x >= problem.upper - grain, problem.upper, x)
            polished = Solution.certify(problem, x, done, True, f"{start.solver}+active_set")
            return polished.better(start)
        corrections = int(np.sum(release | below | above))
        stuck = 0 if corrections < fewest else stuck + 1
        fewest = min(fewest, corrections)
        if stuck >= PATIENCE:
            break
        at_lower = (at_lower & ~release) | below
        at_upper = (at_upper & ~release) | above
    return replace(start, n_iter=start.n_iter + done)


def _newton_on_free(problem: KernelQP, x: np.ndarray, free: np.ndarray, E: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Move the free variables of x to the solution of their equality-constrained problem; returns the multipliers."""
    if len(free) == 0:
        biases, _ = problem.optimal_biases(x, problem.margins(x))
        return biases[problem.biased]
    examples = problem.example[free]
    H = np.diag(problem.ridge[free])
    for space, coef in zip(problem.spaces, problem.coef):
        used = np.flatnonzero(coef[free])
        if len(used):
            signed = coef[free][used]
            H[np.ix_(used, used)] += signed[:, None] * space.block(examples[used], examples[used]) * signed
    H[np.diag_indices(len(free))] += PROXIMAL * max(float(np.mean(np.diag(H))), 1e-300)
    factor = cho_factor(H, lower=True, overwrite_a=True, check_finite=False)
    E_free = E[:, free]
    R = cho_solve(factor, E_free.T, check_finite=False)
    schur = E_free @ R
    biases = np.zeros(len(E))
    # The proximal term makes one solve inexact where H is singular; a second one on the new residual finishes the job.
    for _ in range(2):
        gradient = (problem.margins(x) - problem.ridge * x)[free]
        residual = total - E @ x
        step = cho_solve(factor, gradient, check_finite=False)
        biases = np.linalg.lstsq(schur, E_free @ step - residual, rcond=None)[0]
        x[free] += step - R @ biases
    return biases
