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
        yield progress_lines(description)


def progress_lines(description, every=LINE_SECONDS, file=None, clock=None):
    """A function ``(done, total)`` that prints how long it will take, and then a line now and then.

    Parameters
    ----------
    description : str
        What is done.
    every : float
        Seconds between two lines.
    file : text file, optional
        The error stream if not given.
    clock : callable, optional
        Seconds; that of the machine if not given.

    Examples
    --------
    >>> import io
    >>> seconds, file = iter([0.0, 10.0, 20.0, 70.0]), io.StringIO()
    >>> report = progress_lines("fitting", 30.0, file, lambda: next(seconds))
    >>> for done in (0, 10, 20, 70):
    ...     report(done, 100)
    >>> print(file.getvalue().strip())
    fitting: 10 of 100 after 10 s; about 2 minutes in all
    fitting: 70 of 100 after 1 minute; about 2 minutes in all
    """
    state = {}

    def report(done, total):
        now = (clock or monotonic)()
        start, first = state.setdefault("start", (now, done))
        fresh = done - first
        due = fresh and (
            ("said" not in state and fresh >= 0.05 * total) or ("said" in state and now - state["said"] >= every)
        )
        if due:
            state["said"] = now
            whole = (now - start) * (total - first) / fresh
            print(
                f"{description}: {done} of {total} after {duration(now - start)}; about {duration(whole)} in all",
                file=file or sys.stderr,
                flush=True,
            )

    return report


def duration(seconds):
    """Seconds in words.

    Examples
    --------
    >>> duration(42), duration(100), duration(8000)
    ('42 s', '2 minutes', '2.2 hours')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        minutes = round(seconds / 60)
        return f"{minutes} minute{'s' if minutes != 1 else ''}"
    return f"{seconds / 3600:.1f} hours"


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
