"""What a benchmark case is, and where cases are found.

A new file in this folder with a function decorated by :func:`case` adds one; nothing else is touched. Light on purpose:
no numpy at import, so that `python -m benchmarks --list` is quick.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from time import process_time
from typing import Any

NOT_INSTALLED = "not installed"


@dataclass(frozen=True)
class Row:
    """One comparison of a case.

    Attributes
    ----------
    what : str
        The problem that both sides solve.
    ours_seconds : float or None
        CPU time of lupi.
    peer : str
        Who it is compared with; empty if nobody.
    peer_seconds : float or None
        CPU time of the peer; None if it did not run, `note` then says why.
    objective_difference : float or None
        Ours minus the peer's, relative to the peer's, on the same objective: equal work, or the times mean nothing.
    gap : float or None
        Relative duality gap that our fit certifies.
    target : str
        What the ratio or the time is meant to be.
    note : str
        Anything else, e.g. "not installed".
    """

    what: str
    ours_seconds: float | None
    peer: str = ""
    peer_seconds: float | None = None
    objective_difference: float | None = None
    gap: float | None = None
    target: str = ""
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times as long as we the peer takes; None where a time is missing."""
        if self.ours_seconds and self.peer_seconds is not None:
            return self.peer_seconds / self.ours_seconds
        return None

    def to_dict(self) -> dict[str, Any]:
        """Fields and ratio, ready for JSON.

        Examples
        --------
        >>> from benchmarks._registry import Row
        >>> Row("SVM+, n = 2000", 0.5, peer="PIQP", peer_seconds=50.0).to_dict()["ratio"]
        100.0
        """
        return asdict(self) | {"ratio": self.ratio}


@dataclass(frozen=True)
class Case:
    """A named benchmark: `function(quick)` returns its rows."""

    name: str
    title: str
    function: Callable[[bool], list[Row]]


CASES: dict[str, Case] = {}


def case(name, title):
    """Register the decorated function as a benchmark case.

    Parameters
    ----------
    name : str
        What the user types.
    title : str
        One line for `python -m benchmarks --list` and for the table.

    Returns
    -------
    callable
        The decorator; it gives the function back.

    Examples
    --------
    >>> from benchmarks._registry import CASES, Row, case
    >>> @case("nothing", "Takes no time")
    ... def nothing(quick):
    ...     return [Row("nothing", 0.0)]
    >>> CASES.pop("nothing").title
    'Takes no time'
    """

    def register(function):
        if name in CASES:
            raise ValueError(f"A benchmark case called {name!r} exists already; choose another name.")
        CASES[name] = Case(name, title, function)
        return function

    return register


def load_cases() -> dict[str, Case]:
    """Import every module of this folder, so that its cases are registered; give all cases, sorted by name."""
    package = import_module("benchmarks")
    for module in iter_modules(package.__path__, "benchmarks."):
        if not module.name.rpartition(".")[2].startswith("_"):
            import_module(module.name)
    return dict(sorted(CASES.items()))


@dataclass(frozen=True)
class Timing:
    """CPU seconds of the best repeat and what the function returned."""

    seconds: float | None
    value: Any = None
    note: str = ""


def cpu_time(function, *, repeats=3, warmup=True) -> Timing:
    """CPU time of a function, the least of several runs.

    CPU time, not wall-clock time: other processes on the machine matter little. The warm-up run takes compilation and
    caches out of the measurement.

    Parameters
    ----------
    function : callable
        Takes no arguments.
    repeats : int, default=3
        Measured runs.
    warmup : bool, default=True
        Whether to run once before measuring.

    Returns
    -------
    Timing

    Examples
    --------
    >>> from benchmarks._registry import cpu_time
    >>> cpu_time(lambda: 6 * 7).value
    42
    """
    if warmup:
        function()
    times = []
    for _ in range(max(1, repeats)):
        start = process_time()
        value = function()
        times.append(process_time() - start)
    return Timing(min(times), value)


def peer_time(module, function, **options) -> Timing:
    """Time a peer, or say that it is not installed.

    Parameters
    ----------
    module : str
        Name of the peer's module.
    function : callable
        Takes no arguments; imports the peer inside.
    **options : object
        As of :func:`cpu_time`.

    Returns
    -------
    Timing
        With `seconds` None and `note` "not installed" if the module is not there.

    Examples
    --------
    >>> from benchmarks._registry import peer_time
    >>> peer_time("no_such_solver", lambda: None).note
    'not installed'
    """
    if find_spec(module) is None:
        return Timing(None, note=NOT_INSTALLED)
    return cpu_time(function, **options)
