"""Tables whose truth is known: what should `lupi compare` say about their privileged columns?"""

from __future__ import annotations

import numpy as np

ROWS, FEATURES = 600, 15
# Kind -> the right answer, in the order of the tables of results.
TRUTHS = {
    "noise": "no",
    "copy of X": "no",
    "function of X": "no",
    "mediators": "yes",
    "label was wrong": "yes",
    "unlabeled follow-ups": "yes",
    "leak": "flagged",
    "joint leak": "flagged",
}


def truth(kind, seed):
    r"""A table of a known kind.

    Fifteen standard normal columns :math:`x`; three later measurements :math:`z = W^T x / \sqrt{15} + \epsilon`; the target is
    whether their sum, with noise of standard deviation 1.5, is positive. The privileged columns are

    ======================  ===================================================================================
    noise                   three columns of noise
    copy of X               three columns of X on other scales
    function of X           a product, a square and a sine of columns of X
    mediators               the later measurements
    label was wrong         whether this label was flipped (30% are; the truth is linear in X), and a column of noise
    unlabeled follow-ups   the later measurements, with 1400 more rows that have no label
    leak                    the later measurements, and the target with a little noise
    joint leak              two days: the same one for one class, the second later for the other
    ======================  ===================================================================================

    Parameters
    ----------
    kind : str
        A key of `TRUTHS`.
    seed : int

    Returns
    -------
    X, y, Z : ndarray
        `y` has gaps where there are unlabeled rows.

    Examples
    --------
    >>> X, y, Z = truth("mediators", 0)
    >>> X.shape, Z.shape
    ((600, 15), (600, 3))
    """
    if kind not in TRUTHS:
        raise ValueError(f"no truth is called {kind!r}; they are {', '.join(TRUTHS)}.")
    rng = np.random.default_rng([seed, len(kind)])
    n = 2000 if kind == "unlabeled follow-ups" else ROWS
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
    if kind == "unlabeled follow-ups":
        y[rng.permutation(n)[ROWS:]] = np.nan
        return X, y, later
    if kind == "leak":
        return X, y, np.column_stack([later, 3.0 + 2.0 * y + 0.01 * rng.standard_normal(n)])
    day = rng.integers(1, 400, n).astype(float)
    return X, y, np.column_stack([day, np.where(y == 1, day, day + rng.integers(1, 400, n))])
