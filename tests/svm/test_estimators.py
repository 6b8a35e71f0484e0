import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from lupi import SVM2K, SVM2Plus, SVMPlus, SVRPlus
from lupi.datasets import make_privileged
from lupi.kernels import Kernel

N = 60
rng = np.random.default_rng(5)
X, Z = rng.random((N, 4)), rng.random((N, 3))
MARGIN = X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=N)
Z[:, 0] += np.abs(MARGIN)
Y = np.where(MARGIN - np.median(MARGIN) > 0, 1, -1)
THREE = np.digitize(MARGIN, np.quantile(MARGIN, [0.3, 0.7]))
NEW = rng.random((25, 4))
MISSING = np.where((np.arange(N) % 4 == 0)[:, None], np.nan, Z)
KNOWN = np.arange(N) % 4 > 0
WEIGHT = rng.uniform(0.3, 2.0, size=N)
MODELS = [
    pytest.param(make, {} if make is SVM2K else {"correction": correction}, id=f"{make.__name__}-{correction}")
    for make in (SVMPlus, SVM2Plus, SVM2K)
    for correction in (("slack",) if make is SVM2K else ("slack", "labeled"))
]
every_model = pytest.mark.parametrize(("make", "options"), MODELS)


def assert_same(first, second, atol=1e-6):
    np.testing.assert_allclose(first.decision_function(NEW), second.decision_function(NEW), atol=atol)
    np.testing.assert_allclose(first.correcting_function(Z), second.correcting_function(Z), atol=atol)
    assert first.objective_ == pytest.approx(second.objective_, rel=1e-6)


def positive(values):
    return np.maximum(values, 0.0)


# ---------------------------------------------------------------- objective and gap from fitted attributes alone


@pytest.mark.parametrize("privileged", [Z, MISSING], ids=["all rows", "missing rows"])
@pytest.mark.parametrize("kappa", [1.5, 5.0])
@every_model
def test_objective_and_gap_follow_from_the_fitted_attributes(make, options, kappa, privileged):
    options = dict(options) if make is SVM2K else {**options, "kappa": kappa}
    model = make(C=2.0, gamma=1.5, privileged_gamma=0.8, tol=1e-4, **options)
    model.fit(X, Y, privileged=privileged, sample_weight=WEIGHT)
    known = ~np.isnan(privileged).any(axis=1)
    C, s = 2.0 * WEIGHT, Y if options.get("correction") == "labeled" else np.ones(N)
    beta, e = np.zeros(N), np.zeros(N)
    beta[model.support_], e[known] = model.dual_coef_[0], model.privileged_dual_coef_[0]
    K, K_star = Kernel("rbf", gamma=1.5)(X), Kernel("rbf", gamma=0.8)(Z)
    f, g = K @ beta + model.intercept_[0], K_star @ e + model.privileged_intercept_[0]
    np.testing.assert_allclose(model.decision_function(X), f, atol=1e-9)
    np.testing.assert_allclose(model.correcting_function(Z), g, atol=1e-9)
    a, norm, g_norm = Y * beta, beta @ K @ beta, e @ K_star @ e
    hinge = positive(1 - Y * f)
    if make is SVM2K:
        both = C / 2.0 * (positive(1 - Y * g) + np.abs(f - g))
        primal = 0.5 * norm + 0.5 * g_norm + (C * hinge).sum() + both[known].sum()
        assert model.objective_ == pytest.approx(primal, rel=1e-8)
        assert model.dual_gap_ < 1e-6
        return
    residual = positive(1 - Y * f - s * g)
    if make is SVMPlus:
        first = positive(Y * g) if options["correction"] == "labeled" else g
        loss = np.where(known, first + kappa * residual, hinge)
        primal = 0.5 * norm + 0.5 * g_norm + (C * loss).sum()
        dual = a.sum() - 0.5 * norm - 0.5 * g_norm
        if options["correction"] == "slack":
            assert g[known].min() > -1e-9  # g >= 0 holds on the training rows exactly
    else:
        loss = np.where(known, g**2 + kappa * residual**2, hinge**2)
        primal = 0.5 * norm + 0.5 * (g_norm + model.privileged_intercept_[0] ** 2) + 0.5 * (C * loss).sum()
        ridge = np.where(known, 1 / kappa, 1.0) / C
        dual = a.sum() - 0.5 * norm - 0.5 * (s * a * g)[known].sum() - 0.5 * ridge @ a**2
    assert model.objective_ == pytest.approx(primal, rel=1e-8)
    assert model.dual_gap_ == pytest.approx((primal - dual) / primal, abs=1e-8)
    assert model.dual_gap_ < 1e-3
    assert model.kkt_violation_ <= 1e-4


# ---------------------------------------------------------------- labels, weights, containers


@every_model
def test_one_against_the_rest_equals_separate_fits(make, options):
    model = make(tol=1e-8, **options).fit(X, THREE, privileged=MISSING)
    singles = [make(tol=1e-8, **options).fit(X, np.equal(THREE, k), privileged=MISSING) for k in range(3)]
    scores = np.column_stack([single.decision_function(NEW) for single in singles])
    np.testing.assert_allclose(model.decision_function(NEW), scores, atol=1e-6)
    np.testing.assert_array_equal(model.predict(NEW), scores.argmax(axis=1))
    corrections = np.column_stack([single.correcting_function(Z) for single in singles])
    np.testing.assert_allclose(model.correcting_function(Z), corrections, atol=1e-6)
    assert model.objective_ == pytest.approx(sum(single.objective_ for single in singles), rel=1e-6)
    assert model.dual_gap_ == pytest.approx(max(single.dual_gap_ for single in singles), abs=1e-9)


@every_model
def test_labels_of_any_type(make, options):
    words = np.array(["low", "mid", "top"])[THREE]
    numbers = make(**options).fit(X, THREE, privileged=Z)
    model = make(**options).fit(X.tolist(), words.tolist(), privileged=Z.tolist())
    assert model.classes_.tolist() == ["low", "mid", "top"]
    np.testing.assert_array_equal(model.predict(NEW), np.array(["low", "mid", "top"])[numbers.predict(NEW)])
    two = make(**options).fit(X, np.where(Y > 0, "yes", "no"), privileged=Z)
    np.testing.assert_array_equal(two.predict(NEW), np.where(two.decision_function(NEW) > 0, "yes", "no"))


@every_model
def test_integer_weights_equal_repetition_with_privileged_features(make, options):
    weight = np.random.default_rng(1).integers(0, 4, size=N)
    model = make(tol=1e-8, **options).fit(X, Y, privileged=MISSING, sample_weight=weight)
    repeated = make(tol=1e-8, **options).fit(
        np.repeat(X, weight, axis=0), np.repeat(Y, weight), privileged=np.repeat(MISSING, weight, axis=0)
    )
    assert_same(model, repeated, atol=1e-5)
    assert np.all(weight[model.support_] > 0)


@every_model
def test_class_weight_multiplies_sample_weight(make, options):
    by_class = make(tol=1e-8, class_weight={-1: 0.5, 1: 2.0}, **options).fit(X, Y, privileged=Z, sample_weight=WEIGHT)
    by_hand = make(tol=1e-8, **options)
    by_hand.fit(X, Y, privileged=Z, sample_weight=WEIGHT)
    assert abs(by_hand.objective_ / by_class.objective_ - 1) > 1e-2
    gammas = {"gamma": by_class._kernel.gamma, "privileged_gamma": by_class._privileged_kernel.gamma}
    by_hand.set_params(**gammas).fit(X, Y, privileged=Z, sample_weight=WEIGHT * np.where(Y > 0, 2.0, 0.5))
    assert_same(by_class, by_hand)


def test_balanced_class_weight_is_that_of_scikit_learn():
    uneven = np.where(MARGIN - np.quantile(MARGIN, 0.8) > 0, 1, -1)
    model = SVMPlus(class_weight="balanced", tol=1e-8).fit(X, uneven)
    plain = SVC(class_weight="balanced", tol=1e-8).fit(X, uneven)
    np.testing.assert_allclose(model.decision_function(NEW), plain.decision_function(NEW), atol=1e-5)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "chi2", "laplacian"])
@every_model
def test_sparse_equals_dense(make, options, kernel):
    parameters = {"kernel": kernel, "privileged_kernel": kernel, "coef0": 1.0, "tol": 1e-8, **options}
    A, B = np.where(X > 0.4, X, 0.0), np.where(np.isnan(MISSING), np.nan, np.where(Z > 0.4, Z, 0.0))
    dense = make(**parameters).fit(A, Y, privileged=B)
    for convert in (sparse.csr_matrix, sparse.csc_array):
        model = make(**parameters).fit(convert(A), Y, privileged=convert(B))
        np.testing.assert_allclose(model.decision_function(convert(NEW)), dense.decision_function(NEW), atol=1e-5)
        np.testing.assert_allclose(model.correcting_function(convert(Z)), dense.correcting_function(Z), atol=1e-5)


@every_model
@pytest.mark.parametrize("frame", [pd.DataFrame, lambda A: pl.DataFrame(A, orient="row")], ids=["pandas", "polars"])
def test_frames_equal_arrays(make, options, frame):
    array = make(**options).fit(X, Y, privileged=Z)
    table = frame(X)
    table.columns = list("abcd")
    model = make(**options).fit(table, Y, privileged=frame(Z))
    np.testing.assert_allclose(model.decision_function(table), array.decision_function(X), atol=1e-9)
    np.testing.assert_allclose(model.correcting_function(frame(Z)), array.correcting_function(Z), atol=1e-9)
    assert model.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_array_equal(model.predict(table), array.predict(X))


# ---------------------------------------------------------------- kernels

EXPLICIT = {
    "linear": lambda A, B: A @ B.T,
    "rbf": lambda A, B: np.exp(-0.9 * ((A[:, None] - B[None]) ** 2).sum(axis=2)),
    "poly": lambda A, B: (0.9 * A @ B.T + 1.0) ** 2,
    "laplacian": lambda A, B: np.exp(-0.9 * np.abs(A[:, None] - B[None]).sum(axis=2)),
    "chi2": lambda A, B: np.exp(-0.9 * ((A[:, None] - B[None]) ** 2 / (A[:, None] + B[None])).sum(axis=2)),
}


@pytest.mark.parametrize("kernel", EXPLICIT)
@every_model
def test_name_callable_and_precomputed_are_the_same_kernel(make, options, kernel):
    values = EXPLICIT[kernel]
    common = {"tol": 1e-8, **options}
    numbers = {"gamma": 0.9, "degree": 2, "coef0": 1.0}
    numbers.update({f"privileged_{key}": value for key, value in numbers.items()})
    named = make(kernel=kernel, privileged_kernel=kernel, **numbers, **common).fit(X, Y, privileged=MISSING)
    called = make(kernel=values, privileged_kernel=values, **common).fit(X, Y, privileged=MISSING)
    assert_same(named, called, atol=1e-5)
    gram = np.where(KNOWN[:, None], values(Z, Z), np.nan)
    given = make(kernel="precomputed", privileged_kernel="precomputed", **common).fit(values(X, X), Y, privileged=gram)
    np.testing.assert_allclose(given.decision_function(values(NEW, X)), named.decision_function(NEW), atol=1e-5)
    np.testing.assert_allclose(given.correcting_function(values(Z, Z)), named.correcting_function(Z), atol=1e-5)
    if kernel == "linear":
        np.testing.assert_allclose(NEW @ named.coef_.T + named.intercept_, named.decision_function(NEW)[:, None])


def test_precomputed_with_weights_of_zero():
    weight = np.where(np.arange(N) % 5 == 0, 0.0, WEIGHT)
    keep = weight > 0
    K, K_star = X @ X.T, Z @ Z.T
    options = {"kernel": "precomputed", "privileged_kernel": "precomputed", "tol": 1e-8}
    model = SVMPlus(**options).fit(K, Y, privileged=K_star, sample_weight=weight)
    part = SVMPlus(**options).fit(
        K[np.ix_(keep, keep)], Y[keep], privileged=K_star[np.ix_(keep, keep)], sample_weight=weight[keep]
    )
    np.testing.assert_allclose(model.decision_function(K), part.decision_function(K[:, keep]), atol=1e-6)
    np.testing.assert_allclose(model.correcting_function(K_star), part.correcting_function(K_star[:, keep]), atol=1e-6)


@pytest.mark.parametrize("cache_size", [1e-4, 0.02])
@pytest.mark.parametrize("y", [Y, np.sort(Y)], ids=["mixed", "sorted by class"])
@every_model
def test_rows_on_demand_equal_the_full_matrix(make, options, y, cache_size):
    full = make(tol=1e-7, **options).fit(X, y, privileged=MISSING)
    rows = make(tol=1e-7, cache_size=cache_size, **options).fit(X, y, privileged=MISSING)
    assert_same(full, rows, atol=1e-4)


@pytest.mark.parametrize("correction", ["slack", "labeled"])
def test_nystroem_with_all_landmarks_is_exact_and_says_what_it_does(monkeypatch, correction):
    exact = SVM2Plus(correction=correction, tol=1e-8).fit(X, Y, privileged=MISSING)
    monkeypatch.setattr("lupi.svm.svm_plus.LARGEST_MATRIX", 1e-4)
    model = SVM2Plus(correction=correction, cache_size=1e-4, tol=1e-7, random_state=0)
    with pytest.warns(
        UserWarning, match=r"60 examples are too many for the matrix Q.*Nystroem approximation"
    ) as record:
        model.fit(X, Y, privileged=MISSING)
    assert record[0].filename == __file__
    assert_same(exact, model, atol=1e-3)
    monkeypatch.setattr("lupi.svm.svm_plus.NYSTROEM_RANK", 5)
    with pytest.warns(UserWarning, match="with 5 landmarks"):
        coarse = SVM2Plus(correction=correction, cache_size=1e-4, random_state=0).fit(X, Y, privileged=MISSING)
    assert coarse.dual_gap_ < 1e-3
    assert coarse.correcting_function(Z).shape == (N,)
    exact_linear = SVM2Plus(privileged_kernel="linear", cache_size=1e-4, tol=1e-7).fit(X, Y, privileged=MISSING)
    monkeypatch.undo()
    assert_same(exact_linear, SVM2Plus(privileged_kernel="linear", tol=1e-7).fit(X, Y, privileged=MISSING), atol=1e-4)


# ---------------------------------------------------------------- the correcting function


@every_model
def test_correcting_function_of_missing_rows_is_nan(make, options):
    model = make(**options).fit(X, Y, privileged=Z)
    values = model.correcting_function(MISSING)
    np.testing.assert_array_equal(np.isnan(values), ~KNOWN)
    np.testing.assert_allclose(values[KNOWN], model.correcting_function(Z)[KNOWN])


@every_model
def test_messages_of_the_correcting_function(make, options):
    model = make(**options).fit(X, Y, privileged=Z)
    with pytest.raises(ValueError, match=r"`privileged` has 2 features, but .* was fitted with 3"):
        model.correcting_function(Z[:, :2])
    model.fit(X, Y)
    with pytest.raises(ValueError, match="was fitted without privileged features, so it has no correcting function"):
        model.correcting_function(Z)


@every_model
def test_nothing_of_an_earlier_fit_remains(make, options):
    model = make(kernel="linear", privileged_kernel="linear", **options).fit(X, Y, privileged=Z)
    model.set_params(kernel="rbf", privileged_kernel="rbf").fit(X, Y, privileged=Z)
    assert_same(model, make(**options).fit(X, Y, privileged=Z))
    assert not hasattr(model, "coef_")
    model.fit(X, Y)
    np.testing.assert_allclose(model.decision_function(NEW), make(**options).fit(X, Y).decision_function(NEW))


# ---------------------------------------------------------------- what a user should know


@pytest.mark.parametrize(("make", "scale"), [(SVMPlus, 1.0), (SVM2Plus, 1.0), (SVM2Plus, 1e4)])
def test_collapse_is_explained(make, scale):
    noise = np.random.default_rng(0).normal(size=(N, 2))
    A, B = (
        scale * (noise[:, :1] + 0.4 * Y[:, None]),
        1e-3 * noise[:, 1:],
    )  # not separable, and B cannot express the slacks
    model = make(C=10.0, kappa=np.inf, kernel="linear", privileged_kernel="linear")
    with pytest.warns(UserWarning, match=r"collapsed to w = 0.*With kappa=inf.*use a finite kappa"):
        model.fit(A, Y, privileged=B)
    assert np.ptp(model.decision_function(A)) < 1e-3
    assert np.ptp(model.set_params(kappa=1.0).fit(A, Y, privileged=B).decision_function(A)) > 0.1


@pytest.mark.parametrize("solver", ["auto", "interior_point"])
@pytest.mark.parametrize("make", [SVMPlus, SVM2Plus])
def test_a_problem_without_solution_is_explained(make, solver):
    model = make(correction="labeled", kappa=np.inf, kernel="linear", privileged_kernel="linear", solver=solver)
    with pytest.raises(
        ValueError, match=r"kappa=inf\) has no solution on these data.*not separable. Use a finite kappa"
    ):
        model.fit(X[:, 2:], Y, privileged=Z[:, 1:])


@pytest.mark.parametrize("correction", ["slack", "labeled"])
def test_functions_that_are_stretched_to_meet_their_constraints_are_stored_stretched(correction):
    s = np.ones(N) if correction == "slack" else Y
    model = SVM2Plus(100.0, 0.01, kappa=np.inf, correction=correction, gamma=20.0, solver="smo", max_iter=60)
    with pytest.warns(ConvergenceWarning, match="stopped after 60 iterations"):
        model.fit(X, Y, privileged=Z)
    f, g = model.decision_function(X), model.correcting_function(Z)
    assert np.min(Y * f + s * g) >= 1.0 - 1e-9
    beta, eta = np.zeros(N), model.privileged_dual_coef_[0]
    beta[model.support_] = model.dual_coef_[0]
    norms = beta @ (f - model.intercept_) + 0.01 * eta @ g
    assert model.objective_ == pytest.approx(0.5 * norms + 50.0 * g @ g, rel=1e-9)


def test_the_correcting_function_of_weights_is_the_certified_one():
    many, more = np.random.default_rng(0).normal(size=(2, 210, 2))
    y = np.where(many[:, 0] + many[:, 1] * more[:, 0] > 0, 1, -1)
    model = SVM2Plus(1e-3, 1e-3, kappa=500.0, kernel="linear", privileged_kernel="linear").fit(many, y, privileged=more)
    f, g = model.decision_function(many), model.correcting_function(more)
    norms = np.sum(model.coef_**2) + 1e-3 * (np.sum(model.privileged_coef_**2) + model.privileged_intercept_[0] ** 2)
    losses = g @ g + 500.0 * np.sum(positive(1 - y * f - g) ** 2)
    assert model.objective_ == pytest.approx(0.5 * norms + 0.5e-3 * losses, rel=1e-9)


@pytest.mark.parametrize(
    "model", [SVMPlus(10.0), SVMPlus(10.0, kappa=np.inf), SVRPlus(10.0), SVMPlus(10.0, solver="smo")]
)
def test_the_tolerance_is_the_duality_gap(model):
    X, y, Z = make_privileged(300, 50, 20, random_state=0, return_X_y_privileged=True)
    assert model.fit(X, y, privileged=Z).dual_gap_ <= 1e-3


@every_model
def test_stopping_early_is_reported(make, options):
    model = make(C=100.0, max_iter=1, **options)
    if make is not SVM2K:
        model.set_params(solver="smo")
    with pytest.warns(
        ConvergenceWarning,
        match=r"stopped after \d+ iterations at a relative duality gap .* and a KKT violation .*; increase max_iter",
    ) as record:
        model.fit(X, Y, privileged=Z)
    assert record[0].filename == __file__
    assert model.dual_gap_ > 1e-3
