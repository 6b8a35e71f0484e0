r"""SVM, SVM+ and SVM2+ with linear kernels in both spaces, as problems over the weights: no matrix over the examples.

With :math:`\theta = (w, b, w^*, b^*)`, :math:`f = Xw + b` and :math:`g = Zw^* + b^*` every one of them reads

.. math:: \min_\theta\; \tfrac12 \theta' A \theta - q_0'\theta + \sum_i h_{a,i}(1 - y_i f_i - s_i g_i) + h_{d,i}(s_i g_i),

where h is a hinge, a squared hinge or a constraint (:mod:`lupi.problems.kernel.row_losses`), s is 1 (slack), y (labelled) or
0 (no privileged row), and A is the identity on w, lam on w* and 0 on intercepts without a norm. SVM2+ has no d: its
:math:`C_i g_i^2 / 2` is quadratic and belongs to A. The dual of the same problem is

.. math:: \max_{a, d}\; 1'a - \tfrac12 \sum_i r_i a_i^2 - \tfrac12 q' A^+ q, \qquad q = q_0 + [X, 1]'\beta + [Z, 1]'\eta,
          \quad \beta = y \circ a,\; \eta = s \circ (a - d),

with q = 0 on the intercepts without a norm. The vector :math:`q_0` stands for examples whose variables are fixed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve

# A constraint without slack is met with this much to spare: missing it by a rounding error would cost infinitely much.
MARGIN = 1e-13
# Rows of a block: large enough for BLAS, small enough for the cache.
BLOCK = 1024
# Sums over the examples that are 0 at a feasible point carry rounding errors of this size, relative to their terms.
ROUNDING = 1e-9


def times(data: Any, vector: np.ndarray) -> np.ndarray:
    """Rows times a vector; single precision rows are summed in double precision, block by block."""
    if sparse.issparse(data) or data.dtype == np.float64:
        return np.asarray(data @ vector)
    blocks = [data[i : i + BLOCK].astype(np.float64) @ vector for i in range(0, len(data), BLOCK)]
    return np.concatenate(blocks) if blocks else np.zeros(0)


def transposed_times(data: Any, vector: np.ndarray) -> np.ndarray:
    """Columns times a vector, in double precision."""
    if sparse.issparse(data) or data.dtype == np.float64:
        return np.asarray(data.T @ vector)
    out = np.zeros(data.shape[1])
    for i in range(0, len(data), BLOCK):
        out += vector[i : i + BLOCK] @ data[i : i + BLOCK].astype(np.float64)
    return out


def squares_times(data: Any, weight: np.ndarray) -> np.ndarray:
    """Sum of the squares of every column, each row counted with its weight."""
    if sparse.issparse(data):
        return np.asarray(data.power(2).T @ weight)
    out = np.zeros(data.shape[1])
    for i in range(0, len(data), BLOCK):
        out += weight[i : i + BLOCK] @ np.square(data[i : i + BLOCK], dtype=np.float64)
    return out


def second_moment(Z: Any, weight: np.ndarray) -> np.ndarray:
    """[Z, 1]' diag(weight) [Z, 1] without a second copy of Z.

    Examples
    --------
    >>> import numpy as np
    >>> second_moment(np.array([[1.0], [2.0]]), np.array([1.0, 2.0]))
    array([[9., 5.],
           [5., 3.]])
    """
    s = Z.shape[1]
    out = np.zeros((s + 1, s + 1))
    for i in range(0, Z.shape[0], BLOCK):
        rows, w = Z[i : i + BLOCK], weight[i : i + BLOCK]
        block = rows.toarray() if sparse.issparse(rows) else rows
        block = np.hstack([block, np.ones((len(w), 1))])
        out += (block * w[:, None]).T @ block
    return out


@dataclass(frozen=True)
class LinearPoint:
    """Weights with dual variables that certify them.

    Attributes
    ----------
    theta : ndarray
        (w, b, w*, b*), feasible.
    x : ndarray of shape (n_kinds, n)
        Dual variables, feasible.
    objective, lower_bound : float
        Primal value of theta and dual value of x.
    n_iter : int
        Steps of the solver.
    violation : float
        Of the optimality conditions.
    converged : bool
        Whether the gap is as small as was asked for.
    """

    theta: np.ndarray
    x: np.ndarray
    objective: float
    lower_bound: float
    n_iter: int
    violation: float = np.inf
    converged: bool = False

    @property
    def gap(self) -> float:
        """Relative duality gap."""
        size = max(abs(self.objective), abs(self.lower_bound))
        if not np.isfinite(size):
            return np.inf
        return (self.objective - self.lower_bound) / size if size > 0 else 0.0

    def finish(self, problem: LinearPrimal, n_iter: int, tol: float) -> LinearPoint:
        """The same after a last look: optimality conditions, and whether the gap is as small as asked."""
        f, g = problem.fields(self.theta)
        violation = problem.violation(self.x, f, g)
        return replace(self, n_iter=n_iter, violation=violation, converged=self.gap <= tol)


@dataclass(frozen=True)
class LinearPrimal:
    """One binary problem over the weights.

    Parameters
    ----------
    X : ndarray or csr matrix of shape (n, n_features)
        Decision features, in single or double precision.
    Z : ndarray or csr matrix of shape (n, n_privileged), or None
        Privileged features; rows of examples without them are not read.
    y, s : ndarray of shape (n,)
        Labels -1 and 1, and signs of the correcting function.
    tables : ndarray of shape (4, n)
        Of a: ridge and upper bound. Of d: lower and upper bound.
    price : ndarray of shape (n,)
        C of every example: the usual size of its variables.
    lam : float
        Weight of the correcting function's norm.
    moment : ndarray of shape (n_privileged + 1, n_privileged + 1) or None
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
    moment: np.ndarray | None = None
    outside: np.ndarray | None = None
    gained: float = 0.0

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
    def hard(self) -> bool:
        """Whether some slack is forbidden."""
        limits = np.any(np.isinf(self.tables[1]) & (self.tables[0] == 0))
        return bool(limits or (self.n_kinds == 2 and np.any(np.isinf(self.tables[2]))))

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
        decision, privileged = self.split(theta)
        f = times(self.X, decision[:-1]) + decision[-1]
        g = np.zeros(self.n_examples) if self.Z is None else times(self.Z, privileged[:-1]) + privileged[-1]
        return f, g

    def adjoint(self, beta: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """The vector q of coefficients over the examples, with what is left out."""
        parts = [transposed_times(self.X, beta), [beta.sum()]]
        if self.Z is not None:
            parts += [transposed_times(self.Z, eta), [eta.sum()]]
        q = np.concatenate(parts)
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
        if any(abs(total) > ROUNDING * (1.0 + outside + np.abs(terms).sum()) for total, terms in sums):
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

    def feasible(
        self, theta: np.ndarray, f: np.ndarray, g: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Meet the constraints that allow no slack: raise b*, or with the labelled correction stretch theta."""
        if not self.hard:
            return theta, f, g
        strict = np.isinf(self.tables[1]) & (self.tables[0] == 0)
        residual = 1.0 - self.y * f - self.s * g
        missed = float(np.max(residual[strict], initial=0.0))
        if self.n_kinds == 2:
            bounded = np.isinf(self.tables[2])
            missed = max(missed, float(np.max(-(self.s * g)[bounded], initial=0.0)))
            strict = strict | bounded
        if missed <= 0:
            return theta, f, g
        if np.all(self.s[strict] == 1.0):
            step = missed + MARGIN * (1.0 + float(np.max(np.abs(residual))))
            raised = theta.copy()
            raised[-1] += step
            return raised, f, g + step
        reached = float(np.min((1.0 - residual)[strict]))
        stretch = (1.0 + MARGIN) / reached if reached > 0 else 1.0
        return stretch * theta, stretch * f, stretch * g

    def violation(self, x: np.ndarray, f: np.ndarray, g: np.ndarray) -> float:
        """Largest slope along which a variable could still move by more than a hair of its interval."""
        own = self.s * g
        slopes = [1.0 - self.y * f - own - self.tables[0] * x[0], own]
        worst = 0.0
        limits = [(np.zeros(1), self.tables[1]), (self.tables[2], self.tables[3])]
        for value, slope, (low, high) in zip(x, slopes, limits):
            scale = np.where(np.isfinite(high), high, np.maximum(np.abs(value), 1.0)) + 1e-300
            room = np.where(slope > 0, high - value, value - low) / scale
            worst = max(worst, float(np.max(np.minimum(np.abs(slope), room), initial=0.0)))
        return worst

    def rows(
        self, index: np.ndarray, *, outside: np.ndarray | None = None, gained: float = 0.0, weight: float = 1.0
    ) -> LinearPrimal:
        """The problem of some of the examples, each counted ``weight`` times; fixed others enter by ``outside``."""
        tables = self.tables[:, index]
        if weight != 1.0:
            tables[0] /= weight
            tables[1:] *= weight
        return replace(
            self,
            X=self.X[index],
            Z=None if self.Z is None else self.Z[index],
            y=self.y[index],
            s=self.s[index],
            tables=tables,
            price=self.price[index] * weight,
            outside=outside,
            gained=gained,
        )


def linear_svm_plus(
    X: Any,
    Z: Any,
    y: np.ndarray,
    C: np.ndarray,
    lam: float,
    kappa: float,
    labelled: bool,
    available: np.ndarray,
) -> LinearPrimal:
    """SVM+ with hinge losses; without any privileged row (``Z=None``) the C-SVM."""
    s = np.where(available, y if labelled else 1.0, 0.0)
    upper = np.where(available, kappa, 1.0) * C
    tables = np.zeros((4, len(y)))
    tables[1] = upper
    tables[2] = np.where(available, 0.0 if labelled else -np.inf, 0.0)
    tables[3] = np.where(available, C, 0.0)
    return LinearPrimal(X, Z, y, s, tables, C, lam)


def linear_svm2_plus(
    X: Any,
    Z: Any,
    y: np.ndarray,
    C: np.ndarray,
    lam: float,
    kappa: float,
    labelled: bool,
    available: np.ndarray,
    moment: np.ndarray | None = None,
) -> LinearPrimal:
    """SVM2+; without any privileged row (``Z=None``) the L2-SVM. ``moment`` does not depend on y: classes can share it."""
    s = np.where(available, y if labelled else 1.0, 0.0)
    tables = np.zeros((4, len(y)))
    tables[0] = np.where(available, 1.0 / kappa, 1.0) / C
    tables[1] = np.inf
    if Z is not None and moment is None:
        moment = second_moment(Z, np.where(available, C, 0.0))
    return LinearPrimal(X, Z, y, s, tables, C, lam, moment)
