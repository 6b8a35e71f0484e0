"""Verdicts of `lupi compare` on tables whose truth is known: how often does it say yes, and should it?"""

from lupi.bench._registry import Row, case

ROWS, FEATURES, TRAIN = 600, 15, 100
# One method of the new family, one of the papers'; fewer opponents than in an ordinary run: false yes are easier here.
METHODS, BASELINES = ["surrogate-ridge", "svm2+"], ["linear", "forest"]


def truth(kind, seed):
    """A table of a known kind.

    Parameters
    ----------
    kind : {"noise", "copy of X", "function of X", "mediators", "label was wrong", "unlabelled follow-ups", "leak", "joint leak"}
    seed : int

    Returns
    -------
    X, y, Z : ndarray
        `y` has gaps where there are unlabelled rows.

    Examples
    --------
    >>> X, y, Z = truth("mediators", 0)
    >>> X.shape, Z.shape
    ((600, 15), (600, 3))
    """
    import numpy as np

    rng = np.random.default_rng([seed, len(kind)])
    n = 2000 if kind == "unlabelled follow-ups" else ROWS
    X = rng.standard_normal((n, FEATURES))
    weights = rng.standard_normal((FEATURES, 3))
    later = X @ weights / np.sqrt(FEATURES) + rng.standard_normal((n, 3))
    y = (later.sum(axis=1) + 1.5 * rng.standard_normal(n) > 0).astype(float)
    if kind == "noise":
        return X, y, rng.standard_normal((n, 3))
    if kind == "copy of X":
        return X, y, X[:, :3] * [1.0, -2.0, 0.5]
    if kind == "function of X":
        return X, y, np.column_stack([X[:, 0] * X[:, 1], X[:, 2] ** 2, np.sin(X[:, 3])])
    if kind == "mediators":
        return X, y, later
    if kind == "label was wrong":
        right = (X @ weights[:, 0] > 0).astype(float)
        wrong = rng.random(n) < 0.3
        return X, np.where(wrong, 1 - right, right), np.column_stack([wrong, rng.standard_normal(n)]).astype(float)
    if kind == "unlabelled follow-ups":
        y[rng.permutation(n)[ROWS:]] = np.nan
        return X, y, later
    if kind == "leak":
        return X, y, np.column_stack([later, 3.0 + 2.0 * y + 0.01 * rng.standard_normal(n)])
    day = rng.integers(1, 400, n).astype(float)
    return X, y, np.column_stack([day, np.where(y == 1, day, day + rng.integers(1, 400, n))])


def asked(kind, seed, **options):
    """The verdict on one table; the exact test only where it can still change the answer.

    Returns
    -------
    lupi.comparison.schema.Summary
    """
    from lupi.comparison import compare

    given = {
        "methods": METHODS,
        "baselines": BASELINES,
        "train_size": TRAIN,
        "columns": False,
        "hard_examples": False,
    } | options
    table = truth(kind, seed)
    found = compare(*table, **given, permutations=0).summary
    return compare(*table, **given).summary if found["verdict"]["answer"] == "yes" else found


def counted(kind, n_tables, **options):
    """How often each answer was given, how often a leak was named, and the mean gain over the best plain method.

    Returns
    -------
    dict
    """
    answers, leaks, gains = {"yes": 0, "unclear": 0, "no": 0}, 0, []
    for seed in range(n_tables):
        summary = asked(kind, seed, **options)
        answers[summary["verdict"]["answer"]] += 1
        leaks += bool(summary["leaks"])
        rows = {row["name"]: row for row in summary["sizes"][-1]["methods"]}
        gains.append(rows[summary["verdict"]["candidate"]]["over_best_plain"]["mean"])
    return {"answers": answers, "leaks": leaks, "gain": sum(gains) / n_tables}


def _row(kind, n_tables, target, **options):
    from time import process_time

    start = process_time()
    found = counted(kind, n_tables, **options)
    told = ", ".join(f"{answer} {count}" for answer, count in found["answers"].items())
    return Row(
        f"{kind}, {n_tables} tables",
        (process_time() - start) / n_tables,
        target=target,
        note=f"{told}; leaks named {found['leaks']}; over the best plain method {100 * found['gain']:+.1f} points",
    )


@case("compare-truths", "lupi compare on generated tables whose truth is known")
def compare_truths(quick):
    """No for useless columns, yes for useful ones, leaks named."""
    wanted = {
        "noise": "no yes",
        "copy of X": "no yes",
        "function of X": "no yes",
        "mediators": "yes",
        "label was wrong": "yes",
        "unlabelled follow-ups": "yes",
        "leak": "named, no yes",
        "joint leak": "named, no yes",
    }
    options = {"n_splits": 6} if quick else {}
    return [_row(kind, 1 if quick else 20, target, **options) for kind, target in wanted.items()]


@case("compare-level", "how often lupi compare says yes to columns of noise, and to mediators, at 100 labelled rows")
def compare_level(quick):
    """False yes in 200 tables of noise (at most 2%), yes in 50 of mediators (at least 90%)."""
    options = {"methods": ["surrogate-ridge", "surrogate"], "baselines": ["linear"]} | (
        {"n_splits": 6} if quick else {}
    )
    return [
        _row("noise", 2 if quick else 200, "yes <= 2%", **options),
        _row("mediators", 2 if quick else 50, "yes >= 90%", **options),
    ]
