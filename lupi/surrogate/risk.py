r"""What a surrogate saves, for least squares.

Let :math:`y = Z\theta + X\delta + \varepsilon` and :math:`Z = XB + \eta`, with :math:`\sigma^2` the variance of
:math:`\varepsilon` (noise of the label), :math:`\tau^2` that of :math:`\eta\theta` (what X cannot know of the score), p
columns of X and n rows. The risks below are in-sample: mean squared distances to the best prediction from X.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lupi.surrogate.ridge import RidgePath

# Draws of noise by which the gain is estimated.
N_PROBES = 24


def plain_risk(noise: float, gap: float, p: float, n: float) -> float:
    r"""Risk of regressing the labels on X: :math:`(\tau^2 + \sigma^2)\, p / n`.

    Parameters
    ----------
    noise, gap : float
        :math:`\sigma^2` and :math:`\tau^2`.
    p, n : float
        Columns (degrees of freedom) and rows.

    Returns
    -------
    float
    """
    return (gap + noise) * p / n


def surrogate_risk(
    noise: float, gap: float, p: float, overlap: float, n: float, n_scored: float | None = None
) -> float:
    r"""Risk of regressing the score of a teacher on Z: :math:`\tau^2 p / m + \sigma^2\,\mathrm{tr}(P_X P_Z) / n`.

    Parameters
    ----------
    noise, gap, p, n : float
        As in :func:`plain_risk`; the teacher sees n labels.
    overlap : float
        :math:`\mathrm{tr}(P_X P_Z)`, the sum of the squared canonical correlations; at most the smaller of the two
        numbers of columns.
    n_scored : float, optional
        m, the rows that the teacher scores, labeled or not; n if None.

    Returns
    -------
    float
    """
    return gap * p / (n if n_scored is None else n_scored) + noise * overlap / n


def delta_bias(X: np.ndarray, Z: np.ndarray, delta: np.ndarray) -> float:
    r"""What the teacher on Z alone loses where X matters beside Z: :math:`\|X\delta - P_X P_Z X\delta\|^2 / n`."""
    direct = X @ delta
    return float(np.mean(np.square(direct - _project(X, _project(Z, direct)))))


def overlap(X: np.ndarray, Z: np.ndarray) -> float:
    r""":math:`\mathrm{tr}(P_X P_Z)`.

    Examples
    --------
    >>> import numpy as np
    >>> round(overlap(np.eye(4)[:, :2], np.eye(4)[:, 1:]), 12)
    1.0
    """
    return float(np.sum(np.square(np.linalg.qr(X)[0].T @ np.linalg.qr(Z)[0])))


def _project(A: np.ndarray, t: np.ndarray) -> np.ndarray:
    basis = np.linalg.qr(A)[0]
    return np.asarray(basis @ (basis.T @ t))


def effective_rows(
    noise: float, gap: float, A: Any, labeled: np.ndarray, weight: np.ndarray, teacher_noise: np.ndarray, alpha: float
) -> float:
    r"""Labeled rows with which a plain ridge on X would have as little noise as the student of the surrogate.

    The risk formulas with traces of ridge in place of projections: noise of unit variance is sent through the plain
    regression (variance :math:`\sigma^2 + \tau^2`), through teacher and student (:math:`\sigma^2`), and through the student
    alone (:math:`\tau^2`); the mean squares that arrive at the rows are the risks, and n times their ratio is the answer.

    Parameters
    ----------
    noise, gap : float
        :math:`\sigma^2` and :math:`\tau^2`.
    A : ndarray or sparse matrix of shape (m, p)
        Standardized decision features of the rows that the teacher scores.
    labeled : ndarray of bool, shape (m,)
        Which of them have a label.
    weight : ndarray of shape (m,)
    teacher_noise : ndarray of shape (m, n_probes)
        Scores of a teacher whose labels were noise, the one of :func:`label_noise`.
    alpha : float
        Penalty of a ridge on X for the labeled rows; that of the student has the same size per row.

    Returns
    -------
    float
    """
    n, m = weight[labeled].sum(), weight.sum()
    rows = np.flatnonzero(labeled)
    plain = RidgePath(A[rows], weight[rows])
    coef, intercept = plain.solve(label_noise(weight[rows]), alpha)
    student = RidgePath(A, weight)

    def arrived(values: np.ndarray) -> float:
        return float(weight @ np.square(values).mean(axis=1) / m)

    plain_risk = (noise + gap) * arrived(np.asarray(A @ coef) + intercept)
    through_both = arrived(student.fitted(teacher_noise, alpha * m / n))
    through_student = arrived(student.fitted(label_noise(weight), alpha * m / n))
    risk = noise * through_both + gap * through_student
    return float(n * plain_risk / max(risk, np.finfo(float).tiny))


def label_noise(weight: np.ndarray) -> np.ndarray:
    """Draws of noise of unit variance for rows of these weights, of shape (n, N_PROBES); always the same ones."""
    signs = np.random.default_rng(0).integers(0, 2, size=(len(weight), N_PROBES)) * 2.0 - 1.0
    return np.asarray(signs / np.sqrt(weight)[:, None])
