"""Fits of one classifier for many parameters on the same data."""

from __future__ import annotations

import math

from sklearn.base import clone

from lupi.estimators._base import KernelClassifier

# Parameters that leave kernels and checked data as they are.
PRICES = frozenset({"C", "lam", "kappa", "D", "C_privileged", "epsilon"})


def fit_path(estimator, candidates, X, y, **extra):
    """Fit an estimator for each candidate, at less cost than one by one where it can be done.

    The kernel classifiers check the data and form their kernel matrices once, and start from the solution of the nearest
    candidate that is already solved. The fits are the same within the solver's tolerance.

    Parameters
    ----------
    estimator : estimator
    candidates : sequence of dict
        Parameters of each fit.
    X, y : array-like
        Training data.
    **extra
        Further arguments of `fit`, such as `privileged`.

    Returns
    -------
    list of estimator or ValueError
        For each candidate the fitted clone, or why there is none.

    Examples
    --------
    >>> from lupi import SVMPlus
    >>> from lupi.datasets import make_privileged
    >>> X, y, Z = make_privileged(60, random_state=0, return_X_y_privileged=True)
    >>> models = fit_path(SVMPlus(), [{"C": 1.0}, {"C": 10.0}], X, y, privileged=Z)
    >>> [model.C for model in models]
    [1.0, 10.0]
    """
    if isinstance(estimator, KernelClassifier):
        fitted = [None] * len(candidates)
        for kernels, members in _same_kernels(candidates).items():
            prices = [{k: v for k, v in candidates[j].items() if k in PRICES} for j in members]
            models = _warm_started(clone(estimator).set_params(**dict(kernels)), prices, X, y, **extra)
            for j, model in zip(members, models):
                fitted[j] = model
        return fitted
    fitted = []
    for params in candidates:
        try:
            fitted.append(clone(estimator).set_params(**params).fit(X, y, **extra))
        except ValueError as problem:
            fitted.append(problem)
    return fitted


def _same_kernels(candidates):
    """Positions of the candidates, by those of their parameters that kernels and data depend on."""
    groups = {}
    for k, params in enumerate(candidates):
        key = tuple(sorted((name, value) for name, value in params.items() if name not in PRICES))
        groups.setdefault(key, []).append(k)
    return groups


def _warm_started(estimator, candidates, X, y, privileged=None, sample_weight=None):
    fitted = [None] * len(candidates)
    solved = {}
    data = facts = None
    # With a large lam the correcting function hardly moves: the easiest problem of each C comes first.
    for k in sorted(
        range(len(candidates)), key=lambda k: (candidates[k].get("C", 0.0), -candidates[k].get("lam", 0.0))
    ):
        model = clone(estimator).set_params(**candidates[k])
        near = min(solved, key=lambda j: _distance(candidates[k], candidates[j]), default=None)
        try:
            model._validate_params()
            if data is None:
                data = model._check(X, y, privileged, sample_weight)
                facts = {name: value for name, value in vars(model).items() if name not in model.get_params()}
            vars(model).update(facts)
            solved[k] = model._solve(data, solved.get(near))
            fitted[k] = model
        except ValueError as problem:
            fitted[k] = problem
    return fitted


def _distance(first, second):
    """Steps on a logarithmic scale between two candidates; kappa may be infinite, epsilon 0, and a value invalid."""
    pairs = [(first[name], second[name]) for name in first]
    return sum(abs(_log(a) - _log(b)) for a, b in pairs if a != b)


def _log(price):
    return math.log(max(float(price), 1e-300))
