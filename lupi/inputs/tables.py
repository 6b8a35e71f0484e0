"""Tables in lists, sparse matrices, pandas and polars frames as float arrays or CSR matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from lupi.inputs.types import Matrix, MatrixLike

DOUBLE, SINGLE = (np.float64,), (np.float64, np.float32)


def read_table(table: MatrixLike, prefix: str, dtypes: Sequence[Any] = DOUBLE) -> Any:
    """Values of a table in any container as a C-ordered array or a canonical CSR matrix; missing values are NaN."""
    refuse_masked(table, prefix)
    if sparse.issparse(table):
        values: Any = _sparse_values(table, prefix)
    elif isinstance(table, Mapping):
        raise ValueError(f"{prefix} is a dict; pass one table with a row for each example.")
    elif hasattr(table, "columns") and hasattr(table, "dtypes"):
        values = _as_float(_frame_values(table, prefix), prefix, DOUBLE)
    else:
        try:
            values = np.asarray(table)
        except ValueError as error:
            raise ValueError(
                f"{prefix} is not a table: its rows differ in length. Pass a 2-D array, one row for each example."
            ) from error
        values = _as_float(values, prefix, dtypes)
    if values.ndim == 1:
        remedy = "to_frame()" if hasattr(table, "to_frame") else "reshape(-1, 1)"
        raise ValueError(
            f"{prefix} is 1-dimensional, expected 2 dimensions: one row for each example. Use {remedy} if it holds one feature."
        )
    if values.ndim != 2:
        raise ValueError(f"{prefix} has {values.ndim} dimensions, expected 2: a table with one row for each example.")
    if values.shape[1] == 0:
        raise ValueError(f"{prefix} has no columns; it must have at least one.")
    return values


def refuse_masked(value: Any, prefix: str) -> None:
    """Raise on a masked array, whose hidden values would be read as if they were valid."""
    if np.ma.isMaskedArray(value):
        raise ValueError(
            f"{prefix} is a masked array; pass {prefix.split('`')[1]}.filled(np.nan), or impute the values."
        )


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
    # pandas turns NA into NaN only on request.
    options: list[dict[str, Any]] = [
        {"dtype": object} if dtype.kind == "O" else {"dtype": np.float64, "na_value": np.nan} for dtype in frame.dtypes
    ]
    columns = [frame.iloc[:, j].to_numpy(**given) for j, given in enumerate(options)]
    return np.column_stack(columns) if columns else np.empty(frame.shape)


def _as_float(values: np.ndarray, prefix: str, dtypes: Sequence[Any]) -> np.ndarray:
    kind = values.dtype.kind
    if kind == "O" and any(isinstance(value, str) for value in values.flat):
        raise ValueError(f"{prefix} must hold real numbers, but has text in it; encode text as numbers first.")
    problem = f"{prefix} must hold real numbers, but has dtype {values.dtype}"
    if kind not in "biufO":
        raise ValueError(f"{problem}; encode it as numbers first.")
    try:
        values = values.astype(values.dtype if values.dtype in dtypes else dtypes[0], copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{problem} that does not convert to numbers; encode it as numbers first.") from error
    return np.ascontiguousarray(values) if values.ndim else values


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
