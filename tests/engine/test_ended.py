"""Commands that are told to end: nobody is left, nothing is lost, and the last line says why."""

import json
import signal
import sqlite3
import subprocess
from contextlib import closing

import pytest
from processes import descendants, is_alive, start, wait_until
from typer.testing import CliRunner

from lupi.cli import app
from lupi.datasets import make_privileged

pytest.importorskip("pandas")
pytest.importorskip("jinja2")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("ended") / "table.csv"
    make_privileged(120, 4, 2, random_state=0, as_frame=True).frame.to_csv(path, index=False)
    return path


def command(table, out, splits):
    plain = ["--baselines", "none", "--permutations", 0]
    columns, size = ["--target", "target", "--privileged", "z*"], ["--train-size", 40, "--splits", splits]
    return [
        "compare",
        table,
        *columns,
        *size,
        "--methods",
        "transfer",
        "--kernel",
        "linear",
        "--jobs",
        2,
        *plain,
        "--out",
        out,
    ]


def stored(out):
    files = list((out / "units").glob("*.sqlite"))
    if not files:
        return {}
    with closing(sqlite3.connect(f"file:{files[0]}?mode=ro", uri=True, timeout=30)) as connection:
        try:
            return dict(connection.execute("SELECT unit, result FROM units"))
        except sqlite3.OperationalError:  # the tables are about to be made
            return {}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_command(number, table, tmp_path, request):
    process = start(*command(table, tmp_path, splits=500))
    request.addfinalizer(process.kill)  # of a test that fails nobody is left, either
    wait_until(lambda: stored(tmp_path) or process.poll() is not None, "the command stored nothing")
    assert process.poll() is None
    family = descendants(process.pid)
    assert len(family) >= 2
    process.send_signal(number)
    # It takes a second; 30 are for a busy machine, and far less than the 300 that idle workers of joblib would stay.
    wait_until(lambda: process.poll() is not None and not any(map(is_alive, family)), f"left behind: {family}", 30)
    assert process.returncode == {signal.SIGTERM: 128 + signal.SIGTERM, signal.SIGKILL: -signal.SIGKILL}[number]
    kept = stored(tmp_path)
    n_splits = len(kept) // 3 + 2
    assert start(*command(table, tmp_path, n_splits)).wait() == 0
    now = stored(tmp_path)
    # To the last character: a unit that ran again would have taken another time.
    assert {unit: now[unit] for unit in kept} == kept
    assert len(now) >= 3 * n_splits
    assert json.loads((tmp_path / "results.json").read_text())["protocol"]["n_splits"] == n_splits


WAITS = """
import time
from lupi.cli import app

@app.command()
def wait(wrapped: bool = False):
    print("ready", flush=True)
    try:
        time.sleep(600)
    except BaseException as problem:
        if wrapped:  # as numba does when it returns an array
            raise SystemError("returned a result with an exception set") from problem
        raise

app()
"""


@pytest.mark.parametrize("words", [["wait"], ["wait", "--wrapped"]], ids=["in Python", "in compiled code"])
@pytest.mark.parametrize(("number", "said"), [(signal.SIGTERM, "terminated"), (signal.SIGINT, "stopped")])
def test_a_command_without_workers_says_why_it_ends(number, said, words, request):
    process = start(*words, code=WAITS, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    request.addfinalizer(process.kill)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    _, errors = process.communicate()
    assert process.returncode == 128 + number
    assert errors.strip() == f"lupi: {said}; what was finished is kept, the same command goes on from there."


def test_a_command_in_this_process_leaves_its_signals_alone():
    before = signal.getsignal(signal.SIGTERM)
    assert CliRunner().invoke(app, ["reproduce", "--list"]).exit_code == 0
    assert signal.getsignal(signal.SIGTERM) is before
