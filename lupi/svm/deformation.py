r"""The matrix Q of SVM2+ (:mod:`lupi.svm.svm2_plus_dual`) where it is large.

.. math:: Q = P - \lambda P (\tilde K + \lambda P)^{-1} P, \qquad P = \mathrm{diag}(1/C_i),\; \tilde K = K^* + 1

is then known in single precision only, or by a low-rank matrix near it; products with it are those of double precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.linalg import blas, cho_factor, solve_triangular

from lupi.kernels import Space, pivoted_cholesky

# A residual is refined to so little, in a few steps.
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
        Prices, one for each example; price of the privileged weights; the examples that have privileged features.
    form : callable
        From the kernel matrix, C, lam and ``available`` to Q.
    low_rank : pair of ndarray, optional
        V and e with Q near V V' + diag(e): where steps are checked, they are made on this matrix.
    """

    privileged: Space = field(default_factory=Space)
    C: np.ndarray = field(default_factory=lambda: np.zeros(0))
    available: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    lam: float = 1.0
    form: Callable[..., np.ndarray] = np.zeros
    low_rank: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return len(self.C)

    @cached_property
    def dense(self) -> np.ndarray:
        """Q to single precision, formed when it is first needed."""
        return self.form(self.privileged.rounded, self.C, self.lam, self.available)

    @cached_property
    def rounded(self) -> np.ndarray:
        """The matrix of steps that are checked."""
        if self.low_rank is None:
            return self.dense
        V, diagonal = self.low_rank
        near: np.ndarray = V @ V.T
        near[np.diag_indices(len(near))] += diagonal
        return near

    def diagonal(self) -> np.ndarray:
        """Weighted diagonal."""
        if self.low_rank is None:
            return self.weight * np.diagonal(self.dense)
        V, diagonal = self.low_rank
        return np.asarray(self.weight * (np.einsum("ij,ij->i", V, V) + diagonal).astype(np.float64))

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
        return np.asarray(np.where(self.available, vector - near, 0.0) * self.C / self.lam)


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
    """Of what L L' leaves of the matrix, about: by a few powers."""
    vector = np.random.default_rng(0).standard_normal(len(matrix)).astype(matrix.dtype)
    value = 0.0
    for _ in range(POWERS):
        vector /= max(float(np.linalg.norm(vector)), 1e-30)
        vector = matrix @ vector - L @ (vector @ L)
        value = float(np.linalg.norm(vector))
    return value
