"""Units of work of the study of surrogate learning: one arm on one draw of one task."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from experiments._surrogate_plain import GRIDS, N_FOLDS, PLAIN, fit_plain, held_out_score
from experiments._surrogate_tasks import DIGIT_TASKS, MOST_TEST_ROWS, draw, load_task
from lupi.surrogate.surrogate import SurrogateClassifier

# Columns of noise in place of the privileged ones.
N_NOISE = 40
# Arms -> student. The averaged default is "surrogate"; "plain" is the same student on the labels.
STUDENTS = {"": None, "ridge": "ridge"}


@dataclass(frozen=True)
class Setting:
    """How many rows a task's draws have.

    Attributes
    ----------
    n_labeled : int
    most_unlabeled : int
        As many as that, or as are left; 0: none.
    n_first : int
        The smallest number of labeled rows among the settings that share their draws.
    n_reserved : int
        The largest number of labeled rows among them: the test rows come after these.
    """

    n_labeled: int
    most_unlabeled: int
    n_first: int
    n_reserved: int

    def rows(self, y, split):
        """Rows of one draw: without unlabeled ones the test takes what is left; with them, half of what is left."""
        left = len(y) - self.n_reserved
        n_test = min(MOST_TEST_ROWS, left // 2 if self.most_unlabeled else left)
        n_unlabeled = min(self.most_unlabeled, left - n_test)
        counts = {
            "n_labeled": self.n_labeled,
            "n_unlabeled": n_unlabeled,
            "n_test": n_test,
            "n_first": self.n_first,
        }
        return draw(y, split, **counts)


SIZES = (50, 100, 200)
LABELED = {f"n={n}": Setting(n, 0, min(SIZES), max(SIZES)) for n in SIZES}
UNLABELED = {"60+1000": Setting(60, 1000, 60, 60)}
DIGITS_SETTING = {"60+1140": Setting(60, 1140, 60, 60)}
DIGITS_LABELED = {"n=200": Setting(200, 0, 200, 200)}
SETTINGS = {**LABELED, **UNLABELED, **DIGITS_SETTING, **DIGITS_LABELED}


def protocol():
    """Facts that a store's results depend on."""
    settings = {name: asdict(setting) for name, setting in SETTINGS.items()}
    return {
        "settings": settings,
        "most_test_rows": MOST_TEST_ROWS,
        "grids": GRIDS,
        "folds": N_FOLDS,
        "forest": "out of bag",
        "noise": N_NOISE,
    }


def units(tasks, settings, arms, n_splits, root=None):
    """Work for :func:`experiments._units.finish`: split by split, so that an unfinished run has whole splits.

    Parameters
    ----------
    tasks, settings, arms : iterables of str
        Arms as in :func:`score_arm`.
    n_splits : int
    root : str, optional
        Folder of the research data.

    Returns
    -------
    dict of str to callable
    """
    return {
        f"{task}/{setting}/{arm}/{split}": partial(score_arm, task, setting, arm, split, root)
        for split in range(n_splits)
        for task in tasks
        for setting in settings
        for arm in arms
    }


def score_arm(task, setting, arm, split, root=None):
    """Fit one arm and score it on the test rows.

    Parameters
    ----------
    task, setting : str
        Keys of `TASKS` or `DIGIT_TASKS`, and of `SETTINGS`.
    arm : str
        A plain learner of `PLAIN`; or "plain", "every label", or a kind of :func:`privileged_columns`; for another student than
        the default, after its name and a hyphen ("ridge-plain").
    split : int
    root : str, optional

    Returns
    -------
    dict
        With `score`.
    """
    X, y, Z = load_task(task, root)
    rows = SETTINGS[setting].rows(y, split)
    scoring = "accuracy" if task in DIGIT_TASKS else "roc_auc"
    if arm in PLAIN:
        model, chosen = fit_plain(arm, X[rows.labeled], y[rows.labeled], split, scoring)
        return {"score": held_out_score(model, X[rows.test], y[rows.test], scoring), "chosen": chosen}
    student, kind = arm.rsplit("-", 1) if "-" in arm else ("", arm)
    model = SurrogateClassifier(STUDENTS[student], random_state=split)
    train = np.concatenate([rows.labeled, rows.unlabeled])
    if kind == "plain":
        model.fit(X[rows.labeled], y[rows.labeled])
    elif kind == "every label":
        model.fit(X[train], y[train])
    else:
        known = y[train].astype(float)
        known[len(rows.labeled) :] = np.nan
        model.fit(X[train], known, privileged=privileged_columns(kind, X[train], Z[train], split))
    return {"score": held_out_score(model, X[rows.test], y[rows.test], scoring)}


def privileged_columns(kind, X, Z, seed):
    """The privileged features, or what stands for them in a control.

    Parameters
    ----------
    kind : {"surrogate", "shuffled", "reshuffled", "noise", "copy"}
        As they are; of another training row; of yet another one; standard normal numbers; the decision features once more.
    X, Z : ndarray
        Of the training rows.
    seed : int

    Returns
    -------
    ndarray
    """
    rng = np.random.default_rng([seed, 1])
    columns = {
        "surrogate": lambda: Z,
        "shuffled": lambda: Z[rng.permutation(len(Z))],
        "reshuffled": lambda: Z[np.random.default_rng([seed, 2]).permutation(len(Z))],
        "noise": lambda: rng.normal(size=(len(X), N_NOISE)),
        "copy": lambda: X,
    }
    return columns[kind]()
