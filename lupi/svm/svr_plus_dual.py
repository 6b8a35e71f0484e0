r"""The duals of epsilon-SVR and of SVR+: a tube around the regression function, with one slack on either side.

Side 1 is above the tube (targets larger than the prediction), side 2 below it. ``C`` is one value per example; an example
without a privileged row keeps a slack of its own on either side at price ``C``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lupi.kernels import Space
from lupi.svm.kernel_qp import Expansion, KernelQP


@dataclass(frozen=True)
class TwoSidesDual(KernelQP):
    r"""Variables (a1, a2, d1, d2) with :math:`\beta = a_1 - a_2` and :math:`\eta_k = a_k - d_k`; solved by two-sided SMO.

    First the 2n variables a, side after side, then the d of the examples with a privileged row, side after side. Both sides
    have the same privileged kernel; without privileged rows there is the first space alone.
    """

    layout: ClassVar[str | None] = "two_sides"

    def privileged(self, solution: Any) -> Expansion:
        """The correcting functions of both sides, one row of coefficients and one intercept each."""
        certificate = solution.certificate
        eta = self.spaces[1].weight * np.vstack(certificate.expansions[1:])
        return Expansion(eta, certificate.biases[1:])


def svr_plus_dual(
    decision: Space,
    privileged: Space | None,
    target: np.ndarray,
    C: np.ndarray,
    epsilon: float,
    kappa: float,
    available: np.ndarray,
) -> TwoSidesDual:
    r"""Dual of SVR+, one correcting function for each side of the tube, any kappa, missing rows allowed.

    .. math::

        \max t'(a_1 - a_2) - \varepsilon 1'(a_1 + a_2) - \tfrac12 \beta'K\beta - \tfrac{1}{2\lambda} \sum_k \eta_k'K^*\eta_k,
        \qquad 1'\beta = 1'\eta_k = 0,\; 0 \le a_k \le \kappa C,\; d_k \le C

    ``privileged.weight`` is 1 / lam. With ``privileged=None`` no row is available: epsilon-SVR.

    Examples
    --------
    >>> import numpy as np
    >>> K = Space(factor=np.array([[0.0], [1.0]]))
    >>> problem = svr_plus_dual(K, None, np.array([0.0, 1.0]), np.ones(2), 0.1, 3.0, np.zeros(2, dtype=bool))
    >>> # a line through both tubes: slope 0.8
    >>> round(problem.value(np.array([0.0, 0.8, 0.8, 0.0])), 6)
    0.32
    """
    n = len(target)
    known = np.flatnonzero(available) if privileged is not None else np.zeros(0, dtype=int)
    m = len(known)
    side = np.repeat([1.0, -1.0], n)
    inside = np.zeros(n)
    inside[known] = 1.0
    none, one = np.zeros(m), np.ones(m)
    first = np.concatenate([inside, np.zeros(n), -one, none])
    second = np.concatenate([np.zeros(n), inside, none, -one])
    beta = np.concatenate([side, none, none])
    spaces = (decision,) if privileged is None else (decision, privileged, privileged)
    return TwoSidesDual(
        spaces=spaces,
        example=np.concatenate([np.arange(n), np.arange(n), known, known]),
        coef=np.vstack([beta, first, second][: len(spaces)]),
        p=np.concatenate([side * np.tile(target, 2) - epsilon, none, none]),
        lower=np.concatenate([np.zeros(2 * n), np.full(2 * m, -np.inf)]),
        upper=np.concatenate([np.tile(np.where(inside == 1, kappa, 1.0) * C, 2), C[known], C[known]]),
        ridge=np.zeros(2 * n + 2 * m),
        total=np.zeros(len(spaces)),
    )
