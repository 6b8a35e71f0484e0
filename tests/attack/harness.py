"""Attacks: many seeded cases against one target, with counts.

A *target* makes one case from a random generator, feeds it to the library and checks the answer. Two ends are allowed: an answer
that passes the checks, or one of the errors that are documented, with a sentence. Anything else, a warning included, is a finding;
its message has the case's number and seed, which repeat it.

The suite runs few cases of each target. The long run, from the root of the repository::

    PYTHONPATH=tests python -m attack.harness all --seed 14 --record counts.jsonl
    PYTHONPATH=tests python -m attack.harness readers --cases 50000 --seed 1 --record counts.jsonl
    PYTHONPATH=tests python -m attack.harness readers --target coco --case 1234 --seed 1
    PYTHONPATH=tests python -m attack.harness sum --record counts.jsonl

The first line runs all targets, more than a million cases, in blocks, each of which is recorded: given again, it goes on where it
stopped, and ``--part 1/2`` and ``--part 2/2`` share it between two processes. The third repeats one case, the fourth adds up what
is recorded. A new room of the library is one module
beside this one with a list ``TARGETS`` and a ``test_*_attack.py`` of a few lines; the long run takes the module's name.

In the suite a hang is told by counting, not by a clock: a case may run a number of lines of the library that grows linearly with
the size of its input. A loop that goes on is stopped at that number. The long run does not count, which is quicker: there a case
that takes more than 10 CPU seconds is a finding. With TMPDIR on a disk in memory it runs faster still.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import lupi

LIBRARY = str(Path(lupi.__file__).parent)
# Short enough for every run of the suite; the environment variable asks for more.
CASES = int(os.environ.get("LUPI_ATTACK_CASES", "60"))
# Of one case, in the long run.
MOST_CPU_SECONDS = 10
# Cases of the long run for each target of a module; a number of its own for some.
LONG = {
    "readers": {"runs": 700_000, "pictures": 150_000, "": 12_000},
    "models": {"damaged": 42_000, "each bit": 14_000, "": 6_000},
    "tables": {"": 3_400},
    "estimators": {"": 900},
    "invariances": {"": 200},
    "certificates": {"kernel machines": 4_000, "": 1_000},
    "other_files": {"": 500},
    "restoring": {"": 3_000},
    "disks": {"": 1_000},
    "signals": {"": 8},
}
BLOCK = 10_000


class TooManySteps(BaseException):
    """The bound on lines was reached; not an Exception, so that no handler of the library keeps the loop alive."""


class Finding(AssertionError):
    """A case that ended in a way that is not allowed."""


@dataclass(frozen=True)
class Target:
    """What is attacked.

    Parameters
    ----------
    name : str
        How reports call it.
    prepare : callable
        Takes a folder; called once, for valid files that cases start from. Its result goes to `attack`.
    make : callable
        ``make(rng, prepared)``: a case, from a generator of random numbers. The first case is made with ``rng=None``: untouched.
        One with a third argument gets the case's number, to go through all that there are.
    attack : callable
        ``attack(case, prepared)``: feeds the case to the library and checks the answer with ``assert``. It may return what the
        end is called.
    documented : tuple of exception types
        Errors that are allowed.
    size : callable
        Size of a case, in bytes or numbers, that the bound on lines grows with.
    """

    name: str
    prepare: Callable
    make: Callable
    attack: Callable
    documented: tuple
    size: Callable = len


@dataclass
class Counts:
    """What became of the cases."""

    name: str
    ends: Counter = field(default_factory=Counter)
    findings: list = field(default_factory=list)
    slowest: float = 0.0

    @property
    def cases(self):
        return sum(self.ends.values())

    def __str__(self):
        ends = ", ".join(f"{end} {n}" for end, n in sorted(self.ends.items()))
        return (
            f"{self.name}: {self.cases} cases ({ends}); slowest {self.slowest:.2f} CPU s; {len(self.findings)} findings"
        )


def bounded(function, most_lines):
    """Run a function; more than `most_lines` lines of the library raise TooManySteps."""
    lines = 0

    def trace(frame, event, _):
        nonlocal lines
        if not frame.f_code.co_filename.startswith(LIBRARY):
            return None
        if event == "line":
            lines += 1
            if lines > most_lines:
                raise TooManySteps(f"more than {most_lines} lines, now at {frame.f_code.co_qualname}, {frame.f_lineno}")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return function()
    finally:
        sys.settrace(before)


@contextmanager
def within_cpu_seconds(most):
    """Raise TooManySteps after so many CPU seconds; from within compiled code, as soon as it is left."""

    def stop(*_):
        raise TooManySteps(f"more than {most} CPU seconds")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, most)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def run(target, cases=CASES, seed=0, first=0, stop=True, count_lines=True):
    """Attack a target.

    Parameters
    ----------
    target : Target
    cases : int
        How many.
    seed : int
        Each case has its own generator, of the seed, the target's name and the case's number.
    first : int
        Number of the first case.
    stop : bool
        Whether the first finding is raised; otherwise all are collected.
    count_lines : bool
        Whether a hang is told by counting lines, or else by CPU seconds.

    Returns
    -------
    Counts
    """
    counts, numbered = Counts(target.name), len(inspect.signature(target.make).parameters) == 3
    with tempfile.TemporaryDirectory() as folder:
        prepared = target.prepare(Path(folder))
        for k in range(first, first + cases):
            rng = np.random.default_rng([seed, zlib.crc32(target.name.encode()), k]) if k else None
            case = target.make(rng, prepared, k) if numbered else target.make(rng, prepared)
            started = time.process_time()
            try:
                # The first case of the long run compiles, which takes its time.
                counts.ends[_end(target, case, prepared, count_lines, MOST_CPU_SECONDS if k > first else 600)] += 1
            except (Exception, TooManySteps) as error:
                counts.ends["finding"] += 1
                counts.findings.append(_report(target, k, seed, error))
                if stop:
                    raise Finding(counts.findings[-1]) from error
            counts.slowest = max(counts.slowest, time.process_time() - started)
    return counts


def _end(target, case, prepared, count_lines, most_seconds):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            if count_lines:
                said = bounded(lambda: target.attack(case, prepared), 20_000 + 100 * target.size(case))
            else:
                with within_cpu_seconds(most_seconds):
                    said = target.attack(case, prepared)
        except target.documented as error:
            if not 20 < len(str(error)) < 2000:
                raise Finding(f"an error without a sentence, or with too many: {error}") from error
            return type(error).__name__
    return said or "answered"


def _report(target, k, seed, error):
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(last.filename).name}:{last.lineno}"
    return f"{target.name}, case {k}, seed {seed}: {type(error).__name__} at {where}: {str(error)[:300]}"


def main(arguments=None):
    """The long run."""
    parser = argparse.ArgumentParser(description="Attack a room of the library.")
    parser.add_argument("module", help="module of tests/attack with TARGETS, e.g. readers; or all, or sum")
    parser.add_argument("--cases", type=int, default=10_000, help="for each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", help="only this one")
    parser.add_argument("--case", type=int, help="only the case of this number")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--record", type=Path, help="file that a line of counts is appended to")
    parser.add_argument("--part", default="1/1", help="of all: which share of the blocks, e.g. 1/2")
    options = parser.parse_args(arguments)
    if options.module == "sum":
        return add_up(options.record)
    if options.module == "all":
        return run_all(options)
    targets = targets_of(options.module)
    bad = total = 0
    for target in targets:
        if options.target in (None, target.name):
            cases, first = (options.cases, options.first) if options.case is None else (1, options.case)
            counts = run(target, cases, options.seed, first, stop=options.case is not None, count_lines=False)
            tell(counts, options, options.module, first)
            bad, total = bad + len(counts.findings), total + counts.cases
    print(f"{total} cases, {bad} findings")
    return 1 if bad else 0


def targets_of(module):
    return importlib.import_module(f"attack.{module}").TARGETS


def tell(counts, options, module, first):
    """Print what became of some cases, and append it to the record."""
    print(counts, *counts.findings[:20], sep="\n  ", flush=True)
    if options.record:
        line = {"module": module, "seed": options.seed, "first": first, "commit": commit(), **vars(counts)}
        with options.record.open("a") as file:
            file.write(json.dumps(line) + "\n")


def commit():
    """The code that is attacked, as git calls it; empty outside of a checkout."""
    words = ["git", "-C", LIBRARY, "describe", "--always", "--dirty"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def blocks_of_all():
    """Module, target, first case and number of cases of every block of the long run."""
    for module, sizes in LONG.items():
        for target in targets_of(module):
            cases = sizes.get(target.name, sizes[""])
            for first in range(0, cases, BLOCK):
                yield module, target, first, min(BLOCK, cases - first)


def run_all(options):
    """The long run: all blocks of this part that the record does not hold."""
    which, parts = map(int, options.part.split("/"))
    lines = options.record.read_text().splitlines() if options.record and options.record.exists() else []
    known = {(line["module"], line["name"], line["seed"], line["first"]) for line in map(json.loads, lines)}
    bad = 0
    for module, target, first, cases in list(blocks_of_all())[which - 1 :: parts]:
        if (module, target.name, options.seed, first) not in known:
            counts = run(target, cases, options.seed, first, stop=False, count_lines=False)
            tell(counts, options, module, first)
            bad += len(counts.findings)
    return 1 if bad else 0


def add_up(record):
    """Print what the runs of a record have in common: cases, ends, findings of each target."""
    totals, seen = {}, set()
    for line in map(json.loads, record.read_text().splitlines()):
        part = (line["module"], line["name"], line["seed"], line["first"])
        if part not in seen:  # a run that was repeated counts once
            seen.add(part)
            counts = totals.setdefault(part[:2], Counts(f"{line['module']}, {line['name']}"))
            counts.ends.update(line["ends"])
            counts.findings += line["findings"]
            counts.slowest = max(counts.slowest, line["slowest"])
    print(*totals.values(), sep="\n")
    findings = sum(len(counts.findings) for counts in totals.values())
    print(f"{sum(counts.cases for counts in totals.values())} cases, {findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
