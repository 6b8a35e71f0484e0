"""When a fit has to end, and loops that come back to Python often enough to see it (and to see Ctrl-C)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# Compiled loops cannot be interrupted: they return after about this many elementary operations, a tenth of a second.
SLICE = 20_000_000

_END: ContextVar[float] = ContextVar("end", default=float("inf"))


@contextmanager
def deadline(seconds: float | None) -> Iterator[None]:
    """Let the solvers that run inside stop after so many seconds; within another deadline the earlier one counts.

    Parameters
    ----------
    seconds : float or None
        None for no limit.

    Examples
    --------
    >>> with deadline(0.0):
    ...     out_of_time()
    True
    >>> out_of_time()
    False
    """
    end = _END.get() if seconds is None else min(_END.get(), time.monotonic() + seconds)
    before = _END.set(end)
    try:
        yield
    finally:
        _END.reset(before)


def out_of_time() -> bool:
    """Whether the time of the innermost :func:`deadline` is over; solvers ask between two steps."""
    return time.monotonic() >= _END.get()


def steps_left(max_iter: int, done: int, most: int = -1) -> int:
    """What is left for the next stage of a solver whose ``max_iter`` counts the steps of all stages.

    Parameters
    ----------
    max_iter : int
        Limit on all stages; -1 for none.
    done : int
        Steps that were taken.
    most : int
        Limit on the next stage alone; -1 for none.

    Examples
    --------
    >>> steps_left(100, 90), steps_left(100, 90, 4), steps_left(-1, 90), steps_left(-1, 90, 4)
    (10, 4, -1, 4)
    """
    if max_iter < 0:
        return most
    left = max(0, max_iter - done)
    return left if most < 0 else min(left, most)


def run_in_slices(run: Callable[[int], tuple[int, float]], limit: int, work: int) -> tuple[int, float]:
    """Repeat a compiled loop that goes on where it stopped.

    Parameters
    ----------
    run : callable
        From the largest number of steps to the steps taken, fewer where it has come to its end, and a measure of the point.
    limit : int
        Largest number of steps in all.
    work : int
        Elementary operations of a step.

    Returns
    -------
    int, float
        Steps in all, and the last measure.
    """
    size = max(1, SLICE // max(1, work))
    done = 0
    while True:
        part = min(size, limit - done)
        steps, measure = run(part)
        done += steps
        if steps < part or done >= limit or out_of_time():
            return done, measure
