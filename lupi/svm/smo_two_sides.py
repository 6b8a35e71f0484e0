r"""Sequential minimal optimization for SVR+: both sides of the tube, each with its own correcting function.

Every example appears twice, once a side, with :math:`y = +1` on the first side and -1 on the second; all that is said about
one example in :mod:`lupi.svm.smo_two_space` holds for each of these rows. There are three sums that stay as they
are, of :math:`\beta = a_1 - a_2` and of :math:`\eta_k = a_k - d_k`:

========  ==================================  ==========================
kind      what moves in a row                 (beta, eta 1, eta 2)
========  ==================================  ==========================
ALONE_1   a of the first side                 (1, 1, 0)
ALONE_2   a of the second side                (1, 0, -1)
SHIFT_1   d of the first side                 (0, 1, 0)
SHIFT_2   d of the second side                (0, 0, 1)
BOTH      a and d together; a without row     (1, 0, 0)
========  ==================================  ==========================

Two rows of one kind make a pair; three or four of different kinds whose columns cancel make a cycle. Every direction that
leaves the sums alone is made of pairs and cycles, so where none of them gains the point is optimal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from lupi.solution import run_in_slices
from lupi.svm import KernelQP
from lupi.svm.lanes import LANES, highest, lowest, position
from lupi.svm.smo_one_space import BLOCKED, TINY_CURVATURE
from lupi.svm.smo_two_space import add_rows, gains_both, gains_one, pair_change, rates_alone
from lupi.svm.two_space_box import JOINT, MINUS, PLUS, SHIFT, move_point, open_directions, room_for

ALONE_1, ALONE_2, SHIFT_1, SHIFT_2, BOTH = 0, 1, 2, 3, 4
# What the boxes call them.
BOXED_AS = np.array([PLUS, MINUS, SHIFT, SHIFT, JOINT])
# The combinations of different kinds whose columns in the table above cancel: sum_k weight * column = 0.
CYCLES = np.array(
    [
        [1.0, 0.0, -1.0, 0.0, -1.0],
        [0.0, 1.0, 0.0, 1.0, -1.0],
        [1.0, -1.0, -1.0, -1.0, 0.0],
    ]
)
# Elementary operations of one row in a step.
STEP_OPERATIONS = 4


@dataclass
class TwoSidesState:
    """Arrays of the kernel below: the point, the fields and the bounds, one entry per row; the first side comes first."""

    weight: float
    y: np.ndarray
    s: np.ndarray
    a: np.ndarray
    d: np.ndarray
    P: np.ndarray
    N: np.ndarray
    upper_a: np.ndarray
    lower_d: np.ndarray
    upper_d: np.ndarray

    @classmethod
    def of(cls, problem: KernelQP, x: np.ndarray, fields: list[np.ndarray] | None = None) -> TwoSidesState:
        """State at the point x, whose fields may be known."""
        n = problem.n_examples
        corrected = len(problem.spaces) > 1
        known = _rows_of_d(problem)

        def spread(values: np.ndarray) -> np.ndarray:
            out = np.zeros(2 * n)
            out[known] = values
            return out

        y = problem.coef[0, : 2 * n].copy()
        if fields is None:
            fields = problem.fields(x) if x.any() else [np.zeros(n) for _ in problem.spaces]
        return cls(
            weight=problem.spaces[1].weight if corrected else 0.0,
            y=y,
            s=spread(np.ones(len(known))),
            a=x[: 2 * n].copy(),
            d=spread(x[2 * n :]),
            P=y * problem.p[: 2 * n] - np.tile(fields[0], 2),
            N=-np.concatenate(fields[1:]) if corrected else np.zeros(2 * n),
            upper_a=np.minimum(problem.upper[: 2 * n], BLOCKED),
            lower_d=spread(np.maximum(problem.lower[2 * n :], -BLOCKED)),
            upper_d=spread(np.minimum(problem.upper[2 * n :], BLOCKED)),
        )

    def part(self, index: np.ndarray) -> TwoSidesState:
        """Copy of some examples' entries on both sides."""
        rows = self._rows(index)
        arrays = {name: value[rows] for name, value in vars(self).items() if name != "weight"}
        return TwoSidesState(weight=self.weight, **arrays)

    def put(self, index: np.ndarray, part: TwoSidesState) -> None:
        """Take over the point of some examples."""
        rows = self._rows(index)
        self.a[rows], self.d[rows] = part.a, part.d

    def _rows(self, index: np.ndarray) -> np.ndarray:
        return np.concatenate([index, index + len(self.y) // 2])

    @staticmethod
    def matrices(problem: KernelQP, single: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Both kernel matrices, the second one before its weight; the first one again where there is no second."""
        privileged = problem.spaces[-1]
        return problem.spaces[0].weighted(single), privileged.rounded if single else privileged.dense

    @staticmethod
    def blocks(problem: KernelQP, blocks: list[np.ndarray], index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same for some examples' blocks of them."""
        weight = problem.spaces[0].weight
        return (blocks[0] if weight == 1.0 else weight * blocks[0]), blocks[-1]

    def run(self, K: np.ndarray, S: np.ndarray, tol: float, limit: int) -> tuple[int, float]:
        """Iterate on these matrices; returns the number of steps and the violation."""

        def steps(part: int) -> tuple[int, float]:
            return smo_two_sides(
                K, S, self.weight, self.y, self.s, self.a, self.d, self.P, self.N,
                self.upper_a, self.lower_d, self.upper_d, tol, part,
            )  # fmt: skip

        return run_in_slices(steps, limit, work=STEP_OPERATIONS * len(self.y))

    def variables(self, problem: KernelQP) -> np.ndarray:
        """The point in the problem's order."""
        return np.concatenate([self.a, self.d[_rows_of_d(problem)]])


def _rows_of_d(problem: KernelQP) -> np.ndarray:
    """Rows of the variables d, in the problem's order."""
    n = problem.n_examples
    known = problem.example[2 * n :]
    first = len(known) // 2
    return np.concatenate([known[:first], known[first:] + n])


@njit(cache=True, fastmath=True, nogil=True, inline="always")
def _rows_of(kind: int, n: int) -> tuple[int, int]:
    """Where the rows of a kind begin and end."""
    if kind == BOTH:
        return 0, 2 * n
    return (0, n) if kind in (ALONE_1, SHIFT_1) else (n, 2 * n)


@njit(cache=True, fastmath=True, nogil=True, inline="always")
def _best_cycle(high: np.ndarray, low: np.ndarray, curvature: float) -> tuple[int, float, float, float]:
    """The cycle that promises most (-1 for none), its orientation, the gain, and the largest violation of a cycle."""
    violation = 0.0
    best_gain = 0.0
    cycle = -1
    best_orientation = 1.0
    for c in range(CYCLES.shape[0]):
        for orientation in (1.0, -1.0):
            excess = 0.0
            size = 0.0
            for k in range(5):
                w = orientation * CYCLES[c, k]
                size += abs(w)
                if w > 0:
                    excess += w * high[k]
                elif w < 0:
                    excess += w * low[k]
            if excess > 0:
                violation = max(violation, 2.0 * excess / size)
                if excess * excess / curvature > best_gain:
                    best_gain = excess * excess / curvature
                    cycle = c
                    best_orientation = orientation
    return cycle, best_orientation, best_gain, violation


@njit(cache=True, fastmath=True, nogil=True, inline="always")
def _scale_cycle(
    K: np.ndarray,
    S: np.ndarray,
    weight: float,
    rate: float,
    room: float,
    moved: int,
    member: np.ndarray,
    delta_beta: np.ndarray,
    delta_eta: np.ndarray,
) -> None:
    """Make a direction along several rows the best step that there is room for."""
    n = K.shape[0]
    shared = False
    curvature = 0.0
    for u in range(moved):
        for v in range(moved):
            i, j = member[u], member[v]
            shared |= u != v and i == j
            curvature += delta_beta[u] * delta_beta[v] * K[i % n, j % n]
            if (i < n) == (j < n):
                curvature += weight * delta_eta[u] * delta_eta[v] * S[i % n, j % n]
    # Two kinds may have chosen the same row: its room is shared, so a safe half is taken then.
    if shared:
        room *= 0.5
    step = min(rate / max(curvature, TINY_CURVATURE), room)
    for u in range(moved):
        delta_beta[u] *= step
        delta_eta[u] *= step


@njit(cache=True, fastmath=True, nogil=True, inline="always")
def _update(
    K: np.ndarray,
    S: np.ndarray,
    weight: float,
    moved: int,
    member: np.ndarray,
    delta_beta: np.ndarray,
    delta_eta: np.ndarray,
    P: np.ndarray,
    N: np.ndarray,
) -> None:
    """Rates of all rows after a step."""
    n = K.shape[0]
    for m in range(0, moved, 2):
        other = min(m + 1, moved - 1)
        second = 1.0 if other > m else 0.0
        i, j = member[m], member[other]
        up, down = -delta_beta[m], -second * delta_beta[other]
        if up != 0.0 or down != 0.0:
            add_rows(P[:n], up, K[i % n], down, K[j % n])
            add_rows(P[n:], up, K[i % n], down, K[j % n])
    for m in range(moved):
        if delta_eta[m] != 0.0:
            i = member[m]
            own = N[:n] if i < n else N[n:]
            add_rows(own, -weight * delta_eta[m], S[i % n], 0.0, S[i % n])


@njit(cache=True, fastmath=True, nogil=True, inline="always")
def _partner(
    kind: int,
    i: int,
    top: float,
    rates: np.ndarray,
    fall: np.ndarray,
    K: np.ndarray,
    S: np.ndarray,
    weight: float,
    k_diagonal: np.ndarray,
    s_diagonal: np.ndarray,
    gains: np.ndarray,
    lanes: np.ndarray,
    no_mask: np.ndarray,
) -> int:
    """The row with which row i of a kind gains most."""
    n = K.shape[0]
    e = i % n
    begin, end = _rows_of(kind, n)
    if kind == BOTH:
        gains_one(top, k_diagonal[e], rates[n:], fall[n:], k_diagonal, 1.0, K[e], gains[n:])
        gains_one(top, k_diagonal[e], rates[:n], fall[:n], k_diagonal, 1.0, K[e], gains[:n])
    elif kind >= SHIFT_1:
        gains_one(top, s_diagonal[e], rates[begin:end], fall[begin:end], s_diagonal, weight, S[e], gains[begin:end])
    else:
        own, diagonal = k_diagonal[e] + s_diagonal[e], k_diagonal + s_diagonal
        gains_both(top, own, rates[begin:end], fall[begin:end], diagonal, K[e], weight, S[e], gains[begin:end])
    part, mask = gains[begin:end], no_mask[begin:end]
    return begin + position(part, mask, lanes, highest(part, mask, lanes))


@njit(cache=True, fastmath=True, nogil=True)
def smo_two_sides(
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
    """Ascent over pairs and cycles with second-order selection; a, d, P, N are updated in place.

    Parameters
    ----------
    K, S : ndarray of shape (n, n)
        Kernel matrices; the second one counts ``weight`` times.
    y, s : ndarray of shape (2 n,)
        1 on the first side and -1 on the second; 1, or 0 where there is no privileged row.
    a, d, P, N : ndarray of shape (2 n,)
        A feasible point, and P = y p - K beta, N = -weight * S eta of the row's side.
    upper_a, lower_d, upper_d : ndarray of shape (2 n,)
        Bounds (a >= 0); "infinite" is +-1e30.

    Returns
    -------
    n_iter, violation : int, float
    """
    n = K.shape[0]
    rise, fall, high, low = np.empty((4, 2 * n)), np.empty((4, 2 * n)), np.full(5, -BLOCKED), np.full(5, BLOCKED)
    high_lanes, low_lanes, lanes = np.empty((5, LANES)), np.empty((5, LANES)), np.empty(LANES)
    member, delta_beta, delta_eta = np.zeros(4, dtype=np.int64), np.zeros(4), np.zeros(4)
    alone, gains, no_mask, sy = np.empty(2 * n), np.empty(2 * n), np.zeros(2 * n), s * y
    k_diagonal, s_diagonal = np.empty(n), np.empty(n)
    has_missing, corrected = False, False
    for t in range(n):
        k_diagonal[t] = K[t, t]
        s_diagonal[t] = weight * S[t, t]
    for t in range(2 * n):
        has_missing |= s[t] == 0.0
        corrected |= s[t] != 0.0
        open_directions(t, y, s, a, d, upper_a, lower_d, upper_d, rise, fall)
    typical_k = max(k_diagonal.mean(), TINY_CURVATURE)
    typical_s = max(s_diagonal.mean(), TINY_CURVATURE)
    typical = np.array([typical_k + typical_s, typical_k + typical_s, typical_s, typical_s, typical_k])
    cycle, orientation, cycle_gain = -1, 1.0, 0.0
    moved = 0
    iteration = 0
    violation = 0.0
    while True:
        _update(K, S, weight, moved, member, delta_beta, delta_eta, P, N)
        if corrected:
            rates_alone(P, N, sy, alone)
        kind, gain, violation = -1, 0.0, 0.0
        for k in range(5):
            if k != BOTH and not corrected:
                continue
            begin, end = _rows_of(k, n)
            rates = P if k == BOTH else (alone if k <= ALONE_2 else N)
            high[k] = highest(rates[begin:end], rise[BOXED_AS[k], begin:end], high_lanes[k])
            low[k] = lowest(rates[begin:end], fall[BOXED_AS[k], begin:end], low_lanes[k])
            excess = high[k] - low[k]
            # BOTH is the sum of ALONE and SHIFT: it saves steps, but proves nothing by itself unless rows are missing.
            if k != BOTH or has_missing:
                violation = max(violation, excess)
            if excess > 0 and excess * excess / typical[k] > gain:
                gain = excess * excess / typical[k]
                kind = k
        if corrected:
            cycle, orientation, cycle_gain, excess = _best_cycle(high, low, typical_k + 3.0 * typical_s)
            violation = max(violation, excess)
        if violation < tol or iteration >= max_iter or max(gain, cycle_gain) <= 0.0:
            break
        if cycle_gain > gain:
            moved, room, rate = 0, 2.0 * BLOCKED, 0.0
            for k in range(5):
                w = orientation * CYCLES[cycle, k]
                if w == 0.0:
                    continue
                begin, end = _rows_of(k, n)
                rates = P if k == BOTH else (alone if k <= ALONE_2 else N)
                if w > 0:
                    t = begin + position(rates[begin:end], rise[BOXED_AS[k], begin:end], high_lanes[k], high[k])
                else:
                    t = begin + position(rates[begin:end], fall[BOXED_AS[k], begin:end], low_lanes[k], low[k])
                rate += w * rates[t]
                room = min(room, room_for(t, BOXED_AS[k], w, y, s, a, d, upper_a, lower_d, upper_d))
                member[moved] = t
                delta_beta[moved] = w if k <= ALONE_2 or k == BOTH else 0.0
                delta_eta[moved] = w * sy[t] if k <= ALONE_2 else (0.0 if k == BOTH else w)
                moved += 1
            _scale_cycle(K, S, weight, rate, room, moved, member, delta_beta, delta_eta)
        else:
            moved = 2
            begin, end = _rows_of(kind, n)
            rates = P if kind == BOTH else (alone if kind <= ALONE_2 else N)
            top, name = high[kind], BOXED_AS[kind]
            i = begin + position(rates[begin:end], rise[name, begin:end], high_lanes[kind], top)
            j = _partner(kind, i, top, rates, fall[name], K, S, weight, k_diagonal, s_diagonal, gains, lanes, no_mask)
            e, f = i % n, j % n
            k_curvature = max(k_diagonal[e] + k_diagonal[f] - 2.0 * K[e, f], TINY_CURVATURE)
            s_curvature = max(s_diagonal[e] + s_diagonal[f] - 2.0 * weight * S[e, f], TINY_CURVATURE)
            beta, eta = pair_change(
                i, j, name, k_curvature, s_curvature, P, N, sy, y, s, a, d, upper_a, lower_d, upper_d
            )
            member[0], member[1] = i, j
            delta_beta[0], delta_beta[1] = beta, -beta
            delta_eta[0], delta_eta[1] = eta, -eta
        for m in range(moved):
            move_point(member[m], delta_beta[m], delta_eta[m], y, s, a, d, upper_a, lower_d, upper_d)
            open_directions(member[m], y, s, a, d, upper_a, lower_d, upper_d, rise, fall)
        iteration += 1
    return iteration, violation
