"""Input of `fit` in Dask collections: every chunk is checked once; few rows are brought into memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lupi.inputs.chunks import BlockFacts, examine_block, is_dask, row_blocks
from lupi.inputs.memory import require_memory
from lupi.inputs.passes import over_blocks
from lupi.inputs.rows import Collection, DaskRows
from lupi.inputs.tables import column_names
from lupi.inputs.types import MatrixLike

# Up to this many rows are brought into memory, where the solvers on kernel matrices are faster.
IN_MEMORY = 5000
# Vectors with one number per row that training holds in memory at most: 22 with squared hinges, 37 with hinges.
VECTORS = 40


@dataclass(frozen=True)
class DaskInput:
    """Tables (DaskRows, or values in memory where the rows are few), masks of available rows, and whole vectors."""

    X: Any
    spaces: dict[Any, Any]
    available: dict[Any, np.ndarray]
    vectors: dict[str, Any]
    feature_names: np.ndarray | None


def read_dask(
    estimator_name: str, X: Any, spaces: dict[Any, Any], vectors: dict[str, Any], dtypes: Sequence[Any]
) -> DaskInput:
    """Check collections that are chunked alike, in one pass; `vectors` may also be whole arrays or None."""
    keys = {space: "privileged" if space is None else f"privileged[{space!r}]" for space in spaces}
    tables = {"X": X, **{keys[space]: table for space, table in spaces.items()}}
    chunked = {key: value for key, value in vectors.items() if is_dask(value)}
    blocks = row_blocks(tables | chunked, estimator_name=estimator_name)
    facts = list(over_blocks(examine_block, blocks, [(list(tables), list(chunked), estimator_name)] * len(blocks)))
    sizes = np.array([fact.n_rows for fact in facts])
    n = int(sizes.sum())
    if n == 0:
        raise ValueError(f"{estimator_name}: `X` has no rows.")
    whole = {key: _whole(key, value, facts, n, estimator_name) for key, value in vectors.items()}
    rows = {key: _rows(key, blocks, sizes, facts, dtypes, estimator_name) for key in tables}
    names = column_names(X)
    if n <= IN_MEMORY:
        gaps = {key: replace(table, recipe=replace(table.recipe, gaps=True)).load() for key, table in rows.items()}
        return DaskInput(_frame(gaps["X"], names), {space: gaps[keys[space]] for space in spaces}, {}, whole, names)
    require_memory(
        8.0 * VECTORS * n,
        f"{estimator_name} on {n} examples, with {VECTORS} numbers for each of them in this process,",
        "train on a sample of the rows",
    )
    available = {space: np.concatenate([fact.available[keys[space]] for fact in facts]) for space in spaces}
    return DaskInput(rows["X"], {space: rows[keys[space]] for space in spaces}, available, whole, names)


def _frame(values: MatrixLike, names: np.ndarray | None) -> MatrixLike:
    if names is None:
        return values
    import pandas as pd

    return pd.DataFrame(values, columns=list(names))


def _whole(key: str, value: Any, facts: list[BlockFacts], n: int, estimator_name: str) -> Any:
    """A vector of all rows."""
    if is_dask(value):
        return np.concatenate([fact.vectors[key] for fact in facts])
    if value is not None and not np.isscalar(value) and len(value) != n:
        raise ValueError(f"{estimator_name}: `{key}` has {len(value)} entries, but the chunks of `X` have {n} rows.")
    return value


def _rows(key: str, blocks: Any, sizes: Any, facts: list[BlockFacts], dtypes: Any, estimator_name: str) -> DaskRows:
    widths = {fact.widths[key]: number for number, fact in enumerate(facts) if fact.n_rows}
    if len(widths) > 1:
        (width, first), (other, second) = list(widths.items())[:2]
        raise ValueError(
            f"{estimator_name}: chunk {first} of `{key}` has {width} columns, but chunk {second} has {other}; all chunks must "
            "have the same."
        )
    width = next(iter(widths))
    single = all(fact.single[key] for fact in facts if fact.n_rows)
    dtype = np.float32 if single and np.float32 in dtypes else dtypes[0]
    stored = sum(fact.entries[key] for fact in facts)
    return DaskRows(tuple(blocks), sizes, Collection(key, dtype), width, stored / (sizes.sum() * width))
