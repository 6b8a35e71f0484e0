"""Problems over weights against the reference QP, formulas written out here, and one another."""

import numpy as np
import pytest

from lupi.problems import (
    Space,
    deformation_matrix,
    linear_svm2_plus,
    linear_svm_plus,
    svm2_plus_dual,
    svm_plus_dual,
)
from lupi.solvers.kernel.linear_interior import solve_weights
from lupi.solvers.kernel.linear_newton import solve_newton
from lupi.solvers.kernel.reference import solve_reference


def data(seed, n, d=6, s=3, missing=0.3):
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(n, d)), rng.normal(size=(n, s))
    margin = X[:, 0] - X[:, 1] + 0.7 * rng.normal(size=n)
    y = np.where(margin > 0.3, 1.0, -1.0)
    Z[:, 0] = np.abs(margin) + 0.2 * rng.normal(size=n)
    available = rng.random(n) >= missing
    Z[~available] = 0.0
    return X, Z, y, rng.uniform(0.5, 2.0, size=n), available


def losses(problem_args, theta, squared):
    """Primal value from the estimators' formulas alone."""
    X, Z, y, C, lam, kappa, labelled, available = problem_args
    d = X.shape[1]
    w, b, v, c = theta[:d], theta[d], theta[d + 1 : -1], theta[-1]
    f, g = X @ w + b, np.where(available, Z @ v + c, 0.0)
    s = np.where(available, y if labelled else 1.0, 0.0)
    residual = np.maximum(1 - y * f - s * g, 0)
    price = np.where(available, kappa, 1.0)
    if np.isinf(kappa):
        assert residual[available].max() <= 1e-9
        residual, price = np.where(available, 0.0, residual), np.ones(len(y))
    if squared:
        return 0.5 * w @ w + 0.5 * lam * (v @ v + c * c) + 0.5 * C @ (g**2 + price * residual**2)
    if not labelled:
        assert g[available].min() >= -1e-9
    return 0.5 * w @ w + 0.5 * lam * v @ v + C @ (np.maximum(s * g, 0) + price * residual)


def dual_value(problem_args, x, squared):
    """Dual value with kernel matrices, or -inf where a constraint is missed."""
    X, Z, y, C, lam, kappa, labelled, available = problem_args
    a = x[0]
    s = np.where(available, y if labelled else 1.0, 0.0)
    size = 1e-8 * (1 + np.abs(x).sum())
    assert a.min() >= 0
    assert abs(y @ a) <= size
    beta = y * a
    value = a.sum() - 0.5 * beta @ (X @ X.T) @ beta
    if squared:
        Q = deformation_matrix(Z @ Z.T, C, lam, available)
        ridge = np.where(available, 1 / kappa, 1.0) / C
        return value - 0.5 * (s * a) @ Q @ (s * a) - 0.5 * ridge @ a**2
    d = x[1]
    eta = s * (a - d)
    assert np.all(a <= np.where(available, kappa, 1.0) * C)
    assert np.all(d <= C)
    assert not labelled or d.min() >= 0
    assert abs(eta.sum()) <= size
    return value - 0.5 / lam * eta @ (Z @ Z.T) @ eta


def reference(problem_args, squared):
    X, Z, y, C, lam, kappa, labelled, available = problem_args
    if squared:
        Q = Space(matrix=deformation_matrix(Z @ Z.T, C, lam, available))
        dual = svm2_plus_dual(Space(matrix=X @ X.T), Q, y, C, lam, kappa, labelled, available)
    else:
        dual = svm_plus_dual(Space(factor=X), Space(factor=Z, weight=1 / lam), y, C, kappa, labelled, available)
    return solve_reference(dual)


def cases():
    rng = np.random.default_rng(3)
    out = []
    for seed in range(48):
        squared, labelled = bool(seed % 2), bool(seed // 2 % 2)
        kappa = [1.5, 3.0, 20.0, np.inf][seed // 4 % 4]
        if labelled and np.isinf(kappa):
            kappa = 100.0
        C, lam = 10.0 ** rng.uniform(-2, 2), 10.0 ** rng.uniform(-2, 2)
        out.append((seed, squared, labelled, kappa, C, lam, bool(rng.random() < 0.5)))
    return out


def make(seed, squared, labelled, kappa, C, lam, missing, n=70):
    X, Z, y, scale, available = data(seed, n, missing=0.3 if missing else 0.0)
    args = (X, Z, y, C * scale, lam, kappa, labelled, available)
    return args, (linear_svm2_plus if squared else linear_svm_plus)(*args)


@pytest.mark.parametrize("case", cases(), ids=lambda c: f"{c[0]}-{'svm2+' if c[1] else 'svm+'}-kappa{c[3]}")
def test_every_random_problem_is_solved_to_the_optimum_of_the_reference(case):
    args, problem = make(*case)
    squared = case[1]
    solved = (solve_newton if problem.smooth else solve_weights)(problem, tol=1e-8)
    expected = reference(args, squared)
    assert solved.converged
    primal, dual = losses(args, solved.point, squared), dual_value(args, solved.certificate, squared)
    assert solved.objective == pytest.approx(primal, rel=1e-9)
    assert solved.lower_bound == pytest.approx(dual, rel=1e-7)
    assert primal == pytest.approx(expected.objective, rel=1e-6)
    assert solved.gap <= 1e-8
