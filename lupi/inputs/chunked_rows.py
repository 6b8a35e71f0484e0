# ruff: noqa
# mypy: ignore-errors
"""Old names of :mod:`lupi.inputs.rows`, until every caller has switched."""

from lupi.inputs import rows as _rows
from lupi.inputs.rows import Affine, Collection, side_by_side
from lupi.inputs.rows import DaskRows as ChunkedRows
from lupi.inputs.types import Matrix

AnyRows = Matrix | ChunkedRows
total, in_a_row = "sum", "concatenate"
chunkwise = _rows.chunkwise


def tables_beside(tables, scales):
    return side_by_side(tables, scales)


def rows_here(table, index):
    return table.load(index) if isinstance(table, ChunkedRows) else table[index]


def take_rows(X, Z, index):
    if not isinstance(X, ChunkedRows):
        return X[index], None if Z is None else Z[index]
    found = _rows.take_together([X, Z], index)
    return tuple(getattr(rows, "values", rows) for rows in found)


__all__ = [
    "Affine",
    "AnyRows",
    "ChunkedRows",
    "Collection",
    "chunkwise",
    "in_a_row",
    "rows_here",
    "tables_beside",
    "take_rows",
    "total",
]
