"""Tables from files: reading, splitting into decision, privileged and target columns."""

from __future__ import annotations

from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lupi.comparison.leakage import leakage

# Names of columns in a message.
SHOWN = 20


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
    try:
        table = pd.read_parquet(path) if path.suffix.lower() in (".parquet", ".pq") else _read_text(path)
    except UnicodeDecodeError as problem:
        raise ValueError(f"{path} is not UTF-8 text ({problem}); save it as UTF-8, or as Parquet.") from None
    except pd.errors.EmptyDataError:
        raise ValueError(f"{path} is empty.") from None
    except (pd.errors.ParserError, ArithmeticError, ValueError) as problem:
        raise ValueError(
            f"{path} cannot be read as a table: {problem}. A CSV file needs a header and the same number of fields in every "
            "line."
        ) from None
    if table.shape[1] < 2:
        raise ValueError(f"{path} has one column only; is it a table separated by commas, semicolons or tabs?")
    return _dates(table.rename(columns=str))


def _read_text(path):
    """CSV with the separator that the header has most of; numbers as 1,5 where the separator is no comma."""
    import pandas as pd

    with path.open(encoding="utf-8", errors="replace") as file:
        header = file.readline()
    separator = "\t" if path.suffix.lower() == ".tsv" else max(",;\t", key=header.count)
    table = pd.read_csv(path, sep=separator)
    if separator != "," and any(_all_match(table[name], r"[+-]?\d*(,\d+)?") for name in table.columns):
        table = pd.read_csv(path, sep=separator, decimal=",")
    return table


def _all_match(column, pattern):
    """Whether a column of words has values, and all of them have this form."""
    words = column.dropna()
    return column.dtype.kind not in "biufM" and len(words) > 0 and words.astype(str).str.fullmatch(pattern).all()


def _dates(table):
    """Words that are ISO dates become dates, which count as days."""
    import pandas as pd

    for name in table.columns:
        if _all_match(table[name], r"\d{4}-\d{2}-\d{2}([T ][\d:.]+)?"):
            try:
                table[name] = pd.to_datetime(table[name], format="ISO8601")
            except ValueError:  # e.g. a 31st of February: words after all
                continue
    return table


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
            raise ValueError(_no_column(option, part, columns))
        chosen += [c for c in found if c not in chosen]
    return chosen


def _no_column(option, name, columns):
    """What to say about a column that is not there."""
    spelled = {column.lower(): column for column in columns}
    close = [spelled[found] for found in get_close_matches(name.lower(), list(spelled), 1)]
    if close:
        return f"{option} names the column {name!r}, which the table does not have; do you mean {close[0]!r}?"
    shown = ", ".join(columns[:SHOWN]) + (f" and {len(columns) - SHOWN} more" if len(columns) > SHOWN else "")
    return f"{option} names the column {name!r}, which the table does not have; it has {shown}."


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
            raise ValueError(_no_column(option, name, columns))
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
    if not len(rows):
        raise ValueError(f"the table has no row with a value of the target {target!r}.")
    table = table.iloc[rows]
    hidden = [c for c in hidden if c not in dropped]
    y = table[target].to_numpy()
    if regression and y.dtype.kind not in "iufb":
        raise ValueError(f"metric r2 needs numbers, but the target {target!r} holds words or dates.")
    X, Z = table[ordinary], table[hidden]
    notes += leakage(X, y, Z, target)
    return Columns(X, y, Z, None if groups is None else table[groups].to_numpy(), rows, notes)
