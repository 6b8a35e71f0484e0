"""Tables from files, and column names as users write them."""

from __future__ import annotations

import csv
import gzip
import io
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from zipfile import BadZipFile

import pandas as pd

UNREADABLE = {
    *(".xls", ".ods", ".json", ".sav", ".dta", ".rds", ".rdata", ".sas7bdat", ".zip", ".xz", ".bz2", ".zst", ".h5"),
    *(".sqlite", ".db", ".xlsb", ".xlsm"),
}
FORMATS = "CSV, TSV, Parquet, Feather, Excel (.xlsx) or JSON lines, also gzipped (.csv.gz)"
# Column names in an error message.
SHOWN = 20
READERS = {
    ".parquet": pd.read_parquet,
    ".pq": pd.read_parquet,
    ".feather": pd.read_feather,
    ".arrow": pd.read_feather,
    ".xlsx": pd.read_excel,
    ".jsonl": lambda path: pd.read_json(path, lines=True),
    ".ndjson": lambda path: pd.read_json(path, lines=True),
}


def read_table(path):
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
    except (pd.errors.ParserError, ArithmeticError, ValueError, EOFError, KeyError, OSError, BadZipFile) as problem:
        if isinstance(problem, FileNotFoundError | PermissionError):
            raise
        raise ValueError(f"{path} cannot be read as a table: {str(problem).rstrip('.')}.") from None
    if table.shape[1] < 2:
        raise ValueError(f"{path} has only one column; a table is separated by commas, semicolons or tabs.")
    table = table.rename(columns=str)
    if table.columns.duplicated().any():
        twice = table.columns[table.columns.duplicated()][0]
        raise ValueError(f"{path} cannot be read as a table: two columns are called {twice!r}; rename one.")
    return table


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
        if kind not in (".csv", ".tsv", ".txt", ".jsonl", ".ndjson"):
            raise ValueError(f"a gzipped table must be .csv.gz, .tsv.gz or .jsonl.gz, got {path.name!r}")
    if kind in UNREADABLE:
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
                raise ValueError(
                    f"line {lines.line_num} has {len(fields)} fields, but the header names {len(header)}; every line must "
                    "have the same number of fields"
                )
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
