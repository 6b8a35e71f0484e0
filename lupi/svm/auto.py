"""Solvers of kernel machines by name, the stages of ``solver="auto"``, and the active-set steps that finish a solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from lupi.kernels.linalg import WHOLE, cholesky
from lupi.solution import Solution, best_of, double_precision, judge, out_of_time, steps_left
from lupi.svm.interior_point import follow_central_path, solve_weights
from lupi.svm.kernel_qp import KernelQP
from lupi.svm.linear import solve_linear, solve_linear_near, solve_newton
from lupi.svm.reference import solve_reference
from lupi.svm.smo import solve_decomposition, solve_smo, step_limit

# SMO first aims at this violation of the optimality conditions, or at a larger tolerance.
LOOSE = 1e-3
# Below this gap, what a smaller tolerance takes is bounded by what was done before.
MOST_GAP = 2e-2
# With this many variables active-set steps take about a millisecond: exactness for free.
SMALL = 200
# Beyond this many variables a factorization would cost more memory and time than further SMO steps.
MOST_FACTORIZED = 8000
# Active-set rounds from the bounds that other solvers leave active, from those of an interior point, and from those of a
# neighbor: where more are needed, the sets have little in common.
ROUNDS, ROUNDS_FROM_INTERIOR, ROUNDS_FROM_NEIGHBOR = 15, 6, 8
# With this many free variables a few factorizations take less time than SMO from scratch.
MOST_FACTORIZED_FREELY = 1000
# With at most this many they take milliseconds: an exact active-set finish then costs less than further SMO steps.
CHEAPLY_FACTORIZED = 400
# SMO aims at this share of the tolerance, and lowers the violation at once by no more than to this share.
AIM, STEEPEST = 0.5, 0.03
# Rounding errors in a sum of kernel values, relative to its largest term.
ROUNDING = 16 * float(np.finfo(float).eps)
# The gap of an exact point, whose rounding errors grow with the kernel.
ROUNDED_GAP = 1e-10
# Relative size of the proximal term that keeps singular systems solvable; repeated steps remove its effect.
PROXIMAL = 1e-11
# Give up after this many rounds that do not lower the number of corrections: the sets repeat.
PATIENCE = 3
# Nanoseconds: of a cubed number of free variables in the rounds that active-set steps usually take, of an example in an SMO step.
ROUND_OPERATION, STEP_OPERATION = 0.15, 5.0
# Up to here an interior point takes some 20 milliseconds whatever the weights are: it may always follow; where a neighbor's
# bounds do not help in a two-space problem, SMO does not either.
FEW_VARIABLES = 600
# Operations of SMO that take about as long.
FEW_OPERATIONS = 4_000_000
# One space by features, the other by its matrix: where as many steps as examples leave more than this many times the violation
# of the start, an interior point (up to so many examples) that stops at this gap finds the active bounds sooner.
STUBBORN, MOST_MIXED, NEAR_THE_END = 1.2, 3000, 1e-2
# Where an example has two or more variables in the decision space, a factorization takes at least eight times as long.
SEVERAL_VARIABLES = 5


def solve_auto(problem: KernelQP, *, tol: float = 1e-3, max_iter: int = -1) -> Solution:
    """Take the stages of a regime, one after the other, until the gap and the optimality conditions are within ``tol``.

    Below a gap of 2%, the tolerance may cost about as much again as was done before.

    ========================================================  ==================================================
    both spaces have few explicit features (linear kernels)   interior point on the features
    the kernel matrix does not fit into ``cache_size``        SMO on working sets, rows on demand
    otherwise                                                 SMO with a budget; active-set steps when the budget
                                                              is spent or they cost less than further SMO steps;
                                                              interior point where those fail
    ========================================================  ==================================================
    """
    if problem.on_demand:
        return _continued(solve_decomposition, problem, tol=tol, max_iter=max_iter)
    # With few features, the interior point comes first.
    stages = STAGES[-2:] if problem.by_features and problem.n_examples > SMALL else STAGES
    solution = Solution(problem.start(), np.inf, -np.inf, 0, False, "start", violation=np.inf)
    if stages is not STAGES:  # SMO, which goes first otherwise, certifies its own point
        solution = problem.solution(solution.point, 0, False, "start")
    for stage, limit in stages:
        most = steps_left(max_iter, solution.n_iter, limit(problem, solution, tol))
        if most != 0:
            solution = stage(problem, solution, tol, most)
        if _good(problem, solution, tol) or problem.diverges(solution.point) or out_of_time():
            break
    for stage, limit in FINISH:
        most = steps_left(max_iter, solution.n_iter, limit(problem, solution, tol))
        if not tol < solution.gap <= MOST_GAP or problem.diverges(solution.point) or out_of_time():
            break
        solution = stage(problem, solution, tol, most) if most != 0 else solution
    if solution.certificate is None:  # no time, or no steps
        solution = problem.solution(solution.point, 0, False, "start")
    return replace(solution, converged=solution.gap <= tol and not problem.diverges(solution.point))


def _smo_budget(problem: KernelQP) -> int:
    """Steps that cost about as much as active-set steps, n^3 a round; beyond n = 640 the number that usually suffices."""
    n = problem.n_examples
    several = np.count_nonzero(problem.coef[0]) >= 2 * n
    return min(40 * n, max(1000, n * n // 16)) * (SEVERAL_VARIABLES if several else 1)


def _n_free(problem: KernelQP, x: np.ndarray) -> int:
    """Number of variables between their bounds."""
    return int(np.sum((x > problem.lower) & (x < problem.upper)))


# Stages: (problem, solution, tol, most steps) -> a better solution, with the steps of both.


def _smo(problem: KernelQP, solution: Solution, tol: float, most: int) -> Solution:
    """SMO to the first violation; few variables are then made exact."""
    more = solve_smo(problem, tol=max(tol, LOOSE), max_iter=most, start=solution.point)
    found = replace(more, n_iter=solution.n_iter + more.n_iter)
    small = problem.n_variables <= SMALL and not problem.diverges(found.point)
    return polish(problem, found, max_iter=min(ROUNDS, most - more.n_iter)) if small else found


def _smo_to_gap(
    problem: KernelQP, solution: Solution, tol: float, most: int,
    decrease: Callable[..., Solution] = solve_smo, largest: float = MOST_GAP,
) -> Solution:  # fmt: skip
    """SMO to a smaller violation each time, until the gap is small enough: it falls about as the violation does."""
    best, end = solution, solution.n_iter + most
    while best.n_iter < end and not _good(problem, best, tol, largest) and not out_of_time():
        goal = max(tol, LOOSE)
        if solution.violation <= goal:
            share = AIM * tol / solution.gap
            goal = tol if share >= AIM else solution.violation * max(STEEPEST, share)
        solution = decrease(problem, tol=goal, max_iter=end - best.n_iter, start=solution.point)
        best = best_of(solution, best)
        if not solution.violation <= goal or problem.diverges(solution.point):
            break
    return best


def _continued(
    decrease: Callable[..., Solution], problem: KernelQP, *, tol: float = 1e-3, max_iter: int = -1, **options: Any
) -> Solution:
    """A solver that stops at a violation, and about as many steps again towards the gap ``tol``."""
    decrease = partial(decrease, **options)
    solution = decrease(problem, tol=tol, max_iter=max_iter)
    most = steps_left(max_iter, solution.n_iter, _as_many_steps(problem, solution, tol))
    return _smo_to_gap(problem, solution, tol, most, decrease, largest=0.0)


def _polish(problem: KernelQP, solution: Solution, tol: float, most: int) -> Solution:
    return polish(problem, solution, max_iter=most)


def _early_bounds(problem: KernelQP, solution: Solution, tol: float, most: int) -> Solution:
    """Active-set steps from the bounds that an interior point finds active long before its end; else from its end."""
    early, active = follow_central_path(problem, tol=NEAR_THE_END, max_iter=most, early=True)
    left = steps_left(most, early.n_iter, ROUNDS_FROM_INTERIOR)
    found = best_of(polish(problem, early, guess=active, max_iter=left), solution)
    left = steps_left(most, found.n_iter - solution.n_iter)
    return found if _exact(found) or left == 0 or out_of_time() else _interior_point(problem, found, tol, left)


def _interior_point(problem: KernelQP, solution: Solution, tol: float, most: int) -> Solution:
    return best_of(solve_interior_point(problem, tol=min(tol, 1e-6), max_iter=most), solution)


# Limits of the stages: (problem, solution, tol) -> steps, -1 for the built-in limit, 0 where the stage does not pay.


def _steps_of_mixed(problem: KernelQP, solution: Solution, tol: float) -> int:
    mixed = sum(space.few_features for space in problem.spaces) == 1 and len(problem.spaces) == 2
    return problem.n_examples if mixed and FEW_VARIABLES <= problem.n_examples <= MOST_MIXED else 0


def _unless_stubborn(problem: KernelQP, solution: Solution, tol: float) -> int:
    if solution.n_iter == 0:
        return 0
    start = problem.start()
    _, first = problem.optimal_biases(start, problem.margins(start))
    return -1 if solution.violation > STUBBORN * first else 0


def _first_steps(problem: KernelQP, solution: Solution, tol: float) -> int:
    budget = _smo_budget(problem)
    return max(0, (budget // 4 if problem.n_examples >= FEW_VARIABLES else budget) - solution.n_iter)


def _rounds_if_cheap(problem: KernelQP, solution: Solution, tol: float) -> int:
    """Active-set rounds where they cost less than the SMO steps that are left, or those that a small gap takes."""
    free = _n_free(problem, solution.point)
    if solution.violation <= max(tol, LOOSE):
        return ROUNDS if free <= CHEAPLY_FACTORIZED else 0
    left = _smo_budget(problem) - solution.n_iter
    return ROUNDS if ROUND_OPERATION * free**3 < STEP_OPERATION * problem.n_examples * left else 0


def _steps_of_budget(problem: KernelQP, solution: Solution, tol: float) -> int:
    # The last digits come from active-set steps.
    return max(0, _smo_budget(problem) - solution.n_iter) if solution.violation > LOOSE or tol >= LOOSE else 0


def _rounds(problem: KernelQP, solution: Solution, tol: float) -> int:
    return ROUNDS if _n_free(problem, solution.point) <= MOST_FACTORIZED and not _exact(solution) else 0


def _steps_before_interior_point(problem: KernelQP, solution: Solution, tol: float) -> int:
    """Half the cost of an interior point that factorizes a large matrix over two spaces, or one over three."""
    n_spaces = len(problem.spaces) if problem.n_variables > problem.n_examples else 1
    several = n_spaces > 2 or (n_spaces == 2 and problem.n_examples >= FEW_VARIABLES)
    pays = several and tol >= LOOSE and not any(space.few_features for space in problem.spaces)
    return problem.n_examples**2 // 4 if pays else 0


def _unless_large(problem: KernelQP, solution: Solution, tol: float) -> int:
    return -1 if problem.n_variables <= MOST_FACTORIZED else 0


def _as_many_steps(problem: KernelQP, solution: Solution, tol: float) -> int:
    return 0 if _exact(solution) else max(solution.n_iter, FEW_OPERATIONS // problem.n_examples)


def _if_small(problem: KernelQP, solution: Solution, tol: float) -> int:
    return -1 if problem.n_variables <= FEW_VARIABLES and not _exact(solution) else 0


def _last_steps(problem: KernelQP, solution: Solution, tol: float) -> int:
    # Where even the interior point ran out of digits, SMO would not find more.
    return step_limit(problem) if solution.gap > 1e-4 else 0


STAGES = (
    (_smo, _steps_of_mixed),
    (_early_bounds, _unless_stubborn),
    (_smo, _first_steps),
    (_polish, _rounds_if_cheap),
    (_smo_to_gap, _steps_of_budget),
    (_polish, _rounds),
    (_smo_to_gap, _steps_before_interior_point),
    (_interior_point, _unless_large),
    (_smo_to_gap, _last_steps),
)
# What may follow where a small gap is still above the tolerance.
FINISH = (
    (partial(_smo_to_gap, largest=0.0), _as_many_steps),
    (_polish, _rounds_if_cheap),
    (_interior_point, _if_small),
)


def solve_interior_point(problem: KernelQP, *, tol: float = 1e-3, max_iter: int = -1) -> Solution:
    """Interior point, finished by active-set steps from the bounds that it finds active.

    ``tol`` is the relative duality gap; ``max_iter`` limits the steps of both, -1 stands for the built-in limits.
    """
    inside, active = follow_central_path(problem, tol=tol, max_iter=max_iter)
    left = steps_left(max_iter, inside.n_iter, ROUNDS_FROM_INTERIOR)
    finished = polish(problem, inside, guess=active, max_iter=left)
    return replace(finished, converged=finished.gap <= max(tol, 1e-8))


def solve_kernel_near(problem: KernelQP, neighbor: KernelQP, solved: Solution, *, tol: float = 1e-3) -> Solution | None:
    """Solve by active-set steps from the bounds that a neighbor's solution has active; None where they do not help."""
    if problem.on_demand or len(solved.point) != problem.n_variables:
        return None
    if _n_free(neighbor, solved.point) > MOST_FACTORIZED_FREELY or not solved.converged:
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


def _exact(solution: Solution) -> bool:
    return solution.solver.endswith("active_set")


def _good(problem: KernelQP, solution: Solution, tol: float, largest: float = MOST_GAP) -> bool:
    """Gap (up to ``largest``) and optimality conditions within the tolerance, or a gap far below it."""
    if solution.gap <= 1e-3 * min(tol, 1e-3):
        return True
    if not solution.gap <= max(tol, largest):
        return False
    if solution.violation <= tol:
        return True
    if not _exact(solution):
        return False
    return solution.violation <= _rounding(problem, solution.point)


def _rounding(problem: KernelQP, x: np.ndarray) -> float:
    """What the last digits of the variables change of the optimality conditions: an exact point cannot do better."""
    curvature = max(float(np.max(space.diagonal())) for space in problem.spaces)
    return ROUNDING * curvature * float(np.max(np.abs(x)))


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
        margins = problem.margins(x)
        gradient = margins - problem.ridge * x - E.T @ biases
        below, above = x < problem.lower, x > problem.upper
        slope = 1e-10 * max(1.0, float(np.max(np.abs(gradient))))
        release = (at_lower & (gradient > slope)) | (at_upper & (gradient < -slope))
        tiny = 1e-10 * scale
        small_exit = np.all(x >= problem.lower - tiny) and np.all(x <= problem.upper + tiny)
        # Where intercepts are free in an interval, the multipliers may lie outside of it.
        least = max(slope, _rounding(problem, x))
        if small_exit and (not release.any() or problem.optimal_biases(x, margins)[1] <= least):
            # A variable within rounding of a bound is on it: it must not pin an intercept that is free in an interval.
            grain = 1e-13 * max(scale, float(np.max(np.abs(x), initial=0.0)))
            x = np.where(x <= problem.lower + grain, problem.lower, x)
            x = np.where(x >= problem.upper - grain, problem.upper, x)
            polished = problem.solution(x, start.n_iter + done, True, f"{start.solver}+active_set")
            # Among points that are equal but for rounding errors, this one has the middle of the best intercepts.
            if polished.gap <= max(start.gap, ROUNDED_GAP):
                return polished
            break
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
    # The proximal term makes one solve inexact where H is singular; further ones on the new residuals finish the job.
    for _ in range(3):
        gradient = (problem.margins(x) - problem.ridge * x - E.T @ biases)[free]
        residual = total - E @ x
        step = cho_solve(factor, gradient, check_finite=False)
        if not (np.isfinite(schur).all() and np.isfinite(step).all()):
            raise LinAlgError("numbers beyond the range of double precision")
        change = np.linalg.lstsq(schur, E_free @ step - residual, rcond=None)[0]
        x[free] += step - R @ change
        biases += change
    return biases


# Kind of problem -> name (the estimators' ``solver``) -> function (problem, *, tol, max_iter, ...) -> Solution.
SOLVERS: dict[str, dict[str, Callable[..., Solution]]] = {
    "kernel": {
        "auto": solve_auto,
        "smo": partial(_continued, solve_smo),
        "decomposition": partial(_continued, solve_decomposition),
        "interior_point": solve_interior_point,
        "reference": solve_reference,
    },
    "linear": {"auto": solve_linear, "newton": solve_newton, "interior_point": solve_weights},
}


def solve(problem: KernelQP, solver: str, *, tol: float, max_iter: int, **options: Any) -> Solution:
    """Solve a kernel machine's problem with the solver of that name; ``options`` are further arguments of the solver."""
    with double_precision():
        found = SOLVERS[problem.family][solver](problem, tol=tol, max_iter=max_iter, **options)
        return judge(found, tol, hard=any(side.any() for side in problem.hard))


def solve_near(problem: KernelQP, neighbor: KernelQP, solved: Solution, *, tol: float) -> Solution | None:
    """Solve from the solution of a problem with the same examples and other costs, as in a grid search.

    Returns None where the neighbor does not help: solve from scratch then.
    """
    if problem.family != neighbor.family:
        return None
    near = solve_linear_near if problem.family == "linear" else solve_kernel_near
    found = near(problem, neighbor, solved, tol=tol)
    return None if found is None or not found.gap <= tol else found
