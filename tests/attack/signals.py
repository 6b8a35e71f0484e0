"""Targets: commands that are ended at any moment, or lose a worker; nobody is left, nothing finished is lost, the cause is told.

`lupi compare` and `lupi localize fit` run with two workers, and `lupi fit` writes over another model. Then the same command is
given again: it goes on, and its results are those of a run that nobody disturbed. A case takes several CPU seconds: 10 of each
target are a long run. The counts tell how many were gone within 5 seconds, and how many later, as happens on a busy machine only.
"""

import json
import os
import shutil
import signal
import sqlite3
import time
from contextlib import closing, suppress

import numpy as np
from attack.harness import Target
from attack.mutations import pick
from processes import descendants, is_alive, start, wait_until

import lupi
from lupi.datasets import make_privileged

SIGNALS = (signal.SIGTERM, signal.SIGKILL, signal.SIGINT)
WORKER = "a worker"
# Of a command that was told to end, or whose worker was: what its last line says.
TOLD = {signal.SIGTERM: "lupi: terminated", signal.SIGINT: "lupi: stopped", WORKER: "lupi: a worker process was killed"}
SECONDS = 5
PICTURES = 10


class Prepared:
    """A command, the results of which nobody disturbed; `words`, `stored` and `results` are those of a subclass."""

    workers = True

    def __init__(self, folder):
        self.folder, self.out, self.errors = folder, folder / "out", folder / "errors.txt"
        self.prepare()
        self.fresh()
        begun = time.monotonic()
        process = self.start()
        assert process.wait() == 0, self.errors.read_text()
        self.seconds, self.expected, self.n_units = time.monotonic() - begun, self.results(), len(self.stored())

    def start(self):
        with self.errors.open("w") as errors:
            return start(*self.words(), stderr=errors)

    def fresh(self):
        """As before the first run."""
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir()


class Compare(Prepared):
    def prepare(self):
        self.table = self.folder / "table.csv"
        make_privileged(90, 3, 2, random_state=0, as_frame=True).frame.to_csv(self.table, index=False)

    def words(self):
        columns = ("--target", "target", "--privileged", "z*", "--kernel", "linear", "--jobs", 2)
        size = ("--train-size", 30, "--splits", 6, "--methods", "transfer", "--baselines", "none", "--permutations", 0)
        return "compare", self.table, *columns, *size, "--out", self.out

    def stored(self):
        return stored_units(self.out / "units")

    def results(self):
        return without_times(json.loads((self.out / "results.json").read_text()))


class Localize(Prepared):
    def prepare(self):
        from PIL import Image
        from vision_data import pictures

        rows = ["image,top,left,bottom,right"]
        for k, (image, box, _) in enumerate(zip(*pictures(PICTURES))):
            Image.fromarray(image).save(self.folder / f"{k}.png")
            rows.append(",".join(map(str, [f"{k}.png", *box])))
        self.table = self.folder / "boxes.csv"
        self.table.write_text("\n".join(rows) + "\n")

    def words(self):
        options = ("--method", "ssvm", "--detector", "dense", "--words", 20, "--tol", 1e-2, "--search", 4, "--jobs", 2)
        return "localize", "fit", self.table, *options, "-o", self.out / "m.lupi", "--cache", self.out / "cache"

    def stored(self):
        """Finished pictures, and finished combinations of the search."""
        features = (self.out / "cache").rglob("[!.]*.npz")
        return {path.name: path.read_bytes() for path in features} | stored_units(self.out / "cache" / "search")

    def results(self):
        model = lupi.load(self.out / "m.lupi")
        return model.search_, model.model_.coef_.tolist()


class Fit(Prepared):
    workers = False

    def prepare(self):
        X, y, _ = make_privileged(90, 3, 2, random_state=0, return_X_y_privileged=True)
        self.X, self.old = X, lupi.RankSVM().fit(-X, y)
        self.table, self.frame = (
            self.folder / "table.csv",
            make_privileged(90, 3, 2, random_state=0, as_frame=True).frame,
        )
        self.frame.to_csv(self.table, index=False)

    def words(self):
        columns = ("--target", "target", "--privileged", "z*")
        return "fit", self.table, *columns, "--method", "transfer", "-o", self.out / "m.lupi"

    def fresh(self):
        super().fresh()
        lupi.save(self.old, self.out / "m.lupi")

    def stored(self):
        """The file is the old model or the new one, whenever one looks."""
        model = lupi.load(self.out / "m.lupi")
        if type(model) is lupi.RankSVM:
            np.testing.assert_array_equal(model.decision_function(self.X), self.old.decision_function(self.X))
        return {}

    def results(self):
        return lupi.load(self.out / "m.lupi").decision_function(self.frame).tolist()


def stored_units(folder):
    """Finished units, as they are in a store."""
    found = {}
    for file in folder.glob("*.sqlite"):
        connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=30)
        with closing(connection), suppress(sqlite3.OperationalError):  # the tables are about to be made
            found |= dict(connection.execute("SELECT unit, result FROM units"))
    return found


def without_times(value):
    """Results without what differs from run to run: seconds, dates and how many workers there were."""
    if isinstance(value, dict):
        told = ("seconds", "time", "date", "created", "elapsed", "environment", "finished")
        return {name: without_times(part) for name, part in value.items() if not any(word in name for word in told)}
    return [without_times(part) for part in value] if isinstance(value, list) else value


def make(rng, prepared):
    """Who is ended, after how many finished units, and how long after (as a share of a whole run, where there are no units)."""
    if rng is None:
        return signal.SIGTERM, min(1, prepared.n_units), 0.2
    who = pick(rng, (*SIGNALS, WORKER) if prepared.workers else SIGNALS)
    return who, int(rng.integers(0, max(1, prepared.n_units))), float(rng.random())


def attack(case, prepared):
    who, units, pause = case
    prepared.fresh()
    process = prepared.start()
    try:
        wait_until(lambda: len(prepared.stored()) >= units or process.poll() is not None, "nothing is stored")
        time.sleep(pause if prepared.n_units else pause * prepared.seconds)
        late = prepared.n_units > 0 and units > 0  # it had begun to work, so it can say why it ends
        family = descendants(process.pid)
        if who != WORKER:
            process.send_signal(who)
        elif len(family) > 1:
            os.kill(family[-1], signal.SIGKILL)
        begun = time.monotonic()
        # Who lost a worker may finish what others have begun; nobody who was told to end may stay.
        patience = SECONDS * max(1.0, os.getloadavg()[0] / os.cpu_count()) if who != WORKER else 600
        while process.poll() is None or any(map(is_alive, family)):
            assert time.monotonic() - begun < patience, f"left after {patience:.0f} s: {list(filter(is_alive, family))}"
            time.sleep(0.02)
        waited = time.monotonic() - begun
    finally:
        process.kill()
    said = prepared.errors.read_text()
    if late and process.returncode not in (0, -signal.SIGKILL):
        assert TOLD[who] in said, f"no cause: {said[-300:]}"
        assert "Traceback" not in said
    kept = prepared.stored()
    assert len(kept) >= units or process.returncode == 0
    again = prepared.start()
    assert again.wait() == 0, f"it does not go on: {prepared.errors.read_text()[-300:]}"
    now = prepared.stored()
    # To the last character: a unit that ran again would have taken another time.
    assert {unit: now[unit] for unit in kept} == kept, "finished units are lost"
    assert prepared.results() == prepared.expected, "other results"
    return (
        "worker lost" if who == WORKER else f"gone {'within' if waited <= SECONDS else 'after more than'} {SECONDS} s"
    )


TARGETS = [
    Target(name, prepare, make, attack, (), lambda case: 10**6)
    for name, prepare in (("compare", Compare), ("localize", Localize), ("fit", Fit))
]
