"""Units of work: run them once, in this process, in worker processes or on a Dask cluster; finished results survive.

joblib runs the units of one machine, Dask those of a cluster, and one SQLite file holds the finished results.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from contextvars import ContextVar
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from joblib.parallel import get_active_backend
from threadpoolctl import threadpool_limits

import lupi
from lupi.files import digest_of

CONNECT_SECONDS = 15
# Pause between two checks of a cluster.
POLL_SECONDS = 2.0
# Time that a cluster has to replace lost workers.
WORKERLESS_SECONDS = 30.0
RESUME = "Finished results are kept; run the same command again to resume."
# Warnings of the process, not of a result.
IGNORED_WARNINGS = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
# Arguments that are sent with every call.
SMALL = (str, int, float, tuple, type(None))

_client: ContextVar[Any] = ContextVar("client", default=None)


def identity(**facts: Any) -> str:
    """Identity of a store: digest of the data and settings, given as JSON-like facts, and of the version of lupi."""
    return digest_of(facts, lupi.__version__)


class Store:
    """Finished results in one SQLite file, or in memory.

    Each result is one transaction: after a crash, Ctrl-C or ``kill -9`` the file holds every result that was added.

    A `path` of None keeps the results in memory. A file with another identity, or that is no store, raises a ValueError; a
    file that cannot be read or written now, such as on a full disk, an OSError: its results are intact.

    Examples
    --------
    >>> with Store(None, "abc") as store:
    ...     store.add("svm/0", {"score": 0.5, "kappa": float("inf")})
    ...     store.get("svm/0"), store.get("svm/1")
    ({'score': 0.5, 'kappa': inf}, None)
    """

    filled_by_workers = False
    _database: Any = None

    def __init__(self, path: str | os.PathLike[str] | None, identity: str) -> None:
        self.path = None if path is None else Path(path)
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._readable_errors():
            self._database = sqlite3.connect(self.path or ":memory:", timeout=60, isolation_level=None)
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.execute("CREATE TABLE IF NOT EXISTS unit (key TEXT PRIMARY KEY, result TEXT NOT NULL)")
        self.add("", identity)
        if self.get("") != identity:
            self.close()
            problem = "holds results of other data, other settings or another version of lupi"
            raise ValueError(f"{self.path} {problem}. Choose another file, or delete this one to start again.")

    @contextmanager
    def _readable_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:  # full, locked, read-only: the results are intact
            self.close()
            raise OSError(f"{self.path}: {error}. {RESUME}") from None
        except (sqlite3.DatabaseError, json.JSONDecodeError) as error:
            self.close()
            problem = f"is damaged or is not a store of results ({error})"
            raise ValueError(f"{self.path} {problem}. Delete it to start again.") from None

    def add(self, key: Hashable, result: Any) -> None:
        """Keep a result, a value that JSON can hold or NaN and infinities; a second one for the same key is ignored."""
        values = str(key), json.dumps(result, default=_plain)
        with self._readable_errors():
            self._database.execute("INSERT OR IGNORE INTO unit VALUES (?, ?)", values)

    def get(self, key: Hashable) -> Any:
        """Return the result for a key, or None."""
        with self._readable_errors():
            found = self._database.execute("SELECT result FROM unit WHERE key = ?", (str(key),)).fetchone()
            return None if found is None else json.loads(found[0])

    def close(self) -> None:
        """Close the file."""
        if self._database is not None:
            self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufUO" and type(value) is not np.longdouble:
        return value.tolist()
    raise TypeError(f"a result must consist of JSON values, got {type(value).__name__}.")


def run_units(
    work: Mapping[Any, tuple[Any, ...]],
    store: Any = None,
    *,
    n_jobs: int | None = 1,
    on_progress: Callable[[int, int], Any] | None = None,
    catch: tuple[type[BaseException], ...] = (),
    share: bool = True,
    deadline: float | None = None,
) -> dict[Any, Any]:
    """Run the units that the store lacks and return the results of all finished units, in the order of `work`.

    Units run with one thread each, so results do not depend on the number of workers. `work` maps a key to a function and
    its arguments, all picklable. `n_jobs` is as in joblib; inside :func:`cluster` units run on its workers. `on_progress`
    gets the numbers of finished units and of all units. Errors of the types in `catch` are returned in place of results
    and are not stored. With `share`, worker processes get large arrays as memory maps, which suits data that units share.
    After `deadline`, a time of :func:`time.monotonic`, no further result is awaited; unfinished units are left out.

    Examples
    --------
    >>> run_units({"two": (pow, 2, 2), "three": (pow, 3, 2)})
    {'two': 4, 'three': 9}
    """
    results = {} if store is None else {key: found for key in work if (found := store.get(key)) is not None}
    report = on_progress or (lambda done, total: None)
    report(len(results), len(work))

    def in_time() -> bool:
        return deadline is None or time.monotonic() < deadline

    workers_store = store if store is not None and store.filled_by_workers else None
    calls = [(key, catch, workers_store, *call) for key, call in work.items() if key not in results and in_time()]
    with closing(_arriving(calls, n_jobs, share)) as arriving:
        for key, result, error in arriving:
            if store is not None and error is None:
                if workers_store is None:
                    store.add(key, result)
                result = store.get(key)
            results[key] = result if error is None else error
            report(len(results), len(work))
            if not in_time():
                break
    return {key: results[key] for key in work if key in results}


def _run_unit(key: Any, catch: Any, store: Any, function: Callable[..., Any], *arguments: Any) -> tuple[Any, Any, Any]:
    with threadpool_limits(limits=1):
        try:
            result = function(*arguments)
        except catch as error:
            return key, None, error
    if store is not None:
        store.add(key, result)
        result = None
    return key, result, None


def measured(function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    """Result of a function that returns a dict, with its CPU `seconds` and the number of its `warnings` per category."""
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(*arguments)
    names = sorted(w.category.__name__ for w in caught if not issubclass(w.category, IGNORED_WARNINGS))
    return {**result, "warnings": dict(Counter(names)), "seconds": time.process_time() - start}


@contextmanager
def progress(description: str, shown: bool = True) -> Iterator[Callable[[int, int], Any]]:
    """Progress bar with the remaining time, on the error stream: a function ``report(done, total)``."""
    if not shown:
        yield lambda done, total: None
        return
    from rich import progress as bars
    from rich.console import Console

    counts = (bars.TextColumn("{task.description}", markup=False), bars.BarColumn(20), bars.MofNCompleteColumn())
    times = (bars.TimeElapsedColumn(), bars.TextColumn("left:"), bars.TimeRemainingColumn())
    console = Console(stderr=True)
    silent = not (console.is_terminal or console.is_jupyter)
    with bars.Progress(*counts, *times, console=console, transient=True, disable=silent) as bar:
        task = bar.add_task(description, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _arriving(calls: Sequence[tuple[Any, ...]], n_jobs: int | None, share: bool) -> Generator[Any, None, None]:
    """``_run_unit(*call)`` for every call, in any order."""
    if (client := _client.get()) is not None and calls:
        yield from _run_on_cluster(client, calls)
        return
    workers = min(effective_n_jobs(n_jobs), len(calls))
    if workers < 2:
        yield from (_run_unit(*call) for call in calls)
        return
    # One unit per batch: the units of a batch would arrive, and be stored, together.
    options: dict[str, Any] = {"return_as": "generator_unordered", "batch_size": 1, "n_jobs": workers}
    jobs = (delayed(_run_unit)(*call) for call in calls)
    if type(get_active_backend()[0]).__name__ != "LokyBackend":  # the user chose another one
        yield from Parallel(**options)(jobs)
        return
    options |= {"initializer": _end_with_parent, "initargs": (os.getpid(),), "max_nbytes": "1M" if share else None}
    with parallel_config("loky", inner_max_num_threads=1):
        try:
            yield from Parallel(**options)(jobs)
        except BrokenProcessPool:
            problem = "a worker process was killed, possibly because memory ran out"
            raise ChildProcessError(f"{problem}. {RESUME} Fewer processes (n_jobs, --jobs) need less memory.") from None


def _end_with_parent(parent: int) -> None:
    """End this worker when its parent has ended; otherwise it would wait for work."""

    def watch() -> None:  # runs beside compiled code: long loops release the interpreter lock
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def cluster(scheduler: str | None = None) -> Iterator[None]:
    """Run units of work, and passes over Dask chunks, on a Dask cluster inside this block.

    Parameters
    ----------
    scheduler : str or None, default=None
        Address of the scheduler, such as ``tcp://10.0.0.5:8786``; None: this machine.
    """
    if scheduler is None:
        yield
        return
    try:
        from distributed import Client
    except ImportError:
        raise ImportError('`scheduler` requires Dask: pip install "lupi[dask]".') from None
    try:
        client = Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=True)
    except (OSError, ValueError) as error:
        advice = "Start one with `dask scheduler` and workers with `dask worker ADDRESS --nthreads 1`"
        raise ValueError(f"no Dask scheduler answers at {scheduler!r} ({error}). {advice}.") from None
    token = _client.set(client)
    # A lost cluster is one error, not tracebacks from other threads.
    handlers = {handler: handler.level for handler in logging.getLogger("distributed").handlers}
    for handler in handlers:
        handler.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        _client.reset(token)
        client.close(timeout=POLL_SECONDS)
        for handler, level in handlers.items():
            handler.setLevel(level)


def _run_on_cluster(client: Any, calls: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    """Units on the workers of a Dask client; objects that several calls share are sent once."""
    with cluster_errors(RESUME):
        n_threads = count_threads(client)
        counts = Counter(id(argument) for call in calls for argument in call)
        large = (a for call in calls for a in call if not (isinstance(a, SMALL) or callable(a)))
        shared = {id(a): a for a in large if counts[id(a)] > 1}
        sent = dict(zip(shared, client.scatter(list(shared.values()), broadcast=True, hash=False))) if shared else {}
    calls = [tuple(sent.get(id(argument), argument) for argument in call) for call in calls]
    starts = ((lambda call=call: client.submit(_run_unit, *call, pure=False)) for call in calls)
    yield from as_they_arrive(client, starts, 4 * n_threads, RESUME)


def count_threads(client: Any) -> int:
    """Threads of all workers of a Dask client; waits for the first worker."""
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError:
        raise ConnectionError("it has no workers; start some with `dask worker ADDRESS --nthreads 1`") from None
    return int(sum(client.nthreads().values()))


def as_they_arrive(client: Any, starts: Iterable[Callable[[], Any]], limit: int, advice: str) -> Iterator[Any]:
    """Results of Dask futures in any order; each start submits one, and at most `limit` are pending."""
    from distributed import wait

    waiting, pending, last_seen = iter(starts), set[Any](), time.monotonic()
    while True:
        with cluster_errors(advice):
            pending |= {start() for start in islice(waiting, limit - len(pending))}
            if not pending:
                return
            try:
                done, pending = wait(pending, timeout=POLL_SECONDS, return_when="FIRST_COMPLETED")
            except TimeoutError:
                done = set()
            last_seen = time.monotonic() if client.nthreads() else last_seen
            if time.monotonic() - last_seen > WORKERLESS_SECONDS:
                raise ConnectionError(f"it has had no workers for {WORKERLESS_SECONDS:g} seconds")
        for future in done:
            with cluster_errors(advice):
                try:
                    error = future.exception(timeout=POLL_SECONDS)
                    result = future.result(timeout=POLL_SECONDS) if error is None else None
                except TimeoutError:  # its worker is slow or lost: Dask computes it again
                    pending.add(future)
                    continue
            if error is not None:
                raise error
            yield result


@contextmanager
def cluster_errors(advice: str) -> Iterator[None]:
    """Raise one readable ConnectionError for every error of a lost cluster."""
    from distributed import CancelledError
    from distributed.scheduler import KilledWorker

    try:
        yield
    except (OSError, CancelledError, KilledWorker) as error:
        cause = "its scheduler or all of its workers are gone" if isinstance(error, CancelledError) else error
        raise ConnectionError(f"the Dask cluster is lost: {cause}. {advice}") from None
