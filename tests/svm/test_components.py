"""``n_components``: features of landmarks in the place of both kernels."""

import numpy as np
import pytest

import lupi
from lupi import SVM2Plus, SVMPlus
from lupi.kernels import Kernel, resolve_gamma

FORMS = [
    (SVMPlus, {}),
    (SVMPlus, {"correction": "labeled", "kernel": "linear"}),
    (SVM2Plus, {"kappa": np.inf}),
    (SVM2Plus, {"correction": "labeled", "privileged_kernel": "linear"}),
]


def data(n=90, n_classes=2, missing=False, seed=0):
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(n, 4)), rng.normal(size=(n, 3))
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=n), np.linspace(-1, 1, n_classes + 1)[1:-1])
    if missing:
        Z[rng.random(n) < 0.3] = np.nan
    return X, y, Z


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(("make", "options"), FORMS)
def test_as_many_components_as_examples_are_the_kernel_itself(make, options, missing):
    X, y, Z = data(missing=missing, n_classes=3)
    exact = make(**options, tol=1e-7).fit(X, y, privileged=Z)
    model = make(**options, tol=1e-7, n_components=90).fit(X, y, privileged=Z)
    assert model.objective_ == pytest.approx(exact.objective_, rel=1e-5)
    np.testing.assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-3)
    np.testing.assert_allclose(model.correcting_function(Z), exact.correcting_function(Z), atol=1e-3)
    assert getattr(model, "approximation_error_", 0.0) < 1e-9
    assert getattr(model, "privileged_approximation_error_", 0.0) < 1e-9


def approximate(kernel, A, landmarks):
    """Kernel matrix of Nystroem's approximation, by its formula."""
    across = kernel(A, landmarks)
    return across @ np.linalg.pinv(kernel(landmarks), rcond=1e-12, hermitian=True) @ across.T


@pytest.mark.parametrize("make", [SVMPlus, SVM2Plus])
def test_fewer_components_solve_the_problem_of_the_approximate_kernels(make):
    X, y, Z = data(missing=True)
    model = make(tol=1e-7, n_components=20, random_state=3).fit(X, y, privileged=Z)
    known = np.isfinite(Z[:, 0])
    kernel, correcting = (Kernel("rbf", gamma=resolve_gamma("scale", A)) for A in (X, Z[known]))
    K = approximate(kernel, X, model.support_vectors_)
    K_star = np.full((90, 90), np.nan)
    K_star[np.ix_(known, known)] = approximate(correcting, Z[known], model._privileged_data)
    K_star[known] = np.nan_to_num(K_star[known])
    given = {"kernel": "precomputed", "privileged_kernel": "precomputed"}
    exact = make(tol=1e-7, **given).fit(K, y, privileged=K_star)
    assert model.objective_ == pytest.approx(exact.objective_, rel=1e-5)
    np.testing.assert_allclose(model.decision_function(X), exact.decision_function(K), atol=1e-3)
    assert model.approximation_error_ == pytest.approx(1 - np.trace(K) / 90, abs=1e-9)
    missed = 1 - np.trace(K_star[np.ix_(known, known)]) / known.sum()
    assert model.privileged_approximation_error_ == pytest.approx(missed, abs=1e-9)
    assert 0.01 < model.approximation_error_ < 1
    np.testing.assert_array_equal(X[model.support_], model.support_vectors_)


def test_kernel_matrices_have_landmarks_too():
    X, y, Z = data(missing=True)
    known = np.isfinite(Z[:, 0])
    kernel, correcting = (Kernel("rbf", gamma=resolve_gamma("scale", A)) for A in (X, Z[known]))
    K, K_star = kernel(X), np.full((90, 90), np.nan)
    K_star[known] = 0.0
    K_star[np.ix_(known, known)] = correcting(Z[known])
    options = {"tol": 1e-7, "n_components": 20, "random_state": 3}
    model = SVM2Plus(**options).fit(X, y, privileged=Z)
    given = SVM2Plus(**options, kernel="precomputed", privileged_kernel="precomputed").fit(K, y, privileged=K_star)
    np.testing.assert_array_equal(given.support_, model.support_)
    np.testing.assert_allclose(given.decision_function(K), model.decision_function(X), atol=1e-5)
    np.testing.assert_allclose(given.correcting_function(K_star)[known], model.correcting_function(Z)[known], atol=1e-5)


def test_many_features_are_kept_in_single_precision(monkeypatch):
    X, y, Z = data()
    options = {"n_components": 20, "random_state": 0, "tol": 1e-6}
    double = SVM2Plus(**options).fit(X, y, privileged=Z)
    monkeypatch.setattr("lupi.kernels.nystroem.MOST_IN_DOUBLE", 100)
    single = SVM2Plus(**options).fit(X, y, privileged=Z)
    np.testing.assert_allclose(single.decision_function(X), double.decision_function(X), atol=1e-4)
    assert single.dual_gap_ <= 1e-6


def test_a_model_with_landmarks_is_saved(tmp_path):
    X, y, Z = data()
    model = SVMPlus(n_components=15, random_state=0).fit(X, y, privileged=Z)
    lupi.save(model, tmp_path / "model.lupi")
    again = lupi.load(tmp_path / "model.lupi")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_solvers_on_kernel_matrices_are_refused():
    X, y, Z = data()
    with pytest.raises(
        ValueError, match=r"solver='smo' works on kernel matrices, but n_components=10 .* solver='auto'"
    ):
        SVMPlus(n_components=10, solver="smo").fit(X, y, privileged=Z)


def test_features_beyond_memory_are_explained(monkeypatch):
    X, y, Z = data()
    monkeypatch.setattr("lupi.inputs.memory.available_memory", lambda: 1000.0)
    with pytest.raises(MemoryError, match=r"10 features of 90 examples in place of the kernel of `X` needs"):
        SVMPlus(n_components=10).fit(X, y, privileged=Z)
