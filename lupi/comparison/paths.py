"""Scores of a whole grid on one inner fold: work that several candidates share is done once."""

from __future__ import annotations

from itertools import groupby

import numpy as np
from sklearn.base import clone

from lupi.comparison.metrics import measure
from lupi.estimators._meta import StudentMethods, student_fitter
from lupi.estimators.paths import fit_path

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
