"""Wages of young men: background at 14, what came later, and the wage. The bundled data with natural privileged features."""

from __future__ import annotations

import gzip
from importlib.resources import files
from typing import Any

import numpy as np

from lupi.datasets._bunch import privileged_bunch

# Name in the file -> name here. The order is that of the columns of `data` and `privileged`.
BACKGROUND = {
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
LATER = {
    "educ": "schooling",
    "kww": "work_test",
    "iq": "iq_test",
    "exper": "experience",
    "married": "married",
    "smsa": "city_1976",
    "south": "south_1976",
}
# A column with more gaps than this share gets a column beside it that says where there was a value.
FEW_GAPS = 0.1

_DESCR = """\
Wages of young men
------------------
3010 men of the United States' National Longitudinal Survey of Young Men, first seen in 1966, wage of 1976.

decision features    21 columns known at the start: age in 1976; at 14: whom the boy lived with (both_parents, single_mother,
                     step_parent), a library card in the home (library_card); years of schooling of father and mother; in
                     1966: a two-year and a four-year college nearby, one of nine regions, the South, a city (a metropolitan
                     area); black
privileged features  7 columns known later: years of schooling, the score of the test "knowledge of the world of work"
                     (work_test), an IQ test taken at school (iq_test), years of experience (age - schooling - 6), and in
                     1976: married (spouse present), living in a city, in the South
target               1 = hourly wage of 1976 above the median (537.5 cents), 0 = below; with regression=True its logarithm

Natural gaps: father_schooling 690, mother_schooling 353, library_card 13, work_test 47, iq_test 949, married 7 men. By default
a gap is filled with the median of its column over all men, and a column with more than a tenth of gaps gets a column beside
it, named with "_known", that is 1 where there was a value: 23 decision features and 8 privileged ones. fill_gaps=False
leaves NaN as they are, and no column is added; then fill them inside of cross-validation.

Study: D. Card (1995), "Using Geographic Variation in College Proximity to Estimate the Return to Schooling", in Aspects of
Labour Market Behavior: Essays in Honour of John Vanderkamp, University of Toronto Press, 201-222.
Source: the table `card` of the Python package linearmodels 7.1, University of Illinois/NCSA license (its text is in the file
young_men.LICENSE.txt beside the data).
"""


def load_young_men(
    *, regression: bool = False, fill_gaps: bool = True, as_frame: bool = False, return_X_y_privileged: bool = False
) -> Any:
    """Load wages of young men: background at 14 decides, schooling, tests and experience of later years are privileged.

    Parameters
    ----------
    regression : bool, default=False
        Whether the target is the logarithm of the hourly wage in cents in place of "above the median".
    fill_gaps : bool, default=True
        Whether gaps are filled with medians, with an indicator column where there are many (see `DESCR`), so that every
        estimator works; False leaves NaN.
    as_frame : bool, default=False
        Whether to give pandas objects and the joint table `frame`.
    return_X_y_privileged : bool, default=False
        Whether to return `(data, target, privileged)` in place of a bunch.

    Returns
    -------
    Bunch or tuple
        With `data` of shape (3010, 23), `privileged` of shape (3010, 8) and `target`; (3010, 21) and (3010, 7) with gaps.

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
    table = _read()
    # Marital status in six codes, of which 1 is "married, spouse present": as a number it would mean nothing.
    table["married"] = np.where(np.isnan(table["married"]), np.nan, table["married"] == 1)
    data, feature_names = _block(table, BACKGROUND, fill_gaps)
    privileged, privileged_names = _block(table, LATER, fill_gaps)
    wage = table["wage"]
    return privileged_bunch(
        data,
        privileged,
        np.log(wage) if regression else (wage > np.median(wage)).astype(int),
        feature_names=feature_names,
        privileged_names=privileged_names,
        target_names=["log of hourly wage"] if regression else ["below the median", "above the median"],
        descr=_DESCR,
        as_frame=as_frame,
        return_X_y_privileged=return_X_y_privileged,
    )


def _read() -> dict[str, np.ndarray]:
    """Columns of the file by name; an empty cell is NaN."""
    packed = files("lupi.datasets").joinpath("bundled/young_men.csv.gz").read_bytes()
    header, *lines = gzip.decompress(packed).decode().splitlines()
    values = np.array([[float(cell or "nan") for cell in line.split(",")] for line in lines])
    return dict(zip(header.split(","), values.T))


def _block(table: dict[str, np.ndarray], columns: dict[str, str], fill_gaps: bool) -> tuple[np.ndarray, list[str]]:
    """Matrix and names of some columns, with their gaps filled or not."""
    values, names = [], []
    for source, name in columns.items():
        column = table[source]
        gap = np.isnan(column)
        values.append(np.where(gap, np.nanmedian(column), column) if fill_gaps else column)
        names.append(name)
        if fill_gaps and gap.mean() > FEW_GAPS:
            values.append((~gap).astype(float))
            names.append(f"{name}_known")
    return np.column_stack(values), names
