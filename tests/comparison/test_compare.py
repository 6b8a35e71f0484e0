"""lupi.comparison.compare: workers, interruptions, the run store, tables of all kinds."""

import json
import sqlite3

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from lupi.bench.interruptions import interrupted_run
from lupi.comparison import compare
from lupi.datasets import make_privileged
from lupi.engine.store import StoreMismatchError

SMALL = {"svm": {"C": [0.1, 1.0]}, "svm+": {"C": [0.1, 1.0], "lam": [1.0]}}
QUICK = {"methods": ["svm+"], "n_splits": 4, "train_size": 30, "kernel": "linear", "inner_folds": 2, "grids": SMALL}


@pytest.fixture(scope="module")
def arrays():
    return make_privileged(90, 4, 2, random_state=1, return_X_y_privileged=True)


def scores(comparison):
    """What must not depend on workers, time or interruptions."""
    kept = ("name", "scores", "params")
    return [
        [{k: row[k] for k in kept} | {"shuffled": row.get("shuffled", {}).get("scores")} for row in size["methods"]]
        for size in comparison.summary["sizes"]
    ]


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


def test_kill_9_loses_units_in_flight_only(tmp_path):
    """The real command with two workers; `lupi bench compare-kill` does the same with ten kills."""
    pytest.importorskip("pandas")
    pytest.importorskip("jinja2")
    found = interrupted_run(tmp_path, 2, splits=4)
    assert (found["lost"], found["twice"], found["damaged"]) == (0, 0, 0)
    assert found["equal"]
    first, second = found["killed_at"]
    assert 0 < first <= second < found["units"] == 24


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


def strictly(text):
    """Parsed by a reader that knows no Infinity and no NaN, as the standard says."""

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_infinite_parameters_give_valid_json(arrays, tmp_path):
    grids = SMALL | {"svm+": {"C": [1.0], "kappa": [3.0, float("inf")], "lam": [np.float64(100.0)]}}
    result = compare(*arrays, **QUICK | {"grids": grids, "n_splits": 2}, store=tmp_path / "units.sqlite")
    result.to_json(tmp_path / "results.json")
    summary = strictly((tmp_path / "results.json").read_text())
    assert summary["protocol"]["grids"]["svm+"]["kappa"] == [3.0, "inf"]
    assert all(params["kappa"] in (3.0, "inf") for params in summary["sizes"][0]["methods"][1]["params"])
    with sqlite3.connect(tmp_path / "units.sqlite") as connection:
        for (text,) in connection.execute("SELECT result FROM units"):
            strictly(text)
    alone = {"svm+": {"C": [1.0], "kappa": [float("inf")]}}
    again = compare(*arrays, **QUICK | {"grids": SMALL | alone, "n_splits": 2})
    again.to_json(tmp_path / "results.json")
    chosen = strictly((tmp_path / "results.json").read_text())["sizes"][0]["methods"][1]["params"]
    assert chosen == [{"C": 1.0, "kappa": "inf"}] * 2


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
