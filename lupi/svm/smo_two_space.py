r"""Sequential minimal optimization for SVM+ and its relatives: two kernel spaces, coupled boxes.

In the variables :math:`\beta = y \circ a`, :math:`\eta = s \circ (a - d)` the objective is
:math:`\tfrac12 \beta'K\beta + \tfrac{1}{2\lambda}\eta'K^*\eta - q'\beta` and the sums of both are fixed. Every move changes
some entries of (beta, eta) by amounts that leave both sums alone:

========  ===================================  ===================  ==========================
kind      what moves in example i              (sum beta, sum eta)  rate of improvement
========  ===================================  ===================  ==========================
plus      a alone, where s y = +1              (1, +1)              P_i + N_i
minus     a alone, where s y = -1              (1, -1)              P_i - N_i
shift     d alone                              (0, 1)               N_i
joint     a and d together; a where s = 0      (1, 0)               P_i
========  ===================================  ===================  ==========================

with :math:`P = q - K\beta` and :math:`N = -K^*\eta / \lambda`. Two examples of one kind make a pair; three of different kinds
make a triple (the columns are linearly dependent), without which the slack correction, and missing rows in either one,
could stall before the optimum.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from lupi.svm.lanes import LANES, highest, lowest, position
from lupi.svm.smo_one_space import BLOCKED, TINY_CURVATURE
from lupi.svm.two_space_box import (
    JOINT,
    MINUS,
    PLUS,
    SHIFT,
    best_in_box,
    move_point,
    open_directions,
    pair_room,
    room_for,
)

# The combinations of three kinds whose columns in the table above cancel: sum_k weight * column = 0.
TRIPLES = np.array(
    [
        [1.0, -1.0, -2.0, 0.0],
        [1.0, 0.0, -1.0, -1.0],
        [0.0, 1.0, 1.0, -1.0],
        [1.0, 1.0, 0.0, -2.0],
    ]
)

# A triple has to promise so many times what a pair does: the pair's partner is the best one for its step and mostly gains more
# than was promised, the members of a triple are only the steepest ones.
HANDICAP = 2.0

# Constants of the loops over all examples: in single precision they leave the precision of the arrays alone.
NOTHING, TWICE, LEAST = np.float32(0.0), np.float32(2.0), np.float32(TINY_CURVATURE)

# Loops with one output array each: that is what LLVM needs to vectorize them.


@njit(cache=True, fastmath=True, nogil=True)
def add_rows(target: np.ndarray, step: float, row: np.ndarray, step2: float, row2: np.ndarray) -> None:
    """Target += step * row + step2 * row2."""
    for t in range(target.shape[0]):
        target[t] += step * row[t] + step2 * row2[t]


@njit(cache=True, fastmath=True, nogil=True)
def rates_alone(P: np.ndarray, N: np.ndarray, sy: np.ndarray, out: np.ndarray) -> None:
    """Rates of the moves of a alone."""
    for t in range(P.shape[0]):
        out[t] = P[t] + sy[t] * N[t]


@njit(cache=True, fastmath=True, nogil=True)
def gains_one(
    top: float,
    own: float,
    rates: np.ndarray,
    fall: np.ndarray,
    diagonal: np.ndarray,
    weight: float,
    row: np.ndarray,
    gains: np.ndarray,
) -> None:
    """Gain of pairing with each example, by the exact step without bounds, when one space's curvature counts."""
    for t in range(rates.shape[0]):
        gain = max(top - rates[t] - fall[t], NOTHING)
        gains[t] = gain * gain / max(own + diagonal[t] - TWICE * weight * row[t], LEAST)


@njit(cache=True, fastmath=True, nogil=True)
def gains_both(
    top: float,
    own: float,
    rates: np.ndarray,
    fall: np.ndarray,
    diagonal: np.ndarray,
    row_k: np.ndarray,
    weight: float,
    row_s: np.ndarray,
    gains: np.ndarray,
) -> None:
    """The same when the curvatures of both spaces count."""
    for t in range(rates.shape[0]):
        gain = max(top - rates[t] - fall[t], NOTHING)
        curvature = own + diagonal[t] - TWICE * (row_k[t] + weight * row_s[t])
        gains[t] = gain * gain / max(curvature, LEAST)


@njit(cache=True, fastmath=True, nogil=True, inline="always")
def _best_kind(high: np.ndarray, low: np.ndarray, typical: np.ndarray, has_missing: bool) -> tuple[int, float, float]:
    """The kind whose best pair promises most (-1 for none), the gain, and the largest violation of a pair."""
    violation = 0.0
    best_gain = 0.0
    kind = -1
    for c in range(4):
        excess = high[c] - low[c]
        # A joint move is the sum of an "alone" move and a shift: it saves steps, but proves nothing by itself
        # unless rows are missing.
        if c != JOINT or has_missing:
            violation = max(violation, excess)
        if excess > 0 and excess * excess / typical[c] > best_gain:
            best_gain = excess * excess / typical[c]
            kind = c
    return kind, best_gain, violation


@njit(cache=True, fastmath=True, nogil=True, inline="always")
def _best_triple(high: np.ndarray, low: np.ndarray, curvature: float) -> tuple[int, float, float, float]:
    """The triple that promises most (-1 for none), its orientation, the gain, and the largest violation of a triple."""
    violation = 0.0
    best_gain = 0.0
    triple = -1
    best_orientation = 1.0
    for c in range(4):
        for orientation in (1.0, -1.0):
            excess = 0.0
            size = 0.0
            for k in range(4):
                w = orientation * TRIPLES[c, k]
                size += abs(w)
                if w > 0:
                    excess += w * high[k]
                elif w < 0:
                    excess += w * low[k]
            if excess > 0:
                violation = max(violation, 2.0 * excess / size)
                if excess * excess / curvature > best_gain:
                    best_gain = excess * excess / curvature
                    triple = c
                    best_orientation = orientation
    return triple, best_orientation, best_gain, violation


@njit(cache=True, fastmath=True, nogil=True, inline="always")
def _scale_triple(
    K: np.ndarray,
    S: np.ndarray,
    weight: float,
    rate: float,
    room: float,
    member: np.ndarray,
    delta_beta: np.ndarray,
    delta_eta: np.ndarray,
) -> None:
    """Make a direction along three examples the best step that there is room for."""
    # Two kinds may have chosen the same example: its room is shared, so a safe half is taken then.
    if member[0] == member[1] or member[1] == member[2] or member[0] == member[2]:
        room *= 0.5
    curvature = 0.0
    for u in range(3):
        for v in range(3):
            curvature += delta_beta[u] * delta_beta[v] * K[member[u], member[v]]
            curvature += weight * delta_eta[u] * delta_eta[v] * S[member[u], member[v]]
    step = min(rate / max(curvature, TINY_CURVATURE), room)
    for u in range(3):
        delta_beta[u] *= step
        delta_eta[u] *= step


@njit(cache=True, fastmath=True, nogil=True, inline="always")
def pair_change(
    i: int,
    j: int,
    kind: int,
    k_curvature: float,
    s_curvature: float,
    P: np.ndarray,
    N: np.ndarray,
    sy: np.ndarray,
    y: np.ndarray,
    s: np.ndarray,
    a: np.ndarray,
    d: np.ndarray,
    upper_a: np.ndarray,
    lower_d: np.ndarray,
    upper_d: np.ndarray,
) -> tuple[float, float]:
    """By how much beta and eta of i grow, and those of j shrink."""
    if sy[i] == sy[j] and sy[i] != 0.0:
        # Both a and d of both examples.
        low_u, high_u, low_e, high_e = pair_room(i, j, y, a, d, upper_a, lower_d, upper_d)
        shift = sy[i] * (N[i] - N[j])
        rate = P[i] - P[j] + shift
        u, e = best_in_box(
            k_curvature + s_curvature, -s_curvature, s_curvature, rate, -shift, low_u, high_u, low_e, high_e
        )
        return u, sy[i] * (u - e)
    room = room_for(i, kind, 1.0, y, s, a, d, upper_a, lower_d, upper_d)
    room = min(room, room_for(j, kind, -1.0, y, s, a, d, upper_a, lower_d, upper_d))
    if kind == SHIFT:
        return 0.0, min((N[i] - N[j]) / s_curvature, room)
    return min((P[i] - P[j]) / k_curvature, room), 0.0


@njit(cache=True, fastmath=True, nogil=True)
def smo_two_space(
    K: np.ndarray,
    S: np.ndarray,
    weight: float,
    y: np.ndarray,
    s: np.ndarray,
    a: np.ndarray,
    d: np.ndarray,
    P: np.ndarray,
    N: np.ndarray,
    upper_a: np.ndarray,
    lower_d: np.ndarray,
    upper_d: np.ndarray,
    tol: float,
    max_iter: int,
) -> tuple[int, float]:
    """Ascent over pairs and triples with second-order selection; a, d, P, N are updated in place.

    Parameters
    ----------
    K, S : ndarray of shape (n, n)
        Kernel matrices; the second one counts ``weight`` times.
    y, s : ndarray of shape (n,)
        Signs of a in beta and of a - d in eta; s = 0 where the second space has no row.
    a, d, P, N : ndarray of shape (n,)
        A feasible point, and P = q - K beta, N = -weight * S eta, these two in single or in double precision.
    upper_a, lower_d, upper_d : ndarray of shape (n,)
        Bounds (a >= 0); "infinite" is +-1e30.

    Returns
    -------
    n_iter, violation : int, float
    """
    n = y.shape[0]
    # Loops over all examples are in the precision of P and N, all else in double precision.
    real = P.dtype
    rise, fall = np.empty((4, n), real), np.empty((4, n), real)
    high, low = np.full(4, -BLOCKED, real), np.full(4, BLOCKED, real)
    high_lanes, low_lanes, gain_lanes = np.empty((4, LANES), real), np.empty((4, LANES), real), np.empty(LANES, real)
    member, delta_beta, delta_eta = np.zeros(3, dtype=np.int64), np.zeros(3), np.zeros(3)
    alone, gains, no_mask, sy = np.empty(n, real), np.empty(n, real), np.zeros(n, real), (s * y).astype(real)
    k_diagonal, s_diagonal = np.empty(n, real), np.empty(n, real)
    by_weight, one = real.type(weight), real.type(1.0)
    present = np.array([False, False, True, True])
    has_missing = False
    for t in range(n):
        k_diagonal[t] = K[t, t]
        s_diagonal[t] = weight * S[t, t]
        present[PLUS] |= sy[t] > 0
        present[MINUS] |= sy[t] < 0
        has_missing |= s[t] == 0.0
        open_directions(t, y, s, a, d, upper_a, lower_d, upper_d, rise, fall)
    diagonal = k_diagonal + s_diagonal
    needs_triples = present[MINUS] or has_missing
    typical_k = max(k_diagonal.mean(), TINY_CURVATURE)
    typical_s = max(s_diagonal.mean(), TINY_CURVATURE)
    typical = np.array([typical_k + typical_s, typical_k + typical_s, typical_s, typical_k])
    typical_triple = HANDICAP * (typical_k + 3.0 * typical_s)
    triple, orientation = -1, 1.0
    moved = 0
    iteration = 0
    while True:
        for m in range(0, moved, 2):
            other = min(m + 1, moved - 1)
            second = 1.0 if other > m else 0.0
            i, j = member[m], member[other]
            if delta_beta[m] != 0.0 or delta_beta[other] != 0.0:
                add_rows(P, real.type(-delta_beta[m]), K[i], real.type(-second * delta_beta[other]), K[j])
            if delta_eta[m] != 0.0 or delta_eta[other] != 0.0:
                up, down = real.type(-weight * delta_eta[m]), real.type(-second * weight * delta_eta[other])
                add_rows(N, up, S[i], down, S[j])
        rates_alone(P, N, sy, alone)
        for kind in range(4):
            if present[kind]:
                rates = N if kind == SHIFT else (P if kind == JOINT else alone)
                high[kind] = highest(rates, rise[kind], high_lanes[kind])
                low[kind] = lowest(rates, fall[kind], low_lanes[kind])
        kind, gain, violation = _best_kind(high, low, typical, has_missing)
        triple_gain = 0.0
        if needs_triples:
            triple, orientation, triple_gain, triple_violation = _best_triple(high, low, typical_triple)
            violation = max(violation, triple_violation)
        if violation < tol or iteration >= max_iter or max(gain, triple_gain) <= 0.0:
            break
        if triple_gain > gain:
            moved = 0
            room = 2.0 * BLOCKED
            rate = 0.0
            for k in range(4):
                w = orientation * TRIPLES[triple, k]
                if w == 0.0:
                    continue
                sign = 1.0 if w > 0 else -1.0
                rates = N if k == SHIFT else (P if k == JOINT else alone)
                if sign > 0:
                    t = position(rates, rise[k], high_lanes[k], high[k])
                else:
                    t = position(rates, fall[k], low_lanes[k], low[k])
                rate += w * rates[t]
                room = min(room, room_for(t, k, sign, y, s, a, d, upper_a, lower_d, upper_d) / abs(w))
                member[moved] = t
                delta_beta[moved] = 0.0 if k == SHIFT else w
                delta_eta[moved] = w if k == SHIFT else (0.0 if k == JOINT else w * sy[t])
                moved += 1
            _scale_triple(K, S, weight, rate, room, member, delta_beta, delta_eta)
        else:
            moved = 2
            rates = N if kind == SHIFT else (P if kind == JOINT else alone)
            top = high[kind]
            i = position(rates, rise[kind], high_lanes[kind], top)
            if kind == SHIFT:
                gains_one(top, s_diagonal[i], rates, fall[kind], s_diagonal, by_weight, S[i], gains)
            elif kind == JOINT:
                gains_one(top, k_diagonal[i], rates, fall[kind], k_diagonal, one, K[i], gains)
            else:
                gains_both(top, diagonal[i], rates, fall[kind], diagonal, K[i], by_weight, S[i], gains)
            j = position(gains, no_mask, gain_lanes, highest(gains, no_mask, gain_lanes))
            k_curvature = max(k_diagonal[i] + k_diagonal[j] - 2.0 * K[i, j], TINY_CURVATURE)
            s_curvature = max(s_diagonal[i] + s_diagonal[j] - 2.0 * weight * S[i, j], TINY_CURVATURE)
            beta, eta = pair_change(
                i, j, kind, k_curvature, s_curvature, P, N, sy, y, s, a, d, upper_a, lower_d, upper_d
            )
            member[0], member[1] = i, j
            delta_beta[0], delta_beta[1] = beta, -beta
            delta_eta[0], delta_eta[1] = eta, -eta
        for m in range(moved):
            move_point(member[m], delta_beta[m], delta_eta[m], y, s, a, d, upper_a, lower_d, upper_d)
            open_directions(member[m], y, s, a, d, upper_a, lower_d, upper_d, rise, fall)
        iteration += 1
    return iteration, violation
