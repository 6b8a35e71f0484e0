"""Which solver when, for linear problems; many examples by row generation.

Most of many examples are far from a kink of their loss, and enter as one vector. The result is exact, because all examples
are checked.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lupi.solution import Solution, out_of_time, steps_left
from lupi.svm.interior_point import solve_weights
from lupi.svm.kernel_qp import KernelQP
from lupi.svm.newton import many_weights, solve_newton

# The last digits cost little where the examples are few: the gap is then this share of the tolerance.
DIGITS = 1e-3
# A sample is solved first where there are more examples than this, and more than this many for each weight.
FEW_EXAMPLES = 4000
FEW_FOR_EACH_WEIGHT = 30
# The sample's share, and the gap to which it is solved: its weights are uncertain by more than that.
SAMPLE_SHARE = 1 / 8
SAMPLE_GAP = 1e-3
# Examples closer to a kink than this many standard errors of the sample's values are worked on.
ERRORS = 3.0
MOST_ROUNDS = 30
# Almost separable examples at a high price change sides at every Newton step; the interior point does not see that.
MOST_NEWTON_STEPS = 25
# Share of the examples at a kink above which no part of them says much about the others.
MOST_UNDECIDED = 0.25


def solve_linear(problem: KernelQP, *, tol: float = 1e-3, max_iter: int = -1) -> Solution:
    """Choose by the losses and the shape.

    ======================================  ======================================================================
    squared hinges                          Newton's method, from the weights of a sample where there are many
                                            examples; the interior point where it does not end after a few steps
    hinges, constraints                     interior point; with many examples on the rows near a kink, all others
                                            being fixed and checked
    ======================================  ======================================================================

    ``tol`` is the relative duality gap.
    """
    few = problem.n_examples <= FEW_EXAMPLES
    found = solve_rows(problem, tol=DIGITS * tol if few else tol, max_iter=max_iter)
    return replace(found, converged=found.gap <= tol)


def solve_linear_near(problem: KernelQP, neighbor: KernelQP, solved: Solution, *, tol: float = 1e-3) -> Solution | None:
    """Newton's method from the weights that another price has; None where it is of no use."""
    if not problem.smooth or not solved.converged or many_weights(problem):
        return None
    found = solve_newton(
        problem, tol=DIGITS * tol if problem.n_examples <= FEW_EXAMPLES else tol, start=solved.certificate.theta
    )
    return found if found.converged else None


def solve_rows(problem: KernelQP, *, tol: float = 1e-3, max_iter: int = -1, decided: bool = False) -> Solution:
    """Newton's method or the interior point, with many examples after a sample of them, which is solved the same way.

    ``decided`` spares the look at a small sample that shows whether most examples are far from a kink.
    """
    n, n_weights = problem.n_examples, problem.functions.n_weights
    few = max(FEW_EXAMPLES, FEW_FOR_EACH_WEIGHT * n_weights)
    if n <= few:
        return _solve_whole(problem, tol, max_iter)
    if not (problem.smooth or decided):
        probe = _sample(problem, few)
        if _undecided(probe, solve_weights(probe, tol=SAMPLE_GAP).point) > MOST_UNDECIDED:
            return solve_weights(problem, tol=tol, max_iter=max_iter)
    sample = _sample(problem, int(SAMPLE_SHARE * n))
    first = solve_rows(sample, tol=max(tol, SAMPLE_GAP), max_iter=max_iter, decided=True)
    if problem.smooth:
        return _solve_whole(problem, tol, max_iter, start=first.certificate.theta)
    return _solve_in_rounds(problem, first, ERRORS * np.sqrt(n_weights / sample.n_examples), tol, max_iter)


def _sample(problem: KernelQP, size: int) -> KernelQP:
    """Some examples in place of all: random, so that the order of the rows does not matter, and always the same."""
    n = problem.n_examples
    index = np.sort(np.random.default_rng(0).choice(n, size, replace=False))
    return problem.rows(index, weight=n / size)


def _solve_whole(problem: KernelQP, tol: float, max_iter: int, start: np.ndarray | None = None) -> Solution:
    """All examples at once."""
    if not problem.smooth:
        return solve_weights(problem, tol=tol, max_iter=max_iter)
    if many_weights(problem) or max_iter >= 0:
        return solve_newton(problem, tol=tol, max_iter=max_iter, start=start)
    found = solve_newton(problem, tol=tol, max_iter=MOST_NEWTON_STEPS, start=start)
    return found if found.converged else solve_weights(problem, tol=tol)


def _solve_in_rounds(problem: KernelQP, first: Solution, errors: float, tol: float, max_iter: int) -> Solution:
    """Solve for the examples near a kink with the others fixed, check all, and add those that were fixed wrongly."""
    n, steps = problem.n_examples, first.n_iter
    slack = problem.p - problem.outputs(problem.functions.fields(first.certificate.theta))
    distance = _distance(problem, slack)
    inside = np.zeros(n, dtype=bool)
    best: Solution | None = None
    wanted = distance <= errors
    for _ in range(MOST_ROUNDS):
        inside |= wanted if np.count_nonzero(wanted) <= n // 4 else _nearest(distance, n // 4)
        if np.count_nonzero(inside) > n // 2:
            break
        found, part_converged = _solve_part(problem, inside, slack, tol, steps_left(max_iter, steps))
        steps += found.n_iter
        best = found if best is None or found.gap <= best.gap else best
        slack = found.certificate.slack
        if best.gap <= tol or steps_left(max_iter, steps) == 0 or out_of_time():
            return replace(best, n_iter=steps, converged=best.gap <= tol)
        distance = np.where(inside, np.inf, _distance(problem, slack))
        errors *= 0.3
        # Fixed variables that violate the optimality conditions.
        up, down = (slack > 0) & (found.point < problem.upper), (slack < 0) & (found.point > problem.lower)
        wanted = distance <= errors
        wanted[problem.example[up | down]] = True
        # The fixed variables may leave the others no balanced choice: more of them must be free.
        wanted |= False if part_converged else _nearest(distance, int(inside.sum()))
    found = solve_weights(problem, tol=tol, max_iter=steps_left(max_iter, steps))
    return replace(found, n_iter=steps + found.n_iter)


def _solve_part(
    problem: KernelQP, inside: np.ndarray, slack: np.ndarray, tol: float, max_iter: int
) -> tuple[Solution, bool]:
    """Solution of the whole problem from that of some rows, and whether these were solved."""
    free = inside[problem.example]
    # Variables at the bounds to which the slacks push them, or at the other one where that is infinite.
    up = ((slack > 0) & np.isfinite(problem.upper)) | np.isinf(problem.lower)
    x = np.where(free, 0.0, np.where(up, problem.upper, problem.lower))
    part, theta = problem.rows_beside(np.flatnonzero(inside), x)
    solved = solve_weights(part, tol=0.5 * tol, max_iter=max_iter)
    x[free] = solved.point
    whole = problem.solution(x, solved.n_iter, False, "rows", theta=theta + solved.certificate.theta)
    return whole, solved.converged


def _by_row(problem: KernelQP) -> list[np.ndarray]:
    """Variables that enter the decision function, and the others."""
    decides = problem.coef[0] != 0
    return [index for index in (np.flatnonzero(decides), np.flatnonzero(~decides)) if len(index)]


def _undecided(problem: KernelQP, x: np.ndarray) -> float:
    """Share of the examples whose variables are inside their intervals: far more than weights where a function is flat."""
    typical = np.where(np.isfinite(problem.upper), problem.upper, np.mean(x))
    above = (x > 0.1 * typical) | np.isinf(problem.lower)
    inside = above & (x < 0.9 * problem.upper) & (problem.ridge == 0)
    return max(np.count_nonzero(inside[index]) for index in _by_row(problem)) / problem.n_examples


def _distance(problem: KernelQP, slack: np.ndarray) -> np.ndarray:
    """Distance of each example from where one of its variables would change, in standard deviations of its slack.

    Negative where a constraint is missed. A squared hinge is not constant where it is positive: its examples always count.
    """
    distance = np.where(np.isinf(problem.upper), -slack, np.where(np.isinf(problem.lower), slack, np.abs(slack)))
    out = np.full(problem.n_examples, np.inf)
    for index in _by_row(problem):
        np.minimum.at(out, problem.example[index], distance[index] / (np.std(slack[index]) + 1e-300))
    return out


def _nearest(distance: np.ndarray, size: int) -> np.ndarray:
    """Mark the examples with the smallest distances."""
    out = np.zeros(len(distance), dtype=bool)
    out[np.argpartition(distance, min(size, len(distance) - 1))[:size]] = True
    return out
