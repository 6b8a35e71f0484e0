"""docs/surrogate.md: its examples run, in order, and say what the text says."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "surrogate.md"


def test_examples_of_the_page_run(capsys):
    pytest.importorskip("pandas")
    space = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S):
        exec(code, space)
    printed = capsys.readouterr().out
    before, after = map(float, re.search(r"accuracy (\S+) -> (\S+)", printed).groups())
    assert after > before + 0.03
    for part in ("'alpha'", "Teachers", "more labeled rows", "Privileged columns"):
        assert part in printed


def test_the_page_names_cases_that_exist():
    from benchmarks.measure import load_cases

    assert set(re.findall(r"`python -m benchmarks ([a-z-]+)`", PAGE.read_text())) <= set(load_cases())
