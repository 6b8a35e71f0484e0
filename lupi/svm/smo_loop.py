"""The compiled loop of sequential minimal optimization, for every :class:`~lupi.svm.kernel_qp.KernelQP`.

Slots are the places where a variable can move: a row holds one variable per example, or two of them that move together.
Slots with the same column of bias coefficients are of one kind. Two slots of a kind form a pair, and a few slots of kinds
whose columns cancel form a circuit. Both leave every sum of coefficients unchanged, and no other directions are needed.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numba import njit

# Added to a value to exclude it from a maximum; finite, because fastmath assumes that nothing is infinite.
BLOCKED = 1e30
TINY_CURVATURE = 1e-12
# In single precision, constants leave the precision of the arrays unchanged.
NOTHING, LEAST = np.float32(0.0), np.float32(TINY_CURVATURE)
# Running maxima of every 32nd entry: LLVM vectorizes these, but not the maximum of an array.
LANES = 32
# Relative distance from a bound that counts as rounding.
ROUNDING = 1e-13
MOST_MEMBERS = 4
# Entries of ``Slots.box``.
SIGN, X, LOWER, UPPER, RIDGE = 0, 1, 2, 3, 4


# All arrays are passed in: without reference counts, which would take a fifth of the time of short steps.
_compiled = partial(njit, cache=True, nogil=True, error_model="numpy", _nrt=False)
# Functions that only compiled code calls need no wrappers, which take time to compile.
_inner = partial(_compiled, no_cpython_wrapper=True, no_cfunc_wrapper=True)


class Slots(NamedTuple):
    """Arrays of the loop, over n examples, rows of slots, and layers: the slots of one kind in a row.

    Attributes
    ----------
    rate : ndarray of shape (n_rows + 1, n)
        Derivative of the dual value along the kind; the last row is memory.
    c : ndarray of shape (n_spaces, n_rows, n)
        Change of the space's coefficient along the kind.
    spaces : int ndarray of shape (2, n_rows)
        The spaces that the slots lie in: one with coefficients 1, and another one, or the same again.
    diagonal : ndarray of shape (n_rows, n)
        Curvature along the slot.
    box : ndarray of shape (5, n_alone, n)
        Of a variable: change along its kind, value, lower and upper bound, ridge. Rows of two variables come after these rows.
    moved : int ndarray of shape (2, n_rows)
        Rows of the two variables that move, or of one and -1.
    share : ndarray of shape (2, n_rows, n)
        How far they move along the kinds of their own rows.
    layer : int ndarray of shape (n_rows, n)
        Layer of the slot, or -1 where there is none.
    layers : int ndarray of shape (2, n_layers)
        Row and kind of a layer.
    mask : ndarray of shape (2, n_layers + 1, n)
        0 where the slot can move along its kind, and where it can move against it; -BLOCKED elsewhere. 0 in the last layer.
    moves : ndarray of shape (2, n_moves, n_kinds)
        Steps of each move along its kinds, and against them: first the pair of each kind, then the circuits.
    worth : ndarray of shape (2, n_moves)
        Factors of the slope of a move in the violation, and of its square in the expected gain.
    """

    rate: Any
    c: Any
    spaces: Any
    diagonal: Any
    box: Any
    moved: Any
    share: Any
    layer: Any
    layers: Any
    mask: Any
    moves: Any
    worth: Any


@_compiled(fastmath=True)
def highest(rate: np.ndarray, r: int, mask: np.ndarray, side: int, l: int, lanes: np.ndarray) -> float:
    """Maximum of a row of rates (side 0), or of their negatives (1), where the mask is 0; lanes keep those of every LANES-th."""
    n = rate.shape[1]
    sign = rate.dtype.type(1.0 - 2.0 * side)
    values, open_, best = rate[r], mask[side, l], lanes[side, l]
    for k in range(LANES):
        best[k] = -2.0 * BLOCKED
    many = n - n % (4 * LANES)
    # Four blocks at a time: the lanes themselves are read and written a quarter as often.
    for start in range(0, many, 4 * LANES):
        v, o = values[start : start + 4 * LANES], open_[start : start + 4 * LANES]
        for k in range(LANES):
            first = max(sign * v[k] + o[k], sign * v[k + LANES] + o[k + LANES])
            second = max(sign * v[k + 2 * LANES] + o[k + 2 * LANES], sign * v[k + 3 * LANES] + o[k + 3 * LANES])
            best[k] = max(best[k], max(first, second))
    full = n - n % LANES
    for start in range(many, full, LANES):
        v, o = values[start : start + LANES], open_[start : start + LANES]
        for k in range(LANES):
            best[k] = max(best[k], sign * v[k] + o[k])
    for t in range(full, n):
        best[t - full] = max(best[t - full], sign * values[t] + open_[t])
    # Four at a time again: a comparison takes longer to finish than to begin.
    a, b, c, d = best[0], best[1], best[2], best[3]
    for k in range(4, LANES, 4):
        a, b, c, d = max(a, best[k]), max(b, best[k + 1]), max(c, best[k + 2]), max(d, best[k + 3])
    return max(max(a, b), max(c, d))


@_compiled(fastmath=True)
def position(rate: np.ndarray, r: int, mask: np.ndarray, side: int, l: int, lanes: np.ndarray, extreme: float) -> int:
    """Example at which the maximum that ``highest`` returned is reached."""
    sign = rate.dtype.type(1.0 - 2.0 * side)
    for k in range(LANES):
        if lanes[side, l, k] == extreme:
            for t in range(k, rate.shape[1], LANES):
                if sign * rate[r, t] + mask[side, l, t] == extreme:
                    return t
    return 0


@_inner(fastmath=True)
def _pair_gains(
    rate: np.ndarray, top: float, r: int, mask: np.ndarray, l: int, own: float, diagonal: np.ndarray, a: float,
    K: np.ndarray, t: int,
) -> None:  # fmt: skip
    """Twice the gain of a pair with each slot of a row, by the exact step without bounds, in one space; into the last row."""
    last = rate.shape[0] - 1
    for u in range(rate.shape[1]):
        gain = top - rate[r, u] + mask[1, l, u]
        curvature = own + diagonal[r, u] - a * K[t, u]
        gain = gain if gain > NOTHING else NOTHING
        rate[last, u] = gain * gain / (curvature if curvature > LEAST else LEAST)


@_inner(fastmath=True)
def _pair_gains_in_two(
    rate: np.ndarray, top: float, r: int, mask: np.ndarray, l: int, own: float, diagonal: np.ndarray, a: float,
    K: np.ndarray, b: float, c: np.ndarray, m: int, S: np.ndarray, t: int,
) -> None:  # fmt: skip
    """The same in two spaces; the coefficients in the second may differ between the slots."""
    last = rate.shape[0] - 1
    for u in range(rate.shape[1]):
        gain = top - rate[r, u] + mask[1, l, u]
        curvature = own + diagonal[r, u] - a * K[t, u] - b * c[m, r, u] * S[t, u]
        gain = gain if gain > NOTHING else NOTHING
        rate[last, u] = gain * gain / (curvature if curvature > LEAST else LEAST)


@_inner(fastmath=True)
def _add_rows(rate: np.ndarray, r: int, K: np.ndarray, a: float, t: int, b: float, u: int) -> None:
    for v in range(rate.shape[1]):
        rate[r, v] += a * K[t, v] + b * K[u, v]


@_inner(fastmath=True)
def _add_rows_of_two(
    rate: np.ndarray, r: int, K: np.ndarray, a: float, b: float, c: np.ndarray, m: int, S: np.ndarray, d: float,
    e: float, t: int, u: int,
) -> None:  # fmt: skip
    """The same in two spaces; the coefficients in the second may differ between the slots."""
    for v in range(rate.shape[1]):
        rate[r, v] += a * K[t, v] + b * K[u, v] + c[m, r, v] * (d * S[t, v] + e * S[u, v])


@_inner()
def _room(box: np.ndarray, moved: np.ndarray, share: np.ndarray, r: int, t: int, way: float) -> float:
    """Longest step of a slot that its bounds allow, when it changes by ``way`` per unit step."""
    room = 2.0 * BLOCKED
    for part in range(2):
        q = moved[part, r]
        change = way * share[part, r, t] * box[SIGN, q, t]
        if change != 0.0:
            left = (box[UPPER if change > 0.0 else LOWER, q, t] - box[X, q, t]) / change
            room = left if left < room else room
    return room


@_inner()
def _move(rate: np.ndarray, box: np.ndarray, moved: np.ndarray, share: np.ndarray, r: int, t: int, step: float) -> None:
    """Move the variables of a slot, onto a bound that they come within rounding of."""
    for part in range(2):
        q = moved[part, r]
        along = step * share[part, r, t]
        if along != 0.0:
            value = box[X, q, t] + box[SIGN, q, t] * along
            grain = ROUNDING * (abs(value) + abs(along))
            if value - box[LOWER, q, t] <= grain:
                value = box[LOWER, q, t]
            elif box[UPPER, q, t] - value <= grain:
                value = box[UPPER, q, t]
            box[X, q, t] = value
            rate[q, t] -= box[RIDGE, q, t] * along


@_inner()
def _open_directions(
    box: np.ndarray, moved: np.ndarray, share: np.ndarray, layer: np.ndarray, mask: np.ndarray, t: int,
    touched: np.ndarray,
) -> None:  # fmt: skip
    """Mark which slots of an example can move, and the rows in which that has changed."""
    for r in range(layer.shape[0]):
        l = layer[r, t]
        if l >= 0:
            for side in range(2):
                value = 0.0 if _room(box, moved, share, r, t, 1.0 - 2.0 * side) > 0.0 else -BLOCKED
                if value != mask[side, l, t]:
                    mask[side, l, t] = value
                    touched[r] = True


@_inner()
def _step(
    K: tuple[np.ndarray, ...], weight: np.ndarray, rate: np.ndarray, c: np.ndarray, box: np.ndarray, moved: np.ndarray,
    share: np.ndarray, size: int, rows: np.ndarray, at: np.ndarray, w: np.ndarray, spots: np.ndarray,
    change: np.ndarray,
) -> tuple[int, float]:  # fmt: skip
    """Number of examples that move along a combination of slots, with the best step that their bounds allow."""
    count = 0
    slope = curvature = 0.0
    room = 2.0 * BLOCKED
    for a in range(size):
        r, t, along = rows[a], at[a], w[a]
        e = 0
        while e < count and spots[e] != t:
            e += 1
        if e == count:
            spots[e] = t
            for m in range(weight.shape[0]):
                change[m, e] = 0.0
            count += 1
        for m in range(weight.shape[0]):
            change[m, e] -= weight[m] * along * c[m, r, t]
        one = moved[0, r]
        slope += along * rate[r, t]
        curvature += along * along * box[RIDGE, one, t]
        members = 1.0
        for b in range(size):
            # Two members that move a common variable share its room.
            lead, follower = moved[0, rows[b]], moved[1, rows[b]]
            if a != b and t == at[b] and (lead == one or lead == moved[1, r] or follower == one):
                members *= 2.0
        free = _room(box, moved, share, r, t, along) / members
        room = free if free < room else room
    for m in range(weight.shape[0]):
        matrix = K[m]
        for e in range(count):
            for f in range(count):
                curvature += change[m, e] * change[m, f] / weight[m] * matrix[spots[e], spots[f]]
    best = slope / (curvature if curvature > TINY_CURVATURE else TINY_CURVATURE)
    return count, best if best < room else room


@_inner()
def _update(
    K: tuple[np.ndarray, ...], rate: np.ndarray, c: np.ndarray, spaces: np.ndarray, count: int, spots: np.ndarray,
    change: np.ndarray, step: float, touched: np.ndarray,
) -> None:  # fmt: skip
    """Rates after a step along a change of the coefficients of some examples."""
    real = rate.dtype.type
    if count % 2 == 1:
        spots[count] = spots[count - 1]
        for m in range(change.shape[0]):
            change[m, count] = 0.0
    for a in range(0, count, 2):
        t, u = spots[a], spots[a + 1]
        for r in range(touched.shape[0]):
            one, two = spaces[0, r], spaces[1, r]
            first, second = real(step * change[one, a]), real(step * change[one, a + 1])
            third, fourth = real(step * change[two, a]), real(step * change[two, a + 1])
            if two != one and (third != 0.0 or fourth != 0.0):
                _add_rows_of_two(rate, r, K[one], first, second, c, two, K[two], third, fourth, t, u)
                touched[r] = True
            elif first != 0.0 or second != 0.0:
                _add_rows(rate, r, K[one], first, t, second, u)
                touched[r] = True


@_inner()
def _partner(
    K: tuple[np.ndarray, ...], weight: np.ndarray, rate: np.ndarray, c: np.ndarray, spaces: np.ndarray,
    diagonal: np.ndarray, layers: np.ndarray, mask: np.ndarray, k: int, i: int, t: int, lanes: np.ndarray,
    found: np.ndarray,
) -> None:  # fmt: skip
    """Find the row and the example of the slot with which slot (i, t) of kind k gains most."""
    # As numbers of an array, positions have one type: literals would compile the functions below again.
    best, real = -1.0, rate.dtype.type
    n_layers, last = layers.shape[1], rate.shape[0] - 1
    top, own = rate[i, t], diagonal[i, t]
    for l in range(n_layers):
        if layers[1, l] != k:
            continue
        r = layers[0, l]
        one, two = spaces[0, r], spaces[1, r]
        a, b = real(2.0 * weight[one] * c[one, i, t]), real(2.0 * weight[two] * c[two, i, t])
        if two == one or b == 0.0:
            _pair_gains(rate, top, r, mask, l, own, diagonal, a, K[one], t)
        else:
            _pair_gains_in_two(rate, top, r, mask, l, own, diagonal, a, K[one], b, c, two, K[two], t)
        gain = highest(rate, last, mask, 0 * l, n_layers, lanes)
        if gain > best:
            best, found[0] = gain, r
            found[1] = position(rate, last, mask, 0 * l, n_layers, lanes, gain)


@_compiled()
def smo_loop(
    K: tuple[np.ndarray, ...], weight: np.ndarray, slots: Slots, tol: float, max_iter: int, lanes: np.ndarray,
    extremes: np.ndarray, where: np.ndarray, change: np.ndarray, touched: np.ndarray,
) -> tuple[int, float]:  # fmt: skip
    """Ascent over pairs and circuits with second-order selection; the slots are updated in place.

    Stops at a violation below ``tol``, or after ``max_iter`` steps; returns the number of steps and the violation. ``K`` are the
    kernel matrices before their weights. The last arguments are memory: see :meth:`~lupi.svm.smo.SMOState.run`.
    """
    rate, c, spaces, diagonal, box, moved, share, layer, layers, mask, moves, worth = slots
    n_layers, n_kinds = layers.shape[1], moves.shape[2]
    top, bottom, w = extremes[0], extremes[1], extremes[2]
    rows, at, spots, found = where[0], where[1], where[2], where[3]
    for t in range(rate.shape[1]):
        _open_directions(box, moved, share, layer, mask, t, touched)
    iteration = 0
    while True:
        # Of each kind and side, the largest slope and its layer.
        for k in range(n_kinds):
            top[k] = bottom[k] = -BLOCKED
        for l in range(n_layers):
            r, k = layers[0, l], layers[1, l]
            for side in range(2):
                if touched[r]:
                    extremes[3 + side, l] = highest(rate, r, mask, side, l, lanes)
                if extremes[3 + side, l] > extremes[side, k]:
                    extremes[side, k], where[4 + side, k] = extremes[3 + side, l], l
        chosen, score, violation = -1, 0.0, 0.0
        for q in range(moves.shape[1]):
            slope = 0.0
            for k in range(n_kinds):
                slope += moves[0, q, k] * top[k] + moves[1, q, k] * bottom[k]
            if slope * worth[0, q] > violation:
                violation = slope * worth[0, q]
            if slope > 0.0 and slope * slope * worth[1, q] > score:
                chosen, score = q, slope * slope * worth[1, q]
        if violation < tol or iteration >= max_iter or chosen < 0:
            break
        # As a number of an array, it has one type: a literal would compile the functions below again.
        size = rows[0] * 0
        for k in range(n_kinds):
            for side in range(2):
                if moves[side, chosen, k] > 0.0:
                    l = where[4 + side, k]
                    rows[size], w[size] = layers[0, l], (1.0 - 2.0 * side) * moves[side, chosen, k]
                    if side and chosen < n_kinds:
                        _partner(
                            K, weight, rate, c, spaces, diagonal, layers, mask, k, rows[0], at[0], lanes, found
                        )  # fmt: skip
                        rows[size], at[size] = found[0], found[1]
                    else:
                        at[size] = position(rate, rows[size], mask, side, l, lanes, extremes[side, k])
                    size += 1
        count, step = _step(K, weight, rate, c, box, moved, share, size, rows, at, w, spots, change)
        for r in range(touched.shape[0]):
            touched[r] = False
        for a in range(size):
            _move(rate, box, moved, share, rows[a], at[a], step * w[a])
        for a in range(count):
            _open_directions(box, moved, share, layer, mask, spots[a], touched)
        _update(K, rate, c, spaces, count, spots, change, step, touched)
        iteration += 1
    return iteration, violation
