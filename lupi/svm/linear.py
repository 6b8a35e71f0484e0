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

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from lupi.inputs import is_resident, take_values
from lupi.svm.feature_products import both_times, both_transposed_times, second_moment
from lupi.svm.kernel_qp import MARGIN, Expansion, largest_move

# Sums over the examples that are 0 at a feasible point carry rounding errors of this size, relative to their terms.
SUM_TOLERANCE = 1e-9
# Decisions that differ by no more than this, where the margin is 1, are the same.
FLAT = 1e-2


@dataclass(frozen=True)
class LinearPrimal:
    """One binary problem over the weights.

    Parameters
    ----------
    X : ndarray, csr matrix or DaskRows of shape (n, n_features)
        Decision features, in single or double precision.
    Z : ndarray, csr matrix or DaskRows of shape (n, n_privileged), or None
        Privileged features; rows of examples without them are not read.
    y, s : ndarray of shape (n,)
        Labels -1 and 1, and signs of the correcting function.
    tables : ndarray of shape (4, n)
        Of a: ridge and upper bound. Of d: lower and upper bound.
    price : ndarray of shape (n,)
        C of every example: the usual size of its variables.
    lam : float
        Weight of the correcting function's norm.
    moment : array-like of shape (n_privileged + 1, n_privileged + 1) or None
        [Z, 1]' diag(C) [Z, 1] for the squared losses; None for hinges.
    outside : ndarray of shape (n_features + n_privileged + 2,), optional
        The vector q_0 of examples that are left out.
    gained : float
        Their part of 1'a.
    """

    X: Any
    Z: Any
    y: np.ndarray
    s: np.ndarray
    tables: np.ndarray
    price: np.ndarray
    lam: float
    moment: Any = None
    outside: np.ndarray | None = None
    gained: float = 0.0

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
    def n_privileged(self) -> int:
        """Number of privileged features."""
        return 0 if self.Z is None else int(self.Z.shape[1])

    @property
    def n_weights(self) -> int:
        """Length of theta: both functions' weights and intercepts."""
        return self.n_features + 1 + (self.n_privileged + 1 if self.Z is not None else 0)

    @property
    def n_kinds(self) -> int:
        """Dual variables of an example: a, and d where the correcting function is paid for by hinges."""
        return 2 if self.Z is not None and self.moment is None else 1

    @property
    def smooth(self) -> bool:
        """Whether every loss has a continuous derivative."""
        return self.n_kinds == 1 and bool(np.all(self.tables[0] > 0))

    @cached_property
    def hard(self) -> tuple[np.ndarray, np.ndarray]:
        """Examples whose a and whose d is without a bound: their constraints allow no slack."""
        below = np.isinf(self.tables[2]) if self.n_kinds == 2 else np.zeros(self.n_examples, dtype=bool)
        return np.isinf(self.tables[1]) & (self.tables[0] == 0), below

    @cached_property
    def privileged_metric(self) -> np.ndarray:
        """Block of A over (w*, b*)."""
        size = self.n_privileged + 1
        out = self.lam * np.eye(size)
        if self.moment is None:
            out[-1, -1] = 0.0
        else:
            out += self.moment
        return out

    @cached_property
    def _factor(self) -> Any:
        return cho_factor(self.privileged_metric, lower=True)

    def split(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(w, b) and (w*, b*)."""
        return theta[: self.n_features + 1], theta[self.n_features + 1 :]

    def fields(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values f and g on the examples."""
        if is_resident(self.X):
            return both_times(self.X, self.Z, *self.split(theta))
        # A pass over all blocks: the values at the solution are asked for several times.
        if self._last.get("theta") != theta.tobytes():
            self._last.update(theta=theta.tobytes(), values=both_times(self.X, self.Z, *self.split(theta)))
        f, g = self._last["values"]
        return f.copy(), g.copy()

    @cached_property
    def _last(self) -> dict[str, Any]:
        return {}

    def adjoint(self, beta: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """The vector q of coefficients over the examples, with what is left out."""
        q = both_transposed_times(self.X, self.Z, beta, eta)
        return q if self.outside is None else q + self.outside

    def adjoint_of(self, x: np.ndarray) -> np.ndarray:
        """The vector q of a change of the dual variables: nothing is left out of it."""
        q = self.adjoint(*self.coefficients(x))
        return q if self.outside is None else q - self.outside

    def coefficients(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients beta and eta of dual variables, of shape (n_kinds, n)."""
        return self.y * x[0], self.s * (x[0] - x[1] if len(x) > 1 else x[0])

    def metric(self, theta: np.ndarray) -> np.ndarray:
        """A theta."""
        decision, privileged = self.split(theta)
        out = decision.copy()
        out[-1] = 0.0
        return out if self.Z is None else np.concatenate([out, self.privileged_metric @ privileged])

    def inverse_metric(self, q: np.ndarray) -> np.ndarray:
        """Pseudo-inverse of A times q."""
        decision, privileged = self.split(q)
        out = decision.copy()
        out[-1] = 0.0
        if self.Z is None:
            return out
        if self.moment is not None:
            return np.concatenate([out, cho_solve(self._factor, privileged)])
        rest = privileged / self.lam
        rest[-1] = 0.0
        return np.concatenate([out, rest])

    def lower_bound(self, x: np.ndarray, q: np.ndarray) -> float:
        """Dual value of feasible variables x with their vector q; -inf where a sum that must be 0 is not."""
        beta, eta = self.coefficients(x)
        sums = [(q[self.n_features], beta)] + ([(q[-1], eta)] if self.n_kinds == 2 else [])
        outside = 0.0 if self.outside is None else float(np.max(np.abs(self.outside)))
        if any(abs(total) > SUM_TOLERANCE * (1.0 + outside + np.abs(terms).sum()) for total, terms in sums):
            return -np.inf
        linear = float(x[0].sum()) + self.gained
        return linear - 0.5 * float(self.tables[0] @ (x[0] * x[0])) - 0.5 * float(q @ self.inverse_metric(q))

    def value(self, theta: np.ndarray, f: np.ndarray, g: np.ndarray) -> float:
        """Primal value at theta; examples that are left out count by their linear part."""
        residual = 1.0 - self.y * f - self.s * g
        ridge, upper = self.tables[0], self.tables[1]
        over = np.maximum(residual, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            loss = np.where(ridge > 0, 0.5 * over * over / ridge, upper * over)
        total = float(np.where(over > 0, loss, 0.0).sum())
        if self.n_kinds == 2:
            own = self.s * g
            with np.errstate(invalid="ignore"):
                total += float(np.where(own == 0, 0.0, np.where(own > 0, self.tables[3], self.tables[2]) * own).sum())
        total += 0.5 * float(theta @ self.metric(theta)) + self.gained
        return total if self.outside is None else total - float(self.outside @ theta)

    def feasible(self, theta: np.ndarray, f: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Meet the constraints that allow no slack: raise b*, or with the labeled correction stretch theta."""
        above, below = self.hard
        residual = 1.0 - self.y * f - self.s * g
        missed = max(np.max(residual[above], initial=0.0), np.max(-(self.s * g)[below], initial=0.0))
        if missed <= 0:
            return theta, f, g
        if np.all(self.s[above | below] == 1.0):
            step = missed + MARGIN * (1.0 + float(np.max(np.abs(residual))))
            raised = theta.copy()
            raised[-1] += step
            return raised, f, g + step
        reached = float(np.min((1.0 - residual)[above]))
        stretch = (1.0 + MARGIN) / reached if reached > 0 else 1.0
        return stretch * theta, stretch * f, stretch * g

    def violation(self, x: np.ndarray, f: np.ndarray, g: np.ndarray) -> float:
        """How much the optimality conditions are violated, as in :meth:`KernelQP.violation`."""
        own = self.s * g
        slopes = [1.0 - self.y * f - own - self.tables[0] * x[0], own]
        ends = [(np.zeros(self.n_examples), self.tables[1]), (self.tables[2], self.tables[3])]
        moves = [largest_move(value, slope, low, high) for value, slope, (low, high) in zip(x, slopes, ends)]
        return 2.0 * max(moves)

    def decision(self, solution: Any) -> Expansion:
        """The decision function: its weights, and coefficients over the examples that carry it."""
        x, (f, g) = solution.certificate, self.fields(solution.point)
        # Interior points keep every variable off its bounds; one whose slope outweighs it is on its way to 0.
        carried = x[0] > self.price * (self.y * f + self.s * g - 1.0)
        weights = self.split(solution.point)[0]
        return Expansion(np.where(carried, self.coefficients(x)[0], 0.0), float(weights[-1]), weights[:-1])

    def privileged(self, solution: Any) -> Expansion:
        """The correcting function: its weights, and coefficients over the examples."""
        weights = self.split(solution.point)[1]
        eta = self.coefficients(solution.certificate)[1]
        if self.moment is not None:
            eta = eta - self.price * np.abs(self.s) * self.fields(solution.point)[1]
        return Expansion(eta / self.lam, float(weights[-1]), weights[:-1])

    def collapsed(self, solution: Any) -> bool:
        """Whether the correcting function pays for everything: w = 0, the same decision for every example."""
        w = self.split(solution.point)[0][:-1]
        small = float(w @ w) <= 2.0 * max(solution.gap, 1e-10) * abs(solution.objective)
        return self.Z is not None and small and float(np.ptp(self.fields(solution.point)[0])) <= FLAT

    def diverges(self, theta: np.ndarray) -> bool:
        """Whether no theta meets the constraints that allow no slack: the labeled correction, not separable."""
        above, _ = self.hard
        if not above.any() or np.all(self.s[above] == 1.0):
            return False
        f, g = self.fields(theta)
        return bool(np.min((self.y * f + self.s * g)[above]) <= 0)

    def rows(
        self, index: np.ndarray, *, outside: np.ndarray | None = None, gained: float = 0.0, weight: float = 1.0
    ) -> LinearPrimal:
        """The problem of some of the examples, each counted ``weight`` times; fixed others enter by ``outside``."""
        tables = self.tables[:, index]
        if weight != 1.0:
            tables[0] /= weight
            tables[1:] *= weight
        X, Z = take_values(self.X, self.Z, index)
        return replace(
            self,
            X=X,
            Z=Z,
            y=self.y[index],
            s=self.s[index],
            tables=tables,
            price=self.price[index] * weight,
            outside=outside,
            gained=gained,
        )


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
    """SVM+ or SVM2+ of every class against the others; what does not depend on the class is shared."""
    prices = C, lam, kappa, labeled, available
    if not squared:
        return [linear_svm_plus(X, Z, y, *prices) for y in signs]
    moment = None if Z is None else second_moment(Z, np.where(available, C, 0.0))
    return [linear_svm2_plus(X, Z, y, *prices, moment) for y in signs]


def linear_svm_plus(
    X: Any,
    Z: Any,
    y: np.ndarray,
    C: np.ndarray,
    lam: float,
    kappa: float,
    labeled: bool,
    available: np.ndarray,
) -> LinearPrimal:
    """SVM+ with hinge losses; without any privileged row (``Z=None``) the C-SVM."""
    s = np.where(available, y if labeled else 1.0, 0.0)
    upper = np.where(available, kappa, 1.0) * C
    tables = np.zeros((4, len(y)))
    tables[1] = upper
    tables[2] = np.where(available, 0.0 if labeled else -np.inf, 0.0)
    tables[3] = np.where(available, C, 0.0)
    return LinearPrimal(X, Z, y, s, tables, C, lam)


def linear_svm2_plus(
    X: Any,
    Z: Any,
    y: np.ndarray,
    C: np.ndarray,
    lam: float,
    kappa: float,
    labeled: bool,
    available: np.ndarray,
    moment: Any = None,
) -> LinearPrimal:
    """SVM2+; without any privileged row (``Z=None``) the L2-SVM. ``moment`` does not depend on y: classes can share it."""
    s = np.where(available, y if labeled else 1.0, 0.0)
    tables = np.zeros((4, len(y)))
    tables[0] = np.where(available, 1.0 / kappa, 1.0) / C
    tables[1] = np.inf
    if Z is not None and moment is None:
        moment = second_moment(Z, np.where(available, C, 0.0))
    return LinearPrimal(X, Z, y, s, tables, C, lam, moment)
