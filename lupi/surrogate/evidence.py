"""How far each teacher is believed: weights from left-out losses."""

from __future__ import annotations

import numpy as np


def gaussian_weights(errors: np.ndarray, n: float) -> np.ndarray:
    r"""Weights :math:`w_c \propto \mathrm{MSE}_c^{-n/2}`: profile likelihoods of normal errors.

    Parameters
    ----------
    errors : ndarray of shape (n_teachers,)
        Mean squared errors on left-out rows.
    n : float
        Number of rows (sum of their weights).

    Returns
    -------
    ndarray of shape (n_teachers,)

    Examples
    --------
    >>> gaussian_weights(np.array([1.0, 1.0, 2.0]), 20).round(3)
    array([0.5, 0.5, 0. ])
    """
    return _normalized(gaussian_evidence(errors, n))


def gaussian_evidence(errors: np.ndarray, n: float) -> np.ndarray:
    r"""Log-evidence :math:`-n/2 \log \mathrm{MSE}_c`, up to a constant.

    Examples
    --------
    >>> gaussian_evidence(np.array([1.0, np.exp(1.0)]), 20)
    array([ -0., -10.])
    """
    return np.asarray(-n / 2 * np.log(np.maximum(errors, np.finfo(float).tiny)))


def likelihood_weights(losses: np.ndarray, n: float) -> np.ndarray:
    r"""Weights :math:`w_c \propto \exp(-n\,\mathrm{loss}_c)` of mean log-losses on left-out rows.

    Examples
    --------
    >>> likelihood_weights(np.array([0.3, 0.3]), 50)
    array([0.5, 0.5])
    """
    return _normalized(-n * losses)


def _normalized(log_weights: np.ndarray) -> np.ndarray:
    weights = np.exp(log_weights - log_weights.max())
    return np.asarray(weights / weights.sum())
