"""Tables: read from files, with column kinds that are learned once and used to parse every later table."""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property, partial
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import pandas as pd

from lupi.inputs.tables import is_frame
from lupi.inputs.training_set import refuse_masked
from lupi.privacy import model_part

UNREADABLE = ".xls .ods .json .sav .dta .rds .rdata .sas7bdat .zip .xz .bz2 .zst .h5 .sqlite .db .xlsb .xlsm"
FORMATS = "CSV, TSV, Parquet, Feather, Excel (.xlsx) or JSON lines, also gzipped (.csv.gz)"
# Column names in an error message.
SHOWN = 20
READERS = {".parquet": pd.read_parquet, ".feather": pd.read_feather, ".xlsx": pd.read_excel}
READERS |= {".jsonl": partial(pd.read_json, lines=True)}
# Date formats in the order in which they are tried, and regular expressions of their parts and of the time.
DATES = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d.%m.%y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y")
DIGITS = {"%Y": r"\d{4}", "%y": r"\d{2}", "%m": r"\d{1,2}", "%d": r"\d{1,2}", ".": r"\."}
TIME = r"([T ]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?)?"
TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f")
BOOLEANS = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}


def read_file(path):
    """Data frame of a file; cells of a text file stay text, exactly as written, until a Schema parses them."""
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
        raise ImportError(f"reading {path} requires another package: {problem}") from None
    except PermissionError:
        raise
    except (ArithmeticError, ValueError, EOFError, KeyError, OSError, BadZipFile) as problem:
        raise ValueError(f"{path} cannot be read as a table: {str(problem).rstrip('.')}.") from None
    if table.shape[1] < 2:
        raise ValueError(f"{path} has only one column; a table is separated by commas, semicolons or tabs.")
    return table.rename(columns=str)


def read_parquet(paths, target):
    """Rows with a value of `target` of Parquet files, or of one folder of them, as a Dask data frame."""
    try:
        import dask.dataframe as dd
    except ImportError:
        raise ImportError('several files, or a folder of them, need Dask: pip install "lupi[dask]".') from None
    paths = [Path(path) for path in paths]
    files = sorted(paths[0].glob("*.parquet")) if len(paths) == 1 and paths[0].is_dir() else paths
    if not files:
        raise FileNotFoundError(f"there is no Parquet file in {paths[0]}.")
    for path in files:
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}.")
        if path.suffix.lower() != ".parquet":
            raise ValueError(f"{path}: several files have to be Parquet files; write the table as such.")
    frame = dd.read_parquet([str(path.resolve()) for path in files], split_row_groups=True).rename(columns=str)
    frame = frame[frame[target].notnull()] if target in frame.columns else frame
    if len(frame) == 0:
        raise ValueError(f"the table has no row with a value of the target {target!r}.")
    return frame


def _reader(path):
    kind = path.suffix.lower()
    if kind == ".gz":
        kind = Path(path.stem).suffix.lower()
        if kind not in (".csv", ".tsv", ".txt", ".jsonl"):
            raise ValueError(f"a gzipped table must be .csv.gz, .tsv.gz or .jsonl.gz, got {path.name!r}")
    if kind in UNREADABLE.split():
        raise ValueError(f"{kind} files are not supported; save the table as {FORMATS}")
    return READERS.get(kind, _read_text)


def _read_text(path):
    """Text cells of a CSV file; the separator is the one that the header has most of."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        text = file.read()
    if not text.strip():
        raise pd.errors.EmptyDataError
    if "\0" in text:
        raise ValueError("it holds null characters, so it is not text")
    header = text.split("\n", 1)[0]
    separator = "\t" if ".tsv" in path.suffixes else max(",;\t", key=header.count)
    _check_fields(text, separator)
    # Without index_col=False pandas would take a surplus first column for the index, and move all names by one.
    table = pd.read_csv(io.StringIO(text), sep=separator, index_col=False, dtype=object)
    return table if separator == "," else table.apply(_decimal_points)


def _decimal_points(column):
    """Numbers written as 1,5 become 1.5, in a column that holds nothing else."""
    words = column.dropna().astype(str)
    comma_numbers = len(words) and words.str.fullmatch(r"\s*[+-]?\d*(,\d+)?([eE][+-]?\d+)?\s*").all()
    return column.str.replace(",", ".") if comma_numbers else column


def _check_fields(text, separator):
    """Every line has as many fields as the header: a surplus one would move all values under other names."""
    lines = csv.reader(io.StringIO(text), delimiter=separator)
    try:
        header = next(lines)
        for name in header:
            if name and header.count(name) > 1:
                raise ValueError(f"two columns are called {name!r}; rename one")
        for fields in lines:
            if fields and len(fields) != len(header):
                found = f"line {lines.line_num} has {len(fields)} fields, but the header names {len(header)}"
                raise ValueError(f"{found}; every line must have the same number of fields")
    except csv.Error as problem:
        raise ValueError(f"line {lines.line_num}: {problem}") from None


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
            raise ValueError(no_column(option, part, columns))
        chosen += [c for c in found if c not in chosen]
    return chosen


def no_column(option, name, columns):
    """Error message about a column that the table does not have."""
    spelled = {column.lower(): column for column in columns}
    close = [spelled[found] for found in get_close_matches(name.lower(), list(spelled), 1)]
    start = f"`{option}` (--{option}) names the column {name!r}, which the table does not have"
    if close:
        return f"{start}; do you mean {close[0]!r}?"
    shown = ", ".join(columns[:SHOWN]) + (f" and {len(columns) - SHOWN} more" if len(columns) > SHOWN else "")
    return f"{start}; it has {shown}."


@model_part
@dataclass(frozen=True)
class Schema:
    """Kind and date format of every column of a table.

    Attributes
    ----------
    columns : dict of str to tuple of str
        Name of a column -> its kind ("number", "boolean", "date", "word") and its date format ("" for other kinds, and
        for columns that held dates and no text).
    named : bool
        Whether the table had column names; columns of an array are found by position.

    Examples
    --------
    >>> table = pd.DataFrame({"age": ["20", None], "born": ["24.12.2003", "1.1.1990"], "sex": ["m", "f"]})
    >>> schema = Schema.learn(table)
    >>> schema.columns
    {'age': ('number', ''), 'born': ('date', '%d.%m.%Y'), 'sex': ('word', '')}
    >>> schema.parse(pd.DataFrame({"sex": ["f"], "born": ["2.1.1970"], "age": [7]})).frame
       age  born sex
    0  7.0   1.0   f
    """

    columns: dict[str, tuple[str, str]]
    named: bool = True

    @classmethod
    def learn(cls, table):
        """Schema of a data frame or a numeric array."""
        table = as_pandas(table)
        if not is_frame(table):
            return cls({f"column {k}": ("number", "") for k in range(np.shape(table)[1])}, named=False)
        if table.columns.duplicated().any():
            raise ValueError(f"two columns are called {table.columns[table.columns.duplicated()][0]!r}; rename one.")
        return cls({name: _kind(table[name]) for name in table.columns})

    def parse(self, table):
        """Table of the columns of this schema; other columns of a data frame are ignored."""
        table = as_pandas(table)
        if not self.named:
            values = np.asarray(table, dtype=np.float64)
            if values.shape[1] != len(self.columns):
                raise ValueError(f"X has {values.shape[1]} features, but {len(self.columns)} are needed.")
            return Table(pd.DataFrame(_finite(values), columns=list(self.columns)), self)
        if not is_frame(table):
            raise TypeError("this model was trained on a data frame; pass one with the same column names.")
        missing = [name for name in self.columns if name not in table.columns]
        if missing:
            raise ValueError(f"the table lacks the column(s) that the model needs: {', '.join(missing)}.")
        parsed = {name: parse_column(table[name], *self.columns[name]) for name in self.columns}
        return Table(pd.DataFrame(parsed, index=range(len(table))), self)


def as_pandas(table):
    """A pandas frame with text as column names for a frame of pandas or polars; anything else as it is."""
    refuse_masked(table, "the `table`")
    table = table.to_pandas() if hasattr(table, "to_pandas") else table
    return table.rename(columns=str) if is_frame(table) else table


@dataclass(frozen=True)
class Table:
    """A parsed table: numbers, booleans (0, 1) and dates (days) as floats, words as categories, gaps as NaN."""

    frame: pd.DataFrame
    schema: Schema

    @classmethod
    def of(cls, table):
        """Parse a data frame or a numeric array by its own schema; a Table is returned as it is."""
        return table if isinstance(table, cls) else Schema.learn(table).parse(table)

    def __len__(self):
        return len(self.frame)

    @property
    def columns(self):
        """Names of all columns."""
        return list(self.frame.columns)

    @cached_property
    def words(self):
        """Names of the columns of words."""
        return [name for name, dtype in self.frame.dtypes.items() if dtype == "category"]

    @cached_property
    def numbers(self):
        """Names of the columns of numbers."""
        return [name for name, dtype in self.frame.dtypes.items() if dtype != "category"]

    def take(self, rows):
        """Some of the rows."""
        return replace(self, frame=self.frame.iloc[rows])

    def drop(self, names):
        """The table without some columns."""
        kept = {name: kind for name, kind in self.schema.columns.items() if name not in names}
        return Table(self.frame[list(kept)], Schema(kept, self.schema.named))

    def join(self, other):
        """Both tables side by side; a name that both have is marked on the right."""
        names = {name: f"{name} (privileged)" if name in self.columns else name for name in other.columns}
        columns = {names[name]: kind for name, kind in other.schema.columns.items()}
        frame = pd.concat([self.frame, other.frame.rename(columns=names).set_axis(self.frame.index)], axis=1)
        return Table(frame, Schema(self.schema.columns | columns))

    def empty_rows(self):
        """Mask of the rows that have no value."""
        return self.frame.isna().to_numpy().all(axis=1)


def _kind(column):
    """Kind and date format of a column; numbers, booleans and dates may be written as text."""
    letter = column.dtype.kind
    if letter in "biufM":
        return "date" if letter == "M" else "number", ""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return "word", ""
    known = column.dropna()
    guesses = [("number", ""), ("boolean", ""), *(("date", form) for form in DATES)]
    return next((guess for guess in guesses if _parsed(known, *guess) is not None), ("word", ""))


def parse_column(column, kind, form):
    """Floats of a column of numbers, booleans or dates, categories of a column of words."""
    if kind == "word":
        return pd.Categorical(column.astype(object).map(str, na_action="ignore").astype(object).to_numpy())
    values, known = np.full(len(column), np.nan), column.notna().to_numpy()
    texts = column[known]
    parsed = _days(texts) if column.dtype.kind == "M" else _parsed(texts, kind, form)
    if parsed is None:
        held = f"dates such as {form}" if form else f"{kind}s"
        odd = next((text for text in texts if _parsed(pd.Series([text]), kind, form) is None), texts.iloc[0])
        raise ValueError(f"the column {column.name!r} held {held} in training, but holds {odd!r} here.")
    values[known] = parsed
    return _finite(values)


def _finite(values):
    return np.where(np.isfinite(values), values, np.nan)


def _parsed(known, kind, form):
    """Floats of values of a kind, or None if a value is not of this kind; without a format, any one date format."""
    if kind == "boolean" and known.isin(BOOLEANS.keys()).all():
        return known.map(BOOLEANS)
    if kind != "date":
        return _as_floats(known)
    tried = (_as_dates(known, one) for one in ([form] if form else DATES))
    return next((found for found in tried if found is not None), None)


def _as_floats(values):
    """Floats, or None if a value is no number; underscores, which only Python accepts in numbers, are rejected."""
    if values.dtype.kind not in "biuf" and any(isinstance(value, str) and "_" in value for value in values):
        return None
    try:
        return values.to_numpy(dtype=np.float64)
    except (TypeError, ValueError):
        return None


def _as_dates(values, form):
    """Days since 1970, or None if a value has another format or does not exist, as a 31st of February."""
    texts, pattern = values.astype(str), form
    for part, digits in DIGITS.items():
        pattern = pattern.replace(part, digits)
    if not texts.str.fullmatch(pattern + TIME).all():
        return None
    texts, dates = texts.str.replace("T", " "), pd.Series(pd.NaT, index=values.index, dtype="datetime64[ns]")
    for time in TIMES:
        dates = dates.fillna(pd.to_datetime(texts.where(dates.isna()), format=form + time, errors="coerce"))
    return None if dates.isna().any() else _days(dates)


def _days(dates):
    return dates.to_numpy(dtype="datetime64[s]").astype(np.float64) / 86400.0
