"""Newton's method over the weights, for squared hinges: their derivative is continuous and piecewise linear.

Newton's method with an exact line search ends after a few steps, because it meets the optimum exactly once it knows which
examples pay. Every step is judged by its duality gap: dual variables and their sums are at hand anyway.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import LinAlgError

from lupi.problems.kernel.linear import LinearPoint, LinearPrimal
from lupi.problems.kernel.row_losses import best_intercept, respond, slope_along
from lupi.solvers.kernel.linear_systems import linear_system

MAX_STEPS = 200
# The line search ends where the slope has fallen to this share.
SEARCHED = 0.1


def newton(
    problem: LinearPrimal, *, tol: float = 1e-3, max_iter: int = MAX_STEPS, start: np.ndarray | None = None
) -> LinearPoint:
    """Minimize a problem whose losses are all squared hinges.

    Parameters
    ----------
    problem : LinearPrimal
        With ``smooth`` true.
    tol : float
        Relative duality gap at which to stop.
    max_iter : int
        Largest number of steps.
    start : ndarray, optional
        Weights to start from.

    Returns
    -------
    LinearPoint
    """
    run = _Run(problem, np.zeros(problem.n_weights) if start is None else start.copy())
    system = linear_system(problem)
    best = run.point(0)
    k = 0
    while k < max_iter and best.gap > tol:
        k += 1
        try:
            moved = run.step(system)
        except LinAlgError:
            break
        point = run.point(k)
        best = point if point.gap < best.gap else best
        if not moved:
            break
    return best.finish(problem, k, tol)


class _Run:
    """Weights, values on the examples, and the dual variables that answer them."""

    def __init__(self, problem: LinearPrimal, theta: np.ndarray):
        self.problem, self.theta = problem, theta
        self.rows = problem.y, problem.s, problem.tables[0]
        self.f, self.g = problem.fields(theta)
        self._answer()

    def _answer(self) -> None:
        """Best intercept, dual variables, and the gradient."""
        p = self.problem
        b = best_intercept(self.f, self.g, *self.rows)
        self.f += b
        self.theta[p.n_features] += b
        a, slope = respond(self.f, self.g, *self.rows)
        self.x, self.slopes = a[None], slope[None]
        self.q = p.adjoint(*p.coefficients(self.x))
        self.gradient = p.metric(self.theta) - self.q

    def step(self, system) -> bool:
        """One Newton step; False where no direction leads down any more."""
        p = self.problem
        system.factorize(self.slopes)
        direction = system.solve(-self.gradient)
        df, dg = p.fields(direction)
        along = p.metric(direction)
        t = _root(
            lambda t: slope_along(t, self.f, self.g, df, dg, *self.rows),
            float(along @ self.theta),
            float(along @ direction),
            float(self.gradient @ direction),
        )
        self.theta = self.theta + t * direction
        self.f += t * df
        self.g += t * dg
        self._answer()
        return t > 0.0

    def point(self, n_iter: int) -> LinearPoint:
        """What the present iterate proves."""
        p = self.problem
        return LinearPoint(
            self.theta.copy(), self.x, p.value(self.theta, self.f, self.g), p.lower_bound(self.x, self.q), n_iter
        )


def _root(slope: Callable[[float], tuple[float, float]], linear: float, quadratic: float, start: float) -> float:
    """Where the derivative along a line, increasing and negative at 0, has all but vanished."""
    if not start < 0:
        return 0.0
    low, high, t = 0.0, np.inf, 1.0
    for _ in range(50):
        first, second = slope(t)
        first += linear + t * quadratic
        second += quadratic
        if abs(first) <= -SEARCHED * start:
            break
        if first < 0:
            low = t
        else:
            high = t
        guess = t - first / second if second > 0 else np.inf
        t = guess if low < guess < high else (2.0 * t if np.isinf(high) else 0.5 * (low + high))
    return t
