"""Problems over weights against the reference QP, formulas written out here, and one another."""

import numpy as np
import pytest
from scipy import sparse

from lupi.kernels import Space
from lupi.svm.duals import svm_plus_dual
from lupi.svm.features import LinearSpace
from lupi.svm.interior_point import solve_weights
from lupi.svm.linear import many_weights, solve_linear, solve_newton, solve_rows
from lupi.svm.reference import solve_reference
from lupi.svm.svm2_dual import deformation_matrix, deformation_metric, svm2_plus_dual


def data(seed, n, d=6, s=3, missing=0.3):
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(n, d)), rng.normal(size=(n, s))
    margin = X[:, 0] - X[:, 1] + 0.7 * rng.normal(size=n)
    y = np.where(margin > 0.3, 1.0, -1.0)
    Z[:, 0] = np.abs(margin) + 0.2 * rng.normal(size=n)
    available = rng.random(n) >= missing
    Z[~available] = 0.0
    return X, Z, y, rng.uniform(0.5, 2.0, size=n), available


def pose(squared, X, Z, y, C, lam, kappa, labeled, available):
    decision = LinearSpace(factor=X)
    if squared:
        metric = None if Z is None else deformation_metric(Z, C, lam, available)
        privileged = None if Z is None else LinearSpace(factor=Z, bias=False, metric=metric)
        return svm2_plus_dual(decision, privileged, y, C, lam, kappa, labeled, available)
    privileged = LinearSpace(factor=Z, weight=1 / lam)
    return svm_plus_dual(decision, privileged, y, C, kappa, labeled, available)


def theta_of(solution):
    return solution.certificate.theta


def rows_of(problem_args, x):
    """Variables a and d of every example; d is 0 without a privileged row."""
    n, available = len(problem_args[2]), problem_args[-1]
    d = np.zeros(n)
    if len(x) > n:
        d[available] = x[n:]
    return x[:n], d


def losses(problem_args, theta, squared):
    """Primal value from the estimators' formulas alone."""
    X, Z, y, C, lam, kappa, labeled, available = problem_args
    d = X.shape[1]
    w, b, v, c = theta[:d], theta[d], theta[d + 1 : -1], theta[-1]
    f, g = X @ w + b, np.where(available, Z @ v + c, 0.0)
    s = np.where(available, y if labeled else 1.0, 0.0)
    residual = np.maximum(1 - y * f - s * g, 0)
    price = np.where(available, kappa, 1.0)
    if np.isinf(kappa):
        assert residual[available].max() <= 1e-9
        residual, price = np.where(available, 0.0, residual), np.ones(len(y))
    if squared:
        return 0.5 * w @ w + 0.5 * lam * (v @ v + c * c) + 0.5 * C @ (g**2 + price * residual**2)
    if not labeled:
        assert g[available].min() >= -1e-9
    return 0.5 * w @ w + 0.5 * lam * v @ v + C @ (np.maximum(s * g, 0) + price * residual)


def dual_value(problem_args, x, squared):
    """Dual value with kernel matrices, or -inf where a constraint is missed."""
    X, Z, y, C, lam, kappa, labeled, available = problem_args
    a, d = rows_of(problem_args, x)
    s = np.where(available, y if labeled else 1.0, 0.0)
    size = 1e-8 * (1 + np.abs(x).sum())
    assert a.min() >= 0
    assert abs(y @ a) <= size
    beta = y * a
    value = a.sum() - 0.5 * beta @ (X @ X.T) @ beta
    if squared:
        Q = deformation_matrix(Z @ Z.T, C, lam, available)
        ridge = np.where(available, 1 / kappa, 1.0) / C
        return value - 0.5 * (s * a) @ Q @ (s * a) - 0.5 * ridge @ a**2
    eta = s * (a - d)
    assert np.all(a <= np.where(available, kappa, 1.0) * C)
    assert np.all(d <= C)
    assert not labeled or d.min() >= 0
    assert abs(eta.sum()) <= size
    return value - 0.5 / lam * eta @ (Z @ Z.T) @ eta


def reference(problem_args, squared):
    X, Z, y, C, lam, kappa, labeled, available = problem_args
    if squared:
        Q = Space(matrix=deformation_matrix(Z @ Z.T, C, lam, available))
        dual = svm2_plus_dual(Space(matrix=X @ X.T), Q, y, C, lam, kappa, labeled, available)
    else:
        dual = svm_plus_dual(Space(factor=X), Space(factor=Z, weight=1 / lam), y, C, kappa, labeled, available)
    return solve_reference(dual)


def cases():
    rng = np.random.default_rng(3)
    out = []
    for seed in range(48):
        squared, labeled = bool(seed % 2), bool(seed // 2 % 2)
        kappa = [1.5, 3.0, 20.0, np.inf][seed // 4 % 4]
        if labeled and np.isinf(kappa):
            kappa = 100.0
        C, lam = 10.0 ** rng.uniform(-2, 2), 10.0 ** rng.uniform(-2, 2)
        out.append((seed, squared, labeled, kappa, C, lam, bool(rng.random() < 0.5)))
    return out


def make(seed, squared, labeled, kappa, C, lam, missing, n=70):
    X, Z, y, scale, available = data(seed, n, missing=0.3 if missing else 0.0)
    args = (X, Z, y, C * scale, lam, kappa, labeled, available)
    return args, pose(squared, *args)


@pytest.mark.parametrize("case", cases(), ids=lambda c: f"{c[0]}-{'svm2+' if c[1] else 'svm+'}-kappa{c[3]}")
def test_every_random_problem_is_solved_to_the_optimum_of_the_reference(case):
    args, problem = make(*case)
    squared = case[1]
    solved = (solve_newton if problem.smooth else solve_weights)(problem, tol=1e-8)
    expected = reference(args, squared)
    assert solved.converged
    primal, dual = losses(args, theta_of(solved), squared), dual_value(args, solved.point, squared)
    assert solved.objective == pytest.approx(primal, rel=1e-9)
    assert solved.lower_bound == pytest.approx(dual, rel=1e-7)
    assert primal == pytest.approx(expected.objective, rel=1e-6)
    assert solved.gap <= 1e-8


# ---------------------------------------------------------------- many examples


def many(n=6000, d=8, s=4, missing=0.0, seed=5):
    X, Z, y, scale, available = data(seed, n, d, s, missing)
    return X, Z, y, scale, available


FORMS = [(True, False, 3.0), (True, True, 3.0), (True, False, np.inf), (False, False, 3.0), (False, True, 3.0),
         (False, False, np.inf)]  # fmt: skip


@pytest.mark.parametrize("missing", [0.0, 0.4], ids=["complete", "missing"])
@pytest.mark.parametrize(("squared", "labeled", "kappa"), FORMS)
def test_rows_near_a_kink_give_the_optimum_of_all_rows(squared, labeled, kappa, missing):
    X, Z, y, scale, available = many(missing=missing)
    args = (X, Z, y, 0.3 * scale, 0.5, kappa, labeled, available)
    problem = pose(squared, *args)
    found, whole = solve_rows(problem, tol=1e-7), solve_weights(problem, tol=1e-8)
    assert found.converged
    assert whole.converged
    assert found.objective == pytest.approx(whole.objective, rel=1e-6)
    assert found.objective == pytest.approx(losses(args, theta_of(found), squared), rel=1e-9)
    assert dual_bound(args, found.point, squared) == pytest.approx(found.lower_bound, rel=1e-6)


def dual_bound(problem_args, x, squared):
    """Dual value by features, for more examples than a kernel matrix would take."""
    X, Z, y, C, lam, kappa, labeled, available = problem_args
    s = np.where(available, y if labeled else 1.0, 0.0)
    a, d = rows_of(problem_args, x)
    w = X.T @ (y * a)
    value = a.sum() - 0.5 * w @ w
    if squared:
        features = np.column_stack([Z, np.ones(len(y))])
        t = features.T @ (s * a)
        A = lam * np.eye(features.shape[1]) + (features * (C * available)[:, None]).T @ features
        return value - 0.5 * t @ np.linalg.solve(A, t) - 0.5 * (np.where(available, 1 / kappa, 1.0) / C) @ a**2
    v = Z.T @ (s * (a - d))
    return value - 0.5 / lam * v @ v


def test_a_flat_correcting_function_is_no_trap_for_the_rounds():
    """With the labeled correction and useless privileged features every example sits at a kink."""
    X, _, y, scale, available = many()
    Z = np.random.default_rng(0).normal(size=(len(y), 2))
    problem = pose(False, X, Z, y, scale, 1.0, 3.0, True, available)
    assert solve_rows(problem, tol=1e-5).converged


def test_almost_separable_examples_with_a_large_C():
    """Newton's method alone changes sides for hundreds of steps here."""
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(500, 200)), rng.normal(size=(500, 5))
    y = np.where(X[:, 0] + rng.normal(size=500) > 0, 1.0, -1.0)
    problem = pose(True, X, Z, y, np.full(500, 1000.0), 1.0, 3.0, True, np.ones(500, dtype=bool))
    assert solve_linear(problem, tol=1e-6).converged


# ---------------------------------------------------------------- forms of the data


@pytest.mark.parametrize("squared", [True, False])
def test_sparse_rows_give_the_weights_of_dense_ones(squared):
    X, Z, y, scale, available = many(n=800, missing=0.2)
    X, Z = np.where(np.abs(X) > 1, X, 0.0), np.where(np.abs(Z) > 1, Z, 0.0)
    costs = (y, scale, 1.0, 3.0, False, available)
    dense = solve_rows(pose(squared, X, Z, *costs), tol=1e-9)
    for X_, Z_ in [(sparse.csr_array(X), sparse.csr_array(Z)), (sparse.csr_array(X), Z), (X, sparse.csr_array(Z))]:
        found = solve_rows(pose(squared, X_, Z_, *costs), tol=1e-9)
        np.testing.assert_allclose(theta_of(found), theta_of(dense), atol=1e-5)


@pytest.mark.parametrize("n", [800, 3000])
def test_single_precision_rows_are_summed_in_double_precision(n):
    X, Z, y, scale, available = many(n=n)
    X, Z = X.astype(np.float32), Z.astype(np.float32)
    costs = (y, scale, 1.0, 3.0, False, available)
    single = solve_rows(pose(True, X, Z, *costs), tol=1e-12)
    double = solve_rows(pose(True, X.astype(float), Z.astype(float), *costs), tol=1e-12)
    np.testing.assert_allclose(theta_of(single), theta_of(double), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("privileged", [True, False])
def test_conjugate_gradients_and_factorization_give_the_same_weights(monkeypatch, privileged):
    X, Z, y, scale, available = many(n=700, missing=0.2)
    X = sparse.csr_array(np.where(np.abs(X) > 1, X, 0.0))
    problem = pose(True, X, Z if privileged else None, y, scale, 1.0, 3.0, False, available & privileged)
    assert not many_weights(problem)
    factorized = solve_newton(problem, tol=1e-10)
    monkeypatch.setattr("lupi.svm.linear.PRODUCTS", 0)
    assert many_weights(problem)
    found = solve_newton(problem, tol=1e-10)
    assert found.converged
    np.testing.assert_allclose(theta_of(found), theta_of(factorized), atol=1e-5)


def test_newton_says_which_problems_it_solves():
    _, problem = make(0, False, False, 3.0, 1.0, 1.0, False)
    with pytest.raises(ValueError, match="SVM2Plus with a finite kappa"):
        solve_newton(problem)


@pytest.mark.parametrize("squared", [True, False])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, lambda a: a.astype(np.float32)])
def test_a_linear_space_is_its_kernel_matrix(squared, convert):
    _, Z, _, C, available = data(0, 30)
    Z = Z.astype(np.float32).astype(float) * available[:, None]
    metric = deformation_metric(Z, C, 0.3, available) if squared else None
    space = LinearSpace(factor=convert(Z), weight=1.0 if squared else 1 / 0.3, metric=metric)
    K = Z @ Z.T / 0.3
    if squared:
        ones = np.column_stack([Z, np.ones(30)])
        K = ones @ np.linalg.solve(metric, ones.T)
        Q = deformation_matrix(Z @ Z.T, C, 0.3, available)
        np.testing.assert_allclose(K[np.ix_(available, available)], Q[np.ix_(available, available)], atol=1e-9)
    vector = np.random.default_rng(0).normal(size=30)
    np.testing.assert_allclose(space.product(vector), K @ vector, atol=1e-9)
    np.testing.assert_allclose(space.diagonal(), np.diagonal(K), atol=1e-9)
