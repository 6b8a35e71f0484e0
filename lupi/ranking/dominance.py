"""Dominance sums: sums over all pairs of a ranking problem without a list of pairs, compiled.

A *node* is a sequence of *elements*; an element is one example in one role, winner or loser. A loser j comes before a
winner i in a node exactly when (i, j) is an admissible pair. Every element has a *key*; a pair is *active* if key_j < key_i.
The solvers need, for each element, sums over its active partners: two-dimensional dominance sums (position, key), computed by
merging sorted halves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

# Below this many elements, comparing all pairs beats another level of merging.
BASE = 8


@njit(cache=True)
def _emit(
    order: np.ndarray,
    t: np.ndarray,
    tau: float,
    wins: np.ndarray,
    loses: np.ndarray,
    loser_lo: int,
    loser_hi: int,
    winner_lo: int,
    winner_hi: int,
    element: np.ndarray,
    winner: np.ndarray,
    end: int,
) -> int:
    """Append the node of losers and winners that are sorted by t; returns the new end."""
    start = end
    n_losers = 0
    last_winner = start
    p = loser_lo
    for a in range(winner_lo, winner_hi):
        i = order[a]
        if not wins[i]:
            continue
        while p < loser_hi and t[i] - t[order[p]] > tau:
            if loses[order[p]]:
                element[end] = order[p]
                winner[end] = False
                end += 1
                n_losers += 1
            p += 1
        if n_losers > 0:
            element[end] = i
            winner[end] = True
            end += 1
            last_winner = end
    return last_winner


@njit(cache=True)
def build_nodes(
    order: np.ndarray,
    t: np.ndarray,
    tau: float,
    wins: np.ndarray,
    loses: np.ndarray,
    grade_ptr: np.ndarray,
    group_ptr: np.ndarray,
    within: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes of the pair set {same group, y_j < y_i (<= if `within`), t_i - t_j > tau}, of n log2(L) elements for L grades.

    Grades of a group are merged two by two, as in merge sort; each merge gives a node "winners of the higher grades, losers
    of the lower ones". `order` sorts by (group, y, t) and is overwritten; `grade_ptr` bounds the grades in it, `group_ptr`
    the groups in `grade_ptr`. Returns example and role of each element, and the bounds of the nodes.
    """
    n_groups = group_ptr.size - 1
    capacity = 0
    for g in range(n_groups):
        size = grade_ptr[group_ptr[g + 1]] - grade_ptr[group_ptr[g]]
        n_grades = group_ptr[g + 1] - group_ptr[g]
        width = 1
        while width < n_grades:
            capacity += size
            width *= 2
        if within:
            capacity += 2 * size
    element = np.empty(capacity, np.int32)
    winner = np.empty(capacity, np.bool_)
    node_ptr = np.zeros(2 * grade_ptr.size + 1, np.int64)
    merged = np.empty_like(order)
    end = 0
    n_nodes = 0
    for g in range(n_groups):
        first, last = group_ptr[g], group_ptr[g + 1]
        if within:
            for k in range(first, last):
                lo, hi = grade_ptr[k], grade_ptr[k + 1]
                new_end = _emit(order, t, tau, wins, loses, lo, hi, lo, hi, element, winner, end)
                if new_end > end:
                    n_nodes += 1
                    node_ptr[n_nodes] = new_end
                    end = new_end
        width = 1
        while width < last - first:
            for k in range(first, last - width, 2 * width):
                lo, mid, hi = grade_ptr[k], grade_ptr[k + width], grade_ptr[min(k + 2 * width, last)]
                new_end = _emit(order, t, tau, wins, loses, lo, mid, mid, hi, element, winner, end)
                if new_end > end:
                    n_nodes += 1
                    node_ptr[n_nodes] = new_end
                    end = new_end
                a, b = lo, mid
                for c in range(lo, hi):
                    if b >= hi or (a < mid and t[order[a]] <= t[order[b]]):
                        merged[c] = order[a]
                        a += 1
                    else:
                        merged[c] = order[b]
                        b += 1
                order[lo:hi] = merged[lo:hi]
            width *= 2
    return element[:end].copy(), winner[:end].copy(), node_ptr[: n_nodes + 1].copy()


@njit(cache=True)
def write_pairs(
    element: np.ndarray, winner: np.ndarray, node_ptr: np.ndarray, n_pairs: int
) -> tuple[np.ndarray, np.ndarray]:
    """Winning and losing element of every pair."""
    above, below = np.empty(n_pairs, np.int64), np.empty(n_pairs, np.int64)
    end = 0
    for node in range(node_ptr.size - 1):
        for e in range(node_ptr[node], node_ptr[node + 1]):
            if winner[e]:
                for a in range(node_ptr[node], e):
                    if not winner[a]:
                        above[end], below[end] = e, a
                        end += 1
    return above, below


@njit(cache=True)
def sort_keys(
    by_key: np.ndarray,
    key: np.ndarray,
    winner: np.ndarray,
    node_ptr: np.ndarray,
    node_of: np.ndarray,
    complete: np.ndarray,
    n_levels: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Order of the elements by key in every block of the merge tree.

    The order of a node is a full sort, given by ``by_key = np.argsort(key)``; the order of a half block is a stable partition
    of its block. Level k has blocks of ``BASE * 2**(k + 1)`` elements; nodes in which every loser comes before every winner
    (`complete`) need no levels. Returns the elements of each node by key, with winners first among equal keys so that a tie is
    never an active pair; per level and element 1 if it goes to the right half, plus 2 if it is a winner; and the elements
    after the last partition.
    """
    m = key.size
    top = np.empty(m, np.int32)
    cursor = node_ptr[:-1].copy()
    a = 0
    while a < m:
        b = a + 1
        while b < m and key[by_key[b]] == key[by_key[a]]:
            b += 1
        for winners in (True, False):
            for c in range(a, b):
                e = by_key[c]
                if winner[e] == winners:
                    top[cursor[node_of[e]]] = e
                    cursor[node_of[e]] += 1
        a = b
    flags = np.empty((n_levels, m), np.uint8)
    bottom, scratch = top.copy(), np.empty(m, np.int32)
    for node in range(node_ptr.size - 1):
        lo, hi = node_ptr[node], node_ptr[node + 1]
        half, k = BASE, 0
        while 2 * half < hi - lo:
            half *= 2
            k += 1
        while half >= BASE and half < hi - lo and not complete[node]:
            row = flags[k]
            for start in range(lo, hi, 2 * half):
                mid = np.uint64(start + half)
                gone_right = np.uint64(0)
                for c in range(start, min(start + 2 * half, hi)):
                    e = bottom[c]
                    is_right = np.uint64(e >= mid)
                    row[c] = is_right + np.uint64(2) * np.uint64(winner[e])
                    scratch[mid + gone_right if is_right else np.uint64(c) - gone_right] = e
                    gone_right += is_right
            bottom[lo:hi] = scratch[lo:hi]
            half //= 2
            k -= 1
    return top, flags, bottom


@njit(cache=True)
def partner_sums(
    top: np.ndarray,
    flags: np.ndarray,
    bottom: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    winner: np.ndarray,
    node_ptr: np.ndarray,
    complete: np.ndarray,
) -> np.ndarray:
    """For every element, the sum of `value` over its active partners; `top`, `flags`, `bottom` are from :func:`sort_keys`.

    In a block, a winner of the right half and a loser of the left half are an admissible pair. One pass in the order of the
    keys sums over these; values and sums then move to the halves, always to the next free place, so memory access is sequential.
    """
    m = key.size
    total = np.zeros(m)
    v, sums, next_v, next_sums = np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    # Roles are factors 0 and 1, looked up by flag: a branch would be mispredicted half of the time.
    beats, loses = np.array([0.0, 0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0, 0.0])
    for node in range(node_ptr.size - 1):
        lo, hi = node_ptr[node], node_ptr[node + 1]
        if complete[node]:
            below, above = 0.0, 0.0
            for e in range(lo, hi):
                above += value[e] if winner[e] else 0.0
            for c in range(lo, hi):
                e = top[c]
                is_winner = np.float64(winner[e])
                total[e] = is_winner * below + (1 - is_winner) * above
                below += (1 - is_winner) * value[e]
                above -= is_winner * value[e]
            continue
        for start in range(lo, hi, BASE):
            for b in range(start + 1, min(start + BASE, hi)):
                bound = key[b] if winner[b] else -np.inf
                gathered = 0.0
                for a in range(start, b):
                    active = (not winner[a]) & (key[a] < bound)
                    total[a] += value[b] if active else 0.0
                    gathered += value[a] if active else 0.0
                total[b] += gathered
        half, k = BASE, 0
        while 2 * half < hi - lo:
            half *= 2
            k += 1
        if half >= hi - lo:
            continue
        for c in range(lo, hi):
            v[c] = value[top[c]]
            sums[c] = 0.0
        while half >= BASE:
            row = flags[k]
            for start in range(lo, hi, 2 * half):
                mid, stop = np.uint64(start + half), min(start + 2 * half, hi)
                below, above = 0.0, 0.0
                for c in range(start, stop):
                    above += beats[row[c]] * v[c]
                gone_right = np.uint64(0)
                for c in range(start, stop):
                    flag, x = row[c], v[c]
                    b, l = beats[flag], loses[flag]
                    is_right = np.uint64(flag & 1)
                    place = mid + gone_right if is_right else np.uint64(c) - gone_right
                    next_v[place] = x
                    next_sums[place] = sums[c] + b * below + l * above
                    below += l * x
                    above -= b * x
                    gone_right += is_right
            v, next_v, sums, next_sums = next_v, v, next_sums, sums
            half //= 2
            k -= 1
        for c in range(lo, hi):
            total[bottom[c]] += sums[c]
    return total


@njit(cache=True)
def scatter_add(element: np.ndarray, value: np.ndarray, n: int) -> np.ndarray:
    """Sum the values of the elements of each example."""
    out = np.zeros(n)
    for e in range(element.size):
        out[element[e]] += value[e]
    return out


@njit(cache=True)
def ranking_hessian_product(
    X: np.ndarray,
    v: np.ndarray,
    graphs: tuple[Any, ...],
    element: np.ndarray,
    winner: np.ndarray,
    node_ptr: np.ndarray,
    complete: np.ndarray,
) -> np.ndarray:
    """Product ``v + X' E' L E X v`` of the Hessian with v; each graph is (weight, top, flags, bottom, key, degree)."""
    u = X @ v
    u -= u.mean()
    value = u[element]
    flow = np.zeros_like(value)
    for weight, top, flags, bottom, key, degree in graphs:
        flow += weight * (degree * value - partner_sums(top, flags, bottom, key, value, winner, node_ptr, complete))
    return v + X.T @ scatter_add(element, flow, u.size)


@njit(cache=True)
def add_laplacian(
    matrix: np.ndarray, weight: float, key: np.ndarray, above: np.ndarray, below: np.ndarray, element: np.ndarray
) -> None:
    """Add `weight` times the Laplacian of the active pairs, a graph on the examples, to a matrix in place."""
    for k in range(above.size):
        if key[above[k]] > key[below[k]]:
            i, j = element[above[k]], element[below[k]]
            matrix[i, i] += weight
            matrix[j, j] += weight
            matrix[i, j] -= weight
            matrix[j, i] -= weight


@njit(cache=True)
def node_keys(offset: np.ndarray, scores: np.ndarray, element: np.ndarray, node_ptr: np.ndarray) -> np.ndarray:
    """``offset - scores`` of each element, centered in each node and rounded to a grid on which sums are exact.

    The grid is the finest power of two for which the sum of the node's keys fits into 53 bits. Differences of almost equal
    sums, as of a narrow smoothing, then have no rounding error, and the dual point is exactly feasible for these keys.
    """
    key = np.empty(element.size)
    for node in range(node_ptr.size - 1):
        lo, hi = node_ptr[node], node_ptr[node + 1]
        mean = 0.0
        for e in range(lo, hi):
            key[e] = offset[e] - scores[element[e]]
            mean += key[e]
        mean /= max(1, hi - lo)
        largest = 0.0
        for e in range(lo, hi):
            key[e] -= mean
            largest = max(largest, abs(key[e]))
        if largest > 0.0 and np.isfinite(largest):
            scale = 2.0 ** (51 - np.ceil(np.log2(largest * (hi - lo))))
            for e in range(lo, hi):
                key[e] = np.rint(key[e] * scale) / scale
    return key
