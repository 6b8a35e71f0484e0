r"""Newton's method over the weights of a linear problem with squared hinges.

Their derivative is continuous and piecewise linear: Newton's method with an exact line search ends after a few steps,
because it meets the optimum exactly once it knows which examples have a loss. With a decision value f and a correcting
value g, an example has the loss :math:`\tfrac{1}{2 r} [v]_+^2`, :math:`v = 1 - y f - s g`, and the dual variable
:math:`[v]_+ / r`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from lupi.solution import Solution
from lupi.svm.linear import LinearPrimal, best_iterate
from lupi.svm.linear_systems import FactorizedSystem, IterativeSystem, many_weights

MAX_STEPS = 200
# The line search ends where the slope has fallen to this share.
SEARCHED = 0.1
# Derivatives with respect to an intercept are 0 up to this share of their terms' sum.
BALANCED = 1e-13


def solve_newton(
    problem: LinearPrimal, *, tol: float = 1e-3, max_iter: int = -1, start: np.ndarray | None = None
) -> Solution:
    """Minimize a problem whose losses are all squared hinges, to the relative gap ``tol``; see :func:`best_iterate`."""
    if not problem.smooth:
        raise ValueError(
            "solver='newton' needs squared hinges, i.e. SVM2Plus with a finite kappa; use solver='interior_point' or 'auto'."
        )
    iterate = _Iterate(problem, np.zeros(problem.n_weights) if start is None else start)
    return best_iterate(problem, iterate, "newton", tol=tol, max_iter=max_iter, most_steps=MAX_STEPS)


class _Iterate:
    """Weights, slacks of the examples, and their dual variables."""

    def __init__(self, problem: LinearPrimal, theta: np.ndarray):
        self.problem, self.moving = problem, True
        self.system = IterativeSystem(problem) if many_weights(problem) else FactorizedSystem(problem)
        self._move(theta, problem.slacks(theta))

    def _move(self, theta: np.ndarray, slack: np.ndarray) -> None:
        """Go to these weights with the best intercept; dual variables and gradient follow."""
        p = self.problem
        b = _best_intercept(slack[0], p.y, p.ridge[0])
        self.slack = slack - b * p.y
        self.theta = theta.copy()
        self.theta[p.n_features] += b
        self.slopes = (self.slack > 0) / p.ridge
        self.x = self.slack * self.slopes
        self.q = p.outside + p.adjoint(self.x)
        self.gradient = p.metric(self.theta) - self.q

    def advance(self) -> None:
        """One Newton step; `moving` becomes false where no direction leads down any more."""
        self.system.factorize(self.slopes)
        direction = self.system.solve(-self.gradient)
        change = self.problem.changes(direction)
        t = self._length(direction, change)
        self.moving = t > 0.0
        self._move(self.theta + t * direction, self.slack + t * change)

    def _length(self, direction: np.ndarray, change: np.ndarray) -> float:
        """Where the derivative along a direction, increasing and negative at 0, has all but vanished."""
        start = float(self.gradient @ direction)
        if not start < 0:
            return 0.0
        along = self.problem.metric(direction)
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
