"""Drivers of the two SMO kernels: from a problem object to a certified solution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lupi.problems import KernelQP, OneSpaceDual, TwoSpaceDual
from lupi.solvers.kernel.smo_one_space import BLOCKED, smo_one_space
from lupi.solvers.kernel.smo_two_space import smo_two_space
from lupi.solvers.solution import Solution

# No limit asked for: still one that a machine can reach, so that nothing ever loops forever.
UNLIMITED = 10_000_000


def solve_smo(problem: KernelQP, *, tol: float = 1e-3, max_iter: int = -1, x0: np.ndarray | None = None) -> Solution:
    """Sequential minimal optimization on the full kernel matrices.

    Parameters
    ----------
    problem : OneSpaceDual or TwoSpaceDual
    tol : float
        Stop when the largest KKT violation is below it.
    max_iter : int
        Largest number of pair steps; -1 for none.
    x0 : ndarray, optional
        Feasible start; by default 0 (or the equal distribution where the sums are not 0).
    """
    limit = UNLIMITED if max_iter < 0 else max_iter
    x = start_point(problem) if x0 is None else x0.copy()
    if isinstance(problem, TwoSpaceDual):
        state = TwoSpaceState.of(problem, x)
        n_iter, violation = state.run(problem.spaces[0].dense, problem.spaces[1].dense, tol, limit)
        x = state.variables(problem)
    elif isinstance(problem, OneSpaceDual):
        state_one = OneSpaceState.of(problem, x)
        n_iter, violation = state_one.run(*one_space_matrices(problem), tol, limit)
        x = state_one.a
    else:
        raise ValueError(f"solver='smo' needs a one-space or two-space dual; got {type(problem).__name__}")
    return Solution.certify(problem, x, n_iter, violation < tol, "smo")


def start_point(problem: KernelQP) -> np.ndarray:
    """A feasible dual point: 0, or with a non-zero sum the same a and d for every example."""
    x = np.zeros(problem.n_variables)
    total = problem.total[problem.biased]
    if np.any(total != 0):
        # Only one-class problems have a sum: a in space 0, matched by d so that the second space's sum stays 0.
        x[:] = total[0] / problem.n_examples
    return x


def one_space_matrices(problem: OneSpaceDual) -> tuple[np.ndarray, np.ndarray | None]:
    """The kernel matrix in signed variables, and the one that needs the labels' signs (or None)."""
    first = problem.spaces[0]
    K = first.dense if first.weight == 1.0 else first.weight * first.dense
    if len(problem.spaces) == 1:
        return K, None
    second = problem.spaces[1]
    Q = second.dense if second.weight == 1.0 else second.weight * second.dense
    if np.array_equal(problem.coef[0], problem.coef[1]):
        return K + Q, None
    return K, Q


@dataclass
class OneSpaceState:
    """Arrays of the one-space kernel: the point, its signed gradient and the bounds."""

    y: np.ndarray
    a: np.ndarray
    r: np.ndarray
    upper: np.ndarray
    ridge: np.ndarray

    @classmethod
    def of(cls, problem: OneSpaceDual, x: np.ndarray, fields: list[np.ndarray] | None = None) -> OneSpaceState:
        """State at the point x, whose fields may be known."""
        y = problem.coef[0]
        a = x.copy()
        margins = problem.margins(a, fields) if a.any() else problem.p
        r = y * (margins - problem.ridge * a)
        return cls(y, a, r, np.minimum(problem.upper, BLOCKED), problem.ridge)

    def part(self, index: np.ndarray) -> OneSpaceState:
        """Copy of some examples' entries."""
        return OneSpaceState(*(v[index] for v in (self.y, self.a, self.r, self.upper, self.ridge)))

    def run(self, K: np.ndarray, Q: np.ndarray | None, tol: float, limit: int) -> tuple[int, float]:
        """Iterate on these matrices; returns the number of steps and the violation."""
        return smo_one_space(K, Q, self.y, self.a, self.r, self.upper, self.ridge, tol, limit)


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
    def of(cls, problem: TwoSpaceDual, x: np.ndarray, fields: list[np.ndarray] | None = None) -> TwoSpaceState:
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

    def run(self, K: np.ndarray, S: np.ndarray, tol: float, limit: int) -> tuple[int, float]:
        """Iterate on these matrices; returns the number of steps and the violation."""
        return smo_two_space(
            K, S, self.weight, self.y, self.s, self.a, self.d, self.P, self.N,
            self.upper_a, self.lower_d, self.upper_d, tol, limit,
        )  # fmt: skip

    def variables(self, problem: TwoSpaceDual) -> np.ndarray:
        """The point in the problem's order."""
        return np.concatenate([self.a, self.d[problem.example[problem.n_examples :]]])
