"""docs/compare.md: its options exist, its example runs, its table of methods is that of the code."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lupi.cli import app
from lupi.comparison.methods import BASELINES, METHODS

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
    assert found == {m.name: m.plain for m in METHODS.values() if m.role != "plain"}
    assert starred == {m.name for m in METHODS.values() if m.role != "plain" and m.by_name}
    plain = re.findall(r"^\| `([a-z]+)` \| [^|]* \|$", compared, re.M)
    assert plain == list(BASELINES)


def test_example_of_the_page_runs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("jinja2")
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    exec(code, {})
    assert "columns" in capsys.readouterr().out
    assert (tmp_path / "report.html").exists()
