"""Scores of a whole grid on one inner fold: work that several candidates share is done once."""

from __future__ import annotations

from itertools import groupby, product

import numpy as np
from sklearn.base import clone

from lupi.comparison.metrics import METRICS, measure
from lupi.estimators._meta import StudentMethods, student_fitter
from lupi.estimators.paths import fit_path
from lupi.estimators.rank_svm import RankSVM
from lupi.estimators.rank_transfer import RankTransfer
from lupi.estimators.rank_transfer_cv import RankTransferCV

STUDENT = "estimator__"


def grid_scores(metric, estimator, grid, train, test):
    """Score of every candidate, fitted on the training rows of a fold and measured on its test rows.

    Parameters
    ----------
    metric : str
        Name of the metric.
    estimator : estimator
        Unfitted.
    grid : list of dict
        The candidates.
    train : tuple of ndarray
        Features, target, and privileged features or None.
    test : tuple of ndarray
        Features and target.

    Returns
    -------
    list of float
        NaN where a candidate has no solution.
    """
    if isinstance(estimator, RankSVM | RankTransfer):
        scores = _ranker_scores(metric, estimator, grid, train, test)
        if scores is not None:
            return scores
    scores = [np.nan] * len(grid)
    for index, fit in _fits(estimator, grid, *train):
        try:
            model = fit()
            scores[index] = measure(metric, model, *test, getattr(model, "classes_", np.array([0, 1])))
        except ValueError:  # e.g. no solution for these parameters
            continue
    return scores


def _fits(estimator, grid, X, y, privileged):
    """Pairs of a candidate's number and a function that returns its fitted model."""
    if isinstance(estimator, StudentMethods):
        yield from _student_fits(estimator, grid, X, y, privileged)
        return
    extra = {} if privileged is None else {"privileged": privileged}
    for index, model in enumerate(fit_path(estimator, grid, X, y, **extra)):
        if not isinstance(model, ValueError):
            yield index, lambda model=model: model


def _student_fits(estimator, grid, X, y, privileged):
    """The teacher is fitted once for all candidates that differ in the student only."""

    def teacher(index):
        return sorted((key, value) for key, value in grid[index].items() if not key.startswith(STUDENT))

    for shared, members in groupby(sorted(range(len(grid)), key=teacher), key=teacher):
        try:
            fit = student_fitter(clone(estimator).set_params(**dict(shared)), X, y, privileged)
        except ValueError:
            continue
        for index in members:
            params = {key.removeprefix(STUDENT): v for key, v in grid[index].items() if key.startswith(STUDENT)}
            yield index, lambda fit=fit, params=params: fit(**params)


def _ranker_scores(metric, estimator, grid, train, test):
    """A warm-started path over C, with each teacher trained once; None if the grid has other parameters."""
    if any(set(params) != set(grid[0]) or set(params) - {"C", "C_privileged"} for params in grid):
        return None
    X, y, privileged = train
    rows = len(y)
    fold = np.arange(rows), np.arange(rows, rows + len(test[1]))
    known = np.zeros(rows + len(test[1]), bool)
    teachers = sorted({params.get("C_privileged", 1.0) for params in grid})
    if privileged is not None:
        known[:rows] = ~np.isnan(privileged).all(axis=1)
        privileged = np.vstack([privileged, np.full((len(test[1]), privileged.shape[1]), np.nan)])
    if not known.any():
        privileged, teachers = None, teachers[:1]
    students = sorted({params.get("C", estimator.C) for params in grid})
    shared = {key: value for key, value in estimator.get_params().items() if key not in ("C", "C_privileged")}
    search = RankTransferCV(**shared, scoring=lambda y, scores, _: METRICS[metric].function(y, scores, (0, 1)))
    X, y = np.vstack([X, test[0]]), np.append(y, test[1])
    try:
        scores = search.score_fold(X, y, privileged, known, None, fold, np.array(students), np.array(teachers))
    except ValueError:
        return None
    scores = dict(zip(product(teachers, students), scores))
    first = teachers[0]
    return [
        scores[first if privileged is None else params.get("C_privileged", 1.0), params.get("C", estimator.C)]
        for params in grid
    ]
