"""Surrogate learning on eleven tables, with and without unlabeled rows, on digits, and with useless privileged columns."""

from __future__ import annotations

import json

from experiments._entry import Entry, write_result
from experiments._surrogate_figures import CONTROLS, controls_table, gains_table, tally_line
from experiments._surrogate_plain import PLAIN
from experiments._surrogate_tasks import DIGIT_TASKS, TASKS, data_digest
from experiments._surrogate_units import DIGITS_SETTING, LABELED, UNLABELED, protocol, units
from lupi.files import write_atomically
from lupi.run import Store, identity, measured, run_units

STUDY = ("plain", "surrogate", "shuffled")
RIDGE = tuple(f"ridge-{arm}" for arm in STUDY)
# Settings of the controls, for tasks of two and of ten classes: labeled rows alone, and with unlabeled ones.
CONTROL_SETTINGS = {"two": ("n=100", "60+1000"), "ten": ("n=200", "60+1140")}


def collect(work, results):
    """Scores of units by task, setting, arm and split.

    Parameters
    ----------
    work : iterable of str
        Names of units, ``task/setting/arm/split``.
    results : dict of str to dict

    Returns
    -------
    dict
        Task -> setting -> arm -> list of scores in the order of the splits, rounded to a thousandth of a point.

    Examples
    --------
    >>> collect(["card/n=50/plain/0"], {"card/n=50/plain/0": {"score": 0.6912345}})
    {'card': {'n=50': {'plain': [0.69123]}}}
    """
    scores = {}
    for name in work:
        task, setting, arm, _ = name.split("/")
        scores.setdefault(task, {}).setdefault(setting, {}).setdefault(arm, []).append(round(results[name]["score"], 5))
    return scores


def run_part(part, arms_of, data, out, *, n_splits, n_jobs=1, on_progress=None):
    """Measure the arms of an entry, keep them in its store, and write `scores.json`.

    Parameters
    ----------
    part : {"tables", "unlabeled", "digits", "controls"}
        The entry is "surrogate-" and this.
    arms_of : list of (tasks, settings, arms)
    data : path-like or None
        Folder of the research data.
    out : Path
    n_splits, n_jobs : int
    on_progress : callable or None

    Returns
    -------
    dict
        Scores, as of :func:`collect`.
    """
    root = None if data is None else str(data)
    tasks = dict.fromkeys(task for names, _, _ in arms_of for task in names)
    name = identity(entry=part, data=data_digest(tasks, root), **protocol())
    work = {}
    for names, settings, arms in arms_of:
        work |= units(names, settings, arms, n_splits, root)
    with Store(out / f"{part}.sqlite", name) as store:
        calls = {unit: (measured, function) for unit, function in work.items()}
        results = run_units(calls, store, n_jobs=n_jobs, on_progress=on_progress)
    scores = collect(work, results)
    write_atomically(out / "scores.json", (json.dumps(scores, separators=(",", ":")) + "\n").encode())
    write_result(
        out, f"surrogate-{part}", splits=n_splits, seconds=sum(result["seconds"] for result in results.values())
    )
    return scores


def _tables(data, out, *, n_splits=30, tasks=None, n_jobs=1, on_progress=None):
    arms_of = [(list(TASKS)[:tasks], LABELED, (*PLAIN, *STUDY, *RIDGE))]
    scores = run_part("tables", arms_of, data, out, n_splits=n_splits, n_jobs=n_jobs, on_progress=on_progress)
    return tables_lines(scores)


def tables_lines(scores):
    """Tables of gains with labeled rows only, for each training size and both students."""
    lines = []
    for setting in next(iter(scores.values())):
        for title, student in (("averaged default", ""), ("ridge student", "ridge-")):
            table = gains_table(scores, setting, student=student)
            lines += ["", f"{title}, {tally_line(scores, setting, student=student)}", "", *table]
    return lines


def _unlabeled(data, out, *, n_splits=30, tasks=None, n_jobs=1, on_progress=None):
    arms_of = [(list(TASKS)[:tasks], UNLABELED, (*PLAIN, *STUDY, *RIDGE, "every label"))]
    scores = run_part("unlabeled", arms_of, data, out, n_splits=n_splits, n_jobs=n_jobs, on_progress=on_progress)
    return unlabeled_lines(scores)


def unlabeled_lines(scores):
    """Tables of gains with 60 labels and unlabeled rows, for both students."""
    (setting,) = UNLABELED
    lines = []
    for title, student in (("averaged default", ""), ("ridge student", "ridge-")):
        table = gains_table(scores, setting, student=student, reference="every label")
        lines += ["", f"{title}, {tally_line(scores, setting, student=student)}", "", *table]
    return lines


def _digits(data, out, *, n_splits=20, tasks=None, n_jobs=1, on_progress=None):
    arms_of = [(list(DIGIT_TASKS)[:tasks], DIGITS_SETTING, (*PLAIN, *STUDY, "every label"))]
    scores = run_part("digits", arms_of, data, out, n_splits=n_splits, n_jobs=n_jobs, on_progress=on_progress)
    return digits_lines(scores)


def digits_lines(scores):
    """Table of accuracy on ten digits."""
    (setting,) = DIGITS_SETTING
    table = gains_table(scores, setting, reference="every label")
    return ["", f"averaged default, {tally_line(scores, setting)}", "", *table]


def _controls(data, out, *, n_splits=30, tasks=None, n_jobs=1, on_progress=None):
    arms = ("plain", "reshuffled", *CONTROLS)
    arms_of = [
        (list(TASKS)[:tasks], CONTROL_SETTINGS["two"], arms),
        (list(DIGIT_TASKS)[:tasks], CONTROL_SETTINGS["ten"], arms),
    ]
    scores = run_part("controls", arms_of, data, out, n_splits=n_splits, n_jobs=n_jobs, on_progress=on_progress)
    return controls_lines(scores)


def controls_lines(scores):
    """Table of what useless privileged columns change."""
    return ["", *controls_table(scores)]


NEEDS = "followup, support2, student_performance, bank_marketing, awa_surf"
ENTRIES = (
    Entry("surrogate-tables", "Surrogate learning, 11 tables, 50 to 200 labeled rows", NEEDS, _tables),
    Entry("surrogate-unlabeled", "Surrogate learning, 11 tables, 60 labels and unlabeled rows", NEEDS, _unlabeled),
    Entry("surrogate-digits", "Surrogate learning, ten digits, 60 labels and unlabeled rows", "nothing", _digits),
    Entry("surrogate-controls", "Surrogate learning with useless privileged columns", NEEDS, _controls),
)
