"""Tables: read from files, with column kinds that are learned once and used to parse every later table."""

from __future__ import annotations

import csv
import gzip
import re
import warnings
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property, partial
from itertools import chain
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
KNOWN_WORDS = "words that the model knows"
# A column with more words than this is closer to an identifier; rarer words get no feature.
MAX_LEVELS = 30
# Most features of a column of free text.
MAX_COMPONENTS = 100
# A column of more than MAX_LEVELS texts is free text if half of them have this many words or more.
TEXT_WORDS, WORD = 3, re.compile(r"[^\W\d_]{2,}")
READERS = {".parquet": pd.read_parquet, ".feather": pd.read_feather, ".xlsx": partial(pd.read_excel, dtype=object)}
READERS |= {".jsonl": partial(pd.read_json, lines=True, dtype=False, convert_axes=False)}
# Date formats in the order in which they are tried; the first three have one meaning, whatever the format of training.
CLEAR_DATES = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y")
DATES = (*CLEAR_DATES, "%d.%m.%y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y")
# Regular expressions of the parts of dates, of times, and of offsets from UTC.
DIGITS = {"%Y": r"\d{4}", "%y": r"\d{2}", "%m": r"\d{1,2}", "%d": r"\d{1,2}", ".": r"\."}
TIME, ZONE = r"[T ]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?", r"(Z|[+-]\d{2}(:?\d{2})?)"
TIMES = (" %H:%M", " %H:%M:%S", " %H:%M:%S.%f")
BOOLEANS = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}
# Text that pandas takes for a gap in a CSV file; it is a gap in every other format, too.
GAPS = {"", "#N/A", "#N/A N/A", "#NA", "<NA>", "N/A", "NA", "n/a", "NULL", "null", "None", "NaN", "nan", "-NaN", "-nan"}
GAPS |= {"1.#IND", "1.#QNAN", "-1.#IND", "-1.#QNAN"}
# A comma before three digits may separate thousands.
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
COMMA_NUMBER = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*%?\s*")


def read_file(path):
    """Data frame of a file; cells of a text file stay text, exactly as written, until a Schema parses them."""
    ((table, _),) = read_chunks(path)
    return table


def read_chunks(path, rows=None):
    """Data frames of at most `rows` rows of a file (by default one of all rows), each with the file's number of rows."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    try:
        for table, total in _reader(path)(path, rows):
            if table.shape[1] < 2:
                raise ValueError("it has only one column; a table is separated by commas, semicolons or tabs")
            yield table.rename(columns=str), total
    except UnicodeDecodeError as problem:
        raise ValueError(f"{path} is not UTF-8 text ({problem}); save it as UTF-8, or as Parquet.") from None
    except pd.errors.EmptyDataError:
        raise ValueError(f"{path} is empty.") from None
    except ImportError as problem:
        raise ImportError(f"reading {path} requires another package: {problem}") from None
    except PermissionError:
        raise PermissionError(f"{path} cannot be read: permission denied.") from None
    except (ArithmeticError, ValueError, EOFError, KeyError, OSError, BadZipFile) as problem:
        raise ValueError(f"{path} cannot be read as a table: {str(problem).rstrip('.')}.") from None


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
    return partial(_read_whole, READERS[kind]) if kind in READERS else _read_text


def _read_whole(read, path, rows):
    if read is pd.read_parquet and rows:
        from pyarrow.parquet import ParquetFile

        with ParquetFile(path) as file:
            total = file.metadata.num_rows
            yield from ((batch.to_pandas(), total) for batch in file.iter_batches(rows) if batch.num_rows)
        if total:
            return
    table = read(path)
    step = rows or max(len(table), 1)
    yield from ((table[start : start + step], len(table)) for start in range(0, max(len(table), 1), step))


def _read_text(path, rows):
    """Text cells of a CSV file."""
    separator, total, attributes = _check_text(path)
    # Without index_col=False pandas would take a surplus first column for the index, and move all names by one.
    options = {"sep": separator, "index_col": False, "dtype": object, "chunksize": rows or max(total, 1)}
    with _open_text(path) as file:
        for table in pd.read_csv(file, **options):
            table.attrs = attributes
            yield table, total


def _open_text(path):
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    return opened(path, "rt", encoding="utf-8-sig", newline="\n")


def _check_text(path):
    """Separator, number of rows and attributes (the decimal mark) of a text file, after a check of every line.

    The separator is the one that the header has most of. Every line must have as many fields as the header: a surplus one
    would move all values under other names. Where commas do not separate, they are decimal ones if the file has a number
    whose comma cannot separate thousands, such as 1,5.
    """
    with _open_text(path) as file:
        header = file.readline()
        separator = "\t" if ".tsv" in path.suffixes else max(",;\t", key=header.count)
        lines = csv.reader(map(_checked_line, chain([header], file)), delimiter=separator)
        total, decimal = 0, "."
        try:
            names = next(lines)
            for name in names:
                if name and names.count(name) > 1:
                    raise ValueError(f"two columns are called {name!r}; rename one")
            for fields in lines:
                if fields and len(fields) != len(names):
                    found = f"line {lines.line_num} has {len(fields)} fields, but the header names {len(names)}"
                    raise ValueError(f"{found}; every line must have the same number of fields")
                total += bool(fields)
                if decimal != separator != "," and any("," in text and _has_decimal_comma(text) for text in fields):
                    decimal = ","
        except csv.Error as problem:
            raise ValueError(f"line {lines.line_num}: {problem}") from None
    return separator, total, {"decimal": decimal}


def _checked_line(line):
    if "\0" in line:
        raise ValueError("it holds null characters, so it is not text")
    return line


def _has_decimal_comma(text):
    return COMMA_NUMBER.fullmatch(text) and not THOUSANDS.fullmatch(text.strip(" \t%"))


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
    """Kind and format of every column of a table.

    Every later table is parsed by the kinds and formats of training, however few of its cells would show them. Dates of
    training with an offset from UTC are instants; those of a later table must have an offset, too, and the other way round.

    Attributes
    ----------
    columns : dict of str to tuple of str
        Name of a column -> its kind ("number", "boolean", "date", "word", "text") and its format: that of dates ("" for columns
        that held dates and no text), which ends in %z if they had an offset, and % for numbers with a percent sign.
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

    def parse(self, table, odd=None):
        """Table of the columns of this schema; other columns of a data frame are ignored.

        Cells that cannot be read become gaps, which are counted in `odd`, OddCells of several tables, or else reported.
        """
        table = as_pandas(table)
        if not self.named:
            values = np.asarray(table, dtype=np.float64)
            if values.shape[1] != len(self.columns):
                raise ValueError(f"X has {values.shape[1]} features, but {len(self.columns)} are needed.")
            table = pd.DataFrame(values, columns=list(self.columns))
            if not np.isinf(values).any():
                return Table(table, self)
        if not is_frame(table):
            raise TypeError("this model was trained on a data frame; pass one with the same column names.")
        missing = [name for name in self.columns if name not in table.columns]
        if missing:
            raise ValueError(f"the table lacks the column(s) that the model needs: {', '.join(missing)}.")
        counted = OddCells() if odd is None else odd
        parsed = {name: parse_column(table[name], *form, counted) for name, form in self.columns.items()}
        if odd is None:
            counted.warn()
        return Table(pd.DataFrame(parsed, index=range(len(table))), self)


@dataclass(frozen=True)
class OddCells:
    """Counts of the cells, of one or more tables, that a model cannot use: unreadable cells and unknown words.

    A column is an error if none of its filled cells can be read, or if more than one and more than 5% of them cannot.
    Unknown words are no error.
    """

    counts: dict[tuple[str, str], tuple[int, int, str | None]] = field(default_factory=dict)

    def add(self, column, required, filled, odd):
        """Count the filled cells and the odd ones of a column; `required` names what its cells should be."""
        n_filled, n_odd, example = self.counts.get((column.name, required), (0, 0, None))
        if not n_odd and odd.any():
            example = str(column.iloc[np.argmax(odd)])[:40]
        self.counts[column.name, required] = n_filled + int(filled.sum()), n_odd + int(odd.sum()), example

    def notes(self):
        """One sentence for each column with odd cells; ValueError if a column has too many."""
        notes = []
        for (name, required), (n_filled, n_odd, example) in self.counts.items():
            found = f"{n_odd} of {n_filled} cells do not, such as {example!r}"
            if required != KNOWN_WORDS and n_odd and (n_odd == n_filled or n_odd > max(1, n_filled // 20)):
                raise ValueError(f"the column {name!r} must hold {required}, but {found}.")
            if n_odd:
                notes.append(f"the column {name!r} should hold {required}, but {found}; they count as gaps.")
        return notes

    def warn(self):
        """Warn of every column with odd cells."""
        for text in self.notes():
            warnings.warn(text, UserWarning, stacklevel=2)


def as_pandas(table):
    """A pandas frame with text as column names for a frame of pandas or polars; anything else as it is."""
    refuse_masked(table, "the `table`")
    table = table.to_pandas() if hasattr(table, "to_pandas") else table
    return table.rename(columns=str) if is_frame(table) else table


@dataclass(frozen=True)
class Table:
    """A parsed table: numbers, booleans (0, 1) and dates (days) as floats, words and texts as categories, gaps as NaN."""

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
        return [name for name, (kind, _) in self.schema.columns.items() if kind == "word"]

    @cached_property
    def texts(self):
        """Names of the columns of free text."""
        return [name for name, (kind, _) in self.schema.columns.items() if kind == "text"]

    @cached_property
    def numbers(self):
        """Names of the columns of numbers."""
        return [name for name, (kind, _) in self.schema.columns.items() if kind not in ("word", "text")]

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
    """Kind and format of a column; numbers, booleans and dates may be written as text."""
    if column.dtype.kind == "M":
        return "date", "%z" * _has_zone(column)
    if column.dtype.kind in "biuf":
        return "number", ""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return "word", ""
    texts = [text for text in pd.unique(_texts(column)) if text is not None]
    if texts and BOOLEANS.keys() >= set(texts):
        return "boolean", ""
    decimal, dates = column.attrs.get("decimal"), pd.Series(texts, dtype=object)
    for form in ("", "%"):
        if not np.isnan(_numbers(texts, form, decimal)).any():
            return "number", form
    for form in (form + zone for form in DATES for zone in ("", "%z")):
        if _all_dates(dates[:1], form) and _all_dates(dates, form):
            swapped = form.translate(str.maketrans("md", "dm"))
            if swapped.removesuffix("%z") in DATES and _all_dates(dates, swapped):
                choice = f"{texts[0]!r} and all other dates can be read as {form} and as {swapped}"
                _warn_of(column, f"{choice}; they are read as {form}, the month first. Write YYYY-MM-DD to be sure")
            return "date", form
    if all(map(THOUSANDS.fullmatch, texts)):
        _warn_of(column, f"{texts[0]!r} may be a decimal number or thousands, so the column is read as words")
    free = len(texts) > MAX_LEVELS and np.median([len(WORD.findall(text)) for text in texts]) >= TEXT_WORDS
    return "text" if free else "word", ""


def text_notes(*tables):
    """A sentence that names the columns of free text of some Tables, if they have any."""
    names = ", ".join(repr(name) for table in tables for name in table.texts)
    return [f"Columns of free text (TF-IDF, at most {MAX_COMPONENTS} features each): {names}."] if names else []


def _warn_of(column, text):
    warnings.warn(f"the column {column.name!r}: {text}.", UserWarning, stacklevel=4)


def parse_column(column, kind, form, odd):
    """Floats of a column of numbers, booleans or dates, categories of a column of words or text; unreadable cells go to `odd`."""
    if kind in ("word", "text"):
        codes, words = pd.factorize(_texts(column))
        # Whole numbers are words without a point: a gap in their column makes them floats.
        words = [re.sub(r"^(-?\d+)\.0+$", r"\1", word) for word in words]
        return pd.Categorical(np.array([*words, None], dtype=object)[codes])
    values, filled = _parsed(column, kind, form)
    readable = np.isfinite(values)
    odd.add(column, _required(kind, form), filled, filled & ~readable)
    return np.where(readable, values, np.nan)


def _required(kind, form):
    """What the cells of a column should be, for messages."""
    if kind != "date":
        return "booleans" if kind == "boolean" else f"finite numbers{' and a percent sign' * (form == '%')}"
    written = form.removesuffix("%z")
    return f"dates{f' such as {written}' * bool(written)} with{'out' * (form == written)} a time zone"


def _parsed(column, kind, form):
    """Floats, NaN for unreadable cells and gaps, and the mask of the filled cells."""
    letter, values = column.dtype.kind, np.full(len(column), np.nan)
    century = "%y" not in form  # without one, other dates may be a hundred years away from those of training
    texts = column if letter in "biufM" else _texts(column)
    filled = np.asarray(pd.notna(texts))
    if letter == "M":
        if kind == "date" and century and _has_zone(column) == form.endswith("%z"):
            values = _days(column)
    elif letter in "biuf":
        if kind != "date" and form == "":
            values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    elif kind == "date":
        codes, unique = pd.factorize(texts[filled])
        values[filled] = _dates(pd.Series(unique, dtype=object), [form, *CLEAR_DATES * century])[codes]
    else:
        values[filled] = _numbers(texts[filled], form, column.attrs.get("decimal"))
    return np.where(np.isin(values, (0, 1)), values, np.nan) if kind == "boolean" else values, filled


def _texts(column):
    """Cells as text without spaces around it; None for gaps."""
    gaps, cells = column.isna(), (str(cell).strip() for cell in column.astype(object))
    return np.array([None if gap or text in GAPS else text for gap, text in zip(gaps, cells)], dtype=object)


def _numbers(texts, form, decimal):
    """Numbers of texts, NaN for other texts; with the form "%" those before a percent sign."""
    if form == "%":
        texts = [text[:-1] if text.endswith("%") else "" for text in texts]
    if decimal == ",":
        texts = ["" if "." in text else text.replace(",", ".") for text in texts]
    return np.array([_number(text) for text in texts], dtype=np.float64)


def _number(text):
    """The number of a text, or NaN; underscores, which only Python accepts in numbers, are rejected."""
    try:
        return float("nan" if "_" in text else text)
    except ValueError:
        return BOOLEANS.get(text, np.nan)


def _all_dates(texts, form):
    return not np.isnan(_dates(texts, [form])).any()


def _dates(texts, forms):
    """Days since 1970 of a series of texts in one of some formats, NaN for other texts, as a 31st of February."""
    days, zone = np.full(len(texts), np.nan), "%z" * forms[0].endswith("%z")
    for form in dict.fromkeys(form.removesuffix("%z") for form in forms):
        pattern = form
        for part, digits in DIGITS.items():
            pattern = pattern.replace(part, digits)
        for time in TIMES if zone else ("", *TIMES):
            todo = np.isnan(days) & texts.str.fullmatch(pattern + TIME * bool(time) + ZONE * bool(zone)).to_numpy(bool)
            if form and todo.any():
                # %z knows no offset of hours alone.
                written = texts[todo].str.replace("T", " ").str.replace(r"(:.*[+-]\d{2})$", r"\1:00", regex=True)
                dates = pd.to_datetime(written, format=form + time + zone, errors="coerce", utc=bool(zone))
                days[todo] = _days(dates)
    return days


def _has_zone(dates):
    return getattr(getattr(dates.dtype, "pyarrow_dtype", dates.dtype), "tz", None) is not None


def _days(dates):
    dates = dates.dt.tz_convert(None) if _has_zone(dates) else dates
    seconds = dates.to_numpy(dtype="datetime64[s]")
    return np.where(np.isnat(seconds), np.nan, seconds.astype(np.float64) / 86400.0)
