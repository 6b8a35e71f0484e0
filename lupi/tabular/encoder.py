"""From a table with numbers, words and gaps to features; everything is learned from the rows given to `fit`."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from lupi.inputs import is_frame
from lupi.model_parts import model_part

# A column of words with more levels than this is closer to an identifier; the rarer levels share no column.
MAX_LEVELS = 30
GAP = -1


@dataclass(frozen=True)
class RawTable:
    """A table, taken apart once: numbers (gaps NaN), and words as positions in their sorted levels (gaps -1).

    Rows of it are taken and encoded hundreds of times in a comparison; a frame would be taken apart each time.

    Attributes
    ----------
    names : list of str or None
        Names of all columns, in their order; None for an array.
    numeric : list of str
        Names of the columns of numbers. Dates count as days.
    numbers : ndarray of shape (n_rows, n_numeric)
    words : dict of str to ndarray
        Positions in `levels` for each column of words.
    levels : dict of str to ndarray
        Their words, sorted.

    Examples
    --------
    >>> import pandas as pd
    >>> table = RawTable.of(pd.DataFrame({"age": [20.0, None], "sex": ["m", "f"]}))
    >>> table.numeric, table.words["sex"], table.levels["sex"]
    (['age'], array([1, 0]), array(['f', 'm'], dtype=object))
    """

    names: list | None
    numeric: list
    numbers: np.ndarray
    words: dict = field(default_factory=dict)
    levels: dict = field(default_factory=dict)

    def __len__(self):
        return len(self.numbers)

    @property
    def columns(self):
        """Names for people, also of an array's columns."""
        return self.names if self.names is not None else self.numeric

    @classmethod
    def of(cls, table):
        """Take a frame or a numeric array apart; a RawTable stays as it is."""
        if isinstance(table, cls):
            return table
        if not is_frame(table):
            numbers = np.asarray(table, dtype=np.float64)
            return cls(None, [f"column {k}" for k in range(numbers.shape[1])], numbers)
        names = [str(name) for name in table.columns]
        numbers, words, levels = {}, {}, {}
        for k, name in enumerate(names):
            column = table.iloc[:, k]
            if _is_number(column):
                numbers[name] = _as_number(column)
            else:
                words[name], levels[name] = _codes_of_words(column)
        block = np.column_stack(list(numbers.values())) if numbers else np.zeros((len(table), 0))
        return cls(names, list(numbers), block, words, levels)

    def take(self, rows):
        """Some of the rows."""
        words = {name: codes[rows] for name, codes in self.words.items()}
        return RawTable(self.names, self.numeric, self.numbers[rows], words, self.levels)

    def drop(self, names):
        """The table without some columns."""
        kept = [k for k, name in enumerate(self.numeric) if name not in names]
        return RawTable(
            None if self.names is None else [name for name in self.names if name not in names],
            [self.numeric[k] for k in kept],
            self.numbers[:, kept],
            {name: codes for name, codes in self.words.items() if name not in names},
            {name: levels for name, levels in self.levels.items() if name not in names},
        )

    def empty_rows(self):
        """Which rows have no value at all: their privileged features are not available."""
        empty = np.isnan(self.numbers).all(axis=1)
        for codes in self.words.values():
            empty = empty & (codes == GAP)
        return empty


def joined(left, right):
    """Both tables side by side; a name that both have gets a mark on the right."""
    names = {name: name if name not in left.columns else f"{name} (privileged)" for name in right.columns}
    return RawTable(
        [*left.columns, *names.values()],
        [*left.numeric, *(names[name] for name in right.numeric)],
        np.hstack([left.numbers, right.numbers]),
        left.words | {names[name]: codes for name, codes in right.words.items()},
        left.levels | {names[name]: levels for name, levels in right.levels.items()},
    )


@model_part
class TableEncoder(TransformerMixin, BaseEstimator):
    """Numbers: gaps filled with the median, then standardized. Words: one column per level seen in `fit`.

    A word that `fit` did not see, or a gap among words, gives zeros.

    Parameters
    ----------
    standardize : bool, default=True
        Whether numbers are standardized; otherwise they stay as they are, but for the gaps.
    fill : bool, default=True
        Whether gaps among numbers are filled; otherwise they stay NaN, for estimators that know what to do with them.
    as_frame : bool, default=False
        Whether the columns stay as they are, for estimators that know what to do with words, too: a frame with numbers and
        categories, gaps as NaN. Only where `fit` got a frame.

    Attributes
    ----------
    columns_ : list of str or None
        Names of the columns; None for an array.
    levels_ : dict of str to list of str
        Levels of the columns of words.
    medians_, means_, scales_ : ndarray
        Of the numeric columns.
    names_ : list of str
        Names of the features that come out.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [20.0, None, 40.0], "sex": ["f", "m", None]})
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.transform(table).round(2)
    array([[-1.22,  1.  ,  0.  ],
           [ 0.  ,  0.  ,  1.  ],
           [ 1.22,  0.  ,  0.  ]])
    >>> encoder.names_
    ['age', 'sex=f', 'sex=m']
    """

    fill, as_frame = True, False  # files of earlier versions do not have them

    def __init__(self, standardize=True, fill=True, as_frame=False):
        self.standardize = standardize
        self.fill = fill
        self.as_frame = as_frame

    def fit(self, X, y=None):
        """Learn medians, scales and levels.

        Parameters
        ----------
        X : data frame, numeric array of shape (n_samples, n_features), or RawTable
        y : ignored

        Returns
        -------
        TableEncoder
        """
        table = RawTable.of(X)
        self.columns_ = table.names
        self.n_features_in_ = len(table.columns)
        self.levels_ = {name: _frequent(codes, table.levels[name]) for name, codes in table.words.items()}
        numbers = table.numbers
        filled = np.isfinite(numbers)
        self.medians_ = np.median(numbers, axis=0)
        for k in np.flatnonzero(~filled.all(axis=0)):
            self.medians_[k] = np.median(numbers[filled[:, k], k]) if filled[:, k].any() else 0.0
        numbers = np.where(filled, numbers, self.medians_)
        self.means_ = numbers.mean(axis=0)
        spread = numbers.std(axis=0)
        self.scales_ = np.where(spread > 1e-12 * np.maximum(1.0, np.abs(self.means_)), spread, 1.0)
        if not self.standardize:
            self.means_, self.scales_ = np.zeros_like(self.means_), np.ones_like(self.scales_)
        self.names_ = table.numeric + [f"{name}={level}" for name, levels in self.levels_.items() for level in levels]
        return self

    def transform(self, X):
        """Features of the rows.

        Parameters
        ----------
        X : as in `fit`
            A frame may have more columns, in any order; one that lacks a column is refused by name.

        Returns
        -------
        ndarray of shape (n_samples, n_out), or data frame
        """
        check_is_fitted(self)
        table = X if isinstance(X, RawTable) else self.taken_apart(X)
        if self.as_frame and self.columns_ is not None:
            return _frame_of(table, self.levels_)
        numbers = np.where(np.isfinite(table.numbers), table.numbers, self.medians_ if self.fill else np.nan)
        blocks = [(numbers - self.means_) / self.scales_]
        for name, levels in self.levels_.items():
            blocks.append(_one_column_per_level(table.words[name], table.levels[name], levels))
        return np.hstack(blocks)

    def taken_apart(self, X):
        """The rows' columns that `fit` saw, as a RawTable."""
        if self.columns_ is None or not is_frame(X):
            if np.shape(X)[1] != self.n_features_in_:
                raise ValueError(f"X has {np.shape(X)[1]} features, but {self.n_features_in_} are needed.")
            if self.columns_ is not None:
                raise TypeError("this model was trained on a data frame; pass one with the same column names.")
            return RawTable.of(X)
        X = X.rename(columns=str)
        missing = [name for name in self.columns_ if name not in X.columns]
        if missing:
            raise ValueError(f"the table lacks the column(s) that the model needs: {', '.join(missing)}.")
        numeric = [name for name in self.columns_ if name not in self.levels_]
        numbers = [_as_number(X[name]) for name in numeric]
        words, levels = {}, {}
        for name in self.levels_:
            words[name], levels[name] = _codes_of_words(X[name])
        block = np.column_stack(numbers) if numbers else np.zeros((len(X), 0))
        return RawTable(self.columns_, numeric, block, words, levels)


def _frame_of(table, levels):
    """The table as a frame again, words as categories that were seen in training."""
    import pandas as pd

    columns = dict(zip(table.numeric, table.numbers.T))
    for name, codes in table.words.items():
        words = pd.Categorical.from_codes(codes, categories=table.levels[name])
        columns[name] = words.set_categories(levels[name])
    return pd.DataFrame({name: columns[name] for name in table.names})


def encode_privileged(table, standardize=True):
    """Privileged features of the rows, NaN throughout where a row has no value at all. Nothing is kept of the encoder.

    Returns
    -------
    ndarray
    """
    table = RawTable.of(table)
    empty = table.empty_rows()
    encoded = TableEncoder(standardize).fit(table.take(np.flatnonzero(~empty))).transform(table)
    encoded[empty] = np.nan
    return encoded


def encode_rows(encoder, frame):
    """Features of a frame's rows by a fitted encoder; NaN throughout where a row has no value at all.

    Parameters
    ----------
    encoder : TableEncoder
    frame : data frame

    Returns
    -------
    ndarray
    """
    table = encoder.taken_apart(frame)
    features = encoder.transform(table)
    features[table.empty_rows()] = np.nan
    return features


def missing_targets(y):
    """Which rows have no label: NaN, None, pandas' NA.

    Examples
    --------
    >>> missing_targets(np.array(["a", None, "b"], dtype=object))
    array([False,  True, False])
    """
    y = np.asarray(y)
    if y.dtype.kind == "f":
        return np.isnan(y)
    if y.dtype.kind in "O":
        return np.array([value is None or _is_gap(value) for value in y], dtype=bool)
    return np.zeros(len(y), dtype=bool)


def _is_gap(value):
    """Whether a value is NaN or pandas' NA: the only ones that do not say that they equal themselves."""
    same = value == value
    return same is not True and not bool(same is np.True_)


def plain_labels(known):
    """Labels that can be sorted: whole numbers as such, though gaps in their column made them 1.0; else words as words.

    Examples
    --------
    >>> plain_labels(np.array([1.0, 0.0])), plain_labels(np.array(["b", 2], dtype=object)).tolist()
    (array([1, 0]), ['b', '2'])
    """
    if known.dtype.kind == "O":
        known = np.array(known.tolist())
    if known.dtype.kind == "f" and np.array_equal(known, np.round(known)):
        return known.astype(np.int64)
    return known.astype(str) if known.dtype.kind == "O" else known


def _is_number(column):
    return column.dtype.kind in "biufM" if hasattr(column.dtype, "kind") else False


def _as_number(column):
    if getattr(column.dtype, "kind", "O") == "M":
        days = column.to_numpy(dtype="datetime64[s]").astype(np.float64) / 86400.0
        return np.where(column.isna().to_numpy(), np.nan, days)
    try:
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        name = column.name
        raise ValueError(f"the column {name!r} held numbers in training, but holds words here.") from None


def _codes_of_words(column):
    """Positions in the sorted words, and these words."""
    missing = column.isna().to_numpy()
    words = column.astype(object).to_numpy()
    texts = np.array(["" if gap else str(word) for word, gap in zip(words, missing)], dtype=object)
    levels, codes = np.unique(texts[~missing].astype(str), return_inverse=True)
    filled = np.full(len(texts), GAP)
    filled[~missing] = codes
    return filled, levels.astype(object)


def _frequent(codes, levels):
    """The most frequent levels, ties by name, in alphabetical order."""
    counts = np.bincount(codes[codes != GAP], minlength=len(levels))
    ranked = sorted(np.flatnonzero(counts), key=lambda k: (-counts[k], levels[k]))
    return sorted(str(levels[k]) for k in ranked[:MAX_LEVELS])


def _one_column_per_level(codes, levels, wanted):
    place = {level: k for k, level in enumerate(levels)}
    known = np.array([place.get(level, GAP - 1) for level in wanted], dtype=np.int64)
    return (codes[:, None] == known[None, :]).astype(np.float64)
