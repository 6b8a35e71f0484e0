"""One method fitted on a folder of Parquet files: parameters from a sample of its rows, weights from all of them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from sklearn.base import clone

from lupi.comparison.methods import choose_methods
from lupi.comparison.protocol import Protocol
from lupi.comparison.units import MAX_FIT, Setup, fit_final
from lupi.tabular.encoder import TableEncoder, encode_rows, plain_labels
from lupi.tabular.read import check_data, split_frame

# Methods whose training needs sums over the rows only.
IN_CHUNKS = ("svm2+", "svm+", "ranktransfer", "l2svm", "svm", "ranksvm")


def fit_chunked(paths, target, privileged, *, drop="", method="svm2+", metric=None, seed=0):
    """Fit one method with linear kernels on Parquet files, part by part.

    Encoders and parameters come from a random sample of the rows, the weights from all of them.

    Parameters
    ----------
    paths : sequence of path-like
        Parquet files, or one folder of them.
    target : str
        The column to predict; rows without a value there are left out.
    privileged, drop : str or sequence of str
        Columns that will not exist at prediction time, and columns to ignore; wildcards allowed.
    method : str, default="svm2+"
        One of ``IN_CHUNKS``.
    metric : str, optional
        By which parameters are chosen.
    seed : int, default=0
        Of the sample and of the folds.

    Returns
    -------
    TabularModel, Method, int
        The model, its method, and the number of rows it was fitted on.
    """
    if method not in IN_CHUNKS:
        raise ValueError(
            f"--method {method} needs its rows in memory; for several files use one of {', '.join(IN_CHUNKS)}."
        )
    if metric == "r2":
        raise ValueError("--metric r2 needs its rows in memory; several files are for classes.")
    frame = _read(paths)
    frame = frame.rename(columns=str)
    frame = frame[frame[target].notnull()] if target in frame.columns else frame
    n = len(frame)
    if n == 0:
        raise ValueError(f"the table has no row with a value of the target {target!r}.")
    sample = frame if n <= MAX_FIT else frame.sample(frac=MAX_FIT / n, random_state=seed)
    split = split_frame(sample.compute().reset_index(drop=True), target, privileged, drop)
    data, classes, metric = check_data(split.X, split.y, split.privileged, None, metric)
    chosen = choose_methods([method], [], metric, len(classes))
    protocol = Protocol(metric=metric, kernel="linear", seed=seed, train_sizes=(len(data.labeled),))
    used = list(chosen.values())[-1]
    model = fit_final(used, Setup(protocol, data, chosen), classes)
    tables = {"X": _features(frame, model.encoder_.transform, model.encoder_), "y": _codes(frame[target], classes)}
    if used.privileged:
        there = np.flatnonzero(~data.privileged.empty_rows())
        encoder = TableEncoder(model.standardize).fit(data.privileged.take(there))
        tables["privileged"] = _features(frame, partial(encode_rows, encoder), encoder)
    model.estimator_ = clone(model.estimator).fit(**tables)
    model.info_ = {"method": used.name, "target": target, "privileged": [str(c) for c in split.privileged.columns]}
    return model, used, n


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


def _features(frame, encode, encoder):
    """Features of the rows as a Dask array of so many chunks as the frame has parts."""
    import dask.array as da
    from dask import delayed

    shape, columns = (np.nan, len(encoder.names_)), list(encoder.columns_)
    parts = [da.from_delayed(delayed(encode)(part), shape, np.float64) for part in frame[columns].to_delayed()]
    return da.concatenate(parts, allow_unknown_chunksizes=True)


def _codes(column, classes):
    """Positions of the labels among the classes of the sample."""
    import dask.array as da
    from dask import delayed

    parts = [da.from_delayed(delayed(_positions)(part, classes), (np.nan,), np.int64) for part in column.to_delayed()]
    return da.concatenate(parts, allow_unknown_chunksizes=True)


def _positions(column, classes):
    labels = plain_labels(column.to_numpy())
    places = (
        np.minimum(np.searchsorted(classes, labels), len(classes) - 1) if len(labels) else np.zeros(0, dtype=np.int64)
    )
    if (classes[places] != labels).any():
        raise ValueError(
            f"the target holds {labels[classes[places] != labels][0]!r}, a class so rare that a sample of {MAX_FIT} rows has none "
            "of it; leave these rows out."
        )
    return places
