r"""Overlap loss and placement features of a box: exact values, and ranges over sets of boxes.

In each of its four coordinates the overlap rises up to the true box's edge and falls beyond it. Over a product of intervals it is
therefore largest at the true box clamped to the intervals, and smallest at a corner of the product. Both ends are attained, so the
ranges are at least as tight as eq. 15 and 17 of Feyereisl et al. (2014).

The placement of a box is nine numbers. With :math:`s = (t/H, l/W, b/H, r/W)`, the sides relative to an image of H x W pixels, and
:math:`c` the sides of the centered box of half the height and half the width, they are :math:`s - c`, :math:`(s - c)^2` and the
relative area minus 1/4. A linear function of them is one function per side plus a constant weight per pixel, so exact searches stay
exact: the function of a side enters the choice of that side, and the weight per pixel enters the integral image.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

N_PLACEMENT = 9
_CENTER = (0.25, 0.25, 0.75, 0.75)
_CENTER_AREA = 0.25


class Grid(NamedTuple):
    """A grid of scores: integral images of all scores, transposed, and of positive ones; scores of the sides; lines in pixels."""

    total: np.ndarray
    transposed: np.ndarray
    positive: np.ndarray
    sides: np.ndarray
    rows: np.ndarray
    cols: np.ndarray


@njit(cache=True, nogil=True)
def new_grid(scores, rows, cols, weights):
    """Grid of the scores of its cells and of the nine weights of the placement; the area is part of the cells."""
    h, w = scores.shape
    total, transposed, positive = np.zeros((h + 1, w + 1)), np.zeros((w + 1, h + 1)), np.zeros((h + 1, w + 1))
    sides = np.zeros((4, max(len(rows), len(cols))))
    for k in range(4):
        edges = rows if k % 2 == 0 else cols
        for i in range(len(edges)):
            v = edges[i] / edges[-1] - _CENTER[k]
            sides[k, i] = weights[k] * v + weights[4 + k] * v * v
            if k == 0:
                sides[k, i] -= weights[8] * _CENTER_AREA
    scale = weights[8] / (rows[-1] * cols[-1])
    for i in range(h):
        row = row_positive = 0.0
        for j in range(w):
            v = scores[i, j] + scale * (rows[i + 1] - rows[i]) * (cols[j + 1] - cols[j])
            row += v
            row_positive += max(v, 0.0)
            total[i + 1, j + 1] = total[i, j + 1] + row
            positive[i + 1, j + 1] = positive[i, j + 1] + row_positive
    # In tiles: a column-wise copy of the whole image would miss the cache at every step.
    for i0 in range(0, h + 1, 16):
        for j0 in range(0, w + 1, 16):
            for j in range(j0, min(j0 + 16, w + 1)):
                for i in range(i0, min(i0 + 16, h + 1)):
                    transposed[j, i] = total[i, j]
    return Grid(total, transposed, positive, sides, rows, cols)


@njit(cache=True, nogil=True)
def grid_edges(size, step):
    """Pixel positions of the grid lines: 0, step, 2 step, ..., size."""
    n = (size + step - 1) // step
    edges = np.empty(n + 1)
    for k in range(n):
        edges[k] = k * step
    edges[n] = size
    return edges


@njit(cache=True, nogil=True)
def overlap(t, l, b, r, gt):
    """Intersection over union of the box (t, l, b, r) with the true box; 0 for an empty box."""
    h = min(b, gt[2]) - max(t, gt[0])
    w = min(r, gt[3]) - max(l, gt[1])
    if h <= 0.0 or w <= 0.0:
        return 0.0
    common = h * w
    return common / ((b - t) * (r - l) + (gt[2] - gt[0]) * (gt[3] - gt[1]) - common)


@njit(cache=True, nogil=True)
def grid_loss(grid, t, l, b, r, gt):
    """1 - overlap of a grid box with the true box."""
    return 1.0 - overlap(grid.rows[t], grid.cols[l], grid.rows[b], grid.cols[r], gt)


@njit(cache=True, nogil=True)
def node_edges(rows, cols, n):
    """Pixel positions (t0, t1, l0, l1, b0, b1, r0, r1) of a product of intervals of grid lines."""
    return rows[n[0]], rows[n[1]], cols[n[2]], cols[n[3]], rows[n[4]], rows[n[5]], cols[n[6]], cols[n[7]]


@njit(cache=True, nogil=True)
def _clamp(v, low, high):
    return low if v < low else (high if v > high else v)


@njit(cache=True, nogil=True)
def largest_overlap(edges, gt):
    """Largest overlap over the boxes of a product of intervals."""
    t0, t1, l0, l1, b0, b1, r0, r1 = edges
    t, b = _clamp(gt[0], t0, t1), _clamp(gt[2], b0, b1)
    l, r = _clamp(gt[1], l0, l1), _clamp(gt[3], r0, r1)
    if t < b and l < r:
        return overlap(t, l, b, r, gt)
    h = min(b1, gt[2]) - max(t0, gt[0])
    w = min(r1, gt[3]) - max(l0, gt[1])
    if h <= 0.0 or w <= 0.0:
        return 0.0
    return min(1.0, h * w / ((gt[2] - gt[0]) * (gt[3] - gt[1])))


@njit(cache=True, nogil=True)
def _farthest(low, high, edge):
    """The ends of an interval where the overlap can be smallest: the far end, or both ends around the true edge."""
    if high <= edge:
        return low, low
    if low >= edge:
        return high, high
    return low, high


@njit(cache=True, nogil=True)
def smallest_overlap(edges, gt):
    """Smallest overlap over the boxes of a product of intervals."""
    t0, t1, l0, l1, b0, b1, r0, r1 = edges
    if t1 >= gt[2] or b0 <= gt[0] or l1 >= gt[3] or r0 <= gt[1] or t1 >= b0 or l1 >= r0:
        return 0.0
    tops, bottoms = _farthest(t0, t1, gt[0]), _farthest(b0, b1, gt[2])
    lefts, rights = _farthest(l0, l1, gt[1]), _farthest(r0, r1, gt[3])
    low = 1.0
    for corner in range(16):
        i, j, k, m = corner & 1, (corner >> 1) & 1, (corner >> 2) & 1, corner >> 3
        repeated = (i and tops[0] == tops[1]) or (j and bottoms[0] == bottoms[1])
        if repeated or (k and lefts[0] == lefts[1]) or (m and rights[0] == rights[1]):
            continue
        low = min(low, overlap(tops[i], lefts[k], bottoms[j], rights[m], gt))
    return low


def placement(boxes: Any, shapes: Any) -> np.ndarray:
    """Placement features of boxes in images of these shapes, along the last axis."""
    t, l, b, r = np.moveaxis(np.asarray(boxes, dtype=float), -1, 0)
    h, w = np.moveaxis(np.asarray(shapes, dtype=float), -1, 0)
    sides = np.stack([t / h, l / w, b / h, r / w], axis=-1) - _CENTER
    area = (b - t) * (r - l) / (h * w) - _CENTER_AREA
    return np.concatenate([sides, sides * sides, area[..., None]], axis=-1)


@njit(cache=True, nogil=True)
def placement_range(edges, h, w, low, high):
    """Smallest and largest value of each placement feature over the boxes of a product of intervals."""
    t0, t1, l0, l1, b0, b1, r0, r1 = edges
    starts = (t0 / h, l0 / w, b0 / h, r0 / w)
    stops = (t1 / h, l1 / w, b1 / h, r1 / w)
    for k in range(4):
        a, z = starts[k] - _CENTER[k], stops[k] - _CENTER[k]
        low[k], high[k] = a, z
        low[4 + k] = 0.0 if a <= 0.0 <= z else min(a * a, z * z)
        high[4 + k] = max(a * a, z * z)
    low[8] = max(b0 - t1, 0.0) * max(r0 - l1, 0.0) / (h * w) - _CENTER_AREA
    high[8] = (b1 - t0) * (r1 - l0) / (h * w) - _CENTER_AREA
