"""The summary as a table for the terminal, and progress for people who wait."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from time import monotonic

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

MARKS = {
    "helps": ("✓", "green"),
    "helps, but a plain method is as good": ("=", "yellow"),
    "gains, but not clearly more than with shuffled rows": ("~", "yellow"),
    "hurts": ("✗", "red"),
    "no clear difference": ("", ""),
}
LEGEND = (
    "gain: over the plain counterpart; best: over the best plain method; shuffled: the gain with another example's privileged "
    "row. p: the one behind the mark, Wilcoxon, Holm-adjusted. ✓ beats every plain method and both controls, = a plain method "
    "is as good, ~ gains, but not clearly more than with shuffled rows, ✗ hurts."
)


def terminal_table(summary):
    """Table of one row per method; one block for each training size.

    Returns
    -------
    rich.table.Table
    """
    protocol = summary["protocol"]
    sizes = ", ".join(str(size["train_size"]) for size in summary["sizes"])
    table = Table(
        title=Text(
            f"{protocol['metric_title']} x 100, {sizes} labelled training rows, {protocol['n_splits']} splits, mean ± "
            "standard error"
        ),
        title_justify="left",
        caption=Text(LEGEND),
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    several = len(summary["sizes"]) > 1
    if several:
        table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("method", overflow="fold")
    for name in ("score", "gain", "best", "shuffled", "p", ""):
        table.add_column(name, justify="right", no_wrap=True)
    for size in summary["sizes"]:
        usable = [row["mean"] for row in size["methods"] if row["mean"] is not None and row["role"] != "reference"]
        for row in size["methods"]:
            cells = [str(size["train_size"])] if several else []
            table.add_row(*cells, *_cells(row, max(usable, default=None)))
        table.add_section()
    return table


def _cells(row, best):
    dim = "dim" if row["role"] == "reference" else ""
    name = Text(row["title"], style=dim)
    if row["failed"]:
        return name, Text(f"{row['failed']} failed", style="red"), "", "", "", "", ""
    score = Text(f"{100 * row['mean']:.1f} ± {100 * row['error']:.1f}", style="bold" if row["mean"] == best else dim)
    if "outcome" not in row:
        return name, score, "", "", "", "", ""
    mark, colour = MARKS[row["outcome"]]
    p = "<.001" if row["p"] < 0.001 else f"{row['p']:.3f}"
    best, gain, shuffled = (_gain(row[part]) for part in ("over_best_plain", "gain", "shuffled_gain"))
    return name, score, Text(gain, style=colour), best, shuffled, p, Text(mark, style=colour)


def _gain(part):
    return f"{100 * part['mean']:+.1f}" if part else ""


def progress_bar(console):
    """A bar with count, time and remaining time."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("remaining"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )


def progress_lines(every=30.0, file=None, clock=monotonic):
    """A function ``(done, total)`` that prints how long it will take, and then a line now and then.

    Parameters
    ----------
    every : float
        Seconds between two lines.
    file : text file, optional
        The error stream if not given.
    clock : callable
        Seconds.

    Examples
    --------
    >>> import io
    >>> seconds, file = iter([0.0, 10.0, 20.0, 70.0]), io.StringIO()
    >>> report = progress_lines(30.0, file, lambda: next(seconds))
    >>> for done in (0, 10, 20, 70):
    ...     report(done, 100)
    >>> print(file.getvalue().strip())
    10 of 100 fits after 10 s; about 2 minutes in all
    70 of 100 fits after 1 minute; about 2 minutes in all
    """
    state = {}

    def report(done, total):
        now = clock()
        start, first = state.setdefault("start", (now, done))
        fresh = done - first
        due = fresh and ("said" not in state and fresh >= 0.05 * total or "said" in state and now - state["said"] >= every)
        if due:
            state["said"] = now
            whole = (now - start) * (total - first) / fresh
            print(
                f"{done} of {total} fits after {duration(now - start)}; about {duration(whole)} in all",
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


@contextmanager
def progress(stream):
    """A function ``(done, total)`` for the time of a run: a bar on a terminal, a line now and then elsewhere.

    Parameters
    ----------
    stream : text file
    """
    if not stream.isatty():
        yield progress_lines(file=stream)
        return
    from rich.console import Console

    with progress_bar(Console(file=stream)) as bar:
        task = bar.add_task("fitting", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
