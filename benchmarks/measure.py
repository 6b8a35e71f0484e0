"""Benchmark cases, and the measurements they share.

A function in this folder decorated with :func:`case` is a case: it takes ``quick`` and returns a list of rows.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from time import process_time
from typing import Any

NOT_INSTALLED = "not installed"


@dataclass(frozen=True)
class Row:
    """One comparison: CPU seconds of lupi and of a peer on the same problem.

    A ratio of times means nothing without ``difference`` (objective of lupi minus the peer's, relative) or ``gap`` (the
    relative duality gap that our fit certifies).
    """

    problem: str
    seconds: float | None
    peer: str = ""
    peer_seconds: float | None = None
    difference: float | None = None
    gap: float | None = None
    target: str = ""
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """The peer's time divided by ours."""
        if self.seconds and self.peer_seconds is not None:
            return self.peer_seconds / self.seconds
        return None

    def to_dict(self) -> dict[str, Any]:
        """Fields and ratio, ready for JSON."""
        return asdict(self) | {"ratio": self.ratio}


@dataclass(frozen=True)
class Case:
    """A named benchmark."""

    name: str
    title: str
    function: Callable[[bool], list[Row]]


CASES: dict[str, Case] = {}


def case(name, title):
    """Register the decorated function as a benchmark case."""

    def register(function):
        if name in CASES:
            raise ValueError(f"Benchmark case {name!r} already exists; choose another name.")
        CASES[name] = Case(name, title, function)
        return function

    return register


def load_cases() -> dict[str, Case]:
    """All cases of this folder, sorted by name."""
    package = import_module("benchmarks")
    for module in iter_modules(package.__path__, "benchmarks."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    return dict(sorted(CASES.items()))


@dataclass(frozen=True)
class Timing:
    """CPU seconds of the fastest repeat, and what the function returned."""

    seconds: float | None
    value: Any = None
    note: str = ""


def cpu_time(function, *, repeats=3, warmup=True) -> Timing:
    """Least CPU time of several runs, after one run that compiles.

    CPU time hardly depends on what else the machine does.

    Examples
    --------
    >>> cpu_time(lambda: 6 * 7).value
    42
    """
    if warmup:
        function()
    times = []
    for _ in range(repeats):
        start = process_time()
        value = function()
        times.append(process_time() - start)
    return Timing(min(times), value)


def peer_time(module, function, **options) -> Timing:
    """CPU time of a peer; ``seconds`` is None and the note "not installed" if its module is missing."""
    if find_spec(module) is None:
        return Timing(None, note=NOT_INSTALLED)
    return cpu_time(function, **options)


def resident_bytes() -> int:
    """Memory of this process (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def reset_peak() -> None:
    """Reset the peak memory of this process (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """Peak memory of this process since :func:`reset_peak`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    peaks = [1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
    return peaks[0] if peaks else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
