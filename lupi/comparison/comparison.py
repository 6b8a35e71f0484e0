"""`compare`: do privileged columns help?"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from numbers import Real
from os import PathLike
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from lupi import __version__
from lupi.comparison.leakage import examine
from lupi.comparison.methods import RECIPES, choose_methods
from lupi.comparison.problem import Problem, make_problem, train_sizes
from lupi.comparison.report import TerminalTable, card, method_frame, render
from lupi.comparison.results import HELPS, ColumnEffect, column_groups, paired, summarize, summarize_permutations, worth
from lupi.comparison.units import Plan, Result, Unit, fit_final, given_splits, plan_units, run_unit, split_rows
from lupi.comparison.verdict import verdict
from lupi.files import strict_json, write_atomically
from lupi.inputs.tables import is_frame
from lupi.inputs.types import VectorLike
from lupi.plot import GainsDisplay, LearningCurveDisplay
from lupi.run import RESUME, Store, measured, progress, run_units
from lupi.tabular.table import text_notes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

FORMAT = 3
# Computes the exact test unless the best one is a kernel method, which is fast: any statistic keeps the level.
STAND_IN = "surrogate-ridge"
# Splits on which columns are left out: their order is clear before the verdict is.
COLUMN_SPLITS = 10
# Options that are settings of the plan.
PROTOCOL = ("inner_folds", "kernel", "standardize", "max_test", "max_unlabeled")
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "joblib", "pandas")


class Comparison:
    """Result of :func:`compare`.

    Attributes
    ----------
    summary : dict
        The content of `results.json`, as plain Python objects: the fields of `Verdict`, of `SizeResult` and of the other
        classes of `lupi.comparison.results`. Scores are shares (0.83, not 83 points), gains are differences of two scores.
        No value of a privileged column is in it.
    """

    def __init__(self, summary: dict[str, Any], problem: Problem | None = None, plan: Plan | None = None) -> None:
        self.summary = summary
        self._problem, self._plan = problem, plan

    @property
    def verdict(self) -> str:
        """The answer in words."""
        return self.summary["verdict"]["text"]

    def __repr__(self) -> str:
        return f"Comparison({self.verdict!r})"

    def _repr_html_(self) -> str:
        """Card for a notebook: badge, sentence, small table."""
        return card(self.summary)

    def table(self) -> Any:
        """Table of all methods for each training size, as the terminal shows it: an object for ``rich.print``."""
        return TerminalTable(self.summary)

    def to_frame(self) -> pd.DataFrame:
        """One row per method and training size: scores, gains, p-values."""
        return method_frame(self.summary)

    def plot_gains(self, ax: Axes | None = None) -> Axes:
        """Gain of each method that uses the columns over the best baseline and over both of its controls; returns the axes."""
        return GainsDisplay.from_comparison(self, ax=ax).ax_

    def plot_curve(self, ax: Axes | None = None) -> Axes:
        """Learning curves of the best baseline and of the best method with the columns; requires several sizes."""
        return LearningCurveDisplay.from_comparison(self, ax=ax).ax_

    def to_json(self, path: str | PathLike[str]) -> None:
        """Write the summary as JSON; infinite numbers become the string "inf"."""
        write_atomically(path, (strict_json(self.summary, indent=1) + "\n").encode())

    def to_html(self, path: str | PathLike[str]) -> None:
        """Write the report: one page that requires no network."""
        write_atomically(path, render(self.summary).encode())

    def fit_model(self, method: str | None = None) -> Any:
        """Fit a method on all rows (at most 5000); cross-validation (on at most 1000) selects its parameters.

        Parameters
        ----------
        method : str, optional
            Name of a method, or of a row of the summary; by default the one that the verdict recommends.

        Returns
        -------
        TabularModel
            Scikit-learn estimator on tables like those compared. If they were data frames, its `fit` also accepts a frame
            that includes the privileged columns, as ``cross_val_score`` passes it.
        """
        if self._problem is None or self._plan is None:
            raise ValueError("this comparison was not made by `lupi.compare`: it has no data to fit a model on.")
        name = method or self.summary["verdict"]["method"]
        if name is None:
            failures = sorted({e for row in self.summary["sizes"][-1]["methods"] for e in row["errors"]})
            raise ValueError(f"there is no model to fit: {'; '.join(failures) or 'no method has a finite score'}")
        name, _, part = name.partition("/")
        problem, plan = self._problem, self._plan
        known = plan.methods if name in plan.methods else choose_methods([name], [], plan.metric, problem.n_classes)
        return fit_final(known[name], problem, plan, labeled_only=part == "labeled")


@dataclass(frozen=True)
class Options:
    """Further settings of :func:`compare`, passed by keyword.

    Attributes
    ----------
    cv : splitter or iterable, optional
        Splits in place of `n_splits` random ones: a splitter of scikit-learn, or pairs (train, test) of positions among the
        labeled rows. A third array (train, test, validation) selects parameters in place of cross-validation.
    grids : dict of str to dict, optional
        Grids that replace the built-in grids of methods.
    kernel : {"rbf", "linear"}, optional
        Kernel of all kernel methods; by default both are candidates.
    standardize : bool
        Whether numeric columns are standardized.
    inner_folds : int
        Folds of the cross-validation that selects parameters.
    max_test, max_unlabeled : int
        Limits on the test rows, and on the unlabeled rows of each training set.
    columns : bool
        Whether a method that helps runs again without each group of privileged columns.
    leaks : bool
        Whether to look for columns that give the target away. Slow with thousands of columns.
    on_progress : callable or bool
        Called as ``on_progress(done, total)``. True shows a progress bar.
    max_time : float, optional
        Stop starting new fits after this many seconds, with a TimeoutError. With `store`, the same call resumes.
    source, command : str, optional
        Origin of the data, and the command to repeat the run, for the report.
    """

    cv: Any = None
    grids: dict[str, dict[str, Any]] | None = None
    kernel: str | None = None
    standardize: bool = True
    inner_folds: int = 5
    max_test: int = 2000
    max_unlabeled: int = 2000
    columns: bool = True
    leaks: bool = True
    on_progress: Callable[[int, int], Any] | bool | None = None
    max_time: float | None = None
    source: str | None = None
    command: str | None = None

    def __post_init__(self) -> None:
        if self.max_time is not None and not (isinstance(self.max_time, Real) and self.max_time > 0):
            raise ValueError(f"`max_time` must be a positive number of seconds or None, got {self.max_time!r}.")


def compare(
    X: Any,
    y: VectorLike = None,
    privileged: Any = None,
    *,
    target: str | None = None,
    drop: str | Sequence[str] = (),
    groups: Any = None,
    methods: Sequence[Any] | None = None,
    baselines: Sequence[Any] | None = None,
    metric: str | None = None,
    n_splits: int = 20,
    train_size: Any = None,
    permutations: int = 99,
    seed: int = 0,
    n_jobs: int = 1,
    store: str | PathLike[str] | None = None,
    **options: Any,
) -> Comparison:
    """Compare methods with and without privileged features on repeated random splits.

    On each split every method selects its parameters by cross-validation on the training rows and is scored on the test
    rows. The columns *help* only if a method that uses them beats every baseline, its own counterpart without the columns,
    and itself with shuffled privileged rows. An exact permutation test checks the result.

    Parameters
    ----------
    X : data frame or array of shape (n_samples, n_features)
        Decision features: numbers, and in a data frame also words and dates. Gaps (NaN) are filled inside the folds. With
        `target`: the whole table.
    y : array-like of shape (n_samples,), optional
        Labels; numbers with ``metric="r2"``. Missing values (NaN, None) mark unlabeled rows, which join the training sets of
        methods that use them, and never a test set.
    privileged : data frame, array of shape (n_samples, n_privileged), or names
        Features that exist at training time only; an empty row is not available. With `target`: names of columns, wildcards
        allowed.
    target : str, optional
        Name of the column to predict, where X is the whole table.
    drop : sequence of str or str
        With `target`: columns to ignore.
    groups : array-like of shape (n_samples,) or str, optional
        Rows of one group are never split between training and test; with `target` the name of a column.
    methods, baselines : sequence, optional
        Names in ``METHODS``, ``"package.module:Class"``, estimators, or (name, estimator, grid); among the methods also
        ``"recipes"``: soft-labels, predicted-z and chain. An estimator whose `fit` takes `privileged` is a method, any other
        one a baseline. Counterparts without the columns are added. An empty list of baselines leaves only the counterparts.
    metric : {"ap", "accuracy", "auc", "balanced_accuracy", "r2"}, optional
        By default "auc" for two classes, "accuracy" for more.
    n_splits : int, default=20
        Random splits.
    train_size : int, float or list of these, optional
        Labeled training rows, or their share; several give a learning curve. By default half of the rows, at most 200.
    permutations : int, default=99
        Permutations of the exact test; 0: no test.
    seed : int, default=0
        Determines everything random; results do not depend on `n_jobs`.
    n_jobs : int, default=1
        Processes, as in joblib; a joblib backend chosen with ``parallel_config`` is used.
    store : path-like, optional
        SQLite file that keeps each finished fit: the same call resumes an interrupted one. In an existing folder, one file
        per data and settings is used.
    **options : object
        Further settings: the fields of :class:`lupi.comparison.Options`, such as `kernel`, `grids` or `max_time`.

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
    more = Options(**options)
    deadline = None if more.max_time is None else monotonic() + more.max_time
    problem, metric = make_problem(X, y, privileged, target=target, drop=drop, groups=groups, metric=metric)
    splits = () if more.cv is None else given_splits(more.cv, problem)
    grids = {name: {key: list(values) for key, values in grid.items()} for name, grid in (more.grids or {}).items()}
    sizes = {"n_splits": len(splits) or n_splits, "train_sizes": train_sizes(train_size, problem, splits)}
    protocol = {name: getattr(more, name) for name in PROTOCOL} | sizes
    if methods is not None:
        methods = [name for given in methods for name in (RECIPES if given == "recipes" else [given])]
    chosen = choose_methods(methods, baselines, metric, problem.n_classes)
    plan = Plan(metric=metric, seed=seed, splits=splits, grids=grids, methods=chosen, **protocol)
    for split in range(plan.n_splits if problem.groups is not None else 1):
        split_rows(plan, split, problem)  # report an impossible split before the first fit
    leaks, notes = [], []
    if more.leaks:
        tables, grouped = (problem.X, problem.y, problem.privileged), groups is not None or more.cv is not None
        leaks, notes = examine(*tables, target or "y", grouped=grouped, others=problem.dropped)
    if n_unlabeled := len(problem.unlabeled):
        use = "they join the training sets of the methods that use unlabeled rows, and never a test set"
        notes = [f"{n_unlabeled} of {len(problem.y)} rows have no {target or 'label'}: {use}.", *notes]
    notes = [*notes, *text_notes(problem.X, problem.privileged)]
    problem = replace(problem, dropped=None)
    identity, shown = plan.identity(problem.digest), more.on_progress
    path = Path(store) / f"{identity[:16]}.sqlite" if store is not None and Path(store).is_dir() else store
    reporting = nullcontext(shown) if callable(shown) else progress("fitting", shown=shown is True)
    with Store(path, identity) as opened, reporting as report:
        runner = _Runner(problem, plan, opened, report, n_jobs=n_jobs, deadline=deadline)
        runner.run(plan_units(problem, plan))
        sizes = summarize(runner.results, problem, plan)
        permutation, skipped = runner.exact_test(sizes[-1], permutations)
        effects = runner.column_effects(sizes[-1]) if more.columns else []
    answer, in_rows = verdict(sizes, plan, permutation=permutation, skipped=skipped, leaks=leaks, worth=worth(sizes))
    summary = {
        "format": FORMAT,
        "source": more.source or ("data frame" if is_frame(X) else "arrays"),
        "verdict": asdict(answer),
        "notes": notes,
        "leaks": leaks,
        "sizes": [asdict(size) for size in sizes],
        "permutation": permutation and asdict(permutation),
        "permutation_skipped": skipped,
        "columns": [asdict(effect) for effect in effects],
        "worth": [asdict(part) for part in in_rows],
        "protocol": plan.settings(),
        "data": problem.facts(),
        "environment": environment(),
        "seconds": sum(result.seconds for result in runner.results.values()),
        "command": more.command,
    }
    return Comparison(summary, problem, plan)


class _Runner:
    """The three rounds of units: the comparison, the exact test, the columns."""

    def __init__(self, problem, plan, store, report, **options):
        self.problem, self.plan, self.store, self.report, self.options = problem, plan, store, report, options
        self.results = {}

    def run(self, units):
        keys, before = {unit.key(self.plan): unit for unit in units}, len(self.results)
        work = {key: (measured, run_unit, unit, self.problem, self.plan) for key, unit in keys.items()}

        def report(done, total):
            return self.report(before + done, before + total)

        found = run_units(work, self.store, on_progress=report, **self.options)
        if len(found) < len(keys):
            resume = RESUME if self.store.path is not None else "With `store`, the same call would resume."
            raise TimeoutError(f"`max_time` was over with {len(keys) - len(found)} of {len(keys)} fits to do. {resume}")
        self.results |= {keys[key]: Result(**result) for key, result in found.items()}

    def exact_test(self, size, permutations):
        """The exact test of the best method, and the reason if there is none."""
        row = size.candidate
        if row is None:
            return None, "no method that uses the columns could be compared."
        if permutations < 1:
            return None, "it was not requested."
        method = self.plan.methods[row.method]
        if not method.kernels:
            stand_in = choose_methods([STAND_IN], [], self.plan.metric, self.problem.n_classes)
            self.plan = replace(self.plan, methods=stand_in | self.plan.methods)
            method = self.plan.methods[STAND_IN]
        unit = Unit(size.train_size, 0, method.name, row.rows == "all" and method.unlabeled, permutations=permutations)
        units = [replace(unit, split=split) for split in range(self.plan.n_splits)]
        self.run(units)
        found = summarize_permutations(units, self.results, method.title)
        return found, None if found else f"{method.title} could not be fitted on every permutation."

    def column_effects(self, size):
        """Loss of the best method without each group of privileged columns, if it helps; the largest first."""
        row, groups = size.candidate, column_groups(self.problem.privileged)
        if row is None or row.outcome != HELPS or len(groups) < 2:
            return []
        units, effects = {}, []
        for name, columns in groups.items():
            unit = Unit(size.train_size, 0, row.method, row.rows == "all", without=tuple(columns))
            units[name] = [replace(unit, split=split) for split in range(min(COLUMN_SPLITS, self.plan.n_splits))]
        self.run([unit for several in units.values() for unit in several])
        for name, columns in groups.items():
            scores = [self.results[unit].score for unit in units[name]]
            if None not in scores:
                effects.append(ColumnEffect(name, columns, paired(row.scores[: len(scores)], scores)))
        return sorted(effects, key=lambda effect: -effect.loss.mean)


def environment():
    """Versions of Python and packages, for the report."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "packages": {"lupi": __version__} | {package: version(package) for package in PACKAGES},
    }
