"""Checks of what `fit` gets, once it is numbers: privileged rows and missing ones, labels, weights and group ids."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from lupi.inputs.containers import check_row_order, values_of_table
from lupi.inputs.types import Matrix, MatrixLike, PrivilegedLike, VectorLike

# Products of four values stay finite in double precision, squares of sums in single precision.
LARGEST = {np.dtype(np.float64): 1e60, np.dtype(np.float32): 1e15}


@dataclass(frozen=True)
class PrivilegedInput:
    """Privileged features after validation.

    Attributes
    ----------
    data : ndarray or csr_array of shape (n_samples, n_privileged), or a sequence of n_samples inputs
        Float64 values; rows of examples without privileged features are 0. For structured inputs the sequence itself.
    available : ndarray of shape (n_samples,), dtype bool
        False where the example has no privileged features.
    feature_names : ndarray of str or None
        Column names, if `privileged` was a frame with string names.
    """

    data: Any
    available: np.ndarray
    feature_names: np.ndarray | None = None

    def take(self, rows: np.ndarray, precomputed: bool = False) -> PrivilegedInput:
        """Some of the examples; of a kernel matrix these rows and columns."""
        data = self.data[np.ix_(rows, rows)] if precomputed else self.data[rows]
        return PrivilegedInput(data, self.available[rows], self.feature_names)


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


def is_chunked(data: Any) -> bool:
    """Whether this is a Dask collection.

    Examples
    --------
    >>> is_chunked([[1.0, 2.0]])
    False
    """
    return hasattr(data, "__dask_graph__") and hasattr(data, "npartitions")


def is_per_space(value: Any) -> bool:
    """Whether privileged features, or a parameter's values, are a list or dict: one for each privileged space."""
    return isinstance(value, list | tuple | dict)


def check_privileged(
    privileged: PrivilegedLike,
    n_samples: int,
    *,
    estimator_name: str = "fit",
    accept_sparse: bool = True,
    precomputed: bool = False,
    index_of: MatrixLike = None,
    argument: str = "privileged",
    dtypes: Sequence[Any] = (np.float64,),
) -> PrivilegedInput | None:
    """Check privileged features and find the examples that have none.

    Parameters
    ----------
    privileged : array-like, sparse matrix, data frame, PrivilegedInput or None
        One row for each example. A row that is entirely NaN says that the privileged features of this example are not
        available; a row that is NaN in part is an error. What was checked before is returned as it is.
    n_samples : int
        Number of examples in `X`.
    estimator_name : str, default="fit"
        Who asks; begins the error messages.
    accept_sparse : bool, default=True
        Whether the caller works on a sparse matrix; if not, it is returned dense.
    precomputed : bool, default=False
        Whether `privileged` is a kernel matrix of shape (n_samples, n_samples). The entries in the column of an example
        that is not available are ignored. Always returned dense.
    index_of : object, default=None
        `X` as the user gave it. If both are pandas frames with the same index labels, these must be in the same order.
    argument : str, default="privileged"
        What the messages call `privileged`.
    dtypes : sequence of dtype
        What an array may stay as; others become the first.

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
    >>> from lupi.inputs import check_privileged
    >>> checked = check_privileged([[1.0, 2.0], [np.nan, np.nan]], n_samples=2)
    >>> checked.data
    array([[1., 2.],
           [0., 0.]])
    >>> checked.available
    array([ True, False])
    """
    if privileged is None or isinstance(privileged, PrivilegedInput):
        return privileged
    prefix = f"{estimator_name}: `{argument}`"
    if isinstance(privileged, np.ndarray) and privileged.dtype.kind in "biuf" and privileged.ndim == 2:
        dtype = privileged.dtype if privileged.dtype in dtypes else dtypes[0]
        values: MatrixLike = np.ascontiguousarray(privileged, dtype=dtype)
        names = None
    else:
        values, names = values_of_table(privileged, prefix)
        check_row_order(privileged, index_of, prefix)
    _check_shape(values, n_samples, prefix, precomputed)
    if sparse.issparse(values) and (precomputed or not accept_sparse):
        values = values.toarray()
    data, available = (_split_missing_gram if precomputed else _split_missing)(values, prefix)
    check_magnitude(data, argument, estimator_name=estimator_name)
    return PrivilegedInput(data=data, available=available, feature_names=names)


def check_magnitude(data: MatrixLike, argument: str, *, estimator_name: str = "fit") -> None:
    """Refuse features or targets that are too large to compute with.

    Parameters
    ----------
    data : ndarray or sparse matrix
        Numbers, and NaN for missing ones.
    argument : str
        What the message calls them: "X", "privileged" or "y".
    estimator_name : str
        Who asks; begins the error message.

    Raises
    ------
    ValueError
        With the largest value, and what to do.

    Examples
    --------
    >>> import numpy as np
    >>> check_magnitude(np.array([[1e160]]), "X", estimator_name="SVMPlus")
    Traceback (most recent call last):
        ...
    ValueError: SVMPlus: `X` has values as large as 1e+160, too large to compute with; scale the features, e.g. with StandardScaler.
    """
    if not (sparse.issparse(data) or isinstance(data, np.ndarray)):
        return  # rows in chunks are not read for this
    values = (data.data if sparse.issparse(data) else data).ravel()
    if not values.size or values.dtype not in LARGEST:  # whole numbers are not as large
        return
    largest = max(float(np.fmax.reduce(values)), -float(np.fmin.reduce(values)))
    if largest > LARGEST[values.dtype]:
        what = (
            "targets, e.g. with TransformedTargetRegressor" if argument == "y" else "features, e.g. with StandardScaler"
        )
        raise ValueError(
            f"{estimator_name}: `{argument}` has values as large as {largest:.3g}, too large to compute with; scale the {what}."
        )


def check_classes(
    X: Matrix, y: np.ndarray, sample_weight: VectorLike | None = None, *, estimator_name: str = "fit"
) -> ClassificationInput:
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
    labeled : ndarray of bool, shape (n_samples,)
        False where the target is missing.
    y : ndarray of shape (n_samples,)
        Positions in `classes` (int, -1 where missing), or the numbers of a regression (float, NaN where missing).
    classes : ndarray or None
        The distinct labels, sorted; None in regression.
    """

    labeled: np.ndarray
    y: np.ndarray
    classes: np.ndarray | None

    @property
    def values(self) -> np.ndarray:
        """Targets as they were given; without meaning where they are missing."""
        return self.y if self.classes is None else self.classes[self.y]


def check_partial_targets(
    y: VectorLike, X: MatrixLike, *, classification: bool, unlabeled: Any = None, estimator_name: str = "fit"
) -> TargetInput:
    """Check targets of which some are missing: NaN, None, pandas' NA, or the value `unlabeled`.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels of any type, or numbers.
    X : array-like of shape (n_samples, n_features)
        The rows they belong to.
    classification : bool
        Whether `y` holds labels (encoded) or numbers.
    unlabeled : object, default=None
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
        Without a labeled row, with targets that are not numbers in a regression, or with a wrong shape.

    Examples
    --------
    >>> from lupi.inputs import check_partial_targets
    >>> checked = check_partial_targets(["no", None, "yes"], [[1.0], [2.0], [3.0]], classification=True)
    >>> checked.labeled, checked.y, checked.classes.tolist()
    (array([ True, False,  True]), array([ 0, -1,  1]), ['no', 'yes'])
    """
    if y is None:
        raise ValueError(f"{estimator_name} requires y to be passed, but the target y is None.")
    values, missing = _targets(y, unlabeled)
    check_consistent_length(X, values)
    if missing.all():
        raise ValueError(
            f"{estimator_name}: `y` has no labeled row: all {len(values)} entries are missing. At least "
            f"{'two rows of different classes need a label' if classification else 'one row needs a target'}."
        )
    if not classification:
        return TargetInput(~missing, _numbers(values, missing, estimator_name), None)
    known = values[~missing]
    known = np.asarray(known.tolist()) if known.dtype.kind == "O" else known
    if known.dtype.kind == "f" and np.isinf(known).any():
        raise ValueError(f"{estimator_name}: Input y contains infinity; labels must be finite or missing.")
    check_classification_targets(known)
    classes, encoded = np.unique(known, return_inverse=True)
    if unlabeled is None:
        warn_of_minus_one(classes, estimator_name, stacklevel=4)
    full = np.full(len(values), -1, dtype=np.int64)
    full[~missing] = encoded
    return TargetInput(~missing, full, classes)


def warn_of_minus_one(classes: np.ndarray, estimator_name: str, stacklevel: int) -> None:
    """Ask what -1 means where the labels are -1, 0 and 1."""
    if len(classes) == 3 and classes.dtype.kind in "if" and classes.tolist() == [-1, 0, 1]:
        warnings.warn(
            f"{estimator_name}: the classes in `y` are -1, 0 and 1. If -1 stands for rows without a label, pass "
            "unlabeled=-1; if it is a class of its own, pass unlabeled=float('nan') and this warning goes away.",
            UserWarning,
            stacklevel=stacklevel,
        )


def _targets(y: VectorLike, unlabeled: Any) -> tuple[np.ndarray, np.ndarray]:
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
    if unlabeled is not None and not _is_missing(unlabeled):
        missing = missing | np.fromiter((value == unlabeled for value in values.tolist()), bool, len(values))
    return values, missing


def _is_missing(value: Any) -> bool:
    # pandas' NA is the one value that is not a string and whose equality to itself is not a bool.
    return value is None or not isinstance(value == value, bool | np.bool_) or bool(value != value)


def _numbers(values: np.ndarray, missing: np.ndarray, estimator_name: str) -> np.ndarray:
    numbers = np.full(len(values), np.nan)
    try:
        numbers[~missing] = values[~missing].astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{estimator_name}: `y` must hold numbers (or missing values), but {error}.") from error
    if np.isinf(numbers).any():
        raise ValueError(f"{estimator_name}: Input y contains infinity; all targets must be finite or missing.")
    check_magnitude(numbers, "y", estimator_name=estimator_name)
    return numbers


def check_sample_weight(sample_weight: VectorLike | None, n_samples: int, *, estimator_name: str = "fit") -> np.ndarray:
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
    >>> from lupi.inputs import check_sample_weight
    >>> check_sample_weight(None, 3)
    array([1., 1., 1.])
    """
    if sample_weight is None:
        return np.ones(n_samples)
    if np.isscalar(sample_weight):
        sample_weight = np.full(n_samples, sample_weight)
    weight: np.ndarray = check_array(
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


def effective_class_weight(
    class_weight: dict[Any, float] | str | None,
    classes: np.ndarray,
    y: np.ndarray,
    sample_weight: np.ndarray | None = None,
) -> np.ndarray:
    """Weight of each class, in the order of `classes`.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        As in scikit-learn's classifiers: label -> weight, or weights inversely proportional to the class frequencies; of
        weighted examples to the sums of their weights, so that an integer weight equals repeating the example.
    classes : ndarray of shape (n_classes,)
        The labels.
    y : ndarray of shape (n_samples,), dtype int
        Encoded labels: positions in `classes`.
    sample_weight : ndarray of shape (n_samples,), optional
        Weights of the examples.

    Returns
    -------
    ndarray of shape (n_classes,)

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.inputs import effective_class_weight
    >>> effective_class_weight({"rare": 5}, np.array(["common", "rare"]), np.array([0, 0, 1]))
    array([1., 5.])
    """
    if isinstance(class_weight, str) and class_weight == "balanced" and sample_weight is not None:
        weight: np.ndarray = sample_weight.sum() / (
            len(classes) * np.bincount(y, weights=sample_weight, minlength=len(classes))
        )
    else:
        weight = np.asarray(compute_class_weight(class_weight, classes=classes, y=classes[y]), dtype=np.float64)
    wrong = ~(np.isfinite(weight) & (weight > 0))
    if wrong.any():
        raise ValueError(
            f"`class_weight` of class {classes[wrong][0]!r} is {weight[wrong][0]:g}; class weights must be positive."
        )
    return weight


def check_group(
    group: VectorLike | None, n_samples: int, *, estimator_name: str = "fit", argument: str = "group"
) -> np.ndarray | None:
    """Check ids that say which examples belong together: queries of a ranking, or groups that no split may part.

    Parameters
    ----------
    group : array-like of shape (n_samples,) or None
        Ids of any type.
    n_samples : int
        Number of examples.
    estimator_name, argument : str
        Who asks, and what the argument is called; they begin the error messages.

    Returns
    -------
    ndarray of shape (n_samples,), dtype int, or None
        Groups as 0, 1, ... in the order of their ids.

    Examples
    --------
    >>> from lupi.inputs import check_group
    >>> check_group(["b", "a", "b"], 3)
    array([1, 0, 1])
    """
    if group is None:
        return None
    prefix = f"{estimator_name}: `{argument}`"
    ids = np.asarray(group)
    if ids.ndim == 2 and ids.shape[1] == 1:
        ids = ids.ravel()
    if ids.shape != (n_samples,):
        raise ValueError(f"{prefix} has shape {ids.shape}, expected ({n_samples},): one id for each example.")
    missing = [value is None or value != value for value in ids.tolist()]
    if any(missing):
        raise ValueError(f"{prefix} has no id for example {missing.index(True)}; give every example one.")
    try:
        return np.unique(ids, return_inverse=True)[1]
    except TypeError:  # ids of several types have no order of their own; that of their text does as well
        return np.unique(ids.astype(str), return_inverse=True)[1]


def _check_shape(values: Matrix, n_samples: int, prefix: str, precomputed: bool) -> None:
    if values.shape[0] != n_samples:
        raise wrong_length(prefix, values.shape[0], "rows", n_samples, "a row that is entirely NaN")
    if precomputed and values.shape[1] != n_samples:
        raise ValueError(
            f"{prefix} has shape {values.shape}, but a precomputed privileged kernel must be square: "
            f"({n_samples}, {n_samples})."
        )
    if values.shape[1] == 0:
        raise ValueError(f"{prefix} has no columns; pass at least one privileged feature, or privileged=None.")


def wrong_length(prefix: str, n_given: int, unit: str, n_samples: int, missing: str) -> ValueError:
    """The error of a privileged input that has not one entry for each example."""
    return ValueError(
        f"{prefix} has {n_given} {unit}, but `X` has {n_samples} examples; pass one for each example "
        f"({missing} where the privileged features are not available)."
    )


def _split_missing(values: MatrixLike, prefix: str) -> tuple[Matrix, np.ndarray]:
    """The values with 0 in the missing rows, and the mask of the others."""
    if sparse.issparse(values):
        row_of = np.repeat(np.arange(values.shape[0]), np.diff(values.indptr))
        n_missing = np.bincount(row_of[np.isnan(values.data)], minlength=values.shape[0])
        infinite = row_of[np.isinf(values.data)]
    else:
        n_missing = np.isnan(values).sum(axis=1)
        infinite = np.flatnonzero(np.isinf(values).any(axis=1))
    partly = np.flatnonzero((n_missing > 0) & (n_missing < values.shape[1]))
    if len(partly):
        raise ValueError(
            f"{prefix} is NaN in part: row {partly[0]} has {n_missing[partly[0]]} NaN in its {values.shape[1]} columns. "
            "Either the whole row is NaN, which means that the privileged features are not available for this example, "
            "or no value of the row may be missing: impute the missing values."
        )
    if len(infinite):
        raise ValueError(
            f"{prefix} has an infinite value in row {infinite[0]}; all values must be finite (clip or remove it)."
        )
    available = n_missing == 0
    if available.all():
        return values, available
    if not sparse.issparse(values):
        return np.where(available[:, None], values, 0.0), available
    data = values.copy()
    data.data[~available[row_of]] = 0.0
    data.eliminate_zeros()
    return data, available


def _split_missing_gram(values: np.ndarray, prefix: str) -> tuple[np.ndarray, np.ndarray]:
    available = ~np.isnan(values).all(axis=1)
    # Whatever stands in the row and in the column of a missing example takes no part in the problem.
    data = np.where(available[:, None] & available[None, :], values, 0.0)
    _split_missing(data, prefix)
    return (values if available.all() else data), available
