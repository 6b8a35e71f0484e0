"""Units of work in this process, in two, and on a Dask cluster: the same bits."""

import sys

import pytest
from typer.testing import CliRunner

from lupi.cli import app
from lupi.comparison import compare
from lupi.datasets import make_privileged
from lupi.engine import workers
from lupi.engine.workers import cluster

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
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as local,
        distributed.Client(local) as client,
        cluster(local.scheduler_address),
    ):
        assert results(n_jobs=-1, store=tmp_path / "units.sqlite") == alone
        logs = client.run(lambda dask_worker: str(list(dask_worker.state.log)))
    assert any("batch_of_run_unit" in log for log in logs.values())  # it was there that the units ran
    assert results(n_jobs=1, store=tmp_path / "units.sqlite") == alone  # nothing was left to do


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
