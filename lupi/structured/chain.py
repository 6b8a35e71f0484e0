"""Sequence labeling: first-order chains with exact Viterbi inference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit

from lupi.model_parts import model_part
from lupi.solution import SLICE
from lupi.structured.checks import check_positive_int, check_rows


@model_part
class Chain:
    r"""A label in 0 .. ``n_states - 1`` for every position of a sequence, with the Hamming loss.

    An input is an array of shape (length, n_features), an output an integer array of that length. With unary weights U
    and transition weights P, :math:`\langle w, \Psi(x, y)\rangle = \sum_t U_{y_t} x_t + \sum_t P_{y_t y_{t+1}}`; ``w``
    holds U and then P, row by row.

    Parameters
    ----------
    n_states : int
        Number of labels.
    n_features : int
        Length of the input at each position.
    normalize : bool, default=True
        Divide the loss by the length, so that it lies in [0, 1]. Otherwise the loss counts wrong positions.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.structured import Chain
    >>> task = Chain(2, 1)
    >>> w = np.array([-1.0, 1.0, 2.0, 0.0, 0.0, 2.0])  # transitions prefer to stay
    >>> task.argmax(w, np.array([[1.0], [-0.5], [1.0]]))
    array([1, 1, 1])
    """

    same_in_sums = ("n_states", "normalize")

    def __init__(self, n_states: int, n_features: int, *, normalize: bool = True) -> None:
        self.n_states = check_positive_int(n_states, "n_states", minimum=2)
        self.n_inputs = check_positive_int(n_features, "n_features")
        self.normalize = bool(normalize)

    @property
    def n_features(self) -> int:
        """Length of the joint feature."""
        return self.n_states * (self.n_inputs + self.n_states)

    def joint_feature(self, x: Any, y: Any) -> np.ndarray:
        """Sums of inputs by label, then counts of transitions."""
        out = np.zeros(self.n_features)
        _add_feature(np.ascontiguousarray(x, dtype=float), np.asarray(y, dtype=np.int64), 1.0, self.n_states, out)
        return out

    def loss(self, y_true: Any, y: Any) -> float:
        """Share (or number) of wrong positions."""
        wrong = float(np.count_nonzero(np.asarray(y_true) != np.asarray(y)))
        return wrong / len(y_true) if self.normalize else wrong

    def argmax(self, w: np.ndarray, x: Any, y_true: Any = None, loss_weight: float = 0.0) -> np.ndarray:
        """Viterbi, with the loss of each position added to its unary scores."""
        x = np.ascontiguousarray(x, dtype=float)
        w = np.ascontiguousarray(w, dtype=float)
        true = np.zeros(len(x), dtype=np.int64) if y_true is None else np.asarray(y_true, dtype=np.int64)
        weight = 0.0 if y_true is None else float(loss_weight)
        return np.asarray(_viterbi(w, x, true, weight / len(x) if self.normalize else weight, self.n_states))

    @staticmethod
    def argmax_sum(
        parts: Sequence[Any], y_true: Any, loss_weights: Sequence[float]
    ) -> list[tuple[np.ndarray, float, float]]:
        """One (sequence, loss, score) for each loss weight; scores of all (task, w, x) added up.

        The sum is one chain: inputs side by side, and the sum of the transition weights.
        """
        first, s = parts[0][0], parts[0][0].n_states
        ends = [s * task.n_inputs for task, _, _ in parts]
        unary = np.hstack([np.asarray(w)[:end].reshape(s, -1) for (_, w, _), end in zip(parts, ends)])
        moves = np.sum([np.asarray(w)[end:] for (_, w, _), end in zip(parts, ends)], axis=0)
        joined, x = Chain(s, unary.shape[1], normalize=first.normalize), np.hstack([x for _, _, x in parts])
        weights = np.concatenate([unary.ravel(), moves])
        found = [joined.argmax(weights, x, y_true, weight) for weight in loss_weights]
        losses = [0.0 if y_true is None else joined.loss(y_true, y) for y in found]
        return [(y, loss, float(joined.joint_feature(x, y) @ weights)) for y, loss in zip(found, losses)]

    def check(self, X: Sequence[Any], Y: Sequence[Any]) -> None:
        """Raise for wrong shapes or labels, naming the sequence."""
        for i, (x, y) in enumerate(zip(X, Y)):
            check_rows(x, self.n_inputs, f"X[{i}]")
            y = np.asarray(y)
            if y.shape != (len(x),) or len(x) == 0:
                raise ValueError(
                    f"Y[{i}] must hold one label for each of the {len(x)} rows of X[{i}], got shape {y.shape}."
                )
            if not np.issubdtype(y.dtype, np.integer) or y.min() < 0 or y.max() >= self.n_states:
                raise ValueError(f"Y[{i}] must hold integers from 0 to {self.n_states - 1}.")

    def compile(self, X: Sequence[Any], Y: Sequence[Any]) -> Any:
        """The oracle whose passes are compiled."""
        return ChainOracle(self, X, Y)


class ChainOracle:
    """Frank-Wolfe passes over concatenated sequences, one dense vector of the dual for each sequence."""

    def __init__(self, task: Chain, X: Sequence[Any], Y: Sequence[Any]) -> None:
        self.task = task
        self.n_samples, self.n_features = len(X), task.n_features
        lengths = np.array([len(x) for x in X])
        self.start_of = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self.X = np.ascontiguousarray(np.concatenate([np.asarray(x, dtype=float) for x in X]))
        self.Y = np.concatenate([np.asarray(y) for y in Y]).astype(np.int64)
        self.unit = 1.0 / lengths if task.normalize else np.ones(len(lengths))

    def start(self) -> tuple[np.ndarray, np.ndarray]:
        """Block vectors and their linear parts."""
        return np.zeros((self.n_samples, self.n_features)), np.zeros(self.n_samples)

    def blocks(self, state: Any) -> tuple[np.ndarray, np.ndarray]:
        """Block vectors and their linear parts, for a solver that takes over."""
        vectors, linear = state
        return vectors, linear

    def linear_part(self, state: Any) -> float:
        """Sum of dual weight times loss."""
        return float(state[1].sum())

    def sweep(self, state: Any, w: np.ndarray, order: np.ndarray, cap: float, gaps: np.ndarray) -> None:
        """One Frank-Wolfe step with exact line search for each sequence of `order`."""
        _sweep(self.X, self.Y, self.start_of, self.unit, self.task.n_states, state[0], state[1], w, order, cap, gaps)

    def plane(self, i: int, w: np.ndarray) -> tuple[np.ndarray, float]:
        """Most violated plane of one sequence."""
        rows = slice(self.start_of[i], self.start_of[i + 1])
        y = _viterbi(w, self.X[rows], self.Y[rows], self.unit[i], self.task.n_states)
        psi = self.task.joint_feature(self.X[rows], self.Y[rows]) - self.task.joint_feature(self.X[rows], y)
        return psi, self.task.loss(self.Y[rows], y)

    def planes(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Most violated planes of all sequences."""
        psi = np.zeros((self.n_samples, self.n_features))
        loss = np.zeros(self.n_samples)
        # In parts, because a compiled loop cannot be interrupted.
        together = max(1, SLICE // max(1, len(self.X) // self.n_samples * (self.task.n_states**2 + self.n_features)))
        for first in range(0, self.n_samples, together):
            part = slice(first, first + together)
            starts = self.start_of[first : first + together + 1]
            _planes(self.X, self.Y, starts, self.unit[part], self.task.n_states, w, psi[part], loss[part])
        return psi, loss


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _viterbi(w: np.ndarray, x: np.ndarray, y_true: np.ndarray, loss_weight: float, s: int) -> np.ndarray:
    n, f = x.shape
    move = w[s * f :].reshape(s, s)
    score = np.empty(s)
    last = np.empty(s)
    back = np.empty((n, s), dtype=np.int64)
    for t in range(n):
        for b in range(s):
            u = 0.0
            for j in range(f):
                u += w[b * f + j] * x[t, j]
            if b != y_true[t]:
                u += loss_weight
            if t > 0:
                arg = 0
                best = last[0] + move[0, b]
                for a in range(1, s):
                    v = last[a] + move[a, b]
                    if v > best:
                        best = v
                        arg = a
                back[t, b] = arg
                u += best
            score[b] = u
        last[:] = score
    y = np.empty(n, dtype=np.int64)
    y[n - 1] = np.argmax(last)
    for t in range(n - 1, 0, -1):
        y[t - 1] = back[t, y[t]]
    return y


@njit(cache=True, nogil=True)
def _add_feature(x: np.ndarray, y: np.ndarray, scale: float, s: int, out: np.ndarray) -> None:
    n, f = x.shape
    for t in range(n):
        base = y[t] * f
        for j in range(f):
            out[base + j] += scale * x[t, j]
        if t > 0:
            out[s * f + y[t - 1] * s + y[t]] += scale


@njit(cache=True, nogil=True)
def _planes(
    X: np.ndarray,
    Y: np.ndarray,
    start_of: np.ndarray,
    unit: np.ndarray,
    s: int,
    w: np.ndarray,
    psi: np.ndarray,
    loss: np.ndarray,
) -> None:
    for i in range(start_of.shape[0] - 1):
        x = X[start_of[i] : start_of[i + 1]]
        true = Y[start_of[i] : start_of[i + 1]]
        y = _viterbi(w, x, true, unit[i], s)
        _add_feature(x, true, 1.0, s, psi[i])
        _add_feature(x, y, -1.0, s, psi[i])
        for t in range(y.shape[0]):
            if y[t] != true[t]:
                loss[i] += unit[i]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _sweep(
    X: np.ndarray,
    Y: np.ndarray,
    start_of: np.ndarray,
    unit: np.ndarray,
    s: int,
    blocks: np.ndarray,
    linear: np.ndarray,
    w: np.ndarray,
    order: np.ndarray,
    cap: float,
    gaps: np.ndarray,
) -> None:
    d = w.shape[0]
    toward = np.empty(d)
    for i in order:
        x = X[start_of[i] : start_of[i + 1]]
        true = Y[start_of[i] : start_of[i + 1]]
        y = _viterbi(w, x, true, unit[i], s)
        loss = 0.0
        for t in range(y.shape[0]):
            if y[t] != true[t]:
                loss += unit[i]
        block = blocks[i]
        for j in range(d):
            toward[j] = -block[j]
        _add_feature(x, true, cap, s, toward)
        _add_feature(x, y, -cap, s, toward)
        slope = cap * loss - linear[i]
        length = 0.0
        for j in range(d):
            slope -= toward[j] * w[j]
            length += toward[j] * toward[j]
        gaps[i] = slope
        if slope <= 0.0 or length <= 0.0:
            continue
        step = min(1.0, slope / length)
        for j in range(d):
            block[j] += step * toward[j]
            w[j] += step * toward[j]
        linear[i] += step * (cap * loss - linear[i])
