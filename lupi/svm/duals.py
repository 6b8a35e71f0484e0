r"""The dual problems of the machines with hinge losses as :class:`~lupi.svm.kernel_qp.KernelQP` objects.

Notation as in the estimators: ``y`` in {-1, +1}; ``C`` one value per example; ``available`` marks the examples whose
privileged row is known. An example without one keeps its own slack with penalty ``C``.
"""

from __future__ import annotations

import numpy as np

from lupi.kernels import Space
from lupi.svm.kernel_qp import KernelQP


def svm_dual(decision: Space, y: np.ndarray, C: np.ndarray) -> KernelQP:
    r"""Dual of the C-SVM: :math:`\max 1'a - \tfrac12 (y \circ a)'K(y \circ a)`, 0 <= a <= C, y'a = 0."""
    n = len(y)
    return KernelQP(
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
) -> KernelQP:
    r"""Dual of SVM+ with hinge loss (Vapnik & Vashist 2009; Celik et al. 2015, eq. 2), any kappa, missing rows allowed.

    .. math:: \max 1'a - \tfrac12 \beta'K\beta - \tfrac{1}{2\lambda} \eta'K^*\eta, \qquad
              \beta = y \circ a,\; \eta = s \circ (a - d),\; 1'\beta = 1'\eta = 0

    with s = 1, 0 <= a <= kappa C, d <= C (slack) or s = y, 0 <= a <= kappa C, 0 <= d <= C (labeled).
    ``privileged.weight`` is 1 / lam.
    """
    n = len(y)
    known = np.flatnonzero(available)
    s = np.where(available, y if labeled else 1.0, 0.0)
    return KernelQP(
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
) -> KernelQP:
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
    return KernelQP(
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


def svr_plus_dual(
    decision: Space,
    privileged: Space | None,
    target: np.ndarray,
    C: np.ndarray,
    epsilon: float,
    kappa: float,
    available: np.ndarray,
) -> KernelQP:
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
    return KernelQP(
        spaces=spaces,
        example=np.concatenate([np.arange(n), np.arange(n), known, known]),
        coef=np.vstack([beta, first, second][: len(spaces)]),
        p=np.concatenate([side * np.tile(target, 2) - epsilon, none, none]),
        lower=np.concatenate([np.zeros(2 * n), np.full(2 * m, -np.inf)]),
        upper=np.concatenate([np.tile(np.where(inside == 1, kappa, 1.0) * C, 2), C[known], C[known]]),
        ridge=np.zeros(2 * n + 2 * m),
        total=np.zeros(len(spaces)),
    )


def check_nu(nu: float) -> None:
    """Refuse a nu outside (0, 1], with the reason."""
    if not 0.0 < nu <= 1.0:
        raise ValueError(
            f"nu must lie in (0, 1], got {nu:g}: it bounds the share of training examples outside of the support. Every "
            "coefficient is at most 1 and they sum to nu * n_samples, which is impossible for nu > 1 and leaves nothing "
            "to fit for nu <= 0."
        )


def one_class_dual(K: np.ndarray, nu: float) -> KernelQP:
    r"""Dual of the one-class SVM, JKSE's problem (Sun et al. 2018, eq. 1-2, times :math:`\nu l`).

    .. math:: \max -\tfrac{1}{2 \nu l} a'Ka, \qquad 0 \le a \le 1,\; 1'a = \nu l
    """
    n = len(K)
    return KernelQP(
        spaces=(Space(matrix=K, weight=1.0 / (nu * n)),),
        example=np.arange(n),
        coef=np.ones((1, n)),
        p=np.zeros(n),
        lower=np.zeros(n),
        upper=np.ones(n),
        ridge=np.zeros(n),
        total=np.array([nu * n]),
    )


def one_class_plus_dual(K: np.ndarray, K_star: np.ndarray, nu: float, lam: float, available: np.ndarray) -> KernelQP:
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
    return KernelQP(
        spaces=(Space(matrix=K, weight=1.0 / (nu * n)), Space(matrix=K_star, weight=1.0 / lam)),
        example=np.concatenate([np.arange(n), known]),
        coef=np.vstack([np.concatenate([np.ones(n), np.zeros(m)]), np.concatenate([inside, -np.ones(m)])]),
        p=np.zeros(n + m),
        lower=np.zeros(n + m),
        upper=np.concatenate([np.where(available, np.inf, 1.0), np.ones(m)]),
        ridge=np.zeros(n + m),
        total=np.array([nu * n, 0.0]),
    )
