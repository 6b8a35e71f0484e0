"""Solvers of kernel machines by name, which solver when, and the active-set steps that finish a solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from lupi.kernels.linalg import WHOLE, cholesky
from lupi.solution import Solution, best_of, double_precision, judge, out_of_time, steps_left
from lupi.svm.decomposition import solve_decomposition
from lupi.svm.interior_point import follow_central_path, solve_weights
from lupi.svm.kernel_qp import KernelQP
from lupi.svm.linear import solve_linear, solve_linear_near, solve_newton
from lupi.svm.reference import solve_reference
from lupi.svm.smo import solve_smo, step_limit

# A tolerance below this is met by SMO to this one, followed by active-set steps.
LOOSE = 1e-3
# With this many variables active-set steps take about a millisecond: exactness for free.
SMALL = 200
# Beyond this many variables a factorization would cost more memory and time than further SMO steps.
MOST_FACTORIZED = 8000
# Active-set rounds from the bounds that other solvers leave active, and from those of an interior point.
ROUNDS, ROUNDS_FROM_INTERIOR = 15, 6
# A relative gap above this says little about the solution.
LARGE_GAP = 1e-2
# With this many free variables a few factorizations take less time than SMO from scratch.
MOST_FACTORIZED_FREELY = 1000
# With no more than so many they take milliseconds: an exact active-set finish then costs less than further SMO steps.
CHEAPLY_FACTORIZED = 400
# Largest share by which the violation is lowered at once on the way to a gap.
STEEPEST = 0.03
# Rounding errors in a sum of kernel values, relative to its largest term.
ROUNDING = 16 * float(np.finfo(float).eps)
# Relative size of the proximal term that keeps singular systems solvable; repeated steps remove its effect.
PROXIMAL = 1e-11
# After so many rounds without fewer corrections of the guess than ever before, it goes in circles.
PATIENCE = 3


def solve_auto(problem: KernelQP, *, tol: float = 1e-3, max_iter: int = -1) -> Solution:
    """Choose by regime.

    ========================================================  ==================================================
    both spaces have few explicit features (linear kernels)   interior point on the features
    the kernel matrix does not fit into ``cache_size``        SMO on working sets, rows on demand
    otherwise                                                 SMO with a budget; active-set steps when the budget
                                                              is spent, ``tol`` is below 1e-3 or they are cheap;
                                                              interior point where those fail
    ========================================================  ==================================================
    """
    if problem.on_demand:
        return solve_decomposition(problem, tol=tol, max_iter=max_iter)
    if problem.by_features and problem.n_examples > SMALL:
        return finish(problem, solve_interior_point(problem, tol=min(tol, 1e-6), max_iter=max_iter), tol, max_iter)
    several = np.count_nonzero(problem.coef[0]) >= 2 * problem.n_examples
    budget = smo_budget(problem.n_examples) * (SEVERAL_VARIABLES if several else 1)
    budget = budget if max_iter < 0 else min(budget, max_iter)
    found = finish(problem, _smo_within(problem, max(tol, LOOSE), budget), tol, max_iter)
    return _until_gap(problem, found, tol, max_iter) if problem.to_gap else found


def _until_gap(problem: KernelQP, solution: Solution, tol: float, max_iter: int) -> Solution:
    """Continue until the gap is below the tolerance; it falls about as the violation does."""
    budget = steps_left(max_iter, solution.n_iter, 2 * smo_budget(problem.n_examples))
    while solution.gap > tol and budget > 0 and not problem.diverges(solution.point) and not out_of_time():
        goal = solution.violation * max(STEEPEST, min(0.5, 0.5 * tol / solution.gap))
        more = solve_smo(problem, tol=goal, max_iter=budget, start=solution.point)
        budget -= more.n_iter
        solution = best_of(more, solution)
        if more.violation > goal:
            break
    if solution.gap > tol and steps_left(max_iter, solution.n_iter) != 0 and not out_of_time():
        more = solve_interior_point(problem, tol=tol, max_iter=steps_left(max_iter, solution.n_iter))
        solution = best_of(solution, more)
    return replace(solution, converged=solution.gap <= tol and not problem.diverges(solution.point))


def _smo_within(problem: KernelQP, tol: float, budget: int) -> Solution:
    """SMO; where a quarter of its steps does not suffice and active-set steps take less time than the others, these first."""
    n = problem.n_examples
    first = budget // 4 if n >= FEW_VARIABLES else budget
    begun = None
    if first < budget and n <= MOST_MIXED and sum(space.few_features for space in problem.spaces) == 1:
        solution = solve_smo(problem, tol=tol, max_iter=n)
        if solution.violation > STUBBORN * _first_violation(problem) and solution.n_iter == n:
            return _from_central_path(problem, solution)
        begun = solution.point
    solution = solve_smo(problem, tol=tol, max_iter=first, start=begun)
    if solution.violation <= tol or first == budget or solution.n_iter < first or out_of_time():
        return solution
    free = int(np.sum((solution.point > problem.lower) & (solution.point < problem.upper)))
    if ROUND_OPERATION * free**3 < STEP_OPERATION * n * (budget - first) and not problem.diverges(solution.point):
        solution = polish(problem, solution)
        if _exact(solution):
            return solution
    more = solve_smo(problem, tol=tol, max_iter=budget - first, start=solution.point)
    return replace(more, n_iter=solution.n_iter + more.n_iter)


def _first_violation(problem: KernelQP) -> float:
    """Of the optimality conditions, where SMO begins."""
    start = problem.start()
    return problem.optimal_biases(start, problem.margins(start))[1]


def _from_central_path(problem: KernelQP, start: Solution) -> Solution:
    """Active-set steps from the bounds that an interior point finds active long before its end; else from its end."""
    rough, active = follow_central_path(problem, tol=NEAR_THE_END, max_iter=-1, early=True)
    found = polish(problem, rough, guess=active, max_iter=ROUNDS_FROM_INTERIOR)
    if not _exact(found) and not out_of_time():
        found = best_of(found, solve_interior_point(problem))
    return best_of(found, start)


def solve_interior_point(problem: KernelQP, *, tol: float = 1e-3, max_iter: int = -1) -> Solution:
    """Interior point, finished by active-set steps from the bounds that it finds active.

    ``tol`` is the relative duality gap; ``max_iter`` limits the steps of both, -1 stands for the built-in limits.
    """
    rough, active = follow_central_path(problem, tol=tol, max_iter=max_iter)
    finished = polish(problem, rough, guess=active, max_iter=steps_left(max_iter, rough.n_iter, ROUNDS_FROM_INTERIOR))
    return replace(finished, converged=finished.gap <= max(tol, 1e-8))


# Nanoseconds: of a cubed number of free variables in the rounds that active-set steps usually take, of an example in an SMO step.
ROUND_OPERATION, STEP_OPERATION = 0.15, 5.0
# So many rounds that is; and the gap that SMO aims at where its conditions are met with one that says little.
ROUNDS_USUAL, CLEAR = 3, 1e-3
# Up to here an interior point takes some 20 milliseconds whatever the prices are: where a neighbor's bounds do not help in a
# two-space problem, SMO does not either.
FEW_VARIABLES = 600
# One space by features, the other by its matrix: where as many steps as examples leave more than this many times the violation
# of the start, an interior point (up to so many examples) that stops at this gap finds the active bounds sooner.
STUBBORN, MOST_MIXED, NEAR_THE_END = 1.2, 3000, 1e-2
# Where an example has two or more variables in the decision space, a factorization takes at least eight times as long.
SEVERAL_VARIABLES = 5
# Rounds from a neighbor's active set; where more are needed, the sets have little in common.
ROUNDS_FROM_NEIGHBOR = 8


def solve_kernel_near(problem: KernelQP, neighbor: KernelQP, solved: Solution, *, tol: float = 1e-3) -> Solution | None:
    """Solve from the solution of a problem with the same examples and other prices, as in a grid search.

    The neighbor's active bounds are the first guess of active-set steps. Nothing is taken on trust: the certificate is
    computed from the new point alone.

    Returns None where the guess does not help: solve from scratch then.
    """
    if problem.on_demand or len(solved.point) != problem.n_variables:
        return None
    free = int(np.sum((solved.point > neighbor.lower) & (solved.point < neighbor.upper)))
    if free > MOST_FACTORIZED_FREELY or not solved.converged:
        return None
    # A bound that the neighbor has and the problem does not (another kappa) is no guess.
    guess = (
        (solved.point <= neighbor.lower) & np.isfinite(problem.lower),
        (solved.point >= neighbor.upper) & np.isfinite(problem.upper),
    )
    start = problem.solution(problem.start(), 0, False, "neighbor")
    start = replace(start, point=np.clip(solved.point, problem.lower, problem.upper))
    found = polish(problem, start, guess=guess, max_iter=ROUNDS_FROM_NEIGHBOR)
    usable = _exact(found) and _good(problem, found, tol)
    if not usable and problem.n_examples < problem.n_variables <= FEW_VARIABLES:
        found = solve_interior_point(problem, tol=tol)
        usable = _good(problem, found, tol)
    return replace(found, converged=True) if usable and not problem.diverges(found.point) else None


def smo_budget(n: int) -> int:
    """Steps that cost about as much as active-set steps would.

    A round of these costs n^3, an SMO step n: small problems should turn to them early. Beyond n = 640 the number of
    steps that usually suffice counts.
    """
    return min(40 * n, max(1000, n * n // 16))


def finish(problem: KernelQP, solution: Solution, tol: float, max_iter: int) -> Solution:
    """Bring a point within the tolerance, by the cheapest means that works."""
    if problem.diverges(solution.point):
        return replace(solution, converged=False)
    free = int(np.sum((solution.point > problem.lower) & (solution.point < problem.upper)))
    # With large prices a small violation still costs much: the conditions are met, and the value is far off.
    inconclusive = solution.gap > LARGE_GAP and free <= MOST_FACTORIZED_FREELY
    met = solution.violation <= tol and np.isfinite(solution.gap)
    if inconclusive and met and free > CHEAPLY_FACTORIZED and not out_of_time():
        solution = _smaller_gap(problem, solution, free, tol, max_iter)
        inconclusive = solution.gap > LARGE_GAP
    if not _good(problem, solution, tol) or problem.n_variables <= SMALL or inconclusive:
        if free <= MOST_FACTORIZED and not _exact(solution) and not out_of_time():
            solution = polish(problem, solution, max_iter=steps_left(max_iter, solution.n_iter, ROUNDS))
        if _good(problem, solution, tol):
            return replace(solution, converged=True)
    else:
        return solution
    if steps_left(max_iter, solution.n_iter) == 0 or out_of_time():
        return replace(solution, converged=False)
    if problem.n_variables <= MOST_FACTORIZED:
        left = steps_left(max_iter, solution.n_iter)
        solution = best_of(solution, solve_interior_point(problem, tol=tol, max_iter=left))
        if problem.diverges(solution.point):
            return replace(solution, converged=False)
        if _good(problem, solution, tol):
            return replace(solution, converged=True)
    # Where even the interior point ran out of digits, SMO would not find more.
    if solution.gap > 1e-4 and not out_of_time():
        limit = steps_left(max_iter, solution.n_iter, step_limit(problem))
        # The gap is about proportional to the violation that is left.
        more = solve_smo(problem, tol=tol * min(1.0, LARGE_GAP / solution.gap), max_iter=limit)
        solution = best_of(more, solution)
    return replace(solution, converged=_good(problem, solution, tol))


def _smaller_gap(problem: KernelQP, solution: Solution, free: int, tol: float, max_iter: int) -> Solution:
    """More SMO steps, as many as one round of active-set steps would pay for: the gap falls about as the violation does."""
    most = int(ROUND_OPERATION * free**3 / (STEP_OPERATION * problem.n_examples)) // ROUNDS_USUAL
    limit = steps_left(max_iter, solution.n_iter, most)
    more = solve_smo(problem, tol=tol * CLEAR / solution.gap, max_iter=limit, start=solution.point)
    return replace(best_of(more, solution), converged=solution.converged)


def _exact(solution: Solution) -> bool:
    return solution.solver.endswith("active_set")


def _good(problem: KernelQP, solution: Solution, tol: float) -> bool:
    """Optimality conditions met with a gap that says something, or a gap far below what they would give."""
    if solution.gap <= 1e-3 * min(tol, 1e-3):
        return True
    if solution.inconclusive:
        return False
    if solution.violation <= tol:
        return True
    if not _exact(solution):
        return False
    # The last digit of a variable changes the conditions by this much: an exact point cannot do better.
    curvature = max(float(np.max(space.diagonal())) for space in problem.spaces)
    return solution.violation <= ROUNDING * curvature * float(np.max(np.abs(solution.point)))


def polish(
    problem: KernelQP,
    start: Solution,
    *,
    guess: tuple[np.ndarray, np.ndarray] | None = None,
    max_iter: int = ROUNDS,
) -> Solution:
    """Guess which bounds are active, solve for the rest exactly, correct the guess; keep the better of both points.

    Each round is a semismooth Newton step: the free variables solve a linear system with the equalities, those that leave
    their box are put on its boundary, bounded ones whose multiplier has the wrong sign are released. Near the optimum 2 to 8
    rounds suffice; the cost is one factorization of the free block a round.

    ``guess`` marks the variables believed to be at their lower and upper bound; by default those that ``start`` has there.
    """
    x = start.point.copy()
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
            polished = problem.solution(x, done, True, f"{start.solver}+active_set")
            return best_of(polished, start)
        corrections = int(np.sum(release | below | above))
        stuck = 0 if corrections < fewest else stuck + 1
        fewest = min(fewest, corrections)
        if stuck >= PATIENCE or out_of_time():
            break
        at_lower = (at_lower & ~release) | below
        at_upper = (at_upper & ~release) | above
    return replace(start, n_iter=start.n_iter + done)


def _newton_on_free(problem: KernelQP, x: np.ndarray, free: np.ndarray, E: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Move the free variables of x to the solution of their equality-constrained problem; returns the multipliers."""
    if len(free) == 0:
        biases, _ = problem.optimal_biases(x, problem.margins(x))
        return np.asarray(biases[problem.biased])
    examples = problem.example[free]
    H = np.diag(problem.ridge[free])
    for space, coef in zip(problem.spaces, problem.coef):
        space.add_block(H, examples, coef[free])
    H[np.diag_indices(len(free))] += PROXIMAL * max(float(np.mean(np.diag(H))), 1e-300)
    # Rows are columns to LAPACK, which then works in place: the lower triangle is the upper one of the transpose.
    if len(free) > WHOLE[H.dtype]:
        factor = cholesky(H).T, False
    else:
        factor = cho_factor(H.T, lower=False, overwrite_a=True, check_finite=False)
    E_free = E[:, free]
    R = cho_solve(factor, E_free.T, check_finite=False)
    schur = E_free @ R
    biases = np.zeros(len(E))
    # The proximal term makes one solve inexact where H is singular; a second one on the new residual finishes the job.
    for _ in range(2):
        gradient = (problem.margins(x) - problem.ridge * x)[free]
        residual = total - E @ x
        step = cho_solve(factor, gradient, check_finite=False)
        if not (np.isfinite(schur).all() and np.isfinite(step).all()):
            raise LinAlgError("numbers beyond the range of double precision")
        biases = np.linalg.lstsq(schur, E_free @ step - residual, rcond=None)[0]
        x[free] += step - R @ biases
    return biases


# Kind of problem -> name (the estimators' ``solver``) -> function (problem, *, tol, max_iter, ...) -> Solution.
SOLVERS: dict[str, dict[str, Callable[..., Solution]]] = {
    "kernel": {
        "auto": solve_auto,
        "smo": solve_smo,
        "decomposition": solve_decomposition,
        "interior_point": solve_interior_point,
        "reference": solve_reference,
    },
    "linear": {"auto": solve_linear, "newton": solve_newton, "interior_point": solve_weights},
}


def solve(problem: KernelQP, solver: str, *, tol: float, max_iter: int, **options: Any) -> Solution:
    """Solve a kernel machine's problem with the solver of that name; ``options`` are further arguments of the solver."""
    with double_precision():
        found = SOLVERS[problem.family][solver](problem, tol=tol, max_iter=max_iter, **options)
        if np.isneginf(found.lower_bound):
            found = replace(found, lower_bound=problem.value(problem.start()))
        return judge(found, tol, hard=any(side.any() for side in problem.hard))


def solve_near(problem: KernelQP, neighbor: KernelQP, solved: Solution, *, tol: float) -> Solution | None:
    """Solve from the solution of a problem with the same examples and other costs, as in a grid search.

    Returns None where the neighbor does not help: solve from scratch then.
    """
    if problem.family != neighbor.family:
        return None
    near = solve_linear_near if problem.family == "linear" else solve_kernel_near
    found = near(problem, neighbor, solved, tol=tol)
    return None if found is None or found.inconclusive else found
