"""Sequence labeling: first-order chains with exact Viterbi inference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from lupi.privacy import model_part
from lupi.structured.task import Examples, Searched, Task, check_inputs, check_integer


class Chains(NamedTuple):
    """Concatenated sequences, i from ``start[i]`` to ``start[i + 1]``: inputs, labels, and the loss of one wrong label of each."""

    X: np.ndarray
    labels: np.ndarray
    start: np.ndarray
    unit: np.ndarray


class ChainExamples(Examples):
    """Compiled searches over concatenated sequences.

    Several spaces are one chain: their inputs side by side, and the sum of their transition weights.
    """

    compiled = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.n_states = self.tasks[0].n_states
        lengths = np.array([len(y) for y in self.Y])
        start = np.concatenate([[0], np.cumsum(lengths)])
        self.spaces = [np.zeros((start[-1], task.n_inputs)) for task in self.tasks]
        for X, space, has in zip(self.spaces, self.inputs, self.available):
            for i in np.flatnonzero(has):
                X[start[i] : start[i + 1]] = space[i]
        X = self.spaces[0] if len(self.tasks) == 1 else np.hstack(self.spaces)
        unit = 1.0 / lengths if self.tasks[0].normalize else np.ones(len(lengths))
        self.chains = Chains(X, np.concatenate([np.asarray(y, dtype=np.int64) for y in self.Y]), start, unit)

    def search(self, rows: np.ndarray, w: np.ndarray, loss_weights: Sequence[float]) -> Searched:
        """Best sequence of each row for each loss weight, by Viterbi."""
        s, c = self.n_states, np.asarray(loss_weights, dtype=float)
        weights = self.split(w)
        unary = np.hstack([part[: -s * s].reshape(s, -1) for part in weights])
        has = np.array([space[rows] for space in self.available], dtype=float)
        moves = np.tensordot(has, [part[-s * s :].reshape(s, s) for part in weights], axes=(0, 0))
        ends = np.cumsum([0, *np.diff(self.chains.start)[rows]])
        found = np.empty((len(c), ends[-1]), dtype=np.int64)
        loss, score = np.empty((2, len(rows), len(c)))
        _search(self.chains, unary, moves, rows, c, found, loss, score)
        outputs = np.empty(loss.shape, dtype=object)
        for q in range(len(rows)):
            for j in range(len(c)):
                outputs[q, j] = found[j, ends[q] : ends[q + 1]]
        return outputs, loss, score

    def differences(self, rows: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """Joint features of the true sequences minus those of others."""
        out, labels = np.zeros((len(rows), self.n_features)), np.concatenate(outputs)
        for X, scale, has, first in zip(self.spaces, self.scales, self.available, self.ends):
            _differences(self.chains._replace(X=X), self.n_states, rows, labels, scale * has[rows], first, out)
        return out


@model_part
class Chain(Task):
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

    examples = ChainExamples
    common = ("n_states", "normalize")

    def __init__(self, n_states: int, n_features: int, *, normalize: bool = True) -> None:
        self.n_states = check_integer(n_states, "n_states", minimum=2)
        self.n_inputs = check_integer(n_features, "n_features")
        self.normalize = bool(normalize)

    @property
    def n_features(self) -> int:  # type: ignore[override]
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
        x, w, s = np.ascontiguousarray(x, dtype=float), np.ascontiguousarray(w, dtype=float), self.n_states
        true = np.zeros(len(x), dtype=np.int64) if y_true is None else np.asarray(y_true, dtype=np.int64)
        weight = 0.0 if y_true is None else float(loss_weight)
        y = np.empty(len(x), dtype=np.int64)
        unary, moves = w[: -s * s].reshape(s, -1), w[-s * s :].reshape(s, s)
        _viterbi(unary, moves, x, true, weight / len(x) if self.normalize else weight, y)
        return y

    def check(self, X: Sequence[Any], Y: Sequence[Any] | None = None) -> None:
        """Raise for wrong shapes or labels, naming the sequence."""
        for i, x in enumerate(X):
            check_inputs(x, self.n_inputs, f"X[{i}]")
            if Y is None:
                continue
            y = np.asarray(Y[i])
            if y.shape != (len(x),) or len(x) == 0:
                raise ValueError(
                    f"Y[{i}] must hold one label for each of the {len(x)} rows of X[{i}], got shape {y.shape}."
                )
            if not np.issubdtype(y.dtype, np.integer) or y.min() < 0 or y.max() >= self.n_states:
                raise ValueError(f"Y[{i}] must hold integers from 0 to {self.n_states - 1}.")


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _viterbi(unary, moves, x, y_true, loss_weight, y):  # type: ignore[no-untyped-def]
    """Fill y with the best sequence and return its value."""
    n, f = x.shape
    s = len(moves)
    score, last, back = np.empty(s), np.empty(s), np.empty((n, s), dtype=np.int64)
    for t in range(n):
        for b in range(s):
            u = 0.0
            for j in range(f):
                u += unary[b, j] * x[t, j]
            if b != y_true[t]:
                u += loss_weight
            if t > 0:
                arg = 0
                best = last[0] + moves[0, b]
                for a in range(1, s):
                    v = last[a] + moves[a, b]
                    if v > best:
                        best = v
                        arg = a
                back[t, b] = arg
                u += best
            score[b] = u
        for b in range(s):
            last[b] = score[b]
    y[n - 1] = np.argmax(last)
    for t in range(n - 1, 0, -1):
        y[t - 1] = back[t, y[t]]
    return last[y[n - 1]]


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
def _differences(chains, s, rows, labels, factors, first, out):  # type: ignore[no-untyped-def]
    """Features of the true sequences minus those of `labels`, times factors, in the columns of `out` from `first` on."""
    end = 0
    for q in range(len(rows)):
        a, b = chains.start[rows[q]], chains.start[rows[q] + 1]
        x, block = chains.X[a:b], out[q, first:]
        _add_feature(x, chains.labels[a:b], factors[q], s, block)
        _add_feature(x, labels[end : end + b - a], -factors[q], s, block)
        end += b - a


@njit(cache=True, nogil=True)
def _search(chains, unary, moves, rows, loss_weights, found, loss, score):  # type: ignore[no-untyped-def]
    end = 0
    for q in range(len(rows)):
        i = rows[q]
        a, b = chains.start[i], chains.start[i + 1]
        x, y_true, unit = chains.X[a:b], chains.labels[a:b], chains.unit[i]
        true = 0.0
        for t in range(b - a):
            for j in range(x.shape[1]):
                true += unary[y_true[t], j] * x[t, j]
            if t > 0:
                true += moves[q, y_true[t - 1], y_true[t]]
        for k in range(len(loss_weights)):
            y = found[k, end : end + b - a]
            value = _viterbi(unary, moves[q], x, y_true, loss_weights[k] * unit, y)
            wrong = 0
            for t in range(b - a):
                wrong += y[t] != y_true[t]
            loss[q, k] = wrong * unit
            score[q, k] = value - loss_weights[k] * loss[q, k] - true
        end += b - a
