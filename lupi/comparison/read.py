"""Tables from files: CSV and its kin, Parquet, Feather, Excel, JSON lines; plain or gzipped."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from zipfile import BadZipFile

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
    refused = {
        ".xls",
        ".ods",
        ".json",
        ".sav",
        ".dta",
        ".rds",
        ".rdata",
        ".sas7bdat",
        ".zip",
        ".xz",
        ".bz2",
        ".zst",
        ".h5",
        ".sqlite",
    }
    if kind in refused:
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
    table = pd.read_csv(io.StringIO(text), sep=separator, index_col=False)
    if separator != "," and any(_all_match(table[name], r"[+-]?\d*(,\d+)?") for name in table.columns):
        table = pd.read_csv(io.StringIO(text), sep=separator, decimal=",", index_col=False)
    return table


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
