r"""A primal-dual interior point: a fixed, small number of steps whatever C, lam and kappa are.

A step factorizes the smallest matrix that the kernels allow. It solves, for a positive diagonal D over the variables,

.. math:: (D + \sum_m G_m' K_m G_m)\,\delta x + \sum_m G_m' 1\, \delta b_m = r, \qquad 1'G_m\,\delta x = e_m,

where G_m maps variables to the coefficients of space m. Every system has ``explicit`` (the spaces whose weights are unknowns),
``functions`` (their functions), ``factorize(D)`` and ``solve(r, residual, e)``.
"""

from __future__ import annotations

from functools import cached_property
from itertools import combinations_with_replacement

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lapack, solve_triangular

from lupi.kernels import require_matrix
from lupi.kernels.linalg import cholesky
from lupi.solution import Solution, out_of_time
from lupi.svm.features import Functions
from lupi.svm.kernel_qp import KernelQP

MAX_STEPS = 100
# An iterate may come this close to its bounds in one step, as a share of the distance.
ALMOST = 0.995
# Shorter steps lead nowhere.
SHORTEST = 1e-10
# An iterate that is worse than the best one by this factor has lost its digits.
WORSE = 1e4
# Directions in single precision suffice down to this relative gap, for matrices with at least this many rows.
SINGLE_ENDS, LARGE = 1e-4, 500
# Where the first iterate is made to meet the equalities, this share of the room of every variable is kept.
ROOM = 0.05
# Certificates of problems on weights are computed from this many times the tolerance on: their gap is often smaller.
CHECKED = 3.0
# Signs of the distances x - l and u - x.
SIDES = np.array([[1.0], [-1.0]])
# An entry of a matrix in single precision; such an example does not move.
LARGEST_ENTRY = 1e30
# Sums are updated where fewer than one in this many of their terms have changed.
FEW_CHANGES = 4

# Of the variables, the explicit weights, and the intercepts of other spaces.
Step = tuple[np.ndarray, np.ndarray, np.ndarray]


def follow_central_path(
    problem: KernelQP, *, tol: float, max_iter: int, early: bool = False, theta: np.ndarray | None = None
) -> tuple[Solution, tuple[np.ndarray, np.ndarray]]:
    """Mehrotra's predictor-corrector method over the dual variables.

    Spaces with few explicit features cost O(n r^2) per step, others one factorization of an n x n matrix (2n x 2n where both
    spaces of a problem are known by their matrices only).

    Stops at the relative gap ``tol``, at most 1e-6; with ``early`` at ``tol`` itself, whatever the residuals are, because only
    the active bounds are needed; problems on weights where their certificate proves ``tol``. Returns the solution, and the
    variables that end at their lower and upper bound.
    """
    iterate = _Iterate(problem.merged(), theta)
    limit = MAX_STEPS if max_iter < 0 else min(max_iter, MAX_STEPS)
    steps, found, converged = 0, None, False
    while True:
        iterate.measure()
        if problem.diverges(iterate.x):
            return iterate.solution(problem, steps, False), iterate.active_bounds()
        if problem.family == "linear":
            found = iterate.solution(problem, steps, True) if iterate.estimate <= CHECKED * tol else None
            stop = converged = found is not None and found.gap <= tol
        elif early:
            stop = iterate.gap <= tol
        else:
            stop = converged = iterate.gap <= 1e-3 * min(tol, 1e-6) and iterate.met
        if stop or steps >= limit or iterate.stalled or out_of_time():
            break
        steps += 1
        try:
            iterate.move()
        except LinAlgError:
            if not iterate.system.single:
                break
            iterate.system.single = False
    if found is None or not converged:
        vars(iterate).update(iterate.best)
        found = iterate.solution(problem, steps, converged)
    return found, iterate.active_bounds()


def solve_weights(
    problem: KernelQP, *, tol: float = 1e-3, max_iter: int = -1, theta: np.ndarray | None = None
) -> Solution:
    """The interior point on the weights of linear functions, from ``theta`` or 0; ``tol`` is the relative duality gap."""
    return follow_central_path(problem, tol=tol, max_iter=max_iter, theta=theta)[0]


class _Iterate:
    """Variables strictly inside their bounds with distances and multipliers, weights of explicit features, and intercepts.

    Distances are iterates of their own: C - x cancels to nothing at large C. Variables without a bound have a distance of 1 and
    no multiplier.
    """

    def __init__(self, problem: KernelQP, theta: np.ndarray | None = None):
        self.problem, self.system = problem, newton_system(problem)
        self.system.single = self.system.can_be_single and problem.n_examples >= LARGE
        self.bounded = np.isfinite([problem.lower, problem.upper])
        self.x = self._first_point()
        self.distance = np.where(self.bounded, SIDES * [self.x - problem.lower, self.x - problem.upper], 1.0)
        self.theta = np.zeros(self.system.functions.n_weights) if theta is None else theta
        self.biases = np.zeros(len(problem.spaces))
        self._evaluate()
        force = max(1.0, float(np.max(np.abs(self.slack - problem.ridge * self.x))))
        self.z = self.bounded * force
        self.stalled = False
        self.best_merit = np.inf
        self.last_step = 1.0
        self.best: dict[str, object] = {}

    def _first_point(self) -> np.ndarray:
        """Variables of a typical size that meet the equalities if they can: every later point then does, too."""
        problem = self.problem
        lower, upper = np.where(self.bounded[0], problem.lower, 0.0), problem.upper
        size = self._typical_size()
        if problem.family == "linear":
            # Of many examples for each weight, most are far from 0.
            least = np.full(problem.n_examples, np.inf)
            np.minimum.at(least, problem.example, upper)
            size = np.where(np.isfinite(least), 0.5 * least, size)[problem.example]
        x = np.minimum(lower + size, 0.5 * (lower + upper))
        below, above = x - problem.lower, problem.upper - x
        return problem.feasible(x, x - (1.0 - ROOM) * below, x + (1.0 - ROOM) * above)

    def _typical_size(self) -> float:
        """Size that one variable would have if the others were 0."""
        problem = self.problem
        curvature = max(float(np.mean(space.diagonal())) for space in problem.spaces)
        size = 1.0 / max(curvature + float(np.mean(problem.ridge)), 1e-300)
        finite = problem.upper[self.bounded[1]]
        if problem.n_examples >= LARGE and self.system.can_be_single and len(finite):
            # Both spaces' shares of the first point cancel in the one that is curved most.
            return float(min(10.0 * size, 0.1 * np.median(finite)))
        return float(min(size, np.median(finite))) if len(finite) else size

    def solution(self, problem: KernelQP, steps: int, converged: bool) -> Solution:
        """The current point as a solution of the problem, from which this iterate's may have been merged."""
        x = np.clip(self.x, problem.lower, problem.upper)
        if problem.family == "linear":
            return problem.solution(x, steps, converged, "interior_point", theta=self.theta)
        # Merging drops only spaces without an intercept.
        biases = np.zeros(len(problem.spaces))
        biases[: len(self.biases)] = self.biases
        for m, intercept in zip(self.system.explicit, self.system.functions.intercepts):
            biases[m] = self.theta[intercept] if problem.spaces[m].bias else 0.0
        return problem.solution(x, steps, converged, "interior_point", biases)

    @property
    def complementarity(self) -> float:
        """The gap that a feasible point would have."""
        return float(np.vdot(self.z, self.distance))

    def active_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Which bounds hold with equality at the limit: those whose multiplier outweighs the distance."""
        width = np.where(self.bounded.all(axis=0), self.distance.sum(axis=0), np.inf)
        width = np.minimum(width, max(float(np.max(np.abs(self.x))), 1e-300))
        at_lower, at_upper = self.bounded & (self.distance < self.z * width)
        at_upper &= ~at_lower
        return at_lower, at_upper

    def _evaluate(self) -> None:
        """Slacks of the variables, and by how much weights and intercepts miss what the variables give."""
        problem, functions, explicit = self.problem, self.system.functions, self.system.explicit
        betas = problem.expansions(self.x)
        known = dict(zip(explicit, functions.fields(self.theta)))
        fields = [
            known[m] if m in known else space.product(beta) + bias
            for m, (space, beta, bias) in enumerate(zip(problem.spaces, betas, self.biases))
        ]
        self.slack = problem.margins(self.x, fields)
        self.e = np.array(
            [t - beta.sum() if s.bias else 0.0 for s, t, beta in zip(problem.spaces, problem.total, betas)]
        )
        self.residual = functions.sums([betas[m] for m in explicit]) - functions.metric(self.theta)
        biased = [m in problem.biased for m in explicit]
        self.residual[functions.intercepts[biased]] = -self.e[list(explicit)][biased]

    def measure(self) -> None:
        """Residuals of the current point; the best one is kept."""
        problem, functions = self.problem, self.system.functions
        # A pass over many examples takes as long as a tenth of a step.
        if problem.family != "linear":
            self._evaluate()
        self.r = self.slack - problem.ridge * self.x + self.z[0] - self.z[1]
        size = abs(float(problem.p @ self.x)) + 1e-300
        unmet = float(self.residual @ functions.inverse_metric(self.residual))
        self.gap = self.complementarity / size
        excess = self.complementarity + 0.5 * unmet + float(np.abs(self.r) @ np.abs(self.x))
        value = problem.constant + 0.5 * float((problem.p + self.slack - problem.ridge * self.x) @ self.x)
        self.estimate = excess / (abs(value) + 1e-300)
        scale = max(1.0, float(np.max(np.abs(self.x))))
        steepest, uneven, unmet = float(np.max(np.abs(self.r))), float(np.max(np.abs(self.e))), np.sqrt(unmet)
        self.met = steepest <= 1e-7 and uneven <= 1e-9 * scale * np.sqrt(len(self.x)) and unmet <= 1e-7 * scale
        merit = max(self.gap, steepest, (unmet + uneven) / scale)
        if merit < self.best_merit:
            self.best_merit = merit
            names = ("x", "distance", "z", "biases", "theta")
            self.best = {name: getattr(self, name) for name in names}
        self.stalled = self.stalled or merit > WORSE * self.best_merit

    def move(self) -> None:
        """One predictor-corrector step."""
        if self.gap <= SINGLE_ENDS:
            self.system.single = False
        self.D = np.maximum(self.problem.ridge + (self.z / self.distance).sum(axis=0), 1e-300)
        self.system.factorize(self.D)
        total = self.complementarity
        wanted = -self.z * self.distance
        dx, away, dz, *_ = self._direction(wanted)
        length = self._room(away, dz)
        reached = max(float(np.vdot(self.z + length * dz, self.distance + length * away)), 0.0)
        center = (reached / total) ** 3 * total / np.count_nonzero(self.bounded) if total > 0 else 0.0
        dx, away, dz, slack, theta, biases = self._direction(wanted + self.bounded * center - dz * away)
        length = min(1.0, ALMOST * self._room(away, dz))
        self.x = self.x + length * dx
        self.distance = self.distance + length * away
        self.z = self.z + length * dz
        self.theta = self.theta + length * theta
        self.biases = self.biases + length * biases
        self.slack = self.slack + length * slack
        self.e, self.residual = (1.0 - length) * self.e, (1.0 - length) * self.residual
        self.stalled = length < SHORTEST and self.last_step < SHORTEST
        self.last_step = length

    def _direction(self, wanted: np.ndarray) -> tuple[np.ndarray, ...]:
        """Newton direction towards complementarity products that differ from the current ones by these amounts."""
        r = self.r + (SIDES * wanted / self.distance).sum(axis=0)
        dx, theta, biases = self.system.solve(r, self.residual, self.e)
        away = self.bounded * SIDES * dx
        return dx, away, self.bounded * (wanted - self.z * away) / self.distance, self.D * dx - r, theta, biases

    def _room(self, away: np.ndarray, dz: np.ndarray) -> float:
        """Longest step that keeps every distance and multiplier positive."""
        steepest = 1.0
        for value, change in ((self.distance, away), (self.z, dz)):
            ratio = np.divide(change, value, out=np.zeros_like(value), where=value > 0)
            steepest = max(steepest, -float(np.min(ratio, initial=0.0)))
        return 1.0 / steepest


def newton_system(problem: KernelQP) -> FeatureSystem | MixedSystem | KernelSystem:
    """The cheapest system for a problem's spaces."""
    few = [space.few_features for space in problem.spaces]
    if problem.by_features:
        return FeatureSystem(problem)
    if sum(few) == 1 and len(few) == 2:
        return MixedSystem(problem)
    return KernelSystem(problem)


class FeatureSystem:
    """Every space has few features: the unknowns are the weights, O(n r^2) a step."""

    single = can_be_single = False

    def __init__(self, problem: KernelQP):
        self.problem, self.functions = problem, problem.functions
        self.explicit = range(len(problem.spaces))
        self.sums: np.ndarray = np.zeros(())
        self.weights: np.ndarray = np.zeros(())

    def factorize(self, D: np.ndarray) -> None:
        """Prepare for solving with this diagonal."""
        problem, functions = self.problem, self.functions
        self.D = D
        weights = np.zeros((len(self.explicit), len(self.explicit), problem.n_examples))
        for m, k in combinations_with_replacement(self.explicit, 2):
            weights[k, m] = np.bincount(problem.example, problem.coef[m] * problem.coef[k] / D, problem.n_examples)
        change, self.weights = weights - self.weights, weights
        few = FEW_CHANGES * np.count_nonzero(change.any(axis=(0, 1))) < np.count_nonzero(weights.any(axis=(0, 1)))
        self.sums = functions.hessian(change) + self.sums if few else functions.hessian(weights)
        self.factor = functions.factorize(self.sums)

    def direction(self, rhs: np.ndarray) -> np.ndarray:
        """The inverse of the Hessian over the weights times a vector."""
        out = np.zeros(len(rhs))
        out[self.functions.free] = cho_solve(self.factor, rhs[self.functions.free], check_finite=False)
        return out

    def solve(self, r: np.ndarray, residual: np.ndarray, e: np.ndarray) -> Step:
        """Steps of the variables, of the explicit weights, and of the intercepts of other spaces."""
        problem = self.problem
        theta = self.direction(self.functions.sums(problem.expansions(r / self.D)) + residual)
        return (r - problem.outputs(self.functions.fields(theta))) / self.D, theta, np.zeros(len(problem.spaces))


class KernelSystem:
    r"""Every space by its kernel matrix.

    With :math:`t = D^{1/2}\,\delta x` and :math:`A = D^{-1/2} G' = Q R`, example by example, the system is
    :math:`t + Q (R K R') Q' t = \rho`; what is factorized is :math:`I + R K R'`, over variables or fewer combinations of them.
    """

    single = can_be_single = False

    def __init__(self, problem: KernelQP):
        self.problem, self.functions, self.explicit = problem, Functions(()), ()
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

    def solve(self, r: np.ndarray, residual: np.ndarray, e: np.ndarray) -> Step:
        """Steps of the variables, of the explicit weights (none here), and of the intercepts."""
        half, biased = self._inverse_times(r[:, None])[:, 0], self.problem.biased
        if not (np.isfinite(half).all() and np.isfinite(self.schur).all()):
            raise LinAlgError("numbers beyond the range of double precision")
        biases = np.zeros(len(self.problem.spaces))
        biases[biased] = np.linalg.lstsq(self.schur, self.E @ half - e[biased], rcond=None)[0]
        return half - self.solved @ biases[biased], np.zeros(0), biases


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
        self.functions, self.explicit = Functions(problem.spaces[self.f : self.f + 1]), (self.f,)
        features = problem.spaces[self.f].factor
        assert features is not None
        self.Phi = np.hstack([features, np.ones((len(features), 1))])[:, self.functions.free]
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
        self.ratio = W_fk[rows] * self.inverse
        border = self.ratio[:, None] * self.Phi[rows]
        corner = self.functions.regularized(self.functions.hessian(W_ff[None, None]))
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

    def solve(self, r: np.ndarray, residual: np.ndarray, e: np.ndarray) -> Step:
        """Steps of the variables, of the explicit weights, and of the intercept of the other space."""
        problem, f, k, rows, Phi, free = self.problem, self.f, self.k, self.rows, self.Phi, self.functions.free
        rho_f, rho_k = (np.bincount(problem.example, problem.coef[m] * r / self.D, problem.n_examples) for m in (f, k))
        big = rho_k[rows] * self.inverse
        adjusted = rho_f.copy()
        adjusted[rows] -= self.ratio * rho_k[rows]
        small = Phi.T @ adjusted + residual[free]
        biased = problem.spaces[k].bias
        if biased:
            small = np.append(small, -e[k])
        half = self._half_solve(big)
        solution = cho_solve(self.schur, self.half_border.T @ half + small, check_finite=False)
        coefficients = self._half_solve(half - self.half_border @ solution, transposed=True)
        theta = np.zeros(len(residual))
        theta[free] = solution[: len(free)]
        fields = np.zeros((2, problem.n_examples))
        fields[f] = Phi @ theta[free]
        # K (change of coefficients) + change of the intercept, read off the first row of the system.
        fields[k][rows] = big - self.inverse * coefficients - self.ratio * fields[f][rows]
        biases = np.zeros(2)
        biases[k] = solution[-1] if biased else 0.0
        return (r - problem.outputs(fields)) / self.D, theta, biases
