"""What best-first searches over boxes share: a heap of nodes, the largest bound first, and their division.

A node is a product of intervals for the four edges, (t0 t1 l0 l1 b0 b1 r0 r1).
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def push(keys, ids, size, key, node):
    """Add a node to a heap with `size` entries."""
    p = size
    while p > 0:
        q = (p - 1) // 2
        if keys[q] >= key:
            break
        keys[p] = keys[q]
        ids[p] = ids[q]
        p = q
    keys[p] = key
    ids[p] = node


@njit(cache=True, nogil=True)
def pop(keys, ids, size):
    """Remove the root of a heap with `size` entries."""
    size -= 1
    key = keys[size]
    node = ids[size]
    p = 0
    while True:
        child = 2 * p + 1
        if child >= size:
            break
        if child + 1 < size and keys[child + 1] > keys[child]:
            child += 1
        if keys[child] <= key:
            break
        keys[p] = keys[child]
        ids[p] = ids[child]
        p = child
    keys[p] = key
    ids[p] = node


@njit(cache=True, nogil=True)
def grow(keys, ids, nodes):
    """Heap and nodes with twice the room."""
    capacity = len(keys)
    more = np.empty((2 * capacity, 8), dtype=np.int16)
    more[:capacity] = nodes
    return np.append(keys, np.empty(capacity)), np.append(ids, np.empty(capacity, dtype=np.int32)), more


@njit(cache=True, nogil=True)
def widest(n):
    """The edge with the widest interval; the first of equals."""
    edge = 0
    for k in range(1, 4):
        if n[2 * k + 1] - n[2 * k] > n[2 * edge + 1] - n[2 * edge]:
            edge = k
    return edge


@njit(cache=True, nogil=True)
def halve(node, edge, side, n):
    """Let n be one half of a node, only with top < bottom and left < right; False when no box is left."""
    n[:] = node
    middle = (node[2 * edge] + node[2 * edge + 1]) // 2
    if side == 0:
        n[2 * edge + 1] = middle
    else:
        n[2 * edge] = middle + 1
    n[1] = min(n[1], n[5] - 1)
    n[4] = max(n[4], n[0] + 1)
    n[3] = min(n[3], n[7] - 1)
    n[6] = max(n[6], n[2] + 1)
    return n[0] <= n[1] and n[4] <= n[5] and n[2] <= n[3] and n[6] <= n[7]
