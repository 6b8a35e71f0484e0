"""The page on images runs, and names options that exist."""

import re
from pathlib import Path

from typer.testing import CliRunner

from lupi.cli import app

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "vision.md").read_text()


def test_code_of_the_page_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(block, {"__name__": "page"})
    overlap, search, *scores = capsys.readouterr().out.splitlines()
    assert float(overlap) > 0.5
    assert search.endswith(" 4")
    assert [float(score) for score in scores] == [1.0, 1.0]


def test_options_exist():
    for command in ("fit", "predict", "evaluate"):
        help_text = CliRunner().invoke(app, ["localize", command, "--help"], env={"COLUMNS": "200"}).output
        for line in re.findall(rf"lupi localize {command} .*", PAGE):
            for option in re.findall(r"--[a-zA-Z-]+", line):
                assert option in help_text
