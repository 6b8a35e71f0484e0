"""`lupi compare`, `fit` and `predict`, and the page that compare writes."""

import json
import re
import shlex

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import lupi
from lupi.cli import app
from lupi.comparison.leakage import examine
from lupi.comparison.problem import make_problem
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
    given = (
        "--target",
        "ill",
        "--privileged",
        "z*",
        "--drop",
        "id",
        "--methods",
        "svm2+,surrogate-ridge,reference",
        "--splits",
        2,
    )
    more = ("--train-size", "24,40", "--kernel", "linear", "--baselines", "linear", "--permutations", 3)
    more = (*more, "--jobs", 1, "--out", out)
    return invoke("compare", table, *given, *more), out, (*given, *more)


def test_compare_writes_and_prints(report, table):
    result, out, arguments = report
    assert result.exit_code == 0, result.output
    summary = json.loads((out / "results.json").read_text())
    assert summary["data"]["classes"] == ["no", "yes"]
    assert summary["data"]["privileged_names"] == ["z0", "z1"]
    assert summary["data"]["feature_names"] == ["x0", "x1", "x2", "town"]
    assert summary["source"] == "patients.csv"
    assert summary["command"] == shlex.join(["lupi", "compare", str(table), *map(str, arguments)])
    assert summary["verdict"]["text"] in flat(result.output)
    for name in ("report.html", "results.json", "model.lupi"):
        assert name in result.output
        assert (out / name).stat().st_size > 100
    assert len(list((out / "units").iterdir())) == 1
    again = invoke("compare", table, *arguments)
    for part in ("sizes", "permutation", "seconds"):
        assert json.loads((out / "results.json").read_text())[part] == summary[part]  # nothing ran twice
    assert again.exit_code == 0


def test_a_model_that_is_none_for_a_file_does_not_cost_the_page(table, tmp_path, monkeypatch):
    def refuse(model, path):
        raise TypeError("the model contains mine.Own, which lupi.load would refuse")

    monkeypatch.setattr("lupi.persistence.save", refuse)
    few = ("--methods", "surrogate-ridge", "--baselines", "none", "--splits", 2, "--permutations", 0, "--jobs", 1)
    given = ("--target", "ill", "--privileged", "z*", "--drop", "id", *few, "--out", tmp_path / "o")
    result = invoke("compare", table, *given)
    assert result.exit_code == 0, result.output
    assert "there is no model.lupi: the model contains mine.Own" in flat(result.stderr)
    assert sorted(path.name for path in (tmp_path / "o").iterdir()) == ["report.html", "results.json", "units"]


QUICK = ("--target", "ill", "--privileged", "z*", "--drop", "id", "--baselines", "none", "--splits", 2, "--jobs", 1)
QUICK += ("--permutations", 0)
BROKEN = """
from sklearn.base import BaseEstimator, ClassifierMixin
class Broken(ClassifierMixin, BaseEstimator):
    def fit(self, X, y, privileged=None):
        raise ValueError("the matrix is singular")
"""


def check_kept(out):
    assert "</html>" in (out / "report.html").read_text()
    assert json.loads((out / "results.json").read_text())["source"] == "patients.csv"
    assert not (out / "model.lupi").exists()


@pytest.mark.parametrize("error", [ValueError("it is singular."), RuntimeError("it is singular"), KeyboardInterrupt()])
def test_results_and_report_survive_the_last_fit(error, table, tmp_path, monkeypatch):
    def fail(*args, **options):
        raise error

    monkeypatch.setattr("lupi.comparison.comparison.fit_final", fail)
    result = invoke("compare", table, *QUICK, "--methods", "surrogate-ridge", "--out", tmp_path)
    check_kept(tmp_path)
    if isinstance(error, KeyboardInterrupt):
        assert result.exit_code == 130
        assert flat(result.stderr).startswith("lupi: stopped; finished results are kept")
    else:
        assert result.exit_code == 1
        said = f"lupi: no model was written: it is singular. The results in {tmp_path} are complete and are kept."
        assert said in flat(result.stderr)


def test_a_comparison_in_which_nothing_can_be_fitted_is_reported(table, tmp_path, monkeypatch):
    (tmp_path / "broken_method.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(tmp_path)
    result = invoke("compare", table, *QUICK, "--methods", "broken_method:Broken", "--out", tmp_path / "o")
    check_kept(tmp_path / "o")
    assert result.exit_code == 1
    assert "no model to fit: ValueError: the matrix is singular. The results in" in flat(result.stderr)


def test_results_survive_a_terminal_that_cannot_show_them(table, tmp_path, monkeypatch):
    def fail(*args, **options):
        raise BrokenPipeError("the reader is gone")

    monkeypatch.setattr("rich.console.Console.print", fail)
    result = invoke("compare", table, *QUICK, "--methods", "surrogate-ridge", "--out", tmp_path)
    assert result.exit_code == 1
    assert json.loads((tmp_path / "results.json").read_text())["source"] == "patients.csv"


def test_model_of_compare_predicts_without_privileged_columns(report, table, frame, tmp_path):
    _, out, _ = report
    bare = tmp_path / "bare.parquet"
    frame[["town", "x2", "x1", "x0"]].to_parquet(bare)
    whole, without = invoke("predict", out / "model.lupi", table), invoke("predict", out / "model.lupi", bare)
    assert whole.exit_code == 0, whole.output
    assert whole.stdout == without.stdout
    lines = whole.stdout.splitlines()
    assert lines[0] == "prediction,p(no),p(yes)"
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
    refused = invoke("fit", table, *arguments)
    assert refused.exit_code == 1
    assert "or with `lupi fit --keep-privileged`" in flat(refused.output)
    assert not model.exists()
    assert invoke("fit", table, *arguments, "--keep-privileged").exit_code == 0
    result = invoke("predict", model, table)
    assert result.stdout.splitlines()[0] == "prediction"
    assert len(result.stdout.splitlines()) == 81


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compare", "nothing.csv", "--target", "a", "--privileged", "b"), "there is no file nothing.csv"),
        (
            ("compare", "TABLE", "--target", "ill"),
            "requires the column to predict (--target) and the privileged columns (--privileged)",
        ),
        (("compare", "TABLE", "--target", "sick", "--privileged", "z0"), "`target` (--target) names the column 'sick'"),
        (("compare", "TABLE", "--target", "Ill", "--privileged", "z0"), "do you mean 'ill'?"),
        (("compare", "--target", "ill"), "--target: columns of which TABLE?"),
        (
            ("compare", "TABLE", "--target", "ill", "--privileged", "z0", "--train-size", "abc"),
            "or shares such as 0.5, got 'abc'",
        ),
        (
            ("compare", "TABLE", "--target", "ill", "--privileged", "w*"),
            "`privileged` (--privileged) names the column 'w*'",
        ),
        (("compare", "TABLE", "--target", "ill", "--privileged", "ill"), "is the target and cannot be privileged"),
        (("compare", "TABLE", "--target", "ill", "--privileged", "*"), "cannot be privileged"),
        (
            ("compare", "TABLE", "--target", "ill", "--privileged", "z0", "--metric", "f1"),
            "invalid value for '--metric': 'f1' is not one of 'ap',",
        ),
        (
            ("compare", "TABLE", "--target", "ill", "--privileged", "z0", "--methods", "magic"),
            "no method is called 'magic'",
        ),
        (("compare", "TABLE", "--target", "ill", "--privileged", "z0", "--metric", "r2"), "holds words"),
        (("predict", "TABLE", "TABLE"), "damaged or is not a model"),
    ],
)
def test_errors_are_one_line(arguments, message, table, tmp_path):
    out = ("--out", tmp_path / "o") if arguments[0] == "compare" else ()
    result = invoke(*(table if a == "TABLE" else a for a in arguments), *out)
    assert result.exit_code in (1, 2)
    assert message in flat(result.output)
    assert result.stderr.startswith("lupi: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"a,b,y\n1,2,0\n1,2,3,4\n", "line 3 has 4 fields, but the header names 3"),
        (b"a,b,y\n" + b"1,2,0,\n2,3,1,\n" * 20, "line 2 has 4 fields, but the header names 3"),
        (b"a,b,y\n1,2,0\n1,2\n", "line 3 has 2 fields"),
        (b"a,b,b\n1,2,0\n", "two columns are called 'b'"),
        ("gr\u00f6\u00dfe,b\n1,2\n".encode("latin-1"), "is not UTF-8 text"),
        (b"a,b,y\n", "has no row with a value of the target 'y'"),
        (b"a,b,y\n1,2,\n", "has no row with a value of the target 'y'"),
        (b"a,b,y\n" + b"1,2,0\n2,3,1\n" * 6, "the table has 12"),
        (b"a,b,y\n" + b"1,2,0\n2,3,0\n" * 20, "got one value (0)"),
        (b"a,b,y\n" + b"1,,0\n2,,1\n" * 20, "`privileged` has no value"),
    ],
)
def test_unusable_tables_are_named(content, message, tmp_path):
    (tmp_path / "t.csv").write_bytes(content)
    result = invoke("compare", tmp_path / "t.csv", "--target", "y", "--privileged", "b", "--out", tmp_path / "o")
    assert result.exit_code == 1
    assert message in flat(result.output)
    assert "Traceback" not in result.output
    assert not (tmp_path / "o" / "report.html").exists()


def test_rows_without_a_target_are_unlabeled(frame):
    frame = frame.copy()
    frame.loc[[2, 5], "ill"] = None
    problem, metric = make_problem(frame, target="ill", privileged="z*", drop="id")
    assert problem.unlabeled.tolist() == [2, 5]
    assert (len(problem.y), metric) == (80, "auc")
    assert list(problem.dropped.columns) == ["id"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"drop": "z0,z1"}, "leaves no privileged column"),
        ({"drop": "ill"}, "is the target and cannot be dropped"),
        ({"groups": "town"}, "'town' of the groups has gaps"),
        ({"drop": "x*,town,id"}, "no column is left to predict from"),
    ],
)
def test_impossible_columns_are_named(names, message, frame):
    with pytest.raises(ValueError, match=message):
        make_problem(frame, target="ill", privileged="z*", **names)


def test_leakage_is_noticed(frame):
    rng = np.random.default_rng(0)
    y = (frame["ill"] == "yes").to_numpy()
    X = frame[["x0", "x1", "id"]]
    honest = frame[["z0"]]
    assert [note for note in examine(X[["x0", "x1"]], y, honest)[1] if "z0" in note] == []
    Z = honest.assign(
        same=np.where(y, "ill", "well"),
        close=y + 0.3 * rng.random(80),
        copy=X["x0"],
        near=X["x0"] + 1e-9 * rng.random(80),
    )
    notes = "\n".join(examine(X, y, Z, "ill")[1])
    assert "privileged column 'same' is the target 'ill' under another name" in notes
    assert "privileged column 'close' alone predicts the target 'ill' almost exactly" in notes
    assert "'copy' repeats the ordinary column 'x0'" in notes
    assert "'near' is almost a copy of the ordinary column 'x0'" in notes or "'near' repeats" in notes
    assert "ordinary column 'id' has almost as many words as rows" in notes
    assert "'z0'" not in notes


# ---------------------------------------------------------------- predict


def test_predict_keeps_the_identifier_and_escapes_formulas(frame, tmp_path):
    odd = frame.assign(ill=np.where(frame["ill"] == "yes", "=1+1", "@no"), id=[f"-{k}x" for k in range(80)])
    odd.to_csv(tmp_path / "t.csv", index=False)
    arguments = ("--target", "ill", "--privileged", "z*", "--drop", "id", "--method", "surrogate-ridge")
    assert invoke("fit", tmp_path / "t.csv", *arguments, "-o", tmp_path / "m.lupi").exit_code == 0
    result = invoke("predict", tmp_path / "m.lupi", tmp_path / "t.csv", "--id", "id")
    lines = result.stdout.splitlines()
    assert lines[0] == "id,prediction,p(=1+1),p(@no)"
    assert lines[1].startswith("'-0x,")
    assert {line.split(",")[1] for line in lines[1:]} == {"'=1+1", "'@no"}
    wrong = invoke("predict", tmp_path / "m.lupi", tmp_path / "t.csv", "--id", "nummer")
    assert wrong.exit_code == 1
    assert "(--id) names the column 'nummer'" in flat(wrong.output)
    (tmp_path / "shifted.csv").write_text((tmp_path / "t.csv").read_text().replace("\n", ",\n").replace("id,", "id", 1))
    shifted = invoke("predict", tmp_path / "m.lupi", tmp_path / "shifted.csv")
    assert shifted.exit_code == 1
    assert "line 2 has" in flat(shifted.output)


def test_names_that_look_like_markup(frame, tmp_path):
    odd = frame.rename(columns={"z0": "[/x]", "x0": "[red]a"})
    path = tmp_path / "[bold]t.csv"
    odd.to_csv(path, index=False)
    out = tmp_path / "[red]o"
    given = (
        "--target",
        "ill",
        "--privileged",
        "[/x],z1",
        "--drop",
        "id",
        "--methods",
        "surrogate-ridge",
        "--splits",
        2,
    )
    result = invoke("compare", path, *given, "--baselines", "linear", "--permutations", 0, "--jobs", 1, "--out", out)
    assert result.exit_code == 0, result.output
    assert "[red]o" in result.output
    fitted = invoke("fit", path, *given[:6], "--method", "surrogate-ridge", "-o", tmp_path / "[red]m.lupi")
    assert "[red]m.lupi" in fitted.output
    missing = invoke("compare", path, "--target", "[/y]", "--privileged", "z1", "--out", out)
    assert missing.exit_code == 1
    assert "'[/y]'" in missing.output


def test_fit_on_a_folder_of_parquet_files(tmp_path):
    pytest.importorskip("dask.dataframe", reason='Dask is not installed: pip install "lupi[dask]"')
    rng = np.random.default_rng(0)
    n, folder = 6000, tmp_path / "parts"
    folder.mkdir()
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "z0"])
    frame["color"] = np.where(frame["a"] > 0.5, "red", "blue")
    frame["ill"] = np.where(frame["a"] + frame["z0"] + 0.3 * rng.normal(size=n) > 0, "yes", "no")
    frame.loc[::10, "ill"], frame.loc[::7, "z0"] = None, np.nan
    frame.loc[3, ["a", "b", "color"]] = None  # gaps throughout a row of X are filled, too
    for k in range(4):
        frame[k::4].to_parquet(folder / f"{k}.parquet")
    arguments = ("--target", "ill", "--privileged", "z*", "-o", tmp_path / "m.lupi")
    result = invoke("fit", *sorted(folder.glob("*.parquet")), *arguments)
    assert result.exit_code == 0, result.output
    assert re.search(r"SVM2\+ \(C = .*, lam = .*\) from 5400 rows in chunks", flat(result.stdout))
    model = lupi.load(tmp_path / "m.lupi")
    assert model.info_ == {"method": "svm2+", "target": "ill", "privileged": ["z0"]}
    # The same rows in memory, encoded alike.
    known = pd.concat([frame[k::4] for k in range(4)]).dropna(subset="ill")
    hidden = StandardScaler().fit_transform(known[["z0"]])  # keeps gaps
    here = clone(model.estimator).fit(model.features_of(known), known["ill"] == "yes", privileged=hidden)
    np.testing.assert_allclose(
        model.estimator_.coef_, here.coef_, atol=0.02
    )  # the folder's encoders have seen a sample
    known.to_parquet(tmp_path / "known.parquet")
    assert invoke("predict", tmp_path / "m.lupi", tmp_path / "known.parquet", "-o", tmp_path / "p.csv").exit_code == 0
    assert (pd.read_csv(tmp_path / "p.csv")["prediction"].to_numpy() == known["ill"].to_numpy()).mean() > 0.7
    for wrong, words in (
        (("--method", "surrogate"), "--method surrogate needs the rows in memory"),
        (("--kernel", "rbf"), "--kernel rbf needs the rows in memory"),
        (("--metric", "r2"), "--metric r2 needs the rows in memory"),
    ):
        result = invoke("fit", folder, *arguments, *wrong)
        assert result.exit_code == 1
        assert words in flat(result.output)
