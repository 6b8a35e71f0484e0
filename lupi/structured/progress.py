"""What the structural solvers share: the record of the best weights and the best bound so far, and long loops in short calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from lupi.solution import Solution, out_of_time, relative_gap
from lupi.structured.margin_rescaling import StructuralProblem

# Seconds of one call below which the next one may have twice as many examples.
_SHORT = 0.05


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


class Slices:
    """Cuts rows into parts whose calls last about a tenth of a second, whatever one row costs.

    What is compiled cannot be interrupted.

    Parameters
    ----------
    together : int
        Rows of the first part.

    Examples
    --------
    >>> import numpy as np
    >>> [part.tolist() for part in Slices(2).cut(np.arange(5))]
    [[0, 1], [2, 3, 4]]
    """

    def __init__(self, together: int = 1):
        self.together = together

    def cut(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Part by part; the time that the caller takes for a part decides on the length of the next."""
        done = 0
        while done < len(rows):
            part = rows[done : done + self.together]
            began = time.monotonic()
            yield part
            seconds = time.monotonic() - began
            done += len(part)
            if seconds > 2.0 * _SHORT:
                self.together = max(1, self.together // 2)
            elif len(part) == self.together and seconds < _SHORT:
                self.together *= 2
