"""Exact search for the box whose word histogram has the largest kernel expansion (kernel inference of JKSE).

The coefficients of the expansion are not negative, so a set of boxes is bounded support vector by support vector: the histogram of
every box lies between those of the smallest and the largest box of the set, bin by bin, and both kernels are monotone in the
distance of a bin's count to the support vector's. Values of the chi2 kernel are kept as logarithms, which cannot underflow.

With placement features (:func:`lupi.vision.images.placement`) the kernel is multiplied by exp(-squared distance of the
placements), which is bounded in the same way, feature by feature.
"""

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numba import njit

from lupi.vision.box_search import FAST, INNER, halves, is_box
from lupi.vision.images import CENTER, CENTER_AREA, N_PLACEMENT

CHI2, INTERSECTION = 0, 1
_TINY = np.float32(1e-30)


class Expansion(NamedTuple):
    """A kernel expansion: support vectors (words, also in single precision, and placements times `scale`) and coefficients."""

    words: np.ndarray
    single: np.ndarray
    places: np.ndarray
    scale: float
    coef: np.ndarray
    log_coef: np.ndarray
    gamma: float
    kind: int
    normalize: bool


@njit(cache=True, nogil=True)
def integral_histograms(rows, cols, words, shape, step, n_words):
    """Histogram of the cells above and left of every grid corner, (h + 1, w + 1, n_words)."""
    n_rows, n_cols = (shape[0] + step - 1) // step, (shape[1] + step - 1) // step
    out = np.zeros((n_rows + 1, n_cols + 1, n_words), dtype=np.float32)
    for k in range(rows.shape[0]):
        out[rows[k] // step + 1, cols[k] // step + 1, words[k]] += 1.0
    for i in range(1, n_rows + 1):
        for j in range(1, n_cols + 1):
            for k in range(n_words):
                out[i, j, k] += out[i - 1, j, k] + out[i, j - 1, k] - out[i - 1, j - 1, k]
    return out


@njit(**INNER, fastmath=FAST)
def _histogram(images, t, l, b, r, out):
    """Histogram of a grid box; returns its sum."""
    bottom_right, top_right, bottom_left, top_left = images[b, r], images[t, r], images[b, l], images[t, l]
    total = np.float32(0.0)
    for k in range(out.shape[0]):
        v = bottom_right[k] - top_right[k] - bottom_left[k] + top_left[k]
        out[k] = v
        total += v
    return total


@njit(**INNER, fastmath=FAST)
def _nearest_distance(low, high, u):
    """Smallest chi2 distance to u of a histogram between low and high."""
    s = np.float32(0.0)
    for k in range(u.shape[0]):
        x = u[k]
        x = low[k] if low[k] > x else x
        x = high[k] if high[k] < x else x
        gap = x - u[k]
        s += gap * gap / (x + u[k] + _TINY)
    return s


@njit(**INNER, fastmath=FAST)
def _common(high, u):
    """Intersection of two histograms."""
    s = np.float32(0.0)
    for k in range(u.shape[0]):
        s += high[k] if high[k] < u[k] else u[k]
    return s


@njit(**INNER)
def placement_range(n, rows, cols, low, high):
    """Smallest and largest value of each placement feature over the boxes of a node."""
    h, w = rows[-1], cols[-1]
    for k in range(4):
        lines = rows if k % 2 == 0 else cols
        a, z = lines[n[2 * k]] / lines[-1] - CENTER[k], lines[n[2 * k + 1]] / lines[-1] - CENTER[k]
        low[k], high[k] = a, z
        low[4 + k] = 0.0 if a <= 0.0 <= z else min(a * a, z * z)
        high[4 + k] = max(a * a, z * z)
    t0, t1, l0, l1, b0, b1, r0, r1 = n
    low[8] = max(rows[b0] - rows[t1], 0.0) * max(cols[r0] - cols[l1], 0.0) / (h * w) - CENTER_AREA
    high[8] = (rows[b1] - rows[t0]) * (cols[r1] - cols[l0]) / (h * w) - CENTER_AREA


@njit(**INNER)
def _placement_distances(e, n, row_edges, col_edges, out):
    """Least squared distance of a node's placements to each support vector's; zeros without placements."""
    low, high = np.empty(N_PLACEMENT), np.empty(N_PLACEMENT)
    placement_range(n, row_edges, col_edges, low, high)
    for i in range(e.places.shape[0]):
        out[i] = 0.0
        for k in range(e.places.shape[1]):
            gap = max(e.scale * low[k] - e.places[i, k], e.places[i, k] - e.scale * high[k], 0.0)
            out[i] += gap * gap


@njit(**INNER)
def _expand(e, distances, terms):
    """The expansion (its logarithm for chi2) of intersections or chi2 distances, which are overwritten."""
    total, top = 0.0, -np.inf
    for i in range(len(terms)):
        if e.kind == INTERSECTION:
            total += e.coef[i] * terms[i] * np.exp(-distances[i])
        else:
            terms[i] = e.log_coef[i] - distances[i] - e.gamma * terms[i]
            top = max(top, terms[i])
    if e.kind == INTERSECTION:
        return total
    for i in range(len(terms)):
        total += np.exp(terms[i] - top)
    return top + np.log(total)


@njit(**INNER)
def _upper_bound(e, low, high, distances, terms):
    """Largest expansion (its logarithm for chi2) of histograms between low and high."""
    for i in range(len(terms)):
        u = e.single[i]
        terms[i] = _common(high, u) if e.kind == INTERSECTION else _nearest_distance(low, high, u)
    return _expand(e, distances, terms)


@njit(**INNER)
def _box_value(e, images, n, distances, terms):
    """The expansion (its logarithm for chi2) of the grid box of a node without width, in double precision.

    With `normalize` a box without points has value -inf, so it is never chosen: its histogram of zeros would be nearer to the
    support vectors than most others.
    """
    histogram = np.empty(e.words.shape[1])
    size = _histogram(images, n[0], n[2], n[4], n[6], histogram)
    if e.normalize and size == 0.0:
        return -np.inf
    for k in range(len(histogram)):
        histogram[k] /= size if e.normalize else 1.0
    for i in range(len(terms)):
        terms[i] = 0.0
        for k in range(len(histogram)):
            h, u = histogram[k], e.words[i, k]
            if e.kind == INTERSECTION:
                terms[i] += min(h, u)
            elif h + u > 0.0:
                terms[i] += (h - u) ** 2 / (h + u)
    return _expand(e, distances, terms)


@njit(**INNER, fastmath=FAST)
def _normalize_range(low, high, low_total, high_total):
    """Turn a range of counts into the range of their L1-normalized values.

    A share x / (x + rest) is largest with the most in its bin and the least elsewhere, and smallest the other way round.
    """
    for k in range(low.shape[0]):
        least = low[k] + (high_total - high[k])
        most = high[k] + (low_total - low[k])
        low[k] = low[k] / least if least > 0.0 else np.float32(0.0)
        high[k] = high[k] / most if most > 0.0 else np.float32(0.0)


@njit(cache=True, nogil=True)
def kernel_branch_and_bound(e, images, row_edges, col_edges, max_nodes):
    """Best grid box of an expansion: (t, l, b, r), exact value, upper bound, number of bounds computed.

    A node is bounded once; leaves are evaluated in double precision. Bounds have a margin for single precision.
    """
    h, w, n_words = images.shape[0] - 1, images.shape[1] - 1, images.shape[2]
    terms, distances = np.empty(len(e.coef)), np.empty(len(e.coef))
    low, high = np.empty(n_words, dtype=np.float32), np.empty(n_words, dtype=np.float32)
    heap = [(-np.inf, (0, h - 1, 0, w - 1, 1, h, 1, w))]
    best, best_value, bounds, upper = (0, 0, h, w), -np.inf, 0, -np.inf
    if e.normalize and _histogram(images, 0, 0, h, w, high) == 0.0:  # no points in the whole image
        heap.pop()
    while heap:
        upper = -heap[0][0]
        if upper <= best_value or bounds >= max_nodes:
            break
        node = heappop(heap)[1]
        if is_box(node):
            _placement_distances(e, node, row_edges, col_edges, distances)
            value = _box_value(e, images, node, distances, terms)
            if value > best_value:
                best_value, best = value, (node[0], node[2], node[4], node[6])
            continue
        for n in halves(node):
            t0, t1, l0, l1, b0, b1, r0, r1 = n
            high_total = _histogram(images, t0, l0, b1, r1, high)
            if e.normalize and high_total == 0.0:
                continue
            # Without a common core the smallest box is empty.
            common = t1 < b0 and l1 < r0
            low_total = _histogram(images, t1, l1, b0 if common else t1, r0 if common else l1, low)
            if e.normalize:
                _normalize_range(low, high, low_total, high_total)
            _placement_distances(e, n, row_edges, col_edges, distances)
            bound = _upper_bound(e, low, high, distances, terms)
            bounds += 1
            bound += 1e-4 * (1.0 + 0.1 * abs(bound))
            if bound > best_value:
                heappush(heap, (-bound, n))
    # Tuples: Ctrl-C while an array is returned to Python would end in numba's SystemError.
    return best, best_value, max(upper, best_value) if heap else best_value, bounds
