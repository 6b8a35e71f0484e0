"""SVR+ against a hand-written primal problem, its reductions to known machines, and its manners."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from primals import svr_plus_optimum
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVR
from sklearn.utils.estimator_checks import check_estimator

import lupi
from lupi import SVRPlus
from lupi.kernels import Kernel, Space
from lupi.svm.auto import solve
from lupi.svm.duals import svr_plus_dual
from lupi.svm.interior_point import KernelSystem, newton_system
from lupi.svm.paths import fit_path
from lupi.svm.smo import solve_smo

KERNELS = ("linear", "rbf", "poly", "laplacian")


def data(seed, n=40, missing=0.0):
    rng = np.random.default_rng(seed)
    X, Z = rng.random((n, 4)), rng.random((n, 3))
    noise = 0.5 * rng.normal(size=n)
    t = 2 * X[:, 0] - X[:, 1] + noise
    Z[:, 0] += np.abs(noise)
    Z[rng.random(n) < missing] = np.nan
    return X, t, Z


X, T, Z = data(0, 70)


def random_cases():
    rng = np.random.default_rng(3)
    for seed in range(36):
        kernels = [str(kernel) for kernel in rng.choice(KERNELS, 2)]
        C, lam = 10.0 ** rng.uniform(-2, 2), 10.0 ** rng.uniform(-2, 2)
        yield (
            seed, C, lam, float(rng.choice([0.0, 0.1, 0.5])), [1.0, 3.0, 20.0, np.inf][seed % 4], *kernels,
            [0.0, 0.3, 0.9][seed % 3], bool(seed % 2),
        )  # fmt: skip


def ids(case):
    return f"{case[0]}-C{case[1]:.0e}-lam{case[2]:.0e}-kappa{case[4]}-{case[5]}-{case[6]}"


@pytest.mark.parametrize("case", list(random_cases()), ids=ids)
def test_the_optimum_of_the_primal(case):
    seed, C, lam, epsilon, kappa, kernel, privileged_kernel, missing, weighted = case
    X, t, Z = data(seed, 36, missing)
    weight = np.random.default_rng(seed).uniform(0.5, 2.0, len(t)) if weighted else np.ones(len(t))
    shape = {"gamma": 1.0, "coef0": 1.0, "degree": 2}
    options = {**shape, **{f"privileged_{name}": value for name, value in shape.items()}}
    model = SVRPlus(
        C, lam, epsilon, kappa=kappa, kernel=kernel, privileged_kernel=privileged_kernel, tol=1e-7, **options
    )
    model.fit(X, t, privileged=Z, sample_weight=weight)
    available = ~np.isnan(Z).any(axis=1)
    K = Kernel(kernel, 1.0, 2, 1.0)(X)
    K_star = Kernel(privileged_kernel, 1.0, 2, 1.0)(np.nan_to_num(Z)) * np.outer(available, available)
    best = svr_plus_optimum(K, [K_star], [lam], t, C * weight, epsilon, kappa, available)
    assert model.objective_ == pytest.approx(best, rel=1e-4)
    assert model.dual_gap_ < 1e-5
    # The certificate once more, from what the model shows to everyone.
    f = model.predict(X)
    w2 = model.dual_coef_[0] @ K[np.ix_(model.support_, model.support_)] @ model.dual_coef_[0]
    g = model.correcting_function(Z[available])
    norms = np.einsum(
        "kj,jl,kl", model.privileged_dual_coef_, K_star[np.ix_(available, available)], model.privileged_dual_coef_
    )
    assert g.min() > -1e-6
    slack = np.maximum(np.column_stack([t - f, f - t]) - epsilon, 0.0)
    rest = np.maximum(slack[available] - g, 0.0)
    extra = 0.0 if np.isinf(kappa) else kappa * rest
    assert kappa < np.inf or rest.max() < 1e-5
    loss = ((C * weight)[available, None] * (g + extra)).sum() + (
        (C * weight)[~available, None] * slack[~available]
    ).sum()
    assert 0.5 * w2 + 0.5 * lam * norms + loss == pytest.approx(model.objective_, rel=1e-5)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_without_privileged_features_it_is_the_svr(kernel, epsilon):
    weight = np.random.default_rng(0).integers(1, 4, len(T)).astype(float)
    theirs = SVR(kernel=kernel, C=2.0, epsilon=epsilon, gamma=0.5, tol=1e-8).fit(X, T, sample_weight=weight)
    ours = SVRPlus(2.0, 1.0, epsilon, kernel=kernel, gamma=0.5, tol=1e-8)
    assert_allclose(ours.fit(X, T, sample_weight=weight).predict(X), theirs.predict(X), atol=1e-5)
    nothing = np.full_like(Z, np.nan)
    assert_allclose(ours.fit(X, T, privileged=nothing, sample_weight=weight).predict(X), theirs.predict(X), atol=1e-5)
    assert not hasattr(ours, "privileged_dual_coef_")


def test_privileged_features_that_explain_every_slack_for_nothing_change_nothing():
    plain = SVRPlus(2.0, kernel="linear", tol=1e-8).fit(X, T)
    free = SVRPlus(2.0, 1.0, kernel="linear", privileged_kernel="precomputed", kappa=np.inf, tol=1e-6)
    free.fit(X, T, privileged=1e5 * np.eye(len(T)))
    assert free.objective_ == pytest.approx(plain.objective_, rel=1e-4)
    assert_allclose(free.predict(X), plain.predict(X), atol=1e-3)


def test_a_weight_is_a_repetition_and_a_mirrored_target_a_mirrored_model():
    options = {"gamma": 1.0, "privileged_gamma": 1.0, "tol": 1e-8}
    weight = np.arange(len(T)) % 3
    repeated = np.repeat(np.arange(len(T)), weight)
    once = SVRPlus(**options).fit(X, T, privileged=Z, sample_weight=weight)
    often = SVRPlus(**options).fit(X[repeated], T[repeated], privileged=Z[repeated])
    assert_allclose(once.predict(X), often.predict(X), atol=1e-5)
    mirrored = SVRPlus(**options).fit(X, -T, privileged=Z, sample_weight=weight)
    assert_allclose(mirrored.predict(X), -once.predict(X), atol=1e-5)
    assert_allclose(mirrored.correcting_function(Z), once.correcting_function(Z)[:, ::-1], atol=1e-5)


def test_it_learns_which_targets_are_noisy():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 4))
    noisy = rng.random(120) < 0.4
    t = X[:, 0] + np.where(noisy, 4.0, 0.1) * rng.normal(size=120)
    model = SVRPlus(1.0, 0.01, kernel="linear", privileged_kernel="linear").fit(X, t, privileged=noisy[:, None])
    above, below = model.correcting_function([[1.0], [0.0]]).T
    assert above[0] > 5 * max(above[1], 0.01)
    assert below[0] > 5 * max(below[1], 0.01)
    assert model.coef_.shape == (1, 4)
    assert_allclose(model.predict(X), X @ model.coef_[0] + model.intercept_[0])


# ---------------------------------------------------------------- solvers


def problem(seed, n=50, kappa=3.0, lam=0.5, C=2.0, missing=0.3, kernels=("rbf", "rbf")):
    X, t, Z = data(seed, n, missing)
    available = ~np.isnan(Z).any(axis=1)
    first, second = (Kernel(name, gamma=1.0) for name in kernels)
    star = Space(matrix=second(np.nan_to_num(Z)) * np.outer(available, available), weight=1 / lam)
    return svr_plus_dual(Space(matrix=first(X)), star, t, np.full(n, C), 0.1, kappa, available)


@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("kappa", [1.0, 3.0, np.inf])
@pytest.mark.parametrize("solver", ["smo", "decomposition", "interior_point", "auto"])
def test_every_solver_finds_the_optimum(solver, kappa, missing):
    posed = problem(1, kappa=kappa, missing=missing)
    found = solve(posed, solver, tol=1e-5, max_iter=-1)
    reference = solve(posed, "reference", tol=1e-9, max_iter=-1)
    assert found.converged
    assert found.certificate.dual == pytest.approx(reference.certificate.dual, rel=1e-4)
    assert found.gap < 1e-3
    assert posed.infeasibility(found.point) < 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_smo_ends_only_where_the_conditions_are_met(seed):
    """Pairs alone stall: without cycles this fails."""
    posed = problem(seed, missing=0.4 if seed % 2 else 0.0, kappa=[1.0, 3.0, np.inf][seed % 3])
    assert solve_smo(posed, tol=1e-4).violation < 1e-4


@pytest.mark.parametrize("missing", [0.0, 0.4, 1.0])
def test_the_system_of_a_step_solves_the_equations_over_all_variables(missing):
    posed = problem(2, 20, missing=missing)
    if missing == 1.0:
        posed = svr_plus_dual(posed.spaces[0], None, np.ones(20), np.ones(20), 0.1, 3.0, np.zeros(20, dtype=bool))
    rng = np.random.default_rng(0)
    D, r = 10.0 ** rng.uniform(-4, 4, posed.n_variables), rng.normal(size=posed.n_variables)
    e = rng.normal(size=len(posed.spaces))
    system = KernelSystem(posed)
    system.factorize(D)
    dx, _, biases = system.solve(r, {}, e)
    H, (E, biased) = np.diag(D), (posed.coef[posed.biased], posed.biased)
    everything = np.arange(posed.n_examples)
    for space, c in zip(posed.spaces, posed.coef):
        K = space.block(everything, everything)
        H += np.outer(c, c) * K[np.ix_(posed.example, posed.example)]
    assert_allclose(H @ dx + E.T @ biases[biased], r, atol=1e-9 * np.abs(H * dx).max())
    assert_allclose(E @ dx, e[biased], atol=1e-9 * np.abs(dx).max())


def test_the_interior_point_on_many_variables():
    posed = problem(0, 150, C=100.0, lam=0.1)
    assert isinstance(newton_system(posed), KernelSystem)
    found = solve(posed, "interior_point", tol=1e-7, max_iter=-1)
    assert found.converged
    assert found.gap < 1e-7


def test_kernels_that_do_not_fit_are_computed_on_demand():
    whole = SVRPlus(tol=1e-5).fit(X, T, privileged=Z)
    parts = SVRPlus(tol=1e-5, cache_size=1e-3).fit(X, T, privileged=Z)
    assert parts.objective_ == pytest.approx(whole.objective_, rel=1e-4)
    assert_allclose(parts.predict(X), whole.predict(X), atol=1e-3)


def test_a_path_is_the_same_as_single_fits():
    holes = np.where(np.arange(len(T))[:, None] % 6 == 0, np.nan, Z)
    candidates = [
        {"C": C, "lam": lam, "epsilon": e} for C in (0.1, 1.0, 10.0) for lam in (0.1, 1.0) for e in (0.0, 0.2)
    ]
    models = fit_path(SVRPlus(tol=1e-6), candidates, X, T, privileged=holes)
    for params, model in zip(candidates, models):
        alone = SVRPlus(tol=1e-6, **params).fit(X, T, privileged=holes)
        assert model.objective_ == pytest.approx(alone.objective_, rel=1e-5)
        assert_allclose(model.predict(X), alone.predict(X), atol=2e-3)


# ---------------------------------------------------------------- manners


@pytest.mark.parametrize("options", [{}, {"kernel": "linear", "privileged_kernel": "linear"}])
def test_scikit_learn_checks(options):
    results = check_estimator(SVRPlus(**options), on_fail=None, on_skip=None)
    assert len(results) > 40
    assert {result["check_name"]: str(result["exception"]) for result in results if result["status"] == "failed"} == {}


@pytest.mark.parametrize(
    ("name", "value"), [("C", 0), ("lam", -1), ("epsilon", -0.1), ("kappa", 0), ("kernel", "gauss"), ("solver", "no")]
)
def test_invalid_parameters_are_named(name, value):
    with pytest.raises(ValueError, match=f"The '{name}' parameter of SVRPlus must be"):
        SVRPlus(**{name: value}).fit(X, T, privileged=Z)


def test_searches_choose_by_r2():
    search = GridSearchCV(SVRPlus(), {"C": [0.1, 10.0], "lam": [0.1, 10.0]}, cv=3).fit(X, T, privileged=Z)
    assert search.best_score_ == pytest.approx(max(search.cv_results_["mean_test_score"]))
    assert search.best_estimator_.score(X, T) > 0.3


@pytest.mark.parametrize("tol", [0.2, 1e-2])
def test_the_reported_violation_is_that_of_the_optimality_conditions(tol):
    C, epsilon = 2.0, 0.1
    model = SVRPlus(C, epsilon=epsilon, solver="smo", tol=tol).fit(X, T)
    beta = np.zeros(len(T))
    beta[model.support_] = model.dual_coef_[0]
    residual = T - model.predict(X)
    a, slope = np.maximum([beta, -beta], 0), np.array([residual, -residual]) - epsilon
    room = np.where(slope > 0, C - a, a) / a.max()
    violation = 2 * np.minimum(np.abs(slope), room).max()
    assert 1e-4 * tol < violation < tol
    assert model.kkt_violation_ == pytest.approx(violation, rel=1e-6)


def test_dask_collections_are_refused_with_a_way_out():
    array = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match=r"SVRPlus on 5400 rows in chunks needs its rows in memory: pass X\.compute"):
        SVRPlus().fit(array.zeros((5400, 2), chunks=(900, 2)), np.zeros(5400))


def test_a_file_predicts_the_same(tmp_path):
    model = SVRPlus().fit(X, T, privileged=Z)
    lupi.save(model, tmp_path / "m")
    assert_allclose(lupi.load(tmp_path / "m").predict(X), model.predict(X))


def test_a_tube_that_holds_every_target_has_no_support_vectors():
    model = SVRPlus(epsilon=10.0).fit(X, T, privileged=Z)
    assert model.support_.size == 0
    assert np.ptp(model.predict(X)) == 0.0
