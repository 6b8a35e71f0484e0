r"""Sequential minimal optimization for SVM-2K: every variable moves one view's expansion, or both against each other.

A variable enters the two expansions :math:`(g_A, g_B)` along one of three directions, up to a sign:

======  =============  ==========================
kind    direction      variables
======  =============  ==========================
FIRST   (1, 0)         loss of the first view
SECOND  (0, 1)         loss of the second view
TIE     (-1, 1)        disagreement, either sign
======  =============  ==========================

Both sums must stay as they are: either two variables of one kind move against each other, or three of different kinds
move together, since FIRST + TIE - SECOND = 0. Pairs alone would stall where one kind has no room left.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from lupi.svm.lanes import LANES, highest, lowest, position
from lupi.svm.smo_one_space import BLOCKED, TINY_CURVATURE

FIRST, SECOND, TIE = 0, 1, 2


@njit(cache=True, fastmath=True, nogil=True)
def _slopes(
    k: int, example: np.ndarray, base: np.ndarray, field_first: np.ndarray, field_second: np.ndarray, slope: np.ndarray
) -> None:
    """Derivative of the dual along the kind, of each variable of it."""
    if k == FIRST:
        for v in range(slope.shape[0]):
            slope[v] = base[v] - field_first[example[v]]
    elif k == SECOND:
        for v in range(slope.shape[0]):
            slope[v] = base[v] - field_second[example[v]]
    else:
        for v in range(slope.shape[0]):
            slope[v] = base[v] + field_first[example[v]] - field_second[example[v]]


@njit(cache=True, fastmath=True, nogil=True)
def _gains(
    k: int,
    top: float,
    i: int,
    example: np.ndarray,
    slope: np.ndarray,
    fall: np.ndarray,
    diagonal: np.ndarray,
    first_row: np.ndarray,
    second_row: np.ndarray,
    gains: np.ndarray,
) -> None:
    """Gain of pairing with each variable of the kind, by the exact step without bounds; i is the other's example."""
    own = 0.0 if k == SECOND else diagonal[FIRST, i]
    own += 0.0 if k == FIRST else diagonal[SECOND, i]
    for v in range(slope.shape[0]):
        e = example[v]
        gain = max(top - slope[v] - fall[v], 0.0)
        curvature = own
        if k != SECOND:
            curvature += diagonal[FIRST, e] - 2.0 * first_row[e]
        if k != FIRST:
            curvature += diagonal[SECOND, e] - 2.0 * second_row[e]
        gains[v] = gain * gain / max(curvature, TINY_CURVATURE)


@njit(cache=True, fastmath=True, nogil=True)
def _rows_of(
    moved: np.ndarray, ways: np.ndarray, size: int, example: np.ndarray, ends: np.ndarray, rows: np.ndarray
) -> None:
    """Which example of each view gains what another loses: (gains, loses) of the first view, then of the second; or -1."""
    rows[:] = -1
    for m in range(size):
        v, way = moved[m], ways[m]
        e = example[v]
        if v < ends[SECOND]:
            rows[0 if way > 0 else 1] = e
        else:
            rows[2 if way > 0 else 3] = e
            if v >= ends[TIE]:
                rows[1 if way > 0 else 0] = e


@njit(cache=True, fastmath=True, nogil=True)
def _curvature(K_first: np.ndarray, K_second: np.ndarray, diagonal: np.ndarray, rows: np.ndarray) -> float:
    """Second derivative along a step."""
    total = 0.0
    if rows[0] >= 0:
        total += diagonal[FIRST, rows[0]] + diagonal[FIRST, rows[1]] - 2.0 * K_first[rows[0], rows[1]]
    if rows[2] >= 0:
        total += diagonal[SECOND, rows[2]] + diagonal[SECOND, rows[3]] - 2.0 * K_second[rows[2], rows[3]]
    return max(total, TINY_CURVATURE)


@njit(cache=True, fastmath=True, nogil=True)
def _mark(v: int, sign: np.ndarray, x: np.ndarray, upper: np.ndarray, rise: np.ndarray, fall: np.ndarray) -> None:
    """Whether a variable can still rise along its kind (0 or -BLOCKED) and fall (0 or BLOCKED)."""
    grows, shrinks = x[v] < upper[v], x[v] > 0.0
    rises, falls = (grows, shrinks) if sign[v] > 0 else (shrinks, grows)
    rise[v] = 0.0 if rises else -BLOCKED
    fall[v] = 0.0 if falls else BLOCKED


@njit(cache=True, fastmath=True, nogil=True, inline="always")
def _room(v: int, way: float, sign: np.ndarray, x: np.ndarray, upper: np.ndarray) -> float:
    """How far a variable can go along its kind, or against it."""
    return upper[v] - x[v] if way * sign[v] > 0 else x[v]


@njit(cache=True, fastmath=True, nogil=True)
def _move(v: int, step: float, way: float, sign: np.ndarray, x: np.ndarray, upper: np.ndarray) -> None:
    """Move one variable along its kind or against it, onto its bound exactly where it reaches it."""
    grows = way * sign[v] > 0
    if step >= _room(v, way, sign, x, upper):
        x[v] = upper[v] if grows else 0.0
    else:
        x[v] += step if grows else -step


@njit(cache=True, fastmath=True, nogil=True)
def _add_rows(field: np.ndarray, step: float, up: np.ndarray, down: np.ndarray) -> None:
    for t in range(field.shape[0]):
        field[t] += step * (up[t] - down[t])


@njit(cache=True, fastmath=True, nogil=True)
def smo_two_views(
    K_first: np.ndarray,
    K_second: np.ndarray,
    example: np.ndarray,
    ends: np.ndarray,
    sign: np.ndarray,
    p: np.ndarray,
    x: np.ndarray,
    upper: np.ndarray,
    field_first: np.ndarray,
    field_second: np.ndarray,
    tol: float,
    max_iter: int,
) -> tuple[int, float]:
    """Ascent by the pair, or the triple, that gains most; x and both fields are updated in place.

    Parameters
    ----------
    K_first, K_second : ndarray of shape (n, n)
        Kernel matrices of the views, with their weights.
    example, sign, p, upper : ndarray of shape (n_variables,)
        Whose variable, with which sign along its kind, its linear term and upper bound; the kinds one after the other.
    ends : int ndarray of shape (4,)
        Where each kind begins, and the number of variables.
    x : ndarray of shape (n_variables,)
        The point.
    field_first, field_second : ndarray of shape (n,)
        Kernel matrices times the expansions of x.
    tol : float
        Largest violation of the optimality conditions.
    max_iter : int
        Largest number of steps.

    Returns
    -------
    n_iter, violation : int, float
    """
    n, n_variables = field_first.shape[0], x.shape[0]
    base, slope, gains = sign * p, np.empty(n_variables), np.empty(n_variables)
    rise, fall, no_mask = np.empty(n_variables), np.empty(n_variables), np.zeros(n_variables)
    diagonal = np.empty((2, n))
    for t in range(n):
        diagonal[FIRST, t], diagonal[SECOND, t] = K_first[t, t], K_second[t, t]
    for v in range(n_variables):
        _mark(v, sign, x, upper, rise, fall)
    top, bottom = np.empty(3), np.empty(3)
    top_lanes, bottom_lanes, lanes = np.empty((3, LANES)), np.empty((3, LANES)), np.empty(LANES)
    moved, ways, rows = np.empty(3, np.int64), np.empty(3), np.empty(4, np.int64)
    triple, triple_ways, triple_rows = np.empty(3, np.int64), np.empty(3), np.empty(4, np.int64)
    iteration, violation = 0, 0.0
    while True:
        for k in range(3):
            a, b = ends[k], ends[k + 1]
            _slopes(k, example[a:b], base[a:b], field_first, field_second, slope[a:b])
            top[k] = highest(slope[a:b], rise[a:b], top_lanes[k])
            bottom[k] = lowest(slope[a:b], fall[a:b], bottom_lanes[k])
        along = top[FIRST] + top[TIE] - bottom[SECOND]
        against = top[SECOND] - bottom[TIE] - bottom[FIRST]
        k = int(np.argmax(top - bottom))
        violation = max(top[k] - bottom[k], max(along, against))
        if violation < tol or iteration >= max_iter:
            break
        gain, excess, size = 0.0, 0.0, 2
        if top[k] > bottom[k]:
            a, b = ends[k], ends[k + 1]
            i = a + position(slope[a:b], rise[a:b], top_lanes[k], top[k])
            e = example[i]
            _gains(k, top[k], e, example[a:b], slope[a:b], fall[a:b], diagonal, K_first[e], K_second[e], gains[a:b])
            gain = highest(gains[a:b], no_mask[a:b], lanes)
            j = a + position(gains[a:b], no_mask[a:b], lanes, gain)
            moved[0], moved[1], ways[0], ways[1] = i, j, 1.0, -1.0
            excess = slope[i] - slope[j]
            _rows_of(moved, ways, 2, example, ends, rows)
        if max(along, against) > 0.0:
            way = 1.0 if along >= against else -1.0
            triple_ways[FIRST], triple_ways[SECOND], triple_ways[TIE] = way, -way, way
            for k in range(3):
                a, b = ends[k], ends[k + 1]
                if triple_ways[k] > 0:
                    triple[k] = a + position(slope[a:b], rise[a:b], top_lanes[k], top[k])
                else:
                    triple[k] = a + position(slope[a:b], fall[a:b], bottom_lanes[k], bottom[k])
            _rows_of(triple, triple_ways, 3, example, ends, triple_rows)
            if max(along, against) ** 2 / _curvature(K_first, K_second, diagonal, triple_rows) > gain:
                moved[:], ways[:], rows[:], size = triple, triple_ways, triple_rows, 3
                excess = max(along, against)
        step = excess / _curvature(K_first, K_second, diagonal, rows)
        for m in range(size):
            step = min(step, _room(moved[m], ways[m], sign, x, upper))
        if step <= 0.0:
            break
        for m in range(size):
            _move(moved[m], step, ways[m], sign, x, upper)
            _mark(moved[m], sign, x, upper, rise, fall)
        if rows[0] >= 0:
            _add_rows(field_first, step, K_first[rows[0]], K_first[rows[1]])
        if rows[2] >= 0:
            _add_rows(field_second, step, K_second[rows[2]], K_second[rows[3]])
        iteration += 1
    return iteration, violation
