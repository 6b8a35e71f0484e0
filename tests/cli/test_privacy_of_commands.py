"""No file that a command writes holds a value of a privileged column: tables are full of marks, and all files are searched."""

import pytest
from marks import marked_numbers, marks_in_files, standardized
from typer.testing import CliRunner

from lupi.cli import app
from lupi.datasets import make_privileged

pd = pytest.importorskip("pandas")
pytest.importorskip("jinja2")

N = 60
# No letters that some files write as codes.
WORDS = tuple(f"Ladybird{k:02}" for k in range(N // 4))


@pytest.fixture(scope="module")
def marked(tmp_path_factory):
    """A table with marked numbers and words in its privileged columns, and the marks."""
    made = make_privileged(N, 3, 1, random_state=0, as_frame=True).frame.rename(columns={"target": "ill"})
    made["z0"] = marked_numbers(N) + made["ill"]
    made["z1"] = [WORDS[k % len(WORDS)] for k in range(N)]
    path = tmp_path_factory.mktemp("tables") / "patients.csv"
    made.to_csv(path, index=False)
    numbers = made["z0"].to_numpy()
    return path, [*numbers, *standardized(numbers)]


def run(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output


COLUMNS = ("--target", "ill", "--privileged", "z*", "--kernel", "linear")


@pytest.mark.parametrize("method", ["surrogate", "svm+", "svm2+", "ranktransfer", "transfer", "distillation"])
def test_fit_and_predict(method, marked, tmp_path):
    table, numbers = marked
    said = run("fit", table, *COLUMNS, "--method", method, "-o", tmp_path / "m.lupi")
    said += run("predict", tmp_path / "m.lupi", table, "-o", tmp_path / "p.csv")
    (tmp_path / "said.txt").write_text(said)
    assert marks_in_files(tmp_path, numbers, WORDS) == []


def test_compare(marked, tmp_path):
    table, numbers = marked
    methods = ("--methods", "svm2+,surrogate-ridge", "--baselines", "linear", "--splits", 2, "--permutations", 2)
    said = run("compare", table, *COLUMNS, *methods, "--train-size", 24, "--jobs", 1, "--out", tmp_path / "r")
    (tmp_path / "said.txt").write_text(said)
    assert {path.name for path in (tmp_path / "r").iterdir()} >= {"report.html", "results.json"}
    assert marks_in_files(tmp_path, numbers, WORDS) == []


def test_the_search_opens_what_commands_write(marked, tmp_path):
    table, _ = marked
    run("fit", table, "--target", "ill", "--privileged", "x0", "--method", "svm", "-o", tmp_path / "m.lupi")
    # Here the marked columns are ordinary ones, and models keep what they have to know of these.
    assert {mark for _, _, mark in marks_in_files(tmp_path, words=WORDS)} == set(WORDS)
