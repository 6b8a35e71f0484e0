"""Linear SVM2+ on Dask chunks: data larger than a worker's memory, a killed worker, ten million rows."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, process_time, sleep

import numpy as np

from benchmarks.linear import LINEAR
from benchmarks.measure import Row, case, peak_bytes, reset_peak
from lupi import SVM2Plus

# Decision and privileged features of a row.
D, S = 50, 20


def make_block(number, size, dtype="float64"):
    """Decision features, privileged features and label side by side, generated from the block's number."""
    rng = np.random.default_rng(number)
    rows = rng.standard_normal((size, D + S + 1), dtype=dtype)
    rows[:, D : D + S] *= 0.5
    rows[:, D : D + S] += rows[:, :S]
    rows[:, -1] = rows[:, D : D + S].sum(axis=1) + 3.0 * rows[:, -1] > 0
    return rows


def _collections(make, n_blocks, size, dtype="float64"):
    """X, y and privileged as Dask arrays of the blocks that ``make(k)`` returns."""
    import dask
    import dask.array as da

    shape = (size, D + S + 1)
    table = da.concatenate([da.from_delayed(dask.delayed(make)(k), shape, np.dtype(dtype)) for k in range(n_blocks)])
    return table[:, :D], table[:, -1].astype("int64"), table[:, D:-1]


@contextmanager
def _files(n_blocks, size):
    """Dask collections of the rows of ``.npy`` files, and the same rows in memory."""
    with TemporaryDirectory() as folder:
        paths = [str(Path(folder, f"{k}.npy")) for k in range(n_blocks)]
        for k, path in enumerate(paths):
            np.save(path, make_block(k, size))
        yield _collections(lambda k: np.load(paths[k]), n_blocks, size), np.concatenate([np.load(p) for p in paths])


@contextmanager
def _cluster(n_workers, memory):
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50, "memory_limit": memory}
    with LocalCluster(n_workers=n_workers, **options) as local, Client(local) as client:
        yield client


def _weights(model):
    return np.concatenate([model.coef_[0], model.intercept_, model.privileged_coef_[0], model.privileged_intercept_])


def _fit_in_memory(rows):
    start = process_time()
    model = SVM2Plus(**LINEAR).fit(rows[:, :D], rows[:, -1].astype(int), privileged=rows[:, D:-1])
    return _weights(model), process_time() - start


def _row(what, model, seconds, weights, in_memory, note):
    difference = np.max(np.abs(_weights(model) - weights)) / np.max(np.abs(weights))
    target = "weights equal to 1e-6"
    note = f"weights differ by {difference:.1e}; {note}"
    return Row(what, seconds, "the same in memory", in_memory, gap=model.dual_gap_, target=target, note=note)


@case("out-of-core", "Linear SVM2+ on Dask chunks, data 4x larger than the worker's memory, beside memory")
def out_of_core(quick):
    n_blocks, size, memory = (4, 2000, 9e8) if quick else (144, 25_000, 5e8)
    with _files(n_blocks, size) as ((X, y, Z), rows):
        weights, in_memory = _fit_in_memory(rows)
        with _cluster(1, memory) as client:
            start, clock = process_time(), monotonic()
            model = SVM2Plus(**LINEAR).fit(X, y, privileged=Z)
            workers = sum(client.run(process_time).values())
            seconds, clock = process_time() - start + workers, monotonic() - clock
    note = f"data {rows.nbytes / memory:.1f}x the memory limit of the worker; {clock:.0f} s by the clock"
    return [_row(f"n={len(rows)} in {n_blocks} chunks", model, seconds, weights, in_memory, note)]


@case("dask-killed-worker", "Linear SVM2+ on Dask chunks, a worker is killed during training, beside memory")
def dask_killed_worker(quick):
    n_blocks, size, memory = (4, 2000, 9e8) if quick else (144, 25_000, 5e8)
    with _files(n_blocks, size) as ((X, y, Z), rows), _cluster(2, memory) as client:
        weights, in_memory = _fit_in_memory(rows)
        victims = dict(client.run(os.getpid))

        def kill():
            sleep(0.2 if quick else 5.0)
            os.kill(next(iter(victims.values())), signal.SIGKILL)

        threading.Thread(target=kill, daemon=True).start()
        start = process_time()
        model = SVM2Plus(**LINEAR).fit(X, y, privileged=Z)
        seconds = process_time() - start
        left = len(set(victims) & set(client.nthreads()))
    note = f"{left} of the 2 first workers left; our time without the workers' CPU time"
    return [_row(f"n={len(rows)} in {n_blocks} chunks", model, seconds, weights, in_memory, note)]


@case("chunks-10m", "Linear SVM2+, n = 10^7, d = 50, s = 20 in single precision, generated chunk by chunk")
def chunks_ten_million(quick):
    n_blocks, size = (4, 2000) if quick else (100, 100_000)
    X, y, Z = _collections(lambda k: make_block(k, size, "float32"), n_blocks, size, "float32")
    reset_peak()
    start, clock = process_time(), monotonic()
    model = SVM2Plus(**LINEAR).fit(X, y, privileged=Z)
    seconds, clock = process_time() - start, monotonic() - clock
    data = X.nbytes + Z.nbytes
    note = f"{clock:.0f} s by the clock; peak memory {peak_bytes() / 2**20:.0f} MB, data {data / 2**20:.0f} MB"
    return [Row(f"n={n_blocks * size} in {n_blocks} chunks", seconds, gap=model.dual_gap_, note=note)]
