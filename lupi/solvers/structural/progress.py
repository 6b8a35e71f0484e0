"""What the structural solvers share: the solution they return and the record of a certificate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lupi.problems.structural.margin_rescaling import StructuralProblem, relative_gap


@dataclass(frozen=True)
class StructuralSolution:
    """A structural SVM's weights with their certificate.

    Attributes
    ----------
    w : ndarray of shape (n_features,)
        Best weights seen (smallest primal objective), or the averaged weights.
    primal, dual : float
        Objective of ``w`` and the best lower bound of the optimum.
    n_iter : int
        Passes over the training set.
    n_oracle_calls : int
        Loss-augmented inferences, those of the certificates included.
    converged : bool
        Whether the relative gap reached the tolerance.
    """

    w: np.ndarray
    primal: float
    dual: float
    n_iter: int
    n_oracle_calls: int
    converged: bool

    @property
    def relative_gap(self) -> float:
        """(primal - dual) / primal."""
        return relative_gap(self.primal, self.dual)


class Certificate:
    """Best primal and dual values so far, by exact evaluation over all examples."""

    def __init__(self, problem: StructuralProblem, tol: float, callback: Callable[[dict], object] | None = None):
        self.problem, self.tol, self.callback = problem, tol, callback
        self.primal, self.dual = np.inf, 0.0
        self.w = np.zeros(problem.n_features)
        self.n_oracle_calls = 0
        self.stopped = False

    def planes(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All maximizing planes at w; counted."""
        self.n_oracle_calls += self.problem.n_samples
        return self.problem.oracle.planes(w)

    def update(self, w: np.ndarray, psi: np.ndarray, loss: np.ndarray, dual: float, n_iter: int) -> bool:
        """Record (w, dual); True when the gap is small enough or the callback asks to stop."""
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
        return self.stopped or self.converged

    @property
    def converged(self) -> bool:
        """Whether the certified relative gap is below the tolerance."""
        return relative_gap(self.primal, self.dual) <= self.tol

    def solution(self, n_iter: int) -> StructuralSolution:
        """Freeze."""
        return StructuralSolution(self.w, self.primal, self.dual, n_iter, self.n_oracle_calls, self.converged)
