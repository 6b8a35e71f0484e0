"""Pools of members: each is fitted to the same targets, and the output is their mean after scaling each to unit spread.

A member has ``fit_left_out(sample)``, which fits it and returns left-out predictions of the training rows, ``spread_``,
by which its outputs are divided, and ``predict``. A new member is a class with these three and an entry in ``MEMBERS``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import check_random_state

from lupi.inputs.training_set import ArrayRows, Rows, TrainingSet, chunkwise
from lupi.inputs.types import Array, Matrix, MatrixLike, RandomState
from lupi.kernels import Kernel
from lupi.kernels.nystroem import FeatureSpace
from lupi.privacy import WithoutPrivilegedRows, model_part
from lupi.surrogate.estimators import EstimatorMember
from lupi.surrogate.ridge import BLOCK, GRID, SMALLEST_SPREAD, TINY, RidgePath, fit_ridge, spread, unit_of
from lupi.surrogate.targets import Calibration, Target, blend

# Standardized values are clipped at plus and minus this.
CLIP = 5.0
# The RBF ridge is exact up to this many rows; above, it uses this many landmarks.
EXACT_ROWS, LANDMARKS = 1500, 500
# Fraction of the distinct rows that a tree sees, and their largest number.
TREE_ROWS, MAX_ROWS = 0.632, 10_000
# Smallest weight of a leaf, and largest number of columns that a split chooses from.
LEAF, MAX_COLUMNS = 5.0, 100
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

    n_trees: int = 60
    random_state: RandomState = None

    _needed = ("roots_", "depth_", "feature_", "threshold_", "left_", "right_", "value_")

    def fit_left_out(self, sample: Sample) -> Array:
        """Grow the trees; return left-out predictions of the training rows."""
        weight = sample.weight
        columns = _column_order(sample.X, sample.targets, weight)
        A = np.ascontiguousarray(_tree_table(sample.X.values)[:, columns])
        gaps = np.diff(np.sort(A, axis=0), axis=0)
        gaps = np.where(gaps > 0, gaps, 1.0).min(axis=0, initial=1.0)  # the smallest of each column
        # In their own unit, since trees stop at an absolute impurity, and rounded to 2^-20 of it: sums are exact, so ties
        # between splits do not depend on the order of the rows.
        center, size = weight @ sample.targets / weight.sum(), unit_of(sample.targets, weight)
        targets = np.round((sample.targets - center) / size * 2.0**20) / 2.0**20
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


def _column_order(X: Any, targets: Array, weight: Array) -> Array:
    """Columns by their correlations with the targets, equal ones by those with targets times sums of rows, up to rounding."""
    sums, total = X.times(np.ones((X.shape[1], 1))), weight.sum()
    products = (sums - weight @ sums / total) * (targets - weight @ targets / total)
    return np.lexsort([np.round(_correlations(X, values, weight), 6) for values in (products, targets)])


def _tree_table(A: Any) -> Array:
    return np.ascontiguousarray(A.toarray() if sparse.issparse(A) else A, dtype=np.float32)


def _drawn_units(n_units: int, share: float, seed: int) -> Array:
    """Which units a tree sees: at least one, and not all of them if there are two."""
    number = np.random.default_rng(seed).random(n_units)
    ordered = np.sort(number)
    return np.asarray(number <= np.clip(share, ordered[0], ordered[max(0, n_units - 2)]))


def distinct_rows(A: Array) -> Array:
    """Number of each row among the distinct rows, in the order of a projection, which rounding errors hardly change."""
    A = np.ascontiguousarray(A) + 0.0  # -0.0 becomes 0.0
    rows = A.view(np.dtype((np.void, A.dtype.itemsize * A.shape[1]))).ravel()
    _, first, number = np.unique(rows, return_index=True, return_inverse=True)
    projected = (A[first] * np.random.default_rng(0).normal(size=A.shape[1])).sum(axis=1)
    return np.asarray(np.argsort(np.argsort(projected, kind="stable"))[number])


MEMBERS: dict[str, Any] = {
    "ridge": lambda random_state: RidgeMember(),
    "rbf": RbfMember,
    "forest": lambda random_state: ForestMember(random_state=random_state),
}


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
    """Mean of several members' outputs, each scaled to unit spread; without a scaler, of an estimator of the user's."""

    members: dict[str, Any]
    scaler: Standardizer | None = None

    def fit_left_out(self, sample: Sample) -> Array:
        """Fit every member; return left-out outputs of the training rows."""
        outputs = [member.fit_left_out(sample) for member in self.members.values()]
        self.center_ = sample.weight @ sample.targets / sample.weight.sum()
        rounding = SMALLEST_SPREAD * float(np.abs(sample.targets).max())
        self.units_ = np.array([max(member.spread_, rounding) or 1.0 for member in self.members.values()])
        self.scale_ = 1.0
        left_out = self._mean(outputs)
        if len(self.members) > 1:
            self.scale_ = spread(left_out, sample.weight) or 1.0
        return left_out / self.scale_

    def _mean(self, outputs: list[Array]) -> Array:
        scaled = [(output - self.center_) / unit for output, unit in zip(outputs, self.units_)]
        return np.asarray(np.mean(scaled, axis=0)) / self.scale_

    def outputs(self, A: Any) -> Array:
        """Outputs of shape (n, k) for standardized features."""
        return self._mean([member.predict(A) for member in self.members.values()])

    def predict(self, X: Any) -> Array:
        """Outputs of shape (n, k) for raw features; of unit spread and not calibrated."""
        return self.outputs(X if self.scaler is None else self.scaler.transform(X))


def make_pool(model: Any, scaler: Standardizer) -> Pool:
    """An unfitted pool, by the parameters of a surrogate estimator."""
    names = member_names(model.estimator)
    if names is None:
        return Pool({type(model.estimator).__name__: make_member(model.estimator, model)})
    return Pool({name: MEMBERS[name](model.random_state) for name in names}, scaler)


def make_member(estimator: Any, model: Any) -> EstimatorMember:
    """A member or teacher of the user's kind."""
    return EstimatorMember(estimator, model.cv, model.n_jobs, model.random_state)


@chunkwise("concatenate")
def pool_outputs(A: Any, pool: Pool) -> Array:
    """Outputs of shape (n, k) for standardized rows, in memory or in chunks."""
    return pool.outputs(A)


# Smallest slope of the output, relative to the unit of the target, so that the output always orders the rows.
SMALLEST_SLOPE = 1e-3
# Weight of the labels in the calibration of the output; the rest is the surrogate's. On follow-up and simulated tables, slopes of
# new labels on the logits are then 0.9 to 1.1, against 0.6 to 0.9 for the labels alone and 1.0 to 1.3 for the surrogate alone.
LABEL_WEIGHT = 0.25


@dataclass(frozen=True)
class Student:
    """A fitted pool, its training rows and targets, its outputs of all rows (left-out ones of `rows`) and its weight."""

    pool: Pool
    rows: Array
    targets: Array
    outputs: Array
    weight: float = 1.0


def fit_student(pool: Pool, data: SurrogateData, features: Any, rows: Array, targets: Array, **options: Any) -> Student:
    """Fit a pool to some of the rows."""
    outputs = np.empty((len(data.rows), targets.shape[1]))
    outputs[rows] = pool.fit_left_out(data.sample(features, rows, targets, **options))
    others = np.setdiff1d(np.arange(len(outputs)), rows)
    if len(others):
        outputs[others] = pool_outputs(features.take(others).operand, pool)
    return Student(pool, rows, targets, outputs)


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
    students: list[Student], data: SurrogateData, features: Any, target: Target, plain_weight: float
) -> tuple[list[Student], Model]:
    """The students with their weights in the output, and the model with the calibration of their combined left-out outputs.

    Weights are l / m of the baseline against 1 with l labeled and m scored rows, plus what the teachers take from the plain.
    Calibrated to the labels alone, the output is overconfident (the labels took part in the teachers); to the surrogate alone,
    slightly underconfident (the teachers shrink). The blend is right.
    """
    weight, student = data.rows.weight, students[-1]
    if len(students) > 1:
        ratio = weight[data.labeled].sum() / weight[data.scored].sum()
        share = (1.0 - ratio / (1.0 + ratio)) * (1.0 - plain_weight)
        students = [replace(students[0], weight=1.0 - share), replace(student, weight=share)]
    outputs = np.sum([part.weight * part.outputs for part in students if part.weight], axis=0)
    labeled = data.labeled[~np.isnan(outputs[data.labeled, 0])]
    if not len(labeled):  # One row or group: no left-out outputs exist, so in-sample outputs are used.
        labeled = data.labeled
        outputs[labeled] = pool_outputs(features.take(labeled).operand, students[0].pool)
    y = data.rows.target[labeled]
    calibration = target.calibrate(outputs[labeled], y, weight[labeled])
    if students[0].weight < 1.0:
        found = ~np.isnan(outputs[student.rows, 0])
        rows = student.rows[found]
        soft = target.calibrate(outputs[rows], student.targets[found], weight[rows])
        calibration = blend(calibration, soft, 1.0 - (1.0 - LABEL_WEIGHT) * (1.0 - plain_weight))
    slope = max(calibration.slope, SMALLEST_SLOPE * target.unit(y, weight[labeled]))
    parts = [(part.weight, part.pool) for part in students]
    return students, Model(student.pool.scaler, parts, replace(calibration, slope=slope))
