"""Entries of ``python -m experiments``, the papers' printed numbers, and stored results."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from lupi.comparison.comparison import environment
from lupi.comparison.units import derived_seed
from lupi.files import strict_json, write_atomically
from lupi.run import Store, identity, measured, run_units


@dataclass(frozen=True)
class Entry:
    """A table or figure; ``run(data, out, *, n_splits, tasks, n_jobs, on_progress)`` returns the lines to print."""

    name: str
    title: str
    data: str
    run: Callable[..., list[str]]
    features: bool = False


ENTRIES: dict[str, Entry] = {}


def entry(name, title, data, *, features=False, **options):
    """Register the decorated function as an entry, with `options` fixed; ``features``: it also runs on the user's features."""

    def register(function):
        def run(*arguments, **more):
            return function(*arguments, **options, **more)

        ENTRIES[name] = Entry(name, title, data, run, features)
        return function

    return register


def paper_table(name):
    """Rows that a paper printed, from `experiments/papers`."""
    text = Path(__file__).with_name("papers").joinpath(f"{name}.csv").read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


def beside(row, paper, name):
    """Our mean and error beside the paper's, in percent; a star if they agree within two standard errors."""
    ours, error = 100 * row["mean"], 100 * row["error"]
    theirs, their_error = float(paper[name]), float(paper[f"{name}_se"])
    agree = abs(ours - theirs) <= 2 * np.hypot(error, their_error)
    return f"{ours:.2f} ± {error:.2f} / {theirs:.2f}{'*' if agree else ' '}"


def markdown_table(head, rows):
    """Lines of a table in Markdown."""
    first, *others = ("| " + " | ".join(map(str, row)) + " |" for row in (head, *rows))
    return [first, "|---" * len(head) + "|", *others]


def write_result(folder, name, **facts):
    """Write the measured facts with date and versions to `result.json`."""
    content = {"entry": name, "environment": environment(), **facts}
    write_atomically(Path(folder) / "result.json", (strict_json(content, indent=1) + "\n").encode())


def subfolder(data, name):
    """Folder of a data set inside ``--data``; None lets the reader use LUPI_DATA."""
    return None if data is None else Path(data) / name


def run_stored(work, path, facts, *, n_jobs=1, on_progress=None):
    """Results of ``key -> (function, *arguments)``, each with its CPU seconds and warnings; finished units survive."""
    with Store(path, identity(**facts)) as store:
        calls = {key: (measured, *call) for key, call in work.items()}
        return run_units(calls, store, n_jobs=n_jobs, on_progress=on_progress)


def balanced_splits(y, n_splits, n_train):
    """Splits of as many rows of each class as the rarest class has, with other random rows in each split."""
    members = [np.flatnonzero(y == label) for label in np.unique(y)]
    size = min(map(len, members))
    for split in range(n_splits):
        seed = derived_seed(0, split, "split")
        rng = np.random.default_rng(seed)
        pool = np.sort(np.concatenate([rng.permutation(rows)[:size] for rows in members]))
        yield train_test_split(pool, train_size=n_train, stratify=y[pool], random_state=seed)
