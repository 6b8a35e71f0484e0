"""What the rankers share: checks of the fit's input, the solve, prediction and score."""

import warnings
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from lupi.estimators.ranking_metrics import default_metric
from lupi.estimators.ranking_spaces import KERNELS
from lupi.problems.ranking.pairwise import RankingProblem
from lupi.solvers.ranking.bundle import solve_ranking_bundle
from lupi.solvers.ranking.newton import solve_ranking_newton
from lupi.validation import check_group

SOLVERS = {"newton": solve_ranking_newton, "bundle": solve_ranking_bundle}

KERNEL_CONSTRAINTS = {
    "kernel": [StrOptions(KERNELS), callable],
    "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
    "degree": [Interval(Real, 0.0, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
}

SHARED_CONSTRAINTS = {
    **KERNEL_CONSTRAINTS,
    "loss": [StrOptions({"squared_hinge", "hinge"})],
    "n_components": [None, Interval(Integral, 1, None, closed="left")],
    "solver": [StrOptions(set(SOLVERS))],
    "tol": [Interval(Real, 0.0, None, closed="neither")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "random_state": ["random_state"],
}


# A refit with another kernel must not leave the old one's.
_SPACE_ATTRIBUTES = ("coef_", "dual_coef_", "X_fit_", "kernel_params_", "nystroem_", "nystroem_coef_")


def check_ranking_input(estimator, X, y, group):
    """Check X, y and group.

    Parameters
    ----------
    estimator : estimator
        The one being fitted.
    X, y, group : array-likes
        As given to ``fit``.

    Returns
    -------
    X, y, group
        As arrays (X may be CSR; group may stay None).
    """
    if y is not None and not sparse.issparse(y) and np.asarray(y).dtype.kind in "USOT":
        try:
            np.asarray(y).astype(float)
        except (TypeError, ValueError):
            raise ValueError(
                f"y must hold numeric grades, higher = ranked higher; got labels of type {np.asarray(y).dtype}. "
                "Unknown label type: map the labels to numbers, e.g. y == positive_label."
            ) from None
    X, y = validate_data(estimator, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True)
    if y.dtype.kind == "c":
        raise ValueError("y must hold real grades; got complex data. Complex data not supported.")
    if group is not None:
        group = check_group(group, len(y), estimator_name=type(estimator).__name__)
    return X, y, group


def check_has_pairs(y, group):
    """Raise if no two examples have to be ranked."""
    if y.min() == y.max():
        raise ValueError(
            f"y has only one class (grade {y[0]}) in {len(y)} examples; ranking needs at least two different grades."
        )
    if group is not None:
        order = np.lexsort((y, group))
        # Sorted by query and grade, a choice is a change of grade without a change of query.
        if not ((np.diff(group[order]) == 0) & (y[order][1:] != y[order][:-1])).any():
            raise ValueError("group leaves nothing to rank: no query has two examples of different grades.")


def check_teacher_has_pairs(y, group):
    """The same for the examples that have privileged data, with a message that says so."""
    try:
        check_has_pairs(y, group)
    except ValueError as error:
        message = f"privileged is available for too few examples to train the teacher. Among them: {error}"
        raise ValueError(message) from None


class BaseRanker(BaseEstimator):
    """Prediction and score of a fitted ranker."""

    __metadata_request__score: ClassVar = {"group": True}

    def _solve(self, space, pairs, C, w0=None):
        if self.solver == "bundle" and self.loss != "hinge":
            raise ValueError(f"solver='bundle' needs loss='hinge'; got loss={self.loss!r}. Use solver='newton'.")
        problem = RankingProblem(space.features, pairs, C, self.loss)
        return SOLVERS[self.solver](problem, tol=self.tol, max_iter=self.max_iter, w0=w0)

    def _store(self, space, pairs, solution, y):
        for name in _SPACE_ATTRIBUTES:
            self.__dict__.pop(name, None)
        for name, value in space.fitted_attributes(solution.w).items():
            setattr(self, name, value)
        self.grades_ = np.unique(y)
        self.n_pairs_ = pairs.n_pairs
        self.objective_ = solution.objective
        self.dual_gap_ = solution.gap
        self.n_iter_ = solution.n_iter
        if solution.gap > self.tol:
            warnings.warn(
                f"{type(self).__name__} stopped after {solution.n_iter} iterations with a relative gap of "
                f"{solution.gap:.2g} > tol={self.tol:g}; raise max_iter or tol, or scale the features.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def decision_function(self, X):
        """Ranking scores: higher is ranked higher.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Examples.

        Returns
        -------
        ndarray of shape (n_samples,)
            The scores. Only their differences have a meaning.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        if hasattr(self, "coef_"):
            return X @ self.coef_
        if hasattr(self, "nystroem_"):
            return self.nystroem_.transform(X) @ self.nystroem_coef_
        return pairwise_kernels(X, self.X_fit_, metric=self.kernel, **self.kernel_params_) @ self.dual_coef_

    def predict(self, X):
        """Ranking scores; the same as :meth:`decision_function`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Examples.

        Returns
        -------
        ndarray of shape (n_samples,)
            The scores.
        """
        return self.decision_function(X)

    def score(self, X, y, group=None):
        """Average precision if the training grades were two, NDCG if more.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Examples.
        y : array-like of shape (n_samples,)
            Grades.
        group : array-like of shape (n_samples,), default=None
            Query of each example; the score is then the mean over queries.

        Returns
        -------
        float
            The score.
        """
        scores = self.decision_function(X)
        return default_metric(len(self.grades_))(y, scores, group)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags
