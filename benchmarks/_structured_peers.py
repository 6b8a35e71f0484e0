"""What the structured benchmarks compare with: brute force, a NumPy Frank-Wolfe and dlib's structural SVM."""

from __future__ import annotations

from importlib import import_module
from time import process_time

import numpy as np
from numba import njit

from lupi.vision.branch_and_bound import branch_and_bound, integrals
from lupi.vision.placement import N_PLACEMENT, side_terms
from lupi.vision.row_pairs import best_columns, row_pairs


@njit(cache=True)
def brute_force_box(grid, row_edges, col_edges, gt, c):
    """Largest score + c * (1 - IoU), every box by its own sum of cells."""
    h, w = grid.shape
    best = -np.inf
    for t in range(h):
        for b in range(t + 1, h + 1):
            for l in range(w):
                for r in range(l + 1, w + 1):
                    top, left, bottom, right = row_edges[t], col_edges[l], row_edges[b], col_edges[r]
                    common = max(min(bottom, gt[2]) - max(top, gt[0]), 0.0) * max(
                        min(right, gt[3]) - max(left, gt[1]), 0.0
                    )
                    union = (bottom - top) * (right - left) + (gt[2] - gt[0]) * (gt[3] - gt[1]) - common
                    best = max(best, grid[t:b, l:r].sum() + c * (1.0 - common / union))
    return best


def count_search_mismatches(n_cases, seed=0):
    """Branch and bound and row pairs on small grids of random and adversarial kinds."""
    rng = np.random.default_rng(seed)
    wrong = {"branch_and_bound_mismatches": 0, "row_pairs_mismatches": 0}
    for k in range(n_cases):
        h, w = rng.integers(1, 10, 2)
        row_edges, col_edges = (np.concatenate([[0.0], np.cumsum(rng.integers(1, 4, s))]) for s in (h, w))
        grid = rng.normal(size=(h, w)) * 10.0 ** rng.uniform(-3, 1)
        if k % 5 == 1:  # ties
            grid = np.sign(grid) * (rng.random((h, w)) < 0.3)
        elif k % 5 == 2:  # no positive cell
            grid = -np.abs(grid)
        elif k % 5 == 3:  # the loss decides alone
            grid = np.zeros((h, w))
        rows = np.sort(rng.choice(int(row_edges[-1]) + 1, 2, replace=False))
        cols = np.sort(rng.choice(int(col_edges[-1]) + 1, 2, replace=False))
        gt = np.array([rows[0], cols[0], rows[1], cols[1]], dtype=float)
        c = float(rng.choice([1.0, 0.0, 0.5, -0.5, -1.0, 3.0, 0.01]))
        best = brute_force_box(grid, row_edges, col_edges, gt, c)
        images, sides = integrals(grid), side_terms(row_edges, col_edges, np.zeros(N_PLACEMENT))
        wrong["branch_and_bound_mismatches"] += (
            abs(branch_and_bound(*images, sides, row_edges, col_edges, gt, c, 10**9)[1] - best) > 1e-9
        )
        wrong["row_pairs_mismatches"] += (
            abs(row_pairs(images[0], sides, best_columns(images[0], sides), row_edges, col_edges, gt, c)[1] - best)
            > 1e-9
        )
    return {name: int(count) for name, count in wrong.items()}


def brute_force_joint(space, privileged, outputs, w, w_star, i, rho):
    """Joint maximum over all pairs of outputs."""
    y_true = space.Y[i]
    score = np.array([space.task.joint_feature(space.X[i], y) @ w for y in outputs])
    star = np.array([privileged.task.joint_feature(privileged.X[i], y) @ w_star for y in outputs])
    loss = np.array([space.task.loss(y_true, y) for y in outputs])
    surrogate = loss[None, :] / rho + np.maximum(loss[:, None] - loss[None, :], 0.0)
    return float(np.max(surrogate + score[:, None] + star[None, :]))


class ExplicitBoxes:
    """Localization with a list of boxes: an input is a (cells, words) count matrix, an output an index of the list."""

    def __init__(self, side, n_words):
        edges = [(a, b) for a in range(side) for b in range(a + 1, side + 1)]
        self.boxes = np.array([(t, l, b, r) for t, b in edges for l, r in edges])
        cells = np.arange(side)
        inside = np.array(
            [np.outer((cells >= t) & (cells < b), (cells >= l) & (cells < r)).ravel() for t, l, b, r in self.boxes]
        )
        self.inside, self.n_features = inside.astype(float), n_words
        common = self.inside @ self.inside.T
        area = self.inside.sum(1)
        self.losses = 1.0 - common / (area[:, None] + area[None, :] - common)

    def joint_feature(self, x, y):
        """Word counts inside the box."""
        return self.inside[y] @ x

    def loss(self, y_true, y):
        """One minus intersection over union."""
        return self.losses[y_true, y]

    def argmax(self, w, x, y_true=None, loss_weight=0.0):
        """All boxes at once."""
        score = self.inside @ (x @ w)
        if y_true is not None and loss_weight:
            score += loss_weight * self.losses[y_true]
        return int(np.argmax(score))


class BatchedExplicitBoxes(ExplicitBoxes):
    """The same with a batch method: one matrix product for all examples."""

    def argmax_batch(self, w, X, Y_true=None, loss_weight=0.0):
        """All boxes of all examples at once."""
        score = np.array([x @ w for x in X]) @ self.inside.T
        if Y_true is not None and loss_weight:
            score += loss_weight * self.losses[np.asarray(Y_true)]
        return np.argmax(score, axis=1)


def explicit_boxes(n, side=10, n_words=200, seed=0, batched=False):
    """A task with 3025 boxes and a training set."""
    rng = np.random.default_rng(seed)
    task = (BatchedExplicitBoxes if batched else ExplicitBoxes)(side, n_words)
    Y = rng.integers(0, len(task.boxes), n)
    signal = np.zeros(n_words)
    signal[: n_words // 8] = 0.15
    X = [rng.poisson(0.03 + task.inside[y][:, None] * signal).astype(float) for y in Y]
    return task, X, Y


def objective(task, X, Y, w, C):
    """Primal objective by the task's own inference."""
    hinge = []
    for x, y in zip(X, Y):
        found = task.argmax(w, x, y, 1.0)
        hinge.append(task.loss(y, found) - (task.joint_feature(x, y) - task.joint_feature(x, found)) @ w)
    return float(0.5 * w @ w + C * np.mean(np.maximum(hinge, 0.0)))


def solve_with_dlib(task, X, Y, C, epsilon):
    """Weights and CPU seconds of dlib's solver, or None without dlib. It minimizes the same objective."""
    try:
        dlib = import_module("dlib")
    except ImportError:
        return None

    class Problem:
        num_samples, num_dimensions = len(X), task.n_features

        def __init__(self):
            self.C, self.epsilon = C, epsilon
            self.true = [dlib.vector(task.joint_feature(x, y).tolist()) for x, y in zip(X, Y)]

        def get_truth_joint_feature_vector(self, i):
            return self.true[i]

        def separation_oracle(self, i, solution):
            y = task.argmax(np.array(solution), X[i], Y[i], 1.0)
            return float(task.loss(Y[i], y)), dlib.vector(task.joint_feature(X[i], y).tolist())

    start = process_time()
    w = dlib.solve_structural_svm_problem(Problem())
    return np.array(w), process_time() - start


def make_chains(n, n_states=10, n_inputs=40, seed=0):
    """Sequences from a hidden Markov chain with Gaussian inputs."""
    rng = np.random.default_rng(seed)
    centers, moves = 0.4 * rng.normal(size=(n_states, n_inputs)), np.exp(2 * rng.normal(size=(n_states, n_states)))
    moves /= moves.sum(1, keepdims=True)
    X, Y = [], []
    for _ in range(n):
        y = [rng.integers(n_states)]
        for _ in range(rng.integers(8, 25) - 1):
            y.append(rng.choice(n_states, p=moves[y[-1]]))
        X.append(centers[y] + rng.normal(size=(len(y), n_inputs)))
        Y.append(np.array(y))
    return X, Y


def plain_frank_wolfe(task, X, Y, C, passes, seed=0):
    """Textbook block-coordinate Frank-Wolfe in Python: objective after some passes, and CPU seconds."""
    rng = np.random.default_rng(seed)
    n = len(X)
    w, blocks, linear = np.zeros(task.n_features), np.zeros((n, task.n_features)), np.zeros(n)
    start = process_time()
    for _ in range(passes):
        for i in rng.permutation(n):
            y = task.argmax(w, X[i], Y[i], 1.0)
            target = C / n * (task.joint_feature(X[i], Y[i]) - task.joint_feature(X[i], y))
            loss = C / n * task.loss(Y[i], y)
            move = target - blocks[i]
            length = move @ move
            if length > 0.0:
                step = np.clip((loss - linear[i] - move @ w) / length, 0.0, 1.0)
                blocks[i] += step * move
                linear[i] += step * (loss - linear[i])
                w += step * move
    return objective(task, X, Y, w, C), process_time() - start
