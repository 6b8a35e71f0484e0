"""Units of work: one method, with or without its privileged rows shuffled, on one split. Run anywhere, in any order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import qr
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from lupi.comparison.methods import METHODS, candidates
from lupi.comparison.metrics import METRICS, measure
from lupi.comparison.paths import grid_scores
from lupi.comparison.protocol import derived_seed, inner_folds, others_rows, split_rows
from lupi.comparison.tabular import TableEncoder, TabularModel, empty_rows, encode_privileged, take


class Unit(NamedTuple):
    """One unit of work; `control` is "" or "shuffled"."""

    size: int
    split: int
    method: str
    control: str = ""

    @property
    def key(self):
        """Name in the store."""
        return f"{self.size}/{self.split}/{self.method}/{self.control or 'real'}"


@dataclass(frozen=True)
class Data:
    """The rows of a comparison: tables (arrays or frames), encoded target, groups, and rows that only serve as test.

    `validation` is (X, y) of further rows on which parameters are chosen, in place of cross-validation.
    """

    X: object
    y: np.ndarray
    privileged: object
    groups: np.ndarray | None = None
    test_only: np.ndarray | None = None
    validation: tuple[np.ndarray, np.ndarray] | None = None

    def rows(self, rows):
        """The same for some rows."""
        groups = None if self.groups is None else self.groups[rows]
        return Data(take(self.X, rows), self.y[rows], take(self.privileged, rows), groups, None, self.validation)


def plan(protocol, methods):
    """All units, split by split, so that an early look at the store is already a comparison.

    Returns
    -------
    list of Unit

    Examples
    --------
    >>> from lupi.comparison import Protocol
    >>> [unit.key for unit in plan(Protocol(n_splits=2), ["svm", "svm+"])][:3]
    ['100/0/svm/real', '100/0/svm+/real', '100/0/svm+/shuffled']
    """
    return [
        Unit(size, split, name, control)
        for split in range(protocol.n_splits)
        for size in protocol.train_sizes
        for name in methods
        for control in (("", "shuffled") if METHODS[name].privileged else ("",))
    ]


def run_unit(unit, protocol, data):
    """Choose parameters on the training rows, fit, and score on the test rows.

    Returns
    -------
    dict
        `score` (None if it failed), `params`, `inner_score`, `n_train`, `n_test`, `error`.
    """
    method = METHODS[unit.method]
    trains, test = split_rows(protocol, unit.split, data.y, data.groups, data.test_only)
    train = data.rows(trains[unit.size])
    result = {"score": None, "params": None, "inner_score": None, "n_train": len(train.y), "n_test": len(test)}
    result["error"] = None
    try:
        model, result["params"], result["inner_score"] = fit_best(method, protocol, unit.split, train, unit.control)
        tested = take(data.privileged if method.reference else data.X, test)
        score = measure(protocol.metric, model, tested, data.y[test], getattr(model, "classes_", None))
        result["score"] = score if np.isfinite(score) else None
    except ValueError as problem:  # the other methods can still be compared
        result["error"] = f"{type(problem).__name__}: {problem}"
    return result


def fit_best(method, protocol, split, train, control=""):
    """Inner cross-validation over the grid, then the fit of the best candidate on all training rows.

    Returns
    -------
    TabularModel, dict, float
        The model, the parameters and their mean inner score.
    """
    regression = not METRICS[protocol.metric].classification
    seed = derived_seed(protocol.seed, split, method.name)
    X = train.privileged if method.reference else train.X
    Z = train.privileged if method.privileged else None
    if Z is not None and control == "shuffled":
        Z = take(Z, others_rows(len(train.y), derived_seed(protocol.seed, split, "shuffled")))
    estimator = method.build(protocol.kernel, seed, regression)
    # ParameterGrid sorts the names and keeps the order of the values: ties go to the first, the smaller C.
    grid = list(ParameterGrid(candidates(method, dict(protocol.grids), protocol.kernel)))
    best, score = grid[0], None
    if len(grid) > 1:
        folds = inner_folds(protocol, split, train.y, train.groups)
        rows = (X, train.y, Z)
        if train.validation:
            rows, folds = _with_validation_rows(method, *rows, *train.validation)
        scores = [_fold_scores(protocol, estimator, grid, *rows, *fold) for fold in folds]
        # A fold on which nothing could be measured, e.g. one of groups of a single class, chooses nothing.
        scores = np.array([fold for fold in scores if not np.isnan(fold).all()] or scores[:1]).mean(axis=0)
        if np.isnan(scores).all():
            raise ValueError("no candidate of the grid could be fitted on every inner fold.")
        index = int(np.nanargmax(scores))
        best, score = grid[index], float(scores[index])
    model = TabularModel(clone(estimator).set_params(**best), regression, protocol.standardize)
    model.fit(X, train.y, privileged=Z)
    return model, best, score


def _with_validation_rows(method, X, y, Z, X_validation, y_validation):
    """The training rows followed by the validation rows, and the one fold that trains on these and scores on those."""
    if method.reference:
        raise ValueError("validation rows have no privileged features, which the reference needs.")
    n, m = len(y), len(y_validation)
    if Z is not None:
        Z = np.vstack([Z, np.full((m, Z.shape[1]), np.nan)])
    return (np.vstack([X, X_validation]), np.concatenate([y, y_validation]), Z), [(np.arange(n), np.arange(n, n + m))]


def _rotated(protocol, train, test):
    """The same inner products in fewer dimensions, where a linear kernel has more features than rows."""
    if protocol.kernel != "linear" or train.shape[1] <= train.shape[0]:
        return train, test
    basis, triangle = qr(train.T, mode="economic")
    return np.ascontiguousarray(triangle.T), test @ basis


def _fold_scores(protocol, estimator, grid, X, y, Z, train, test):
    """Scores of all candidates on one inner fold; the encoders are fitted on its training rows alone."""
    encoder = TableEncoder(protocol.standardize).fit(take(X, train))
    X_train, X_test = _rotated(protocol, encoder.transform(take(X, train)), encoder.transform(take(X, test)))
    y_train, y_test = y[train], y[test]
    if not METRICS[protocol.metric].classification:
        mean, scale = y_train.mean(), y_train.std() or 1.0
        y_train, y_test = (y_train - mean) / scale, (y_test - mean) / scale
    Z_train = None
    if Z is not None:
        known = take(Z, train)
        rows = np.flatnonzero(~empty_rows(known))
        Z_train = encode_privileged(TableEncoder(protocol.standardize).fit(take(known, rows)), known)
    return grid_scores(protocol.metric, estimator, grid, (X_train, y_train, Z_train), (X_test, y_test))
