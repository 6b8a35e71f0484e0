"""`lupi compare`, `fit` and `predict`, and the page that compare writes."""

import io
import json
import re

import numpy as np
import pytest
from lupi.comparison.tables import read_table, split_table
from typer.testing import CliRunner

import lupi
from lupi.cli import app
from lupi.comparison.leakage import leakage
from lupi.comparison.render import terminal_table
from lupi.datasets import make_privileged

pd = pytest.importorskip("pandas")
pytest.importorskip("jinja2")


def invoke(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"})


def flat(text):
    return re.sub(r"\s+", " ", text)


@pytest.fixture(scope="module")
def frame():
    made = make_privileged(80, 3, 2, random_state=0, as_frame=True).frame.rename(columns={"target": "ill"})
    rng = np.random.default_rng(0)
    made["ill"] = np.where(made["ill"] == 1, "yes", "no")
    made["town"] = rng.choice(["Ulm", "Bonn", "Kiel"], 80)
    made["z1"] = np.where(made["z1"] > 0, "high", "low")
    made["id"] = [f"p{k}" for k in range(80)]
    made.loc[::9, "x1"] = np.nan
    made.loc[3, "town"] = None
    return made


@pytest.fixture(scope="module")
def table(frame, tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "patients.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def report(table, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "report"
    given = ("--target", "ill", "--privileged", "z*", "--drop", "id", "--methods", "svm2+,reference", "--splits", 2)
    more = ("--train-size", "24,40", "--kernel", "linear", "--jobs", 1, "--out", out)
    return invoke("compare", table, *given, *more), out, (*given, *more)


def test_compare_writes_and_prints(report, table):
    result, out, arguments = report
    assert result.exit_code == 0, result.output
    summary = json.loads((out / "results.json").read_text())
    assert summary["data"]["classes"] == ["no", "yes"]
    assert summary["data"]["privileged_names"] == ["z0", "z1"]
    assert summary["data"]["feature_names"] == ["x0", "x1", "x2", "town"]
    assert summary["source"] == "patients.csv"
    assert summary["verdict"]["text"] in flat(result.output)
    for name in ("report.html", "results.json", "model.lupi"):
        assert name in result.output
        assert (out / name).stat().st_size > 100
    assert len(list((out / "units").iterdir())) == 1
    again = invoke("compare", table, *arguments)
    assert json.loads((out / "results.json").read_text())["sizes"] == summary["sizes"]  # nothing ran twice
    assert again.exit_code == 0


def test_model_of_compare_predicts_without_privileged_columns(report, table, frame, tmp_path):
    _, out, _ = report
    bare = tmp_path / "bare.parquet"
    frame[["town", "x2", "x1", "x0"]].to_parquet(bare)
    whole, without = invoke("predict", out / "model.lupi", table), invoke("predict", out / "model.lupi", bare)
    assert whole.exit_code == 0, whole.output
    assert whole.stdout == without.stdout
    lines = whole.stdout.splitlines()
    assert lines[0] == "prediction,score"
    assert len(lines) == 81
    assert {line.split(",")[0] for line in lines[1:]} == {"yes", "no"}


def test_predict_names_the_missing_column(report, frame, tmp_path):
    frame.drop(columns=["x2", "town"]).to_csv(tmp_path / "t.csv", index=False)
    result = invoke("predict", report[1] / "model.lupi", tmp_path / "t.csv")
    assert result.exit_code == 1
    assert "lacks the column(s) that the model needs: x2, town" in flat(result.output)


def test_fit_and_predict(table, tmp_path):
    model, predictions = tmp_path / "m.lupi", tmp_path / "p.csv"
    arguments = ("--target", "ill", "--privileged", "z0,z1", "--drop", "id", "--kernel", "linear", "-o", model)
    result = invoke("fit", table, *arguments, "--method", "distillation")
    assert result.exit_code == 0, result.output
    assert re.search(r"distillation \(.*imitation = 0\.\d.*\) from 80 rows", flat(result.stdout))
    assert invoke("predict", model, table, "-o", predictions).exit_code == 0
    assert (pd.read_csv(predictions)["prediction"] == pd.read_csv(table)["ill"]).mean() > 0.6
    assert lupi.load(model).info_ == {"method": "distillation", "target": "ill", "privileged": ["z0", "z1"]}


def test_a_ranker_gives_scores_and_says_so(table, tmp_path):
    model, predictions = tmp_path / "m.lupi", tmp_path / "p.csv"
    arguments = ("--target", "ill", "--privileged", "z*", "--drop", "id", "--kernel", "linear", "-o", model)
    assert invoke("fit", table, *arguments, "--method", "ranksvm").exit_code == 0
    result = invoke("predict", model, table, "-o", predictions)
    assert result.exit_code == 0, result.output
    assert "this model ranks: the higher the score, the more a row looks like 'yes'" in flat(result.stderr)
    found = pd.read_csv(predictions)
    assert list(found.columns) == ["score"]
    ill = pd.read_csv(table)["ill"] == "yes"
    assert found["score"][ill].mean() > found["score"][~ill].mean()
    assert "ranks" not in invoke("predict", model, table).stdout  # the note does not get into the CSV


def test_a_bare_estimator_is_no_model_for_tables(table, tmp_path):
    lupi.save(lupi.SVM2Plus().fit([[0.0], [1.0]], [0, 1]), tmp_path / "m.lupi")
    result = invoke("predict", tmp_path / "m.lupi", table)
    assert result.exit_code == 1
    assert "holds a SVM2Plus, not a model of `lupi fit` or `lupi compare`" in flat(result.output)


def test_fit_a_regression(table, tmp_path):
    model = tmp_path / "m.lupi"
    arguments = (
        "--target",
        "x0",
        "--privileged",
        "z*",
        "--drop",
        "id",
        "--metric",
        "r2",
        "--method",
        "transfer",
        "-o",
        model,
    )
    assert invoke("fit", table, *arguments).exit_code == 0
    result = invoke("predict", model, table)
    assert result.stdout.splitlines()[0] == "prediction"
    assert len(result.stdout.splitlines()) == 81


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compare", "nothing.csv", "--target", "a", "--privileged", "b"), "there is no file nothing.csv"),
        (("compare", "TABLE", "--target", "ill"), "which are privileged (--privileged)"),
        (("compare", "TABLE", "--target", "sick", "--privileged", "z0"), "--target names the column 'sick'"),
        (("compare", "TABLE", "--target", "Ill", "--privileged", "z0"), "do you mean 'ill'?"),
        (("compare", "--target", "ill"), "--target: columns of which TABLE?"),
        (("compare", "TABLE", "--target", "ill", "--privileged", "z0", "--train-size", "abc"), "--train-size is 'abc'"),
        (("compare", "TABLE", "--target", "ill", "--privileged", "w*"), "--privileged names the column 'w*'"),
        (("compare", "TABLE", "--target", "ill", "--privileged", "ill"), "is the target and cannot be privileged"),
        (("compare", "TABLE", "--target", "ill", "--privileged", "*"), "cannot be privileged"),
        (("compare", "TABLE", "--target", "ill", "--privileged", "z0", "--metric", "f1"), "metric is 'f1'"),
        (
            ("compare", "TABLE", "--target", "ill", "--privileged", "z0", "--methods", "magic"),
            "no method is called 'magic'",
        ),
        (("compare", "TABLE", "--target", "ill", "--privileged", "z0", "--metric", "r2"), "holds words"),
        (("predict", "TABLE", "TABLE"), "damaged or is no model"),
    ],
)
def test_errors_are_one_line(arguments, message, table, tmp_path):
    out = ("--out", tmp_path / "o") if arguments[0] == "compare" else ()
    result = invoke(*(table if a == "TABLE" else a for a in arguments), *out)
    assert result.exit_code == 1
    assert message in flat(result.output)
    assert "Traceback" not in result.output


def test_table_fits_into_80_columns(report):
    from rich.console import Console

    summary = json.loads((report[1] / "results.json").read_text())
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(terminal_table(summary))
    text = console.export_text()
    assert "…" not in text
    for size in summary["sizes"]:
        for row in size["methods"]:
            assert f"{100 * row['mean']:.2f} ± {100 * row['error']:.2f}" in text


def test_separators(frame, tmp_path):
    small = frame[["x0", "town", "ill"]]
    small.to_csv(tmp_path / "a.csv", sep=";", index=False)
    small.to_csv(tmp_path / "a.tsv", sep="\t", index=False)
    small.to_parquet(tmp_path / "a.parquet")
    for name in ("a.csv", "a.tsv", "a.parquet"):
        assert list(read_table(tmp_path / name).columns) == ["x0", "town", "ill"]
    (tmp_path / "b.csv").write_text("a\n1\n")
    with pytest.raises(ValueError, match="one column only"):
        read_table(tmp_path / "b.csv")


def test_decimal_commas_and_dates(frame, tmp_path):
    small = frame[["x0", "ill"]].assign(day=[f"2020-01-{1 + k % 28:02}" for k in range(80)], code="2020-02-31")
    small.to_csv(tmp_path / "a.csv", sep=";", decimal=",", index=False)
    read = read_table(tmp_path / "a.csv")
    np.testing.assert_allclose(read["x0"], frame["x0"])
    assert read["day"].dtype.kind == "M"
    assert read["code"].dtype.kind != "M"  # there is no such day
    small.to_csv(tmp_path / "b.csv", index=False)
    assert read_table(tmp_path / "b.csv")["day"].equals(read["day"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"a,b,y\n1,2,0\n1,2,3,4\n", "the same number of fields in every line"),
        ("gr\u00f6\u00dfe,b\n1,2\n".encode("latin-1"), "is not UTF-8 text"),
        (b"a,b,y\n", "has no row with a value of the target 'y'"),
        (b"a,b,y\n1,2,\n", "has no row with a value of the target 'y'"),
        (b"a,b,y\n" + b"1,2,0\n2,3,1\n" * 6, "has 12 rows only"),
        (b"a,b,y\n" + b"1,2,0\n2,3,0\n" * 20, "has one value only (0)"),
        (b"a,b,y\n" + b"1,,0\n2,,1\n" * 20, "has no value at all"),
    ],
)
def test_unusable_tables_are_named(content, message, tmp_path):
    (tmp_path / "t.csv").write_bytes(content)
    result = invoke("compare", tmp_path / "t.csv", "--target", "y", "--privileged", "b", "--out", tmp_path / "o")
    assert result.exit_code == 1
    assert message in flat(result.output)
    assert "Traceback" not in result.output
    assert not (tmp_path / "o" / "report.html").exists()


def test_rows_without_target_are_left_out(frame):
    frame = frame.copy()
    frame.loc[[2, 5], "ill"] = None
    split = split_table(frame, "ill", "z*", "id")
    assert len(split.y) == 78
    assert 2 not in split.rows
    assert "2 rows without a value of ill are left out." in split.notes


def test_leakage_is_noticed(frame):
    rng = np.random.default_rng(0)
    y = (frame["ill"] == "yes").to_numpy()
    X = frame[["x0", "x1", "id"]]
    honest = frame[["z0"]]
    assert [note for note in leakage(X[["x0", "x1"]], y, honest) if "z0" in note] == []
    Z = honest.assign(
        same=np.where(y, "ill", "well"),
        close=y + 0.3 * rng.random(80),
        copy=X["x0"],
        near=X["x0"] + 1e-9 * rng.random(80),
    )
    notes = "\n".join(leakage(X, y, Z, "ill"))
    assert "privileged column 'same' is the target 'ill' under another name" in notes
    assert "privileged column 'close' alone tells the target 'ill' almost exactly" in notes
    assert "'copy' repeats the ordinary column 'x0'" in notes
    assert "'near' is almost a copy of the ordinary column 'x0'" in notes or "'near' repeats" in notes
    assert "ordinary column 'id' has almost as many words as rows" in notes
    assert "'z0'" not in notes
