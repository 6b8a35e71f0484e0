"""Tables in any container (lists, arrays, sparse matrices, pandas and polars frames) as float64 values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from lupi.inputs.types import Matrix, MatrixLike, PrivilegedLike

if TYPE_CHECKING:
    import pandas as pd


def values_of_table(table: MatrixLike, prefix: str) -> tuple[Matrix, np.ndarray | None]:
    """Values of a table, dense or canonical CSR, and its column names.

    Parameters
    ----------
    table : array-like, sparse matrix or data frame
        The user's table.
    prefix : str
        Begins the error messages: who asks, and the name of the argument.

    Returns
    -------
    values : ndarray or csr_array
        Float64, two-dimensional; missing values are NaN.
    names : ndarray of str or None
        See :func:`column_names`.
    """
    values = _sparse_values(table, prefix) if sparse.issparse(table) else _dense_values(table, prefix)
    if values.ndim == 1:
        remedy = "to_frame()" if hasattr(table, "to_frame") else "reshape(-1, 1)"
        raise ValueError(
            f"{prefix} is 1-dimensional, expected 2 dimensions: one row for each example. "
            f"Use privileged.{remedy} if it holds one feature."
        )
    if values.ndim != 2:
        raise ValueError(f"{prefix} has {values.ndim} dimensions, expected 2: a table with one row for each example.")
    return values, column_names(table)


def check_row_order(table: MatrixLike, X: MatrixLike, prefix: str) -> None:
    """Refuse a pandas table whose rows are those of X in another order.

    Rows are matched by position; the same labels in another order are a mistake that would pass for noise.
    """
    if not (is_frame(table) and is_frame(X)) or len(table) != len(X) or table.index.equals(X.index):
        return
    if table.index.isin(X.index).all() and X.index.isin(table.index).all():
        raise ValueError(
            f"{prefix} has the rows of `X` in another order: the index labels are the same, their order is not. Rows are "
            "matched by position; pass privileged.loc[X.index], or privileged.to_numpy() if the order of the rows is right "
            "and the labels are not."
        )


def column_names(table: Any) -> np.ndarray | None:
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
    >>> from lupi.inputs import column_names
    >>> column_names(pd.DataFrame({"a": [1], "b": [2]})).tolist()
    ['a', 'b']
    >>> column_names([[1, 2]]) is None
    True
    """
    columns = getattr(table, "columns", None)
    if columns is None or callable(columns) or not all(isinstance(name, str) for name in columns):
        return None
    return np.asarray(list(columns), dtype=object)


def is_frame(table: Any) -> bool:
    """Whether this is a pandas data frame."""
    return hasattr(table, "columns") and hasattr(table, "iloc")


def _dense_values(privileged: PrivilegedLike, prefix: str) -> np.ndarray:
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


def _frame_values(frame: MatrixLike, prefix: str) -> np.ndarray:
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
    return np.asarray(frame.to_numpy())


def _pandas_column(column: pd.Series) -> np.ndarray:
    if column.dtype.kind == "O":
        return np.asarray(column.to_numpy(dtype=object))
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))


def _as_float(values: np.ndarray, prefix: str) -> np.ndarray:
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


def _sparse_values(privileged: PrivilegedLike, prefix: str) -> Matrix:
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
