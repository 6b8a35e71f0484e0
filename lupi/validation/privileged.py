"""Privileged features in any container, read in one way: float64 rows and a mask of the examples that have them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse


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


def check_privileged(
    privileged,
    n_samples,
    *,
    estimator_name="fit",
    accept_sparse=True,
    precomputed=False,
    index_of=None,
    argument="privileged",
):
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
        Whether the caller works on a sparse matrix; if not, it is returned dense.
    precomputed : bool, default=False
        Whether `privileged` is a kernel matrix of shape (n_samples, n_samples). The entries in the column of an example
        that is not available are ignored. Always returned dense.
    index_of : object, default=None
        `X` as the user gave it. If both are pandas frames with the same index labels, these must be in the same order.
    argument : str, default="privileged"
        What the messages call `privileged`.

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
    prefix = f"{estimator_name}: `{argument}`"
    values = _sparse_values(privileged, prefix) if sparse.issparse(privileged) else _dense_values(privileged, prefix)
    _check_shape(values, n_samples, prefix, precomputed, privileged)
    _check_order(privileged, index_of, prefix)
    if sparse.issparse(values) and (precomputed or not accept_sparse):
        values = values.toarray()
    data, available = (_split_missing_gram if precomputed else _split_missing)(values, prefix)
    return PrivilegedInput(data=data, available=available, feature_names=column_names(privileged))


def check_privileged_sequence(privileged, n_samples, *, estimator_name="fit", argument="privileged"):
    """Check privileged inputs that are no rows of a table: images, sequences, whatever a structured task reads.

    Parameters
    ----------
    privileged : sequence or None
        One input for each example; an entry None says that it is not available for this example.
    n_samples : int
        Number of examples in `X`.
    estimator_name, argument : str
        As in :func:`check_privileged`.

    Returns
    -------
    PrivilegedInput or None

    Examples
    --------
    >>> from lupi.validation import check_privileged_sequence
    >>> check_privileged_sequence(["picture", None], 2).available
    array([ True, False])
    """
    if privileged is None:
        return None
    prefix = f"{estimator_name}: `{argument}`"
    if isinstance(privileged, str | Mapping) or not hasattr(privileged, "__len__"):
        raise ValueError(f"{prefix} must be a sequence with one input for each example; got {privileged!r:.60}.")
    if len(privileged) != n_samples:
        raise _wrong_length(prefix, len(privileged), "inputs", n_samples, "None")
    return PrivilegedInput(privileged, np.array([entry is not None for entry in privileged], dtype=bool))


def check_privileged_spaces(privileged, n_samples, *, estimator_name="fit", **options):
    """Check one or several privileged spaces.

    Parameters
    ----------
    privileged : array-like, list of two-dimensional tables, dict of name -> table, or None
        A list of tables (arrays, sparse matrices, frames) or a dict means several spaces; each has its own missing rows.
        Anything else is one space.
    n_samples : int
        Number of examples in `X`.
    estimator_name : str, default="fit"
        Who asks; begins the error messages.
    **options
        Further arguments of :func:`check_privileged`.

    Returns
    -------
    dict of PrivilegedInput
        By the name of the space, or by its number in the list; one space has the number 0. Empty for None.

    Examples
    --------
    >>> from lupi.validation import check_privileged_spaces
    >>> spaces = check_privileged_spaces({"tests": [[1.0], [2.0]], "wages": [[3.0, 4.0], [5.0, 6.0]]}, 2)
    >>> {name: space.data.shape for name, space in spaces.items()}
    {'tests': (2, 1), 'wages': (2, 2)}
    """
    if privileged is None:
        return {}
    if isinstance(privileged, Mapping):
        spaces = dict(privileged)
    elif isinstance(privileged, list | tuple) and any(_is_table(block) for block in privileged):
        spaces = dict(enumerate(privileged))
    else:
        return {0: check_privileged(privileged, n_samples, estimator_name=estimator_name, **options)}
    empty = [name for name, block in spaces.items() if block is None]
    if empty or not spaces:
        raise ValueError(
            f"{estimator_name}: `privileged` "
            f"{f'has None for the space {empty[0]!r}' if empty else 'names no space'}; "
            "give a table for each space, or privileged=None."
        )
    return {
        name: check_privileged(
            block, n_samples, estimator_name=estimator_name, argument=f"privileged[{name!r}]", **options
        )
        for name, block in spaces.items()
    }


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


def is_frame(table):
    """Whether this is a pandas data frame."""
    return hasattr(table, "columns") and hasattr(table, "iloc")


def _is_table(block):
    return len(block.shape if hasattr(block, "shape") else np.shape(block)) == 2


def _dense_values(privileged, prefix):
    if isinstance(privileged, Mapping):
        raise ValueError(f"{prefix} is a dict; pass one table with a row for each example.")
    if hasattr(privileged, "columns") and hasattr(privileged, "dtypes"):
        return _as_float(_frame_values(privileged, prefix), prefix)
    try:
        return _as_float(np.asarray(privileged), prefix)
    except ValueError as error:
        if str(error).startswith(prefix):
            raise
        raise ValueError(
            f"{prefix} is not a table: its rows differ in length. Pass a 2-D array, one row for each example."
        ) from error


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


def _check_shape(values, n_samples, prefix, precomputed, given):
    if values.ndim == 1:
        remedy = "to_frame()" if hasattr(given, "to_frame") else "reshape(-1, 1)"
        raise ValueError(
            f"{prefix} is 1-dimensional, expected 2 dimensions: one row for each example. "
            f"Use privileged.{remedy} if it holds one feature."
        )
    if values.ndim != 2:
        raise ValueError(f"{prefix} has {values.ndim} dimensions, expected 2: a table with one row for each example.")
    if values.shape[0] != n_samples:
        raise _wrong_length(prefix, values.shape[0], "rows", n_samples, "a row that is entirely NaN")
    if precomputed and values.shape[1] != n_samples:
        raise ValueError(
            f"{prefix} has shape {values.shape}, but a precomputed privileged kernel must be square: "
            f"({n_samples}, {n_samples})."
        )
    if values.shape[1] == 0:
        raise ValueError(f"{prefix} has no columns; pass at least one privileged feature, or privileged=None.")


def _wrong_length(prefix, n_given, unit, n_samples, missing):
    return ValueError(
        f"{prefix} has {n_given} {unit}, but `X` has {n_samples} examples; pass one for each example "
        f"({missing} where the privileged features are not available)."
    )


def _check_order(privileged, X, prefix):
    """Rows are matched by position; the same labels in another order are a mistake that would pass for noise."""
    if not (is_frame(privileged) and is_frame(X)) or privileged.index.equals(X.index):
        return
    if privileged.index.isin(X.index).all() and X.index.isin(privileged.index).all():
        raise ValueError(
            f"{prefix} has the rows of `X` in another order: the index labels are the same, their order is not. Rows are "
            "matched by position; pass privileged.loc[X.index], or privileged.to_numpy() if the order of the rows is right "
            "and the labels are not."
        )


def _split_missing(values, prefix):
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


def _split_missing_gram(values, prefix):
    available = ~np.isnan(values).all(axis=1)
    # Whatever stands in the row and in the column of a missing example takes no part in the problem.
    data = np.where(available[:, None] & available[None, :], values, 0.0)
    _split_missing(data, prefix)
    return (values if available.all() else data), available
