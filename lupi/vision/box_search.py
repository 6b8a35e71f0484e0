"""Exact search for the box with the largest sum of word weights, with or without an overlap loss.

Best-first branch and bound (efficient subwindow search). A node is a product of intervals for the four edges. Between its largest
and its smallest box lie four strips and four corners. The classic bound counts every positive point there; here a strip is
bounded by its best cut, found on the integral image, and only the corners count positive points. The best cuts also form a good
box, the candidate of the node.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from lupi.vision.box_terms import (
    N_PLACEMENT,
    grid_edges,
    grid_loss,
    largest_overlap,
    new_grid,
    node_edges,
    smallest_overlap,
)
from lupi.vision.geometry import Box, WordImage, check_box
from lupi.vision.row_pairs import best_columns, row_pairs

SEARCHES = {"auto": 0, "branch_and_bound": 1, "row_pairs": 2}

_FAST = {"nnan", "nsz", "reassoc", "contract", "arcp"}
# Below this many cells x row pairs the scan over row pairs is faster than branch and bound.
_SMALL = 80_000


class Images(NamedTuple):
    """Points of several word images, image i from ``start[i]`` to ``start[i + 1]``, with their shapes and true boxes."""

    rows: np.ndarray
    cols: np.ndarray
    words: np.ndarray
    start: np.ndarray
    shapes: np.ndarray
    boxes: np.ndarray


class FoundBox(NamedTuple):
    """Result of a search.

    Attributes
    ----------
    box : Box
        The best box found, in pixels.
    value : float
        Its score plus weighted loss.
    upper_bound : float
        No box has a larger value. Equal to ``value`` when the search was completed.
    n_nodes : int
        Nodes that branch and bound expanded; 0 for the scan over row pairs.
    """

    box: Box
    value: float
    upper_bound: float
    n_nodes: int


class FoundBoxes(NamedTuple):
    """Best boxes of several images and loss weights: boxes, losses, values, upper bounds, nodes; scores of the true boxes."""

    boxes: np.ndarray
    losses: np.ndarray
    values: np.ndarray
    bounds: np.ndarray
    nodes: np.ndarray
    true_scores: np.ndarray


@njit(cache=True, nogil=True)
def inside(images, k, box):
    """Whether point k lies in a box; never for NaN."""
    r, c = images.rows[k], images.cols[k]
    return (r >= box[0]) & (r < box[2]) & (c >= box[1]) & (c < box[3])


@njit(cache=True, nogil=True)
def search_images(images, index, weights, place_weights, loss_weights, step, method, max_nodes):
    """Best box of the images `index` for each of their loss weights.

    Row q of `place_weights` and `loss_weights` belongs to image ``index[q]``.
    """
    shape = loss_weights.shape
    boxes, losses, true_scores = np.empty((shape[0], shape[1], 4)), np.empty(shape), np.zeros(shape[0])
    values, bounds, nodes = np.empty(shape), np.empty(shape), np.zeros(shape, dtype=np.int64)
    for q in range(shape[0]):
        i = index[q]
        gt = images.boxes[i]
        row_edges, col_edges = grid_edges(images.shapes[i, 0], step), grid_edges(images.shapes[i, 1], step)
        n_rows, n_cols = len(row_edges) - 1, len(col_edges) - 1
        scores = np.zeros((n_rows, n_cols))
        for k in range(images.start[i], images.start[i + 1]):
            scores[images.rows[k] // step, images.cols[k] // step] += weights[images.words[k]]
            if inside(images, k, gt):
                true_scores[q] += weights[images.words[k]]
        grid = new_grid(scores, row_edges, col_edges, place_weights[q])
        small = method == 2 or (method == 0 and n_rows * (n_rows + 1) // 2 * n_cols <= _SMALL)
        scanned = False
        for j in range(shape[1]):
            c = loss_weights[q, j]
            scan = small
            if not scan:
                found, value, bound, nodes[q, j] = branch_and_bound(grid, gt, c, max_nodes)
                scan = bound > value and method == 0
            if scan:
                if not scanned:
                    columns = best_columns(grid)
                    scanned = True
                found, value = row_pairs(grid, columns, gt, c)
                bound = value
            for side in range(4):
                boxes[q, j, side] = row_edges[found[side]] if side % 2 == 0 else col_edges[found[side]]
            losses[q, j] = grid_loss(grid, found[0], found[1], found[2], found[3], gt)
            values[q, j], bounds[q, j] = value, bound
    return FoundBoxes(boxes, losses, values, bounds, nodes, true_scores)


@njit(cache=True, nogil=True)
def branch_and_bound(grid, gt, c, max_nodes):
    """Best box of a grid for score + sides + c * (1 - overlap).

    Returns the grid box (t, l, b, r), its value, an upper bound of the maximum (equal to the value unless the search reached
    `max_nodes`) and the number of expanded nodes.
    """
    h, w = len(grid.rows) - 1, len(grid.cols) - 1
    heap = new_heap(1024, h, w)
    box, best = np.zeros(4, dtype=np.int64), np.array([0, 0, h, w])
    best_value = _value(grid, best, gt, c)
    n, current = np.zeros(8, dtype=np.int64), np.zeros(8, dtype=np.int64)
    size, expanded, upper = 1, 0, np.inf
    while size > 0:
        upper = heap[0][0]
        if upper <= best_value or expanded >= max_nodes:
            break
        pop(heap, size, current)
        size -= 1
        expanded += 1
        edge = widest(current)
        for side in range(2):
            if not halve(current, edge, side, n):
                continue
            bound = _score_bound(grid, n, box)
            if c > 0.0:
                bound += c * (1.0 - smallest_overlap(node_edges(grid.rows, grid.cols, n), gt))
            elif c < 0.0:
                bound += c * (1.0 - largest_overlap(node_edges(grid.rows, grid.cols, n), gt))
            if bound <= best_value:
                continue
            value = _value(grid, box, gt, c)
            if value > best_value:
                best_value = value
                for k in range(4):
                    best[k] = box[k]
            next_edge = widest(n)
            if bound > best_value and n[2 * next_edge] < n[2 * next_edge + 1]:
                heap = push(heap, size, bound, n)
                size += 1
    return best, best_value, max(upper, best_value) if size > 0 else best_value, expanded


@njit(cache=True, nogil=True)
def _value(grid, box, gt, c):
    t, l, b, r = box[0], box[1], box[2], box[3]
    v = _rectangle(grid.total, t, l, b, r) + grid.sides[0, t] + grid.sides[1, l] + grid.sides[2, b] + grid.sides[3, r]
    return v + c * grid_loss(grid, t, l, b, r, gt) if c != 0.0 else v


@njit(cache=True, nogil=True)
def _rectangle(image, t, l, b, r):
    """Sum over rows t..b-1 and columns l..r-1."""
    return (image[b, r] - image[t, r]) - (image[b, l] - image[t, l])


@njit(cache=True, nogil=True, fastmath=_FAST)
def _best_cut(a, b, side, sign, start, stop):
    """Index in start..stop of the largest sign * (b - a) + side."""
    arg = start
    best = sign * (b[start] - a[start]) + side[start]
    for k in range(start + 1, stop + 1):
        v = sign * (b[k] - a[k]) + side[k]
        if v > best:
            best = v
            arg = k
    return arg


@njit(cache=True, nogil=True, fastmath=_FAST)
def _best_pair(a, b, low_side, high_side, lo0, lo1, hi0, hi1):
    """Largest (b - a + high_side)[hi] - (b - a - low_side)[lo] with lo < hi in overlapping intervals."""
    best, arg_lo, arg_hi = -np.inf, lo0, hi1
    low, low_arg, k = np.inf, lo0, lo0
    for hi in range(max(hi0, lo0 + 1), hi1 + 1):
        while k < hi and k <= lo1:
            v = b[k] - a[k] - low_side[k]
            if v < low:
                low = v
                low_arg = k
            k += 1
        v = b[hi] - a[hi] + high_side[hi] - low
        if v > best:
            best, arg_lo, arg_hi = v, low_arg, hi
    return best, arg_lo, arg_hi


@njit(cache=True, nogil=True)
def _largest(side, start, stop):
    best = side[start]
    for k in range(start + 1, stop + 1):
        best = max(best, side[k])
    return best


@njit(cache=True, nogil=True, fastmath=_FAST)
def _score_bound(grid, n, box):
    """Upper bound of the score over node n = (t0 t1 l0 l1 b0 b1 r0 r1); fills the candidate box."""
    t0, t1, l0, l1, b0, b1, r0, r1 = n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7]
    total, transposed, positive = grid.total, grid.transposed, grid.positive
    top, left, bottom, right = grid.sides[0], grid.sides[1], grid.sides[2], grid.sides[3]
    rows, cols = t1 < b0, l1 < r0
    t, l, b, r = t0, l0, b1, r1
    if rows and cols:
        t = _best_cut(transposed[l1], transposed[r0], top, -1.0, t0, t1)
        b = _best_cut(transposed[l1], transposed[r0], bottom, 1.0, b0, b1)
        l = _best_cut(total[t1], total[b0], left, -1.0, l0, l1)
        r = _best_cut(total[t1], total[b0], right, 1.0, r0, r1)
        bound = _rectangle(total, t1, l1, b0, r0)
        bound += _rectangle(total, t, l1, t1, r0) + _rectangle(total, b0, l1, b, r0)
        bound += _rectangle(total, t1, l, b0, l1) + _rectangle(total, t1, r0, b0, r)
        bound += _rectangle(positive, t0, l0, t1, l1) + _rectangle(positive, t0, r0, t1, r1)
        bound += _rectangle(positive, b0, l0, b1, l1) + _rectangle(positive, b0, r0, b1, r1)
        bound += top[t] + left[l] + bottom[b] + right[r]
    elif rows:
        bound, l, r = _best_pair(total[t1], total[b0], left, right, l0, l1, r0, r1)
        t, b = t1, b0
        bound += _largest(top, t0, t1) + _largest(bottom, b0, b1)
        bound += _rectangle(positive, t0, l0, t1, r1) + _rectangle(positive, b0, l0, b1, r1)
    elif cols:
        bound, t, b = _best_pair(transposed[l1], transposed[r0], top, bottom, t0, t1, b0, b1)
        l, r = l1, r0
        bound += _largest(left, l0, l1) + _largest(right, r0, r1)
        bound += _rectangle(positive, t0, l0, b1, l1) + _rectangle(positive, t0, r0, b1, r1)
    else:
        bound = _largest(top, t0, t1) + _largest(bottom, b0, b1) + _largest(left, l0, l1) + _largest(right, r0, r1)
        bound += _rectangle(positive, t0, l0, b1, r1)
    box[0], box[1], box[2], box[3] = t, l, b, r
    return bound


@njit(cache=True, nogil=True)
def new_heap(capacity, h, w):
    """Heap of nodes, the largest key first, that holds the node of all boxes of an h x w grid: keys, node ids, nodes.

    The ids behind those of the heap are free.
    """
    keys, ids, nodes = np.empty(capacity), np.arange(capacity), np.empty((capacity, 8), dtype=np.int16)
    keys[0] = np.inf
    for edge in range(4):
        low = edge // 2
        nodes[0, 2 * edge] = low
        nodes[0, 2 * edge + 1] = (h if edge % 2 == 0 else w) - 1 + low
    return keys, ids, nodes


@njit(cache=True, nogil=True)
def push(heap, size, key, n):
    """Add node n to a heap with `size` entries; returns the heap, with twice the capacity if it was full."""
    keys, ids, nodes = heap
    if size == len(keys):
        keys, ids, nodes = np.empty(2 * size), np.arange(2 * size), np.empty((2 * size, 8), dtype=np.int16)
        for i in range(size):
            keys[i], ids[i] = heap[0][i], heap[1][i]
            for k in range(8):
                nodes[i, k] = heap[2][i, k]
    node = ids[size]
    for k in range(8):
        nodes[node, k] = n[k]
    p = size
    while p > 0 and keys[(p - 1) // 2] < key:
        keys[p], ids[p] = keys[(p - 1) // 2], ids[(p - 1) // 2]
        p = (p - 1) // 2
    keys[p], ids[p] = key, node
    return keys, ids, nodes


@njit(cache=True, nogil=True)
def pop(heap, size, n):
    """Move the root of a heap with `size` entries to n."""
    keys, ids, nodes = heap
    for k in range(8):
        n[k] = nodes[ids[0], k]
    root, key, node = ids[0], keys[size - 1], ids[size - 1]
    p, child = 0, 1
    while child < size - 1:
        if child + 1 < size - 1 and keys[child + 1] > keys[child]:
            child += 1
        if keys[child] <= key:
            break
        keys[p], ids[p] = keys[child], ids[child]
        p, child = child, 2 * child + 1
    keys[p], ids[p] = key, node
    ids[size - 1] = root


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
    """Let n be one half of a node, restricted to top < bottom and left < right; False when it contains no box."""
    for k in range(8):
        n[k] = node[k]
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


def check_weights(weights: Any, image: WordImage, name: str = "weights") -> np.ndarray:
    """Finite float weights, one for each word that the image uses."""
    weights = np.ascontiguousarray(weights, dtype=float)
    if weights.ndim != 1 or len(weights) < image.n_words_used:
        raise ValueError(
            f"{name} must hold one number for each word; the image uses word {image.n_words_used - 1}, "
            f"so at least {image.n_words_used} are needed, got shape {weights.shape}."
        )
    if not np.isfinite(weights).all():
        raise ValueError(f"{name} contains NaN or infinity.")
    return np.asarray(weights)


def best_box(
    word_image: WordImage,
    weights: Any,
    *,
    grid_step: int = 1,
    true_box: Any = None,
    loss_weight: float = 0.0,
    method: str = "auto",
    max_nodes: int = 5_000_000,
) -> FoundBox:
    r"""The non-empty box that maximizes the summed weights of its points, plus a multiple of the overlap loss.

    .. math::

        \max_y \; \sum_{p \in y} w_{word(p)} + c \, (1 - IoU(y_{true}, y))

    Parameters
    ----------
    word_image : WordImage
        Points with words.
    weights : array-like
        Weight of each word.
    grid_step : int, default=1
        Edges lie on multiples of this many pixels (and on the border of the image).
    true_box : Box or None, default=None
        Required when ``loss_weight`` is not 0.
    loss_weight : float, default=0.0
        The factor c; may be negative.
    method : {"auto", "branch_and_bound", "row_pairs"}, default="auto"
        Branch and bound, or a scan over pairs of rows; both are exact. "auto" scans coarse grids, and also
        when branch and bound reaches ``max_nodes``.
    max_nodes : int, default=5_000_000
        With ``method="branch_and_bound"`` the search stops here and returns its best box with an upper bound.

    Returns
    -------
    FoundBox
        box, value, upper_bound, n_nodes.

    References
    ----------
    .. [1] Lampert, Blaschko and Hofmann, Efficient subwindow search, 2009.
    .. [2] Feyereisl et al., Object localization based on structural SVM using privileged information, 2014, eq. 15-18.

    Examples
    --------
    >>> from lupi.vision import WordImage, best_box
    >>> image = WordImage([2, 3, 9], [4, 6, 9], [0, 0, 1], shape=(12, 12))
    >>> best_box(image, [1.0, -1.0]).value
    2.0
    """
    if not isinstance(word_image, WordImage):
        raise ValueError(f"word_image must be a WordImage, got {type(word_image).__name__}.")
    if method not in SEARCHES:
        raise ValueError(f"method must be one of {sorted(SEARCHES)}, got {method!r}.")
    if int(grid_step) < 1 or int(max_nodes) < 1:
        raise ValueError(f"grid_step and max_nodes must be at least 1, got {grid_step} and {max_nodes}.")
    if loss_weight != 0.0 and true_box is None:
        raise ValueError("true_box is required when loss_weight is not 0.")
    box = np.zeros(4) if true_box is None else np.array(check_box(true_box, "true_box"))
    points, shape = (word_image.rows, word_image.cols, word_image.words), np.array([word_image.shape])
    image = Images(*points, np.array([0, len(word_image)]), shape, box[None])
    words, places, c = check_weights(weights, word_image), np.zeros((1, N_PLACEMENT)), np.array([[float(loss_weight)]])
    options = int(grid_step), SEARCHES[method], int(max_nodes)
    found = search_images(image, np.zeros(1, dtype=np.int64), words, places, c, *options)
    edges = Box(*(int(v) for v in found.boxes[0, 0]))
    return FoundBox(edges, float(found.values[0, 0]), float(found.bounds[0, 0]), int(found.nodes[0, 0]))
