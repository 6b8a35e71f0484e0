"""What is run and how it is measured: metrics, the protocol, its splits and its seeds, all of them functions of the data."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

import numpy as np
from sklearn.metrics import balanced_accuracy_score, r2_score
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold, train_test_split

from lupi.ranking.ranking_metrics import area_of_ranking, precision_of_ranking
from lupi.run import identity
from lupi.tabular.model import scores_of


@dataclass(frozen=True)
class Metric:
    """A metric: its name for people, whether it judges rankings or predictions, and the function."""

    title: str
    function: Callable
    uses: str = "predictions"  # or "scores"
    classification: bool = True


def _per_class(function):
    """Mean over the classes, each against the rest, of a metric of scores; of the second class if there are two."""

    def measure(y, scores, classes):
        if scores.ndim == 1:
            return function(y == classes[1], scores)
        return float(
            np.mean([function(y == label, scores[:, k]) for k, label in enumerate(classes) if np.any(y == label)])
        )

    return measure


def _accuracy(y, predicted):
    """Share of right answers, without the checks of scikit-learn, which cost more than a small fit."""
    return np.mean(y == predicted)


METRICS = {
    "ap": Metric("average precision", _per_class(precision_of_ranking), uses="scores"),
    "accuracy": Metric("accuracy", _accuracy),
    "auc": Metric("area under the ROC curve", _per_class(area_of_ranking), uses="scores"),
    "balanced_accuracy": Metric("balanced accuracy", balanced_accuracy_score),
    "r2": Metric("R²", r2_score, classification=False),
}


def measure(metric, model, X, y, classes):
    """Score of a fitted model on test rows.

    Parameters
    ----------
    metric : str
        One of ``METRICS``.
    model : estimator
        With `decision_function` or `predict_proba` for rankings, `predict` otherwise.
    X, y : ndarray
        Test rows.
    classes : ndarray or None
        The classes in the order of the columns of the model's scores.

    Returns
    -------
    float
    """
    chosen = METRICS[metric]
    if chosen.uses == "scores":
        scores = scores_of(model, X)
        if not np.isfinite(scores).all():
            raise ValueError("the fitted model gives scores that are not finite.")
        return float(chosen.function(y, scores, classes))
    return float(chosen.function(y, model.predict(X)))


@dataclass(frozen=True)
class Protocol:
    """How methods are compared.

    Parameters
    ----------
    metric : {"ap", "accuracy", "auc", "balanced_accuracy", "r2"}
        What is measured on the test rows, and what the inner cross-validation selects by.
    n_splits : int
        Number of random splits into training and test rows.
    train_sizes : tuple of int
        Numbers of training rows. The smaller training sets are parts of the larger ones, the test rows are the same.
    inner_folds : int
        Folds of the cross-validation on the training rows that chooses the parameters.
    kernel : {"linear", "rbf"}, optional
        Kernel of every kernel method, in both spaces; both are candidates of the inner cross-validation if not given.
    seed : int
        Everything random follows from it.
    max_test : int
        At most so many test rows are scored; the others wait outside.
    max_unlabeled : int
        At most so many rows without a label are added to each training set.
    standardize : bool
        Whether numbers are standardized (with what the training rows say); otherwise they stay as they are.
    balanced : bool
        Whether each split draws as many rows of every class as the rarest one has, for training and test alike.
    grids : tuple
        Grids that replace the built-in ones, as sorted (method, grid) pairs.

    Examples
    --------
    >>> protocol = Protocol(metric="auc", n_splits=10, train_sizes=(50, 100))
    >>> protocol.train_sizes
    (50, 100)
    """

    metric: str = "ap"
    n_splits: int = 20
    train_sizes: tuple[int, ...] = (100,)
    inner_folds: int = 5
    kernel: str | None = None
    seed: int = 0
    max_test: int = 2000
    max_unlabeled: int = 2000
    standardize: bool = True
    balanced: bool = False
    grids: tuple = field(default=())

    def __post_init__(self):
        if self.metric not in METRICS:
            raise ValueError(f"metric is {self.metric!r}, but must be one of {', '.join(METRICS)}.")
        if self.kernel not in (None, "linear", "rbf"):
            raise ValueError(f"kernel is {self.kernel!r}, but must be 'linear' or 'rbf'.")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}, but must be 0 or larger.")
        if self.n_splits < 2:
            raise ValueError(f"n_splits is {self.n_splits}, but a comparison needs at least 2.")
        if self.inner_folds < 2:
            raise ValueError(f"inner_folds is {self.inner_folds}, but must be at least 2.")
        if not self.train_sizes or list(self.train_sizes) != sorted(set(self.train_sizes)):
            raise ValueError(f"train_sizes is {self.train_sizes}, but must be increasing numbers.")

    def fingerprint(self, data_digest):
        """Identity of every unit's result: protocol, data and code.

        The number of splits is left out: a store may be continued with more of them.
        """
        facts = {k: v for k, v in asdict(self).items() if k != "n_splits"}
        return identity(protocol=facts, data=data_digest)


def derived_seed(*parts):
    """Seed from numbers and words: the same on every machine, in every process, in any order of work.

    Examples
    --------
    >>> derived_seed(0, 3, "svm+") == derived_seed(0, 3, "svm+") != derived_seed(0, 4, "svm+")
    True
    """
    words = [zlib.crc32(part.encode()) if isinstance(part, str) else int(part) for part in parts]
    return int(np.random.SeedSequence(words).generate_state(1)[0] >> 1)


def split_rows(protocol, split, data):
    """Training rows for each size, and test rows, of one split; all of them labeled.

    Classes keep their shares, groups stay together. Where some rows only serve as test (an official test set), these
    are the test rows, and the training rows are drawn from the others.

    Parameters
    ----------
    protocol : Protocol
    split : int
        Number of the split.
    data : Data

    Returns
    -------
    dict of int to ndarray, ndarray
    """
    largest = protocol.train_sizes[-1]
    classes = METRICS[protocol.metric].classification
    seed = derived_seed(protocol.seed, split, "split")
    rows = data.labeled
    if data.test_only is not None:
        pool, test = rows[~data.test_only[rows]], rows[data.test_only[rows]]
        train = _part(pool, largest, data.y[pool] if classes else None, seed)
    elif data.groups is None:
        pool = rows[_balanced_rows(data.y[rows], seed)] if protocol.balanced else rows
        labels = data.y[pool] if classes else None
        train, test = train_test_split(pool, train_size=largest, stratify=labels, random_state=seed)
    else:
        train, test = _group_split(largest, rows, data, classes, seed)
    trains = {
        size: np.sort(_part(train, size, data.y[train] if classes else None, seed)) for size in protocol.train_sizes
    }
    return trains, np.sort(_part(test, protocol.max_test, data.y[test] if classes else None, seed))


def unlabeled_rows(protocol, split, data, held_out):
    """Rows without a label that join the training set of a split: none that belongs to a group of the held-out rows.

    Returns
    -------
    ndarray
    """
    rows = data.unlabeled
    if data.groups is not None:
        rows = rows[~np.isin(data.groups[rows], data.groups[held_out])]
    if len(rows) > protocol.max_unlabeled:
        rng = np.random.default_rng(derived_seed(protocol.seed, split, "unlabeled"))
        rows = np.sort(rng.choice(rows, protocol.max_unlabeled, replace=False))
    return rows


def _part(rows, size, labels, seed):
    """At most `size` of the rows; classes keep their shares."""
    if size >= len(rows):
        return rows
    if labels is None:
        return train_test_split(rows, train_size=size, random_state=seed)[0]
    counts = np.unique(labels, return_counts=True)[1]
    if counts.min() > 1 and len(counts) <= size <= len(rows) - len(counts):
        return train_test_split(rows, train_size=size, stratify=labels, random_state=seed)[0]
    # A part that is nearly everything leaves no row of some class: drop the rest one by one, the largest class first.
    order = np.random.default_rng(seed).permutation(len(rows))
    kept = list(order)
    while len(kept) > size:
        present, left = np.unique(labels[kept], return_counts=True)
        surplus = present[left.argmax()]
        kept.remove(next(k for k in reversed(kept) if labels[k] == surplus))
    return rows[kept]


def _balanced_rows(y, seed):
    """As many rows of each class as the rarest one has."""
    rng = np.random.default_rng(seed)
    members = [np.flatnonzero(y == label) for label in np.unique(y)]
    size = min(map(len, members))
    return np.sort(np.concatenate([rng.permutation(rows)[:size] for rows in members]))


def _group_split(size, rows, data, classification, seed):
    """Whole groups in random order until the training set is full; draws again if a class is missing on a side."""
    rng = np.random.default_rng(seed)
    names, member = np.unique(data.groups[rows], return_inverse=True)
    counts = np.bincount(member)
    n_classes = len(np.unique(data.y[rows])) if classification else 0
    for _ in range(200):
        order = rng.permutation(len(names))
        n_train = int(np.searchsorted(np.cumsum(counts[order]), size)) + 1
        in_train = np.isin(member, order[:n_train])
        train, test = rows[in_train], rows[~in_train]
        if len(train) < size or not len(test):
            continue
        if not classification:
            return train, test
        found = np.unique(data.y[train], return_counts=True)[1]
        if len(found) == len(np.unique(data.y[test])) == n_classes and found.min() > 1:
            return train, test
    raise ValueError(
        f"no split of the {len(names)} groups into {size} training rows and the rest has every class on both sides; "
        "use a smaller train_size, or coarser targets."
    )


def inner_folds(protocol, split, y, groups=None):
    """Folds of the labeled training rows for the choice of parameters; the same for every method.

    Groups stay together, unless too few folds would then have every class.

    Returns
    -------
    list of (ndarray, ndarray)
    """
    seed = derived_seed(protocol.seed, split, "folds")
    classification = METRICS[protocol.metric].classification
    n = protocol.inner_folds
    if classification:
        # No more folds than the rarest class has rows: otherwise a fold lacks it.
        n = max(2, min(n, int(np.unique(y, return_counts=True)[1].min())))
    if groups is not None and len(np.unique(groups)) > 1:
        k = min(n, len(np.unique(groups)))
        kind = StratifiedGroupKFold(k, shuffle=True, random_state=seed) if classification else GroupKFold(k)
        folds = [fold for fold in kind.split(np.zeros((len(y), 1)), y, groups) if _complete(y, *fold, classification)]
        if len(folds) > 1:
            return folds
    kind = StratifiedKFold if classification else KFold
    return list(kind(n, shuffle=True, random_state=seed).split(np.zeros((len(y), 1)), y))


def _complete(y, train, test, classification):
    """Whether a fold can be fitted and measured: every class on the training side, two on the other."""
    if not len(test) or not classification:
        return len(test) > 0
    return len(np.unique(y[train])) == len(np.unique(y)) and len(np.unique(y[test])) > 1


def permuted_rows(data, number, seed):
    """The whole table's order of privileged rows in permutation `number`; number 0 leaves them where they are.

    Rows without any privileged value stay without. Rows of one group move together: the groups are laid out in another
    order.

    Returns
    -------
    ndarray
        For every row the row whose privileged values it gets.

    Examples
    --------
    >>> from lupi.comparison.problem import Data
    >>> table = Data.of(np.zeros((4, 1)), np.zeros(4), [[1.0], [2.0], [np.nan], [4.0]])
    >>> permuted_rows(table, 0, 5), permuted_rows(table, 1, 5)[2], sorted(permuted_rows(table, 1, 5).tolist())
    (array([0, 1, 2, 3]), np.int64(2), [0, 1, 2, 3])
    """
    order = np.arange(len(data.y))
    if number == 0:
        return order
    rows = np.flatnonzero(~data.privileged.empty_rows())
    rng = np.random.default_rng(derived_seed(seed, number, "permutation"))
    if data.groups is None:
        order[rows] = rows[rng.permutation(len(rows))]
        return order
    _, member = np.unique(data.groups[rows], return_inverse=True)
    rank = rng.permutation(member.max() + 1)
    order[rows[np.argsort(member, kind="stable")]] = rows[np.argsort(rank[member], kind="stable")]
    return order


def others_rows(n, seed):
    """For each of n examples the index of another one, no one twice: the order of the shuffled control.

    Examples
    --------
    >>> order = others_rows(5, seed=1)
    >>> sorted(order.tolist()), any(order == [0, 1, 2, 3, 4])
    ([0, 1, 2, 3, 4], False)
    """
    ring = np.random.default_rng(seed).permutation(n)
    order = np.empty(n, dtype=np.intp)
    order[ring] = np.roll(ring, 1)
    return order
