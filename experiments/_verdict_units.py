"""Units of work of the study of verdicts: one method on one table, and how methods make a verdict.

Splits, folds and seeds of a comparison follow from its seed and the names of its methods. So methods can be run one by one, in any
order, and put together: the scores are those of one run, and so is the verdict.
"""

from __future__ import annotations

from functools import partial

from experiments._surrogate_tasks import load_table
from experiments._verdict_truths import truth
from lupi.comparison import compare
from lupi.comparison.forest import TunedForest
from lupi.comparison.methods import BASELINES, METHODS

TRAIN = 100
# On real tables: all of an ordinary run, the two slow ones last.
ON_REAL_TABLES = (*BASELINES, "surrogate", "surrogate-ridge", "surrogate-boosted", "svm2+")


def kept(summary):
    """What is kept of a comparison: every score, the exact test, how many leaks were named.

    Parameters
    ----------
    summary : lupi.comparison.schema.Summary

    Returns
    -------
    dict
        `scores` and `shuffled` (row -> one score a split), `exact` (None, or `method`, `score`, `permuted`), `leaks` (of
        privileged columns), `n_train`, `n_unlabeled`, `n_test`.
    """
    (size,) = summary["sizes"]
    tested = summary["permutation"]
    exact = tested and {
        "method": tested["method"],
        "score": round(tested["score"], 6),
        "permuted": _rounded(tested["permuted"]),
    }
    return {
        "scores": {row["name"]: _rounded(row["scores"]) for row in size["methods"]},
        "shuffled": {row["name"]: _rounded(row["shuffled"]["scores"]) for row in size["methods"] if "shuffled" in row},
        "exact": exact,
        "leaks": sum(leak["kind"] == "privileged" for leak in summary["leaks"]),
        **{name: size[name] for name in ("n_train", "n_unlabeled", "n_test")},
    }


def _rounded(scores):
    return [round(score, 6) for score in scores]


def measure_part(table, part, n_splits, store=None):
    """Scores of one method, with its controls, on a table.

    Parameters
    ----------
    table : tuple
        X, y, Z and perhaps groups.
    part : str
        A method's name; "exact N NAME": the exact test with N permutations, computed by a method; "judges": those of
        :func:`judges`.
    n_splits : int
    store : path-like, optional
        Folder that keeps every fit, so that a run with more splits goes on from there.

    Returns
    -------
    dict
        As of :func:`kept`.
    """
    X, y, Z, *groups = table
    given = {"train_size": TRAIN, "n_splits": n_splits, "columns": False, "hard_examples": False, "store": store}
    if groups:
        given["groups"] = groups[0]
    if part.startswith("exact "):
        _, number, method = part.split()
        chosen = {"methods": [method], "baselines": [], "permutations": int(number)}
    elif part == "judges":
        chosen = {"methods": [], "baselines": judges()}
    elif METHODS[part].privileged:
        chosen = {"methods": [part], "baselines": []}
    else:
        chosen = {"methods": [], "baselines": [part]}
    return kept(compare(X, y, Z, **{"permutations": 0} | given | chosen).summary)


def judges():
    """Plain learners with larger grids than the built-in ones, as `compare` takes them."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    boosting = HistGradientBoostingClassifier(max_iter=100, max_bins=64, early_stopping=False, random_state=0)
    leaves = {"max_leaf_nodes": (3, 8), "min_samples_leaf": (5, 15)}
    return [
        ("judge-logistic", LogisticRegression(max_iter=5000), {"C": tuple(10.0 ** (k / 2) for k in range(-7, 5))}),
        ("judge-forest", TunedForest(leaves=(1, 2, 3, 5, 10, 20), n_trees=300), {}),
        ("judge-boosting", boosting, {"learning_rate": (0.02, 0.05, 0.1), **leaves}),
    ]


def measure_truth(kind, seed, part, n_splits):
    """:func:`measure_part` on a generated table."""
    return measure_part(truth(kind, seed), part, n_splits)


def measure_table(name, part, n_splits, root=None, store=None):
    """:func:`measure_part` on a real table."""
    return measure_part(load_table(name, root), part, n_splits, store)


def truth_units(kinds, parts, n_splits):
    """Work on generated tables, method by method, so that an unfinished run has whole methods.

    Parameters
    ----------
    kinds : dict of str to int
        How many tables of each kind.
    parts : sequence of str
        As of :func:`measure_part`.
    n_splits : int

    Returns
    -------
    dict of str to callable
        ``kind/number/part`` -> work.
    """
    return {
        f"{kind}/{seed}/{part}": partial(measure_truth, kind, seed, part, n_splits)
        for part in parts
        for kind, n_tables in kinds.items()
        for seed in range(n_tables)
    }
