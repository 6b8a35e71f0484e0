"""One method fitted on all rows: the model for use, and the rows that its correcting function calls hard."""

from __future__ import annotations

import warnings

import numpy as np

from lupi.comparison.methods import METHODS
from lupi.comparison.tabular import take
from lupi.comparison.units import fit_best
from lupi.validation import is_frame

# Parameters of the final model are chosen on at most so many rows, and it is fitted on at most so many.
MAX_CHOICE, MAX_FIT = 1000, 5000
N_HARD = 12
# Number of the "split" whose seeds serve the final model: none that a comparison reaches.
FINAL = 2**31


def fit_final(method, protocol, data, classes):
    """Fit one method for use.

    Parameters
    ----------
    method : Method
    protocol : Protocol
        Metric, kernel, folds, grids and seed of the choice of parameters.
    data : Data
        With encoded target.
    classes : ndarray or None
        Labels behind the encoded target; None in regression.

    Returns
    -------
    TabularModel
    """
    if method.reference:
        raise ValueError("the reference needs the privileged columns at prediction time: it is no model for use.")
    order = _order(protocol, data)
    model, params, _ = fit_best(method, protocol, FINAL, data.rows(np.sort(order[:MAX_CHOICE])))
    everything = data.rows(np.sort(order[:MAX_FIT]))
    target = everything.y if classes is None else classes[everything.y]
    model.estimator.set_params(**params)
    return model.fit(everything.X, target, privileged=everything.privileged if method.privileged else None)


def _order(protocol, data):
    """Rows that a final model may be fitted on, in random order."""
    rows = np.random.default_rng(protocol.seed).permutation(len(data.y))
    return rows if data.test_only is None else rows[~data.test_only[rows]]


def hard_examples(methods, protocol, data, classes):
    """Rows that the correcting function of SVM2+ or SVM+ calls hardest; None if neither is compared or has a solution.

    Returns
    -------
    dict or None
        `method`, `median` of all rows, `rows` (the hardest first).
    """
    name = next((name for name in ("svm2+", "svm+") if name in methods), None)
    if name is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the units have reported theirs
        try:
            model = fit_final(METHODS[name], protocol, data, classes)
        except ValueError:
            return None
    rows = np.sort(_order(protocol, data)[:MAX_FIT])
    values = np.asarray(model.correction(take(data.privileged, rows)))
    # Of several classes, an example's own one counts.
    values = values if values.ndim == 1 else values[np.arange(len(rows)), data.y[rows]]
    known = np.flatnonzero(np.isfinite(values))
    order = known[np.argsort(-values[known], kind="stable")][:N_HARD]
    predicted = model.predict(take(data.X, rows[order]))
    return {
        "method": METHODS[name].title,
        "median": float(np.median(values[known])),
        "rows": [
            {
                "row": int(rows[k]),
                "correction": float(values[k]),
                "label": str(classes[data.y[rows[k]]]),
                "predicted": str(guess),
                "privileged": _cells(data.privileged, rows[k]),
            }
            for k, guess in zip(order, predicted)
        ],
    }


def _cells(table, row, limit=6):
    """The cells in which a row differs most from the others, as text; the first cells would say little in a wide table."""
    names = [str(c) for c in table.columns] if is_frame(table) else [f"column {k}" for k in range(table.shape[1])]
    values = table.iloc[row].tolist() if is_frame(table) else table[row].tolist()
    unusual = sorted(
        range(len(names)), key=lambda k: -_distance(table.iloc[:, k] if is_frame(table) else table[:, k], row)
    )
    kept = sorted(unusual[:limit])
    return [[names[k], f"{values[k]:.4g}" if isinstance(values[k], float) else str(values[k])] for k in kept]


def _distance(column, row):
    """Standard deviations between a value and its column's mean; a word counts as a column of zeros and ones."""
    values = np.asarray(column)
    if values.dtype.kind in "biuf":
        values = values.astype(np.float64)
        spread = np.nanstd(values) if np.isfinite(values).any() else 0.0
        distance = abs(values[row] - np.nanmean(values)) / spread if spread > 0 else 0.0
        return distance if np.isfinite(distance) else 0.0
    words = values.astype(str)
    share = float(np.mean(words == words[row]))
    return float(np.sqrt((1 - share) / share))
