"""Tables in any container (lists, arrays, sparse matrices, pandas and polars frames) as float arrays or CSR matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from lupi.inputs.types import Matrix, MatrixLike

# Products of four values stay finite in double precision, squares of sums in single precision.
LARGEST = {np.dtype(np.float64): 1e60, np.dtype(np.float32): 1e15}


def read_table(table: MatrixLike, prefix: str, dtypes: Sequence[Any] = (np.float64,)) -> Matrix:
    """Values of a table as a C-ordered array or a canonical CSR matrix; missing values are NaN."""
    if sparse.issparse(table):
        values = _sparse_values(table, prefix)
    elif isinstance(table, np.ndarray) and table.dtype.kind in "biuf" and not np.ma.isMaskedArray(table):
        dtype = table.dtype if table.dtype in dtypes else dtypes[0]
        values = np.ascontiguousarray(table, dtype=dtype) if table.ndim else table
    else:
        values = _dense_values(table, prefix)
    if values.ndim == 1:
        remedy = "to_frame()" if hasattr(table, "to_frame") else "reshape(-1, 1)"
        raise ValueError(
            f"{prefix} is 1-dimensional, expected 2 dimensions: one row for each example. "
            f"Use {remedy} if it holds one feature."
        )
    if values.ndim != 2:
        raise ValueError(f"{prefix} has {values.ndim} dimensions, expected 2: a table with one row for each example.")
    if values.shape[1] == 0:
        raise ValueError(f"{prefix} has no columns; it must have at least one.")
    return values


def split_missing(values: Matrix, prefix: str) -> tuple[Matrix, np.ndarray]:
    """Values with 0 in the rows that are entirely NaN, and a mask of the other rows."""
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
        return np.where(available[:, None], values, values.dtype.type(0)), available
    data = values.copy()
    data.data[~available[row_of]] = 0.0
    data.eliminate_zeros()
    return data, available


def split_missing_kernel(values: np.ndarray, prefix: str) -> tuple[np.ndarray, np.ndarray]:
    """The same of a square kernel matrix: rows and columns of missing examples become 0."""
    available = ~np.isnan(values).all(axis=1)
    data = np.where(available[:, None] & available[None, :], values, 0.0)
    split_missing(data, prefix)
    return (values if available.all() else data), available


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


def check_magnitude(values: Any, argument: str, *, estimator_name: str) -> None:
    """Raise if values are too large to compute with; NaN is ignored."""
    values = (values.data if sparse.issparse(values) else values).ravel()
    if not values.size or values.dtype not in LARGEST:
        return
    largest = max(float(np.fmax.reduce(values)), -float(np.fmin.reduce(values)))
    if largest > LARGEST[values.dtype]:
        remedy = (
            "targets, e.g. with TransformedTargetRegressor" if argument == "y" else "features, e.g. with StandardScaler"
        )
        raise ValueError(
            f"{estimator_name}: `{argument}` has values as large as {largest:.3g}, too large to compute with; scale the {remedy}."
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


def refuse_masked(value: Any, prefix: str) -> None:
    """Raise on a masked array, whose hidden values would be read as if they were valid."""
    if np.ma.isMaskedArray(value):
        raise ValueError(
            f"{prefix} is a masked array; pass {prefix.split('`')[1]}.filled(np.nan), or impute the values."
        )


def _dense_values(table: MatrixLike, prefix: str) -> np.ndarray:
    refuse_masked(table, prefix)
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
