"""Columns that give the target away, columns that add nothing, and rows that belong to one subject.

Ranks are compared: cross-validated trees take minutes for thousands of columns, and miss leaks of a rare class.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import combinations, product

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from lupi.ranking.ranking_metrics import area_of_ranking
from lupi.tabular.table import Table

GAP = -1
# A column that predicts the target this well is a leak; one that agrees with another column this well is a copy.
LEAKS, COPIES = 0.98, 0.995
# Values rarer than this share of the rows predict nothing about the rows that share them.
FEW_LEVELS = 0.1
# Limits on the rows that are examined, and on the pairs of columns whose gaps are left out.
MAX_ROWS, MAX_PAIRS = 5000, 20_000
# Limits on columns and rows of joint leaks, the smallest class, and the error left of that of the better column.
JOINT_COLUMNS, JOINT_ROWS, JOINT_CLASS, JOINT_ERROR = 80, 1500, 10, 0.5
COMBINATIONS: dict[str, Callable[..., np.ndarray]] = {
    "difference": np.subtract,
    "distance": lambda a, b: np.abs(a - b),
    "sum": np.add,
    "product": np.multiply,
    "ratio": lambda a, b: np.divide(a, b, out=np.full(len(a), np.nan), where=b != 0),
}
SUBJECT = re.compile(r"(^|[_. ])(id|subject|patient|person|player|name|case|respondent)s?([_. #]|$)", re.IGNORECASE)
MIN_SUBJECTS, MIN_VISITS, MAX_VISITS = 8, 1.5, 30
CONSEQUENCES = {
    "ordinary": "Then prediction is trivial: drop {}.",
    "privileged": "Methods will look better than they are useful.",
}


def examine(X, y, Z, target="the target", *, grouped=False, others=None):
    """Leaks, and notes: on the leaks, on columns that add nothing, and on rows that belong together (unless `grouped`)."""
    X, Z = Table.of(X), Table.of(Z)
    repeated = [] if grouped else _repeated_subjects(X, *([] if others is None else [Table.of(others)]))
    rows = np.flatnonzero(_codes(y) != GAP)
    if len(rows) > MAX_ROWS:
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:MAX_ROWS])
    truth = _codes(np.asarray(y)[rows])
    ordinary = [_Column("ordinary", name, values.iloc[rows]) for name, values in X.frame.items()]
    privileged = [_Column("privileged", name, values.iloc[rows]) for name, values in Z.frame.items()]
    leaks, notes, numbers = [], [], []
    for column in (*ordinary, *privileged):
        if column in privileged and column.n_levels < 2:
            found = "no value" if column.codes[0] == GAP else "one value only"
            notes.append(f"The {column} has {found}: it adds nothing.")
        elif leak := _leak(column, truth, target):
            text = f"Leakage? The {column} {leak} {CONSEQUENCES[column.kind].format('it')}"
            leaks.append({"kind": column.kind, "columns": [column.name], "text": text})
        elif not column.words:
            numbers.append(column)
        is_text = column.name in (*X.texts, *Z.texts)
        if column.words and not is_text and column.n_levels > max(30, 0.5 * len(rows)):
            notes.append(f"The {column} has almost as many words as rows; if it is an identifier, --drop it.")
    leaks += _joint_leaks(numbers, truth, target)
    return leaks, [leak["text"] for leak in leaks] + notes + _copies(ordinary, privileged) + repeated


class _Column:
    def __init__(self, kind, name, values):
        self.kind, self.name, self.values = kind, name, values
        self.words, self.codes = values.dtype == "category", _codes(values)
        self.n_levels = np.ptp(self.codes) + 1

    def __str__(self):
        return f"{self.kind} column {self.name!r}"


def _codes(values):
    """Values as whole numbers in sorted order, gaps as -1."""
    return pd.factorize(values, sort=True)[0]


def _leak(column, truth, target):
    """How one column gives the target away, in words; "" if it does not."""
    if _same(column.codes, truth):
        return f"is the target {target!r} under another name."
    known = column.codes != GAP
    parts = [slice(None)] if known.all() else [slice(None), known]
    strength, measure = max(_strength(column.codes[rows], truth[rows], column.words) for rows in parts)
    text = f"alone predicts the target {target!r} almost exactly ({measure} {strength:.3f})."
    return text if strength > LEAKS else ""


def _strength(column, truth, words):
    """How well the order of a column, or the mean target of each value or interval, predicts the target (0 to 1)."""
    n, sizes, n_levels = len(truth), np.unique(truth, return_counts=True)[1], len(np.unique(column))
    if n < 20 or n_levels < 2 or len(sizes) < 2 or (len(sizes) == 2 and sizes.min() < 5):
        return 0.0, ""  # so few rows agree by chance
    levels = column
    if n_levels > FEW_LEVELS * n and not words:
        levels = (rankdata(column, method="min") - 1).astype(np.int64) * max(2, min(50, n // 20)) // n
    half = np.random.default_rng(0).permutation(n) % 2  # means are those of the other half of the rows
    means = pd.Series(truth).groupby([1 - half, levels]).mean().reindex([half, levels]).fillna(truth.mean())
    return max(_agreement(values, truth) for values in (means.to_numpy(), *([] if words else [column])))


def _agreement(column, truth):
    """AUC of a column for a target of two classes, else rank correlation; without a sign."""
    if len(np.unique(truth)) != 2:
        return _correlation(column, truth), "rank correlation"
    area = area_of_ranking(truth == truth.max(), column.astype(np.float64))
    return max(area, 1 - area), "AUC"


def _joint_leaks(columns, truth, target):
    """Pairs of number columns whose difference, sum, product or ratio is a leak, though neither column is one."""
    rows, leaks = np.random.default_rng(0).permutation(len(truth))[:JOINT_ROWS], []
    truth, values = truth[rows], {column: column.values.to_numpy()[rows] for column in columns}
    if len(columns) > JOINT_COLUMNS:
        closeness = np.abs(_ranks([np.nan_to_num(value) for value in values.values()]).T @ _ranks([truth]))[:, 0]
        columns = [columns[k] for k in np.argsort(-closeness)[:JOINT_COLUMNS]]
    for a, b in combinations(columns, 2):
        if found := _joint_strength(values[a], values[b], truth):
            kind = max(a.kind, b.kind)  # "privileged" if one of them is
            effect = f"predicts the target {target!r} almost exactly, though neither does alone"
            text = f"Leakage? The {found} of the {a} and the {b} {effect}. {CONSEQUENCES[kind].format('one')}"
            leaks.append({"kind": kind, "columns": [a.name, b.name], "text": text})
    return leaks


def _joint_strength(a, b, truth):
    """Name and strength of the first combination of two columns that is a leak; "" if there is none."""
    known = np.isfinite(a) & np.isfinite(b)
    a, b, truth = a[known], b[known], truth[known]
    sizes = np.unique(truth, return_counts=True)[1]
    # The target must be a quantity, or have two classes that are large enough.
    enough = len(sizes) > max(20, FEW_LEVELS * len(truth)) or (len(sizes) == 2 and sizes.min() >= JOINT_CLASS)
    if not enough or len(truth) < max(40, 0.5 * len(known)):
        return ""
    for name, combine in COMBINATIONS.items():
        values = combine(a, b)
        strength, measure = (0.0, "") if np.isnan(values).any() else _agreement(values, truth)
        if strength > LEAKS and 1 - strength < JOINT_ERROR * (1 - max(_agreement(a, truth), _agreement(b, truth))[0]):
            return f"{name} ({measure} {strength:.3f})"
    return ""


def _copies(ordinary, privileged):
    """Notes on privileged columns that repeat an ordinary one; rank correlations of all pairs at once."""
    ranks = [_ranks([column.codes for column in columns]) for columns in (privileged, ordinary)]
    closeness, notes = np.abs(ranks[0].T @ ranks[1]).ravel(), []
    for (column, other), close in zip(product(privileged, ordinary), closeness):
        a, b = column.codes, other.codes
        source = f"{other}, which is available at prediction time: a gain may only mean that {other.name!r} is a strong feature."
        if len(closeness) <= MAX_PAIRS and close <= COPIES and not (known := (a != GAP) & (b != GAP)).all():
            close = _correlation(a[known], b[known])
        if _same(a, b):
            notes.append(f"The {column} repeats the {source}")
        elif column.n_levels > 2 and close > COPIES:
            notes.append(f"The {column} is almost a copy of the {source}")
        elif column.n_levels > 1 and 2 < other.n_levels <= FEW_LEVELS * len(b) and _n_pairs(a, b) == other.n_levels:
            notes.append(f"The {column} follows from the {source}")
    return notes


def _ranks(columns):
    """Ranks of each column, centered, of length 1 (0 for a constant column)."""
    ranks = rankdata(np.column_stack(columns), axis=0)
    ranks -= ranks.mean(axis=0)
    length = np.linalg.norm(ranks, axis=0)
    return ranks / np.where(length > 0, length, 1.0)


def _correlation(a, b):
    """Rank correlation without its sign; 0 for fewer than 20 rows."""
    return float(abs((_ranks([a]) * _ranks([b])).sum())) if len(a) >= 20 else 0.0


def _n_pairs(a, b):
    return len(np.unique((a - GAP) * (int(b.max()) + 2) + (b - GAP)))


def _same(a, b):
    """Whether two columns are equal up to the names of their values."""
    n_levels = np.ptp(a) + 1
    # Repeated rows repeat the values of all columns: rare values in another order are no evidence.
    few = 1 < n_levels == np.ptp(b) + 1 <= max(2, FEW_LEVELS * len(a))
    return (few and _n_pairs(a, b) == n_levels) or (n_levels > 1 and np.array_equal(a, b))


def _repeated_subjects(X, *others):
    """A note if rows seem to belong to the same subjects: equal names, or nearly equal rows."""
    for table in (X, *others):
        for name in table.columns:
            visits = _visits(name, table.frame[name])
            if MIN_VISITS <= visits <= MAX_VISITS:
                found = f"The column {name!r} looks like repeated subjects (about {visits:.0f} rows each)"
                effect = "Rows of one subject in training and test make every method look better"
                return [f"{found}. {effect}: keep them together with groups={name!r} (--groups)."]
    moving = X.frame[X.numbers].dropna(axis=1)
    moving = moving.loc[:, moving.nunique() > 1]
    # Where few combinations are possible, equal rows are expected.
    if moving.shape[1] < 3 or len(X) < 20 or np.log(moving.nunique()).sum() < 3 * np.log(len(X)):
        return []
    moving = moving.to_numpy()
    counts = np.unique((moving / moving.std(axis=0)).round(2), axis=0, return_counts=True)[1]
    twins = counts[counts > 1].sum() / len(X)
    advice = "If they belong to one subject, keep them together with groups (--groups)"
    text = f"{100 * twins:.0f}% of the rows are nearly equal to another row. {advice}."
    return [text] if twins > 0.05 else []


def _visits(name, column):
    """Rows per subject, if a column names subjects; 0 if not."""
    words, subject = column.dtype == "category", SUBJECT.search(name)
    if not (words or subject) or column.isna().any() or not (words or (column % 1 == 0).all()):
        return 0
    subjects = column
    if words and column.nunique() > 0.9 * len(column):  # names such as S01_3: the subject and the number of the visit
        subjects = column.astype(str).str.replace(r"[-_. /]?\d+$", "", regex=True)
    elif not subject:
        return 0
    return len(column) / subjects.nunique() if subjects.nunique() >= MIN_SUBJECTS else 0
