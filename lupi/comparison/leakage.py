"""Columns that say too much, or nothing new: under any name, scale, order or spelling, and with gaps."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from lupi.estimators.ranking_metrics import area_of_ranking

# A single column that tells the target this well, or repeats another column this closely, deserves a question.
TELLS, REPEATS = 0.98, 0.995
SAMPLE = 5000
# Values that are rarer than this share of the rows say nothing about the rows that share them.
FEW_LEVELS = 0.1
# With more pairs of columns than this, those with gaps are compared as they are.
MAX_PAIRS = 20_000
GAP = -1


def leakage(X, y, Z, target="the target"):
    """Warnings about columns that say too much, or nothing new.

    Parameters
    ----------
    X, Z : data frame
        Decision and privileged columns.
    y : array
        Target.
    target : str
        Its name.

    Returns
    -------
    list of str

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"a": [1, 2, 3, 4, 5, 7]})
    >>> Z = pd.DataFrame({"b": [0, 0, 1, 1, 0, 1], "c": [1, 2, 3, 4, 5, 7]})
    >>> for note in leakage(X, Z["b"].to_numpy(), Z, "y"):
    ...     print(note)
    Leakage? The privileged column 'b' is the target 'y' under another name. Methods will look better than they are useful.
    The privileged column 'c' repeats the ordinary column 'a': it tells nothing new.
    """
    if len(y) > SAMPLE:
        rows = np.sort(np.random.default_rng(0).permutation(len(y))[:SAMPLE])
        X, y, Z = X.iloc[rows], y[rows], Z.iloc[rows]
    truth = _codes(y)
    ordinary, hidden = ({name: _codes(table[name]) for name in table.columns} for table in (X, Z))
    notes = []
    for kind, table, columns in (("ordinary", X, ordinary), ("privileged", Z, hidden)):
        for name, column in columns.items():
            notes += _tells(kind, name, column, truth, target)
            if _is_words(table[name]) and len(np.unique(column)) > max(30, 0.5 * len(column)):
                notes.append(
                    f"The {kind} column {name!r} has almost as many words as rows; if it is an identifier, --drop it."
                )
    return notes + _copies(ordinary, hidden)


def _tells(kind, name, column, truth, target):
    """Whether one column gives the target away."""
    consequence = (
        "Methods will look better than they are useful."
        if kind == "privileged"
        else "Then prediction is trivial: drop it."
    )
    if len(np.unique(truth)) < 2:
        return []
    if kind == "privileged" and len(np.unique(column)) < 2:
        return [
            f"The privileged column {name!r} has {'no value' if column[0] == GAP else 'one value only'}: it tells nothing."
        ]
    if _same(column, truth):
        return [f"Leakage? The {kind} column {name!r} is the target {target!r} under another name. {consequence}"]
    strength, how = max((_strength(column, truth), _strength(*_known(column, truth))), key=lambda found: found[0])
    if strength <= TELLS:
        return []
    return [f"Leakage? The {kind} column {name!r} alone tells the target {target!r} almost exactly ({how})."]


def _copies(ordinary, hidden):
    """Privileged columns that repeat an ordinary one; rank correlations of all pairs at once, as tables may be wide."""
    closeness = np.abs(_ranks(list(hidden.values())).T @ _ranks(list(ordinary.values())))
    levels = {id(column): len(np.unique(column)) for columns in (ordinary, hidden) for column in columns.values()}
    few = len(hidden) * len(ordinary) <= MAX_PAIRS
    notes = []
    for i, (name, a) in enumerate(hidden.items()):
        for j, (other, b) in enumerate(ordinary.items()):
            ours, theirs = levels[id(a)], levels[id(b)]
            if ours < 2 or theirs < 2:
                continue
            close = closeness[i, j]
            if few and close <= REPEATS and ((a == GAP).any() or (b == GAP).any()):
                close = _correlation(*_known(*_known(a, b)[::-1]))
            if np.array_equal(a, b) or (ours == theirs < len(a) and _same(a, b)):
                notes.append(
                    f"The privileged column {name!r} repeats the ordinary column {other!r}: it tells nothing new."
                )
            elif ours > 2 and close > REPEATS:
                notes.append(f"The privileged column {name!r} is almost a copy of the ordinary column {other!r}.")
            elif 2 < theirs <= FEW_LEVELS * len(b) and _pairs(a, b) == theirs:
                notes.append(
                    f"The privileged column {name!r} can be read off the ordinary column {other!r}: it tells nothing new."
                )
    return notes


def _ranks(columns):
    """Ranks of each column, centred, of length 1 (0 for a constant column)."""
    ranks = np.column_stack([rankdata(column) for column in columns])
    ranks -= ranks.mean(axis=0)
    length = np.linalg.norm(ranks, axis=0)
    return ranks / np.where(length > 0, length, 1.0)


def _correlation(a, b):
    """Rank correlation without its sign; 0 with too few rows to speak of."""
    return float(abs((_ranks([a]) * _ranks([b])).sum())) if len(a) >= 20 else 0.0


def _is_words(column):
    return column.dtype.kind not in "biufM"


def _codes(column):
    """Values as whole numbers in sorted order, gaps as -1."""
    import pandas as pd

    column = pd.Series(np.asarray(column))
    if column.dtype.kind not in "biufM":
        column = column.where(column.isna(), column.astype(str))
    return np.asarray(pd.factorize(column, sort=True)[0])


def _known(column, other):
    """Both columns where the first has a value."""
    known = column != GAP
    return column[known], other[known]


def _pairs(a, b):
    """Number of different pairs of values."""
    return len(np.unique((a - GAP).astype(np.int64) * (int(b.max()) + 2) + (b - GAP)))


def _same(a, b):
    """Whether two columns are one column up to the names of the values."""
    pairs = _pairs(a, b)
    return (pairs == len(np.unique(a)) == len(np.unique(b)) and 1 < pairs < len(a)) or np.array_equal(a, b)


def _strength(column, truth):
    """How well one column tells the target, from 0 to 1, and by which measure."""
    if len(truth) < 20 or len(np.unique(column)) < 2 or len(np.unique(truth)) < 2:
        return 0.0, ""
    classes = np.unique(truth, return_counts=True)[1]
    if len(classes) == 2 and classes.min() < 5:
        return 0.0, ""  # so few rows are told apart by chance
    if len(classes) > max(20, FEW_LEVELS * len(truth)):
        found = _correlation(column, truth)
        return found, f"rank correlation {found:.3f}"
    order = _area(column, truth == truth.max()) if len(classes) == 2 else _correlation(column, truth)
    kind = "AUC" if len(classes) == 2 else "rank correlation"
    share = _purity(column, truth)
    # A target that is nearly always the same is told "well" by any column.
    if share > order and (1 - share) < 0.1 * (1 - classes.max() / len(truth)):
        return share, f"{100 * share:.1f}% of the rows by its values alone"
    return order, f"{kind} {order:.3f}"


def _area(column, positive):
    area = area_of_ranking(positive, column.astype(np.float64))
    return max(area, 1 - area)


def _purity(column, truth):
    """Share of the rows that are right if each value stands for its most frequent target; numbers go by intervals."""
    n = len(column)
    if len(np.unique(column)) > FEW_LEVELS * n:
        bins = max(2, min(50, n // 20))
        column = (rankdata(column, method="min") - 1).astype(np.int64) * bins // n
    _, value = np.unique(column, return_inverse=True)
    _, label = np.unique(truth, return_inverse=True)
    counts = np.zeros((value.max() + 1, label.max() + 1))
    np.add.at(counts, (value, label), 1)
    return float(counts.max(axis=1).sum() / n)
