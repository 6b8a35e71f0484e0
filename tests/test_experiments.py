"""lupi.experiments: splits, units, store, statistics, verdicts."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from lupi import SVMPlus
from lupi.datasets import make_privileged
from lupi.experiments import METHODS, Protocol, compare, units
from lupi.experiments.methods import candidates, choose_methods
from lupi.experiments.metrics import measure
from lupi.experiments.protocol import derived_seed, inner_folds, others_rows, split_rows
from lupi.experiments.statistics import corrected_t_p, holm, paired, wilcoxon_p
from lupi.experiments.store import RunStore, StoreMismatchError, data_digest
from lupi.experiments.summary import summarize, verdict
from lupi.experiments.units import Data, Unit, plan, run_unit

SMALL = {"svm": {"C": [0.1, 1.0]}, "svm+": {"C": [0.1, 1.0], "lam": [1.0]}}
QUICK = {"methods": ["svm+"], "n_splits": 4, "train_size": 30, "kernel": "linear", "inner_folds": 2, "grids": SMALL}


@pytest.fixture(scope="module")
def arrays():
    return make_privileged(90, 4, 2, random_state=1, return_X_y_privileged=True)


def scores(comparison):
    """What must not depend on workers, time or interruptions."""
    kept = ("name", "scores", "params", "shuffled")
    return [[{k: row[k] for k in kept if k in row} for row in size["methods"]] for size in comparison.summary["sizes"]]


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
    ap = measure("ap", Fixed(one), None, y, np.array([0, 1]))
    assert ap == pytest.approx(average_precision_score(y, one), rel=1e-12)
    three, many = rng.integers(0, 3, 50), rng.standard_normal((50, 3))
    expected = np.mean([roc_auc_score(three == k, many[:, k]) for k in range(3)])
    assert_allclose(measure("auc", Fixed(many), None, three, np.arange(3)), expected)


# ---------------------------------------------------------------- units


def test_unit_equals_scikit_learns_grid_search(arrays):
    """An independent way to the same number: pipeline, grid search and test score of scikit-learn."""
    X, y, Z = arrays
    protocol = Protocol(metric="auc", train_sizes=(40,), kernel="rbf")
    _, result = run_unit(Unit(40, 2, "svm"), protocol, Data(X, y, Z))
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


def test_short_cuts_change_nothing(arrays, monkeypatch):
    """Rank Transfer's own search, and the rotation of wide data, against one ordinary fit for each candidate."""
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    X, Z = rng.standard_normal((80, 100)) + 0.15 * y[:, None], rng.standard_normal((80, 3)) + y[:, None]
    protocol = Protocol(metric="ap", train_sizes=(40,), kernel="linear", standardize=False)
    methods = ("ranktransfer", "svm+", "transfer")
    quick = [run_unit(Unit(40, 0, name), protocol, Data(X, y, Z))[1] for name in methods]
    monkeypatch.setattr(units, "_whole_grid_at_once", lambda *a: False)
    monkeypatch.setattr(units, "_rotated", lambda protocol, train, test: (train, test))
    slow = [run_unit(Unit(40, 0, name), protocol, Data(X, y, Z))[1] for name in methods]
    for a, b in zip(quick, slow):
        assert a["error"] is b["error"] is None
        assert a["params"] == b["params"]
        assert a["score"] == pytest.approx(b["score"], abs=1e-9)
        assert a["inner_score"] == pytest.approx(b["inner_score"], abs=1e-6)


def test_reference_is_tested_on_privileged_columns(arrays):
    X, y, Z = arrays
    Z = np.column_stack([Z, y + 0.01 * np.arange(len(y)) / len(y)])
    _, result = run_unit(Unit(30, 0, "reference"), Protocol(train_sizes=(30,), kernel="linear"), Data(X, y, Z))
    assert result["score"] == pytest.approx(1.0)


def test_failure_of_one_method_is_recorded(arrays):
    X, y, Z = arrays
    grids = (("svm+", (("C", (-1.0, -2.0)),)),)
    _, result = run_unit(Unit(30, 0, "svm+"), Protocol(train_sizes=(30,), grids=grids), Data(X, y, Z))
    assert result["score"] is None
    assert "no candidate of the grid" in result["error"]


def test_plan_has_both_controls():
    keys = [unit.key for unit in plan(Protocol(n_splits=2, train_sizes=(10, 20)), ["svm", "svm+"])]
    assert len(keys) == len(set(keys)) == 2 * 2 * 3


# ---------------------------------------------------------------- compare and store


def test_results_do_not_depend_on_workers_or_interruptions(arrays, tmp_path):
    alone = compare(*arrays, **QUICK)
    parallel = compare(*arrays, **QUICK, n_jobs=2, store=tmp_path / "a.sqlite")
    assert scores(alone) == scores(parallel)

    class Stop(Exception):
        pass

    def stop(done, total):
        assert total == 12
        if done == 5:
            raise Stop

    with pytest.raises(Stop):
        compare(*arrays, **QUICK, store=tmp_path / "b.sqlite", on_progress=stop)
    counted = []
    again = compare(*arrays, **QUICK, store=tmp_path / "b.sqlite", on_progress=lambda done, total: counted.append(done))
    assert counted == list(range(5, 13))
    assert scores(again) == scores(alone)
    # More splits continue the same store.
    more = compare(
        *arrays, **QUICK | {"n_splits": 5}, store=tmp_path / "b.sqlite", on_progress=lambda d, t: counted.append(d)
    )
    assert counted[8:] == [12, 13, 14, 15]
    assert scores(more)[0][0]["scores"][:4] == scores(alone)[0][0]["scores"]


KILLED = """
import sys
from lupi.datasets import make_privileged
from lupi.experiments import compare
print("ready", flush=True)
compare(*make_privileged(90, 4, 2, random_state=1, return_X_y_privileged=True), store=sys.argv[1], n_jobs=1,
        on_progress=lambda done, total: print(done, flush=True), **{quick!r})
"""


def test_kill_9_loses_units_in_flight_only(arrays, tmp_path):
    quick = QUICK | {"n_splits": 6}
    whole = compare(*arrays, **quick)
    store, before = tmp_path / "units.sqlite", 0
    for moment in (2, 4, 3):
        with subprocess.Popen(
            [sys.executable, "-c", KILLED.format(quick=quick), str(store)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout.readline() == "ready\n"
            first = int(process.stdout.readline())
            assert first >= before  # nothing that was reported is lost
            reported = first
            while reported < first + moment:
                reported = int(process.stdout.readline())
            time.sleep(0.01 * moment)
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
        before = reported
    with sqlite3.connect(store) as connection:
        (kept,) = connection.execute("SELECT count(*) FROM units").fetchone()
    assert before <= kept <= 18
    ran = []
    again = compare(*arrays, **quick, store=store, on_progress=lambda done, total: ran.append(done))
    assert ran == list(range(kept, 19))
    assert scores(again) == scores(whole)


def test_store_of_other_data_or_protocol_is_refused(arrays, tmp_path):
    X, y, Z = arrays
    path = tmp_path / "units.sqlite"
    compare(X, y, Z, **QUICK, store=path)
    with pytest.raises(StoreMismatchError, match="another protocol, other data"):
        compare(X, y, Z, **QUICK | {"seed": 1}, store=path)
    with pytest.raises(StoreMismatchError, match="delete that file"):
        compare(X, y, Z + 1e-9, **QUICK, store=path)
    path.write_bytes(b"not a database, but long enough to be read as one" * 10)
    with pytest.raises(ValueError, match="not a run store, or is damaged"):
        compare(X, y, Z, **QUICK, store=path)


def test_store_keeps_every_bit_and_the_first_result(tmp_path):
    value = float(np.nextafter(0.1, 1))
    with RunStore(tmp_path / "s", "f") as store:
        store.add("a", {"score": value})
        store.add("a", {"score": 0.5})
    with RunStore(tmp_path / "s", "f") as store:
        assert store.results() == {"a": {"score": value}}


def test_digest_sees_values_names_and_order():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
    digests = {data_digest(f) for f in (frame, frame.rename(columns={"a": "c"}), frame.iloc[::-1], frame[["b", "a"]])}
    assert len(digests) == 4
    assert data_digest(frame, None) != data_digest(None, frame)


def test_words_gaps_groups_and_regression():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.standard_normal(80), "b": rng.choice(["u", "v", None], 80)})
    X.loc[::7, "a"] = np.nan
    Z = pd.DataFrame({"z": rng.standard_normal(80), "w": rng.choice(["p", "q"], 80)})
    Z.iloc[:5] = None
    y = X["a"].fillna(0) + Z["z"].fillna(0) + 0.1 * rng.standard_normal(80)
    options = {"n_splits": 2, "train_size": 40, "inner_folds": 2, "kernel": "linear", "groups": np.arange(80) // 4}
    regression = compare(X, y, Z, metric="r2", **options)
    rows = {row["name"]: row for row in regression.summary["sizes"][0]["methods"]}
    assert set(rows) == {"svm", "transfer", "distillation", "reference"}
    assert not any(row["failed"] for row in rows.values())
    assert rows["svm"]["mean"] > 0.1
    assert regression.summary["data"]["groups"] == 20
    words = np.where(y > 0, "yes", "no")
    kinds = compare(
        X,
        words,
        Z,
        methods=["svm2+"],
        metric="accuracy",
        **options,
        grids={"l2svm": {"C": [1.0]}, "svm2+": {"C": [1.0]}},
    )
    assert kinds.summary["data"]["classes"] == ["no", "yes"]
    model = kinds.fit_model("svm2+")
    assert set(model.predict(X)) == {"no", "yes"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(90)}, "one value only"),
        ({"y": np.linspace(0, 1, 90)}, "use metric='r2'"),
        ({"y": np.r_[np.zeros(88), 1, 1]}, "has 2 rows only"),
        ({"train_size": 89}, "must leave 8 rows"),
        ({"privileged": np.full((90, 2), np.nan)}, "no value at all"),
        ({"privileged": np.zeros((90, 0))}, "at least one column"),
        ({"grids": {"svm2k": {"C": [1.0]}}}, "not among the methods"),
        ({"metric": "f1"}, "metric is 'f1'"),
    ],
)
def test_compare_says_what_is_wrong(change, message, arrays):
    X, y, Z = arrays
    given = {"X": X, "y": y, "privileged": Z, **QUICK} | change
    with pytest.raises(ValueError, match=message):
        compare(**given)


def test_three_classes(arrays):
    X, _, Z = arrays
    y = np.arange(90) % 3
    result = compare(X + y[:, None], y, Z, **QUICK | {"n_splits": 2})
    assert result.summary["protocol"]["metric"] == "accuracy"
    assert result.summary["sizes"][0]["methods"][0]["mean"] > 0.5


# ---------------------------------------------------------------- statistics and verdict


def test_tests_against_scipy():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(20) + 0.4, rng.standard_normal(20)
    row = paired(a, b, 100, 25)
    assert row["wilcoxon_p"] == stats.wilcoxon(a, b).pvalue
    # Without the correction (an infinite training set) it is the ordinary paired t-test.
    assert_allclose(corrected_t_p(a - b, 1e12, 1), stats.ttest_rel(a, b).pvalue, rtol=1e-6)
    t = (a - b).mean() / np.sqrt((1 / 20 + 0.25) * (a - b).var(ddof=1))
    assert_allclose(row["corrected_t_p"], 2 * stats.t.sf(abs(t), 19))
    assert row["wins"] + row["losses"] + row["ties"] == 20
    assert wilcoxon_p(np.zeros(5)) == 1.0
    assert corrected_t_p([0.0, 0.0], 10, 10) == 1.0


def test_holm_by_hand():
    assert_allclose(holm([0.01, 0.02, 0.03, 0.04]), [0.04, 0.06, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def judged(real, shuffled, plain=0.8, other_plain=None, n=12):
    """Verdict on made-up scores: means plus the same noise, a little of it unpaired."""
    rng = np.random.default_rng(0)
    common = 0.02 * rng.standard_normal(n)
    methods = ["svm", "svm+"] + (["l2svm"] if other_plain else [])
    means = {("svm", ""): plain, ("svm+", ""): real, ("svm+", "shuffled"): shuffled, ("l2svm", ""): other_plain}
    protocol = Protocol(n_splits=n, metric="ap")
    results = {
        unit.key: {
            "score": means[unit.method, unit.control] + common[unit.split] + 0.002 * rng.standard_normal(),
            **{"params": {}, "warnings": {}, "seconds": 1.0, "error": None, "n_train": 100, "n_test": 100},
        }
        for unit in plan(protocol, methods)
    }
    return verdict(summarize(results, protocol, methods)[0], protocol)


def test_verdict_yes():
    found = judged(real=0.82, shuffled=0.8)
    assert found["helps"]
    assert found["method"] == "svm+"
    assert found["text"].startswith("SVM+ beats SVM by 2.")
    assert "points of average precision (p < 0.001)" in found["text"] or "(p = 0.00" in found["text"]
    assert found["text"].endswith("the columns help.")


def test_verdict_no_if_shuffled_rows_do_as_well():
    found = judged(real=0.82, shuffled=0.82)
    assert not found["helps"]
    assert found["text"] == "No method uses these columns; keep the plain SVM."
    assert any("shuffled columns do not do clearly worse" in note for note in found["notes"])


def test_verdict_no_if_better_than_shuffled_by_luck_only():
    """Far above the plain method and on average above the shuffled control, but that could be chance."""
    protocol = Protocol(n_splits=12)
    rest = {"params": {}, "warnings": {}, "seconds": 1.0, "error": None, "n_train": 100, "n_test": 100}
    results = {}
    for k in range(12):
        real = 0.82 + 0.001 * k
        luck = (0.01 + 0.0001 * k) * (-1) ** k + 0.001
        for unit, score in (
            (Unit(100, k, "svm"), 0.8),
            (Unit(100, k, "svm+"), real),
            (Unit(100, k, "svm+", "shuffled"), real - luck),
        ):
            results[unit.key] = {"score": score, **rest}
    size = summarize(results, protocol, ["svm", "svm+"])[0]
    row = size["methods"][1]
    assert row["gain"]["wilcoxon_p"] < 0.01
    assert row["over_shuffled"]["mean"] > 0
    assert row["over_shuffled"]["wilcoxon_p"] > 0.1
    assert row["outcome"] == "gains, but not clearly more than with shuffled rows"
    assert not verdict(size, protocol)["helps"]


def test_verdict_no_if_nothing_changes_or_it_hurts():
    assert judged(real=0.8, shuffled=0.8)["method"] == "svm"
    found = judged(real=0.77, shuffled=0.75)
    assert not found["helps"]
    assert any("Clearly worse with the columns" in note for note in found["notes"])


def test_verdict_no_if_another_plain_method_is_better():
    found = judged(real=0.82, shuffled=0.8, other_plain=0.85)
    assert not found["helps"]
    assert found["method"] == "l2svm"
    assert "SVM+ gains from the columns, but the plain L2-SVM" in found["text"]


def test_verdict_says_when_splits_are_too_few():
    found = judged(real=0.9, shuffled=0.8, n=4)
    assert not found["helps"]
    assert any("use more splits" in note for note in found["notes"])


def test_strict_test_is_mentioned():
    found = judged(real=0.803, shuffled=0.8)
    assert found["helps"]
    assert any("take it as likely, not as certain" in note for note in found["notes"])


def test_json_is_the_summary(arrays, tmp_path):
    result = compare(*arrays, **QUICK)
    result.to_json(tmp_path / "deep" / "results.json")
    assert json.loads((tmp_path / "deep" / "results.json").read_text()) == json.loads(json.dumps(result.summary))
    hard = result.summary["hard_examples"]
    values = [row["correction"] for row in hard["rows"]]
    assert values == sorted(values, reverse=True)
    model = result.fit_model("svm+")
    X, _, Z = arrays
    assert_allclose(values[0], model.correction(Z).max())
    assert hard["rows"][0]["row"] == model.correction(Z).argmax()
    assert_array_equal(model.predict(X[:5]), model.estimator_.predict(model.encoder_.transform(X[:5])))
    assert "Comparison(" in repr(result)
