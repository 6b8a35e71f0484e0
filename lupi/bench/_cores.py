"""How busy a function keeps the cores, its worker processes included."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any


@dataclass(frozen=True)
class CoreUse:
    """What a run took.

    Attributes
    ----------
    wall_seconds : float
        By the clock.
    cpu_seconds : float
        Of this process and of its workers.
    waiting_seconds : float or None
        How long they were ready to run while other programs had the cores; None where the system does not tell.
    value : object
        What the function returned.
    """

    wall_seconds: float
    cpu_seconds: float
    waiting_seconds: float | None
    value: Any = None

    def busy(self, cores) -> float:
        """Share of the cores' time that was used.

        Examples
        --------
        >>> from lupi.bench._cores import CoreUse
        >>> CoreUse(wall_seconds=2.0, cpu_seconds=3.0, waiting_seconds=0.5).busy(2)
        0.75
        """
        return self.cpu_seconds / (cores * self.wall_seconds)

    def wanted(self, cores) -> float | None:
        """Share that was used or asked for: what :meth:`busy` would be if no other program had run."""
        if self.waiting_seconds is None:
            return None
        return (self.cpu_seconds + self.waiting_seconds) / (cores * self.wall_seconds)


def core_use(function: Callable) -> CoreUse:
    """Run a function that may start workers with joblib, and end them.

    Workers that are there already are ended first: a run pays for its own.

    Parameters
    ----------
    function : callable
        Takes no arguments.

    Returns
    -------
    CoreUse
    """
    _end_workers()
    cpu, clock, waited = _cpu_seconds(), perf_counter(), _waiting_seconds()
    value = function()
    wall = perf_counter() - clock
    # Before the workers end, after which the system forgets this figure ...
    after = _waiting_seconds()
    # ... and after they ended, when their processor time is added to that of this process.
    _end_workers()
    waiting = None if waited is None or after is None else max(0.0, after - waited)
    return CoreUse(wall, _cpu_seconds() - cpu, waiting, value)


def _end_workers():
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True)


def _cpu_seconds():
    times = os.times()
    return process_time() + times.children_user + times.children_system


def _waiting_seconds():
    """Seconds in the queue for a core, of this process' threads and of its children; None if the system does not tell."""
    try:
        threads = list(Path("/proc/self/task").iterdir())
        children = [pid for thread in threads for pid in (thread / "children").read_text().split()]
        queues = [*threads, *(Path("/proc") / pid for pid in children)]
        return sum(int((queue / "schedstat").read_text().split()[1]) for queue in queues) / 1e9
    except (OSError, IndexError, ValueError):
        return None
