import importlib.util
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


def run_quickly(script, folder, monkeypatch, capsys):
    """Output of an example script with ``--quick``, run in this process: an import of everything costs seconds."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [f"{script}.py", "--quick"])
    runpy.run_path(ROOT / "examples" / f"{script}.py", run_name="__main__")
    pyplot.close("all")
    return capsys.readouterr().out


def row(method):
    return rf"{re.escape(method)} +\d+\.\d\d \+- \d+\.\d\d +[+-]\d+\.\d\d \+- \d+\.\d\d   SVM"


SVM2_PLUS = [row(f"SVM2+ {arm}") for arm in ("off", "privileged", "shuffled")]
PLOTS = {
    "digits_lowres": [*SVM2_PLUS, "against its shuffled control"],
    "breast_cancer_followup": [
        *SVM2_PLUS,
        row("SVM+ privileged"),
        row("SVM+ shuffled"),
        "against its shuffled control",
    ],
    "structured_localization": [r"SSVM\+ privileged +\d+\.\d+", r"SSVM\+ shuffled +\d+\.\d+"],
    "structured_multilabel": [r"structural SVM +exact sets +\d+\.\d%", "one SVM for each label"],
}


@pytest.mark.parametrize("script", PLOTS)
def test_example_runs_and_leaves_a_plot(script, tmp_path, monkeypatch, capsys):
    printed = run_quickly(script, tmp_path, monkeypatch, capsys)
    for pattern in PLOTS[script]:
        assert re.search(pattern, printed), printed
    assert (tmp_path / f"{script}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("page", "script"),
    [("few_labels", "few_labels_many_followups"), ("which_columns", "which_columns"), ("noisy_labels", "noisy_labels")],
)
def test_script_of_the_page_prints_the_lines_of_its_table(page, script, tmp_path, monkeypatch, capsys):
    text = (ROOT / "docs" / f"{page}.md").read_text()
    assert f"python examples/{script}.py" in text
    printed = run_quickly(script, tmp_path, monkeypatch, capsys)
    # The page shows the same rows, measured on more splits.
    (table,) = re.findall(r"```text\n(.*?)```", text, re.S)
    assert [line[:14] for line in printed.splitlines()[:6]] == [line[:14] for line in table.splitlines()[:6]]


def test_readme_code_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert len(blocks) == 3
    names = {}
    for block in blocks:  # one after the other, as a reader would type them
        exec(block, names)
    lines = capsys.readouterr().out.splitlines()
    surrogate, plain = map(float, lines[:2])
    assert surrogate > plain + 0.03
    score, gap = next(map(float, line.split()) for line in lines if re.fullmatch(r"0\.\d+ \S+", line))
    assert score > 0.8
    assert 0 <= gap < 0.05


def load_example(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
