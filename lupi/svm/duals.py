r"""The duals of SVM, SVM+ and SVM-2K as :class:`~lupi.svm.kernel_qp.KernelQP` objects.

Notation as in the estimators: ``y`` in {-1, +1}; ``C`` one value per example; ``available`` marks the examples whose
privileged row is known. An example without one keeps its own slack at price ``C``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from lupi.kernels import Space
from lupi.svm.kernel_qp import KernelQP


@dataclass(frozen=True)
class OneSpaceDual(KernelQP):
    """One variable per example, 0 <= a <= upper, one equality; solved by one-space SMO."""

    layout: ClassVar[str | None] = "one_space"

    def merged(self) -> KernelQP:
        """One kernel matrix instead of two (SVM2+ with dense matrices)."""
        if len(self.spaces) == 1 or all(space.few_features for space in self.spaces):
            return self
        first, second = self.spaces
        signs = self.coef[0] * self.coef[1]
        matrix = first.weight * first.dense + second.weight * signs[:, None] * second.dense * signs
        one = Space(matrix=matrix, bias=first.bias)
        return replace(self, spaces=(one,), coef=self.coef[:1], total=self.total[:1])


@dataclass(frozen=True)
class TwoSpaceDual(KernelQP):
    r"""Variables (a, d) with :math:`\beta = y \circ a` and :math:`\eta = s \circ (a - d)`; solved by two-space SMO.

    The first n variables are a, the others the d of the examples with a privileged row. In :math:`(\beta, \eta)` the
    quadratic form separates and only the boxes couple the two spaces.
    """

    layout: ClassVar[str | None] = "two_space"


@dataclass(frozen=True)
class TwoViewsDual(KernelQP):
    """Variables that move one of two expansions, or both against each other (SVM-2K).

    Those of the first space come first, then those of the second, then those of both; none has a ridge.
    """

    layout: ClassVar[str | None] = "two_views"


def svm_dual(decision: Space, y: np.ndarray, C: np.ndarray) -> OneSpaceDual:
    r"""Dual of the C-SVM: :math:`\max 1'a - \tfrac12 (y \circ a)'K(y \circ a)`, 0 <= a <= C, y'a = 0."""
    n = len(y)
    return OneSpaceDual(
        spaces=(decision,),
        example=np.arange(n),
        coef=y[None, :].astype(float),
        p=np.ones(n),
        lower=np.zeros(n),
        upper=np.asarray(C, dtype=float),
        ridge=np.zeros(n),
        total=np.zeros(1),
    )


def svm_plus_dual(
    decision: Space,
    privileged: Space,
    y: np.ndarray,
    C: np.ndarray,
    kappa: float,
    labeled: bool,
    available: np.ndarray,
) -> TwoSpaceDual:
    r"""Dual of SVM+ with hinge loss (Vapnik & Vashist 2009; Celik et al. 2015, eq. 2), any kappa, missing rows allowed.

    .. math:: \max 1'a - \tfrac12 \beta'K\beta - \tfrac{1}{2\lambda} \eta'K^*\eta, \qquad
              \beta = y \circ a,\; \eta = s \circ (a - d),\; 1'\beta = 1'\eta = 0

    with s = 1, 0 <= a <= kappa C, d <= C (slack) or s = y, 0 <= a <= kappa C, 0 <= d <= C (labeled).
    ``privileged.weight`` is 1 / lam.
    """
    n = len(y)
    known = np.flatnonzero(available)
    s = np.where(available, y if labeled else 1.0, 0.0)
    return TwoSpaceDual(
        spaces=(decision, privileged),
        example=np.concatenate([np.arange(n), known]),
        coef=np.vstack([np.concatenate([y, np.zeros(len(known))]), np.concatenate([s, -s[known]])]),
        p=np.concatenate([np.ones(n), np.zeros(len(known))]),
        lower=np.concatenate([np.zeros(n), np.full(len(known), 0.0 if labeled else -np.inf)]),
        upper=np.concatenate([np.where(available, kappa, 1.0) * C, C[known]]),
        ridge=np.zeros(n + len(known)),
        total=np.zeros(2),
    )


def svm_2k_dual(
    decision: Space,
    privileged: Space,
    y: np.ndarray,
    C: np.ndarray,
    C_privileged: np.ndarray,
    D: np.ndarray,
    epsilon: float,
    available: np.ndarray,
) -> TwoViewsDual:
    r"""Dual of SVM-2K: two SVMs whose outputs agree up to epsilon, or pay D.

    Variables (a_A, a_B, b_plus, b_minus) with :math:`g_A = y \circ a_A - b_+ + b_-` and
    :math:`g_B = y \circ a_B + b_+ - b_-`. The condition b_plus + b_minus <= D is implied by the two boxes: for
    epsilon >= 0 only the difference of the two matters, and lowering both never costs.
    """
    n = len(y)
    known = np.flatnonzero(available)
    m = len(known)
    tied = known[D[known] > 0]
    one = np.ones(len(tied))
    return TwoViewsDual(
        spaces=(decision, privileged),
        example=np.concatenate([np.arange(n), known, tied, tied]),
        coef=np.vstack(
            [np.concatenate([y, np.zeros(m), -one, one]), np.concatenate([np.zeros(n), y[known], one, -one])]
        ),
        p=np.concatenate([np.ones(n + m), np.full(2 * len(tied), -epsilon)]),
        lower=np.zeros(n + m + 2 * len(tied)),
        upper=np.concatenate([C, C_privileged[known], D[tied], D[tied]]),
        ridge=np.zeros(n + m + 2 * len(tied)),
        total=np.zeros(2),
    )
