"""docs/big_data.md: its code runs, its options exist."""

import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from lupi.cli import app
from lupi.inputs.dask_rows import IN_MEMORY, VECTORS
from lupi.run import WORKERLESS_SECONDS

PAGE = (Path(__file__).parents[2] / "docs" / "big_data.md").read_text()


def test_code_of_the_page_runs(capsys):
    dask = pytest.importorskip("dask", reason='Dask is not installed: pip install "lupi[dask]"')
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names = {}
    with dask.config.set(scheduler="synchronous"):
        exec(block, names)
        scores, y = dask.compute(names["scores"], names["y"])
    assert capsys.readouterr().out == "(1, 10) True\n"
    assert np.mean((scores > 0) == y) > 0.75


def test_options_and_numbers_of_the_page():
    usage = CliRunner().invoke(app, ["fit", "--help"], env={"COLUMNS": "300"}).output
    for option in re.findall(r"(--[a-z-]+|-o)\b", re.search(r"lupi fit .*", PAGE).group()):
        assert option in usage
    assert f"Up to {IN_MEMORY} rows" in PAGE
    assert f"about {VECTORS} numbers a" in PAGE
    assert f"{WORKERLESS_SECONDS:g} seconds" in PAGE
