r"""Classes or numbers as targets, and the calibration from scores to logits or numbers.

Two classes: :math:`P(y = 1) = \sigma(a + b u)`; several: :math:`P(y = k) \propto \exp(a_k + b u_k)`, where u is the score
scaled to mean 0 and spread 1 on the labeled rows. A unit ridge on b keeps separable scores finite, and :math:`b \ge 0`:
scores that are anticorrelated with the labels are not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.special import expit

from lupi.inputs.types import Array
from lupi.privacy import model_part
from lupi.surrogate.ridge import TINY, spread, unit_of

# The surrogate's logits are clipped here, and so are the logits of probabilities 0 and 1.
LOGIT_LIMIT = 6.0
MAX_NEWTON_STEPS = 100
TOLERANCE = 1e-12
# Unit ridge on the intercepts of several classes: a handful of labels per class says little about its frequency.
INTERCEPT_RIDGE = 1.0


@model_part
@dataclass(frozen=True)
class Calibration:
    """A fitted calibration: ``logits = intercept + slope * (scores - center) / scale``."""

    center: Array  # mean scores of the labeled rows
    scale: float  # their spread
    intercept: Array
    slope: float  # 0 or larger, for scores of unit spread

    def logits(self, scores: Array) -> Array:
        """Calibrated log-odds or numbers (one column), or log-probabilities up to a constant (several)."""
        return np.asarray(self.intercept + self.slope * (scores - self.center) / self.scale)


@dataclass(frozen=True)
class ClassTarget:
    """Class codes 0 .. K-1: one column of signs for two classes, otherwise one column per class."""

    n_classes: int

    def columns(self, y: Array) -> Array:
        """Regression targets of shape (n, k): +1 for the class, -1 for the others."""
        signs = 2.0 * one_hot(y, self.n_classes) - 1.0
        return signs[:, 1:] if self.n_classes == 2 else signs

    def calibrate(self, scores: Array, y: Array, weight: Array) -> Calibration:
        """Calibrate scores to class codes or to the surrogate."""
        return calibrate(scores, one_hot(y, self.n_classes) if y.ndim == 1 else class_shares(y), weight)

    def surrogate(self, calibration: Calibration, scores: Array, y: Array) -> Array:
        """Clipped logits of two classes; probabilities of several, where a known label counts half.

        With many classes and a handful of labels each, left-out scores err more often than labels do.
        """
        logits = calibration.logits(scores)
        if logits.shape[1] == 1:
            return np.asarray(np.clip(logits, -LOGIT_LIMIT, LOGIT_LIMIT))
        shares, labeled = np.exp(log_probabilities(logits)), y >= 0
        shares[labeled] = (shares[labeled] + one_hot(y[labeled], self.n_classes)) / 2
        return np.asarray(shares)

    def unit(self, y: Array, weight: Array) -> float:
        """Unit of the calibrated output."""
        return 1.0

    def quality(self, scores: Array, y: Array, weight: Array) -> dict[str, float]:
        """Measures of left-out scores."""
        if self.n_classes == 2:
            return {"AUC": area_under_curve(scores[:, 0], y == 1, weight)}
        present = [k for k in range(self.n_classes) if 0 < (y == k).sum() < len(y)]
        areas = [area_under_curve(scores[:, k], y == k, weight) for k in present]
        accuracy = weight @ (scores.argmax(axis=1) == y) / weight.sum()
        return {"accuracy": float(accuracy), "mean AUC": float(np.mean(areas))}


@dataclass(frozen=True)
class NumberTarget:
    """Numbers: one column, calibrated by a line."""

    def columns(self, y: Array) -> Array:
        """Regression targets of shape (n, 1)."""
        return y[:, None]

    def calibrate(self, scores: Array, y: Array, weight: Array) -> Calibration:
        """Calibrate scores to numbers or to the surrogate."""
        return calibrate_values(scores, y.ravel(), weight)

    def surrogate(self, calibration: Calibration, scores: Array, y: Array) -> Array:
        """The teachers' scores themselves."""
        return scores

    def unit(self, y: Array, weight: Array) -> float:
        """Unit of the calibrated output."""
        return spread(y[:, None], weight)

    def quality(self, scores: Array, y: Array, weight: Array) -> dict[str, float]:
        """Measures of left-out scores."""
        residual, centered = y - scores[:, 0], y - weight @ y / weight.sum()
        return {"R2": float(1.0 - weight @ np.square(residual) / max(weight @ np.square(centered), TINY))}


Target: TypeAlias = ClassTarget | NumberTarget


def one_hot(labels: Array, n_classes: int) -> Array:
    """Class probabilities of shape (n, n_classes) for known labels."""
    shares = np.zeros((len(labels), n_classes))
    shares[np.arange(len(labels)), labels] = 1.0
    return shares


def class_shares(surrogate: Array) -> Array:
    """Probabilities of shape (n, n_classes) from a surrogate: logits of two classes or probabilities of several."""
    return surrogate if surrogate.shape[1] > 1 else np.exp(log_probabilities(surrogate))


def log_probabilities(logits: Array) -> Array:
    """Logarithms of the class probabilities, of shape (n, n_classes); one column has the log-odds of two classes."""
    if logits.shape[1] == 1:
        logits = np.hstack([np.zeros_like(logits), logits])
    # scipy.special.log_softmax takes most of the time of a small fit.
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


def calibrate(scores: Array, shares: Array, weight: Array) -> Calibration:
    """Logistic or softmax regression of class probabilities (0 and 1 for known labels) on scores of shape (n, k)."""
    center, scale = weight @ scores / weight.sum(), unit_of(scores, weight)
    unit = (scores - center) / scale
    objective = (_Logistic if scores.shape[1] == 1 else _Softmax)(unit, shares, weight)
    parameters = _minimize(objective)
    if parameters[-1] <= 1e-6:
        parameters = np.append(objective.without_score(), 0.0)
    return Calibration(center, scale, intercept=parameters[:-1], slope=float(parameters[-1]))


def calibrate_values(values: Array, targets: Array, weight: Array) -> Calibration:
    """Least squares of a numeric target on one score with a slope of at least 0."""
    center, scale = weight @ values / weight.sum(), unit_of(values, weight)
    unit = (values[:, 0] - center[0]) / scale
    mean = weight @ targets / weight.sum()
    slope = weight @ (unit * (targets - mean)) / max(weight @ np.square(unit), TINY)
    return Calibration(center, scale, intercept=np.array([mean]), slope=float(max(slope, 0.0)))


def blend(one: Calibration, other: Calibration, share: float) -> Calibration:
    """The calibration whose logits are `share` times those of the first plus `1 - share` times those of the second."""
    parts = ((one, share), (other, 1.0 - share))
    slope = sum(w * c.slope / c.scale for c, w in parts) * one.scale
    shift = sum(w * (c.intercept - c.slope * c.center / c.scale) for c, w in parts)
    return Calibration(one.center, one.scale, shift + slope * one.center / one.scale, float(slope))


def log_loss(logits: Array, labels: Array, weight: Array) -> float:
    """Weighted mean of -log P(label)."""
    losses = -log_probabilities(logits)[np.arange(len(labels)), labels]
    return float(weight @ losses / weight.sum())


def area_under_curve(score: Array, positive: Array, weight: Array) -> float:
    """Weighted fraction of pairs (positive, other) in the right order; ties count half."""
    values, place = np.unique(score, return_inverse=True)
    ups = np.bincount(place, weights=weight * positive, minlength=len(values))
    downs = np.bincount(place, weights=weight * ~positive, minlength=len(values))
    return float(ups @ (np.cumsum(downs) - downs / 2) / (ups.sum() * downs.sum()))


# As a softmax of two classes it would make a small ridge fit 30% slower (8.5 against 6.6 ms).
class _Logistic:
    def __init__(self, unit: Array, shares: Array, weight: Array) -> None:
        self.unit, self.target, self.weight = unit[:, 0], shares[:, 1], weight

    def without_score(self) -> Array:
        share = self.weight @ self.target / self.weight.sum()
        return np.array([np.log((share + 1e-3) / (1.0 - share + 1e-3))])

    def __call__(self, parameters: Array) -> tuple[float, Array, Array]:
        a, b = parameters
        logit = a + b * self.unit
        value = self.weight @ (np.logaddexp(0.0, logit) - self.target * logit) + b * b / 2
        p = expit(logit)
        error, curvature = self.weight * (p - self.target), self.weight * np.maximum(p * (1.0 - p), 1e-12)
        gradient = np.array([error.sum(), error @ self.unit + b])
        cross = curvature @ self.unit
        hessian = np.array([[curvature.sum(), cross], [cross, curvature @ np.square(self.unit) + 1.0]])
        return value, gradient, hessian


class _Softmax:
    def __init__(self, unit: Array, shares: Array, weight: Array) -> None:
        self.unit, self.shares, self.weight = unit, shares, weight

    def without_score(self) -> Array:
        share = self.weight @ self.shares / self.weight.sum()
        return np.asarray(np.log(share + 1e-3) - np.log(share + 1e-3).mean())

    def __call__(self, parameters: Array) -> tuple[float, Array, Array]:
        a, b = parameters[:-1], parameters[-1]
        log_p = log_probabilities(a + b * self.unit)
        value = -self.weight @ (self.shares * log_p).sum(axis=1) + (b * b + INTERCEPT_RIDGE * a @ a) / 2
        p = np.exp(log_p)
        error = self.weight[:, None] * (p - self.shares)
        gradient = np.append(error.sum(axis=0) + INTERCEPT_RIDGE * a, (error * self.unit).sum() + b)
        weighted = self.weight[:, None] * p
        mean_score = (p * self.unit).sum(axis=1)
        hessian = np.empty((len(a) + 1, len(a) + 1))
        hessian[:-1, :-1] = np.diag(weighted.sum(axis=0) + INTERCEPT_RIDGE) - weighted.T @ p
        hessian[:-1, -1] = hessian[-1, :-1] = (weighted * (self.unit - mean_score[:, None])).sum(axis=0)
        hessian[-1, -1] = self.weight @ ((p * np.square(self.unit)).sum(axis=1) - np.square(mean_score)) + 1.0
        return value, gradient, hessian


def _minimize(objective: _Logistic | _Softmax) -> Array:
    """Newton's method with halved steps; the objectives are smooth and strictly convex."""
    parameters = np.append(objective.without_score(), 0.0)
    value, gradient, hessian = objective(parameters)
    for _ in range(MAX_NEWTON_STEPS):
        step = np.linalg.solve(hessian, gradient)
        decrease = gradient @ step
        if decrease <= TOLERANCE**2 * (1.0 + abs(value)):
            break
        length = 1.0
        while length > 1e-10:
            trial = objective(parameters - length * step)
            if trial[0] <= value - 1e-4 * length * decrease + 1e-14 * abs(value):
                break
            length /= 2
        parameters = parameters - length * step
        value, gradient, hessian = trial
    return parameters
