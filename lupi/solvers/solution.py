"""What every solver returns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lupi.problems import Certificate, KernelQP


@dataclass(frozen=True)
class Solution:
    """A dual point with its certificate.

    Attributes
    ----------
    x : ndarray of shape (n_variables,)
        Dual variables, in the problem's order.
    certificate : Certificate
        Primal and dual value, relative gap, KKT violation and biases, computed from ``x`` alone.
    n_iter : int
        Iterations of the solver (of all its stages together).
    converged : bool
        Whether the solver met its own tolerance.
    solver : str
        Name of the stage that produced ``x``.
    """

    x: np.ndarray
    certificate: Certificate
    n_iter: int
    converged: bool
    solver: str

    @classmethod
    def certify(
        cls,
        problem: KernelQP,
        x: np.ndarray,
        n_iter: int,
        converged: bool,
        solver: str,
        biases: np.ndarray | None = None,
    ) -> Solution:
        """Solution whose certificate is computed from the dual point."""
        return cls(x, problem.certificate(x, biases), n_iter, converged, solver)

    def better(self, other: Solution) -> Solution:
        """The one with the smaller gap (of two that prove nothing the larger dual value), with the iterations of both."""
        mine, its = self.certificate, other.certificate
        best = self if (mine.gap, -mine.dual) <= (its.gap, -its.dual) else other
        return replace(best, n_iter=self.n_iter + other.n_iter, converged=self.converged or other.converged)
