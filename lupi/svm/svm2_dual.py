r"""The dual problem of SVM2+, and its matrix Q of the privileged features.

.. math:: Q = P - \lambda P (\tilde K + \lambda P)^{-1} P, \qquad P = \mathrm{diag}(1/C_i),\; \tilde K = K^* + 1,

which is :math:`\frac1C \tilde K (\frac{\lambda}{C} I + \tilde K)^{-1}` for equal weights: Xu et al. (2016), eq. (5), in a form
whose eigenvalues stay in [0, 1/C). Rows of examples without privileged features are 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, blas, cho_factor, get_lapack_funcs, solve_triangular, svd

from lupi.kernels import LARGE_MATRIX, Space, pivoted_cholesky, require_matrix, scale_and_mirror
from lupi.kernels.linalg import WHOLE, cholesky, inverse_from_cholesky
from lupi.solution import Solution
from lupi.svm.features import weighted_products
from lupi.svm.kernel_qp import DualForm, KernelQP

# Largest product of the condition number and the rounding error of single precision.
WORST_ERROR = 1e-2
# Relative residuals of a product, and of a solution in single precision, each with its largest number of steps.
REFINED, REFINEMENTS = 1e-12, 12
SINGLE, SINGLE_STEPS = 1e-5, 60
# Largest rank as a share of the examples; largest diagonal entry of the remainder as a share of lam / C, and the factor by
# which it is lowered until the remainder's largest eigenvalue is below the limit.
LOW_RANK, REMAINDER, SMALLER = 0.25, 0.03, 3.0
# Limits of that eigenvalue as a share of lam / C: the more the decision kernel is curved, the less Q matters.
LEAST_EIGENVALUE, LARGEST_EIGENVALUE = 0.3, 1.5
POWER_STEPS = 4


@dataclass(frozen=True)
class SVM2PlusDual(KernelQP):
    """Dual of SVM2+ with the weights by which its correcting function follows from the dual point."""

    C: np.ndarray
    lam: float
    available: np.ndarray

    def privileged(self, solution: Solution) -> DualForm:
        """V = (1 / lam) sum eta_i z_i and rho = (1 / lam) sum eta_i, where eta = s o a - C xi and xi = Q (s o a)."""
        certificate = solution.certificate
        eta = np.where(self.available, certificate.expansions[1] - self.C * certificate.fields[1], 0.0) / self.lam
        eta *= certificate.scale
        theta = certificate.theta
        # What the weights of a primal point give, eta gives at the optimum only.
        rho = float(eta.sum() if theta is None else theta[-1])
        return DualForm(eta, rho, self.weights(solution, 1))


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
        signs.append(np.where(available, y if labeled else 1.0, 0.0))
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

    With ``single``, a large Q is computed in single precision if its condition allows. With ``curvature``, the mean diagonal
    of the decision kernel, it is then approximated by a low-rank matrix if possible. Solvers correct their steps on such a
    matrix, which does not pay where many problems share a low-rank one.
    """
    if privileged.factor is not None:
        return Space(factor=deformation_features(privileged.factor, C, lam, available), bias=False)
    n = len(C)
    condition = (float(privileged.diagonal().sum()) / privileged.weight + n) * float(C.max()) / lam + 1.0
    if not single or n < LARGE_MATRIX or condition * np.finfo(np.float32).eps > WORST_ERROR:
        return Space(matrix=deformation_matrix(privileged.dense, C, lam, available), bias=False)
    low_rank = None
    if curvature is not None:
        low_rank = low_rank_deformation(privileged.rounded, C, lam, available, curvature)
    return RefinedDeformation(
        bias=False, inexact=True, privileged=privileged, C=C, lam=lam, available=available, low_rank=low_rank
    )


def deformation_metric(Z: Any, C: np.ndarray, lam: float, available: np.ndarray) -> np.ndarray:
    """M with Q = [Z, 1] M^-1 [Z, 1]': lam I plus the second moments of the features with an intercept."""
    weight = np.where(available, C, 0.0)[None, None]
    return np.asarray(weighted_products(Z, None, weight) + lam * np.eye(Z.shape[1] + 1))


def deformation_matrix(
    K_star: np.ndarray, C: np.ndarray, lam: float, available: np.ndarray, dtype: Any = np.float64
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
    require_matrix(len(available), "the matrix Q of SVM2+", copies=1 if everything and dtype == np.float64 else 2)
    A: np.ndarray = np.array(K_star if everything else K_star[np.ix_(rows, rows)], order="C", dtype=dtype)
    A += 1.0
    inverse_C = 1.0 / C[rows]
    A[np.diag_indices(len(A))] += (lam * inverse_C).astype(dtype)
    try:
        # A is symmetric, so its C-ordered transpose is the Fortran-ordered matrix LAPACK can overwrite.
        Q = _inverse(A.T).T
    except LinAlgError:
        raise ValueError(
            "the kernel matrix of `privileged` is not positive semi-definite, or its values are too far apart for double "
            "precision; scale the privileged features, use a positive semi-definite kernel, or bring lam nearer to 1."
        ) from None
    scale_and_mirror(Q, (np.sqrt(lam) * inverse_C).astype(dtype))
    np.negative(Q, out=Q)
    Q[np.diag_indices(len(Q))] += inverse_C.astype(dtype)
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
        # lam is lost beside C in directions without features; another root of the rest gives the same Q.
        _, sizes, directions = svd(Z * np.sqrt(C)[:, None], full_matrices=False)
        kept = sizes > len(Z) * np.finfo(float).eps * sizes.max(initial=0.0)
        return np.ascontiguousarray(Z @ directions[kept].T / np.sqrt(lam + sizes[kept] ** 2))
    return np.ascontiguousarray(solve_triangular(L, Z.T, lower=True).T)


@dataclass(frozen=True)
class RefinedDeformation(Space):
    r"""Q in single precision, or near :math:`V V' + \mathrm{diag}(e)`, with products in double precision.

    :math:`Q v = P v - \lambda P u` where :math:`(\tilde K + \lambda P) u = P v`: iterative refinement of conjugate
    gradients, which the approximation of Q makes well conditioned.
    """

    privileged: Space = field(default_factory=Space)
    C: np.ndarray = field(default_factory=lambda: np.zeros(0))
    available: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    lam: float = 1.0
    low_rank: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(self.C)

    @cached_property
    def dense(self) -> np.ndarray:
        """Q in single precision, formed when it is first needed."""
        return deformation_matrix(self.privileged.rounded, self.C, self.lam, self.available, np.float32)

    @cached_property
    def rounded(self) -> np.ndarray:
        """The low-rank matrix written out, or Q in single precision."""
        if self.low_rank is None:
            return self.dense
        V, e = self.low_rank
        near: np.ndarray = V @ V.T
        near[np.diag_indices(len(near))] += e
        return near

    def diagonal(self) -> np.ndarray:
        """Diagonal of the approximation."""
        if self.low_rank is None:
            return np.diagonal(self.dense).astype(np.float64)
        V, e = self.low_rank
        return np.asarray((np.einsum("ij,ij->i", V, V) + e).astype(np.float64))

    def product(self, coefficients: np.ndarray) -> np.ndarray:
        """Q times a vector."""
        metric = self.lam / self.C
        rhs = np.where(self.available, coefficients / self.C, 0.0)
        size = float(np.abs(rhs).max(initial=0.0))
        u = self._solve_in_single_precision(rhs)
        for _ in range(REFINEMENTS):
            kernel = self.privileged.product(u) / self.privileged.weight
            residual = rhs - np.where(self.available, kernel + u.sum(), 0.0) - metric * u
            error = float(np.abs(residual).max(initial=0.0))
            if error <= REFINED * size:
                break
            u += self._solve_in_single_precision(residual)
            if SINGLE * error <= REFINED * size:
                break
        return rhs - np.where(self.available, metric * u, 0.0)

    def _solve_in_single_precision(self, rhs: np.ndarray) -> np.ndarray:
        """Solve (K* + 1 + lam P) u = rhs over the available examples."""
        metric = self.lam / self.C
        goal = SINGLE * float(np.abs(rhs).max(initial=0.0))
        u, residual = np.zeros_like(rhs), rhs.copy()
        direction, before = np.zeros_like(rhs), 1.0
        for _ in range(SINGLE_STEPS):
            if float(np.abs(residual).max(initial=0.0)) <= goal:
                break
            # The inverse of the matrix is (P - Q) / lam between factors 1 / P; Q is known approximately.
            scaled = (residual * self.C).astype(np.float32)
            if self.low_rank is None:
                near = self.dense @ scaled
            else:
                V, e = self.low_rank
                near = V @ (scaled @ V) + e * scaled
            step = np.where(self.available, residual - near, 0.0) * self.C / self.lam
            slope = float(residual @ step)
            direction = step + slope / before * direction
            kernel = (self.privileged.rounded @ direction.astype(np.float32)).astype(np.float64)
            image = np.where(self.available, kernel + direction.sum(), 0.0) + metric * direction
            length = slope / float(direction @ image)
            u += length * direction
            residual -= length * image
            before = slope
        return u


def low_rank_deformation(
    K_star: np.ndarray, C: np.ndarray, lam: float, available: np.ndarray, curvature: float
) -> tuple[np.ndarray, np.ndarray] | None:
    r"""V and e with Q near :math:`V V' + \mathrm{diag}(e)`, in single precision; None where the rank would be high.

    From :math:`K^* = L L' + R` with a diagonal :math:`R`: with :math:`\tilde Z = [L, 1]` and :math:`D = \lambda P + R`,
    :math:`V = P D^{-1} \sqrt\lambda \tilde Z (I + \tilde Z' D^{-1} \tilde Z)^{-1/2}`.

    Examples
    --------
    >>> import numpy as np
    >>> K_star = np.ones((8, 8), dtype=np.float32) + np.diag(np.full(8, 1e-3, dtype=np.float32))
    >>> V, e = low_rank_deformation(K_star, np.ones(8), 1.0, np.ones(8, dtype=bool), 1.0)
    >>> V.shape, (V @ V.T + np.diag(e))[0, :2].astype(float).round(2)
    ((8, 2), array([0.12, 0.12]))
    """
    metric = lam / C
    allowed = REMAINDER * float(metric.min())
    largest = np.clip(LARGEST_EIGENVALUE * curvature * float(C.min()), LEAST_EIGENVALUE, LARGEST_EIGENVALUE)
    while True:
        L, remainder = pivoted_cholesky(K_star, allowed, int(LOW_RANK * len(C)))
        if remainder.max() > allowed:
            return None
        if _largest_eigenvalue(K_star, L) <= largest * float(metric.min()):
            break
        allowed /= SMALLER
    Z = np.hstack([L, np.ones((len(L), 1), dtype=np.float32)])
    Z *= available[:, None]
    D = (metric + remainder).astype(np.float32)
    scaled = Z / np.sqrt(D)[:, None]
    M = blas.ssyrk(1.0, scaled, trans=1, lower=1).astype(np.float64)
    M[np.diag_indices(len(M))] += 1.0
    factor, _ = cho_factor(M, lower=True, overwrite_a=True, check_finite=False)
    scaled *= (np.sqrt(lam / D) / C)[:, None].astype(np.float32)
    V = solve_triangular(factor.astype(np.float32), scaled.T, lower=True, check_finite=False).T
    return np.asfortranarray(V), (remainder / D / C).astype(np.float32)


def _largest_eigenvalue(matrix: np.ndarray, L: np.ndarray) -> float:
    """Estimate the largest eigenvalue of matrix - L L' by a few power steps."""
    vector = np.random.default_rng(0).standard_normal(len(matrix)).astype(matrix.dtype)
    value = 0.0
    for _ in range(POWER_STEPS):
        vector /= max(float(np.linalg.norm(vector)), 1e-30)
        vector = matrix @ vector - L @ (vector @ L)
        value = float(np.linalg.norm(vector))
    return value
