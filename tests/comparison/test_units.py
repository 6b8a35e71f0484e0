"""lupi.comparison: splits, methods, metrics, units of work."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from lupi import SVMPlus
from lupi.comparison import METHODS, Protocol, units
from lupi.comparison.methods import candidates, choose_methods
from lupi.comparison.metrics import measure
from lupi.comparison.protocol import derived_seed, inner_folds, others_rows, split_rows
from lupi.comparison.units import Data, Unit, plan, run_unit
from lupi.engine.units import measured
from lupi.datasets import make_privileged
from lupi.estimators.ranking_metrics import area_of_ranking, precision_of_ranking


@pytest.fixture(scope="module")
def arrays():
    return make_privileged(90, 4, 2, random_state=1, return_X_y_privileged=True)


# ---------------------------------------------------------------- protocol


def test_splits_are_nested_stratified_and_share_their_test_rows():
    y = np.repeat([0, 1], [30, 90])
    protocol = Protocol(train_sizes=(20, 40))
    trains, test = split_rows(protocol, 3, y)
    assert {size: len(rows) for size, rows in trains.items()} == {20: 20, 40: 40}
    assert set(trains[20]) < set(trains[40])
    assert not set(trains[40]) & set(test)
    assert y[trains[40]].sum() == 30
    assert not np.array_equal(split_rows(protocol, 4, y)[1], test)
    assert len(split_rows(Protocol(train_sizes=(20,), max_test=10), 0, y)[1]) == 10


def test_groups_stay_together():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 20, 100)
    y = rng.integers(0, 2, 100)
    trains, test = split_rows(Protocol(train_sizes=(50,)), 0, y, groups)
    assert not set(groups[trains[50]]) & set(groups[test])
    train = trains[50]
    for inner, outer in inner_folds(Protocol(), 0, y[train], groups[train]):
        assert not set(groups[train][inner]) & set(groups[train][outer])


def test_groups_that_cannot_be_split_are_named():
    with pytest.raises(ValueError, match="no split of the 2 groups"):
        split_rows(Protocol(train_sizes=(5,)), 0, np.repeat([0, 1], 10), np.repeat([0, 1], 10))


def test_every_example_gets_another_ones_row():
    for seed in range(20):
        order = others_rows(7, seed)
        assert sorted(order) == list(range(7))
        assert (order != np.arange(7)).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metric": "f1"}, "metric is 'f1'"),
        ({"kernel": "poly"}, "kernel is 'poly'"),
        ({"n_splits": 1}, "at least 2"),
        ({"train_sizes": (20, 10)}, "increasing"),
        ({"inner_folds": 1}, "inner_folds is 1"),
    ],
)
def test_protocol_says_what_is_wrong(change, message):
    with pytest.raises(ValueError, match=message):
        Protocol(**change)


def test_fingerprint_knows_what_changes_a_result():
    base = Protocol().fingerprint("data")
    assert Protocol(n_splits=50).fingerprint("data") == base
    for other in (Protocol(seed=1), Protocol(metric="auc"), Protocol(kernel="linear"), Protocol(train_sizes=(50,))):
        assert other.fingerprint("data") != base
    assert Protocol().fingerprint("other") != base


def test_seeds_depend_on_every_part():
    seeds = {derived_seed(*parts) for parts in [(0, 0, "svm"), (1, 0, "svm"), (0, 1, "svm"), (0, 0, "svm+")]}
    assert len(seeds) == 4


# ---------------------------------------------------------------- methods and metrics


def test_grids_have_the_same_number_of_candidates():
    assert {np.prod([len(v) for v in candidates(m).values()]) for m in METHODS.values()} == {12}
    for method in METHODS.values():
        if method.privileged:
            assert not METHODS[method.plain].privileged
            key = "estimator__C" if "estimator__C" in method.grid else "C"
            plain = METHODS[method.plain].grid["C"]
            assert (min(method.grid[key]), max(method.grid[key])) == pytest.approx((min(plain), max(plain)))


def test_linear_kernels_get_smaller_constants():
    rbf, linear = (candidates(METHODS["svm+"], kernel=kernel) for kernel in ("rbf", "linear"))
    assert linear["C"] == pytest.approx([0.01 * c for c in rbf["C"]])
    assert linear["lam"] == rbf["lam"]
    ranker = candidates(METHODS["ranktransfer"], kernel="linear")
    assert ranker["C"] == pytest.approx([1e-6, 1e-5, 1e-4, 1e-3])
    assert ranker["C_privileged"] == METHODS["ranktransfer"].grid["C_privileged"]
    assert candidates(METHODS["svm+"], {"svm+": {"C": (7.0,)}}, "linear") == {"C": (7.0,)}


def test_choice_of_methods():
    assert "ranktransfer" in choose_methods(None, "ap", 2)
    assert "ranktransfer" not in choose_methods(None, "ap", 3)
    assert "ranktransfer" not in choose_methods(None, "accuracy", 2)
    with pytest.raises(ValueError, match="no method is called 'svm3'"):
        choose_methods(["svm3"], "ap", 2)
    with pytest.raises(ValueError, match="'ranksvm' cannot be measured by 'accuracy'"):
        choose_methods(["ranksvm"], "accuracy", 2)


class Fixed:
    def __init__(self, scores):
        self.scores = scores

    def decision_function(self, X):
        return self.scores


def test_metrics_of_scores():
    rng = np.random.default_rng(0)
    y, one = rng.integers(0, 2, 50), rng.standard_normal(50)
    assert measure("ap", Fixed(one), None, y, np.array([0, 1])) == average_precision_score(y, one)
    three, many = rng.integers(0, 3, 50), rng.standard_normal((50, 3))
    expected = np.mean([roc_auc_score(three == k, many[:, k]) for k in range(3)])
    assert_allclose(measure("auc", Fixed(many), None, three, np.arange(3)), expected)


# ---------------------------------------------------------------- units


def test_unit_equals_scikit_learns_grid_search(arrays):
    """An independent way to the same number: pipeline, grid search and test score of scikit-learn."""
    X, y, Z = arrays
    protocol = Protocol(metric="auc", train_sizes=(40,), kernel="rbf")
    result = run_unit(Unit(40, 2, "svm"), protocol, Data(X, y, Z))
    trains, test = split_rows(protocol, 2, y)
    train = trains[40]
    folds = StratifiedKFold(5, shuffle=True, random_state=derived_seed(0, 2, "folds"))
    pipe = make_pipeline(StandardScaler(), SVC(tol=1e-6))
    grid = {"svc__C": METHODS["svm"].grid["C"]}
    search = GridSearchCV(pipe, grid, scoring="roc_auc", cv=folds).fit(X[train], y[train])
    assert result["params"]["C"] == search.best_params_["svc__C"]
    assert result["score"] == pytest.approx(search.score(X[test], y[test]), abs=2e-3)


def test_shuffled_control_sees_another_examples_row(arrays, monkeypatch):
    X, y, Z = arrays
    protocol = Protocol(train_sizes=(30,), kernel="linear", grids=(("svm+", (("C", (1.0,)),)),))
    seen = []
    fit = SVMPlus.fit
    monkeypatch.setattr(
        SVMPlus, "fit", lambda s, X, y, privileged=None: (seen.append(privileged), fit(s, X, y, privileged))[1]
    )
    for control in ("", "shuffled"):
        run_unit(Unit(30, 0, "svm+", control), protocol, Data(X, y, Z))
    real, shuffled = seen
    assert_allclose(np.sort(real, axis=0), np.sort(shuffled, axis=0), atol=1e-12)
    assert not np.isclose(real, shuffled).all(axis=1).any()


def one_by_one(metric, estimator, grid, train, test):
    """Scores of a grid by one ordinary fit for each candidate."""
    X, y, privileged = train
    extra = {} if privileged is None else {"privileged": privileged}
    models = [clone(estimator).set_params(**params).fit(X, y, **extra) for params in grid]
    return [measure(metric, model, *test, np.array([0, 1])) for model in models]


@pytest.mark.parametrize("metric", ["ap", "auc"])
@pytest.mark.parametrize("standardize", [False, True])
def test_short_cuts_change_nothing(monkeypatch, metric, standardize):
    """Shared teachers, warm-started paths and the rotation of wide data, against one ordinary fit for each candidate."""
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    X, Z = rng.standard_normal((80, 100)) + 0.15 * y[:, None], rng.standard_normal((80, 3)) + y[:, None]
    Z[::9] = np.nan
    protocol = Protocol(metric=metric, train_sizes=(40,), kernel="linear", standardize=standardize)
    methods = ("ranksvm", "ranktransfer", "svm+", "transfer", "distillation")
    quick = [run_unit(Unit(40, 0, name), protocol, Data(X, y, Z)) for name in methods]
    monkeypatch.setattr(units, "_rotated", lambda protocol, train, test: (train, test))
    monkeypatch.setattr(units, "grid_scores", one_by_one)
    slow = [run_unit(Unit(40, 0, name), protocol, Data(X, y, Z)) for name in methods]
    for a, b in zip(quick, slow):
        assert a["error"] is b["error"] is None
        assert a["params"] == b["params"]
        assert a["score"] == pytest.approx(b["score"], abs=1e-9)
        assert a["inner_score"] == pytest.approx(b["inner_score"], abs=1e-6)


def test_candidates_without_a_solution_do_not_stop_the_others(arrays):
    X, y, Z = arrays
    grids = {
        "transfer": (("estimator__C", (-1.0, 1.0)), ("regressor__alpha", (-1.0, 1.0))),
        "ranktransfer": (("C", (-1.0, 1e-2)), ("C_privileged", (1e-2,))),
        "svm+": (("C", (-1.0, 1.0)),),
    }
    for name, grid in grids.items():
        protocol = Protocol(train_sizes=(30,), kernel="linear", grids=((name, grid),))
        result = measured(run_unit, Unit(30, 0, name), protocol, Data(X, y, Z))
        assert result["error"] is None
        assert all(value > 0 for value in result["params"].values())


def test_a_fold_of_one_class_chooses_nothing():
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    X = rng.standard_normal((80, 2)) + y[:, None]
    folds = [(np.arange(40), np.arange(40, 60)), (np.arange(20, 80), np.flatnonzero(y[:20] == 0))]
    protocol = Protocol(metric="auc", train_sizes=(40,), kernel="linear")
    train = Data(X, y, X)
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
    result = run_unit(Unit(30, 0, "reference"), Protocol(train_sizes=(30,), kernel="linear"), Data(X, y, Z))
    assert result["score"] == pytest.approx(1.0)


def test_failure_of_one_method_is_recorded(arrays):
    X, y, Z = arrays
    grids = (("svm+", (("C", (-1.0, -2.0)),)),)
    result = run_unit(Unit(30, 0, "svm+"), Protocol(train_sizes=(30,), grids=grids), Data(X, y, Z))
    assert result["score"] is None
    assert "no candidate of the grid" in result["error"]


def test_plan_has_both_controls():
    keys = [unit.key for unit in plan(Protocol(n_splits=2, train_sizes=(10, 20)), ["svm", "svm+"])]
    assert len(keys) == len(set(keys)) == 2 * 2 * 3
