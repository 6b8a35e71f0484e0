"""Multiclass classification as a structured task (Crammer and Singer's machine)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit

from lupi.privacy import model_part
from lupi.solution import out_of_time
from lupi.structured.solvers import Passes
from lupi.structured.task import Examples, Searched, Slices, Task, check_inputs, check_integer

# Passes between two certificates when the running estimate has not required one earlier.
_CHECK_EVERY = 5


class ClassExamples(Examples):
    """Searches by one product of all inputs with the weights of all classes."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.Y = np.asarray(self.Y, dtype=np.int64)
        self.X = [
            np.ascontiguousarray(np.where(has[:, None], scale * np.asarray(x, dtype=float), 0.0))
            for x, has, scale in zip(self.inputs, self.available, self.scales)
        ]

    def search(self, rows: np.ndarray, w: np.ndarray, loss_weights: Sequence[float]) -> Searched:
        """Best class of each row for each loss weight."""
        k, y, q = self.tasks[0].n_classes, self.Y[rows], np.arange(len(rows))
        parts = zip(self.X, self.ends, self.ends[1:])
        score = np.sum([X[rows] @ w[a:b].reshape(k, -1).T for X, a, b in parts], axis=0)
        loss = np.ones(score.shape)
        loss[q, y] = 0.0
        best = np.column_stack([np.argmax(score + c * loss, axis=1) for c in loss_weights])
        return best, loss[q[:, None], best], score[q[:, None], best] - score[q, y][:, None]

    def differences(self, rows: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """Inputs in the rows of the true class, and minus them in those of another class."""
        q, out = np.arange(len(rows)), np.zeros((len(rows), self.n_features))
        for X, a, b in zip(self.X, self.ends, self.ends[1:]):
            block = out[:, a:b].reshape(len(rows), -1, X.shape[1])
            block[q, self.Y[rows]] += X[rows]
            block[q, outputs.astype(int)] -= X[rows]
            out[:, a:b] = block.reshape(len(rows), -1)
        return out

    @staticmethod
    def predict(task: Any, w: np.ndarray, X: Any, n_jobs: int | None = None) -> np.ndarray:
        """Best class of every row."""
        return np.argmax(np.asarray(X, dtype=float) @ w.reshape(task.n_classes, -1).T, axis=1)

    def passes(self, cap: float) -> Any:
        """Passes with exact block steps."""
        return ClassPasses(self, cap)


@model_part
class Multiclass(Task):
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
    examples = ClassExamples
    common = ("n_classes",)

    def __init__(self, n_classes: int, n_features: int) -> None:
        self.n_classes = check_integer(n_classes, "n_classes", minimum=2)
        self.n_inputs = check_integer(n_features, "n_features")

    @property
    def n_features(self) -> int:  # type: ignore[override]
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
        if y_true is not None:
            score = score + loss_weight * (np.arange(self.n_classes) != int(y_true))
        return int(np.argmax(score))

    def outputs(self, x: Any) -> range:
        """All classes."""
        return range(self.n_classes)

    def check(self, X: Sequence[Any], Y: Sequence[Any] | None = None) -> None:
        """Raise for a wrong shape of X or for labels outside 0 .. n_classes - 1."""
        check_inputs(X, self.n_inputs, "X")
        if Y is None:
            return
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


class ClassPasses(Passes):
    """Exact block steps: the planes of a block share one input, so its optimum takes only a sort."""

    def __init__(self, examples: ClassExamples, cap: float) -> None:
        self.X, self.Y, self.cap, self.slices = examples.X[0], examples.Y, cap, Slices(64)
        self.norms = np.einsum("ij,ij->i", self.X, self.X)
        self.alpha = np.zeros((len(self.Y), examples.tasks[0].n_classes))
        self.W = np.zeros((self.alpha.shape[1], self.X.shape[1]))
        self.w, self.gaps, self.next_check = self.W.ravel(), np.full(len(self.Y), np.inf), 2

    @property
    def dual(self) -> float:  # type: ignore[override]
        """Dual objective of the stored weights, which are made feasible first; ``W`` is not used."""
        true = np.arange(len(self.Y)), self.Y
        alpha = np.minimum(self.alpha, 0.0)
        alpha[true] = 0.0
        alpha *= self.cap / np.maximum(-alpha.sum(axis=1, keepdims=True), self.cap)
        alpha[true] = -alpha.sum(axis=1)
        W = alpha.T @ self.X
        return float(alpha[true].sum() - 0.5 * np.vdot(W, W))

    def advance(self, progress: Any, n_iter: int, rng: np.random.RandomState) -> bool:
        """A step for each example in every third pass, otherwise for examples drawn by their last known gap."""
        n, gaps = len(self.gaps), np.maximum(self.gaps, 0.0)
        if n_iter % 3 == 1 or not 0.0 < gaps.sum() < np.inf:
            order = rng.permutation(n)
        else:
            p = gaps + 0.1 * gaps.mean()
            order = rng.choice(n, size=n, p=p / p.sum())
        progress.n_oracle_calls += n
        for part in self.slices.cut(order):
            _class_steps(self.X, self.Y, self.norms, self.alpha, self.W, part, self.cap, self.gaps)
            if out_of_time():
                break
        due = n_iter >= self.next_check or self.gaps.sum() <= 0.9 * progress.tol * max(self.dual, 0.0)
        if due:
            self.next_check = n_iter + _CHECK_EVERY
        return due


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _class_steps(X, Y, norms, alpha, W, order, cap, gaps):  # type: ignore[no-untyped-def]
    """Minimize 1/2 A |b|^2 + B'b, sum b = 0, b_m <= cap [m = y] for one example after the other (Keerthi et al. 2008)."""
    k, f = W.shape
    grad = np.empty(k)
    levels = np.empty(k)
    for i in order:
        y, a, x, b = Y[i], norms[i], X[i], alpha[i]
        for m in range(k):
            s = 0.0
            for j in range(f):
                s += W[m, j] * x[j]
            grad[m] = s
        top = current = 0.0
        for m in range(k):
            if m != y:
                value = grad[m] + 1.0 - grad[y]
                top = max(top, value)
                current -= b[m] * value
        gaps[i] = cap * top - current
        if gaps[i] <= 1e-14 * cap:
            continue
        if a <= 0.0:  # whatever W is, any wrong class has the hinge 1
            b[:] = 0.0
            b[y], b[0 if y else 1] = cap, -cap
            continue
        # Water filling: b_m = min(cap [m = y], (level - B_m) / A), with the level found on the sorted bounds.
        for m in range(k):
            grad[m] += (0.0 if m == y else 1.0) - a * b[m]
            level = -(grad[m] + (a * cap if m == y else 0.0))
            p = m
            while p > 0 and levels[p - 1] > level:
                levels[p] = levels[p - 1]
                p -= 1
            levels[p] = level
        total = -levels[0] - a * cap
        r = 1
        while r < k and total < -r * levels[r]:
            total -= levels[r]
            r += 1
        level = total / r
        for m in range(k):
            new = min(cap if m == y else 0.0, (level - grad[m]) / a)
            move = new - b[m]
            if abs(move) > 1e-16 * cap:
                b[m] = new
                for j in range(f):
                    W[m, j] += move * x[j]
