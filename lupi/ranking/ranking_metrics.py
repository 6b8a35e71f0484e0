"""Ranking metrics over all examples or averaged over queries; values equal scikit-learn's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np
from sklearn.metrics import ndcg_score

from lupi.inputs.types import Array, VectorLike

# From relevance (or gain) and scores of one ranking to its quality.
RankingMetric: TypeAlias = Callable[[Array, Array], float]


def precision_of_ranking(relevant: Array, scores: Array) -> float:
    """Average precision of one ranking, without scikit-learn's checks, which cost more than a small fit; NaN if undefined.

    Examples
    --------
    >>> precision_of_ranking(np.array([True, False, True]), np.array([3.0, 2.0, 1.0]))
    0.8333333333333333
    """
    order = np.argsort(scores, kind="stable")[::-1]
    found = np.cumsum(relevant[order])
    if found[-1] == 0:
        return float("nan")
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)
    recall = np.append(0.0, found[ends] / found[-1])
    # From the last place to the first, as scikit-learn sums: the same to the last bit.
    return -float(np.sum(np.diff(recall[::-1]) * (found[ends] / (ends + 1))[::-1]))


def area_of_ranking(relevant: Array, scores: Array) -> float:
    """Area under the ROC curve of one ranking, ties counted half; NaN if undefined.

    Examples
    --------
    >>> area_of_ranking(np.array([True, False, True]), np.array([3.0, 2.0, 2.0]))
    0.75
    """
    others, wanted = np.sort(scores[~relevant]), scores[relevant]
    if not (len(others) and len(wanted)):
        return float("nan")
    above = np.searchsorted(others, wanted, "left").sum() + np.searchsorted(others, wanted, "right").sum()
    return float(above / (2 * len(others) * len(wanted)))


def _mean(metric: RankingMetric, y: VectorLike, scores: VectorLike, group: VectorLike | None) -> float:
    """The metric of all rows, or its mean over the queries that have something to rank."""
    y, scores = np.asarray(y, dtype=float), np.asarray(scores, dtype=float)
    if group is None:
        return float(metric(y, scores))
    group = np.asarray(group)
    order = np.argsort(group, kind="stable")
    queries = np.split(order, np.flatnonzero(group[order][1:] != group[order][:-1]) + 1)
    values = [metric(y[rows], scores[rows]) for rows in queries if np.ptp(y[rows]) > 0]
    return float(np.mean(values)) if values else float("nan")


def average_precision(y: VectorLike, scores: VectorLike, group: VectorLike | None = None) -> float:
    """Average precision; with queries, the mean over queries with several grades. Relevant: above the lowest grade."""
    lowest = np.min(y)
    return _mean(lambda grades, s: precision_of_ranking(grades > lowest, s), y, scores, group)


def roc_auc(y: VectorLike, scores: VectorLike, group: VectorLike | None = None) -> float:
    """Area under the ROC curve, grades above the lowest against the lowest; with queries, the mean over queries."""
    y = np.asarray(y) > np.min(y)
    return _mean(lambda grades, s: area_of_ranking(grades > 0, s), y, scores, group)


def ndcg(y: VectorLike, scores: VectorLike, group: VectorLike | None = None, k: int | None = None) -> float:
    """Normalized discounted cumulative gain of the first k places, with the grade above the lowest as the gain."""
    lowest = np.min(y)
    return _mean(lambda grades, s: ndcg_score([grades - lowest], [s], k=k), y, scores, group)


def default_metric(n_grades: int) -> Callable[..., float]:
    """Average precision for two grades, NDCG for more."""
    return average_precision if n_grades == 2 else ndcg


RANKING_METRICS: dict[str, Callable[..., float]] = {
    "average_precision": average_precision,
    "roc_auc": roc_auc,
    "ndcg": ndcg,
    **{f"ndcg@{k}": partial(ndcg, k=k) for k in (1, 3, 5, 10, 20)},
}
