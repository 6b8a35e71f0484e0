"""Multiclass classification as a structured task (Crammer and Singer's machine)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit

from lupi.model_parts import model_part
from lupi.structured.checks import check_positive_int, check_rows


@model_part
class Multiclass:
    r"""One of ``n_classes`` labels, 0 to ``n_classes - 1``, with the zero-one loss.

    The joint feature stacks the rows of a weight matrix, :math:`\Psi(x, y) = e_y \otimes x`.

    Parameters
    ----------
    n_classes : int
        Number of labels.
    n_features : int
        Length of ``x``. Append a constant feature for an intercept.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.structured import Multiclass
    >>> task = Multiclass(3, 2)
    >>> task.argmax(np.array([1.0, 0.0, 0.0, 1.0, -1.0, -1.0]), np.array([0.2, 0.9]))
    1
    """

    tabular = True
    same_in_sums = ("n_classes",)

    def __init__(self, n_classes: int, n_features: int) -> None:
        self.n_classes = check_positive_int(n_classes, "n_classes", minimum=2)
        self.n_inputs = check_positive_int(n_features, "n_features")

    @property
    def n_features(self) -> int:
        """Length of the joint feature."""
        return self.n_classes * self.n_inputs

    def joint_feature(self, x: Any, y: Any) -> np.ndarray:
        """The input in the rows of class y."""
        out = np.zeros((self.n_classes, self.n_inputs))
        out[int(y)] = x
        return out.ravel()

    def loss(self, y_true: Any, y: Any) -> float:
        """0 or 1."""
        return float(int(y_true) != int(y))

    def argmax(self, w: np.ndarray, x: Any, y_true: Any = None, loss_weight: float = 0.0) -> int:
        """Best class, with the loss added when `y_true` is given."""
        score = np.asarray(w).reshape(self.n_classes, self.n_inputs) @ np.asarray(x, dtype=float)
        if y_true is not None and loss_weight != 0.0:
            score = score + loss_weight
            score[int(y_true)] -= loss_weight
        return int(np.argmax(score))

    def argmax_batch(self, w: np.ndarray, X: Any, Y_true: Any = None, loss_weight: float = 0.0) -> np.ndarray:
        """Best class of every row."""
        score = np.asarray(X, dtype=float) @ np.asarray(w).reshape(self.n_classes, self.n_inputs).T
        if Y_true is not None and loss_weight != 0.0:
            score += loss_weight
            score[np.arange(len(score)), np.asarray(Y_true, dtype=int)] -= loss_weight
        return np.asarray(np.argmax(score, axis=1))

    @staticmethod
    def argmax_sum(parts: Sequence[Any], y_true: Any, loss_weights: Sequence[float]) -> list[tuple[int, float, float]]:
        """One (class, loss, score) for each loss weight; scores of all (task, w, x) added up."""
        score = np.sum(
            [np.asarray(w).reshape(task.n_classes, -1) @ np.asarray(x, dtype=float) for task, w, x in parts], axis=0
        )
        loss = np.zeros(len(score)) if y_true is None else (np.arange(len(score)) != int(y_true)).astype(float)
        best = [int(np.argmax(score + weight * loss)) for weight in loss_weights]
        return [(k, float(loss[k]), float(score[k])) for k in best]

    def outputs(self, x: Any) -> range:
        """All classes."""
        return range(self.n_classes)

    def check(self, X: Sequence[Any], Y: Sequence[Any]) -> None:
        """Raise for a wrong shape of X or for labels outside 0 .. n_classes - 1."""
        check_rows(X, self.n_inputs, "X")
        labels = np.asarray(Y)
        if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
            raise ValueError(
                f"Y must be a sequence of integer labels 0..{self.n_classes - 1}, got dtype {labels.dtype}."
            )
        if labels.min() < 0 or labels.max() >= self.n_classes:
            raise ValueError(
                f"Y has labels from {labels.min()} to {labels.max()}; Multiclass(n_classes={self.n_classes}) takes 0 to "
                f"{self.n_classes - 1}."
            )

    def compile(self, X: Sequence[Any], Y: Sequence[Any]) -> Any:
        """The oracle whose passes are compiled."""
        return MulticlassOracle(self, np.ascontiguousarray(X, dtype=float), np.asarray(Y, dtype=np.int64))


class MulticlassOracle:
    """Passes with the exact solution of each block: its planes share one input, so the block needs only a sort."""

    def __init__(self, task: Multiclass, X: np.ndarray, Y: np.ndarray) -> None:
        self.task, self.X, self.Y = task, X, Y
        self.norms = np.einsum("ij,ij->i", X, X)
        self.n_samples, self.n_features = len(X), task.n_features

    def start(self) -> np.ndarray:
        """Dual weights: row i holds the coefficient of x_i in each class's weight vector."""
        return np.zeros((self.n_samples, self.task.n_classes))

    def linear_part(self, state: np.ndarray) -> float:
        """Sum of dual weight times loss."""
        return float(state[np.arange(self.n_samples), self.Y].sum())

    def sweep(self, state: np.ndarray, w: np.ndarray, order: np.ndarray, cap: float, gaps: np.ndarray) -> None:
        """One exact block step for each example of `order`."""
        _sweep(self.X, self.Y, self.norms, state, w.reshape(self.task.n_classes, -1), order, cap, gaps)

    def plane(self, i: int, w: np.ndarray) -> tuple[np.ndarray, float]:
        """Most violated plane of one example."""
        y = self.task.argmax(w, self.X[i], self.Y[i], 1.0)
        psi = self.task.joint_feature(self.X[i], self.Y[i]) - self.task.joint_feature(self.X[i], y)
        return psi, self.task.loss(self.Y[i], y)

    def planes(self, w: np.ndarray) -> tuple[Any, np.ndarray]:
        """Most violated planes of all examples, as a matrix that is never formed."""
        found = self.task.argmax_batch(w, self.X, self.Y, 1.0)
        return ClassPlanes(self, found), (found != self.Y).astype(float)


class ClassPlanes:
    r"""The planes :math:`(e_{y_i} - e_{y}) \otimes x_i`, stored by their labels."""

    def __init__(self, oracle: MulticlassOracle, found: np.ndarray) -> None:
        self.oracle, self.found = oracle, found

    def __len__(self) -> int:
        return len(self.found)

    def __matmul__(self, w: np.ndarray) -> np.ndarray:
        o = self.oracle
        score = o.X @ w.reshape(o.task.n_classes, -1).T
        rows = np.arange(len(score))
        return np.asarray(score[rows, o.Y] - score[rows, self.found])

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        o = self.oracle
        out = np.zeros((len(self.found), o.task.n_classes, o.task.n_inputs), dtype=dtype or float)
        rows = np.arange(len(out))
        out[rows, o.Y] += o.X
        out[rows, self.found] -= o.X
        return out.reshape(len(out), -1)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _sweep(
    X: np.ndarray,
    Y: np.ndarray,
    norms: np.ndarray,
    state: np.ndarray,
    W: np.ndarray,
    order: np.ndarray,
    cap: float,
    gaps: np.ndarray,
) -> None:
    """Exact block steps: minimize 1/2 A |b|^2 + B'b, sum b = 0, b_m <= cap [m = y] (Keerthi et al. 2008)."""
    k = W.shape[0]
    f = W.shape[1]
    grad = np.empty(k)
    sorted_d = np.empty(k)
    for i in order:
        y = Y[i]
        a = norms[i]
        x = X[i]
        b = state[i]
        top = 0.0
        for m in range(k):
            s = 0.0
            for j in range(f):
                s += W[m, j] * x[j]
            grad[m] = s
        base = grad[y]
        current = 0.0
        for m in range(k):
            if m != y:
                value = grad[m] + 1.0 - base
                top = max(top, value)
                current -= b[m] * value
        gaps[i] = cap * top - current
        if gaps[i] <= 1e-14 * cap or a <= 0.0:
            continue
        # Water filling: b_m = min(cap [m = y], (level - B_m) / A) with the level found on the sorted D_m.
        for m in range(k):
            grad[m] += (0.0 if m == y else 1.0) - a * b[m]
            sorted_d[m] = -(grad[m] + (a * cap if m == y else 0.0))
        sorted_d.sort()
        total = -sorted_d[0] - a * cap
        r = 1
        while r < k and total < -r * sorted_d[r]:
            total -= sorted_d[r]
            r += 1
        level = total / r
        for m in range(k):
            new = min(cap if m == y else 0.0, (level - grad[m]) / a)
            move = new - b[m]
            if abs(move) > 1e-16 * cap:
                b[m] = new
                for j in range(f):
                    W[m, j] += move * x[j]
