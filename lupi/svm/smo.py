"""Drivers of the SMO kernels: from a problem object to a certified solution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lupi.solution import Solution, out_of_time, run_in_slices
from lupi.svm import KernelQP
from lupi.svm.smo_one_space import BLOCKED, smo_one_space
from lupi.svm.smo_two_sides import TwoSidesState
from lupi.svm.smo_two_space import smo_two_space
from lupi.svm.smo_two_views import smo_two_views

# Kernel values in single precision change the conditions by less than a tenth of such a tolerance.
SINGLE_PRECISION = 1e-4
# So many examples have matrices that are larger than a processor's cache.
LARGE = 1000
# What steps on a matrix near the kernel aim at, so that the kernel itself agrees; and how often they may start again.
ALMOST = 0.9
MOST_CORRECTIONS = 20
# Where a correction leaves more of the violation than this share, the matrix is not near enough.
SLOWEST = 0.5
# Of one example in a pair step of one space.
STEP_OPERATIONS = 2
# Rates in single precision are exact enough while their last digit is below this share of the tolerance.
LAST_DIGIT = 1 / 64


def solve_smo(problem: KernelQP, *, tol: float = 1e-3, max_iter: int = -1, start: np.ndarray | None = None) -> Solution:
    """Sequential minimal optimization on the full kernel matrices.

    Parameters
    ----------
    problem : KernelQP
        With one or two variables per example (``layout``).
    tol : float
        Stop when the largest KKT violation is below it.
    max_iter : int
        Largest number of pair steps; -1 for none.
    start : ndarray, optional
        A feasible point to go on from.
    """
    limit = step_limit(problem, max_iter)
    # Rows of large matrices come from memory: half the bytes take half the time, of the many steps that two spaces need.
    # Where a matrix is near another one, there is nothing to choose.
    near = any(space.inexact for space in problem.spaces)
    single = (
        tol >= SINGLE_PRECISION
        and problem.n_examples >= LARGE
        and (near or problem.layout in ("two_space", "two_sides"))
    )
    state = state_of(problem, problem.start() if start is None else start, solver="smo")
    matrices = state.matrices(problem, single)
    if not (single or near):
        n_iter, violation = state.run(*matrices, tol, limit)
        return Solution.certify(problem, state.variables(problem), n_iter, violation < tol, "smo")
    n_iter, _ = state.run(*matrices, ALMOST * tol, limit)
    before = np.inf
    # With the gradient of the kernel itself, steps on a matrix near it lead to the optimum as well.
    for _ in range(MOST_CORRECTIONS):
        x = state.variables(problem)
        found = Solution.certify(problem, x, n_iter, False, "smo")
        if found.violation < tol or n_iter >= limit or out_of_time():
            return replace(found, converged=found.violation < tol)
        if found.violation > SLOWEST * before and single:
            # Not near enough for this problem.
            single, matrices = False, state.matrices(problem, False)
        before = found.violation
        state = state_of(problem, x, list(found.certificate.fields), solver="smo")
        done, _ = state.run(*matrices, ALMOST * tol, limit - n_iter)
        n_iter += done
    found = Solution.certify(problem, state.variables(problem), n_iter, False, "smo")
    return replace(found, converged=found.violation < tol)


def step_limit(problem: KernelQP, max_iter: int = -1) -> int:
    """Largest number of pair steps; where none was asked for, one that a machine can reach: nothing loops forever."""
    return max(300_000, 2000 * problem.n_examples) if max_iter < 0 else max_iter


def state_of(problem: KernelQP, x: np.ndarray, fields: list[np.ndarray] | None = None, *, solver: str) -> Any:
    """The arrays that the problem's SMO works on, at the point x, whose fields may be known."""
    if problem.layout is None:
        raise ValueError(f"solver={solver!r} needs a one-space or two-space dual; got {type(problem).__name__}")
    return STATES[problem.layout].of(problem, x, fields)


@dataclass
class OneSpaceState:
    """Arrays of the one-space kernel: the point, its signed gradient and the bounds."""

    y: np.ndarray
    a: np.ndarray
    r: np.ndarray
    upper: np.ndarray
    ridge: np.ndarray

    @classmethod
    def of(cls, problem: KernelQP, x: np.ndarray, fields: list[np.ndarray] | None = None) -> OneSpaceState:
        """State at the point x, whose fields may be known."""
        y = problem.coef[0]
        a = x.copy()
        margins = problem.margins(a, fields) if a.any() else problem.p
        r = y * (margins - problem.ridge * a)
        return cls(y, a, r, np.minimum(problem.upper, BLOCKED), problem.ridge)

    def part(self, index: np.ndarray) -> OneSpaceState:
        """Copy of some examples' entries."""
        return OneSpaceState(*(v[index] for v in (self.y, self.a, self.r, self.upper, self.ridge)))

    def put(self, index: np.ndarray, part: OneSpaceState) -> None:
        """Take over the point of some examples."""
        self.a[index] = part.a

    @staticmethod
    def matrices(problem: KernelQP, single: bool = False) -> tuple[np.ndarray, np.ndarray | None]:
        """The kernel matrix in signed variables, and the one that needs the labels' signs (or None)."""
        first, *others = (space.weighted(single) for space in problem.spaces)
        if not others:
            return first, None
        if np.array_equal(*problem.coef):
            return first + others[0], None
        return first, others[0].astype(first.dtype, copy=False)

    @staticmethod
    def blocks(problem: KernelQP, blocks: list[np.ndarray], index: np.ndarray) -> tuple[np.ndarray, None]:
        """The same for some examples' blocks of the kernel matrices, added up."""
        first, *others = (_weighted(space.weight, block) for space, block in zip(problem.spaces, blocks))
        signs = (problem.coef[0] * problem.coef[-1])[index].astype(first.dtype)
        return (first + signs[:, None] * others[0] * signs if others else first), None

    def variables(self, problem: KernelQP) -> np.ndarray:
        """The point in the problem's order."""
        return self.a

    def run(self, K: np.ndarray, Q: np.ndarray | None, tol: float, limit: int) -> tuple[int, float]:
        """Iterate on these matrices; returns the number of steps and the violation."""

        def steps(part: int) -> tuple[int, float]:
            return smo_one_space(K, Q, self.y, self.a, self.r, self.upper, self.ridge, tol, part)

        return run_in_slices(steps, limit, work=STEP_OPERATIONS * len(self.y))


@dataclass
class TwoSpaceState:
    """Arrays of the two-space kernel: the point, the fields and the bounds, one entry per example."""

    weight: float
    y: np.ndarray
    s: np.ndarray
    a: np.ndarray
    d: np.ndarray
    P: np.ndarray
    N: np.ndarray
    upper_a: np.ndarray
    lower_d: np.ndarray
    upper_d: np.ndarray

    @classmethod
    def of(cls, problem: KernelQP, x: np.ndarray, fields: list[np.ndarray] | None = None) -> TwoSpaceState:
        """State at the point x, whose fields may be known."""
        n = problem.n_examples
        known = problem.example[n:]

        def spread(values: np.ndarray, fill: float) -> np.ndarray:
            out = np.full(n, fill)
            out[known] = values
            return out

        y, s = problem.coef[0, :n].copy(), problem.coef[1, :n].copy()
        if fields is None:
            fields = problem.fields(x) if x.any() else [np.zeros(n), np.zeros(n)]
        return cls(
            weight=problem.spaces[1].weight,
            y=y,
            s=s,
            a=x[:n].copy(),
            d=spread(x[n:], 0.0),
            P=y * problem.p[:n] - fields[0],
            N=-fields[1],
            upper_a=np.minimum(problem.upper[:n], BLOCKED),
            lower_d=spread(np.maximum(problem.lower[n:], -BLOCKED), 0.0),
            upper_d=spread(np.minimum(problem.upper[n:], BLOCKED), 0.0),
        )

    def part(self, index: np.ndarray) -> TwoSpaceState:
        """Copy of some examples' entries."""
        arrays = {name: value[index] for name, value in vars(self).items() if name != "weight"}
        return TwoSpaceState(weight=self.weight, **arrays)

    def put(self, index: np.ndarray, part: TwoSpaceState) -> None:
        """Take over the point of some examples."""
        self.a[index], self.d[index] = part.a, part.d

    @staticmethod
    def matrices(problem: KernelQP, single: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Both kernel matrices, the second one before its weight."""
        privileged = problem.spaces[1]
        return problem.spaces[0].weighted(single), privileged.rounded if single else privileged.dense

    @staticmethod
    def blocks(problem: KernelQP, blocks: list[np.ndarray], index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same for some examples' blocks of them."""
        return _weighted(problem.spaces[0].weight, blocks[0]), blocks[1]

    def run(self, K: np.ndarray, S: np.ndarray, tol: float, limit: int) -> tuple[int, float]:
        """Iterate on these matrices; returns the number of steps and the violation.

        On matrices in single precision the rates are so as well, as long as the tolerance allows: whoever passes such
        matrices looks at the exact rates in the end.
        """

        def steps(part: int) -> tuple[int, float]:
            real = _precision_of_rates(K, tol, self.P, self.N)
            self.P, self.N = self.P.astype(real, copy=False), self.N.astype(real, copy=False)
            return smo_two_space(
                K, S, self.weight, self.y, self.s, self.a, self.d, self.P, self.N,
                self.upper_a, self.lower_d, self.upper_d, tol, part,
            )  # fmt: skip

        return run_in_slices(steps, limit, work=2 * STEP_OPERATIONS * len(self.y))

    def variables(self, problem: KernelQP) -> np.ndarray:
        """The point in the problem's order."""
        return np.concatenate([self.a, self.d[problem.example[problem.n_examples :]]])


@dataclass
class TwoViewsState:
    """Arrays of SVM-2K's kernel: whose variable, where each kind ends, the point and the fields of both views."""

    example: np.ndarray
    ends: np.ndarray
    sign: np.ndarray
    p: np.ndarray
    x: np.ndarray
    upper: np.ndarray
    fields: list[np.ndarray]

    @classmethod
    def of(cls, problem: KernelQP, x: np.ndarray, fields: list[np.ndarray] | None = None) -> TwoViewsState:
        """State at the point x, whose fields may be known."""
        first, second = problem.coef
        ends = np.cumsum([0, np.sum(second == 0), np.sum(first == 0), np.sum((first != 0) & (second != 0))])
        sign = np.where(second == 0, first, second)
        fields = problem.fields(x) if fields is None else [field.copy() for field in fields]
        upper = np.minimum(problem.upper, BLOCKED)
        return cls(problem.example, ends, sign, problem.p, x.copy(), upper, fields)

    def _variables_of(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The variables of some examples, and which of these examples each belongs to."""
        place = np.full(len(self.fields[0]), -1)
        place[index] = np.arange(len(index))
        chosen = np.flatnonzero(place[self.example] >= 0)
        return chosen, place[self.example[chosen]]

    def part(self, index: np.ndarray) -> TwoViewsState:
        """Copy of some examples' entries."""
        chosen, example = self._variables_of(index)
        sign, p, x, upper = (value[chosen] for value in (self.sign, self.p, self.x, self.upper))
        ends = np.searchsorted(chosen, self.ends)
        return TwoViewsState(example, ends, sign, p, x, upper, [field[index] for field in self.fields])

    def put(self, index: np.ndarray, part: TwoViewsState) -> None:
        """Take over the point of some examples."""
        self.x[self._variables_of(index)[0]] = part.x

    @staticmethod
    def matrices(problem: KernelQP, single: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Both kernel matrices."""
        first, second = (space.weighted(single) for space in problem.spaces)
        return first, second

    @staticmethod
    def blocks(problem: KernelQP, blocks: list[np.ndarray], index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same for some examples' blocks of them."""
        first, second = (_weighted(space.weight, block) for space, block in zip(problem.spaces, blocks))
        return first, second

    def run(self, first: np.ndarray, second: np.ndarray, tol: float, limit: int) -> tuple[int, float]:
        """Iterate on these matrices; returns the number of steps and the violation."""

        def steps(part: int) -> tuple[int, float]:
            return smo_two_views(
                first, second, self.example, self.ends, self.sign, self.p, self.x, self.upper,
                self.fields[0], self.fields[1], tol, part,
            )  # fmt: skip

        return run_in_slices(steps, limit, work=2 * STEP_OPERATIONS * len(self.x))

    def variables(self, problem: KernelQP) -> np.ndarray:
        """The point in the problem's order."""
        return self.x


def _precision_of_rates(matrix: np.ndarray, tol: float, *rates: np.ndarray) -> Any:
    """Single precision beside a matrix in it, while the rates are small enough for the tolerance; else double precision."""
    largest = max(float(np.max(np.abs(values), initial=0.0)) for values in rates)
    last_digit = float(np.finfo(np.float32).eps) * largest
    return np.float32 if matrix.dtype == np.float32 and last_digit <= LAST_DIGIT * tol else np.float64


def _weighted(weight: float, block: np.ndarray) -> np.ndarray:
    """The block times a weight that usually is 1."""
    return block if weight == 1.0 else weight * block


# By the layout of the problems that they solve.
STATES: dict[str, Any] = {
    "one_space": OneSpaceState,
    "two_space": TwoSpaceState,
    "two_sides": TwoSidesState,
    "two_views": TwoViewsState,
}
