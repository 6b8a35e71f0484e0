"""Progress of long work: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from time import monotonic

# Between two lines of a log file.
LINE_SECONDS = 60.0


@contextmanager
def progress(description, shown=True):
    """A function ``report(done, total)`` that tells how far the work is, on the error stream.

    Parameters
    ----------
    description : str
        What is done.
    shown : bool, default=True
        False: silent.

    Examples
    --------
    >>> with progress("fitting", shown=False) as report:
    ...     report(1, 2)
    """
    if not shown:
        yield lambda done, total: None
    elif sys.stderr.isatty():
        with _bar() as bar:
            task = bar.add_task(description, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
    else:
        start = told = monotonic()

        def report(done, total):
            nonlocal told
            if monotonic() - told >= LINE_SECONDS:
                told = monotonic()
                print(f"{description}: {done} of {total} after {told - start:.0f} s", file=sys.stderr, flush=True)

        yield report


def _bar():
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("remaining"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
