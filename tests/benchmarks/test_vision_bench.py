"""Benchmarks of images: they run."""

import re
from time import process_time

from benchmarks._cores import core_use
from benchmarks.vision import extraction, vocabulary
from lupi.engine.workers import run_anywhere


def test_quick_cases_run():
    cpu, clock, pair, cached = extraction(quick=True)
    assert cpu.peer == "mahotas SURF alone"
    assert 0 < cached.ours_seconds < cpu.ours_seconds
    assert clock.ours_seconds == pair.ours_seconds > 0
    assert re.search(r"[\d.]+ CPU s in [\d.]+ s: [\d.]+% of two cores busy", clock.note)
    assert vocabulary(quick=True)[0].ours_seconds > 0


def test_time_of_workers_counts():
    def spin(seconds):
        start = process_time()
        while process_time() - start < seconds:
            pass

    start = process_time()
    use = core_use(lambda: list(run_anywhere(spin, [(0.4,), (0.4,)], n_jobs=2)))
    # The system counts the time of ended processes in steps of 0.01 s.
    assert use.cpu_seconds >= 0.78
    # It was not this process that spun.
    assert process_time() - start < use.cpu_seconds - 0.7
    alone = core_use(lambda: spin(0.2))
    assert alone.cpu_seconds >= 0.2
    for run, most in ((use, 4), (alone, 1)):  # two workers, and two processes that clean up after them
        # Nobody waits longer than the run takes.
        assert run.waiting_seconds is None or 0 <= run.waiting_seconds <= most * run.wall_seconds + 0.1
