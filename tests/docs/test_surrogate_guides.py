"""Guides of surrogate learning: their code runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ("few_labels", "which_columns", "noisy_labels")


@pytest.mark.parametrize("page", GUIDES)
def test_code_of_the_page_runs(page, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(), re.S)
    exec(code, {})
    printed = capsys.readouterr().out
    if page == "which_columns":
        assert "schooling" in printed
    else:
        plain, with_privileged = (float(score) for score in re.findall(r"(0\.\d\d\d)$", printed, re.M)[:2])
        assert 0.6 < plain < with_privileged
