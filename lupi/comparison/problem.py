"""The problem of a comparison: its rows, checked, with the target encoded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from sklearn.utils.validation import check_consistent_length, check_X_y

from lupi.inputs import is_frame
from lupi.tabular.model import MAX_CLASSES, missing_targets, plain_labels
from lupi.tabular.read import expand, no_column
from lupi.tabular.schema import Schema, Table, as_pandas, parse_column


@dataclass(frozen=True)
class Data:
    """The rows of a comparison.

    Attributes
    ----------
    X, privileged : Table
    y : ndarray of float
        Positions of the labels among the classes, or numbers; NaN for a row without a label.
    groups : ndarray of int, optional
    test_only : ndarray of bool, optional
        Rows that only serve as test.
    validation : tuple of Table and ndarray, optional
        Further rows on which parameters are chosen, in place of cross-validation.
    """

    X: Table
    y: np.ndarray
    privileged: Table
    groups: np.ndarray | None = None
    test_only: np.ndarray | None = None
    validation: tuple | None = None

    @classmethod
    def of(cls, X, y, privileged, groups=None, test_only=None, validation=None):
        """From arrays or frames and an encoded target."""
        if validation is not None:
            validation = (Table.of(validation[0]).with_digest(), np.asarray(validation[1], dtype=np.float64))
        X, privileged = Table.of(X).with_digest(), Table.of(privileged).with_digest()
        return cls(X, np.asarray(y, dtype=np.float64), privileged, groups, test_only, validation)

    @property
    def labeled(self):
        """Positions of the rows with a label."""
        return np.flatnonzero(~np.isnan(self.y))

    @property
    def unlabeled(self):
        """Positions of the rows without one."""
        return np.flatnonzero(np.isnan(self.y))

    def rows(self, rows):
        """The same for some rows."""
        groups = None if self.groups is None else self.groups[rows]
        return Data(self.X.take(rows), self.y[rows], self.privileged.take(rows), groups, None, self.validation)


class Columns(NamedTuple):
    """A data frame, split by the names of its columns; `dropped` are the columns that are neither."""

    X: object
    y: np.ndarray
    privileged: object
    groups: np.ndarray | None
    dropped: object


def split_frame(frame, target, privileged, drop=(), groups=None, regression=False):
    """Split a table by column names.

    Parameters
    ----------
    frame : data frame
    target : str
        The column to predict. Rows without a value there are unlabeled.
    privileged, drop : sequence of str or str
        Names, with wildcards; a string holds several, separated by commas.
    groups : str or array-like, optional
        Column whose rows of equal value stay together; not a feature.
    regression : bool
        Whether the target is a number.

    Returns
    -------
    Columns
    """
    frame = as_pandas(frame).rename(columns=str)
    columns = list(frame.columns)
    by_name = isinstance(groups, str)
    for option, name in (("target", target), ("groups", groups if by_name else None)):
        if name is not None and name not in columns:
            raise ValueError(no_column(option, name, columns))
    hidden = expand(privileged, columns, "privileged")
    dropped = expand(drop, columns, "drop")
    if not hidden:
        raise ValueError("`privileged` (--privileged) names no column; which ones will not exist at prediction time?")
    if target in hidden:
        raise ValueError(f"the column {target!r} is the target and cannot be privileged, too.")
    if target in dropped:
        raise ValueError(f"the column {target!r} is the target and cannot be dropped.")
    left = [c for c in hidden if c not in dropped and not (by_name and c == groups)]
    if not left:
        raise ValueError("`drop` (--drop) leaves no privileged column: all of them are dropped or name the groups.")
    unused = {target, *hidden, *dropped, *([groups] if by_name else [])}
    ordinary = [c for c in columns if c not in unused]
    if not ordinary:
        raise ValueError("no column is left to predict from.")
    y = frame[target]
    if not y.notna().any():
        raise ValueError(f"the table has no row with a value of the target {target!r}.")
    kind, form = Schema.learn(frame[[target]]).columns[target]
    if regression and kind not in ("number", "boolean"):
        raise ValueError(f"metric r2 requires numbers, but the target {target!r} holds {kind}s.")
    if by_name:
        if frame[groups].isna().any():
            raise ValueError(f"the column {groups!r} of the groups has gaps; every row needs a group.")
        groups = frame[groups].to_numpy()
    written = kind == "number" and y.dtype.kind not in "biuf"  # numbers as text
    y = parse_column(y, kind, form) if regression or written else y.to_numpy()
    return Columns(frame[ordinary], y, frame[left], groups, frame[dropped])


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
    missing = missing_targets(y)
    if missing.all():
        raise ValueError("`y` has no value at all: no row has a label.")
    data = Data.of(X, np.where(missing, np.nan, 0.0), privileged, _group_codes(groups))
    if data.privileged.empty_rows().all():
        raise ValueError("`privileged` has no value at all.")
    known = y[~missing]
    if metric == "r2":
        data.y[~missing] = known.astype(np.float64)
        return data, None, metric
    labels = plain_labels(known)
    classes, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        raise ValueError(f"`y` has one value only ({classes[0]}); a comparison needs two classes.")
    if labels.dtype.kind in "iuf" and len(classes) > MAX_CLASSES and metric is None:
        raise ValueError(
            f"`y` holds {len(classes)} different numbers: classes, or a quantity? For a quantity use metric='r2' (--metric "
            "r2); for classes name a metric of classes, such as 'accuracy'."
        )
    if counts.min() < 4:
        raise ValueError(f"the class {classes[counts.argmin()]} has {counts.min()} rows only; 4 are needed.")
    data.y[~missing] = codes
    return data, classes, metric or ("auc" if len(classes) == 2 else "accuracy")


def check_validation(X, y, data, classes):
    """Rows of a validation set, their labels encoded as those of the data.

    Returns
    -------
    Table, ndarray
    """
    if data.X.schema.named or data.privileged.schema.named or is_frame(X):
        raise ValueError("`validation` goes with arrays only; encode the columns of the frames first.")
    X, y = check_X_y(X, y, dtype=np.float64, ensure_all_finite="allow-nan")
    if X.shape[1] != len(data.X.columns):
        raise ValueError(f"`validation` has {X.shape[1]} columns, but `X` has {len(data.X.columns)}.")
    if classes is None:
        return Table.of(X), y.astype(np.float64)
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(f"`validation` has labels that `y` does not have: {', '.join(map(str, unknown[:5]))}.")
    return Table.of(X), np.searchsorted(classes, y).astype(np.float64)


def with_test_rows(data, test_only):
    """The data with the rows of an official test set marked."""
    if data.groups is not None:
        raise ValueError("`test_only` fixes the test rows already; leave out `groups`.")
    return replace(data, test_only=np.asarray(test_only, dtype=bool))


def _group_codes(groups):
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
