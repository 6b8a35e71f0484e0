"""The plan of a comparison, and its units of work: fits of one method, on a split and on all rows."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.metrics import get_scorer
from sklearn.model_selection import ParameterGrid, StratifiedGroupKFold, StratifiedKFold, train_test_split
from sklearn.utils.validation import has_fit_parameter

from lupi.comparison.methods import KERNELS_TRIED, Method, candidates
from lupi.comparison.problem import METRICS
from lupi.files import digest_of
from lupi.ranking.ranking_metrics import area_of_ranking, precision_of_ranking
from lupi.run import identity
from lupi.tabular import model as tabular

# Rows that select the candidate of a final model, and rows that it is fitted on.
MAX_CHOICE, MAX_FIT = 1000, 5000
# "Split" of the final model's seeds, beyond those of a comparison.
FINAL = 2**31
# 120 scorings per unit of an SVM: scikit-learn's functions take 0.9 ms, these 0.005 ms.
ORDER_METRICS = {"ap": precision_of_ranking, "auc": area_of_ranking}


@dataclass(frozen=True)
class Plan:
    """Settings of a comparison, as in :func:`lupi.compare`.

    Training rows are labeled rows. Smaller training sets are parts of the larger ones; the test rows are the same.
    """

    metric: str = "ap"
    n_splits: int = 20
    train_sizes: tuple[int, ...] = (100,)
    inner_folds: int = 5
    kernel: str | None = None
    seed: int = 0
    max_test: int = 2000
    max_unlabeled: int = 2000
    standardize: bool = True
    grids: dict[str, dict[str, Any]] = field(default_factory=dict)
    methods: dict[str, Method] = field(default_factory=dict)
    splits: tuple[tuple[np.ndarray, ...], ...] = ()  # training, test and perhaps validation rows, if the user gave them

    def __post_init__(self):
        if self.kernel not in (None, *KERNELS_TRIED):
            raise ValueError(f"`kernel` must be one of {', '.join(KERNELS_TRIED)} or None, got {self.kernel!r}.")
        for name, least in (("seed", 0), ("n_splits", 2), ("inner_folds", 2)):
            if getattr(self, name) < least:
                raise ValueError(f"`{name}` must be at least {least}, got {getattr(self, name)}.")
        for name in self.grids if self.methods else ():
            if name not in self.methods:
                raise ValueError(f"`grids` names {name!r}, which is not among the methods {', '.join(self.methods)}.")

    def settings(self):
        """Settings as plain values, for the report."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("methods", "splits")}
        return plain | {"metric_title": METRICS[self.metric].title, "train_sizes": list(self.train_sizes)}

    def identity(self, data_digest):
        """Identity of the results: every setting but the number of splits, so that a store can be continued with more."""
        splits = digest_of(*(rows for split in self.splits for rows in split))
        return identity(settings=self.settings() | {"n_splits": None}, data=data_digest, splits=splits)


def derived_seed(*parts):
    """Seed from numbers and words; the same on every machine and in every process."""
    words = [zlib.crc32(part.encode()) if isinstance(part, str) else int(part) for part in parts]
    return int(np.random.SeedSequence(words).generate_state(1)[0] >> 1)


def given_splits(cv, problem):
    """Splits of a scikit-learn splitter, or of an iterable, as positions in the table."""
    rows = problem.labeled
    groups = None if problem.groups is None else problem.groups[rows]
    found = cv.split(rows, problem.y[rows], groups) if hasattr(cv, "split") else cv
    splits = tuple(tuple(rows[np.asarray(part)] for part in split) for split in found)
    if not splits or not all(len(split) in (2, 3) for split in splits):
        raise ValueError("`cv` must give pairs (train, test) of row positions, or (train, test, validation).")
    return splits


def split_rows(plan, split, problem):
    """Labeled training rows for each size, and the test rows, of one split.

    Classes keep their shares, and groups stay together.
    """
    largest, seed, rows = plan.train_sizes[-1], derived_seed(plan.seed, split, "split"), problem.labeled
    if plan.splits:
        train, test, *_ = plan.splits[split]
    elif problem.groups is None:
        labels = problem.y[rows] if problem.classification else None
        train, test = train_test_split(rows, train_size=largest, stratify=labels, random_state=seed)
    else:
        train, test = _group_split(largest, problem, seed)
    trains = {size: np.sort(_part(train, size, problem, seed)) for size in plan.train_sizes}
    return trains, np.sort(_part(test, plan.max_test, problem, seed))


def unlabeled_rows(plan, split, problem, held_out):
    """Unlabeled rows of the training set of a split; none of a group of the held-out rows."""
    rng = np.random.default_rng(derived_seed(plan.seed, split, "unlabeled"))
    return np.sort(rng.permutation(problem.unlabeled_outside(held_out))[: plan.max_unlabeled])


def _part(rows, size, problem, seed):
    """At most `size` of the rows, the same share of every class; parts of one seed are nested."""
    order = np.random.default_rng(seed).permutation(len(rows))
    if problem.classification:
        members = pd.Series(order).groupby(problem.y[rows[order]])
        order = order[np.argsort(members.cumcount() / members.transform("size"), kind="stable")]
    return rows[order[:size]]


def _group_split(size, problem, seed):
    """Whole groups in random order until the training set is full; draws again if a class is missing on a side."""
    rng, rows = np.random.default_rng(seed), problem.labeled
    names, member = np.unique(problem.groups[rows], return_inverse=True)
    counts, labels = np.bincount(member), problem.y[rows] if problem.classification else np.zeros(len(rows))
    for _ in range(200):
        order = rng.permutation(len(names))
        chosen = np.isin(member, order[: np.searchsorted(np.cumsum(counts[order]), size) + 1])
        found = np.unique(labels[chosen], return_counts=True)[1]
        every = len(found) == len(np.unique(labels[~chosen])) == len(np.unique(labels))
        if every and found.min() > 1 and chosen.sum() >= size:
            return rows[chosen], rows[~chosen]
    problem = (
        f"no split of the {len(names)} groups into {size} training rows and the rest has every class on both sides"
    )
    raise ValueError(f"{problem}; use a smaller train_size, or coarser targets.")


def inner_folds(plan, split, train):
    """Folds of the labeled training rows, as positions among them; the same for every method.

    Groups stay together, unless too few folds would then have every class.
    """
    rows, options = train.labeled, {"shuffle": True, "random_state": derived_seed(plan.seed, split, "folds")}
    y = train.y[rows] if train.classification else np.zeros(len(rows))
    classes, counts = np.unique(y, return_counts=True)
    # No more folds than the rarest class has rows: otherwise a fold lacks it.
    n = max(2, min(plan.inner_folds, counts.min()))
    groups = None if train.groups is None else train.groups[rows]
    if groups is not None and (n_groups := len(np.unique(groups))) > 1:
        # A fold is usable with every class in its training rows, and two in its test rows.
        folds = [
            (inner, outer)
            for inner, outer in StratifiedGroupKFold(min(n, n_groups), **options).split(y, y, groups)
            if len(np.unique(y[inner])) == len(classes) and len(np.unique(y[outer])) >= min(2, len(classes))
        ]
        if len(folds) > 1:
            return folds
    return list(StratifiedKFold(n, **options).split(y, y))


def permuted_rows(problem, number, seed):
    """For every row the row whose privileged values it gets in permutation `number`; number 0 is the identity.

    Rows without privileged values stay without. Rows of one group move together.
    """
    order = np.arange(len(problem.y))
    if number == 0:
        return order
    rows = np.flatnonzero(~problem.privileged.empty_rows())
    rng = np.random.default_rng(derived_seed(seed, number, "permutation"))
    if problem.groups is None:
        order[rows] = rows[rng.permutation(len(rows))]
        return order
    _, member = np.unique(problem.groups[rows], return_inverse=True)
    rank = rng.permutation(member.max() + 1)
    order[rows[np.argsort(member, kind="stable")]] = rows[np.argsort(rank[member], kind="stable")]
    return order


def shuffled_rows(n, seed):
    """Permutation of n rows that moves every row: the order of the shuffled control."""
    ring = np.random.default_rng(seed).permutation(n)
    order = np.empty(n, dtype=np.intp)
    order[ring] = np.roll(ring, 1)
    return order


# ---------------------------------------------------------------- units


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
    order = product(range(plan.n_splits), (False, True), plan.train_sizes, plan.methods.items(), (False, True))
    return [
        Unit(size, split, name, unlabeled, shuffled)
        for split, shuffled, size, (name, method), unlabeled in order
        if method.privileged >= shuffled and (method.unlabeled and len(problem.unlabeled) > 0) >= unlabeled
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
    privileged = train.privileged.drop(unit.without)
    if unit.shuffled:
        privileged = privileged.take(shuffled_rows(len(rows), derived_seed(plan.seed, unit.split, "shuffled")))
    given = plan.splits[unit.split][2:] if plan.splits else ()
    train = replace(train, privileged=privileged, validation=problem.take(given[0]) if given else None)
    model, params, inner = fit_best(method, plan, unit.split, train)
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
    return tabular.TabularModel(estimator, regression=not train.classification, standardize=plan.standardize)


def _fit(model, method, grid, train):
    """Fit every candidate of a grid on the rows of a problem: a model or a ValueError for each."""
    privileged = train.privileged if method.privileged else None
    return tabular.encode_and_fit(model, grid, _features(method, train), train.y, privileged, train.groups)


def _inner_scores(model, method, grid, plan, split, train):
    """Mean score of every candidate over the inner folds; NaN where it failed on one of them."""
    scores = []
    for fold, tested in [(train, train.validation)] if train.validation else _folds(plan, split, train):
        fitted = _fit(model, method, grid, fold)
        scores.append(_scores_on(fitted, plan.metric, _features(method, tested), tested.y))
    # A fold of groups of a single class selects nothing.
    mean = np.array([fold for fold in scores if not np.isnan(fold).all()] or scores[:1]).mean(axis=0)
    if np.isnan(mean).all():
        raise ValueError("no candidate of the grid could be fitted on every inner fold.")
    return mean


def _folds(plan, split, train):
    """Training and test rows of every inner fold; unlabeled rows are in every training set."""
    for rows, test in inner_folds(plan, split, train):
        tested = train.labeled[test]
        yield train.take(np.concatenate([train.labeled[rows], train.unlabeled_outside(tested)])), train.take(tested)


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
    function, scores, classes = ORDER_METRICS[metric], tabular.scores_of(model, X), getattr(model, "classes_", (0, 1))
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
    privileged = tabular.privileged_encoder(problem.privileged, plan.standardize).transform(problem.privileged)
    shared, features, target = tabular.encode_training(model, train.X, train.y)
    grouped = train.groups is not None and has_fit_parameter(shared.estimator, "groups")
    extra = {"groups": train.groups} if grouped else {}
    scores = []
    for number in range(unit.permutations + 1):
        order = permuted_rows(problem, number, plan.seed)[rows]
        fitted = clone(shared.estimator).fit(features, target, privileged=privileged[order], **extra)
        scores += _scores_on([tabular.with_estimator(shared, fitted)], plan.metric, tested.X, tested.y)
    if not np.isfinite(scores).all():
        raise ValueError("a permutation could not be scored.")
    return {"score": scores}


def fit_final(method, problem, plan, labeled_only=False):
    """Fit one method on all rows, for use; with `labeled_only`, on the labeled ones even if it learns from the others."""
    if method.role == "reference":
        raise ValueError("the reference requires the privileged columns at prediction time: it is not a model for use.")
    order = np.random.default_rng(plan.seed).permutation(problem.labeled)
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
