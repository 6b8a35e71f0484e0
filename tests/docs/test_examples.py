import re
import subprocess
import sys
from pathlib import Path

import pytest
from processes import STRICT

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("script", "methods"),
    [
        ("digits_lowres", ["SVM2+ off", "SVM2+ privileged", "SVM2+ shuffled"]),
        (
            "breast_cancer_followup",
            ["SVM+ privileged", "SVM+ shuffled", "SVM2+ off", "SVM2+ privileged", "SVM2+ shuffled"],
        ),
    ],
)
def test_example_runs_and_leaves_a_plot(script, methods, tmp_path):
    done = subprocess.run(
        [sys.executable, *STRICT, ROOT / "examples" / f"{script}.py", "--quick"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for method in methods:
        row = rf"{re.escape(method)} +\d+\.\d\d \+- \d+\.\d\d +[+-]\d+\.\d\d \+- \d+\.\d\d   SVM"
        assert re.search(row, done.stdout), done.stdout
    assert "against its shuffled control" in done.stdout
    assert (tmp_path / f"{script}.png").read_bytes().startswith(b"\x89PNG")


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
