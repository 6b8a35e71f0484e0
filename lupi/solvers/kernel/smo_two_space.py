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

from lupi.solvers.kernel.lanes import LANES, highest, lowest, position
from lupi.solvers.kernel.smo_one_space import BLOCKED, TINY_CURVATURE

PLUS, MINUS, SHIFT, JOINT = 0, 1, 2, 3
# Columns of the table above, and the combinations of three kinds that cancel: sum_k weight * column = 0.
TRIPLES = np.array(
    [
        [1.0, -1.0, -2.0, 0.0],
        [1.0, 0.0, -1.0, -1.0],
        [0.0, 1.0, 1.0, -1.0],
        [1.0, 1.0, 0.0, -2.0],
    ]
)


@njit(cache=True, fastmath=True, nogil=True)
def _open_directions(t, y, s, a, d, upper_a, lower_d, upper_d, rise, fall):
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
def _best_in_box(A, B, D, p, q, low_u, high_u, low_e, high_e):
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
def _snap(value, low, high, grain):
    """Values within rounding of a bound are on it: membership tests compare with ==."""
    if value - low <= grain:
        return low
    if high - value <= grain:
        return high
    return value


@njit(cache=True, fastmath=True, nogil=True)
def _room(t, kind, sign, y, s, a, d, upper_a, lower_d, upper_d):
    """How far example t can go in a move of this kind (sign = +1: beta or eta rises)."""
    room = 2.0 * BLOCKED
    if kind != SHIFT:
        room = upper_a[t] - a[t] if sign * y[t] > 0 else a[t]
    if kind == SHIFT:
        room = d[t] - lower_d[t] if sign * s[t] > 0 else upper_d[t] - d[t]
    elif kind == JOINT and s[t] != 0.0:
        room = min(room, upper_d[t] - d[t] if sign * y[t] > 0 else d[t] - lower_d[t])
    return room


# Loops with one output array each: that is what LLVM needs to vectorise them.


@njit(cache=True, fastmath=True, nogil=True)
def _add_rows(target, step, row, step2, row2):
    for t in range(target.shape[0]):
        target[t] += step * row[t] + step2 * row2[t]


@njit(cache=True, fastmath=True, nogil=True)
def _rates_alone(P, N, sy, out):
    for t in range(P.shape[0]):
        out[t] = P[t] + sy[t] * N[t]


@njit(cache=True, fastmath=True, nogil=True)
def _gains_one(top, own, rates, fall, diagonal, weight, row, gains):
    """Gain of pairing with each example, by the exact step without bounds, when one space's curvature counts."""
    for t in range(rates.shape[0]):
        gain = max(top - rates[t] - fall[t], 0.0)
        gains[t] = gain * gain / max(own + diagonal[t] - 2.0 * weight * row[t], TINY_CURVATURE)


@njit(cache=True, fastmath=True, nogil=True)
def _gains_both(top, own, rates, fall, diagonal, row_k, weight, row_s, gains):
    """The same when the curvatures of both spaces count."""
    for t in range(rates.shape[0]):
        gain = max(top - rates[t] - fall[t], 0.0)
        curvature = own + diagonal[t] - 2.0 * (row_k[t] + weight * row_s[t])
        gains[t] = gain * gain / max(curvature, TINY_CURVATURE)


@njit(cache=True, fastmath=True, nogil=True)
def smo_two_space(K, S, weight, y, s, a, d, P, N, upper_a, lower_d, upper_d, tol, max_iter):
    """Ascent over pairs and triples with second-order selection; a, d, P, N are updated in place.

    Parameters
    ----------
    K, S : ndarray of shape (n, n)
        Kernel matrices; the second one counts ``weight`` times.
    y, s : ndarray of shape (n,)
        Signs of a in beta and of a - d in eta; s = 0 where the second space has no row.
    a, d, P, N : ndarray of shape (n,)
        A feasible point, and P = q - K beta, N = -weight * S eta.
    upper_a, lower_d, upper_d : ndarray of shape (n,)
        Bounds (a >= 0); "infinite" is +-1e30.

    Returns
    -------
    n_iter, violation : int, float
    """
    n = y.shape[0]
    rise = np.empty((4, n))
    fall = np.empty((4, n))
    high_lanes = np.empty((4, LANES))
    low_lanes = np.empty((4, LANES))
    gain_lanes = np.empty(LANES)
    alone = np.empty(n)
    gains = np.empty(n)
    no_mask = np.zeros(n)
    sy = s * y
    k_diagonal = np.empty(n)
    s_diagonal = np.empty(n)
    present = np.array([False, False, True, True])
    has_missing = False
    for t in range(n):
        k_diagonal[t] = K[t, t]
        s_diagonal[t] = weight * S[t, t]
        present[PLUS] |= sy[t] > 0
        present[MINUS] |= sy[t] < 0
        has_missing |= s[t] == 0.0
        _open_directions(t, y, s, a, d, upper_a, lower_d, upper_d, rise, fall)
    needs_triples = present[MINUS] or has_missing
    diagonal = k_diagonal + s_diagonal
    typical_k = max(k_diagonal.mean(), TINY_CURVATURE)
    typical_s = max(s_diagonal.mean(), TINY_CURVATURE)
    typical = np.array([typical_k + typical_s, typical_k + typical_s, typical_s, typical_k])
    high = np.full(4, -BLOCKED)
    low = np.full(4, BLOCKED)
    member = np.zeros(3, dtype=np.int64)
    delta_beta = np.zeros(3)
    delta_eta = np.zeros(3)
    moved = 0
    iteration = 0
    violation = 0.0
    while True:
        for m in range(0, moved, 2):
            other = min(m + 1, moved - 1)
            second = 1.0 if other > m else 0.0
            i, j = member[m], member[other]
            _add_rows(P, -delta_beta[m], K[i], -second * delta_beta[other], K[j])
            _add_rows(N, -weight * delta_eta[m], S[i], -second * weight * delta_eta[other], S[j])
        _rates_alone(P, N, sy, alone)
        for kind in range(4):
            if present[kind]:
                rates = N if kind == SHIFT else (P if kind == JOINT else alone)
                high[kind] = highest(rates, rise[kind], high_lanes[kind])
                low[kind] = lowest(rates, fall[kind], low_lanes[kind])
        violation = 0.0
        kind = -1
        best_gain = 0.0
        for c in range(4):
            excess = high[c] - low[c]
            # A joint move is the sum of an "alone" move and a shift: it saves steps, but proves nothing by itself
            # unless rows are missing.
            if c != JOINT or has_missing:
                violation = max(violation, excess)
            if excess > 0 and excess * excess / typical[c] > best_gain:
                best_gain = excess * excess / typical[c]
                kind = c
        triple = -1
        orientation = 1.0
        if needs_triples:
            for c in range(4):
                for o in (1.0, -1.0):
                    excess = 0.0
                    size = 0.0
                    for k in range(4):
                        w = o * TRIPLES[c, k]
                        size += abs(w)
                        if w > 0:
                            excess += w * high[k]
                        elif w < 0:
                            excess += w * low[k]
                    if excess > 0:
                        violation = max(violation, 2.0 * excess / size)
                        gain = excess * excess / (typical_k + 3.0 * typical_s)
                        if gain > best_gain:
                            best_gain = gain
                            triple = c
                            orientation = o
        if violation < tol or iteration >= max_iter or best_gain <= 0.0:
            break
        if triple >= 0:
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
                room = min(room, _room(t, k, sign, y, s, a, d, upper_a, lower_d, upper_d) / abs(w))
                member[moved] = t
                delta_beta[moved] = 0.0 if k == SHIFT else w
                delta_eta[moved] = w if k == SHIFT else (0.0 if k == JOINT else w * sy[t])
                moved += 1
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
        else:
            rates = N if kind == SHIFT else (P if kind == JOINT else alone)
            top = high[kind]
            i = position(rates, rise[kind], high_lanes[kind], top)
            if kind == SHIFT:
                _gains_one(top, s_diagonal[i], rates, fall[kind], s_diagonal, weight, S[i], gains)
            elif kind == JOINT:
                _gains_one(top, k_diagonal[i], rates, fall[kind], k_diagonal, 1.0, K[i], gains)
            else:
                _gains_both(top, diagonal[i], rates, fall[kind], diagonal, K[i], weight, S[i], gains)
            j = position(gains, no_mask, gain_lanes, highest(gains, no_mask, gain_lanes))
            k_curvature = max(k_diagonal[i] + k_diagonal[j] - 2.0 * K[i, j], TINY_CURVATURE)
            s_curvature = max(s_diagonal[i] + s_diagonal[j] - 2.0 * weight * S[i, j], TINY_CURVATURE)
            moved = 2
            member[0], member[1] = i, j
            if sy[i] == sy[j] and sy[i] != 0.0:
                # Both a and d of both examples: a_i += y_i u, d_i += y_i e, and the opposite for j.
                low_u = max(-a[i] if y[i] > 0 else a[i] - upper_a[i], a[j] - upper_a[j] if y[j] > 0 else -a[j])
                high_u = min(upper_a[i] - a[i] if y[i] > 0 else a[i], a[j] if y[j] > 0 else upper_a[j] - a[j])
                low_e = max(
                    lower_d[i] - d[i] if y[i] > 0 else d[i] - upper_d[i],
                    d[j] - upper_d[j] if y[j] > 0 else lower_d[j] - d[j],
                )
                high_e = min(
                    upper_d[i] - d[i] if y[i] > 0 else d[i] - lower_d[i],
                    d[j] - lower_d[j] if y[j] > 0 else upper_d[j] - d[j],
                )
                sign = sy[i]
                u, e = _best_in_box(
                    k_curvature + s_curvature,
                    -s_curvature,
                    s_curvature,
                    P[i] - P[j] + sign * (N[i] - N[j]),
                    -sign * (N[i] - N[j]),
                    low_u,
                    high_u,
                    low_e,
                    high_e,
                )
                beta, eta = u, sign * (u - e)
            else:
                room = min(
                    _room(i, kind, 1.0, y, s, a, d, upper_a, lower_d, upper_d),
                    _room(j, kind, -1.0, y, s, a, d, upper_a, lower_d, upper_d),
                )
                if kind == SHIFT:
                    beta, eta = 0.0, min((N[i] - N[j]) / s_curvature, room)
                else:
                    beta, eta = min((P[i] - P[j]) / k_curvature, room), 0.0
            delta_beta[0], delta_beta[1] = beta, -beta
            delta_eta[0], delta_eta[1] = eta, -eta
        for m in range(moved):
            t = member[m]
            da = y[t] * delta_beta[m]
            grain = 1e-13 * min(upper_a[t], upper_d[t] if s[t] != 0.0 else upper_a[t])
            a[t] = _snap(a[t] + da, 0.0, upper_a[t], grain)
            if s[t] != 0.0:
                d[t] = _snap(d[t] + da - s[t] * delta_eta[m], lower_d[t], upper_d[t], grain)
            _open_directions(t, y, s, a, d, upper_a, lower_d, upper_d, rise, fall)
        iteration += 1
    return iteration, violation
