"""Rows of a feature table: in memory (dense or CSR) or in the chunks of a Dask collection.

A function over rows is written once, for arrays. Decorated with :func:`chunkwise` it accepts :class:`ArrayRows` and
:class:`DaskRows` as well: chunk by chunk, with the results summed or concatenated. A pass sends each chunk its part of the
vectors, and returns a small sum or one number per row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from inspect import signature
from typing import Any, Protocol, TypeVar, cast

import numpy as np
from scipy import sparse

from lupi.inputs.chunks import RowBlock, block_values
from lupi.inputs.memory import available_memory
from lupi.inputs.passes import over_blocks
from lupi.inputs.types import Matrix

Function = TypeVar("Function", bound=Callable[..., Any])

# Rows in a product of single-precision or sparse data: large enough for BLAS, small enough for the cache.
BLOCK = 1024
# Dask rows are loaded if they take at most this share of the free memory.
GATHERED = 0.25


class Rows(Protocol):
    """Rows of a table, wherever they are."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""

    @property
    def resident(self) -> bool:
        """Whether the rows are in memory, as ``values``."""

    @property
    def n_entries(self) -> int:
        """Number of stored entries, which a product visits."""

    def times(self, W: np.ndarray) -> np.ndarray:
        """X W in double precision, of a vector or a matrix."""

    def transposed_times(self, V: np.ndarray) -> np.ndarray:
        """X' V in double precision, of a vector or a matrix."""

    def gram(self, weight: np.ndarray, other: Any = None) -> np.ndarray:
        """X' diag(weight) other; other is X by default."""

    def take(self, index: np.ndarray) -> Any:
        """Some of the rows; Dask rows stay where they are, and only increasing positions are possible."""

    def load(self, index: np.ndarray | None = None) -> Matrix:
        """Values of some rows in any order, or of all rows, in memory."""

    def map(self, function: Callable[..., Any], n_columns: int) -> Any:
        """Rows of function(values), which has n_columns columns."""


class _Products:
    """Products of rows with vectors and matrices."""

    def times(self, W: np.ndarray) -> np.ndarray:
        """X W in double precision, of a vector or a matrix."""
        return cast("np.ndarray", _times(self, W))

    def transposed_times(self, V: np.ndarray) -> np.ndarray:
        """X' V in double precision, of a vector or a matrix."""
        return cast("np.ndarray", _transposed_times(self, np.asarray(V).T).T)

    def gram(self, weight: np.ndarray, other: Any = None) -> np.ndarray:
        """X' diag(weight) other; other is X by default."""
        return cast("np.ndarray", _gram(self, other, weight))


@dataclass(frozen=True, eq=False)
class ArrayRows(_Products):
    """Rows in memory.

    Attributes
    ----------
    values : ndarray or CSR matrix
        Of a training set in C order or canonical CSR.
    square : bool
        Whether the values are a kernel matrix, of which `take` selects rows and columns.

    Examples
    --------
    >>> rows = ArrayRows(np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> rows.times(np.array([1.0, 1.0])), rows.take(np.array([1])).values
    (array([3., 7.]), array([[3., 4.]]))
    """

    values: Any
    square: bool = False
    resident = True

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return cast("tuple[int, int]", self.values.shape)

    @property
    def n_entries(self) -> int:
        """Number of stored entries, which a product visits."""
        return int(self.values.nnz if sparse.issparse(self.values) else self.values.size)

    def take(self, index: np.ndarray) -> ArrayRows:
        """Some of the rows, and of a kernel matrix the same columns; no copy if these are all rows in order."""
        if np.array_equal(index, np.arange(self.shape[0])):
            return self
        return replace(self, values=self.values[np.ix_(index, index)] if self.square else self.values[index])

    def load(self, index: np.ndarray | None = None) -> Matrix:
        """Values of some rows, or of all."""
        return cast("Matrix", self.values if index is None else self.values[index])

    def map(self, function: Callable[..., Any], n_columns: int | None = None) -> ArrayRows:
        """Rows of function(values)."""
        return ArrayRows(function(self.values))


@dataclass(frozen=True, eq=False)
class ObjectRows:
    """Inputs of a structured task, one object per row; None where a privileged input is not available."""

    values: Sequence[Any]
    resident = True

    @property
    def shape(self) -> tuple[int]:
        """Number of rows."""
        return (len(self.values),)

    def take(self, index: np.ndarray) -> ObjectRows:
        """Some of the rows."""
        return ObjectRows([self.values[int(i)] for i in index])


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
        return block_values(made[self.name], self.dtype, self.gaps)


@dataclass(frozen=True, eq=False)
class Mapped:
    """Recipe of a chunk's rows: a function of the rows of other recipes side by side."""

    parts: tuple[Any, ...]
    function: Callable[..., Any]

    @property
    def names(self) -> tuple[str, ...]:
        """Collections that the recipe reads."""
        return tuple(name for part in self.parts for name in part.names)

    def __call__(self, made: dict[str, Any]) -> Any:
        """Rows of the chunk."""
        return self.function(*(part(made) for part in self.parts))


@dataclass(frozen=True)
class Affine:
    """The map from rows x to x @ matrix + shift."""

    matrix: np.ndarray
    shift: np.ndarray

    def __call__(self, rows: Any) -> np.ndarray:
        """Images of the rows."""
        return np.asarray(rows @ self.matrix + self.shift)


@dataclass(frozen=True)
class Scaled:
    """The map from tables to their columns side by side, each table times a factor."""

    factors: tuple[float, ...]

    def __call__(self, *tables: Any) -> Any:
        """Columns of all tables."""
        parts = [factor * table for factor, table in zip(self.factors, tables)]
        if any(sparse.issparse(part) for part in parts):
            return sparse.csr_matrix(sparse.hstack(parts))
        return np.hstack(parts)


@dataclass(frozen=True, eq=False)
class DaskRows(_Products):
    """Rows in the chunks of a Dask collection, computed anew in every pass.

    Attributes
    ----------
    blocks : tuple of RowBlock
        How to compute each chunk.
    sizes : ndarray of int, shape (n_blocks,)
        Rows of each chunk.
    recipe : Collection or Mapped
        Makes the rows of a chunk from the collections.
    n_columns : int
    density : float
        Share of the entries that are stored.
    index : ndarray of int or None
        Selected rows in increasing order; None for all.
    """

    blocks: tuple[RowBlock, ...]
    sizes: np.ndarray
    recipe: Any
    n_columns: int
    density: float = 1.0
    index: np.ndarray | None = None
    resident = False
    square = False
    ndim = 2

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return int(self.sizes.sum()) if self.index is None else len(self.index), self.n_columns

    @property
    def n_entries(self) -> int:
        """Number of stored entries, which a product visits."""
        return int(self.density * self.shape[0] * self.n_columns)

    @property
    def nbytes(self) -> float:
        """Memory that the loaded rows would take."""
        each = np.dtype(getattr(self.recipe, "dtype", np.float64)).itemsize + (4 if self.density < 1 else 0)
        return float(self.n_entries * each)

    def __len__(self) -> int:
        return self.shape[0]

    def take(self, index: np.ndarray) -> DaskRows:
        """Some of the rows, by increasing positions or a mask; they stay in their chunks."""
        index = np.asarray(index)
        index = np.flatnonzero(index) if index.dtype == bool else index
        if len(index) > 1 and np.any(np.diff(index) < 0):
            raise IndexError("rows in Dask chunks can be taken in increasing order only")
        return replace(self, index=index if self.index is None else self.index[index])

    def load(self, index: np.ndarray | None = None) -> Matrix:
        """Values of some rows in any order, or of all rows."""
        if index is None:
            return cast("Matrix", _load(self))
        order = np.argsort(index, kind="stable")
        return cast("Matrix", _load(self.take(np.asarray(index)[order]))[np.argsort(order, kind="stable")])

    def map(self, function: Callable[..., Any], n_columns: int | None = None) -> DaskRows:
        """Rows of function(values), evaluated in every pass."""
        return replace(
            self, recipe=Mapped((self.recipe,), function), n_columns=n_columns or self.n_columns, density=1.0
        )

    def places(self) -> Iterator[tuple[int, np.ndarray | None, slice]]:
        """Chunks with selected rows: number, positions in the chunk (None for all), positions among the selected."""
        ends = np.cumsum(self.sizes)
        starts = ends - self.sizes
        if self.index is None:
            yield from ((k, None, slice(starts[k], ends[k])) for k in range(len(ends)) if self.sizes[k])
            return
        first, last = np.searchsorted(self.index, starts), np.searchsorted(self.index, ends)
        for k in np.flatnonzero(last > first):
            local = self.index[first[k] : last[k]] - starts[k]
            whole = len(local) == self.sizes[k] and bool(np.all(np.diff(local) == 1))
            yield int(k), None if whole else local, slice(first[k], last[k])

    # Names that callers of the old interface still use.
    size = n_entries

    def __getitem__(self, index: np.ndarray) -> Any:
        found = take_together([self], index)[0]
        return found.values if found.resident else found

    def __matmul__(self, matrix: np.ndarray) -> np.ndarray:
        return self.times(matrix)

    @property
    def T(self) -> Any:
        """For products with the columns."""
        return _Transposed(self)

    view, mapped = take, map

    def with_gaps(self) -> DaskRows:
        """The rows with NaN where a collection has NaN."""
        return replace(self, recipe=replace(self.recipe, gaps=True))


@dataclass(frozen=True)
class _Transposed:
    rows: DaskRows

    def __matmul__(self, vector: np.ndarray) -> np.ndarray:
        return self.rows.transposed_times(vector)


def side_by_side(tables: Sequence[Any], factors: Sequence[float]) -> Any:
    """Rows with the columns of several tables, each table times its factor.

    Examples
    --------
    >>> side_by_side([ArrayRows(np.ones((1, 1))), ArrayRows(np.ones((1, 2)))], [1.0, 3.0]).values
    array([[1., 3., 3.]])
    """
    join, n_columns = Scaled(tuple(factors)), sum(table.shape[1] for table in tables)
    if isinstance(tables[0], ArrayRows):
        return ArrayRows(join(*(table.values for table in tables)))
    recipe = Mapped(tuple(table.recipe for table in tables), join)
    return replace(tables[0], recipe=recipe, n_columns=n_columns, density=1.0)


def take_together(tables: Sequence[Any], index: np.ndarray) -> list[Any]:
    """Some rows of at most two tables (or None), in increasing order; Dask rows are loaded if they fit into memory."""
    parts = [None if table is None else table.take(index) for table in tables]
    chunked = [part for part in parts if isinstance(part, DaskRows)]
    if not chunked or sum(part.nbytes for part in chunked) > GATHERED * available_memory():
        return parts
    loaded = iter(_load_both(*chunked, *[None] * (2 - len(chunked))))
    return [None if part is None else ArrayRows(next(loaded)) for part in parts]


def chunkwise(join: str, *by_row: str) -> Callable[[Function], Function]:
    """Let a function of arrays accept :class:`ArrayRows` and :class:`DaskRows`.

    Parameters
    ----------
    join : {"sum", "concatenate"}
        How to combine the results of chunks: arrays, numbers or tuples of these.
    *by_row : str
        Arguments whose last axis runs over the rows: each chunk gets its part.

    Examples
    --------
    >>> @chunkwise("sum", "weight")
    ... def count(data, weight):
    ...     return weight.sum()
    >>> float(count(ArrayRows(np.zeros((2, 1))), np.ones(2)))
    2.0
    """
    combine = {"sum": _summed, "concatenate": _concatenated}[join]

    def decorate(function: Function) -> Function:
        names = list(signature(function).parameters)

        @wraps(function)
        def run(*arguments: Any) -> Any:
            tables = [value for value in arguments if isinstance(value, DaskRows)]
            if tables:
                return combine(_pass(run, tables, dict(zip(names, arguments)), by_row))
            return function(*(value.values if isinstance(value, ArrayRows) else value for value in arguments))

        return cast("Function", run)

    return decorate


def _pass(
    function: Callable[..., Any], tables: list[DaskRows], arguments: dict[str, Any], by_row: tuple[str, ...]
) -> Iterator[Any]:
    """Results of all chunks, in order."""
    rows = tables[0]
    places = list(rows.places())
    recipes = [table.recipe for table in tables]
    held = [_Table(tables.index(value)) if isinstance(value, DaskRows) else value for value in arguments.values()]
    split = [name in by_row and value is not None for name, value in arguments.items()]
    calls = (
        (function, recipes, local, [v[..., place] if part else v for v, part in zip(held, split)])
        for _, local, place in places
    )
    return over_blocks(_on_block, [rows.blocks[k] for k, _, _ in places], calls)


@dataclass(frozen=True)
class _Table:
    """Stands for a table among the arguments of a function."""

    place: int


def _on_block(
    block: RowBlock, function: Callable[..., Any], recipes: list[Any], local: np.ndarray | None, arguments: list[Any]
) -> Any:
    names = list(dict.fromkeys(name for recipe in recipes for name in recipe.names))
    made = dict(zip(names, block.make(names)))
    tables = [recipe(made) for recipe in recipes]
    if local is not None:
        tables = [table[local] for table in tables]
    return function(*(tables[value.place] if isinstance(value, _Table) else value for value in arguments))


def _summed(results: Iterator[Any]) -> Any:
    out = next(results)
    for result in results:
        out = tuple(a + b for a, b in zip(out, result)) if isinstance(out, tuple) else out + result
    return out


def _concatenated(results: Iterator[Any]) -> Any:
    parts = list(results)
    if isinstance(parts[0], tuple):
        return tuple(_concatenated(iter([part[k] for part in parts])) for k in range(len(parts[0])))
    if parts[0] is None:
        return None
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)


@chunkwise("concatenate")
def _times(data: Any, W: np.ndarray) -> np.ndarray:
    if sparse.issparse(data) or data.dtype == np.float64:
        return np.asarray(data @ W, dtype=np.float64)
    blocks = [data[i : i + BLOCK].astype(np.float64) @ W for i in range(0, len(data), BLOCK)]
    return np.concatenate(blocks) if blocks else np.zeros((0, *np.shape(W)[1:]))


@chunkwise("sum", "V")
def _transposed_times(data: Any, V: np.ndarray) -> np.ndarray:
    """V X of vectors as rows, so that their last axis runs over the rows of X."""
    if sparse.issparse(data):
        return np.asarray((data.T @ V.T).T, dtype=np.float64)
    if data.dtype == np.float64:
        return np.asarray(V @ data, dtype=np.float64)
    out = np.zeros((*np.shape(V)[:-1], data.shape[1]))
    for i in range(0, len(data), BLOCK):
        out += V[..., i : i + BLOCK] @ data[i : i + BLOCK].astype(np.float64)
    return out


@chunkwise("sum", "weight")
def _gram(data: Any, other: Any, weight: np.ndarray) -> np.ndarray:
    other = data if other is None else other
    out = np.zeros((data.shape[1], other.shape[1]))
    for i in range(0, data.shape[0], BLOCK):
        left, right = (
            (part.toarray() if sparse.issparse(part) else part).astype(np.float64, copy=False)
            for part in (data[i : i + BLOCK], other[i : i + BLOCK])
        )
        out += (left * weight[i : i + BLOCK, None]).T @ right
    return out


@chunkwise("concatenate")
def _load(data: Any) -> Any:
    return data


@chunkwise("concatenate")
def _load_both(first: Any, second: Any) -> tuple[Any, Any]:
    return first, second
