"""Classifiers among scikit-learn's tools: checks, parameters, messages, searches, pipelines, copies."""

import pickle
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator, parametrize_with_checks

from lupi import SVM2K, SVM2Plus, SVMPlus, keep_privileged
from lupi.datasets import make_privileged
from lupi.svm.auto import SOLVERS

made = make_privileged(80, 4, 3, random_state=1, missing=0.2)
X, Y, Z = made.data, made.target, made.privileged
CLASSES = [SVMPlus, SVM2Plus, SVM2K]
every_class = pytest.mark.parametrize("make", CLASSES)


# ---------------------------------------------------------------- scikit-learn's own checks


@parametrize_with_checks([SVMPlus(kernel="linear", correction="labeled"), SVM2Plus(correction="labeled")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@every_class
def test_check_estimator_has_no_exceptions(make):
    results = check_estimator(make(), on_fail=None, on_skip=None)
    assert len(results) > 40
    assert {result["check_name"]: str(result["exception"]) for result in results if result["status"] == "failed"} == {}
    assert not any(result["expected_to_fail"] for result in results)


# ---------------------------------------------------------------- parameters


INVALID = {
    "C": [0, -1.0, np.inf, np.nan, "1"],
    "lam": [0.0, -1, None],
    "kappa": [0, -2.0, np.nan],
    "correction": ["none", None, 1],
    "C_privileged": [0, -1],
    "D": [-0.1, np.inf],
    "epsilon": [-0.1],
    "kernel": ["gauss", None, 3],
    "privileged_kernel": ["gauss", None],
    "gamma": [0, -1.0, "auto-scale"],
    "privileged_gamma": [0.0, "big"],
    "degree": [-1, "2"],
    "coef0": [np.inf, "0"],
    "class_weight": ["equal", 3],
    "solver": ["libsvm", None],
    "tol": [0, -1e-3],
    "max_iter": [-2, 1.5],
    "cache_size": [0, -200],
    "random_state": ["seed"],
}


@pytest.mark.parametrize(
    ("make", "name"), [(make, name) for make in CLASSES for name in INVALID if name in make().get_params()]
)
def test_invalid_parameters_are_named(make, name):
    for value in INVALID[name]:
        with pytest.raises(ValueError, match=f"The '{name}' parameter of {make.__name__} must be"):
            make(**{name: value}).fit(X, Y, privileged=Z)


@every_class
def test_parameters_are_stored_as_given_and_copied(make):
    changed = {"C": 2.5, "gamma": 0.3, "kernel": "poly", "degree": 2, "tol": 1e-5, "cache_size": 100}
    model = make(**changed).fit(X, Y, privileged=Z)
    assert changed.items() <= model.get_params().items()
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "classes_")
    assert all(name.endswith("_") or name.startswith("_") for name in set(vars(model)) - set(model.get_params()))
    np.testing.assert_array_equal(copy.fit(X, Y, privileged=Z).decision_function(X), model.decision_function(X))


@every_class
def test_pickled_models_are_the_same(make):
    model = make().fit(X, Y, privileged=Z)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))
    with pytest.raises(ValueError, match="hold no privileged rows"):
        copy.correcting_function(Z)
    with keep_privileged():
        whole = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(whole.correcting_function(Z), model.correcting_function(Z))


@every_class
def test_fits_repeat_and_leave_the_data_alone(make):
    before = X.copy(), Y.copy(), Z.copy()
    first, second = (make().fit(X, Y, privileged=Z) for _ in range(2))
    np.testing.assert_array_equal(first.dual_coef_, second.dual_coef_)
    for array, copy in zip((X, Y, Z), before):
        np.testing.assert_array_equal(array, copy)
    predicted = first.predict(X)
    Z_copy = Z.copy()
    np.testing.assert_array_equal(make().fit(X, Y, privileged=Z_copy).predict(X), predicted)


@pytest.mark.parametrize("solver", SOLVERS["kernel"])
@every_class
def test_every_solver_by_name(make, solver):
    model = make(solver=solver, tol=1e-7)
    model.fit(X, Y, privileged=Z)
    expected = make(tol=1e-8).fit(X, Y, privileged=Z)
    assert model.objective_ == pytest.approx(expected.objective_, rel=1e-6)
    np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X), atol=1e-3)


# ---------------------------------------------------------------- indefinite kernels and other bad input

NEGATIVE = {
    "sigmoid": {"kernel": "sigmoid", "gamma": 5.0, "coef0": -3.0},
    "callable": {"kernel": lambda A, B: -(A @ B.T)},
    "privileged sigmoid": {"privileged_kernel": "sigmoid", "privileged_gamma": 5.0, "privileged_coef0": -3.0},
    "privileged callable": {"privileged_kernel": lambda A, B: -(A @ B.T)},
}


@pytest.mark.parametrize("cache_size", [200, 1e-3], ids=["matrix", "rows on demand"])
@pytest.mark.parametrize("case", NEGATIVE)
@every_class
def test_indefinite_kernels_are_explained(make, case, cache_size):
    argument = "privileged" if case.startswith("privileged") else "X"
    with pytest.raises(ValueError, match=f"kernel matrix of `{argument}` is indefinite .*not convex"):
        make(cache_size=cache_size, **NEGATIVE[case]).fit(X, Y, privileged=Z)


@every_class
def test_bad_precomputed_matrices_are_explained(make):
    with pytest.raises(ValueError, match="precomputed kernel matrix of `X` is indefinite"):
        make(kernel="precomputed").fit(-np.eye(80), Y)
    with pytest.raises(ValueError, match="precomputed kernel matrix of `privileged` is indefinite"):
        make(privileged_kernel="precomputed").fit(X, Y, privileged=-np.eye(80))
    with pytest.raises(ValueError, match="not symmetric"):
        make(kernel="precomputed").fit(np.triu(np.ones((80, 80))), Y)
    with pytest.raises(ValueError, match="kernel='precomputed' needs a dense matrix, but `X` is sparse"):
        make(kernel="precomputed").fit(sparse.eye_array(80, format="csr"), Y)
    with pytest.raises(ValueError, match=r"needs a square matrix of shape .* got \(80, 4\)"):
        make(kernel="precomputed").fit(X, Y)
    with pytest.raises(ValueError, match="must be square"):
        make(privileged_kernel="precomputed").fit(X, Y, privileged=np.zeros((80, 3)))


@every_class
def test_a_sigmoid_kernel_that_is_definite_enough_is_accepted(make):
    wide = np.hstack([np.full((80, 1), 0.1), 1e-3 * X])
    model = make(kernel="sigmoid", gamma=1e-3, coef0=0.0)
    assert model.fit(wide, Y, privileged=Z).dual_gap_ < 1e-2


@every_class
def test_messages_for_input(make):
    with pytest.raises(ValueError, match=r"`privileged` has 79 rows, but `X` has 80 examples"):
        make().fit(X, Y, privileged=Z[1:])
    partly = np.where(np.isnan(Z), 0.0, Z)
    partly[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN in part: row 3"):
        make().fit(X, Y, privileged=partly)
    with pytest.raises(ValueError, match="at least two classes"):
        make().fit(X, np.ones(80))
    with pytest.raises(ValueError, match="chi2 kernel compares histograms, but `privileged`"):
        make(privileged_kernel="chi2").fit(X, Y, privileged=-np.abs(np.nan_to_num(Z)))
    with pytest.raises(NotFittedError):
        make().correcting_function(Z)
    with pytest.raises(ValueError, match="features"):
        make().fit(X, Y).predict(X[:, :2])


# ---------------------------------------------------------------- searches, cross-validation, pipelines


def folds_by_hand(make, cv):
    scores = []
    for train, test in cv.split(X, Y):
        model = make().fit(X[train], Y[train], privileged=Z[train])
        scores.append(model.score(X[test], Y[test]))
    return scores


@pytest.mark.parametrize("routing", [False, True])
@every_class
def test_cross_validation_gives_each_fold_its_privileged_rows(make, routing):
    cv = StratifiedKFold(3)
    with config_context(enable_metadata_routing=routing):
        scores = cross_val_score(make(), X, Y, cv=cv, params={"privileged": Z})
        predicted = cross_val_predict(make(), X, Y, cv=cv, params={"privileged": Z}, method="decision_function")
    np.testing.assert_allclose(scores, folds_by_hand(make, cv))
    train, test = next(cv.split(X, Y))
    model = make().fit(X[train], Y[train], privileged=Z[train])
    np.testing.assert_allclose(predicted[test], model.decision_function(X[test]))


@pytest.mark.parametrize("routing", [False, True])
@every_class
def test_grid_search(make, routing):
    with config_context(enable_metadata_routing=routing):
        search = GridSearchCV(make(), {"C": [0.1, 10.0]}, cv=StratifiedKFold(3)).fit(X, Y, privileged=Z)
    for C, score in zip((0.1, 10.0), search.cv_results_["mean_test_score"]):
        assert score == pytest.approx(np.mean(folds_by_hand(partial(make, C=C), StratifiedKFold(3))))
    best = make(**search.best_params_).fit(X, Y, privileged=Z)
    np.testing.assert_array_equal(search.best_estimator_.decision_function(X), best.decision_function(X))


@pytest.mark.parametrize("routing", [False, True])
@every_class
def test_pipelines_with_and_without_routing(make, routing):
    expected = make().fit(StandardScaler().fit_transform(X), Y, privileged=Z)
    with config_context(enable_metadata_routing=routing):
        pipeline = make_pipeline(StandardScaler(), make())
        name = "privileged" if routing else f"{make.__name__.lower()}__privileged"
        pipeline.fit(X, Y, **{name: Z})
        searched = GridSearchCV(pipeline, {f"{make.__name__.lower()}__C": [1.0]}, cv=3).fit(X, Y, **{name: Z})
    np.testing.assert_allclose(
        pipeline.decision_function(X), expected.decision_function(StandardScaler().fit_transform(X))
    )
    np.testing.assert_allclose(searched.decision_function(X), pipeline.decision_function(X))


def test_one_vs_rest_of_scikit_learn_routes_privileged_features():
    three = np.digitize(X[:, 0], np.quantile(X[:, 0], [0.3, 0.6]))
    with config_context(enable_metadata_routing=True):
        wrapped = OneVsRestClassifier(SVM2Plus(tol=1e-8)).fit(X, three, privileged=Z)
    own = SVM2Plus(tol=1e-8).fit(X, three, privileged=Z)
    np.testing.assert_allclose(wrapped.decision_function(X), own.decision_function(X), atol=1e-6)


def test_requests_may_be_changed():
    weight = np.ones(80)
    with config_context(enable_metadata_routing=True):
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            cross_val_score(SVMPlus(), X, Y, cv=3, params={"privileged": Z, "sample_weight": weight})
        model = SVMPlus().set_fit_request(privileged=True, sample_weight=True).set_score_request(sample_weight=True)
        assert len(cross_val_score(model, X, Y, cv=3, params={"privileged": Z, "sample_weight": weight})) == 3


@every_class
def test_tags_follow_the_kernel(make):
    assert make().__sklearn_tags__().input_tags.sparse
    assert make(kernel="precomputed").__sklearn_tags__().input_tags.pairwise
    names = [check.func.__name__ for _, check in estimator_checks_generator(make())]
    assert "check_sample_weight_equivalence_on_dense_data" in names
