"""`lupi predict` on tables that are read in chunks, and its notes."""

import os

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge

import lupi
from lupi.tabular.table import read_chunks, read_file

pd = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    made = pd.DataFrame(
        {"a": rng.normal(size=60), "n": rng.integers(0, 5, 60), "town": rng.choice(["Ulm", "Bonn"], 60)}
    )
    made["day"] = pd.Timestamp("2020-01-20") + pd.to_timedelta(rng.integers(0, 300, 60), "D")
    made.loc[::7, "a"] = None
    return made


@pytest.fixture(scope="module")
def model(frame, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.lupi"
    lupi.save(lupi.tabular_model(LogisticRegression()).fit(frame, frame["a"].fillna(0) > 0), path)
    return path


def written(frame, folder, kind):
    path = folder / f"t.{kind}"
    if kind == "parquet":
        frame.to_parquet(path)
    elif kind == "jsonl":
        frame.to_json(path, orient="records", lines=True, date_format="iso", double_precision=15)
    else:
        frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "jsonl"])
def test_chunks_of_a_file_are_the_whole_file(kind, frame, model, tmp_path, command, monkeypatch):
    path = written(frame, tmp_path, kind)
    chunks = list(read_chunks(path, 25))
    assert [len(chunk) for chunk, _ in chunks] == [25, 25, 10]
    assert {total for _, total in chunks} == {60}
    whole = command("predict", model, path, "--id", "town")
    monkeypatch.setattr("lupi.cli.shared.CHUNK_ROWS", 25)
    assert command("predict", model, path, "--id", "town", "-o", tmp_path / "p.csv").exit_code == 0
    assert (tmp_path / "p.csv").read_text() == whole.stdout
    assert whole.stdout.splitlines()[0] == "town,prediction,p(False),p(True)"
    assert whole.stdout.count("\n") == 61
    found = pd.read_csv(tmp_path / "p.csv")
    expected = lupi.load(model).predict_proba(frame)
    np.testing.assert_allclose(found[["p(False)", "p(True)"]], expected, rtol=1e-12, atol=1e-12)


def test_decimal_commas_count_for_all_chunks(tmp_path):
    (tmp_path / "t.csv").write_text("a;b\n1;2\n1,234;3\n0,5;4\n")
    assert [chunk.attrs for chunk, _ in read_chunks(tmp_path / "t.csv", 1)] == [{"decimal": ","}] * 3
    assert read_file(tmp_path / "t.csv")["a"].tolist() == ["1", "1,234", "0,5"]


@pytest.mark.parametrize(
    ("estimator", "columns"),
    [
        (RandomForestClassifier(3), "prediction,p(no),p(yes)"),
        (Ridge(), "prediction"),
        (lupi.SVM2Plus(), "prediction,score"),
    ],
)
def test_predictions_are_those_of_the_model(estimator, columns, frame, tmp_path, command):
    y = frame["n"] * 1.0 if columns == "prediction" else np.where(frame["n"] > 2, "yes", "no")
    fitted = lupi.tabular_model(estimator, privileged="n").fit(frame, y)
    lupi.save(fitted, tmp_path / "m.lupi")
    result = command("predict", tmp_path / "m.lupi", written(frame, tmp_path, "csv"))
    assert result.stdout.splitlines()[0] == columns
    found = [line.split(",")[0] for line in result.stdout.splitlines()[1:]]
    assert found == [str(label) for label in fitted.predict(frame)]


def test_three_classes_have_three_probabilities(frame, tmp_path, command):
    fitted = lupi.tabular_model(lupi.SurrogateClassifier("ridge")).fit(frame, np.array(["a", "b", "c"])[frame["n"] % 3])
    lupi.save(fitted, tmp_path / "m.lupi")
    result = command("predict", tmp_path / "m.lupi", written(frame, tmp_path, "csv"), "-o", tmp_path / "p.csv")
    assert result.exit_code == 0, result.output
    found = pd.read_csv(tmp_path / "p.csv")
    assert list(found) == ["prediction", "p(a)", "p(b)", "p(c)"]
    assert (found["prediction"] == fitted.predict(frame)).all()
    np.testing.assert_allclose(found.drop(columns="prediction"), fitted.predict_proba(frame), rtol=1e-12)


def test_fit_keeps_groups_together_and_names_columns_of_text(frame, tmp_path, command, monkeypatch):
    from lupi.comparison import units

    seen, folds = [], units.inner_folds
    monkeypatch.setattr(units, "inner_folds", lambda *given: seen.append((given[2], folds(*given))) or seen[-1][1])
    text = [f"seen in {town} with {k} others" for k, town in enumerate(frame["town"])]
    table = frame.assign(text=text, subject=np.arange(60) // 3 + 100, ill=np.arange(60) % 2, z=frame["n"])
    options = ["--target", "ill", "--privileged", "z", "--method", "linear", "-o", tmp_path / "m.lupi"]
    result = command("fit", written(table, tmp_path, "csv"), *options, "--groups", "subject")
    assert result.exit_code == 0, result.output
    ((train, found),) = seen
    assert all(not set(train.groups[inner]) & set(train.groups[outer]) for inner, outer in found)
    assert "subject" not in lupi.load(tmp_path / "m.lupi").schema_.columns
    assert "note: Columns of free text (TF-IDF, at most 100 features each): 'text'." in result.stderr


def test_cells_that_count_as_gaps_are_noted_with_their_number(frame, model, tmp_path, command, monkeypatch):
    monkeypatch.setattr("lupi.cli.shared.CHUNK_ROWS", 25)
    odd = frame.astype({"n": object, "town": object})
    odd.loc[[20, 30], "n"] = "?"
    odd.loc[[3, 58, 59], "town"] = ["Paris", "Rome", "Kiel"]
    result = command("predict", model, written(odd, tmp_path, "csv"), "-o", tmp_path / "p.csv")
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "note: the column 'n' should hold finite numbers, but 2 of 60 cells do not, such as '?'; they count as gaps.",
        "note: the column 'town' should hold words that the model knows, but 3 of 60 cells do not, such as 'Paris'; "
        "they count as gaps.",
    ]
    odd.loc[[20, 30, 40, 50], "n"] = "?"
    before = (tmp_path / "p.csv").read_bytes()
    for output in ([], ["-o", tmp_path / "p.csv"]):
        result = command("predict", model, written(odd, tmp_path, "csv"), *output)
        assert result.exit_code == 1
        assert "column 'n' must hold finite numbers, but 4 of 60 cells do not, such as '?'" in result.stderr
        assert result.stdout == ""
    assert (tmp_path / "p.csv").read_bytes() == before


def test_a_stopped_prediction_leaves_no_file(frame, model, tmp_path, command, monkeypatch):
    def stop(path, rows):
        yield frame, 120
        assert len(list(tmp_path.iterdir())) == 2  # the table and a temporary file
        raise KeyboardInterrupt

    path = written(frame, tmp_path, "csv")
    monkeypatch.setattr("lupi.tabular.table.read_chunks", stop)
    result = command("predict", model, path, "-o", tmp_path / "p.csv")
    assert result.exit_code == 130
    assert result.stderr == "lupi: stopped.\n"
    assert os.listdir(tmp_path) == ["t.csv"]


@pytest.mark.filterwarnings("default")
def test_ambiguous_dates_of_training_are_noted(frame, tmp_path, command):
    early = frame.assign(day="03/04/2020", ill=frame["n"] % 2, z=frame["n"])
    options = ["--target", "ill", "--privileged", "z", "--method", "surrogate-ridge", "-o", tmp_path / "m.lupi"]
    result = command("fit", written(early, tmp_path, "csv"), *options)
    assert result.exit_code == 0, result.output
    assert "note: the column 'day': '03/04/2020' and all other dates can be read as %m/%d/%Y and as" in result.stderr
