r"""Solvers on the weights of linear functions: which one when, rows near a kink first, and Newton's method.

Most of many examples are far from a kink of their loss, and enter as one vector. The result is exact, because all examples
are checked.

The derivative of squared hinges is continuous and piecewise linear: Newton's method with an exact line search ends after a few
steps, because it meets the optimum exactly once it knows which examples have a loss. A variable x with the slack v and the ridge
r has the loss :math:`\tfrac{1}{2 r} [v]_+^2`, and is :math:`[v]_+ / r`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numba import njit
from scipy.linalg import LinAlgError, cho_solve

from lupi.solution import Solution, out_of_time, steps_left
from lupi.svm.features import Functions, squares_times, stored_entries
from lupi.svm.interior_point import FeatureSystem, solve_weights
from lupi.svm.kernel_qp import KernelQP

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
# Steps of Newton's method at most.
MAX_STEPS = 200
# The line search ends where the slope has fallen to this share.
SEARCHED = 0.1
# Derivatives with respect to an intercept are 0 up to this share of their terms' sum.
BALANCED = 1e-13
# Conjugate gradients where forming the Hessian costs more than this many products with the stored entries of the rows.
PRODUCTS = 2000
MOST_ITERATIONS = 500
# The direction is as exact as the gradient has fallen: early steps need not be.
FIRST_ACCURACY = 0.1


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
    # From weights of 0 in all: those of the fixed variables alone are far too large.
    solved = solve_weights(part, tol=0.5 * tol, max_iter=max_iter, theta=-theta)
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


def solve_newton(
    problem: KernelQP, *, tol: float = 1e-3, max_iter: int = -1, start: np.ndarray | None = None
) -> Solution:
    """Minimize a problem whose losses are all squared hinges, to the relative gap ``tol``; ``start`` are weights."""
    if not problem.smooth:
        raise ValueError(
            "solver='newton' needs squared hinges, i.e. SVM2Plus with a finite kappa; use solver='interior_point' or 'auto'."
        )
    iterate = _Iterate(problem, np.zeros(problem.functions.n_weights) if start is None else start)
    limit = MAX_STEPS if max_iter < 0 else min(max_iter, MAX_STEPS)
    steps, moving, found = 0, True, None
    while True:
        found = problem.solution(iterate.x, steps, True, "newton", theta=iterate.theta) if iterate.gap <= tol else None
        if (found is not None and found.gap <= tol) or steps >= limit or not moving or out_of_time():
            break
        steps += 1
        try:
            moving = iterate.advance()
        except LinAlgError:
            break
    found = found or problem.solution(iterate.x, steps, False, "newton", theta=iterate.theta)
    return replace(found, converged=found.gap <= tol)


class _Iterate:
    """Weights, slacks of the variables, and the dual point that they give."""

    def __init__(self, problem: KernelQP, theta: np.ndarray):
        self.problem = problem
        self.system = IterativeSystem(problem) if many_weights(problem) else FeatureSystem(problem)
        self._move(theta, problem.p - problem.outputs(problem.functions.fields(theta)))

    def _move(self, theta: np.ndarray, slack: np.ndarray) -> None:
        """Go to these weights with the best intercept; dual variables and gradient follow."""
        p, functions = self.problem, self.problem.functions
        b = _best_intercept(slack, p.coef[0], p.ridge)
        self.slack = slack - b * p.coef[0]
        self.theta = theta.copy()
        self.theta[functions.intercepts[0]] += b
        self.x = np.maximum(self.slack, 0.0) / p.ridge
        along = functions.metric(self.theta)
        self.gradient = along - functions.sums(p.expansions(self.x))
        # By which the value at theta exceeds the dual value of x.
        apart = 0.5 * float(self.gradient @ functions.inverse_metric(self.gradient))
        self.gap = apart / (0.5 * float(self.theta @ along + self.x @ self.slack) + 1e-300)

    def advance(self) -> bool:
        """One Newton step; whether some direction leads down."""
        with np.errstate(divide="ignore"):
            self.system.factorize(self.problem.ridge / (self.slack > 0))
        direction = self.system.direction(-self.gradient)
        change = -self.problem.outputs(self.problem.functions.fields(direction))
        t = self._length(direction, change)
        self._move(self.theta + t * direction, self.slack + t * change)
        return t > 0.0

    def _length(self, direction: np.ndarray, change: np.ndarray) -> float:
        """Where the derivative along a direction, increasing and negative at 0, has all but vanished."""
        start = float(self.gradient @ direction)
        if not start < 0:
            return 0.0
        along = self.problem.functions.metric(direction)
        linear, quadratic = float(along @ self.theta), float(along @ direction)
        low, high, t = 0.0, np.inf, 1.0
        for _ in range(50):
            slack = self.slack + t * change
            rate = np.where(slack > 0, change / self.problem.ridge, 0.0)
            first = float(np.vdot(slack, rate)) + linear + t * quadratic
            second = float(np.vdot(change, rate)) + quadratic
            if abs(first) <= -SEARCHED * start:
                break
            low, high = (t, high) if first < 0 else (low, t)
            guess = t - first / second if second > 0 else np.inf
            t = guess if low < guess < high else (2.0 * t if np.isinf(high) else 0.5 * (low + high))
        return t


def many_weights(problem: KernelQP) -> bool:
    """Whether conjugate gradients are cheaper than a matrix over the weights."""
    functions = problem.functions
    entries = (stored_entries(functions.X) + stored_entries(functions.Z)) / problem.n_examples
    return functions.n_weights**2 > PRODUCTS * entries


class IterativeSystem:
    """Preconditioned conjugate gradients: the Hessian is known by its products only."""

    def __init__(self, problem: KernelQP):
        self.problem = problem
        self.first_size: float | None = None

    def factorize(self, D: np.ndarray) -> None:
        """Prepare for this diagonal over the variables, one per example."""
        p = self.problem
        index = np.flatnonzero(np.inf > D)
        # Leaving rows out takes a copy, which pays unless it would hold most of them.
        fewer = len(index) < 0.7 * p.n_examples
        self.part, self.D = (p.rows(index), D[index]) if fewer else (p, D)
        self.diagonal = np.append(
            1.0 + squares_times(self.part.functions.X, 1.0 / self.D), max(np.sum(1.0 / self.D), 1e-300)
        )
        self.blocks = []
        for space, coef in zip(self.part.spaces[1:], self.part.coef[1:]):
            # The privileged features are few: their block of the Hessian is taken whole.
            functions = Functions([space])
            self.blocks.append(functions.factorize(functions.hessian((coef**2 / self.D)[None, None])))

    def direction(self, rhs: np.ndarray) -> np.ndarray:
        """Solve to an accuracy that follows the size of the right-hand side."""
        part, functions = self.part, self.part.functions
        z = self._precondition(rhs)
        rz = float(rhs @ z)
        size = np.sqrt(rz)
        self.first_size = self.first_size or size
        accuracy = min(FIRST_ACCURACY, size / self.first_size)
        u, r, direction = np.zeros_like(rhs), rhs, z
        for _ in range(MOST_ITERATIONS):
            if np.sqrt(rz) <= accuracy * size:
                break
            outputs = part.outputs(functions.fields(direction))
            image = functions.metric(direction) + functions.sums(part.expansions(outputs / self.D))
            t = rz / float(direction @ image)
            u, r = u + t * direction, r - t * image
            z = self._precondition(r)
            rz, last = float(r @ z), rz
            direction = z + (rz / last) * direction
        return u

    def _precondition(self, r: np.ndarray) -> np.ndarray:
        first, *others = (r[part] for part in self.part.functions.parts)
        solved = [cho_solve(block, other, check_finite=False) for block, other in zip(self.blocks, others)]
        return np.concatenate([first / self.diagonal, *solved])


@njit(cache=True, nogil=True)
def _best_intercept(slack: np.ndarray, y: np.ndarray, ridge: np.ndarray) -> float:
    """Change of the intercept that minimizes the losses, by Newton's method between a point below and one above."""
    low, high = -np.inf, np.inf
    b = 0.0
    for _ in range(100):
        plus = minus = second = 0.0
        for i in range(slack.shape[0]):
            v = slack[i] - y[i] * b
            if v > 0.0:
                second += 1.0 / ridge[i]
                if y[i] > 0:
                    plus += v / ridge[i]
                else:
                    minus += v / ridge[i]
        first = minus - plus
        if abs(first) <= BALANCED * (minus + plus):
            break
        if first < 0:
            low = b
        else:
            high = b
        step = b - first / second
        if not low < step < high:
            step = 0.5 * (low + high)
        if step == b:
            break
        b = step
    return b
