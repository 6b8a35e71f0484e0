# ruff: noqa
# mypy: ignore-errors
"""Old names of :mod:`lupi.inputs.dask_input`, until every caller has switched."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite, column_or_1d

from lupi.inputs.checks import PrivilegedInput
from lupi.inputs.dask_input import read_dask
from lupi.inputs.rows import DaskRows
from lupi.inputs.tables import column_names


@dataclass
class ChunkedInput:
    X: Any
    privileged: Any
    vectors: dict
    feature_names: Any

    def set_columns(self, estimator):
        estimator.n_features_in_ = self.X.shape[1]
        vars(estimator).pop("feature_names_in_", None)
        if self.feature_names is not None:
            estimator.feature_names_in_ = self.feature_names

    def table(self):
        return self.X


def read_chunks(estimator, X, privileged=None, dtypes=(np.float64, np.float32), **vectors):
    found = read_dask(type(estimator).__name__, X, {} if privileged is None else {None: privileged}, vectors, dtypes)
    checked = found.spaces.get(None)
    if isinstance(checked, DaskRows):
        checked = PrivilegedInput(checked, found.available[None], column_names(privileged))
    return ChunkedInput(found.X, checked, found.vectors, found.feature_names)


def not_linear(X):
    return ValueError(
        f"{X.shape[0]} examples in chunks are trained over the weights of linear functions: this needs kernel='linear', "
        "privileged_kernel='linear', solver='auto' and, with hinges, no more than 5000 weights."
    )


def check_target(y):
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None.")
    labels = column_or_1d(y, warn=True)
    assert_all_finite(labels, input_name="y")
    return labels
