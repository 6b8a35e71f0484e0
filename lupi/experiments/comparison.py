"""`compare`: does privileged information help here?"""

from __future__ import annotations

import json
import os
import platform
import warnings
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from sklearn.utils.validation import check_consistent_length

from lupi import __version__
from lupi.experiments.methods import METHODS, choose_methods
from lupi.experiments.metrics import METRICS
from lupi.experiments.protocol import Protocol, split_rows
from lupi.experiments.store import RunStore, data_digest
from lupi.experiments.summary import summarize, verdict
from lupi.experiments.tabular import empty_rows, is_frame, take
from lupi.experiments.units import Data, fit_best, plan, run_units
from lupi.persistence import write_atomically

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "joblib", "pandas")
# Parameters of the final model are chosen on at most so many rows, and it is fitted on at most so many.
MAX_CHOICE, MAX_FIT = 1000, 5000
N_HARD = 12
# Number of the "split" whose seeds serve the final model: none that a comparison reaches.
FINAL = 2**31


class Comparison:
    """Result of :func:`compare`.

    Attributes
    ----------
    summary : dict
        Everything, as plain Python objects: `verdict`, `sizes` (statistics of each training size), `protocol`, `data`,
        `environment`.
    """

    def __init__(self, summary, data=None, protocol=None, classes=None):
        self.summary = summary
        self._data, self._protocol, self._classes = data, protocol, classes

    @property
    def verdict(self):
        """The answer in words."""
        return self.summary["verdict"]["text"]

    def __repr__(self):
        return f"Comparison({self.verdict!r})"

    def table(self):
        """Table for the terminal.

        Returns
        -------
        rich.table.Table
        """
        from lupi.experiments.render import terminal_table

        return terminal_table(self.summary)

    def to_json(self, path):
        """Write the summary as JSON.

        Parameters
        ----------
        path : path-like
        """
        write_atomically(path, (json.dumps(self.summary, indent=1) + "\n").encode())

    def to_html(self, path):
        """Write the report: one page that needs no network.

        Parameters
        ----------
        path : path-like
        """
        from lupi.experiments.html import render

        write_atomically(path, render(self.summary).encode())

    def fit_model(self, method=None):
        """Fit a method on all rows (at most 5000), its parameters chosen by cross-validation (on at most 1000).

        Parameters
        ----------
        method : str, optional
            By default the one that the verdict recommends.

        Returns
        -------
        TabularModel
        """
        method = METHODS[method or self.summary["verdict"]["method"]]
        return fit_final(method, self._protocol, self._data, self._classes)


def fit_final(method, protocol, data, classes):
    """Fit one method for use.

    Parameters
    ----------
    method : Method
    protocol : Protocol
        Metric, kernel, folds, grids and seed of the choice of parameters.
    data : Data
        With encoded target.
    classes : ndarray or None
        Labels behind the encoded target; None in regression.

    Returns
    -------
    TabularModel
    """
    if method.reference:
        raise ValueError("the reference needs the privileged columns at prediction time: it is no model for use.")
    order = _order(protocol, data)
    model, params, _ = fit_best(method, protocol, FINAL, data.rows(np.sort(order[:MAX_CHOICE])))
    everything = data.rows(np.sort(order[:MAX_FIT]))
    target = everything.y if classes is None else classes[everything.y]
    model.estimator.set_params(**params)
    return model.fit(everything.X, target, privileged=everything.privileged if method.privileged else None)


def _order(protocol, data):
    """Rows that a final model may be fitted on, in random order."""
    rows = np.random.default_rng(protocol.seed).permutation(len(data.y))
    return rows if data.test_only is None else rows[~data.test_only[rows]]


def compare(
    X,
    y,
    privileged,
    *,
    methods=None,
    metric=None,
    n_splits=20,
    train_size=None,
    grids=None,
    kernel="rbf",
    groups=None,
    test_only=None,
    standardize=True,
    balanced=False,
    max_test=2000,
    inner_folds=5,
    seed=0,
    n_jobs=1,
    store=None,
    hard_examples=True,
    on_progress=None,
    command=None,
):
    """Compare methods with and without privileged features on repeated random splits.

    On each split every method chooses its parameters by cross-validation inside the training rows and is scored on the
    test rows. Each method that uses privileged features has two controls: the same method with another example's
    privileged row (shuffled), and its plain counterpart (privileged off). It *helps* only if it beats both.

    Parameters
    ----------
    X : data frame or array of shape (n_samples, n_features)
        Decision features: numbers, and in a frame also words. Gaps (NaN) are filled inside the folds.
    y : array-like of shape (n_samples,)
        Labels; numbers with ``metric="r2"``.
    privileged : data frame or array of shape (n_samples, n_privileged)
        Features that exist at training time only. A row without any value: not available for that example.
    methods : sequence of str, optional
        Names in ``METHODS``; by default all that the metric allows. Plain counterparts are added.
    metric : {"ap", "accuracy", "auc", "balanced_accuracy", "r2"}, optional
        By default "auc" for two classes, "accuracy" for more.
    n_splits : int, default=20
        Random splits.
    train_size : int, float or list of these, optional
        Training rows, or their share; several give a learning curve. By default half of the rows, at most 200.
    grids : dict of str to dict, optional
        Grids that replace the built-in ones of a method. The built-in ones have 12 candidates each.
    kernel : {"rbf", "linear"}, default="rbf"
        Kernel of all methods.
    groups : array-like of shape (n_samples,), optional
        Rows of one group are never split between training and test.
    test_only : array-like of bool, shape (n_samples,), optional
        Rows of an official test set: all splits are tested on these, and trained on rows drawn from the others. Their
        privileged features may be missing.
    standardize : bool, default=True
        Whether numeric columns are standardized with what the training rows say.
    balanced : bool, default=False
        Whether each split draws as many rows of every class as the rarest one has.
    max_test : int, default=2000
        At most so many of the other rows are used for the test.
    inner_folds : int, default=5
        Folds for the choice of parameters.
    seed : int, default=0
        Everything random follows from it; results do not depend on ``n_jobs``.
    n_jobs : int, default=1
        Processes, as in joblib; a joblib backend chosen with ``parallel_config`` is used.
    store : path-like, optional
        SQLite file that keeps each finished unit of work: the same call continues where a broken one stopped. Results
        of another protocol or of other data in that file are refused. For a folder that exists, a file in it, one for
        each protocol and data.
    hard_examples : bool, default=True
        Whether to fit SVM2+ or SVM+ once more, on all rows, to name those that its correcting function calls hard.
    on_progress : callable, optional
        Called as ``on_progress(done, total)``.
    command : str, optional
        Command to repeat the run, for the report.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from lupi.datasets import make_privileged
    >>> from lupi.experiments import compare
    >>> X, y, privileged = make_privileged(150, random_state=0, return_X_y_privileged=True)
    >>> result = compare(X, y, privileged, methods=["svm2+"], n_splits=3, train_size=40, kernel="linear")
    >>> result.summary["verdict"]["method"]
    'l2svm'
    >>> [row["title"] for row in result.summary["sizes"][0]["methods"]]
    ['L2-SVM', 'SVM2+']
    """
    data, classes, metric = check_data(X, y, privileged, groups, metric)
    n = len(data.y)
    if balanced and (groups is not None or test_only is not None or metric == "r2"):
        raise ValueError("`balanced` draws rows class by class; it needs classes, and no `groups` or `test_only`.")
    if balanced:
        counts = np.bincount(data.y)
        n = len(counts) * int(counts.min())
    if test_only is not None:
        if groups is not None:
            raise ValueError("`test_only` fixes the test rows already; leave out `groups`.")
        data = replace(data, test_only=np.asarray(test_only, dtype=bool))
        n = int((~data.test_only).sum()) + 4  # four more than there are to train on: all of those may be used
    protocol = Protocol(
        metric=metric,
        n_splits=n_splits,
        train_sizes=_sizes(train_size, n),
        inner_folds=inner_folds,
        kernel=kernel,
        seed=seed,
        standardize=standardize,
        balanced=balanced,
        max_test=max_test,
        grids=_frozen(grids or {}),
    )
    chosen = choose_methods(methods, metric, 0 if classes is None else len(classes))
    for name in grids or {}:
        if name not in chosen:
            raise ValueError(f"`grids` names {name!r}, which is not among the methods {', '.join(chosen)}.")
    split_rows(protocol, 0, data.y, data.groups, data.test_only)  # an impossible split is better noticed at once
    digest = data_digest(data.X, data.y, data.privileged, data.groups, data.test_only)
    units = plan(protocol, chosen)
    fingerprint = protocol.fingerprint(digest)
    if store is not None and Path(store).is_dir():
        store = Path(store) / f"{fingerprint[:16]}.sqlite"
    with RunStore(store, fingerprint) as opened:
        done = sum(unit.key in opened.results() for unit in units)
        report = on_progress or (lambda done, total: None)
        report(done, len(units))

        def on_done(unit, result):
            nonlocal done
            done += 1
            report(done, len(units))

        results = run_units(units, protocol, data, opened, n_jobs=n_jobs, on_done=on_done)
    sizes = summarize(results, protocol, chosen)
    comparison = Comparison(
        {
            "format": 1,
            "verdict": verdict(sizes[-1], protocol),
            "sizes": sizes,
            "protocol": _protocol_facts(protocol),
            "data": _data_facts(X, privileged, data, classes, digest),
            "hard_examples": None,
            "environment": environment(),
            "command": command,
        },
        data,
        protocol,
        classes,
    )
    if hard_examples:
        comparison.summary["hard_examples"] = _hard_examples(comparison, chosen)
    return comparison


def check_data(X, y, privileged, groups, metric):
    """Check tables, target and groups; encode the target; choose the metric if there is none.

    Returns
    -------
    Data, ndarray or None, str
        The data, the classes (None in regression), the metric.
    """
    X, privileged = (t if is_frame(t) else np.asarray(t, dtype=np.float64) for t in (X, privileged))
    for name, table in (("X", X), ("privileged", privileged)):
        if len(table.shape) != 2 or table.shape[1] == 0:
            raise ValueError(f"`{name}` must be a table with at least one column; its shape is {table.shape}.")
    y = np.asarray(y)
    check_consistent_length(X, y, privileged, groups)
    if (y.dtype.kind == "f" and np.isnan(y).any()) or (y.dtype.kind == "O" and any(v is None or v != v for v in y)):
        raise ValueError("`y` has gaps; leave those rows out.")
    if empty_rows(privileged).all():
        raise ValueError("`privileged` has no value at all.")
    if metric == "r2":
        return Data(X, y.astype(np.float64), privileged, _codes(groups)), None, metric
    classes, encoded = np.unique(y.astype(str) if y.dtype.kind == "O" else y, return_inverse=True)
    counts = np.bincount(encoded)
    if len(classes) < 2:
        raise ValueError(f"`y` has one value only ({classes[0]}); a comparison needs two classes.")
    if y.dtype.kind == "f" and len(classes) > 20 and metric is None:
        raise ValueError(f"`y` holds {len(classes)} different numbers; use metric='r2', or make classes of them.")
    if counts.min() < 4:
        raise ValueError(f"the class {classes[counts.argmin()]} has {counts.min()} rows only; 4 are needed.")
    return Data(X, encoded, privileged, _codes(groups)), classes, metric or ("auc" if len(classes) == 2 else "accuracy")


def _frozen(grids):
    return tuple((name, tuple((k, tuple(v)) for k, v in sorted(grid.items()))) for name, grid in sorted(grids.items()))


def _codes(groups):
    return None if groups is None else np.unique(np.asarray(groups).astype(str), return_inverse=True)[1]


def _sizes(train_size, n):
    sizes = [min(200, n // 2)] if train_size is None else np.atleast_1d(np.asarray(train_size, dtype=object)).tolist()
    numbers = sorted({round(s * n) if isinstance(s, float) and s < 1 else int(s) for s in sizes})
    if numbers[0] < 8 or numbers[-1] > n - 4:
        raise ValueError(
            f"train_size is {train_size}, but must leave 8 rows or more for training and 4 for the test of {n}."
        )
    return tuple(numbers)


def _protocol_facts(protocol):
    return {
        "metric": protocol.metric,
        "metric_title": METRICS[protocol.metric].title,
        "n_splits": protocol.n_splits,
        "train_sizes": list(protocol.train_sizes),
        "inner_folds": protocol.inner_folds,
        "kernel": protocol.kernel,
        "seed": protocol.seed,
        "max_test": protocol.max_test,
        "standardize": protocol.standardize,
        "balanced": protocol.balanced,
        "grids": {name: {key: list(values) for key, values in grid} for name, grid in protocol.grids},
    }


def _data_facts(X, privileged, data, classes, digest):
    names = [[str(c) for c in table.columns] if is_frame(table) else None for table in (X, privileged)]
    return {
        "rows": len(data.y),
        "features": data.X.shape[1],
        "privileged": data.privileged.shape[1],
        "feature_names": names[0],
        "privileged_names": names[1],
        "classes": None if classes is None else [str(c) for c in classes],
        "class_counts": None if classes is None else np.bincount(data.y).tolist(),
        "groups": None if data.groups is None else int(data.groups.max()) + 1,
        "sha256": digest,
    }


def environment():
    """Versions, for the report.

    Returns
    -------
    dict
    """
    versions = {"lupi": __version__}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "packages": versions,
    }


def _hard_examples(comparison, methods):
    """Rows that the correcting function of SVM2+ or SVM+ calls hardest."""
    name = next((name for name in ("svm2+", "svm+") if name in methods), None)
    if name is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the units have reported theirs
        try:
            model = comparison.fit_model(name)
        except ValueError:
            return None
    data, classes = comparison._data, comparison._classes
    rows = np.sort(_order(comparison._protocol, data)[:MAX_FIT])
    values = np.asarray(model.correction(take(data.privileged, rows)))
    # Of several classes, an example's own one counts.
    values = values if values.ndim == 1 else values[np.arange(len(rows)), data.y[rows]]
    known = np.flatnonzero(np.isfinite(values))
    order = known[np.argsort(-values[known], kind="stable")][:N_HARD]
    predicted = model.predict(take(data.X, rows[order]))
    return {
        "method": METHODS[name].title,
        "median": float(np.median(values[known])),
        "rows": [
            {
                "row": int(rows[k]),
                "correction": float(values[k]),
                "label": str(classes[data.y[rows[k]]]),
                "predicted": str(guess),
                "privileged": _cells(data.privileged, rows[k]),
            }
            for k, guess in zip(order, predicted)
        ],
    }


def _cells(table, row, limit=6):
    """The first cells of a row, as text."""
    names = [str(c) for c in table.columns] if is_frame(table) else [f"column {k}" for k in range(table.shape[1])]
    values = table.iloc[row].tolist() if is_frame(table) else table[row].tolist()
    return [[name, f"{v:.4g}" if isinstance(v, float) else str(v)] for name, v in list(zip(names, values))[:limit]]
