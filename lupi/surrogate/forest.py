"""A small forest with left-out predictions that respects weights, copies of rows and groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import check_random_state

from lupi.inputs.types import Array, Matrix, RandomState
from lupi.privacy import model_part
from lupi.surrogate.ridge import BLOCK, EPS, spread

if TYPE_CHECKING:
    from lupi.surrogate.members import Sample

# Fraction of the distinct rows that a tree sees, and their largest number.
TREE_ROWS, MAX_ROWS = 0.632, 10_000
# Smallest weight of a leaf, and largest number of columns that a split chooses from.
LEAF, MAX_COLUMNS = 5.0, 100


@model_part
@dataclass(eq=False, repr=False)
class ForestMember(BaseEstimator):
    """Trees with the best split of a third of the columns (at most 100), each on a random part of the distinct rows.

    A tree sees all copies of a row (or all rows of a group) or none of them, so weight 2 equals two copies of the row.
    Left-out predictions average the trees that have not seen the row.
    """

    n_trees: int = 60
    random_state: RandomState = None

    def fit_left_out(self, sample: Sample) -> Array:
        """Grow the trees; return left-out predictions of the training rows."""
        A, weight = _tree_table(sample.X.values), sample.weight
        # In their own unit, since trees stop at an absolute impurity, and rounded to 2^-20 of it: sums are exact, so ties
        # between splits do not depend on the order of the rows.
        size = _power_of_two(sample.targets, weight)
        targets = np.round(sample.targets / size * 2.0**20) / 2.0**20
        unit = distinct_rows(A) if sample.groups is None else np.unique(sample.groups, return_inverse=True)[1]
        n_units, share = unit.max() + 1, min(TREE_ROWS, MAX_ROWS / len(A))
        totals, counts = np.zeros(targets.shape), np.zeros(len(A))
        trees = []
        for seed in check_random_state(self.random_state).randint(np.iinfo(np.int32).max, size=self.n_trees):
            inside = _drawn_units(n_units, share, seed)[unit]
            tree = DecisionTreeRegressor(
                max_features=min(-(-A.shape[1] // 3), MAX_COLUMNS),
                min_weight_fraction_leaf=min(0.5, LEAF / weight[inside].sum()),
                random_state=int(seed),
            )
            tree.fit(A[inside], targets[inside], sample_weight=weight[inside], check_input=False)
            totals[~inside] += tree.tree_.predict(A[~inside]).reshape(-1, targets.shape[1])
            counts[~inside] += 1
            trees.append(tree.tree_)
        self._store(trees, size)
        mean = weight @ targets / weight.sum()
        left_out = size * np.where(counts[:, None] > 0, totals / np.maximum(counts, 1)[:, None], mean)
        self.spread_ = spread(left_out, weight)
        return left_out

    def _store(self, trees: list[Any], size: float) -> None:
        """Concatenate the trees into arrays, so that loading a saved model executes no code."""
        sizes = [tree.node_count for tree in trees]
        self.roots_ = np.cumsum([0, *sizes[:-1]])
        self.depth_ = max(tree.max_depth for tree in trees)
        self.feature_ = np.concatenate([tree.feature for tree in trees])
        self.threshold_ = np.concatenate([tree.threshold for tree in trees])
        leaf = self.feature_ < 0
        self.feature_[leaf] = 0
        node, start = np.arange(len(leaf)), np.repeat(self.roots_, sizes)
        # A leaf leads to itself, so all rows take the same number of steps.
        self.left_ = np.where(leaf, node, start + np.concatenate([tree.children_left for tree in trees]))
        self.right_ = np.where(leaf, node, start + np.concatenate([tree.children_right for tree in trees]))
        self.value_ = size * np.concatenate([tree.value[:, :, 0] for tree in trees])

    def predict(self, A: Matrix) -> Array:
        """Values of shape (n, k)."""
        A = _tree_table(A)
        values = np.empty((len(A), self.value_.shape[1]))
        for start in range(0, len(A), BLOCK):
            part = A[start : start + BLOCK]
            node = np.tile(self.roots_, (len(part), 1))
            row = np.arange(len(part))[:, None]
            for _ in range(self.depth_):
                low = part[row, self.feature_[node]] <= self.threshold_[node]
                node = np.where(low, self.left_[node], self.right_[node])
            values[start : start + BLOCK] = self.value_[node].mean(axis=1)
        return values


def _tree_table(A: Any) -> Array:
    return np.ascontiguousarray(A.toarray() if sparse.issparse(A) else A, dtype=np.float32)


def _drawn_units(n_units: int, share: float, seed: int) -> Array:
    """Which units a tree sees: at least one, and not all of them if there are two."""
    number = np.random.default_rng(seed).random(n_units)
    drawn = number < share
    if n_units > 1 and (drawn.all() or not drawn.any()):
        drawn = number <= np.median(number)
    return drawn if n_units > 1 else np.ones(1, dtype=bool)


def _power_of_two(targets: Array, weight: Array) -> float:
    """Smallest power of two above the spread, or above the rounding errors of constant targets."""
    smallest = max(EPS * np.abs(targets).max(), 1e-290)
    return float(2.0 ** np.ceil(np.log2(max(spread(targets, weight), smallest))))


def distinct_rows(A: Array) -> Array:
    """Number of each row among the distinct rows, in lexicographic order of their bytes."""
    A = np.ascontiguousarray(A) + 0.0  # -0.0 becomes 0.0
    return np.unique(A.view(np.dtype((np.void, A.dtype.itemsize * A.shape[1]))).ravel(), return_inverse=True)[1]
