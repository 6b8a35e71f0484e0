"""The students of surrogate learning that come in closed form, or nearly: ridge, RBF ridge, a forest, their average.

Every member is fitted to targets of shape (n, k) (one column, or one a class) on standardized features, and keeps two
things beside its prediction: ``left_out_``, honest values of the training rows, and ``spread_``, the standard deviation
of its values, by which outputs are scaled before they are averaged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import check_random_state

from lupi.inputs.chunked_rows import ChunkedRows, chunkwise, total
from lupi.inputs.types import Matrix, MatrixLike, RandomState
from lupi.model_parts import model_part
from lupi.surrogate import KernelPath, RidgePath, choose_penalty, spread
from lupi.surrogate.ridge import BLOCK, GRID

if TYPE_CHECKING:
    from lupi.inputs.chunked_rows import AnyRows

CLIP = 5.0
# Rows up to which the RBF ridge is exact; above, it uses this many landmarks.
EXACT_ROWS, LANDMARKS = 1500, 500
# Penalties of a kernel whose diagonal is 1, relative to the number of rows.
KERNEL_GRID = GRID / 30


@model_part
class Standardizer(BaseEstimator):
    """Columns to mean 0 and standard deviation 1, clipped at +-5; missing values become 0, the mean.

    A sparse matrix is scaled and clipped, not shifted: the methods behind do not change with a shift.
    """

    def fit(self, X: MatrixLike, weight: np.ndarray) -> Self:
        """Weighted means and standard deviations, of the values that are there."""
        _, self.mean_ = _column_means(X, weight, lambda block: block)
        centered = np.square if sparse.issparse(X) else lambda block: np.square(block - self.mean_)
        _, square = _column_means(X, weight, centered)
        variance = square - np.square(self.mean_) if sparse.issparse(X) else square
        scale = np.sqrt(np.maximum(variance, 0.0))
        self.scale_ = np.where(scale < 1e-9 * np.maximum(1.0, np.abs(self.mean_)), 1.0, scale)
        return self

    def transform(self, X: MatrixLike) -> Any:
        """Standardized copy; of rows in blocks when they are made."""
        if isinstance(X, ChunkedRows):
            return X.mapped(self.transform)
        if sparse.issparse(X):
            scaled = X.tocsr(copy=True)
            low, high = self.mean_ - CLIP * self.scale_, self.mean_ + CLIP * self.scale_
            columns = scaled.indices
            scaled.data = np.clip(scaled.data, low[columns], high[columns]) / self.scale_[columns]
            return scaled
        scaled = X - self.mean_
        scaled /= self.scale_
        np.clip(scaled, -CLIP, CLIP, out=scaled)
        return np.nan_to_num(scaled, copy=False, nan=0.0)


def standardized_space(values: AnyRows, there: np.ndarray, weight: np.ndarray) -> AnyRows:
    """Standardized privileged features; rows without them get the mean."""
    if isinstance(values, ChunkedRows):
        values = values.with_gaps()
        return Standardizer().fit(values, weight).transform(values)
    if there.all():
        return Standardizer().fit(values, weight).transform(values)
    standardized = Standardizer().fit(values[there], weight[there]).transform(values)
    standardized[~there] = 0.0
    return standardized


def _column_means(X: MatrixLike, weight: np.ndarray, function: Callable[..., Any]) -> tuple[np.ndarray, np.ndarray]:
    """Sums of weights and weighted means of a function of the values that are there, block by block."""
    total_weight, sums = _column_sums(X, weight, function)
    return total_weight, sums / np.maximum(total_weight, np.finfo(float).tiny)


@chunkwise(total, "weight")
def _column_sums(X: MatrixLike, weight: np.ndarray, function: Callable[..., Any]) -> tuple[np.ndarray, np.ndarray]:
    if sparse.issparse(X):
        values = X.copy()
        values.data = function(values.data)
        return np.full(X.shape[1], weight.sum()), np.asarray(values.T @ weight).ravel()
    weights, sums = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for start in range(0, len(X), BLOCK):
        block, part = X[start : start + BLOCK], weight[start : start + BLOCK]
        missing = np.isnan(block)
        if missing.any():
            weights += part @ ~missing
            sums += part @ np.where(missing, 0.0, function(block))
        else:
            weights += part.sum()
            sums += part @ function(block)
    return weights, sums


@model_part
class RidgeMember(BaseEstimator):
    """Ridge whose prior trusts columns that go with the target: column j is scaled by sqrt|corr(x_j, t)|, if p <= n."""

    def fit(self, A: AnyRows, targets: np.ndarray, weight: np.ndarray, groups: np.ndarray | None) -> Self:
        """Penalty by the largest leave-one-out correlation."""
        scale = np.ones(A.shape[1])
        if A.shape[1] <= weight.sum():
            scale = np.sqrt(_correlations(A, targets, weight))
            scale /= np.sqrt(np.sqrt(np.mean(scale**4)) + 1e-12)
        fit = choose_penalty(RidgePath(A, weight, scale), targets, groups, "correlation")
        self.coef_, self.intercept_, self.alpha_ = fit.coef, fit.intercept, fit.alpha
        self.left_out_, self.spread_ = fit.left_out, fit.spread
        return self

    def predict(self, A: AnyRows) -> np.ndarray:
        """Values of shape (n, k)."""
        return np.asarray(A @ self.coef_ + self.intercept_)


def _correlations(A: AnyRows, targets: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Root mean square over the targets of the correlations of each column with them."""
    total = weight.sum()
    mean = np.asarray(A.T @ weight).ravel() / total
    variance = _column_means(A, weight, np.square)[1] - np.square(mean)
    centered = targets - weight @ targets / total
    covariance = np.asarray(A.T @ (weight[:, None] * centered)) / total
    scale = np.outer(np.maximum(variance, 0.0), weight @ np.square(centered) / total)
    there = scale > 1e-18
    squared = np.divide(np.square(covariance), scale, out=np.zeros_like(scale), where=there)
    return np.asarray(np.sqrt(np.minimum(squared, 1.0).mean(axis=1)))


@model_part
class RbfRidge(BaseEstimator):
    """Ridge in the space of the RBF kernel; above 1500 rows on 500 landmarks (Nystroem), so that time is linear in n."""

    def __init__(self, gamma: str | float, random_state: RandomState = None) -> None:
        self.gamma = gamma
        self.random_state = random_state

    def path(self, A: Matrix, weight: np.ndarray) -> RidgePath:
        """The regressions on these rows."""
        if A.shape[0] <= EXACT_ROWS:
            self.landmarks_, self.map_ = A, None
            return KernelPath(rbf_kernel(A, gamma=self.gamma), weight)
        chosen = check_random_state(self.random_state).choice(A.shape[0], LANDMARKS, replace=False)
        self.landmarks_ = A[np.sort(chosen)]
        values, vectors = np.linalg.eigh(rbf_kernel(self.landmarks_, gamma=self.gamma))
        kept = values > 1e-8 * values[-1]
        self.map_ = vectors[:, kept] / np.sqrt(values[kept])
        return RidgePath(self.features(A), weight)

    def features(self, A: Matrix) -> np.ndarray:
        """What the coefficients of the path multiply."""
        kernel = rbf_kernel(A, self.landmarks_, gamma=self.gamma)
        return np.asarray(kernel if self.map_ is None else kernel @ self.map_)


@model_part
class RbfMember(BaseEstimator):
    """RBF ridge with gamma = 1 / (2 p)."""

    def __init__(self, random_state: RandomState = None) -> None:
        self.random_state = random_state

    def fit(self, A: Matrix, targets: np.ndarray, weight: np.ndarray, groups: np.ndarray | None) -> Self:
        """Penalty by the largest leave-one-out correlation."""
        self.machine_ = RbfRidge(0.5 / A.shape[1], self.random_state)
        fit = choose_penalty(self.machine_.path(A, weight), targets, groups, "correlation", grid=KERNEL_GRID)
        self.coef_, self.intercept_, self.alpha_ = fit.coef, fit.intercept, fit.alpha
        self.left_out_, self.spread_ = fit.left_out, fit.spread
        return self

    def predict(self, A: Matrix) -> np.ndarray:
        """Values of shape (n, k)."""
        return np.asarray(self.machine_.features(A) @ self.coef_ + self.intercept_)


@model_part
class ForestMember(BaseEstimator):
    """Trees with the best split of a third of the columns (at most 100), each on a random part of the distinct rows.

    Copies of a row (or rows of one group) are in a tree together or not at all, so that weight 2 is the row twice, and the
    trees without a row speak for it in ``left_out_``.
    """

    def __init__(
        self,
        n_trees: int = 60,
        share: float = 0.632,
        leaf: float = 5.0,
        max_columns: int = 100,
        max_rows: int = 10_000,
        random_state: RandomState = None,
    ) -> None:
        self.n_trees = n_trees
        self.share = share
        self.leaf = leaf
        self.max_columns = max_columns
        self.max_rows = max_rows
        self.random_state = random_state

    def fit(self, A: Matrix, targets: np.ndarray, weight: np.ndarray, groups: np.ndarray | None) -> Self:
        """Grow the trees."""
        A = _tree_table(A)
        targets = _on_a_grid(targets, weight)
        unit = distinct_rows(A) if groups is None else groups
        n_units = unit.max() + 1
        share = min(self.share, self.max_rows / len(A))
        totals, counts = np.zeros(targets.shape), np.zeros(len(A))
        trees = []
        for seed in check_random_state(self.random_state).randint(np.iinfo(np.int32).max, size=self.n_trees):
            inside = _drawn(n_units, share, seed)[unit]
            tree = DecisionTreeRegressor(
                max_features=min(-(-A.shape[1] // 3), self.max_columns),
                min_weight_fraction_leaf=min(0.5, self.leaf / weight[inside].sum()),
                random_state=int(seed),
            )
            tree.fit(A[inside], targets[inside], sample_weight=weight[inside], check_input=False)
            totals[~inside] += tree.tree_.predict(A[~inside]).reshape(-1, targets.shape[1])
            counts[~inside] += 1
            trees.append(tree.tree_)
        self._store(trees)
        mean = weight @ targets / weight.sum()
        self.left_out_ = np.where(counts[:, None] > 0, totals / np.maximum(counts, 1)[:, None], mean)
        self.spread_ = spread(self.left_out_, weight)
        return self

    def _store(self, trees: list[BaseEstimator]) -> None:
        """The trees as arrays, one behind the other: a file with them runs nobody's code."""
        self.roots_ = np.cumsum([0, *(tree.node_count for tree in trees[:-1])])
        self.depth_ = max(tree.max_depth for tree in trees)
        self.feature_ = np.concatenate([tree.feature for tree in trees])
        self.threshold_ = np.concatenate([tree.threshold for tree in trees])
        leaf = self.feature_ < 0
        self.feature_[leaf] = 0
        here = np.arange(len(leaf))
        start = np.repeat(self.roots_, [tree.node_count for tree in trees])
        children = (
            np.concatenate([getattr(tree, side) for tree in trees]) for side in ("children_left", "children_right")
        )
        # A leaf leads to itself, so that all rows can go down equally far.
        self.left_, self.right_ = (np.where(leaf, here, start + child) for child in children)
        self.value_ = np.concatenate([tree.value[:, :, 0] for tree in trees])

    def predict(self, A: Matrix) -> np.ndarray:
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


def _tree_table(A: MatrixLike) -> np.ndarray:
    return np.ascontiguousarray(A.toarray() if sparse.issparse(A) else A, dtype=np.float32)


def _drawn(n_units: int, share: float, seed: int) -> np.ndarray:
    """Which units a tree sees: never none, and never all if there are two."""
    number = np.random.default_rng(seed).random(n_units)
    drawn = number < share
    if n_units > 1 and (drawn.all() or not drawn.any()):
        drawn = number <= np.median(number)
    return drawn if n_units > 1 else np.ones(1, dtype=bool)


def _on_a_grid(targets: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Targets rounded to 2^-20 of their spread: sums are then exact, so splits that tie do so in any order of the rows."""
    # Constant but for rounding, they have no spread to divide by.
    smallest = max(np.finfo(float).eps * np.abs(targets).max(), 1e-300)
    step = 2.0 ** (np.ceil(np.log2(max(spread(targets, weight), smallest))) - 20)
    return np.asarray(np.round(targets / step) * step)


def distinct_rows(A: np.ndarray) -> np.ndarray:
    """Number of each row among the distinct rows, which are in lexicographic order of their bytes.

    Examples
    --------
    >>> distinct_rows(np.array([[2.0], [1.0], [2.0]])).tolist()
    [0, 1, 0]
    """
    A = np.ascontiguousarray(A) + 0.0  # -0 is 0
    return np.unique(A.view(np.dtype((np.void, A.dtype.itemsize * A.shape[1]))).ravel(), return_inverse=True)[1]


MEMBERS = {"ridge": RidgeMember, "rbf": RbfMember, "forest": ForestMember}


@model_part
class AveragedStudent(BaseEstimator):
    """The mean of several members' outputs, each scaled to unit spread.

    Parameters
    ----------
    members : tuple of str
        Keys of ``MEMBERS``.
    random_state : int, RandomState or None

    Attributes
    ----------
    members_ : list
        The fitted members.
    scaler_ : Standardizer
        Made with all training rows; prediction takes raw features.
    left_out_ : ndarray of shape (n, k)
        Left-out outputs of the training rows. (Not kept in a saved model: nothing needs them after the fit.)
    spread_ : float
        Standard deviation of the output, 1 with one member.
    """

    def __init__(self, members: Sequence[Any] = ("ridge", "rbf", "forest"), random_state: RandomState = None) -> None:
        self.members = members
        self.random_state = random_state

    def fit(
        self,
        A: AnyRows,
        targets: np.ndarray,
        weight: np.ndarray,
        groups: np.ndarray | None,
        scaler: Standardizer,
    ) -> Self:
        """Fit every member to the same targets, on features that `scaler` standardized."""
        self.scaler_ = scaler
        self.members_ = []
        for name in self.members:
            random = {} if name == "ridge" else {"random_state": self.random_state}
            self.members_.append(MEMBERS[name](**random).fit(A, targets, weight, groups))
        self.center_ = weight @ targets / weight.sum()
        self.left_out_ = self._average([member.left_out_ for member in self.members_])
        # A constant needs no scale.
        self.spread_ = 1.0 if len(self.members_) == 1 else spread(self.left_out_, weight) or 1.0
        for member in self.members_:
            del member.left_out_
        return self

    def _average(self, outputs: list[np.ndarray]) -> np.ndarray:
        scaled = [(o - self.center_) / max(m.spread_, 1e-12) for o, m in zip(outputs, self.members_)]
        return np.asarray(np.mean(scaled, axis=0))

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Output for raw features, of shape (n, k)."""
        return self.predict_scaled(self.scaler_.transform(X))

    def predict_scaled(self, A: AnyRows) -> np.ndarray:
        """Output for standardized features."""
        return self._average([member.predict(A) for member in self.members_])
