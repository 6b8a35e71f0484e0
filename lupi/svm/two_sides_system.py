r"""Linear algebra of the interior point for SVR+: four variables an example, but no factorization larger than n x n."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, blas, cho_solve, solve_triangular

from lupi.kernels import require_matrix, scale_and_mirror
from lupi.kernels.linalg import cholesky, inverse_from_cholesky
from lupi.svm.kernel_qp import KernelQP


class TwoSidesSystem:
    r"""Both sides are eliminated first, each by its privileged kernel; what is left is a system in the decision space.

    With :math:`\alpha_k = 1 / D(a_k)`, :math:`\delta_k = 1 / D(d_k)` and :math:`E_k = \alpha_k + \delta_k`, the fields
    :math:`\varphi_0 = K \beta` and the coefficients :math:`\beta` of a step satisfy :math:`\beta = c - B \varphi_0`, where

    .. math:: B = \sum_k \alpha_k \delta_k / E_k + \frac{\alpha_k}{E_k} (K^* + E_k^{-1})^{-1} \frac{\alpha_k}{E_k}

    and plain :math:`\alpha_k` in rows without privileged features. With :math:`B = L L'` the matrix to factorize is
    :math:`I + L' K L`, whose eigenvalues are at least 1.
    """

    features: dict[int, np.ndarray]
    single = can_be_single = False

    def __init__(self, problem: KernelQP):
        self.problem, self.features = problem, {}
        n = problem.n_examples
        # Two kernel matrices, two inverses, B with its factor, and two products.
        require_matrix(n, "the interior point's matrices of SVR+", copies=8)
        everything = np.arange(n)
        self.K = np.asfortranarray(problem.spaces[0].block(everything, everything))
        self.known = problem.example[2 * n :][: (problem.n_variables - 2 * n) // 2]
        if len(self.known):
            self.K_star = np.asfortranarray(problem.spaces[1].block(self.known, self.known))
        self.E = problem.coef[problem.biased]

    def factorize(self, D: np.ndarray) -> None:
        """Prepare for solving with this diagonal."""
        n, m, known = self.problem.n_examples, len(self.known), self.known
        self.D = D
        alphas = 1.0 / D[:n], 1.0 / D[n : 2 * n]
        # Rows without privileged features have no d: their whole alpha is in B.
        B = np.zeros((n, n))
        B[np.diag_indices(n)] = alphas[0] + alphas[1]
        self.sides = []
        for alpha, D_a, D_d in zip(alphas, (D[:n], D[n : 2 * n]), (D[2 * n : 2 * n + m], D[2 * n + m :])):
            if not m:
                break
            inverse_E = D_a[known] * D_d / (D_a[known] + D_d)
            share = D_d / (D_a[known] + D_d)  # alpha / E, without a difference that could cancel
            M = self.K_star.copy(order="F")
            M[np.diag_indices(m)] += inverse_E
            inverse = _inverse(M)
            B[np.ix_(known, known)] += share[:, None] * inverse * share
            # alpha - alpha^2 / E = alpha * delta / E in place of alpha.
            B[known, known] += 1.0 / (D_a[known] + D_d) - alpha[known]
            self.sides.append((inverse, inverse_E, share))
        self.L = np.asfortranarray(np.tril(cholesky(B)))
        # I + L' K L by two products with a triangular matrix.
        M = blas.dtrmm(1.0, self.L, self.K, lower=1, trans_a=1)
        M = blas.dtrmm(1.0, self.L, M, side=1, lower=1, overwrite_b=1)
        M[np.diag_indices(n)] += 1.0
        self.factor = cholesky(M), True
        self.solved = self._inverse_times(self.E.T)
        self.schur = self.E @ self.solved

    def _inverse_times(self, r: np.ndarray) -> np.ndarray:
        """The inverse of the Hessian over the variables times some columns, refined once: it has lost digits on the way."""
        step = self._eliminated(r)
        return np.asarray(step + self._eliminated(r - self._hessian_times(step)))

    def _hessian_times(self, x: np.ndarray) -> np.ndarray:
        """(D + sum of G' K G) x."""
        out: np.ndarray = self.D[:, None] * x
        for m, (c, total) in enumerate(zip(self.problem.coef, self._expansions(x))):
            field = np.zeros_like(total)
            if m == 0:
                field = self.K @ total
            else:
                field[self.known] = self.K_star @ total[self.known]
            out += c[:, None] * field[self.problem.example]
        return out

    def _expansions(self, x: np.ndarray) -> list[np.ndarray]:
        """G_m x of every space."""
        out = [np.zeros((self.problem.n_examples, x.shape[1])) for _ in self.problem.spaces]
        for total, c in zip(out, self.problem.coef):
            np.add.at(total, self.problem.example, c[:, None] * x)
        return out

    def _eliminated(self, r: np.ndarray) -> np.ndarray:
        """The same by elimination alone."""
        problem, known = self.problem, self.known
        rho = self._expansions(r / self.D[:, None])
        c0 = rho[0].copy()
        for sign, own, (inverse, inverse_E, share) in zip((1.0, -1.0), rho[1:], self.sides):
            part = own[known]
            c0[known] -= sign * share[:, None] * (part - inverse @ (inverse_E[:, None] * part))
        y = cho_solve(self.factor, solve_triangular(self.L, c0, lower=True, check_finite=False), check_finite=False)
        fields = [self.K @ (self.L @ y)]
        for sign, own, (inverse, inverse_E, share) in zip((1.0, -1.0), rho[1:], self.sides):
            part = inverse_E[:, None] * own[known] - sign * share[:, None] * fields[0][known]
            field = np.zeros_like(own)
            # E^-1 (... - eta) with eta = (K* + E^-1)^-1 part.
            field[known] = part - inverse_E[:, None] * (inverse @ part)
            fields.append(field)
        step = r.copy()
        for c, field in zip(problem.coef, fields):
            step -= c[:, None] * field[problem.example]
        return np.asarray(step / self.D[:, None])

    def solve(
        self, r: np.ndarray, feature_residual: dict[int, np.ndarray], e: np.ndarray
    ) -> tuple[np.ndarray, dict[int, np.ndarray], np.ndarray]:
        """Steps of the variables, of the explicit weights by space (none here), and of the intercepts."""
        half = self._inverse_times(r[:, None])[:, 0]
        biases = np.zeros(len(self.problem.spaces))
        if not (np.isfinite(half).all() and np.isfinite(self.schur).all()):
            raise LinAlgError("numbers beyond the range of double precision")
        biases[self.problem.biased] = np.linalg.lstsq(self.schur, self.E @ half - e[self.problem.biased], rcond=None)[0]
        return half - self.solved @ biases[self.problem.biased], {}, biases


def _inverse(M: np.ndarray) -> np.ndarray:
    """Inverse of a positive definite matrix, which is overwritten."""
    out = inverse_from_cholesky(cholesky(M)).T
    scale_and_mirror(out, np.ones(len(out)), out)
    return out
