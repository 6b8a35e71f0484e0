"""From a table with numbers, words and gaps to features, and an estimator that carries this step with it."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from lupi.validation import is_frame

# A column of words with more levels than this is closer to an identifier; the rarer levels share no column.
MAX_LEVELS = 30


def take(table, rows):
    """Rows of an array or a frame.

    Returns
    -------
    ndarray or data frame
    """
    return table.iloc[rows] if is_frame(table) else table[rows]


def empty_rows(table):
    """Which rows have no value at all: their privileged features are not available.

    Returns
    -------
    ndarray of bool
    """
    missing = table.isna().to_numpy() if is_frame(table) else np.isnan(np.asarray(table, dtype=np.float64))
    return missing.all(axis=1)


class TableEncoder(TransformerMixin, BaseEstimator):
    """Numbers: gaps filled with the median, then standardized. Words: one column per level seen in `fit`.

    Everything is learned in `fit`, so that nothing of a test row reaches the training. Dates count as days; a word that
    `fit` did not see, or a gap among words, gives zeros.

    Parameters
    ----------
    standardize : bool, default=True
        Whether numbers are standardized; otherwise they stay as they are, but for the gaps.

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

    def __init__(self, standardize=True):
        self.standardize = standardize

    def fit(self, X, y=None):
        """Learn medians, scales and levels.

        Parameters
        ----------
        X : data frame, or numeric array of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        TableEncoder
        """
        self.columns_ = [str(name) for name in X.columns] if is_frame(X) else None
        self.n_features_in_ = X.shape[1]
        self.levels_ = {}
        if is_frame(X):
            for name, column in zip(self.columns_, (X.iloc[:, k] for k in range(X.shape[1]))):
                if not _is_number(column):
                    counts = column.dropna().astype(str).value_counts()
                    # Ties by name, not by order of the rows.
                    ranked = sorted(counts.index, key=lambda level: (-counts[level], level))
                    self.levels_[name] = sorted(ranked[:MAX_LEVELS])
        numbers = self._numbers(X)
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
        numeric = [name for name in self.columns_ or () if name not in self.levels_]
        if self.columns_ is None:
            numeric = [f"column {k}" for k in range(X.shape[1])]
        self.names_ = numeric + [f"{name}={level}" for name, levels in self.levels_.items() for level in levels]
        return self

    def _numbers(self, X):
        if not is_frame(X):
            return np.asarray(X, dtype=np.float64)
        kept = [_as_number(X[name]) for name in X.columns if str(name) not in self.levels_]
        return np.column_stack(kept) if kept else np.zeros((len(X), 0))

    def transform(self, X):
        """Features of the rows.

        Parameters
        ----------
        X : as in `fit`
            A frame may have more columns, in any order; one that lacks a column is refused by name.

        Returns
        -------
        ndarray of shape (n_samples, n_out)
        """
        check_is_fitted(self)
        X = self._checked(X)
        numbers = self._numbers(X)
        numbers = np.where(np.isfinite(numbers), numbers, self.medians_)
        blocks = [(numbers - self.means_) / self.scales_]
        for name, levels in self.levels_.items():
            words = X[name].astype(object).where(X[name].notna(), None).to_numpy()
            words = np.array(["" if w is None else str(w) for w in words], dtype=object)
            missing = X[name].isna().to_numpy()
            blocks.append(
                ((words[:, None] == np.array(levels, dtype=object)[None, :]) & ~missing[:, None]).astype(float)
            )
        return np.hstack(blocks)

    def _checked(self, X):
        if self.columns_ is None or not is_frame(X):
            if X.shape[1] != self.n_features_in_:
                raise ValueError(f"X has {X.shape[1]} features, but {self.n_features_in_} are needed.")
            if self.columns_ is not None:
                raise TypeError("this model was trained on a data frame; pass one with the same column names.")
            return X
        X = X.rename(columns=str)
        missing = [name for name in self.columns_ if name not in X.columns]
        if missing:
            raise ValueError(f"the table lacks the column(s) that the model needs: {', '.join(missing)}.")
        return X[self.columns_]


def _is_number(column):
    return column.dtype.kind in "biufM" if hasattr(column.dtype, "kind") else False


def _as_number(column):
    if column.dtype.kind == "M":
        days = column.to_numpy(dtype="datetime64[s]").astype(np.float64) / 86400.0
        return np.where(column.isna().to_numpy(), np.nan, days)
    try:
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        name = column.name
        raise ValueError(f"the column {name!r} held numbers in training, but holds words here.") from None


class TabularModel(BaseEstimator):
    """An estimator together with the encoders of both tables: what `lupi fit` trains and `lupi predict` uses.

    Parameters
    ----------
    estimator : estimator
        With or without `privileged` in its `fit`; gets numeric features and labels 0, 1, ...
    regression : bool, default=False
        Whether the target is a number (it is standardized for the estimator) and not a label.
    standardize : bool, default=True
        Whether numeric columns are standardized.

    Attributes
    ----------
    estimator_ : estimator
        The fitted one.
    classes_ : ndarray
        Labels, unless `regression`.
    encoder_, privileged_encoder_ : TableEncoder
        Of the decision columns, and of the privileged ones (None without).

    Examples
    --------
    >>> from lupi import SVM2Plus
    >>> from lupi.datasets import load_breast_cancer_followup
    >>> cancer = load_breast_cancer_followup(as_frame=True)
    >>> model = TabularModel(SVM2Plus()).fit(cancer.data, cancer.target, privileged=cancer.privileged)
    >>> model.predict(cancer.data.head(2)).shape
    (2,)
    """

    def __init__(self, estimator, regression=False, standardize=True):
        self.estimator = estimator
        self.regression = regression
        self.standardize = standardize

    def fit(self, X, y, privileged=None):
        """Fit encoders and estimator.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        privileged : data frame or array, optional
            A row without any value is not available for that example; other gaps are filled.

        Returns
        -------
        TabularModel
        """
        y = np.asarray(y)
        if self.regression:
            y = y.astype(np.float64)
            self.target_mean_ = float(y.mean())
            self.target_scale_ = float(y.std()) or 1.0
            target = (y - self.target_mean_) / self.target_scale_
        else:
            self.classes_, target = np.unique(y, return_inverse=True)
        self.encoder_ = TableEncoder(self.standardize).fit(X)
        self.privileged_encoder_ = None
        extra = {}
        if privileged is not None:
            rows = np.flatnonzero(~empty_rows(privileged))
            self.privileged_encoder_ = TableEncoder(self.standardize).fit(take(privileged, rows))
            extra["privileged"] = encode_privileged(self.privileged_encoder_, privileged)
        self.estimator_ = clone(self.estimator).fit(self.encoder_.transform(X), target, **extra)
        return self

    @property
    def ranks(self):
        """Whether the fitted estimator orders rows, without a line between classes."""
        check_is_fitted(self)
        return not self.regression and not hasattr(self.estimator_, "classes_")

    def decision_function(self, X):
        """Scores of the rows, from the decision columns alone.

        Parameters
        ----------
        X : data frame or array
            Further columns of a frame, such as privileged ones, are ignored.

        Returns
        -------
        ndarray
        """
        check_is_fitted(self)
        return self.estimator_.decision_function(self.encoder_.transform(X))

    def predict(self, X):
        """Predicted labels, numbers, or, from a ranker, scores.

        Parameters
        ----------
        X : data frame or array
            Further columns of a frame, such as privileged ones, are ignored.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        raw = self.estimator_.predict(self.encoder_.transform(X))
        if self.regression:
            return raw * self.target_scale_ + self.target_mean_
        return raw if self.ranks else self.classes_[raw]

    def correction(self, privileged):
        """How hard the correcting function calls each row; see :meth:`lupi.SVMPlus.correcting_function`.

        Parameters
        ----------
        privileged : data frame or array

        Returns
        -------
        ndarray
        """
        check_is_fitted(self)
        if self.privileged_encoder_ is None or not hasattr(self.estimator_, "correcting_function"):
            raise ValueError("this model has no correcting function.")
        return self.estimator_.correcting_function(encode_privileged(self.privileged_encoder_, privileged))


def encode_privileged(encoder, table):
    """Privileged features of the rows, NaN throughout where a row has no value at all.

    Returns
    -------
    ndarray
    """
    encoded = encoder.transform(table)
    encoded[empty_rows(table)] = np.nan
    return encoded
