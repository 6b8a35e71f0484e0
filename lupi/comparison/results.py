"""From the results of all units to tables of methods: paired differences, tests, outcomes."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from statistics import mean, median
from typing import Any

import numpy as np
from scipy import stats

from lupi.comparison.units import Unit

LEVEL = 0.05
# Groups of privileged columns that are left out one after the other.
MAX_GROUPS = 12


@dataclass(frozen=True)
class Paired:
    """One method against another on the same splits.

    `mean`, `error` (standard error), `low` and `high` (95% interval, t distribution over the splits) are of the
    differences; `wilcoxon_p` is two-sided and not adjusted; `splits_needed` would show a gain of this size (80% power).
    """

    mean: float
    error: float
    low: float
    high: float
    wins: int
    losses: int
    ties: int
    wilcoxon_p: float
    splits_needed: int | None

    @property
    def p_of_gain(self):
        """The p-value of a gain; 1 where there is none."""
        return self.wilcoxon_p if self.mean > 0 else 1.0


@dataclass(frozen=True)
class Scores:
    """Scores over the splits; `mean` and `error` are None if a split failed, seconds are CPU seconds per split."""

    scores: list[float | None]
    mean: float | None
    error: float | None
    failed: int
    errors: list[str]
    seconds: float
    median_seconds: float


@dataclass(frozen=True)
class MethodResult(Scores):
    """A method at one training size; the comparisons are None for baselines, references and failed methods.

    `name` ends in "/labeled" for a run without the unlabeled rows, which `rows` ("labeled", "all") tells as well.
    `counterpart` names a row, or is "". The gains are over the counterpart, of the shuffled control over the counterpart,
    over the shuffled control, and over the baseline with the best mean. `p_helps` is against all of these and every other
    baseline (the largest p-value), `p_counterpart` against the counterpart alone; both adjusted by Holm over the methods.
    `p` is the p-value behind the `outcome`.
    """

    name: str
    method: str
    title: str
    role: str
    counterpart: str
    rows: str
    params: list[dict[str, Any] | None]
    warnings: dict[str, int]
    shuffled: Scores | None = None
    gain: Paired | None = None
    shuffled_gain: Paired | None = None
    over_shuffled: Paired | None = None
    over_best_baseline: Paired | None = None
    p: float | None = None
    p_helps: float | None = None
    p_counterpart: float | None = None
    outcome: str | None = None

    @property
    def gains(self):
        """Its gains over everything that it has to beat, by name."""
        found = {"the best baseline": self.over_best_baseline, "its shuffled control": self.over_shuffled}
        return found | ({"its counterpart": self.gain} if self.gain else {})


OUTCOMES = (
    HELPS := "helps",
    MATCHED := "helps, but a baseline is as good",
    NOT_THE_COLUMNS := "gains, but not clearly more than with shuffled rows",
    HURTS := "hurts",
    NO_DIFFERENCE := "no clear difference",
)


@dataclass(frozen=True)
class SizeResult:
    """All methods at one training size: `train_size` is the requested one, `n_train` the actual one."""

    train_size: int
    n_train: int
    n_unlabeled: int
    n_test: int
    best_baseline: str | None
    methods: list[MethodResult]

    def find(self, name):
        """The row of that name, or None."""
        return next((row for row in self.methods if row.name == name), None)

    @property
    def baselines(self):
        """Baselines that were fitted on every split."""
        return [row for row in self.methods if row.role == "baseline" and not row.failed]

    @property
    def tested(self):
        """Privileged methods that were fitted, with their controls, on every split."""
        return [row for row in self.methods if row.outcome]

    @property
    def candidate(self):
        """The privileged method with the best mean, among those that help if there are any; or None."""
        helping = [row for row in self.tested if row.outcome == HELPS]
        return max(helping or self.tested, key=lambda row: row.mean, default=None)


@dataclass(frozen=True)
class Permutation:
    """Exact test: mean score over the splits, and the same for each of the `n` permutations of the privileged rows."""

    method: str
    title: str
    train_size: int
    n: int
    score: float
    permuted: list[float]
    p: float


@dataclass(frozen=True)
class ColumnEffect:
    """Loss of the best method without a group of privileged columns."""

    name: str
    columns: list[str]
    loss: Paired


@dataclass(frozen=True)
class Worth:
    """Labeled rows that the best baseline needs for the same score; None if its curve, up to `at_least` rows, ends below.

    `shown` tells whether the columns are shown to save labeled rows at this size.
    """

    train_size: int
    method: str
    score: float
    baseline_rows: float | None
    at_least: int
    shown: bool = False


def summarize(results, problem, plan):
    """Statistics of every training size, from a dict of Unit to Result."""
    return [_summarize_size(results, problem, plan, size) for size in plan.train_sizes]


def _summarize_size(results, problem, plan, size):
    def of(name, unlabeled, shuffled=False):
        return [results[Unit(size, split, name, unlabeled, shuffled)] for split in range(plan.n_splits)]

    rows, every = [], []
    for method in plan.methods.values():
        several = method.unlabeled and len(problem.unlabeled) > 0
        for unlabeled in (True, False) if several else (False,):
            found, alone = of(method.name, unlabeled), several and not unlabeled
            every += found
            row = MethodResult(
                **_scores(found),
                name=f"{method.name}/labeled" if alone else method.name,
                method=method.name,
                title=f"{method.title}, labeled rows only" if alone else method.title,
                role=method.role,
                counterpart=method.counterpart,
                rows="all" if unlabeled else "labeled",
                params=[result.params for result in found],
                warnings=dict(sum((Counter(result.warnings) for result in found), Counter())),
                shuffled=Scores(**_scores(of(method.name, unlabeled, True))) if method.privileged else None,
            )
            rows.append(row)
    best, rows = _judged(rows)
    counts = {name: max(getattr(one, name) for one in every) for name in ("n_train", "n_unlabeled", "n_test")}
    return SizeResult(train_size=size, **counts, best_baseline=best and best.name, methods=rows)


def _scores(results):
    scores, seconds = [result.score for result in results], [result.seconds for result in results]
    failed = sum(score is None for score in scores)
    average, error = mean_and_error(scores) if not failed else (None, None)
    errors = sorted({result.error for result in results if result.error})
    # The median ignores the compilation in a process's first units.
    times = {"seconds": mean(seconds), "median_seconds": median(seconds)}
    return {"scores": scores, "mean": average, "error": error, "failed": failed, "errors": errors, **times}


def _judged(rows):
    """The baseline with the best mean, and the rows with their comparisons, p-values and outcomes.

    A method must beat every baseline, its counterpart *and* its shuffled control, so its p-value is the largest of all (an
    intersection-union test). Holm's adjustment runs over the methods.
    """
    by_name = {row.name: row for row in rows}
    baselines = [row for row in rows if row.role == "baseline" and not row.failed]
    best: Any = max(baselines, key=lambda row: row.mean, default=None)
    compared, p_values = [], []
    for row in rows:
        counterpart = by_name.get(row.counterpart)
        control_failed = counterpart.failed if counterpart else bool(row.counterpart)
        if best is None or row.role != "privileged" or row.failed or row.shuffled.failed or control_failed:
            continue
        row = replace(
            row,
            gain=paired(row.scores, counterpart.scores) if counterpart else None,
            shuffled_gain=paired(row.shuffled.scores, counterpart.scores) if counterpart else None,
            over_shuffled=paired(row.scores, row.shuffled.scores),
            over_best_baseline=paired(row.scores, best.scores),
        )
        both = max(part.p_of_gain for part in (row.over_shuffled, row.gain) if part)
        over_all = max([both, *(paired(row.scores, other.scores).p_of_gain for other in baselines)])
        compared.append(row)
        p_values.append((over_all, both, (row.gain or row.over_best_baseline).wilcoxon_p))
    adjusted = zip(*(holm(part) for part in zip(*p_values)))
    judged = {row.name: _with_outcome(row, *values) for row, values in zip(compared, adjusted)}
    return best, [judged.get(row.name, row) for row in rows]


def _with_outcome(row, p_all, p_both, p_own):
    gain, own = (row.gain or row.over_best_baseline).mean, p_own < LEVEL
    possible = (
        (HELPS, p_all, p_all < LEVEL),
        (MATCHED, p_both, p_both < LEVEL),
        (NOT_THE_COLUMNS, p_own, own and gain > 0 and row.over_shuffled.p_of_gain >= LEVEL),
        (HURTS, p_own, own and gain < 0),
        (NO_DIFFERENCE, p_both, True),
    )
    outcome, p = next((outcome, p) for outcome, p, found in possible if found)
    return replace(row, outcome=outcome, p=p, p_helps=p_all, p_counterpart=p_own)


def summarize_permutations(units, results, title):
    """The exact test from its units, one per split; None if a unit failed."""
    found = [results[unit] for unit in units]
    if any(result.error for result in found):
        return None
    score, *permuted = np.mean([result.score for result in found], axis=0).tolist()
    unit, p = units[0], permutation_p(score, permuted)
    return Permutation(unit.method, title, unit.size, len(permuted), score, permuted, p)


def worth(sizes):
    """The learning curve of the best privileged method, in labeled rows of the best baseline."""
    curve = [(size.train_size, max(row.mean for row in size.baselines)) for size in sizes if size.baselines]
    if len(curve) < 2:
        return []
    rows, scores = zip(*curve)
    best = np.maximum.accumulate(scores)
    found = []
    for size in sizes:
        if (row := size.candidate) is not None:
            # Linear in the logarithm of the rows; None if the curve does not reach the score.
            needed = round(float(np.exp(np.interp(row.mean, best, np.log(rows)))), 1) if row.mean <= best[-1] else None
            found.append(Worth(size.train_size, row.name, row.mean, needed, rows[-1]))
    return found


def column_groups(table):
    """Groups of columns by the beginning of their names; each column alone where there are few.

    Examples
    --------
    >>> from lupi.tabular.table import Table
    >>> column_groups(Table.of(np.zeros((1, 20))))["column 0 to column 1"]
    ['column 0', 'column 1']
    """
    names = list(table.columns)
    if len(names) <= MAX_GROUPS:
        return {name: [name] for name in names}
    found: dict[str, list[str]] = {}
    for name in names if table.schema.named else ():
        found.setdefault(re.split(r"[_.\- ]|\d", name, maxsplit=1)[0] or name, []).append(name)
    if 2 <= len(found) <= MAX_GROUPS:
        return {f"{start}_*" if len(part) > 1 else part[0]: part for start, part in found.items()}
    parts = np.array_split(np.array(names, dtype=object), MAX_GROUPS)
    return {f"{part[0]} to {part[-1]}": part.tolist() for part in parts}


def mean_and_error(values):
    """Mean and standard error of the mean."""
    values = np.asarray(values, dtype=np.float64)
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
    return float(values.mean()), error


def paired(scores, others):
    """Comparison of two methods on the same splits."""
    differences = np.asarray(scores, dtype=np.float64) - np.asarray(others, dtype=np.float64)
    average, error = mean_and_error(differences)
    half = float(stats.t.ppf(0.975, len(differences) - 1)) * error if len(differences) > 1 else float("inf")
    wins, losses, ties = (int((np.sign(differences) == sign).sum()) for sign in (1, -1, 0))
    tests = wilcoxon_p(differences), splits_needed(differences)
    return Paired(average, error, average - half, average + half, wins, losses, ties, *tests)


def wilcoxon_p(differences):
    """Two-sided p-value of Wilcoxon's signed-rank test; 1 if nothing differs."""
    differences = differences[differences != 0]
    return float(stats.wilcoxon(differences).pvalue) if len(differences) else 1.0


def splits_needed(differences, power=0.8, alpha=LEVEL):
    """Number of splits that would show a mean like this one; None where there is no gain to show."""
    differences = np.asarray(differences, dtype=np.float64)
    average = float(differences.mean())
    if average <= 0 or len(differences) < 2:
        return None
    wanted = stats.norm.ppf(1 - alpha / 2) + stats.norm.ppf(power)
    return max(6, int(np.ceil((wanted * differences.std(ddof=1) / average) ** 2)))


def permutation_p(real, permuted):
    """Exact p-value: the share of orders, the real one included, that score at least as well as the real one."""
    return (1 + sum(score >= real for score in permuted)) / (1 + len(permuted))


def holm(p_values):
    """Holm's step-down adjustment for several tests."""
    order = np.argsort(p_values, kind="stable")
    raised = np.minimum(1.0, np.arange(len(order), 0, -1) * np.asarray(p_values)[order])
    return np.maximum.accumulate(raised)[np.argsort(order)].tolist()
