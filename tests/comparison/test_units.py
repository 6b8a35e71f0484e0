"""lupi.comparison: splits, methods, metrics, units of work."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, ParameterGrid, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import lupi
from lupi import SVMPlus
from lupi.comparison import METHODS, units
from lupi.comparison.methods import BASELINES, RECIPES, candidates, choose_methods
from lupi.comparison.problem import Problem
from lupi.comparison.units import (
    Plan,
    Result,
    Unit,
    derived_seed,
    inner_folds,
    measure,
    permuted_rows,
    plan_units,
    run_unit,
    shuffled_rows,
    split_rows,
    unlabeled_rows,
)
from lupi.datasets import make_privileged
from lupi.ranking.ranking_metrics import area_of_ranking, precision_of_ranking
from lupi.run import measured
from lupi.tabular import model


@pytest.fixture(scope="module")
def arrays():
    return make_privileged(90, 4, 2, random_state=1, return_X_y_privileged=True)


def labels(y, groups=None):
    """Problem of which only target and groups matter."""
    return Problem.of(np.zeros((len(y), 1)), y, np.zeros((len(y), 1)), groups)


def setup(plan, X, y, Z, *names, **more):
    return Problem.of(X, y, Z, **more), replace(plan, methods={name: METHODS[name] for name in names or METHODS})


def run(given, *unit, **fields):
    return Result(**run_unit(Unit(*unit, **fields), *given))


# ---------------------------------------------------------------- protocol


def test_splits_are_nested_stratified_and_share_their_test_rows():
    y = np.repeat([0, 1], [30, 90])
    data = labels(y)
    protocol = Plan(train_sizes=(20, 40))
    trains, test = split_rows(protocol, 3, data)
    assert {size: len(rows) for size, rows in trains.items()} == {20: 20, 40: 40}
    assert set(trains[20]) < set(trains[40])
    assert not set(trains[40]) & set(test)
    assert y[trains[40]].sum() == 30
    assert not np.array_equal(split_rows(protocol, 4, data)[1], test)
    assert len(split_rows(Plan(train_sizes=(20,), max_test=10), 0, data)[1]) == 10


def test_groups_stay_together():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 20, 100)
    y = rng.integers(0, 2, 100)
    trains, test = split_rows(Plan(train_sizes=(50,)), 0, labels(y, groups))
    assert not set(groups[trains[50]]) & set(groups[test])
    train = trains[50]
    for inner, outer in inner_folds(Plan(), 0, labels(y[train], groups[train])):
        assert not set(groups[train][inner]) & set(groups[train][outer])


def test_groups_that_cannot_be_split_are_named():
    with pytest.raises(ValueError, match="no split of the 2 groups"):
        split_rows(Plan(train_sizes=(5,)), 0, labels(np.repeat([0, 1], 10), np.repeat([0, 1], 10)))


def test_every_example_gets_another_ones_row():
    for seed in range(20):
        order = shuffled_rows(7, seed)
        assert sorted(order) == list(range(7))
        assert (order != np.arange(7)).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernel": "poly"}, "`kernel` must be one of .*, got 'poly'"),
        ({"n_splits": 1}, "at least 2"),
        ({"inner_folds": 1}, "`inner_folds` must be at least 2, got 1"),
    ],
)
def test_invalid_settings_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        Plan(**change)


def test_identity_depends_on_what_changes_a_result():
    base = Plan().identity("data")
    assert Plan(n_splits=50).identity("data") == base
    for other in (Plan(seed=1), Plan(metric="auc"), Plan(kernel="linear"), Plan(train_sizes=(50,))):
        assert other.identity("data") != base
    assert Plan().identity("other") != base


def test_seeds_depend_on_every_part():
    seeds = {derived_seed(*parts) for parts in [(0, 0, "svm"), (1, 0, "svm"), (0, 1, "svm"), (0, 0, "svm+")]}
    assert len(seeds) == 4


# ---------------------------------------------------------------- methods and metrics


def n_candidates(method, **options):
    return len(ParameterGrid(candidates(method, **options)))


def test_a_method_and_its_counterpart_have_the_same_number_of_candidates():
    for method in METHODS.values():
        if method.privileged:
            plain = METHODS[method.counterpart]
            assert plain.role == "baseline"
            assert n_candidates(method) == n_candidates(plain)
            assert n_candidates(method, kernel="rbf") == n_candidates(plain, kernel="rbf")
            if method.kernels:
                price = method.kernels[-1]
                assert (min(method.grid[price]), max(method.grid[price])) == pytest.approx(
                    (min(plain.grid["C"]), max(plain.grid["C"]))
                )


def test_a_recipe_has_the_grid_of_its_counterpart():
    for metric, n_classes in (("auc", 2), ("r2", 0)):
        chosen = choose_methods(RECIPES, [], metric, n_classes)
        assert list(chosen) == ["linear", "forest", *RECIPES]
        for name in RECIPES:
            plain = chosen[chosen[name].counterpart]
            assert type(chosen[name].estimator.estimator) is type(plain.estimator)
            assert chosen[name].grid == {f"estimator__{key}": values for key, values in plain.grid.items()}


def test_both_kernels_are_candidates_and_linear_ones_get_smaller_constants():
    rbf, linear = candidates(METHODS["svm+"])
    assert rbf["kernel"] == rbf["privileged_kernel"] == ("rbf",)
    assert linear["kernel"] == linear["privileged_kernel"] == ("linear",)
    assert candidates(METHODS["svm+"], kernel="linear") == [linear]
    assert linear["C"] == pytest.approx([0.01 * c for c in rbf["C"]])
    assert linear["lam"] == rbf["lam"]
    (ranker,) = candidates(METHODS["ranktransfer"], kernel="linear")
    assert ranker["C"] == pytest.approx([1e-6, 1e-5, 1e-4, 1e-3])
    assert ranker["C_privileged"] == METHODS["ranktransfer"].grid["C_privileged"]
    (own,) = candidates(METHODS["svm+"], {"svm+": {"C": (7.0,)}}, "linear")
    assert own["C"] == (7.0,)


def test_choice_of_methods():
    chosen = choose_methods(None, None, "auc", 2)
    assert [name for name in chosen if name in BASELINES] == list(BASELINES)
    assert next(name for name in chosen if chosen[name].privileged) == "surrogate"
    assert {"reference", "joint"} <= set(chosen)
    assert not {"svm2k", "rankreference"} & set(chosen)
    assert "svm2k" in choose_methods(["svm2k"], None, "auc", 2)
    assert list(choose_methods(["ranktransfer"], [], "ap", 2)) == ["ranksvm", "ranktransfer"]
    assert choose_methods(None, None, "r2", 0)["linear"].title == "ridge regression"
    with pytest.raises(ValueError, match="'ranktransfer' cannot be measured by 'ap' with 3 classes"):
        choose_methods(["ranktransfer"], None, "ap", 3)
    with pytest.raises(ValueError, match="no method is called 'svm3'"):
        choose_methods(["svm3"], None, "ap", 2)
    with pytest.raises(ValueError, match="'ranksvm' cannot be measured by 'accuracy'"):
        choose_methods(["ranksvm"], None, "accuracy", 2)


def test_any_estimator_is_a_method_or_a_baseline():
    chosen = choose_methods(
        [SVMPlus(C=3.0), GaussianNB()], [("tree", DecisionTreeClassifier(), {"max_depth": [2, 4]})], "auc", 2
    )
    assert list(chosen) == ["tree", "SVMPlus-plain", "GaussianNB", "SVMPlus"]
    assert chosen["SVMPlus"].counterpart == "SVMPlus-plain"
    assert chosen["SVMPlus"].role == "privileged"
    assert chosen["GaussianNB"].role == "baseline"
    assert candidates(chosen["tree"]) == [{"max_depth": (2, 4)}]
    assert chosen["SVMPlus"].key != choose_methods([SVMPlus(C=4.0)], [], "auc", 2)["SVMPlus"].key
    (by_path,) = choose_methods([], ["sklearn.naive_bayes:GaussianNB"], "auc", 2).values()
    assert by_path.build(0).__class__ is GaussianNB
    assert choose_methods([lupi.SurrogateClassifier()], [], "auc", 2)["SurrogateClassifier"].unlabeled


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ([SVMPlus], "is not an estimator"),
        ([3], "3 is not an estimator"),
        ([LinearRegression()], "LinearRegression is not a classifier"),
        ([SVMPlus(), SVMPlus(C=2.0)], "two methods are called 'SVMPlus"),
        (["no.such.module:Class"], "an installed class, package.module:Class"),
        (["sklearn.svm:Nothing"], "has no attribute 'Nothing'; expected"),
        (["sklearn.pipeline:Pipeline"], "missing 1 required positional argument"),
    ],
)
def test_what_is_no_method_is_named(wanted, message):
    with pytest.raises(ValueError, match=message):
        choose_methods(wanted, [], "auc", 2)


def test_estimators_that_allow_gaps_see_them(arrays):
    X, y, Z = arrays
    X = X.copy()
    X[::5, 0] = np.nan
    seen = {}

    class Sees(DecisionTreeClassifier):
        def fit(self, X, y):
            seen["gaps"] = np.isnan(X).any()
            return super().fit(X, y)

    protocol = Plan(train_sizes=(30,))
    methods = choose_methods([], [("tree", Sees(), {}), ("bayes", GaussianNB(), {})], "auc", 2)
    gaps = Problem.of(X, y, Z), replace(protocol, methods=methods)
    assert run(gaps, 30, 0, "tree").error is None
    assert seen["gaps"]
    assert run(gaps, 30, 0, "bayes").error is None  # filled: it would refuse them


def test_estimators_that_know_words_see_them(tmp_path):
    """Columns by name to a pipeline that asks for them, categories to boosting; one column for each word to the others."""
    rng = np.random.default_rng(0)
    towns = rng.choice(["x", "y", "z"], 60).astype(object)
    towns[3] = None
    frame = pd.DataFrame({"age": rng.standard_normal(60), "town": towns})
    frame.loc[5, "age"] = np.nan
    y = (towns == "x").astype(int)
    seen = {}

    class Sees(HistGradientBoostingClassifier):
        def fit(self, X, y):
            seen["X"] = X
            return super().fit(X, y)

    chosen = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["town"]))
    by_name = make_pipeline(chosen, LogisticRegression())
    search = GridSearchCV(by_name, {"logisticregression__C": [0.1, 1.0]}, cv=2)
    trees = Sees(max_iter=20, min_samples_leaf=2)
    own = [("trees", trees, {}), ("by name", by_name, {}), ("search", search, {})]
    methods = choose_methods([], [*own, "boosting", "forest"], "auc", 2)
    given = Problem.of(frame, y, np.zeros((60, 1))), Plan(train_sizes=(40,), methods=methods)
    for name in methods:
        result = run(given, 40, 0, name)
        assert result.error is None
        assert result.score > 0.9
    assert list(seen["X"].columns) == ["age", "town"]
    assert list(seen["X"]["town"].cat.categories) == ["x", "y", "z"]
    fitted = model.TabularModel(Sees(max_iter=20, min_samples_leaf=2)).fit(frame[:50], y[:50])
    assert seen["X"].loc[3].isna().tolist() == [False, True]
    assert seen["X"].loc[5].isna().tolist() == [True, False]
    new = pd.DataFrame({"town": ["x", "elsewhere", "y"], "age": [0.0, 0.0, np.nan], "more": 1})
    with pytest.warns(UserWarning, match="'town' should hold words that the model knows, but 1 of 3 cells do not"):
        assert fitted.predict(new).tolist() == [1, 0, 0]  # a word that was never seen is a gap
    # The built-in ones can be saved, and say the same afterwards.
    for name in ("boosting", "forest"):
        fitted = model.TabularModel(methods[name].build(0)).fit(frame, y)
        lupi.save(fitted, tmp_path / "m.lupi")
        assert_array_equal(lupi.load(tmp_path / "m.lupi").predict_proba(frame), fitted.predict_proba(frame))


class Fixed:
    def __init__(self, scores, n_classes=2):
        self.scores, self.classes_ = scores, np.arange(n_classes)

    def decision_function(self, X):
        return self.scores


def test_metrics_of_scores():
    rng = np.random.default_rng(0)
    y, one = rng.integers(0, 2, 50), rng.standard_normal(50)
    assert measure("ap", Fixed(one), None, y) == average_precision_score(y, one)
    three, many = rng.integers(0, 3, 50), rng.standard_normal((50, 3))
    expected = np.mean([roc_auc_score(three == k, many[:, k]) for k in range(3)])
    assert_allclose(measure("auc", Fixed(many, 3), None, three), expected)


# ---------------------------------------------------------------- units


def test_unit_equals_scikit_learns_grid_search(arrays):
    """An independent way to the same number: pipeline, grid search and test score of scikit-learn."""
    X, y, Z = arrays
    protocol = Plan(metric="auc", train_sizes=(40,), kernel="rbf")
    result = run(setup(protocol, X, y, Z, "svm"), 40, 2, "svm")
    trains, test = split_rows(protocol, 2, labels(y))
    train = trains[40]
    folds = StratifiedKFold(5, shuffle=True, random_state=derived_seed(0, 2, "folds"))
    pipe = make_pipeline(StandardScaler(), SVC(tol=1e-6))
    grid = {"svc__C": METHODS["svm"].grid["C"]}
    search = GridSearchCV(pipe, grid, scoring="roc_auc", cv=folds).fit(X[train], y[train])
    assert result.params["C"] == search.best_params_["svc__C"]
    assert result.score == pytest.approx(search.score(X[test], y[test]), abs=2e-3)


def test_shuffled_control_sees_another_examples_row(arrays, monkeypatch):
    X, y, Z = arrays
    protocol = Plan(train_sizes=(30,), kernel="linear", grids={"svm+": {"C": (1.0,)}})
    seen = []
    encode = model.TableEncoder.transform

    def recorded(encoder, table):
        features = encode(encoder, table)
        seen.extend([features] if encoder.keep_empty else [])
        return features

    monkeypatch.setattr(model.TableEncoder, "transform", recorded)
    for shuffled in (False, True):
        run(setup(protocol, X, y, Z), 30, 0, "svm+", shuffled=shuffled)
    real, shuffled = seen
    assert_allclose(np.sort(real, axis=0), np.sort(shuffled, axis=0), atol=1e-12)
    assert not np.isclose(real, shuffled).all(axis=1).any()


def one_by_one(estimator, candidates, X, y, **extra):
    """One ordinary fit for each candidate."""
    return [clone(estimator).set_params(**params).fit(X, y, **extra) for params in candidates]


@pytest.mark.parametrize("metric", ["ap", "auc"])
@pytest.mark.parametrize("standardize", [False, True])
def test_short_cuts_change_nothing(monkeypatch, metric, standardize):
    """Warm-started paths against one ordinary fit for each candidate."""
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    X, Z = rng.standard_normal((80, 100)) + 0.15 * y[:, None], rng.standard_normal((80, 3)) + y[:, None]
    Z[::9] = np.nan
    protocol = Plan(metric=metric, train_sizes=(40,), kernel="linear", standardize=standardize)
    methods = ("ranksvm", "ranktransfer", "svm+", "transfer", "distillation")
    given = setup(protocol, X, y, Z, *methods)
    quick = [run(given, 40, 0, name) for name in methods]
    monkeypatch.setattr(model, "fit_path", one_by_one)
    slow = [run(given, 40, 0, name) for name in methods]
    for a, b in zip(quick, slow):
        assert a.error is b.error is None
        assert a.params == b.params
        assert a.score == pytest.approx(b.score, abs=1e-9)
        assert a.inner_score == pytest.approx(b.inner_score, abs=1e-6)


def test_candidates_without_a_solution_do_not_stop_the_others(arrays):
    X, y, Z = arrays
    grids = {
        "transfer": {"estimator__C": (-1.0, 1.0), "regressor__alpha": (-1.0, 1.0)},
        "ranktransfer": {"C": (-1.0, 1e-2), "C_privileged": (1e-2,)},
        "svm+": {"C": (-1.0, 1.0)},
    }
    for name, grid in grids.items():
        protocol = Plan(train_sizes=(30,), kernel="linear", grids={name: grid})
        result = Result(**measured(run_unit, Unit(30, 0, name), *setup(protocol, X, y, Z)))
        assert result.error is None
        assert all(value > 0 for value in result.params.values() if not isinstance(value, str))


def test_a_fold_of_one_class_chooses_nothing():
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    X = rng.standard_normal((80, 2)) + y[:, None]
    folds = [(np.arange(40), np.arange(40, 60)), (np.arange(20, 80), np.flatnonzero(y[:20] == 0))]
    protocol = Plan(metric="auc", train_sizes=(40,), kernel="linear")
    train = Problem.of(X, y, X)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(units, "inner_folds", lambda *a: folds)
        _, _, both = units.fit_best(METHODS["svm"], protocol, 0, train)
        patch.setattr(units, "inner_folds", lambda *a: folds[:1])
        _, _, first = units.fit_best(METHODS["svm"], protocol, 0, train)
    assert both == first


@pytest.mark.parametrize("ties", [False, True])
def test_quick_ranking_metrics_are_those_of_scikit_learn(ties):
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = rng.integers(4, 60)
        relevant = np.append([False, True], rng.random(n - 2) < 0.4)
        scores = rng.integers(0, 8, n) / 4 if ties else rng.standard_normal(n)
        assert precision_of_ranking(relevant, scores) == average_precision_score(relevant, scores)
        assert area_of_ranking(relevant, scores) == pytest.approx(roc_auc_score(relevant, scores), abs=1e-14)
    assert np.isnan(area_of_ranking(np.ones(3, bool), np.arange(3.0)))
    assert np.isnan(precision_of_ranking(np.zeros(3, bool), np.arange(3.0)))


def test_reference_is_tested_on_privileged_columns(arrays):
    X, y, Z = arrays
    Z = np.column_stack([Z, y + 0.01 * np.arange(len(y)) / len(y)])
    result = run(setup(Plan(train_sizes=(30,), kernel="linear"), X, y, Z), 30, 0, "reference")
    assert result.score == pytest.approx(1.0)


def test_failure_of_one_method_is_recorded(arrays):
    X, y, Z = arrays
    grids = {"svm+": {"C": (-1.0, -2.0)}}
    result = run(setup(Plan(train_sizes=(30,), grids=grids), X, y, Z), 30, 0, "svm+")
    assert result.score is None
    assert "no candidate of the grid" in result.error


def test_joint_reference_sees_both_tables():
    rng = np.random.default_rng(0)
    X, Z = rng.standard_normal((120, 1)), rng.standard_normal((120, 1))
    y = (X[:, 0] + Z[:, 0] > 0).astype(int)
    given = setup(Plan(metric="auc", train_sizes=(60,), kernel="linear"), X, y, Z)
    alone, joint = (run(given, 60, 0, name).score for name in ("reference", "joint"))
    assert joint > 0.98
    assert alone < 0.95


def test_plan_has_both_controls(arrays):
    X, y, Z = arrays
    given = setup(Plan(n_splits=2, train_sizes=(10, 20)), X, y, Z, "svm", "svm+")
    planned = plan_units(*given)
    # Split by split, every method before the controls.
    first = [Unit(size, 0, name) for size in (10, 20) for name in ("svm", "svm+")]
    assert planned[:6] == [*first, Unit(10, 0, "svm+", shuffled=True), Unit(20, 0, "svm+", shuffled=True)]
    assert all(unit.split == 1 for unit in planned[6:])
    assert len({unit.key(given[1]) for unit in planned}) == len(planned) == 2 * 2 * 3


def test_units_that_differ_have_different_keys():
    plan = Plan(methods=METHODS)
    base = Unit(10, 0, "svm+")
    changes = {"size": 20, "split": 1, "method": "svm", "unlabeled": True, "shuffled": True, "without": ("a",)}
    units = [base, *(replace(base, **{name: value}) for name, value in (changes | {"permutations": 9}).items())]
    assert len({unit.key(plan) for unit in units}) == len(units) == 8


# ---------------------------------------------------------------- rows without a label, groups


def visits(seed, n=40, most=6):
    """Patients with one to six visits each, as in an ordinary table."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n), rng.integers(1, most + 1, n))
    y = (rng.random(n) < 0.4)[groups].astype(float)
    X = rng.standard_normal((len(groups), 3)) + y[:, None]
    return X, y, X[:, :2] + rng.standard_normal((len(groups), 2)), groups


@pytest.mark.parametrize("seed", range(8))
def test_uneven_groups_can_be_split(seed):
    X, y, Z, groups = visits(seed)
    size = len(y) // 2
    for train_sizes in ((size,), (size // 2, size), (size - 1, size)):
        protocol = Plan(metric="auc", train_sizes=train_sizes, n_splits=5)
        for split in range(5):
            trains, test = split_rows(protocol, split, Problem.of(X, y, Z, groups))
            for wanted in train_sizes:
                train = trains[wanted]
                assert len(train) == wanted
                assert not set(groups[train]) & set(groups[test])
                assert len(np.unique(y[train])) == 2
            assert len(np.unique(y[test])) == 2
            for inner, outer in inner_folds(protocol, split, labels(y[train], groups[train])):
                assert len(np.unique(y[train][inner])) == len(np.unique(y[train][outer])) == 2


def test_units_run_on_uneven_groups():
    X, y, Z, groups = visits(3)
    protocol = Plan(metric="auc", train_sizes=(len(y) // 2,), kernel="linear")
    given = setup(protocol, X, y, Z, groups=groups)
    for name in ("svm", "linear", "surrogate-ridge"):
        for split in range(3):
            assert run(given, len(y) // 2, split, name).error is None


def test_rows_without_a_label_are_trained_on_and_never_tested(monkeypatch):
    X, y, Z, groups = visits(1)
    y = y.copy()
    y[np.arange(len(y)) % 3 == 0] = np.nan
    data = Problem.of(X, y, Z, groups)
    protocol = Plan(metric="auc", train_sizes=(20,))
    for split in range(5):
        trains, test = split_rows(protocol, split, data)
        assert not np.isnan(y[np.concatenate([trains[20], test])]).any()
        more = unlabeled_rows(protocol, split, data, test)
        assert np.isnan(y[more]).all()
        assert not set(groups[more]) & set(groups[test])
        assert len(more) > 0
    assert len(unlabeled_rows(Plan(max_unlabeled=3), 0, data, test)) == 3
    given = setup(protocol, X, y, Z, groups=groups)
    plain, alone, every = (
        run(given, 20, 0, name, unlabeled)
        for name, unlabeled in (("svm", False), ("surrogate-ridge", False), ("surrogate-ridge", True))
    )
    assert plain.n_unlabeled == alone.n_unlabeled == 0
    assert every.n_unlabeled > 10
    assert every.score != alone.score
    units = plan_units(*setup(protocol, X, y, Z, "svm", "surrogate-ridge", groups=groups))
    assert {(unit.method, unit.unlabeled, unit.shuffled) for unit in units} == {
        ("svm", False, False),
        *(("surrogate-ridge", unlabeled, shuffled) for unlabeled in (False, True) for shuffled in (False, True)),
    }


# ---------------------------------------------------------------- the exact test


def test_permutations_move_whole_groups():
    groups = np.repeat(np.arange(6), [1, 2, 3, 1, 2, 3])
    data = labels(np.arange(12) % 2, groups)
    assert_array_equal(permuted_rows(data, 0, 0), np.arange(12))
    order = permuted_rows(data, 1, 0)
    assert sorted(order) == list(range(12))
    moved = groups[order]
    assert (np.diff(moved) != 0).sum() == 5  # every group's rows are still together
    assert not np.array_equal(order, permuted_rows(data, 2, 0))


def test_permutations_leave_rows_without_privileged_values_alone():
    Z = np.arange(20.0)[:, None].copy()
    Z[[3, 7, 19]] = np.nan
    for groups in (None, np.arange(20) // 3):
        data = Problem.of(np.zeros((20, 1)), np.arange(20) % 2, Z, groups)
        order = permuted_rows(data, 4, 0)
        assert_array_equal(order[[3, 7, 19]], [3, 7, 19])
        assert sorted(order) == list(range(20))
        assert (order != np.arange(20)).sum() > 8


def test_permuted_scores_are_those_of_fits_by_hand(arrays):
    X, y, Z = arrays
    protocol = Plan(metric="auc", train_sizes=(40,))
    given = setup(protocol, X, y, Z)
    scores = run(given, 40, 1, "surrogate-ridge", permutations=3).score
    trains, test = split_rows(protocol, 1, given[0])
    train = trains[40]
    scale = StandardScaler().fit(X[train])
    assert len(scores) == 4
    for number, score in enumerate(scores):
        order = permuted_rows(given[0], number, 0)
        by_hand = lupi.SurrogateClassifier("ridge").fit(scale.transform(X[train]), y[train], privileged=Z[order][train])
        assert score == pytest.approx(
            roc_auc_score(y[test], by_hand.decision_function(scale.transform(X[test]))), abs=1e-9
        )
