"""Column kinds of a table, learned once, saved with the model, and used to parse every later table."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from lupi.inputs.tables import is_frame
from lupi.privacy import model_part

# Date formats with a regular expression for each, in the order in which they are tried.
TIME = r"([T ]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?)?"
DATES = {
    "%Y-%m-%d": r"\d{4}-\d{2}-\d{2}",
    "%Y/%m/%d": r"\d{4}/\d{2}/\d{2}",
    "%d.%m.%Y": r"\d{1,2}\.\d{1,2}\.\d{4}",
    "%d.%m.%y": r"\d{1,2}\.\d{1,2}\.\d{2}",
    "%m/%d/%Y": r"\d{1,2}/\d{1,2}/\d{4}",
    "%d/%m/%Y": r"\d{1,2}/\d{1,2}/\d{4}",
    "%m/%d/%y": r"\d{1,2}/\d{1,2}/\d{2}",
    "%d/%m/%y": r"\d{1,2}/\d{1,2}/\d{2}",
}
TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f")
BOOLEANS = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}


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
        table = table.rename(columns=str)
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
        table = table.rename(columns=str)
        missing = [name for name in self.columns if name not in table.columns]
        if missing:
            raise ValueError(f"the table lacks the column(s) that the model needs: {', '.join(missing)}.")
        parsed = {name: parse_column(table[name], *self.columns[name]) for name in self.columns}
        return Table(pd.DataFrame(parsed, index=range(len(table))), self)


def as_pandas(table):
    """A pandas frame for a polars frame; anything else as it is."""
    return table.to_pandas() if hasattr(table, "to_pandas") else table


@dataclass(frozen=True)
class Table:
    """A parsed table: numbers, booleans (0, 1) and dates (days) as floats, words as categories, gaps as NaN.

    Tables of a comparison have a `digest`, which their rows inherit: encodings of equal tables are shared.
    """

    frame: pd.DataFrame
    schema: Schema
    digest: str = ""

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

    def with_digest(self):
        """The same table; its encodings, and those of its rows, are kept for the next fit that needs them."""
        digest = _digest(repr(self.schema), self.frame[self.numbers].to_numpy())
        for column in (self.frame[name] for name in self.words):
            digest = _digest(digest + repr(list(column.cat.categories)), column.cat.codes)
        return replace(self, digest=digest)

    def take(self, rows):
        """Some of the rows."""
        return replace(self, frame=self.frame.iloc[rows], digest=self.digest and _digest(self.digest, np.asarray(rows)))

    def drop(self, names):
        """The table without some columns."""
        kept = {name: kind for name, kind in self.schema.columns.items() if name not in names}
        schema, digest = Schema(kept, self.schema.named), self.digest and _digest(self.digest, np.array(list(kept)))
        return Table(self.frame[list(kept)], schema, digest)

    def join(self, other):
        """Both tables side by side; a name that both have is marked on the right."""
        names = {name: f"{name} (privileged)" if name in self.columns else name for name in other.columns}
        columns = {names[name]: kind for name, kind in other.schema.columns.items()}
        frame = pd.concat([self.frame, other.frame.rename(columns=names).set_axis(self.frame.index)], axis=1)
        digest = self.digest and _digest(self.digest, np.array([other.digest]))
        return Table(frame, Schema(self.schema.columns | columns), digest)

    def empty_rows(self):
        """Mask of the rows that have no value."""
        return self.frame.isna().to_numpy().all(axis=1)


def _digest(start, array):
    return hashlib.blake2b(start.encode() + np.ascontiguousarray(array).tobytes(), digest_size=16).hexdigest()


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
    texts = values.astype(str)
    if not texts.str.fullmatch(DATES[form] + TIME).all():
        return None
    texts, dates = texts.str.replace("T", " "), pd.Series(pd.NaT, index=values.index, dtype="datetime64[ns]")
    for time in TIMES:
        left = dates.isna()
        if left.any():
            dates = dates.where(~left, pd.to_datetime(texts.where(left), format=form + time, errors="coerce"))
    return None if dates.isna().any() else _days(dates)


def _days(dates):
    return dates.to_numpy(dtype="datetime64[s]").astype(np.float64) / 86400.0
