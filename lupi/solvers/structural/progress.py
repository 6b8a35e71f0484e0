"""What the structural solvers share: the record of the best weights and the best bound so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lupi.problems.structural.margin_rescaling import StructuralProblem
from lupi.solvers.solution import Solution, out_of_time, relative_gap


class Progress:
    """Best primal and dual values so far, by exact evaluation over all examples."""

    def __init__(
        self, problem: StructuralProblem, solver: str, tol: float, callback: Callable[[dict[str, Any]], object] | None
    ):
        self.problem, self.solver, self.tol, self.callback = problem, solver, tol, callback
        self.primal, self.dual = np.inf, 0.0
        self.w = np.zeros(problem.n_features)
        self.n_oracle_calls = 0
        self.stopped = False

    def planes(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All maximizing planes at w; counted."""
        self.n_oracle_calls += self.problem.n_samples
        return self.problem.oracle.planes(w)

    def update(self, w: np.ndarray, psi: np.ndarray, loss: np.ndarray, dual: float, n_iter: int) -> bool:
        """Record (w, dual); True when the gap is small enough, the time is over or the callback asks to stop."""
        primal = self.problem.primal(w, psi, loss)
        if primal < self.primal:
            self.primal, self.w = primal, w.copy()
        self.dual = max(self.dual, dual)
        if self.callback is not None:
            info = {
                "n_iter": n_iter,
                "primal": self.primal,
                "dual": self.dual,
                "dual_gap": relative_gap(self.primal, self.dual),
                "n_oracle_calls": self.n_oracle_calls,
            }
            self.stopped = bool(self.callback(info))
        return self.stopped or self.converged or out_of_time()

    @property
    def converged(self) -> bool:
        """Whether the certified relative gap is below the tolerance."""
        return relative_gap(self.primal, self.dual) <= self.tol

    def solution(self, n_iter: int) -> Solution:
        """Freeze; the solution's certificate is this record."""
        return Solution(self.w, self.primal, self.dual, n_iter, self.converged, self.solver, certificate=self)
