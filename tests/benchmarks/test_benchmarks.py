"""The framework of the benchmarks, and their cases at toy sizes."""

import json
import re

import pytest
from typer import Typer
from typer.testing import CliRunner

from benchmarks import measure
from benchmarks.__main__ import main
from benchmarks.linear import sparse_data
from benchmarks.measure import NOT_INSTALLED, Row, case, cpu_time, load_cases, peer_time

app = Typer()
app.command()(main)


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def fake(monkeypatch):
    """One registered case, which takes no time."""
    monkeypatch.setattr(measure, "CASES", {})
    monkeypatch.setattr(measure, "iter_modules", lambda *args: [])

    @case("fake", "A fake case")
    def rows(quick):
        n = 10 if quick else 1000
        yield Row(f"n={n}", 0.002, "PIQP", 1.0, difference=1e-9, gap=2e-7, target=">= 80x", note="first")
        yield Row(f"n={n}", 2.0, "CVXOPT", note=NOT_INSTALLED)


def test_table_lists_times_ratios_and_missing_peers(fake):
    text = invoke("fake").stdout
    assert re.search(r"n=1000 +2 ms +1 s +500x +1.0e-09 +2.0e-07 +PIQP", text)
    assert re.search(r"n=1000 +2 s +not installed", text)
    assert "target: >= 80x" in text


def test_json_holds_figures_and_versions(fake, tmp_path):
    assert invoke("fake", "--quick", "--json", tmp_path / "out.json").exit_code == 0
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["quick"]
    assert result["cases"][0]["rows"][0]["problem"] == "n=10"
    assert result["cases"][0]["rows"][0]["ratio"] == 500.0
    assert "numpy" in result["system"]["packages"]


def test_cases_are_listed_and_unknown_ones_refused(fake):
    assert invoke("--list").stdout == "fake  A fake case\n"
    result = invoke("nope")
    assert result.exit_code == 2
    assert "no case is called 'nope'" in result.output


def test_two_cases_of_one_name_are_refused(fake):
    with pytest.raises(ValueError, match="'fake' already exists"):
        case("fake", "Another")(lambda quick: [])


def test_fastest_repeat_counts_and_missing_peers_are_not_run():
    calls = []
    assert cpu_time(lambda: calls.append(1), repeats=2).seconds >= 0
    assert len(calls) == 3  # two repeats after a warm-up
    assert peer_time("no_such_solver", lambda: calls.append(1)).note == NOT_INSTALLED
    assert len(calls) == 3


QUICK = ("svm-plus-labeled", "linear-growth", "linear-sparse", "components-million", "ranking-liblinear",
         "structured-exact", "surrogate-fit", "vision-vocabulary")  # fmt: skip


@pytest.mark.parametrize("name", QUICK)
def test_quick_cases_certify_what_they_time(name):
    rows = load_cases()[name].function(True)
    assert rows
    for row in rows:
        assert row.seconds is None or row.seconds > 0
        assert row.gap is None or row.gap <= 1e-2
        assert row.difference is None or abs(row.difference) <= 2e-3
        if "mismatches" in row.target:
            assert row.note == "0 mismatches"


def test_sparse_rows_have_unit_length():
    X, y, Z = sparse_data(50, 30, 4, 6)
    assert (X.shape, Z.shape, set(y)) == ((50, 30), (50, 4), {-1, 1})
    assert X.multiply(X).sum(axis=1) == pytest.approx(1.0)
