"""Tables from files: reading, splitting into decision, privileged and target columns, and signs of leakage."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import numpy as np

# A single column that orders the target this well, or repeats another column this closely, deserves a warning.
ALMOST = 0.995
SAMPLE = 5000


class Columns(NamedTuple):
    """A table, split."""

    X: object
    y: np.ndarray
    privileged: object
    groups: np.ndarray | None
    rows: np.ndarray  # positions in the file
    notes: list[str]


def read_table(path):
    """Read CSV (any of the separators , ; tab), TSV or Parquet with pandas.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    data frame
    """
    try:
        import pandas as pd
    except ImportError:
        raise ImportError('reading tables needs pandas: pip install "lupi[report]".') from None
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    if path.suffix.lower() in (".parquet", ".pq"):
        return pd.read_parquet(path).rename(columns=str)
    with path.open(encoding="utf-8", errors="replace") as file:
        header = file.readline()
    separator = "\t" if path.suffix.lower() == ".tsv" else max(",;\t", key=header.count)
    table = pd.read_csv(path, sep=separator)
    if table.shape[1] < 2:
        raise ValueError(f"{path} has one column only; is it a table separated by commas, semicolons or tabs?")
    return table.rename(columns=str)


def expand(names, columns, option):
    """Column names from a comma-separated list, whose parts may have wildcards.

    Examples
    --------
    >>> expand("a, x_*", ["a", "b", "x_1", "x_2"], "--privileged")
    ['a', 'x_1', 'x_2']
    """
    chosen = []
    for part in filter(None, (part.strip() for part in (names or "").split(","))):
        found = [c for c in columns if c == part] or [c for c in columns if fnmatchcase(c, part)]
        if not found:
            raise ValueError(
                f"{option} names the column {part!r}, which the table does not have; it has {', '.join(columns)}."
            )
        chosen += [c for c in found if c not in chosen]
    return chosen


def split_table(table, target, privileged, drop="", groups=None, regression=False):
    """Split a table by column names.

    Parameters
    ----------
    table : data frame
    target : str
        The column to predict. Rows without a value there are left out.
    privileged, drop : str
        Comma-separated names, with wildcards.
    groups : str, optional
        Column whose rows of equal value stay together; no feature.
    regression : bool
        Whether the target is a number.

    Returns
    -------
    Columns
    """
    columns = list(table.columns)
    for option, name in (("--target", target), ("--groups", groups)):
        if name is not None and name not in columns:
            raise ValueError(
                f"{option} names the column {name!r}, which the table does not have; it has {', '.join(columns)}."
            )
    hidden = expand(privileged, columns, "--privileged")
    if not hidden:
        raise ValueError("--privileged names no column; which ones will not exist at prediction time?")
    if target in hidden:
        raise ValueError(f"the column {target!r} is the target and cannot be privileged, too.")
    dropped = expand(drop, columns, "--drop")
    unused = {target, groups, *hidden, *dropped}
    ordinary = [c for c in columns if c not in unused]
    if not ordinary:
        raise ValueError("no column is left to predict from.")
    notes = []
    rows = np.flatnonzero(table[target].notna().to_numpy())
    if len(rows) < len(table):
        notes.append(f"{len(table) - len(rows)} rows without a value of {target} are left out.")
    table = table.iloc[rows]
    hidden = [c for c in hidden if c not in dropped]
    y = table[target].to_numpy()
    if regression and y.dtype.kind not in "iufb":
        raise ValueError(f"metric r2 needs numbers, but the target {target!r} holds words.")
    X, Z = table[ordinary], table[hidden]
    notes += leakage(X, y, Z, target)
    return Columns(X, y, Z, None if groups is None else table[groups].to_numpy(), rows, notes)


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
    codes = {("", target): _codes(y)}
    codes |= {("X", name): _codes(X[name]) for name in X.columns} | {("Z", name): _codes(Z[name]) for name in Z.columns}
    truth = codes["", target]
    notes = []
    for (block, name), column in codes.items():
        kind = {"X": "ordinary", "Z": "privileged", "": ""}[block]
        if not block:
            continue
        if _same(column, truth):
            consequence = (
                "Methods will look better than they are useful."
                if block == "Z"
                else "Then prediction is trivial: drop it."
            )
            notes.append(
                f"Leakage? The {kind} column {name!r} is the target {target!r} under another name. {consequence}"
            )
        elif _strength(column, truth) > ALMOST:
            notes.append(f"Leakage? The {kind} column {name!r} alone tells the target {target!r} almost exactly.")
        if _is_words((X if block == "X" else Z)[name]) and len(np.unique(column)) > max(30, 0.5 * len(column)):
            notes.append(
                f"The {kind} column {name!r} has almost as many words as rows; if it is an identifier, --drop it."
            )
    return notes + _copies(X, Z, codes)


def _copies(X, Z, codes):
    """Privileged columns that repeat an ordinary one; rank correlations of all pairs at once, as tables may be wide."""
    closeness = np.abs(
        _ranks([codes["Z", name] for name in Z.columns]).T @ _ranks([codes["X", name] for name in X.columns])
    )
    levels = {key: len(np.unique(column)) for key, column in codes.items()}
    notes = []
    for i, name in enumerate(Z.columns):
        for j, other in enumerate(X.columns):
            a, b = codes["Z", name], codes["X", other]
            if levels["Z", name] < 2:
                continue
            if np.array_equal(a, b) or (levels["Z", name] == levels["X", other] < len(a) and _same(a, b)):
                notes.append(
                    f"The privileged column {name!r} repeats the ordinary column {other!r}: it tells nothing new."
                )
            elif levels["Z", name] > 2 and closeness[i, j] > ALMOST:
                notes.append(f"The privileged column {name!r} is almost a copy of the ordinary column {other!r}.")
    return notes


def _ranks(columns):
    """Ranks of each column, centred, of length 1 (0 for a constant column)."""
    from scipy.stats import rankdata

    ranks = np.column_stack([rankdata(column) for column in columns])
    ranks -= ranks.mean(axis=0)
    length = np.linalg.norm(ranks, axis=0)
    return ranks / np.where(length > 0, length, 1.0)


def _is_words(column):
    return column.dtype.kind not in "biufM"


def _codes(column):
    """Values as whole numbers in sorted order, gaps as -1."""
    import pandas as pd

    column = pd.Series(np.asarray(column))
    if column.dtype.kind not in "biufM":
        column = column.where(column.isna(), column.astype(str))
    return np.asarray(pd.factorize(column, sort=True)[0])


def _same(a, b):
    """Whether two columns are one column up to the names of the values."""
    pairs = len(np.unique(np.column_stack([a, b]), axis=0))
    return (pairs == len(np.unique(a)) == len(np.unique(b)) and pairs > 1 and pairs < len(a)) or np.array_equal(a, b)


def _strength(column, truth):
    """How well one column orders the target: AUC for two classes, rank correlation otherwise; 0 to 1."""
    if len(np.unique(column)) < 2:
        return 0.0
    if len(np.unique(truth)) == 2:
        from sklearn.metrics import roc_auc_score

        area = roc_auc_score(truth == truth.max(), column)
        return float(max(area, 1 - area))
    return float(abs((_ranks([column]) * _ranks([truth])).sum()))
