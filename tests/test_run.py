"""Units of work: each runs once, interruptions lose nothing, results do not depend on where units run."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
from contextlib import closing

import numpy as np
import pytest
from processes import dask_cluster, descendants, is_alive, start, wait_until
from typer.testing import CliRunner

import lupi
from lupi import run
from lupi.cli import app
from lupi.comparison import compare
from lupi.datasets import make_privileged
from lupi.files import ArrayFolder
from lupi.inputs.dask_rows import RowBlock, over_blocks
from lupi.run import Store, cluster, identity, measured, progress, run_units


def square(k):
    return {"square": k * k}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_only_missing_units_run_and_each_result_is_decoded_once(n_jobs, tmp_path, monkeypatch):
    decoded, told, loads = [], [], json.loads
    monkeypatch.setattr(run.json, "loads", lambda text: decoded.append(1) or loads(text))
    work = {str(k): (square, k) for k in range(12)}
    with Store(tmp_path / "s", "f") as store:
        run_units(dict(list(work.items())[:6]), store, n_jobs=n_jobs)
        del decoded[:]
        work["0"] = (pytest.fail, "ran again")
        found = run_units(work, store, n_jobs=n_jobs, on_progress=lambda *state: told.append(state))
    assert list(found.items()) == [(str(k), {"square": k * k}) for k in range(12)]
    assert len(decoded) == 12
    assert told == [(done, 12) for done in range(6, 13)]


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("kind", ["none", "folder"])
def test_caught_errors_are_returned_and_not_stored(n_jobs, kind, tmp_path):
    store = None if kind == "none" else ArrayFolder(tmp_path)
    work = {f"k{k}": (_root, k) for k in (2, -1, 3)}
    found = run_units(work, store, n_jobs=n_jobs, catch=(ArithmeticError,))
    assert [found[f"k{k}"]["root"].tolist() for k in (2, 3)] == [np.sqrt(2), np.sqrt(3)]
    assert "negative" in str(found["k-1"])
    assert store is None or store.get("k-1") is None
    with pytest.raises(ArithmeticError, match="negative"):
        run_units(work, store, n_jobs=n_jobs)


def _root(k):
    if k < 0:
        raise ArithmeticError("negative")
    return {"root": np.sqrt(k)}


def test_workers_write_the_files_of_an_array_folder(tmp_path):
    found = run_units({f"key{k}": (_process,) for k in range(4)}, ArrayFolder(tmp_path), n_jobs=2)
    assert os.getpid() not in {int(result["pid"]) for result in found.values()}
    assert len(list(tmp_path.rglob("*.npz"))) == 4


def _process():
    return {"pid": np.array(os.getpid())}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_no_unit_starts_after_the_deadline(n_jobs):
    work = {name: (dict, [("name", name)]) for name in "abcd"}
    with Store(None, "x") as store:
        run_units({"b": work["b"]}, store)
        assert run_units(work, store, n_jobs=n_jobs, deadline=time.monotonic()) == {"b": {"name": "b"}}
        assert len(run_units(work, store, n_jobs=n_jobs, deadline=time.monotonic() + 1e6)) == 4


def test_the_deadline_is_checked_after_every_unit():
    def sleep(name):
        time.sleep(0.4)
        return name

    with Store(None, "x") as store:
        found = run_units({name: (sleep, name) for name in "abcd"}, store, deadline=time.monotonic() + 0.6)
        assert list(found) == ["a", "b"]
        assert store.get("b") == "b"


def test_seconds_and_warnings_are_measured():
    result = measured(_noisy)
    assert (result["value"], result["warnings"]) == (1, {"RuntimeWarning": 2, "UserWarning": 1})
    assert result["seconds"] >= 0


def _noisy():
    for category in (UserWarning, RuntimeWarning, RuntimeWarning, DeprecationWarning, ResourceWarning):
        warnings.warn("hm", category, stacklevel=1)
    return {"value": 1}


def test_progress_is_a_bar_with_the_remaining_time(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with progress("fitting [/x]") as report:
        report(3, 9)
    shown = capsys.readouterr().err
    assert "fitting [/x]" in shown
    assert "3/9" in shown
    assert "left:" in shown
    with progress("fitting", shown=False) as report:
        report(1, 9)
    assert capsys.readouterr().err == ""


def test_a_store_keeps_every_bit_and_the_first_result(tmp_path):
    value = {"score": float(np.nextafter(0.1, 1)), "kappa": np.float64(np.inf), "low": -np.inf, "n": np.int64(3)}
    with Store(tmp_path / "s", "f") as store:
        store.add("a", {**value, "mean": np.nan})
        store.add("a", {"score": 0.5})
    with Store(tmp_path / "s", "f") as store:
        found = store.get("a")
        assert np.isnan(found.pop("mean"))
        assert found == value
        assert store.get("b") is None


@pytest.mark.parametrize(
    "value", [np.longdouble(1) / 3, np.ones(2, dtype=np.longdouble), np.datetime64("NaT"), np.zeros(1, "M8[ns]"), 1j]
)
def test_a_store_refuses_what_it_could_not_give_back(value):
    with Store(None, "f") as store, pytest.raises(TypeError, match="must consist of JSON values"):
        store.add("a", {"value": [value]})


def test_other_settings_or_versions_need_another_store(tmp_path, monkeypatch):
    first = identity(seed=0)
    assert identity(seed=1) != first
    Store(tmp_path / "s", first).close()
    monkeypatch.setattr(lupi, "__version__", "0")
    with pytest.raises(ValueError, match="other data, other settings or another version"):
        Store(tmp_path / "s", identity(seed=0))


def test_a_full_disk_is_not_a_damaged_file(tmp_path):
    with Store(tmp_path / "s", "f") as store:
        store.add("a", {"value": 1})
        pages = store._database.execute("PRAGMA page_count").fetchone()[0]
        store._database.execute(f"PRAGMA max_page_count = {pages}")  # SQLITE_FULL, as on a full disk
        with pytest.raises(OSError, match=r"full.*Finished results are kept") as caught:
            store.add("b", {"value": "x" * 100_000})
    assert "elete" not in str(caught.value)
    with Store(tmp_path / "s", "f") as store:
        assert store.get("a") == {"value": 1}
        assert store.get("b") is None


@pytest.mark.parametrize("case", ["folder", "read-only", "locked"])
def test_an_inaccessible_file_is_not_a_damaged_file(case, tmp_path, monkeypatch):
    path = tmp_path / "s"
    connect = sqlite3.connect
    if case == "folder":
        path.mkdir()
    else:
        Store(path, "f").close()
    if case == "read-only":  # root ignores file permissions
        read_only = lambda p, **k: connect(f"file:{p}?mode=ro", uri=True, isolation_level=None)  # noqa: E731
        monkeypatch.setattr(sqlite3, "connect", read_only)
    if case == "locked":
        other = connect(path, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        monkeypatch.setattr(sqlite3, "connect", lambda p, **k: connect(p, **{**k, "timeout": 0}))
    words = {"folder": "unable to open", "read-only": "readonly", "locked": "locked"}[case]
    with pytest.raises(OSError, match=words) as caught:
        Store(path, "f").add("a", {})
    assert "elete" not in str(caught.value)
    if case == "locked":
        other.close()


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "s"
    path.write_bytes(b"not a database, but long enough to be read as one" * 10)
    with pytest.raises(ValueError, match=r"s is damaged or is not a store"):
        Store(path, "f")
    path.unlink()
    with Store(path, "f") as store:
        store.add("a", {})
        store._database.execute("UPDATE unit SET result = '{' WHERE key = 'a'")
        with pytest.raises(ValueError, match="s is damaged"):
            store.get("a")


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
        "from test_run import _deadly\n"
        "from lupi.run import Store, run_units\n"
        "folder, names = Path(sys.argv[1]), ['a', 'bb', 'ccc', 'dddd']\n"
        "with Store(folder / 'units.sqlite', 'id') as store:\n"
        "    found = run_units({n: (_deadly, folder, n, n == 'ccc') for n in names}, store)\n"
        "assert [r['value'] for r in found.values()] == [1, 2, 3, 4]\n"
    )
    tests = os.path.dirname(__file__)
    assert start(tmp_path, tests, code=code).wait() == -signal.SIGKILL
    assert start(tmp_path, tests, code=code).wait() == 0
    # Finished units ran once; the one that was killed ran twice.
    assert [len((tmp_path / n).read_text()) for n in ("a", "bb", "ccc", "dddd")] == [1, 1, 2, 1]


def _die(number):
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"number": number}


def test_a_killed_worker_is_a_readable_error():
    with pytest.raises(ChildProcessError, match=r"a worker process was killed, .* to resume"):
        run_units({str(k): (_die, k) for k in range(4)}, n_jobs=2)


# Commands that are ended by a signal.


def _command(table, out, splits, jobs):
    columns, size = ("--target", "target", "--privileged", "z*"), ("--train-size", 40, "--splits", splits)
    method = ("--methods", "transfer", "--kernel", "linear", "--baselines", "none", "--permutations", 0)
    return "compare", table, *columns, *size, *method, "--jobs", jobs, "--out", out


def _rows(out, query):
    files = list((out / "units").glob("*.sqlite"))
    if not files:
        return []
    with closing(sqlite3.connect(f"file:{files[0]}?mode=ro", uri=True, timeout=30)) as connection:
        try:
            return connection.execute(query).fetchall()
        except sqlite3.OperationalError:  # the table does not exist yet
            return []


def _stored(out):
    return dict(_rows(out, "SELECT key, result FROM unit WHERE key <> ''"))


def _results(out):
    """Content of `results.json` without the command, times and dates."""

    def timeless(value):
        if isinstance(value, dict):
            changing = ("command", "seconds", "median_seconds", "date")
            return {key: timeless(part) for key, part in value.items() if key not in changing}
        return [timeless(part) for part in value] if isinstance(value, list) else value

    return timeless(json.loads((out / "results.json").read_text()))


def test_workers_end_with_the_command_and_finished_units_are_kept(tmp_path, request):
    """A command that is told to end, is killed, and is killed with its whole process group, as when a machine goes down."""
    pytest.importorskip("jinja2")
    table, killed, whole = tmp_path / "table.csv", tmp_path / "killed", tmp_path / "whole"
    make_privileged(120, 4, 2, random_state=0, as_frame=True).frame.to_csv(table, index=False)
    kept: dict = {}
    for number, whole_group in ((signal.SIGTERM, False), (signal.SIGKILL, False), (signal.SIGKILL, True)):
        process = start(*_command(table, killed, splits=500, jobs=2), start_new_session=True)
        request.addfinalizer(process.kill)
        wait_until(
            lambda process=process, kept=kept: (
                process.poll() is not None or (killed.exists() and len(_stored(killed)) > len(kept))
            ),
            "the command stored nothing",
        )
        assert process.poll() is None
        family = descendants(process.pid)
        assert len(family) >= 2
        (os.killpg if whole_group else os.kill)(process.pid, number)
        # One second; 30 on a busy machine. Idle workers of joblib would stay for 300.
        wait_until(
            lambda process=process, family=family: process.poll() is not None and not any(map(is_alive, family)),
            f"left behind: {family}",
            30,
        )
        assert process.returncode == {signal.SIGTERM: 128 + signal.SIGTERM, signal.SIGKILL: -signal.SIGKILL}[number]
        assert _rows(killed, "PRAGMA integrity_check") == [("ok",)]
        now = _stored(killed)
        # To the last character: a unit that ran again would have taken another time.
        assert {unit: now[unit] for unit in kept} == kept
        kept = now
    n_splits = len(kept) // 3 + 2
    for out in (killed, whole):  # the interrupted comparison, and an undisturbed one
        done = CliRunner().invoke(app, [str(word) for word in _command(table, out, n_splits, jobs=1)])
        assert done.exit_code == 0, done.output
    now = _stored(killed)
    assert {unit: now[unit] for unit in kept} == kept
    assert now.keys() >= _stored(whole).keys()
    assert len(_stored(whole)) == 3 * n_splits
    assert _results(killed) == _results(whole)
    assert _results(killed)["protocol"]["n_splits"] == n_splits


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
def test_a_command_reports_the_signal_that_ended_it(number, said, words, request):
    process = start(*words, code=WAITS, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    request.addfinalizer(process.kill)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    _, errors = process.communicate()
    assert process.returncode == 128 + number
    assert errors.strip().startswith(f"lupi: {said}")


# Dask clusters.

GRIDS = {"svm": {"C": [0.1, 1.0]}, "svm+": {"C": [0.1, 1.0], "lam": [1.0]}, "transfer": {"estimator__C": [1.0]}}
OPTIONS = {"n_splits": 3, "train_size": 30, "kernel": "linear", "inner_folds": 2, "grids": GRIDS}
OPTIONS |= {"baselines": [], "permutations": 2, "columns": False}


@pytest.fixture(scope="module")
def distributed():
    return pytest.importorskip("distributed", reason='Dask is not installed: pip install "lupi[dask]"')


def results(**options):
    arrays = make_privileged(90, 4, 2, random_state=1, return_X_y_privileged=True)
    summary = compare(*arrays, methods=["svm+", "transfer"], **OPTIONS, **options).summary
    kept = ("name", "scores", "params", "mean", "error", "gain", "over_shuffled", "p", "outcome")
    return summary["verdict"], [{k: row.get(k) for k in kept} for row in summary["sizes"][0]["methods"]]


def test_one_process_two_processes_and_dask_give_the_same_bits(distributed, tmp_path):
    alone = results(n_jobs=1)
    assert results(n_jobs=2) == alone
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as local,
        distributed.Client(local) as client,
        cluster(local.scheduler_address),
    ):
        assert results(n_jobs=-1, store=tmp_path / "units.sqlite") == alone
        logs = client.run(lambda dask_worker: str(list(dask_worker.state.log)))
    assert any("_run_unit-" in log for log in logs.values())  # the units ran on the workers
    assert results(n_jobs=1, store=tmp_path / "units.sqlite") == alone  # nothing was left to do


@pytest.fixture
def scheduler(distributed, tmp_path):
    with dask_cluster(tmp_path) as found:
        yield found


@pytest.mark.parametrize("lost", ["scheduler", "worker"])
def test_a_lost_cluster_is_an_error_and_loses_nothing(lost, scheduler, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "WORKERLESS_SECONDS", 3.0)
    address, *processes = scheduler
    victim = processes[lost == "worker"].pid

    def slow(k):  # a closure: the workers cannot import this file
        time.sleep(30 * (k > 1))
        return {"k": k}

    def kill(done, total):
        if done == 2:
            os.kill(victim, signal.SIGKILL)

    work = {str(k): (slow, k) for k in range(8)}
    with Store(tmp_path / "units.sqlite", "f") as store, cluster(address):
        with pytest.raises(ConnectionError, match=r"cluster is lost.*Finished results are kept"):
            run_units(work, store, on_progress=kill)
        assert [store.get(str(k)) for k in range(3)] == [{"k": 0}, {"k": 1}, None]


def test_a_pass_over_blocks_ends_with_its_scheduler(scheduler):
    address, victim, _ = scheduler
    slow = lambda block, k: (time.sleep(30 * (k > 1)), k)[1]  # noqa: E731 (a closure, as above)
    blocks = [RowBlock({}, {}, k) for k in range(6)]
    results = over_blocks(slow, blocks, [(k,) for k in range(6)])
    with cluster(address):
        assert [next(results), next(results)] == [0, 1]
        os.kill(victim.pid, signal.SIGKILL)
        with pytest.raises(ConnectionError, match=r"cluster is lost.*Training must be started again"):
            next(results)


def test_shared_arguments_are_sent_once_and_errors_of_units_are_raised(scheduler, monkeypatch):
    from distributed import Client

    sent, scatter = [], Client.scatter
    monkeypatch.setattr(Client, "scatter", lambda self, data, **k: sent.extend(data) or scatter(self, data, **k))
    table = {"rows": [1.0]}
    with cluster(scheduler[0]):
        found = run_units({name: (dict.get, table, name) for name in ("rows", "seed")} | {"c": (dict, {"k": 1})})
        assert sent == [table]
        assert found == {"rows": [1.0], "seed": None, "c": {"k": 1}}
        with pytest.raises(FileNotFoundError, match="nowhere"):
            run_units({"a": (open, "/nowhere")})


def test_a_scheduler_without_workers_is_an_error(distributed, monkeypatch):
    monkeypatch.setattr(run, "CONNECT_SECONDS", 1)
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as local,
        cluster(local.scheduler_address),
        pytest.raises(
            ConnectionError, match=r"it has no workers; start some with `dask worker.*Finished results are kept"
        ),
    ):
        run_units({"a": (pow, 2, 2)})


def test_a_missing_scheduler_is_named(distributed, monkeypatch, tmp_path):
    monkeypatch.setattr(run, "CONNECT_SECONDS", 1)
    result = CliRunner().invoke(app, ["compare", "--scheduler", "tcp://127.0.0.1:9", "--out", str(tmp_path)])
    assert result.exit_code == 1
    assert "no Dask scheduler answers at 'tcp://127.0.0.1:9'" in result.output
    assert "Traceback" not in result.output


def test_a_missing_package_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "distributed", None)
    result = CliRunner().invoke(app, ["compare", "--out", str(tmp_path), "--scheduler", "tcp://127.0.0.1:9"])
    assert result.exit_code == 1
    assert 'pip install "lupi[dask]"' in result.output
