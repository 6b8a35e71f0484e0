"""SVMPlus and SVM2Plus with linear kernels: no kernel matrix, and the same models as with one."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import SVC

import lupi.kernels.space
from lupi import SVM2Plus, SVMPlus
from lupi.kernels import Kernel
from lupi.svm.paths import fit_path

LINEAR = {"kernel": "linear", "privileged_kernel": "linear", "tol": 1e-6}
N = 320


def data(n=N, d=5, s=3, seed=2):
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(n, d)), rng.normal(size=(n, s))
    score = X[:, 0] - X[:, 1] + 0.6 * rng.normal(size=n)
    y = (score > 0).astype(int)
    # What an ideal rule would have to pay, so that no slack but the explained one is needed.
    Z[:, 0] = np.maximum(0.0, 1.0 - np.where(y > 0, 1.0, -1.0) * (X[:, 0] - X[:, 1]))
    return X, Z, y, rng


MODELS = [
    (SVMPlus, {"correction": "slack"}),
    (SVMPlus, {"correction": "labeled", "kappa": 2.0}),
    (SVMPlus, {"kappa": np.inf}),
    (SVM2Plus, {"correction": "slack"}),
    (SVM2Plus, {"correction": "labeled"}),
    (SVM2Plus, {"kappa": np.inf}),
]


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(("make", "options"), MODELS)
def test_the_model_is_that_of_the_reference_on_kernel_matrices(make, options, missing):
    X, Z, y, rng = data(n=220)
    if missing:
        Z[rng.random(len(y)) < 0.3] = np.nan
    weight = rng.uniform(0.5, 2.0, size=len(y))
    fit = {"privileged": Z, "sample_weight": weight}
    ours = make(**LINEAR, **options, class_weight={0: 2.0}).fit(X, y, **fit)
    reference = make(**LINEAR, **options, class_weight={0: 2.0}, solver="reference").fit(X, y, **fit)
    assert not hasattr(ours, "support_vectors_")  # over weights
    assert min(ours.dual_gap_, ours.kkt_violation_) <= 1e-6
    assert ours.objective_ == pytest.approx(reference.objective_, rel=1e-6)
    np.testing.assert_allclose(ours.coef_, reference.coef_, atol=2e-3)
    np.testing.assert_allclose(ours.decision_function(X), reference.decision_function(X), atol=1e-2)
    np.testing.assert_allclose(ours.correcting_function(Z), reference.correcting_function(Z), atol=1e-2)


@pytest.mark.parametrize("make", [SVMPlus, SVM2Plus])
@pytest.mark.parametrize("privileged", [None, np.full((N, 3), np.nan)], ids=["none", "all rows missing"])
def test_without_privileged_features_it_is_the_plain_machine(make, privileged):
    X, _, y, _ = data()
    model = make(C=0.5, **LINEAR).fit(X, y, privileged=privileged)
    K = X @ X.T
    plain = (
        SVC(C=0.5, kernel="precomputed", tol=1e-8) if make is SVMPlus else SVC(C=1e9, kernel="precomputed", tol=1e-8)
    )
    plain.fit(K if make is SVMPlus else K + np.eye(N) / 0.5, y)
    expected = K[:, plain.support_] @ plain.dual_coef_[0] + plain.intercept_
    np.testing.assert_allclose(model.decision_function(X), expected, atol=2e-3)


@pytest.mark.parametrize(("make", "options"), MODELS)
def test_a_weight_of_two_is_the_row_twice(make, options):
    X, Z, y, rng = data()
    twice = rng.random(N) < 0.3
    weighted = make(**LINEAR, **options).fit(X, y, privileged=Z, sample_weight=np.where(twice, 2.0, 1.0))
    rows = np.concatenate([np.arange(N), np.flatnonzero(twice)])
    repeated = make(**LINEAR, **options).fit(X[rows], y[rows], privileged=Z[rows])
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=3e-6)
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-2)


@pytest.mark.parametrize("make", [SVMPlus, SVM2Plus])
def test_every_class_of_many_is_its_own_problem(make):
    X, Z, _, rng = data()
    y = (X[:, :4] + 0.5 * rng.normal(size=(N, 4))).argmax(axis=1)
    model = make(**LINEAR, kappa=1.2).fit(X, y, privileged=Z)
    assert model.coef_.shape == (4, 5)
    for k in range(4):
        alone = make(**LINEAR, kappa=1.2).fit(X, np.where(y == k, 1, 0), privileged=Z)
        np.testing.assert_allclose(model.coef_[k], alone.coef_[0], atol=2e-3)
        np.testing.assert_allclose(model.intercept_[k], alone.intercept_[0], atol=2e-3)


@pytest.mark.parametrize("make", [SVMPlus, SVM2Plus])
def test_sparse_and_single_precision_rows_give_the_same_model(make):
    X, Z, y, _ = data()
    X, Z = np.round(X, 2), np.round(Z, 2)
    model = make(**LINEAR).fit(X, y, privileged=Z)
    for convert in (sparse.csr_array, lambda a: a.astype(np.float32)):
        other = make(**LINEAR).fit(convert(X), y, privileged=convert(Z))
        np.testing.assert_allclose(other.decision_function(X), model.decision_function(X), atol=1e-3)


@pytest.mark.parametrize(("make", "options"), MODELS)
def test_no_matrix_over_the_examples_is_ever_formed(make, options, monkeypatch):
    X, Z, y, _ = data(n=6000)

    def refuse(*args, **kwargs):
        raise AssertionError("a kernel matrix was asked for")

    monkeypatch.setattr(Kernel, "__call__", refuse)
    monkeypatch.setattr(lupi.kernels.space.Space, "dense", property(refuse))
    model = make(**{**LINEAR, "tol": 1e-3}, **options).fit(X, y, privileged=Z)
    assert model.dual_gap_ <= 1e-3


@pytest.mark.parametrize(("make", "options"), MODELS)
def test_more_features_than_examples_need_one_matrix_per_space_for_all_classes(make, options, monkeypatch):
    rng = np.random.default_rng(0)
    X, Z, y = rng.normal(size=(240, 200)), rng.normal(size=(240, 60)), rng.integers(0, 3, size=240)
    formed = []
    call = Kernel.__call__
    monkeypatch.setattr(Kernel, "__call__", lambda self, *args: formed.append(self) or call(self, *args))
    ours = make(**LINEAR, **options).fit(X, y, privileged=Z)
    assert len(formed) <= 2
    reference = make(**{**LINEAR, "tol": 1e-8}, **options, solver="reference").fit(X, y, privileged=Z)
    assert ours.objective_ == pytest.approx(reference.objective_, rel=1e-6)
    np.testing.assert_allclose(ours.decision_function(X), reference.decision_function(X), atol=1e-2)


@pytest.mark.parametrize("kappa", [3.0, np.inf])
def test_more_privileged_features_than_examples_need_no_matrix_over_them(kappa, monkeypatch):
    rng = np.random.default_rng(0)
    X, Z, y = rng.normal(size=(220, 5)), rng.normal(size=(220, 400)), rng.integers(0, 3, size=220)

    def refuse(*args):
        raise AssertionError("a matrix over the privileged features was asked for")

    monkeypatch.setattr("lupi.svm.features.weighted_products", refuse)
    monkeypatch.setattr("lupi.svm.svm2_dual.deformation_features", refuse)
    ours = SVM2Plus(**LINEAR, kappa=kappa).fit(X, y, privileged=Z)
    reference = SVM2Plus(**LINEAR, kappa=kappa, solver="reference").fit(X, y, privileged=Z)
    assert ours.objective_ == pytest.approx(reference.objective_, rel=1e-5)
    np.testing.assert_allclose(ours.correcting_function(Z), reference.correcting_function(Z), atol=1e-2)


def test_support_are_the_examples_that_carry_the_decision():
    X, Z, y, _ = data()
    model = SVM2Plus(**LINEAR).fit(X, y, privileged=Z)
    coefficients = np.zeros(N)
    coefficients[model.support_] = model.dual_coef_[0]
    assert len(model.support_) < N
    np.testing.assert_allclose(X.T @ coefficients, model.coef_[0], atol=1e-6)


def test_solver_names():
    X, Z, y, _ = data()
    by_name = {
        name: SVM2Plus(**LINEAR, solver=name).fit(X, y, privileged=Z).coef_
        for name in ("auto", "newton", "interior_point", "smo")
    }
    for coef in by_name.values():
        np.testing.assert_allclose(coef, by_name["auto"], atol=1e-3)
    with pytest.raises(ValueError, match="works on the weights of linear functions"):
        SVM2Plus(solver="newton").fit(X, y, privileged=Z)


def test_labeled_without_residual_slack_has_no_solution_where_nothing_separates():
    X, Z, y, _ = data()
    for make in (SVMPlus, SVM2Plus):
        with pytest.raises(ValueError, match="has no solution on these data"):
            make(**LINEAR, correction="labeled", kappa=np.inf).fit(X, y, privileged=Z)


def test_a_collapse_is_told():
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(400, 2)), rng.normal(size=(400, 1))
    y = rng.integers(0, 2, size=400)
    with pytest.warns(UserWarning, match="collapsed to w = 0"):
        SVM2Plus(**LINEAR, C=1e-3, kappa=np.inf).fit(X, y, privileged=Z)


def test_a_path_over_prices_gives_the_fits_one_by_one():
    X, Z, y, _ = data()
    candidates = [{"C": C, "lam": lam} for C in (0.1, 1.0) for lam in (0.1, 1.0)]
    for fitted, params in zip(fit_path(SVM2Plus(**LINEAR), candidates, X, y, privileged=Z), candidates):
        alone = SVM2Plus(**LINEAR, **params).fit(X, y, privileged=Z)
        np.testing.assert_allclose(fitted.coef_, alone.coef_, atol=1e-5)
