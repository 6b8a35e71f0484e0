"""The closed form, step by step, against a plain implementation with explicit refits; weights, groups, missing parts."""

from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize

from lupi import SurrogateClassifier, SurrogateRegressor
from lupi.surrogate.teachers import line_scores

ALPHAS = np.array([0.03, 0.1, 0.3, 1, 3, 10, 30, 100])


def table(n=40, p=6, q=3, n_unlabeled=0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + n_unlabeled, p)) * rng.uniform(0.5, 3, p) + 1
    Z = X[:, :q] + rng.normal(size=(n + n_unlabeled, q))
    score = Z @ np.arange(1, q + 1) / 4 + rng.normal(size=n + n_unlabeled)
    return X, Z, score - score.mean(), rng


def standardized(reference, values):
    return np.clip((values - reference.mean(0)) / reference.std(0), -5, 5)


def ridge(A, t, alpha, intercept=True):
    """Coefficients by the normal equations of centered columns."""
    center, mean = (A.mean(0), t.mean()) if intercept else (0.0, 0.0)
    B = A - center
    beta = np.linalg.solve(B.T @ B + alpha * np.eye(A.shape[1]), B.T @ (t - mean))
    return lambda new: mean + (new - center) @ beta


def refitted_scores(A, t, alpha, folds, intercept=True):
    scores = np.empty(len(t))
    for fold in folds:
        rest = np.setdiff1d(np.arange(len(t)), fold)
        scores[fold] = ridge(A[rest], t[rest], alpha, intercept)(A[fold])
    return scores


def reference_teacher(A, t, folds):
    grid = ALPHAS * max(A.shape)
    scores = [refitted_scores(A, t, alpha, folds) for alpha in grid]
    errors = [np.mean((s - t) ** 2) for s in scores]
    best = int(np.argmin(errors))
    return errors[best], scores[best], ridge(A, t, grid[best])


def reference_calibration(score, labels):
    unit = (score - score.mean()) / score.std()

    def loss(ab):
        logit = ab[0] + ab[1] * unit
        return np.sum(np.logaddexp(0, logit) - labels * logit) + ab[1] ** 2 / 2

    a, b = minimize(loss, [0.0, 0.0], tol=1e-12).x
    return lambda s: a + b * (s - score.mean()) / score.std(), b


def reference_student(A, t, folds):
    """Ridge with columns scaled by sqrt|corr|, penalty by left-out correlation; output of unit spread."""
    scale = np.ones(A.shape[1])
    if A.shape[1] <= len(t):
        scale = np.sqrt(np.abs([np.corrcoef(column, t)[0, 1] for column in A.T]))
        scale /= np.mean(scale**4) ** 0.25
    B, c = A * scale, t - t.mean()
    B = B - B.mean(0)
    grid = ALPHAS * max(A.shape)
    found = [np.corrcoef(refitted_scores(B, c, alpha, folds, intercept=False), c)[0, 1] for alpha in grid]
    predict = ridge(B, c, grid[np.argmax(found)], intercept=False)
    spread = predict(B).std()
    return lambda new: predict(new * scale - (A * scale).mean(0)) / spread


def reference_output(X, y, Z, X_new, groups=None):
    """Steps 1 to 6 of surrogate learning for two classes, with every left-out score by a refit."""
    known = ~np.isnan(y)
    A, B, F = standardized(X, X), standardized(X, X_new), standardized(Z, Z)
    signs = 2 * y[known] - 1
    units = np.arange(len(y)) if groups is None else groups
    folds = [np.flatnonzero(units[known] == u) for u in np.unique(units[known])]
    inputs = [np.hstack([F, c * A]) if c else F for c in (0, 0.1, 0.3, 1)] + [A]
    teachers = [reference_teacher(table[known], signs, folds) for table in inputs]
    errors = np.array([error for error, _, _ in teachers])
    weights = errors ** (-known.sum() / 2)
    weights /= weights.sum()
    score = np.empty(len(y))
    score[known] = sum(w * s for w, (_, s, _) in zip(weights, teachers))
    score[~known] = sum(w * f(table[~known]) for w, (_, _, f), table in zip(weights, teachers, inputs))
    logit, slope = reference_calibration(score[known], y[known])
    target = np.clip(logit(score), -6, 6)
    every = [np.flatnonzero(units == u) for u in np.unique(units)]
    student, plain = reference_student(A, target, every), reference_student(A[known], signs, folds)
    return student(B) + known.sum() / len(y) * plain(B), weights, slope, target


@pytest.mark.parametrize(("p", "n_unlabeled"), [(6, 0), (6, 25), (60, 20)])
@pytest.mark.parametrize("grouped", [False, True])
def test_two_classes_in_closed_form(p, n_unlabeled, grouped):
    X, Z, score, rng = table(p=p, n_unlabeled=n_unlabeled)
    y = (score > 0).astype(float)
    y[rng.permutation(len(y))[:n_unlabeled]] = np.nan
    groups = rng.integers(0, len(y) // 3, len(y)) if grouped else None
    X_new = rng.normal(size=(15, p)) * 2
    expected, weights, slope, target = reference_output(X, y, Z, X_new, groups)
    model = SurrogateClassifier("ridge").fit(X, y, privileged=Z, groups=groups)
    np.testing.assert_allclose([*model.teacher_weights_.values()], weights, atol=1e-8)
    np.testing.assert_allclose(model.explain()["slope"], slope, atol=1e-4)
    np.testing.assert_allclose(model.surrogate_, target, atol=1e-3)
    found = model.decision_function(X_new)
    # The output is calibrated at last: a line with a positive slope.
    line = np.polynomial.Polynomial.fit(expected, found, 1).convert().coef
    assert line[1] > 0
    np.testing.assert_allclose(found, line[0] + line[1] * expected, atol=2e-3)


def test_slope_zero_is_the_baseline():
    X, _, score, rng = table(n=60)
    y = (score > 0).astype(int)
    Z = rng.normal(size=(60, 3))
    tried = (SurrogateClassifier("ridge").fit(X, rng.permutation(y), privileged=Z) for _ in range(50))
    model = next(m for m in tried if m.explain()["slope"] == 0)
    assert model.estimator_ is model.baseline_
    assert model.plain_weight_ == 1
    assert model.surrogate_ is None
    assert "the model is the baseline" in repr(model.explain())


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("estimator", ["ridge", None])
def test_weight_two_is_the_row_twice_and_weight_zero_no_row(classes, estimator):
    X, Z, score, rng = table(n=60, n_unlabeled=30)
    y = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes)).astype(float)
    y[60:] = np.nan
    weight = rng.integers(0, 4, len(y))
    rows = np.repeat(np.arange(len(y)), weight)
    one = SurrogateClassifier(estimator, random_state=0).fit(X, y, privileged=Z, sample_weight=weight)
    other = SurrogateClassifier(estimator, random_state=0).fit(X[rows], y[rows], privileged=Z[rows])
    assert one.teacher_weights_ == pytest.approx(other.teacher_weights_, abs=1e-9)
    np.testing.assert_allclose(one.surrogate_[rows], other.surrogate_, atol=1e-8)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-7)


def test_weights_of_a_regression():
    X, Z, y, rng = table(n=60)
    weight = rng.integers(0, 3, 60)
    rows = np.repeat(np.arange(60), weight)
    one = SurrogateRegressor("ridge").fit(X, y, privileged=Z, sample_weight=weight)
    other = SurrogateRegressor("ridge").fit(X[rows], y[rows], privileged=Z[rows])
    np.testing.assert_allclose(one.predict(X), other.predict(X), atol=1e-8)


def test_regression_follows_the_same_steps():
    X, Z, y, rng = table(n=40, n_unlabeled=20)
    y[40:] = np.nan
    known = ~np.isnan(y)
    A, F = standardized(X, X), standardized(Z, Z)
    folds = [np.array([i]) for i in range(40)]
    inputs = [np.hstack([F, c * A]) if c else F for c in (0, 0.1, 0.3, 1)] + [A]
    teachers = [reference_teacher(t[known], y[known], folds) for t in inputs]
    weights = np.array([error for error, _, _ in teachers]) ** -20.0
    weights /= weights.sum()
    model = SurrogateRegressor("ridge").fit(X, y, privileged=Z)
    np.testing.assert_allclose([*model.teacher_weights_.values()], weights, atol=1e-8)
    expected = sum(w * f(t[~known]) for w, (_, _, f), t in zip(weights, teachers, inputs))
    np.testing.assert_allclose(model.surrogate_[~known], expected, atol=1e-8)
    np.testing.assert_allclose(
        model.surrogate_[known], sum(w * s for w, (_, s, _) in zip(weights, teachers)), atol=1e-8
    )
    X_new = rng.normal(size=(10, 6)) + 1
    B = standardized(X, X_new)
    every = [np.array([i]) for i in range(60)]
    output = reference_student(A, model.surrogate_, every)(B) + 40 / 60 * reference_student(A[known], y[known], folds)(
        B
    )
    np.testing.assert_allclose(np.corrcoef(output, model.predict(X_new))[0, 1], 1, atol=1e-9)


@pytest.mark.parametrize("estimator", ["ridge", None])
def test_units_of_features_and_targets_do_not_matter(estimator):
    X, Z, y, _ = table(n=150)
    make = partial(SurrogateRegressor, estimator, random_state=0)
    expected = make().fit(X, y, privileged=Z).predict(X)
    tight = {"rtol": 1e-6 if estimator is None else 1e-9}
    other = make().fit(X, 1024 * y - 5, privileged=Z)
    np.testing.assert_allclose(other.predict(X), 1024 * expected - 5, **tight | {"atol": 1e-6})
    # Powers of two: the same numbers but for their exponents.
    units = 2.0 ** -np.array([50.0, -40.0, 60.0, 0.0, 45.0, 50.0])
    other = make().fit(X * units, y * 2.0**-50, privileged=Z * 2.0**-45)
    np.testing.assert_allclose(2.0**50 * other.predict(X * units), expected, **tight)


@pytest.mark.parametrize("value", [1e9 / 3, 1e-30 / 3, 0.0])
def test_a_constant_column_is_ignored(value):
    X, Z, y, _ = table(n=60)
    constant = np.full((60, 1), value)
    model = SurrogateRegressor("ridge").fit(np.hstack([X, constant]), y, privileged=np.hstack([Z, constant]))
    new = np.hstack([X, constant + 1])
    np.testing.assert_allclose(model.predict(new), model.predict(np.hstack([X, constant])), rtol=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("estimator", ["ridge", None])
def test_weight_of_the_baseline(estimator, classes, monkeypatch):
    """Without evidence l / (l + m) with l labeled and m scored rows, both weighted, plus the weight of the teacher on X alone."""
    monkeypatch.setattr("lupi.surrogate.surrogate.FEWEST_ROWS", 1000)
    X, Z, score, rng = table(n=60, n_unlabeled=40)
    Z = Z[:, :1] + 4 * rng.normal(size=(100, 1))  # weak, so that X alone has some weight
    y = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes)).astype(float)
    y[60:] = np.nan
    Z[:10] = np.nan
    weight = np.where(np.arange(100) < 60, 1.0, 3.0)
    model = SurrogateClassifier(estimator, random_state=0).fit(X, y, privileged=Z, sample_weight=weight)
    ratio = 60 / (50 + 3 * 40)
    alone = model.teacher_weights_["X alone"]
    assert 0.01 < alone < 0.99
    closed_form = estimator == "ridge" and classes == 2
    expected = 1 - (1 - ratio / (1 + ratio)) * (1 - (0 if closed_form else alone))
    assert model.plain_weight_ == pytest.approx(expected)
    assert model.explain()["plain_weight"] == model.plain_weight_
    # The output is that mean of the two students, but for the calibration.
    parts = [pool.predict(X) for pool in (model.baseline_, model.estimator_)]
    mixed = expected * parts[0] + (1 - expected) * parts[1]
    found = np.reshape(model.decision_function(X), mixed.shape)
    for k in range(mixed.shape[1]):
        np.testing.assert_allclose(np.corrcoef(mixed[:, k], found[:, k])[0, 1], 1, atol=1e-12)


@pytest.mark.parametrize("k", [1, 3])
def test_line_through_the_outputs_without_each_row(k):
    """The teacher on X alone: one slope for all columns, an intercept per column, refitted without each entry."""
    rng = np.random.default_rng(k)
    output, weight = rng.normal(size=(25, k)) + 2, np.where(np.arange(25) % 3, 1.0, 2.0)
    targets = 0.7 * output + rng.normal(size=(25, k))
    new = rng.normal(size=(6, k))
    design = np.vstack([np.c_[output[:, [j]], np.tile(np.eye(k)[j], (25, 1))] for j in range(k)])

    def line(weight):
        root = np.sqrt(weight.ravel())
        slope, *intercepts = np.linalg.lstsq(root[:, None] * design, root * targets.T.ravel(), rcond=None)[0]
        return slope, np.array(intercepts)

    weights = np.tile(weight, (k, 1))
    found, others = line_scores(output, new, targets, weight)
    slope, intercepts = line(weights)
    np.testing.assert_allclose(others, slope * new + intercepts, atol=1e-12)
    for i in range(25):
        for j in range(k):  # every entry is left out by itself, with one unit of weight
            less = weights.copy()
            less[j, i] -= 1
            slope, intercepts = line(less)
            np.testing.assert_allclose(found[i, j], slope * output[i, j] + intercepts[j], atol=1e-10)
    _, others = line_scores(output, new, -targets, weight)
    np.testing.assert_allclose(others, np.broadcast_to(-weight @ targets / weight.sum(), (6, k)))


def test_rows_without_privileged_features_count_in_the_baseline_only():
    X, Z, score, _ = table(n=60)
    y = (score > 0).astype(int)
    Z[40:] = np.nan
    model = SurrogateClassifier("ridge").fit(X, y, privileged=Z)
    assert np.isnan(model.surrogate_[40:]).all()
    assert not np.isnan(model.surrogate_[:40]).any()
    assert model.plain_weight_ == pytest.approx(1.5 / 2.5)
    plain = SurrogateClassifier("ridge").fit(X, y)
    np.testing.assert_allclose(model.baseline_.predict(X), plain.baseline_.predict(X))
    # The other rows change the standardization of X and nothing else of the surrogate.
    alone = SurrogateClassifier("ridge").fit(X[:40], y[:40], privileged=Z[:40])
    assert np.corrcoef(model.surrogate_[:40], alone.surrogate_)[0, 1] > 0.99


def test_unlabeled_rows_without_privileged_features_are_left_out():
    X, Z, score, _ = table(n=60)
    y = np.where(np.arange(60) < 40, score > 0, np.nan)
    Z[50:] = np.nan
    with pytest.warns(UserWarning, match="10 rows have neither a label nor privileged features"):
        model = SurrogateClassifier("ridge").fit(X, y, privileged=Z)
    assert (model.n_labeled_, model.n_unlabeled_) == (40, 10)
    expected = SurrogateClassifier("ridge").fit(X[:50], y[:50], privileged=Z[:50])
    np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X))


def test_two_classes_of_the_softmax_agree_with_the_logistic():
    """A third class far away leaves the order of the two others as it is with two classes."""
    X, Z, score, _ = table(n=120)
    y = (score > 0).astype(int)
    two = SurrogateClassifier("ridge").fit(X, y, privileged=Z)
    far = np.full((40, 1), 50.0)
    X3 = np.vstack([np.hstack([X, np.zeros((120, 1))]), np.hstack([X[:40], far])])
    Z3 = np.vstack([np.hstack([Z, np.zeros((120, 1))]), np.hstack([Z[:40], far])])
    three = SurrogateClassifier("ridge").fit(X3, np.r_[y, np.full(40, 2)], privileged=Z3)
    log_p = np.log(three.predict_proba(X3[:120]))
    assert np.corrcoef(log_p[:, 1] - log_p[:, 0], two.decision_function(X))[0, 1] > 0.9
    assert (three.predict(X3[120:]) == 2).all()
