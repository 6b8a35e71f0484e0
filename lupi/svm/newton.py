r"""Newton's method over the weights of a linear problem with squared hinges.

Their derivative is continuous and piecewise linear: Newton's method with an exact line search ends after a few steps,
because it meets the optimum exactly once it knows which examples have a loss. With a decision value f and a correcting
value g, an example has the loss :math:`\tfrac{1}{2 r} [v]_+^2`, :math:`v = 1 - y f - s g`, and the dual variable
:math:`[v]_+ / r`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numba import njit
from scipy.linalg import LinAlgError

from lupi.solution import Solution, out_of_time
from lupi.svm.linear import LinearPrimal
from lupi.svm.linear_systems import System, linear_system

MAX_STEPS = 200
# The line search ends where the slope has fallen to this share.
SEARCHED = 0.1
# Derivatives with respect to an intercept are 0 up to this share of their terms' sum.
BALANCED = 1e-13


def solve_newton(
    problem: LinearPrimal, *, tol: float = 1e-3, max_iter: int = -1, start: np.ndarray | None = None
) -> Solution:
    """Minimize a problem whose losses are all squared hinges.

    Stops at the relative gap ``tol``. The solution's point are the weights, its certificate the dual variables.
    """
    if not problem.smooth:
        raise ValueError(
            "solver='newton' needs squared hinges, i.e. SVM2Plus with a finite kappa; use solver='interior_point' or 'auto'."
        )
    limit = MAX_STEPS if max_iter < 0 else min(max_iter, MAX_STEPS)
    run = _Run(problem, np.zeros(problem.n_weights) if start is None else start.copy())
    system = linear_system(problem)
    best = run.solution(0)
    steps, moving = 0, True
    while steps < limit and best.gap > tol and moving and not out_of_time():
        steps += 1
        try:
            moving = run.step(system)
        except LinAlgError:
            break
        found = run.solution(steps)
        best = found if found.gap < best.gap else best
    violation = problem.violation(best.certificate, *problem.fields(best.point))
    return replace(best, n_iter=steps, violation=violation, converged=best.gap <= tol)


class _Run:
    """Weights, values on the examples, and their dual variables."""

    def __init__(self, problem: LinearPrimal, theta: np.ndarray):
        self.problem, self.theta = problem, theta
        self.rows = problem.y, problem.s, problem.tables[0]
        self.f, self.g = problem.fields(theta)
        self._update()

    def _update(self) -> None:
        """Best intercept, dual variables, and the gradient."""
        p = self.problem
        b = _best_intercept(self.f, self.g, *self.rows)
        self.f += b
        self.theta[p.n_features] += b
        a, slope = _dual_variables(self.f, self.g, *self.rows)
        self.x, self.slopes = a[None], slope[None]
        self.q = p.adjoint(*p.coefficients(self.x))
        self.gradient = p.metric(self.theta) - self.q

    def step(self, system: System) -> bool:
        """One Newton step; False where no direction leads down any more."""
        p = self.problem
        system.factorize(self.slopes)
        direction = system.solve(-self.gradient)
        df, dg = p.fields(direction)
        along = p.metric(direction)
        t = _root(
            lambda t: _slope_along(t, self.f, self.g, df, dg, *self.rows),
            float(along @ self.theta),
            float(along @ direction),
            float(self.gradient @ direction),
        )
        self.theta = self.theta + t * direction
        self.f += t * df
        self.g += t * dg
        self._update()
        return t > 0.0

    def solution(self, n_iter: int) -> Solution:
        """The current iterate with its certificate."""
        p = self.problem
        value, bound = p.value(self.theta, self.f, self.g), p.lower_bound(self.x, self.q)
        return Solution(self.theta.copy(), value, bound, n_iter, False, "newton", certificate=self.x)


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


@njit(cache=True, nogil=True)
def _dual_variables(
    f: np.ndarray, g: np.ndarray, y: np.ndarray, s: np.ndarray, ridge: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Dual variables, and their derivatives with respect to the slacks."""
    a = np.zeros(f.shape[0])
    slope = np.zeros(f.shape[0])
    for i in range(f.shape[0]):
        v = 1.0 - y[i] * f[i] - s[i] * g[i]
        if v > 0.0:
            slope[i] = 1.0 / ridge[i]
            a[i] = v * slope[i]
    return a, slope


@njit(cache=True, nogil=True)
def _slope_along(
    t: float,
    f: np.ndarray,
    g: np.ndarray,
    df: np.ndarray,
    dg: np.ndarray,
    y: np.ndarray,
    s: np.ndarray,
    ridge: np.ndarray,
) -> tuple[float, float]:
    """First and second derivative of the losses at f + t df, g + t dg with respect to t."""
    first = 0.0
    second = 0.0
    for i in range(f.shape[0]):
        change = y[i] * df[i] + s[i] * dg[i]
        v = 1.0 - y[i] * f[i] - s[i] * g[i] - t * change
        if v > 0.0:
            first -= v * change / ridge[i]
            second += change * change / ridge[i]
    return first, second


@njit(cache=True, nogil=True)
def _best_intercept(f: np.ndarray, g: np.ndarray, y: np.ndarray, s: np.ndarray, ridge: np.ndarray) -> float:
    """Change of the intercept that minimizes the losses: there the sum of y_i a_i is 0.

    The derivative is increasing and piecewise linear: Newton's method, kept between a point below and one above.
    """
    low, high = -np.inf, np.inf
    b = 0.0
    for _ in range(100):
        plus = minus = second = 0.0
        for i in range(f.shape[0]):
            v = 1.0 - y[i] * (f[i] + b) - s[i] * g[i]
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
