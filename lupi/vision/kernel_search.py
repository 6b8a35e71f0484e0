"""Exact search for the box whose word histogram has the largest kernel expansion (kernel inference of JKSE).

The coefficients of the expansion are not negative, so a set of boxes is bounded support vector by support vector: the histogram of
every box lies between those of the smallest and the largest box of the set, bin by bin, and both kernels are monotone in the
distance of a bin's count to the support vector's. Values of the chi2 kernel are kept as logarithms, which cannot underflow.

With placement features (:mod:`lupi.vision.box_terms`) the kernel is multiplied by exp(-squared distance of the placements), which
is bounded in the same way, feature by feature.
"""

import numpy as np
from numba import njit

from lupi.vision.box_search import grow, halve, new_heap, pop, push, widest
from lupi.vision.box_terms import N_PLACEMENT, placement_range

CHI2, INTERSECTION = 0, 1
_FAST = {"nnan", "nsz", "reassoc", "contract", "arcp"}
_TINY = np.float32(1e-30)


@njit(cache=True, nogil=True)
def integral_histograms(rows, cols, words, h, w, step, n_words):
    """Histogram of the cells above and left of every grid corner, (h + 1, w + 1, n_words)."""
    n_rows, n_cols = (h + step - 1) // step, (w + step - 1) // step
    out = np.zeros((n_rows + 1, n_cols + 1, n_words), dtype=np.float32)
    for k in range(rows.shape[0]):
        out[rows[k] // step + 1, cols[k] // step + 1, words[k]] += 1.0
    for i in range(1, n_rows + 1):
        for j in range(1, n_cols + 1):
            for k in range(n_words):
                out[i, j, k] += out[i - 1, j, k] + out[i, j - 1, k] - out[i - 1, j - 1, k]
    return out


@njit(cache=True, nogil=True, fastmath=_FAST)
def _histogram(images, t, l, b, r, out):
    """Histogram of a grid box; returns its sum."""
    bottom_right, top_right, bottom_left, top_left = images[b, r], images[t, r], images[b, l], images[t, l]
    total = np.float32(0.0)
    for k in range(out.shape[0]):
        v = bottom_right[k] - top_right[k] - bottom_left[k] + top_left[k]
        out[k] = v
        total += v
    return total


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
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


@njit(cache=True, nogil=True, fastmath=_FAST)
def _common(high, u):
    """Intersection of two histograms."""
    s = np.float32(0.0)
    for k in range(u.shape[0]):
        s += high[k] if high[k] < u[k] else u[k]
    return s


@njit(cache=True, nogil=True)
def _placement_distances(n, row_edges, col_edges, places, scale, out):
    """Least squared distance of a node's placements (times `scale`) to each support vector's; zeros without placements."""
    low, high = np.empty(N_PLACEMENT), np.empty(N_PLACEMENT)
    t0, t1, b0, b1 = row_edges[n[0]], row_edges[n[1]], row_edges[n[4]], row_edges[n[5]]
    l0, l1, r0, r1 = col_edges[n[2]], col_edges[n[3]], col_edges[n[6]], col_edges[n[7]]
    placement_range(t0, t1, l0, l1, b0, b1, r0, r1, row_edges[-1], col_edges[-1], low, high)
    for i in range(places.shape[0]):
        out[i] = 0.0
        for k in range(places.shape[1]):
            gap = max(scale * low[k] - places[i, k], places[i, k] - scale * high[k], 0.0)
            out[i] += gap * gap


@njit(cache=True, nogil=True)
def upper_bound(low, high, distances, support, coef, log_coef, gamma, kind, terms):
    """Largest expansion (its logarithm for chi2) of histograms between low and high; exact when they are equal."""
    total = 0.0
    if kind == INTERSECTION:
        for i in range(support.shape[0]):
            total += coef[i] * _common(high, support[i]) * np.exp(-distances[i])
        return total
    top = -np.inf
    for i in range(support.shape[0]):
        terms[i] = log_coef[i] - distances[i] - gamma * _nearest_distance(low, high, support[i])
        top = max(top, terms[i])
    for i in range(support.shape[0]):
        total += np.exp(terms[i] - top)
    return top + np.log(total)


@njit(cache=True, nogil=True)
def box_value(images, t, l, b, r, distances, support, coef, gamma, kind, normalize):
    """The expansion (its logarithm for chi2) of one grid box in double precision.

    `distances` are the squared distances of its placement to the support vectors'. With `normalize` a box without points has
    value -inf, so it is never chosen: its histogram of zeros would be nearer to the support vectors than most others.
    """
    n, n_words = support.shape
    histogram = np.empty(n_words)
    size = 0.0
    for k in range(n_words):
        histogram[k] = np.float64(images[b, r, k] - images[t, r, k] - images[b, l, k] + images[t, l, k])
        size += histogram[k]
    if normalize and size == 0.0:
        return -np.inf
    if normalize:
        for k in range(n_words):
            histogram[k] /= size
    terms = np.empty(n)
    total, top = 0.0, -np.inf
    for i in range(n):
        s = 0.0
        for k in range(n_words):
            h, u = histogram[k], support[i, k]
            if kind == INTERSECTION:
                s += min(h, u)
            elif h + u > 0.0:
                s += (h - u) ** 2 / (h + u)
        if kind == INTERSECTION:
            total += coef[i] * s * np.exp(-distances[i])
        else:
            terms[i] = np.log(coef[i]) - distances[i] - gamma * s
            top = max(top, terms[i])
    if kind == INTERSECTION:
        return total
    for i in range(n):
        total += np.exp(terms[i] - top)
    return top + np.log(total)


@njit(cache=True, nogil=True, fastmath=_FAST)
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
def kernel_branch_and_bound(
    images, row_edges, col_edges, places, scale, support, single, coef, log_coef, gamma, kind, normalize, max_nodes
):
    """Best grid box: (t, l, b, r), exact value, upper bound, number of bounds computed.

    `places` are the support vectors' placements, times `scale`; of shape (n_support, 0) if there are none. `single` is `support` in
    single precision, `log_coef` the logarithm of `coef`. A node is bounded once; leaves are evaluated in double precision. Bounds
    have a margin for single precision.
    """
    h, w, n_words = images.shape[0] - 1, images.shape[1] - 1, images.shape[2]
    terms = np.empty(support.shape[0])
    distances = np.empty(support.shape[0])
    low, high = np.empty(n_words, dtype=np.float32), np.empty(n_words, dtype=np.float32)
    keys, ids, nodes = new_heap(4096, h, w)
    n = np.zeros(8, dtype=np.int64)
    current = np.array([0, 0, 0, 0, h, h, w, w])
    size = used = 1
    bounds = 0
    best = (0, 0, h, w)
    _placement_distances(current, row_edges, col_edges, places, scale, distances)
    best_value = box_value(images, 0, 0, h, w, distances, support, coef, gamma, kind, normalize)
    if best_value == -np.inf:  # no points in the whole image
        return best, best_value, best_value, 0
    upper = np.inf
    while size > 0:
        upper = keys[0]
        if upper <= best_value or bounds >= max_nodes:
            break
        free = pop(keys, ids, size)
        size -= 1
        for k in range(8):
            current[k] = nodes[free, k]
        edge = widest(current)
        if current[2 * edge] == current[2 * edge + 1]:
            t, l, b, r = current[0], current[2], current[4], current[6]
            _placement_distances(current, row_edges, col_edges, places, scale, distances)
            value = box_value(images, t, l, b, r, distances, support, coef, gamma, kind, normalize)
            if value > best_value:
                best_value = value
                best = (t, l, b, r)
            continue
        for side in range(2):
            if not halve(current, edge, side, n):
                continue
            high_total = _histogram(images, n[0], n[2], n[5], n[7], high)
            if normalize and high_total == 0.0:
                continue
            # Without a common core the smallest box is empty.
            common = n[1] < n[4] and n[3] < n[6]
            low_total = _histogram(images, n[1], n[3], n[4] if common else n[1], n[6] if common else n[3], low)
            if normalize:
                _normalize_range(low, high, low_total, high_total)
            _placement_distances(n, row_edges, col_edges, places, scale, distances)
            bound = upper_bound(low, high, distances, single, coef, log_coef, gamma, kind, terms)
            bounds += 1
            bound += 1e-4 * (1.0 + 0.1 * abs(bound))
            if bound <= best_value:
                continue
            if free < 0:
                free = used
                used += 1
                if used > len(keys):
                    keys, ids, nodes = grow(keys, ids, nodes)
            push(keys, ids, nodes, size, bound, free, n)
            size += 1
            free = -1
    if size == 0 or upper < best_value:
        upper = best_value
    # Tuples: Ctrl-C while an array is returned to Python would end in numba's SystemError.
    return best, best_value, upper, bounds
