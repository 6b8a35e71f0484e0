"""Input validation for every `fit` and `predict`; rows in memory or in Dask chunks.

:func:`check_training_set` reads parameters of the estimator (``unlabeled``, ``class_weight``, ``kernel``,
``privileged_kernel``, one value per privileged space) and returns a :class:`TrainingSet`: float64 in C order or canonical CSR,
no NaN, class codes 0..k-1 (-1 unlabeled), positive weights, one :class:`PrivilegedBlock` per privileged table.

Kernel classifier (``data.X.values`` is an array or CSR matrix; ``data.loss_weight`` includes class weights)::

    data = check_training_set(self, X, y, privileged, sample_weight, single=linear, in_memory="" if linear else "kernel='linear'")
    gamma_weight, cost, codes = data.weight, self.C * data.loss_weight, data.target
    for block in data.privileged:
        block.name, block.rows.values[block.available], block.available
    self.support_ = data.kept[support]
    self._privileged_columns = data.privileged_columns
    data.set_columns(model)                                     # a clone that shares the data (fit_path)

Several blocks as one table with one kernel (:class:`lupi.kernels.kernel.BlockStack`; one block is a stack, too)::

    stack = BlockStack.of(self, data.privileged)
    joined = stack.join(data.privileged)                        # a PrivilegedBlock
    kernel, lam = stack.kernel(self, joined, data.weight), stack.lam(self)
    joined = self._stack.read(self, privileged)                 # in correcting_function

Regressor, one-class machine, ranker::

    check_training_set(self, X, y, privileged, sample_weight)   # target="numbers" unless the estimator is a classifier
    check_training_set(self, X, privileged=privileged, target="none")
    check_training_set(self, X, y, privileged, groups=group, target="grades", groups_argument="group")

Surrogate (unlabeled rows have target -1 or NaN; rows with neither label nor privileged features are dropped)::

    data = check_training_set(self, X, y, privileged, sample_weight, groups, dense_privileged=True, min_rows=2)
    data.labeled, data.available, data.table()                  # table(): rows in the user's container, for a user's student

Structured task (pandas objects are read by position; None or a row of NaN is a missing privileged input)::

    data = check_training_set(self, X, Y, privileged, target="outputs", task=self.task, privileged_task=self.privileged_task)
    data.X.values[i], data.target[i], data.privileged[0].rows.values[i]

Prediction::

    X = check_rows(self, X)                                     # values; check_rows(self, X, task=self.task) if structured
    blocks = check_privileged_rows(self, privileged, self._privileged_columns)

Rows: ``take``, ``load`` and ``map`` work on :class:`ArrayRows` and :class:`~lupi.inputs.dask_rows.DaskRows`; ``resident`` is true
where ``values`` exist. :func:`chunkwise` lets a function of arrays accept both, in one pass over the chunks.
"""

from lupi.inputs.tables import column_names, is_frame
from lupi.inputs.training_set import (
    Affine,
    ArrayRows,
    ObjectRows,
    PrivilegedBlock,
    Rows,
    TrainingSet,
    check_privileged_rows,
    check_rows,
    check_training_set,
    chunkwise,
    is_per_space,
    per_space,
    read_table,
    require_rows_in_memory,
    side_by_side,
    split_spaces,
    take_values,
    values_per_space,
)

__all__ = [
    "Affine",
    "ArrayRows",
    "ObjectRows",
    "PrivilegedBlock",
    "Rows",
    "TrainingSet",
    "check_privileged_rows",
    "check_rows",
    "check_training_set",
    "chunkwise",
    "column_names",
    "is_frame",
    "is_per_space",
    "per_space",
    "read_table",
    "require_rows_in_memory",
    "side_by_side",
    "split_spaces",
    "take_values",
    "values_per_space",
]
