"""Targets: commands that are ended at any moment, or lose a worker; nobody is left, nothing finished is lost, the cause is told.

`lupi compare` and `lupi localize fit` run with two workers, `lupi compare` also on a Dask cluster, whose
scheduler and worker may be killed, and `lupi fit` writes over another model. Then the same command is given again: it goes on,
and its results are those of a run that nobody disturbed. A case starts Python two to six times, so it takes 5 to 20 CPU seconds.
The counts tell who was ended how, and whether all were gone within 5 seconds, or later, as happens on a busy machine only.
"""

import json
import os
import shutil
import signal
import sqlite3
import time
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec

import numpy as np
from attack.harness import Target
from attack.mutations import pick
from processes import dask_cluster, descendants, is_alive, start, wait_until

import lupi
from lupi.datasets import make_privileged

SIGNALS = (signal.SIGTERM, signal.SIGKILL, signal.SIGINT)
WORKER, SCHEDULER, FAR_WORKER = "a worker", "the scheduler", "the worker of the cluster"
# Of a command that was told to end, or whose worker was: what its last line says.
TOLD = {signal.SIGTERM: "lupi: terminated", signal.SIGINT: "lupi: stopped", WORKER: "lupi: a worker process was killed"}
TOLD |= dict.fromkeys((SCHEDULER, FAR_WORKER), "lupi: the Dask cluster is lost")
SECONDS = 5
PICTURES = 10


class Prepared:
    """A command, the results of which nobody disturbed; `words`, `stored` and `results` are those of a subclass."""

    kinds = (*SIGNALS, WORKER)

    def __init__(self, folder):
        self.folder, self.out, self.errors = folder, folder / "out", folder / "errors.txt"
        self.prepare()
        self.fresh()
        begun = time.monotonic()
        with self.running() as process:
            assert process.wait() == 0, self.errors.read_text()
        self.seconds, self.expected, self.n_units = time.monotonic() - begun, self.results(), len(self.stored())

    @contextmanager
    def running(self):
        """The command; nobody is left behind by a case that fails."""
        with self.errors.open("w") as errors:
            process = start(*self.words(), stderr=errors)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def victim(self, who, family):
        """The process that is killed, other than the command itself; None if there is none yet."""
        return family[-1] if len(family) > 1 else None

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
        size = ("--train-size", 30, "--splits", 3, "--methods", "transfer", "--baselines", "none", "--permutations", 0)
        return "compare", self.table, *columns, *size, "--out", self.out

    def stored(self):
        return stored_units(self.out / "units")

    def results(self):
        return without_times(json.loads((self.out / "results.json").read_text()))


class Cluster(Compare):
    """The same on a Dask cluster of one worker."""

    kinds = (*SIGNALS, SCHEDULER, SCHEDULER, FAR_WORKER, FAR_WORKER)

    @contextmanager
    def running(self):
        with dask_cluster(self.folder) as (self.address, *self.machines), super().running() as process:
            yield process

    def words(self):
        return *super().words(), "--scheduler", self.address

    def results(self):
        return super().results() | {"command": None}  # every cluster has another address

    def victim(self, who, family):
        return self.machines[who == FAR_WORKER].pid


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
    kinds = SIGNALS

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
            found |= dict(connection.execute("SELECT key, result FROM unit WHERE key <> ''"))
    return found


def without_times(value):
    """Results without what differs from run to run: seconds and dates."""
    if isinstance(value, dict):
        told = ("seconds", "time", "date", "created", "elapsed", "environment", "finished")
        return {name: without_times(part) for name, part in value.items() if not any(word in name for word in told)}
    return [without_times(part) for part in value] if isinstance(value, list) else value


def make(rng, prepared):
    """Who is ended, after how many finished units, and how long after (as a share of a whole run, where there are no units)."""
    if rng is None:
        return signal.SIGTERM, min(1, prepared.n_units), 0.2
    who = pick(rng, prepared.kinds)
    return who, int(rng.integers(0, max(1, prepared.n_units))), float(rng.random())


def attack(case, prepared):
    who, units, pause = case
    prepared.fresh()
    with prepared.running() as process:
        wait_until(lambda: len(prepared.stored()) >= units or process.poll() is not None, "nothing is stored")
        # The first run is the slowest, so most moments are within the command.
        time.sleep(pause if prepared.n_units else 0.7 * pause * prepared.seconds)
        family = descendants(process.pid)
        waited = end(who, prepared, process, family)
    check_cause(who, units, process.returncode, prepared)
    kept = prepared.stored()
    assert len(kept) >= units or process.returncode == 0
    with prepared.running() as again:
        assert again.wait() == 0, f"it does not go on: {prepared.errors.read_text()[-300:]}"
    now = prepared.stored()
    # To the last character: a unit that ran again would have taken another time.
    assert {unit: now[unit] for unit in kept} == kept, "finished units are lost"
    assert prepared.results() == prepared.expected, "other results"
    if process.returncode == 0:
        return "it had finished"
    name = who if isinstance(who, str) else who.name
    return f"{name}, gone {'within' if waited <= SECONDS else 'after more than'} {SECONDS} s"


def end(who, prepared, process, family):
    """End the command or one of its helpers; seconds until the command and all that it started are gone."""
    if who in SIGNALS:
        process.send_signal(who)
    else:
        victim = prepared.victim(who, family)
        if victim is not None:
            os.kill(victim, signal.SIGKILL)
    begun = time.monotonic()
    # Who lost a helper may finish what others have begun, and a lost cluster is told within a minute; nobody who was told to
    # end may stay.
    patience = {WORKER: 600, SCHEDULER: 60, FAR_WORKER: 60}.get(who, SECONDS)
    patience *= max(1.0, os.getloadavg()[0] / os.cpu_count())
    while process.poll() is None or any(map(is_alive, family)):
        assert time.monotonic() - begun < patience, f"left after {patience:.0f} s: {list(filter(is_alive, family))}"
        time.sleep(0.02)
    return time.monotonic() - begun


def check_cause(who, units, code, prepared):
    """The last line names the cause, unless the command had finished, could not speak, or was not there yet."""
    said = prepared.errors.read_text()
    begun = prepared.n_units > 0 and units > 0
    too_early = not begun and who in SIGNALS and code == -who
    if code in (0, -signal.SIGKILL) or too_early:
        return
    assert TOLD[who] in said, f"no cause, but exit code {code}: {said[-300:]}"
    assert "Traceback" not in said
    if who in (signal.SIGTERM, signal.SIGINT) and prepared.kinds is SIGNALS:
        assert not list(prepared.out.glob(".*")), "a part of a file is left"


COMMANDS = {"compare": Compare, "localize": Localize, "fit": Fit}
if find_spec("distributed"):
    COMMANDS["cluster"] = Cluster
TARGETS = [Target(name, prepare, make, attack, (), lambda case: 10**6) for name, prepare in COMMANDS.items()]
