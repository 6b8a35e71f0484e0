"""Bundled tables with privileged columns."""

from __future__ import annotations

import bz2
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.utils import Bunch

from lupi.inputs.types import MatrixLike


def privileged_bunch(
    data: MatrixLike,
    privileged: MatrixLike,
    target: np.ndarray,
    names: Sequence[Sequence[str]],
    *,
    as_frame: bool,
    return_X_y_privileged: bool,
    **extra: Any,
) -> Any:
    """Return value of a loader: a Bunch, or the tuple `(data, target, privileged)`; `extra` adds entries to the Bunch."""
    frame, (feature_names, privileged_names) = None, map(list, names)
    if as_frame:
        import pandas as pd

        data, privileged = pd.DataFrame(data, columns=names[0]), pd.DataFrame(privileged, columns=names[1])
        target = pd.Series(target, name="target")
        frame = pd.concat([data, privileged, target], axis=1)
    if return_X_y_privileged:
        return data, target, privileged
    extra |= {"feature_names": feature_names, "privileged_names": privileged_names}
    return Bunch(data=data, privileged=privileged, target=target, frame=frame, **extra)


def description(name: str) -> str:
    """Text of ``DESCR``."""
    return files("lupi.datasets").joinpath(f"bundled/{name}.rst").read_text(encoding="utf-8")


# Decision features of the young men; columns with a larger share of missing values get an indicator column.
_N_DECISION, _FEW_MISSING = 21, 0.1


def load_young_men(
    *, regression: bool = False, fill_gaps: bool = True, as_frame: bool = False, return_X_y_privileged: bool = False
) -> Any:
    """Load wages of young men; schooling, tests and experience of later years are privileged.

    Parameters
    ----------
    regression : bool, default=False
        Whether the target is the logarithm of the hourly wage in cents instead of "above the median".
    fill_gaps : bool, default=True
        Whether missing values are replaced by medians, with indicator columns where many are missing (see `DESCR`).
    as_frame : bool, default=False
        Whether to return pandas objects and the joint table `frame`.
    return_X_y_privileged : bool, default=False
        Whether to return `(data, target, privileged)` instead of a Bunch.

    Returns
    -------
    Bunch or tuple
        With `data` of shape (3010, 23), `privileged` of shape (3010, 8) and `target`; (3010, 21) and (3010, 7) with
        ``fill_gaps=False``.

    References
    ----------
    D. Card (1995), "Using Geographic Variation in College Proximity to Estimate the Return to Schooling", in Aspects of
    Labour Market Behavior: Essays in Honour of John Vanderkamp, University of Toronto Press, 201-222.

    Examples
    --------
    >>> from lupi.datasets import load_young_men
    >>> men = load_young_men()
    >>> men.data.shape, men.privileged_names[:4]
    ((3010, 23), ['schooling', 'work_test', 'iq_test', 'iq_test_known'])
    >>> load_young_men(fill_gaps=False, as_frame=True).privileged["iq_test"].isna().sum().item()
    949
    """
    packed = files("lupi.datasets").joinpath("bundled/young_men.csv.bz2").read_bytes()
    header, *lines = bz2.decompress(packed).decode().splitlines()
    values = np.array([[float(cell or "nan") for cell in line.split(",")] for line in lines])
    *columns, (_, wage) = zip(header.split(","), values.T)
    data, feature_names = _stack(columns[:_N_DECISION], fill_gaps)
    privileged, privileged_names = _stack(columns[_N_DECISION:], fill_gaps)
    return privileged_bunch(
        data,
        privileged,
        np.log(wage) if regression else (wage > np.median(wage)).astype(int),
        (feature_names, privileged_names),
        target_names=np.array(["log of hourly wage"] if regression else ["below the median", "above the median"]),
        DESCR=description("young_men"),
        as_frame=as_frame,
        return_X_y_privileged=return_X_y_privileged,
    )


def _stack(columns: list[tuple[str, np.ndarray]], fill_gaps: bool) -> tuple[np.ndarray, list[str]]:
    """Matrix and names of columns, with indicators of missing values."""
    found = {}
    for name, values in columns:
        missing = np.isnan(values)
        found[name] = np.where(missing, np.nanmedian(values), values) if fill_gaps else values
        if fill_gaps and missing.mean() > _FEW_MISSING:
            found[f"{name}_known"] = (~missing).astype(float)
    return np.column_stack(list(found.values())), list(found)


def load_digits_lowres(
    *, resolution: int = 4, classes: Any = None, as_frame: bool = False, return_X_y_privileged: bool = False
) -> Any:
    """Load scikit-learn's digits at low resolution; the full-resolution pictures are privileged.

    Parameters
    ----------
    resolution : {1, 2, 4}, default=4
        Side length of the low-resolution pictures, made by averaging pixel blocks of the 8 x 8 originals.
    classes : iterable of int or None, default=None
        Digits to keep, e.g. `(3, 8)`; None keeps all ten.
    as_frame : bool, default=False
        Whether to return pandas objects and the joint table `frame`.
    return_X_y_privileged : bool, default=False
        Whether to return `(data, target, privileged)` instead of a Bunch.

    Returns
    -------
    Bunch or tuple
        With `data` of shape (1797, resolution ** 2), `privileged` of shape (1797, 64) and `target`, for all ten digits.

    Examples
    --------
    >>> from lupi.datasets import load_digits_lowres
    >>> digits = load_digits_lowres()
    >>> digits.data.shape, digits.privileged.shape
    ((1797, 16), (1797, 64))
    >>> X, y, privileged = load_digits_lowres(classes=(3, 8), return_X_y_privileged=True)
    >>> X.shape
    (357, 16)
    """
    if resolution not in (1, 2, 4):
        raise ValueError(f"`resolution` must be 1, 2 or 4, got {resolution!r}.")
    source = load_digits()
    digits = list(range(10)) if classes is None else sorted(set(classes))
    if not set(digits) <= set(range(10)) or len(digits) < 2:
        raise ValueError(f"`classes` must hold at least two different digits from 0 to 9, got {classes!r}.")
    keep = np.isin(source.target, digits)
    pixels, target = source.data[keep], source.target[keep]
    block = 8 // resolution
    blocks = pixels.reshape(-1, resolution, block, resolution, block)
    return privileged_bunch(
        blocks.mean(axis=(2, 4)).reshape(len(pixels), -1),
        pixels,
        target,
        ([f"block_{row}_{column}" for row in range(resolution) for column in range(resolution)], source.feature_names),
        target_names=source.target_names[digits],
        DESCR=description("digits_lowres").format(n=len(pixels), k=block, r=resolution, d=resolution**2),
        as_frame=as_frame,
        return_X_y_privileged=return_X_y_privileged,
    )


def load_breast_cancer_followup(*, as_frame: bool = False, return_X_y_privileged: bool = False) -> Any:
    """Load scikit-learn's breast cancer data, with two thirds of the columns as privileged follow-up measurements.

    The follow-up is a construction for examples, see `DESCR`.

    Parameters
    ----------
    as_frame : bool, default=False
        Whether to return pandas objects and the joint table `frame`.
    return_X_y_privileged : bool, default=False
        Whether to return `(data, target, privileged)` instead of a Bunch.

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
        (source.feature_names[first_visit].tolist(), source.feature_names[~first_visit].tolist()),
        target_names=source.target_names,
        DESCR=description("breast_cancer_followup"),
        as_frame=as_frame,
        return_X_y_privileged=return_X_y_privileged,
    )
