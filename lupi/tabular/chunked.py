"""One method fitted on a folder of Parquet files: parameters from a sample of its rows, weights from all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.base import clone

from lupi.tabular.encoder import TableEncoder
from lupi.tabular.model import plain_labels


def read_parquet(paths, target):
    """Labeled rows of Parquet files, or of a folder of them, as a Dask data frame.

    Parameters
    ----------
    paths : sequence of path-like
        Parquet files, or one folder of them.
    target : str
        Rows without a value in this column are left out.

    Returns
    -------
    dask.dataframe.DataFrame
    """
    frame = _read(paths).rename(columns=str)
    frame = frame[frame[target].notnull()] if target in frame.columns else frame
    if len(frame) == 0:
        raise ValueError(f"the table has no row with a value of the target {target!r}.")
    return frame


def refit_on_chunks(model, frame, target, privileged=None):
    """Fit the estimator of a model on all rows of a Dask data frame, encoded as the model's sample was.

    Parameters
    ----------
    model : TabularModel
        Fitted on a sample of the rows; its encoder and parameters stay.
    frame : dask.dataframe.DataFrame
    target : str
        The column to predict.
    privileged : Table, optional
        Privileged columns of the sample.

    Returns
    -------
    TabularModel
    """
    tables = {"X": _features(frame, model.schema_, model.encoder_), "y": _codes(frame[target], model.classes_)}
    if privileged is not None:
        encoder = TableEncoder(model.standardize).fit(privileged.take(np.flatnonzero(~privileged.empty_rows())))
        tables["privileged"] = _features(frame, privileged.schema, encoder)
    model.estimator_ = clone(model.estimator).fit(**tables)
    return model


def _read(paths):
    try:
        import dask.dataframe as dd
    except ImportError:
        raise ImportError('several files, or a folder of them, need Dask: pip install "lupi[dask]".') from None
    paths = [Path(path) for path in paths]
    files = sorted(paths[0].glob("*.parquet")) if len(paths) == 1 and paths[0].is_dir() else paths
    if not files:
        raise FileNotFoundError(f"there is no Parquet file in {paths[0]}.")
    for path in files:
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}.")
        if path.suffix.lower() != ".parquet":
            raise ValueError(f"{path}: several files have to be Parquet files; write the table as such.")
    return dd.read_parquet([str(path.resolve()) for path in files], split_row_groups=True)


def _features(frame, schema, encoder):
    """Features of the rows as a Dask array with one chunk for each part of the frame."""
    import dask.array as da
    from dask.delayed import delayed

    def encode(part):
        table = schema.parse(part)
        return np.where(table.empty_rows()[:, None], np.nan, encoder.transform(table))

    shape = (np.nan, encoder.n_features_out_)
    parts = [
        da.from_delayed(delayed(encode)(part), shape, np.float64) for part in frame[list(schema.columns)].to_delayed()
    ]
    return da.concatenate(parts, allow_unknown_chunksizes=True)


def _codes(column, classes):
    """Positions of the labels among the classes of the sample."""
    import dask.array as da
    from dask.delayed import delayed

    parts = [da.from_delayed(delayed(_positions)(part, classes), (np.nan,), np.int64) for part in column.to_delayed()]
    return da.concatenate(parts, allow_unknown_chunksizes=True)


def _positions(column, classes):
    labels = plain_labels(column.to_numpy())
    places = (
        np.minimum(np.searchsorted(classes, labels), len(classes) - 1) if len(labels) else np.zeros(0, dtype=np.int64)
    )
    if (classes[places] != labels).any():
        raise ValueError(
            f"the target holds {labels[classes[places] != labels][0]!r}, a class so rare that the sample has none of "
            "it; leave these rows out."
        )
    return places
