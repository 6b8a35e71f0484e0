"""Properties of estimators, for whatever small problem hypothesis comes up with; the same examples in every run."""

import warnings

import numpy as np
import pytest

pytest.importorskip("hypothesis")
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

import lupi

repeatable = settings(derandomize=True, deadline=None, max_examples=25, database=None)
PRICES = st.sampled_from([0.01, 0.3, 1.0, 30.0])
LINES = {"kernel": "linear", "privileged_kernel": "linear", "tol": 1e-8}
SVMS = st.sampled_from([(lupi.SVMPlus, "labeled"), (lupi.SVM2Plus, "labeled"), (lupi.SVM2Plus, "slack")])


@st.composite
def problems(draw):
    """X, signs and privileged features of a few rows, some of which may be equal."""
    n, p, q = draw(st.integers(4, 16)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    y = np.where(np.arange(n) % 2, 1, -1)
    X = rng.normal(size=(n, p)) + draw(st.sampled_from([0.0, 1.0, 5.0])) * y[:, None]
    Z = rng.normal(size=(n, q)) + draw(st.sampled_from([0.0, 1.0])) * y[:, None]
    if draw(st.booleans()):
        X, Z = np.round(X), np.round(Z)
    return X, y, Z


def fitted(model, X, y, **extra):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of collapsed solutions, which are solutions
        return model.fit(X, y, **extra)


def value(model, X, y, Z, weights):
    """The primal problem of the docstrings at any weights of both functions."""
    (w, b), (v, r) = weights
    f, g = X @ w + b, Z @ v + r
    signed = y if model.correction == "labeled" else 1.0
    rest = np.maximum(0.0, 1.0 - y * f - signed * g)
    if isinstance(model, lupi.SVM2Plus):
        return w @ w / 2 + model.lam * (v @ v + r * r) / 2 + model.C * (g @ g + model.kappa * rest @ rest) / 2
    loss = np.maximum(0.0, y * g).sum() + model.kappa * rest.sum()
    return w @ w / 2 + model.lam * (v @ v) / 2 + model.C * loss


@repeatable
@given(problems(), SVMS, PRICES, PRICES, st.sampled_from([1.0, 3.0, 100.0]), st.integers(0, 10**6))
def test_the_certificate_holds(problem, kind, C, lam, kappa, seed):
    X, y, Z = problem
    model = fitted(kind[0](C, lam, correction=kind[1], kappa=kappa, **LINES), X, y, privileged=Z)
    weights = (model.coef_[0], model.intercept_[0]), (model.privileged_coef_[0], model.privileged_intercept_[0])
    found = value(model, X, y, Z, weights)
    # The value is that of the weights, and no other weights are better by more than the gap.
    assert found == pytest.approx(model.objective_, rel=1e-6, abs=1e-9)
    assert model.dual_gap_ <= 1e-4
    least = model.objective_ - model.dual_gap_ * abs(model.objective_) - 1e-9
    rng = np.random.default_rng(seed)
    for size in (0.0, 1e-4, 1e-2, 1.0):
        others = [[part + size * rng.normal(size=np.shape(part)) for part in pair] for pair in weights]
        assert value(model, X, y, Z, others) >= least
    assert value(model, X, y, Z, [[0 * part for part in pair] for pair in weights]) >= least


MODELS = {
    "svm+": lambda C: lupi.SVMPlus(C, gamma=0.5, privileged_gamma=0.5, tol=1e-8),
    "svm2+": lambda C: lupi.SVM2Plus(C, gamma=0.5, privileged_gamma=0.5, tol=1e-8),
    "svm-2k": lambda C: lupi.SVM2K(C, gamma=0.5, privileged_gamma=0.5, tol=1e-8),
    "rank": lambda C: lupi.RankTransfer(C, tol=1e-10),
    "surrogate": lambda C: lupi.SurrogateClassifier("ridge"),
}


@repeatable
@given(problems(), st.sampled_from(sorted(MODELS)), PRICES, st.integers(0, 10**6))
def test_the_order_of_the_rows_does_not_matter(problem, name, C, seed):
    X, y, Z = problem
    order = np.random.default_rng(seed).permutation(len(y))
    first = fitted(MODELS[name](C), X, y, privileged=Z).decision_function(X)
    second = fitted(MODELS[name](C), X[order], y[order], privileged=Z[order]).decision_function(X)
    size = max(1.0, np.abs(first).max())
    # An intercept may lie anywhere between two examples; differences of scores may not.
    np.testing.assert_allclose(first - first.mean(), second - second.mean(), atol=2e-4 * size)


@repeatable
@given(problems(), PRICES, st.sampled_from(["none", "missing"]))
def test_without_privileged_features_it_is_the_plain_method(problem, C, how):
    X, y, Z = problem
    nothing = None if how == "none" else np.full_like(Z, np.nan)
    both = lambda model: fitted(model, X, y, privileged=nothing).decision_function(X)  # noqa: E731
    plain = SVC(C=C, gamma=0.5, tol=1e-8).fit(X, y).decision_function(X)
    found = both(lupi.SVMPlus(C, gamma=0.5, tol=1e-8))
    np.testing.assert_allclose(found - found.mean(), plain - plain.mean(), atol=1e-3)
    rank = fitted(lupi.RankSVM(C, tol=1e-10), X, y).decision_function(X)
    np.testing.assert_allclose(both(lupi.RankTransfer(C, tol=1e-10)), rank, atol=1e-6 * max(1.0, np.abs(rank).max()))
    line = LogisticRegression(C=C).fit(X, y).decision_function(X)
    np.testing.assert_allclose(both(lupi.Distillation(LogisticRegression(C=C))), line, atol=1e-6)
    np.testing.assert_allclose(both(lupi.KnowledgeTransfer(LogisticRegression(C=C))), line, atol=1e-6)
