"""The page on structured outputs and its examples run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from processes import STRICT

ROOT = Path(__file__).resolve().parents[2]


def test_code_of_the_page_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "structured.md").read_text(), flags=re.DOTALL)
    assert len(blocks) == 3
    page = {"__name__": "page"}
    for block in blocks:
        exec(block, page)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("[Box(")
    assert lines[1].startswith("{'words': (50,), 'tags': (60,)}")
    score, gap = map(float, lines[-1].split())
    assert score > 0.9
    assert gap <= 0.01


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("structured_localization", [r"SSVM\+ privileged +\d+\.\d+", r"SSVM\+ shuffled +\d+\.\d+"]),
        ("structured_multilabel", [r"structural SVM +exact sets +\d+\.\d%", "one SVM for each label"]),
    ],
)
def test_example_runs_and_leaves_a_plot(script, expected, tmp_path):
    command = [sys.executable, *STRICT, ROOT / "examples" / f"{script}.py", "--quick"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for pattern in expected:
        assert re.search(pattern, done.stdout), done.stdout
    assert (tmp_path / f"{script}.png").read_bytes().startswith(b"\x89PNG")
