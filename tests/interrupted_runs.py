"""`kill -9` at random moments of `lupi compare`: is anything lost, done twice, or different in the end?"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from time import perf_counter, sleep

import numpy as np

from lupi.datasets import make_privileged

COMPARED = "svm2+,transfer"
CHANGING = ("seconds", "median_seconds", "date")


def interrupted_run(folder, n_kills, *, splits=12, seed=0):
    """Run the command once undisturbed and once with kills of its whole process group, two workers each.

    Parameters
    ----------
    folder : Path
        Where both runs write.
    n_kills : int
        Number of kills.
    splits : int
        Random splits of the comparison: 6 units of work each.
    seed : int
        Of the moments: after how many finished units, and how many milliseconds later.

    Returns
    -------
    dict
        `killed_at` (finished units at each kill), `lost` and `twice` (units that were stored and are not, or were run
        again), `damaged` (kills after which the store was damaged), `units`, `equal` (whether both `results.json` are the
        same but for times), `seconds` (of the undisturbed and of the other run, by the clock).
    """

    table = make_privileged(120, 4, 2, random_state=0, as_frame=True).frame
    for name in ("whole", "killed"):
        (folder / name).mkdir()
        table.to_csv(folder / name / "table.csv", index=False)
    start = perf_counter()
    subprocess.run(_command(splits), cwd=folder / "whole", check=True, capture_output=True)
    undisturbed = perf_counter() - start
    total = len(_stored(folder / "whole"))
    rng = np.random.default_rng(seed)
    goals = np.sort(rng.choice(np.arange(1, total - 2), n_kills, replace=False)).tolist()
    found = {"killed_at": [], "lost": 0, "twice": 0, "damaged": 0, "units": total}
    kept, clock = {}, 0.0
    for goal, delay in zip(goals, rng.uniform(0, 0.05, n_kills)):
        start = perf_counter()
        # A session of its own: the workers die with the command, as when a machine goes down.
        process = subprocess.Popen(
            _command(splits),
            cwd=folder / "killed",
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while process.poll() is None and len(_stored(folder / "killed")) < goal:
            sleep(0.005)
        sleep(delay)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        clock += perf_counter() - start
        now = _stored(folder / "killed")
        found["killed_at"].append(len(now))
        found["damaged"] += not _sound(folder / "killed")
        found["lost"] += len(kept.keys() - now.keys())
        found["twice"] += sum(now.get(unit) != result for unit, result in kept.items())
        kept = now
    start = perf_counter()
    subprocess.run(_command(splits), cwd=folder / "killed", check=True, capture_output=True)
    now = _stored(folder / "killed")
    found["lost"] += len(kept.keys() - now.keys()) + (len(now) != total)
    found["twice"] += sum(now.get(unit) != result for unit, result in kept.items())
    found["equal"] = _results(folder / "whole") == _results(folder / "killed")
    return found | {"seconds": (undisturbed, clock + perf_counter() - start)}


def _command(splits):

    return [
        *(sys.executable, "-m", "lupi.cli", "compare", "table.csv", "--target", "target", "--privileged", "z*"),
        *("--methods", COMPARED, "--splits", str(splits), "--train-size", "40", "--kernel", "linear"),
        *("--baselines", "none", "--permutations", "0"),
        *("--jobs", "2", "--out", "report"),
    ]


def _rows(folder, query):

    stores = list((folder / "report" / "units").glob("*.sqlite"))
    if not stores:
        return []
    try:
        with closing(sqlite3.connect(f"file:{stores[0]}?mode=ro", uri=True, timeout=30)) as connection:
            return connection.execute(query).fetchall()
    except sqlite3.OperationalError:  # the tables are about to be made
        return []


def _stored(folder):
    """Finished units with their results, to the last character: a second run would have taken another time."""
    return dict(_rows(folder, "SELECT key, result FROM unit WHERE key <> ''"))


def _sound(folder):
    return _rows(folder, "PRAGMA integrity_check") in ([], [("ok",)])


def _results(folder):

    def without_times(value):
        if isinstance(value, dict):
            return {key: without_times(part) for key, part in value.items() if key not in CHANGING}
        return [without_times(part) for part in value] if isinstance(value, list) else value

    return without_times(json.loads((folder / "report" / "results.json").read_text()))
