r"""The matrix Q through which privileged features enter SVM2+.

.. math:: Q = P - \lambda P (\tilde K + \lambda P)^{-1} P, \qquad P = \mathrm{diag}(1/C_i),\; \tilde K = K^* + 1,

which is :math:`\frac1C \tilde K (\frac{\lambda}{C} I + \tilde K)^{-1}` for equal weights: Xu et al. (2016), eq. (5), in a form
whose eigenvalues stay in [0, 1/C). Rows of examples without privileged features are 0.

A large Q is known in single precision only, or by a low-rank matrix near it; products with it are those of double precision.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, blas, cho_factor, lapack, solve_triangular, svd

from lupi.kernels import Space, pivoted_cholesky, require_matrix, scale_and_mirror

# Smaller matrices are factorized in double precision: it takes a tenth of a second.
LARGE_MATRIX = 1500
# Single precision may spoil so much of Q, and is then refined to so little in a few steps.
WORST_ERROR = 1e-2
REFINED = 1e-12
REFINEMENTS = 12
# What is left of a residual after a solution in single precision, and the steps that it takes at most.
ROUGHLY, ROUGH_STEPS = 1e-5, 60
# Low rank: at most this share of the examples. What it leaves of the privileged kernel has values below the second share of
# lam / C, and no eigenvalue above a third one; where the last is not met, values below a third of those before. Steps on such
# a matrix need few corrections where the decision kernel's curvature leads; else Q has to be nearer.
LOW_RANK, REMAINDER, SMALLER = 0.25, 0.03, 3.0
LEAST_EIGENVALUE, LARGEST_EIGENVALUE = 0.3, 1.5
POWERS = 4


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
        space = RefinedDeformation(bias=False, inexact=True, privileged=privileged, C=C, lam=lam, available=available)
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
    factorize, invert = (lapack.spotrf, lapack.spotri) if single else (lapack.dpotrf, lapack.dpotri)
    # A is symmetric, so its C-ordered transpose is the Fortran-ordered matrix LAPACK can overwrite.
    factor, info = factorize(A.T, lower=1, overwrite_a=1)
    if info == 0:
        inverse, info = invert(factor, lower=1, overwrite_c=1)
    if info != 0:
        raise ValueError(
            "the kernel matrix of `privileged` is not positive semi-definite, or its values are too far apart for double "
            "precision; scale the privileged features, use a positive semi-definite kernel, or bring lam nearer to 1."
        )
    Q = inverse.T
    scale_and_mirror(Q, (np.sqrt(lam) * price).astype(dtype), Q)
    np.negative(Q, out=Q)
    Q[np.diag_indices(len(Q))] += price.astype(dtype)
    if everything:
        return Q
    out = np.zeros((len(available), len(available)), dtype=dtype)
    out[np.ix_(rows, rows)] = Q
    return out


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
class RefinedDeformation(Space):
    r"""Q known to single precision, or near a low-rank matrix, with products in double precision.

    :math:`Q v = P v - \lambda P u` where :math:`(\tilde K + \lambda P) u = P v`: iterative refinement solves for u, by
    conjugate gradients that what is known of Q makes well conditioned.

    Parameters
    ----------
    privileged : Space
        With the kernel matrix in its own precision.
    C, lam, available
        As in :func:`deformation_space`.
    low_rank : pair of ndarray, optional
        V and e with Q near V V' + diag(e): where steps are checked, they are made on this matrix.
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
        """Q to single precision, formed when it is first needed."""
        return deformation_matrix(self.privileged.rounded, self.C, self.lam, self.available, single=True)

    @cached_property
    def rounded(self) -> np.ndarray:
        """The matrix of steps that are checked."""
        if self.low_rank is None:
            return self.dense
        V, diagonal = self.low_rank
        near = V @ V.T
        near[np.diag_indices(len(near))] += diagonal
        return near

    def diagonal(self) -> np.ndarray:
        """Weighted diagonal."""
        if self.low_rank is None:
            return self.weight * np.diagonal(self.dense)
        V, diagonal = self.low_rank
        return self.weight * (np.einsum("ij,ij->i", V, V) + diagonal).astype(np.float64)

    def product(self, coefficients: np.ndarray) -> np.ndarray:
        """Q times a vector."""
        metric = self.lam / self.C
        rhs = np.where(self.available, coefficients / self.C, 0.0)
        size = float(np.abs(rhs).max(initial=0.0))
        u = self._solve_roughly(rhs)
        for _ in range(REFINEMENTS):
            kernel = self.privileged.product(u) / self.privileged.weight
            residual = rhs - np.where(self.available, kernel + u.sum(), 0.0) - metric * u
            error = float(np.abs(residual).max(initial=0.0))
            if error <= REFINED * size:
                break
            u += self._solve_roughly(residual)
            if ROUGHLY * error <= REFINED * size:
                break
        return self.weight * (rhs - np.where(self.available, metric * u, 0.0))

    def rough_product(self, coefficients: np.ndarray) -> np.ndarray:
        """The same to about five digits."""
        rhs = np.where(self.available, coefficients / self.C, 0.0)
        return self.weight * (rhs - self.lam / self.C * self._solve_roughly(rhs))

    def _solve_roughly(self, rhs: np.ndarray) -> np.ndarray:
        """Solution of (K* + 1 + lam P) u = rhs over the available examples, in single precision."""
        metric, single = self.lam / self.C, self.privileged.rounded
        goal = ROUGHLY * float(np.abs(rhs).max(initial=0.0))
        u, residual = np.zeros_like(rhs), rhs.copy()
        direction, before = np.zeros_like(rhs), 1.0
        for _ in range(ROUGH_STEPS):
            if float(np.abs(residual).max(initial=0.0)) <= goal:
                break
            step = self._nearly_inverse(residual)
            slope = float(residual @ step)
            direction = step + slope / before * direction
            kernel = (single @ direction.astype(np.float32)).astype(np.float64)
            image = np.where(self.available, kernel + direction.sum(), 0.0) + metric * direction
            length = slope / float(direction @ image)
            u += length * direction
            residual -= length * image
            before = slope
        return u

    def _nearly_inverse(self, vector: np.ndarray) -> np.ndarray:
        """The inverse of K* + 1 + lam P, which is (P - Q) / lam between factors 1 / P, by what is known of Q."""
        scaled = (vector * self.C).astype(np.float32)
        if self.low_rank is None:
            near = self.dense @ scaled
        else:
            V, diagonal = self.low_rank
            near = V @ (scaled @ V) + diagonal * scaled
        return np.where(self.available, vector - near, 0.0) * self.C / self.lam


def low_rank_deformation(
    K_star: np.ndarray, C: np.ndarray, lam: float, available: np.ndarray, curvature: float = 1.0
) -> tuple[np.ndarray, np.ndarray] | None:
    r"""V and e with Q near :math:`V V' + \mathrm{diag}(e)`; None where that takes a large rank.

    A pivoted Cholesky factor L of K* leaves remainders r on the diagonal. With :math:`\tilde Z = [L, 1]` and
    :math:`D = \lambda P + \mathrm{diag}(r)`, the formula of Q for :math:`\tilde Z \tilde Z' + \mathrm{diag}(r)` reads
    :math:`e = P r / (r + \lambda P)` and :math:`V = \lambda^{1/2} P D^{-1} \tilde Z (I + \tilde Z' D^{-1} \tilde Z)^{-1/2}`.

    Examples
    --------
    >>> import numpy as np
    >>> K_star = np.ones((8, 8), dtype=np.float32) + np.diag(np.full(8, 1e-3, dtype=np.float32))
    >>> V, e = low_rank_deformation(K_star, np.ones(8), 1.0, np.ones(8, dtype=bool))
    >>> V.shape, bool(np.allclose(V @ V.T + np.diag(e), deformation_matrix(K_star, np.ones(8), 1.0, np.ones(8, bool)), atol=1e-3))
    ((8, 2), True)
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
    """Of what L L' leaves of the matrix, about: by a few powers."""
    vector = np.random.default_rng(0).standard_normal(len(matrix)).astype(matrix.dtype)
    value = 0.0
    for _ in range(POWERS):
        vector /= max(float(np.linalg.norm(vector)), 1e-30)
        vector = matrix @ vector - L @ (vector @ L)
        value = float(np.linalg.norm(vector))
    return value
