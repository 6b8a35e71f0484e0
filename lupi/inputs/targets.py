"""Targets, sample weights, class weights and group ids of a training set."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from lupi.inputs.tables import check_magnitude, refuse_masked
from lupi.inputs.types import VectorLike

# Marks estimators that do not accept unlabeled rows.
ALL_LABELED = object()


class Target(NamedTuple):
    """Class codes (-1 where missing) with their classes, or numbers (NaN where missing)."""

    values: np.ndarray
    classes: np.ndarray | None
    labeled: np.ndarray


def read_target(y: VectorLike, kind: str, unlabeled: Any, estimator_name: str) -> Target:
    """Read a target of `kind` "classes", "numbers" or "grades"; NaN, None, pandas' NA and `unlabeled` are missing."""
    if y is None:
        raise ValueError(f"{estimator_name} requires y to be passed, but the target y is None.")
    refuse_masked(y, f"{estimator_name}: `y`")
    partial = unlabeled is not ALL_LABELED
    values, missing = _values_and_missing(y, unlabeled if partial else None)
    if kind == "grades":
        _check_grades(values)
    if missing.any() and not partial:
        raise ValueError(f"{estimator_name}: Input y contains NaN in row {missing.argmax()}; every row needs a target.")
    if missing.all() and len(missing):
        needed = "two rows of different classes need a label" if kind == "classes" else "one row needs a target"
        raise ValueError(
            f"{estimator_name}: `y` has no labeled row: all {len(values)} entries are missing. At least {needed}."
        )
    if kind != "classes":
        numbers = _numbers(values, missing, estimator_name)
        if unlabeled is None and kind == "grades":
            _warn_about_minus_one(np.unique(numbers[~missing]), estimator_name)
        return Target(numbers, None, ~missing)
    known = values[~missing]
    known = np.asarray(known.tolist()) if known.dtype.kind == "O" else known
    if known.dtype.kind == "f" and np.isinf(known).any():
        raise ValueError(f"{estimator_name}: Input y contains infinity; labels must be finite or missing.")
    if known.dtype.kind not in "biuUS":  # integers and text are always labels
        check_classification_targets(known)
    classes, encoded = np.unique(known, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"{estimator_name} needs at least two classes, but `y` has only one class: {classes[0]!r}. "
            "Pass examples of at least two classes."
        )
    if unlabeled is None:
        _warn_about_minus_one(classes, estimator_name)
    codes = np.full(len(values), -1, dtype=np.int64)
    codes[~missing] = encoded
    return Target(codes, classes, ~missing)


def _values_and_missing(y: VectorLike, unlabeled: Any) -> tuple[np.ndarray, np.ndarray]:
    """One-dimensional targets, and which of them are missing."""
    if hasattr(y, "iloc") and not isinstance(getattr(y, "dtype", None), np.dtype) and hasattr(y, "to_numpy"):
        y = y.to_numpy(dtype=object) if getattr(y, "ndim", 1) == 1 else y  # pandas' extension types hold NA
    values = np.asarray(y)
    if values.dtype.kind == "U" and not hasattr(y, "dtype"):
        values = np.asarray(y, dtype=object)  # np.asarray(["a", nan]) would make the text "nan"
    values = values if values.ndim == 1 else column_or_1d(values, warn=True)
    if values.dtype.kind == "O":
        missing = np.array([_is_missing(value) for value in values], dtype=bool)
    else:
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), dtype=bool)
    if unlabeled is not None and not _is_missing(unlabeled):
        missing = missing | np.fromiter((value == unlabeled for value in values.tolist()), bool, len(values))
    return values, missing


def _is_missing(value: Any) -> bool:
    # pandas' NA is the only value that is not a string and whose comparison with itself is not a bool.
    return value is None or not isinstance(value == value, bool | np.bool_) or bool(value != value)


def _numbers(values: np.ndarray, missing: np.ndarray, estimator_name: str) -> np.ndarray:
    numbers = np.full(len(values), np.nan)
    if values.dtype.kind == "c":
        raise ValueError(f"{estimator_name}: Complex data not supported: `y` must hold real numbers.")
    try:
        numbers[~missing] = values[~missing].astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{estimator_name}: `y` must hold numbers (or missing values), but {error}.") from error
    if np.isinf(numbers).any():
        raise ValueError(f"{estimator_name}: Input y contains infinity; all targets must be finite or missing.")
    check_magnitude(numbers, "y", estimator_name=estimator_name)
    return numbers


def _check_grades(values: np.ndarray) -> None:
    if values.dtype.kind in "USOT":
        try:
            [float(value) for value in values if not _is_missing(value)]
        except (TypeError, ValueError):
            raise ValueError(
                f"y must hold numeric grades, higher = ranked higher; got labels of type {values.dtype}. "
                "Unknown label type: map the labels to numbers, e.g. y == positive_label."
            ) from None


def _warn_about_minus_one(classes: np.ndarray, estimator_name: str) -> None:
    if len(classes) == 3 and classes.dtype.kind in "if" and classes.tolist() == [-1, 0, 1]:
        warnings.warn(
            f"{estimator_name}: the classes in `y` are -1, 0 and 1. If -1 marks unlabeled rows, pass unlabeled=-1; if -1 is a "
            "class, pass unlabeled=float('nan') to silence this warning.",
            UserWarning,
            stacklevel=5,
        )


def check_weight(sample_weight: VectorLike | None, n_rows: int, estimator_name: str) -> np.ndarray:
    """Non-negative weights of the rows: ones for None, a number is repeated."""
    if sample_weight is None:
        return np.ones(n_rows)
    prefix = f"{estimator_name}: `sample_weight`"
    refuse_masked(sample_weight, prefix)
    if np.isscalar(sample_weight):
        sample_weight = np.full(n_rows, sample_weight)
    weight: np.ndarray = check_array(
        sample_weight, dtype=np.float64, order="C", ensure_2d=False, allow_nd=True, input_name="sample_weight"
    )
    if weight.shape != (n_rows,):
        raise ValueError(f"{prefix} has shape {weight.shape}, expected ({n_rows},): one weight for each example.")
    if weight.min() < 0:
        raise ValueError(
            f"{prefix} has negative values (the smallest is {weight.min():g}); weights must be 0 or larger."
        )
    if weight.max() == 0:
        raise ValueError(f"{prefix} is zero for every example; at least one example needs a positive weight.")
    return weight


def check_class_totals(target: Target, weight: np.ndarray, estimator_name: str) -> None:
    """Raise if no labeled row, or no row of some class, has a positive weight."""
    if not weight[target.labeled].any():
        raise ValueError(
            f"{estimator_name}: every example with a label has `sample_weight` 0; at least one needs a positive weight."
        )
    if target.classes is None:
        return
    codes, weight = target.values[target.labeled], weight[target.labeled]
    empty = np.bincount(codes, weights=weight, minlength=len(target.classes)) == 0
    if empty.any():
        raise ValueError(
            f"{estimator_name}: every example of class {target.classes[empty][0]!r} has `sample_weight` 0. "
            "Each class needs an example with a positive weight; remove the examples of that class instead."
        )


def weigh_classes(
    class_weight: dict[Any, float] | str | None, classes: np.ndarray, codes: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Weight of each class; "balanced" uses sums of sample weights, so that an integer weight equals repeated rows."""
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str) and class_weight == "balanced":
        out = weight.sum() / (len(classes) * np.bincount(codes, weights=weight, minlength=len(classes)))
    else:
        out = np.asarray(compute_class_weight(class_weight, classes=classes, y=classes[codes]), dtype=np.float64)
    wrong = ~(np.isfinite(out) & (out > 0))
    if wrong.any():
        raise ValueError(
            f"`class_weight` of class {classes[wrong][0]!r} is {out[wrong][0]:g}; class weights must be positive."
        )
    return np.asarray(out)


def check_groups(groups: VectorLike | None, n_rows: int, estimator_name: str, argument: str) -> np.ndarray | None:
    """Group ids of any type as 0, 1, ... in sorted order."""
    if groups is None:
        return None
    prefix = f"{estimator_name}: `{argument}`"
    refuse_masked(groups, prefix)
    ids = np.asarray(groups)
    if ids.ndim == 2 and ids.shape[1] == 1:
        ids = ids.ravel()
    if ids.shape != (n_rows,):
        raise ValueError(f"{prefix} has shape {ids.shape}, expected ({n_rows},): one id for each example.")
    missing = [_is_missing(value) for value in ids.tolist()]
    if any(missing):
        raise ValueError(f"{prefix} has no id for example {missing.index(True)}; give every example one.")
    try:
        return np.unique(ids, return_inverse=True)[1]
    except TypeError:  # ids of several types have no common order; their text has one
        return np.unique(ids.astype(str), return_inverse=True)[1]
