r"""What a surrogate saves, for least squares.

Let :math:`y = Z\theta + X\delta + \varepsilon` and :math:`Z = XB + \eta`, with :math:`\sigma^2` the variance of
:math:`\varepsilon` (noise of the label), :math:`\tau^2` that of :math:`\eta\theta` (what X cannot know of the score), p
columns of X and n rows. The risks below are in-sample: mean squared distances to the best prediction from X.
"""

from __future__ import annotations

import numpy as np


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
        m, the rows that the teacher scores, labelled or not; n if None.

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


def _project(A, t):
    basis = np.linalg.qr(A)[0]
    return basis @ (basis.T @ t)


def effective_rows(noise: float, gap: float, p: float, overlap: float, n: float, n_scored: float) -> float:
    """Labelled rows that a plain regression would need for the risk of the surrogate.

    Examples
    --------
    >>> round(effective_rows(noise=1.0, gap=0.0, p=20, overlap=5, n=100, n_scored=100))
    400
    """
    risk = surrogate_risk(noise, gap, p, overlap, n, n_scored)
    return n * plain_risk(noise, gap, p, n) / max(risk, np.finfo(float).tiny)
