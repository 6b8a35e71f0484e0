"""Breast cancer diagnosis where part of the measurements play a later follow-up."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer

from lupi.datasets._bunch import privileged_bunch

_DESCR = """\
Breast cancer, first visit and follow-up
----------------------------------------
569 tumours of scikit-learn's bundled "Breast cancer Wisconsin (diagnostic)" data.

decision features    10 columns: the "mean" of each cell measurement, as if known at the first visit
privileged features  20 columns: "error" and "worst" of the same measurements, as if measured at a later follow-up
target               0 = malignant, 1 = benign

This is a construction: in the original data all 30 columns come from one and the same image of each tumour. No patient
was seen twice. It stands for the common case in which a record is completed after the moment of decision.
"""


def load_breast_cancer_followup(*, as_frame: bool = False, return_X_y_privileged: bool = False) -> Any:
    """Load scikit-learn's breast cancer data, two thirds of the columns as privileged follow-up measurements.

    A construction, for trying things out: see `DESCR`.

    Parameters
    ----------
    as_frame : bool, default=False
        Whether to give pandas objects and the joint table `frame`.
    return_X_y_privileged : bool, default=False
        Whether to return `(data, target, privileged)` in place of a bunch.

    Returns
    -------
    Bunch or tuple
        With `data` of shape (569, 10), `privileged` of shape (569, 20) and `target`.

    Examples
    --------
    >>> from lupi.datasets import load_breast_cancer_followup
    >>> cancer = load_breast_cancer_followup()
    >>> cancer.feature_names[:2], cancer.privileged_names[:2]
    (['mean radius', 'mean texture'], ['radius error', 'texture error'])
    """
    source = load_breast_cancer()
    first_visit = np.char.startswith(source.feature_names, "mean ")
    return privileged_bunch(
        source.data[:, first_visit],
        source.data[:, ~first_visit],
        source.target,
        feature_names=source.feature_names[first_visit].tolist(),
        privileged_names=source.feature_names[~first_visit].tolist(),
        target_names=source.target_names,
        descr=_DESCR,
        as_frame=as_frame,
        return_X_y_privileged=return_X_y_privileged,
    )
