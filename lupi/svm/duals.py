r"""The dual problems of the machines with hinge losses as :class:`~lupi.svm.kernel_qp.KernelQP` objects.

Notation as in the estimators: ``y`` in {-1, +1}; ``C`` one value per example; ``available`` marks the examples whose
privileged row is known. An example without one keeps its own slack with penalty ``C``.
"""

from __future__ import annotations

import numpy as np

from lupi.kernels import Space
from lupi.svm.kernel_qp import KernelQP


def _box_qp(
    spaces: tuple[Space, ...], example: list[np.ndarray], coef: list[list[np.ndarray]], p: list[np.ndarray],
    lower: list[np.ndarray], upper: list[np.ndarray], total: float = 0.0,
) -> KernelQP:  # fmt: skip
    """Problem without ridges from the parts of its arrays; ``total`` is the sum over the first space."""
    columns = np.array([np.concatenate(parts, dtype=float) for parts in coef])
    p_, lower_, upper_ = (np.concatenate(parts, dtype=float) for parts in (p, lower, upper))
    totals = np.append(total, np.zeros(len(spaces) - 1))
    return KernelQP(spaces, np.concatenate(example), columns, p_, lower_, upper_, np.zeros(len(p_)), totals)


def svm_dual(decision: Space, y: np.ndarray, C: np.ndarray) -> KernelQP:
    r"""Dual of the C-SVM: :math:`\max 1'a - \tfrac12 (y \circ a)'K(y \circ a)`, 0 <= a <= C, y'a = 0."""
    zero = np.zeros(len(y))
    return _box_qp((decision,), [np.arange(len(y))], [[y]], [zero + 1.0], [zero], [C])


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
    known, zero = np.flatnonzero(available), np.zeros(len(y))
    s = np.where(available, y if labeled else 1.0, 0.0)
    return _box_qp(
        (decision, privileged),
        [np.arange(len(y)), known],
        [[y, zero[known]], [s, -s[known]]],
        [zero + 1.0, zero[known]],
        [zero, np.full(len(known), 0.0 if labeled else -np.inf)],
        [np.where(available, kappa, 1.0) * C, C[known]],
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
    known, zero = np.flatnonzero(available), np.zeros(len(y))
    tied = known[D[known] > 0]
    one = np.ones(len(tied))
    return _box_qp(
        (decision, privileged),
        [np.arange(len(y)), known, tied, tied],
        [[y, zero[known], -one, one], [zero, y[known], one, -one]],
        [zero + 1.0, zero[known] + 1.0, -epsilon * one, -epsilon * one],
        [zero, zero[known], 0.0 * one, 0.0 * one],
        [C, C_privileged[known], D[tied], D[tied]],
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
    zero = np.zeros(len(target))
    spaces = (decision,) if privileged is None else (decision, privileged, privileged)
    available = available if privileged is not None else zero > 0
    known, inside = np.flatnonzero(available), available.astype(float)
    one, none = np.ones(len(known)), np.zeros(len(known))
    every, upper = np.arange(len(target)), np.where(available, kappa, 1.0) * C
    beta = [zero + 1.0, zero - 1.0, none, none]
    return _box_qp(
        spaces,
        [every, every, known, known],
        [beta, [inside, zero, -one, none], [zero, inside, none, -one]][: len(spaces)],
        [target - epsilon, -target - epsilon, none, none],
        [zero, zero, -np.inf * one, -np.inf * one],
        [upper, upper, C[known], C[known]],
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
    n, zero, one = len(K), np.zeros(len(K)), np.ones(len(K))
    return _box_qp(
        (Space(matrix=K, weight=1.0 / (nu * n)),), [np.arange(n)], [[one]], [zero], [zero], [one], total=nu * n
    )


def one_class_plus_dual(K: np.ndarray, K_star: np.ndarray, nu: float, lam: float, available: np.ndarray) -> KernelQP:
    r"""Dual of the one-class SVM+, JKSE+'s problem (Sun et al. 2018, eq. 23).

    .. math::

        \max -\tfrac{1}{2 \nu l} a'Ka - \tfrac{1}{2\lambda} (a - d)'K^*(a - d), \qquad
        a \ge 0,\; 1'a = \nu l,\; 0 \le d \le 1,\; 1'(a - d) = 0

    An example without a privileged row keeps its own slack: it leaves the second space and has a <= 1.
    """
    n, zero, known = len(K), np.zeros(len(K)), np.flatnonzero(available)
    none, one = zero[known], np.ones(len(known))
    return _box_qp(
        (Space(matrix=K, weight=1.0 / (nu * n)), Space(matrix=K_star, weight=1.0 / lam)),
        [np.arange(n), known],
        [[zero + 1.0, none], [available, -one]],
        [zero, none],
        [zero, none],
        [np.where(available, np.inf, 1.0), one],
        total=nu * n,
    )
