"""docs/compare.md: its options exist, its example runs, its table of methods is that of the code."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console
from summaries import summary
from typer.testing import CliRunner

from lupi.cli import app
from lupi.comparison.methods import BASELINES, DEFAULT, METHODS
from lupi.comparison.report import TerminalTable

PAGE = Path(__file__).parents[2] / "docs" / "compare.md"


def test_options_of_the_page_exist():
    text = PAGE.read_text()
    helps = {
        name: CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "300"}).output
        for name in ("compare", "fit", "predict")
    }
    named = set(re.findall(r"`(--[a-z-]+)", text)) - {"--nthreads", "--id"}
    assert len(named) > 10
    assert {option for option in named if option not in helps["compare"]} == set()
    every = set(re.findall(r"--[a-z-]+", helps["compare"])) - {"--help"}
    assert every - set(re.findall(r"--[a-z-]+", text)) == set()
    for command in ("fit", "predict"):
        for option in re.findall(r"(--[a-z-]+|-o)", re.search(rf"lupi {command} .*", text).group()):
            assert option in helps[command]


def test_methods_of_the_page_are_those_of_the_code():
    compared = PAGE.read_text().split("## What is compared")[1].split("##")[0]
    rows = re.findall(r"^\| (`[^|]*) \| [^|]* \| ([^|]*)\|$", compared, re.M)
    found, starred = {}, set()
    for cell, plains in rows:
        names, plains = (re.findall(r"`([a-z0-9+-]+)`", part) for part in (cell.split(" (")[0], plains))
        found |= dict(zip(names, plains or [""] * len(names)))
        marked = {"last two": names[-2:], "last": names[-1:]}
        how = re.search(r"\(the (last two|last) \*", cell)
        starred |= set(marked[how.group(1)] if how else names if "*" in cell.split(" (")[-1] else [])
    assert found == {m.name: m.counterpart for m in METHODS.values() if m.role != "baseline"}
    assert starred == {m.name for m in METHODS.values() if m.role != "baseline" and m.name not in DEFAULT}
    plain = re.findall(r"^\| `([a-z]+)` \| [^|]* \|$", compared, re.M)
    assert plain == list(BASELINES)


def test_example_of_the_page_runs(tmp_path, monkeypatch, capsys):
    for package in ("jinja2", "matplotlib", "pandas"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert len(blocks) == 2
    exec("\n".join(blocks), {})
    assert "columns" in capsys.readouterr().out
    for name in ("report.html", "model.lupi", "gains.png"):
        assert (tmp_path / name).stat().st_size > 1000


def test_terminal_of_the_page_is_what_the_code_prints():
    (block,) = re.findall(r"```text\n(.*?)```", PAGE.read_text(), re.S)
    file = io.StringIO()
    Console(file=file, width=80).print(TerminalTable(summary("men"), verdict=True))
    assert [line.rstrip() for line in file.getvalue().splitlines()] == block.splitlines()


def test_pictures_of_the_page_are_there_and_small():
    for name in re.findall(r"!\[[^]]+\]\(([^)]+)\)", PAGE.read_text()):
        assert 10_000 < (PAGE.parent / name).stat().st_size < 300_000
