r"""The dual of SVM2+ (Xu et al. 2016)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lupi.kernels import Space
from lupi.problems.kernel.duals import OneSpaceDual
from lupi.problems.kernel.kernel_qp import Expansion


@dataclass(frozen=True)
class SVM2PlusDual(OneSpaceDual):
    """Knows the prices by which its correcting function follows from the dual point."""

    C: np.ndarray
    lam: float
    available: np.ndarray

    def privileged(self, solution: Any) -> Expansion:
        """V = (1 / lam) sum eta_i z_i and rho = (1 / lam) sum eta_i, where eta = s o a - C xi and xi = Q (s o a)."""
        certificate = solution.certificate
        eta = np.where(self.available, certificate.expansions[1] - self.C * certificate.fields[1], 0.0) / self.lam
        return Expansion(eta, float(eta.sum()))


def svm2_plus_dual(
    decision: Space,
    deformation: Space | None,
    y: np.ndarray,
    C: np.ndarray,
    lam: float,
    kappa: float,
    labelled: bool,
    available: np.ndarray,
) -> SVM2PlusDual:
    r"""Dual of SVM2+ (Xu et al. 2016, eq. 4), the deformation Q being a second space without a bias.

    .. math:: \max 1'a - \tfrac12 a'(yy' \circ K + Q)a - \tfrac{1}{2 \kappa} \sum_i a_i^2 / C_i, \qquad a \ge 0,\; y'a = 0,

    with :math:`yy' \circ Q` for the labelled correction. ``deformation`` has zero rows for missing examples; their ridge
    is 1 / C. With ``deformation=None`` no row is available: the L2-SVM.
    """
    n = len(y)
    spaces, signs = [decision], [y]
    if deformation is not None:
        # Beside a matrix Q, features of K save nothing.
        if deformation.factor is None and decision.factor is not None:
            spaces = [Space(matrix=decision.dense)]
        spaces.append(replace(deformation, bias=False))
        signs.append(y if labelled else np.ones(n))
    return SVM2PlusDual(
        spaces=tuple(spaces),
        example=np.arange(n),
        coef=np.vstack(signs).astype(float),
        p=np.ones(n),
        lower=np.zeros(n),
        upper=np.full(n, np.inf),
        ridge=np.where(available, 1.0 / kappa, 1.0) / C,
        total=np.zeros(len(signs)),
        C=C,
        lam=lam,
        available=available,
    )
