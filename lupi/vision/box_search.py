"""Exact search for the box with the largest sum of word weights, with or without an overlap loss.

Best-first branch and bound (efficient subwindow search): a node is a product of intervals for the four edges. The rows of the core
of all its boxes bound the choice of the columns, and its columns that of the rows; outside of both, positive points count. The
choices also form a good box, the candidate of the node.

On coarse grids a scan over pairs of rows is faster. Without a loss one pass over the columns finds the best pair (Kadane). With a
loss, row pairs whose bound exceeds the incumbent are scanned in one vectorized loop per left edge.

A linear function of the placement features (:func:`lupi.vision.images.placement`) is one function per side plus a constant weight
per pixel, so both searches stay exact.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from lupi.vision.images import CENTER, CENTER_AREA, N_PLACEMENT, Box, WordImage, check_box

SEARCHES = ("auto", "branch_and_bound", "row_pairs")

FAST = {"nnan", "nsz", "reassoc", "contract", "arcp"}
INNER: dict[str, Any] = {"cache": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
# Below this many cells x row pairs the scan over row pairs is faster than branch and bound.
_SMALL = 80_000
_PAD = 8


class Images(NamedTuple):
    """Points of several word images, image i from ``start[i]`` to ``start[i + 1]``; their shapes, true boxes and grid lines."""

    rows: np.ndarray
    cols: np.ndarray
    words: np.ndarray
    start: np.ndarray
    shapes: np.ndarray
    boxes: np.ndarray
    edges: np.ndarray


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
    """Best boxes of several images and loss weights: boxes, values, upper bounds, nodes; scores of the true boxes."""

    boxes: np.ndarray
    values: np.ndarray
    bounds: np.ndarray
    nodes: np.ndarray
    true_scores: np.ndarray


class Grid(NamedTuple):
    """A grid of scores: cells and their integral image, terms of the four sides, lines in pixels."""

    cells: np.ndarray
    total: np.ndarray
    sides: np.ndarray
    rows: np.ndarray
    cols: np.ndarray


def search_images(
    images: Images,
    index: np.ndarray,
    weights: np.ndarray,
    place_weights: np.ndarray,
    loss_weights: np.ndarray,
    *,
    step: int,
    method: str,
    max_nodes: int,
) -> FoundBoxes:
    """Best box of the images `index` for each of their loss weights.

    Row q of `place_weights` and `loss_weights` belongs to image ``index[q]``.
    """
    shape = loss_weights.shape
    values, nodes = np.zeros((2, *shape)), np.zeros(shape, dtype=np.int64)
    found = FoundBoxes(np.empty((*shape, 4)), values[0], values[1], nodes, np.zeros(len(index)))
    sides, areas = side_terms(images.edges[index], images.shapes[index], place_weights)
    case = images, index, weights, sides, areas, loss_weights, step
    n_rows, n_cols = -(-images.shapes[index].T // step)
    scanned = (method == "row_pairs") | ((method == "auto") & (n_rows * (n_rows + 1) // 2 * n_cols <= _SMALL))
    if not scanned.all():
        branch_images(np.flatnonzero(~scanned), *case, max_nodes, found)
        scanned |= (method == "auto") & (found.bounds > found.values).any(axis=1)
    if scanned.any():
        scan_images(np.flatnonzero(scanned), *case, found)
    return found


def grid_edges(shapes: np.ndarray, step: int) -> np.ndarray:
    """Pixel positions of the grid lines of rows and of columns: 0, step, 2 step, ..., size, which the last ones repeat."""
    return np.minimum(step * np.arange(-(-shapes.max() // step) + 1.0), shapes[..., None])


def side_terms(edges: np.ndarray, shapes: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Terms of the four sides of boxes at the lines of grids, and the weights of a pixel, from the weights of placements."""
    if not weights.any():
        return np.zeros((len(edges), 4, edges.shape[2])), np.zeros(len(edges))
    weights = weights[..., None]
    v = np.tile(edges / shapes[..., None], (2, 1)) - np.array(CENTER)[:, None]
    terms, area = v * (weights[:, :4] + weights[:, 4:8] * v), weights[:, 8]
    terms[:, 0] -= area * CENTER_AREA
    return terms, area[:, 0] / shapes.prod(axis=1)


# Two entry points with loops over images: a fit compiles the one that it uses.


@njit(cache=True, nogil=True, error_model="numpy")
def scan_images(chosen, images, index, weights, sides, areas, loss_weights, step, found):
    """Fill the rows `chosen` of `found` by the scan over row pairs."""
    for q in chosen:
        grid, found.true_scores[q] = new_grid(images, index[q], weights, sides[q], areas[q], step)
        columns = best_columns(grid)
        for j in range(loss_weights.shape[1]):
            (t, l, b, r), value = row_pairs(grid, columns, images.boxes[index[q]], loss_weights[q, j])
            found.values[q, j] = found.bounds[q, j] = value
            box = found.boxes[q, j]
            box[0], box[1], box[2], box[3] = grid.rows[t], grid.cols[l], grid.rows[b], grid.cols[r]


@njit(cache=True, nogil=True, error_model="numpy")
def branch_images(chosen, images, index, weights, sides, areas, loss_weights, step, max_nodes, found):
    """Fill the rows `chosen` of `found` by branch and bound."""
    for q in chosen:
        grid, found.true_scores[q] = new_grid(images, index[q], weights, sides[q], areas[q], step)
        for j in range(loss_weights.shape[1]):
            gt, c = images.boxes[index[q]], loss_weights[q, j]
            (t, l, b, r), value, bound, nodes = branch_and_bound(grid, gt, c, max_nodes)
            found.values[q, j], found.bounds[q, j], found.nodes[q, j] = value, bound, nodes
            box = found.boxes[q, j]
            box[0], box[1], box[2], box[3] = grid.rows[t], grid.cols[l], grid.rows[b], grid.cols[r]


@njit(**INNER)
def new_grid(images, i, weights, sides, area, step):
    """Grid of one image, with the weight of a pixel in its cells, and the score of the words in its true box."""
    h, w = (images.shapes[i, 0] + step - 1) // step, (images.shapes[i, 1] + step - 1) // step
    rows, cols, gt, true_score = images.edges[i, 0, : h + 1], images.edges[i, 1, : w + 1], images.boxes[i], 0.0
    cells, total = np.empty((h, w)), np.empty((h + 1, w + 1))
    for r in range(h):
        for c in range(w):
            cells[r, c] = area * (rows[r + 1] - rows[r]) * (cols[c + 1] - cols[c])
    for k in range(images.start[i], images.start[i + 1]):
        r, c, weight = images.rows[k], images.cols[k], weights[images.words[k]]
        cells[r // step, c // step] += weight
        if gt[0] <= r < gt[2] and gt[1] <= c < gt[3]:  # never for NaN
            true_score += weight
    for c in range(w + 1):
        total[0, c] = 0.0
    for r in range(h):
        row = total[r + 1, 0] = 0.0
        for c in range(w):
            row += cells[r, c]
            total[r + 1, c + 1] = total[r, c + 1] + row
    return Grid(cells, total, sides, rows, cols), true_score


@njit(**INNER)
def overlap(t, l, b, r, gt):
    """Intersection over union of a box with the true box, in pixels; 0 for an empty box."""
    height, width = min(b, gt[2]) - max(t, gt[0]), min(r, gt[3]) - max(l, gt[1])
    if height <= 0.0 or width <= 0.0:
        return 0.0
    common = height * width
    return common / ((b - t) * (r - l) + (gt[2] - gt[0]) * (gt[3] - gt[1]) - common)


@njit(**INNER)
def largest_loss(grid, n, gt, c):
    """Largest c * loss over the boxes of node n."""
    t0, t1, l0, l1, b0, b1, r0, r1 = n
    rows, cols = grid.rows, grid.cols
    if c < 0.0:
        # The overlap rises up to each edge of the true box and falls beyond it.
        t, b = min(max(gt[0], rows[t0]), rows[t1]), min(max(gt[2], rows[b0]), rows[b1])
        l, r = min(max(gt[1], cols[l0]), cols[l1]), min(max(gt[3], cols[r0]), cols[r1])
        return c * (1.0 - overlap(t, l, b, r, gt))
    smallest = 1.0
    for t in (rows[t0], rows[t1]):
        for b in (rows[b0], rows[b1]):
            for l in (cols[l0], cols[l1]):
                for r in (cols[r0], cols[r1]):
                    smallest = min(smallest, overlap(t, l, b, r, gt))
    return c * (1.0 - smallest)


@njit(**INNER)
def halves(n):
    """Both halves of a node, cut in the middle of its widest interval and restricted to top < bottom and left < right."""
    t0, t1, l0, l1, b0, b1, r0, r1 = n
    width = max(t1 - t0, l1 - l0, b1 - b0, r1 - r0)
    if t1 - t0 == width:
        m = (t0 + t1) // 2
        return (t0, m, l0, l1, b0, b1, r0, r1), (m + 1, t1, l0, l1, max(b0, m + 2), b1, r0, r1)
    if l1 - l0 == width:
        m = (l0 + l1) // 2
        return (t0, t1, l0, m, b0, b1, r0, r1), (t0, t1, m + 1, l1, b0, b1, max(r0, m + 2), r1)
    if b1 - b0 == width:
        m = (b0 + b1) // 2
        return (t0, min(t1, m - 1), l0, l1, b0, m, r0, r1), (t0, t1, l0, l1, m + 1, b1, r0, r1)
    m = (r0 + r1) // 2
    return (t0, t1, l0, min(l1, m - 1), b0, b1, r0, m), (t0, t1, l0, l1, b0, b1, m + 1, r1)


@njit(**INNER)
def is_box(n):
    """Whether a node holds a single box."""
    return n[0] == n[1] and n[2] == n[3] and n[4] == n[5] and n[6] == n[7]


@njit(**INNER)
def rectangle(image, t, l, b, r):
    """Sum over rows t..b-1 and columns l..r-1."""
    return (image[b, r] - image[t, r]) - (image[b, l] - image[t, l])


@njit(**INNER, fastmath=FAST)
def best_pair(before, after, low_side, high_side, lo0, lo1, hi0, hi1):
    """Largest sum of after - before between two lines lo < hi of two intervals, with the terms of both lines."""
    best, arg_lo, arg_hi = -np.inf, lo0, hi1
    low, low_arg = np.inf, lo0
    for k in range(lo0, min(lo1 + 1, hi0)):
        v = after[k] - before[k] - low_side[k]
        if v < low:
            low, low_arg = v, k
    for k in range(hi0, min(lo1, hi1) + 1):  # both intervals: Kadane's pass
        v = after[k] - before[k]
        if v + high_side[k] - low > best:
            best, arg_lo, arg_hi = v + high_side[k] - low, low_arg, k
        v -= low_side[k]
        if v < low:
            low, low_arg = v, k
    for k in range(max(lo1 + 1, hi0), hi1 + 1):
        v = after[k] - before[k] + high_side[k] - low
        if v > best:
            best, arg_lo, arg_hi = v, low_arg, k
    return best, arg_lo, arg_hi


@njit(**INNER)
def value_of(grid, box, gt, c):
    """Score + sides + c * (1 - overlap) of a grid box."""
    t, l, b, r = box
    value = rectangle(grid.total, t, l, b, r)
    value += grid.sides[0, t] + grid.sides[1, l] + grid.sides[2, b] + grid.sides[3, r]
    if c != 0.0:
        value += c * (1.0 - overlap(grid.rows[t], grid.cols[l], grid.rows[b], grid.cols[r], gt))
    return value


@njit(**INNER)
def branch_and_bound(grid, gt, c, max_nodes):
    """Best box of a grid for score + sides + c * (1 - overlap).

    Returns the grid box (t, l, b, r), its value, an upper bound of the maximum (equal to the value unless the search reached
    `max_nodes`) and the number of expanded nodes.
    """
    h, w = grid.cells.shape
    best = (0, 0, h, w)
    best_value = value_of(grid, best, gt, c)
    if h == w == 1:
        return best, best_value, best_value, 0
    total, sides, positive, transposed = grid.total, grid.sides, np.empty((h + 1, w + 1)), np.empty((w + 1, h + 1))
    positive[0] = 0.0
    for i in range(h):
        row = positive[i + 1, 0] = 0.0
        for j in range(w):
            row += max(grid.cells[i, j], 0.0)
            positive[i + 1, j + 1] = positive[i, j + 1] + row
    # In tiles: a column-wise copy of the whole image would miss the cache at every step.
    for i0 in range(0, h + 1, 16):
        for j0 in range(0, w + 1, 16):
            for j in range(j0, min(j0 + 16, w + 1)):
                for i in range(i0, min(i0 + 16, h + 1)):
                    transposed[j, i] = total[i, j]
    heap = [(-np.inf, (0, h - 1, 0, w - 1, 1, h, 1, w))]
    expanded, upper = 0, best_value
    while heap:
        upper = max(-heap[0][0], best_value)
        if upper == best_value or expanded >= max_nodes:
            break
        node = heappop(heap)[1]
        expanded += 1
        for n in halves(node):
            t0, t1, l0, l1, b0, b1, r0, r1 = n
            # The core of all boxes lies in rows t1..b2 and columns l1..r2; without one they are empty.
            b2, r2 = max(b0, t1), max(r0, l1)
            across, l, r = best_pair(total[t1], total[b2], sides[1], sides[3], l0, l1, r0, r1)
            down, t, b = best_pair(transposed[l1], transposed[r2], sides[0], sides[2], t0, t1, b0, b1)
            bound = across + down - rectangle(total, t1, l1, b2, r2)
            bound += rectangle(positive, t0, l0, b1, r1) - rectangle(positive, t1, l0, b2, r1)
            bound += rectangle(positive, t1, l1, b2, r2) - rectangle(positive, t0, l1, b1, r2)
            if bound + max(c, 0.0) <= best_value:
                continue
            if c != 0.0:
                bound += largest_loss(grid, n, gt, c)
                if bound <= best_value:
                    continue
            value = value_of(grid, (t, l, b, r), gt, c)
            if value > best_value:
                best_value, best = value, (t, l, b, r)
            if bound > best_value and not is_box(n):
                heappush(heap, (-bound, n))
    return best, best_value, upper if heap else best_value, expanded


@njit(**INNER, fastmath=FAST)
def best_columns(grid):
    """For every pair of rows the best score of a box between them, and its left and right side: the search without a loss."""
    total, sides, h, w = grid.total, grid.sides, len(grid.rows) - 1, len(grid.cols) - 1
    scores, lefts, rights = np.empty((h, h + 1)), np.empty((h, h + 1), np.int16), np.empty((h, h + 1), np.int16)
    for t in range(h):
        for b in range(t + 1, h + 1):
            best, low, left, low_left, right = -np.inf, np.inf, 0, 0, 1
            for k in range(w + 1):  # Kadane's pass
                v = total[b, k] - total[t, k]
                if v + sides[3, k] - low > best:
                    best, left, right = v + sides[3, k] - low, low_left, k
                if v - sides[1, k] < low:
                    low, low_left = v - sides[1, k], k
            lefts[t, b], rights[t, b] = left, right
            scores[t, b] = best + sides[0, t] + sides[2, b]
    return scores, lefts, rights


@njit(**INNER, fastmath=FAST)
def _scan(prefix, loss_weight, height, common_height, true_area, widths, common_widths):
    """Largest prefix + loss over the right edges that follow a left edge, in single precision."""
    best = np.float32(-np.inf)
    for k in range(prefix.shape[0]):
        common = common_height * common_widths[k]
        v = prefix[k] - loss_weight * common / (true_area + height * widths[k] - common)
        best = v if v > best else best
    return best


@njit(**INNER)
def row_pairs(grid, columns, gt, c):
    """Best box of a grid for score + sides + c * (1 - overlap): the grid box (t, l, b, r) and its value.

    `columns` comes from :func:`best_columns`, shared by the searches for several c. The scan with a loss runs in single
    precision; every left edge that comes within its rounding of the incumbent is recomputed.
    """
    scores, lefts, rights = columns
    total, sides, rows, cols = grid.total, grid.sides, grid.rows, grid.cols
    h, w = len(rows) - 1, len(cols) - 1
    best, best_value, gain = (0, 0, h, w), -np.inf, max(c, 0.0)
    for t in range(h):
        for b in range(t + 1, h + 1):
            if scores[t, b] + gain > best_value:
                l, r, value = int(lefts[t, b]), int(rights[t, b]), scores[t, b]
                if c != 0.0:
                    value += c * (1.0 - overlap(rows[t], cols[l], rows[b], cols[r], gt))
                if value > best_value:
                    best, best_value = (t, l, b, r), value
    if c == 0.0:
        return best, best_value
    f32 = np.float32
    true_area, weight = f32((gt[2] - gt[0]) * (gt[3] - gt[1])), f32(c)
    # Padding to whole vectors: short loops would spend their time in the remainder.
    widths, common = np.empty((2, w, w + _PAD), f32)
    single = np.empty((1, w + 1 + _PAD), f32)[0]
    for k in range(_PAD):
        single[w + 1 + k] = -np.inf
    for l in range(w):
        for k in range(w + _PAD):
            r = min(l + 1 + k, w)
            widths[l, k] = cols[r] - cols[l]
            common[l, k] = max(min(cols[r], gt[3]) - max(cols[l], gt[1]), 0.0)
    low, high, later = np.empty((3, w + 2))
    later[w + 1] = -np.inf
    for t in range(h):
        for b in range(t + 1, h + 1):
            # For c < 0 the best columns of a row pair are the true ones.
            loss = c if c > 0.0 else c * (1.0 - overlap(rows[t], gt[1], rows[b], gt[3], gt))
            if scores[t, b] + loss <= best_value:
                continue
            common_height = f32(min(rows[b], gt[2]) - max(rows[t], gt[0]))
            height = f32(rows[b] - rows[t])
            size = abs(c)
            for k in range(w, -1, -1):
                prefix = total[b, k] - total[t, k]
                low[k] = prefix - sides[1, k]
                high[k] = prefix + sides[3, k] + sides[0, t] + sides[2, b]
                later[k] = max(high[k], later[k + 1])
                single[k] = high[k]
                size = max(size, abs(low[k]), abs(high[k]))
            for l in range(w):
                if later[l + 1] - low[l] + loss <= best_value:
                    continue
                stop = l + 1 + (w - l + _PAD - 1) // _PAD * _PAD
                value = _scan(single[l + 1 : stop], weight, height, common_height, true_area, widths[l], common[l])
                if value + c - low[l] > best_value - 2e-6 * size:
                    for r in range(l + 1, w + 1):
                        v = high[r] - low[l] + c * (1.0 - overlap(rows[t], cols[l], rows[b], cols[r], gt))
                        if v > best_value:
                            best, best_value = (t, l, b, r), v
    return best, best_value


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
        raise ValueError(f"method must be one of {list(SEARCHES)}, got {method!r}.")
    if int(grid_step) < 1 or int(max_nodes) < 1:
        raise ValueError(f"grid_step and max_nodes must be at least 1, got {grid_step} and {max_nodes}.")
    if loss_weight != 0.0 and true_box is None:
        raise ValueError("true_box is required when loss_weight is not 0.")
    box = np.zeros(4) if true_box is None else np.array(check_box(true_box, "true_box"))
    points, shape = (word_image.rows, word_image.cols, word_image.words), np.array([word_image.shape])
    image = Images(*points, np.array([0, len(word_image)]), shape, box[None], grid_edges(shape, int(grid_step)))
    words, places, c = check_weights(weights, word_image), np.zeros((1, N_PLACEMENT)), np.array([[float(loss_weight)]])
    options: dict[str, Any] = {"step": int(grid_step), "method": method, "max_nodes": int(max_nodes)}
    found = search_images(image, np.zeros(1, dtype=np.int64), words, places, c, **options)
    edges = Box(*(int(v) for v in found.boxes[0, 0]))
    return FoundBox(edges, float(found.values[0, 0]), float(found.bounds[0, 0]), int(found.nodes[0, 0]))
