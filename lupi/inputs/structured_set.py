"""The input check of structured estimators: sequences of inputs and outputs, read by position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from lupi.inputs.training_set import (
    SEVERAL,
    ArrayRows,
    ObjectRows,
    PrivilegedBlock,
    TrainingSet,
    argument_name,
    read_block,
    read_table,
    refuse_masked,
    split_by_space,
    values_per_space,
    wrong_length,
)
from lupi.inputs.types import PrivilegedLike


def check_structured_set(
    estimator: Any, X: Any, Y: Any, privileged: PrivilegedLike, task: Any, privileged_task: Any
) -> TrainingSet:
    """Check the input of `fit` of a structured estimator."""
    name = type(estimator).__name__
    rows = read_inputs(X, f"{name}: `X`", task)
    n = rows.shape[0]
    outputs = read_outputs(Y, name)
    if n == 0:
        raise ValueError(f"{name}: `X` is empty; fit needs at least one example.")
    if len(outputs) != n:
        raise ValueError(f"{name}: `X` has {n} examples and `Y` has {len(outputs)}; they must have the same length.")
    several = isinstance(privileged_task, SEVERAL)
    tables = not several and getattr(privileged_task, "tabular", privileged_task is None)
    per_space = several or isinstance(getattr(estimator, "lam", None), SEVERAL)
    spaces = split_by_space(estimator, privileged, None if tables else per_space)
    blocks = read_task_blocks(estimator, spaces, n, X, privileged_task)
    return TrainingSet(rows, outputs, None, np.ones(n), None, None, np.arange(n), blocks, n, source=X)


def read_task_blocks(
    estimator: Any, spaces: dict[Any, Any], n_rows: int, X: Any, task: Any
) -> tuple[PrivilegedBlock, ...]:
    """Check privileged inputs of one task, or of one task per space: tables, or sequences with None where not available."""
    name, names = type(estimator).__name__, list(spaces)
    several = isinstance(task, SEVERAL) and names
    tasks = values_per_space(estimator, "privileged_task", names) if several else [task] * len(names)
    blocks = []
    for (space, inputs), one in zip(spaces.items(), tasks):
        prefix = f"{name}: {argument_name(space)}"
        if getattr(one, "tabular", one is None):
            blocks.append(read_block(name, space, inputs, n_rows, X, dense=True))
            continue
        values = _as_sequence(inputs, prefix)
        if len(values) != n_rows:
            raise wrong_length(prefix, len(values), "inputs", n_rows, "None")
        available = np.array([value is not None for value in values], dtype=bool)
        blocks.append(PrivilegedBlock(space, ObjectRows(values), available))
    return tuple(blocks)


def read_inputs(X: Any, prefix: str, task: Any) -> Any:
    """Inputs of a task by position: a finite table where the task reads tables, else a sequence."""
    if sparse.issparse(X):
        raise ValueError(f"{prefix} is a sparse matrix, and structured tasks take dense inputs; pass X.toarray().")
    if not getattr(task, "tabular", False):
        return ObjectRows(_as_sequence(X, prefix))
    if hasattr(X, "__len__") and len(X) == 0:
        return ArrayRows(np.empty((0, 0)))
    values = read_table(X, prefix)
    if not np.isfinite(values).all():
        raise ValueError(f"{prefix} contains NaN or infinity; impute or remove those values.")
    return ArrayRows(values)


def read_outputs(Y: Any, name: str) -> Sequence[Any]:
    """Outputs by position: values of a Series, rows of a frame."""
    return Y.to_numpy() if hasattr(Y, "to_numpy") else _as_sequence(Y, f"{name}: `Y`")


def _as_sequence(values: Any, prefix: str) -> Sequence[Any]:
    """Entries by position: values of a pandas Series, rows of a frame."""
    refuse_masked(values, prefix)
    if hasattr(values, "to_numpy"):
        return list(values) if hasattr(values, "iloc") and values.ndim == 1 else values.to_numpy()
    if isinstance(values, str | Mapping) or not (hasattr(values, "__len__") and hasattr(values, "__getitem__")):
        raise ValueError(f"{prefix} must be a sequence with one entry for each example; got {values!r:.60}.")
    return list(values) if isinstance(values, tuple) else values
