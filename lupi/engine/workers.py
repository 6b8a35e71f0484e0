"""Where units of work run: in this process, in processes of this machine, or on a Dask cluster."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from types import FrameType
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from joblib.parallel import get_active_backend

CONNECT_SECONDS = 15
# How often a cluster is asked whether it still lives.
LOOK_SECONDS = 2.0
FINISHED_IS_KEPT = "What was finished is kept; the same call goes on from there when it is back."

_client: ContextVar[Any] = ContextVar("client", default=None)


def chosen_client() -> Any:
    """The Dask client of the :func:`cluster` that we are in; None outside."""
    return _client.get()


def count_workers(n_jobs: int | None) -> int:
    """How many units run at a time, where units are to run now.

    Examples
    --------
    >>> count_workers(1)
    1
    """
    client = _client.get()
    return int(effective_n_jobs(n_jobs)) if client is None else max(1, sum(client.ncores().values()))


@contextmanager
def cluster(scheduler: str | None = None) -> Iterator[None]:
    """Run units of work on a Dask cluster inside this block; on this machine if no address is given.

    Parameters
    ----------
    scheduler : str, optional
        Address of the scheduler, such as ``tcp://10.0.0.5:8786``.

    Examples
    --------
    >>> with cluster(None):
    ...     pass
    """
    if scheduler is None:
        yield
        return
    try:
        from distributed import Client
    except ImportError:
        raise ImportError('a scheduler needs Dask: pip install "lupi[dask]".') from None
    try:
        client = Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=True)
    except (OSError, ValueError) as problem:
        raise ValueError(
            f"no Dask scheduler answers at {scheduler!r} ({problem}); start one with `dask scheduler` and workers with "
            "`dask worker ADDRESS --nthreads 1`, and give its address, such as tcp://10.0.0.5:8786."
        ) from None
    token = _client.set(client)
    handlers = {handler: handler.level for handler in logging.getLogger("distributed").handlers}
    for handler in handlers:
        handler.setLevel(
            logging.CRITICAL + 1
        )  # what matters is said once, by an error, without tracebacks of other threads
    try:
        yield
    finally:
        _client.reset(token)
        client.close(timeout=LOOK_SECONDS)
        for handler, level in handlers.items():
            handler.setLevel(level)


def run_anywhere(
    function: Callable[..., Any], calls: Sequence[tuple[Any, ...]], *, n_jobs: int | None = 1, share: bool = True
) -> Generator[Any, None, None]:
    """``function(*call)`` for every call, wherever units are to run now; results as they arrive, in any order.

    Parameters
    ----------
    function : callable
    calls : sequence of tuple
        Arguments; they and the function have to be picklable.
    n_jobs : int, default=1
        Processes, as in joblib. A joblib backend chosen with ``parallel_config`` is used.
    share : bool, default=True
        Whether large arrays go to the workers as memory maps, which keep a copy of each until the end.

    Yields
    ------
    object
    """
    client = _client.get()
    if client is not None and calls:
        yield from _on_cluster(client, function, calls)
        return
    workers = min(effective_n_jobs(n_jobs), len(calls))
    if workers < 2:
        yield from (function(*call) for call in calls)
        return
    # One unit a batch: a batch of several would come back, and be stored, together.
    options = {"return_as": "generator_unordered", "batch_size": 1, "n_jobs": workers}
    jobs = (delayed(function)(*call) for call in calls)
    if type(get_active_backend()[0]).__name__ != "LokyBackend":
        yield from Parallel(**options)(jobs)
        return
    options |= {"max_nbytes": "1M" if share else None, "initializer": _end_with_starter}
    options["initargs"] = (os.getpid(), threading.current_thread() is threading.main_thread())
    with parallel_config("loky", inner_max_num_threads=1), _workers_first():
        try:
            yield from Parallel(**options)(jobs)
        except BrokenProcessPool:
            raise ChildProcessError(
                "a worker process was killed, perhaps by the system for want of memory; what was finished is kept, the same "
                "call goes on from there. Fewer processes (n_jobs, --jobs) need less memory."
            ) from None


def _end_with_starter(starter: int, of_main_thread: bool) -> None:
    """Let this worker end with the process that started it: orphaned, it would wait for work, and hold its output open.

    Linux ends it at once, even inside a compiled loop. It would do so at the end of the starting *thread*, too, so only for
    workers of the main thread. Elsewhere a thread of the worker looks every second, when it gets the interpreter.
    """
    if of_main_thread and sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG

    def watch() -> None:
        # An orphan gets another parent; perhaps it is one already.
        while os.getppid() == starter:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _workers_first() -> Iterator[None]:
    """SIGTERM ends the workers, then this process; a handler that somebody else has set stays."""

    def stop(number: int, frame: FrameType | None) -> None:
        print("lupi: terminated; what was finished is kept, the same command goes on from there.", file=sys.stderr)
        raise SystemExit(128 + number)

    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _on_cluster(client: Any, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    """As :func:`run_anywhere`, on the workers of a Dask client.

    A lost scheduler, or the loss of all workers that were there at the start (and hold the arguments), is an error: nothing
    runs on this machine instead.
    """
    with told_if_lost(client, FINISHED_IS_KEPT):
        first = workers_of(client)
        calls = _sent_once(client, calls)

    def check() -> None:
        if not first.keys() & client.nthreads().keys():
            raise ConnectionError("none of its workers is left")

    jobs = ((lambda call=call: client.submit(function, *call, pure=False)) for call in calls)
    yield from as_they_arrive(client, jobs, 4 * sum(first.values()), check, FINISHED_IS_KEPT)


def as_they_arrive(
    client: Any, jobs: Iterable[Callable[[], Any]], limit: int, check: Callable[[], None], advice: str
) -> Iterator[Any]:
    """Results of jobs on a cluster, in any order.

    Parameters
    ----------
    client : distributed.Client
    jobs : iterable of callable
        Each starts its work and returns a future.
    limit : int
        How many are under way at most: thousands of futures at once would be slow to look through.
    check : callable
        Called every few seconds; raises a ConnectionError where the cluster is of no use any more.
    advice : str
        What the user reads at the end of the message of a lost cluster.

    Yields
    ------
    object
    """
    from distributed import wait

    waiting, running = iter(jobs), set[Any]()
    while True:
        with told_if_lost(client, advice):
            for job in islice(waiting, limit - len(running)):
                running.add(job())
            if not running:
                return
            try:
                done, running = wait(running, timeout=LOOK_SECONDS, return_when="FIRST_COMPLETED")
            except TimeoutError:
                done = set()
            check()
        for future in done:
            with told_if_lost(client, advice):
                try:
                    problem = future.exception(timeout=LOOK_SECONDS)
                    result = future.result(timeout=LOOK_SECONDS) if problem is None else None
                except TimeoutError:  # the worker that has it is slow, or gone: then it is computed again
                    running.add(future)
                    continue
            if problem is not None:
                raise problem
            yield result


def workers_of(client: Any) -> dict[str, int]:
    """Threads of each worker, when there is one."""
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError:
        raise ConnectionError("it has no workers; start some with `dask worker ADDRESS --nthreads 1`") from None
    return dict(client.nthreads())


def _sent_once(client: Any, calls: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The calls, with arguments that several of them share sent to all workers beforehand."""
    counts = Counter(id(argument) for call in calls for argument in call)
    small = (str, int, float, tuple, type(None))
    shared = {
        id(argument): argument
        for call in calls
        for argument in call
        if counts[id(argument)] > 1 and not isinstance(argument, small) and not callable(argument)
    }
    sent = dict(zip(shared, client.scatter(list(shared.values()), broadcast=True, hash=False))) if shared else {}
    return [tuple(sent.get(id(argument), argument) for argument in call) for call in calls]


@contextmanager
def told_if_lost(client: Any, advice: str) -> Iterator[None]:
    """One readable error for all that a lost cluster raises."""
    from distributed import CancelledError
    from distributed.scheduler import KilledWorker

    try:
        yield
    except (OSError, CancelledError, KilledWorker) as problem:
        cause = "its scheduler or all its workers are gone" if isinstance(problem, CancelledError) else problem
        raise ConnectionError(f"the Dask cluster is lost: {cause}. {advice}") from None
