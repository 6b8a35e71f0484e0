"""Exact subwindow search against brute force."""

import itertools

import numpy as np
import pytest
from numba import njit
from structured_reference import brute_force_box, random_grid_case

from lupi.datasets import make_planted_boxes
from lupi.vision import Box, WordImage, best_box, box_search, kernel_search
from lupi.vision.box_search import FoundBoxes, Grid, Images, branch_images, scan_images, side_terms
from lupi.vision.images import N_PLACEMENT, placement

LINES = np.arange(9.0)
EMPTY = np.zeros((1, 1))
GRID = Grid(EMPTY, EMPTY, EMPTY, LINES, LINES)


# The compiled parts of the searches have no wrappers for Python.
@njit
def overlap(t, l, b, r, gt):
    return box_search.overlap(t, l, b, r, gt)


@njit
def largest_loss(grid, n, gt, c):
    return box_search.largest_loss(grid, n, gt, c)


@njit
def placement_range(n, rows, cols, low, high):
    kernel_search.placement_range(n, rows, cols, low, high)


def searched(method, cells, weights, rows, cols, gt, c):
    """Box and value of one of the searches, with weights of the placement; every cell is a point with a word of its own."""
    shape, words, edges = np.array([cells.shape]), np.arange(cells.size), np.zeros((1, 2, max(len(rows), len(cols))))
    edges[0, 0, : len(rows)], edges[0, 1, : len(cols)] = rows, cols
    image = Images(*np.divmod(words, cells.shape[1]), words, np.array([0, cells.size]), shape, gt[None], edges)
    terms = side_terms(edges, np.array([[rows[-1], cols[-1]]]), weights[None])
    found = FoundBoxes(np.zeros((1, 1, 4)), *np.zeros((2, 1, 1)), np.zeros((1, 1), dtype=int), np.zeros(1))
    first, options = np.zeros(1, dtype=int), (np.array([[c]]), 1)
    if method == "row_pairs":
        scan_images(first, image, first, cells.ravel(), *terms, *options, found)
    else:
        branch_images(first, image, first, cells.ravel(), *terms, *options, 10**9, found)
    assert found.bounds == found.values
    t, l, b, r = found.boxes[0, 0]
    lines = ((rows, t), (cols, l), (rows, b), (cols, r))
    return tuple(int(np.searchsorted(given, line)) for given, line in lines), found.values[0, 0]


@pytest.mark.parametrize("method", ["branch_and_bound", "row_pairs"])
def test_search_equals_brute_force(method):
    rng = np.random.default_rng(0)
    for k in range(2000):
        grid, row_edges, col_edges, gt, c = random_grid_case(rng, k)
        (t, l, b, r), value = searched(method, grid, np.zeros(N_PLACEMENT), row_edges, col_edges, gt, c)
        assert t < b
        assert l < r
        own = grid[t:b, l:r].sum() + c * (1 - overlap(row_edges[t], col_edges[l], row_edges[b], col_edges[r], gt))
        best = brute_force_box(grid, row_edges, col_edges, gt, c)
        assert value == pytest.approx(best, abs=1e-9)
        assert own == pytest.approx(best, abs=1e-9)


def value_of(grid, weights, row_edges, col_edges, gt, c, t, l, b, r):
    """Score, placement and loss of one grid box, each by its own definition."""
    box = Box(row_edges[t], col_edges[l], row_edges[b], col_edges[r])
    h, w = row_edges[-1], col_edges[-1]
    sides = np.array([box.top / h - 0.25, box.left / w - 0.25, box.bottom / h - 0.75, box.right / w - 0.75])
    numbers = [*sides, *sides**2, box.area / (h * w) - 0.25]
    return grid[t:b, l:r].sum() + float(np.dot(numbers, weights)) + c * (1.0 - box.iou(Box(*gt)))


@pytest.mark.parametrize("method", ["branch_and_bound", "row_pairs"])
def test_search_with_placement_equals_brute_force(method):
    """Inference (c = 0) and both signs of the loss; weights of the placement from negligible to decisive."""
    rng = np.random.default_rng(5)
    for k in range(250):
        grid, row_edges, col_edges, gt, c = random_grid_case(rng, k)
        weights = rng.normal(size=N_PLACEMENT) * 10.0 ** rng.uniform(-2, 2)
        if k % 4 == 1:  # only the area, of either sign
            weights[:-1] = 0.0
        case = (grid, weights, row_edges, col_edges, gt, c)
        box, value = searched(method, *case)
        pairs = [list(itertools.combinations(range(len(edges)), 2)) for edges in (row_edges, col_edges)]
        best = max(value_of(*case, t, l, b, r) for t, b in pairs[0] for l, r in pairs[1])
        assert value == pytest.approx(best, abs=1e-9)
        assert value_of(*case, *box) == pytest.approx(best, abs=1e-9)


def test_placement_numbers_and_their_ranges():
    np.testing.assert_allclose(placement((2, 5, 6, 15), (8, 20)), 0.0)  # the box in the middle
    np.testing.assert_allclose(placement((0, 0, 8, 10), (8, 20)), [-0.25, -0.25, 0.25, -0.25, *[0.0625] * 4, 0.25])
    rng = np.random.default_rng(1)
    low, high = np.empty(N_PLACEMENT), np.empty(N_PLACEMENT)
    for _ in range(60):
        (t0, t1), (l0, l1), (b0, b1), (r0, r1) = np.sort(rng.integers(0, 9, (4, 2)), axis=1)
        placement_range((t0, t1, l0, l1, b0, b1, r0, r1), LINES, LINES, low, high)
        for t, l, b, r in itertools.product(range(t0, t1 + 1), range(l0, l1 + 1), range(b0, b1 + 1), range(r0, r1 + 1)):
            if t < b and l < r:
                found = placement((t, l, b, r), (8, 8))
                assert (found >= low - 1e-12).all()
                assert (found <= high + 1e-12).all()


def test_overlap_ranges_are_attained():
    rng = np.random.default_rng(1)
    compared = 0
    for k in range(600):
        ends = np.sort(rng.integers(0, 9, (4, 2)), axis=1)
        gt = np.array([0, 0, 1, 1]) + rng.integers(0, 4, 4) * [1, 1, 2, 2] + [0, 0, 3, 3]
        if k % 2:  # every box of the set contains a common core, and the true edges lie within the intervals
            ends = np.array([[0, 3], [0, 2], [4, 8], [5, 8]])
        (t0, t1), (l0, l1), (b0, b1), (r0, r1) = ends
        ious = [
            Box(t, l, b, r).iou(Box(*gt))
            for t in range(t0, t1 + 1)
            for l in range(l0, l1 + 1)
            for b in range(b0, b1 + 1)
            for r in range(r0, r1 + 1)
            if t < b and l < r
        ]
        if not ious:
            continue
        # Nodes of the search: each top lies above a bottom, each bottom below a top; the same for the sides.
        node = (t0, min(t1, b1 - 1), l0, min(l1, r1 - 1), max(b0, t0 + 1), b1, max(r0, l0 + 1), r1)
        low, high = (
            1.0 - largest_loss(GRID, node, gt.astype(float), 1.0),
            1.0 + largest_loss(GRID, node, gt.astype(float), -1.0),
        )
        assert low <= min(ious) + 1e-12
        assert high >= max(ious) - 1e-12
        if t1 < b0 and l1 < r0:
            assert low == pytest.approx(min(ious))
            assert high == pytest.approx(max(ious))
            compared += 1
    assert compared > 250


@pytest.mark.parametrize(("step", "loss_weight"), [(1, 0.0), (1, 1.0), (3, 0.5), (5, -0.7)])
def test_best_box_on_an_image(step, loss_weight):
    X, Y, _ = make_planted_boxes(6, shape=(13, 17), n_words=12, n_points=60, random_state=3)
    weights = np.random.default_rng(0).normal(size=12)
    for x, y in zip(X, Y):
        grid = np.zeros((-(-13 // step), -(-17 // step)))
        np.add.at(grid, (x.rows // step, x.cols // step), weights[x.words])
        rows, cols = np.append(np.arange(0, 13, step), 13.0), np.append(np.arange(0, 17, step), 17.0)
        best = brute_force_box(grid, rows, cols, np.array(y, dtype=float), loss_weight)
        for method in ("auto", "branch_and_bound", "row_pairs"):
            found = best_box(x, weights, grid_step=step, true_box=y, loss_weight=loss_weight, method=method)
            assert found.value == pytest.approx(best, abs=1e-9)
            assert found.upper_bound == found.value
            score = x.histogram(found.box, 12) @ weights
            assert score + loss_weight * (1 - found.box.iou(y)) == pytest.approx(best, abs=1e-9)


def test_node_cap_returns_a_valid_upper_bound():
    X, _, _ = make_planted_boxes(1, shape=(60, 80), n_words=40, n_points=500, random_state=0)
    weights = np.random.default_rng(0).normal(size=40)
    exact = best_box(X[0], weights, method="branch_and_bound")
    capped = best_box(X[0], weights, method="branch_and_bound", max_nodes=5)
    assert capped.n_nodes == 5
    assert capped.value <= exact.value <= capped.upper_bound
    assert capped.value < capped.upper_bound
    finished = best_box(X[0], weights, max_nodes=5)
    assert finished.value == pytest.approx(exact.value, abs=1e-9)
    assert finished.upper_bound == finished.value


def test_large_grid_agrees_with_row_pairs():
    X, Y, _ = make_planted_boxes(3, shape=(60, 80), n_words=50, n_points=600, random_state=5)
    rng = np.random.default_rng(2)
    for x, y in zip(X, Y):
        weights = rng.normal(size=50)
        for c in (0.0, 1.0, -0.5):
            values = [
                best_box(x, weights, true_box=y, loss_weight=c, method=m).value
                for m in ("branch_and_bound", "row_pairs")
            ]
            assert values[0] == pytest.approx(values[1], abs=1e-9)


def test_messages():
    image = WordImage([0, 1], [0, 1], [0, 3], shape=(4, 4))
    with pytest.raises(ValueError, match="the image uses word 3, so at least 4 are needed"):
        best_box(image, [1.0, 2.0])
    with pytest.raises(ValueError, match="true_box is required when loss_weight is not 0"):
        best_box(image, np.ones(4), loss_weight=1.0)
    with pytest.raises(ValueError, match="top < bottom and left < right"):
        best_box(image, np.ones(4), loss_weight=1.0, true_box=(3, 0, 3, 2))
    with pytest.raises(ValueError, match="method must be one of"):
        best_box(image, np.ones(4), method="magic")
    with pytest.raises(ValueError, match="weights contains NaN"):
        best_box(image, [1.0, np.nan, 0.0, 0.0])
    with pytest.raises(ValueError, match="word_image must be a WordImage, got list"):
        best_box([1, 2], np.ones(4))
    with pytest.raises(ValueError, match="must lie inside shape"):
        WordImage([4], [0], [0], shape=(4, 4))
    with pytest.raises(ValueError, match="same length"):
        WordImage([1, 2], [0], [0], shape=(4, 4))


@pytest.mark.parametrize("method", ["branch_and_bound", "row_pairs"])
def test_a_grid_of_one_cell(method):
    found = best_box(WordImage([1], [2], [0], shape=(4, 5)), [-3.0], grid_step=8, method=method)
    assert found[:3] == (Box(0, 0, 4, 5), -3.0, -3.0)
