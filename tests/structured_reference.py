"""Slow, plain references for the structured tests: brute force and a QP over all planes."""

import itertools

import numpy as np
from numba import njit

from lupi.svm.reference import solve_qp


@njit(cache=True)
def brute_force_box(grid, row_edges, col_edges, gt, c):
    """Largest score + c * (1 - IoU) over all boxes of a grid, by summing cells."""
    h, w = grid.shape
    best = -np.inf
    for t in range(h):
        column = np.zeros(w)
        for b in range(t, h):
            column += grid[b]
            for l in range(w):
                s = 0.0
                for r in range(l, w):
                    s += column[r]
                    top, bottom, left, right = row_edges[t], row_edges[b + 1], col_edges[l], col_edges[r + 1]
                    height = min(bottom, gt[2]) - max(top, gt[0])
                    width = min(right, gt[3]) - max(left, gt[1])
                    common = height * width if height > 0 and width > 0 else 0.0
                    union = (bottom - top) * (right - left) + (gt[2] - gt[0]) * (gt[3] - gt[1]) - common
                    best = max(best, s + c * (1.0 - common / union))
    return best


def random_grid_case(rng, k):
    """A small random or adversarial grid: ties, zeros, one sign, steep weights, a true box at the border."""
    h, w = rng.integers(1, 9, 2)
    row_edges = np.concatenate([[0], np.cumsum(rng.integers(1, 4, h))]).astype(float)
    col_edges = np.concatenate([[0], np.cumsum(rng.integers(1, 4, w))]).astype(float)
    grid = rng.normal(size=(h, w)) * 10.0 ** rng.uniform(-3, 1)
    kind = k % 6
    if kind == 1:
        grid = np.sign(grid) * (rng.random((h, w)) < 0.3)
    elif kind == 2:
        grid = -np.abs(grid)
    elif kind == 3:
        grid = np.zeros((h, w))
    elif kind == 4:
        grid = np.round(2 * grid) / 2
    rows = np.sort(rng.choice(int(row_edges[-1]) + 1, 2, replace=False))
    cols = np.sort(rng.choice(int(col_edges[-1]) + 1, 2, replace=False))
    if kind == 5:
        rows, cols = np.array([0, row_edges[-1]]), np.array([0, max(1, col_edges[-1] // 2)])
    gt = np.array([rows[0], cols[0], rows[1], cols[1]], dtype=float)
    c = float(rng.choice([1.0, 0.0, 0.5, -0.5, -1.0, 3.0, 0.01]))
    return grid, row_edges, col_edges, gt, c


def all_sequences(n_states, length):
    return [np.array(y) for y in itertools.product(range(n_states), repeat=length)]


def reference_objective(psi, loss, block, C):
    """Optimal value of a structural SVM with every plane listed, by a generic interior-point QP on the dual."""
    m, n = len(loss), block.max() + 1
    sums = np.zeros((n, m + n))
    sums[block, np.arange(m)] = 1.0
    # One slack per example turns the inequalities into equalities.
    sums[np.arange(n), m + np.arange(n)] = 1.0
    P = np.zeros((m + n, m + n))
    P[:m, :m] = psi @ psi.T + 1e-12 * np.eye(m)
    bounds = {"lb": np.zeros(m + n), "ub": np.full(m + n, np.inf)}
    found = solve_qp({"P": P, "q": np.append(-loss, np.zeros(n)), "A": sums, "b": np.full(n, C / n), **bounds})
    assert found.accepted
    x = found.x[:m]
    return float(loss @ x - 0.5 * x @ P[:m, :m] @ x)
