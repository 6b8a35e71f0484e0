"""Guides of surrogate learning: their code runs, their example scripts run, and the pages name them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from processes import STRICT

ROOT = Path(__file__).resolve().parents[2]
GUIDES = {
    "few_labels": "few_labels_many_followups",
    "which_columns": "which_columns",
    "noisy_labels": "noisy_labels",
}


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


@pytest.mark.parametrize("page", GUIDES)
def test_script_of_the_page_prints_the_lines_of_its_table(page, tmp_path):
    text = (ROOT / "docs" / f"{page}.md").read_text()
    script = f"examples/{GUIDES[page]}.py"
    assert f"python {script}" in text
    done = subprocess.run(
        [sys.executable, *STRICT, ROOT / script, "--quick"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # The page shows the same rows, measured on more splits.
    (table,) = re.findall(r"```text\n(.*?)```", text, re.S)
    assert [line[:14] for line in done.stdout.splitlines()[:6]] == [line[:14] for line in table.splitlines()[:6]]
