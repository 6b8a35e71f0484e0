r"""From scores to probabilities, with a slope that is never negative.

Two classes: :math:`P(y = 1) = \sigma(a + b u)`; several: :math:`P(y = k) \propto \exp(a_k + b u_k)`, where u is the
score scaled to mean 0 and spread 1 on the labeled rows. A unit ridge on b keeps separable scores finite, and
:math:`b \ge 0`: scores that go against the labels say nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_softmax

from lupi.model_parts import model_part
from lupi.surrogate.ridge import spread

MAX_NEWTON_STEPS = 100
TOLERANCE = 1e-12
# Unit ridge on the intercepts of several classes too: a handful of labels a class says little about its frequency.
INTERCEPT_RIDGE = 1.0


@model_part
@dataclass(frozen=True)
class Calibration:
    """A fitted calibration: ``logits = intercept + slope * (scores - center) / scale``.

    Attributes
    ----------
    center : ndarray of shape (k,)
        Mean scores of the labeled rows.
    scale : float
        Their spread.
    intercept : ndarray of shape (k,)
    slope : float
        Zero or larger, on the scores of unit spread.
    """

    center: np.ndarray
    scale: float
    intercept: np.ndarray
    slope: float

    def logits(self, scores: np.ndarray) -> np.ndarray:
        """Calibrated log-odds (one column), or log-probabilities up to a constant (several)."""
        return np.asarray(self.intercept + self.slope * (scores - self.center) / self.scale)


def blend(one: Calibration, other: Calibration, share: float) -> Calibration:
    """The calibration whose logits are `share` times those of the first plus the rest of the second."""
    parts = ((one, share), (other, 1.0 - share))
    slope = sum(w * c.slope / c.scale for c, w in parts) * one.scale
    shift = sum(w * (c.intercept - c.slope * c.center / c.scale) for c, w in parts)
    return Calibration(one.center, one.scale, shift + slope * one.center / one.scale, float(slope))


def one_hot(labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Shares of shape (n, n_classes) of rows that surely belong to one class."""
    shares = np.zeros((len(labels), n_classes))
    shares[np.arange(len(labels)), labels] = 1.0
    return shares


def calibrate(scores: np.ndarray, shares: np.ndarray, weight: np.ndarray) -> Calibration:
    """Logistic or softmax regression of labels, hard or soft, on one score (a class).

    Parameters
    ----------
    scores : ndarray of shape (n, k)
        One column for two classes, otherwise one a class.
    shares : ndarray of shape (n, n_classes)
        Probability of each class; 0 and 1 for known labels (:func:`one_hot`).
    weight : ndarray of shape (n,)

    Returns
    -------
    Calibration

    Examples
    --------
    >>> import numpy as np
    >>> score, labels = np.array([[-1.0], [0.0], [1.0], [2.0]]), one_hot(np.array([0, 1, 0, 1]), 2)
    >>> calibrate(score, labels, np.ones(4)).slope > 0
    True
    >>> calibrate(-score, labels, np.ones(4)).slope
    0.0
    """
    center = weight @ scores / weight.sum()
    scale = max(spread(scores, weight), 1e-9)
    unit = (scores - center) / scale
    objective = (_Logistic if scores.shape[1] == 1 else _Softmax)(unit, shares, weight)
    parameters = _minimize(objective)
    if parameters[-1] <= 1e-6:
        parameters = np.append(objective.without_score(), 0.0)
    return Calibration(center=center, scale=scale, intercept=parameters[:-1], slope=float(parameters[-1]))


def log_loss(logits: np.ndarray, labels: np.ndarray, weight: np.ndarray) -> float:
    """Weighted mean of -log P(label)."""
    if logits.shape[1] == 1:
        losses = np.logaddexp(0.0, np.where(labels == 1, -1.0, 1.0) * logits[:, 0])
    else:
        losses = -log_softmax(logits, axis=1)[np.arange(len(labels)), labels]
    return float(weight @ losses / weight.sum())


class _Logistic:
    def __init__(self, unit: np.ndarray, shares: np.ndarray, weight: np.ndarray) -> None:
        self.unit, self.target, self.weight = unit[:, 0], shares[:, 1], weight

    def without_score(self) -> np.ndarray:
        share = self.weight @ self.target / self.weight.sum()
        return np.array([np.log((share + 1e-3) / (1.0 - share + 1e-3))])

    def __call__(self, parameters: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
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
    def __init__(self, unit: np.ndarray, shares: np.ndarray, weight: np.ndarray) -> None:
        self.unit, self.shares, self.weight = unit, shares, weight

    def without_score(self) -> np.ndarray:
        share = self.weight @ self.shares / self.weight.sum()
        return np.asarray(np.log(share + 1e-3) - np.log(share + 1e-3).mean())

    def __call__(self, parameters: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        a, b = parameters[:-1], parameters[-1]
        log_p = log_softmax(a + b * self.unit, axis=1)
        value = -self.weight @ (self.shares * log_p).sum(axis=1) + (b * b + INTERCEPT_RIDGE * a @ a) / 2
        p = np.exp(log_p)
        error = self.weight[:, None] * (p - self.shares)
        gradient = np.append(error.sum(axis=0) + INTERCEPT_RIDGE * a, (error * self.unit).sum() + b)
        weighted = self.weight[:, None] * p
        mean_score = (p * self.unit).sum(axis=1)
        cross = (weighted * (self.unit - mean_score[:, None])).sum(axis=0)
        curvature = self.weight @ ((p * np.square(self.unit)).sum(axis=1) - np.square(mean_score))
        hessian = np.empty((len(a) + 1, len(a) + 1))
        hessian[:-1, :-1] = np.diag(weighted.sum(axis=0) + INTERCEPT_RIDGE) - weighted.T @ p
        hessian[:-1, -1] = hessian[-1, :-1] = cross
        hessian[-1, -1] = curvature + 1.0
        return value, gradient, hessian


def _minimize(objective: _Logistic | _Softmax) -> np.ndarray:
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


def calibrate_values(values: np.ndarray, targets: np.ndarray, weight: np.ndarray) -> Calibration:
    """Least squares of a numeric target on one score, slope at least 0: the calibration of a regression.

    Parameters
    ----------
    values : ndarray of shape (n, 1)
        Scores of the labeled rows.
    targets : ndarray of shape (n,)
    weight : ndarray of shape (n,)

    Returns
    -------
    Calibration

    Examples
    --------
    >>> import numpy as np
    >>> line = calibrate_values(np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 3.0, 5.0]), np.ones(3))
    >>> line.logits(np.array([[3.0]])).round(12)
    array([[7.]])
    """
    center = weight @ values / weight.sum()
    scale = max(spread(values, weight), 1e-9)
    unit = (values[:, 0] - center[0]) / scale
    mean = weight @ targets / weight.sum()
    slope = weight @ (unit * (targets - mean)) / max(weight @ np.square(unit), np.finfo(float).tiny)
    return Calibration(center=center, scale=scale, intercept=np.array([mean]), slope=float(max(slope, 0.0)))
