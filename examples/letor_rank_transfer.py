"""
Web search with features that are too expensive online
======================================================

A search engine ranks documents while the user waits: it can afford the features of the body, the title and the URL.
Anchor texts of other pages, the whole document and the link graph are known for the training queries, but too slow to
compute for each request. They are privileged: a teacher ranks with them, and the student learns to keep its margins.

With ``LUPI_DATA`` set to a folder that has ``letor_mq2008/S1.txt`` ... ``S5.txt`` (LETOR 4.0), this runs on MQ2008;
otherwise on generated queries of the same shape. Every method has the same grid for its own C; the control gives the
student the privileged rows of *other* documents. Run it with ``python examples/letor_rank_transfer.py [splits]``.
"""

import os
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file

from lupi import RankTransferCV
from lupi.ranking.ranking_metrics import average_precision, ndcg

CS = [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0]
CS_PRIVILEGED = [1e-3, 1e-1, 10.0]
N_TRAIN_QUERIES = 60


def load_mq2008(folder):
    """Cheap features, expensive features, relevance 0-2 and query of each document."""
    parts = [load_svmlight_file(str(folder / f"S{k}.txt"), n_features=46, query_id=True) for k in range(1, 6)]
    X, y, query = (np.concatenate(column) for column in zip(*((X.toarray(), y, q) for X, y, q in parts)))
    # Eight blocks of five streams (body, anchor, title, URL, whole document), then PageRank, in-links, out-links,
    # slashes in the URL, its length, child pages.
    cheap = [5 * block + stream for block in range(8) for stream in (0, 2, 3)] + [43, 44]
    expensive = sorted(set(range(46)) - set(cheap))
    return X[:, cheap], X[:, expensive], y, query


def make_queries(n_queries=400, n_documents=20, seed=0):
    """Documents whose relevance shows faintly in 26 cheap features and clearly in 20 expensive ones."""
    rng = np.random.default_rng(seed)
    n = n_queries * n_documents
    quality = rng.normal(size=n)
    cheap = 0.4 * quality[:, None] * rng.normal(size=26) + rng.normal(size=(n, 26))
    expensive = 0.8 * quality[:, None] * rng.normal(size=20) + rng.normal(size=(n, 20))
    y = np.digitize(quality + 0.7 * rng.normal(size=n), [0.8, 1.8])
    return cheap, expensive, y, np.repeat(np.arange(n_queries), n_documents)


def with_choice(y, query):
    """Documents of queries that have at least two grades: the others leave nothing to learn or to measure."""
    order = np.unique(query)
    keep = [q for q in order if np.ptp(y[query == q]) > 0]
    return np.isin(query, keep)


def run_split(cheap, expensive, y, query, seed):
    """NDCG@10 and MAP of each method on the queries that were not used for training."""
    rng = np.random.default_rng(seed)
    train = np.isin(query, rng.choice(np.unique(query), N_TRAIN_QUERIES, replace=False))
    shuffled = expensive[train][rng.permutation(train.sum())]
    settings = {
        "ranking SVM, cheap features": (cheap, None),
        "Rank Transfer": (cheap, expensive[train]),
        "Rank Transfer, rows shuffled": (cheap, shuffled),
        "reference: expensive features": (expensive, None),
        "reference: both": (np.hstack([cheap, expensive]), None),
    }
    scores = {}
    for name, (X, privileged) in settings.items():
        search = RankTransferCV(CS, CS_PRIVILEGED, cv=3, scoring="ndcg@10", tol=1e-4, pairs="across")
        search.fit(X[train], y[train], privileged=privileged, group=query[train])
        s = search.decision_function(X[~train])
        scores[name] = ndcg(y[~train], s, query[~train], k=10), average_precision(y[~train], s, query[~train])
    return scores


def main(n_splits=5):
    folder = Path(os.environ.get("LUPI_DATA", "")) / "letor_mq2008"
    found = (folder / "S1.txt").exists()
    cheap, expensive, y, query = load_mq2008(folder) if found else make_queries()
    keep = with_choice(y, query)
    cheap, expensive, y, query = cheap[keep], expensive[keep], y[keep], query[keep]
    print(f"{'MQ2008' if found else 'generated'}: {len(y)} documents, {len(np.unique(query))} queries with a choice")
    print(
        f"{N_TRAIN_QUERIES} queries for training, {n_splits} splits; mean (standard error of the difference to row 1)"
    )
    results = [run_split(cheap, expensive, y, query, seed) for seed in range(n_splits)]
    base = np.array([r["ranking SVM, cheap features"] for r in results])
    for name in results[0]:
        values = 100 * np.array([r[name] for r in results])
        error = (values - 100 * base).std(axis=0, ddof=1) / np.sqrt(n_splits) if n_splits > 1 else np.zeros(2)
        row = [f"{m:6.2f} ({e:.2f})" for m, e in zip(values.mean(axis=0), error)]
        print(f"{name:32s} NDCG@10 {row[0]}   MAP {row[1]}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
