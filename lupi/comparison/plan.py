"""The plan of a comparison: its settings, and the seeds, splits, folds and permutations that follow from them."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold, train_test_split

from lupi.comparison.methods import KERNELS_TRIED, Method
from lupi.comparison.problem import METRICS
from lupi.run import identity


@dataclass(frozen=True)
class Plan:
    """Settings of a comparison, as in :func:`lupi.compare`.

    Training rows are labeled rows. Smaller training sets are parts of the larger ones; the test rows are the same.
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
    grids: dict[str, dict[str, Any]] = field(default_factory=dict)
    methods: dict[str, Method] = field(default_factory=dict)

    def __post_init__(self):
        if self.kernel not in (None, *KERNELS_TRIED):
            raise ValueError(f"`kernel` must be one of {', '.join(KERNELS_TRIED)} or None, got {self.kernel!r}.")
        for name, least in (("seed", 0), ("n_splits", 2), ("inner_folds", 2)):
            if getattr(self, name) < least:
                raise ValueError(f"`{name}` must be at least {least}, got {getattr(self, name)}.")
        for name in self.grids if self.methods else ():
            if name not in self.methods:
                raise ValueError(f"`grids` names {name!r}, which is not among the methods {', '.join(self.methods)}.")

    def settings(self):
        """Settings as plain values, for the report."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "methods"}
        return plain | {"metric_title": METRICS[self.metric].title, "train_sizes": list(self.train_sizes)}

    def identity(self, data_digest):
        """Identity of the results: every setting but the number of splits, so that a store can be continued with more."""
        return identity(settings=self.settings() | {"n_splits": None}, data=data_digest)


def derived_seed(*parts):
    """Seed from numbers and words; the same on every machine and in every process.

    Examples
    --------
    >>> derived_seed(0, 3, "svm+") == derived_seed(0, 3, "svm+") != derived_seed(0, 4, "svm+")
    True
    """
    words = [zlib.crc32(part.encode()) if isinstance(part, str) else int(part) for part in parts]
    return int(np.random.SeedSequence(words).generate_state(1)[0] >> 1)


def split_rows(plan, split, problem):
    """Labeled training rows for each size, and the test rows, of one split.

    Classes keep their shares, and groups stay together. The rows of an official test set are the test rows of every split.
    """
    largest, seed, rows = plan.train_sizes[-1], derived_seed(plan.seed, split, "split"), problem.labeled
    if problem.test_only is not None:
        pool, test = rows[~problem.test_only[rows]], rows[problem.test_only[rows]]
        train = _part(pool, largest, problem, seed)
    elif problem.groups is None:
        pool = rows[_balanced_rows(problem.y[rows], seed)] if plan.balanced else rows
        labels = problem.y[pool] if problem.classification else None
        train, test = train_test_split(pool, train_size=largest, stratify=labels, random_state=seed)
    else:
        train, test = _group_split(largest, problem, seed)
    trains = {size: np.sort(_part(train, size, problem, seed)) for size in plan.train_sizes}
    return trains, np.sort(_part(test, plan.max_test, problem, seed))


def unlabeled_rows(plan, split, problem, held_out):
    """Unlabeled rows of the training set of a split; none of a group of the held-out rows."""
    rows = problem.unlabeled_outside(held_out)
    if len(rows) > plan.max_unlabeled:
        rng = np.random.default_rng(derived_seed(plan.seed, split, "unlabeled"))
        rows = np.sort(rng.choice(rows, plan.max_unlabeled, replace=False))
    return rows


def _part(rows, size, problem, seed):
    """At most `size` of the rows; classes keep their shares."""
    if size >= len(rows):
        return rows
    if not problem.classification:
        return train_test_split(rows, train_size=size, random_state=seed)[0]
    labels = problem.y[rows]
    counts = np.unique(labels, return_counts=True)[1]
    if counts.min() > 1 and len(counts) <= size <= len(rows) - len(counts):
        return train_test_split(rows, train_size=size, stratify=labels, random_state=seed)[0]
    # Nearly all rows: a stratified rest would lack a class. Drop rows one by one, from the largest class first.
    kept = list(np.random.default_rng(seed).permutation(len(rows)))
    while len(kept) > size:
        present, left = np.unique(labels[kept], return_counts=True)
        surplus = present[left.argmax()]
        kept.remove(next(k for k in reversed(kept) if labels[k] == surplus))
    return rows[kept]


def _balanced_rows(y, seed):
    """As many rows of each class as the rarest class has."""
    rng = np.random.default_rng(seed)
    members = [np.flatnonzero(y == label) for label in np.unique(y)]
    size = min(map(len, members))
    return np.sort(np.concatenate([rng.permutation(rows)[:size] for rows in members]))


def _group_split(size, problem, seed):
    """Whole groups in random order until the training set is full; draws again if a class is missing on a side."""
    rng, rows = np.random.default_rng(seed), problem.labeled
    names, member = np.unique(problem.groups[rows], return_inverse=True)
    counts = np.bincount(member)
    n_classes = len(np.unique(problem.y[rows])) if problem.classification else 0
    for _ in range(200):
        order = rng.permutation(len(names))
        n_train = int(np.searchsorted(np.cumsum(counts[order]), size)) + 1
        in_train = np.isin(member, order[:n_train])
        train, test = rows[in_train], rows[~in_train]
        if len(train) < size or not len(test):
            continue
        if not problem.classification:
            return train, test
        found = np.unique(problem.y[train], return_counts=True)[1]
        if len(found) == len(np.unique(problem.y[test])) == n_classes and found.min() > 1:
            return train, test
    raise ValueError(
        f"no split of the {len(names)} groups into {size} training rows and the rest has every class on both sides; "
        "use a smaller train_size, or coarser targets."
    )


def inner_folds(plan, split, train):
    """Folds of the labeled training rows, as positions among them; the same for every method.

    Groups stay together, unless too few folds would then have every class.
    """
    seed, n, y = derived_seed(plan.seed, split, "folds"), plan.inner_folds, train.y[train.labeled]
    groups = None if train.groups is None else train.groups[train.labeled]
    if train.classification:
        # No more folds than the rarest class has rows: otherwise a fold lacks it.
        n = max(2, min(n, int(np.unique(y, return_counts=True)[1].min())))
    if groups is not None and len(np.unique(groups)) > 1:
        k = min(n, len(np.unique(groups)))
        kind = StratifiedGroupKFold(k, shuffle=True, random_state=seed) if train.classification else GroupKFold(k)
        folds = [fold for fold in kind.split(y, y, groups) if _usable(train, y, *fold)]
        if len(folds) > 1:
            return folds
    kind = StratifiedKFold if train.classification else KFold
    return list(kind(n, shuffle=True, random_state=seed).split(y, y))


def _usable(problem, y, train, test):
    """Whether a fold can be fitted and scored: every class in the training rows, two in the test rows."""
    if not len(test) or not problem.classification:
        return len(test) > 0
    return len(np.unique(y[train])) == len(np.unique(y)) and len(np.unique(y[test])) > 1


def permuted_rows(problem, number, seed):
    """For every row the row whose privileged values it gets in permutation `number`; number 0 is the identity.

    Rows without privileged values stay without. Rows of one group move together.

    Examples
    --------
    >>> from lupi.comparison.problem import Problem
    >>> table = Problem.of(np.zeros((4, 1)), np.zeros(4), [[1.0], [2.0], [np.nan], [4.0]])
    >>> permuted_rows(table, 0, 5), permuted_rows(table, 1, 5)[2], sorted(permuted_rows(table, 1, 5).tolist())
    (array([0, 1, 2, 3]), np.int64(2), [0, 1, 2, 3])
    """
    order = np.arange(len(problem.y))
    if number == 0:
        return order
    rows = np.flatnonzero(~problem.privileged.empty_rows())
    rng = np.random.default_rng(derived_seed(seed, number, "permutation"))
    if problem.groups is None:
        order[rows] = rows[rng.permutation(len(rows))]
        return order
    _, member = np.unique(problem.groups[rows], return_inverse=True)
    rank = rng.permutation(member.max() + 1)
    order[rows[np.argsort(member, kind="stable")]] = rows[np.argsort(rank[member], kind="stable")]
    return order


def shuffled_rows(n, seed):
    """Permutation of n rows that moves every row: the order of the shuffled control.

    Examples
    --------
    >>> order = shuffled_rows(5, seed=1)
    >>> sorted(order.tolist()), any(order == [0, 1, 2, 3, 4])
    ([0, 1, 2, 3, 4], False)
    """
    ring = np.random.default_rng(seed).permutation(n)
    order = np.empty(n, dtype=np.intp)
    order[ring] = np.roll(ring, 1)
    return order
