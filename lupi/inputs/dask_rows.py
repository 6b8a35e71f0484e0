"""Rows in the chunks of Dask collections: read once by `fit`, then one pass per product, in threads or on a cluster.

A chunk is computed, used and dropped in one task. So a lost worker costs only its current chunks, which are computed again, and
memory is bounded by the chunks in progress.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import dask
import numpy as np
from dask.base import compute
from dask.optimization import cull
from joblib import Parallel, cpu_count, delayed
from scipy import sparse
from sklearn.utils import check_array
from threadpoolctl import threadpool_limits

from lupi.inputs.memory import available_memory, require_memory
from lupi.inputs.tables import column_names
from lupi.inputs.training_set import (
    SINGLE,
    ArrayRows,
    PrivilegedBlock,
    Rows,
    chunkwise,
    read_block,
    read_table,
    refuse_masked,
    split_missing,
)
from lupi.inputs.types import Matrix
from lupi.run import as_they_arrive, cluster_errors, count_threads

# Up to this many rows are brought into memory, where the solvers on kernel matrices are faster.
IN_MEMORY = 5000
# Vectors with one number per row that training holds in memory at most: 22 with squared hinges, 37 with hinges.
VECTORS = 40
# Selected rows are loaded if they take at most this share of the free memory.
GATHERED = 0.25
# A worker gets its next chunk while it computes one.
CHUNKS_PER_THREAD = 2
TRAINING_IS_LOST = "Training must be started again when the cluster is back; it does not continue on this machine."


@dataclass(frozen=True)
class RowBlock:
    """Dask tasks that compute the same chunk of rows of several collections."""

    graph: dict[Any, Any]
    keys: dict[str, Any]  # of each collection
    number: int

    def make(self, names: Iterable[str]) -> list[Any]:
        """Values of some of the collections, computed in this thread."""
        keys = [self.keys[name] for name in names]
        return list(dask.get(cull(self.graph, keys)[0], keys))  # type: ignore[attr-defined]  # not in its __all__


@dataclass(frozen=True)
class Collection:
    """Recipe of a chunk's rows: one collection as numbers; missing rows are NaN with `gaps`, else 0."""

    name: str
    dtype: Any = np.float64
    gaps: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Collections that the recipe reads."""
        return (self.name,)

    def __call__(self, made: dict[str, Any]) -> Any:
        """Rows of the chunk."""
        values = read_table(made[self.name], "the table", SINGLE).astype(self.dtype, copy=False)
        return values if self.gaps else split_missing(values, "the table")[0]


@dataclass(frozen=True, eq=False)
class Mapped:
    """Recipe of a chunk's rows: a function of the rows of other recipes."""

    parts: tuple[Any, ...]
    function: Callable[..., Any]

    @property
    def names(self) -> tuple[str, ...]:
        """Collections that the recipe reads."""
        return tuple(name for part in self.parts for name in part.names)

    def __call__(self, made: dict[str, Any]) -> Any:
        """Rows of the chunk."""
        return self.function(*(part(made) for part in self.parts))


@dataclass(frozen=True, eq=False)
class DaskRows(Rows):
    """Rows in Dask chunks, computed anew in every pass; see :class:`~lupi.inputs.training_set.Rows`."""

    blocks: tuple[RowBlock, ...]
    sizes: np.ndarray  # rows of each chunk
    recipe: Any  # makes the rows of a chunk from the collections
    n_columns: int
    index: np.ndarray  # selected rows in increasing order
    density: float = 1.0  # share of the entries that are stored
    square = False
    ndim = 2

    def allows(self, numbers_per_row: int) -> bool:
        """Whether arrays may hold so many numbers per row."""
        return numbers_per_row <= VECTORS

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return len(self.index), self.n_columns

    @property
    def size(self) -> int:
        """Number of stored entries, which a product visits."""
        return int(self.density * self.shape[0] * self.n_columns)

    def __len__(self) -> int:
        return self.shape[0]

    def __matmul__(self, matrix: np.ndarray) -> np.ndarray:
        return self.times(matrix)

    @property
    def T(self) -> Any:
        """For products with the transposed rows."""
        return _Transposed(self)

    def take(self, index: np.ndarray) -> DaskRows:
        """Some of the rows, by increasing positions or a mask; they stay in their chunks."""
        chosen = self.index[index]
        if np.any(np.diff(chosen) < 0):
            raise IndexError("rows in Dask chunks can be taken in increasing order only")
        return replace(self, index=chosen)

    def load(self, index: np.ndarray | None = None) -> Matrix:
        """Values of some rows in any order, or of all rows."""
        if index is None:
            return cast("Matrix", _loaded(self, None)[0])
        index, places = np.unique(index, return_inverse=True)
        return self.take(index).load()[places]

    def gather(self, index: np.ndarray) -> Rows:
        """Some of the rows, in memory if they fit."""
        found, _ = self.load_together(None, index)
        return found if isinstance(found, Rows) else ArrayRows(found)

    def load_together(self, other: DaskRows | None, index: np.ndarray) -> tuple[Any, Any]:
        """Some of these rows and of another table's (or None): values if they fit into memory, else rows."""
        tables = [table.take(index) for table in (self, other) if table is not None]
        itemsize = [np.dtype(getattr(table.recipe, "dtype", np.float64)).itemsize for table in tables]
        n_bytes = sum(table.size * (size + 4 * (table.density < 1)) for table, size in zip(tables, itemsize))
        first, second = (*tables, None)[:2]
        return (first, second) if n_bytes > GATHERED * available_memory() else _loaded(first, second)

    def map(self, function: Callable[..., Any], n_columns: int | None = None) -> DaskRows:
        """Rows of function(values), evaluated in every pass."""
        recipe = Mapped((self.recipe,), function)
        return replace(self, recipe=recipe, n_columns=n_columns or self.n_columns, density=1.0)

    def with_gaps(self, available: np.ndarray) -> DaskRows:
        """The rows with NaN where privileged features are not available; the collection has NaN there."""
        return replace(self, recipe=replace(self.recipe, gaps=True))

    def combine(self, function: Callable[..., Any], tables: Sequence[DaskRows]) -> DaskRows:
        """Rows of a function of several tables, whose columns it puts side by side."""
        recipe = Mapped(tuple(table.recipe for table in tables), function)
        return replace(self, recipe=recipe, n_columns=sum(table.n_columns for table in tables), density=1.0)

    def run(self, function: Callable[..., Any], join: str, arguments: dict[str, Any], by_row: tuple[str, ...]) -> Any:
        """Run a :func:`~lupi.inputs.training_set.chunkwise` function on all chunks and join the results."""
        held = [value.recipe if isinstance(value, DaskRows) else value for value in arguments.values()]
        split = [name in by_row and value is not None for name, value in arguments.items()]
        ends = np.cumsum(self.sizes)
        starts = ends - self.sizes
        first, last = np.searchsorted(self.index, starts), np.searchsorted(self.index, ends)
        chosen = np.flatnonzero(last > first)

        def call(k: int) -> tuple[Any, ...]:
            local = self.index[first[k] : last[k]] - starts[k]
            whole = len(local) == self.sizes[k] and bool(np.all(np.diff(local) == 1))
            parts = [cast("Any", v)[..., first[k] : last[k]] if part else v for v, part in zip(held, split)]
            return function, slice(None) if whole else local, parts

        results = over_blocks(_on_block, [self.blocks[k] for k in chosen], map(call, chosen.tolist()))
        return _summed(results) if join == "sum" else _concatenated(list(results))


@dataclass(frozen=True)
class _Transposed:
    rows: DaskRows

    def __matmul__(self, V: np.ndarray) -> np.ndarray:
        return self.rows.transposed_times(V)


def _on_block(block: RowBlock, function: Callable[..., Any], local: Any, arguments: list[Any]) -> Any:
    """The function of a chunk, with the chunk's rows in place of recipes."""
    names = {name: None for value in arguments if isinstance(value, Collection | Mapped) for name in value.names}
    made = dict(zip(names, block.make(names)))
    return function(*(v(made)[local] if isinstance(v, Collection | Mapped) else v for v in arguments))


def _summed(results: Iterator[Any]) -> Any:
    out = next(results)
    for result in results:
        out = tuple(a + b for a, b in zip(out, result)) if isinstance(out, tuple) else out + result
    return out


def _concatenated(parts: list[Any]) -> Any:
    if isinstance(parts[0], tuple):
        return tuple(_concatenated([part[k] for part in parts]) for k in range(len(parts[0])))
    if parts[0] is None:
        return None
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)


@chunkwise("concatenate")
def _loaded(first: Any, second: Any) -> tuple[Any, Any]:
    return first, second


def read_dask(
    estimator_name: str, X: Any, spaces: dict[Any, Any], vectors: dict[str, Any], dtypes: Sequence[Any]
) -> tuple[Any, dict[Any, Any], list[Any]]:
    """Check collections that are chunked alike, in one pass.

    Many rows stay in their chunks, as DaskRows and as a PrivilegedBlock per space; few rows come back as tables in memory.
    Vectors come back whole.
    """
    keys = {"privileged" if space is None else f"privileged[{space!r}]": space for space in spaces}
    blocks = row_blocks({"X": X, **dict(zip(keys, spaces.values()))}, estimator_name)
    facts = list(over_blocks(_examine, blocks, [(keys, estimator_name)] * len(blocks)))
    sizes = np.array([len(fact["X"].available) for fact in facts])
    n = int(sizes.sum())
    if n == 0:
        raise ValueError(f"{estimator_name}: `X` has no rows.")
    by_key = {key: [fact[key] for fact in facts] for key in ("X", *keys)}
    rows = {key: _rows(key, blocks, sizes, found, dtypes, estimator_name) for key, found in by_key.items()}
    whole = _values_here(*vectors.values())
    for name, vector in zip(vectors, whole):
        if vector is not None and not np.isscalar(vector) and len(vector) != n:
            problem = f"`{name}` has {len(vector)} entries, but the chunks of `X` have {n} rows"
            raise ValueError(f"{estimator_name}: {problem}.")
    if n <= IN_MEMORY:
        X, *tables_here = _values_here(X, *spaces.values())
        return X, dict(zip(spaces, tables_here)), whole
    what = f"{estimator_name} on {n} examples, with {VECTORS} numbers for each of them in this process,"
    require_memory(8.0 * VECTORS * n, what, "train on a sample of the rows")
    tables = {}
    for key, space in keys.items():
        available = np.concatenate([fact.available for fact in by_key[key]])
        tables[space] = PrivilegedBlock(space, rows[key], available, column_names(spaces[space]))
    return rows["X"], tables, whole


def row_blocks(collections: dict[str, Any], estimator_name: str) -> list[RowBlock]:
    """Blocks of rows of collections that are chunked alike; the first one is X."""
    parts = {name: _one_chunk_of_columns(name, data, estimator_name) for name, data in collections.items()}
    graph, keys = {}, {}
    for name, part in parts.items():
        _check_alike(parts["X"], name, part, estimator_name)
        # Optimized frames read only the selected columns of files. Arrays share tasks as long as they are not fused.
        part = part.optimize() if hasattr(part, "optimize") else part
        graph.update(part.__dask_graph__())
        keys[name] = [key[0] if isinstance(key, list) else key for key in part.__dask_keys__()]
    numbered = enumerate(zip(*keys.values()))
    return [RowBlock(cull(graph, list(row))[0], dict(zip(keys, row)), number) for number, row in numbered]


def _one_chunk_of_columns(name: str, data: Any, estimator_name: str) -> Any:
    if not (hasattr(data, "__dask_graph__") and hasattr(data, "ndim")):
        advice = "where `X` is a Dask collection, pass a dask.array or dask.dataframe with the same chunks of rows"
        raise ValueError(f"{estimator_name}: `{name}` is a {type(data).__name__}; {advice}.")
    return data.rechunk({1: -1}) if hasattr(data, "numblocks") and data.ndim == 2 and data.numblocks[1] > 1 else data


def _check_alike(X: Any, name: str, data: Any, estimator_name: str) -> None:
    """Raise if the chunks differ from those of X; Dask does not know the sizes of all chunks."""
    expected, sizes = (
        tuple(part.chunks[0]) if hasattr(part, "chunks") else (np.nan,) * part.npartitions for part in (X, data)
    )
    known = not np.isnan([*expected, *sizes]).any()
    if len(expected) == len(sizes) and (not known or expected == sizes):
        return
    first, second = (
        f"{len(s)} chunks of rows" + f", the first of sizes {list(s[:4])}" * bool(known) for s in (expected, sizes)
    )
    remedy = f"{name}.rechunk({{0: X.chunks[0]}})" if hasattr(data, "chunks") else f"{name}.repartition(...)"
    problem = f"`X` has {first}, but `{name}` has {second}"
    raise ValueError(f"{estimator_name}: {problem}; chunk both alike, such as {remedy}.")


class ChunkFacts:
    """Results of the check of one chunk of a collection."""

    def __init__(self, values: Any, available: np.ndarray) -> None:
        self.width, self.single, self.available = values.shape[1], values.dtype == np.float32, available
        self.entries = int(values.nnz if sparse.issparse(values) else values.size)


def _examine(block: RowBlock, spaces: dict[str, Any], estimator_name: str) -> dict[str, ChunkFacts]:
    """Check the rows of a chunk: X finite, as many privileged rows as rows of X, each whole or missing."""
    owner = f"{estimator_name}, chunk {block.number}"
    X, *tables = block.make(["X", *spaces])
    refuse_masked(X, f"{owner}: `X`")
    n_rows = int(np.shape(X)[0])
    options = {"accept_sparse": "csr", "dtype": list(SINGLE), "input_name": "X", "ensure_min_samples": 0}
    values = check_array(X, **options, estimator=owner)
    facts = {"X": ChunkFacts(values, np.ones(n_rows, dtype=bool))}
    for (key, space), table in zip(spaces.items(), tables):
        checked = read_block(owner, space, table, n_rows, X, dtypes=SINGLE)
        facts[key] = ChunkFacts(checked.rows.values, checked.available)
    return facts


def _rows(
    key: str, blocks: Sequence[RowBlock], sizes: np.ndarray, facts: list[ChunkFacts], dtypes: Any, estimator_name: str
) -> DaskRows:
    """Rows of a collection, which has the same columns in all chunks."""
    filled = [(number, fact) for number, fact in enumerate(facts) if sizes[number]]
    first, width = filled[0][0], filled[0][1].width
    for number, fact in filled:
        if fact.width != width:
            problem = f"chunk {first} of `{key}` has {width} columns, but chunk {number} has {fact.width}"
            raise ValueError(f"{estimator_name}: {problem}; all chunks must have the same.")
    single = np.float32 in dtypes and all(fact.single for _, fact in filled)
    density = sum(fact.entries for _, fact in filled) / (sizes.sum() * width)
    recipe = Collection(key, np.float32 if single else dtypes[0])
    return DaskRows(tuple(blocks), sizes, recipe, width, np.arange(sizes.sum()), density)


def over_blocks(
    function: Callable[..., Any], blocks: Sequence[RowBlock], arguments: Iterable[tuple[Any, ...]]
) -> Iterator[Any]:
    """``function(block, *arguments)`` of every block, in order: on the user's Dask client, otherwise in threads."""
    client = _client()
    if client is None:
        serial = dask.config.get("scheduler", None) in ("synchronous", "sync", "single-threaded")
        n_threads = 1 if serial else int(dask.config.get("num_workers", None) or cpu_count())
        options: dict[str, Any] = {"return_as": "generator", "batch_size": 1, "pre_dispatch": n_threads}
        work = (delayed(function)(block, *rest) for block, rest in zip(blocks, arguments))
        # One BLAS thread per chunk: more would compete with the other chunks.
        with threadpool_limits(limits=1):
            yield from Parallel(n_threads, backend="threading", **options)(work)
        return
    with cluster_errors(TRAINING_IS_LOST):
        n_threads = count_threads(client)
    calls = enumerate(zip(blocks, arguments))
    starts = ((lambda place=k, call=call: _start(client, function, place, *call)) for k, call in calls)
    waiting, place = {}, 0
    for number, result in as_they_arrive(client, starts, CHUNKS_PER_THREAD * n_threads, TRAINING_IS_LOST):
        waiting[number] = result
        while place in waiting:
            yield waiting.pop(place)
            place += 1


def _values_here(*collections: Any) -> list[Any]:
    """Values of collections, anything else as it is; a cluster that has lost its workers is an error."""
    client = _client()
    if client is None:
        return list(compute(*collections, traverse=False))
    lazy = {k: client.compute(data) for k, data in enumerate(collections) if hasattr(data, "__dask_graph__")}
    starts = [partial(client.submit, tuple, [k, future]) for k, future in lazy.items()]
    found = dict(as_they_arrive(client, starts, len(starts), TRAINING_IS_LOST))
    return [found.get(k, data) for k, data in enumerate(collections)]


def _client() -> Any:
    """The Dask client of the user or of :func:`lupi.run.cluster`; None for threads."""
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    if dask.config.get("scheduler", None) not in (None, "dask.distributed", "distributed"):
        return None
    try:
        return default_client()
    except ValueError:
        return None


def _start(client: Any, function: Callable[..., Any], place: int, block: RowBlock, rest: tuple[Any, ...]) -> Any:
    """Submit one block; the scheduler brings the values of persisted collections."""
    values = None
    # Each block carries its part of the vectors.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):
        if any(type(task).__name__ == "Future" for task in block.graph.values()):
            values = client.get(block.graph, list(block.keys.values()), sync=False)
            block = replace(block, graph={})
        return client.submit(_visit, function, place, block, values, *rest, pure=False)


def _visit(function: Callable[..., Any], place: int, block: RowBlock, values: Any, *rest: Any) -> tuple[int, Any]:
    if values is not None:
        block = replace(block, graph=dict(zip(block.keys.values(), values)))
    with threadpool_limits(limits=1):
        return place, function(block, *rest)
