"""The input check of every `fit` and `predict`."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from lupi.inputs.chunks import is_dask
from lupi.inputs.dask_input import read_dask
from lupi.inputs.rows import ArrayRows, DaskRows, ObjectRows
from lupi.inputs.spaces import check_per_space, is_per_space, split_spaces, values_per_space
from lupi.inputs.tables import (
    check_magnitude,
    check_row_order,
    column_names,
    is_frame,
    read_table,
    refuse_masked,
    split_missing,
    split_missing_kernel,
)
from lupi.inputs.targets import (
    ALL_LABELED,
    Target,
    check_class_totals,
    check_groups,
    check_weight,
    read_target,
    weigh_classes,
)
from lupi.inputs.types import MatrixLike, PrivilegedLike, VectorLike

DOUBLE = (np.float64,)
SINGLE = (np.float64, np.float32)


@dataclass(frozen=True)
class PrivilegedBlock:
    """One privileged table, or the inputs of one privileged task.

    Attributes
    ----------
    name : hashable or None
        Key of the dict or position in the list that was passed as `privileged`; None for a single table.
    rows : Rows
        Float64 values, 0 in the rows that are not available. ObjectRows for a task whose inputs are not tables.
    available : ndarray of bool
        Which rows have privileged features.
    feature_names : ndarray of str or None
    """

    name: Hashable | None
    rows: Any
    available: np.ndarray
    feature_names: np.ndarray | None = None

    def take(self, index: np.ndarray) -> PrivilegedBlock:
        """Some of the rows."""
        return replace(self, rows=self.rows.take(index), available=self.available[index])


@dataclass(frozen=True)
class TrainingSet:
    """Checked input of `fit`.

    Attributes
    ----------
    X : Rows
        Decision features of the rows that were kept. ObjectRows for a task whose inputs are not tables.
    target : ndarray or sequence
        Class codes (-1 in unlabeled rows), numbers or grades (NaN in unlabeled rows), or structured outputs.
    classes : ndarray or None
        Sorted labels, of a classifier.
    weight : ndarray
        Sample weights, all positive.
    class_weight : ndarray or None
        Weight of each class, of a classifier with a `class_weight`.
    groups : ndarray of int or None
        Group or query ids as 0, 1, ...
    kept : ndarray of int
        Positions of the rows in what the user passed. Zero-weight rows are dropped, and so are rows that have neither
        a label nor privileged features.
    privileged : tuple of PrivilegedBlock
        One per privileged table; empty without `privileged`.
    n_rows : int
        Number of rows that the user passed.
    feature_names : ndarray of str or None
        Column names of X.
    source : object
        X in the user's container, all rows.
    """

    X: Any
    target: Any
    classes: np.ndarray | None
    weight: np.ndarray
    class_weight: np.ndarray | None
    groups: np.ndarray | None
    kept: np.ndarray
    privileged: tuple[PrivilegedBlock, ...]
    n_rows: int
    feature_names: np.ndarray | None = None
    source: Any = None

    def __len__(self) -> int:
        return len(self.kept)

    @property
    def labeled(self) -> np.ndarray:
        """Mask of the rows that have a label."""
        return np.asarray(~np.isnan(self.target) if self.classes is None else self.target >= 0)

    @property
    def available(self) -> np.ndarray:
        """Mask of the rows that have privileged features in any block."""
        return np.any([block.available for block in self.privileged] or [np.zeros(len(self), dtype=bool)], axis=0)

    @property
    def loss_weight(self) -> np.ndarray:
        """Sample weights times class weights."""
        return self.weight if self.class_weight is None else self.weight * self.class_weight[self.target]

    @property
    def labels(self) -> np.ndarray:
        """Targets as the user passed them; meaningless in unlabeled rows."""
        return np.asarray(self.target if self.classes is None else self.classes[self.target])

    @property
    def privileged_columns(self) -> tuple[tuple[Hashable | None, int], ...]:
        """Name and number of columns of every block, for :func:`check_privileged_rows`."""
        kernel_matrices = [getattr(block.rows, "square", False) for block in self.privileged]
        return tuple(
            (block.name, self.n_rows if square else block.rows.shape[-1])
            for block, square in zip(self.privileged, kernel_matrices)
        )

    def table(self) -> MatrixLike:
        """Decision features in the user's container, for estimators that read column names."""
        return _safe_indexing(self.source, self.kept) if hasattr(self.source, "columns") else self.X.values

    def take(self, index: np.ndarray) -> TrainingSet:
        """Some of the rows; of kernel matrices the same columns."""
        structured = isinstance(self.target, list)
        return replace(
            self,
            X=self.X.take(index),
            target=[self.target[i] for i in index] if structured else self.target[index],
            weight=self.weight[index],
            groups=None if self.groups is None else self.groups[index],
            kept=self.kept[index],
            privileged=tuple(block.take(index) for block in self.privileged),
        )

    def set_columns(self, estimator: Any) -> None:
        """Set ``n_features_in_`` and ``feature_names_in_`` of an estimator that shares this training set."""
        estimator.n_features_in_ = self.n_rows if getattr(self.X, "square", False) else self.X.shape[1]
        vars(estimator).pop("feature_names_in_", None)
        if self.feature_names is not None:
            estimator.feature_names_in_ = self.feature_names


def check_training_set(
    estimator: Any,
    X: MatrixLike,
    y: Any = None,
    privileged: PrivilegedLike = None,
    sample_weight: VectorLike | None = None,
    groups: VectorLike | None = None,
    *,
    target: str | None = None,
    task: Any = None,
    privileged_task: Any = None,
    single: bool = False,
    dense_privileged: bool = False,
    min_rows: int = 1,
    in_memory: str = "its rows in memory: pass X.compute()",
    groups_argument: str = "groups",
) -> TrainingSet:
    """Check the input of `fit`, and set ``n_features_in_`` and ``feature_names_in_``.

    Parameters of the estimator that are read: ``unlabeled`` (present: unlabeled rows are allowed), ``class_weight``,
    ``kernel`` and ``privileged_kernel`` ("precomputed": kernel matrices), and parameters with one value per privileged space.

    Parameters
    ----------
    estimator : estimator
        Its class name begins the messages.
    X : array-like, sparse matrix, frame or Dask collection; of a structured task any sequence of inputs
    y : array-like
        One target per row.
    privileged : table, list or dict of tables, or None
        A row that is entirely NaN (None for a structured task) is not available.
    sample_weight, groups : array-like or None
    target : {"classes", "numbers", "grades", "outputs", "none"}, optional
        Kind of target; "classes" for classifiers and "numbers" for other estimators by default.
    task, privileged_task : Task, list or dict of Task, or None
        With target="outputs". Where privileged_task is None, `privileged` is a table of features.
    single : bool
        Whether tables in single precision are kept.
    dense_privileged : bool
        Whether to convert sparse privileged tables to arrays.
    min_rows : int
    in_memory : str
        What the estimator needs to train on many rows in Dask chunks, for the message; "" if it can.
    groups_argument : str
        What the user calls `groups`.

    Returns
    -------
    TrainingSet

    Examples
    --------
    >>> from lupi import SVM2Plus
    >>> Z = [[1.0, 2.0], [np.nan, np.nan], [0.0, 1.0]]
    >>> data = check_training_set(SVM2Plus(), [[1.0], [2.0], [3.0]], ["no", "yes", "no"], Z, [1, 1, 0])
    >>> data.target, data.classes.tolist(), data.kept, data.privileged[0].available
    (array([0, 1]), ['no', 'yes'], array([0, 1]), array([ True, False]))
    """
    name = type(estimator).__name__
    kind = target or ("classes" if is_classifier(estimator) else "numbers")
    if kind == "outputs":
        return _check_structured(estimator, X, y, privileged, task, privileged_task)
    spaces = split_spaces(privileged, name)
    if spaces:
        check_per_space(estimator, list(spaces))
    dtypes = SINGLE if single else DOUBLE
    chunked = None
    if is_dask(X):
        vectors = {"y": None if kind == "none" else y, "sample_weight": sample_weight, groups_argument: groups}
        chunked = read_dask(name, X, spaces, vectors, dtypes)
        names = {space: column_names(table) for space, table in spaces.items()}
        X, spaces = chunked.X, chunked.spaces
        y, sample_weight, groups = chunked.vectors.values()
    if isinstance(X, DaskRows):
        if in_memory:
            raise ValueError(f"{name} on {X.shape[0]} rows in chunks needs {in_memory}.")
        rows, feature_names = X, None if chunked is None else chunked.feature_names
    else:
        rows = _check_X(estimator, X, dtypes, min_rows, name)
        feature_names = getattr(estimator, "feature_names_in_", None)
    n = rows.shape[0]
    found = Target(np.zeros(n), None, np.ones(n, dtype=bool))
    if kind != "none":
        found = read_target(y, kind, getattr(estimator, "unlabeled", ALL_LABELED), name)
        check_consistent_length(rows, found.values)
    weight = check_weight(sample_weight, n, name)
    ids = check_groups(groups, n, name, groups_argument)
    if isinstance(X, DaskRows):
        blocks = [PrivilegedBlock(s, table, chunked.available[s], names[s]) for s, table in spaces.items()]
    else:
        squares = _kernel_matrices(estimator, list(spaces))
        blocks = [
            _read_block(name, space, table, n, X, square, dense_privileged, dtypes)
            for (space, table), square in zip(spaces.items(), squares)
        ]
    check_class_totals(found, weight, name)
    available = np.any([block.available for block in blocks], axis=0) if blocks else np.zeros(n, dtype=bool)
    useless = ~found.labeled & ~available
    if useless.any() and blocks:
        warnings.warn(
            f"{name}: {useless.sum()} rows have neither a label nor privileged features and are dropped.",
            UserWarning,
            stacklevel=4,
        )
    class_weight = None
    if found.classes is not None and hasattr(estimator, "class_weight"):
        rows_used = found.labeled & (weight > 0)
        class_weight = weigh_classes(estimator.class_weight, found.classes, found.values[rows_used], weight[rows_used])
    everything = TrainingSet(
        X=rows,
        target=found.values,
        classes=found.classes,
        weight=weight,
        class_weight=class_weight,
        groups=ids,
        kept=np.arange(n),
        privileged=tuple(blocks),
        n_rows=n,
        feature_names=feature_names,
        source=X,
    )
    everything.set_columns(estimator)
    kept = np.flatnonzero((weight > 0) & ~useless)
    return everything if len(kept) == n else everything.take(kept)


def check_rows(estimator: Any, X: MatrixLike, *, task: Any = None) -> Any:
    """Check the input of `predict` against that of `fit`.

    Parameters
    ----------
    estimator : estimator
        NotFittedError is raised if it is not fitted.
    X : array-like, sparse matrix or frame; of a structured task any sequence of inputs
    task : Task, optional
        Of a structured estimator.

    Returns
    -------
    ndarray, CSR matrix or sequence of inputs
    """
    check_is_fitted(estimator)
    prefix = f"{type(estimator).__name__}: `X`"
    refuse_masked(X, prefix)
    if task is not None:
        return _read_inputs(X, prefix, task).values
    finite = "allow-nan" if get_tags(estimator).input_tags.allow_nan else True
    return validate_data(
        estimator, X, accept_sparse="csr", dtype=np.float64, order="C", ensure_all_finite=finite, reset=False
    )


def check_privileged_rows(
    estimator: Any,
    privileged: PrivilegedLike,
    columns: Sequence[tuple[Hashable | None, int]],
    *,
    task: Any = None,
) -> tuple[PrivilegedBlock, ...]:
    """Check new privileged features, e.g. of `correcting_function`, against those of `fit`.

    Parameters
    ----------
    estimator : estimator
    privileged : table, or list or dict of tables
        Of a precomputed kernel its values with the training rows.
    columns : sequence of (name, n_columns)
        ``TrainingSet.privileged_columns`` of `fit`.
    task : Task, list or dict of Task, or None
        The estimator's ``privileged_task``.

    Returns
    -------
    tuple of PrivilegedBlock
        In the order of `columns`.
    """
    name, fitted = type(estimator).__name__, dict(columns)
    several = None if task is None else None not in fitted
    spaces = split_spaces(privileged, name, several=several)
    if set(spaces) != set(fitted):
        raise ValueError(f"{name}: the spaces of `privileged` were {list(fitted)} in fit, and are {list(spaces)} here.")
    first = next(iter(spaces.values()))
    n = first.shape[0] if hasattr(first, "shape") else len(first)
    tasks = dict(zip(fitted, _tasks(estimator, task, list(fitted))))
    blocks = []
    for space, n_columns in fitted.items():
        if tasks[space] is not None:
            blocks.append(_read_task_block(name, space, spaces[space], n, None, tasks[space]))
            continue
        block = _read_block(name, space, spaces[space], n, None, False, False, DOUBLE)
        if block.rows.shape[1] != n_columns:
            raise ValueError(
                f"{name}: {_argument(space)} has {block.rows.shape[1]} features, but {name} was fitted with {n_columns}."
            )
        blocks.append(block)
    return tuple(blocks)


def _kernel_matrices(estimator: Any, names: list[Any]) -> list[bool]:
    """Whether each privileged table is a kernel matrix."""
    if not names or not hasattr(estimator, "privileged_kernel"):
        return [False] * len(names)
    kernels = values_per_space(estimator, "privileged_kernel", names)
    return [isinstance(kernel, str) and kernel == "precomputed" for kernel in kernels]


def _argument(space: Any) -> str:
    return "`privileged`" if space is None else f"`privileged[{space!r}]`"


def _check_X(estimator: Any, X: MatrixLike, dtypes: Sequence[Any], min_rows: int, name: str) -> ArrayRows:
    refuse_masked(X, f"{name}: `X`")
    square = isinstance(getattr(estimator, "kernel", None), str) and estimator.kernel == "precomputed"
    if square and sparse.issparse(X):
        raise ValueError("kernel='precomputed' needs a dense matrix, but `X` is sparse; pass X.toarray().")
    finite = "allow-nan" if get_tags(estimator).input_tags.allow_nan else True
    values = validate_data(
        estimator,
        X,
        accept_sparse="csr",
        dtype=list(dtypes),
        order="C",
        ensure_all_finite=finite,
        ensure_min_samples=min_rows,
    )
    if square and values.shape[0] != values.shape[1]:
        raise ValueError(
            f"kernel='precomputed' needs a square matrix of shape (n_samples, n_samples) as `X`; got {values.shape}."
        )
    if sparse.issparse(values) and not values.has_canonical_format:
        values = values.copy()
        values.sum_duplicates()
    check_magnitude(values, "X", estimator_name=name)
    return ArrayRows(values, square)


def _read_block(
    name: str,
    space: Any,
    table: MatrixLike,
    n_rows: int,
    X: MatrixLike,
    square: bool,
    dense: bool,
    dtypes: Sequence[Any],
) -> PrivilegedBlock:
    """Check one privileged table."""
    prefix = f"{name}: {_argument(space)}"
    values = read_table(table, prefix, dtypes)
    check_row_order(table, X, prefix)
    if values.shape[0] != n_rows:
        raise _wrong_length(prefix, values.shape[0], "rows", n_rows, "a row that is entirely NaN")
    if square and values.shape[1] != n_rows:
        raise ValueError(
            f"{prefix} has shape {values.shape}, but a precomputed privileged kernel must be square: ({n_rows}, {n_rows})."
        )
    if sparse.issparse(values) and (square or dense):
        values = values.toarray()
    values, available = (split_missing_kernel if square else split_missing)(values, prefix)
    check_magnitude(values, _argument(space).strip("`"), estimator_name=name)
    return PrivilegedBlock(space, ArrayRows(values, square), available, column_names(table))


def _wrong_length(prefix: str, n_given: int, unit: str, n_rows: int, missing: str) -> ValueError:
    return ValueError(
        f"{prefix} has {n_given} {unit}, but `X` has {n_rows} examples; pass one for each example "
        f"({missing} where the privileged features are not available)."
    )


def _check_structured(
    estimator: Any, X: Any, Y: Any, privileged: PrivilegedLike, task: Any, privileged_task: Any
) -> TrainingSet:
    """Check the input of `fit` of a structured estimator."""
    name = type(estimator).__name__
    rows = _read_inputs(X, f"{name}: `X`", task)
    n = rows.shape[0]
    outputs = Y.to_numpy() if hasattr(Y, "to_numpy") else _sequence(Y, f"{name}: `Y`")
    if n == 0:
        raise ValueError(f"{name}: `X` is empty; fit needs at least one example.")
    if len(outputs) != n:
        raise ValueError(f"{name}: `X` has {n} examples and `Y` has {len(outputs)}; they must have the same length.")
    per_space = any(map(is_per_space, (privileged_task, getattr(estimator, "lam", None))))
    tables = not is_per_space(privileged_task) and getattr(privileged_task, "tabular", privileged_task is None)
    spaces = split_spaces(privileged, name, several=None if tables else per_space)
    if spaces:
        check_per_space(estimator, list(spaces))
    blocks = []
    for (space, inputs), one in zip(spaces.items(), _tasks(estimator, privileged_task, list(spaces))):
        if one is None:
            blocks.append(_read_block(name, space, inputs, n, X, False, True, DOUBLE))
        else:
            blocks.append(_read_task_block(name, space, inputs, n, X, one))
    everything = np.arange(n)
    return TrainingSet(rows, outputs, None, np.ones(n), None, None, everything, tuple(blocks), n, source=X)


def _tasks(estimator: Any, task: Any, names: list[Any]) -> list[Any]:
    """Task of each privileged space."""
    if is_per_space(task) and names:
        return values_per_space(estimator, "privileged_task", names)
    return [task] * len(names)


def _read_task_block(name: str, space: Any, inputs: Any, n_rows: int, X: Any, task: Any) -> PrivilegedBlock:
    """Check the inputs of a privileged task: a table, or a sequence with None where an input is not available."""
    prefix = f"{name}: {_argument(space)}"
    if getattr(task, "tabular", False):
        block = _read_block(name, space, inputs, n_rows, X, False, True, DOUBLE)
    else:
        values = _sequence(inputs, prefix)
        if len(values) != n_rows:
            raise _wrong_length(prefix, len(values), "inputs", n_rows, "None")
        available = np.array([value is not None for value in values], dtype=bool)
        block = PrivilegedBlock(space, ObjectRows(values), available)
    return block


def _read_inputs(X: Any, prefix: str, task: Any) -> Any:
    """Inputs of a task by position: a finite table where the task reads tables, else a sequence."""
    if sparse.issparse(X):
        raise ValueError(f"{prefix} is a sparse matrix, and structured tasks take dense inputs; pass X.toarray().")
    if not getattr(task, "tabular", False):
        return ObjectRows(_sequence(X, prefix))
    if hasattr(X, "__len__") and len(X) == 0:
        return ArrayRows(np.empty((0, 0)))
    values = read_table(X, prefix)
    if not np.isfinite(values).all():
        raise ValueError(f"{prefix} contains NaN or infinity; impute or remove those values.")
    return ArrayRows(values)


def _sequence(values: Any, prefix: str) -> Sequence[Any]:
    """Entries by position: values of a pandas Series, rows of a frame."""
    refuse_masked(values, prefix)
    if hasattr(values, "to_numpy"):
        return values.to_numpy() if is_frame(values) or not hasattr(values, "iloc") else list(values)
    if isinstance(values, str | Mapping) or not (hasattr(values, "__len__") and hasattr(values, "__getitem__")):
        raise ValueError(f"{prefix} must be a sequence with one entry for each example; got {values!r:.60}.")
    return list(values) if isinstance(values, tuple) else values
