"""Exact search for the box with the largest sum of word weights, with or without an overlap loss."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from lupi.vision.branch_and_bound import branch_and_bound, integrals
from lupi.vision.geometry import Box, WordImage, check_box
from lupi.vision.placement import N_PLACEMENT, add_area, side_terms
from lupi.vision.row_pairs import best_columns, row_pairs

SEARCHES = {"auto": 0, "branch_and_bound": 1, "row_pairs": 2}

# Below this many cells x row pairs the scan over row pairs is faster than branch and bound.
_SMALL = 80_000


class FoundBox(NamedTuple):
    """Answer of a search.

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


@njit(cache=True, nogil=True)
def grid_edges(size: int, step: int) -> np.ndarray:
    """Pixel positions of the grid lines: 0, step, 2 step, ..., size."""
    n = (size + step - 1) // step
    edges = np.empty(n + 1)
    for k in range(n):
        edges[k] = k * step
    edges[n] = size
    return edges


@njit(cache=True, nogil=True)
def weight_grid(
    rows: np.ndarray, cols: np.ndarray, words: np.ndarray, weights: np.ndarray, h: int, w: int, step: int
) -> np.ndarray:
    """Sum of the points' weights in each cell."""
    grid = np.zeros(((h + step - 1) // step, (w + step - 1) // step))
    for k in range(rows.shape[0]):
        grid[rows[k] // step, cols[k] // step] += weights[words[k]]
    return grid


@njit(cache=True, nogil=True)
def search_points(
    rows: np.ndarray,
    cols: np.ndarray,
    words: np.ndarray,
    weights: np.ndarray,
    placement_weights: np.ndarray,
    h: int,
    w: int,
    step: int,
    gt: np.ndarray,
    loss_weights: np.ndarray,
    method: int,
    max_nodes: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """One search for each loss weight: pixel boxes (k, 4), values, upper bounds, nodes."""
    row_edges = grid_edges(h, step)
    col_edges = grid_edges(w, step)
    grid = weight_grid(rows, cols, words, weights, h, w, step)
    add_area(grid, row_edges, col_edges, placement_weights[N_PLACEMENT - 1])
    sides = side_terms(row_edges, col_edges, placement_weights)
    total, transposed, positive = integrals(grid)
    columns = (np.empty((0, 0)), np.empty((0, 0), dtype=np.int16), np.empty((0, 0), dtype=np.int16))
    n_rows = row_edges.shape[0] - 1
    n_cols = col_edges.shape[0] - 1
    k = loss_weights.shape[0]
    boxes = np.empty((k, 4))
    values = np.empty(k)
    bounds = np.empty(k)
    nodes = np.zeros(k, dtype=np.int64)
    for q in range(k):
        c = loss_weights[q]
        scan = method == 2 or (method == 0 and n_rows * (n_rows + 1) // 2 * n_cols <= _SMALL)
        if not scan:
            found, value, bound, nodes[q] = branch_and_bound(
                total, transposed, positive, sides, row_edges, col_edges, gt, c, max_nodes
            )
            scan = bound > value and method == 0
        if scan:
            if columns[0].size == 0:
                columns = best_columns(total, sides)
            found, value = row_pairs(total, sides, columns, row_edges, col_edges, gt, c)
            bound = value
        boxes[q, 0] = row_edges[found[0]]
        boxes[q, 1] = col_edges[found[1]]
        boxes[q, 2] = row_edges[found[2]]
        boxes[q, 3] = col_edges[found[3]]
        values[q] = value
        bounds[q] = bound
    return boxes, values, bounds, nodes


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
        Needed when ``loss_weight`` is not 0.
    loss_weight : float, default=0.0
        The factor c; may be negative.
    method : {"auto", "branch_and_bound", "row_pairs"}, default="auto"
        Branch and bound, or a scan over pairs of rows; both are exact. "auto" scans coarse grids, and also
        when branch and bound meets ``max_nodes``.
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
        raise ValueError("true_box is needed when loss_weight is not 0.")
    gt = np.zeros(4) if true_box is None else np.array(check_box(true_box, "true_box"))
    boxes, values, bounds, nodes = search_points(
        word_image.rows,
        word_image.cols,
        word_image.words,
        check_weights(weights, word_image),
        np.zeros(N_PLACEMENT),
        *word_image.shape,
        int(grid_step),
        gt,
        np.array([float(loss_weight)]),
        SEARCHES[method],
        int(max_nodes),
    )
    box = Box(*(int(v) for v in boxes[0]))
    return FoundBox(box, float(values[0]), float(bounds[0]), int(nodes[0]))
