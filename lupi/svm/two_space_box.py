"""The boxes of the two-space SMO: which moves an example has room for, and how far they go."""

from __future__ import annotations

import numpy as np
from numba import njit

from lupi.svm.smo_one_space import BLOCKED, TINY_CURVATURE

# Kinds of moves; the table is in :mod:`lupi.svm.smo_two_space`.
PLUS, MINUS, SHIFT, JOINT = 0, 1, 2, 3


@njit(cache=True, fastmath=True, nogil=True)
def open_directions(
    t: int,
    y: np.ndarray,
    s: np.ndarray,
    a: np.ndarray,
    d: np.ndarray,
    upper_a: np.ndarray,
    lower_d: np.ndarray,
    upper_d: np.ndarray,
    rise: np.ndarray,
    fall: np.ndarray,
) -> None:
    """Which moves example t still has room for: rise[kind, t] = 0 or -BLOCKED, fall[kind, t] = 0 or BLOCKED."""
    for kind in range(4):
        rise[kind, t] = -BLOCKED
        fall[kind, t] = BLOCKED
    a_grows, a_shrinks = a[t] < upper_a[t], a[t] > 0.0
    beta_rises, beta_falls = (a_grows, a_shrinks) if y[t] > 0 else (a_shrinks, a_grows)
    if s[t] == 0.0:
        if beta_rises:
            rise[JOINT, t] = 0.0
        if beta_falls:
            fall[JOINT, t] = 0.0
        return
    d_grows, d_shrinks = d[t] < upper_d[t], d[t] > lower_d[t]
    # eta rises when d moves against s; a joint move takes d along with a, i.e. in the direction of y.
    eta_rises, eta_falls = (d_shrinks, d_grows) if s[t] > 0 else (d_grows, d_shrinks)
    d_follows, d_retreats = (d_grows, d_shrinks) if y[t] > 0 else (d_shrinks, d_grows)
    alone = PLUS if s[t] * y[t] > 0 else MINUS
    if beta_rises:
        rise[alone, t] = 0.0
        if d_follows:
            rise[JOINT, t] = 0.0
    if beta_falls:
        fall[alone, t] = 0.0
        if d_retreats:
            fall[JOINT, t] = 0.0
    if eta_rises:
        rise[SHIFT, t] = 0.0
    if eta_falls:
        fall[SHIFT, t] = 0.0


@njit(cache=True, fastmath=True, nogil=True)
def best_in_box(
    A: float, B: float, D: float, p: float, q: float, low_u: float, high_u: float, low_e: float, high_e: float
) -> tuple[float, float]:
    """Maximize p u + q e - (A u^2 + 2 B u e + D e^2) / 2 over a rectangle that contains 0; exact."""
    determinant = A * D - B * B
    if determinant > 1e-14 * A * D:
        u = (D * p - B * q) / determinant
        e = (A * q - B * p) / determinant
        if low_u <= u <= high_u and low_e <= e <= high_e:
            return u, e
    # A concave quadratic whose free maximum is outside has its maximum on an edge.
    best, best_u, best_e = -1.0, 0.0, 0.0
    for edge in range(4):
        if edge < 2:
            u = low_u if edge == 0 else high_u
            if abs(u) >= BLOCKED:
                continue
            e = min(max((q - B * u) / max(D, TINY_CURVATURE), low_e), high_e)
        else:
            e = low_e if edge == 2 else high_e
            if abs(e) >= BLOCKED:
                continue
            u = min(max((p - B * e) / max(A, TINY_CURVATURE), low_u), high_u)
        value = p * u + q * e - 0.5 * (A * u * u + 2.0 * B * u * e + D * e * e)
        if value > best:
            best, best_u, best_e = value, u, e
    return best_u, best_e


@njit(cache=True, fastmath=True, nogil=True)
def snap(value: float, low: float, high: float, grain: float) -> float:
    """Values within rounding of a bound are on it: membership tests compare with ==."""
    if value - low <= grain:
        return low
    if high - value <= grain:
        return high
    return value


@njit(cache=True, fastmath=True, nogil=True)
def room_for(
    t: int,
    kind: int,
    sign: float,
    y: np.ndarray,
    s: np.ndarray,
    a: np.ndarray,
    d: np.ndarray,
    upper_a: np.ndarray,
    lower_d: np.ndarray,
    upper_d: np.ndarray,
) -> float:
    """How far example t can go in a move of this kind (sign = +1: beta or eta rises)."""
    room = 2.0 * BLOCKED
    if kind != SHIFT:
        room = upper_a[t] - a[t] if sign * y[t] > 0 else a[t]
    if kind == SHIFT:
        room = d[t] - lower_d[t] if sign * s[t] > 0 else upper_d[t] - d[t]
    elif kind == JOINT and s[t] != 0.0:
        room = min(room, upper_d[t] - d[t] if sign * y[t] > 0 else d[t] - lower_d[t])
    return room


@njit(cache=True, fastmath=True, nogil=True, inline="always")
def pair_room(
    i: int,
    j: int,
    y: np.ndarray,
    a: np.ndarray,
    d: np.ndarray,
    upper_a: np.ndarray,
    lower_d: np.ndarray,
    upper_d: np.ndarray,
) -> tuple[float, float, float, float]:
    """How far a of i and j, and d of i and j, can move against each other: a_i += y_i u, d_i += y_i e."""
    low_u = max(-a[i] if y[i] > 0 else a[i] - upper_a[i], a[j] - upper_a[j] if y[j] > 0 else -a[j])
    high_u = min(upper_a[i] - a[i] if y[i] > 0 else a[i], a[j] if y[j] > 0 else upper_a[j] - a[j])
    low_e = max(
        lower_d[i] - d[i] if y[i] > 0 else d[i] - upper_d[i], d[j] - upper_d[j] if y[j] > 0 else lower_d[j] - d[j]
    )
    high_e = min(
        upper_d[i] - d[i] if y[i] > 0 else d[i] - lower_d[i], d[j] - lower_d[j] if y[j] > 0 else upper_d[j] - d[j]
    )
    return low_u, high_u, low_e, high_e


@njit(cache=True, fastmath=True, nogil=True, inline="always")
def move_point(
    t: int,
    delta_beta: float,
    delta_eta: float,
    y: np.ndarray,
    s: np.ndarray,
    a: np.ndarray,
    d: np.ndarray,
    upper_a: np.ndarray,
    lower_d: np.ndarray,
    upper_d: np.ndarray,
) -> None:
    """Change beta_t and eta_t by these amounts."""
    da = y[t] * delta_beta
    grain = 1e-13 * min(upper_a[t], upper_d[t] if s[t] != 0.0 else upper_a[t])
    a[t] = snap(a[t] + da, 0.0, upper_a[t], grain)
    if s[t] != 0.0:
        d[t] = snap(d[t] + da - s[t] * delta_eta, lower_d[t], upper_d[t], grain)
