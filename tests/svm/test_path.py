"""Grid searches: one set of kernel matrices and warm starts must give the fits of one candidate after the other."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.metrics.pairwise import rbf_kernel

from lupi import SVM2K, SVM2Plus, SVMPlus
from lupi.datasets import make_privileged
from lupi.kernels import Space
from lupi.ranking.ranking_metrics import precision_of_ranking
from lupi.svm import paths
from lupi.svm.auto import SOLVERS, solve_near
from lupi.svm.duals import svm_plus_dual
from lupi.svm.paths import fit_path

JOINT = [{"C": C, "lam": lam} for C in (0.1, 1.0, 10.0, 100.0) for lam in (0.01, 0.1, 1.0, 10.0)]
ESTIMATORS = [
    (SVMPlus(tol=1e-6), JOINT),
    (SVMPlus(tol=1e-6, kappa=np.inf, kernel="linear"), JOINT),
    (SVMPlus(tol=1e-6, correction="labeled", privileged_kernel="linear"), JOINT),
    (SVM2Plus(tol=1e-6), JOINT),
    (SVM2Plus(tol=1e-6, privileged_kernel="linear", kappa=np.inf), JOINT),
    (SVMPlus(tol=1e-6), [{"C": C, "kappa": kappa} for C in (1.0, 10.0) for kappa in (3.0, 5.0, np.inf)]),
    (SVM2K(tol=1e-6), [{"C": C, "D": D} for C in (0.1, 1.0) for D in (0.1, 1.0)]),
]


@pytest.fixture(scope="module")
def data():
    X, y, Z = make_privileged(90, random_state=3, return_X_y_privileged=True)
    Z = Z.copy()
    Z[::7] = np.nan  # some examples have no privileged row
    return X, y, Z


@pytest.mark.parametrize(("estimator", "candidates"), ESTIMATORS)
def test_same_fits_as_one_by_one(data, estimator, candidates):
    X, y, Z = data
    together = fit_path(estimator, candidates, X, y, privileged=Z)
    for params, model in zip(candidates, together):
        alone = type(estimator)(**estimator.get_params() | params).fit(X, y, privileged=Z)
        assert {name: getattr(model, name) for name in params} == params
        assert model.objective_ == pytest.approx(alone.objective_, rel=1e-5)
        np.testing.assert_allclose(model.decision_function(X), alone.decision_function(X), atol=2e-3)
        assert set(vars(model)) == set(vars(alone))
        known = ~np.isnan(Z).any(axis=1)
        np.testing.assert_allclose(model.correcting_function(Z[known]), alone.correcting_function(Z[known]), atol=2e-3)


def test_several_classes_and_no_privileged_features(data):
    X, y, Z = data
    three = np.where(X[:, 0] > 0.5, 2, y)
    for extra in ({"privileged": Z}, {}):
        together = fit_path(SVMPlus(tol=1e-6), JOINT[::4], X, three, **extra)
        for params, model in zip(JOINT[::4], together):
            alone = SVMPlus(tol=1e-6, **params).fit(X, three, **extra)
            np.testing.assert_allclose(model.decision_function(X), alone.decision_function(X), atol=2e-3)


def test_starts_from_a_neighbor(data, monkeypatch):
    X, y, Z = data
    used = []

    def counting(problem, *near, tol):
        used.append(solve_near(problem, *near, tol=tol))
        return used[-1]

    monkeypatch.setattr("lupi.svm.kernel_machine.solve_near", counting)
    fit_path(SVM2Plus(), JOINT, X, y, privileged=Z)
    assert len(used) == len(JOINT) - 1
    assert sum(solution is not None for solution in used) > len(JOINT) // 2


def test_the_nearest_candidate_is_the_neighbor():
    assert paths._distance({"C": 1.0, "lam": 10.0}, {"C": 1.0, "lam": 10.0}) == 0
    assert paths._distance({"C": 1.0, "kappa": np.inf}, {"C": 10.0, "kappa": np.inf}) == pytest.approx(np.log(10))
    assert (
        paths._distance({"kappa": 3.0}, {"kappa": np.inf})
        == paths._distance({"kappa": np.inf}, {"kappa": 3.0})
        == np.inf
    )
    assert np.isfinite(paths._distance({"epsilon": 0.0}, {"epsilon": 0.1}))


def test_a_candidate_without_solution_does_not_stop_the_others():
    rng = np.random.default_rng(0)
    X, Z, y = rng.standard_normal((40, 2)), rng.standard_normal((40, 1)), np.arange(40) % 2
    estimator = SVMPlus(correction="labeled", kappa=np.inf, kernel="linear", privileged_kernel="linear")
    candidates = [{"C": 1.0, "kappa": np.inf}, {"C": 1.0, "kappa": 3.0}]
    first, second = fit_path(estimator, candidates, X, y, privileged=Z)
    assert isinstance(first, ValueError)
    assert second.dual_gap_ < 1e-2


def test_other_estimators_are_fitted_one_by_one(data):
    X, y, _ = data
    models = fit_path(LogisticRegression(), [{"C": 0.1}, {"C": 1.0}], X, y)
    np.testing.assert_array_equal(models[1].coef_, LogisticRegression(C=1.0).fit(X, y).coef_)


def test_kernel_parameters_are_not_shared(data):
    X, y, Z = data
    models = fit_path(SVMPlus(), [{"gamma": 0.1}, {"gamma": 1.0}], X, y, privileged=Z)
    alone = SVMPlus(gamma=1.0).fit(X, y, privileged=Z)
    np.testing.assert_array_equal(models[1].decision_function(X), alone.decision_function(X))


def test_a_neighbor_is_never_taken_on_trust():
    """From a useless neighbor: either nothing, or a point that its own certificate proves."""
    X, y, Z = make_privileged(60, random_state=5, return_X_y_privileged=True)
    n, y = len(y), np.where(y == y[0], 1.0, -1.0)

    def problem(C, lam):
        spaces = Space(matrix=rbf_kernel(X)), Space(matrix=rbf_kernel(Z), weight=1 / lam)
        return svm_plus_dual(*spaces, y, np.full(n, C), 3.0, False, np.ones(n, dtype=bool))

    near, far = problem(1e-3, 1e3), problem(10.0, 1.0)
    found = solve_near(far, near, SOLVERS["kernel"]["auto"](near, tol=1e-6), tol=1e-6)
    reference = SOLVERS["kernel"]["reference"](far)
    if found is not None:
        assert found.certificate.primal == pytest.approx(reference.certificate.primal, rel=1e-5)
    close = problem(11.0, 1.0)
    found = solve_near(close, far, SOLVERS["kernel"]["auto"](far, tol=1e-6), tol=1e-6)
    assert found is not None
    assert found.gap < 1e-5
    assert found.certificate.primal == pytest.approx(SOLVERS["kernel"]["reference"](close).certificate.primal, rel=1e-5)


def test_large_prices_leave_no_large_gap():
    """Of separable classes: the conditions are met early on, but what is left of the violation costs C each."""
    rng = np.random.default_rng(0)
    y = np.arange(160) % 2
    X, Z = 0.01 * (rng.standard_normal((160, 200)) + 0.1 * y[:, None]), rng.standard_normal((160, 20))
    model = SVMPlus(1e5, 1.0, kappa=np.inf, kernel="linear", privileged_kernel="linear").fit(X, y, privileged=Z)
    assert model.dual_gap_ < 1e-6


@pytest.mark.parametrize("seed", range(20))
def test_average_precision_is_scikit_learns(seed):
    rng = np.random.default_rng(seed)
    relevant = rng.random(30) < 0.4
    relevant[0] = True
    scores = rng.integers(0, 8, 30) / 4 if seed % 2 else rng.standard_normal(30)
    assert precision_of_ranking(relevant, scores) == pytest.approx(average_precision_score(relevant, scores))
