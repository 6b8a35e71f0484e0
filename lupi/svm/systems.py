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

from lupi.kernels import require_matrix
from lupi.kernels.linalg import cholesky
from lupi.svm.kernel_qp import KernelQP

# An intercept is a feature without a norm; this much of one keeps the matrix positive definite.
BIAS_NORM = 1e-11
# An entry of a matrix in single precision; such an example does not move.
LARGEST_ENTRY = 1e30

Step = tuple[np.ndarray, dict[int, np.ndarray], np.ndarray]


def newton_system(problem: KernelQP) -> FeatureSystem | MixedSystem | KernelSystem:
    """The cheapest system for a problem's spaces."""
    few = [space.few_features for space in problem.spaces]
    if problem.by_features:
        return FeatureSystem(problem)
    if sum(few) == 1 and len(few) == 2:
        return MixedSystem(problem)
    return KernelSystem(problem)


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


class KernelSystem:
    r"""Every space by its kernel matrix.

    With :math:`t = D^{1/2}\,\delta x` and :math:`A = D^{-1/2} G' = Q R`, example by example, the system is
    :math:`t + Q (R K R') Q' t = \rho`; what is factorized is :math:`I + R K R'`, over variables or fewer combinations of them.
    """

    single = can_be_single = False

    def __init__(self, problem: KernelQP):
        self.problem = problem
        self.features: dict[int, np.ndarray] = {}
        counts = np.bincount(problem.example, minlength=problem.n_examples)
        place = np.empty(problem.n_variables, dtype=int)
        place[np.argsort(problem.example, kind="stable")] = np.concatenate([np.arange(count) for count in counts])
        self.where = problem.example, place
        self.shape = problem.n_examples, int(counts.max()), len(problem.spaces)
        # The matrix that is factorized, and the kernel matrices.
        require_matrix(
            problem.n_examples * min(self.shape[1:]), "the interior point's matrix over all dual variables", copies=2
        )
        everything = np.arange(problem.n_examples)
        self.K = [space.block(everything, everything) for space in problem.spaces]
        self.E = problem.coef[problem.biased]

    def factorize(self, D: np.ndarray) -> None:
        """Prepare for solving with this diagonal."""
        n, size, n_spaces = self.shape
        self.root = np.sqrt(D)[:, None]
        R = np.zeros(self.shape)
        R[self.where] = self.problem.coef.T / self.root
        self.Q = None
        if size > n_spaces:
            self.Q, R = np.linalg.qr(R)
            size = n_spaces
        M = np.zeros((size * n, size * n), order="F")
        for i in range(size):
            for j in range(i + 1):
                block = M[i * n : (i + 1) * n, j * n : (j + 1) * n]
                for K, left, right in zip(self.K, R[:, i].T, R[:, j].T):
                    if left.any() and right.any():
                        block += left[:, None] * K * right
        M[np.diag_indices(size * n)] += 1.0
        self.factor = cholesky(M), True
        self.solved = self._inverse_times(self.E.T)
        self.schur = self.E @ self.solved

    def _inverse_times(self, r: np.ndarray) -> np.ndarray:
        """The inverse of the Hessian over the variables times some columns."""
        rho = np.zeros((*self.shape[:2], r.shape[1]))
        rho[self.where] = r / self.root
        u = rho if self.Q is None else self.Q.transpose(0, 2, 1) @ rho
        by_place = u.transpose(1, 0, 2)
        y = cho_solve(self.factor, by_place.reshape(-1, r.shape[1]), check_finite=False)
        y = y.reshape(by_place.shape).transpose(1, 0, 2)
        t = y if self.Q is None else rho + self.Q @ (y - u)
        return np.asarray(t[self.where] / self.root)

    def solve(self, r: np.ndarray, feature_residual: dict[int, np.ndarray], e: np.ndarray) -> Step:
        """Steps of the variables, of the explicit weights by space (none here), and of the intercepts."""
        half, biased = self._inverse_times(r[:, None])[:, 0], self.problem.biased
        if not (np.isfinite(half).all() and np.isfinite(self.schur).all()):
            raise LinAlgError("numbers beyond the range of double precision")
        biases = np.zeros(len(self.problem.spaces))
        biases[biased] = np.linalg.lstsq(self.schur, self.E @ half - e[biased], rcond=None)[0]
        return half - self.solved @ biases[biased], {}, biases


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
