"""Dominance sums: sums over all pairs of a ranking problem without a list of pairs, compiled.

A *node* is a sequence of *elements*; an element is one example in one role, winner or loser. A loser j comes before a
winner i in a node exactly when (i, j) is an admissible pair. Every element has a *key*; a pair is *active* if key_j < key_i.
The solvers need, for each element, sums over its active partners: two-dimensional dominance sums (position, key), computed by
merging sorted halves.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from lupi.inputs.types import Array

# Below this many elements, comparing all pairs beats another level of merging.
BASE = 8


@njit(cache=True)
def build_nodes(
    order: Array, block_ptr: Array, t: Array, tau: float, wins: Array, loses: Array
) -> tuple[Array, Array, Array]:
    """One node for each block of `order`: its winners i and losers j, with j before i exactly when t_i - t_j > tau.

    The examples of a block are sorted by t. Returns example and role of each element, and the bounds of the nodes.
    """
    element, winner = np.empty(2 * order.size, np.int64), np.empty(2 * order.size, np.bool_)
    node_ptr = np.zeros(block_ptr.size, np.int64)
    end, n_nodes = 0, 0
    for block in range(block_ptr.size - 1):
        p = block_ptr[block]
        for a in range(block_ptr[block], block_ptr[block + 1]):
            i = order[a]
            if not wins[i]:
                continue
            while p < block_ptr[block + 1] and t[i] - t[order[p]] > tau:
                if loses[order[p]]:
                    element[end] = order[p]
                    winner[end] = False
                    end += 1
                p += 1
            if end > node_ptr[n_nodes]:
                element[end] = i
                winner[end] = True
                end += 1
        if end > node_ptr[n_nodes]:
            n_nodes += 1
            node_ptr[n_nodes] = end
    return element[:end].copy(), winner[:end].copy(), node_ptr[: n_nodes + 1].copy()


@njit(cache=True)
def sort_keys(by_key: Array, key: Array, nodes: tuple[Array, ...], n_levels: int) -> tuple[Array, Array, Array]:
    """Order of the elements by key in every block of the merge tree, given ``by_key = np.argsort(key)``.

    Winners come first among equal keys, so that a tie is never an active pair. The order of a half block is a stable partition
    of its block. Level k has blocks of ``BASE * 2**(k + 1)`` elements; nodes in which every loser comes before every winner
    (`complete`) need no levels. Returns the elements of each node by key; per level and element 1 if it goes to the right half,
    plus 2 if it is a winner; and the elements after the last partition.
    """
    winner, node_ptr, node_of, complete = nodes
    m = by_key.size
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
        for k in range(n_levels - 1, -1, -1):
            half, row = BASE << k, flags[k]
            if half >= hi - lo or complete[node]:
                continue
            for start in range(lo, hi, 2 * half):
                mid = np.uint64(start + half)
                gone_right = np.uint64(0)
                for c in range(start, min(start + 2 * half, hi)):
                    e = bottom[c]
                    is_right = np.uint64(e >= mid)
                    row[c] = is_right + np.uint64(2) * np.uint64(winner[e])
                    scratch[mid + gone_right if is_right else np.uint64(c) - gone_right] = e
                    gone_right += is_right
            for c in range(lo, hi):
                bottom[c] = scratch[c]
    return top, flags, bottom


@njit(cache=True)
def partner_sums(tree: tuple[Array, ...], key: Array, value: Array, nodes: tuple[Array, ...]) -> Array:
    """For every element, the sum of `value` over its active partners; `tree` is from :func:`sort_keys`.

    In a block, a winner of the right half and a loser of the left half are an admissible pair. One pass in the order of the
    keys sums over these; values and sums then move to the halves, always to the next free place, so memory access is sequential.
    """
    (top, flags, bottom), (winner, node_ptr, _, complete) = tree, nodes
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
        for c in range(lo, hi):
            v[c] = value[top[c]]
            sums[c] = 0.0
        for k in range(len(flags) - 1, -1, -1):
            half, row = BASE << k, flags[k]
            if half >= hi - lo:
                continue
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
        for c in range(lo, hi):
            total[bottom[c]] += sums[c]
    return total


@njit(cache=True)
def add_laplacian(matrix: Array, weight: float, key: Array, element: Array, winner: Array, node_ptr: Array) -> None:
    """Add `weight` times the Laplacian of the active pairs, a graph on the examples, to a matrix in place."""
    for node in range(node_ptr.size - 1):
        for b in range(node_ptr[node], node_ptr[node + 1]):
            bound = key[b] if winner[b] else -np.inf
            i, degree = element[b], 0.0
            for a in range(node_ptr[node], b):
                if key[a] < bound and not winner[a]:
                    j = element[a]
                    degree += weight
                    matrix[j, j] += weight
                    matrix[i, j] -= weight
                    matrix[j, i] -= weight
            matrix[i, i] += degree


@njit(cache=True)
def node_keys(offset: Array, scores: Array, element: Array, node_ptr: Array) -> Array:
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
