"""From files and frames to the rows of a comparison: tables read, split by the names of their columns, and checked."""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np
from sklearn.utils.validation import check_consistent_length, check_X_y

from lupi.inputs import is_frame
from lupi.tabular.encoder import RawTable, missing_targets, plain_labels

# Ways of writing a day, with or without a time; tried in this order. Two-digit years are years of this century or the last.
TIME = r"([T ]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?)?"
DATES = (
    (r"\d{4}-\d{2}-\d{2}" + TIME, "%Y-%m-%d"),
    (r"\d{4}/\d{2}/\d{2}" + TIME, "%Y/%m/%d"),
    (r"\d{1,2}\.\d{1,2}\.\d{4}" + TIME, "%d.%m.%Y"),
    (r"\d{1,2}\.\d{1,2}\.\d{2}" + TIME, "%d.%m.%y"),
    (r"\d{1,2}/\d{1,2}/\d{4}" + TIME, "%m/%d/%Y"),
    (r"\d{1,2}/\d{1,2}/\d{4}" + TIME, "%d/%m/%Y"),
    (r"\d{1,2}/\d{1,2}/\d{2}" + TIME, "%m/%d/%y"),
    (r"\d{1,2}/\d{1,2}/\d{2}" + TIME, "%d/%m/%y"),
)
TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f")
REFUSED = {
    *(".xls", ".ods", ".json", ".sav", ".dta", ".rds", ".rdata", ".sas7bdat", ".zip", ".xz", ".bz2", ".zst", ".h5"),
    *(".sqlite", ".db", ".xlsb", ".xlsm"),
}
KINDS = "CSV, TSV, Parquet, Feather, Excel (.xlsx) or JSON lines, also gzipped (.csv.gz)"
# Names of columns in a message.
SHOWN = 20
# A target of numbers with more values than this is rarely one of classes.
MAX_CLASSES = 20


@dataclass(frozen=True)
class Data:
    """The rows of a comparison.

    Attributes
    ----------
    X, privileged : RawTable
    y : ndarray of float
        Positions of the labels among the classes, or numbers; NaN for a row without a label.
    groups : ndarray of int, optional
    test_only : ndarray of bool, optional
        Rows that only serve as test.
    validation : tuple of RawTable and ndarray, optional
        Further rows on which parameters are chosen, in place of cross-validation.
    """

    X: RawTable
    y: np.ndarray
    privileged: RawTable
    groups: np.ndarray | None = None
    test_only: np.ndarray | None = None
    validation: tuple | None = None

    @classmethod
    def of(cls, X, y, privileged, groups=None, test_only=None, validation=None):
        """From arrays or frames and an encoded target."""
        if validation is not None:
            validation = (RawTable.of(validation[0]), np.asarray(validation[1], dtype=np.float64))
        return cls(
            RawTable.of(X), np.asarray(y, dtype=np.float64), RawTable.of(privileged), groups, test_only, validation
        )

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
    """A frame, split by the names of its columns; `dropped` is what serves as neither."""

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
        The column to predict. A row without a value there is a row without a label.
    privileged, drop : sequence of str or str
        Names, with wildcards; a string holds several, separated by commas.
    groups : str or array-like, optional
        Column whose rows of equal value stay together; no feature.
    regression : bool
        Whether the target is a number.

    Returns
    -------
    Columns
    """
    frame = frame.rename(columns=str)
    columns = list(frame.columns)
    by_name = isinstance(groups, str)
    for option, name in (("target", target), ("groups", groups if by_name else None)):
        if name is not None and name not in columns:
            raise ValueError(_no_column(option, name, columns))
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
    if regression and y.dtype.kind not in "iufb":
        raise ValueError(f"metric r2 needs numbers, but the target {target!r} holds words or dates.")
    if by_name:
        if frame[groups].isna().any():
            raise ValueError(f"the column {groups!r} of the groups has gaps; every row needs a group.")
        groups = frame[groups].to_numpy()
    return Columns(frame[ordinary], y.to_numpy(), frame[left], groups, frame[dropped])


def expand(names, columns, option):
    """Column names from a list, or from text with commas; each part may have wildcards.

    Examples
    --------
    >>> expand("a, x_*", ["a", "b", "x_1", "x_2"], "privileged")
    ['a', 'x_1', 'x_2']
    """
    parts = names.split(",") if isinstance(names, str) else [str(name) for name in names or ()]
    chosen = []
    for part in filter(None, (part.strip() for part in parts)):
        found = [c for c in columns if c == part] or [c for c in columns if fnmatchcase(c, part)]
        if not found:
            raise ValueError(_no_column(option, part, columns))
        chosen += [c for c in found if c not in chosen]
    return chosen


def _no_column(option, name, columns):
    """What to say about a column that is not there."""
    spelled = {column.lower(): column for column in columns}
    close = [spelled[found] for found in get_close_matches(name.lower(), list(spelled), 1)]
    start = f"`{option}` (--{option}) names the column {name!r}, which the table does not have"
    if close:
        return f"{start}; do you mean {close[0]!r}?"
    shown = ", ".join(columns[:SHOWN]) + (f" and {len(columns) - SHOWN} more" if len(columns) > SHOWN else "")
    return f"{start}; it has {shown}."


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
    RawTable, ndarray
    """
    if data.X.names is not None or data.privileged.names is not None or is_frame(X):
        raise ValueError("`validation` goes with arrays only; encode the columns of the frames first.")
    X, y = check_X_y(X, y, dtype=np.float64, ensure_all_finite="allow-nan")
    if X.shape[1] != len(data.X.columns):
        raise ValueError(f"`validation` has {X.shape[1]} columns, but `X` has {len(data.X.columns)}.")
    if classes is None:
        return RawTable.of(X), y.astype(np.float64)
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(f"`validation` has labels that `y` does not have: {', '.join(map(str, unknown[:5]))}.")
    return RawTable.of(X), np.searchsorted(classes, y).astype(np.float64)


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


def read_table(path):
    """Read a table with pandas.

    Parameters
    ----------
    path : path-like
        CSV (any of the separators , ; tab), TSV, Parquet, Feather, Excel or JSON lines; text also gzipped.

    Returns
    -------
    data frame
    """
    import pandas as pd

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    try:
        table = _reader(path)(path)
    except UnicodeDecodeError as problem:
        raise ValueError(f"{path} is not UTF-8 text ({problem}); save it as UTF-8, or as Parquet.") from None
    except pd.errors.EmptyDataError:
        raise ValueError(f"{path} is empty.") from None
    except ImportError as problem:
        raise ImportError(f"reading {path} needs another package: {problem}") from None
    except (pd.errors.ParserError, ArithmeticError, ValueError, EOFError, KeyError, OSError, BadZipFile) as problem:
        if isinstance(problem, FileNotFoundError | PermissionError):
            raise
        raise ValueError(f"{path} cannot be read as a table: {str(problem).rstrip('.')}.") from None
    if table.shape[1] < 2:
        raise ValueError(f"{path} has one column only; is it a table separated by commas, semicolons or tabs?")
    table = table.rename(columns=str)
    if table.columns.duplicated().any():
        twice = table.columns[table.columns.duplicated()][0]
        raise ValueError(f"{path} cannot be read as a table: two columns that are called {twice!r}; rename one.")
    return _with_dates(table)


def _reader(path):
    import pandas as pd

    kind = path.suffix.lower()
    if kind == ".gz":
        kind = Path(path.stem).suffix.lower()
        if kind not in (".csv", ".tsv", ".txt", ".jsonl", ".ndjson"):
            raise ValueError(f"a gzipped table has to be a .csv.gz, .tsv.gz or .jsonl.gz, not {path.name!r}")
    readers = {
        ".parquet": pd.read_parquet,
        ".pq": pd.read_parquet,
        ".feather": pd.read_feather,
        ".arrow": pd.read_feather,
        ".xlsx": pd.read_excel,
        ".jsonl": lambda path: pd.read_json(path, lines=True),
        ".ndjson": lambda path: pd.read_json(path, lines=True),
    }
    if kind in REFUSED:
        raise ValueError(f"{kind} files are not read here; save it as one of {KINDS}")
    return readers.get(kind, _read_text)


def _read_text(path):
    """CSV with the separator that the header has most of; numbers as 1,5 where the separator is no comma."""
    import pandas as pd

    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        text = file.read()
    if not text.strip():
        raise pd.errors.EmptyDataError
    if "\0" in text:
        raise ValueError("it holds null characters: no text")
    header = text.split("\n", 1)[0]
    separator = "\t" if ".tsv" in path.suffixes else max(",;\t", key=header.count)
    _check_fields(text, separator)
    # Without index_col=False pandas would take a surplus first column for the index, and move all names by one.
    options = {"sep": separator, "index_col": False}
    if _version(pd) < (3, 1):  # a third of all numbers was wrong in the last digit; later versions read what is written
        options["float_precision"] = "round_trip"
    table = pd.read_csv(io.StringIO(text), **options)
    if separator != "," and any(_all_match(table[name], r"[+-]?\d*(,\d+)?") for name in table.columns):
        table = pd.read_csv(io.StringIO(text), decimal=",", **options)
    return table


def _version(package):
    return tuple(int(part) for part in package.__version__.split(".")[:2])


def _check_fields(text, separator):
    """Every line has as many fields as the header: a surplus one would move all values under other names."""
    lines = csv.reader(io.StringIO(text), delimiter=separator)
    try:
        header = next(lines)
        expected = len(header)
        for name in header:
            if name and header.count(name) > 1:
                raise ValueError(f"two columns that are called {name!r}; rename one")
        for fields in lines:
            if fields and len(fields) != expected:
                raise ValueError(
                    f"line {lines.line_num} has {len(fields)} fields, but the header names {expected}; a table needs the "
                    "same number of fields in every line"
                )
    except csv.Error as problem:
        raise ValueError(f"line {lines.line_num}: {problem}") from None


def _all_match(column, pattern):
    """Whether a column of words has values, and all of them have this form."""
    words = column.dropna()
    return column.dtype.kind not in "biufM" and len(words) > 0 and words.astype(str).str.fullmatch(pattern).all()


def _with_dates(table):
    """Words that are dates become dates, which count as days."""
    import pandas as pd

    for name in table.columns:
        if table[name].dtype.kind in "biufM":
            continue
        for pattern, day in DATES:
            found = _all_match(table[name], pattern)
            dates = _parsed(pd, table[name].astype("string").str.replace("T", " "), day) if found else None
            if dates is not None:
                table[name] = dates
                break
    return table


def _parsed(pd, column, day):
    """The column as dates, whether with times or without; None if one of them does not exist, as a 31st of February."""
    dates = pd.Series(pd.NaT, index=column.index, dtype="datetime64[ns]")
    for time in TIMES:
        missing = dates.isna() & column.notna()
        if missing.any():
            dates = dates.where(~missing, pd.to_datetime(column.where(missing), format=day + time, errors="coerce"))
    return None if (dates.isna() & column.notna()).any() else dates
