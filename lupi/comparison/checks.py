"""What a comparison is given: checked, and brought into one form."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_consistent_length, check_X_y

from lupi.comparison.tabular import empty_rows
from lupi.comparison.units import Data
from lupi.validation import is_frame


def check_data(X, y, privileged, groups, metric):
    """Check tables, target and groups; encode the target; choose the metric if there is none.

    Returns
    -------
    Data, ndarray or None, str
        The data, the classes (None in regression), the metric.
    """
    X, privileged = (t if is_frame(t) else np.asarray(t, dtype=np.float64) for t in (X, privileged))
    for name, table in (("X", X), ("privileged", privileged)):
        if len(table.shape) != 2 or table.shape[1] == 0:
            raise ValueError(f"`{name}` must be a table with at least one column; its shape is {table.shape}.")
    y = np.asarray(y)
    check_consistent_length(X, y, privileged, groups)
    if (y.dtype.kind == "f" and np.isnan(y).any()) or (y.dtype.kind == "O" and any(v is None or v != v for v in y)):
        raise ValueError("`y` has gaps; leave those rows out.")
    if empty_rows(privileged).all():
        raise ValueError("`privileged` has no value at all.")
    if metric == "r2":
        return Data(X, y.astype(np.float64), privileged, _codes(groups)), None, metric
    classes, encoded = np.unique(y.astype(str) if y.dtype.kind == "O" else y, return_inverse=True)
    counts = np.bincount(encoded)
    if len(classes) < 2:
        raise ValueError(f"`y` has one value only ({classes[0]}); a comparison needs two classes.")
    if y.dtype.kind == "f" and len(classes) > 20 and metric is None:
        raise ValueError(
            f"`y` holds {len(classes)} different numbers; use metric='r2' (--metric r2), or make classes of them."
        )
    if counts.min() < 4:
        raise ValueError(f"the class {classes[counts.argmin()]} has {counts.min()} rows only; 4 are needed.")
    return Data(X, encoded, privileged, _codes(groups)), classes, metric or ("auc" if len(classes) == 2 else "accuracy")


def check_validation(X, y, data, classes):
    """Rows of a validation set, their labels encoded as those of the data.

    Returns
    -------
    ndarray, ndarray
    """
    if is_frame(data.X) or is_frame(data.privileged) or is_frame(X):
        raise ValueError("`validation` goes with arrays only; encode the columns of the frames first.")
    X, y = check_X_y(X, y, dtype=np.float64, ensure_all_finite="allow-nan")
    if X.shape[1] != data.X.shape[1]:
        raise ValueError(f"`validation` has {X.shape[1]} columns, but `X` has {data.X.shape[1]}.")
    if classes is None:
        return X, y.astype(np.float64)
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(f"`validation` has labels that `y` does not have: {', '.join(map(str, unknown[:5]))}.")
    return X, np.searchsorted(classes, y)


def frozen_grids(grids):
    """Grids as sorted tuples, for the protocol."""
    return tuple((name, tuple((k, tuple(v)) for k, v in sorted(grid.items()))) for name, grid in sorted(grids.items()))


def _codes(groups):
    return None if groups is None else np.unique(np.asarray(groups).astype(str), return_inverse=True)[1]


def train_sizes(train_size, n):
    """Numbers of training rows, in increasing order: half of the n rows and at most 200, or what is asked for.

    Examples
    --------
    >>> train_sizes(None, 1000), train_sizes([0.5, 20], 100)
    ((200,), (20, 50))
    """
    sizes = [min(200, n // 2)] if train_size is None else np.atleast_1d(np.asarray(train_size, dtype=object)).tolist()
    numbers = sorted({round(s * n) if isinstance(s, float) and s < 1 else int(s) for s in sizes})
    if n < 16 and train_size is None:
        raise ValueError(f"the table has {n} rows only; a comparison needs at least 16, better 100.")
    if numbers[0] < 8 or numbers[-1] > n - 4:
        raise ValueError(
            f"train_size is {train_size}, but must leave 8 rows or more for training and 4 for the test of {n}."
        )
    return tuple(numbers)
