"""Surrogate learning on eleven tables with and without unlabeled rows, on digits, and with useless privileged columns."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer, roc_auc_score
from sklearn.model_selection import GridSearchCV, ParameterGrid, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from experiments.common import entry, markdown_table, run_stored, subfolder, write_result
from experiments.data import FOLLOWUP, load_awa, load_research_table
from lupi import SurrogateClassifier
from lupi.datasets import load_digits_lowres
from lupi.files import digest_of, write_atomically

# ---------------------------------------------------------------- tasks

TASKS = (
    "wagepan", "card", "star", "econmath", "rotterdam", "storms", "opt", "support2", "student_performance",
    "bank_marketing", "awa",
)  # fmt: skip
DIGIT_TASKS = {"digits_4x4": 4, "digits_2x2": 2}
# Scores that the study's own prognostic model gave on the third day.
LEFT_OUT = {"support2": ["sps", "aps"]}
MOST_TEST_ROWS = 2000


def load_table(name, root=None):
    """A table with words and gaps as in the file; the target as two classes: X, y, Z, groups."""
    table = load_research_table(name, subfolder(root, "followup" if name in FOLLOWUP else name))
    # About half of the pupils reach a final grade of 12.
    classes = {"student_performance": lambda grade: grade >= 12, "bank_marketing": lambda word: word == "yes"}
    target = classes.get(name, lambda value: value == 1)(table.target).astype(int)
    return table.data.drop(columns=LEFT_OUT.get(name, [])), target, table.privileged, table.groups


@cache
def load_task(name, root=None):
    """Numeric arrays X, y, Z of a task: one column per word, gaps as medians."""
    if name in DIGIT_TASKS:
        return load_digits_lowres(resolution=DIGIT_TASKS[name], return_X_y_privileged=True)
    if name == "awa":
        pictures = load_awa(subfolder(root, "awa_surf"), classes=("rat", "seal"))
        return pictures.data, pictures.target, pictures.privileged
    X, y, Z, _ = load_table(name, root)
    return numeric(X), y, numeric(Z)


def numeric(frame):
    """One column per number and per word; gaps as medians."""
    columns = pd.get_dummies(frame, dtype=float).astype(float)
    return columns.fillna(columns.median()).to_numpy()


@dataclass(frozen=True)
class Setting:
    """Row counts: `n_labeled`, at most `most_unlabeled`; `n_first` and `n_reserved` are the smallest and largest numbers
    of labeled rows among the settings that share their draws.
    """

    n_labeled: int
    most_unlabeled: int
    n_first: int
    n_reserved: int

    def rows(self, y, split):
        """Labeled, unlabeled and test rows of a split; larger training sets contain smaller ones, the test rows are the same."""
        left = len(y) - self.n_reserved
        n_test = min(MOST_TEST_ROWS, left // 2 if self.most_unlabeled else left)
        n_unlabeled = min(self.most_unlabeled, left - n_test)
        rng, n_classes = np.random.default_rng(split), y.max() + 1
        # Five rows of every class among the first labels, if there are enough labels: inner folds need them.
        least, order = min(5, self.n_first // (2 * n_classes)), rng.permutation(len(y))
        while np.bincount(y[order[: self.n_first]], minlength=n_classes).min() < least:
            order = rng.permutation(len(y))
        end = self.n_labeled + n_unlabeled
        return order[: self.n_labeled], order[self.n_labeled : end], order[len(order) - n_test :]


SIZES = (50, 100, 200)
LABELED = {f"n={n}": Setting(n, 0, min(SIZES), max(SIZES)) for n in SIZES}
UNLABELED = {"60+1000": Setting(60, 1000, 60, 60)}
DIGITS = {"60+1140": Setting(60, 1140, 60, 60)}
SETTINGS = LABELED | UNLABELED | DIGITS | {"n=200 digits": Setting(200, 0, 200, 200)}

# ---------------------------------------------------------------- arms

PLAIN = ("logistic", "forest", "boosting", "svm")
STUDY = ("plain", "surrogate", "shuffled")
N_NOISE = 40


def fit_plain(name, X, y, seed, scoring):
    """A common learner, tuned by three inner folds; the forest by out-of-bag votes."""
    if name == "forest":
        return _best_forest(X, y, seed, scoring)
    if name == "logistic":
        learner = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
        grid = {"logisticregression__C": [0.001, 0.01, 0.1, 1.0, 10.0]}
    elif name == "svm":
        learner = make_pipeline(StandardScaler(), SVC())
        grid = {"svc__C": [0.1, 1.0, 10.0, 100.0], "svc__gamma": [0.2 / X.shape[1], 1.0 / X.shape[1]]}
    else:
        learner = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=6, early_stopping=False, random_state=seed)
        grid = {"min_samples_leaf": [5, 15]}
    # Ten classes and 60 labels: a class may have fewer rows than there are folds.
    folds = StratifiedKFold(max(2, min(3, np.bincount(y).min())), shuffle=True, random_state=seed)
    return GridSearchCV(learner, grid, scoring=scoring, cv=folds).fit(X, y).best_estimator_


def _best_forest(X, y, seed, scoring):
    candidates = []
    for params in ParameterGrid({"min_samples_leaf": [1, 5]}):
        model = RandomForestClassifier(200, oob_score=True, random_state=seed, **params).fit(X, y)
        votes = model.oob_decision_function_
        score = np.mean(votes.argmax(axis=1) == y) if scoring == "accuracy" else roc_auc_score(y, votes[:, 1])
        candidates.append((score, model))
    return max(candidates, key=lambda candidate: candidate[0])[1]


def privileged_columns(kind, X, Z, seed):
    """The privileged features, or those of a control."""
    rng = np.random.default_rng([seed, 1])
    return {
        "surrogate": lambda: Z,
        "shuffled": lambda: Z[rng.permutation(len(Z))],
        "reshuffled": lambda: Z[np.random.default_rng([seed, 2]).permutation(len(Z))],
        "noise": lambda: rng.normal(size=(len(X), N_NOISE)),
        "copy": lambda: X,
    }[kind]()


def score_arm(task, setting, arm, split, root=None):
    """Fit one arm on one split and score it on the test rows.

    Arms: a learner of `PLAIN`; "plain", "every label" or a kind of :func:`privileged_columns`, for the closed form after "ridge-".
    """
    X, y, Z = load_task(task, root)
    labeled, unlabeled, test = SETTINGS[setting].rows(y, split)
    scoring = "accuracy" if task in DIGIT_TASKS else "roc_auc"
    if arm in PLAIN:
        model = fit_plain(arm, X[labeled], y[labeled], split, scoring)
    else:
        kind = arm.removeprefix("ridge-")
        model = SurrogateClassifier("ridge" if kind != arm else None, random_state=split)
        fit_kind(model, kind, X, y, Z, labeled, unlabeled, split)
    return {"score": float(get_scorer(scoring)(model, X[test], y[test]))}


def fit_kind(model, kind, X, y, Z, labeled, unlabeled, seed):
    """Fit to the labeled rows ("plain"), to every label, or with a kind of :func:`privileged_columns`."""
    train = np.concatenate([labeled, unlabeled])
    if kind in ("plain", "every label"):
        rows = labeled if kind == "plain" else train
        return model.fit(X[rows], y[rows])
    known = y[train].astype(float)
    known[len(labeled) :] = np.nan
    return model.fit(X[train], known, privileged=privileged_columns(kind, X[train], Z[train], seed))


def run_part(part, plan, data, out, *, n_splits=30, units=None, n_jobs=1, on_progress=None):
    """Scores by task, setting and arm, of ``plan``: a list of (tasks, settings, arms); written to `scores.json`.

    ``units``: functions that score an arm and load a task, and the settings; None are those of the eleven tables and digits.
    """
    score, load, all_settings = units or (score_arm, load_task, SETTINGS)
    root = None if data is None else str(data)
    keys = [(*key, k) for arms in plan for k in range(n_splits) for key in product(*arms)]
    work = {"/".join(map(str, key)): (score, *key, root) for key in keys}
    digests = {task: digest_of(*load(task, root)) for task in {key[0] for key in keys}}
    facts = {"entry": part, "data": digests, "settings": {name: asdict(s) for name, s in all_settings.items()}}
    results = run_stored(work, out / f"{part}.sqlite", facts, n_jobs=n_jobs, on_progress=on_progress)
    scores: dict = {}
    for (task, setting, arm, _), result in zip(keys, results.values()):
        by_arm = scores.setdefault(task, {}).setdefault(setting.removesuffix(" digits"), {})
        by_arm.setdefault(arm, []).append(round(result["score"], 5))
    write_atomically(out / "scores.json", (json.dumps(scores, separators=(",", ":")) + "\n").encode())
    write_result(out, out.name, splits=n_splits, seconds=sum(result["seconds"] for result in results.values()))
    return scores


# ---------------------------------------------------------------- tables


@dataclass(frozen=True)
class Difference:
    """Paired difference of two arms in points; it counts from two standard errors on."""

    mean: float
    error: float

    @classmethod
    def of(cls, first, second):
        points = 100 * (np.asarray(first) - np.asarray(second))
        return cls(float(points.mean()), float(points.std(ddof=1) / np.sqrt(len(points))))

    @property
    def above(self):
        return self.mean > 2 * self.error

    @property
    def below(self):
        return self.mean < -2 * self.error

    def __str__(self):
        return f"{self.mean:+.2f} ± {self.error:.2f}"


def outcome(arms, name, plain, shuffled):
    """Win: above the plain counterpart and the shuffled control; harm: below the counterpart."""
    gain = Difference.of(arms[name], arms[plain])
    if gain.below:
        return "harm"
    return "win" if gain.above and Difference.of(arms[name], arms[shuffled]).above else ""


def best_plain(arms):
    """The common learner with the best mean on the test rows, picked in hindsight."""
    return max(PLAIN, key=lambda name: np.mean(arms[name]))


def mean_score(scores):
    return f"{100 * np.mean(scores):.1f}"


def mean_change(differences):
    return f"{np.mean([difference.mean for difference in differences]):+.2f}"


def gains_lines(scores, *, students=("", "ridge-"), reference=None, learners=None):
    """For every setting and student a sentence and a table: gains over the baseline and over common learners.

    ``learners``: arms to compare with, one by one; None is the best of `PLAIN`. ``reference``: an arm whose score is shown.
    """
    titles, lines = {"": "default", "ridge-": "ridge student"}, []
    rivals = {"best common learner": best_plain} if learners is None else {a: lambda arms, a=a: a for a in learners}
    head = ["task", "baseline", "surrogate", "gain", "shuffled"]
    head += [cell for title in rivals for cell in (title, "gain over it")] + [*([reference] if reference else []), ""]
    for setting, student in product(next(iter(scores.values())), students):
        plain, name, shuffled = (f"{student}{arm}" for arm in STUDY)
        tables = [settings[setting] for settings in scores.values()]
        gains, controls = ([Difference.of(arms[a], arms[plain]) for arms in tables] for a in (name, shuffled))
        outcomes = [outcome(arms, name, plain, shuffled) for arms in tables]
        columns = [scores, *([mean_score(arms[a]) for arms in tables] for a in (plain, name)), gains, controls]
        text = f"{titles[student]}, {setting}, {min(len(arms[name]) for arms in tables)} splits: {outcomes.count('win')} wins, "
        text += f"{outcomes.count('harm')} harms of {len(tables)}; mean gain {mean_change(gains)} "
        text += f"(shuffled {mean_change(controls)})"
        for title, pick in rivals.items():
            over = [Difference.of(arms[name], arms[pick(arms)]) for arms in tables]
            above, below = sum(change.above for change in over), sum(change.below for change in over)
            text += f"; over {title} {mean_change(over)}, above on {above}, below on {below}"
            columns += [[f"{pick(arms)} {mean_score(arms[pick(arms)])}" for arms in tables], over]
        if reference:
            columns.append([mean_score(arms[reference]) for arms in tables])
        lines += ["", f"{text}.", "", *markdown_table(head, zip(*columns, outcomes))]
    return lines


def controls_lines(scores):
    """Changes that useless privileged columns make: mean and worst over the tasks of each setting."""
    head = ["privileged columns", "classes", "rows", "mean change", "worst task", "best task", "above plain", "wins"]
    rows, groups = [], {}
    for task, settings in scores.items():
        for setting in settings:
            groups.setdefault(("ten" if task.startswith("digits") else "two", setting), []).append(task)
    for control in ("shuffled", "noise", "copy"):
        for (classes, setting), tasks in groups.items():
            arms = {task: scores[task][setting] for task in tasks}
            changes = {task: Difference.of(arms[task][control], arms[task]["plain"]) for task in tasks}
            low, high = (pick(changes, key=lambda task: changes[task].mean) for pick in (min, max))
            # A shuffled arm needs another shuffling as its own control.
            wins = sum(outcome(arms[task], control, "plain", "reshuffled") == "win" for task in tasks)
            cells = [control, classes, setting, mean_change(changes.values()), f"{low} {changes[low]}"]
            cells += [f"{high} {changes[high]}", sum(c.above for c in changes.values()), f"{wins} of {len(changes)}"]
            rows.append(cells)
    return markdown_table(head, rows)


# ---------------------------------------------------------------- entries

NEEDS = "followup, support2, student_performance, bank_marketing, awa_surf"
RIDGE = tuple(f"ridge-{arm}" for arm in STUDY)


@entry("surrogate-tables", "Surrogate learning, 11 tables, 50 to 200 labeled rows", NEEDS)
def tables(data, out, *, tasks=None, **options):
    plan = [(TASKS[:tasks], LABELED, (*PLAIN, *STUDY, *RIDGE))]
    return gains_lines(run_part("tables", plan, data, out, **options))


@entry("surrogate-unlabeled", "Surrogate learning, 11 tables, 60 labels and unlabeled rows", NEEDS)
def unlabeled(data, out, *, tasks=None, **options):
    plan = [(TASKS[:tasks], UNLABELED, (*PLAIN, *STUDY, *RIDGE, "every label"))]
    return gains_lines(run_part("unlabeled", plan, data, out, **options), reference="every label")


@entry("surrogate-digits", "Surrogate learning, ten digits, 60 labels and unlabeled rows", "nothing")
def digits(data, out, *, n_splits=20, tasks=None, **options):
    plan = [(list(DIGIT_TASKS)[:tasks], DIGITS, (*PLAIN, *STUDY, "every label"))]
    scores = run_part("digits", plan, data, out, n_splits=n_splits, **options)
    return gains_lines(scores, students=("",), reference="every label")


@entry("surrogate-controls", "Surrogate learning with useless privileged columns", NEEDS)
def controls(data, out, *, tasks=None, **options):
    arms = ("plain", "reshuffled", "shuffled", "noise", "copy")
    plan = [(TASKS[:tasks], ("n=100", "60+1000"), arms), (list(DIGIT_TASKS)[:tasks], ("n=200 digits", "60+1140"), arms)]
    return controls_lines(run_part("controls", plan, data, out, **options))
