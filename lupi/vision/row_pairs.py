"""Search by pairs of rows: two-dimensional Kadane, and its extension to the overlap loss.

For fixed top and bottom the score of a box is a difference of two prefix sums. Without a loss one pass over the columns
finds the best pair (Kadane). With a loss that pass gives an upper bound; only row pairs whose bound beats the incumbent are
scanned column by column, in one vectorized loop for each left edge. Wins over branch and bound on coarse grids, and is the
way out when branch and bound meets its node cap.
"""

import numpy as np
from numba import njit

from lupi.vision.loss_bounds import overlap

_FAST = {"nnan", "nsz", "reassoc", "contract", "arcp"}


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def _scan(prefix, left, loss_weight, height, common_height, true_area, widths, common_widths, n):
    """Largest prefix[r] + loss over the n right edges after `left`."""
    best = -np.inf
    for k in range(n):
        common = common_height * common_widths[k]
        v = prefix[left + 1 + k] - loss_weight * common / (true_area + height * widths[k] - common)
        best = v if v > best else best
    return best


@njit(cache=True, nogil=True)
def _kadane(total, t, b, prefix):
    """Best columns for rows t..b-1; fills `prefix` with the column sums from the left."""
    low = 0.0
    low_arg = 0
    best = -np.inf
    left = 0
    right = 1
    prefix[0] = 0.0
    for k in range(1, total.shape[1]):
        v = total[b, k] - total[t, k]
        prefix[k] = v
        if v - low > best:
            best = v - low
            left = low_arg
            right = k
        if v < low:
            low = v
            low_arg = k
    return best, left, right


@njit(cache=True, nogil=True)
def row_pairs(total, row_edges, col_edges, gt, c):
    """Best box of a grid for score + c * (1 - overlap): the grid box (t, l, b, r) and its value."""
    h = total.shape[0] - 1
    w = total.shape[1] - 1
    g0, g1, g2, g3 = gt[0], gt[1], gt[2], gt[3]
    true_area = (g2 - g0) * (g3 - g1)
    best = np.zeros(4, dtype=np.int64)
    best_value = -np.inf
    prefix = np.empty(w + 1)
    bounds = np.empty((h, h + 1))
    for t in range(h):
        for b in range(t + 1, h + 1):
            score, l, r = _kadane(total, t, b, prefix)
            value = score
            if c != 0.0:
                value += c * (
                    1.0 - overlap(row_edges[t], col_edges[l], row_edges[b], col_edges[r], g0, g1, g2, g3)
                )
                if c > 0.0:
                    score += c
                else:
                    # With these rows the overlap is largest when the columns are the true ones.
                    score += c * (1.0 - overlap(row_edges[t], g1, row_edges[b], g3, g0, g1, g2, g3))
            bounds[t, b] = score
            if value > best_value:
                best_value = value
                best[0], best[1], best[2], best[3] = t, l, b, r
    if c == 0.0:
        return best, best_value
    widths = np.empty((w, w))
    common = np.empty((w, w))
    for l in range(w):
        for k in range(w - l):
            r = l + 1 + k
            widths[l, k] = col_edges[r] - col_edges[l]
            common[l, k] = max(min(col_edges[r], g3) - max(col_edges[l], g1), 0.0)
    later = np.empty(w + 2)
    for t in range(h):
        for b in range(t + 1, h + 1):
            if bounds[t, b] <= best_value:
                continue
            common_height = min(row_edges[b], g2) - max(row_edges[t], g0)
            if common_height <= 0.0:
                # The loss is 1 for all columns, and Kadane's box has been counted with it.
                continue
            height = row_edges[b] - row_edges[t]
            for k in range(w + 1):
                prefix[k] = total[b, k] - total[t, k]
            later[w + 1] = -np.inf
            for k in range(w, -1, -1):
                later[k] = max(prefix[k], later[k + 1])
            for l in range(w):
                if c > 0.0 and later[l + 1] - prefix[l] + c <= best_value:
                    continue
                value = c - prefix[l]
                value += _scan(prefix, l, c, height, common_height, true_area, widths[l], common[l], w - l)
                if value > best_value:
                    best_value, right = -np.inf, l + 1
                    for r in range(l + 1, w + 1):
                        v = prefix[r] - prefix[l] + c * (
                            1.0 - overlap(row_edges[t], col_edges[l], row_edges[b], col_edges[r], g0, g1, g2, g3)
                        )
                        if v > best_value:
                            best_value, right = v, r
                    best[0], best[1], best[2], best[3] = t, l, b, right
    return best, best_value
