"""The one form in which every data set is returned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from lupi.inputs.types import MatrixLike


def privileged_bunch(
    data: MatrixLike,
    privileged: MatrixLike,
    target: np.ndarray,
    *,
    feature_names: Sequence[str],
    privileged_names: Sequence[str],
    target_names: Sequence[str] | np.ndarray | None,
    descr: str,
    as_frame: bool = False,
    return_X_y_privileged: bool = False,
    **extra: Any,
) -> Any:
    """Assemble the result of a loader.

    Parameters
    ----------
    data, privileged : ndarray of shape (n_samples, n_features) and (n_samples, n_privileged)
        Decision features and privileged features.
    target : ndarray of shape (n_samples,)
        Labels.
    feature_names, privileged_names, target_names : list of str
        Names of the columns and of the classes.
    descr : str
        What the data are.
    as_frame : bool
        Whether to give pandas objects, and `frame`: all columns in one table, target last.
    return_X_y_privileged : bool
        Whether to return the tuple `(data, target, privileged)`, the order of `fit`, in place of the bunch.
    **extra : object
        More entries of the bunch.

    Returns
    -------
    Bunch or tuple

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.datasets._bunch import privileged_bunch
    >>> bunch = privileged_bunch(
    ...     np.zeros((2, 1)), np.ones((2, 1)), np.array([0, 1]),
    ...     feature_names=["x"], privileged_names=["z"], target_names=["no", "yes"], descr="Two.", as_frame=True,
    ... )
    >>> list(bunch.frame.columns)
    ['x', 'z', 'target']
    """
    frame = None
    if as_frame:
        import pandas as pd  # an optional dependency, as in scikit-learn

        data = pd.DataFrame(data, columns=feature_names)
        privileged = pd.DataFrame(privileged, columns=privileged_names)
        target = pd.Series(target, name="target")
        frame = pd.concat([data, privileged, target], axis=1)
    if return_X_y_privileged:
        return data, target, privileged
    return Bunch(
        data=data,
        privileged=privileged,
        target=target,
        frame=frame,
        feature_names=list(feature_names),
        privileged_names=list(privileged_names),
        target_names=np.asarray(target_names),
        DESCR=descr,
        **extra,
    )
