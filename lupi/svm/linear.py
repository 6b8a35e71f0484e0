r"""SVM, SVM+ and SVM2+ with linear kernels in both spaces, as problems over the weights: no matrix over the examples.

With :math:`\theta = (w, b, w^*, b^*)`, :math:`f = Xw + b` and :math:`g = Zw^* + b^*` every one of them reads

.. math:: \min_\theta\; \tfrac12 \theta' A \theta - q_0'\theta + \sum_i h_{a,i}(1 - y_i f_i - s_i g_i) + h_{d,i}(s_i g_i),

where h is a hinge, a squared hinge or a constraint of the slack, s is 1 (slack), y (labeled) or
0 (no privileged row), and A is the identity on w, lam on w* and 0 on intercepts without a norm. SVM2+ has no d: its
:math:`C_i g_i^2 / 2` is quadratic and belongs to A. The dual of the same problem is

.. math:: \max_{a, d}\; 1'a - \tfrac12 \sum_i r_i a_i^2 - \tfrac12 q' A^+ q, \qquad q = q_0 + [X, 1]'\beta + [Z, 1]'\eta,
          \quad \beta = y \circ a,\; \eta = s \circ (a - d),

with q = 0 on the intercepts without a norm. The vector :math:`q_0` stands for examples whose variables are fixed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from lupi.inputs.training_set import take_values
from lupi.solution import Solution, out_of_time
from lupi.svm.feature_products import both_times, both_transposed_times, second_moment
from lupi.svm.kernel_qp import MARGIN, BoundedVariables, Expansion, largest_move

# Sums over the examples that are 0 at a feasible point carry rounding errors of this size, relative to their terms.
SUM_TOLERANCE = 1e-9
# Decisions that differ by no more than this, where the margin is 1, are the same.
FLAT = 1e-2


@dataclass(frozen=True)
class LinearPrimal(BoundedVariables):
    """One binary problem over the weights; the arrays of dual variables have a row for a and, with hinges, one for d."""

    X: Any  # ndarray, CSR matrix or DaskRows, in single or double precision
    Z: Any  # the same, or None; rows of examples with s = 0 do not count
    y: np.ndarray  # labels -1 and 1
    s: np.ndarray  # signs of the correcting function
    C: np.ndarray  # of every example: the usual size of its variables
    lam: float  # weight of the correcting function's norm
    lower: np.ndarray
    upper: np.ndarray
    ridge: np.ndarray
    outside: np.ndarray  # the vector q_0
    gained: float = 0.0  # part of the fixed examples in 1'a
    moment: Any = None  # [Z, 1]' diag(C) [Z, 1] for squared losses
    _last: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    family: ClassVar[str] = "linear"

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(self.y)

    @property
    def n_features(self) -> int:
        """Number of decision features."""
        return int(self.X.shape[1])

    @property
    def n_weights(self) -> int:
        """Length of theta: both functions' weights and intercepts."""
        return len(self.outside)

    @property
    def smooth(self) -> bool:
        """Whether every loss has a continuous derivative."""
        return bool(np.all(self.ridge > 0))

    @property
    def p(self) -> np.ndarray:
        """The slacks at theta = 0: 1 for a, 0 for d."""
        return np.array([[1.0], [0.0]])[: len(self.lower)]

    @cached_property
    def privileged_metric(self) -> np.ndarray:
        """Block of A over (w*, b*)."""
        out = self.lam * np.eye(self.n_weights - self.n_features - 1)
        if self.moment is not None:
            return np.asarray(out + self.moment)
        out[-1:, -1:] = 0.0
        return out

    @cached_property
    def _factor(self) -> Any:
        return cho_factor(self.privileged_metric, lower=True)

    def split(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(w, b) and (w*, b*)."""
        return theta[: self.n_features + 1], theta[self.n_features + 1 :]

    def fields(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values f and g on the examples; the last ones are kept, because they may take a pass over all chunks."""
        if not np.array_equal(theta, self._last.get("theta", ())):
            self._last.update(theta=theta.copy(), values=both_times(self.X, self.Z, *self.split(theta)))
        f, g = self._last["values"]
        return f, g

    def changes(self, theta: np.ndarray) -> np.ndarray:
        """Changes of the slacks with theta: -y f - s g of a and s g of d."""
        f, g = self.fields(theta)
        return np.stack([-self.y * f - self.s * g, self.s * g][: len(self.lower)])

    def slacks(self, theta: np.ndarray) -> np.ndarray:
        """Slacks to which the dual variables belong."""
        return self.p + self.changes(theta)

    def coefficients(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients beta and eta of dual variables."""
        return self.y * x[0], self.s * (x[0] - x[1] if len(x) > 1 else x[0])

    def adjoint(self, x: np.ndarray) -> np.ndarray:
        """The vector q of dual variables without q_0."""
        return both_transposed_times(self.X, self.Z, *self.coefficients(x))

    def metric(self, theta: np.ndarray) -> np.ndarray:
        """A theta."""
        decision, privileged = self.split(theta)
        return np.concatenate([decision[:-1], [0.0], self.privileged_metric @ privileged])

    def inverse_metric(self, q: np.ndarray) -> np.ndarray:
        """Pseudo-inverse of A times q."""
        decision, privileged = self.split(q)
        if self.moment is not None:
            rest = cho_solve(self._factor, privileged)
        else:
            rest = privileged / self.lam
            rest[-1:] = 0.0
        return np.concatenate([decision[:-1], [0.0], rest])

    def lower_bound(self, x: np.ndarray, q: np.ndarray) -> float:
        """Dual value of feasible variables x with their vector q; -inf where a sum that must be 0 is not."""
        sums = q[self.n_features], q[-1]
        outside = float(np.max(np.abs(self.outside)))
        # Without d, the second intercept has a norm or does not exist.
        for total, terms in list(zip(sums, self.coefficients(x)))[: len(x)]:
            if abs(total) > SUM_TOLERANCE * (1.0 + outside + np.abs(terms).sum()):
                return -np.inf
        linear = float(x[0].sum()) + self.gained
        return linear - 0.5 * float(np.vdot(self.ridge, x * x)) - 0.5 * float(q @ self.inverse_metric(q))

    def value(self, theta: np.ndarray, slack: np.ndarray) -> float:
        """Primal value at theta; fixed examples count by their linear part."""
        norm = 0.5 * float(theta @ self.metric(theta))
        return float(self.loss(slack).sum()) + norm + self.gained - float(self.outside @ theta)

    def feasible(self, theta: np.ndarray, slack: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Meet the constraints that allow no slack: raise b*, or with the labeled correction stretch theta."""
        above, below = self.hard
        missed = max(np.max(slack[above], initial=0.0), np.max(-slack[below], initial=0.0))
        if missed <= 0:
            return theta, slack
        if np.all(self.s[np.any(above | below, axis=0)] == 1.0):
            step = missed + MARGIN * (1.0 + float(np.max(np.abs(slack[0]))))
            raised = theta.copy()
            raised[-1] += step
            return raised, slack + step * np.stack([-self.s, self.s][: len(slack)])
        reached = float(np.min((1.0 - slack)[above]))
        stretch = (1.0 + MARGIN) / reached if reached > 0 else 1.0
        return stretch * theta, self.p + stretch * (slack - self.p)

    def violation(self, x: np.ndarray, slack: np.ndarray) -> float:
        """Largest violation of the optimality conditions, as in :meth:`KernelQP.violation`."""
        return 2.0 * max(map(largest_move, x, slack - self.ridge * x, self.lower, self.upper))

    def decision(self, solution: Solution) -> Expansion:
        """The decision function: its weights, and coefficients over the examples that carry it."""
        x, weights = solution.certificate, self.split(solution.point)[0]
        # Interior points keep every variable off its bounds; one whose slope outweighs it is on its way to 0.
        carried = x[0] > -self.C * self.slacks(solution.point)[0]
        return Expansion(np.where(carried, self.coefficients(x)[0], 0.0), float(weights[-1]), weights[:-1])

    def privileged(self, solution: Solution) -> Expansion:
        """The correcting function: its weights, and coefficients over the examples."""
        weights = self.split(solution.point)[1]
        eta = self.coefficients(solution.certificate)[1]
        if self.moment is not None:
            eta = eta - self.C * np.abs(self.s) * self.fields(solution.point)[1]
        return Expansion(eta / self.lam, float(weights[-1]), weights[:-1])

    def collapsed(self, solution: Solution) -> bool:
        """Whether the correcting function explains everything: w = 0, the same decision for every example."""
        w = self.split(solution.point)[0][:-1]
        small = float(w @ w) <= 2.0 * max(solution.gap, 1e-10) * abs(solution.objective)
        return self.Z is not None and small and float(np.ptp(self.fields(solution.point)[0])) <= FLAT

    def diverges(self, theta: np.ndarray) -> bool:
        """Whether no theta meets the constraints that allow no slack: the labeled correction, not separable."""
        above = self.hard[0][0]
        if np.all(self.s[above] == 1.0):
            return False
        return bool(np.max(self.slacks(theta)[0][above]) >= 1.0)

    def rows(
        self, index: np.ndarray, *, outside: np.ndarray | None = None, gained: float = 0.0, weight: float = 1.0
    ) -> LinearPrimal:
        """The problem of some of the examples, each counted ``weight`` times; fixed others enter by ``outside``."""
        X, Z = take_values(self.X, self.Z, index)
        return replace(
            self,
            X=X,
            Z=Z,
            y=self.y[index],
            s=self.s[index],
            C=self.C[index] * weight,
            lower=self.lower[:, index] * weight,
            upper=self.upper[:, index] * weight,
            ridge=self.ridge[:, index] / weight,
            outside=np.zeros(self.n_weights) if outside is None else outside,
            gained=gained,
        )


class LinearIterate(Protocol):
    """Current point of a solver over the weights."""

    moving: bool
    theta: np.ndarray
    slack: np.ndarray
    x: np.ndarray
    q: np.ndarray

    def advance(self) -> None:
        """One step."""


def best_iterate(
    problem: LinearPrimal, iterate: LinearIterate, solver: str, *, tol: float, max_iter: int, most_steps: int
) -> Solution:
    """Advance to the relative gap `tol`; the best point are the weights, its certificate the dual variables."""
    limit = most_steps if max_iter < 0 else min(max_iter, most_steps)
    steps, best = 0, _certified(problem, iterate, solver)
    while steps < limit and best.gap > tol and iterate.moving and not out_of_time():
        steps += 1
        try:
            iterate.advance()
        except LinAlgError:
            break
        found = _certified(problem, iterate, solver)
        best = found if (found.gap, -found.lower_bound) <= (best.gap, -best.lower_bound) else best
    violation = problem.violation(best.certificate, problem.slacks(best.point))
    return replace(best, n_iter=steps, violation=violation, converged=best.gap <= tol)


def _certified(problem: LinearPrimal, iterate: LinearIterate, solver: str) -> Solution:
    theta, slack = problem.feasible(iterate.theta, iterate.slack)
    bound = problem.lower_bound(iterate.x, iterate.q)
    return Solution(theta, problem.value(theta, slack), bound, 0, False, solver, certificate=iterate.x)


def linear_problems(
    X: Any,
    Z: Any,
    signs: list[np.ndarray],
    C: np.ndarray,
    lam: float,
    kappa: float,
    labeled: bool,
    available: np.ndarray,
    *,
    squared: bool,
) -> list[LinearPrimal]:
    """SVM+ or SVM2+ (``squared``) of every class against the others; without a table Z the C-SVM or the L2-SVM."""
    n, moment = len(C), None
    if squared:
        lower, upper = np.zeros((1, n)), np.full((1, n), np.inf)
        ridge = (np.where(available, 1.0 / kappa, 1.0) / C)[None]
        moment = None if Z is None else second_moment(Z, np.where(available, C, 0.0))
    else:
        kinds = 1 if Z is None else 2
        lower = np.stack([np.zeros(n), np.where(available & (not labeled), -np.inf, 0.0)])[:kinds]
        upper = np.stack([np.where(available, kappa, 1.0) * C, np.where(available, C, 0.0)])[:kinds]
        ridge = np.zeros((kinds, n))
    outside = np.zeros(X.shape[1] + 1 + (0 if Z is None else Z.shape[1] + 1))
    return [
        LinearPrimal(
            X,
            Z,
            y,
            np.where(available, y if labeled else 1.0, 0.0),
            C,
            lam,
            lower,
            upper,
            ridge,
            outside,
            moment=moment,
        )
        for y in signs
    ]
