"""What an entry of `lupi reproduce` is, and the numbers that the papers printed."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np

from lupi.experiments.comparison import environment
from lupi.persistence import write_atomically


@dataclass(frozen=True)
class Entry:
    """One table or figure.

    Attributes
    ----------
    name, title : str
    data : str
        What it needs.
    run : callable or None
        From (folder of the data, folder for results, options) to a list of lines; None if it cannot be run here.
    missing : str
        Why it cannot be run.
    """

    name: str
    title: str
    data: str
    run: Callable | None = None
    missing: str = ""


def paper_table(name):
    """Numbers that a paper printed.

    Parameters
    ----------
    name : str
        File in `lupi/reproduce/papers`.

    Returns
    -------
    list of dict
    """
    text = files("lupi.reproduce").joinpath(f"papers/{name}.csv").read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


def beside(row, paper, name):
    """Ours beside the paper's, with a mark if they agree within two standard errors.

    Parameters
    ----------
    row : dict
        A method's `mean` and `error`, of a comparison's summary.
    paper : dict
        Numbers of the paper, in percent: `name` and `name` + "_se".
    name : str

    Returns
    -------
    str
    """
    ours, error = 100 * row["mean"], 100 * row["error"]
    theirs, their_error = float(paper[name]), float(paper[f"{name}_se"])
    agree = abs(ours - theirs) <= 2 * np.hypot(error, their_error)
    return f"{ours:.2f} ± {error:.2f} / {theirs:.2f}{'*' if agree else ' '}"


def write_json(path, results):
    """Write the results of an entry, with the versions they were made with.

    Parameters
    ----------
    path : path-like
    results : dict
        Numbers that are not finite are written as words.
    """
    text = json.dumps(_plain({"environment": environment(), **results}), indent=1, allow_nan=False)
    write_atomically(path, (text + "\n").encode())


def _plain(value):
    """The same with plain Python numbers, and words for those that JSON does not have."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value


def write_result(folder, name, **facts):
    """Write what an entry measured as `result.json`, with date and versions.

    Parameters
    ----------
    folder : path-like
    name : str
        The entry.
    **facts : object
        As of :func:`write_json`.
    """
    write_json(Path(folder) / "result.json", {"entry": name, **facts})
