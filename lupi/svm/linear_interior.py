"""Primal-dual interior point over the weights of a linear problem: hinges and constraints at any price."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import LinAlgError

from lupi.solution import Solution, out_of_time
from lupi.svm.linear import LinearPrimal
from lupi.svm.linear_systems import FactorizedSystem

MAX_STEPS = 100
# An iterate may come this close to its bounds in one step, as a share of the distance.
ALMOST = 0.995
# The first iterate keeps this share of every interval free on both sides.
ROOM = 0.02
# Steps shorter than this lead nowhere.
SHORTEST = 1e-9

# Changes of the weights, of both functions' values, of the variables, and of the multipliers of their lower and upper ends.
Direction = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def solve_weights(problem: LinearPrimal, *, tol: float = 1e-3, max_iter: int = -1) -> Solution:
    """Mehrotra's predictor-corrector method with the weights as iterates: a step solves one system of their number.

    Parameters
    ----------
    problem : LinearPrimal
    tol : float
        Relative duality gap at which to stop.
    max_iter : int
        Largest number of steps; -1 for the built-in limit.

    Returns
    -------
    Solution
        Of weights; its certificate are the dual variables.
    """
    limit = MAX_STEPS if max_iter < 0 else min(max_iter, MAX_STEPS)
    iterate = _Iterate(problem)
    best = iterate.solution(0)
    steps, length = 0, 1.0
    while steps < limit and best.gap > tol and length >= SHORTEST and np.isfinite(iterate.complementarity):
        if out_of_time():
            break
        steps += 1
        try:
            length = iterate.advance()
        except LinAlgError:
            break
        found = iterate.solution(steps)
        best = found if (found.gap, -found.lower_bound) <= (best.gap, -best.lower_bound) else best
    violation = problem.violation(best.certificate, *problem.fields(best.point))
    return replace(best, n_iter=steps, violation=violation, converged=best.gap <= tol)


class _Iterate:
    """Weights, dual variables strictly inside their intervals, distances to the ends and multipliers."""

    def __init__(self, problem: LinearPrimal):
        p = self.problem = problem
        kinds, n = p.n_kinds, p.n_examples
        self.system = FactorizedSystem(p, updates=False)
        lower, upper = np.zeros((kinds, n)), np.empty((kinds, n))
        upper[0] = p.tables[1]
        if kinds == 2:
            lower[1], upper[1] = p.tables[2], p.tables[3]
        self.x = _balanced_start(p)
        # Variables that cannot move (no privileged row) are carried with distances of 1 and no multipliers.
        self.moving = upper > lower
        self.has_lower, self.has_upper = np.isfinite(lower) & self.moving, np.isfinite(upper) & self.moving
        with np.errstate(invalid="ignore"):
            self.below = np.where(self.has_lower, self.x - lower, 1.0)
            self.above = np.where(self.has_upper, upper - self.x, 1.0)
        self.z_below, self.z_above = self.has_lower.astype(float), self.has_upper.astype(float)
        self.count = max(1, int(self.has_lower.sum() + self.has_upper.sum()))
        self.theta = np.zeros(p.n_weights)
        self.f, self.g = np.zeros(n), np.zeros(n)
        self.q = p.adjoint(*p.coefficients(self.x))

    @property
    def complementarity(self) -> float:
        """What the gap would be at a feasible point."""
        return float(np.vdot(self.z_below, self.below) + np.vdot(self.z_above, self.above))

    def _slopes(self) -> np.ndarray:
        """Derivatives of the dual value."""
        p = self.problem
        own = p.s * self.g
        out = np.empty_like(self.x)
        out[-1] = own
        out[0] = 1.0 - p.y * self.f - own - p.tables[0] * self.x[0]
        return out

    def advance(self) -> float:
        """One predictor-corrector step; its length."""
        unmet = self.problem.metric(self.theta) - self.q
        r = self._slopes() + self.z_below - self.z_above
        D = self.z_below / self.below
        D += self.z_above / self.above
        D[0] += self.problem.tables[0]
        D[~self.moving] = np.inf
        self.system.factorize(1.0 / D)
        below, above = self._targets(r, unmet, D)
        direction = self._direction(r, unmet, D, below, above)
        length = min(1.0, ALMOST * self._room(direction))
        self._move(direction, unmet, length)
        return length

    def _targets(self, r: np.ndarray, unmet: np.ndarray, D: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Changes of the complementarity products to aim at: what a step to 0 would reach, and what it would spoil."""
        total = self.complementarity
        below, above = -self.z_below * self.below, -self.z_above * self.above
        predictor = self._direction(r, unmet, D, below, above)
        length = self._room(predictor)
        _, _, _, dx, dzl, dzu = predictor
        reached = float(np.vdot(self.z_below + length * dzl, self.below + length * dx * self.has_lower))
        reached += float(np.vdot(self.z_above + length * dzu, self.above - length * dx * self.has_upper))
        center = (max(reached, 0.0) / total) ** 3 * total / self.count
        below += np.where(self.has_lower, center - dzl * dx, 0.0)
        above += np.where(self.has_upper, center + dzu * dx, 0.0)
        return below, above

    def _direction(
        self, r: np.ndarray, unmet: np.ndarray, D: np.ndarray, below: np.ndarray, above: np.ndarray
    ) -> Direction:
        """Newton direction towards complementarity products that differ from the present ones as asked."""
        p = self.problem
        rho = (r + below / self.below - above / self.above) / D
        change = self.system.solve(p.adjoint_of(rho) - unmet)
        df, dg = p.fields(change)
        own = p.s * dg
        rho[0] -= (p.y * df + own) / D[0]
        if len(rho) == 2:
            rho[1] += own / D[1]
        dzl = np.where(self.has_lower, (below - self.z_below * rho) / self.below, 0.0)
        dzu = np.where(self.has_upper, (above + self.z_above * rho) / self.above, 0.0)
        return change, df, dg, rho, dzl, dzu

    def _room(self, direction: Direction) -> float:
        """Longest step that keeps every distance and multiplier positive."""
        _, _, _, dx, dzl, dzu = direction
        room = 1.0
        for value, change in (
            (self.below, dx * self.has_lower),
            (self.above, -dx * self.has_upper),
            (self.z_below, dzl),
            (self.z_above, dzu),
        ):
            with np.errstate(divide="ignore", invalid="ignore"):
                steepest = float(np.max(np.where(value > 0, -change / value, 0.0), initial=0.0))
            room = min(room, 1.0 / steepest if steepest > 0 else 1.0)
        return room

    def _move(self, direction: Direction, unmet: np.ndarray, t: float) -> None:
        change, df, dg, dx, dzl, dzu = direction
        self.q = self.q + t * (self.problem.metric(change) + unmet)
        self.theta = self.theta + t * change
        self.f += t * df
        self.g += t * dg
        self.x += t * dx
        self.below += t * dx * self.has_lower
        self.above -= t * dx * self.has_upper
        self.z_below += t * dzl
        self.z_above += t * dzu

    def solution(self, n_iter: int) -> Solution:
        """What the present iterate proves."""
        p = self.problem
        theta, f, g = p.feasible(self.theta, self.f, self.g)
        value, bound = p.value(theta, f, g), p.lower_bound(self.x, self.q)
        return Solution(theta.copy(), value, bound, n_iter, False, "interior_point", certificate=self.x.copy())


def _balanced_start(p: LinearPrimal) -> np.ndarray:
    """Variables well inside their intervals that meet the equalities: every later point then does, too."""
    plus = p.y > 0
    left_out = np.zeros(p.n_weights) if p.outside is None else p.outside
    middle = np.minimum(p.tables[1], p.price)
    x = np.empty((p.n_kinds, p.n_examples))
    share = _shares(middle[plus].sum(), middle[~plus].sum(), -left_out[p.n_features])
    x[0] = np.where(plus, *share) * middle
    if p.n_kinds == 2:
        target = float(p.s @ x[0]) + left_out[-1]
        upper = p.tables[3]
        if np.any(np.isinf(p.tables[2])):
            x[1] = min(target / upper.sum(), 1.0 - ROOM) * upper
        else:
            x[1] = np.where(plus, *_shares(upper[plus].sum(), upper[~plus].sum(), target)) * upper
    return x


def _shares(plus: float, minus: float, target: float) -> tuple[float, float]:
    """Shares with ``first * plus - second * minus = target``, as near to a half as that allows; never 0 or 1."""
    first = second = 0.5
    for _ in range(2):
        excess = first * plus - second * minus - target
        first = float(np.clip(first - 0.5 * excess / max(plus, 1e-300), ROOM, 1.0 - ROOM))
        excess = first * plus - second * minus - target
        second = float(np.clip(second + excess / max(minus, 1e-300), ROOM, 1.0 - ROOM))
        excess = first * plus - second * minus - target
        first = float(np.clip(first - excess / max(plus, 1e-300), ROOM, 1.0 - ROOM))
    return first, second
