"""What tests share: who needs research data or a browser, small data, the command line. Helpers to import stand beside."""

import os
from pathlib import Path

# One thread of linear algebra per process, set before NumPy is imported: two workers with two threads each wait for each
# other most of the time. Workers of pytest and commands that tests start inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from browser import find_browser
from typer.testing import CliRunner


def pytest_collection_modifyitems(items):
    """Tests marked `data` run only where the environment variable LUPI_DATA names the folder of the research data."""
    if not os.environ.get("LUPI_DATA"):
        skip = pytest.mark.skip(reason="LUPI_DATA does not name the folder of the research data")
        for item in items:
            if item.get_closest_marker("data"):
                item.add_marker(skip)


@pytest.fixture(scope="session")
def research_data():
    """Folder of the research data, for tests marked `data`."""
    return Path(os.environ["LUPI_DATA"])


@pytest.fixture(scope="session")
def browser():
    """Path of a browser; the test is skipped where there is none."""
    return find_browser() or pytest.skip("no Chromium is installed")


@pytest.fixture(scope="session")
def arrays():
    """X, y and privileged of a small problem; not to be changed."""
    from lupi.datasets import make_privileged

    found = make_privileged(90, 4, 2, random_state=1, return_X_y_privileged=True)
    for array in found:
        array.setflags(write=False)
    return found


@pytest.fixture
def command():
    """The command `lupi` in this process: ``command("compare", table)`` gives its exit code and output."""
    from lupi.cli import app

    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])
