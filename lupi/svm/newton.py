r"""Newton's method over the weights of linear functions with squared hinges.

Their derivative is continuous and piecewise linear: Newton's method with an exact line search ends after a few steps,
because it meets the optimum exactly once it knows which examples have a loss. A variable x with the slack v and the ridge r
has the loss :math:`\tfrac{1}{2 r} [v]_+^2`, and is :math:`[v]_+ / r`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numba import njit
from scipy.linalg import LinAlgError, cho_solve

from lupi.solution import Solution, out_of_time
from lupi.svm.features import Functions, squares_times, stored_entries
from lupi.svm.interior_point import FeatureSystem
from lupi.svm.kernel_qp import KernelQP

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
