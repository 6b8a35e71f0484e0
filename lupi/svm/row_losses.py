r"""Squared hinges of many examples as compiled loops: :math:`\tfrac{1}{2 r_i} [1 - y_i f_i - s_i g_i]_+^2`.

An example has a decision value f and a correcting value g. Its dual variable is :math:`a_i = [v_i]_+ / r_i` with the slack
:math:`v_i = 1 - y_i f_i - s_i g_i`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

# Derivatives with respect to an intercept are 0 up to this share of their terms' sum.
BALANCED = 1e-13


@njit(cache=True, nogil=True)
def respond(
    f: np.ndarray, g: np.ndarray, y: np.ndarray, s: np.ndarray, ridge: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Dual variables, and their derivatives with respect to the slacks."""
    a = np.zeros(f.shape[0])
    slope = np.zeros(f.shape[0])
    for i in range(f.shape[0]):
        v = 1.0 - y[i] * f[i] - s[i] * g[i]
        if v > 0.0:
            slope[i] = 1.0 / ridge[i]
            a[i] = v * slope[i]
    return a, slope


@njit(cache=True, nogil=True)
def slope_along(
    t: float,
    f: np.ndarray,
    g: np.ndarray,
    df: np.ndarray,
    dg: np.ndarray,
    y: np.ndarray,
    s: np.ndarray,
    ridge: np.ndarray,
) -> tuple[float, float]:
    """First and second derivative of the losses at f + t df, g + t dg with respect to t."""
    first = 0.0
    second = 0.0
    for i in range(f.shape[0]):
        change = y[i] * df[i] + s[i] * dg[i]
        v = 1.0 - y[i] * f[i] - s[i] * g[i] - t * change
        if v > 0.0:
            first -= v * change / ridge[i]
            second += change * change / ridge[i]
    return first, second


@njit(cache=True, nogil=True)
def best_intercept(f: np.ndarray, g: np.ndarray, y: np.ndarray, s: np.ndarray, ridge: np.ndarray) -> float:
    """What to add to f so that the losses are least: there the sum of y_i a_i is 0.

    The derivative is increasing and piecewise linear: Newton's method, kept between a point below and one above.
    """
    low, high = -np.inf, np.inf
    b = 0.0
    for _ in range(100):
        plus = minus = second = 0.0
        for i in range(f.shape[0]):
            v = 1.0 - y[i] * (f[i] + b) - s[i] * g[i]
            if v > 0.0:
                second += 1.0 / ridge[i]
                if y[i] > 0:
                    plus += v / ridge[i]
                else:
                    minus += v / ridge[i]
        first = minus - plus
        if abs(first) <= BALANCED * (minus + plus):
            break
        if first < 0:
            low = b
        else:
            high = b
        step = b - first / second
        if not low < step < high:
            step = 0.5 * (low + high)
        if step == b:
            break
        b = step
    return b
