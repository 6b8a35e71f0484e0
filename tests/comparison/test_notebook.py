"""`Comparison` in notebooks: card, frame, plots; and what still works where the extras are missing."""

import re
import sys
from html import unescape
from io import StringIO

import pytest
from rich.console import Console
from summaries import ANSWERS, summary, with_every_outcome

from lupi.comparison.comparison import Comparison
from lupi.comparison.report import LONGEST, TerminalTable


@pytest.mark.parametrize("answer", ANSWERS)
def test_the_card_is_what_the_terminal_shows(answer):
    made = summary(answer)
    html = Comparison(made)._repr_html_()
    file = StringIO()
    Console(file=file, width=LONGEST).print(TerminalTable(made, verdict=True))
    assert unescape(re.sub(r"<[^>]+>", "", html)) == file.getvalue()
    assert answer.upper() in html
    assert "<span style=" in html


def test_card_escapes():
    made = summary("yes")
    for row in made["sizes"][-1]["methods"]:
        row["title"] = "<script>1</script>"
    made["verdict"]["text"] = "<img src=x>"
    html = Comparison(made)._repr_html_()
    assert "<script" not in html
    assert "<img" not in html


def test_frame_has_a_row_for_each_method_and_size():
    pytest.importorskip("pandas")
    made = summary("yes")
    frame = Comparison(made).to_frame()
    rows = [(size["train_size"], row) for size in made["sizes"] for row in size["methods"]]
    assert list(zip(frame["train_size"], frame["title"])) == [(n, row["title"]) for n, row in rows]
    for part in ("gain", "over_best_baseline", "over_shuffled"):
        found = frame.dropna(subset=part)
        assert found[part].tolist() == [row[part]["mean"] for _, row in rows if row["outcome"]]
        assert (found[f"{part}_low"] <= found[part]).all()
        assert (found[part] <= found[f"{part}_high"]).all()


# ---------------------------------------------------------------- plots


@pytest.fixture
def axes():
    figure = pytest.importorskip("matplotlib.figure").Figure()
    return figure.subplots()


def drawn(ax):
    """Draw without a display, and give the texts of the legend."""
    ax.figure.canvas.draw()
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_plot_gains(axes):
    made = with_every_outcome("$\\broken {} $")  # a name is no formula
    assert Comparison(made).plot_gains(axes) is axes
    drawn(axes)
    names = [label.get_text() for label in axes.get_yticklabels()]
    tested = [row for row in made["sizes"][-1]["methods"] if row["outcome"]]
    ranked = sorted(tested, key=lambda row: -row["over_best_baseline"]["mean"])
    assert names == [row["title"] for row in ranked]
    points = [float(container[0].get_xdata()[0]) for container in axes.containers]
    for row in tested:
        for part in ("over_best_baseline", "over_shuffled"):
            assert any(abs(point - 100 * row[part]["mean"]) < 1e-9 for point in points)


def test_plot_curve(axes):
    made = summary("yes")
    assert Comparison(made).plot_curve(axes) is axes
    labels = drawn(axes)
    assert labels[0] == "best baseline"
    plain = axes.lines[0]
    assert plain.get_xdata().tolist() == [20, 40]
    best = [max(row["mean"] for row in size["methods"] if row["role"] == "baseline") for size in made["sizes"]]
    assert plain.get_ydata().tolist() == pytest.approx([100 * value for value in best])
    assert len(axes.collections) == len(labels)  # a band for each curve
    with pytest.raises(ValueError, match=r"several training sizes, such as train_size=\[20, 40\]"):
        Comparison(summary("no")).plot_curve(axes)


def test_plots_make_their_own_axes(monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.delenv("DISPLAY", raising=False)
    pyplot.switch_backend("agg")
    for plot in (Comparison(summary("yes")).plot_gains, Comparison(summary("yes")).plot_curve):
        ax = plot()
        drawn(ax)
        pyplot.close(ax.figure)


def test_nothing_to_plot(axes):
    made = summary("no")
    made["sizes"][0]["methods"] = [row for row in made["sizes"][0]["methods"] if not row["outcome"]]
    with pytest.raises(ValueError, match="no gains to plot"):
        Comparison(made).plot_gains(axes)


# ---------------------------------------------------------------- without the extras


def test_what_works_without_the_extras(monkeypatch, tmp_path):
    for package in ("jinja2", "matplotlib", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, package, None)
    result = Comparison(summary("yes"))
    with (tmp_path / "out.txt").open("w") as file:
        Console(file=file, width=80).print(result.table())
    assert "surrogate, ridge" in (tmp_path / "out.txt").read_text()
    result.to_json(tmp_path / "results.json")
    assert (tmp_path / "results.json").stat().st_size > 1000
    assert "surrogate, ridge" in result._repr_html_()
    for call, package in (
        (lambda: result.to_html(tmp_path / "report.html"), "jinja2"),
        (result.plot_gains, "matplotlib"),
        (result.plot_curve, "matplotlib"),
    ):
        with pytest.raises(ImportError, match=rf'requires? {package}: pip install "lupi\[report\]"'):
            call()
    assert not (tmp_path / "report.html").exists()


def test_command_without_jinja2(monkeypatch, tmp_path):
    """A note before the work; results and model are written."""
    pd = pytest.importorskip("pandas")
    from typer.testing import CliRunner

    from lupi.cli import app
    from lupi.datasets import make_privileged

    X, y, Z = make_privileged(80, 3, 1, random_state=0, return_X_y_privileged=True)
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(z0=Z[:, 0], y=y)
    frame.to_csv(tmp_path / "t.csv", index=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    words = (
        f"compare {tmp_path / 't.csv'} --target y --privileged z0 --methods surrogate-ridge --baselines none --splits 2"
    )
    words += f" --train-size 20 --permutations 0 --jobs 1 --out {tmp_path / 'out'}"
    result = CliRunner().invoke(app, words.split())
    assert result.exit_code == 0, result.output
    assert 'there will be no report.html: pip install "lupi[report]"' in result.output
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"results.json", "model.lupi"} <= written
    assert "report.html" not in written
