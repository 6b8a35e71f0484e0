"""Units of work: run what a store does not hold yet, anywhere, in any order; keep each result, and tell how far it is."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing, contextmanager
from time import monotonic, process_time
from typing import TYPE_CHECKING, Any

from threadpoolctl import threadpool_limits

from lupi.engine.workers import run_anywhere

if TYPE_CHECKING:
    from typing import TextIO

# Between two lines of a log file.
LINE_SECONDS = 60.0
# Warnings that say nothing about a result: they come once in a process, or whenever garbage is collected.
OF_THE_PROCESS = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)


def run_units(
    work: Sequence[tuple[Any, ...]],
    store: Any,
    *,
    n_jobs: int | None = 1,
    on_progress: Callable[..., Any] | None = None,
    on_result: Callable[..., Any] | None = None,
    catch: tuple[type[BaseException], ...] = (),
    share: bool = True,
    until: float | None = None,
) -> dict[Any, Any]:
    """Do the work that the store does not hold yet, and return all results.

    Every unit runs with one thread, so that results do not depend on the number of workers. The order of the units is the
    order in which they are begun; results are stored as they arrive.

    Parameters
    ----------
    work : iterable of tuple
        A unit is a key, a function and its arguments. Functions and arguments have to be picklable; a key names all that its result
        depends on, as far as the store's identity does not.
    store : RunStore, FolderStore or MemoryStore
    n_jobs : int, default=1
        Processes, as in joblib. Inside :func:`~lupi.engine.workers.cluster` units run there.
    on_progress : callable or None, default=None
        Called with the numbers of finished and of all units.
    on_result : callable or None, default=None
        Called before that with a unit's key and result; of stored units, too.
    catch : tuple of exception types, default=()
        These errors are results, too, but are not stored; the other units still run.
    share : bool, default=True
        Whether large arrays among the arguments go to processes as memory maps: right for data that units share.
    until : float or None, default=None
        Moment of :func:`time.monotonic` after which no result is waited for: those that are missing then are None. What is
        stored already is given back whatever the time.

    Returns
    -------
    dict of str to result
        In the order of `work`, as the store gives them back.

    Examples
    --------
    >>> from lupi.engine.store import RunStore
    >>> with RunStore(None, "squares") as store:
    ...     run_units([("two", dict, [("square", 4)])], store)
    {'two': {'square': 4}}
    """
    calls = {key: call for key, *call in work}
    results = {key: store.get(key) for key in calls}
    where = store if store.in_workers else None
    todo = [(key, catch, where, *call) for key, call in calls.items() if results[key] is None]
    n_done = len(calls) - len(todo)
    report = on_progress or (lambda done, total: None)
    note = on_result or (lambda key, result: None)
    for key, result in results.items():
        if result is not None:
            note(key, result)
    report(n_done, len(calls))
    if until is not None and monotonic() >= until:
        return results
    with closing(run_anywhere(_run, todo, n_jobs=n_jobs, share=share)) as arriving:
        for key, result, error in arriving:
            if error is None and not store.in_workers:
                store.add(key, result)
            results[key] = store.get(key) if error is None else error
            if error is None:
                note(key, results[key])
            n_done += 1
            report(n_done, len(calls))
            if until is not None and monotonic() >= until:
                break
    return results


def _run(
    key: Hashable, catch: tuple[type[BaseException], ...], store: Any, function: Callable[..., Any], *arguments: Any
) -> tuple[Any, ...]:
    """Key, result (unless it is stored here) and error of one unit."""
    # One thread: with more, sums are taken in another order, and results would depend on the number of workers.
    with threadpool_limits(limits=1):
        try:
            result = function(*arguments)
        except catch as error:
            return key, None, error
    if store is None:
        return key, result, None
    store.add(key, result)
    return key, None, None


def measured(function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    """Result of a function, with `seconds` (of processor time) and `warnings` (category: how many) that are about the result.

    Parameters
    ----------
    function : callable
        Returns a dict.
    *arguments : object

    Returns
    -------
    dict

    Examples
    --------
    >>> sorted(measured(dict, [("square", 4)]))
    ['seconds', 'square', 'warnings']
    """
    start = process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(*arguments)
    kinds = [w.category for w in caught if not issubclass(w.category, OF_THE_PROCESS)]
    counts = dict(sorted(Counter(kind.__name__ for kind in kinds).items()))
    return {**result, "warnings": counts, "seconds": process_time() - start}


@contextmanager
def progress(description: str, shown: bool = True) -> Iterator[Callable[..., Any]]:
    """A function ``report(done, total)`` that tells how far the work is, on the error stream.

    Its method ``expect(seconds, sure)`` takes a forecast of the time that is left (:class:`ProgressLines`).

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
            yield ProgressBar(bar, description)
    else:
        yield progress_lines(description)


def progress_lines(
    description: str, every: float = LINE_SECONDS, file: TextIO | None = None, clock: Callable[[], float] | None = None
) -> ProgressLines:
    """As :class:`ProgressLines`.

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
    return ProgressLines(description, every, file, clock or monotonic)


class ProgressLines:
    """A function ``(done, total)`` that prints how long it will take, and then a line now and then.

    The time is told as soon as it is known: from a forecast at once, else from the first twentieth of the work.

    Parameters
    ----------
    description : str
        What is done.
    every : float
        Seconds between two lines.
    file : text file or None
        None: the error stream.
    clock : callable
        Seconds.
    """

    def __init__(self, description: str, every: float, file: TextIO | None, clock: Callable[[], float]) -> None:
        self.description, self.every, self.file, self.clock = description, every, file, clock
        self.start: tuple[float, int] | None = None
        self.said: float | None = None
        self.left: float | None = None
        self.sure = self.said_surely = False

    def expect(self, seconds: float, sure: bool = True) -> None:
        """Say how many seconds the rest will take, before `report` is called; a first guess is not `sure`."""
        self.left, self.sure = seconds, sure

    def __call__(self, done: int, total: int) -> None:
        """So many of all units are finished."""
        now = self.clock()
        if self.start is None:
            self.start = now, done
        start, first = self.start
        fresh = done - first
        if self.left is not None:
            whole, news = now - start + self.left, self.said is None or (self.sure and not self.said_surely)
        elif fresh:
            whole, news = (now - start) * (total - first) / fresh, self.said is None and fresh >= 0.05 * total
        else:
            return
        if not news and (self.said is None or now - self.said < self.every):
            return
        self.said, self.said_surely = now, self.sure
        guess = "" if self.sure or self.left is None else " (a first guess)"
        print(
            f"{self.description}: {done} of {total} after {duration(now - start)}; about {duration(whole)} in all{guess}",
            file=self.file or sys.stderr,
            flush=True,
        )


class ProgressBar:
    """The same on a terminal: a bar, and beside it the time that is left."""

    def __init__(self, bar: Any, description: str) -> None:
        self.bar, self.task = bar, bar.add_task(description, total=None, left="")
        self.forecast = False

    def expect(self, seconds: float, sure: bool = True) -> None:
        """As of :class:`ProgressLines`."""
        self.forecast = True
        self.bar.update(self.task, left=f"about {duration(seconds)} left{'' if sure else ' (a first guess)'}")

    def __call__(self, done: int, total: int) -> None:
        """So many of all units are finished."""
        self.bar.update(self.task, completed=done, total=total)
        if not self.forecast:
            seconds = self.bar.tasks[self.task].time_remaining
            self.bar.update(self.task, left="" if seconds is None else f"about {duration(seconds)} left")


class Forecast:
    """Seconds that units of work still need: units of one kind take about as long.

    Parameters
    ----------
    kind : callable
        From a unit to its kind.
    guess : callable
        From a kind of which no unit is finished, and the seconds of the finished kinds, to seconds (None: it cannot be told) and
        whether they are as good as measured.
    workers : int
        How many units run at a time.

    Examples
    --------
    >>> forecast = Forecast(lambda unit: unit[0], lambda kind, seconds: (2 * max(seconds.values()), False), workers=2)
    >>> forecast.plan(["a1", "a2", "a3", "b1"])
    >>> forecast.add("a1", 3.0)
    >>> forecast.left()
    (6.0, False)
    >>> forecast.add("b1", 1.0)
    >>> forecast.left()
    (3.0, True)
    """

    def __init__(
        self, kind: Callable[[Any], Any], guess: Callable[..., tuple[float | None, bool]], workers: int
    ) -> None:
        self.kind, self.guess, self.workers = kind, guess, workers
        self.pending: Counter[Any] = Counter()
        self.seconds: dict[Any, float] = {}

    def plan(self, units: Sequence[Any]) -> None:
        """These are the units that come."""
        self.pending = Counter(map(self.kind, units))

    def add(self, unit: Any, seconds: float) -> None:
        """A unit is finished."""
        kind = self.kind(unit)
        self.pending[kind] -= 1
        # The least: the first unit of a kind may have compiled something, and others waited for their turn.
        self.seconds[kind] = min(seconds, self.seconds.get(kind, seconds))

    def left(self) -> tuple[float | None, bool]:
        """Seconds until the end (None: not known yet), and whether none of them is a guess."""
        pending = {kind: n for kind, n in self.pending.items() if n > 0}
        each = {
            kind: (self.seconds[kind], True) if kind in self.seconds else self.guess(kind, self.seconds)
            for kind in pending
        }
        total = 0.0
        for kind, n in pending.items():
            seconds, _ = each[kind]
            if seconds is None:
                return None, False
            total += n * seconds
        busy = max(1, min(self.workers, sum(pending.values())))
        return total / busy, all(sure for _, sure in each.values())


def duration(seconds: float) -> str:
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


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}", markup=False),
        console=Console(stderr=True),
        transient=True,
    )
