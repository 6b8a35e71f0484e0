"""The benchmark cases and the examples run, at toy sizes, and their own checks hold."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from benchmarks import _ranking_cases as ranking

EXAMPLES = Path(__file__).parents[2] / "examples"


def load_example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_liblinear_case_compares_equal_objectives():
    figures = ranking.liblinear(n=90, d=5)
    assert len(figures) == 3
    for case in figures.values():
        assert case["liblinear objective"] == pytest.approx(case["objective"], rel=2e-4)
        assert case["gap"] <= 1e-5
        assert case["times faster"] > 0


def test_size_cases():
    large = ranking.million(d=5, sizes=(1000, 4000))
    assert large["n = 4000"]["gap"] <= 1e-6
    assert large["n = 4000"]["pairs"] > 10 * large["n = 1000"]["pairs"]
    assert "growth for 4 x the data" in large
    small = ranking.hinge(n=1000, d=5)
    for case in small.values():
        assert case["certified gap"] <= 1e-3
    for pairs in ("across", "all"):
        solvers = [small[f"{pairs}, C x pairs = 10, {solver}"]["objective"] for solver in ("newton", "bundle")]
        assert solvers[0] == pytest.approx(solvers[1], rel=2e-3)


@pytest.mark.filterwarnings("ignore:RankTransfer. the teacher")  # shuffled or weak on purpose
def test_letor_example_on_generated_queries(monkeypatch, capsys):
    example = load_example("letor_rank_transfer")
    monkeypatch.delenv("LUPI_DATA", raising=False)
    monkeypatch.setattr(example, "N_TRAIN_QUERIES", 15)
    monkeypatch.setattr(example, "CS", [1e-3, 1e-1])
    monkeypatch.setattr(example, "CS_PRIVILEGED", [1e-1])
    make_queries = example.make_queries
    monkeypatch.setattr(example, "make_queries", lambda: make_queries(n_queries=60, n_documents=10))
    example.main(2)
    rows = capsys.readouterr().out.splitlines()
    assert rows[0] == "generated: 570 documents, 57 queries with a choice"
    scores = {row[:32].strip(): float(row.split("NDCG@10")[1].split()[0]) for row in rows[2:]}
    assert scores["reference: expensive features"] > scores["ranking SVM, cheap features"]


def test_picture_example_draws(monkeypatch, tmp_path, capsys):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    example = load_example("gallery/plot_rank_transfer")
    monkeypatch.setattr(example, "CS", [1e-3])
    example.main(tmp_path / "picture.png", n_draws=2)
    assert (tmp_path / "picture.png").stat().st_size > 10_000
    assert "2 draws: average precision" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:RankTransfer. the teacher")  # shuffled or weak on purpose
def test_results_example_reports_the_control():
    example = load_example("rank_transfer_results")
    example.N_TRAIN, example.UNIT_GRID = 40, [1e-2, 1.0]
    X, privileged, y, _ = example.generated(1.0)
    plain, transfer, control, reference = example.run_split(X, privileged, y, [1e-4, 1e-2], seed=0)
    assert reference > plain > 50
    assert np.isfinite([transfer, control]).all()
