"""Fits of one method: on a split, as a unit of work, and on all rows, for use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import get_scorer
from sklearn.model_selection import ParameterGrid
from sklearn.utils.validation import has_fit_parameter

from lupi.comparison.methods import candidates
from lupi.comparison.plan import derived_seed, inner_folds, permuted_rows, shuffled_rows, split_rows, unlabeled_rows
from lupi.ranking.ranking_metrics import area_of_ranking, precision_of_ranking
from lupi.tabular.model import (
    TabularModel,
    encode_and_fit,
    encode_privileged,
    encode_training,
    scores_of,
    with_estimator,
)

# Rows that select the candidate of a final model, and rows that it is fitted on.
MAX_CHOICE, MAX_FIT = 1000, 5000
# "Split" of the final model's seeds, beyond those of a comparison.
FINAL = 2**31
# 120 scorings per unit of an SVM: scikit-learn's functions take 0.9 ms, these 0.005 ms.
ORDER_METRICS = {"ap": precision_of_ranking, "auc": area_of_ranking}


@dataclass(frozen=True)
class Unit:
    """One fit of a comparison.

    With `unlabeled` rows in the training set; with each row getting the privileged values of another row (`shuffled`);
    `without` some privileged columns; or as many `permutations` of the exact test, fitted with fixed parameters.
    """

    size: int
    split: int
    method: str
    unlabeled: bool = False
    shuffled: bool = False
    without: tuple[str, ...] = ()
    permutations: int = 0

    def key(self, plan):
        """Name in the store."""
        parts = (self.size, self.split, plan.methods[self.method].key, self.unlabeled, self.shuffled, self.permutations)
        return "/".join(map(str, (*parts, *self.without)))


@dataclass(frozen=True)
class Result:
    """Result of a unit: its score, None if it failed, or the scores of an exact test (the first without permutation)."""

    n_train: int
    n_unlabeled: int
    n_test: int
    score: float | list[float] | None = None
    params: dict[str, Any] | None = None
    inner_score: float | None = None
    error: str | None = None
    warnings: dict[str, int] | None = None
    seconds: float = 0.0


def plan_units(problem, plan):
    """All units of the methods, split by split, real rows before shuffled ones; with and without unlabeled rows."""
    return [
        Unit(size, split, name, unlabeled, shuffled)
        for split in range(plan.n_splits)
        for shuffled in (False, True)
        for size in plan.train_sizes
        for name, method in plan.methods.items()
        if not shuffled or method.privileged
        for unlabeled in ((False, True) if method.unlabeled and len(problem.unlabeled) else (False,))
    ]


def run_unit(unit, problem, plan):
    """Select a candidate on the training rows, fit it, and score it on the test rows; the fields of a Result."""
    trains, test = split_rows(plan, unit.split, problem)
    rows = trains[unit.size]
    more = unlabeled_rows(plan, unit.split, problem, test) if unit.unlabeled else rows[:0]
    result = {"n_train": len(rows), "n_unlabeled": len(more), "n_test": len(test)}
    run = _permuted_scores if unit.permutations else _fit_and_score
    try:
        return result | run(unit, problem, plan, np.concatenate([rows, more]), problem.take(test))
    except ValueError as error:  # the other methods can still be compared
        return result | {"error": f"{type(error).__name__}: {error}"}


def _fit_and_score(unit, problem, plan, rows, tested):
    method, train = plan.methods[unit.method], problem.take(rows)
    privileged = train.privileged.drop(unit.without) if unit.without else train.privileged
    if unit.shuffled:
        privileged = privileged.take(shuffled_rows(len(rows), derived_seed(plan.seed, unit.split, "shuffled")))
    model, params, inner = fit_best(method, plan, unit.split, replace(train, privileged=privileged))
    score = measure(plan.metric, model, _features(method, tested), tested.y)
    return {"score": score if np.isfinite(score) else None, "params": params, "inner_score": inner}


def _features(method, rows):
    """The table that a method is trained and tested on."""
    if method.sees == "both":
        return rows.X.join(rows.privileged)
    return rows.privileged if method.sees == "privileged" else rows.X


def fit_best(method, plan, split, train):
    """Select a candidate by inner cross-validation and fit it on all training rows: model, parameters, mean inner score."""
    model = _model(method, plan, split, train)
    # ParameterGrid sorts the names and keeps the order of the values: ties go to the first candidate, the smaller C.
    grid = list(ParameterGrid(candidates(method, plan.grids, plan.kernel)))
    best, score = grid[0], None
    if len(grid) > 1:
        scores = _inner_scores(model, method, grid, plan, split, train)
        index = int(np.nanargmax(scores))
        best, score = grid[index], float(scores[index])
    (fitted,) = _fit(model, method, [best], train)
    if isinstance(fitted, ValueError):
        raise fitted
    return fitted, best, score


def _model(method, plan, split, train):
    estimator = method.build(derived_seed(plan.seed, split, method.name))
    return TabularModel(estimator, regression=not train.classification, standardize=plan.standardize)


def _fit(model, method, grid, train):
    """Fit every candidate of a grid on the rows of a problem: a model or a ValueError for each."""
    privileged = train.privileged if method.privileged else None
    return encode_and_fit(model, grid, _features(method, train), train.y, privileged, train.groups)


def _inner_scores(model, method, grid, plan, split, train):
    """Mean score of every candidate over the inner folds; NaN where it failed on one of them."""
    scores = []
    for fitted, tested, y in _fits_on_folds(model, method, grid, plan, split, train):
        scores.append(_scores_on(fitted, plan.metric, tested, y))
    # A fold of groups of a single class selects nothing.
    mean = np.array([fold for fold in scores if not np.isnan(fold).all()] or scores[:1]).mean(axis=0)
    if np.isnan(mean).all():
        raise ValueError("no candidate of the grid could be fitted on every inner fold.")
    return mean


def _fits_on_folds(model, method, grid, plan, split, train):
    """Models of a grid on every fold, with the rows to score them on; every fold is fitted on the unlabeled rows, too."""
    if train.validation:
        if method.sees != "X":
            raise ValueError("validation rows have no privileged features, which the reference requires.")
        yield _fit(model, method, grid, train), *train.validation
        return
    for rows, test in inner_folds(plan, split, train):
        tested = train.take(train.labeled[test])
        fold = train.take(np.concatenate([train.labeled[rows], train.unlabeled_outside(train.labeled[test])]))
        yield _fit(model, method, grid, fold), _features(method, tested), tested.y


def _scores_on(models, metric, X, y):
    """Score of every candidate on a table, which is encoded once; NaN where the fit or the score failed."""
    scores, features = [], None
    for model in models:
        try:
            if isinstance(model, ValueError):
                raise model
            features = model.features_of(X) if features is None else features
            target = (y - model.target_mean_) / model.target_scale_ if model.regression_ else y
            scores.append(measure(metric, model.estimator_, features, target))
        except ValueError:
            scores.append(np.nan)
    return scores


def measure(metric, model, X, y):
    """Score of a fitted model on test rows; classes without a name are 0 and 1."""
    if metric == "accuracy":
        return float(np.mean(y == model.predict(X)))
    if metric not in ORDER_METRICS:
        return float(get_scorer(metric)(model, X, y))
    function, scores, classes = ORDER_METRICS[metric], scores_of(model, X), getattr(model, "classes_", (0, 1))
    if not np.isfinite(scores).all():
        raise ValueError("the fitted model returns scores that are not finite.")
    if scores.ndim == 1:
        return float(function(y == classes[1], scores))
    return float(np.mean([function(y == label, scores[:, k]) for k, label in enumerate(classes) if np.any(y == label)]))


def _permuted_scores(unit, problem, plan, rows, tested):
    """Scores of one split with the privileged rows of the whole table permuted; the first without permutation."""
    # Parameters are fixed, and the table is encoded as a whole: nothing depends on the real order.
    method, train = plan.methods[unit.method], problem.take(rows)
    model = _model(method, plan, unit.split, train)
    if method.kernels and plan.kernel:
        model.estimator.set_params(**dict.fromkeys(method.kernels[:-1], plan.kernel))
    privileged = encode_privileged(problem.privileged, plan.standardize)
    shared, features, target = encode_training(model, train.X, train.y)
    grouped = train.groups is not None and has_fit_parameter(shared.estimator, "groups")
    extra = {"groups": train.groups} if grouped else {}
    scores = []
    for number in range(unit.permutations + 1):
        order = permuted_rows(problem, number, plan.seed)[rows]
        fitted = clone(shared.estimator).fit(features, target, privileged=privileged[order], **extra)
        scores += _scores_on([with_estimator(shared, fitted)], plan.metric, tested.X, tested.y)
    if not np.isfinite(scores).all():
        raise ValueError("a permutation could not be scored.")
    return {"score": scores}


def fit_final(method, problem, plan, labeled_only=False):
    """Fit one method on all rows, for use; with `labeled_only`, on the labeled ones even if it learns from the others."""
    if method.role == "reference":
        raise ValueError("the reference requires the privileged columns at prediction time: it is not a model for use.")
    order = np.random.default_rng(plan.seed).permutation(problem.labeled)
    if problem.test_only is not None:
        order = order[~problem.test_only[order]]
    more = problem.unlabeled if method.unlabeled and not labeled_only else problem.unlabeled[:0]
    more = np.sort(np.random.default_rng(plan.seed).permutation(more)[:MAX_FIT])
    chosen = problem.take(np.concatenate([np.sort(order[:MAX_CHOICE]), more]))
    model, params, _ = fit_best(method, plan, FINAL, chosen)
    model.estimator.set_params(**params)
    rows = problem.take(np.concatenate([np.sort(order[:MAX_FIT]), more]))
    model.fit(rows.X, rows.y, privileged=rows.privileged if method.privileged else None, groups=rows.groups)
    if problem.classes is not None:
        model.classes_ = np.asarray(problem.classes)
    if method.privileged and problem.privileged.schema.named:
        model.privileged = problem.privileged.columns
    return model
