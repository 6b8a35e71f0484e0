"""`compare`: does privileged information help here?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from numbers import Real
from os import PathLike
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from lupi.comparison.leakage import examine
from lupi.comparison.methods import METHODS, choose_methods
from lupi.comparison.problem import check_data, check_validation, split_frame, train_sizes, with_test_rows
from lupi.comparison.protocol import Protocol, split_rows
from lupi.comparison.schema import FORMAT
from lupi.comparison.summary import (
    candidate_row,
    data_facts,
    environment,
    paired,
    protocol_facts,
    summarize,
    summarize_permutations,
    worth,
)
from lupi.comparison.units import (
    Setup,
    Unit,
    column_groups,
    fit_final,
    hard_rows,
    plan,
    run_unit,
)
from lupi.comparison.verdict import verdict
from lupi.files import digest_of, strict_json, write_atomically
from lupi.inputs import is_frame
from lupi.inputs.types import VectorLike
from lupi.run import Store, measured, progress, run_units

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# The method that computes the exact test where the winner is no quick one: any statistic keeps the level.
STAND_IN = "surrogate-ridge"


# Splits on which columns are left out: their order shows before the verdict's does, and every column costs as much again.
COLUMN_SPLITS = 10


class Comparison:
    """Result of :func:`compare`.

    Attributes
    ----------
    summary : lupi.comparison.schema.Summary
        Everything, as plain Python objects.
    """

    def __init__(self, summary, setup=None, classes=None):
        self.summary = summary
        self._setup, self._classes = setup, classes

    @property
    def verdict(self) -> str:
        """The answer in words."""
        return self.summary["verdict"]["text"]

    def __repr__(self) -> str:
        return f"Comparison({self.verdict!r})"

    def _repr_html_(self) -> str:
        """Card for a notebook: badge, sentence, small table."""
        from lupi.comparison.render.page import card

        return card(self.summary)

    def table(self) -> Any:
        """What the terminal shows, without the verdict: every method, one table for each training size.

        Returns
        -------
        object
            Something that `rich` prints, for any width.
        """
        from lupi.comparison.render.terminal import TerminalTable

        return TerminalTable(self.summary)

    def to_frame(self) -> pd.DataFrame:
        """One row for each method and training size: scores, gains, p-values.

        Returns
        -------
        pandas.DataFrame
        """
        import pandas as pd

        from lupi.comparison.render.page import method_lines

        return pd.DataFrame(method_lines(self.summary))

    def plot_gains(self, ax: Axes | None = None) -> Axes:
        """Each method that uses the columns: its lead over the best plain method and over both of its controls.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            A new one if not given.

        Returns
        -------
        matplotlib.axes.Axes
        """
        from lupi.plot import GainsDisplay

        return GainsDisplay.from_comparison(self, ax=ax).ax_

    def plot_curve(self, ax: Axes | None = None) -> Axes:
        """Learning curves of the best plain method and of the best method with the columns; needs several sizes.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            A new one if not given.

        Returns
        -------
        matplotlib.axes.Axes
        """
        from lupi.plot import LearningCurveDisplay

        return LearningCurveDisplay.from_comparison(self, ax=ax).ax_

    def to_json(self, path: str | PathLike[str]) -> None:
        """Write the summary as JSON; infinite parameters (``kappa=inf``) as the word "inf".

        Parameters
        ----------
        path : path-like
        """
        write_atomically(path, (strict_json(self.summary, indent=1) + "\n").encode())

    def to_html(self, path: str | PathLike[str]) -> None:
        """Write the report: one page that needs no network.

        Parameters
        ----------
        path : path-like
        """
        from lupi.comparison.render.page import render

        write_atomically(path, render(self.summary).encode())

    def fit_model(self, method: str | None = None) -> Any:
        """Fit a method on all rows (at most 5000), its parameters chosen by cross-validation (on at most 1000).

        Parameters
        ----------
        method : str, optional
            Name of a method, or of a row of the summary. By default the one that the verdict recommends.

        Returns
        -------
        TabularModel
            A scikit-learn estimator on tables like those compared. Where they were frames, a frame that has the
            privileged columns as well can be given to its `fit`, and so to ``cross_val_score``.
        """
        name = method or self.summary["verdict"]["method"]
        if name is None:
            failures = sorted({e for row in self.summary["sizes"][-1]["methods"] for e in row["errors"]})
            raise ValueError(f"there is no model to fit: {'; '.join(failures) or 'no method has a finite score'}")
        name, _, part = name.partition("/")
        known = {**METHODS, **self._setup.methods}
        if name not in known:
            raise ValueError(f"no method is called {name!r}; compared were {', '.join(self._setup.methods)}.")
        return fit_final(known[name], self._setup, self._classes, labeled_only=part == "labeled")


def compare(
    X: Any,
    y: VectorLike = None,
    privileged: Any = None,
    *,
    target: str | None = None,
    drop: str | Sequence[str] = (),
    methods: Sequence[Any] | None = None,
    baselines: Sequence[Any] | None = None,
    metric: str | None = None,
    n_splits: int = 20,
    train_size: Any = None,
    grids: dict[str, dict[str, Any]] | None = None,
    kernel: str | None = None,
    groups: Any = None,
    test_only: VectorLike | None = None,
    validation: tuple[Any, Any] | None = None,
    standardize: bool = True,
    balanced: bool = False,
    max_test: int = 2000,
    max_unlabeled: int = 2000,
    inner_folds: int = 5,
    permutations: int = 99,
    columns: bool = True,
    hard_examples: bool = True,
    leaks: bool = True,
    seed: int = 0,
    n_jobs: int = 1,
    store: str | PathLike[str] | None = None,
    on_progress: Callable[[int, int], Any] | bool | None = None,
    max_time: float | None = None,
    source: str | None = None,
    command: str | None = None,
) -> Comparison:
    """Compare methods with and without privileged features on repeated random splits.

    On each split every method chooses its parameters by cross-validation inside the training rows and is scored on the
    test rows. The columns *help* only if a method that uses them beats every plain method, its own plain counterpart
    (privileged off), and itself with another example's privileged row (shuffled); an exact permutation test stands beside.

    Parameters
    ----------
    X : data frame or array of shape (n_samples, n_features)
        Decision features: numbers, and in a frame also words and dates. Gaps (NaN) are filled inside the folds. With
        `target`: the whole table.
    y : array-like of shape (n_samples,), optional
        Labels; numbers with ``metric="r2"``. A missing one (NaN, None) is a row without a label: it joins every training
        set of the methods that use such rows, and never a test set.
    privileged : data frame, array of shape (n_samples, n_privileged), or names
        Features that exist at training time only. A row without any value: not available for that example. With `target`:
        names of columns, wildcards allowed.
    target : str, optional
        Name of the column to predict, where X is the whole table.
    drop : sequence of str or str
        With `target`: columns to ignore.
    methods, baselines : sequence, optional
        Names in ``METHODS``, ``"package.module:Class"``, estimators, or (name, estimator, grid). An estimator whose `fit`
        takes `privileged` is a method, any other a plain baseline. Plain counterparts are added. An empty list of
        baselines leaves the counterparts alone.
    metric : {"ap", "accuracy", "auc", "balanced_accuracy", "r2"}, optional
        By default "auc" for two classes, "accuracy" for more.
    n_splits : int, default=20
        Random splits.
    train_size : int, float or list of these, optional
        Labeled training rows, or their share; several give a learning curve. By default half of the rows, at most 200.
    grids : dict of str to dict, optional
        Grids that replace the built-in ones of a method.
    kernel : {"rbf", "linear"}, optional
        Kernel of all kernel methods; by default both are candidates.
    groups : array-like of shape (n_samples,) or str, optional
        Rows of one group are never split between training and test; with `target` the name of a column.
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
    max_test, max_unlabeled : int, default=2000
        At most so many of the other rows are used for the test, and so many rows without a label in each training set.
    inner_folds : int, default=5
        Folds for the choice of parameters.
    permutations : int, default=99
        Of the exact test; 0: none.
    columns : bool, default=True
        Whether a method that helps is run again without each group of privileged columns.
    hard_examples : bool, default=True
        Whether to fit SVM2+ or SVM+, where compared, once more on all rows, to name those that its correcting function
        calls hard.
    leaks : bool, default=True
        Whether to look for columns that say too much: several seconds with thousands of columns. False for pictures and texts,
        whose columns mean nothing one by one.
    seed : int, default=0
        Everything random follows from it; results do not depend on ``n_jobs``.
    n_jobs : int, default=1
        Processes, as in joblib; a joblib backend chosen with ``parallel_config`` is used.
    store : path-like, optional
        SQLite file that keeps each finished unit of work: the same call continues where a broken one stopped. Results
        of another protocol or of other data in that file are refused. For a folder that exists, a file in it, one for
        each protocol and data.
    on_progress : callable or bool, optional
        Called as ``on_progress(done, total)``, and before that, if there is such a method, ``on_progress.expect(seconds, sure)``
        with the time that is left. True prints how long it will take after the first fits, then a line now and then.
    max_time : float or None, default=None
        Seconds after which no new unit of work is begun: a TimeoutError says how far it came. With a ``store`` the same call goes
        on from there.
    source, command : str, optional
        Where the data come from, and the command to repeat the run, for the report.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import lupi
    >>> from lupi.datasets import make_privileged
    >>> X, y, privileged = make_privileged(150, random_state=0, return_X_y_privileged=True)
    >>> result = lupi.compare(X, y, privileged, methods=["surrogate-ridge"], baselines=["linear"], n_splits=8,
    ...                       train_size=40, permutations=19)
    >>> result.summary["verdict"]["answer"]
    'unclear'
    >>> [row["title"] for row in result.summary["sizes"][0]["methods"]]
    ['logistic regression', 'ridge student', 'surrogate, ridge']
    """
    if max_time is not None and not (isinstance(max_time, Real) and max_time > 0):
        raise ValueError(f"`max_time` must be a positive number of seconds or None, got {max_time!r}.")
    whole, dropped = X, None
    until = None if max_time is None else monotonic() + max_time
    if target is not None:
        if y is not None:
            raise ValueError("with `target` the labels are a column of the table: leave out `y`.")
        if not is_frame(X):
            raise TypeError("`target` names a column, so `X` must be a data frame that has it.")
        X, y, privileged, groups, dropped = split_frame(X, target, privileged, drop, groups, metric == "r2")
    elif y is None or privileged is None:
        raise ValueError("give X, y and privileged, or a data frame with the names `target` and `privileged`.")
    data, classes, metric = check_data(X, y, privileged, groups, metric)
    n = len(data.labeled)
    if balanced and (groups is not None or test_only is not None or metric == "r2"):
        raise ValueError("`balanced` draws rows class by class; it needs classes, and no `groups` or `test_only`.")
    if balanced:
        counts = np.unique(data.y[data.labeled], return_counts=True)[1]
        n = len(counts) * int(counts.min())
    if test_only is not None:
        data = with_test_rows(data, test_only)
        n = int((~data.test_only[data.labeled]).sum()) + 4  # all of those may be used
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
        max_unlabeled=max_unlabeled,
        grids=_frozen(grids or {}),
    )
    chosen = choose_methods(methods, baselines, metric, 0 if classes is None else len(classes))
    for name in grids or {}:
        if name not in chosen:
            raise ValueError(f"`grids` names {name!r}, which is not among the methods {', '.join(chosen)}.")
    setup = Setup(protocol, data, {STAND_IN: METHODS[STAND_IN]} | chosen, column_groups(data.privileged))
    for split in range(n_splits if data.groups is not None else 1):
        split_rows(protocol, split, data)  # an impossible split is better noticed at once
    blocks = (X, y, privileged, groups, test_only, *(validation or ()))
    digest = digest_of(*(block if block is None or is_frame(block) else np.asarray(block) for block in blocks))
    suspects, notes = [], []
    if leaks:
        grouped = groups is not None or test_only is not None
        suspects, notes = examine(X, data.y, privileged, target or "y", grouped=grouped, others=dropped)
    if len(data.unlabeled):
        notes.insert(
            0,
            f"{len(data.unlabeled)} of {len(data.y)} rows have no {target or 'label'}: they join the training sets of the "
            "methods that use unlabeled rows, and never a test set.",
        )
    with _open_store(store, protocol.fingerprint(digest)) as opened, _reporting(on_progress) as report:
        runner = _Runner(setup, opened, n_jobs, report, until)
        sizes = runner.first(list(chosen), permutations)
        tested, skipped = runner.exact_test(sizes[-1], permutations)
        effects = runner.columns(sizes[-1]) if columns else []
    translated = worth(sizes)
    summary = {
        "format": FORMAT,
        "source": source or ("data frame" if is_frame(whole) else "arrays"),
        "verdict": verdict(sizes, protocol, permutation=tested, skipped=skipped, leaks=suspects, worth=translated),
        "notes": notes,
        "leaks": suspects,
        "sizes": sizes,
        "permutation": tested,
        "permutation_skipped": skipped,
        "columns": effects,
        "worth": translated,
        "hard_examples": hard_rows(setup, list(chosen), classes) if hard_examples else None,
        "protocol": protocol_facts(protocol),
        "data": data_facts(data, classes, digest, target),
        "environment": environment(),
        "seconds": sum(result["seconds"] for result in runner.results.values()),
        "command": command,
    }
    return Comparison(summary, setup, classes)


class _Runner:
    """The three rounds of units: the comparison, the exact test, the columns."""

    def __init__(self, setup, store, n_jobs, report, until=None):
        self.setup, self.store, self.n_jobs, self.report, self.until = setup, store, n_jobs, report, until
        self.results, self.before = {}, 0

    def run(self, units, to_come=()):
        keys = {self.setup.key(unit): unit for unit in units}
        found = run_units(
            {key: (measured, run_unit, unit, self.setup) for key, unit in keys.items()},
            self.store,
            n_jobs=self.n_jobs,
            on_progress=lambda done, total: self.report(self.before + done, self.before + total + len(to_come)),
            deadline=self.until,
        )
        missing = len(keys) - len(found)
        if missing:
            raise TimeoutError(
                f"the time of the comparison (max_time) was over with {missing} of {len(keys)} fits to do. "
                + (
                    "What was finished is kept, the same call goes on from there."
                    if self.store.path is not None
                    else "With a `store` the same call would go on from there."
                )
            )
        self.before += len(units)
        self.results |= {keys[key]: result for key, result in found.items()}

    def first(self, names, permutations):
        """The comparison itself; the units of the exact test will follow, most likely by the stand-in."""
        protocol = self.setup.protocol
        rows = "all" if len(self.setup.data.unlabeled) else "labeled"
        splits = range(
            protocol.n_splits if permutations > 0 and any(self.setup.methods[n].privileged for n in names) else 0
        )
        to_come = [
            Unit(protocol.train_sizes[-1], split, STAND_IN, f"permuted {permutations}", rows) for split in splits
        ]
        self.run(plan(self.setup, names), to_come)
        return summarize(self.results, self.setup, names)

    def exact_test(self, size, permutations):
        """The exact test of the method that did best, and why there is none."""
        row = candidate_row(size)
        if row is None:
            return None, "no method that uses the columns could be compared."
        if permutations < 1:
            return None, "it was not asked for."
        method = self.setup.methods[row["method"]]
        if not method.closed_form and (not method.grid or method.origin):
            method = self.setup.methods[STAND_IN]
        rows = row["rows"] if method.unlabeled else "labeled"

        def unit_of(split):
            return Unit(size["train_size"], split, method.name, f"permuted {permutations}", rows)

        self.run([unit_of(split) for split in range(self.setup.protocol.n_splits)])
        found = summarize_permutations(self.results, self.setup, unit_of)
        return found, None if found else f"{method.title} could not be fitted on every permutation."

    def columns(self, size):
        """What the method that helps most loses without each group of privileged columns."""
        row, groups = candidate_row(size), self.setup.column_groups
        if row is None or row["outcome"] != "helps" or len(groups) < 2:
            return []
        splits = range(min(COLUMN_SPLITS, self.setup.protocol.n_splits))
        units = {
            name: [Unit(size["train_size"], split, row["method"], f"without {name}", row["rows"]) for split in splits]
            for name in groups
        }
        self.run([unit for part in units.values() for unit in part])
        effects = []
        for name, part in units.items():
            scores = [self.results[unit]["score"] for unit in part]
            if None not in scores:
                effects.append(
                    {"name": name, "columns": groups[name], "loss": paired(row["scores"][: len(scores)], scores)}
                )
        return sorted(effects, key=lambda effect: -effect["loss"]["mean"])


def _frozen(grids):
    """Grids as sorted tuples, for the protocol."""
    return tuple((name, tuple((k, tuple(v)) for k, v in sorted(grid.items()))) for name, grid in sorted(grids.items()))


def _open_store(store, fingerprint):
    if store is not None and Path(store).is_dir():
        store = Path(store) / f"{fingerprint[:16]}.sqlite"
    return Store(store, fingerprint)


def _reporting(on_progress):
    """The caller's function, or lines and bars of our own, or nothing."""
    return nullcontext(on_progress) if callable(on_progress) else progress("fitting", shown=on_progress is True)
