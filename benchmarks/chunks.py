"""Training on rows that are not in memory: Dask chunks on workers with little memory, a killed worker, ten million rows."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, process_time

from benchmarks._registry import Row, case
from benchmarks.linear import LINEAR

MEGABYTE = 1e6
# Decision and privileged features of a row.
WIDTHS = (50, 20)


def make_block(number, size, dtype="float64"):
    """Rows that follow from the block's number alone: decision features, privileged features and label side by side.

    Parameters
    ----------
    number, size : int
        Which block, and how many rows it has.
    dtype : str
        Precision of the numbers.

    Returns
    -------
    ndarray of shape (size, 71)
    """
    import numpy as np

    d, s = WIDTHS
    rng = np.random.default_rng(number)
    rows = rng.standard_normal((size, d + s + 1), dtype=dtype)
    rows[:, d : d + s] *= 0.5
    rows[:, d : d + s] += rows[:, :s]
    rows[:, -1] = rows[:, d : d + s].sum(axis=1) + 3.0 * rows[:, -1] > 0
    return rows


def _collections(table):
    """X, y and privileged of a Dask table of such rows."""
    d = WIDTHS[0]
    return table[:, :d], table[:, -1].astype("int64"), table[:, d:-1]


def _from_blocks(make, n_blocks, size, dtype):
    import dask
    import dask.array as da
    import numpy as np

    width = sum(WIDTHS) + 1
    parts = [da.from_delayed(dask.delayed(make)(k), (size, width), np.dtype(dtype)) for k in range(n_blocks)]
    return da.concatenate(parts)


@contextmanager
def _files(n_blocks, size):
    """A folder of ``.npy`` files, and the Dask table of their rows."""
    from tempfile import TemporaryDirectory

    import numpy as np

    with TemporaryDirectory() as folder:
        paths = [str(Path(folder, f"{k}.npy")) for k in range(n_blocks)]
        for k, path in enumerate(paths):
            np.save(path, make_block(k, size))
        yield _from_blocks(lambda k: np.load(paths[k]), n_blocks, size, "float64"), paths


def _in_memory(model, paths):
    """Weights of the same fit with all rows in this process."""
    import numpy as np

    d, s = WIDTHS
    blocks = [np.load(path, mmap_mode="r") for path in paths]
    n = sum(map(len, blocks))
    X, Z, y = np.empty((n, d)), np.empty((n, s)), np.empty(n, dtype=np.int64)
    for k, block in enumerate(blocks):
        rows = slice(k * len(block), (k + 1) * len(block))
        X[rows], Z[rows], y[rows] = block[:, :d], block[:, d:-1], block[:, -1]
    start = process_time()
    model.fit(X, y, privileged=Z)
    return _weights(model), process_time() - start


def _weights(model):
    import numpy as np

    return np.concatenate([model.coef_[0], model.intercept_, model.privileged_coef_[0], model.privileged_intercept_])


def _model():
    from lupi.svm.svm2_plus import SVM2Plus

    return SVM2Plus(**LINEAR)


@contextmanager
def _cluster(n_workers, memory):
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50, "memory_limit": memory}
    with LocalCluster(n_workers=n_workers, **options) as local, Client(local) as client:
        yield client


def _sizes(quick):
    """Blocks, rows of a block, and memory of a worker; half of the latter is taken by the libraries."""
    return (4, 2000, 900_000_000) if quick else (144, 25_000, 500_000_000)


def _difference(weights, other):
    import numpy as np

    return float(np.max(np.abs(weights - other)) / np.max(np.abs(other)))


@case("out-of-core", "Linear SVM2+ on Dask chunks: data 4x larger than the worker's memory, vs in memory")
def out_of_core(quick):
    """Weights equal to those of memory to 1e-6."""
    n_blocks, size, memory = _sizes(quick)
    model = _model()
    with _files(n_blocks, size) as (table, paths):
        here, seconds = _in_memory(model, paths)
        X, y, Z = _collections(table)
        with _cluster(1, memory) as client:
            start, wall = process_time(), monotonic()
            model.fit(X, y, privileged=Z)
            taken, wall = process_time() - start, monotonic() - wall
            workers = _workers_seconds(client)
        data = table.nbytes
    return [
        Row(
            f"SVM2+ n={n_blocks * size} in {n_blocks} chunks",
            taken + workers,
            "the same in memory",
            seconds,
            gap=model.dual_gap_,
            target="weights equal to 1e-6, data 4x the worker's memory",
            note=f"weights differ by {_difference(_weights(model), here):.1e}; data {data / memory:.1f}x the memory limit of the "
            f"worker ({memory / MEGABYTE:.0f} MB), which took {workers:.0f} s of the time; {wall:.0f} s wall",
        )
    ]


def _workers_seconds(client):
    """CPU seconds of the workers' processes."""
    return sum(client.run(process_time).values())


@case("dask-killed-worker", "Linear SVM2+ on Dask chunks: a worker is killed in the middle of training, vs in memory")
def dask_killed_worker(quick):
    """It finishes, with the weights of memory."""
    n_blocks, size, memory = _sizes(quick)
    model = _model()
    with _files(n_blocks, size) as (table, paths), _cluster(2, memory) as client:
        here, seconds = _in_memory(model, paths)
        victims = dict(client.run(os.getpid))
        X, y, Z = _collections(table)
        start = process_time()
        with _killed_after(4, next(iter(victims.values()))) as killed:
            model.fit(X, y, privileged=Z)
        taken = process_time() - start
        left = set(victims) & set(client.nthreads())
    return [
        Row(
            f"SVM2+ n={n_blocks * size} in {n_blocks} chunks",
            taken,
            "the same in memory",
            seconds,
            gap=model.dual_gap_,
            target="finishes, weights equal to 1e-6",
            note=f"weights differ by {_difference(_weights(model), here):.1e}; worker killed in pass {killed[0]}, "
            f"{len(left)} of 2 first workers left; ours without the workers' CPU",
        )
    ]


@contextmanager
def _killed_after(n_passes, victim):
    """Kill a process after the first block of a pass over the rows; says in which pass."""
    from lupi.svm import chunked_rows

    before, count, killed = chunked_rows.over_blocks, [0], []

    def watched(*arguments):
        count[0] += 1
        for result in before(*arguments):
            if count[0] > n_passes and not killed:
                os.kill(victim, signal.SIGKILL)
                killed.append(count[0])
            yield result

    chunked_rows.over_blocks = watched
    try:
        yield killed
    finally:
        chunked_rows.over_blocks = before


@case(
    "chunks-10m", "Linear SVM2+, n = 10^7, d = 50, s = 20 in single precision, rows made chunk by chunk in this process"
)
def chunks_ten_million(quick):
    """What the estimate for 10^9 rows in the documentation rests on."""
    from benchmarks.linear import forget_peak, peak_bytes

    n_blocks, size = (4, 2000) if quick else (100, 100_000)
    model = _model()
    table = _from_blocks(lambda k: make_block(k, size, "float32"), n_blocks, size, "float32")
    X, y, Z = _collections(table)
    forget_peak()
    with _counted() as counts:
        start, wall = process_time(), monotonic()
        model.fit(X, y, privileged=Z)
        seconds, wall = process_time() - start, monotonic() - wall
    peak = peak_bytes()
    memory = "unknown" if peak is None else f"{peak / 2**20:.0f} MB, data {table.nbytes / 2**20:.0f} MB"
    return [
        Row(
            f"SVM2+ n={n_blocks * size} in {n_blocks} chunks",
            seconds,
            gap=model.dual_gap_,
            note=f"{counts['passes']} passes in {counts['seconds']:.0f} s of CPU time, "
            f"{counts['bytes'] / MEGABYTE:.0f} MB of vectors, sums and a sample in and out of the blocks, "
            f"{model.n_iter_} steps; {wall:.0f} s wall; peak memory {memory}",
        )
    ]


@contextmanager
def _counted():
    """Passes over the rows, and bytes that go to the blocks and come back."""
    from lupi.svm import chunked_rows

    before, counts = chunked_rows.over_blocks, {"passes": 0, "bytes": 0, "seconds": 0.0}

    def watched(function, blocks, arguments):
        counts["passes"] += 1
        arguments = list(arguments)
        counts["bytes"] += sum(map(_bytes, arguments))
        start = process_time()
        for result in before(function, blocks, arguments):
            counts["bytes"] += _bytes(result)
            yield result
        counts["seconds"] += process_time() - start

    chunked_rows.over_blocks = watched
    try:
        yield counts
    finally:
        chunked_rows.over_blocks = before


def _bytes(value):
    """Bytes of the arrays in nested lists and tuples."""
    if isinstance(value, (list, tuple)):
        return sum(map(_bytes, value))
    return value.nbytes if hasattr(value, "dtype") and hasattr(value, "shape") and not isinstance(value, type) else 0
