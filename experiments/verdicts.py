"""Can the verdict of `lupi compare` be believed? Its answers on generated tables, and on eleven real ones with harder judges."""

from __future__ import annotations

import json
from functools import partial

from experiments._entry import Entry, write_result
from experiments._surrogate_tasks import load_table
from experiments._verdict_figures import (
    EXACT_TEST,
    N_NOISE_EXACT,
    exact_part,
    tables_lines,
    truths_lines,
    verdict_of,
)
from experiments._verdict_truths import TRUTHS
from experiments._verdict_units import ON_REAL_TABLES, measure_table, measure_truth, truth_units
from experiments.data_research_tables import FOLLOWUP
from lupi.files import digest_of, write_atomically
from lupi.run import Store, identity, measured, run_units

REAL_TABLES = ("support2", "bank_marketing", "student_performance", "parkinsons", *FOLLOWUP)
# Steps of the work on generated tables: how many of each kind, and what is run on them. Where the answer should be no, the
# counterpart is the only opponent: a yes is easier then, and is looked at again, with all of `AGAIN`.
USELESS = [kind for kind, answer in TRUTHS.items() if answer == "no"]
STEPS = (
    (dict.fromkeys(TRUTHS, 20) | {"noise": 200, "mediators": 40}, ("surrogate-ridge",)),
    ({"mediators": 40, "label was wrong": 20}, ("linear",)),
    ({"mediators": 20, "label was wrong": 20, "noise": N_NOISE_EXACT}, (EXACT_TEST,)),
    ({"label was wrong": 2}, ("svm2+",)),
)
AGAIN = ("linear", EXACT_TEST)
# On real tables; 99 in an ordinary run.
N_PERMUTATIONS = 39


def run_part(part, work, out, *, n_splits, n_jobs=1, on_progress=None, data=None):
    """Do the work of an entry, keep it in its store, and write `scores.json`.

    Parameters
    ----------
    part : str
        The entry is "compare-" and this.
    work : dict of str to callable
        ``table/part`` -> work.
    out : Path
    n_splits, n_jobs : int
    on_progress : callable or None
    data : str, optional
        Digest of the data.

    Returns
    -------
    dict of str to dict of str to dict
        Table -> part -> record.
    """
    name = identity(entry=f"compare-{part}", n_splits=n_splits, data=data)
    with Store(out / f"{part}.sqlite", name) as store:
        calls = {unit: (measured, function) for unit, function in work.items()}
        results = run_units(calls, store, n_jobs=n_jobs, on_progress=on_progress)
    records = collect(results)
    write_atomically(out / "scores.json", (json.dumps(records, separators=(",", ":")) + "\n").encode())
    seconds = sum(result["seconds"] for result in results.values())
    write_result(out, f"compare-{part}", splits=n_splits, seconds=seconds)
    return records


def collect(results):
    """Records of units by table and part; of an exact test its own figures only: the scores are with the method.

    Examples
    --------
    >>> collect({"noise/0/svm": {"scores": {}, "seconds": 1.0, "warnings": {}}})
    {'noise/0': {'svm': {'scores': {}}}}
    """
    records = {}
    for name, result in results.items():
        table, _, part = name.rpartition("/")
        left_out = ("seconds", "warnings", *(("scores", "shuffled") if part.startswith("exact ") else ()))
        found = {key: value for key, value in result.items() if key not in left_out}
        records.setdefault(table, {})[part] = found
    return records


def _truths(data, out, *, n_splits=20, tasks=None, n_jobs=1, on_progress=None):
    given = {"n_splits": n_splits, "n_jobs": n_jobs, "on_progress": on_progress}
    work = {}
    for counts, parts in STEPS:
        work |= truth_units({kind: min(tasks or count, count) for kind, count in counts.items()}, parts, n_splits)
    records = run_part("truths", work, out, **given)
    for table, parts in records.items():
        kind, seed = table.split("/")
        if kind in USELESS and verdict_of(parts, ("surrogate-ridge",)).answer == "yes":
            work |= {f"{table}/{part}": partial(measure_truth, kind, int(seed), part, n_splits) for part in AGAIN}
    return truths_lines(run_part("truths", work, out, **given))


def _tables(data, out, *, n_splits=10, tasks=None, n_jobs=1, on_progress=None):
    root = None if data is None else str(data)
    names = REAL_TABLES[:tasks]
    frames = [part for name in names for part in load_table(name, root)]
    given = {"n_splits": n_splits, "n_jobs": n_jobs, "on_progress": on_progress, "data": digest_of(*frames)}
    fits = out / "fits"
    fits.mkdir(exist_ok=True)

    def work(parts_of):
        return {
            f"{name}/{part}": partial(measure_table, name, part, n_splits, root, fits)
            for name, parts in parts_of.items()
            for part in parts
        }

    records = run_part("tables", work(dict.fromkeys(names, ON_REAL_TABLES)), out, **given)
    # Where nothing is won there is nothing to confirm or to overturn.
    more = {
        name: (exact_part(parts, N_PERMUTATIONS), "judges")
        for name, parts in records.items()
        if verdict_of(parts).helps
    }
    parts_of = {name: (*ON_REAL_TABLES, *more.get(name, ())) for name in names}
    return tables_lines(run_part("tables", work(parts_of), out, **given))


ENTRIES = (
    Entry("compare-truths", "Verdicts of `lupi compare` on tables whose truth is known", "nothing", _truths),
    Entry(
        "compare-tables",
        "Verdicts of `lupi compare` on eleven tables, and tuned plain learners as judges",
        "followup, support2, student_performance, bank_marketing, parkinsons",
        _tables,
    ),
)
