"""What an entry of `python -m experiments` is, and the numbers that the papers printed."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np

from lupi.comparison.summary import environment
from lupi.files import strict_json, write_atomically


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
    features : bool
        Whether it can also be run on features that a user brings.
    """

    name: str
    title: str
    data: str
    run: Callable | None = None
    missing: str = ""
    features: bool = False


def paper_table(name):
    """Numbers that a paper printed.

    Parameters
    ----------
    name : str
        File in `experiments/papers`.

    Returns
    -------
    list of dict
    """
    text = files("experiments").joinpath(f"papers/{name}.csv").read_text("utf-8")
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


def write_result(folder, name, **facts):
    """Write what an entry measured as `result.json`, with date and versions.

    Parameters
    ----------
    folder : path-like
    name : str
        The entry.
    **facts : object
        Numbers that are not finite are written as words.
    """
    content = {"entry": name, "environment": environment(), **facts}
    write_atomically(Path(folder) / "result.json", (strict_json(content, indent=1) + "\n").encode())
