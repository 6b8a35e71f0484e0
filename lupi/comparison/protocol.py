"""What is run: the protocol, its splits and its seeds. Everything here is a function of the protocol and the data."""

from __future__ import annotations

import zlib
from dataclasses import asdict, dataclass, field

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold, train_test_split

from lupi.comparison.metrics import METRICS
from lupi.engine.identity import fingerprint


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
    kernel : {"linear", "rbf"}
        Kernel of every method, in both spaces.
    seed : int
        Everything random follows from it.
    max_test : int
        At most so many test rows are scored; the others wait outside.
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
    kernel: str = "rbf"
    seed: int = 0
    max_test: int = 2000
    standardize: bool = True
    balanced: bool = False
    grids: tuple = field(default=())

    def __post_init__(self):
        if self.metric not in METRICS:
            raise ValueError(f"metric is {self.metric!r}, but must be one of {', '.join(METRICS)}.")
        if self.kernel not in ("linear", "rbf"):
            raise ValueError(f"kernel is {self.kernel!r}, but must be 'linear' or 'rbf'.")
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
        return fingerprint(protocol=facts, data=data_digest)


def derived_seed(*parts):
    """Seed from numbers and words: the same on every machine, in every process, in any order of work.

    Examples
    --------
    >>> derived_seed(0, 3, "svm+") == derived_seed(0, 3, "svm+") != derived_seed(0, 4, "svm+")
    True
    """
    words = [zlib.crc32(part.encode()) if isinstance(part, str) else int(part) for part in parts]
    return int(np.random.SeedSequence(words).generate_state(1)[0] >> 1)


def split_rows(protocol, split, y, groups=None, test_only=None):
    """Training rows for each size, and test rows, of one split.

    Classes keep their shares, groups stay together. Where some rows only serve as test (an official test set), these
    are the test rows, and the training rows are drawn from the others.

    Returns
    -------
    dict of int to ndarray, ndarray
    """
    largest = protocol.train_sizes[-1]
    stratify = y if METRICS[protocol.metric].classification else None
    seed = derived_seed(protocol.seed, split, "split")
    if test_only is not None:
        pool, test = np.flatnonzero(~test_only), np.flatnonzero(test_only)
        train = pool
        if largest < len(pool):
            labels = None if stratify is None else y[pool]
            train, _ = train_test_split(pool, train_size=largest, stratify=labels, random_state=seed)
    elif groups is None:
        pool = _balanced_rows(y, seed) if protocol.balanced else np.arange(len(y))
        labels = None if stratify is None else y[pool]
        train, test = train_test_split(pool, train_size=largest, stratify=labels, random_state=seed)
    else:
        train, test = _group_split(largest, y, groups, stratify is not None, seed)
    trains = {}
    for size in protocol.train_sizes:
        part = train
        if size < len(train):
            labels = None if stratify is None else y[train]
            part, _ = train_test_split(train, train_size=size, stratify=labels, random_state=seed)
        trains[size] = np.sort(part)
    if len(test) > protocol.max_test:
        labels = None if stratify is None else y[test]
        test, _ = train_test_split(test, train_size=protocol.max_test, stratify=labels, random_state=seed)
    return trains, np.sort(test)


def _balanced_rows(y, seed):
    """As many rows of each class as the rarest one has."""
    rng = np.random.default_rng(seed)
    members = [np.flatnonzero(y == label) for label in np.unique(y)]
    size = min(map(len, members))
    return np.sort(np.concatenate([rng.permutation(rows)[:size] for rows in members]))


def _group_split(size, y, groups, classification, seed):
    """Whole groups in random order until the training set is full; draws again if a class is missing on a side."""
    rng = np.random.default_rng(seed)
    names, member = np.unique(groups, return_inverse=True)
    counts = np.bincount(member)
    for _ in range(200):
        order = rng.permutation(len(names))
        n_train = int(np.searchsorted(np.cumsum(counts[order]), size)) + 1
        in_train = np.isin(member, order[:n_train])
        train, test = np.flatnonzero(in_train), np.flatnonzero(~in_train)
        n_classes = len(np.unique(y)) if classification else 0
        if len(test) and (not classification or len(np.unique(y[train])) == len(np.unique(y[test])) == n_classes):
            return train, test
    raise ValueError(
        f"no split of the {len(names)} groups into {size} training rows and the rest has every class on both sides; "
        "use a smaller train_size, or coarser targets."
    )


def inner_folds(protocol, split, y, groups=None):
    """Folds of the training rows for the choice of parameters; the same for every method.

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
    if groups is not None:
        n = max(2, min(n, len(np.unique(groups))))
        kind = StratifiedGroupKFold(n, shuffle=True, random_state=seed) if classification else GroupKFold(n)
        return list(kind.split(np.zeros((len(y), 1)), y, groups))
    kind = StratifiedKFold if classification else KFold
    return list(kind(n, shuffle=True, random_state=seed).split(np.zeros((len(y), 1)), y))


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
