"""Primal-dual interior point for every KernelQP: a fixed, small number of steps whatever C, lam and kappa are."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError

from lupi.solution import Solution, out_of_time
from lupi.svm.kernel_qp import KernelQP
from lupi.svm.newton_systems import newton_system

MAX_STEPS = 100
# An iterate that is worse than the best one by this factor has lost its digits, and will not find them again.
LOST = 1e4

# Down to this relative gap directions in single precision do, of matrices with at least so many rows.
SINGLE_ENDS, LARGE = 1e-4, 500

# Changes of the variables, explicit weights, intercepts, and multipliers of the lower and upper bounds.
Direction = tuple[np.ndarray, dict[int, np.ndarray], np.ndarray, np.ndarray, np.ndarray]


def follow_central_path(
    problem: KernelQP, *, tol: float, max_iter: int, early: bool = False
) -> tuple[Solution, tuple[np.ndarray, np.ndarray]]:
    """Mehrotra's predictor-corrector method.

    Spaces with few explicit features cost O(n r^2) a step, others one factorization of an n x n matrix (2n x 2n where both
    spaces of a problem are known by their matrices only).

    Parameters
    ----------
    problem : KernelQP
    tol : float
        Relative duality gap at which to stop, at most 1e-6: the last digits cost one or two steps.
    max_iter : int
        Largest number of steps; -1 for the built-in limit.
    early : bool
        Stop at ``tol`` itself, whatever the residuals are: the point is worth little then, the bounds are.

    Returns
    -------
    solution : Solution
    active : pair of bool ndarray
        Variables that end at their lower and upper bound.
    """
    iterate = _Iterate(problem.merged())
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
    iterate.return_to_best()
    x = np.clip(iterate.x, problem.lower, problem.upper)
    biases = iterate.biases_of(problem)
    return Solution.certify(problem, x, steps, converged, "interior_point", biases), iterate.active_bounds()


class _Iterate:
    """Strictly interior point: variables, distances to the bounds with multipliers, explicit weights, intercepts."""

    def __init__(self, problem: KernelQP):
        self.problem = problem
        self.system = newton_system(problem)
        self.system.single = self.system.can_be_single and problem.n_examples >= LARGE
        self.has_lower, self.has_upper = np.isfinite(problem.lower), np.isfinite(problem.upper)
        lower = np.where(self.has_lower, problem.lower, 0.0)
        upper = np.where(self.has_upper, problem.upper, np.inf)
        self.x = np.minimum(lower + self._typical_size(), 0.5 * (lower + upper))
        # Distances are iterates of their own: C - x cancels to nothing at large C.
        self.below = np.where(self.has_lower, self.x - lower, 1.0)
        self.above = np.where(self.has_upper, problem.upper - self.x, 1.0)
        self.z_below = self.has_lower.astype(float)
        self.z_above = self.has_upper.astype(float)
        self.weights = {m: np.zeros(self.system.features[m].shape[1]) for m in self.system.features}
        self.biases = np.zeros(len(problem.spaces))
        force = max(1.0, float(np.max(np.abs(self._gradient(problem.expansions(self.x))))))
        self.z_below *= force
        self.z_above *= force
        self.stalled = self.lost = False
        self.gap = np.inf
        self.last_step = 1.0
        self.best_merit = np.inf
        self.best: dict[str, object] = {}

    def biases_of(self, problem: KernelQP) -> np.ndarray:
        """Intercepts in the order of the problem that was asked for (merging drops only spaces without one)."""
        out = np.zeros(len(problem.spaces))
        out[: len(self.biases)] = self.biases
        return out

    def active_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Which bounds hold with equality at the limit: those whose multiplier outweighs the distance."""
        width = np.where(self.has_lower & self.has_upper, self.below + self.above, np.inf)
        width = np.minimum(width, max(float(np.max(np.abs(self.x))), 1e-300))
        at_lower = self.has_lower & (self.below < self.z_below * width)
        at_upper = self.has_upper & (self.above < self.z_above * width) & ~at_lower
        return at_lower, at_upper

    def _typical_size(self) -> float:
        """Size that one variable would have if the others were 0."""
        curvature = [float(np.mean(space.diagonal())) for space in self.problem.spaces]
        ridge = float(np.mean(self.problem.ridge))
        size = 1.0 / max(max(curvature) + ridge, 1e-300)
        finite = self.problem.upper[self.has_upper]
        if self.problem.n_examples >= LARGE and self.system.can_be_single and len(finite):
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
        feature_residual = {m: self._feature_residual(m, betas[m], e[m]) for m in system.features}
        complementarity = float(self.z_below @ self.below) + float(self.z_above @ self.above)
        mu = complementarity / max(1, int(self.has_lower.sum() + self.has_upper.sum()))
        size = abs(float(problem.p @ self.x)) + 1e-300
        unmet = max((float(np.max(np.abs(v), initial=0.0)) for v in feature_residual.values()), default=0.0)
        scale = max(1.0, float(np.max(np.abs(self.x))))
        self._remember(
            max(complementarity / size, float(np.max(np.abs(r))), (unmet + float(np.max(np.abs(e)))) / scale)
        )
        self.gap = complementarity / size
        if self.gap <= SINGLE_ENDS:
            system.single = False
        if (
            complementarity <= goal * size
            and np.max(np.abs(r)) <= 1e-7
            and np.max(np.abs(e)) <= 1e-9 * scale * np.sqrt(len(self.x))
            and unmet <= 1e-7 * scale
        ):
            return True
        D = problem.ridge + self.z_below / self.below + self.z_above / self.above
        system.factorize(np.maximum(D, 1e-300))
        affine = self._direction(r, feature_residual, e, -self.z_below * self.below, -self.z_above * self.above)
        length = self._room(affine)
        dx, dzl, dzu = affine[0], affine[3], affine[4]
        reached = float((self.z_below + length * dzl) @ (self.below + length * np.where(self.has_lower, dx, 0.0)))
        reached += float((self.z_above + length * dzu) @ (self.above - length * np.where(self.has_upper, dx, 0.0)))
        center = (max(reached, 0.0) / complementarity) ** 3 * mu if complementarity > 0 else 0.0
        direction = self._direction(
            r,
            feature_residual,
            e,
            np.where(self.has_lower, center - self.z_below * self.below - dzl * dx, 0.0),
            np.where(self.has_upper, center - self.z_above * self.above + dzu * dx, 0.0),
        )
        length = min(1.0, 0.995 * self._room(direction))
        self._move(direction, length)
        self.stalled = self.lost or (length < 1e-10 and self.last_step < 1e-10)
        self.last_step = length
        return False

    def _remember(self, merit: float) -> None:
        """Keep the best iterate so far; out of digits, the next ones may be far worse."""
        if merit < self.best_merit:
            self.best_merit = merit
            self.best = {"x": self.x, "below": self.below, "above": self.above, "biases": self.biases}
            self.best |= {"z_below": self.z_below, "z_above": self.z_above, "weights": dict(self.weights)}
        self.lost = merit > LOST * self.best_merit

    def return_to_best(self) -> None:
        """Go back to the best iterate."""
        vars(self).update(self.best)

    def _feature_residual(self, m: int, beta: np.ndarray, e: float) -> np.ndarray:
        features, weights = self.system.features[m], self.weights[m]
        residual: np.ndarray = features.T @ beta - weights
        if self.problem.spaces[m].bias:
            residual[-1] = -e
        return residual

    def _direction(
        self,
        r: np.ndarray,
        feature_residual: dict[int, np.ndarray],
        e: np.ndarray,
        target_below: np.ndarray,
        target_above: np.ndarray,
    ) -> Direction:
        """Newton direction towards complementarity products that differ from the current ones by the targets."""
        rhs = r + target_below / self.below - target_above / self.above
        dx, weights, biases = self.system.solve(rhs, feature_residual, e)
        dzl = np.where(self.has_lower, (target_below - self.z_below * dx) / self.below, 0.0)
        dzu = np.where(self.has_upper, (target_above + self.z_above * dx) / self.above, 0.0)
        return dx, weights, biases, dzl, dzu

    def _room(self, direction: Direction) -> float:
        """Longest step that keeps every distance and multiplier positive."""
        dx, _, _, dzl, dzu = direction
        room = 1.0
        for value, change in (
            (self.below, np.where(self.has_lower, dx, 0.0)),
            (self.above, np.where(self.has_upper, -dx, 0.0)),
            (self.z_below, dzl),
            (self.z_above, dzu),
        ):
            falling = change < 0
            if falling.any():
                room = min(room, float(np.min(-value[falling] / change[falling])))
        return room

    def _move(self, direction: Direction, length: float) -> None:
        dx, weights, biases, dzl, dzu = direction
        self.x = self.x + length * dx
        self.below = self.below + length * np.where(self.has_lower, dx, 0.0)
        self.above = self.above - length * np.where(self.has_upper, dx, 0.0)
        self.z_below = self.z_below + length * dzl
        self.z_above = self.z_above + length * dzu
        for m, change in weights.items():
            self.weights[m] = self.weights[m] + length * change
        self.biases = self.biases + length * biases
