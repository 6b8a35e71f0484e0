"""Students and teachers of other people's kinds on rows in blocks, where sums over the rows are enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.linear_model import Ridge

from lupi.inputs.chunked_rows import ChunkedRows, chunkwise, in_a_row
from lupi.inputs.types import MatrixLike
from lupi.surrogate.ridge import RidgePath
from lupi.svm.kernel_machine import KernelClassifier

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from lupi.inputs.chunked_rows import AnyRows


def fit_rows(estimator: BaseEstimator, X: MatrixLike, y: np.ndarray, **options: np.ndarray) -> BaseEstimator:
    """Fit an unfitted estimator, also to rows in blocks.

    Parameters
    ----------
    estimator : estimator
        Of rows in blocks scikit-learn's ``Ridge``, or a linear kernel machine of this library.
    X : array, sparse matrix or ChunkedRows
    y : ndarray of shape (n,)
    **options : ndarray
        Such as ``sample_weight``.

    Returns
    -------
    estimator

    Examples
    --------
    >>> fit_rows(Ridge(), np.array([[0.0], [1.0]]), np.array([1.0, 2.0])).predict([[0.5]]).tolist()
    [1.5]
    """
    if not isinstance(X, ChunkedRows) or isinstance(estimator, KernelClassifier):
        return estimator.fit(X, y, **options)
    if type(estimator) is not Ridge or not estimator.fit_intercept or estimator.positive:
        raise ValueError(
            f"{type(estimator).__name__} needs its {X.shape[0]} rows in memory, and they are in chunks: use Ridge() for numbers, "
            "SVM2Plus or SVMPlus with linear kernels for classes."
        )
    coef, intercept = RidgePath(X, options.get("sample_weight")).solve(y[:, None], estimator.alpha)
    estimator.coef_, estimator.intercept_ = coef[:, 0], float(intercept[0])
    estimator.n_features_in_, estimator.n_iter_, estimator.solver_ = X.shape[1], None, "cholesky"
    return estimator


@chunkwise(in_a_row)
def outputs(X: AnyRows, estimator: BaseEstimator, method: str) -> np.ndarray:
    """What a method of a fitted estimator says of the rows, block by block where they are in blocks."""
    return np.asarray(getattr(estimator, method)(X))
