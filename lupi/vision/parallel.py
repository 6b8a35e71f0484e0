"""Run a function over many items on several cores, with a progress bar, without losing the rest when one fails."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, NamedTuple

from joblib import Parallel, delayed


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


def run_all(function, items, *, n_jobs=None, description="", verbose=False, catch=(), prefer="processes"):
    """``function(item)`` for every item, in order, as outcomes.

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
    prefer : {"processes", "threads"}
        Threads where the function releases the interpreter lock.

    Returns
    -------
    list of Outcome

    Examples
    --------
    >>> from lupi.vision.parallel import run_all
    >>> [outcome.value for outcome in run_all(abs, [-1, 2])]
    [1, 2]
    """
    outcomes = []
    with progress_bar(description, len(items), verbose) as advance:
        jobs = (delayed(_guarded)(function, item, catch) for item in items)
        for outcome in Parallel(n_jobs=n_jobs, prefer=prefer, return_as="generator")(jobs):
            outcomes.append(outcome)
            advance()
    return outcomes


def _guarded(function, item, catch):
    try:
        return Outcome(function(item), None)
    except catch as error:
        return Outcome(None, str(error))
