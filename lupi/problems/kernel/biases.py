"""Intercepts from optimality conditions: the centre of a small polygon."""

from __future__ import annotations

import numpy as np


def central_biases(kinds: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, float]:
    """Point b with ``low <= kinds @ b <= high``, midway where several satisfy it.

    Parameters
    ----------
    kinds : ndarray of shape (n_kinds, n_biases)
        Coefficients of the one or two biases in each kind of condition.
    low, high : ndarray of shape (n_kinds,)
        Bounds, possibly infinite and, before a solver has converged, contradictory.

    Returns
    -------
    biases : ndarray of shape (n_biases,)
        The last bias is the midpoint of all values it can take; the one before it the midpoint given the last.
    violation : float
        How much the intervals contradict each other; 0 at an optimum. The intervals are widened by half of it.

    Examples
    --------
    >>> import numpy as np
    >>> central_biases(np.array([[1.0]]), np.array([0.0]), np.array([1.0]))
    (array([0.5]), 0.0)
    """
    n_biases = kinds.shape[1]
    if n_biases == 0:
        return np.zeros(0), float(max(0.0, np.max(low - high, initial=0.0)))
    # Every condition as  normal . b <= bound  with a share of the common widening t:  ... <= bound + t.
    normals = np.vstack([kinds, -kinds])
    bounds = np.concatenate([high, -low])
    finite = np.isfinite(bounds)
    rows = np.column_stack([normals, bounds, np.ones(len(bounds))])[finite]
    projected = _eliminate_first(rows) if n_biases == 2 else rows
    # What is left after eliminating every bias reads 0 <= bound + share * t, so t >= -bound / share.
    closed = _eliminate_first(projected)
    widening = max(0.0, float(np.max(-closed[:, 0] / closed[:, 1], initial=0.0)))
    rows[:, -2] += widening * rows[:, -1]
    if n_biases == 1:
        return np.array([_midpoint(rows[:, 0], rows[:, 1])]), 2 * widening
    last = _midpoint(projected[:, 0], projected[:, 1] + widening * projected[:, 2])
    first = _midpoint(rows[:, 0], rows[:, 2] - rows[:, 1] * last)
    return np.array([first, last]), 2 * widening


def _eliminate_first(rows: np.ndarray) -> np.ndarray:
    """Fourier-Motzkin: conditions on the other unknowns under which the first one exists."""
    positive, negative, free = rows[rows[:, 0] > 0], rows[rows[:, 0] < 0], rows[rows[:, 0] == 0]
    positive = positive / positive[:, :1]
    negative = negative / -negative[:, :1]
    combined = (positive[:, None, 1:] + negative[None, :, 1:]).reshape(-1, rows.shape[1] - 1)
    return np.vstack([combined, free[:, 1:]])


def _midpoint(coefficients: np.ndarray, bounds: np.ndarray) -> float:
    """Middle of {b : coefficients * b <= bounds}; the finite end where only one exists, 0 where none does."""
    up, down = coefficients > 0, coefficients < 0
    high = np.min(bounds[up] / coefficients[up], initial=np.inf)
    low = np.max(bounds[down] / coefficients[down], initial=-np.inf)
    if np.isfinite(low) and np.isfinite(high):
        return float(0.5 * (low + high))
    if np.isfinite(low):
        return float(low)
    return float(high) if np.isfinite(high) else 0.0
