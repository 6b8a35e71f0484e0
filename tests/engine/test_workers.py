"""Units of work in this process, in two, and on a Dask cluster: the same bits."""

import os
import signal
import sys
import time

import pytest
from processes import dask_cluster
from typer.testing import CliRunner

from lupi.cli import app
from lupi.comparison import compare
from lupi.datasets import make_privileged
from lupi.engine import workers
from lupi.engine.store import RunStore
from lupi.engine.units import run_units
from lupi.engine.workers import cluster
from lupi.inputs.chunks import RowBlock
from lupi.inputs.passes import over_blocks

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
    assert any("_run-" in log for log in logs.values())  # it was there that the units ran
    assert results(n_jobs=1, store=tmp_path / "units.sqlite") == alone  # nothing was left to do


@pytest.fixture
def scheduler(distributed, tmp_path):
    with dask_cluster(tmp_path) as found:
        yield found


@pytest.mark.parametrize("lost", ["scheduler", "worker"])
def test_a_lost_cluster_is_an_error_and_loses_nothing(lost, scheduler, tmp_path):
    address, *processes = scheduler
    victim = processes[lost == "worker"].pid

    def slow(k):  # a closure: the cluster does not know this file
        time.sleep(30 * (k > 1))
        return {"k": k}

    def kill(done, total):
        if done == 2:
            os.kill(victim, signal.SIGKILL)

    work = [(str(k), slow, k) for k in range(8)]
    with RunStore(tmp_path / "units.sqlite", "f") as store, cluster(address):
        with pytest.raises(ConnectionError, match=r"cluster is lost.*What was finished is kept"):
            run_units(work, store, on_progress=kill)
        assert [store.get(str(k)) for k in range(3)] == [{"k": 0}, {"k": 1}, None]


def test_a_pass_over_blocks_ends_with_its_scheduler(scheduler):
    address, victim, _ = scheduler
    slow = lambda block, k: (time.sleep(30 * (k > 1)), k)[1]  # noqa: E731 (a closure: the cluster does not know this file)
    blocks = [RowBlock({}, {}, k) for k in range(6)]
    results = over_blocks(slow, blocks, [(k,) for k in range(6)])
    with cluster(address):
        assert [next(results), next(results)] == [0, 1]
        os.kill(victim.pid, signal.SIGKILL)
        with pytest.raises(ConnectionError, match=r"cluster is lost.*nothing runs on this machine instead"):
            next(results)


def test_what_units_share_is_sent_once():
    class Client:
        sent = []

        def scatter(self, values, **options):
            self.sent += values
            return [f"future {k}" for k in range(len(values))]

    table, unit = {"rows": [1.0]}, {"seed": 0}
    calls = workers._sent_once(
        Client(), [("a", (), None, dict, unit, table), ("b", (), None, dict, {"seed": 1}, table)]
    )
    assert Client.sent == [table]
    assert calls == [("a", (), None, dict, unit, "future 0"), ("b", (), None, dict, {"seed": 1}, "future 0")]


def test_errors_of_units_on_a_cluster_are_their_own(scheduler):
    with RunStore(None, "f") as store, cluster(scheduler[0]):
        with pytest.raises(FileNotFoundError, match="nowhere"):
            run_units([("a", open, "/nowhere")], store)
        assert run_units([("b", dict, {"k": 1})], store) == {"b": {"k": 1}}


def test_no_scheduler_there(distributed, monkeypatch, tmp_path):
    monkeypatch.setattr(workers, "CONNECT_SECONDS", 1)
    result = CliRunner().invoke(app, ["compare", "--scheduler", "tcp://127.0.0.1:9", "--out", str(tmp_path)])
    assert result.exit_code == 1
    assert "no Dask scheduler answers at 'tcp://127.0.0.1:9'" in result.output
    assert "Traceback" not in result.output


def test_without_dask_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "distributed", None)
    for command in (["compare", "--out", str(tmp_path)], ["reproduce", "mnist-plus"]):
        result = CliRunner().invoke(app, [*command, "--scheduler", "tcp://127.0.0.1:9"])
        assert result.exit_code == 1
        assert 'pip install "lupi[dask]"' in result.output


def _die(number):
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"number": number}


def test_a_killed_worker_is_told_in_words():
    """As when the system runs out of memory."""
    with pytest.raises(ChildProcessError, match=r"a worker process was killed, .* goes on from there"):
        run_units([(str(k), _die, k) for k in range(4)], RunStore(None, "deaths"), n_jobs=2)
