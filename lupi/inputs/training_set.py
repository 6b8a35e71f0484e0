"""The input check of every `fit` and `predict`, and rows in memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, singledispatch
from inspect import signature
from operator import attrgetter
from typing import Any, TypeVar, cast

import numpy as np
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.utils import _safe_indexing, check_array, check_consistent_length, column_or_1d, validation
from sklearn.utils._param_validation import make_constraint
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from lupi.inputs.tables import ENCODE, canonical, check_row_order, column_names, frame_values, sparse_values
from lupi.inputs.types import Matrix, MatrixLike, PrivilegedLike, VectorLike

Function = TypeVar("Function", bound=Callable[..., Any])

# Rows in a product of sparse data: large enough for BLAS, small enough for the cache.
BLOCK = 1024
DOUBLE, SINGLE = (np.float64,), (np.float64, np.float32)
# Products of four values stay finite in double precision, squares of sums in single precision.
LARGEST = {np.dtype(np.float64): 1e60, np.dtype(np.float32): 1e15}
# Stands for the parameter `unlabeled` of estimators that require all labels.
ALL_LABELED = object()
# Containers of several privileged tables, or of one parameter value per table.
SEVERAL = (list, tuple, dict)


def chunkwise(join: str, *by_row: str) -> Callable[[Function], Function]:
    """Let a function of arrays accept :attr:`Rows.operand`: Dask rows are visited chunk by chunk.

    `join` is "sum" or "concatenate": how to combine the results of chunks, which are arrays, numbers or tuples of these. The
    last axis of the arguments `by_row` runs over the rows; each chunk gets its part.
    """

    def decorate(function: Function) -> Function:
        names = list(signature(function).parameters)
        # Arrays go straight to the function.
        run = singledispatch(function)
        run.register(Rows, lambda *given: given[0].run(run, join, dict(zip(names, given)), by_row))
        return cast("Function", run)

    return decorate


class Rows:
    """Rows of a feature table: :class:`ArrayRows` in memory, :class:`~lupi.inputs.dask_rows.DaskRows` in Dask chunks.

    Both have ``take(index)``, ``load(index=None)`` (values in memory), ``map(function, n_columns)`` and
    ``combine(function, tables)``. Dask rows stay in their chunks when they are taken, in increasing order, or mapped.
    """

    square: bool  # whether the rows are a kernel matrix

    def allows(self, numbers_per_row: int) -> bool:
        """Whether arrays may hold so many numbers per row; only Dask rows have a limit, which a kernel matrix exceeds."""
        return True

    @property
    def operand(self) -> Any:
        """Argument of products and :func:`chunkwise` functions: the values of rows in memory, else the rows."""
        return self

    def times(self, W: np.ndarray) -> np.ndarray:
        """X W, of a vector or a matrix."""
        return _times(self.operand, W)

    def transposed_times(self, V: np.ndarray) -> np.ndarray:
        """X' V, of a vector or a matrix."""
        return _transposed_times(self.operand, np.asarray(V).T).T

    def gram(self, weight: np.ndarray) -> np.ndarray:
        """X' diag(weight) X."""
        return _gram(self.operand, weight)


@chunkwise("concatenate")
def _times(data: Any, W: np.ndarray) -> np.ndarray:
    return np.asarray(data @ W, dtype=np.float64)


@chunkwise("sum", "V")
def _transposed_times(data: Any, V: np.ndarray) -> np.ndarray:
    return np.asarray((data.T @ V.T).T if sparse.issparse(data) else V @ data, dtype=np.float64)


@chunkwise("sum", "weight")
def _gram(data: Any, weight: np.ndarray) -> np.ndarray:
    out = np.zeros((data.shape[1], data.shape[1]))
    for i in range(0, data.shape[0], BLOCK):
        rows = data[i : i + BLOCK]
        rows = rows.toarray() if sparse.issparse(rows) else rows
        out += (rows * weight[i : i + BLOCK, None]).T @ rows
    return out


@dataclass(frozen=True, eq=False)
class ArrayRows(Rows):
    """Rows in memory: an array or CSR matrix; of a `square` kernel matrix `take` selects rows and columns."""

    values: Any
    square: bool = False
    operand = property(attrgetter("values"))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return cast("tuple[int, int]", self.values.shape)

    def take(self, index: np.ndarray) -> ArrayRows:
        """Some of the rows; no copy if these are all rows in order."""
        if len(index) == self.shape[0] and np.array_equal(index, np.arange(len(index))):
            return self
        if hasattr(self.values, "columns"):  # the user's table, for estimators that read column names
            return ArrayRows(_safe_indexing(self.values, index))
        return replace(self, values=self.values[np.ix_(index, index)] if self.square else self.values[index])

    def gather(self, index: np.ndarray) -> ArrayRows:
        """Some of the rows; Dask rows are loaded if they fit into memory."""
        return self.take(index)

    def load(self, index: np.ndarray | None = None) -> Matrix:
        """Values of some rows, or of all."""
        return cast("Matrix", self.values if index is None else self.values[index])

    def map(self, function: Callable[..., Any], n_columns: int | None = None) -> ArrayRows:
        """Rows of function(values)."""
        return ArrayRows(function(self.values))

    def combine(self, function: Callable[..., Any], tables: Sequence[ArrayRows]) -> ArrayRows:
        """Rows of a function of several tables, whose columns it puts side by side."""
        return ArrayRows(function(*(table.values for table in tables)))

    def with_gaps(self, available: np.ndarray) -> ArrayRows:
        """The rows with NaN where privileged features are not available."""
        return ArrayRows(np.where(available[:, None], self.values, np.nan))


@dataclass(frozen=True, eq=False)
class ObjectRows:
    """Inputs of a structured task, one object per row; None where a privileged input is not available."""

    values: Sequence[Any]

    @property
    def shape(self) -> tuple[int]:
        """Number of rows."""
        return (len(self.values),)

    def take(self, index: np.ndarray) -> ObjectRows:
        """Some of the rows."""
        return ObjectRows([self.values[int(i)] for i in index])


def affine(rows: Any, matrix: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """The map from rows x to x @ matrix + shift."""
    return np.asarray(rows @ matrix + shift)


def _scaled_columns(*tables: Any, factors: Sequence[float]) -> Any:
    parts = [factor * table for factor, table in zip(factors, tables)]
    return sparse.csr_matrix(sparse.hstack(parts)) if any(map(sparse.issparse, parts)) else np.hstack(parts)


def side_by_side(tables: Sequence[Any], factors: Sequence[float]) -> Any:
    """Rows with the columns of several tables, each table times its factor."""
    return tables[0].combine(partial(_scaled_columns, factors=factors), tables)


def take_values(X: Any, Z: Any, index: np.ndarray) -> tuple[Any, Any]:
    """The same rows of two operands (Z may be None), in increasing order; Dask rows are loaded if they fit into memory."""
    if isinstance(X, Rows):
        return cast("tuple[Any, Any]", cast("Any", X).load_together(Z, index))
    return X[index], None if Z is None else Z[index]


@dataclass(frozen=True)
class PrivilegedBlock:
    """One privileged table, or the inputs of one privileged task."""

    name: Hashable | None  # key or position in the dict or list of tables; None for a single table
    rows: Any  # Rows of float64, 0 where not available; ObjectRows for a task whose inputs are not tables
    available: np.ndarray  # mask of the rows that have privileged features
    feature_names: np.ndarray | None = None

    def take(self, index: np.ndarray) -> PrivilegedBlock:
        """Some of the rows."""
        return replace(self, rows=self.rows.take(index), available=self.available[index])


@dataclass(frozen=True)
class TrainingSet:
    """Checked input of `fit`: rows with a positive weight that have a label or privileged features."""

    X: Any  # Rows of decision features; ObjectRows for a task whose inputs are not tables
    target: Any  # class codes (-1 unlabeled), numbers or grades (NaN unlabeled), or structured outputs
    classes: np.ndarray | None  # sorted labels of a classifier
    weight: np.ndarray  # sample weights
    class_weight: np.ndarray | None  # weight of each class, of a classifier with a parameter `class_weight`
    groups: np.ndarray | None  # group or query ids as 0, 1, ...
    kept: np.ndarray  # positions of the rows in what the user passed
    privileged: tuple[PrivilegedBlock, ...]  # one block per table
    n_rows: int  # number of rows that the user passed
    feature_names: np.ndarray | None = None
    source: Any = None  # X in the user's container, all rows

    def __len__(self) -> int:
        return len(self.kept)

    @property
    def labeled(self) -> np.ndarray:
        """Mask of the rows that have a label."""
        return np.asarray(~np.isnan(self.target) if self.classes is None else self.target >= 0)

    @property
    def available(self) -> np.ndarray:
        """Mask of the rows that have privileged features in any block."""
        masks = (block.available for block in self.privileged)
        return np.asarray(sum(masks, np.zeros(len(self), dtype=bool)))

    @property
    def class_totals(self) -> np.ndarray:
        """Sum of the sample weights of each class."""
        return np.bincount(self.target[self.labeled], self.weight[self.labeled], len(np.asarray(self.classes)))

    @property
    def loss_weight(self) -> np.ndarray:
        """Sample weights times class weights."""
        return self.weight if self.class_weight is None else np.asarray(self.weight * self.class_weight[self.target])

    @property
    def labels(self) -> np.ndarray:
        """Targets as the user passed them; meaningless in unlabeled rows."""
        return np.asarray(self.target if self.classes is None else self.classes[self.target])

    @property
    def privileged_columns(self) -> tuple[tuple[Hashable | None, int], ...]:
        """Name and number of columns of every block, for :func:`check_privileged_rows`."""

        def square(rows: Any) -> bool:
            return bool(getattr(rows, "square", False))

        return tuple((b.name, self.n_rows if square(b.rows) else b.rows.shape[-1]) for b in self.privileged)

    def table(self) -> MatrixLike:
        """Decision features in the user's container, for estimators that read column names."""
        return _safe_indexing(self.source, self.kept) if hasattr(self.source, "columns") else self.X.values

    def take(self, index: np.ndarray) -> TrainingSet:
        """Some of the rows; of kernel matrices the same columns."""
        target = [self.target[i] for i in index] if isinstance(self.target, list) else self.target[index]
        parts = {"X": self.X.take(index), "privileged": tuple(block.take(index) for block in self.privileged)}
        groups = None if self.groups is None else self.groups[index]
        return replace(self, **parts, target=target, weight=self.weight[index], groups=groups, kept=self.kept[index])

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
    allow_nan: bool = False,
    min_rows: int = 1,
    in_memory: str = "its rows in memory: pass X.compute()",
    groups_argument: str = "groups",
) -> TrainingSet:
    """Check the input of `fit`, and set ``n_features_in_`` and ``feature_names_in_``.

    Parameters of the estimator that are read: ``unlabeled`` (present: unlabeled rows are allowed), ``class_weight``,
    ``kernel`` and ``privileged_kernel`` ("precomputed": kernel matrices), and parameters with one value per privileged space.

    `target` is "classes" (default of classifiers), "numbers" (of other estimators), "grades", "outputs" or "none". With
    "outputs", `task` and `privileged_task` read the inputs; where privileged_task is None, `privileged` is a table of features.
    `single` keeps tables in single precision. `in_memory` is what the estimator needs to train on many rows in Dask chunks, for
    the message; "" if it can. `groups_argument` is what the user calls `groups`.

    Examples
    --------
    >>> from lupi import SVM2Plus
    >>> Z = [[1.0, 2.0], [np.nan, np.nan], [0.0, 1.0]]
    >>> data = check_training_set(SVM2Plus(), [[1.0], [2.0], [3.0]], ["no", "yes", "no"], Z, [1, 1, 0])
    >>> data.target, data.classes.tolist(), data.kept, data.privileged[0].available
    (array([0, 1]), ['no', 'yes'], array([0, 1]), array([ True, False]))
    """
    name = type(estimator).__name__
    kind = target or ("classes" if isinstance(estimator, ClassifierMixin) else "numbers")
    if kind == "outputs":
        from lupi.inputs.structured_set import check_structured_set

        return check_structured_set(estimator, X, y, privileged, task, privileged_task)
    spaces = split_by_space(estimator, privileged, None)
    dtypes = SINGLE if single else DOUBLE
    source = X
    if hasattr(X, "__dask_graph__"):
        from lupi.inputs.dask_rows import read_dask

        vectors = {"y": y, "sample_weight": sample_weight, groups_argument: groups}
        X, spaces, (y, sample_weight, groups) = read_dask(name, X, spaces, vectors, dtypes)
    if isinstance(X, Rows):
        rows: Any = X
        n, feature_names, blocks = rows.shape[0], column_names(source), list(spaces.values())
        if in_memory:
            raise ValueError(f"{name} on {n} rows in chunks needs {in_memory}.")
    else:
        source, rows = X, _check_X(estimator, X, dtypes, min_rows, allow_nan)
        n, feature_names = rows.shape[0], getattr(estimator, "feature_names_in_", None)
        read = partial(read_block, name, n_rows=n, X=X, dense=dense_privileged, dtypes=dtypes)
        squares = _kernel_matrices(estimator, list(spaces))
        blocks = [read(*space, square=square) for space, square in zip(spaces.items(), squares)]
    values, classes = np.zeros(n), None
    if kind != "none":
        values, classes = _read_target(y, kind, getattr(estimator, "unlabeled", ALL_LABELED), name)
        check_consistent_length(np.empty(n), values)
    weight, groups = _check_weight(sample_weight, n, name), _check_groups(groups, n, name, groups_argument)
    parts = rows, values, classes, weight, None, groups, np.arange(n), tuple(blocks), n, feature_names, source
    everything = TrainingSet(*parts)
    _check_totals(everything, name)
    if classes is not None and hasattr(estimator, "class_weight"):
        everything = replace(everything, class_weight=_weigh_classes(estimator.class_weight, everything))
    everything.set_columns(estimator)
    useless = ~everything.labeled & ~everything.available
    if useless.any() and blocks:
        message = f"{name}: {useless.sum()} rows have neither a label nor privileged features and are dropped."
        warnings.warn(message, UserWarning, stacklevel=4)
    kept = np.flatnonzero((everything.weight > 0) & ~useless)
    return everything if len(kept) == n else everything.take(kept)


def check_rows(estimator: Any, X: MatrixLike, *, task: Any = None, allow_nan: bool = False) -> Any:
    """Check the input of `predict` against that of `fit`; returns an array, a CSR matrix, or the inputs of a structured task."""
    validation.check_is_fitted(estimator)
    prefix = f"{type(estimator).__name__}: `X`"
    refuse_masked(X, prefix)
    if task is not None:
        from lupi.inputs.structured_set import read_inputs

        return read_inputs(X, prefix, task).values
    return _validate(estimator, X, DOUBLE, allow_nan, reset=False)


def check_privileged_rows(
    estimator: Any, privileged: PrivilegedLike, columns: Sequence[tuple[Hashable | None, int]], *, task: Any = None
) -> tuple[PrivilegedBlock, ...]:
    """Check new privileged features, e.g. of `correcting_function`, against ``TrainingSet.privileged_columns`` of `fit`.

    Of a precomputed kernel, `privileged` holds its values with the training rows. `task` is the estimator's
    ``privileged_task``.
    """
    name, fitted = type(estimator).__name__, dict(columns)
    spaces = split_spaces(privileged, name, several=None if task is None else None not in fitted)
    if set(spaces) != set(fitted):
        raise ValueError(f"{name}: the spaces of `privileged` were {list(fitted)} in fit, and are {list(spaces)} here.")
    spaces = {space: spaces[space] for space in fitted}
    first = spaces[next(iter(fitted))]
    n = first.shape[0] if hasattr(first, "shape") else len(first)
    if task is not None:
        from lupi.inputs.structured_set import read_task_blocks

        return read_task_blocks(estimator, spaces, n, None, task)
    blocks = tuple(read_block(name, space, table, n, None) for space, table in spaces.items())
    for block in blocks:
        width, given = fitted[block.name], f"{argument_name(block.name)} has {block.rows.shape[1]} features"
        if block.rows.shape[1] != width:
            raise ValueError(f"{name}: {given}, but {name} was fitted with {width}.")
    return blocks


def is_per_space(value: Any) -> bool:
    """Whether a parameter has one value per privileged space: a list, tuple or dict."""
    return isinstance(value, SEVERAL)


def per_space(constraint: list[Any]) -> list[Any]:
    """The parameter constraint that also allows a list, tuple or dict of values."""
    return [*constraint, *SEVERAL]


def split_spaces(privileged: PrivilegedLike, estimator_name: str, *, several: bool | None = None) -> dict[Any, Any]:
    """Tables or sequences of inputs by name or number of their space; a single one has the key None.

    A dict is always several spaces. A list or tuple is several spaces if `several`, or, with several=None, if an element of it is a
    2-D table.
    """
    if privileged is None:
        return {}
    listed = isinstance(privileged, list | tuple)
    several = listed and any(np.ndim(table) == 2 for table in privileged) if several is None else several
    # A sparse matrix of scipy's format DOK is a dict, too.
    if not isinstance(privileged, Mapping) or sparse.issparse(privileged):
        if not several:
            return {None: privileged}
        if not listed:
            wanted = "`privileged` must be a list or dict with the inputs of each space"
            raise ValueError(f"{estimator_name}: {wanted}; got {privileged!r:.60}.")
    spaces = dict(enumerate(privileged) if listed else privileged)
    empty = [name for name, table in spaces.items() if table is None]
    if empty or not spaces:
        problem = f"has None for the space {empty[0]!r}" if empty else "names no space"
        raise ValueError(f"{estimator_name}: `privileged` {problem}; give a table for each space, or privileged=None.")
    return spaces


def values_per_space(estimator: Any, argument: str, names: list[Any]) -> list[Any]:
    """Values of a parameter in the order of the spaces; a single value is repeated.

    Raises ValueError if the values do not match the names of the spaces ([None] for a single table) or are not valid.
    """
    value, owner = getattr(estimator, argument), type(estimator).__name__
    if not names or not is_per_space(value):
        return [value] * len(names)
    given = f"{owner}: `{argument}` has one value per space, {value!r}"
    if names == [None]:
        raise ValueError(f"{given}, but `privileged` is one table; give a single value, or a list or dict of tables.")
    if isinstance(value, dict) and set(value) != set(names):
        raise ValueError(f"{given}, but the spaces of `privileged` are {names}; give a value for each of them.")
    if len(value) != len(names):
        n = len(names)
        raise ValueError(f"{given}, but `privileged` has {n} spaces; give {n} values, or one for all.")
    found = [value[name] for name in names] if isinstance(value, dict) else list(value)
    constraints = [make_constraint(c) for c in estimator._parameter_constraints[argument] if c not in SEVERAL]
    for name, one in zip(names, found):
        if not any(constraint.is_satisfied_by(one) for constraint in constraints):
            wanted = (
                f"The '{argument}' parameter of {owner} must be {' or '.join(map(str, constraints))} for each space"
            )
            raise ValueError(f"{wanted}; got {one!r} for the space {name!r}.")
    return found


def split_by_space(estimator: Any, privileged: PrivilegedLike, several: bool | None) -> dict[Any, Any]:
    """Privileged tables by space; checks the parameters that have one value per space."""
    spaces = split_spaces(privileged, type(estimator).__name__, several=several)
    for argument, value in vars(estimator).items() if spaces else ():
        if is_per_space(value) and (argument == "lam" or argument.startswith("privileged_")) and argument[-1] != "_":
            values_per_space(estimator, argument, list(spaces))
    return spaces


def _kernel_matrices(estimator: Any, names: list[Any]) -> list[bool]:
    """Whether each privileged table is a kernel matrix."""
    if not hasattr(estimator, "privileged_kernel"):
        return [False] * len(names)
    return [_is_precomputed(kernel) for kernel in values_per_space(estimator, "privileged_kernel", names)]


def _is_precomputed(kernel: Any) -> bool:
    return isinstance(kernel, str) and kernel == "precomputed"


def argument_name(space: Any) -> str:
    """What messages call a privileged table."""
    return "`privileged`" if space is None else f"`privileged[{space!r}]`"


def _validate(
    estimator: Any, X: MatrixLike, dtypes: Sequence[Any], allow_nan: bool, *, reset: bool, min_rows: int = 1
) -> Any:
    """scikit-learn's `validate_data` without its calls of `__sklearn_tags__`; duplicate entries of a CSR matrix are summed."""
    validation._check_feature_names(estimator, X, reset=reset)
    finite = "allow-nan" if allow_nan else True
    options = {"accept_sparse": "csr", "dtype": list(dtypes), "order": "C", "ensure_all_finite": finite}
    values = check_array(X, **options, ensure_min_samples=min_rows, estimator=estimator, input_name="X")
    validation._check_n_features(estimator, values, reset=reset)
    return canonical(values) if sparse.issparse(values) else values


def _check_X(estimator: Any, X: MatrixLike, dtypes: Sequence[Any], min_rows: int, allow_nan: bool) -> ArrayRows:
    name = type(estimator).__name__
    refuse_masked(X, f"{name}: `X`")
    square = _is_precomputed(getattr(estimator, "kernel", None))
    if square and sparse.issparse(X):
        raise ValueError("kernel='precomputed' needs a dense matrix, but `X` is sparse; pass X.toarray().")
    values = _validate(estimator, X, dtypes, allow_nan, reset=True, min_rows=min_rows)
    if square and values.shape[0] != values.shape[1]:
        wanted = "needs a square matrix of shape (n_samples, n_samples) as `X`"
        raise ValueError(f"kernel='precomputed' {wanted}; got {values.shape}.")
    _check_magnitude(values, "X", name)
    return ArrayRows(values, square)


def read_table(table: MatrixLike, prefix: str, dtypes: Sequence[Any] = DOUBLE) -> Any:
    """Values of a table in any container as a C-ordered array or a canonical CSR matrix; missing values are NaN."""
    refuse_masked(table, prefix)
    if sparse.issparse(table):
        values: Any = sparse_values(table, prefix)
    elif isinstance(table, Mapping):
        raise ValueError(f"{prefix} is a dict; pass one table with a row for each example.")
    elif hasattr(table, "columns") and hasattr(table, "dtypes"):
        values = _as_float(frame_values(table, prefix), prefix, DOUBLE)
    else:
        try:
            values = np.asarray(table)
        except ValueError as error:
            problem = "is not a table: its rows differ in length. Pass a 2-D array, one row for each example"
            raise ValueError(f"{prefix} {problem}.") from error
        values = _as_float(values, prefix, dtypes)
    if values.ndim == 1:
        remedy = "to_frame()" if hasattr(table, "to_frame") else "reshape(-1, 1)"
        raise ValueError(f"{prefix} is 1-dimensional, expected 2 dimensions. Use {remedy} if it holds one feature.")
    if values.ndim != 2:
        raise ValueError(f"{prefix} has {values.ndim} dimensions, expected 2: a table with one row for each example.")
    if values.shape[1] == 0:
        raise ValueError(f"{prefix} has no columns; it must have at least one.")
    return values


def _as_float(values: np.ndarray, prefix: str, dtypes: Sequence[Any]) -> np.ndarray:
    kind = values.dtype.kind
    if kind == "O" and any(isinstance(value, str) for value in values.flat):
        raise ValueError(f"{prefix} must hold real numbers, but has text in it; {ENCODE}.")
    problem = f"{prefix} must hold real numbers, but has dtype {values.dtype}"
    if kind not in "biufO":
        raise ValueError(f"{problem}; encode it as numbers first.")
    try:
        values = values.astype(values.dtype if values.dtype in dtypes else dtypes[0], copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{problem} that does not convert to numbers; encode it as numbers first.") from error
    return np.ascontiguousarray(values) if values.ndim else values


def read_block(
    name: str,
    space: Any,
    table: MatrixLike,
    n_rows: int,
    X: MatrixLike,
    *,
    square: bool = False,
    dense: bool = False,
    dtypes: Sequence[Any] = DOUBLE,
) -> PrivilegedBlock:
    """Check one privileged table."""
    prefix = f"{name}: {argument_name(space)}"
    values = read_table(table, prefix, dtypes)
    if hasattr(X, "iloc"):
        check_row_order(table, X, prefix)
    if values.shape[0] != n_rows:
        raise wrong_length(prefix, values.shape[0], "rows", n_rows, "a row that is entirely NaN")
    if square and values.shape[1] != n_rows:
        wanted = f"a precomputed privileged kernel must be square: ({n_rows}, {n_rows})"
        raise ValueError(f"{prefix} has shape {values.shape}, but {wanted}.")
    if sparse.issparse(values) and (square or dense):
        values = values.toarray()
    values, available = (_split_missing_kernel if square else split_missing)(values, prefix)
    _check_magnitude(values, argument_name(space).strip("`"), name)
    names = column_names(table) if hasattr(table, "columns") else None
    return PrivilegedBlock(space, ArrayRows(values, square), available, names)


def split_missing(values: Any, prefix: str) -> tuple[Any, np.ndarray]:
    """Values with 0 in the rows that are entirely NaN, and a mask of the other rows."""
    if sparse.issparse(values):
        row_of = np.repeat(np.arange(values.shape[0]), np.diff(values.indptr))
        n_missing = np.bincount(row_of[np.isnan(values.data)], minlength=values.shape[0])
        infinite = row_of[np.isinf(values.data)]
    else:
        n_missing = np.isnan(values).sum(axis=1)
        infinite = np.flatnonzero(np.isinf(values).any(axis=1))
    partly = np.flatnonzero((n_missing > 0) & (n_missing < values.shape[1]))
    if len(partly):
        raise ValueError(
            f"{prefix} is NaN in part: row {partly[0]} has {n_missing[partly[0]]} NaN in its {values.shape[1]} columns. Either "
            "the whole row is NaN (the privileged features are not available for this example), or impute the values."
        )
    if len(infinite):
        raise ValueError(f"{prefix} has an infinite value in row {infinite[0]}; all values must be finite.")
    available = n_missing == 0
    if available.all():
        return values, available
    if not sparse.issparse(values):
        return np.where(available[:, None], values, values.dtype.type(0)), available
    data = values.copy()
    data.data[~available[row_of]] = 0.0
    data.eliminate_zeros()
    return data, available


def _split_missing_kernel(values: np.ndarray, prefix: str) -> tuple[np.ndarray, np.ndarray]:
    """The same of a square kernel matrix: rows and columns of missing examples become 0."""
    available = ~np.isnan(values).all(axis=1)
    data = np.where(available[:, None] & available[None, :], values, 0.0)
    split_missing(data, prefix)
    return (values if available.all() else data), available


def _check_magnitude(values: Any, argument: str, name: str) -> None:
    """Raise if values are too large to compute with; NaN is ignored."""
    values = (values.data if sparse.issparse(values) else values).ravel()
    if not values.size or values.dtype not in LARGEST:
        return
    largest = max(float(np.fmax.reduce(values)), -float(np.fmin.reduce(values)))
    if largest > LARGEST[values.dtype]:
        remedy = "targets (TransformedTargetRegressor)" if argument == "y" else "features (StandardScaler)"
        problem = f"`{argument}` has values as large as {largest:.3g}, too large to compute with"
        raise ValueError(f"{name}: {problem}; scale the {remedy}.")


def refuse_masked(value: Any, prefix: str) -> None:
    """Raise on a masked array, whose hidden values would be read as if they were valid."""
    if np.ma.isMaskedArray(value):
        raise ValueError(f"{prefix} is a masked array; pass {prefix.split('`')[1]}.filled(np.nan), or impute.")


def wrong_length(prefix: str, n_given: int, unit: str, n_rows: int, missing: str) -> ValueError:
    """Error of a privileged input that does not have one entry per example."""
    advice = f"pass one for each example ({missing} where the privileged features are not available)"
    return ValueError(f"{prefix} has {n_given} {unit}, but `X` has {n_rows} examples; {advice}.")


def _read_target(y: VectorLike, kind: str, unlabeled: Any, name: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Class codes (-1 where missing) with their classes, or numbers or grades (NaN where missing).

    NaN, None, pandas' NA and `unlabeled` are missing.
    """
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    refuse_masked(y, f"{name}: `y`")
    partial_labels = unlabeled is not ALL_LABELED
    values, missing = _values_and_missing(y, unlabeled if partial_labels else None)
    if missing.any() and not partial_labels:
        raise ValueError(f"{name}: Input y contains NaN in row {missing.argmax()}; every row needs a target.")
    if missing.all() and len(missing):
        needed = "two rows of different classes need a label" if kind == "classes" else "one row needs a target"
        raise ValueError(f"{name}: `y` has no labeled row: all {len(values)} entries are missing. At least {needed}.")
    read = _class_codes if kind == "classes" else _numbers
    target, classes = read(values, missing, kind, name)
    distinct = np.unique(target[~missing]) if classes is None else classes
    if unlabeled is None and kind != "numbers" and distinct.dtype.kind in "if" and distinct.tolist() == [-1, 0, 1]:
        advice = "If -1 marks unlabeled rows, pass unlabeled=-1; if -1 is a class, pass unlabeled=float('nan')."
        warnings.warn(f"{name}: the classes in `y` are -1, 0 and 1. {advice}", UserWarning, stacklevel=4)
    return target, classes


def _class_codes(values: np.ndarray, missing: np.ndarray, kind: str, name: str) -> tuple[np.ndarray, np.ndarray]:
    known = values[~missing]
    known = np.asarray(known.tolist()) if known.dtype.kind == "O" else known
    if known.dtype.kind == "f" and np.isinf(known).any():
        raise ValueError(f"{name}: Input y contains infinity; labels must be finite or missing.")
    if known.dtype.kind not in "biuUS":  # integers and text are always labels
        check_classification_targets(known)
    codes = np.full(len(values), -1, dtype=np.int64)
    classes, codes[~missing] = np.unique(known, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"{name} needs at least two classes, but `y` has only one class: {classes[0]!r}.")
    return codes, classes


def _values_and_missing(y: VectorLike, unlabeled: Any) -> tuple[np.ndarray, np.ndarray]:
    """One-dimensional targets, and which of them are missing."""
    if hasattr(y, "iloc") and not isinstance(getattr(y, "dtype", None), np.dtype) and hasattr(y, "to_numpy"):
        y = y.to_numpy(dtype=object) if getattr(y, "ndim", 1) == 1 else y  # pandas' extension types hold NA
    values = np.asarray(y)
    if values.dtype.kind == "U" and not hasattr(y, "dtype"):
        values = np.asarray(y, dtype=object)  # np.asarray(["a", nan]) would make the text "nan"
    values = values if values.ndim == 1 else column_or_1d(values, warn=True)
    if values.dtype.kind == "O":
        missing = np.array([_is_missing(value) for value in values], dtype=bool)
    else:
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), dtype=bool)
    if unlabeled is not None and not _is_missing(unlabeled):
        missing = missing | np.fromiter((value == unlabeled for value in values.tolist()), bool, len(values))
    return values, missing


def _is_missing(value: Any) -> bool:
    # pandas' NA is the only value that is not a string and whose comparison with itself is not a bool.
    return value is None or not isinstance(value == value, bool | np.bool_) or bool(value != value)


def _numbers(values: np.ndarray, missing: np.ndarray, kind: str, name: str) -> tuple[np.ndarray, None]:
    numbers = np.full(len(values), np.nan)
    if values.dtype.kind == "c":
        raise ValueError(f"{name}: Complex data not supported: `y` must hold real numbers.")
    try:
        numbers[~missing] = values[~missing].astype(np.float64)
    except (TypeError, ValueError) as error:
        if kind == "grades":
            problem = f"y must hold numeric grades, higher = ranked higher. Unknown label type: {values.dtype}"
            raise ValueError(f"{name}: {problem}; map labels to numbers, e.g. y == positive_label.") from None
        raise ValueError(f"{name}: `y` must hold numbers (or missing values), but {error}.") from error
    if np.isinf(numbers).any():
        raise ValueError(f"{name}: Input y contains infinity; all targets must be finite or missing.")
    _check_magnitude(numbers, "y", name)
    return numbers, None


def _check_weight(sample_weight: VectorLike | None, n_rows: int, name: str) -> np.ndarray:
    """Non-negative weights of the rows: ones for None, a number is repeated."""
    if sample_weight is None:
        return np.ones(n_rows)
    prefix = f"{name}: `sample_weight`"
    if np.isscalar(sample_weight):
        sample_weight = np.full(n_rows, sample_weight)
    refuse_masked(sample_weight, prefix)
    _refuse_other_shape(sample_weight, n_rows, prefix, "weight")
    options = {"dtype": np.float64, "order": "C", "ensure_2d": False, "input_name": "sample_weight"}
    weight: np.ndarray = check_array(sample_weight, **options)
    if weight.min() < 0:
        raise ValueError(f"{prefix} has negative values (the smallest is {weight.min():g}); it must be 0 or larger.")
    if weight.max() == 0:
        raise ValueError(f"{prefix} is zero for every example; at least one example needs a positive weight.")
    return weight


def _refuse_other_shape(values: VectorLike, n_rows: int, prefix: str, entry: str) -> None:
    # `np.shape` refuses what is an array only by its `__array__`.
    shape = values.shape if hasattr(values, "shape") else np.asarray(values).shape
    if shape != (n_rows,):
        raise ValueError(f"{prefix} has shape {shape}, expected ({n_rows},): one {entry} for each example.")


def _check_totals(data: TrainingSet, name: str) -> None:
    """Raise if no labeled row, or no row of some class, has a positive weight."""
    if not data.weight[data.labeled].any():
        raise ValueError(f"{name}: every example with a label has `sample_weight` 0; one needs a positive weight.")
    if data.classes is not None and not data.class_totals.all():
        empty = data.classes[data.class_totals == 0][0]
        raise ValueError(f"{name}: every example of class {empty!r} has `sample_weight` 0; remove them instead.")


def _weigh_classes(class_weight: dict[Any, float] | str | None, data: TrainingSet) -> np.ndarray:
    """Weight of each class; "balanced" uses sums of sample weights, so that an integer weight equals repeated rows."""
    classes, totals = np.asarray(data.classes), data.class_totals
    if isinstance(class_weight, str) and class_weight == "balanced":
        return np.asarray(totals.sum() / (len(classes) * totals))
    out: np.ndarray = np.asarray(compute_class_weight(class_weight, classes=classes, y=classes), dtype=np.float64)
    wrong = ~(np.isfinite(out) & (out > 0))
    if wrong.any():
        given = f"`class_weight` of class {classes[wrong][0]!r} is {out[wrong][0]:g}"
        raise ValueError(f"{given}; class weights must be positive.")
    return out


def _check_groups(groups: VectorLike | None, n_rows: int, name: str, argument: str) -> np.ndarray | None:
    """Group ids of any type as 0, 1, ... in sorted order."""
    if groups is None:
        return None
    prefix = f"{name}: `{argument}`"
    ids = np.asarray(groups)
    if ids.ndim == 2 and ids.shape[1] == 1:
        ids = ids.ravel()
    refuse_masked(groups, prefix)
    _refuse_other_shape(ids, n_rows, prefix, "id")
    missing = [_is_missing(value) for value in ids.tolist()]
    if any(missing):
        raise ValueError(f"{prefix} has no id for example {missing.index(True)}; give every example one.")
    try:
        return np.unique(ids, return_inverse=True)[1]
    except TypeError:  # ids of several types have no common order; their text has one
        return np.unique(ids.astype(str), return_inverse=True)[1]
