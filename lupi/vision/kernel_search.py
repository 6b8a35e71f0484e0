"""Exact search for the box whose word histogram has the largest kernel expansion (kernel inference of JKSE).

The expansion's coefficients are not negative, so a box set is bounded support vector by support vector: the histogram of every
box lies between those of the set's smallest and largest box, bin by bin, and both kernels are monotone in the distance of a
bin's count to the support vector's. Values of the chi2 kernel are kept as logarithms, which cannot underflow.

With placements (:mod:`lupi.vision.placement`) the kernel is multiplied by exp(-squared distance of the placements), which is
bounded in the same way: number by number, over the range that a box set gives it.
"""

import numpy as np
from numba import njit

from lupi.vision.best_first import grow, halve, pop, push, widest
from lupi.vision.placement import N_PLACEMENT, placement_range

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
    a, b_, c, d = images[b, r], images[t, r], images[b, l], images[t, l]
    total = np.float32(0.0)
    for k in range(out.shape[0]):
        v = a[k] - b_[k] - c[k] + d[k]
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
    s = np.float32(0.0)
    for k in range(u.shape[0]):
        s += high[k] if high[k] < u[k] else u[k]
    return s


@njit(cache=True, nogil=True)
def _apart(n, row_edges, col_edges, places, scale, out):
    """Least squared distance of a node's placements (times `scale`) to each support vector's; zeros without placements."""
    if places.shape[1] == 0:
        out[:] = 0.0
        return
    low, high = np.empty(N_PLACEMENT), np.empty(N_PLACEMENT)
    placement_range(
        row_edges[n[0]],
        row_edges[n[1]],
        col_edges[n[2]],
        col_edges[n[3]],
        row_edges[n[4]],
        row_edges[n[5]],
        col_edges[n[6]],
        col_edges[n[7]],
        row_edges[-1],
        col_edges[-1],
        low,
        high,
    )
    for i in range(places.shape[0]):
        s = 0.0
        for k in range(N_PLACEMENT):
            gap = max(scale * low[k] - places[i, k], places[i, k] - scale * high[k], 0.0)
            s += gap * gap
        out[i] = s


@njit(cache=True, nogil=True)
def _bound(low, high, apart, support, coef, log_coef, gamma, kind, terms):
    """Largest expansion (its logarithm for chi2) of histograms between low and high; exact when they are equal."""
    n = support.shape[0]
    if kind == INTERSECTION:
        total = 0.0
        for i in range(n):
            total += coef[i] * _common(high, support[i]) * np.exp(-apart[i])
        return total
    top = -np.inf
    for i in range(n):
        terms[i] = log_coef[i] - apart[i] - gamma * _nearest_distance(low, high, support[i])
        top = max(top, terms[i])
    total = 0.0
    for i in range(n):
        total += np.exp(terms[i] - top)
    return top + np.log(total)


@njit(cache=True, nogil=True)
def exact_value(histogram, apart, support, coef, gamma, kind):
    """The expansion (its logarithm for chi2) in double precision."""
    n, n_words = support.shape
    terms = np.zeros(n)
    total = 0.0
    for i in range(n):
        s = 0.0
        for k in range(n_words):
            h, u = histogram[k], support[i, k]
            if kind == INTERSECTION:
                s += min(h, u)
            elif h + u > 0.0:
                s += (h - u) ** 2 / (h + u)
        if kind == INTERSECTION:
            total += coef[i] * s * np.exp(-apart[i])
        else:
            terms[i] = np.log(coef[i]) - apart[i] - gamma * s
    if kind == INTERSECTION:
        return total
    top = np.max(terms)
    return top + np.log(np.sum(np.exp(terms - top)))


@njit(cache=True, nogil=True)
def box_value(images, t, l, b, r, apart, support, coef, gamma, kind, normalize):
    """Exact value of one grid box; `apart`: squared distances of its placement to the support vectors'.

    With `normalize` a box without points has no histogram: minus infinity, so that it is never chosen. As a histogram of zeros it
    would be nearer to the support vectors than most boxes with points are.
    """
    histogram = np.empty(images.shape[2])
    total = 0.0
    for k in range(images.shape[2]):
        histogram[k] = np.float64(images[b, r, k] - images[t, r, k] - images[b, l, k] + images[t, l, k])
        total += histogram[k]
    if normalize:
        if total == 0.0:
            return -np.inf
        histogram /= total
    return exact_value(histogram, apart, support, coef, gamma, kind)


@njit(cache=True, nogil=True, fastmath=_FAST)
def _normalize_range(low, high, low_total, high_total):
    """Turn a range of counts into the range of their L1-normalized values.

    A share x / (x + rest) is largest with the most in its bin and the least elsewhere, and the other way round.
    """
    for k in range(low.shape[0]):
        least = low[k] + (high_total - high[k])
        most = high[k] + (low_total - low[k])
        low[k] = low[k] / least if least > 0.0 else np.float32(0.0)
        high[k] = high[k] / most if most > 0.0 else np.float32(0.0)


@njit(cache=True, nogil=True)
def kernel_branch_and_bound(
    images, row_edges, col_edges, places, scale, support, coef, gamma, kind, normalize, max_nodes
):
    """Best grid box: (t, l, b, r), exact value, upper bound, number of bounds computed.

    `places` are the support vectors' placements, times `scale`; of shape (n_support, 0) if there are none. A node is bounded
    once; leaves are evaluated in double precision. Bounds carry a margin for single precision.
    """
    h, w, n_words = images.shape[0] - 1, images.shape[1] - 1, images.shape[2]
    single = support.astype(np.float32)
    log_coef = np.log(coef)
    terms = np.empty(support.shape[0])
    apart = np.empty(support.shape[0])
    low, high = np.empty(n_words, dtype=np.float32), np.empty(n_words, dtype=np.float32)
    capacity = 4096
    keys = np.empty(capacity)
    ids = np.empty(capacity, dtype=np.int32)
    nodes = np.empty((capacity, 8), dtype=np.int16)
    n = np.array([0, h - 1, 0, w - 1, 1, h, 1, w], dtype=np.int64)
    current = n.copy()
    for k in range(8):
        nodes[0, k] = n[k]
    keys[0] = np.inf
    ids[0] = 0
    size = used = 1
    bounds = 0
    best = np.array([0, 0, h, w], dtype=np.int64)
    _apart(np.array([0, 0, 0, 0, h, h, w, w]), row_edges, col_edges, places, scale, apart)
    best_value = box_value(images, 0, 0, h, w, apart, support, coef, gamma, kind, normalize)
    if best_value == -np.inf:  # no points in the whole image
        return (0, 0, h, w), best_value, best_value, 0
    upper = np.inf
    while size > 0:
        upper = keys[0]
        if upper <= best_value or bounds >= max_nodes:
            break
        slot = ids[0]
        pop(keys, ids, size)
        size -= 1
        for k in range(8):
            current[k] = nodes[slot, k]
        edge = widest(current)
        if current[2 * edge] == current[2 * edge + 1]:
            t, l, b, r = current[0], current[2], current[4], current[6]
            _apart(current, row_edges, col_edges, places, scale, apart)
            value = box_value(images, t, l, b, r, apart, support, coef, gamma, kind, normalize)
            if value > best_value:
                best_value = value
                best[0], best[1], best[2], best[3] = t, l, b, r
            continue
        free = slot
        for side in range(2):
            if not halve(current, edge, side, n):
                continue
            high_total = _histogram(images, n[0], n[2], n[5], n[7], high)
            if normalize and high_total == 0.0:
                continue
            low_total = np.float32(0.0)
            if n[1] < n[4] and n[3] < n[6]:
                low_total = _histogram(images, n[1], n[3], n[4], n[6], low)
            else:
                low[:] = 0.0
            if normalize:
                _normalize_range(low, high, low_total, high_total)
            _apart(n, row_edges, col_edges, places, scale, apart)
            bound = _bound(low, high, apart, single, coef, log_coef, gamma, kind, terms)
            bounds += 1
            bound += 1e-4 * (1.0 + 0.1 * abs(bound))
            if bound <= best_value:
                continue
            if free >= 0:
                node = free
                free = -1
            else:
                node = used
                used += 1
                if used > len(keys):
                    keys, ids, nodes = grow(keys, ids, nodes)
            for k in range(8):
                nodes[node, k] = n[k]
            push(keys, ids, size, bound, node)
            size += 1
    if size == 0 or upper < best_value:
        upper = best_value
    # Numbers: Ctrl-C while an array is handed to Python would end in numba's SystemError.
    return (best[0], best[1], best[2], best[3]), best_value, upper, bounds


@njit(cache=True, nogil=True)
def dense_windows(images, support, coef, gamma, kind, normalize):
    """Every box in turn, in single precision: the baseline of the benchmark."""
    h, w, n_words = images.shape[0] - 1, images.shape[1] - 1, images.shape[2]
    single = support.astype(np.float32)
    log_coef = np.log(coef)
    terms = np.empty(support.shape[0])
    apart = np.zeros(support.shape[0])
    histogram = np.empty(n_words, dtype=np.float32)
    best = np.zeros(4, dtype=np.int64)
    best_value = -np.inf
    for t in range(h):
        for b in range(t + 1, h + 1):
            for l in range(w):
                for r in range(l + 1, w + 1):
                    total = _histogram(images, t, l, b, r, histogram)
                    if normalize:
                        if total == 0.0:
                            continue
                        for k in range(n_words):
                            histogram[k] /= total
                    value = _bound(histogram, histogram, apart, single, coef, log_coef, gamma, kind, terms)
                    if value > best_value:
                        best_value = value
                        best[0], best[1], best[2], best[3] = t, l, b, r
    return best, best_value
