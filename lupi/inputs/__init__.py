"""Input validation for every `fit` and `predict`; rows in memory or in Dask chunks.

``check_training_set`` returns a ``TrainingSet``: float64 in C order or canonical CSR, no NaN, class codes 0..k-1 (-1 unlabeled),
positive weights, one ``PrivilegedBlock`` per privileged table. ``check_rows`` and ``check_privileged_rows`` check the input of
prediction. A function decorated with ``chunkwise`` takes ``Rows.operand``: arrays, or Dask rows in one pass over the chunks.
"""
