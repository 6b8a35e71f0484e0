"""Students: pools that learn the labels or the surrogate, their weights in the output, and its calibration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from lupi.inputs.types import Array, MatrixLike
from lupi.privacy import model_part
from lupi.surrogate.members import Pool, SurrogateData, pool_outputs
from lupi.surrogate.targets import Calibration, Target, blend

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


def combine(plain: Student, student: Student, data: SurrogateData, plain_weight: float) -> list[Student]:
    """Weights in the output: l / m against 1 with l labeled and m scored rows, plus what the teachers take from the plain."""
    weight = data.rows.weight
    ratio = weight[data.labeled].sum() / weight[data.scored].sum()
    of_student = (1.0 - ratio / (1.0 + ratio)) * (1.0 - plain_weight)
    return [replace(plain, weight=1.0 - of_student), replace(student, weight=of_student)]


def calibrate_output(
    students: list[Student], data: SurrogateData, features: Any, target: Target, plain_weight: float
) -> Calibration:
    """Calibration of the combined left-out outputs, to the labels and to the surrogate.

    Calibrated to the labels alone, the output is overconfident (the labels took part in the teachers); to the surrogate alone,
    slightly underconfident (the teachers shrink). The blend is right.
    """
    outputs = np.sum([student.weight * student.outputs for student in students if student.weight], axis=0)
    weight, student = data.rows.weight, students[-1]
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
    return replace(calibration, slope=max(calibration.slope, SMALLEST_SLOPE * target.unit(y, weight[labeled])))
