"""Paired comparisons over repeated splits."""

from __future__ import annotations

import numpy as np
from scipy import stats


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
