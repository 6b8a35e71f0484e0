"""Search by pairs of rows: two-dimensional Kadane, and its extension to the overlap loss.

For fixed top and bottom the score of a box is a difference of two prefix sums. Without a loss one pass over the columns
finds the best pair (Kadane). With a loss that pass gives an upper bound; only row pairs whose bound exceeds the incumbent are
scanned column by column, in one vectorized loop per left edge. This scan is faster than branch and bound on coarse grids, and
completes searches that reach the node limit. Terms of the sides are part of the two prefix sums.
"""

import numpy as np
from numba import njit

from lupi.vision.box_terms import grid_loss, overlap

_FAST = {"nnan", "nsz", "reassoc", "contract", "arcp"}
_PAD = 8


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def _scan(prefix, loss_weight, height, common_height, true_area, widths, common_widths):
    """Largest prefix + loss over the right edges that follow a left edge, in single precision."""
    best = np.float32(-np.inf)
    for k in range(prefix.shape[0]):
        common = common_height * common_widths[k]
        v = prefix[k] - loss_weight * common / (true_area + height * widths[k] - common)
        best = v if v > best else best
    return best


@njit(cache=True, nogil=True)
def _kadane(grid, t, b, start, stop):
    """Best columns within start..stop-1 for rows t..b-1: score with these two sides, left and right."""
    upper, lower, left_side, right_side = grid.total[t], grid.total[b], grid.sides[1], grid.sides[3]
    low = lower[start] - upper[start] - left_side[start]
    low_arg = start
    best = -np.inf
    left = start
    right = start + 1
    for k in range(start + 1, stop + 1):
        v = lower[k] - upper[k]
        if v + right_side[k] - low > best:
            best = v + right_side[k] - low
            left = low_arg
            right = k
        v -= left_side[k]
        if v < low:
            low = v
            low_arg = k
    return best, left, right


@njit(cache=True, nogil=True)
def best_columns(grid):
    """For every pair of rows the best score of a box between them, and its left and right side: the search without a loss."""
    h, w = len(grid.rows) - 1, len(grid.cols) - 1
    scores = np.empty((h, h + 1))
    lefts, rights = np.empty((h, h + 1), dtype=np.int16), np.empty((h, h + 1), dtype=np.int16)
    for t in range(h):
        for b in range(t + 1, h + 1):
            score, lefts[t, b], rights[t, b] = _kadane(grid, t, b, 0, w)
            scores[t, b] = score + grid.sides[0, t] + grid.sides[2, b]
    return scores, lefts, rights


@njit(cache=True, nogil=True)
def row_pairs(grid, columns, gt, c):
    """Best box of a grid for score + sides + c * (1 - overlap): the grid box (t, l, b, r) and its value.

    `columns` comes from :func:`best_columns`, shared by the searches for several c.
    """
    scores, lefts, rights = columns
    h = len(grid.rows) - 1
    best = np.zeros(4, dtype=np.int64)
    best_value = -np.inf
    for t in range(h):
        for b in range(t + 1, h + 1):
            value = scores[t, b]
            if value + max(c, 0.0) <= best_value:
                continue
            l, r = lefts[t, b], rights[t, b]
            if c != 0.0:
                value += c * grid_loss(grid, t, l, b, r, gt)
            if value > best_value:
                best_value = value
                best[0], best[1], best[2], best[3] = t, l, b, r
    if c != 0.0:
        bounds = np.empty((h, h + 1))
        best_value, largest = _tight_bounds(grid, scores, gt, c, bounds, best, best_value)
        if largest > best_value:
            best_value = _scan_pairs(grid, gt, c, bounds, best, best_value)
    return best, best_value


@njit(cache=True, nogil=True)
def _narrow_columns(col_edges, gt):
    """Column ranges among which the overlap is smallest for any rows, of the ranges that meet the true columns.

    The overlap is unimodal in each edge, so its minimum has both edges at an end of what is allowed: the whole width,
    one border of the image with the first cell that meets the true box from there, or a single cell.
    Returns their common widths (0 for a range that does not count) and widths, and the ranges 0..left and right..w that do not
    meet the true columns.
    """
    w = col_edges.shape[0] - 1
    left = 0
    while left < w and col_edges[left + 1] <= gt[1]:
        left += 1
    right = w
    while right > 0 and col_edges[right - 1] >= gt[3]:
        right -= 1
    common, width = np.empty(6), np.empty(6)
    starts = (0, 0, right - 1, left, right - 1, left + 1)
    stops = (w, left + 1, w, left + 1, right, min(left + 2, w))
    for k in range(6):
        common[k] = max(min(col_edges[stops[k]], gt[3]) - max(col_edges[starts[k]], gt[1]), 0.0)
        width[k] = col_edges[stops[k]] - col_edges[starts[k]]
    return common, width, left, right


@njit(cache=True, nogil=True)
def _tight_bounds(grid, scores, gt, c, bounds, best, best_value):
    """Fill the bounds of the row pairs that may still win, -inf for the others; updates `best`.

    Returns its value and the largest bound. Columns beside the true ones have the full loss, so Kadane's pass over them alone
    settles them.
    """
    h, w, row_edges = len(grid.rows) - 1, len(grid.cols) - 1, grid.rows
    true_area = (gt[2] - gt[0]) * (gt[3] - gt[1])
    narrow_common, narrow_width, left_end, right_start = _narrow_columns(grid.cols, gt)
    largest = -np.inf
    for t in range(h):
        for b in range(t + 1, h + 1):
            bounds[t, b] = -np.inf
            score = scores[t, b]
            common_height = min(row_edges[b], gt[2]) - max(row_edges[t], gt[0])
            # Rows beside the true ones: the loss is 1 for all columns, and Kadane's box was the best one.
            if score + max(c, 0.0) <= best_value or common_height <= 0.0:
                continue
            if c < 0.0:
                # With these rows the overlap is largest when the columns are the true ones.
                bounds[t, b] = score + c * (1.0 - overlap(row_edges[t], gt[1], row_edges[b], gt[3], gt))
                largest = max(largest, bounds[t, b])
                continue
            for side in range(2):
                start, stop = (0, left_end) if side == 0 else (right_start, w)
                if start < stop:
                    value, l, r = _kadane(grid, t, b, start, stop)
                    value += grid.sides[0, t] + grid.sides[2, b] + c
                    if value > best_value:
                        best_value = value
                        best[0], best[1], best[2], best[3] = t, l, b, r
            smallest = 1.0
            for k in range(6):
                if narrow_common[k] > 0.0:
                    common = common_height * narrow_common[k]
                    area = (row_edges[b] - row_edges[t]) * narrow_width[k]
                    smallest = min(smallest, common / (true_area + area - common))
            bounds[t, b] = score + c * (1.0 - smallest)
            largest = max(largest, bounds[t, b])
    return best_value, largest


@njit(cache=True, nogil=True)
def _edge_ranges(col_edges, gt, c):
    """For each left edge the first right edge of interest, and the column ranges where the loss may be largest.

    For c > 0 only ranges that meet the true columns are of interest, and the overlap is smallest at the first or the last
    right edge; for c < 0 it is largest at the true right edge. Ranges are given as (common width, width).
    """
    w = col_edges.shape[0] - 1
    first = np.empty(w, dtype=np.int64)
    near, far = np.zeros((2, w)), np.zeros((2, w))
    for l in range(w):
        r = l + 1
        if c > 0.0:
            while r <= w and col_edges[r] <= gt[1]:
                r += 1
            if col_edges[l] >= gt[3]:
                r = w + 1
        first[l] = r
        if r <= w:
            start = max(col_edges[l], gt[1])
            stop = col_edges[r] if c > 0.0 else max(gt[3], col_edges[r])
            near[0, l] = max(min(stop, gt[3]) - start, 0.0)
            near[1, l] = stop - col_edges[l]
            stop = col_edges[w] if c > 0.0 else stop
            far[0, l] = max(min(stop, gt[3]) - start, 0.0)
            far[1, l] = stop - col_edges[l]
    return first, near, far


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def _loss_reach(near, far, c, common_height, height, true_area, out):
    """Largest weighted loss for each left edge."""
    for l in range(out.shape[0]):
        a = common_height * near[0, l]
        a = a / (true_area + height * near[1, l] - a)
        b = common_height * far[0, l]
        b = b / (true_area + height * far[1, l] - b)
        out[l] = c * (1.0 - (a if a < b else b))


@njit(cache=True, nogil=True)
def _scan_pairs(grid, gt, c, bounds, best, best_value):
    """Scan the columns of all row pairs whose bound exceeds the incumbent; updates `best`, returns its value.

    The scan runs in single precision; every left edge that comes within its rounding of the incumbent is recomputed.
    """
    total, sides, row_edges, col_edges = grid.total, grid.sides, grid.rows, grid.cols
    h, w = len(row_edges) - 1, len(col_edges) - 1
    f32 = np.float32
    true_area, weight = f32((gt[2] - gt[0]) * (gt[3] - gt[1])), f32(c)
    # Padding to whole vectors: short loops would spend their time in the remainder.
    widths = np.empty((w, w + _PAD), dtype=np.float32)
    common = np.empty((w, w + _PAD), dtype=np.float32)
    for l in range(w):
        for k in range(w + _PAD):
            r = min(l + 1 + k, w)
            widths[l, k] = col_edges[r] - col_edges[l]
            common[l, k] = max(min(col_edges[r], gt[3]) - max(col_edges[l], gt[1]), 0.0)
    first, near, far = _edge_ranges(col_edges, gt, c)
    reach, later = np.empty(w), np.empty(w + 2)
    low, high = np.empty(w + 1), np.empty(w + 1)
    single = np.empty(w + 1 + _PAD, dtype=np.float32)
    for k in range(w + 1, w + 1 + _PAD):
        single[k] = -np.inf
    for t in range(h):
        for b in range(t + 1, h + 1):
            if bounds[t, b] <= best_value:
                continue
            common_height = f32(min(row_edges[b], gt[2]) - max(row_edges[t], gt[0]))
            height = f32(row_edges[b] - row_edges[t])
            size = abs(c)
            for k in range(w + 1):
                prefix = total[b, k] - total[t, k]
                low[k] = prefix - sides[1, k]
                high[k] = prefix + sides[3, k] + sides[0, t] + sides[2, b]
                single[k] = high[k]
                size = max(size, abs(low[k]), abs(high[k]))
            rounding = 2e-6 * size
            later[w + 1] = -np.inf
            for k in range(w, -1, -1):
                later[k] = max(high[k], later[k + 1])
            _loss_reach(near, far, c, common_height, height, true_area, reach)
            for l in range(w):
                if later[first[l]] - low[l] + reach[l] <= best_value:
                    continue
                stop = l + 1 + (w - l + _PAD - 1) // _PAD * _PAD
                value = _scan(single[l + 1 : stop], weight, height, common_height, true_area, widths[l], common[l])
                if value + c - low[l] > best_value - rounding:
                    for r in range(l + 1, w + 1):
                        v = high[r] - low[l] + c * grid_loss(grid, t, l, b, r, gt)
                        if v > best_value:
                            best_value = v
                            best[0], best[1], best[2], best[3] = t, l, b, r
    return best_value
