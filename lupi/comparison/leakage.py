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
from scipy.stats.contingency import crosstab

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
CONSEQUENCE = {
    "privileged": "Methods will look better than they are useful.",
    "ordinary": "Then prediction is trivial: drop it.",
}


def examine(X, y, Z, target="the target", *, grouped=False, others=None):
    """Leaks, and notes: on the leaks, on columns that add nothing, and on rows that belong together (unless `grouped`).

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"a": [1, 2, 3, 4, 5, 7]})
    >>> Z = pd.DataFrame({"b": [0, 0, 1, 1, 0, 1], "c": [1, 2, 3, 4, 5, 7]})
    >>> for note in examine(X, Z["b"].to_numpy(), Z, "y")[1]:
    ...     print(note)
    Leakage? The privileged column 'b' is the target 'y' under another name. Methods will look better than they are useful.
    The privileged column 'c' repeats the ordinary column 'a': it adds nothing.
    """
    X, Z = Table.of(X), Table.of(Z)
    repeated = [] if grouped else _repeated_subjects(X, *([] if others is None else [Table.of(others)]))
    rows = np.flatnonzero(_codes(y) != GAP)
    if len(rows) > MAX_ROWS:
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:MAX_ROWS])
    truth = _codes(np.asarray(y)[rows])
    ordinary, privileged = (
        [_Column(kind, name, table.frame[name].iloc[rows]) for name in table.columns]
        for kind, table in (("ordinary", X), ("privileged", Z))
    )
    leaks, notes, numbers = [], [], []
    for column in (*ordinary, *privileged):
        if column in privileged and column.n_levels < 2:
            notes.append(f"{column} has {'no value' if column.codes[0] == GAP else 'one value only'}: it adds nothing.")
        elif leak := _leak(column, truth, target):
            text = f"Leakage? {column} {leak} {CONSEQUENCE[column.kind]}"
            leaks.append({"kind": column.kind, "columns": [column.name], "text": text})
        elif not column.words:
            numbers.append(column)
        if column.words and column.n_levels > max(30, 0.5 * len(rows)):
            notes.append(f"{column} has almost as many words as rows; if it is an identifier, --drop it.")
    leaks += _joint_leaks(numbers, truth, target, X.columns)
    return leaks, [leak["text"] for leak in leaks] + notes + _copies(ordinary, privileged) + repeated


class _Column:
    def __init__(self, kind, name, values):
        self.kind, self.name, self.values = kind, name, values
        self.words, self.codes = values.dtype == "category", _codes(values)
        self.n_levels = len(np.unique(self.codes))

    def __str__(self):
        return f"The {self.kind} column {self.name!r}"


def _codes(values):
    """Values as whole numbers in sorted order, gaps as -1."""
    return pd.factorize(values, sort=True)[0]


def _is_number(truth):
    """Whether a target has so many values that it is a quantity."""
    return len(np.unique(truth)) > max(20, FEW_LEVELS * len(truth))


def _leak(column, truth, target):
    """How one column gives the target away, in words; "" if it does not."""
    if _same(column.codes, truth):
        return f"is the target {target!r} under another name."
    known = column.codes != GAP
    parts = [slice(None)] if known.all() else [slice(None), known]
    strength, measure = max(_strength(column.codes[rows], truth[rows], column.words) for rows in parts)
    return f"alone predicts the target {target!r} almost exactly ({measure})." if strength > LEAKS else ""


def _strength(column, truth, words):
    """How well one column predicts the target, from 0 to 1, and by which measure."""
    sizes = np.unique(truth, return_counts=True)[1]
    if len(truth) < 20 or len(np.unique(column)) < 2 or len(sizes) < 2 or (len(sizes) == 2 and sizes.min() < 5):
        return 0.0, ""  # so few rows agree by chance
    if words:  # a word is scored by its mean target in the other half of the rows
        half = np.random.default_rng(0).permutation(len(column)) % 2
        means = pd.Series(truth).groupby([1 - half, column]).mean()
        column = means.reindex([half, column]).fillna(truth.mean()).to_numpy()
    order, measure = _agreement(column, truth)
    share = 0.0 if _is_number(truth) else _purity(column, truth)
    # A target that is nearly always the same is predicted well by any column.
    if share > order and (1 - share) < 0.1 * (1 - sizes.max() / len(truth)):
        return share, f"{100 * share:.1f}% of the rows by its values alone"
    return order, f"{measure} {order:.3f}"


def _agreement(column, truth):
    """AUC of a column for a target of two classes, else rank correlation; without a sign."""
    if len(np.unique(truth)) != 2:
        return _correlation(column, truth), "rank correlation"
    area = area_of_ranking(truth == truth.max(), column.astype(np.float64))
    return max(area, 1 - area), "AUC"


def _purity(column, truth):
    """Share of the rows whose target is the most frequent one of their value; many values are grouped into intervals."""
    n = len(column)
    if len(np.unique(column)) > FEW_LEVELS * n:
        bins = max(2, min(50, n // 20))
        column = (rankdata(column, method="min") - 1).astype(np.int64) * bins // n
    return float(crosstab(column, truth).count.max(axis=1).sum() / n)


def _joint_leaks(columns, truth, target, ordinary):
    """Pairs of number columns whose difference, sum, product or ratio is a leak, though neither column is one."""
    rows = np.random.default_rng(0).permutation(len(truth))[:JOINT_ROWS]
    truth = truth[rows]
    if len(rows) < 40 or not _enough(truth):
        return []
    values = [column.values.to_numpy()[rows] for column in columns]
    kept = np.arange(len(columns))
    if len(columns) > JOINT_COLUMNS:
        closeness = np.abs(_ranks([np.nan_to_num(value) for value in values]).T @ _ranks([truth]))[:, 0]
        kept = np.argsort(-closeness)[:JOINT_COLUMNS]
    leaks = []
    for i, j in combinations(kept, 2):
        if found := _joint_strength(values[i], values[j], truth):
            pair = columns[i], columns[j]
            names = [
                f"{c.name} (privileged)" if c.kind == "privileged" and c.name in ordinary else c.name for c in pair
            ]
            kind = max(column.kind for column in pair)  # "privileged" if one of them is
            text = (
                f"Leakage? The {found} of the columns {names[0]!r} and {names[1]!r} predicts the target {target!r} almost "
                f"exactly, though neither does alone. {CONSEQUENCE[kind].replace('drop it', 'drop one')}"
            )
            leaks.append({"kind": kind, "columns": names, "text": text})
    return leaks


def _enough(truth):
    """Whether a target is a quantity, or has two classes that are large enough for joint leaks."""
    sizes = np.unique(truth, return_counts=True)[1]
    return _is_number(truth) or (len(sizes) == 2 and sizes.min() >= JOINT_CLASS)


def _joint_strength(a, b, truth):
    """Name and strength of the first combination of two columns that is a leak; "" if there is none."""
    known = np.isfinite(a) & np.isfinite(b)
    a, b, truth = a[known], b[known], truth[known]
    if known.mean() < 0.5 or not _enough(truth):
        return ""
    single = max(_agreement(a, truth), _agreement(b, truth))[0]
    for name, combine in COMBINATIONS.items():
        values = combine(a, b)
        strength, measure = (0.0, "") if np.isnan(values).any() else _agreement(values, truth)
        if strength > LEAKS and (1 - strength) < JOINT_ERROR * (1 - single):
            return f"{name} ({measure} {strength:.3f})"
    return ""


def _copies(ordinary, privileged):
    """Notes on privileged columns that repeat an ordinary one; rank correlations of all pairs at once."""
    ranks = [_ranks([column.codes for column in columns]) for columns in (privileged, ordinary)]
    pairs = list(zip(product(privileged, ordinary), np.abs(ranks[0].T @ ranks[1]).ravel()))
    notes = []
    for (column, other), close in pairs:
        a, b, ours, theirs = column.codes, other.codes, column.n_levels, other.n_levels
        if ours < 2 or theirs < 2:
            continue
        known = (a != GAP) & (b != GAP)
        if len(pairs) <= MAX_PAIRS and close <= COPIES and not known.all():
            close = _correlation(a[known], b[known])
        whose = f"the ordinary column {other.name!r}"
        if ours == theirs and _same(a, b):
            notes.append(f"{column} repeats {whose}: it adds nothing.")
        elif ours > 2 and close > COPIES:
            notes.append(f"{column} is almost a copy of {whose}.")
        elif 2 < theirs <= FEW_LEVELS * len(b) and _n_pairs(a, b) == theirs:
            notes.append(f"{column} follows from {whose}: it adds nothing.")
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
    n_pairs = _n_pairs(a, b)
    equal = n_pairs == len(np.unique(a)) == len(np.unique(b))
    return equal and n_pairs > 1 and (n_pairs < len(a) or np.array_equal(a, b))


def _repeated_subjects(X, *others):
    """A note if rows seem to belong to the same subjects: equal names, or nearly equal rows."""
    for table in (X, *others):
        for name in table.columns:
            visits = _visits(name, table.frame[name])
            if MIN_VISITS <= visits <= MAX_VISITS:
                return [
                    f"The column {name!r} looks like repeated subjects (about {visits:.0f} rows each). Rows of one subject in "
                    "training and test make every method look better: keep them together with "
                    f"groups={name!r} (--groups)."
                ]
    moving = X.frame[X.numbers].dropna(axis=1)
    moving = moving.loc[:, moving.nunique() > 1]
    # Where few combinations are possible, equal rows are expected.
    if moving.shape[1] < 3 or len(X) < 20 or np.log(moving.nunique()).sum() < 3 * np.log(len(X)):
        return []
    moving = moving.to_numpy()
    counts = np.unique((moving / moving.std(axis=0)).round(2), axis=0, return_counts=True)[1]
    twins = counts[counts > 1].sum() / len(X)
    text = (
        f"{100 * twins:.0f}% of the rows are nearly equal to another row. If they belong to one subject, keep them together "
        "with groups (--groups): otherwise every method looks better than it is."
    )
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
