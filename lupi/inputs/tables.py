"""Values of sparse matrices and of pandas and polars frames; names of columns, order of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from lupi.inputs.types import Matrix, MatrixLike

ENCODE = "encode it as numbers, or fit lupi.tabular_model(estimator) to the data frame, words and text included"


def check_row_order(table: MatrixLike, X: MatrixLike, prefix: str) -> None:
    """Raise if a pandas table has the index labels of X in another order: rows are matched by position."""
    if not (is_frame(table) and is_frame(X)) or len(table) != len(X) or table.index.equals(X.index):
        return
    if table.index.isin(X.index).all() and X.index.isin(table.index).all():
        raise ValueError(
            f"{prefix} has the rows of `X` in another order: rows are matched by position. Pass "
            "privileged.loc[X.index], or privileged.to_numpy() if the rows are in order."
        )


def column_names(table: Any) -> np.ndarray | None:
    """Column names of a pandas, polars or Dask frame if all of them are strings, else None."""
    columns = getattr(table, "columns", None)
    if columns is None or callable(columns) or not all(isinstance(name, str) for name in columns):
        return None
    return np.asarray(list(columns), dtype=object)


def is_frame(table: Any) -> bool:
    """Whether this is a pandas data frame."""
    return hasattr(table, "columns") and hasattr(table, "iloc")


def frame_values(frame: MatrixLike, prefix: str) -> np.ndarray:
    """Values of a data frame; missing values are NaN."""
    for name, dtype in zip(frame.columns, frame.dtypes):
        # pandas dtypes have NumPy's kind (objects may still be numbers), polars dtypes do not.
        kind = getattr(dtype, "kind", None)
        numeric = kind in "biufO" if kind is not None else dtype.is_numeric() or str(dtype) in ("Boolean", "Null")
        if not numeric:
            problem = f"has the non-numeric column {name!r} (dtype {dtype})"
            raise ValueError(f"{prefix} {problem}; {ENCODE}.")
    if not hasattr(frame, "iloc"):
        return np.asarray(frame.to_numpy())
    # pandas turns NA into NaN only on request.
    kinds: tuple[dict[str, Any], ...] = {"dtype": np.float64, "na_value": np.nan}, {"dtype": object}
    columns = [column.to_numpy(**kinds[column.dtype.kind == "O"]) for _, column in frame.items()]
    return np.column_stack(columns) if columns else np.empty(frame.shape)


def sparse_values(table: MatrixLike, prefix: str) -> Matrix:
    """Values of a sparse matrix as a canonical CSR matrix."""
    if table.dtype.kind not in "biuf":
        raise ValueError(f"{prefix} must hold real numbers, but has dtype {table.dtype}; encode it as numbers first.")
    if table.ndim != 2:
        return table
    return canonical(table.tocsr().astype(np.float64))


def canonical(matrix: Any) -> Any:
    """A CSR matrix with one entry per cell; a copy if the caller's has more."""
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix
