"""run_units: every unit once, in any order, and the same results wherever they run."""

import io
import json
import os
import signal
import warnings
from functools import partial
from time import monotonic

import numpy as np
import pytest
from processes import start

from lupi.engine import store as store_module
from lupi.engine import units as engine_units
from lupi.engine.store import FolderStore, MemoryStore, RunStore
from lupi.engine.units import measured, progress, progress_lines, run_units


def square(k):
    return {"square": k * k}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_store_is_decoded_once_a_unit(n_jobs, tmp_path, monkeypatch):
    """Counted, not timed: decoding all results for each new one would be 40 * 40 / 2."""
    decoded = []
    loads = json.loads
    monkeypatch.setattr(store_module.json, "loads", lambda text: decoded.append(1) or loads(text))
    work = [(str(k), square, k) for k in range(40)]
    with RunStore(tmp_path / "s", "f") as store:
        run_units(work[:20], store, n_jobs=n_jobs)
        assert len(decoded) == 20
        assert run_units(work, store, n_jobs=n_jobs) == {str(k): {"square": k * k} for k in range(40)}
    assert len(decoded) == 60


def test_only_what_is_missing_runs_and_progress_is_told(tmp_path):
    told = []
    with RunStore(tmp_path / "s", "f") as store:
        run_units([("1", square, 1)], store)
        found = run_units(
            [("1", pytest.fail, "again"), ("2", square, 2)], store, on_progress=lambda *state: told.append(state)
        )
    assert found == {"1": {"square": 1}, "2": {"square": 4}}
    assert told == [(1, 2), (2, 2)]


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_caught_errors_are_results_that_are_not_kept(n_jobs, kind, tmp_path):
    store = MemoryStore() if kind == "memory" else FolderStore(tmp_path)
    work = [(f"k{k}", _positive, k) for k in (2, -1, 3)]
    found = run_units(work, store, n_jobs=n_jobs, catch=(ArithmeticError,))
    assert [found[f"k{k}"]["root"].tolist() for k in (2, 3)] == [np.sqrt(2), np.sqrt(3)]
    assert "negative" in str(found["k-1"])
    assert store.get("k-1") is None
    with pytest.raises(ArithmeticError, match="negative"):
        run_units(work, store, n_jobs=n_jobs)


def _positive(k):
    if k < 0:
        raise ArithmeticError("negative")
    return {"root": np.sqrt(k)}


def test_files_are_written_by_the_workers_that_computed_them(tmp_path):
    found = run_units([(f"key{k}", _process, k) for k in range(4)], FolderStore(tmp_path), n_jobs=2)
    assert os.getpid() not in {int(result["pid"]) for result in found.values()}
    assert len(list(tmp_path.rglob("*.npz"))) == 4


def _process(k):
    return {"pid": np.array(os.getpid())}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_nothing_is_begun_when_the_time_is_over(n_jobs):
    work = [(name, dict, [("name", name)]) for name in "abcd"]
    with RunStore(None, "x") as store:
        run_units(work[1:2], store)
        assert run_units(work, store, n_jobs=n_jobs, until=monotonic()) == {
            "a": None,
            "b": {"name": "b"},
            "c": None,
            "d": None,
        }
        assert None not in run_units(work, store, n_jobs=n_jobs, until=monotonic() + 1e6).values()


def test_the_time_is_looked_at_after_every_unit(monkeypatch):
    moments = iter([0.0, 1.0, 2.0, 3.0])
    monkeypatch.setattr("lupi.engine.units.monotonic", lambda: next(moments))
    with RunStore(None, "x") as store:
        found = run_units([(name, dict, [("name", name)]) for name in "abcd"], store, until=2.0)
        assert [name for name, result in found.items() if result is not None] == ["a", "b"]
        assert store.get("b") is not None


def test_time_and_warnings_are_measured():
    result = measured(_noisy)
    assert (result["value"], result["warnings"]) == (1, {"RuntimeWarning": 2, "UserWarning": 1})
    assert result["seconds"] >= 0


def _noisy():
    # The last two come once in a process, or at any time: they do not count.
    for category in (UserWarning, RuntimeWarning, RuntimeWarning, DeprecationWarning, ResourceWarning):
        warnings.warn("hm", category, stacklevel=1)
    return {"value": 1}


def _deadly(folder, name, deadly):
    path = folder / name
    path.write_text(path.read_text() + "x" if path.exists() else "x")
    if deadly and len(path.read_text()) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"value": len(name)}


def test_units_resume_after_kill(tmp_path):
    code = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        "from pathlib import Path\n"
        "from test_run_units import _deadly\n"
        "from lupi.engine.store import RunStore\n"
        "from lupi.engine.units import run_units\n"
        "folder, names = Path(sys.argv[1]), ['a', 'bb', 'ccc', 'dddd']\n"
        "with RunStore(folder / 'units.sqlite', 'id') as store:\n"
        "    found = run_units([(n, _deadly, folder, n, n == 'ccc') for n in names], store)\n"
        "assert [r['value'] for r in found.values()] == [1, 2, 3, 4]\n"
    )
    here = os.path.dirname(__file__)
    assert start(tmp_path, here, code=code).wait() == -signal.SIGKILL
    assert start(tmp_path, here, code=code).wait() == 0
    # Finished units ran once; the one that was killed ran twice.
    assert [len((tmp_path / n).read_text()) for n in ("a", "bb", "ccc", "dddd")] == [1, 1, 2, 1]


def test_progress_in_a_log_is_a_line_now_and_then(capsys, monkeypatch):
    clock = iter([0.0, 10.0, 20.0, 90.0])
    lines = partial(progress_lines, clock=lambda: next(clock))
    monkeypatch.setattr(engine_units, "progress_lines", lines)
    with progress("fitting") as report:
        for done in (1, 2, 3, 9):
            report(done, 9)
    assert [line.partition(";")[0] for line in capsys.readouterr().err.splitlines()] == [
        "fitting: 2 of 9 after 10 s",
        "fitting: 9 of 9 after 2 minutes",
    ]
    with progress("fitting", shown=False) as report:
        report(1, 9)
    assert capsys.readouterr().err == ""


def test_a_forecast_is_told_at_once_and_again_when_it_is_sure():
    clock, file = iter([0.0, 2.0, 4.0, 9.0, 20.0, 75.0]), io.StringIO()
    report = progress_lines("fitting", 60.0, file, lambda: next(clock))
    report(0, 520)
    for done, left, sure in ((4, 178, False), (5, 180, False), (17, 231, True), (30, 220, True), (150, 165, True)):
        report.expect(left, sure)
        report(done, 520)
    assert file.getvalue().splitlines() == [
        "fitting: 4 of 520 after 2 s; about 3 minutes in all (a first guess)",
        "fitting: 17 of 520 after 9 s; about 4 minutes in all",
        "fitting: 150 of 520 after 1 minute; about 4 minutes in all",
    ]


def test_results_are_noted_before_progress_stored_ones_too():
    with RunStore(None, "id") as store:
        run_units([("a", dict, [("value", 1)])], store)
        seen = []
        run_units(
            [(key, dict, [("value", number)]) for key, number in (("a", 1), ("b", 2))],
            store,
            on_result=lambda key, result: seen.append((key, result["value"])),
            on_progress=lambda done, total: seen.append(done),
        )
    assert seen == [("a", 1), 1, ("b", 2), 2]


def test_progress_on_a_terminal_is_a_bar(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with progress("fitting [/x]") as report:
        report(3, 9)
        report.expect(130.0, sure=False)
    shown = capsys.readouterr().err
    assert "fitting [/x]" in shown
    assert "about 2 minutes left (a first guess)" in shown
