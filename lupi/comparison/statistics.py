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


def corrected_t_p(differences, n_train, n_test):
    """Two-sided p-value of the corrected resampled t-test of Nadeau and Bengio (2003).

    Random splits of one table overlap, so that their differences are not independent; the variance of the mean is
    taken as (1/k + n_test/n_train) times that of one difference. With test sets much larger than training sets this is
    very strict.

    Examples
    --------
    >>> p = corrected_t_p([1.0, 2.0, 3.0, 2.0], n_train=90, n_test=10)
    >>> bool(p > stats.ttest_1samp([1.0, 2.0, 3.0, 2.0], 0).pvalue)
    True
    """
    differences = np.asarray(differences, dtype=np.float64)
    k = len(differences)
    if k < 2:
        return 1.0
    mean, variance = differences.mean(), differences.var(ddof=1)
    if variance == 0:
        return 1.0 if mean == 0 else 0.0
    t = mean / np.sqrt((1 / k + n_test / n_train) * variance)
    return float(2 * stats.t.sf(abs(t), k - 1))


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


def paired(scores, others, n_train, n_test):
    """Everything about one method against another on the same splits.

    Returns
    -------
    dict
        `mean` and `error` of the difference, `wins`, `losses`, `ties`, `wilcoxon_p`, `corrected_t_p`.

    Examples
    --------
    >>> paired([0.9, 0.8, 0.7], [0.8, 0.8, 0.8], 50, 50)["wins"]
    1
    """
    differences = np.asarray(scores, dtype=np.float64) - np.asarray(others, dtype=np.float64)
    mean, error = mean_and_error(differences)
    return {
        "mean": mean,
        "error": error,
        "wins": int((differences > 0).sum()),
        "losses": int((differences < 0).sum()),
        "ties": int((differences == 0).sum()),
        "wilcoxon_p": wilcoxon_p(differences),
        "corrected_t_p": corrected_t_p(differences, n_train, n_test),
    }
