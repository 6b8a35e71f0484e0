"""What `fit` is given as Dask collections: one look at every chunk, and tables that stay where they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import assert_all_finite, column_or_1d

from lupi.inputs import PrivilegedInput, column_names, is_chunked
from lupi.inputs.chunked_rows import ChunkedRows, Collection, take_rows
from lupi.inputs.chunks import BlockFacts, examine_block, row_blocks
from lupi.inputs.passes import over_blocks
from lupi.inputs.types import MatrixLike, PrivilegedLike, VectorLike
from lupi.kernels import require_memory

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

# Up to so many examples are brought into memory: there the solvers on kernel matrices have their place.
IN_MEMORY = 5000
# Vectors of one number for each example that training holds here, at most at a time: 22 with squared hinges, 37 with hinges.
VECTORS = 40


@dataclass
class ChunkedInput:
    """Checked chunks.

    Attributes
    ----------
    X : ChunkedRows, or array of few examples
    privileged : PrivilegedInput or None
        Its data are ChunkedRows, too.
    vectors : dict of str to ndarray or None
        y, sample_weight and the like, whole.
    feature_names : ndarray of str or None
    """

    X: Any
    privileged: PrivilegedInput | None
    vectors: dict[str, Any]
    feature_names: np.ndarray | None

    def set_columns(self, estimator: BaseEstimator) -> None:
        """What scikit-learn's check of X leaves behind."""
        estimator.n_features_in_ = self.X.shape[1]
        vars(estimator).pop("feature_names_in_", None)
        if self.feature_names is not None:
            estimator.feature_names_in_ = self.feature_names

    def table(self) -> MatrixLike:
        """X; that of few examples as `fit` takes it, with its names."""
        if self.feature_names is None or isinstance(self.X, ChunkedRows):
            return self.X
        import pandas as pd

        return pd.DataFrame(self.X, columns=list(self.feature_names))


def read_chunks(
    estimator: BaseEstimator,
    X: MatrixLike,
    privileged: PrivilegedLike = None,
    dtypes: Sequence[Any] = (np.float64, np.float32),
    **vectors: Any,
) -> ChunkedInput:
    """Look at every chunk once: checks, vectors, shapes.

    Parameters
    ----------
    estimator : object
        Who asks; its name begins the error messages.
    X, privileged : dask.array.Array or dask.dataframe.DataFrame, privileged also None
        Chunked by rows alike. A privileged row that is entirely NaN is not available.
    dtypes : sequence of dtype
        Precisions that tables are kept in; others become the first.
    **vectors : Dask collection, array-like or None
        One value for each row, chunked as X or whole.

    Returns
    -------
    ChunkedInput
    """
    name = type(estimator).__name__
    collections = {"X": X, **({} if privileged is None else {"privileged": privileged})}
    collections |= {key: value for key, value in vectors.items() if is_chunked(value)}
    blocks = row_blocks(collections, estimator_name=name)
    facts = list(over_blocks(examine_block, blocks, [(list(collections), name)] * len(blocks)))
    sizes = np.array([fact.n_rows for fact in facts])
    if sizes.sum() == 0:
        raise ValueError(f"{name}: `X` has no rows.")
    gathered = {key: _whole(key, value, facts, int(sizes.sum()), name) for key, value in vectors.items()}
    tables = {key: _table(key, blocks, sizes, facts, dtypes, name) for key in ("X", "privileged") if key in collections}
    rows = tables["X"], tables.get("privileged")
    if sizes.sum() <= IN_MEMORY:
        rows = take_rows(*rows, np.arange(sizes.sum()))
    else:
        require_memory(
            8.0 * VECTORS * sizes.sum(),
            f"{name} on {sizes.sum()} examples, with {VECTORS} numbers for each of them in this process,",
            "train on a sample of the rows",
        )
    if rows[1] is not None:
        available = np.concatenate([fact.available for fact in facts])
        checked = PrivilegedInput(rows[1], available, column_names(privileged))
    return ChunkedInput(rows[0], None if rows[1] is None else checked, gathered, column_names(X))


def not_linear(X: ChunkedRows) -> ValueError:
    """The error of a machine that cannot be trained without its examples in memory."""
    return ValueError(
        f"{X.shape[0]} examples in chunks are trained over the weights of linear functions: this needs kernel='linear', "
        "privileged_kernel='linear', solver='auto' and, with hinges, no more than 5000 weights."
    )


def check_target(y: VectorLike) -> np.ndarray:
    """Labels that were gathered from chunks: one column, nothing missing."""
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None.")
    labels: np.ndarray = column_or_1d(y, warn=True)
    assert_all_finite(labels, input_name="y")
    return labels


def _whole(key: str, value: Any, facts: list[BlockFacts], n: int, name: str) -> Any:
    """A vector of all rows."""
    if is_chunked(value):
        return np.concatenate([fact.vectors[key] for fact in facts])
    if value is not None and not np.isscalar(value) and len(value) != n:
        raise ValueError(f"{name}: `{key}` has {len(value)} entries, but the chunks of `X` have {n} rows.")
    return value


def _table(key: str, blocks: Any, sizes: Any, facts: list[BlockFacts], dtypes: Any, name: str) -> Any:
    widths = {fact.widths[key]: number for number, fact in enumerate(facts) if fact.n_rows}
    if len(widths) > 1:
        (width, first), (other, second) = list(widths.items())[:2]
        raise ValueError(
            f"{name}: chunk {first} of `{key}` has {width} columns, but chunk {second} has {other}; all need the same."
        )
    width = next(iter(widths))
    single = all(fact.single[key] for fact in facts if fact.n_rows)
    dtype = np.float32 if single and np.float32 in dtypes else dtypes[0]
    stored = sum(fact.entries[key] for fact in facts)
    return ChunkedRows(tuple(blocks), sizes, Collection(key, dtype), width, stored / (sizes.sum() * width))
