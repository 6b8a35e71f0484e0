"""Tables in lists, sparse matrices, pandas and polars frames as float arrays or CSR matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse

from lupi.inputs.types import Matrix, MatrixLike


def container_values(table: MatrixLike, prefix: str) -> Any:
    """Float64 values of a table in any container; missing values are NaN."""
    if sparse.issparse(table):
        return _sparse_values(table, prefix)
    if isinstance(table, Mapping):
        raise ValueError(f"{prefix} is a dict; pass one table with a row for each example.")
    if hasattr(table, "columns") and hasattr(table, "dtypes"):
        return _as_float(_frame_values(table, prefix), prefix)
    try:
        values = np.asarray(table)
    except ValueError as error:
        raise ValueError(
            f"{prefix} is not a table: its rows differ in length. Pass a 2-D array, one row for each example."
        ) from error
    return _as_float(values, prefix)


def check_row_order(table: MatrixLike, X: MatrixLike, prefix: str) -> None:
    """Raise if a pandas table has the index labels of X in another order: rows are matched by position."""
    if not (is_frame(table) and is_frame(X)) or len(table) != len(X) or table.index.equals(X.index):
        return
    if table.index.isin(X.index).all() and X.index.isin(table.index).all():
        raise ValueError(
            f"{prefix} has the rows of `X` in another order: the index labels are the same, their order is not. Rows are "
            "matched by position; pass privileged.loc[X.index], or privileged.to_numpy() if the order of the rows is right "
            "and the labels are not."
        )


def column_names(table: Any) -> np.ndarray | None:
    """Column names of a pandas, polars or Dask frame if all of them are strings, else None.

    Examples
    --------
    >>> import pandas as pd
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


def _frame_values(frame: MatrixLike, prefix: str) -> np.ndarray:
    for name, dtype in zip(frame.columns, frame.dtypes):
        # pandas dtypes have NumPy's kind (objects may still be numbers), polars dtypes do not.
        kind = getattr(dtype, "kind", None)
        numeric = kind in "biufO" if kind is not None else dtype.is_numeric() or str(dtype) in ("Boolean", "Null")
        if not numeric:
            raise ValueError(
                f"{prefix} has the non-numeric column {name!r} (dtype {dtype}); encode it as numbers or leave it out."
            )
    if not hasattr(frame, "iloc"):
        return np.asarray(frame.to_numpy())
    columns = [_pandas_column(frame.iloc[:, j]) for j in range(frame.shape[1])]
    return np.column_stack(columns) if columns else np.empty(frame.shape)


def _pandas_column(column: Any) -> np.ndarray:
    """Values of a column; pandas turns NA into NaN only on request."""
    if column.dtype.kind == "O":
        return np.asarray(column.to_numpy(dtype=object))
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))


def _as_float(values: np.ndarray, prefix: str) -> np.ndarray:
    problem = f"{prefix} must hold real numbers, but has dtype {values.dtype}"
    if values.dtype.kind == "O":
        if any(isinstance(value, str) for value in values.flat):
            raise ValueError(f"{prefix} must hold real numbers, but has text in it; encode text as numbers first.")
        try:
            return np.ascontiguousarray(values, dtype=np.float64) if values.ndim else values
        except (TypeError, ValueError) as error:
            raise ValueError(f"{problem} that does not convert to numbers; encode it as numbers first.") from error
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{problem}; encode it as numbers first.")
    return np.ascontiguousarray(values, dtype=np.float64) if values.ndim else values


def _sparse_values(table: MatrixLike, prefix: str) -> Matrix:
    if table.dtype.kind not in "biuf":
        raise ValueError(f"{prefix} must hold real numbers, but has dtype {table.dtype}; encode it as numbers first.")
    if table.ndim != 2:
        return table
    values = table.tocsr().astype(np.float64)
    if not values.has_canonical_format:
        values = values.copy()  # sum_duplicates works in place, and the matrix may be the caller's
        values.sum_duplicates()
    return values
