"""Ridge in closed form against explicit refits: left-out rows, groups, columns, weights, sparse tables, kernels."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

from lupi.surrogate.ridge import GRID, RidgePath, correlation, fit_ridge


def explicit(A, targets, weight, alpha):
    """Normal equations with an unpenalized intercept; gives a prediction function."""
    design = np.hstack([np.ones((len(A), 1)), A])
    penalty = alpha * np.eye(design.shape[1])
    penalty[0, 0] = 0.0
    beta = np.linalg.solve(design.T @ (weight[:, None] * design) + penalty, design.T @ (weight[:, None] * targets))
    return lambda B: np.hstack([np.ones((len(B), 1)), B]) @ beta


def problem(n, p, k=2, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, p)) + 0.5
    targets = A[:, :1] * [1.0, -2.0][:k] + rng.normal(size=(n, k))
    return A, targets, rng.integers(1, 4, size=n).astype(float), rng


SHAPES = [(30, 5), (12, 40), (20, 20)]


@pytest.mark.parametrize(("n", "p"), SHAPES)
@pytest.mark.parametrize("alpha", [0.3, 30.0])
def test_solution_is_that_of_the_normal_equations(n, p, alpha):
    A, targets, weight, rng = problem(n, p)
    new = rng.normal(size=(7, p))
    coef, intercept = RidgePath(A, weight).solve(targets, alpha)
    np.testing.assert_allclose(new @ coef + intercept, explicit(A, targets, weight, alpha)(new), atol=1e-9)
    np.testing.assert_allclose(RidgePath(A, weight).fitted(targets, alpha), A @ coef + intercept, atol=1e-9)


@pytest.mark.parametrize(("n", "p"), SHAPES)
def test_leave_one_out_takes_one_unit_of_weight(n, p):
    A, targets, weight, _ = problem(n, p)
    weight[:3] = [0.25, 1.0, 0.5]
    found = RidgePath(A, weight).left_out(targets, alpha=3.0)
    for i in range(n):
        less = weight.copy()
        less[i] -= min(1.0, weight[i])
        np.testing.assert_allclose(found[i], explicit(A, targets, less, 3.0)(A[[i]])[0], atol=1e-8)


@pytest.mark.parametrize(("n", "p"), [*SHAPES, (40, 2)])
def test_leave_group_out(n, p):
    # Groups of 1, of a few, and of more rows than columns.
    A, targets, weight, _ = problem(n, p)
    groups = np.minimum(np.arange(n) // 3, 4)
    found = RidgePath(A, weight).left_out(targets, 3.0, groups)
    for group in np.unique(groups):
        rest = groups != group
        predict = explicit(A[rest], targets[rest], weight[rest], 3.0)
        np.testing.assert_allclose(found[~rest], predict(A[~rest]), atol=1e-8)


@pytest.mark.parametrize("grouped", [False, True])
def test_fixed_intercept_is_a_regression_of_centered_data_without_one(grouped):
    A, targets, weight, _ = problem(25, 3)
    groups = np.arange(25) // 10 if grouped else None
    found = RidgePath(A, weight).left_out(targets, 2.0, groups, refit_intercept=False)
    mean = weight @ targets / weight.sum()
    B, t = A - weight @ A / weight.sum(), targets - mean
    for i in range(25):
        less = weight.copy()
        if grouped:
            less[groups == groups[i]] = 0.0
        else:
            less[i] -= 1.0
        beta = np.linalg.solve(B.T @ (less[:, None] * B) + 2.0 * np.eye(3), B.T @ (less[:, None] * t))
        np.testing.assert_allclose(found[i], mean + B[i] @ beta, atol=1e-8)


@pytest.mark.parametrize(("n", "p"), SHAPES)
@pytest.mark.parametrize("grouped", [False, True])
def test_errors_without_a_column(n, p, grouped):
    A, targets, weight, _ = problem(n, p)
    groups = np.arange(n) // 3 if grouped else None
    columns = np.array([0, 2, p - 1])
    found = RidgePath(A, weight).errors_without(targets, 4.0, columns, groups)
    for column, error in zip(columns, found):
        rest = np.delete(A, column, axis=1)
        left_out = RidgePath(rest, weight).left_out(targets, 4.0, groups)
        expected = weight @ np.square(left_out - targets).sum(axis=1) / weight.sum()
        np.testing.assert_allclose(error, expected, rtol=1e-8)


@pytest.mark.parametrize(("n", "p"), SHAPES)
def test_weight_two_is_the_row_twice(n, p):
    A, targets, weight, _ = problem(n, p)
    twice = np.repeat(np.arange(n), weight.astype(int))
    one, other = fit_ridge(RidgePath(A, weight), targets), fit_ridge(RidgePath(A[twice]), targets[twice])
    assert one.alpha == other.alpha
    np.testing.assert_allclose(one.coef, other.coef, atol=1e-10)
    np.testing.assert_allclose(one.left_out[twice], other.left_out, atol=1e-9)
    np.testing.assert_allclose(one.spread, other.spread)


@pytest.mark.parametrize(("n", "p"), SHAPES)
def test_sparse_table_and_column_scales(n, p):
    A, targets, weight, rng = problem(n, p)
    A[rng.random(A.shape) < 0.6] = 0.0
    scale = rng.random(p) + 0.1
    expected = RidgePath(A * scale, weight)
    for table in (A, sparse.csr_array(A)):
        path = RidgePath(table, weight, scale)
        np.testing.assert_allclose(path.left_out(targets, 2.0), expected.left_out(targets, 2.0), atol=1e-9)
        np.testing.assert_allclose(
            path.solve(targets, 2.0)[0], scale[:, None] * expected.solve(targets, 2.0)[0], atol=1e-9
        )


def test_kernel_ridge_is_ridge_in_feature_space():
    A, targets, weight, _ = problem(20, 4)
    kernel = rbf_kernel(A, gamma=0.1)
    path = RidgePath.of_kernel(kernel, weight)
    dual, intercept = path.solve(targets, 0.5)
    factor = np.linalg.cholesky(kernel + 1e-13 * np.eye(20))
    np.testing.assert_allclose(kernel @ dual + intercept, explicit(factor, targets, weight, 0.5)(factor), atol=1e-7)
    np.testing.assert_allclose(path.left_out(targets, 0.5), RidgePath(factor, weight).left_out(targets, 0.5), atol=1e-7)


@pytest.mark.parametrize("by", ["error", "correlation"])
def test_penalty_is_the_best_of_the_grid(by):
    A, targets, weight, _ = problem(40, 6)
    path = RidgePath(A, weight)
    fit = fit_ridge(path, targets, by=by)
    scores = []
    for alpha in GRID * weight.sum():
        left_out = path.left_out(targets, alpha, refit_intercept=by == "error")
        error = weight @ np.square(left_out - targets).sum(axis=1)
        scores.append(-error if by == "error" else correlation(left_out, targets, weight))
    assert fit.alpha == (GRID * weight.sum())[np.argmax(scores)]


def test_pooled_correlation_of_one_target_is_the_usual_one():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 30, 1))
    np.testing.assert_allclose(correlation(a, b, np.ones(30)), np.corrcoef(a[:, 0], b[:, 0])[0, 1])
