"""`compare`: does privileged information help here?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from lupi.comparison.checks import check_data, check_validation, frozen_grids, train_sizes
from lupi.comparison.facts import data_facts, environment, protocol_facts
from lupi.comparison.final import fit_final
from lupi.comparison.final import hard_examples as name_hard_examples
from lupi.comparison.methods import METHODS, choose_methods
from lupi.comparison.protocol import Protocol, split_rows
from lupi.comparison.summary import summarize
from lupi.comparison.units import plan, run_unit
from lupi.comparison.verdict import verdict
from lupi.engine.files import strict_json, write_atomically
from lupi.engine.identity import digest_of
from lupi.engine.store import RunStore
from lupi.engine.units import measured, run_units


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
        from lupi.comparison.render import terminal_table

        return terminal_table(self.summary)

    def to_json(self, path):
        """Write the summary as JSON; infinite parameters (``kappa=inf``) as the word "inf".

        Parameters
        ----------
        path : path-like
        """
        write_atomically(path, (strict_json(self.summary, indent=1) + "\n").encode())

    def to_html(self, path):
        """Write the report: one page that needs no network.

        Parameters
        ----------
        path : path-like
        """
        from lupi.comparison.html import render

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
        name = method or self.summary["verdict"]["method"]
        if name is None:
            failures = sorted({e for row in self.summary["sizes"][-1]["methods"] for e in row["errors"]})
            raise ValueError(f"there is no model to fit: {'; '.join(failures) or 'no method has a finite score'}")
        return fit_final(METHODS[name], self._protocol, self._data, self._classes)


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
    validation=None,
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
    validation : tuple of two arrays, optional
        X and y of an official validation set: parameters are chosen by the score on it, not by cross-validation. Its rows
        have no privileged features. Arrays only.
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
    >>> from lupi.comparison import compare
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
    if validation is not None:
        data = replace(data, validation=check_validation(*validation, data, classes))
    protocol = Protocol(
        metric=metric,
        n_splits=n_splits,
        train_sizes=train_sizes(train_size, n),
        inner_folds=inner_folds,
        kernel=kernel,
        seed=seed,
        standardize=standardize,
        balanced=balanced,
        max_test=max_test,
        grids=frozen_grids(grids or {}),
    )
    chosen = choose_methods(methods, metric, 0 if classes is None else len(classes))
    for name in grids or {}:
        if name not in chosen:
            raise ValueError(f"`grids` names {name!r}, which is not among the methods {', '.join(chosen)}.")
    split_rows(protocol, 0, data.y, data.groups, data.test_only)  # an impossible split is better noticed at once
    digest = digest_of(data.X, data.y, data.privileged, data.groups, data.test_only, *(data.validation or ()))
    units = plan(protocol, chosen)
    fingerprint = protocol.fingerprint(digest)
    if store is not None and Path(store).is_dir():
        store = Path(store) / f"{fingerprint[:16]}.sqlite"
    with RunStore(store, fingerprint) as opened:
        work = [(unit.key, measured, run_unit, unit, protocol, data) for unit in units]
        results = run_units(work, opened, n_jobs=n_jobs, on_progress=on_progress)
    sizes = summarize(results, protocol, chosen)
    comparison = Comparison(
        {
            "format": 1,
            "verdict": verdict(sizes[-1], protocol),
            "sizes": sizes,
            "protocol": protocol_facts(protocol),
            "data": data_facts(X, privileged, data, classes, digest),
            "hard_examples": None,
            "environment": environment(),
            "command": command,
        },
        data,
        protocol,
        classes,
    )
    if hard_examples:
        comparison.summary["hard_examples"] = name_hard_examples(chosen, protocol, data, classes)
    return comparison
