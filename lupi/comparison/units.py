"""One method fitted: on a split, as a unit of work that runs anywhere and in any order, and on all rows, for use."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils.validation import has_fit_parameter

from lupi.comparison.methods import Method, candidates
from lupi.comparison.problem import Data
from lupi.comparison.protocol import (
    METRICS,
    Protocol,
    derived_seed,
    inner_folds,
    measure,
    others_rows,
    permuted_rows,
    split_rows,
    unlabeled_rows,
)
from lupi.tabular.encoder import encode_privileged
from lupi.tabular.model import TabularModel, encode_training, fit_candidates, with_estimator

# Parameters of the final model are chosen on at most so many rows, and it is fitted on at most so many.
MAX_CHOICE, MAX_FIT = 1000, 5000
N_HARD = 12
# Groups of privileged columns that are left out one after the other: at most so many.
MAX_GROUPS = 12
# Number of the "split" whose seeds serve the final model: none that a comparison reaches.
FINAL = 2**31


class Unit(NamedTuple):
    """One unit of work.

    Attributes
    ----------
    size, split : int
    method : str
    control : str
        "" (privileged rows as they are), "shuffled", "permuted N" (the exact test: N permutations of the whole table, with
        fixed parameters), or "without NAME" (a group of privileged columns left out).
    rows : {"labeled", "all"}
        Whether rows without a label join the training set.
    """

    size: int
    split: int
    method: str
    control: str = ""
    rows: str = "labeled"


@dataclass(frozen=True)
class Setup:
    """Everything that a unit needs: it travels to the workers.

    Attributes
    ----------
    protocol : Protocol
    data : Data
    methods : dict of str to Method
    column_groups : dict of str to list of str
        Groups of privileged columns that can be left out.
    """

    protocol: Protocol
    data: Data
    methods: dict[str, Method]
    column_groups: dict | None = None

    def key(self, unit):
        """Name of a unit in the store."""
        end = "" if unit.rows == "labeled" else "/all"
        return f"{unit.size}/{unit.split}/{self.methods[unit.method].key}/{unit.control or 'real'}{end}"


def plan(setup, names):
    """All units of the methods with these names, split by split: an early look at the store is already a comparison.

    Real rows come before shuffled ones, so that every method has been run once, and its time is known, early. A method that uses
    rows without a label is run with them and, for the labeled rows alone, without.

    Returns
    -------
    list of Unit
    """
    protocol, several = setup.protocol, len(setup.data.unlabeled) > 0
    return [
        Unit(size, split, name, control, rows)
        for split in range(protocol.n_splits)
        for control in ("", "shuffled")
        for size in protocol.train_sizes
        for name in names
        if not control or setup.methods[name].privileged
        for rows in (("labeled", "all") if setup.methods[name].unlabeled and several else ("labeled",))
    ]


def run_unit(unit, setup):
    """Choose parameters on the training rows, fit, and score on the test rows.

    Returns
    -------
    dict
        `score` (None if it failed; a list for permutations), `params`, `inner_score`, `n_train` (labeled rows),
        `n_unlabeled`, `n_test`, `error`.
    """
    protocol, data = setup.protocol, setup.data
    trains, test = split_rows(protocol, unit.split, data)
    rows = trains[unit.size]
    more = unlabeled_rows(protocol, unit.split, data, test) if unit.rows == "all" else rows[:0]
    result = {"score": None, "params": None, "inner_score": None}
    result |= {"n_train": len(rows), "n_unlabeled": len(more), "n_test": len(test), "error": None}
    try:
        found = _measured(unit, setup, np.concatenate([rows, more]), test)
        result |= dict(zip(("score", "params", "inner_score"), found))
    except ValueError as problem:  # the other methods can still be compared
        result["error"] = f"{type(problem).__name__}: {problem}"
    return result


def _measured(unit, setup, rows, test):
    protocol, data, method = setup.protocol, setup.data, setup.methods[unit.method]
    if unit.control.startswith("permuted "):
        return _permuted_scores(method, setup, unit, rows, test), None, None
    train = data.rows(rows)
    if unit.control.startswith("without "):
        group = setup.column_groups[unit.control.removeprefix("without ")]
        train = Data(train.X, train.y, train.privileged.drop(group), train.groups)
    model, params, inner = fit_best(method, protocol, unit.split, train, unit.control == "shuffled")
    tested = features_seen(method, data.rows(test))
    score = measure(protocol.metric, model, tested, data.y[test], getattr(model, "classes_", None))
    return score if np.isfinite(score) else None, params, inner


def features_seen(method, data):
    """The table that a method is trained and tested on."""
    if method.sees == "both":
        return data.X.join(data.privileged)
    return data.privileged if method.sees == "privileged" else data.X


def fit_best(method, protocol, split, train, shuffled=False):
    """Inner cross-validation over the grid, then the fit of the best candidate on all training rows.

    Parameters
    ----------
    method : Method
    protocol : Protocol
    split : int
        Number of the split: folds and seeds follow from it.
    train : Data
        Training rows, with or without rows that have no label.
    shuffled : bool
        Whether every row gets another one's privileged row.

    Returns
    -------
    TabularModel, dict, float
        The model, the parameters and their mean inner score.
    """
    regression = not METRICS[protocol.metric].classification
    X = features_seen(method, train)
    Z = train.privileged if method.privileged else None
    if Z is not None and shuffled:
        Z = Z.take(others_rows(len(train.y), derived_seed(protocol.seed, split, "shuffled")))
    estimator = method.build(regression, derived_seed(protocol.seed, split, method.name))
    model = TabularModel(estimator, regression=regression, standardize=protocol.standardize)
    # ParameterGrid sorts the names and keeps the order of the values: ties go to the first, the smaller C.
    grid = list(ParameterGrid(candidates(method, dict(protocol.grids), protocol.kernel, regression)))
    best, score = grid[0], None
    if len(grid) > 1:
        scores = _inner_scores(model, method, grid, protocol, split, train, X, Z)
        index = int(np.nanargmax(scores))
        best, score = grid[index], float(scores[index])
    (fitted,) = fit_candidates(model, [best], X, train.y, Z, train.groups)
    if isinstance(fitted, ValueError):
        raise fitted
    return fitted, best, score


def _inner_scores(model, method, grid, protocol, split, train, X, Z):
    """Mean score of every candidate over the inner folds."""
    scores = []
    # With linear kernels inner products are all that counts.
    rotate = protocol.kernel == "linear" and bool(method.kernels) and method.rotates
    for fit_rows, scored in _folds(method, protocol, split, train, X):
        part = None if Z is None else Z.take(fit_rows)
        groups = None if train.groups is None else train.groups[fit_rows]
        models = fit_candidates(model, grid, X.take(fit_rows), train.y[fit_rows], part, groups, rotate)
        scores.append(_scores_on(models, protocol.metric, *scored))
    # A fold on which nothing could be measured, e.g. one of groups of a single class, chooses nothing.
    mean = np.array([fold for fold in scores if not np.isnan(fold).all()] or scores[:1]).mean(axis=0)
    if np.isnan(mean).all():
        raise ValueError("no candidate of the grid could be fitted on every inner fold.")
    return mean


def _folds(method, protocol, split, train, X):
    """Pairs of positions to fit on, and (table, target) to score on; rows without a label are always fitted on."""
    if train.validation:
        if method.sees != "X":
            raise ValueError("validation rows have no privileged features, which the reference needs.")
        return [(np.arange(len(train.y)), train.validation)]
    labeled, unlabeled = train.labeled, train.unlabeled
    groups = None if train.groups is None else train.groups[labeled]
    folds = []
    for fit_rows, test in inner_folds(protocol, split, train.y[labeled], groups):
        test = labeled[test]
        more = unlabeled
        if groups is not None:
            more = unlabeled[~np.isin(train.groups[unlabeled], train.groups[test])]
        folds.append((np.concatenate([labeled[fit_rows], more]), (X.take(test), train.y[test])))
    return folds


def _scores_on(models, metric, X, y):
    """Score of every fitted candidate; NaN where there is none."""
    scores, features = [], None
    for model in models:
        if isinstance(model, ValueError):
            scores.append(np.nan)
            continue
        features = model.features_of(X) if features is None else features
        target = (y - model.target_mean_) / model.target_scale_ if model.regression_ else y
        try:
            scores.append(
                measure(metric, model.estimator_, features, target, getattr(model.estimator_, "classes_", (0, 1)))
            )
        except ValueError:  # e.g. scores that are not finite
            scores.append(np.nan)
    return scores


def _permuted_scores(method, setup, unit, rows, test):
    """Scores of one split with the privileged rows of the whole table permuted; the first as they are.

    Parameters are fixed, so that nothing was chosen by the look of the real rows. The privileged table is encoded as a
    whole, once: that says nothing about which row is whose.
    """
    protocol, data = setup.protocol, setup.data
    regression = not METRICS[protocol.metric].classification
    estimator = method.build(regression, derived_seed(protocol.seed, unit.split, method.name))
    if method.kernels and protocol.kernel:
        estimator.set_params(**dict.fromkeys(method.kernels[:-1], protocol.kernel))
    hidden = encode_privileged(data.privileged, protocol.standardize)
    train, tested = data.rows(rows), data.rows(test)
    model, features, target = encode_training(
        TabularModel(estimator, regression=regression, standardize=protocol.standardize), train.X, train.y
    )
    extra = {} if train.groups is None or not has_fit_parameter(estimator, "groups") else {"groups": train.groups}
    scores = []
    for number in range(int(unit.control.split()[1]) + 1):
        order = permuted_rows(data, number, protocol.seed)[rows]
        fitted = clone(estimator).fit(features, target, privileged=hidden[order], **extra)
        (score,) = _scores_on([with_estimator(model, fitted)], protocol.metric, tested.X, tested.y)
        scores.append(score)
    if not np.isfinite(scores).all():
        raise ValueError("a permutation could not be scored.")
    return scores


def fit_final(method, setup, classes, labeled_only=False):
    """Fit one method for use.

    Parameters
    ----------
    method : Method
    setup : Setup
        Its metric, kernel, folds, grids and seed serve the choice of parameters.
    classes : ndarray or None
        Labels behind the encoded target; None in regression.
    labeled_only : bool
        Whether rows without a label are left out, though the method could use them.

    Returns
    -------
    TabularModel
    """
    if method.role == "reference":
        raise ValueError("the reference needs the privileged columns at prediction time: it is no model for use.")
    protocol, data = setup.protocol, setup.data
    order = _order(setup)
    extra = data.unlabeled if method.unlabeled and not labeled_only else data.unlabeled[:0]
    extra = np.random.default_rng(protocol.seed).permutation(extra)[:MAX_FIT]
    chosen = data.rows(np.concatenate([np.sort(order[:MAX_CHOICE]), np.sort(extra)]))
    model, params, _ = fit_best(method, protocol, FINAL, chosen)
    everything = data.rows(np.concatenate([np.sort(order[:MAX_FIT]), np.sort(extra)]))
    model.estimator.set_params(**params)
    model.fit(
        everything.X,
        everything.y,
        privileged=everything.privileged if method.privileged else None,
        groups=everything.groups,
    )
    if classes is not None:
        model.classes_ = np.asarray(classes)
    if method.privileged and data.privileged.schema.named:
        model.privileged = data.privileged.columns
    return model


def _order(setup):
    """Labeled rows that a final model may be fitted on, in random order."""
    data = setup.data
    rows = np.random.default_rng(setup.protocol.seed).permutation(data.labeled)
    return rows if data.test_only is None else rows[~data.test_only[rows]]


def column_groups(table):
    """Groups of columns by the beginning of their names: each column alone where there are few.

    Returns
    -------
    dict of str to list of str

    Examples
    --------
    >>> import pandas as pd
    >>> from lupi.tabular.schema import Table
    >>> names = [f"{kind}_{k}" for kind in ("cost", "lab") for k in range(10)]
    >>> {name: len(part) for name, part in column_groups(Table.of(np.zeros((1, 20)))).items()}["columns 0 to 1"]
    2
    >>> {name: len(part) for name, part in column_groups(Table.of(pd.DataFrame(np.zeros((1, 20)), columns=names))).items()}
    {'cost_*': 10, 'lab_*': 10}
    """
    names = list(table.columns)
    if len(names) <= MAX_GROUPS:
        return {name: [name] for name in names}
    found = {}
    if table.schema.named:
        for name in names:
            found.setdefault(re.split(r"[_.\- ]|\d", name, maxsplit=1)[0] or name, []).append(name)
        found = {f"{start}_*" if len(part) > 1 else part[0]: part for start, part in found.items()}
        if 2 <= len(found) <= MAX_GROUPS:
            return found
    parts = np.array_split(np.arange(len(names)), MAX_GROUPS)
    if not table.schema.named:
        return {f"columns {part[0]} to {part[-1]}": [names[k] for k in part] for part in parts}
    return {f"{names[part[0]]} to {names[part[-1]]}": [names[k] for k in part] for part in parts}


def hard_rows(setup, names, classes):
    """Rows that the correcting function of SVM2+ or SVM+ calls hardest; None if neither is compared or has a solution.

    Returns
    -------
    dict or None
        `method`, `median` of all rows, `rows` (the hardest first).
    """
    name = next((name for name in ("svm2+", "svm+") if name in names), None)
    if name is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the units have reported theirs
        try:
            model = fit_final(setup.methods[name], setup, classes)
        except ValueError:
            return None
    data, rows = setup.data, np.sort(_order(setup)[:MAX_FIT])
    hidden = encode_privileged(data.privileged.take(rows), setup.protocol.standardize)
    values = np.asarray(model.estimator_.correcting_function(hidden))
    labels = data.y[rows].astype(np.intp)
    # Of several classes, an example's own one counts.
    values = values if values.ndim == 1 else values[np.arange(len(rows)), labels]
    known = np.flatnonzero(np.isfinite(values))
    order = known[np.argsort(-values[known], kind="stable")][:N_HARD]
    predicted = model.predict(data.X.take(rows[order]))
    return {
        "method": setup.methods[name].title,
        "median": float(np.median(values[known])),
        "rows": [
            {
                "row": int(rows[k]),
                "correction": float(values[k]),
                "label": str(classes[labels[k]]),
                "predicted": str(guess),
            }
            for k, guess in zip(order, predicted)
        ],
    }
