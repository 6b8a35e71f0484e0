r"""The quadratic program behind every kernel machine of the library, with its own certificate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lupi.inputs.training_set import take_values
from lupi.kernels import Space
from lupi.solution import ROUNDING, Solution
from lupi.svm.features import Functions, LinearSpace

# A constraint without slack is met with this much to spare: missing it by a rounding error would cost infinitely much.
MARGIN = 1e-13
# Equalities hold if they miss less than this share of the sum of all variables; corrections towards that.
MET, CORRECTIONS = 1e-12, 20
# Kernel matrices are cheaper than features that are more than this share of the examples.
MANY_FEATURES = 0.5
# Decisions that differ by no more than this, where the margin is 1, are the same.
FLAT, FLAT_ON_WEIGHTS = 1e-3, 1e-2


@dataclass(frozen=True)
class Certificate:
    r"""Values that prove how good a dual point is.

    Attributes
    ----------
    primal, dual : float
        Value of a feasible primal point built from the dual point, and the dual value. The optimum lies between them.
    lower_bound : float
        The dual value, or -inf where the dual point misses an equality or a bound and proves nothing.
    violation : float
        Largest violation of the optimality conditions, see :meth:`KernelQP.violation`.
    biases : ndarray of shape (n_spaces,)
        Intercept of each space; 0 where a space has none.
    scale : float
        Factor by which (w, biases) had to be stretched to meet constraints that allow no slack; 1 at an optimum.
    expansions, fields : tuple of ndarray
        Coefficients of each space's function, and its values on the training examples without bias.
    slack : ndarray of shape (n_variables,)
        :math:`p_j - \sum_m c_{mj} f_m(i(j))` at the primal point.
    theta : ndarray or None
        Weights and biases of the primal point, where it is not that of the expansions.
    """

    primal: float
    dual: float
    lower_bound: float
    violation: float
    biases: np.ndarray
    scale: float
    expansions: tuple[np.ndarray, ...]
    fields: tuple[np.ndarray, ...]
    slack: np.ndarray
    theta: np.ndarray | None = None


class DualForm(NamedTuple):
    """Function(s) of one space: coefficients over the training examples, intercept(s), and weights if they are known."""

    coefficients: np.ndarray
    intercept: float | np.ndarray
    weights: np.ndarray | None = None


@dataclass(frozen=True)
class KernelQP:
    r"""Box-constrained quadratic program over one or several kernel spaces.

    .. math::

        \max_x\; p^\top x - \tfrac12 \sum_m \beta_m^\top K_m \beta_m - \tfrac12 \sum_j r_j x_j^2
        \quad\text{s.t.}\quad l \le x \le u,\quad 1^\top \beta_m = t_m \text{ for every space with a bias},

    where :math:`\beta_{m,i} = \sum_{j:\, i(j) = i} c_{mj} x_j`: variable j belongs to example i(j) and enters space m with
    coefficient :math:`c_{mj}`. Its primal has one function :math:`f_m = w_m \cdot \phi_m + b_m` per space:

    .. math::

        \min_{w, b}\; \tfrac12 \sum_m |w_m|^2 + \sum_m t_m b_m + \sum_j h_j\Big(p_j - \sum_m c_{mj} f_m(i(j))\Big),
        \qquad h_j(v) = \max_{l_j \le x \le u_j} x v - \tfrac12 r_j x^2 .

    Parameters
    ----------
    spaces : tuple of Space
    example : int ndarray of shape (n_variables,)
    coef : ndarray of shape (n_spaces, n_variables)
        Coefficients -1, 0 or 1.
    p, lower, upper, ridge : ndarray of shape (n_variables,)
    total : ndarray of shape (n_spaces,)
        Right-hand sides :math:`t_m`; ignored for spaces without a bias.
    constant : float
        Value of variables that are fixed, see :meth:`rows`.
    """

    spaces: tuple[Space, ...]
    example: np.ndarray
    coef: np.ndarray
    p: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    ridge: np.ndarray
    total: np.ndarray
    constant: float = field(default=0.0, kw_only=True)

    @property
    def n_variables(self) -> int:
        """Number of dual variables."""
        return len(self.p)

    @property
    def n_examples(self) -> int:
        """Number of training examples."""
        return self.spaces[0].n_examples

    @cached_property
    def biased(self) -> np.ndarray:
        """Indices of the spaces that have an intercept."""
        return np.array([m for m, space in enumerate(self.spaces) if space.bias], dtype=int)

    @cached_property
    def hard(self) -> tuple[np.ndarray, np.ndarray]:
        """Variables without an upper and without a lower bound: their constraints allow no slack."""
        return np.isinf(self.upper) & (self.ridge == 0), np.isinf(self.lower) & (self.ridge == 0)

    def loss(self, slack: np.ndarray) -> np.ndarray:
        """h_j of every variable: what the primal pays for the slack p_j - c_j.f(i(j))."""
        bound = np.where(slack > 0, self.upper, self.lower)
        with np.errstate(divide="ignore", invalid="ignore"):
            x = np.where(self.ridge > 0, np.clip(slack / self.ridge, self.lower, self.upper), bound)
            value = x * slack - np.where(self.ridge > 0, 0.5 * self.ridge * x * x, 0.0)
        # An infinite bound times a slack of exactly zero costs nothing.
        return np.where(slack == 0, 0.0, value)

    @property
    def family(self) -> str:
        """Which of the :data:`~lupi.svm.auto.SOLVERS` solve it: those on weights or those on kernel matrices."""
        return "linear" if isinstance(self.spaces[0], LinearSpace) else "kernel"

    @cached_property
    def functions(self) -> Functions:
        """The functions of all spaces by their weights."""
        return Functions(self.spaces)

    @cached_property
    def smooth(self) -> bool:
        """Whether every loss has a continuous derivative."""
        return bool(np.all(self.ridge > 0))

    @property
    def on_demand(self) -> bool:
        """Whether a kernel matrix is out of reach."""
        return any(space.on_demand for space in self.spaces)

    @cached_property
    def by_features(self) -> bool:
        """Whether to solve over the features: there is no kernel matrix, or those of all spaces together are cheaper."""
        widths = [np.inf if space.factor is None else space.factor.shape[1] for space in self.spaces]
        alike = all(space.factor is self.spaces[1].factor for space in self.spaces[2:])
        return self.family == "linear" or (sum(widths) < MANY_FEATURES * self.n_examples and alike)

    @cached_property
    def kinds(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """The different columns of bias coefficients, and the variables that have each of them."""
        powers = 3 ** np.arange(len(self.biased))
        codes = (powers @ (self.coef[self.biased] + 1.0)).astype(int)
        present = np.flatnonzero(np.bincount(codes))
        members = [np.flatnonzero(codes == code) for code in present]
        return np.array([self.coef[self.biased][:, index[0]] for index in members]), members

    def start(self) -> np.ndarray:
        """A feasible dual point: 0, or with a non-zero sum the same a and d for every example."""
        total = self.total[self.biased]
        # Only one-class problems have a sum: a in space 0, matched by d so that the second space's sum stays 0.
        return np.full(self.n_variables, total[0] / self.n_examples if np.any(total != 0) else 0.0)

    def merged(self) -> KernelQP:
        """An equal problem with one matrix instead of two, where the second space has no intercept (SVM2+)."""
        if len(self.spaces) != 2 or self.spaces[1].bias or self.by_features:
            return self
        first, second = self.spaces
        signs = self.coef[0] * self.coef[1]
        matrix = first.weight * first.dense + second.weight * signs[:, None] * second.dense * signs
        one = Space(matrix=matrix, bias=first.bias)
        return KernelQP((one,), self.example, self.coef[:1], self.p, self.lower, self.upper, self.ridge, self.total[:1])

    def decision(self, solution: Solution) -> DualForm:
        """The decision function, in units of its space's weight."""
        proof = solution.certificate
        beta, bias = proof.expansions[0], proof.biases[0] / self.spaces[0].weight
        if proof.theta is not None:
            # Interior points keep every variable off its bounds; one whose slope outweighs it is on its way to 0.
            carried = solution.point > -np.max(np.abs(solution.point)) * proof.slack
            beta = self.expansions(np.where(carried, solution.point, 0.0))[0]
        return DualForm(proof.scale * beta, proof.scale * bias, self.weights(solution, 0))

    def privileged(self, solution: Solution) -> DualForm:
        """The function of the privileged space: w* = weight * sum of eta_i z_i, and b*; one row each of several functions."""
        certificate = solution.certificate
        eta = certificate.scale * self.spaces[1].weight * np.vstack(certificate.expansions[1:])
        biases = certificate.scale * certificate.biases[1:]
        return DualForm(eta, biases) if len(eta) > 1 else DualForm(eta[0], float(biases[0]), self.weights(solution, 1))

    def weights(self, solution: Solution, m: int) -> np.ndarray | None:
        """Weights of the function of space m, if the solver works on weights."""
        theta = solution.certificate.theta
        return None if theta is None else np.asarray(theta[self.functions.parts[m]][:-1])

    def collapsed(self, solution: Solution) -> bool:
        """Whether the privileged space pays for everything: w = 0, the same decision for every example."""
        certificate = solution.certificate
        beta, field = certificate.expansions[0], certificate.fields[0]
        # With features in the thousands a small w is no collapse: the decision must be the same everywhere, too.
        # Solvers on weights stop at a gap, which leaves a norm of about its size.
        gap, flat = (solution.gap, FLAT_ON_WEIGHTS) if self.family == "linear" else (0.0, FLAT)
        small = float(beta @ field) <= max(2.0 * gap, 1e-10) * abs(certificate.primal)
        return len(self.spaces) > 1 and small and float(np.ptp(field)) <= flat

    def expansions(self, x: np.ndarray) -> list[np.ndarray]:
        """Coefficients beta_m of every space's kernel expansion."""
        return [np.bincount(self.example, weights=c * x, minlength=self.n_examples) for c in self.coef]

    def fields(self, x: np.ndarray) -> list[np.ndarray]:
        """K_m beta_m for every space: the functions' values on the training examples, without biases."""
        return [space.product(beta) for space, beta in zip(self.spaces, self.expansions(x))]

    def value(self, x: np.ndarray) -> float:
        """Dual value of x."""
        norm = sum(float(beta @ space.product(beta)) for space, beta in zip(self.spaces, self.expansions(x)))
        return float(self.p @ x) - 0.5 * norm - 0.5 * float(self.ridge @ (x * x))

    def margins(self, x: np.ndarray, fields: Iterable[np.ndarray] | None = None) -> np.ndarray:
        """P - sum_m c_m f_m without biases: the negative gradient apart from the ridge."""
        return self.p - self.outputs(self.fields(x) if fields is None else fields)

    def outputs(self, fields: Iterable[np.ndarray]) -> np.ndarray:
        """Sum_m c_m f_m(i(j)) for every variable j."""
        out = np.zeros(self.n_variables)
        for c, values in zip(self.coef, fields):
            out += c * values[self.example]
        return out

    def feasible(self, x: np.ndarray, lower: np.ndarray | None = None, upper: np.ndarray | None = None) -> np.ndarray:
        """A point near x within these bounds (the problem's own by default) that meets the equalities, if there is one.

        Every variable moves in proportion to its room: those at a bound stay there.
        """
        lower, upper = self.lower if lower is None else lower, self.upper if upper is None else upper
        E, total = self.coef[self.biased], self.total[self.biased]
        x = np.clip(x, lower, upper)
        for _ in range(CORRECTIONS):
            missed = total - E @ x
            if np.max(np.abs(missed), initial=0.0) <= MET * np.abs(x).sum() or not np.isfinite(missed).all():
                break
            room = np.minimum(x - lower, upper - x)
            move = np.linalg.lstsq((E * room) @ E.T, missed, rcond=None)[0]
            x = np.clip(x + room * (move @ E), lower, upper)
        return np.asarray(x)

    def infeasibility(self, x: np.ndarray) -> float:
        """Largest violation of a constraint, relative to the size of x."""
        sums = self.coef[self.biased] @ x - self.total[self.biased]
        outside = np.maximum(self.lower - x, x - self.upper)
        scale = max(float(np.max(np.abs(x), initial=0.0)), 1e-300)
        return max(float(np.max(np.abs(sums), initial=0.0)), float(np.max(outside, initial=0.0))) / scale

    def diverges(self, x: np.ndarray) -> bool:
        """Whether x runs along a direction in which the dual grows without end, i.e. the primal has no feasible point.

        Where a primal point exists, ``p'x`` stays below twice its value; beyond 1e8 in units of the kernel the margin
        would have to be a hundred millionth of the data's extent.
        """
        if not self.hard[0].any() or self._surely_feasible:
            return False
        size = max(float(np.mean(space.diagonal())) for space in self.spaces)
        return float(self.p @ x) * size > 1e8

    @cached_property
    def _surely_feasible(self) -> bool:
        """Whether functions that are raised far enough meet every constraint that allows no slack."""
        met = ~(self.hard[0] | self.hard[1])
        for m, space in enumerate(self.spaces):
            helped = self._helped(m)
            examples = self.example[helped]
            everywhere = np.zeros(self.n_examples)
            everywhere[examples] = 1.0
            if space.bias or np.all(space.product(everywhere)[examples] > 0):
                met = met | helped
        return bool(met.all())

    def _helped(self, m: int) -> np.ndarray:
        """Variables whose constraints allow no slack and are met where the function of space m is raised; none if others suffer."""
        hard_upper, hard_lower = self.hard
        c = self.coef[m]
        helped = (hard_upper & (c == 1)) | (hard_lower & (c == -1))
        suffers = (hard_upper & (c == -1)) | (hard_lower & (c == 1))
        return np.zeros_like(helped) if suffers.any() else helped

    def optimal_biases(self, x: np.ndarray, margins: np.ndarray) -> tuple[np.ndarray, float]:
        """Biases that satisfy the optimality conditions best, and the violation that remains.

        x_j < u_j asks for c_j.b >= v_j and x_j > l_j for c_j.b <= v_j, where v is the gradient without biases. Where the
        conditions leave an interval, its midpoint is taken.
        """
        gradient = margins - self.ridge * x
        kinds, members = self.kinds
        grow = np.where(x < self.upper, gradient, -np.inf)
        shrink = np.where(x > self.lower, gradient, np.inf)
        low = np.array([grow[index].max() for index in members])
        high = np.array([shrink[index].min() for index in members])
        central, violation = central_biases(kinds, low, high)
        biases = np.zeros(len(self.spaces))
        biases[self.biased] = central
        return biases, violation

    def violation(self, x: np.ndarray, margins: np.ndarray, biases: np.ndarray) -> float:
        """How much the optimality conditions are violated with these biases.

        Twice the largest slope of the dual value along a variable (libsvm's ``m(a) - M(a)`` with the best bias), or the
        distance that the variable has left to go, relative to the largest variable, where that is less: an interior point,
        which never reaches a bound, meets the conditions when it is as good as there.
        """
        slope = margins - self.ridge * x - self.coef.T @ biases
        return 2.0 * largest_move(x, slope, self.lower, self.upper)

    def certificate(
        self, x: np.ndarray, biases: np.ndarray | None = None, theta: np.ndarray | None = None
    ) -> Certificate:
        """Duality gap and KKT violation of x, from scratch: nothing a solver believes is used.

        The primal point are the functions of x with these biases, or the best ones, or the functions whose weights and biases
        are theta.
        """
        betas = self.expansions(x)
        if theta is None:
            fields = tuple(space.product(beta) for space, beta in zip(self.spaces, betas))
            norm = dual_norm = 0.5 * sum(float(beta @ field) for beta, field in zip(betas, fields))
        else:
            functions, biases, weights = self.functions, np.zeros(len(self.spaces)), theta.copy()
            biases[self.biased] = theta[functions.intercepts[self.biased]]
            weights[functions.intercepts[self.biased]] = 0.0
            fields, q = functions.fields(weights), functions.sums(betas)
            norm, dual_norm = 0.5 * float(theta @ functions.metric(theta)), 0.5 * float(q @ functions.inverse_metric(q))
        margins = self.margins(x, fields)
        best, _ = self.optimal_biases(x, margins)
        violation = self.violation(x, margins, best)
        if biases is None:
            biases = best
        else:
            violation = min(violation, self.violation(x, margins, biases))
        biases, scale = self._feasible(margins, biases)
        slack = self.p - scale * (self.p - margins + self.coef.T @ biases)
        if theta is not None:
            theta = scale * theta
            theta[functions.intercepts[self.biased]] = scale * biases[self.biased]
        primal = scale**2 * norm + scale * float(self.total @ biases) + float(self.loss(slack).sum()) + self.constant
        dual = float(self.p @ x - dual_norm - 0.5 * self.ridge @ (x * x)) + self.constant
        # A point that misses an equality or a bound proves nothing.
        bound = dual if self.infeasibility(x) <= MET * len(x) else -np.inf
        terms = float(np.abs(self.p * x).sum()) + dual_norm + abs(float(self.total @ biases)) + abs(self.constant)
        if primal < bound <= primal + ROUNDING * terms:
            bound = primal
        return Certificate(primal, dual, bound, violation, biases, scale, tuple(betas), fields, slack, theta)

    def solution(
        self,
        x: np.ndarray,
        n_iter: int,
        converged: bool,
        solver: str,
        biases: np.ndarray | None = None,
        theta: np.ndarray | None = None,
    ) -> Solution:
        """The point x, made feasible, as a solution whose values are computed from the point alone."""
        x = self.feasible(x)
        proof = self.certificate(x, biases, theta)
        return Solution(x, proof.primal, proof.lower_bound, n_iter, converged, solver, proof.violation, proof)

    def rows(self, index: np.ndarray, weight: float = 1.0) -> KernelQP:
        """The problem on weights of some examples, each counted ``weight`` times."""
        place = np.full(self.n_examples, -1)
        place[index] = np.arange(len(index))
        chosen = np.flatnonzero(place[self.example] >= 0)
        first, second = take_values(self.functions.X, self.functions.Z, index)
        return KernelQP(
            tuple(replace(space, factor=second if m else first) for m, space in enumerate(self.spaces)),
            place[self.example[chosen]],
            self.coef[:, chosen],
            self.p[chosen],
            self.lower[chosen] * weight,
            self.upper[chosen] * weight,
            self.ridge[chosen] / weight,
            self.total,
        )

    def rows_beside(self, index: np.ndarray, x: np.ndarray) -> tuple[KernelQP, np.ndarray]:
        """The problem of some examples while the variables of the others have the values x, and the weights that these give."""
        part, q = self.rows(index), self.functions.sums(self.expansions(x))
        theta = self.functions.inverse_metric(q)
        constant = float(self.p @ x - 0.5 * q @ theta - 0.5 * self.ridge @ (x * x))
        p = part.p - part.outputs(part.functions.fields(theta))
        return replace(part, p=p, total=self.total - self.coef @ x, constant=constant), theta

    def _feasible(self, margins: np.ndarray, biases: np.ndarray) -> tuple[np.ndarray, float]:
        """Meet the constraints that allow no slack: raise a bias where that always helps, else stretch the functions."""
        hard_upper, hard_lower = self.hard
        slack = margins - self.coef.T @ biases
        excess = max(np.max(slack[hard_upper], initial=0.0), np.max(-slack[hard_lower], initial=0.0))
        if excess <= 0:
            return biases, 1.0
        shifted, left = biases.copy(), hard_upper | hard_lower
        for m in self.biased:
            helped = self._helped(m) & left
            missed = float(np.max(np.where(hard_upper, slack, -slack)[helped], initial=0.0))
            shifted[m] += missed + MARGIN * (1.0 + float(np.max(np.abs(slack)))) if missed > 0 else 0.0
            left = left & ~helped
        if not left.any():
            return shifted, 1.0
        reached = np.min((self.p - slack)[hard_upper] / self.p[hard_upper], initial=np.inf)
        if hard_lower.any() or reached <= 0:
            return biases, 1.0
        return biases, (1.0 + MARGIN) / reached


def largest_move(x: np.ndarray, slope: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> float:
    """Largest of all variables' slopes, each counted only as far as there is room before the bound it leads to.

    Room is measured in units of the largest variable: what a move can still change of the objective, slope times room, is
    then small beside the objective itself.

    Examples
    --------
    >>> import numpy as np
    >>> largest_move(np.array([1.0, 1e-9]), np.array([0.1, -5.0]), np.zeros(2), np.array([2.0, 2.0]))
    0.1
    """
    largest = max(float(np.max(np.abs(x), initial=0.0)), 1e-300)
    room = np.where(slope > 0, upper - x, x - lower) / largest
    return float(np.max(np.minimum(np.abs(slope), room), initial=0.0))


def central_biases(kinds: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, float]:
    """Point b with ``low <= kinds @ b <= high``, midway where several satisfy it.

    The last bias is the midpoint of all values it can take, the one before it the midpoint given the last, and so on. The
    second result is the amount by which the intervals contradict each other, 0 at an optimum; they are widened by half of it.

    Examples
    --------
    >>> import numpy as np
    >>> central_biases(np.array([[1.0]]), np.array([0.0]), np.array([1.0]))
    (array([0.5]), 0.0)
    """
    n_biases = kinds.shape[1]
    if n_biases == 0:
        return np.zeros(0), float(max(0.0, np.max(low - high, initial=0.0)))
    if n_biases == 1 and kinds.all():
        lows, highs = np.where(kinds[:, 0] > 0, [low, high], [-high, -low])
        lowest, highest = float(lows.max()), float(highs.min())
        return np.array([_middle(lowest, highest)]), max(0.0, lowest - highest)
    # Every condition as  normal . b <= bound  with a share of the common widening t:  ... <= bound + t.
    normals = np.vstack([kinds, -kinds])
    bounds = np.concatenate([high, -low])
    finite = np.isfinite(bounds)
    stages = [np.column_stack([normals, bounds, np.ones(len(bounds))])[finite]]
    for _ in range(n_biases):
        stages.append(_eliminate_first(stages[-1]))
    # What is left after eliminating every bias reads 0 <= bound + share * t, so t >= -bound / share.
    closed = stages.pop()
    widening = max(0.0, float(np.max(-closed[:, 0] / closed[:, 1], initial=0.0)))
    biases = np.zeros(n_biases)
    for k in reversed(range(n_biases)):
        rows = stages[k]
        others = rows[:, 1:-2] @ biases[k + 1 :]
        slope, bounds = rows[:, 0], rows[:, -2] + widening * rows[:, -1] - others
        low, high = (bounds[side] / slope[side] for side in (slope < 0, slope > 0))
        biases[k] = _middle(np.max(low, initial=-np.inf), np.min(high, initial=np.inf))
    return biases, 2 * widening


def _eliminate_first(rows: np.ndarray) -> np.ndarray:
    """Fourier-Motzkin: conditions on the other unknowns under which the first one exists."""
    positive, negative, free = rows[rows[:, 0] > 0], rows[rows[:, 0] < 0], rows[rows[:, 0] == 0]
    positive = positive / positive[:, :1]
    negative = negative / -negative[:, :1]
    combined = (positive[:, None, 1:] + negative[None, :, 1:]).reshape(-1, rows.shape[1] - 1)
    return np.vstack([combined, free[:, 1:]])


def _middle(low: float, high: float) -> float:
    """Middle of an interval; the finite end where only one exists, 0 where none does."""
    if np.isfinite(low) and np.isfinite(high):
        return float(0.5 * (low + high))
    return float(low) if np.isfinite(low) else float(high) if np.isfinite(high) else 0.0
