"""A random forest whose leaf size is chosen by the rows that its trees did not see: two fits in place of a search."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from lupi.model_parts import model_part


@model_part
class TunedForest(BaseEstimator):
    """Random forests with several leaf sizes; the one with the least loss out of bag is kept.

    Parameters
    ----------
    regression : bool, default=False
        Whether the target is a number.
    leaves : tuple of int, default=(1, 5)
        Least numbers of rows in a leaf that are tried.
    n_trees : int, default=100
        Trees of each forest.
    random_state : int, optional

    Attributes
    ----------
    forest_ : RandomForestClassifier or RandomForestRegressor
        The one that was kept.
    classes_ : ndarray
        Labels, unless `regression`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> TunedForest(random_state=0).fit(X, y).forest_.min_samples_leaf
    5
    """

    def __init__(self, regression=False, leaves=(1, 5), n_trees=100, random_state=None):
        self.regression = regression
        self.leaves = leaves
        self.n_trees = n_trees
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X, y):
        """Fit a forest for each leaf size.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        TunedForest
        """
        kind = RandomForestRegressor if self.regression else RandomForestClassifier
        forests = [
            kind(self.n_trees, min_samples_leaf=leaf, oob_score=True, random_state=self.random_state)
            for leaf in self.leaves
        ]
        with warnings.catch_warnings():
            # A row that every tree has seen says nothing about the choice.
            warnings.filterwarnings("ignore", message="Some inputs do not have OOB scores")
            warnings.filterwarnings("ignore", message="invalid value encountered in divide")
            losses = [self._loss(forest.fit(X, y), np.asarray(y)) for forest in forests]
        self.forest_ = forests[int(np.argmin(losses))]
        self.n_features_in_ = self.forest_.n_features_in_
        if not self.regression:
            self.classes_ = self.forest_.classes_
        return self

    def _loss(self, forest, y):
        """Squared error, or the logarithm of the probability of the right class, of the rows out of bag."""
        if self.regression:
            return float(np.nanmean((forest.oob_prediction_ - y) ** 2))
        right = forest.oob_decision_function_[np.arange(len(y)), np.searchsorted(forest.classes_, y)]
        return float(-np.nanmean(np.log(np.maximum(right, 0.5 / self.n_trees))))

    def predict(self, X):
        """Labels or numbers of the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self.forest_.predict(X)

    @property
    def predict_proba(self):
        """Probabilities of the classes."""
        return self.forest_.predict_proba
