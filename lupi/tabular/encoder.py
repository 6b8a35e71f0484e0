"""Features of a parsed table; everything is learned from the rows given to `fit`."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from lupi.privacy import model_part

# A column with more words than this is closer to an identifier; rarer words get no feature.
MAX_LEVELS = 30
# Encodings that a process keeps: those of a split with its inner folds.
MAX_KEPT, MAX_BYTES = 128, 2**28
_kept: OrderedDict[tuple[Any, ...], Any] = OrderedDict()


@model_part
class TableEncoder(BaseEstimator):
    """Encoder of a table: medians for gaps, standardized numbers, one feature for each frequent word.

    A word that `fit` did not see, and a gap among words, give zeros. Without `fill`, gaps among numbers stay NaN, for
    estimators that accept them; with `as_frame`, the result is a data frame, for estimators that know categories.

    Examples
    --------
    >>> import pandas as pd
    >>> from lupi.tabular.schema import Table
    >>> table = Table.of(pd.DataFrame({"age": [20.0, None, 40.0], "sex": ["f", "m", None]}))
    >>> TableEncoder().fit(table).transform(table).round(2)
    array([[-1.22,  1.  ,  0.  ],
           [ 0.  ,  0.  ,  1.  ],
           [ 1.22,  0.  ,  0.  ]])
    """

    def __init__(self, standardize=True, fill=True, as_frame=False):
        self.standardize = standardize
        self.fill = fill
        self.as_frame = as_frame

    def fit(self, table, y=None):
        """Learn medians, means, scales and frequent words from the rows of a Table."""
        self.digest_ = table.digest
        self.levels_ = {name: _frequent(table.frame[name]) for name in table.words}
        numbers = table.frame[table.numbers].to_numpy()
        self.medians_ = np.median(numbers, axis=0)
        for k in np.flatnonzero(np.isnan(self.medians_)):
            known = numbers[~np.isnan(numbers[:, k]), k]
            self.medians_[k] = np.median(known) if len(known) else 0.0
        numbers = np.where(np.isnan(numbers), self.medians_, numbers)
        self.means_, spread = numbers.mean(axis=0), numbers.std(axis=0)
        self.scales_ = np.where(spread > 1e-12 * np.maximum(1.0, np.abs(self.means_)), spread, 1.0)
        if not self.standardize:
            self.means_, self.scales_ = np.zeros_like(self.means_), np.ones_like(self.scales_)
        self.n_features_out_ = len(self.means_) + sum(map(len, self.levels_.values()))
        return self

    def transform(self, table):
        """Features of the rows of a Table: an array, or a data frame with `as_frame`."""
        key = self.digest_ and table.digest and (self.digest_, table.digest, *self.get_params().values())
        return _keep(key, lambda: self._features(table))

    def _features(self, table):
        words = {name: table.frame[name].cat.set_categories(levels) for name, levels in self.levels_.items()}
        if self.as_frame:
            return table.frame.assign(**words)
        numbers = table.frame[table.numbers].to_numpy()
        numbers = np.where(np.isnan(numbers), self.medians_, numbers) if self.fill else numbers
        # One block for each kind of column: free text would be the third. Gaps and rare words have code -1: zeros.
        one_hot = [np.eye(len(column.cat.categories) + 1)[column.cat.codes, :-1] for column in words.values()]
        return np.hstack([(numbers - self.means_) / self.scales_, *one_hot])


def _frequent(column):
    """The most frequent words, ties by name, in alphabetical order."""
    codes, words = column.cat.codes.to_numpy(), column.cat.categories
    counts = np.bincount(codes[codes >= 0], minlength=len(words))
    ranked = np.argsort(-counts, kind="stable")[:MAX_LEVELS]
    return [str(words[k]) for k in np.sort(ranked) if counts[k]]


def fit_encoder(table, standardize=True, fill=True, as_frame=False):
    """Encoder fitted to the rows of a table; shared by the fits of a comparison on equal rows."""
    options = (standardize, fill, as_frame)
    return _keep(table.digest and (table.digest, *options), lambda: TableEncoder(*options).fit(table))


def encode_privileged(table, standardize=True):
    """Privileged features of the rows, NaN throughout where a row has no value."""

    def features():
        empty = table.empty_rows()
        encoder = fit_encoder(table.take(np.flatnonzero(~empty)), standardize)
        return np.where(empty[:, None], np.nan, encoder.transform(table))

    return _keep(table.digest and (table.digest, standardize), features)


def _keep(key, make):
    """A value that is made once; the least recently used ones are dropped. Without a key nothing is kept."""
    if not key:
        return make()
    value = _kept[key] = _kept.pop(key) if key in _kept else make()
    while len(_kept) > MAX_KEPT or sum(getattr(kept, "nbytes", 0) for kept in _kept.values()) > MAX_BYTES:
        _kept.popitem(last=False)
    return value
