"""Training on the chunks of a Dask cluster: a worker that dies in the middle changes nothing."""

import os
import signal
import time

import numpy as np
import pytest

from lupi import SVM2Plus, run
from lupi.inputs import dask_rows

distributed = pytest.importorskip("distributed", reason='Dask is not installed: pip install "lupi[dask]"')
da = pytest.importorskip("dask.array")

N, CHUNK = 5200, 700


def make_rows(numbers):
    """Rows that follow from their numbers: made wherever they are needed."""
    angles = numbers[:, None] * np.array([0.37, 1.1, 2.3, 3.7])
    return np.sin(angles) + np.cos(0.7 * angles)


def test_a_worker_dies_in_the_middle(monkeypatch):
    numbers = da.arange(N, chunks=CHUNK)
    X = numbers.map_blocks(make_rows, new_axis=1, chunks=(numbers.chunks[0], (4,)), dtype=float, meta=np.zeros((0, 0)))
    y = (X[:, 0] + 0.3 * X[:, 3] > 0).astype(int)
    Z = X[:, :2] + 0.1
    model = SVM2Plus(kernel="linear", privileged_kernel="linear")
    here = model.fit(X.compute(), y.compute(), privileged=Z.compute()).coef_
    passes = []

    def with_a_death(*arguments):
        passes.append("begun")
        for k, result in enumerate(chunked_over_blocks(*arguments)):
            if len(passes) == 3 and k == 1:
                pids = client.run(os.getpid)
                os.kill(next(iter(pids.values())), signal.SIGKILL)
            yield result

    chunked_over_blocks = dask_rows.over_blocks
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as local,
        distributed.Client(local) as client,
    ):
        before = set(client.run(os.getpid).values())
        monkeypatch.setattr(dask_rows, "over_blocks", with_a_death)
        there = model.fit(X, y, privileged=Z).coef_
        assert len(passes) > 3
        assert not before <= set(client.run(os.getpid).values())
        held = client.persist([X, y, Z])
        again = model.fit(held[0], held[1], privileged=held[2]).coef_
    np.testing.assert_allclose(there, here, rtol=1e-9)
    np.testing.assert_allclose(again, here, rtol=1e-9)


@pytest.mark.parametrize("n_rows", [10, dask_rows.IN_MEMORY + 10])
def test_the_last_worker_leaves_before_the_vectors_are_loaded(n_rows, monkeypatch):
    numbers = da.arange(n_rows, chunks=n_rows)
    monkeypatch.setattr(run, "WORKERLESS_SECONDS", 0.5)
    monkeypatch.setattr(run, "POLL_SECONDS", 0.1)

    def with_a_retirement(*arguments):
        yield from chunked_over_blocks(*arguments)
        local.scale(0)
        while client.nthreads():
            time.sleep(0.01)

    chunked_over_blocks = dask_rows.over_blocks
    monkeypatch.setattr(dask_rows, "over_blocks", with_a_retirement)
    options = {"n_workers": 1, "processes": False, "dashboard_address": ":0", "silence_logs": 50}
    with (
        distributed.LocalCluster(**options) as local,
        distributed.Client(local) as client,
        pytest.raises(ConnectionError, match=r"no workers for 0.5 seconds. Training must be started again"),
    ):
        SVM2Plus().fit(numbers[:, None], numbers % 2)
