"""Many candidates on the same rows: work that they share is done once."""

from __future__ import annotations

from itertools import groupby

from sklearn.base import clone

from lupi.estimators._meta import StudentMethods, student_fitter
from lupi.estimators._path import fit_path as fit_one_by_one

STUDENT = "estimator__"


def fit_path(estimator, candidates, X, y, **extra):
    """Fit an estimator for each candidate.

    Parameters
    ----------
    estimator : estimator
        Unfitted.
    candidates : list of dict
        Parameters of each fit.
    X, y : array-like
        Training data.
    **extra
        Further arguments of `fit`, such as `privileged`.

    Returns
    -------
    list of estimator or ValueError
        For each candidate the fitted clone, or why there is none.
    """
    if not isinstance(estimator, StudentMethods) or "groups" in extra:
        return fit_one_by_one(estimator, candidates, X, y, **extra)

    def teacher(index):
        return sorted((key, value) for key, value in candidates[index].items() if not key.startswith(STUDENT))

    # The teacher is fitted once for all candidates that differ in the student only.
    fitted = [None] * len(candidates)
    for shared, members in groupby(sorted(range(len(candidates)), key=teacher), key=teacher):
        try:
            fit = student_fitter(clone(estimator).set_params(**dict(shared)), X, y, extra.get("privileged"))
        except ValueError as problem:
            for index in members:
                fitted[index] = problem
            continue
        for index in members:
            params = {key.removeprefix(STUDENT): v for key, v in candidates[index].items() if key.startswith(STUDENT)}
            try:
                fitted[index] = fit(**params)
            except ValueError as problem:
                fitted[index] = problem
    return fitted
