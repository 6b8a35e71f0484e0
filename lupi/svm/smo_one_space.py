"""Sequential minimal optimization for one variable per example (SVM, SVM2+, one-class SVM)."""

from __future__ import annotations

import numpy as np
from numba import njit

from lupi.svm.lanes import LANES, highest, lowest, position

# Added to a value to take it out of a maximum; finite, because fastmath may assume that nothing is infinite.
BLOCKED = 1e30
TINY_CURVATURE = 1e-12


@njit(cache=True, fastmath=True, nogil=True)
def _open_directions(
    t: int, y: np.ndarray, a: np.ndarray, upper: np.ndarray, rise: np.ndarray, fall: np.ndarray
) -> None:
    """Whether y_t a_t can still rise (0 or -BLOCKED) and fall (0 or BLOCKED)."""
    grows, shrinks = a[t] < upper[t], a[t] > 0.0
    rises, falls = (grows, shrinks) if y[t] > 0 else (shrinks, grows)
    rise[t] = 0.0 if rises else -BLOCKED
    fall[t] = 0.0 if falls else BLOCKED


@njit(cache=True, fastmath=True, nogil=True)
def _gains(
    Q: np.ndarray | None,
    top: float,
    own: float,
    yi: float,
    r: np.ndarray,
    fall: np.ndarray,
    diagonal: np.ndarray,
    Ki: np.ndarray,
    Qi: np.ndarray,
    y: np.ndarray,
    gains: np.ndarray,
) -> None:
    """Gain of pairing with each example, by the exact step without bounds."""
    for t in range(r.shape[0]):
        gain = max(top - r[t] - fall[t], 0.0)
        if Q is None:
            curvature = own + diagonal[t] - 2.0 * Ki[t]
        else:
            curvature = own + diagonal[t] - 2.0 * (Ki[t] + yi * y[t] * Qi[t])
        gains[t] = gain * gain / max(curvature, TINY_CURVATURE)


@njit(cache=True, fastmath=True, nogil=True)
def _subtract_rows(
    Q: np.ndarray | None,
    r: np.ndarray,
    step: float,
    yi: float,
    yj: float,
    Ki: np.ndarray,
    Kj: np.ndarray,
    Qi: np.ndarray,
    Qj: np.ndarray,
    y: np.ndarray,
) -> None:
    """Take the pair step out of the signed gradient."""
    for t in range(r.shape[0]):
        if Q is None:
            r[t] -= step * (Ki[t] - Kj[t])
        else:
            r[t] -= step * (Ki[t] - Kj[t] + y[t] * (yi * Qi[t] - yj * Qj[t]))


@njit(cache=True, fastmath=True, nogil=True)
def smo_one_space(
    K: np.ndarray,
    Q: np.ndarray | None,
    y: np.ndarray,
    a: np.ndarray,
    r: np.ndarray,
    upper: np.ndarray,
    ridge: np.ndarray,
    tol: float,
    max_iter: int,
) -> tuple[int, float]:
    """Pairwise ascent with second-order selection on H = yy' o K + Q + diag(ridge); Q may be None.

    a and r = y o (p - H a) are updated in place. Rows of H are formed on the fly, so that the one-vs-rest problems of a
    multi-class fit share K and Q.

    Returns
    -------
    n_iter, violation : int, float
    """
    n = y.shape[0]
    diagonal = np.empty(n)
    rise = np.empty(n)
    fall = np.empty(n)
    gains = np.empty(n)
    no_mask = np.zeros(n)
    high_lanes = np.empty(LANES)
    low_lanes = np.empty(LANES)
    second = K if Q is None else Q
    for t in range(n):
        diagonal[t] = K[t, t] + ridge[t]
        if Q is not None:
            diagonal[t] += Q[t, t]
        _open_directions(t, y, a, upper, rise, fall)
    iteration = 0
    while True:
        top = highest(r, rise, high_lanes)
        violation = top - lowest(r, fall, low_lanes)
        if violation < tol or iteration >= max_iter:
            break
        i = position(r, rise, high_lanes, top)
        yi = y[i]
        _gains(Q, top, diagonal[i], yi, r, fall, diagonal, K[i], second[i], y, gains)
        j = position(gains, no_mask, high_lanes, highest(gains, no_mask, high_lanes))
        yj = y[j]
        curvature = diagonal[i] + diagonal[j] - 2.0 * K[i, j]
        if Q is not None:
            curvature -= 2.0 * yi * yj * Q[i, j]
        # A step that meets a bound lands on it exactly: membership tests compare with ==.
        room_i = upper[i] - a[i] if yi > 0 else a[i]
        room_j = a[j] if yj > 0 else upper[j] - a[j]
        step = min((r[i] - r[j]) / max(curvature, TINY_CURVATURE), min(room_i, room_j))
        if step <= 0.0:
            break
        a[i] = (upper[i] if yi > 0 else 0.0) if step >= room_i else a[i] + yi * step
        a[j] = (0.0 if yj > 0 else upper[j]) if step >= room_j else a[j] - yj * step
        _open_directions(i, y, a, upper, rise, fall)
        _open_directions(j, y, a, upper, rise, fall)
        r[i] -= step * ridge[i]
        r[j] += step * ridge[j]
        _subtract_rows(Q, r, step, yi, yj, K[i], K[j], second[i], second[j], y)
        iteration += 1
    return iteration, violation
