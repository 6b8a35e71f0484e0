"""Peers of the structured benchmarks: brute force, dense windows, a NumPy Frank-Wolfe, and dlib's structural SVM."""

from __future__ import annotations

from importlib import import_module
from time import process_time

import numpy as np
from numba import njit

from lupi.structured import Task


@njit(cache=True)
def brute_force_score(grid):
    """Largest sum of the cells of a non-empty box, each box by its own sum."""
    h, w = grid.shape
    best = -np.inf
    for t in range(h):
        for b in range(t + 1, h + 1):
            for l in range(w):
                for r in range(l + 1, w + 1):
                    best = max(best, grid[t:b, l:r].sum())
    return best


@njit(cache=True)
def dense_windows(counts, support, coef, gamma):
    """Largest kernel expansion sum_i coef_i exp(-gamma chi2(support_i, histogram of the box)) over all boxes.

    `counts[r, c]` is the histogram of all points above row r and left of column c.
    """
    h, w, n_bins = counts.shape
    best, histogram = -np.inf, np.zeros(n_bins)
    for t in range(h - 1):
        for b in range(t + 1, h):
            for l in range(w - 1):
                for r in range(l + 1, w):
                    for k in range(n_bins):
                        histogram[k] = counts[b, r, k] - counts[t, r, k] - counts[b, l, k] + counts[t, l, k]
                    value = 0.0
                    for i in range(len(coef)):
                        distance = 0.0
                        for k in range(n_bins):
                            total = histogram[k] + support[i, k]
                            if total > 0.0:
                                distance += (histogram[k] - support[i, k]) ** 2 / total
                        value += coef[i] * np.exp(-gamma * distance)
                    best = max(best, value)
    return best


class ExplicitBoxes(Task):
    """Localization with a list of boxes: an input is a (cells, words) count matrix, an output a position in the list."""

    def __init__(self, side, n_words):
        edges = [(a, b) for a in range(side) for b in range(a + 1, side + 1)]
        self.boxes = np.array([(t, l, b, r) for t, b in edges for l, r in edges])
        cells = np.arange(side)
        inside = [np.outer((cells >= t) & (cells < b), (cells >= l) & (cells < r)).ravel() for t, l, b, r in self.boxes]
        self.inside, self.n_features = np.array(inside, dtype=float), n_words
        common = self.inside @ self.inside.T
        area = self.inside.sum(1)
        self.losses = 1.0 - common / (area[:, None] + area[None, :] - common)

    def joint_feature(self, x, y):
        return self.inside[y] @ x

    def loss(self, y_true, y):
        return self.losses[y_true, y]

    def argmax(self, w, x, y_true=None, loss_weight=0.0):
        score = self.inside @ (x @ w)
        if y_true is not None and loss_weight:
            score += loss_weight * self.losses[y_true]
        return int(np.argmax(score))


def explicit_boxes(n, side=10, n_words=200, seed=0):
    """A task with 3025 boxes and a training set."""
    rng = np.random.default_rng(seed)
    task = ExplicitBoxes(side, n_words)
    Y = rng.integers(0, len(task.boxes), n)
    signal = np.zeros(n_words)
    signal[: n_words // 8] = 0.15
    X = [rng.poisson(0.03 + task.inside[y][:, None] * signal).astype(float) for y in Y]
    return task, X, Y


def objective(task, X, Y, w, C):
    """Primal objective of the structural SVM by the task's own inference."""
    hinge = []
    for x, y in zip(X, Y):
        found = task.argmax(w, x, y, 1.0)
        hinge.append(task.loss(y, found) - (task.joint_feature(x, y) - task.joint_feature(x, found)) @ w)
    return float(0.5 * w @ w + C * np.mean(np.maximum(hinge, 0.0)))


def solve_with_dlib(task, X, Y, C, epsilon):
    """Weights and CPU seconds of dlib, which minimizes the same objective."""
    dlib = import_module("dlib")

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


def numpy_frank_wolfe(task, X, Y, C, passes, seed=0):
    """Textbook block-coordinate Frank-Wolfe: objective after some passes, and CPU seconds."""
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
