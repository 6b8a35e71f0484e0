"""The structural SVM seen by its solvers: blocks of cutting planes that only an oracle can list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np


class Oracle(Protocol):
    r"""Loss-augmented inference over a training set.

    Example i of n contributes the convex function :math:`H_i(w) = \max_k \ell_{ik} - \langle w, \psi_{ik}\rangle`
    with far too many planes k to list; the plane (0, 0) of the true output is always among them, so H_i >= 0.
    """

    n_samples: int
    n_features: int

    def plane(self, i: int, w: np.ndarray) -> tuple[np.ndarray, float]:
        """The (psi, loss) that attains H_i(w)."""
        ...

    def planes(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The maximizing planes of all examples at once: (n, d) and (n,)."""
        ...


@dataclass(frozen=True)
class StructuralProblem:
    r"""n-slack structural SVM with margin rescaling.

    .. math::

        \min_w \; \tfrac12 \|w\|^2 + \tfrac{C}{n} \sum_i H_i(w), \qquad
        \max_{\alpha \ge 0} \; \sum_{ik} \alpha_{ik} \ell_{ik}
          - \tfrac12 \Big\| \sum_{ik} \alpha_{ik} \psi_{ik} \Big\|^2
        \;\; \text{s.t.} \;\; \sum_k \alpha_{ik} = C/n .

    Parameters
    ----------
    oracle : Oracle
        Finds the most violated plane of an example.
    C : float
        Weight of the loss.
    """

    family: ClassVar[str] = "structural"

    oracle: Oracle
    C: float

    @property
    def n_samples(self) -> int:
        """Number of blocks."""
        return self.oracle.n_samples

    @property
    def n_features(self) -> int:
        """Length of w."""
        return self.oracle.n_features

    @property
    def cap(self) -> float:
        """C/n, the mass of each block's simplex."""
        return self.C / self.oracle.n_samples

    def hinge(self, w: np.ndarray, psi: np.ndarray, loss: np.ndarray) -> np.ndarray:
        """H_i(w) of every example, given its maximizing planes."""
        return np.asarray(np.maximum(loss - psi @ w, 0.0))

    def primal(self, w: np.ndarray, psi: np.ndarray, loss: np.ndarray) -> float:
        """Primal objective at w, given the maximizing planes of all examples at w."""
        return float(0.5 * w @ w + self.cap * self.hinge(w, psi, loss).sum())
