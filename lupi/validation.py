"""Checks of what users pass to `fit`: decision features, labels, weights and privileged features.

Everything below this layer may rely on: float64, C order or canonical CSR, labels 0..k-1, no NaN.
"""

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data


@dataclass(frozen=True)
class PrivilegedInput:
    """Privileged features after validation.

    Attributes
    ----------
    data : ndarray or csr_array of shape (n_samples, n_privileged)
        Float64 values; rows of examples without privileged features are 0.
    available : ndarray of shape (n_samples,), dtype bool
        False where the example has no privileged features.
    feature_names : ndarray of str or None
        Column names, if `privileged` was a frame with string names.
    """

    data: np.ndarray | sparse.csr_array | sparse.csr_matrix
    available: np.ndarray
    feature_names: np.ndarray | None = None


class ClassificationInput(NamedTuple):
    """Decision features, encoded labels and weights after validation.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n_samples, n_features)
        Float64 decision features.
    y : ndarray of shape (n_samples,), dtype int
        Labels as positions in `classes`.
    classes : ndarray
        The distinct labels, sorted.
    sample_weight : ndarray of shape (n_samples,)
        Non-negative weights; every class has a positive one.
    """

    X: np.ndarray | sparse.csr_array | sparse.csr_matrix
    y: np.ndarray
    classes: np.ndarray
    sample_weight: np.ndarray


def check_privileged(privileged, n_samples, *, estimator_name="fit", accept_sparse=True, precomputed=False):
    """Check privileged features and find the examples that have none.

    Parameters
    ----------
    privileged : array-like, sparse matrix, data frame or None
        One row for each example. A row that is entirely NaN says that the privileged features of this example are not
        available; a row that is NaN in part is an error.
    n_samples : int
        Number of examples in `X`.
    estimator_name : str, default="fit"
        Who asks; begins the error messages.
    accept_sparse : bool, default=True
        Whether a sparse matrix is allowed.
    precomputed : bool, default=False
        Whether `privileged` is a kernel matrix of shape (n_samples, n_samples). The entries in the column of an example
        that is not available are ignored. Always returned dense.

    Returns
    -------
    PrivilegedInput or None
        None if `privileged` is None.

    Raises
    ------
    ValueError
        With a message that says what was wrong and what would be right.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.validation import check_privileged
    >>> checked = check_privileged([[1.0, 2.0], [np.nan, np.nan]], n_samples=2)
    >>> checked.data
    array([[1., 2.],
           [0., 0.]])
    >>> checked.available
    array([ True, False])
    """
    if privileged is None:
        return None
    prefix = f"{estimator_name}: `privileged`"
    names = column_names(privileged)
    is_sparse = sparse.issparse(privileged)
    if is_sparse and not accept_sparse:
        raise ValueError(f"{prefix} is a sparse matrix, which is not supported here; pass privileged.toarray().")
    values = _sparse_values(privileged, prefix) if is_sparse else _dense_values(privileged, prefix)
    _check_shape(values, n_samples, prefix, precomputed)
    if is_sparse and precomputed:
        values, is_sparse = values.toarray(), False
    if is_sparse:
        data, available = _split_missing_sparse(values, prefix)
    elif precomputed:
        data, available = _split_missing_gram(values, prefix)
    else:
        data, available = _split_missing_dense(values, prefix)
    return PrivilegedInput(data=data, available=available, feature_names=names)


def check_classification_input(estimator, X, y, sample_weight=None):
    """Check and encode the input of a classifier's `fit`.

    Sets `n_features_in_` and `feature_names_in_` on the estimator, as scikit-learn's own `validate_data` does.

    Parameters
    ----------
    estimator : estimator
        The classifier that is being fitted.
    X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
        Decision features.
    y : array-like of shape (n_samples,)
        Labels of any type, two classes or more.
    sample_weight : array-like of shape (n_samples,), float or None
        Non-negative weights; None means 1 for every example.

    Returns
    -------
    ClassificationInput

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> from lupi.validation import check_classification_input
    >>> checked = check_classification_input(SVC(), [[0.0], [1.0], [2.0]], ["no", "yes", "no"])
    >>> checked.y, checked.classes.tolist(), checked.sample_weight
    (array([0, 1, 0]), ['no', 'yes'], array([1., 1., 1.]))
    """
    X, y = validate_data(estimator, X, y, accept_sparse="csr", dtype=np.float64, order="C")
    return check_classes(X, y, sample_weight, estimator_name=type(estimator).__name__)


def check_classes(X, y, sample_weight=None, *, estimator_name="fit"):
    """Encode the labels of a classifier's `fit`, after scikit-learn's check of X and y.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
        Labels of any type, two classes or more.
    sample_weight : array-like of shape (n_samples,), float or None
        Non-negative weights; None means 1 for every example.
    estimator_name : str, default="fit"
        Who asks; begins the error messages.

    Returns
    -------
    ClassificationInput
    """
    check_classification_targets(y)
    classes, encoded = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"{estimator_name} needs at least two classes, but `y` has only one class: {classes[0]!r}. "
            "Pass examples of every class that is to be told apart."
        )
    weight = check_sample_weight(sample_weight, X.shape[0], estimator_name=estimator_name)
    empty = np.bincount(encoded, weights=weight, minlength=len(classes)) == 0
    if empty.any():
        raise ValueError(
            f"{estimator_name}: every example of class {classes[empty][0]!r} has `sample_weight` 0. "
            "Each class needs an example with a positive weight; remove the examples of that class instead."
        )
    return ClassificationInput(X=X, y=encoded.astype(np.int64, copy=False), classes=classes, sample_weight=weight)


class TargetInput(NamedTuple):
    """Targets of which some may be missing.

    Attributes
    ----------
    labelled : ndarray of bool, shape (n_samples,)
        False where the target is missing.
    y : ndarray of shape (n_samples,)
        Positions in `classes` (int, -1 where missing), or the numbers of a regression (float, NaN where missing).
    classes : ndarray or None
        The distinct labels, sorted; None in regression.
    """

    labelled: np.ndarray
    y: np.ndarray
    classes: np.ndarray | None


def check_partial_targets(y, X, *, classification, unlabelled=None, estimator_name="fit"):
    """Check targets of which some are missing: NaN, None, pandas' NA, or the value `unlabelled`.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels of any type, or numbers.
    X : array-like of shape (n_samples, n_features)
        The rows they belong to.
    classification : bool
        Whether `y` holds labels (encoded) or numbers.
    unlabelled : object, default=None
        A value that means "missing" too, such as scikit-learn's -1. None warns where the labels are -1, 0 and 1; NaN
        says that nothing but missing values is meant.
    estimator_name : str, default="fit"
        Who asks; begins the messages.

    Returns
    -------
    TargetInput

    Raises
    ------
    ValueError
        Without a labelled row, with targets that are not numbers in a regression, or with a wrong shape.

    Examples
    --------
    >>> from lupi.validation import check_partial_targets
    >>> checked = check_partial_targets(["no", None, "yes"], [[1.0], [2.0], [3.0]], classification=True)
    >>> checked.labelled, checked.y, checked.classes.tolist()
    (array([ True, False,  True]), array([ 0, -1,  1]), ['no', 'yes'])
    """
    if y is None:
        raise ValueError(f"{estimator_name} requires y to be passed, but the target y is None.")
    values, missing = _targets(y, unlabelled)
    check_consistent_length(X, values)
    if missing.all():
        raise ValueError(
            f"{estimator_name}: `y` has no labelled row: all {len(values)} entries are missing. At least "
            f"{'two rows of different classes need a label' if classification else 'one row needs a target'}."
        )
    if not classification:
        return TargetInput(~missing, _numbers(values, missing, estimator_name), None)
    known = values[~missing]
    known = np.asarray(known.tolist()) if known.dtype.kind == "O" else known
    check_classification_targets(known)
    classes, encoded = np.unique(known, return_inverse=True)
    if unlabelled is None and len(classes) == 3 and classes.dtype.kind in "if" and classes.tolist() == [-1, 0, 1]:
        warnings.warn(
            f"{estimator_name}: the classes in `y` are -1, 0 and 1. If -1 stands for rows without a label, pass "
            "unlabelled=-1; if it is a class of its own, pass unlabelled=float('nan') and this warning goes away.",
            UserWarning,
            stacklevel=3,
        )
    full = np.full(len(values), -1, dtype=np.int64)
    full[~missing] = encoded
    return TargetInput(~missing, full, classes)


def _targets(y, unlabelled):
    """Targets as a one-dimensional array, and where they are missing."""
    if hasattr(y, "iloc") and not isinstance(getattr(y, "dtype", None), np.dtype) and hasattr(y, "to_numpy"):
        y = y.to_numpy(dtype=object) if getattr(y, "ndim", 1) == 1 else y  # pandas' own dtypes hold pd.NA
    values = np.asarray(y)
    if values.dtype.kind == "U" and not hasattr(y, "dtype"):
        values = np.asarray(y, dtype=object)  # np.asarray(["a", nan]) would make the text "nan"
    values = column_or_1d(values, warn=True)
    missing = np.array([_is_missing(value) for value in values], dtype=bool) if values.dtype.kind == "O" else None
    if missing is None:
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), dtype=bool)
    if unlabelled is not None and not _is_missing(unlabelled):
        missing = missing | np.fromiter((value == unlabelled for value in values.tolist()), bool, len(values))
    return values, missing


def _is_missing(value):
    # pandas' NA is the one value that is not a string and whose equality to itself is not a bool.
    return value is None or not isinstance(value == value, bool | np.bool_) or bool(value != value)


def _numbers(values, missing, estimator_name):
    numbers = np.full(len(values), np.nan)
    try:
        numbers[~missing] = values[~missing].astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{estimator_name}: `y` must hold numbers (or missing values), but {error}.") from error
    if np.isinf(numbers).any():
        raise ValueError(f"{estimator_name}: Input y contains infinity; all targets must be finite or missing.")
    return numbers


def check_sample_weight(sample_weight, n_samples, *, estimator_name="fit"):
    """Check example weights; None gives ones, a number is repeated.

    Parameters
    ----------
    sample_weight : array-like of shape (n_samples,), float or None
        The weights.
    n_samples : int
        Number of examples.
    estimator_name : str, default="fit"
        Who asks; begins the error messages.

    Returns
    -------
    ndarray of shape (n_samples,)

    Examples
    --------
    >>> from lupi.validation import check_sample_weight
    >>> check_sample_weight(None, 3)
    array([1., 1., 1.])
    """
    if sample_weight is None:
        return np.ones(n_samples)
    if np.isscalar(sample_weight):
        sample_weight = np.full(n_samples, sample_weight)
    weight = check_array(
        sample_weight, dtype=np.float64, order="C", ensure_2d=False, allow_nd=True, input_name="sample_weight"
    )
    prefix = f"{estimator_name}: `sample_weight`"
    if weight.shape != (n_samples,):
        raise ValueError(f"{prefix} has shape {weight.shape}, expected ({n_samples},): one weight for each example.")
    if weight.min() < 0:
        raise ValueError(
            f"{prefix} has negative values (the smallest is {weight.min():g}); weights must be 0 or larger."
        )
    if weight.max() == 0:
        raise ValueError(
            f"{prefix} is zero for every example; at least two classes need examples with a positive weight."
        )
    return weight


def effective_class_weight(class_weight, classes, y):
    """Weight of each class, in the order of `classes`.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        As in scikit-learn's classifiers: label -> weight, or weights inversely proportional to the class frequencies.
    classes : ndarray of shape (n_classes,)
        The labels.
    y : ndarray of shape (n_samples,), dtype int
        Encoded labels: positions in `classes`.

    Returns
    -------
    ndarray of shape (n_classes,)

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.validation import effective_class_weight
    >>> effective_class_weight({"rare": 5}, np.array(["common", "rare"]), np.array([0, 0, 1]))
    array([1., 5.])
    """
    weight = np.asarray(compute_class_weight(class_weight, classes=classes, y=classes[y]), dtype=np.float64)
    wrong = ~(np.isfinite(weight) & (weight > 0))
    if wrong.any():
        raise ValueError(
            f"`class_weight` of class {classes[wrong][0]!r} is {weight[wrong][0]:g}; class weights must be positive."
        )
    return weight


def column_names(table):
    """Column names of a data frame, if all of them are strings.

    Parameters
    ----------
    table : object
        A pandas or polars frame, or anything else.

    Returns
    -------
    ndarray of str or None

    Examples
    --------
    >>> import pandas as pd
    >>> from lupi.validation import column_names
    >>> column_names(pd.DataFrame({"a": [1], "b": [2]})).tolist()
    ['a', 'b']
    >>> column_names([[1, 2]]) is None
    True
    """
    columns = getattr(table, "columns", None)
    if columns is None or callable(columns) or not all(isinstance(name, str) for name in columns):
        return None
    return np.asarray(list(columns), dtype=object)


def _dense_values(privileged, prefix):
    if hasattr(privileged, "columns") and hasattr(privileged, "dtypes"):
        values = _frame_values(privileged, prefix)
    else:
        try:
            values = np.asarray(privileged)
        except ValueError as error:
            raise ValueError(
                f"{prefix} is not a table: its rows differ in length. Pass a 2-D array, one row for each example."
            ) from error
    return _as_float(values, prefix)


def _frame_values(frame, prefix):
    for name, dtype in zip(frame.columns, frame.dtypes):
        # pandas dtypes carry numpy's kind ("O" may still hold numbers: looked at by `_as_float`), polars dtypes do not.
        kind = getattr(dtype, "kind", None)
        numeric = kind in "biufO" if kind is not None else dtype.is_numeric() or str(dtype) in ("Boolean", "Null")
        if not numeric:
            raise ValueError(
                f"{prefix} has the non-numeric column {name!r} (dtype {dtype}); encode it as numbers or leave it out."
            )
    if hasattr(frame, "iloc"):
        # pandas: nullable columns hold pd.NA, which becomes NaN only on request.
        columns = [_pandas_column(frame.iloc[:, j]) for j in range(frame.shape[1])]
        return np.column_stack(columns) if columns else np.empty(frame.shape)
    return frame.to_numpy()


def _pandas_column(column):
    if column.dtype.kind == "O":
        return column.to_numpy(dtype=object)
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _as_float(values, prefix):
    dtype = values.dtype
    problem = f"{prefix} must hold real numbers, but has dtype {dtype}"
    if dtype.kind == "O":
        if any(isinstance(value, str) for value in values.flat):
            raise ValueError(f"{prefix} must hold real numbers, but has text in it; encode text as numbers first.")
        try:
            return np.ascontiguousarray(values, dtype=np.float64) if values.ndim else values
        except (TypeError, ValueError) as error:
            raise ValueError(f"{problem} that does not convert to numbers; encode it as numbers first.") from error
    if dtype.kind not in "biuf":
        raise ValueError(f"{problem}; encode it as numbers first.")
    return np.ascontiguousarray(values, dtype=np.float64) if values.ndim else values


def _sparse_values(privileged, prefix):
    if privileged.dtype.kind not in "biuf":
        raise ValueError(
            f"{prefix} must hold real numbers, but has dtype {privileged.dtype}; encode it as numbers first."
        )
    if privileged.ndim != 2:
        return privileged
    values = privileged.tocsr().astype(np.float64)
    if not values.has_canonical_format:
        values = values.copy()  # sum_duplicates works in place, and the matrix may be the caller's
        values.sum_duplicates()
    return values


def _check_shape(values, n_samples, prefix, precomputed):
    if values.ndim == 1:
        raise ValueError(
            f"{prefix} is 1-dimensional, expected 2 dimensions: one row for each example. "
            "Use privileged.reshape(-1, 1) if it holds one feature."
        )
    if values.ndim != 2:
        raise ValueError(f"{prefix} has {values.ndim} dimensions, expected 2: a table with one row for each example.")
    if values.shape[0] != n_samples:
        raise ValueError(
            f"{prefix} has {values.shape[0]} rows, but `X` has {n_samples} examples; pass one row for each example "
            "(a row that is entirely NaN where the privileged features are not available)."
        )
    if precomputed and values.shape[1] != n_samples:
        raise ValueError(
            f"{prefix} has shape {values.shape}, but a precomputed privileged kernel must be square: "
            f"({n_samples}, {n_samples})."
        )
    if values.shape[1] == 0:
        raise ValueError(f"{prefix} has no columns; pass at least one privileged feature, or privileged=None.")


def _partly_missing(prefix, row, n_missing, n_columns):
    return ValueError(
        f"{prefix} is NaN in part: row {row} has {n_missing} NaN in its {n_columns} columns. Either the whole row is "
        "NaN, which means that the privileged features are not available for this example, or no value of the row may "
        "be missing: impute the missing values."
    )


def _infinite(prefix, row):
    return ValueError(f"{prefix} has an infinite value in row {row}; all values must be finite (clip or remove it).")


def _split_missing_dense(values, prefix):
    n_missing = np.isnan(values).sum(axis=1)
    partly = np.flatnonzero((n_missing > 0) & (n_missing < values.shape[1]))
    if len(partly):
        raise _partly_missing(prefix, partly[0], n_missing[partly[0]], values.shape[1])
    infinite = np.isinf(values).any(axis=1)
    if infinite.any():
        raise _infinite(prefix, np.argmax(infinite))
    available = n_missing == 0
    return (values if available.all() else np.where(available[:, None], values, 0.0)), available


def _split_missing_gram(values, prefix):
    available = ~np.isnan(values).all(axis=1)
    # Whatever stands in the row and in the column of a missing example takes no part in the problem.
    data = np.where(available[:, None] & available[None, :], values, 0.0)
    _split_missing_dense(data, prefix)
    return (values if available.all() else data), available


def _split_missing_sparse(values, prefix):
    n_rows, n_columns = values.shape
    row_of = np.repeat(np.arange(n_rows), np.diff(values.indptr))
    n_missing = np.bincount(row_of[np.isnan(values.data)], minlength=n_rows)
    partly = np.flatnonzero((n_missing > 0) & (n_missing < n_columns))
    if len(partly):
        raise _partly_missing(prefix, partly[0], n_missing[partly[0]], n_columns)
    infinite = np.isinf(values.data)
    if infinite.any():
        raise _infinite(prefix, row_of[np.argmax(infinite)])
    available = n_missing == 0
    if available.all():
        return values, available
    data = values.copy()
    data.data[~available[row_of]] = 0.0
    data.eliminate_zeros()
    return data, available


def is_frame(table):
    """Whether this is a pandas data frame."""
    return hasattr(table, "columns") and hasattr(table, "iloc")
