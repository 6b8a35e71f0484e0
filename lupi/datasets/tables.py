"""Bundled tables with privileged columns."""

from __future__ import annotations

import gzip
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
    *,
    feature_names: Sequence[str],
    privileged_names: Sequence[str],
    target_names: Sequence[str] | np.ndarray | None,
    descr: str,
    as_frame: bool = False,
    return_X_y_privileged: bool = False,
    **extra: Any,
) -> Any:
    """Return value of a loader: a Bunch, or the tuple `(data, target, privileged)`; `extra` adds entries to the Bunch."""
    frame = None
    if as_frame:
        import pandas as pd

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


# Name in the file -> name in the data set, in the order of the columns.
_BACKGROUND = {
    "nearc2": "near_two_year_college",
    "nearc4": "near_four_year_college",
    "age": "age",
    "fatheduc": "father_schooling",
    "motheduc": "mother_schooling",
    "momdad14": "both_parents",
    "sinmom14": "single_mother",
    "step14": "step_parent",
    **{f"reg66{region}": f"region_{region}" for region in range(1, 10)},
    "south66": "south_1966",
    "black": "black",
    "smsa66": "city_1966",
    "libcrd14": "library_card",
}
_LATER = {
    "educ": "schooling",
    "kww": "work_test",
    "iq": "iq_test",
    "exper": "experience",
    "married": "married",
    "smsa": "city_1976",
    "south": "south_1976",
}
# Columns with a larger share of missing values get an indicator column.
_FEW_MISSING = 0.1

_YOUNG_MEN = """\
Wages of young men
------------------
3010 men of the United States' National Longitudinal Survey of Young Men, first interviewed in 1966, and their wage in 1976.

decision features    21 columns known at the start: age in 1976; at age 14: household (both_parents, single_mother,
                     step_parent), a library card in the home (library_card); years of schooling of father and mother; in
                     1966: a two-year and a four-year college nearby, one of nine regions, the South, a city (a metropolitan
                     area); black
privileged features  7 columns known later: years of schooling, the score of the test "knowledge of the world of work"
                     (work_test), an IQ test taken at school (iq_test), years of experience (age - schooling - 6), and in
                     1976: married (spouse present), living in a city, in the South
target               1 = hourly wage of 1976 above the median (537.5 cents), 0 = below; with regression=True its logarithm

Missing values: father_schooling 690, mother_schooling 353, library_card 13, work_test 47, iq_test 949, married 7 men. By
default they are replaced by the median of their column, and a column with more than 10% missing values gets an indicator
column, named with "_known", that is 1 where the value is known: 23 decision features and 8 privileged features.
fill_gaps=False keeps NaN and adds no column; impute inside cross-validation in that case.

Study: D. Card (1995), "Using Geographic Variation in College Proximity to Estimate the Return to Schooling", in Aspects of
Labour Market Behavior: Essays in Honour of John Vanderkamp, University of Toronto Press, 201-222.
Source: the table `card` of the Python package linearmodels 7.1, University of Illinois/NCSA license (see the file
young_men.LICENSE.txt next to the data).
"""


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
    packed = files("lupi.datasets").joinpath("bundled/young_men.csv.gz").read_bytes()
    header, *lines = gzip.decompress(packed).decode().splitlines()
    values = np.array([[float(cell or "nan") for cell in line.split(",")] for line in lines])
    table = dict(zip(header.split(","), values.T))
    # Six codes of marital status; 1 is "married, spouse present".
    table["married"] = np.where(np.isnan(table["married"]), np.nan, table["married"] == 1)
    data, feature_names = _columns(table, _BACKGROUND, fill_gaps)
    privileged, privileged_names = _columns(table, _LATER, fill_gaps)
    wage = table["wage"]
    return privileged_bunch(
        data,
        privileged,
        np.log(wage) if regression else (wage > np.median(wage)).astype(int),
        feature_names=feature_names,
        privileged_names=privileged_names,
        target_names=["log of hourly wage"] if regression else ["below the median", "above the median"],
        descr=_YOUNG_MEN,
        as_frame=as_frame,
        return_X_y_privileged=return_X_y_privileged,
    )


def _columns(table: dict[str, np.ndarray], names: dict[str, str], fill_gaps: bool) -> tuple[np.ndarray, list[str]]:
    """Matrix and names of some columns."""
    columns = {}
    for source, name in names.items():
        column, missing = table[source], np.isnan(table[source])
        columns[name] = np.where(missing, np.nanmedian(column), column) if fill_gaps else column
        if fill_gaps and missing.mean() > _FEW_MISSING:
            columns[f"{name}_known"] = (~missing).astype(float)
    return np.column_stack(list(columns.values())), list(columns)


_DIGITS = """\
Low-resolution handwritten digits
---------------------------------
{n} digits of scikit-learn's bundled "Optical recognition of handwritten digits" data (8 x 8 pixels, values 0 to 16).

decision features    means of {k} x {k} pixel blocks: {r} x {r} = {d} numbers
privileged features  the 64 pixels themselves
target               the digit

Do full-resolution training pictures improve a classifier that has to read coarse pictures? Both are versions of the same
picture: the decision features are a function of the privileged features.
"""


def load_digits_lowres(
    *,
    resolution: int = 4,
    classes: Sequence[Any] | None = None,
    as_frame: bool = False,
    return_X_y_privileged: bool = False,
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
        feature_names=[f"block_{row}_{column}" for row in range(resolution) for column in range(resolution)],
        privileged_names=source.feature_names,
        target_names=source.target_names[digits],
        descr=_DIGITS.format(n=len(pixels), k=block, r=resolution, d=resolution**2),
        as_frame=as_frame,
        return_X_y_privileged=return_X_y_privileged,
    )


_BREAST_CANCER = """\
Breast cancer, first visit and follow-up
----------------------------------------
569 tumors of scikit-learn's bundled "Breast cancer Wisconsin (diagnostic)" data.

decision features    10 columns: the "mean" of each cell measurement, as if known at the first visit
privileged features  20 columns: "error" and "worst" of the same measurements, as if measured at a later follow-up
target               0 = malignant, 1 = benign

This is a construction: in the original data all 30 columns come from a single image of each tumor, and no patient was
examined twice. It imitates records that are completed after the time of decision.
"""


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
        feature_names=source.feature_names[first_visit].tolist(),
        privileged_names=source.feature_names[~first_visit].tolist(),
        target_names=source.target_names,
        descr=_BREAST_CANCER,
        as_frame=as_frame,
        return_X_y_privileged=return_X_y_privileged,
    )
