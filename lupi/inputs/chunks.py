"""Tables that are not in memory: Dask collections as blocks of rows, made one by one when they are needed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from lupi.inputs.tables import check_row_order, read_table, split_missing
from lupi.inputs.types import Matrix, MatrixLike, VectorLike


def is_dask(data: Any) -> bool:
    """Whether this is a Dask collection.

    Examples
    --------
    >>> is_dask([[1.0, 2.0]])
    False
    """
    return hasattr(data, "__dask_graph__") and hasattr(data, "npartitions")


@dataclass(frozen=True)
class RowBlock:
    """How to make the same rows of several collections.

    Attributes
    ----------
    graph : dict
        Dask tasks; they hold no rows unless the collection does.
    keys : dict of str to key
        The task of each collection.
    number : int
        Which block this is, for messages.
    """

    graph: dict[Any, Any]
    keys: dict[str, Any]
    number: int

    @property
    def persisted(self) -> bool:
        """Whether some of it is on a cluster already."""
        return any(map(_is_future, self.graph.values()))

    def make(self, names: Iterable[str]) -> list[Any]:
        """Values of some of the collections, in this thread."""
        import dask
        from dask.optimization import cull

        keys = [self.keys[name] for name in names]
        return list(dask.get(cull(self.graph, keys)[0], keys))  # type: ignore[attr-defined]  # not in its __all__


def _is_future(task: Any) -> bool:
    return type(task).__name__ == "Future"


def row_blocks(collections: dict[str, Any], *, estimator_name: str = "fit") -> list[RowBlock]:
    """Blocks of rows of collections that are chunked alike.

    Parameters
    ----------
    collections : dict of str to dask.array.Array, dask.dataframe.DataFrame or dask.dataframe.Series
        By the name of the argument; X comes first.
    estimator_name : str, default="fit"
        Who asks; begins the error messages.

    Returns
    -------
    list of RowBlock

    Raises
    ------
    ValueError
        Where the chunks are not those of X.
    """
    from dask.optimization import cull

    parts = {name: _one_chunk_of_columns(name, data, estimator_name) for name, data in collections.items()}
    first = next(iter(parts))
    for name in parts:
        _check_alike(first, parts[first], name, parts[name], estimator_name)
    graph, keys = {}, {}
    for name, part in parts.items():
        # Frames: so that files are read for the columns asked for only. Arrays share tasks as long as nothing is fused.
        part = part.optimize() if hasattr(part, "optimize") else part
        graph.update(part.__dask_graph__())
        keys[name] = [key[0] if isinstance(key, list) else key for key in part.__dask_keys__()]
    return [
        RowBlock(cull(graph, list(row))[0], dict(zip(keys, row)), number)
        for number, row in enumerate(zip(*keys.values()))
    ]


def _one_chunk_of_columns(name: str, data: Any, estimator_name: str) -> Any:
    if not is_dask(data):
        raise ValueError(
            f"{estimator_name}: `X` is a Dask collection, but `{name}` is a {type(data).__name__}; pass a Dask collection with "
            f"the same chunks of rows, such as dask.array.from_array({name}, chunks=...)."
        )
    if not hasattr(data, "ndim"):
        raise ValueError(
            f"{estimator_name}: `{name}` is a {type(data).__name__}; pass a dask.array or a dask.dataframe, which have rows."
        )
    if hasattr(data, "numblocks") and data.ndim == 2 and data.numblocks[1] > 1:
        return data.rechunk({1: -1})
    return data


def _sizes(data: Any) -> tuple[float, ...]:
    """Rows of each block: numbers, or NaN where Dask does not know."""
    return tuple(data.chunks[0]) if hasattr(data, "chunks") else (np.nan,) * data.npartitions


def _check_alike(first: str, X: MatrixLike, name: str, data: Any, estimator_name: str) -> None:
    expected, sizes = _sizes(X), _sizes(data)
    known = not np.isnan([*expected, *sizes]).any()
    if len(expected) == len(sizes) and (not known or expected == sizes):
        return
    shown = [f"{len(s)} chunks of rows" + (f" {_few(s)}" if known else "") for s in (expected, sizes)]
    remedy = f"{name}.rechunk({{0: {first}.chunks[0]}})" if hasattr(data, "chunks") else f"{name}.repartition(...)"
    raise ValueError(
        f"{estimator_name}: `{first}` has {shown[0]}, but `{name}` has {shown[1]}; rows belong together by chunk and position, so "
        f"chunk both alike, such as {remedy}."
    )


def _few(sizes: tuple[float, ...]) -> str:
    return f"({', '.join(map(str, sizes[:4]))}{', ...' if len(sizes) > 4 else ''})"


@dataclass(frozen=True)
class BlockFacts:
    """What one look at a block tells.

    Attributes
    ----------
    n_rows : int
    vectors : dict of str to ndarray
        Numbers (or labels) of every row: y, sample_weight and the like.
    available : dict of str to ndarray of bool, shape (n_rows,)
        Which rows have the privileged features of a table.
    widths : dict of str to int
        Columns of the tables.
    single : dict of str to bool
        Which tables are in single precision.
    entries : dict of str to int
        Entries that the tables store.
    """

    n_rows: int
    vectors: dict[str, np.ndarray]
    available: dict[str, np.ndarray]
    widths: dict[str, int]
    single: dict[str, bool]
    entries: dict[str, int]


def examine_block(block: RowBlock, tables: list[str], vectors: list[str], estimator_name: str) -> BlockFacts:
    """Compute a block once and check its rows: as many in every collection, X finite, privileged rows whole or missing."""
    names = [*tables, *vectors]
    values = dict(zip(names, block.make(names)))
    owner = f"{estimator_name}, chunk {block.number}"
    n_rows = int(np.shape(values["X"])[0])
    for name, value in values.items():
        if np.shape(value)[0] != n_rows:
            raise ValueError(
                f"{owner}: `X` has {n_rows} rows, but `{name}` has {np.shape(value)[0]}; rows belong together by chunk and "
                "position."
            )
    checked = {name: values[name] for name in tables}
    available = {name: np.ones(n_rows, dtype=bool) for name in tables[1:]}
    if n_rows:
        checked["X"] = check_array(
            values["X"], accept_sparse="csr", dtype=[np.float64, np.float32], input_name="X", estimator=owner
        )
        for name in tables[1:]:
            prefix = f"{owner}: `{name}`"
            table = read_table(values[name], prefix, (np.float64, np.float32))
            check_row_order(values[name], values["X"], prefix)
            checked[name], available[name] = split_missing(table, prefix)
    return BlockFacts(
        n_rows,
        {name: _vector(values[name], name, owner) for name in vectors},
        available,
        {name: int(table.shape[1]) for name, table in checked.items()},
        {name: bool(n_rows) and table.dtype == np.float32 for name, table in checked.items()},
        {name: int(table.nnz if sparse.issparse(table) else np.prod(table.shape)) for name, table in checked.items()},
    )


def _vector(value: VectorLike, name: str, owner: str) -> np.ndarray:
    values = value.to_numpy() if hasattr(value, "to_numpy") else np.asarray(value)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"{owner}: `{name}` has shape {values.shape}, expected one value for each row.")
    return values


def block_values(value: MatrixLike, dtype: Any, gaps: bool = False) -> Matrix:
    """Values of a checked table's block: dense in C order or CSR, in one precision; rows of NaN become 0 without `gaps`.

    Examples
    --------
    >>> block_values(np.array([[1, 2]]), np.float64)
    array([[1., 2.]])
    """
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        values: MatrixLike = np.ascontiguousarray(value, dtype=dtype)
    else:
        values = read_table(value, "the table").astype(dtype, copy=False)
    parts = values.data if sparse.issparse(values) else values
    missing = np.isnan(parts)
    if missing.any() and not gaps:
        parts = np.where(missing, 0.0, parts).astype(dtype)
        if not sparse.issparse(values):
            return parts
        values = values.copy()
        values.data = parts
    return values
