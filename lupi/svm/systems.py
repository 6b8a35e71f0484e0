r"""Linear algebra of the interior point: one factorization a step, of the smallest matrix the kernels allow.

A step solves, for a positive diagonal D over the variables,

.. math:: (D + \sum_m G_m' K_m G_m)\,\delta x + \sum_m G_m' 1\, \delta b_m = r, \qquad 1'G_m\,\delta x = e_m,

where G_m maps variables to the coefficients of space m. Every system has ``features`` (explicit feature matrices by space,
with a column of ones last where the space has an intercept), ``factorize(D)`` and ``solve(r, feature_residual, e)``.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, blas, cho_factor, cho_solve, lapack, solve_triangular

from lupi.kernels import require_matrix, scale_and_mirror
from lupi.kernels.linalg import WHOLE, cholesky, inverse_from_cholesky
from lupi.svm.kernel_qp import KernelQP

# An intercept is a feature without a norm; this much of one keeps the matrix positive definite.
BIAS_NORM = 1e-11
# An entry of a matrix in single precision; such an example does not move.
LARGEST_ENTRY = 1e30

# Up to so many variables one factorization is quicker than several smaller ones.
FEW_VARIABLES = 400

Step = tuple[np.ndarray, dict[int, np.ndarray], np.ndarray]


def newton_system(problem: KernelQP) -> FeatureSystem | TwoSidesSystem | MixedSystem | DenseSystem:
    """The cheapest system for a problem's spaces."""
    few = [space.few_features for space in problem.spaces]
    if problem.by_features:
        return FeatureSystem(problem)
    if len(few) == 3 and problem.n_variables > FEW_VARIABLES:
        return TwoSidesSystem(problem)
    if sum(few) == 1 and len(few) == 2:
        return MixedSystem(problem)
    return DenseSystem(problem)


def _explicit(problem: KernelQP, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Features of space m with its intercept's column, and the norm that each of them has."""
    space = problem.spaces[m]
    columns = [space.features()]
    norm = np.ones(columns[0].shape[1])
    if space.bias:
        columns.append(np.ones((problem.n_examples, 1)))
        norm = np.append(norm, BIAS_NORM)
    return np.ascontiguousarray(np.hstack(columns)), norm


def _cross(left: np.ndarray, weight: np.ndarray, right: np.ndarray | None = None, chunk: int = 4096) -> np.ndarray:
    """Left' diag(weight) right in chunks that stay in cache; the lower triangle of left' diag(weight) left by default."""
    width = left.shape[1] if right is None else right.shape[1]
    out = np.zeros((left.shape[1], width), order="F")
    root = np.sqrt(weight) if right is None else weight
    for start in range(0, len(left), chunk):
        rows = slice(start, start + chunk)
        scaled = left[rows] * root[rows, None]
        if right is None:
            out = blas.dsyrk(1.0, scaled.T, beta=1.0, c=out, lower=1, overwrite_c=1)
        else:
            out += scaled.T @ right[rows]
    return out


class FeatureSystem:
    """Every space has few features: the unknowns are the weights, O(n r^2) a step."""

    single = can_be_single = False

    def __init__(self, problem: KernelQP):
        self.problem = problem
        self.features: dict[int, np.ndarray] = {}
        self.norms: dict[int, np.ndarray] = {}
        for m in range(len(problem.spaces)):
            self.features[m], self.norms[m] = _explicit(problem, m)
        self.starts = np.concatenate([[0], np.cumsum([f.shape[1] for f in self.features.values()])])

    def factorize(self, D: np.ndarray) -> None:
        """Prepare for solving with this diagonal."""
        problem = self.problem
        self.D = D
        A = np.diag(np.concatenate(list(self.norms.values())))
        for m, left in self.features.items():
            for k in range(m + 1):
                weight = np.bincount(problem.example, problem.coef[m] * problem.coef[k] / D, problem.n_examples)
                block = _cross(left, weight, None if k == m else self.features[k])
                A[self.starts[m] : self.starts[m + 1], self.starts[k] : self.starts[k + 1]] += block
        self.factor = cho_factor(A, lower=True, overwrite_a=True, check_finite=False)

    def solve(self, r: np.ndarray, feature_residual: dict[int, np.ndarray], e: np.ndarray) -> Step:
        """Steps of the variables, of the explicit weights by space, and of the intercepts."""
        problem = self.problem
        rhs = [
            self.features[m].T @ np.bincount(problem.example, c * r / self.D, problem.n_examples) + feature_residual[m]
            for m, c in enumerate(problem.coef)
        ]
        solution = cho_solve(self.factor, np.concatenate(rhs), check_finite=False)
        weights = {m: solution[self.starts[m] : self.starts[m + 1]] for m in self.features}
        step = r.copy()
        for m, c in enumerate(problem.coef):
            step -= c * (self.features[m] @ weights[m])[problem.example]
        biases = np.array([weights[m][-1] if s.bias else 0.0 for m, s in enumerate(problem.spaces)])
        return step / self.D, weights, biases


class DenseSystem:
    """General case: the Hessian over the variables is written out and factorized."""

    features: dict[int, np.ndarray]
    single = can_be_single = False

    def __init__(self, problem: KernelQP):
        self.problem = problem
        self.features = {}
        index = problem.example
        # The matrix, and the copy that is factorized.
        require_matrix(problem.n_variables, "the interior point's matrix over all dual variables", copies=2)
        self.H = np.zeros((problem.n_variables, problem.n_variables), order="F")
        for space, coef in zip(problem.spaces, problem.coef):
            used = np.flatnonzero(coef)
            signed = coef[used]
            self.H[np.ix_(used, used)] += signed[:, None] * space.block(index[used], index[used]) * signed
        self.E = problem.coef[problem.biased]

    def factorize(self, D: np.ndarray) -> None:
        """Prepare for solving with this diagonal."""
        M = self.H.copy(order="F")
        M[np.diag_indices(len(M))] += D
        if len(M) > WHOLE[M.dtype]:
            self.factor = cholesky(M), True
        else:
            self.factor = cho_factor(M, lower=True, overwrite_a=True, check_finite=False)
        self.solved = cho_solve(self.factor, self.E.T, check_finite=False)
        self.schur = self.E @ self.solved

    def solve(self, r: np.ndarray, feature_residual: dict[int, np.ndarray], e: np.ndarray) -> Step:
        """Steps of the variables, of the explicit weights by space (none here), and of the intercepts."""
        return _with_intercepts(self, cho_solve(self.factor, r, check_finite=False), e)


def _with_intercepts(system: DenseSystem | TwoSidesSystem, half: np.ndarray, e: np.ndarray) -> Step:
    """Correct a step of the variables so that it meets the equalities; returns the steps of variables and intercepts."""
    biased = system.problem.biased
    biases = np.zeros(len(system.problem.spaces))
    if not (np.isfinite(half).all() and np.isfinite(system.schur).all()):
        raise LinAlgError("numbers beyond the range of double precision")
    biases[biased] = np.linalg.lstsq(system.schur, system.E @ half - e[biased], rcond=None)[0]
    return half - system.solved @ biases[biased], {}, biases


class MixedSystem:
    r"""One space by its features (index f), the other by its kernel matrix (index k).

    With :math:`W_{mk} = G_m D^{-1} G_k'`, diagonal over the examples, eliminating the variables leaves

    .. math::

        \begin{bmatrix} K + W_{kk}^{-1} & \rho \Phi & 1 \\ \cdot & -(I + \Phi' (W_{ff} - W_{fk}^2 / W_{kk}) \Phi) & 0 \\
        \cdot & \cdot & 0 \end{bmatrix}, \qquad \rho = W_{fk} / W_{kk},

    an n x n matrix with a narrow border, which may be factorized in single precision (``single``).
    """

    can_be_single = True

    def __init__(self, problem: KernelQP):
        self.problem = problem
        self.f, self.k = (0, 1) if problem.spaces[0].few_features else (1, 0)
        Phi, self.norm = _explicit(problem, self.f)
        self.features = {self.f: Phi}
        # Examples without a privileged row have no coefficient in that space.
        self.rows = np.unique(problem.example[problem.coef[self.k] != 0])
        self.K = np.asfortranarray(problem.spaces[self.k].block(self.rows, self.rows))
        # Steps far from the optimum need few digits.
        self.single = False
        self.memory: np.ndarray | None = None
        self.pairs = self._variable_pairs()

    @cached_property
    def rounded(self) -> np.ndarray:
        """The kernel matrix in single precision."""
        return self.K.astype(np.float32)

    def _variable_pairs(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Pairs of variables of the same example with the squared minors of their coefficients."""
        problem = self.problem
        order = np.argsort(problem.example, kind="stable")
        out = []
        for shift in range(1, int(np.max(np.bincount(problem.example)))):
            i, j = order[shift:], order[:-shift]
            same = problem.example[i] == problem.example[j]
            i, j = i[same], j[same]
            first, second = problem.coef
            out.append((i, j, (first[i] * second[j] - first[j] * second[i]) ** 2))
        return out

    def factorize(self, D: np.ndarray) -> None:
        """Prepare for solving with this diagonal."""
        problem, rows, n = self.problem, self.rows, self.problem.n_examples
        self.D = D
        cf, ck = problem.coef[self.f], problem.coef[self.k]
        W_ff = np.bincount(problem.example, cf * cf / D, n)
        W_fk = np.bincount(problem.example, cf * ck / D, n)
        self.inverse = 1.0 / np.bincount(problem.example, ck * ck / D, n)[rows]
        # W_ff W_kk - W_fk^2 by Cauchy-Binet: the difference would cancel.
        determinant = np.zeros(n)
        for i, j, minor in self.pairs:
            determinant += np.bincount(problem.example[i], minor / (D[i] * D[j]), n)
        W_ff[rows] = determinant[rows] * self.inverse
        self._factorize_kernel()
        Phi = self.features[self.f]
        self.ratio = W_fk[rows] * self.inverse
        border = self.ratio[:, None] * Phi[rows]
        corner = _cross(Phi, W_ff) + np.diag(self.norm)
        if problem.spaces[self.k].bias:
            border = np.hstack([border, np.ones((len(rows), 1))])
            corner = np.pad(corner, ((0, 1), (0, 1)))
        # L^{-1} times the border is all that is needed of K + W_kk^{-1} = L L': one triangular system instead of two.
        self.half_border = self._half_solve(border)
        schur = self.half_border.T @ self.half_border + corner
        self.schur = cho_factor(schur, lower=True, overwrite_a=True, check_finite=False)

    def _factorize_kernel(self) -> None:
        """The Cholesky factor of K + W_kk^{-1}, in memory that is used again."""
        kernel = self.rounded if self.single else self.K
        if self.memory is None or self.memory.dtype != kernel.dtype:
            self.memory = np.empty_like(kernel)
        np.copyto(self.memory, kernel)
        self.memory[np.diag_indices(len(kernel))] += (
            np.minimum(self.inverse, LARGEST_ENTRY) if self.single else self.inverse
        ).astype(kernel.dtype)
        factorize = lapack.spotrf if self.single else lapack.dpotrf
        self.factor, info = factorize(self.memory, lower=1, overwrite_a=1, clean=0)
        if info != 0:
            raise LinAlgError("the matrix of an interior point's step is not positive definite")

    def _half_solve(self, vectors: np.ndarray, transposed: bool = False) -> np.ndarray:
        """L^{-1} times vectors, or L'^{-1}, with the Cholesky factor L of K + W_kk^{-1}."""
        right = vectors.astype(self.factor.dtype, copy=False)
        found = solve_triangular(self.factor, right, trans=int(transposed), lower=True, check_finite=False)
        return np.asarray(found, dtype=np.float64)

    def solve(self, r: np.ndarray, feature_residual: dict[int, np.ndarray], e: np.ndarray) -> Step:
        """Steps of the variables, of the explicit weights by space, and of the intercepts."""
        problem, f, k, rows = self.problem, self.f, self.k, self.rows
        Phi = self.features[f]
        rho_f, rho_k = (np.bincount(problem.example, problem.coef[m] * r / self.D, problem.n_examples) for m in (f, k))
        big = rho_k[rows] * self.inverse
        adjusted = rho_f.copy()
        adjusted[rows] -= self.ratio * rho_k[rows]
        small = Phi.T @ adjusted + feature_residual[f]
        biased = problem.spaces[k].bias
        if biased:
            small = np.append(small, -e[k])
        half = self._half_solve(big)
        solution = cho_solve(self.schur, self.half_border.T @ half + small, check_finite=False)
        coefficients = self._half_solve(half - self.half_border @ solution, transposed=True)
        weights = solution[: Phi.shape[1]]
        fields = np.zeros((2, problem.n_examples))
        fields[f] = Phi @ weights
        # K (change of coefficients) + change of the intercept, read off the first row of the system.
        fields[k][rows] = big - self.inverse * coefficients - self.ratio * fields[f][rows]
        step = r.copy()
        for m, c in enumerate(problem.coef):
            step -= c * fields[m][problem.example]
        biases = np.zeros(2)
        biases[f] = weights[-1] if problem.spaces[f].bias else 0.0
        biases[k] = solution[-1] if biased else 0.0
        return step / self.D, {f: weights}, biases


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

    def solve(self, r: np.ndarray, feature_residual: dict[int, np.ndarray], e: np.ndarray) -> Step:
        """Steps of the variables, of the explicit weights by space (none here), and of the intercepts."""
        return _with_intercepts(self, self._inverse_times(r[:, None])[:, 0], e)


def _inverse(M: np.ndarray) -> np.ndarray:
    """Inverse of a positive definite matrix, which is overwritten."""
    out = inverse_from_cholesky(cholesky(M)).T
    scale_and_mirror(out)
    return out
