"""Pools of members: each is fitted to the same targets, and the output is their weighted mean after scaling to unit spread.

A member has ``fit_left_out(sample)``, which fits it and returns left-out predictions of the training rows, ``spread_``,
by which its outputs are divided, and ``predict``. A new member is a class with these three and an entry in ``MEMBERS``.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.optimize import nnls
from scipy.special import softmax
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import enet_path
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import check_random_state

from lupi.inputs.training_set import ArrayRows, Rows, TrainingSet, chunkwise
from lupi.inputs.types import Array, Matrix, MatrixLike, RandomState
from lupi.kernels import Kernel
from lupi.kernels.nystroem import FeatureSpace
from lupi.privacy import WithoutPrivilegedRows, model_part
from lupi.surrogate.estimators import EstimatorMember, make_folds
from lupi.surrogate.ridge import BLOCK, GRID, SMALLEST_SPREAD, TINY, RidgePath, fit_ridge, spread, unit_of
from lupi.surrogate.targets import Calibration, Target, blend

# Standardized values are clipped at plus and minus this.
CLIP = 5.0
# The RBF ridge is exact up to this many rows; above, it uses this many landmarks.
EXACT_ROWS, LANDMARKS = 1500, 500
# Fraction of the distinct rows that a tree sees.
TREE_ROWS = 0.632
# Smallest weight of a leaf, and largest number of columns that a split chooses from.
LEAF, MAX_COLUMNS = 5.0, 100
# Fraction of the absolute penalty in the elastic net, and its penalties relative to the one at which all coefficients are 0.
L1_RATIO, SPARSE_GRID = 0.9, np.logspace(0, -2, 16)
# Penalties for a kernel with a diagonal of 1, relative to the number of rows.
KERNEL_GRID = GRID / 30


@dataclass(frozen=True)
class Sample:
    """Training rows of a pool."""

    X: Any  # Rows: standardized features; for an estimator of the user's, the features as passed to `fit`
    targets: Array  # (n, k)
    weight: Array
    groups: Array | None  # rows of a group are left out together
    labels: Array | None = None  # class codes for a classifier; None: soft labels or numbers
    cross_fit_rows: Array | None = None  # rows for which an estimator is refitted (None: all); others get NaN


class SurrogateData:
    """A training set with the positions of its rows by role."""

    def __init__(self, rows: TrainingSet) -> None:
        labeled, available = rows.labeled, rows.available
        self.rows = rows
        self.labeled = np.flatnonzero(labeled)
        self.taught = np.flatnonzero(labeled & available)  # labeled, with privileged features
        self.unlabeled = np.flatnonzero(~labeled)  # all of them have privileged features
        self.scored = np.sort(np.concatenate([self.taught, self.unlabeled]))  # by the teachers

    def groups(self, index: Array) -> Array | None:
        """Group numbers of some rows."""
        return None if self.rows.groups is None else self.rows.groups[index]

    def codes(self, index: Array) -> Array | None:
        """Class codes of some rows; None for numbers."""
        return None if self.rows.classes is None else self.rows.target[index]

    def sample(self, features: Any, index: Array, targets: Array, **options: Any) -> Sample:
        """Some of the rows with targets for a pool."""
        return Sample(features.take(index), targets, self.rows.weight[index], self.groups(index), **options)


@model_part
class Standardizer(BaseEstimator):
    """Columns to mean 0 and standard deviation 1, clipped at +-5; missing values become 0, the mean.

    Fitted to a sparse matrix, 0 stays 0: the columns are not centered, which no member and no teacher depends on.
    """

    def fit(self, X: Any, weight: Array) -> Self:
        """Weighted means and standard deviations of the values that are not missing."""
        weights, sums = _column_sums(X.operand, weight, None)
        weights = np.maximum(weights, TINY)
        self.mean_ = sums / weights
        scale = np.sqrt(_column_sums(X.operand, weight, self.mean_)[1] / weights)
        self.scale_ = np.where(scale <= SMALLEST_SPREAD * np.abs(self.mean_), 1.0, scale)
        self.sparse_ = sparse.issparse(X.operand)
        reach = CLIP * self.scale_
        # A sparse 0 is clipped like any other value, so it is the clipped 0 that maps to 0.
        self.shift_ = np.clip(0.0, self.mean_ - reach, self.mean_ + reach) if self.sparse_ else self.mean_
        return self

    def rows(self, X: Any) -> Any:
        """Standardized rows; rows in chunks are standardized when they are read."""
        values = X.operand
        chunked = isinstance(values, Rows)
        return X.map(self.transform, X.shape[1]) if chunked else ArrayRows(self.transform(values))

    def transform(self, X: Any) -> Any:
        """Standardized copy."""
        if not sparse.issparse(X):
            scaled = X - self.mean_
            scaled /= self.scale_
            np.clip(scaled, -CLIP, CLIP, out=scaled)
            np.nan_to_num(scaled, copy=False, nan=0.0)
            return scaled + (self.mean_ - self.shift_) / self.scale_ if self.sparse_ else scaled
        if not self.sparse_:
            return self.transform(X.toarray())
        scaled = X.tocsr(copy=True)
        mean, scale, shift = (values[scaled.indices] for values in (self.mean_, self.scale_, self.shift_))
        clipped = np.clip(scaled.data, mean - CLIP * scale, mean + CLIP * scale)
        scaled.data = (np.where(np.isnan(clipped), mean, clipped) - shift) / scale
        return scaled


@chunkwise("sum", "weight")
def _column_sums(X: Any, weight: Array, center: Array | None) -> tuple[Array, Array]:
    """Weights and weighted sums of the values that are not missing, or of their squared distances to a center."""
    weights, sums = np.zeros((2, X.shape[1]))
    for start in range(0, X.shape[0], BLOCK):
        block, part = X[start : start + BLOCK], weight[start : start + BLOCK]
        stored, at = (block.data, block.indices) if sparse.issparse(block) else (block, slice(None))
        values, missing = stored if center is None else np.square(stored - center[at]), np.isnan(stored)
        rows = [~missing, np.where(missing, 0.0, values)]
        if sparse.issparse(block):
            rows = [sparse.csr_array((row, at, block.indptr), block.shape) for row in (*rows, np.ones(len(stored)))]
            zeros = part.sum() - part @ rows.pop()
            weights += zeros
            sums += 0.0 if center is None else zeros * np.square(center)
        weights += part @ rows[0]
        sums += part @ rows[1]
    return weights, sums


@model_part
class RidgeMember(WithoutPrivilegedRows, BaseEstimator):
    """Adaptive ridge: with p <= n, columns are scaled by the root of their correlation with the target."""

    _needed = ("coef_", "intercept_")

    def fit_left_out(self, sample: Sample) -> Array:
        """Fit with the penalty of the largest left-out correlation."""
        A, targets, weight = sample.X, sample.targets, sample.weight
        scale = np.ones(A.shape[1])
        if A.shape[1] <= weight.sum():
            scale = np.sqrt(_correlations(A, targets, weight))
            scale /= np.sqrt(np.sqrt(np.mean(scale**4)) + 1e-12)
        fit = fit_ridge(RidgePath(A, weight, scale), targets, sample.groups, "correlation")
        self.coef_, self.intercept_, self.alpha_, self.spread_ = fit.coef, fit.intercept, fit.alpha, fit.spread
        return fit.left_out

    def predict(self, A: Matrix) -> Array:
        """Values of shape (n, k)."""
        return np.asarray(A @ self.coef_ + self.intercept_)


def _correlations(A: Any, targets: Array, weight: Array) -> Array:
    """Root mean square, over the targets, of each column's correlations; 0 for constant columns."""
    n = weight.sum()
    mean = A.transposed_times(weight) / n
    square = _column_sums(A.operand, weight, np.zeros(len(mean)))[1] / n
    variance = square - np.square(mean)
    centered = targets - weight @ targets / n
    covariance = A.transposed_times(weight[:, None] * centered) / n
    scale = np.outer(np.where(variance > SMALLEST_SPREAD * square, variance, 0.0), weight @ np.square(centered) / n)
    squared = np.divide(np.square(covariance), scale, out=np.zeros_like(scale), where=scale > 0)
    return np.asarray(np.sqrt(np.minimum(squared, 1.0).mean(axis=1)))


@dataclass(frozen=True)
class RbfPath:
    """Ridge regressions in the space of the RBF kernel; above 1500 rows on 500 landmarks (Nystroem)."""

    path: RidgePath
    gamma: float
    landmarks: Matrix
    projection: Array | None

    @classmethod
    def of(cls, A: Matrix, weight: Array, gamma: float, random_state: RandomState) -> RbfPath:
        """Decompose the kernel of the rows."""
        if A.shape[0] <= EXACT_ROWS:
            return cls(RidgePath.of_kernel(rbf_kernel(A, gamma=gamma), weight), gamma, A, None)
        space = FeatureSpace.nystroem(Kernel("rbf", gamma=gamma), A, LANDMARKS, random_state, tol=1e-8)
        return cls(RidgePath(space.values, weight), gamma, space.rows, space.projection)

    def dual(self, coef: Array) -> Array:
        """Coefficients of the kernel values."""
        return coef if self.projection is None else self.projection @ coef


@model_part
@dataclass(eq=False, repr=False)
class RbfMember(WithoutPrivilegedRows, BaseEstimator):
    """RBF ridge with gamma = 1 / (2 p)."""

    random_state: RandomState = None

    _needed = ("landmarks_", "coef_", "intercept_", "gamma_")

    def fit_left_out(self, sample: Sample) -> Array:
        """Fit with the penalty of the largest left-out correlation."""
        self.gamma_ = 0.5 / sample.X.shape[1]
        rbf = RbfPath.of(sample.X.values, sample.weight, self.gamma_, self.random_state)
        fit = fit_ridge(rbf.path, sample.targets, sample.groups, "correlation", KERNEL_GRID)
        self.landmarks_, self.coef_, self.intercept_ = rbf.landmarks, rbf.dual(fit.coef), fit.intercept
        self.alpha_, self.spread_ = fit.alpha, fit.spread
        return fit.left_out

    def predict(self, A: Matrix) -> Array:
        """Values of shape (n, k)."""
        return np.asarray(rbf_values(A, self.landmarks_, self.gamma_, self.coef_) + self.intercept_)


def rbf_values(A: Matrix, landmarks: Matrix, gamma: float, coef: Array) -> Array:
    """RBF kernel values with the landmarks times coefficients, block by block."""
    blocks = (A[start : start + BLOCK] for start in range(0, A.shape[0], BLOCK))
    return np.vstack([rbf_kernel(block, landmarks, gamma=gamma) @ coef for block in blocks])


@model_part
@dataclass(eq=False, repr=False)
class ForestMember(WithoutPrivilegedRows, BaseEstimator):
    """Trees with the best split of a third of the columns (at most 100), each on a random part of the distinct rows.

    A tree sees all copies of a row (or all rows of a group) or none of them, so weight 2 equals two copies of the row.
    Rows and columns are drawn by their values, so their order does not matter. Left-out predictions average the trees that
    have not seen the row.
    """

    random_state: RandomState = None
    n_trees: int = 60
    most_rows: int = 10_000  # that a tree sees

    _needed = ("roots_", "depth_", "feature_", "threshold_", "left_", "right_", "value_")

    def fit_left_out(self, sample: Sample) -> Array:
        """Grow the trees; return left-out predictions of the training rows."""
        weight = sample.weight
        columns = column_order(sample.X, sample.targets, weight)
        A = np.ascontiguousarray(_tree_table(sample.X.values)[:, columns])
        gaps = np.diff(np.sort(A, axis=0), axis=0)
        gaps = np.where(gaps > 0, gaps, 1.0).min(axis=0, initial=1.0)  # the smallest of each column
        # In their own unit, since trees stop at an absolute impurity, and rounded to 2^-20 of it: sums are exact, so ties
        # between splits do not depend on the order of the rows.
        center, size = weight @ sample.targets / weight.sum(), unit_of(sample.targets, weight)
        targets = np.round((sample.targets - center) / size * 2.0**20) / 2.0**20
        unit = distinct_rows(A) if sample.groups is None else np.unique(sample.groups, return_inverse=True)[1]
        n_units, share = unit.max() + 1, min(TREE_ROWS, self.most_rows / len(A))
        totals, counts = np.zeros(targets.shape), np.zeros(len(A))
        trees, rng = [], check_random_state(self.random_state)
        weighted = np.any(weight != 1)
        for seed in rng.randint(np.iinfo(np.int32).max, size=self.n_trees):
            inside = _drawn_units(n_units, share, seed)[unit]
            tree = DecisionTreeRegressor(
                max_features=min(-(-A.shape[1] // 3), MAX_COLUMNS),
                min_weight_fraction_leaf=min(0.5, LEAF / weight[inside].sum()),
                random_state=rng,
            )
            # At 100 rows, the checks of weights and parameters take as long as the tree.
            with config_context(skip_parameter_validation=True):
                tree.fit(A[inside], targets[inside], weight[inside] if weighted else None, check_input=False)
            # Above the middle of two values: a third one halfway goes left, whatever its rounding error.
            tree.tree_.threshold[:] += gaps[np.maximum(tree.tree_.feature, 0)] / 4
            totals[~inside] += tree.tree_.predict(A[~inside]).reshape(-1, targets.shape[1])
            counts[~inside] += 1
            trees.append(tree.tree_)
        self._store(trees, columns, center, size)
        # The center if all trees have seen the row.
        left_out = np.asarray(center + size * totals / np.maximum(counts, 1)[:, None])
        self.spread_ = spread(left_out, weight)
        return left_out

    def _store(self, trees: list[Any], columns: Array, center: Array, size: float) -> None:
        """Concatenate the trees into arrays, so that loading a saved model executes no code."""
        sizes = [tree.node_count for tree in trees]
        self.roots_ = np.cumsum([0, *sizes[:-1]])
        self.depth_ = max(tree.max_depth for tree in trees)
        self.feature_ = np.concatenate([tree.feature for tree in trees])
        self.threshold_ = np.concatenate([tree.threshold for tree in trees])
        leaf = self.feature_ < 0
        self.feature_ = columns[np.where(leaf, 0, self.feature_)]
        node, start = np.arange(len(leaf)), np.repeat(self.roots_, sizes)
        # A leaf leads to itself, so all rows take the same number of steps.
        self.left_ = np.where(leaf, node, start + np.concatenate([tree.children_left for tree in trees]))
        self.right_ = np.where(leaf, node, start + np.concatenate([tree.children_right for tree in trees]))
        self.value_ = center + size * np.concatenate([tree.value[:, :, 0] for tree in trees])

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


def column_order(X: Any, targets: Array, weight: Array) -> Array:
    """Columns by their correlations with the targets, equal ones by those with targets times sums of rows, up to rounding."""
    sums, total = X.times(np.ones((X.shape[1], 1))), weight.sum()
    products = (sums - weight @ sums / total) * (targets - weight @ targets / total)
    return np.lexsort([np.round(_correlations(X, values, weight), 6) for values in (products, targets)])


@model_part
class SparseMember(WithoutPrivilegedRows, BaseEstimator):
    """Elastic net whose penalty has the least squared error on five folds.

    Columns and folds are ordered by their values, so their order in the table does not matter.
    """

    _needed = ("coef_", "intercept_")

    def fit_left_out(self, sample: Sample) -> Array:
        """Fit one model per target."""
        values, weight, columns = sample.X.values, sample.weight, column_order(sample.X, sample.targets, sample.weight)
        A = values.toarray() if sparse.issparse(values) else values
        unit = distinct_rows(A[:, columns]) if sample.groups is None else sample.groups
        everything = np.arange(len(A))
        folds = make_folds(everything, np.zeros_like(everything), unit, np.random.RandomState(0), 5)
        self.coef_ = np.zeros((A.shape[1], sample.targets.shape[1]))
        left_out = np.empty(sample.targets.shape)
        for k, target in enumerate(sample.targets.T):
            center = weight @ target / weight.sum()
            path, penalties = _sparse_path(A[:, columns], target, weight, None)
            outputs = np.full((len(A), len(penalties)), center)
            for fold in folds:
                rest = np.setdiff1d(everything, fold)
                coef, _ = _sparse_path(A[np.ix_(rest, columns)], target[rest], weight[rest], penalties)
                mean = weight[rest] @ A[rest] / weight[rest].sum()
                # The mean of all rows: without the fold's it is anticorrelated with the target.
                outputs[fold] = center + (A[fold] - mean)[:, columns] @ coef
            best = int(np.argmin(weight @ np.square(outputs - target[:, None])))
            self.coef_[columns, k], left_out[:, k] = path[:, best], outputs[:, best]
        self.intercept_ = weight @ (sample.targets - A @ self.coef_) / weight.sum()
        self.spread_ = spread(A @ self.coef_, weight)
        return left_out

    def predict(self, A: Matrix) -> Array:
        """Values of shape (n, k)."""
        return np.asarray(A @ self.coef_ + self.intercept_)


def _sparse_path(A: Array, target: Array, weight: Array, penalties: Array | None) -> tuple[Array, Array]:
    """Coefficients of elastic nets, of shape (p, n_penalties), and the penalties."""
    n, total = len(A), weight.sum()
    root = np.sqrt(weight * n / total)
    centered = np.asfortranarray((A - weight @ A / total) * root[:, None])
    unit = unit_of(target[:, None], weight)  # the quadratic part of the penalty has another unit than the rest
    values = (target - weight @ target / total) / unit * root
    if penalties is None:
        largest = np.abs(centered.T @ values).max(initial=0.0) / n / L1_RATIO
        penalties = max(largest, TINY) * SPARSE_GRID
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a rough solution is a model like any other
        coef = enet_path(centered, values, l1_ratio=L1_RATIO, alphas=penalties, tol=1e-3, max_iter=500)[1]
    return unit * coef, penalties


def _tree_table(A: Any) -> Array:
    return np.ascontiguousarray(A.toarray() if sparse.issparse(A) else A, dtype=np.float32)


def _drawn_units(n_units: int, share: float, seed: int) -> Array:
    """Which units a tree sees: at least one, and not all of them if there are two."""
    number = np.random.default_rng(seed).random(n_units)
    ordered = np.sort(number)
    return np.asarray(number <= np.clip(share, ordered[0], ordered[max(0, n_units - 2)]))


def distinct_rows(A: Any) -> Array:
    """Number of each row among the distinct rows, in the order of a projection, which rounding errors hardly change."""
    A = _tree_table(A) + 0.0  # -0.0 becomes 0.0
    rows = A.view(np.dtype((np.void, A.dtype.itemsize * A.shape[1]))).ravel()
    _, first, number = np.unique(rows, return_index=True, return_inverse=True)
    projected = (A[first] * np.random.default_rng(0).normal(size=A.shape[1])).sum(axis=1)
    return np.asarray(np.argsort(np.argsort(projected, kind="stable"))[number])


MEMBERS: dict[str, Any] = {
    "ridge": lambda random_state: RidgeMember(),
    "sparse": lambda random_state: SparseMember(),
    "rbf": RbfMember,
    "forest": ForestMember,
}
# Below this spread relative to the others, an output is shrunk on purpose and not scaled up.
KEEPS_SCALE = ("sparse",)


def member_names(estimator: Any) -> list[str] | None:
    """Names of the members that the parameter `estimator` stands for; None for an estimator of the user's."""
    if estimator is None:
        return list(MEMBERS)
    if isinstance(estimator, str):
        return [estimator]
    return list(estimator) if isinstance(estimator, list | tuple) else None


@model_part
@dataclass(eq=False, repr=False)
class Pool(BaseEstimator):
    """Weighted mean of several members' outputs, each scaled to unit spread; without a scaler, of an estimator of the user's."""

    members: dict[str, Any]
    scaler: Standardizer | None = None

    def fit_left_out(self, sample: Sample) -> Array:
        """Fit every member; return left-out outputs of the training rows, of shape (n, n_members, k) and unit spread."""
        left_out = [member.fit_left_out(sample) for member in self.members.values()]
        self.center_ = sample.weight @ sample.targets / sample.weight.sum()
        rounding = SMALLEST_SPREAD * float(np.abs(sample.targets).max())
        units = np.array([max(member.spread_, rounding) for member in self.members.values()])
        others = units[[name not in KEEPS_SCALE for name in self.members]]
        units = np.maximum(
            units, [others.mean() if len(others) and name in KEEPS_SCALE else 0.0 for name in self.members]
        )
        self.units_ = np.where(units > 0, units, 1.0)
        scaled = self._scaled(left_out)
        self.set_weights(np.full(len(units), 1.0 / len(units)), scaled, sample.weight)
        return scaled

    def set_weights(self, weights: Array, left_out: Array, weight: Array) -> None:
        """Weights of the members; the output gets unit spread on the training rows, of which `left_out` are the outputs."""
        self.weights_, self.scale_ = weights, 1.0
        if len(weights) > 1:
            self.scale_ = spread(self.mean(left_out), weight) or 1.0

    def _scaled(self, outputs: list[Array]) -> Array:
        return np.stack([(output - self.center_) / unit for output, unit in zip(outputs, self.units_)], axis=1)

    def mean(self, scaled: Array) -> Array:
        """Output of shape (n, k) from the members' scaled outputs."""
        return np.asarray(np.tensordot(scaled, self.weights_, axes=(1, 0))) / self.scale_

    def scaled_outputs(self, A: Any) -> Array:
        """Outputs of every member for standardized features."""
        return self._scaled([member.predict(A) for member in self.members.values()])

    def outputs(self, A: Any) -> Array:
        """Outputs of shape (n, k) for standardized features."""
        return self.mean(self.scaled_outputs(A))

    def predict(self, X: Any) -> Array:
        """Outputs of shape (n, k) for raw features; of unit spread and not calibrated."""
        return self.outputs(X if self.scaler is None else self.scaler.transform(X))


def make_pool(model: Any, scaler: Standardizer, *, of_surrogate: bool = False) -> Pool:
    """An unfitted pool, by the parameters of a surrogate estimator; by default the surrogate's has no sparse member."""
    names = member_names(model.estimator)
    if names is None:
        return Pool({type(model.estimator).__name__: make_member(model.estimator, model)})
    if of_surrogate and model.estimator is None:
        names = [name for name in names if name not in KEEPS_SCALE]
    return Pool({name: MEMBERS[name](model.random_state) for name in names}, scaler)


def make_member(estimator: Any, model: Any) -> EstimatorMember:
    """A member or teacher of the user's kind."""
    return EstimatorMember(estimator, model.cv, model.n_jobs, model.random_state)


@chunkwise("concatenate")
def scaled_outputs(A: Any, pool: Pool) -> Array:
    """Outputs of every member for standardized rows, in memory or in chunks."""
    return pool.scaled_outputs(A)


# Smallest slope of the output, relative to the unit of the target, so that the output always orders the rows.
SMALLEST_SLOPE = 1e-3
# Exponent that tempers the members' evidence, and lower bound on the prior share of each output.
TEMPER, SMALLEST_SHARE = 0.1, 0.02
# Standard errors that the surrogate's gain must exceed if all rows are labeled. For classes, half a standard error cost a quarter
# of the gains on eleven tables and prevented no harm; for numbers, it left one harm on eighteen tables.
SURE_OF_CLASSES, SURE_OF_NUMBERS = 0.0, 1.0
# Weight of the labels in the calibration of the output; the rest is the surrogate's. On follow-up and simulated tables, slopes of
# new labels on the logits are then 0.9 to 1.1, against 0.6 to 0.9 for the labels alone and 1.0 to 1.3 for the surrogate alone.
LABEL_WEIGHT = 0.25


@dataclass(frozen=True)
class Student:
    """A fitted pool, its training rows and targets, its members' outputs of all rows (left-out ones of `rows`) and its weight."""

    pool: Pool
    features: Any  # Rows
    rows: Array
    targets: Array
    scaled: Array  # (n, n_members, k)
    weight: float = 1.0

    @property
    def outputs(self) -> Array:
        """Outputs of all rows, of shape (n, k)."""
        return self.pool.mean(self.scaled)


def fit_student(pool: Pool, data: SurrogateData, features: Any, rows: Array, targets: Array, **options: Any) -> Student:
    """Fit a pool to some of the rows."""
    left_out = pool.fit_left_out(data.sample(features, rows, targets, **options))
    scaled = np.empty((len(data.rows), *left_out.shape[1:]))
    scaled[rows] = left_out
    others = np.setdiff1d(np.arange(len(scaled)), rows)
    if len(others):
        scaled[others] = scaled_outputs(features.take(others).operand, pool)
    return Student(pool, features, rows, targets, scaled)


@model_part
@dataclass(eq=False, repr=False)
class Model(BaseEstimator):
    """All that prediction uses and a saved file holds.

    `parts` are pairs of weight and pool: the baseline and, where there is a surrogate, its student.
    """

    scaler: Any
    parts: list[Any]
    calibration: Calibration

    def scores(self, X: MatrixLike) -> Array:
        """Calibrated output of shape (n, k)."""
        A = X if self.scaler is None else self.scaler.transform(X)
        return self.calibration.logits(sum(weight * pool.outputs(A) for weight, pool in self.parts))


def combine(
    students: list[Student], data: SurrogateData, target: Target, teachers: Any, honest: list[Array] | None
) -> tuple[list[Student], Model]:
    """The students with their weights in the output, and the model with the calibration of their combined left-out outputs.

    The weights are l / m of the baseline against 1 with l labeled and m scored rows, plus what the teachers take from the plain
    student; honest outputs move them, and those of the members. Calibrated to the labels alone, the output is overconfident (they
    took part in the teachers); to the surrogate alone, slightly underconfident (the teachers shrink). The blend is right.
    """
    weight, plain_weight = data.rows.weight, 0.0 if teachers is None else teachers.plain_weight
    share = 0.0
    if len(students) > 1:
        ratio = weight[data.labeled].sum() / weight[data.scored].sum()
        share = (1.0 - ratio / (1.0 + ratio)) * (1.0 - plain_weight)
    if honest is not None:
        found = ~np.isnan(honest[0][:, 0, 0])
        rows, honest = data.labeled[found], [part[found] for part in honest]
        targets = target.columns(data.rows.target[rows])
        for student, scaled in zip(students, honest):
            weights = member_weights(scaled, targets, weight[rows])
            student.pool.set_weights(weights, student.scaled[student.rows], weight[student.rows])
        if share:
            pair = [student.pool.mean(scaled) for student, scaled in zip(students, honest)]
            sure = SURE_OF_NUMBERS if data.rows.classes is None else SURE_OF_CLASSES
            needs_gain = not (len(data.unlabeled) or teachers.clear)
            share = honest_share(pair, targets, weight[rows], share, sure if needs_gain else None)
    shares = (1.0 - share, share) if share else (1.0,)
    students = [replace(student, weight=part) for student, part in zip(students, shares)]
    outputs = np.sum([part.weight * part.outputs for part in students if part.weight], axis=0)
    labeled = data.labeled[~np.isnan(outputs[data.labeled, 0])]
    if not len(labeled):  # One row or group: no left-out outputs exist, so in-sample outputs are used.
        labeled = data.labeled
        outputs[labeled] = students[0].pool.outputs(students[0].features.take(labeled).operand)
    y, student = data.rows.target[labeled], students[-1]
    calibration = target.calibrate(outputs[labeled], y, weight[labeled])
    if students[0].weight < 1.0:
        found = ~np.isnan(outputs[student.rows, 0])
        rows = student.rows[found]
        soft = target.calibrate(outputs[rows], student.targets[found], weight[rows])
        calibration = blend(calibration, soft, 1.0 - (1.0 - LABEL_WEIGHT) * (1.0 - plain_weight))
    slope = max(calibration.slope, SMALLEST_SLOPE * target.unit(y, weight[labeled]))
    parts = [(part.weight, part.pool) for part in students]
    return students, Model(student.pool.scaler, parts, replace(calibration, slope=slope))


def member_weights(scaled: Array, targets: Array, weight: Array) -> Array:
    """Weights of the members by the errors of their honest outputs, each after a line: close to equal."""
    errors = np.array([weight @ line_errors(outputs, targets, weight) for outputs in scaled.swapaxes(0, 1)])
    return np.asarray(softmax(-TEMPER * weight.sum() / 2 * np.log(np.maximum(errors, TINY))))


def line_errors(values: Array, targets: Array, weight: Array) -> Array:
    """Squared error of every row after a line with one slope of at least 0."""
    total = weight.sum()
    unit, residual = values - weight @ values / total, targets - weight @ targets / total
    slope = (weight @ (unit * residual)).sum() / max((weight @ np.square(unit)).sum(), TINY)
    return np.asarray(np.square(residual - max(slope, 0.0) * unit).sum(axis=1))


def honest_share(pair: list[Array], targets: Array, weight: Array, prior: float, sure: float | None) -> float:
    r"""Share of the second output in a mixture of two, by honest outputs and a prior.

    With columns u of unit spread, :math:`v^0 = b (1 - s, s)` for the prior share s and the slope b of the prior's mixture, whose
    residual variance is :math:`\sigma^2`:

    .. math::

        \min_{v \ge 0} \frac{1}{n} \sum_i (t_i - \bar t - v^\top u_i)^2 + \sum_k \frac{\sigma^2}{n (v^0_k)^2} (v_k - v^0_k)^2

    With `sure`, 0 unless the mixture's squared error is smaller by more than this many standard errors of the paired difference.
    """
    total = weight.sum()
    root = np.sqrt(weight / total)[:, None]
    centered = [root * (part - weight @ part / total) for part in pair]
    spreads = [np.sqrt(np.square(part).sum() / part.shape[1]) for part in centered]
    if not all(size > 0 for size in spreads):
        return prior if sure is None else 0.0
    columns = np.column_stack([(part / size).ravel() for part, size in zip(centered, spreads)])
    residual = (root * (targets - weight @ targets / total)).ravel()
    first = np.clip([1.0 - prior, prior], SMALLEST_SHARE, 1.0 - SMALLEST_SHARE)
    mixture = columns @ first
    slope = max(mixture @ residual / (mixture @ mixture), 1e-3 * np.sqrt(residual @ residual))
    start = slope * first
    noise = np.square(residual - slope * mixture).sum()
    pull = np.sqrt(noise / total) / start
    found = nnls(np.vstack([columns, np.diag(pull)]), np.append(residual, pull * start))[0]
    share = float(found[1] / max(found.sum(), TINY))
    if sure is None:
        return share
    gain = line_errors(pair[0], targets, weight) - line_errors(
        (1.0 - share) * pair[0] + share * pair[1], targets, weight
    )
    mean = weight @ gain / total
    return share if mean > sure * np.sqrt(weight @ np.square(gain - mean)) / total else 0.0
