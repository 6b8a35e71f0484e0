r"""The duals of the one-class SVM (JKSE) and of the one-class SVM+ (JKSE+).

With l examples, the coefficients sum to :math:`\nu l`; the decision kernel enters as :math:`K / (\nu l)`, so that
:math:`w = \frac{1}{\nu l} \sum_i a_i \Phi_i`. The first bias is :math:`-\rho`, the second :math:`b^*`; ``decision`` is
:math:`\nu l` times the function, whose coefficients are the :math:`a_i`.
"""

from __future__ import annotations

import numpy as np

from lupi.kernels import Space
from lupi.svm.duals import OneSpaceDual, TwoSpaceDual


def check_nu(nu: float) -> None:
    """Refuse a nu outside (0, 1], with the reason."""
    if not 0.0 < nu <= 1.0:
        raise ValueError(
            f"nu must lie in (0, 1], got {nu:g}: it bounds the share of training examples outside of the support. Every "
            "coefficient is at most 1 and they sum to nu * n_samples, which is impossible for nu > 1 and leaves nothing "
            "to fit for nu <= 0."
        )


def one_class_dual(K: np.ndarray, nu: float) -> OneSpaceDual:
    r"""Dual of the one-class SVM, JKSE's problem (Sun et al. 2018, eq. 1-2, times :math:`\nu l`).

    .. math:: \max -\tfrac{1}{2 \nu l} a'Ka, \qquad 0 \le a \le 1,\; 1'a = \nu l
    """
    n = len(K)
    return OneSpaceDual(
        spaces=(Space(matrix=K, weight=1.0 / (nu * n)),),
        example=np.arange(n),
        coef=np.ones((1, n)),
        p=np.zeros(n),
        lower=np.zeros(n),
        upper=np.ones(n),
        ridge=np.zeros(n),
        total=np.array([nu * n]),
    )


def one_class_plus_dual(
    K: np.ndarray, K_star: np.ndarray, nu: float, lam: float, available: np.ndarray
) -> TwoSpaceDual:
    r"""Dual of the one-class SVM+, JKSE+'s problem (Sun et al. 2018, eq. 23).

    .. math::

        \max -\tfrac{1}{2 \nu l} a'Ka - \tfrac{1}{2\lambda} (a - d)'K^*(a - d), \qquad
        a \ge 0,\; 1'a = \nu l,\; 0 \le d \le 1,\; 1'(a - d) = 0

    An example without a privileged row keeps its own slack: it leaves the second space and has a <= 1.
    """
    n = len(K)
    known = np.flatnonzero(available)
    m = len(known)
    inside = available.astype(float)
    return TwoSpaceDual(
        spaces=(Space(matrix=K, weight=1.0 / (nu * n)), Space(matrix=K_star, weight=1.0 / lam)),
        example=np.concatenate([np.arange(n), known]),
        coef=np.vstack([np.concatenate([np.ones(n), np.zeros(m)]), np.concatenate([inside, -np.ones(m)])]),
        p=np.zeros(n + m),
        lower=np.zeros(n + m),
        upper=np.concatenate([np.where(available, np.inf, 1.0), np.ones(m)]),
        ridge=np.zeros(n + m),
        total=np.array([nu * n, 0.0]),
    )
