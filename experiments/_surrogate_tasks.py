"""Tasks of the study of surrogate learning: eleven tables with natural privileged columns, digits, and how rows are drawn."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from experiments.data import load_awa, load_research_table
from experiments.data_research_tables import FOLLOWUP
from lupi.datasets import load_digits_lowres

# Name -> what it is, in the order of the tables of results.
TASKS = {
    "wagepan": "wage of 1987 from the record of 1980; wages and hours between",
    "card": "wage from background at 14; schooling, tests, experience",
    "star": "score of grade 3 from kindergarten; scores of grades 1 and 2",
    "econmath": "exam from the school record; effort and average during the course",
    "rotterdam": "death by 8 years of women alive at 3 years; recurrence by then",
    "storms": "stronger in 24 hours; the next 18 hours",
    "opt": "birth weight from the first visit; later visits, outcome",
    "support2": "death in hospital from admission; stay, costs, doctors' estimates",
    "student_performance": "final grade of at least 12 from background; grades during the year",
    "bank_marketing": "subscription from the record; duration of the call",
    "awa": "rat or seal from 2000 visual words; 85 attributes",
}
DIGIT_TASKS = {"digits_4x4": 4, "digits_2x2": 2}
# The final grade that about half of the pupils reach.
GOOD_GRADE = 12
# Scores that the study's own prognostic model gave on the third day, as its survival estimates, which are privileged.
LEFT_OUT = {"support2": ["sps", "aps"]}
# Of each class among the labeled rows: inner cross-validation has three folds.
FEWEST_OF_A_CLASS = 5
MOST_TEST_ROWS = 2000


@dataclass(frozen=True, eq=False)
class Rows:
    """Row numbers of one draw.

    Attributes
    ----------
    labeled, unlabeled, test : ndarray of int
    """

    labeled: np.ndarray
    unlabeled: np.ndarray
    test: np.ndarray


@cache
def load_task(name, root=None):
    """Numeric arrays of a task: words as one column for each value, gaps as medians.

    Parameters
    ----------
    name : str
        A key of `TASKS` or of `DIGIT_TASKS`.
    root : str, optional
        Folder that contains the folders of research data; by default the one that LUPI_DATA names.

    Returns
    -------
    X, y, Z : ndarray
        Decision features, classes numbered from 0, privileged features.

    Examples
    --------
    >>> X, y, Z = load_task("digits_2x2")
    >>> X.shape, Z.shape
    ((1797, 4), (1797, 64))
    """
    if name in DIGIT_TASKS:
        X, y, Z = load_digits_lowres(resolution=DIGIT_TASKS[name], return_X_y_privileged=True)
        return X, y, Z

    if name == "awa":
        pictures = load_awa(_folder(root, "awa_surf"), classes=("rat", "seal"))
        return pictures.data, pictures.target, pictures.privileged
    X, y, Z, _ = load_table(name, root)
    return _numbers(X), y, _numbers(Z)


def load_table(name, root=None):
    """A table as it is in the file, with words and gaps; the target as two classes.

    Parameters
    ----------
    name : str
        As of :func:`lupi.datasets.load_research_table`.
    root : str, optional
        Folder that contains the folders of research data.

    Returns
    -------
    X, y, Z, groups : data frame, ndarray of int, data frame, ndarray or None
    """
    table = load_research_table(name, _folder(root, "followup" if name in FOLLOWUP else name))
    y = {"student_performance": lambda grade: grade >= GOOD_GRADE, "bank_marketing": lambda word: word == "yes"}
    target = y.get(name, lambda value: value == 1)(table.target).astype(int)
    return table.data.drop(columns=LEFT_OUT.get(name, [])), target, table.privileged, table.groups


def _folder(root, kind):
    return None if root is None else Path(root) / kind


def _numbers(frame):
    import pandas as pd  # an optional dependency, as in scikit-learn

    columns = pd.get_dummies(frame, dtype=float).astype(float)
    return columns.fillna(columns.median()).to_numpy()


def data_digest(names, root=None):
    """SHA-256 of the arrays of some tasks."""
    total = hashlib.sha256()
    for name in names:
        for array in load_task(name, root):
            total.update(np.ascontiguousarray(array, dtype=np.float64).tobytes())
    return total.hexdigest()


def draw(y, split, *, n_labeled, n_unlabeled, n_test, n_first):
    """Rows of one split: drawn at random, the first `n_first` with enough rows of every class.

    Draws with more labeled rows contain those with fewer, and the test rows are the same for all of them.

    Parameters
    ----------
    y : ndarray
        Classes.
    split : int
        Number of the split, the seed of the draw.
    n_labeled, n_unlabeled, n_test : int
        How many rows of each kind.
    n_first : int
        The smallest number of labeled rows in the study.

    Returns
    -------
    Rows

    Examples
    --------
    >>> rows = draw(np.arange(40) % 2, 0, n_labeled=20, n_unlabeled=10, n_test=10, n_first=20)
    >>> sorted(np.concatenate([rows.labeled, rows.unlabeled, rows.test])) == list(range(40))
    True
    """
    rng = np.random.default_rng(split)
    n_classes = y.max() + 1
    least = min(FEWEST_OF_A_CLASS, n_first // (2 * n_classes))
    while True:
        order = rng.permutation(len(y))
        if np.bincount(y[order[:n_first]], minlength=n_classes).min() >= least:
            break
    test = order[len(order) - n_test :]
    return Rows(order[:n_labeled], order[n_labeled : n_labeled + n_unlabeled], test)
