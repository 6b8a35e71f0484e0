"""The factor of Z that multiplies X, against its definition and explicit refits; and what the teacher is worth."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import roc_auc_score

from lupi import SurrogateClassifier, SurrogateRegressor
from lupi.surrogate.products import factor, fit_product, is_clear
from lupi.surrogate.ridge import RidgePath

GRID = np.array([0.03, 0.1, 0.3, 1, 3, 10, 30, 100])


def flagged(n=120, p=8, seed=0, share=0.3, n_noise=1):
    """Two classes, linear in X; some labels are wrong, and the first column of Z says which."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    right = X @ rng.normal(size=p) > 0
    wrong = rng.random(n) < share
    return (
        X,
        np.where(wrong, ~right, right).astype(float),
        np.column_stack([wrong, rng.normal(size=(n, n_noise))]),
        right,
    )


def centered(values):
    return (values - values.mean(0)) / values.std(0)


def direction(X, Z, t, weight, counts=None, start=None):
    """u by its definition; with the shrinkage and the start of another call if they are given."""
    columns = np.column_stack([np.ones(len(Z)), Z])
    C = sum(w * np.outer(z, np.outer(row, x).ravel()) for w, z, row, x in zip(weight, columns, t, X))
    if counts is None:
        noise = sum(w * z**2 * (row @ row) * (x @ x) for w, z, row, x in zip(weight, columns, t, X))
        sizes = weight @ X**2
        clear = 1 + 2 * np.sqrt(2 * np.sum(sizes**2)) / np.sum(sizes)
        counts = np.append(1.0, np.square(C).sum(1)[1:] > clear * noise[1:])
        left, _, _ = np.linalg.svd(counts[:, None] * C)
        start = left[:, 0]
    return counts * (C @ C.T @ (counts * start)), counts, start


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("grouped", [False, True])
def test_factor_is_that_of_the_moments_without_the_row(k, grouped):
    rng = np.random.default_rng(k)
    X, _, Z, _ = flagged(n=40)
    X, Z = X - X.mean(0), centered(Z)
    t = np.where(Z[:, :1] > 0, -1, 1) * X[:, :k] + rng.normal(size=(40, k))
    weight = rng.integers(1, 4, 40).astype(float)
    groups = rng.integers(0, 12, 40) if grouped else None
    t0 = t - weight @ t / weight.sum()
    whole, counts, start = direction(X, Z, t0, weight)
    expected = np.empty(40)
    for i in range(40):
        rest = weight.copy()
        rest[groups == groups[i] if grouped else i] -= weight[groups == groups[i]] if grouped else 1
        u, _, _ = direction(X, Z, t0, rest, counts, start)
        expected[i] = u @ np.append(1, Z[i])
    scale = np.sqrt(weight @ expected**2 / weight.sum())
    h, u = factor(X, Z, t, weight, groups)
    sign = np.sign(u @ whole)
    np.testing.assert_allclose(h, sign * expected / scale, atol=1e-8)
    np.testing.assert_allclose(u, sign * whole / scale, atol=1e-8)


def test_no_factor_where_every_moment_is_noise():
    rng = np.random.default_rng(3)
    X, t = rng.normal(size=(50, 4)), rng.normal(size=(50, 1))
    # A column that is the same in both halves of mirrored rows has no moment with X at all.
    X, t, Z = np.vstack([X, -X]), np.vstack([t, t]), np.tile(rng.normal(size=(50, 1)), (2, 1))
    assert factor(X, Z, t, np.ones(100)) is None


@pytest.mark.parametrize("p", [5, 60])
@pytest.mark.parametrize("grouped", [False, True])
def test_values_elsewhere_without_the_row(p, grouped):
    rng = np.random.default_rng(p)
    A, at, t = rng.normal(size=(30, p)) + 1, rng.normal(size=(30, p)), rng.normal(size=(30, 2))
    weight = rng.integers(1, 3, 30).astype(float)
    groups = rng.integers(0, 10, 30) if grouped else None
    expected = np.empty((30, 2))
    for i in range(30):
        rest = weight.copy()
        rest[groups == groups[i] if grouped else i] -= weight[groups == groups[i]] if grouped else 1
        mean, target = rest @ A / rest.sum(), rest @ t / rest.sum()
        B = A - mean
        beta = np.linalg.solve(B.T @ (rest[:, None] * B) + 2.0 * np.eye(p), B.T @ (rest[:, None] * (t - target)))
        expected[i] = target + (at[i] - mean) @ beta
    path = RidgePath(A, weight)
    np.testing.assert_allclose(path.left_out_at(at, t, 2.0, groups), expected, atol=1e-8)
    np.testing.assert_allclose(path.left_out_at(A, t, 2.0, groups), path.left_out(t, 2.0, groups), atol=1e-9)


@pytest.mark.parametrize("p", [5, 60])
def test_teacher_by_explicit_refits(p):
    X, y, Z, _ = flagged(n=40, p=p)
    A, F, t = X - X.mean(0), centered(Z), 2 * y - 1
    h, _ = factor(A, F, t[:, None], np.ones(40))
    found = fit_product(RidgePath(A), F, h, t[:, None])
    table, at = np.hstack([F, h[:, None] * A]), np.hstack([F, h.mean() * A])
    best = (np.inf,)
    for alpha in GRID * max(40, p):
        judged, told = np.empty(40), np.empty(40)
        for i in range(40):
            rest = np.arange(40) != i
            B = table[rest] - table[rest].mean(0)
            beta = np.linalg.solve(B.T @ B + alpha * np.eye(p + 2), B.T @ (t[rest] - t[rest].mean()))
            judged[i], told[i] = (t[rest].mean() + (row[i] - table[rest].mean(0)) @ beta for row in (table, at))
        best = min(best, (np.mean((judged - t) ** 2), judged.tolist(), told.tolist()))
    np.testing.assert_allclose(found.ridge.left_out[:, 0], best[1], atol=1e-8)
    np.testing.assert_allclose(found.left_out(t[:, None])[:, 0], best[2], atol=1e-8)


def test_expectation_of_the_factor_follows_x_where_that_is_clear():
    rng = np.random.default_rng(0)
    X = centered(rng.normal(size=(200, 4)))
    Z = centered(X[:, :1] + 0.3 * rng.normal(size=(200, 1)))
    t = (1 + Z) * X[:, 1:2] + 0.1 * rng.normal(size=(200, 1))
    h, _ = factor(X, Z, t, np.ones(200))
    found = fit_product(RidgePath(X), Z, h, t)
    assert np.corrcoef(found.expected.predict(X)[:, 0], X[:, 0])[0, 1] ** 2 > 0.95
    told = found.predict(X, Z, t)[:, 0]
    assert np.corrcoef(told, (1 + X[:, 0]) * X[:, 1])[0, 1] > 0.95
    # Other rows get what these rows get, with all of them in the regression.
    assert np.corrcoef(found.left_out(t)[:, 0], told)[0, 1] > 0.99


def gain(model, plain, seeds=range(5), **given):
    found = []
    for seed in seeds:
        X, y, Z, right = flagged(400, seed=seed)
        one = model().fit(X[:100], y[:100], privileged=Z[:100], **given)
        other = plain().fit(X[:100], y[:100], **given)
        found.append([100 * roc_auc_score(right[100:], m.decision_function(X[100:])) for m in (one, other)])
    return np.diff(np.array(found)[:, ::-1], axis=1).mean(), one


@pytest.mark.parametrize("estimator", ["ridge", None])
def test_a_column_of_wrong_labels_is_worth_points(estimator):
    points, model = gain(*2 * [lambda: SurrogateClassifier(estimator, random_state=0)])
    assert points > 5
    facts = model.explain()
    assert facts["teachers"] == model.teacher_weights_
    assert sum(model.teacher_weights_.values()) == pytest.approx(1)
    assert model.teacher_weights_["Z times X"] > 0.9
    assert facts["columns"]["0"] > 10 > abs(facts["columns"]["1"])


@pytest.mark.parametrize("useless", ["shuffled", "noise", "copy"])
def test_no_other_model_where_no_column_changes_the_meaning_of_x(useless):
    for seed in range(5):
        X, y, Z, _ = flagged(100, seed=seed)
        rng = np.random.default_rng(seed)
        Z = {"shuffled": Z[rng.permutation(100)], "noise": rng.normal(size=(100, 40)), "copy": X}[useless]
        assert "Z times X" not in SurrogateClassifier("ridge").fit(X, y, privileged=Z).teacher_weights_


@pytest.mark.parametrize("classes", [2, 3])
def test_weight_two_is_the_row_twice(classes):
    X, y, Z, _ = flagged(300, p=12)
    rng = np.random.default_rng(0)
    if classes == 3:
        right = np.argmax(X[:, :3], axis=1)
        y = np.where(Z[:, 0] == 1, (right + rng.integers(1, 3, 300)) % 3, right).astype(float)
    y[260:] = np.nan
    weight = 1 + (rng.random(300) < 0.1)
    rows = np.repeat(np.arange(300), weight)
    one = SurrogateClassifier("ridge").fit(X, y, privileged=Z, sample_weight=weight)
    other = SurrogateClassifier("ridge").fit(X[rows], y[rows], privileged=Z[rows])
    assert one.teacher_weights_["Z times X"] > 0.9
    np.testing.assert_allclose(one.surrogate_[rows], other.surrogate_, atol=1e-8)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-7)


def test_unlabeled_rows_groups_spaces_and_sparse_tables():
    X, y, Z, right = flagged(400)
    y[100:300] = np.nan
    given = {"privileged": [Z[:300, :1], Z[:300, 1:]], "groups": np.arange(300) // 2}
    model = SurrogateClassifier("ridge").fit(X[:300], y[:300], **given)
    assert model.teacher_weights_["Z times X"] > 0.99
    assert roc_auc_score(right[300:], model.decision_function(X[300:])) > 0.9
    same = SurrogateClassifier("ridge").fit(sparse.csr_array(X[:300]), y[:300], **given)
    np.testing.assert_allclose(
        same.decision_function(sparse.csr_array(X[300:])), model.decision_function(X[300:]), atol=1e-6
    )


def test_numbers_that_grow_with_the_time_at_risk():
    rng = np.random.default_rng(0)
    X, time = rng.normal(size=(400, 10)), rng.choice([0.2, 2.0], size=(400, 1))
    rate = X[:, 0] + X[:, 1]
    y = time[:, 0] * rate + 0.5 * rng.normal(size=400)
    with_time = SurrogateRegressor("ridge").fit(X[:80], y[:80], privileged=time[:80])
    plain = SurrogateRegressor("ridge").fit(X[:80], y[:80])
    assert with_time.teacher_weights_["Z times X"] > 0.99
    found = [1 - np.corrcoef(model.predict(X[80:]), rate[80:])[0, 1] for model in (with_time, plain)]
    assert found[0] < 0.9 * found[1]


def test_what_is_clear():
    assert is_clear(7.0, 10)
    assert not is_clear(6.9, 10)
    assert is_clear(70.0, 1000)
    assert not is_clear(69.0, 1000)
