"""From the results of all units to the summary that `schema` declares: pairs of methods, tests, outcomes, facts."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from statistics import mean, median

import numpy as np
from scipy import stats
from sklearn.model_selection import ParameterGrid

from lupi import __version__
from lupi.comparison.methods import candidates
from lupi.comparison.protocol import METRICS
from lupi.comparison.units import Unit

LEVEL = 0.05
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "joblib", "pandas")


def summarize(results, setup, names):
    """Statistics of every training size.

    Parameters
    ----------
    results : dict of Unit to dict
    setup : Setup
    names : sequence of str
        The methods compared.

    Returns
    -------
    list of lupi.comparison.schema.Size
    """
    return [_summarize_size(results, setup, names, size) for size in setup.protocol.train_sizes]


def _summarize_size(results, setup, names, size):
    def of(name, control="", rows="labeled"):
        return [results[Unit(size, split, name, control, rows)] for split in range(setup.protocol.n_splits)]

    found, every = [], []
    several = len(setup.data.unlabeled) > 0
    for name in names:
        method = setup.methods[name]
        for rows in ("all", "labeled") if method.unlabeled and several else ("labeled",):
            real = of(name, "", rows)
            every += real
            row = _row(method, real, setup.protocol, rows, alone=several and rows == "labeled" and method.unlabeled)
            if method.privileged:
                row["shuffled"] = _scores(of(name, "shuffled", rows))
            found.append(row)
    plains = [row for row in found if row["role"] == "plain" and not row["failed"]]
    best_plain = max(plains, key=lambda row: row["mean"], default=None)
    if best_plain:
        judge([row for row in found if _compared(row, found)], found, plains, best_plain)
    return {
        "train_size": size,
        "n_train": max(unit["n_train"] for unit in every),
        "n_unlabeled": max(unit["n_unlabeled"] for unit in every),
        "n_test": max(unit["n_test"] for unit in every),
        "best_plain": best_plain["name"] if best_plain else None,
        "methods": found,
    }


def _compared(row, rows):
    """Whether a method and its controls were fitted on every split."""
    plain = next((other for other in rows if other["name"] == row["plain"]), {"failed": bool(row["plain"])})
    return row["role"] == "privileged" and not (row["failed"] or row["shuffled"]["failed"] or plain["failed"])


def _scores(units):
    scores = [unit["score"] for unit in units]
    failed = sum(score is None for score in scores)
    average, error = mean_and_error(scores) if not failed else (None, None)
    seconds = [unit["seconds"] for unit in units]
    return {
        "scores": scores,
        "mean": average,
        "error": error,
        "failed": failed,
        "errors": sorted({unit["error"] for unit in units if unit["error"]}),
        # The median is not moved by the compilation in a process's first units.
        "seconds": mean(seconds),
        "median_seconds": median(seconds),
    }


def _row(method, units, protocol, rows, alone):
    warned = {}
    for unit in units:
        for category, count in unit["warnings"].items():
            warned[category] = warned.get(category, 0) + count
    regression = not METRICS[protocol.metric].classification
    return {
        "name": f"{method.name}/labeled" if alone else method.name,
        "method": method.name,
        "title": f"{method.title}, labeled rows only" if alone else method.title,
        "role": method.role,
        "plain": method.plain,
        "rows": rows,
        "n_candidates": len(ParameterGrid(candidates(method, dict(protocol.grids), protocol.kernel, regression))),
        **_scores(units),
        "params": [unit["params"] for unit in units],
        "warnings": warned,
    }


def judge(tested, rows, plains, best_plain):
    """Add the comparisons, their p-values, adjusted for the number of methods, and the outcome.

    A method has to beat every plain method, its own plain counterpart *and* its shuffled control, so its p-value is the
    largest of all (an intersection-union test: no best one is picked by the look of the scores), and Holm's adjustment
    runs over the methods.
    """
    known = {row["name"]: row for row in rows}
    p_all, p_both, p_plain = [], [], []
    for row in tested:
        plain = known.get(row["plain"])
        row["gain"] = paired(row["scores"], plain["scores"]) if plain else None
        row["shuffled_gain"] = paired(row["shuffled"]["scores"], plain["scores"]) if plain else None
        row["over_shuffled"] = paired(row["scores"], row["shuffled"]["scores"])
        row["over_best_plain"] = paired(row["scores"], best_plain["scores"])
        over = _p_of_gain(row["over_shuffled"])
        both = max(over, _p_of_gain(row["gain"])) if plain else over
        p_both.append(both)
        p_all.append(max([both, *(_p_of_gain(paired(row["scores"], other["scores"])) for other in plains)]))
        p_plain.append((row["gain"] or row["over_best_plain"])["wilcoxon_p"])
    for row, all_, both, plain in zip(tested, holm(p_all), holm(p_both), holm(p_plain)):
        gain = (row["gain"] or row["over_best_plain"])["mean"]
        row["p_helps"], row["p_plain"] = all_, plain
        if all_ < LEVEL:
            row["outcome"], row["p"] = "helps", all_
        elif both < LEVEL:
            row["outcome"], row["p"] = "helps, but a plain method is as good", both
        elif gain > 0 and plain < LEVEL and _p_of_gain(row["over_shuffled"]) >= LEVEL:
            row["outcome"], row["p"] = "gains, but not clearly more than with shuffled rows", plain
        elif gain < 0 and plain < LEVEL:
            row["outcome"], row["p"] = "hurts", plain
        else:
            row["outcome"], row["p"] = "no clear difference", both


def _p_of_gain(found):
    """The p-value of a gain; 1 where there is none."""
    return found["wilcoxon_p"] if found["mean"] > 0 else 1.0


def candidate_row(size):
    """The privileged row that did best: among those that help, else by its distance from the best plain method.

    Returns
    -------
    MethodRow or None
    """
    tested = [row for row in size["methods"] if "outcome" in row]
    helping = [row for row in tested if row["outcome"] == "helps"]
    return max(helping or tested, key=lambda row: row["mean"], default=None)


def summarize_permutations(results, setup, unit_of):
    """The exact test from its units, one for each split.

    Parameters
    ----------
    results : dict of Unit to dict
    setup : Setup
    unit_of : callable
        From a split to its unit.

    Returns
    -------
    lupi.comparison.schema.Permutation or None
        None if a unit failed.
    """
    units = [results[unit_of(split)] for split in range(setup.protocol.n_splits)]
    if any(unit["error"] for unit in units):
        return None
    real, *permuted = np.mean([unit["score"] for unit in units], axis=0).tolist()
    first = unit_of(0)
    return {
        "method": first.method,
        "title": setup.methods[first.method].title,
        "train_size": first.size,
        "rows": first.rows,
        "n": len(permuted),
        "score": real,
        "permuted": permuted,
        "p": permutation_p(real, permuted),
    }


def worth(sizes):
    """The learning curve, translated into labeled rows of the best plain method.

    Returns
    -------
    list of lupi.comparison.schema.Worth

    Examples
    --------
    >>> def size(n, plain, real):
    ...     rows = [{"name": "a", "role": "plain", "failed": 0, "mean": plain},
    ...             {"name": "b", "role": "privileged", "failed": 0, "mean": real, "outcome": "helps"}]
    ...     return {"train_size": n, "best_plain": "a", "methods": rows}
    >>> [found["plain_rows"] for found in worth([size(50, 0.6, 0.7), size(200, 0.8, 0.9)])]
    [100.0, None]
    """
    if len(sizes) < 2:
        return []
    curve = []
    for size in sizes:
        plain = [row["mean"] for row in size["methods"] if row["role"] == "plain" and not row["failed"]]
        if plain:
            curve.append((size["train_size"], max(plain)))
    found = []
    for size in sizes:
        row = candidate_row(size)
        if row is None or len(curve) < 2:
            continue
        rows = _rows_for(row["mean"], curve)
        found.append(
            {
                "train_size": size["train_size"],
                "method": row["name"],
                "score": row["mean"],
                "plain_rows": rows,
                "at_least": curve[-1][0],
            }
        )
    return found


def _rows_for(score, curve):
    """Where the plain curve, linear in the logarithm of the rows, first reaches a score; None if it does not."""
    for (n, low), (m, high) in pairwise(curve):
        if score <= low:
            return float(n)
        if low < score <= high:
            share = (score - low) / (high - low)
            return round(float(np.exp(np.log(n) + share * (np.log(m) - np.log(n)))), 1)
    return None


def protocol_facts(protocol):
    """The protocol as a plain dictionary."""
    return {
        "metric": protocol.metric,
        "metric_title": METRICS[protocol.metric].title,
        "n_splits": protocol.n_splits,
        "train_sizes": list(protocol.train_sizes),
        "inner_folds": protocol.inner_folds,
        "kernel": protocol.kernel,
        "seed": protocol.seed,
        "max_test": protocol.max_test,
        "max_unlabeled": protocol.max_unlabeled,
        "standardize": protocol.standardize,
        "balanced": protocol.balanced,
        "grids": {name: {key: list(values) for key, values in grid} for name, grid in protocol.grids},
    }


def data_facts(data, classes, digest, target):
    """Sizes, names and classes of the data, and their SHA-256."""
    counts = None
    if classes is not None:
        counts = np.bincount(data.y[data.labeled].astype(np.intp), minlength=len(classes)).tolist()
    return {
        "target": target,
        "rows": len(data.y),
        "labeled": len(data.labeled),
        "unlabeled": len(data.unlabeled),
        "features": len(data.X.columns),
        "privileged": len(data.privileged.columns),
        "feature_names": data.X.columns if data.X.schema.named else None,
        "privileged_names": data.privileged.columns if data.privileged.schema.named else None,
        "classes": None if classes is None else [str(c) for c in classes],
        "class_counts": counts,
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


def mean_and_error(values):
    """Mean and standard error of the mean.

    Examples
    --------
    >>> mean_and_error([1.0, 2.0, 3.0])
    (2.0, 0.5773502691896258)
    """
    values = np.asarray(values, dtype=np.float64)
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
    return float(values.mean()), error


def wilcoxon_p(differences):
    """Two-sided p-value of Wilcoxon's signed-rank test; 1 if nothing differs.

    Examples
    --------
    >>> wilcoxon_p([0.0, 0.0])
    1.0
    >>> round(wilcoxon_p([1, 2, 3, 4, 5, 6]), 5)
    0.03125
    """
    differences = np.asarray(differences, dtype=np.float64)
    differences = differences[differences != 0]
    return float(stats.wilcoxon(differences).pvalue) if len(differences) else 1.0


def interval(differences, level=0.95):
    """Interval of the mean of the differences: t distribution over the splits.

    Examples
    --------
    >>> low, high = interval([1.0, 2.0, 3.0])
    >>> round(low, 3), round(high, 3)
    (-0.484, 4.484)
    """
    mean, error = mean_and_error(differences)
    if len(differences) < 2:
        return float("-inf"), float("inf")
    half = float(stats.t.ppf(0.5 + level / 2, len(differences) - 1)) * error
    return mean - half, mean + half


def splits_needed(differences, power=0.8, alpha=0.05):
    """Number of splits that would show a mean like this one; None where there is no gain to show.

    Examples
    --------
    >>> splits_needed([0.01, -0.005, 0.02, 0.0]), splits_needed([-1.0, 0.5])
    (25, None)
    """
    differences = np.asarray(differences, dtype=np.float64)
    mean = float(differences.mean())
    if mean <= 0 or len(differences) < 2:
        return None
    wanted = stats.norm.ppf(1 - alpha / 2) + stats.norm.ppf(power)
    return max(6, int(np.ceil((wanted * differences.std(ddof=1) / mean) ** 2)))


def permutation_p(real, permuted):
    """Exact p-value: the share of orders, the real one included, that do at least as well as the real one.

    Examples
    --------
    >>> permutation_p(0.9, [0.8] * 99), permutation_p(0.9, [0.95, 0.8, 0.9])
    (0.01, 0.75)
    """
    permuted = np.asarray(permuted, dtype=np.float64)
    return (1 + int((permuted >= real).sum())) / (1 + len(permuted))


def holm(p_values):
    """Holm's step-down adjustment for several tests.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(len(p))
    running = 0.0
    for rank, index in enumerate(order):
        running = max(running, min(1.0, (len(p) - rank) * p[index]))
        adjusted[index] = running
    return adjusted.tolist()


def paired(scores, others):
    """Everything about one method against another on the same splits.

    Returns
    -------
    lupi.comparison.schema.Paired

    Examples
    --------
    >>> paired([0.9, 0.8, 0.7], [0.8, 0.8, 0.8])["wins"]
    1
    """
    differences = np.asarray(scores, dtype=np.float64) - np.asarray(others, dtype=np.float64)
    mean, error = mean_and_error(differences)
    low, high = interval(differences)
    return {
        "mean": mean,
        "error": error,
        "low": low,
        "high": high,
        "wins": int((differences > 0).sum()),
        "losses": int((differences < 0).sum()),
        "ties": int((differences == 0).sum()),
        "wilcoxon_p": wilcoxon_p(differences),
        "splits_needed": splits_needed(differences),
    }
