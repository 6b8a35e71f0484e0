"""One method fitted on all rows: the model for use, and the rows that its correcting function calls hard."""

from __future__ import annotations

import re
import warnings

import numpy as np

from lupi.comparison.encode import encode_privileged
from lupi.comparison.units import fit_best

# Parameters of the final model are chosen on at most so many rows, and it is fitted on at most so many.
MAX_CHOICE, MAX_FIT = 1000, 5000
N_HARD = 12
# Groups of privileged columns that are left out one after the other: at most so many.
MAX_GROUPS = 12
# Number of the "split" whose seeds serve the final model: none that a comparison reaches.
FINAL = 2**31


def fit_final(method, setup, classes, labelled_only=False):
    """Fit one method for use.

    Parameters
    ----------
    method : Method
    setup : Setup
        Its metric, kernel, folds, grids and seed serve the choice of parameters.
    classes : ndarray or None
        Labels behind the encoded target; None in regression.
    labelled_only : bool
        Whether rows without a label are left out, though the method could use them.

    Returns
    -------
    TabularModel
    """
    if method.role == "reference":
        raise ValueError("the reference needs the privileged columns at prediction time: it is no model for use.")
    protocol, data = setup.protocol, setup.data
    order = _order(setup)
    extra = data.unlabelled if method.unlabelled and not labelled_only else data.unlabelled[:0]
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
    model.privileged_columns = data.privileged.names if method.privileged else None
    return model


def _order(setup):
    """Labelled rows that a final model may be fitted on, in random order."""
    data = setup.data
    rows = np.random.default_rng(setup.protocol.seed).permutation(data.labelled)
    return rows if data.test_only is None else rows[~data.test_only[rows]]


def column_groups(table):
    """Groups of columns by the beginning of their names: each column alone where there are few.

    Returns
    -------
    dict of str to list of str

    Examples
    --------
    >>> from lupi.comparison.encode import RawTable
    >>> names = [f"{kind}_{k}" for kind in ("cost", "lab") for k in range(10)]
    >>> {name: len(part) for name, part in column_groups(RawTable.of(np.zeros((1, 20)))).items()}["columns 0 to 1"]
    2
    >>> {name: len(part) for name, part in column_groups(RawTable(names, names, np.zeros((1, 20)))).items()}
    {'cost_*': 10, 'lab_*': 10}
    """
    names = list(table.columns)
    if len(names) <= MAX_GROUPS:
        return {name: [name] for name in names}
    found = {}
    if table.names is not None:
        for name in names:
            found.setdefault(re.split(r"[_.\- ]|\d", name, maxsplit=1)[0] or name, []).append(name)
        found = {f"{start}_*" if len(part) > 1 else part[0]: part for start, part in found.items()}
        if 2 <= len(found) <= MAX_GROUPS:
            return found
    parts = np.array_split(np.arange(len(names)), MAX_GROUPS)
    if table.names is None:
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
