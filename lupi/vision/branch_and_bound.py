"""Best-first branch and bound over boxes (efficient subwindow search), with strip bounds and a signed overlap loss.

A node is a product of intervals for the four edges. Between its largest and its smallest box lie four strips and four
corners. The classic bound counts every positive point there; here a strip is bounded by its best cut, found on the integral
image, and only the corners count positive points. The best cuts also are a good box, the node's candidate. What the sides
add by themselves (:mod:`lupi.vision.placement`) is part of the choice of the cuts.
"""

import numpy as np
from numba import njit

from lupi.vision.best_first import grow, halve, pop, push, widest
from lupi.vision.loss_bounds import edges_overlap, largest_overlap, smallest_overlap

_FAST = {"nnan", "nsz", "reassoc", "contract", "arcp"}


@njit(cache=True, nogil=True)
def integrals(grid):
    """Integral image, its transpose, and the integral image of the positive part."""
    h, w = grid.shape
    total = np.zeros((h + 1, w + 1))
    transposed = np.empty((w + 1, h + 1))
    positive = np.zeros((h + 1, w + 1))
    for i in range(h):
        row = 0.0
        row_positive = 0.0
        for j in range(w):
            v = grid[i, j]
            row += v
            if v > 0.0:
                row_positive += v
            total[i + 1, j + 1] = total[i, j + 1] + row
            positive[i + 1, j + 1] = positive[i, j + 1] + row_positive
    # In tiles: a column-wise copy of the whole image would miss the cache at every step.
    for i0 in range(0, h + 1, 16):
        for j0 in range(0, w + 1, 16):
            for j in range(j0, min(j0 + 16, w + 1)):
                for i in range(i0, min(i0 + 16, h + 1)):
                    transposed[j, i] = total[i, j]
    return total, transposed, positive


@njit(cache=True, nogil=True, inline="always")
def rectangle(image, t, l, b, r):
    """Sum over rows t..b-1 and columns l..r-1."""
    return (image[b, r] - image[t, r]) - (image[b, l] - image[t, l])


@njit(cache=True, nogil=True, fastmath=_FAST)
def _best_low(a, b, side, start, stop):
    """Index in start..stop of the smallest b - a - side."""
    arg = start
    best = b[start] - a[start] - side[start]
    for k in range(start + 1, stop + 1):
        v = b[k] - a[k] - side[k]
        if v < best:
            best = v
            arg = k
    return arg


@njit(cache=True, nogil=True, fastmath=_FAST)
def _best_high(a, b, side, start, stop):
    """Index in start..stop of the largest b - a + side."""
    arg = start
    best = b[start] - a[start] + side[start]
    for k in range(start + 1, stop + 1):
        v = b[k] - a[k] + side[k]
        if v > best:
            best = v
            arg = k
    return arg


@njit(cache=True, nogil=True, fastmath=_FAST)
def _best_pair(a, b, low_side, high_side, lo0, lo1, hi0, hi1):
    """Largest (b - a + high_side)[hi] - (b - a - low_side)[lo] with lo < hi in overlapping intervals."""
    best = -np.inf
    arg_lo = lo0
    arg_hi = hi1
    low = np.inf
    low_arg = lo0
    k = lo0
    for hi in range(max(hi0, lo0 + 1), hi1 + 1):
        while k < hi and k <= lo1:
            v = b[k] - a[k] - low_side[k]
            if v < low:
                low = v
                low_arg = k
            k += 1
        v = b[hi] - a[hi] + high_side[hi] - low
        if v > best:
            best = v
            arg_lo = low_arg
            arg_hi = hi
    return best, arg_lo, arg_hi


@njit(cache=True, nogil=True)
def _largest(side, start, stop):
    best = side[start]
    for k in range(start + 1, stop + 1):
        best = max(best, side[k])
    return best


@njit(cache=True, nogil=True, fastmath=_FAST)
def _score_bound(total, transposed, positive, sides, n, box):
    """Upper bound of the score over node n = (t0 t1 l0 l1 b0 b1 r0 r1); fills the candidate box."""
    t0, t1, l0, l1, b0, b1, r0, r1 = n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7]
    top, left, bottom, right = sides
    rows = t1 < b0
    cols = l1 < r0
    if rows and cols:
        left_col, right_col = transposed[l1], transposed[r0]
        top_row, bottom_row = total[t1], total[b0]
        t = _best_low(left_col, right_col, top, t0, t1)
        b = _best_high(left_col, right_col, bottom, b0, b1)
        l = _best_low(top_row, bottom_row, left, l0, l1)
        r = _best_high(top_row, bottom_row, right, r0, r1)
        box[0], box[1], box[2], box[3] = t, l, b, r
        tl = rectangle(positive, t0, l0, t1, l1)
        tr = rectangle(positive, t0, r0, t1, r1)
        bl = rectangle(positive, b0, l0, b1, l1)
        br = rectangle(positive, b0, r0, b1, r1)
        core = rectangle(total, t1, l1, b0, r0)
        strips = rectangle(total, t, l1, t1, r0) + rectangle(total, b0, l1, b, r0)
        strips += rectangle(total, t1, l, b0, l1) + rectangle(total, t1, r0, b0, r)
        return core + strips + tl + tr + bl + br + top[t] + left[l] + bottom[b] + right[r]
    if rows:
        best, l, r = _best_pair(total[t1], total[b0], left, right, l0, l1, r0, r1)
        box[0], box[1], box[2], box[3] = t1, l, b0, r
        best += _largest(top, t0, t1) + _largest(bottom, b0, b1)
        return best + rectangle(positive, t0, l0, t1, r1) + rectangle(positive, b0, l0, b1, r1)
    if cols:
        best, t, b = _best_pair(transposed[l1], transposed[r0], top, bottom, t0, t1, b0, b1)
        box[0], box[1], box[2], box[3] = t, l1, b, r0
        best += _largest(left, l0, l1) + _largest(right, r0, r1)
        return best + rectangle(positive, t0, l0, b1, l1) + rectangle(positive, t0, r0, b1, r1)
    box[0], box[1], box[2], box[3] = t0, l0, b1, r1
    best = _largest(top, t0, t1) + _largest(bottom, b0, b1) + _largest(left, l0, l1) + _largest(right, r0, r1)
    return best + rectangle(positive, t0, l0, b1, r1)


@njit(cache=True, nogil=True)
def _value(total, sides, row_edges, col_edges, t, l, b, r, gt, c):
    v = rectangle(total, t, l, b, r) + sides[0][t] + sides[1][l] + sides[2][b] + sides[3][r]
    if c != 0.0:
        v += c * (
            1.0 - edges_overlap(row_edges[t], col_edges[l], row_edges[b], col_edges[r], gt[0], gt[1], gt[2], gt[3])
        )
    return v


@njit(cache=True, nogil=True)
def branch_and_bound(total, transposed, positive, sides, row_edges, col_edges, gt, c, max_nodes):
    """Best box of a grid for score + sides + c * (1 - overlap).

    Returns the grid box (t, l, b, r), its value, an upper bound of the maximum (equal to the value unless the search met
    `max_nodes`) and the number of expanded nodes.
    """
    h = total.shape[0] - 1
    w = total.shape[1] - 1
    capacity = 1024
    keys = np.empty(capacity)
    ids = np.empty(capacity, dtype=np.int32)
    nodes = np.empty((capacity, 8), dtype=np.int16)
    split = np.empty(capacity, dtype=np.int8)
    box = np.empty(4, dtype=np.int64)
    best = np.array([0, 0, h, w], dtype=np.int64)
    best_value = _value(total, sides, row_edges, col_edges, 0, 0, h, w, gt, c)
    n = np.array([0, h - 1, 0, w - 1, 1, h, 1, w], dtype=np.int64)
    current = n.copy()
    for k in range(8):
        nodes[0, k] = n[k]
    split[0] = 0 if h >= w else 1
    keys[0] = np.inf
    ids[0] = 0
    size = 1
    used = 1
    expanded = 0
    upper = np.inf
    while size > 0:
        upper = keys[0]
        if upper <= best_value or expanded >= max_nodes:
            break
        slot = ids[0]
        pop(keys, ids, size)
        size -= 1
        expanded += 1
        for k in range(8):
            current[k] = nodes[slot, k]
        edge = split[slot]
        free = slot
        for side in range(2):
            if not halve(current, edge, side, n):
                continue
            bound = _score_bound(total, transposed, positive, sides, n, box)
            if c != 0.0:
                t0, t1, b0, b1 = row_edges[n[0]], row_edges[n[1]], row_edges[n[4]], row_edges[n[5]]
                l0, l1, r0, r1 = col_edges[n[2]], col_edges[n[3]], col_edges[n[6]], col_edges[n[7]]
                if c > 0.0:
                    bound += c * (1.0 - smallest_overlap(t0, t1, l0, l1, b0, b1, r0, r1, gt[0], gt[1], gt[2], gt[3]))
                else:
                    bound += c * (1.0 - largest_overlap(t0, t1, l0, l1, b0, b1, r0, r1, gt[0], gt[1], gt[2], gt[3]))
            if bound <= best_value:
                continue
            value = _value(total, sides, row_edges, col_edges, box[0], box[1], box[2], box[3], gt, c)
            if value > best_value:
                best_value = value
                best[:] = box
                if bound <= best_value:
                    continue
            edge_to_split = widest(n)
            if n[2 * edge_to_split] == n[2 * edge_to_split + 1]:
                continue
            if free >= 0:
                node = free
                free = -1
            else:
                node = used
                used += 1
                if used > len(keys):
                    split = np.append(split, np.empty(len(split), dtype=np.int8))
                    keys, ids, nodes = grow(keys, ids, nodes)
            for k in range(8):
                nodes[node, k] = n[k]
            split[node] = edge_to_split
            push(keys, ids, size, bound, node)
            size += 1
    if size == 0 or upper < best_value:
        upper = best_value
    return best, best_value, upper, expanded
