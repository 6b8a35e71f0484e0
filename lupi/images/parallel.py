"""Run a function over many items on several cores, with a progress bar, without losing the rest when one fails."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from typing import Any, NamedTuple

from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from threadpoolctl import threadpool_limits


class Outcome(NamedTuple):
    """A value, or the message of what went wrong."""

    value: Any
    error: str | None


@contextmanager
def progress_bar(description, total, verbose):
    """A function that advances a bar with the remaining time on stderr; silent unless `verbose`."""
    if not verbose:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("elapsed"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(description, total=total)
        yield lambda: bar.advance(task)


def run_all(function, items, *, n_jobs=None, description="", verbose=False, catch=(), lookup=None):
    """``function(item)`` for every item, in order, as outcomes.

    Work is done in processes, each with one BLAS thread, so that neither an interpreter lock nor threads of the linear algebra
    stand in each other's way, and the number of workers does not change the last bit of a result.

    Parameters
    ----------
    function : callable
        Takes one item.
    items : sequence
        What to work on.
    n_jobs : int or None
        Workers, as in joblib.
    description : str
        Text of the progress bar.
    verbose : bool
        Whether to show it.
    catch : tuple of exception types
        These become an outcome with an error; the other items still run.
    lookup : callable or None
        Takes one item; the finished value if there is one, else None. Called first for all items, in this process: workers
        start only for what is missing.

    Returns
    -------
    list of Outcome

    Examples
    --------
    >>> from lupi.images.parallel import run_all
    >>> [outcome.value for outcome in run_all(abs, [-1, 2])]
    [1, 2]
    """
    items = list(items)
    outcomes: list[Outcome | None] = [None] * len(items)
    with progress_bar(description, len(items), verbose) as advance:
        if lookup is not None:
            for k, item in enumerate(items):
                found = _guarded(lookup, item, catch)
                if found.value is not None or found.error is not None:
                    outcomes[k] = found
                    advance()
        missing = [k for k, outcome in enumerate(outcomes) if outcome is None]
        if missing:
            jobs = (delayed(_guarded)(function, items[k], catch) for k in missing)
            workers = min(effective_n_jobs(n_jobs), len(missing))
            # Without memory maps: they would keep a copy of every large image in shared memory until the end.
            options = {
                "return_as": "generator",
                "max_nbytes": None,
                "initializer": _end_with,
                "initargs": (os.getpid(),),
            }
            # The first limit is that of the workers, the second that of this process, where one worker is enough.
            with parallel_config("loky", inner_max_num_threads=1), threadpool_limits(1, user_api="blas"):
                found = Parallel(n_jobs=workers, **options)(jobs)
                for outcome, k in zip(found, missing):
                    outcomes[k] = outcome
                    advance()
    return outcomes


def _end_with(starter):
    """Let this worker end soon after the process that started it: orphaned by `kill -9`, it would wait for work forever."""

    def watch():
        # An orphan gets another parent.
        while os.getppid() == starter:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _guarded(function, item, catch):
    try:
        return Outcome(function(item), None)
    except catch as error:
        return Outcome(None, str(error))
