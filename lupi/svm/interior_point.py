"""Primal-dual interior points: a fixed, small number of steps whatever C, lam and kappa are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from lupi.solution import Solution, out_of_time
from lupi.svm.kernel_qp import KernelQP
from lupi.svm.linear import LinearPrimal, best_iterate
from lupi.svm.linear_systems import FactorizedSystem
from lupi.svm.systems import newton_system

MAX_STEPS = 100
# An iterate may come this close to its bounds in one step, as a share of the distance.
ALMOST = 0.995
# Shorter steps lead nowhere.
SHORTEST = 1e-10
# An iterate that is worse than the best one by this factor has lost its digits.
WORSE = 1e4
# Directions in single precision suffice down to this relative gap, for matrices with at least this many rows.
SINGLE_ENDS, LARGE = 1e-4, 500
# The first iterate of a linear problem keeps this share of every interval free on both sides.
ROOM = 0.02


def follow_central_path(
    problem: KernelQP, *, tol: float, max_iter: int, early: bool = False
) -> tuple[Solution, tuple[np.ndarray, np.ndarray]]:
    """Mehrotra's predictor-corrector method over the dual variables.

    Spaces with few explicit features cost O(n r^2) per step, others one factorization of an n x n matrix (2n x 2n where both
    spaces of a problem are known by their matrices only).

    Stops at the relative gap ``tol``, at most 1e-6; with ``early`` at ``tol`` itself, whatever the residuals are, because only
    the active bounds are needed. Returns the solution, and the variables that end at their lower and upper bound.
    """
    iterate = _KernelIterate(problem.merged())
    limit = MAX_STEPS if max_iter < 0 else min(max_iter, MAX_STEPS)
    goal = min(tol, 1e-6) * 1e-3
    converged = False
    steps = 0
    while steps < limit and not converged and not iterate.stalled and not out_of_time():
        steps += 1
        try:
            converged = iterate.advance(goal)
        except LinAlgError:
            if not iterate.system.single:
                break
            iterate.system.single = False
        if early and iterate.gap <= tol:
            break
    vars(iterate).update(iterate.best)
    x = np.clip(iterate.x, problem.lower, problem.upper)
    # Merging drops only spaces without an intercept.
    biases = np.zeros(len(problem.spaces))
    biases[: len(iterate.biases)] = iterate.biases
    return problem.solution(x, steps, converged, "interior_point", biases), iterate.active_bounds()


def solve_weights(problem: LinearPrimal, *, tol: float = 1e-3, max_iter: int = -1) -> Solution:
    """The same method over the weights of a linear problem: a step solves one system of their number.

    Stops at the relative gap ``tol``; see :func:`best_iterate`.
    """
    iterate = _LinearIterate(problem)
    return best_iterate(problem, iterate, "interior_point", tol=tol, max_iter=max_iter, most_steps=MAX_STEPS)


class _Iterate:
    """Variables strictly inside their bounds, with distances and multipliers.

    Distances are iterates of their own: C - x cancels to nothing at large C. Variables without a bound, or that cannot
    move, have a distance of 1 and no multiplier.
    """

    def __init__(self, x: np.ndarray, lower: np.ndarray, upper: np.ndarray):
        self.x = x
        moving = upper > lower
        self.has_lower, self.has_upper = np.isfinite(lower) & moving, np.isfinite(upper) & moving
        with np.errstate(invalid="ignore"):
            self.below = np.where(self.has_lower, x - lower, 1.0)
            self.above = np.where(self.has_upper, upper - x, 1.0)
        self.z_below, self.z_above = self.has_lower.astype(float), self.has_upper.astype(float)
        self.count = max(1, int(self.has_lower.sum() + self.has_upper.sum()))

    @property
    def complementarity(self) -> float:
        """The gap that a feasible point would have."""
        return float(np.vdot(self.z_below, self.below) + np.vdot(self.z_above, self.above))

    def step(self, newton: Callable[[np.ndarray], tuple[np.ndarray, Any]]) -> tuple[float, Any]:
        """One predictor-corrector step; returns its length, and the changes of all else.

        ``newton`` maps a change of the gradient to the change of x and of everything that depends on it.
        """
        total = self.complementarity
        below, above = -self.z_below * self.below, -self.z_above * self.above
        dx, dzl, dzu, _ = self._direction(newton, below, above)
        length = self._room(dx, dzl, dzu)
        reached = float(np.vdot(self.z_below + length * dzl, self.below + length * dx * self.has_lower))
        reached += float(np.vdot(self.z_above + length * dzu, self.above - length * dx * self.has_upper))
        center = (max(reached, 0.0) / total) ** 3 * total / self.count if total > 0 else 0.0
        below += np.where(self.has_lower, center - dzl * dx, 0.0)
        above += np.where(self.has_upper, center + dzu * dx, 0.0)
        dx, dzl, dzu, others = self._direction(newton, below, above)
        length = min(1.0, ALMOST * self._room(dx, dzl, dzu))
        self.x = self.x + length * dx
        self.below = self.below + length * dx * self.has_lower
        self.above = self.above - length * dx * self.has_upper
        self.z_below = self.z_below + length * dzl
        self.z_above = self.z_above + length * dzu
        return length, others

    def _direction(
        self, newton: Callable[[np.ndarray], tuple[np.ndarray, Any]], below: np.ndarray, above: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, Any]:
        """Newton direction towards complementarity products that differ from the current ones by these amounts."""
        dx, others = newton(below / self.below - above / self.above)
        dzl = np.where(self.has_lower, (below - self.z_below * dx) / self.below, 0.0)
        dzu = np.where(self.has_upper, (above + self.z_above * dx) / self.above, 0.0)
        return dx, dzl, dzu, others

    def _room(self, dx: np.ndarray, dzl: np.ndarray, dzu: np.ndarray) -> float:
        """Longest step that keeps every distance and multiplier positive."""
        steepest = 1.0
        pairs = (
            (self.below, dx * self.has_lower),
            (self.above, -dx * self.has_upper),
            (self.z_below, dzl),
            (self.z_above, dzu),
        )
        for value, change in pairs:
            with np.errstate(divide="ignore", invalid="ignore"):
                steepest = max(steepest, float(np.max(np.where(value > 0, -change / value, 0.0), initial=0.0)))
        return 1.0 / steepest


class _KernelIterate(_Iterate):
    """Iterate of a KernelQP, with the weights of spaces that have explicit features, and the intercepts."""

    def __init__(self, problem: KernelQP):
        self.problem = problem
        self.system = newton_system(problem)
        self.system.single = self.system.can_be_single and problem.n_examples >= LARGE
        lower = np.where(np.isfinite(problem.lower), problem.lower, 0.0)
        upper = np.where(np.isfinite(problem.upper), problem.upper, np.inf)
        start = np.minimum(lower + self._typical_size(), 0.5 * (lower + upper))
        super().__init__(start, problem.lower, problem.upper)
        self.weights = {m: np.zeros(features.shape[1]) for m, features in self.system.features.items()}
        self.biases = np.zeros(len(problem.spaces))
        force = max(1.0, float(np.max(np.abs(self._gradient(problem.expansions(self.x))))))
        self.z_below *= force
        self.z_above *= force
        self.stalled = False
        self.gap = self.best_merit = np.inf
        self.last_step = 1.0
        self.best: dict[str, object] = {}

    def active_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Which bounds hold with equality at the limit: those whose multiplier outweighs the distance."""
        width = np.where(self.has_lower & self.has_upper, self.below + self.above, np.inf)
        width = np.minimum(width, max(float(np.max(np.abs(self.x))), 1e-300))
        at_lower = self.has_lower & (self.below < self.z_below * width)
        at_upper = self.has_upper & (self.above < self.z_above * width) & ~at_lower
        return at_lower, at_upper

    def _typical_size(self) -> float:
        """Size that one variable would have if the others were 0."""
        problem = self.problem
        curvature = max(float(np.mean(space.diagonal())) for space in problem.spaces)
        size = 1.0 / max(curvature + float(np.mean(problem.ridge)), 1e-300)
        finite = problem.upper[np.isfinite(problem.upper)]
        if problem.n_examples >= LARGE and self.system.can_be_single and len(finite):
            # Both spaces' shares of the first point cancel in the one that is curved most.
            return float(min(10.0 * size, 0.1 * np.median(finite)))
        return float(min(size, np.median(finite))) if len(finite) else size

    def _gradient(self, betas: list[np.ndarray]) -> np.ndarray:
        """Derivative of the dual value with the intercepts' terms, at the current weights of explicit features."""
        problem = self.problem
        value: np.ndarray = problem.p - problem.ridge * self.x
        for m, (space, c) in enumerate(zip(problem.spaces, problem.coef)):
            if m in self.weights:
                field = self.system.features[m] @ self.weights[m]
            else:
                field = space.product(betas[m]) + self.biases[m]
            value -= c * field[problem.example]
        return value

    def advance(self, goal: float) -> bool:
        """One predictor-corrector step; True when the point was already good enough."""
        problem, system = self.problem, self.system
        betas = problem.expansions(self.x)
        r = self._gradient(betas) + self.z_below - self.z_above
        e = np.array([t - beta.sum() if s.bias else 0.0 for s, t, beta in zip(problem.spaces, problem.total, betas)])
        residuals = {m: self._feature_residual(m, betas[m], e[m]) for m in system.features}
        size = abs(float(problem.p @ self.x)) + 1e-300
        self.gap = self.complementarity / size
        scale = max(1.0, float(np.max(np.abs(self.x))))
        steepest, uneven = float(np.max(np.abs(r))), float(np.max(np.abs(e)))
        unmet = max((float(np.max(np.abs(v), initial=0.0)) for v in residuals.values()), default=0.0)
        lost = self._remember(max(self.gap, steepest, (unmet + uneven) / scale))
        if self.gap <= SINGLE_ENDS:
            system.single = False
        met = steepest <= 1e-7 and uneven <= 1e-9 * scale * np.sqrt(len(self.x)) and unmet <= 1e-7 * scale
        if self.gap <= goal and met:
            return True
        D = problem.ridge + self.z_below / self.below + self.z_above / self.above
        system.factorize(np.maximum(D, 1e-300))

        def newton(change: np.ndarray) -> tuple[np.ndarray, Any]:
            dx, weights, biases = system.solve(r + change, residuals, e)
            return dx, (weights, biases)

        length, (weights, biases) = self.step(newton)
        for m, change in weights.items():
            self.weights[m] = self.weights[m] + length * change
        self.biases = self.biases + length * biases
        self.stalled = lost or (length < SHORTEST and self.last_step < SHORTEST)
        self.last_step = length
        return False

    def _remember(self, merit: float) -> bool:
        """Keep the best iterate so far; whether this one is out of digits."""
        if merit < self.best_merit:
            self.best_merit = merit
            names = ("x", "below", "above", "biases", "z_below", "z_above")
            self.best = {name: getattr(self, name) for name in names} | {"weights": dict(self.weights)}
        return merit > WORSE * self.best_merit

    def _feature_residual(self, m: int, beta: np.ndarray, e: float) -> np.ndarray:
        residual: np.ndarray = self.system.features[m].T @ beta - self.weights[m]
        if self.problem.spaces[m].bias:
            residual[-1] = -e
        return residual


class _LinearIterate(_Iterate):
    """Iterate of a linear problem, with its weights and slacks."""

    def __init__(self, problem: LinearPrimal):
        p = self.problem = problem
        self.system, self.moving = FactorizedSystem(p), True
        super().__init__(_balanced_start(p), p.lower, p.upper)
        self.theta = np.zeros(p.n_weights)
        self.slack = np.tile(p.p, p.n_examples)
        self.q = p.outside + p.adjoint(self.x)

    def advance(self) -> None:
        """One predictor-corrector step."""
        p = self.problem
        unmet = p.metric(self.theta) - self.q
        r = self.slack - p.ridge * self.x + self.z_below - self.z_above
        D = p.ridge + self.z_below / self.below + self.z_above / self.above
        D[p.lower == p.upper] = np.inf
        self.system.factorize(1.0 / D)

        def newton(change: np.ndarray) -> tuple[np.ndarray, Any]:
            dx = (r + change) / D
            theta = self.system.solve(p.adjoint(dx) - unmet)
            slack = p.changes(theta)
            return dx + slack / D, (theta, slack)

        length, (theta, slack) = self.step(newton)
        self.q = self.q + length * (p.metric(theta) + unmet)
        self.theta = self.theta + length * theta
        self.slack = self.slack + length * slack
        self.moving = length >= SHORTEST and bool(np.isfinite(self.complementarity))


def _balanced_start(p: LinearPrimal) -> np.ndarray:
    """Variables well inside their intervals that meet the equalities: every later point then does, too."""
    plus = p.y > 0
    middle = np.minimum(p.upper[0], p.C)
    share = _shares(middle[plus].sum(), middle[~plus].sum(), -p.outside[p.n_features])
    x = np.empty_like(p.lower)
    x[0] = np.where(plus, *share) * middle
    if len(x) == 2:
        target = float(p.s @ x[0]) + p.outside[-1]
        upper = p.upper[1]
        if np.any(np.isinf(p.lower[1])):
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
