r"""The dual of SVM2+, and the matrix Q through which privileged features enter it.

.. math:: Q = P - \lambda P (\tilde K + \lambda P)^{-1} P, \qquad P = \mathrm{diag}(1/C_i),\; \tilde K = K^* + 1,

which is :math:`\frac1C \tilde K (\frac{\lambda}{C} I + \tilde K)^{-1}` for equal weights: Xu et al. (2016), eq. (5), in a form
whose eigenvalues stay in [0, 1/C). Rows of examples without privileged features are 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, get_lapack_funcs, solve_triangular, svd

from lupi.kernels import LARGE_MATRIX, Space, require_matrix, scale_and_mirror
from lupi.kernels.linalg import WHOLE, cholesky, inverse_from_cholesky
from lupi.svm.deformation import RefinedDeformation, low_rank_deformation
from lupi.svm.duals import OneSpaceDual
from lupi.svm.kernel_qp import Expansion

# Single precision may spoil so much of Q.
WORST_ERROR = 1e-2


def deformation_space(
    privileged: Space,
    C: np.ndarray,
    lam: float,
    available: np.ndarray,
    *,
    single: bool = False,
    curvature: float | None = None,
) -> Space:
    """Q as a space without an intercept: by features where the privileged space has them, else as a matrix.

    Parameters
    ----------
    privileged : Space
    C : ndarray of shape (n,)
    lam : float
    available : ndarray of bool, shape (n,)
    single : bool
        Factorize a large matrix in single precision where its condition allows; products with it, and with them every
        certificate, stay those of double precision.
    curvature : float, optional
        Of the decision kernel: its mean diagonal. Steps are then made on a low-rank matrix near Q, if there is one, which
        needs corrections: not to be given where many problems share Q.
    """
    if privileged.factor is not None:
        return Space(factor=deformation_features(privileged.factor, C, lam, available), bias=False)
    if single and _single_suffices(privileged, C, lam):
        space = RefinedDeformation(
            bias=False, inexact=True, privileged=privileged, C=C, lam=lam, available=available,
            form=partial(deformation_matrix, single=True),
        )  # fmt: skip
        if curvature is None:
            return space
        return replace(space, low_rank=low_rank_deformation(privileged.rounded, C, lam, available, curvature))
    return Space(matrix=deformation_matrix(privileged.dense, C, lam, available), bias=False)


def _single_suffices(privileged: Space, C: np.ndarray, lam: float) -> bool:
    """Whether the matrix is large, and its condition number times the last digit small."""
    n = len(C)
    condition = (float(privileged.diagonal().sum()) / privileged.weight + n) * float(C.max()) / lam + 1.0
    return n >= LARGE_MATRIX and condition * float(np.finfo(np.float32).eps) <= WORST_ERROR


def deformation_matrix(
    K_star: np.ndarray, C: np.ndarray, lam: float, available: np.ndarray, *, single: bool = False
) -> np.ndarray:
    """Q as a dense matrix, by one Cholesky factorization and inversion.

    Examples
    --------
    >>> import numpy as np
    >>> Q = deformation_matrix(np.eye(2), np.ones(2), 1.0, np.array([True, True]))
    >>> np.round(Q, 3)
    array([[0.625, 0.125],
           [0.125, 0.625]])
    """
    rows = np.flatnonzero(available)
    everything = len(rows) == len(available)
    require_matrix(len(available), "the matrix Q of SVM2+", copies=1 if everything and not single else 2)
    dtype = np.float32 if single else np.float64
    A: np.ndarray = np.array(K_star if everything else K_star[np.ix_(rows, rows)], order="C", dtype=dtype)
    A += 1.0
    price = 1.0 / C[rows]
    A[np.diag_indices(len(A))] += (lam * price).astype(dtype)
    try:
        # A is symmetric, so its C-ordered transpose is the Fortran-ordered matrix LAPACK can overwrite.
        Q = _inverse(A.T).T
    except LinAlgError:
        raise ValueError(
            "the kernel matrix of `privileged` is not positive semi-definite, or its values are too far apart for double "
            "precision; scale the privileged features, use a positive semi-definite kernel, or bring lam nearer to 1."
        ) from None
    scale_and_mirror(Q, (np.sqrt(lam) * price).astype(dtype), Q)
    np.negative(Q, out=Q)
    Q[np.diag_indices(len(Q))] += price.astype(dtype)
    if everything:
        return Q
    out = np.zeros((len(available), len(available)), dtype=dtype)
    out[np.ix_(rows, rows)] = Q
    return out


def _inverse(A: np.ndarray) -> np.ndarray:
    """The lower triangle of the inverse, in place."""
    if len(A) > WHOLE[A.dtype]:
        return inverse_from_cholesky(cholesky(A))
    potrf, potri = get_lapack_funcs(("potrf", "potri"), (A,))
    factor, info = potrf(A, lower=1, overwrite_a=1)
    if info == 0:
        A, info = potri(factor, lower=1, overwrite_c=1)
    if info != 0:
        raise LinAlgError
    return A


def deformation_features(features: np.ndarray, C: np.ndarray, lam: float, available: np.ndarray) -> np.ndarray:
    r"""U with :math:`Q = U U'`, for privileged features (or an approximation's features) fewer than examples.

    :math:`U = \tilde Z (\lambda I + \tilde Z' \mathrm{diag}(C) \tilde Z)^{-1/2}` with :math:`\tilde Z = [Z, 1]`: O(n s^2).
    """
    Z = np.hstack([features, np.ones((len(features), 1))]) * available[:, None]
    M = (Z * C[:, None]).T @ Z
    M[np.diag_indices(len(M))] += lam
    try:
        L, _ = cho_factor(M, lower=True)
    except LinAlgError:
        # A lam that is lost beside C, in directions that the features do not have; another root of the rest gives the same Q.
        _, sizes, directions = svd(Z * np.sqrt(C)[:, None], full_matrices=False)
        there = sizes > len(Z) * np.finfo(float).eps * sizes.max(initial=0.0)
        return np.ascontiguousarray(Z @ directions[there].T / np.sqrt(lam + sizes[there] ** 2))
    return np.ascontiguousarray(solve_triangular(L, Z.T, lower=True).T)


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
    labeled: bool,
    available: np.ndarray,
) -> SVM2PlusDual:
    r"""Dual of SVM2+ (Xu et al. 2016, eq. 4), the deformation Q being a second space without a bias.

    .. math:: \max 1'a - \tfrac12 a'(yy' \circ K + Q)a - \tfrac{1}{2 \kappa} \sum_i a_i^2 / C_i, \qquad a \ge 0,\; y'a = 0,

    with :math:`yy' \circ Q` for the labeled correction. ``deformation`` has zero rows for missing examples; their ridge
    is 1 / C. With ``deformation=None`` no row is available: the L2-SVM.
    """
    n = len(y)
    spaces, signs = [decision], [y]
    if deformation is not None:
        # Beside a matrix Q, features of K save nothing.
        if deformation.factor is None and decision.factor is not None:
            spaces = [Space(matrix=decision.dense)]
        # What a space computes once and keeps, such as Q itself, is shared by all problems that have the same object.
        spaces.append(replace(deformation, bias=False) if deformation.bias else deformation)
        signs.append(y if labeled else np.ones(n))
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
