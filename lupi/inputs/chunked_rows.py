"""Feature tables that stay where they are: products with them are passes over blocks of their rows.

A function over rows is written once, for rows in memory. Decorated with :func:`chunkwise` it takes :class:`ChunkedRows` as well:
it then runs on every block, and the results are added up or put one after the other. What goes out are the vectors that the
block's rows need, what comes back is one small sum or one number a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import wraps
from inspect import signature
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

from lupi.inputs.chunks import RowBlock, block_values
from lupi.inputs.memory import available_memory
from lupi.inputs.passes import over_blocks
from lupi.inputs.types import Matrix

Function = TypeVar("Function", bound=Callable[..., Any])

# Rows that take no more than this share of the free memory are brought here when some of the rows are asked for.
GATHERED = 0.25


@dataclass(frozen=True)
class Collection:
    """One of the blocks' collections, as numbers; with ``gaps`` missing rows stay NaN, else they are 0."""

    name: str
    dtype: Any = np.float64
    gaps: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Collections that have to be made."""
        return (self.name,)

    def __call__(self, made: dict[str, Any]) -> Any:
        """The block's rows."""
        return block_values(made[self.name], self.dtype, self.gaps)


@dataclass(frozen=True, eq=False)
class Mapped:
    """Rows of another table, each changed by a function."""

    rows: Any
    function: Callable[..., Any]

    @property
    def names(self) -> tuple[str, ...]:
        """Collections that have to be made."""
        return tuple(self.rows.names)

    def __call__(self, made: dict[str, Any]) -> Any:
        """The block's rows."""
        return self.function(self.rows(made))


@dataclass(frozen=True, eq=False)
class Beside:
    """Tables side by side, each times a scale."""

    parts: tuple[Any, ...]
    scales: tuple[float, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Collections that have to be made."""
        return tuple(name for part in self.parts for name in part.names)

    def __call__(self, made: dict[str, Any]) -> Any:
        """The block's rows."""
        return np.hstack([scale * part(made) for scale, part in zip(self.scales, self.parts)])


@dataclass(frozen=True)
class Affine:
    """From rows x to x @ matrix + shift."""

    matrix: np.ndarray
    shift: np.ndarray

    def __call__(self, rows: Any) -> np.ndarray:
        """The rows' images."""
        return np.asarray(rows @ self.matrix + self.shift)


@dataclass(frozen=True, eq=False)
class ChunkedRows:
    """A table of which only the shape is here.

    Parameters
    ----------
    blocks : sequence of RowBlock
        How to make its rows.
    sizes : ndarray of int, shape (n_blocks,)
        Rows of each block.
    recipe : Collection, Mapped or Beside
        From what a block makes to the rows.
    n_columns : int
    density : float
        Share of the entries that are stored.
    index : ndarray of int, optional
        The rows that count, in increasing order; all of them if not given.
    """

    blocks: tuple[RowBlock, ...]
    sizes: np.ndarray
    recipe: Any
    n_columns: int
    density: float = 1.0
    index: np.ndarray | None = None

    ndim = 2

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.sizes.sum()) if self.index is None else len(self.index), self.n_columns

    @property
    def size(self) -> int:
        """Entries that a product visits."""
        return int(self.density * self.shape[0] * self.n_columns)

    @property
    def nbytes(self) -> float:
        """Bytes of the rows, were they here."""
        each = np.dtype(getattr(self.recipe, "dtype", np.float64)).itemsize + (4 if self.density < 1 else 0)
        return float(self.size * each)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: np.ndarray) -> Any:
        return take_rows(self, None, index)[0]

    def __matmul__(self, vector: np.ndarray) -> np.ndarray:
        return _product(self, vector)

    @property
    def T(self) -> Transposed:
        """For products with the columns."""
        return Transposed(self)

    def view(self, index: np.ndarray) -> ChunkedRows:
        """Some of the rows, which stay where they are."""
        index = np.asarray(index)
        index = np.flatnonzero(index) if index.dtype == bool else index
        if len(index) > 1 and np.any(np.diff(index) < 0):
            raise IndexError("rows in blocks are taken in increasing order")
        return replace(self, index=index if self.index is None else self.index[index])

    def mapped(self, function: Callable[..., Any], n_columns: int | None = None) -> ChunkedRows:
        """The rows, each changed by a function when it is made."""
        return replace(self, recipe=Mapped(self.recipe, function), n_columns=n_columns or self.n_columns, density=1.0)

    def with_gaps(self) -> ChunkedRows:
        """The rows with NaN where a collection has NaN."""
        return replace(self, recipe=replace(self.recipe, gaps=True))

    def places(self) -> Iterator[tuple[int, np.ndarray | None, slice]]:
        """Blocks with rows that count: which of theirs (None: all), and where these are among all that count."""
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


# What functions over rows take: in memory, or in chunks.
AnyRows: TypeAlias = Matrix | ChunkedRows


@dataclass(frozen=True)
class Transposed:
    """The columns of a table in blocks."""

    rows: ChunkedRows

    def __matmul__(self, vector: np.ndarray) -> np.ndarray:
        return _transposed_product(self.rows, np.asarray(vector).T).T


def chunkwise(join: Callable[..., Any], *by_row: str) -> Callable[[Function], Function]:
    """Let a function of rows in memory take rows in blocks.

    Parameters
    ----------
    join : callable
        :func:`total` or :func:`in_a_row`: makes one result of those of the blocks, which come in order.
    *by_row : str
        Arguments whose last axis are the rows; a block gets its part of them.

    Examples
    --------
    >>> @chunkwise(total, "vector")
    ... def count(data, vector):
    ...     return vector.sum()
    >>> float(count(np.zeros((2, 1)), np.ones(2)))
    2.0
    """

    def decorate(function: Function) -> Function:
        names = list(signature(function).parameters)

        @wraps(function)
        def run(*arguments: Any) -> Any:
            tables = [value for value in arguments if isinstance(value, ChunkedRows)]
            if not tables:
                return function(*arguments)
            return join(_pass(run, tables, dict(zip(names, arguments)), by_row))

        return cast("Function", run)

    return decorate


def _pass(
    function: Callable[..., Any], tables: list[ChunkedRows], arguments: dict[str, Any], by_row: tuple[str, ...]
) -> Iterator[Any]:
    rows = tables[0]
    places = list(rows.places())
    recipes = [table.recipe for table in tables]
    held: list[Any] = [
        _Table(tables.index(value)) if isinstance(value, ChunkedRows) else value for value in arguments.values()
    ]
    split = [name in by_row and value is not None for name, value in arguments.items()]
    calls = (
        (function, recipes, local, [v[..., place] if part else v for v, part in zip(held, split)])
        for _, local, place in places
    )
    return over_blocks(_on_block, [rows.blocks[k] for k, _, _ in places], calls)


@dataclass(frozen=True)
class _Table:
    """Where the block's rows go among a function's arguments."""

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


def total(results: Iterator[Any]) -> Any:
    """The sum of the blocks' results: arrays, numbers, or tuples of these."""
    out = None
    for result in results:
        if out is None:
            out = result
        elif isinstance(out, tuple):
            out = tuple(a + b for a, b in zip(out, result))
        else:
            out = out + result
    return out


def in_a_row(results: Iterator[Any]) -> Any:
    """The blocks' results one after the other: arrays, or tuples of arrays and of None."""
    parts = list(results)
    if isinstance(parts[0], tuple):
        return tuple(_stacked([part[k] for part in parts]) for k in range(len(parts[0])))
    return _stacked(parts)


def _stacked(parts: list[Any]) -> Any:
    from scipy import sparse

    if parts[0] is None:
        return None
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)


@chunkwise(in_a_row)
def _product(data: Any, matrix: np.ndarray) -> np.ndarray:
    return np.asarray(data @ matrix, dtype=np.float64)


@chunkwise(total, "vector")
def _transposed_product(data: Any, vector: np.ndarray) -> np.ndarray:
    return np.asarray((data.T @ vector.T).T, dtype=np.float64)


@chunkwise(in_a_row)
def _gathered(X: Any, Z: Any) -> tuple[Any, Any]:
    return X, Z


def tables_beside(tables: list[ChunkedRows], scales: list[float]) -> ChunkedRows:
    """Tables side by side, each times a scale."""
    recipe = Beside(tuple(table.recipe for table in tables), tuple(scales))
    return replace(tables[0], recipe=recipe, n_columns=sum(table.n_columns for table in tables), density=1.0)


def rows_here(table: Any, index: np.ndarray) -> Any:
    """Some rows in memory, wherever the table is; in any order."""
    if not isinstance(table, ChunkedRows):
        return table[index]
    order = np.argsort(index, kind="stable")
    out = _gathered(table.view(index[order]), None)[0]
    return out[np.argsort(order, kind="stable")]


def take_rows(X: Any, Z: Any, index: np.ndarray) -> tuple[Any, Any]:
    """Some rows of both tables (Z may be None), in increasing order, perhaps repeated.

    Rows in blocks are brought here if they fit; if not, they stay there.
    """
    if not isinstance(X, ChunkedRows):
        return X[index], None if Z is None else Z[index]
    parts = X.view(index), None if Z is None else Z.view(index)
    if sum(part.nbytes for part in parts if part is not None) > GATHERED * available_memory():
        return parts
    return _gathered(*parts)
