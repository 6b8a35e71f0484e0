"""The problem of a comparison: its rows, checked, with the target encoded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_consistent_length

from lupi.files import digest_of
from lupi.inputs.tables import is_frame
from lupi.inputs.training_set import refuse_masked
from lupi.tabular.model import MAX_CLASSES, missing_targets, plain_labels
from lupi.tabular.table import Schema, Table, as_pandas, expand, no_column


class Metric(NamedTuple):
    """Metric by its title, the task it belongs to, and whether it rates the order of the rows."""

    title: str
    task: str = "classification"
    rates_order: bool = False


METRICS = {
    "ap": Metric("average precision", rates_order=True),
    "accuracy": Metric("accuracy"),
    "auc": Metric("area under the ROC curve", rates_order=True),
    "balanced_accuracy": Metric("balanced accuracy"),
    "r2": Metric("R²", task="regression"),
}


@dataclass(frozen=True)
class Problem:
    """Rows and task of a comparison."""

    X: Table
    y: np.ndarray  # positions of the labels among the classes, or numbers; NaN for an unlabeled row
    privileged: Table
    groups: np.ndarray | None = None
    task: str = "classification"  # or "regression"
    classes: np.ndarray | None = None  # labels; None for regression
    target: str | None = None  # name of the target column
    validation: Problem | None = None  # rows that select the candidates in place of cross-validation
    dropped: Any = None  # columns of the data frame that are not used
    digest: str = ""  # SHA-256 of the data as they were passed

    @classmethod
    def of(cls, X, y, privileged, groups=None, **more):
        """From arrays or data frames and an encoded target."""
        X, privileged = Table.of(X), Table.of(privileged)
        return cls(X, np.asarray(y, dtype=np.float64), privileged, groups, **more)

    @property
    def classification(self):
        """Whether the target is a label."""
        return self.task == "classification"

    @property
    def n_classes(self):
        """Number of classes; 0 for regression."""
        return 0 if self.classes is None else len(self.classes)

    @property
    def labeled(self):
        """Positions of the labeled rows."""
        return np.flatnonzero(~np.isnan(self.y))

    @property
    def unlabeled(self):
        """Positions of the unlabeled rows."""
        return np.flatnonzero(np.isnan(self.y))

    def unlabeled_outside(self, held_out):
        """Unlabeled rows, without those of the groups of held-out rows."""
        rows = self.unlabeled
        return rows if self.groups is None else rows[~np.isin(self.groups[rows], self.groups[held_out])]

    def take(self, rows):
        """The problem with some of the rows."""
        groups = None if self.groups is None else self.groups[rows]
        X, privileged = self.X.take(rows), self.privileged.take(rows)
        return replace(self, X=X, y=self.y[rows], privileged=privileged, groups=groups)

    def facts(self):
        """Sizes, names and classes, for the report."""
        labels = self.y[self.labeled].astype(np.intp)

        def names(table):
            return table.columns if table.schema.named else None

        return {
            "target": self.target,
            "rows": len(self.y),
            "labeled": len(self.labeled),
            "unlabeled": len(self.unlabeled),
            "features": len(self.X.columns),
            "privileged": len(self.privileged.columns),
            "feature_names": names(self.X),
            "privileged_names": names(self.privileged),
            "classes": None if self.classes is None else [str(c) for c in self.classes],
            "class_counts": np.bincount(labels, minlength=self.n_classes).tolist() if self.n_classes else None,
            "groups": None if self.groups is None else int(self.groups.max()) + 1,
            "sha256": self.digest,
        }


def make_problem(X, y=None, privileged=None, *, target=None, drop=(), groups=None, metric=None):
    """Problem and metric of the arguments of :func:`lupi.compare`: arrays, or one table with column names."""
    if metric is not None and metric not in METRICS:
        raise ValueError(f"`metric` must be one of {', '.join(METRICS)}, got {metric!r}.")
    regression, dropped = metric is not None and METRICS[metric].task == "regression", None
    if target is not None:
        if y is not None:
            raise ValueError("pass either `y` or `target`, not both: `target` is a column of the table.")
        if not is_frame(X):
            raise TypeError(f"`X` must be a data frame with the column `target`, got {type(X).__name__}.")
        X, y, privileged, groups, dropped = _split_frame(X, target, privileged, drop, groups, regression)
    elif y is None or privileged is None:
        raise ValueError("pass X, y and privileged, or a data frame with the names `target` and `privileged`.")
    parts = (X, y, privileged, groups)
    for name, part in zip(("X", "y", "privileged", "groups"), parts):
        refuse_masked(part, f"`{name}`")
    digest = digest_of(*(part if part is None or is_frame(part) else np.asarray(part) for part in parts))
    problem, metric = _encode(X, y, privileged, groups, metric, regression)
    return replace(problem, target=target, dropped=dropped, digest=digest), metric


def _split_frame(frame, target, privileged, drop, groups, regression):
    """X, y, privileged, groups and unused columns of a table; names may have wildcards."""
    frame = as_pandas(frame)
    columns = list(frame.columns)
    group = groups if isinstance(groups, str) else None
    for option, name in (("target", target), ("groups", group)):
        if name is not None and name not in columns:
            raise ValueError(no_column(option, name, columns))
    hidden, dropped = expand(privileged, columns, "privileged"), expand(drop, columns, "drop")
    if not hidden:
        raise ValueError("`privileged` (--privileged) names no column; name those that exist at training time only.")
    for names, role in ((hidden, "privileged"), (dropped, "dropped")):
        if target in names:
            raise ValueError(f"the column {target!r} is the target and cannot be {role}.")
    left = [c for c in hidden if c not in (*dropped, group)]
    if not left:
        raise ValueError("`drop` (--drop) leaves no privileged column: all of them are dropped or name the groups.")
    ordinary = [c for c in columns if c not in (target, group, *hidden, *dropped)]
    if not ordinary:
        raise ValueError("no column is left to predict from.")
    y = frame[target]
    if not y.notna().any():
        raise ValueError(f"the table has no row with a value of the target {target!r}.")
    schema = Schema.learn(frame[[target]])
    kind = schema.columns[target][0]
    if regression and kind not in ("number", "boolean"):
        raise ValueError(f"metric r2 requires numbers, but the target {target!r} holds {kind}s.")
    if group is not None:
        if frame[group].isna().any():
            raise ValueError(f"the column {group!r} of the groups has gaps; every row needs a group.")
        groups = frame[group].to_numpy()
    numbers_as_text = kind == "number" and y.dtype.kind not in "biuf"
    y = schema.parse(frame[[target]]).frame[target] if regression or numbers_as_text else y
    return frame[ordinary], y.to_numpy(), frame[left], groups, frame[dropped]


def _encode(X, y, privileged, groups, metric, regression):
    """The problem with its target encoded, and its metric."""
    X, privileged = (t if is_frame(t) else np.asarray(t, dtype=np.float64) for t in (X, privileged))
    for name, table in (("X", X), ("privileged", privileged)):
        if len(table.shape) != 2 or table.shape[1] == 0:
            raise ValueError(f"`{name}` must be a table with at least one column, got shape {table.shape}.")
    y = np.asarray(y)
    check_consistent_length(X, y, privileged, groups)
    missing = missing_targets(y)
    if missing.all():
        raise ValueError("`y` has no value: no row has a label.")
    groups = None if groups is None else np.unique(np.asarray(groups).astype(str), return_inverse=True)[1]
    problem = Problem.of(X, np.where(missing, np.nan, 0.0), privileged, groups)
    if problem.privileged.empty_rows().all():
        raise ValueError("`privileged` has no value.")
    known = y[~missing]
    if regression:
        problem.y[~missing] = known.astype(np.float64)
        return replace(problem, task="regression"), metric
    labels = plain_labels(known)
    classes, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        raise ValueError(f"`y` must have at least two classes, got one value ({classes[0]}).")
    if labels.dtype.kind in "iuf" and len(classes) > MAX_CLASSES and metric is None:
        advice = "For a quantity use metric='r2' (--metric r2), for classes a metric such as 'accuracy'"
        raise ValueError(f"`y` holds {len(classes)} different numbers: classes, or a quantity? {advice}.")
    if counts.min() < 4:
        raise ValueError(f"every class needs 4 rows, but the class {classes[counts.argmin()]} has {counts.min()}.")
    problem.y[~missing] = codes
    return replace(problem, classes=classes), metric or ("auc" if len(classes) == 2 else "accuracy")


def train_sizes(train_size, problem, splits=()):
    """Numbers of training rows in increasing order: half of the rows and at most 200 by default."""
    # The user's splits have test rows of their own.
    n = min(len(split[0]) for split in splits) + 4 if splits else len(problem.labeled)
    sizes = [min(200, n // 2)] if train_size is None else np.atleast_1d(np.asarray(train_size, dtype=object)).tolist()
    numbers = sorted({round(s * n) if isinstance(s, float) and s < 1 else int(s) for s in sizes})
    if n < 16 and train_size is None:
        raise ValueError(f"a comparison needs at least 16 labeled rows, better 100; the table has {n}.")
    if numbers[0] < 8 or numbers[-1] > n - 4:
        raise ValueError(
            f"train_size is {train_size}, but must leave 8 rows or more for training and 4 for the test of {n}."
        )
    return tuple(numbers)
