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
        How long the workers (without any: this process) were ready to run while other programs had the cores; None where the
        system does not tell.
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
        >>> from benchmarks._cores import CoreUse
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
    before, cpu, clock = _queues(), _cpu_seconds(), perf_counter()
    value = function()
    wall = perf_counter() - clock
    # Before the workers end, after which the system forgets this figure ...
    after = _queues()
    # ... and after they ended, when their processor time is added to that of this process.
    _end_workers()
    own = str(os.getpid())
    waiting = sum(time - before.get(pid, 0.0) for pid, time in after.items() if pid != own or len(after) == 1)
    return CoreUse(wall, _cpu_seconds() - cpu, waiting if after else None, value)


def _end_workers():
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True)


def _cpu_seconds():
    times = os.times()
    return process_time() + times.children_user + times.children_system


def _queues():
    """Seconds in the queue for a core, of this process and of its children, by their number; empty if the system is silent."""
    own = Path("/proc") / str(os.getpid())
    try:
        children = [pid for thread in (own / "task").iterdir() for pid in (thread / "children").read_text().split()]
        queues = [own, *(own.parent / pid for pid in children)]
        return {queue.name: int((queue / "schedstat").read_text().split()[1]) / 1e9 for queue in queues}
    except (OSError, IndexError, ValueError):
        return {}
