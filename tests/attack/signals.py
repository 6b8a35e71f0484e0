"""Targets: `lupi compare --jobs 2` ended at any moment; nobody is left, nothing finished is lost, and going on gives equal results.

A case takes several seconds, since it runs the command twice: 20 cases are a long run here.
"""

import json
import os
import shutil
import signal
import sqlite3
import time
from contextlib import closing

from attack.harness import Target
from attack.mutations import pick
from processes import descendants, is_alive, start, wait_until

from lupi.datasets import make_privileged

SIGNALS = (signal.SIGTERM, signal.SIGKILL, signal.SIGINT)
# Seconds for the workers to end: 5 with a core for each process, more where others use them too.
PATIENCE = 5 * max(1.0, os.getloadavg()[0] / os.cpu_count())
COLUMNS = ("--target", "target", "--privileged", "z*", "--kernel", "linear", "--jobs", 2)
SIZE = ("--train-size", 30, "--splits", 6, "--methods", "transfer", "--baselines", "none", "--permutations", 0)


class Prepared:
    """A table, and the results of a comparison that nobody disturbed."""

    def __init__(self, folder):
        self.table, self.out = folder / "table.csv", folder / "out"
        make_privileged(90, 3, 2, random_state=0, as_frame=True).frame.to_csv(self.table, index=False)
        assert self.start().wait() == 0
        self.results, self.n_units = self.summary(), len(self.stored())

    def start(self):
        return start("compare", self.table, *COLUMNS, *SIZE, "--out", self.out)

    def summary(self):
        return without_times(json.loads((self.out / "results.json").read_text()))

    def stored(self):
        """Finished units, as they are in the store."""
        files = list((self.out / "units").glob("*.sqlite"))
        if not files:
            return {}
        with closing(sqlite3.connect(f"file:{files[0]}?mode=ro", uri=True, timeout=30)) as connection:
            try:
                return dict(connection.execute("SELECT unit, result FROM units"))
            except sqlite3.OperationalError:  # the tables are about to be made
                return {}


def without_times(value):
    """Results without what differs from run to run: seconds, dates and how many workers there were."""
    if isinstance(value, dict):
        told = ("seconds", "time", "date", "created", "elapsed", "environment", "finished")
        return {name: without_times(part) for name, part in value.items() if not any(word in name for word in told)}
    return [without_times(part) for part in value] if isinstance(value, list) else value


def make(rng, prepared):
    if rng is None:
        return signal.SIGTERM, 1, 0.0
    return pick(rng, SIGNALS), int(rng.integers(0, prepared.n_units)), float(rng.random())


def attack(case, prepared):
    number, units, pause = case
    shutil.rmtree(prepared.out)
    process = prepared.start()
    try:
        wait_until(lambda: len(prepared.stored()) >= units or process.poll() is not None, "nothing is stored")
        time.sleep(pause)
        family = descendants(process.pid)
        process.send_signal(number)
        gone = time.monotonic() + PATIENCE
        while process.poll() is None or any(map(is_alive, family)):
            assert time.monotonic() < gone, f"left after {PATIENCE:.0f} s: {[p for p in family if is_alive(p)]}"
            time.sleep(0.02)
    finally:
        process.kill()
    kept = prepared.stored()
    assert len(kept) >= units or process.returncode == 0
    assert prepared.start().wait() == 0, "it does not go on"
    now = prepared.stored()
    # To the last character: a unit that ran again would have taken another time.
    assert {unit: now[unit] for unit in kept} == kept, "finished units are lost"
    assert prepared.summary() == prepared.results, "other results"


TARGETS = [Target("signals", Prepared, make, attack, (), lambda case: 10**6)]
