"""lupi.comparison.compare: workers, interruptions, the run store, tables of all kinds."""

import json
import sqlite3
from dataclasses import fields

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import GaussianNB

from lupi import SVMPlus, save
from lupi.comparison import compare
from lupi.comparison.comparison import Options
from lupi.comparison.methods import RECIPES
from lupi.comparison.results import MethodResult, SizeResult
from lupi.datasets import make_privileged

SMALL = {"svm": {"C": [0.1, 1.0]}, "svm+": {"C": [0.1, 1.0], "lam": [1.0]}}
QUICK = {"methods": ["svm+"], "baselines": [], "n_splits": 4, "train_size": 30, "inner_folds": 2, "grids": SMALL}
FEW_TREES = {"estimator__n_estimators": [5]}
QUICK |= {"kernel": "linear", "permutations": 0, "columns": False}


@pytest.fixture(scope="module")
def arrays():
    return make_privileged(90, 4, 2, random_state=1, return_X_y_privileged=True)


def scores(comparison):
    """What must not depend on workers, time or interruptions."""
    kept = ("name", "scores", "params")
    return [
        [
            {k: row[k] for k in kept} | {"shuffled": row["shuffled"] and row["shuffled"]["scores"]}
            for row in size["methods"]
        ]
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


def test_a_comparison_out_of_time_goes_on_later(arrays, tmp_path):
    few = QUICK | {"n_splits": 2, "permutations": 0}
    with pytest.raises(TimeoutError, match=r"`max_time` was over with (\d+) of \1 fits to do\. With `store`"):
        compare(*arrays, **few, max_time=1e-9)
    with pytest.raises(TimeoutError, match="Finished results are kept"):
        compare(*arrays, **few, max_time=1e-9, store=tmp_path / "a.sqlite")
    whole = compare(*arrays, **few, max_time=1e6, store=tmp_path / "a.sqlite")
    # Nothing is left to do, so no time is needed.
    again = compare(*arrays, **few, max_time=1e-9, store=tmp_path / "a.sqlite")
    assert again.summary["sizes"] == whole.summary["sizes"]
    with pytest.raises(ValueError, match="`max_time` must be a positive number of seconds"):
        compare(*arrays, **few, max_time=0)


def test_store_of_other_data_or_protocol_is_refused(arrays, tmp_path):
    X, y, Z = arrays
    path = tmp_path / "units.sqlite"
    compare(X, y, Z, **QUICK, store=path)
    with pytest.raises(ValueError, match="other data, other settings"):
        compare(X, y, Z, **QUICK | {"seed": 1}, store=path)
    with pytest.raises(ValueError, match="delete this one"):
        compare(X, y, Z + 1e-9, **QUICK, store=path)
    path.write_bytes(b"not a database, but long enough to be read as one" * 10)
    with pytest.raises(ValueError, match="is damaged or is not a store"):
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
    regression = compare(X, y, Z, metric="r2", **options, permutations=3)
    rows = {row["name"]: row for row in regression.summary["sizes"][0]["methods"]}
    assert {"linear", "forest", "boosting", "svm", "surrogate", "reference", "joint"} < set(rows)
    assert "svm2+" not in rows  # for classes only
    assert not any(row["failed"] for row in rows.values())
    assert rows["svm"]["mean"] > 0.1
    assert regression.summary["data"]["groups"] == 20
    words = np.where(y > 0, "yes", "no")
    kinds = compare(
        X,
        words,
        Z,
        methods=["svm2+"],
        baselines=[],
        permutations=0,
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
        ({"y": np.zeros(90)}, "got one value"),
        ({"y": np.linspace(0, 1, 90)}, "use metric='r2'"),
        ({"y": np.arange(90)}, "90 different numbers: classes, or a quantity"),
        ({"y": np.full(90, np.nan)}, "no row has a label"),
        ({"seed": -1}, "`seed` must be at least 0, got -1"),
        ({"y": None}, "pass X, y and privileged, or a data frame"),
        ({"target": "ill"}, "either `y` or `target`"),
        ({"target": "ill", "y": None}, "must be a data frame"),
        ({"y": np.r_[np.zeros(88), 1, 1]}, "has 2"),
        ({"train_size": 89}, "must leave 8 rows"),
        ({"privileged": np.full((90, 2), np.nan)}, "has no value"),
        ({"privileged": np.zeros((90, 0))}, "at least one column"),
        ({"grids": {"svm2k": {"C": [1.0]}}}, "not among the methods"),
        ({"metric": "f1"}, "got 'f1'"),
        ({"privileged": np.ma.masked_less(np.ones((90, 2)), 2.0)}, "`privileged` is a masked array"),
        ({"groups": np.ma.masked_less(np.arange(90), 2)}, "`groups` is a masked array"),
    ],
)
def test_compare_says_what_is_wrong(change, message, arrays):
    X, y, Z = arrays
    given = {"X": X, "y": y, "privileged": Z, **QUICK} | change
    with pytest.raises((ValueError, TypeError), match=message):
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


def chosen_by_svm_plus(summary):
    return summary["sizes"][0]["methods"][1]["params"]


@pytest.mark.parametrize("metric", ["auc", "r2"])
def test_recipes_are_three_methods(metric, arrays, tmp_path):
    X, y, Z = arrays
    y = np.where(np.arange(90) < 20, np.nan, y + X[:, 0] if metric == "r2" else y)
    few = {"soft-labels": FEW_TREES, "predicted-z": FEW_TREES, "forest": {"n_estimators": [5]}}
    few |= {"linear": {}, "chain": {}}
    options = QUICK | {"methods": ["recipes"], "n_splits": 2, "grids": few, "permutations": 3}
    result = compare(X, y, Z, **options, metric=metric)
    rows = {row["name"]: row for row in result.summary["sizes"][0]["methods"]}
    plain, both = ["linear", "forest"], [f"{name}{part}" for name in RECIPES for part in ("", "/labeled")]
    assert set(rows) == {*plain, *both}
    assert [rows[name]["counterpart"] for name in RECIPES] == ["forest", "forest", "linear"]
    assert all(len(row["scores"]) == 2 and not row["errors"] for row in rows.values())
    assert all(rows[name]["shuffled"]["scores"] != rows[name]["scores"] for name in both)
    # The exact test is that of the closed form, which is fast.
    assert result.summary["permutation"]["title"] == "surrogate, ridge"
    save(result.fit_model("soft-labels"), tmp_path / "model.lupi")


def test_one_model_is_no_list_of_recipes(arrays):
    with pytest.raises(ValueError, match=r"no method is called 'recipes'; use .*, soft-labels, predicted-z, chain"):
        compare(*arrays, **QUICK | {"n_splits": 2}).fit_model("recipes")


def test_infinite_parameters_give_valid_json(arrays, tmp_path):
    grids = SMALL | {"svm+": {"C": [1.0], "kappa": [3.0, float("inf")], "lam": [np.float64(100.0)]}}
    result = compare(*arrays, **QUICK | {"grids": grids, "n_splits": 2}, store=tmp_path / "units.sqlite")
    result.to_json(tmp_path / "results.json")
    summary = strictly((tmp_path / "results.json").read_text())
    assert summary["protocol"]["grids"]["svm+"]["kappa"] == [3.0, "inf"]
    assert all(params["kappa"] in (3.0, "inf") for params in summary["sizes"][0]["methods"][1]["params"])
    with sqlite3.connect(tmp_path / "units.sqlite") as connection:
        texts = [text for (text,) in connection.execute("SELECT result FROM unit")]
    assert sum("Infinity" in text for text in texts) == sum(p["kappa"] == "inf" for p in chosen_by_svm_plus(summary))
    alone = {"svm+": {"C": [1.0], "kappa": [float("inf")]}}
    again = compare(*arrays, **QUICK | {"grids": SMALL | alone, "n_splits": 2})
    again.to_json(tmp_path / "results.json")
    chosen = strictly((tmp_path / "results.json").read_text())["sizes"][0]["methods"][1]["params"]
    assert chosen == [{"C": 1.0, "kappa": "inf", "kernel": "linear", "privileged_kernel": "linear"}] * 2


def test_json_is_the_summary(arrays, tmp_path):
    result = compare(*arrays, **QUICK)
    result.to_json(tmp_path / "deep" / "results.json")
    assert json.loads((tmp_path / "deep" / "results.json").read_text()) == json.loads(json.dumps(result.summary))
    (size,) = result.summary["sizes"]
    assert set(size) == {field.name for field in fields(SizeResult)}
    assert set(size["methods"][0]) == {field.name for field in fields(MethodResult)}
    model = result.fit_model("svm+")
    X, _, _ = arrays
    assert_array_equal(model.predict(X[:5]), model.estimator_.predict(model.features_of(X[:5])))
    assert "Comparison(" in repr(result)


# ---------------------------------------------------------------- frames, the schema, the model


@pytest.fixture(scope="module")
def frame():
    pd = pytest.importorskip("pandas")
    X, y, Z = make_privileged(100, 3, 2, random_state=2, return_X_y_privileged=True)
    made = pd.DataFrame(X, columns=["a", "b", "c"]).assign(stay=Z[:, 0], cost_1=Z[:, 1], cost_2=Z.sum(axis=1))
    made["town"] = np.where(X[:, 0] > 0.3, "Ulm", "Bonn")
    made["id"] = [f"p{k}" for k in range(100)]
    made["died"] = pd.Series(np.where(y == 1, "yes", "no"), dtype=object)
    made.loc[80:, "died"] = None
    return made


FRAME = {"target": "died", "privileged": ["stay", "cost_*"], "drop": "id"}
BRIEF = {
    "methods": ["surrogate-ridge"],
    "baselines": ["linear"],
    "n_splits": 4,
    "train_size": [20, 40],
    "permutations": 3,
}


@pytest.fixture(scope="module")
def compared(frame):
    return compare(frame, **FRAME, **BRIEF)


def test_names_and_arrays_give_the_same_summary(frame, compared):
    again = compare(
        frame[["a", "b", "c", "town"]], frame["died"].to_numpy(), frame[["stay", "cost_1", "cost_2"]], **BRIEF
    )
    kept = ("sizes", "permutation", "worth", "columns")
    without = [{k: json.loads(json.dumps(found.summary[k], default=str)) for k in kept} for found in (compared, again)]

    def timeless(value):
        if isinstance(value, dict):
            return {k: timeless(v) for k, v in value.items() if "seconds" not in k}
        return [timeless(v) for v in value] if isinstance(value, list) else value

    assert timeless(without[0]) == timeless(without[1])
    assert compared.verdict == again.verdict


def test_compare_has_few_parameters_and_names_unknown_ones(arrays):
    assert compare.__code__.co_argcount + compare.__code__.co_kwonlyargcount + 1 <= 16
    assert len(fields(Options)) <= 16
    with pytest.raises(TypeError, match="unexpected keyword argument 'kernels'"):
        compare(*arrays, **QUICK, kernels="rbf")


def test_the_summary_of_unlabeled_rows_and_two_sizes(compared):
    assert compared.summary["data"]["labeled"] == 80
    assert compared.summary["data"]["unlabeled"] == 20
    assert compared.summary["notes"][0].startswith("20 of 100 rows have no died: they join the training sets")
    names = [row["name"] for row in compared.summary["sizes"][0]["methods"]]
    assert names == ["linear", "ridge-plain", "surrogate-ridge", "surrogate-ridge/labeled"]
    assert compared.summary["sizes"][0]["n_unlabeled"] == 20
    assert len(compared.summary["worth"]) == 2
    assert [part["train_size"] for part in compared.summary["verdict"]["sizes"]] == [20, 40]


def test_python_warns_of_leaks_like_the_command(frame):
    leaky = frame.assign(fee=(frame["died"] == "yes") * 2.0)
    leaky.loc[80:, "fee"] = 1.0
    found = compare(leaky, target="died", privileged=["fee"], drop="id,stay,cost_*", **BRIEF | {"train_size": 30})
    assert found.summary["leaks"][0]["columns"] == ["fee"]
    assert "column 'fee' is the target 'died' under another name" in found.verdict
    assert found.summary["verdict"]["answer"] != "yes"


def test_to_frame(compared):
    table = compared.to_frame()
    assert list(table["name"]) == 2 * ["linear", "ridge-plain", "surrogate-ridge", "surrogate-ridge/labeled"]
    assert table["over_best_baseline"].notna().sum() == 4
    assert (table["mean"] > 0.4).all()


def test_the_model_is_a_scikit_learn_estimator_on_raw_tables(frame, compared):
    known = frame[frame["died"].notna()]
    for name in ("linear", "surrogate-ridge", "surrogate-ridge/labeled"):
        model = compared.fit_model(name)
        assert set(model.predict(frame)) == {"yes", "no"}
        assert model.predict_proba(known).shape == (80, 2)
        assert model.score(known, known["died"]) > 0.6
        assert list(model.classes_) == ["no", "yes"]
        # The whole table goes through scikit-learn's tools: the privileged columns are split off inside.
        scores = cross_val_score(model, known.drop(columns=["died", "id"]), known["died"], cv=3)
        assert scores.mean() > 0.6
    with pytest.raises(ValueError, match="names the column 'stay', which the table does not have"):
        model.fit(known.drop(columns=["died", "stay"]), known["died"])
    with pytest.raises(ValueError, match="no method is called 'magic'"):
        compared.fit_model("magic")


def test_own_estimators_are_compared(arrays, tmp_path):
    own = {"methods": [("mine", SVMPlus(kernel="linear"), {"C": [0.1, 1.0]})], "baselines": [GaussianNB()]}
    more = {"n_splits": 3, "train_size": 30, "inner_folds": 2, "permutations": 3, "columns": False}
    found = compare(*arrays, **own, **more, n_jobs=2, store=tmp_path / "units.sqlite")
    names = [row["name"] for row in found.summary["sizes"][0]["methods"]]
    assert names == ["GaussianNB", "mine-plain", "mine"]
    assert not any(row["failed"] for row in found.summary["sizes"][0]["methods"])
    assert found.summary["permutation"]["method"] == "surrogate-ridge"  # any statistic keeps the level
    other = own | {"methods": [("mine", SVMPlus(kernel="rbf"), {"C": [0.1, 1.0]})]}
    again = compare(*arrays, **other, **more, store=tmp_path / "units.sqlite")
    assert scores(again)[0][2] != scores(found)[0][2]  # the store does not take one for the other
    assert scores(again)[0][0] == scores(found)[0][0]
    assert isinstance(found.fit_model("GaussianNB").estimator_, GaussianNB)


def test_the_columns_that_matter_are_named():
    rng = np.random.default_rng(0)
    n, p = 900, 30
    X = rng.standard_normal((n, p))
    mediator = X[:, :10].sum(axis=1) + 2 * rng.standard_normal(n)
    y = (mediator + 3 * rng.standard_normal(n) > 0).astype(int)
    Z = np.column_stack([rng.standard_normal(n), mediator])
    found = compare(X, y, Z, methods=["surrogate-ridge"], baselines=["linear"], n_splits=10, train_size=60)
    assert found.summary["verdict"]["answer"] == "yes", found.verdict
    assert found.summary["permutation"]["p"] == 0.01
    first, second = found.summary["columns"]
    assert (first["name"], first["columns"]) == ("column 1", ["column 1"])
    assert first["loss"]["low"] > 0
    assert abs(second["loss"]["mean"]) < 0.01
