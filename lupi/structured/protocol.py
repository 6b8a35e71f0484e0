"""The three methods that make a structured task. A task is a plain class; there is nothing to inherit."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs


@runtime_checkable
class Task(Protocol):
    r"""A structured output space with a joint feature map, a loss and an exact inference.

    The learners know nothing about outputs: they only call these methods.

    Attributes
    ----------
    n_features : int
        Length of ``joint_feature``.

    Notes
    -----
    Optional methods, used where they exist:

    ``argmax_batch(w, X, Y_true=None, loss_weight=0.0)``
        A list with the argmax of every example.
    ``argmax_scored(w, x, y_true, loss_weights)``
        A list with one (y, loss, score) for each loss weight; saves work that the searches share.
    ``outputs(x)``
        All outputs of ``x``, for tasks that can list them (kernel inference of JKSE, several privileged spaces).
    ``argmax_sum(parts, y_true, loss_weights)``
        A static method, for several privileged spaces: as ``argmax_scored``, of the sum of the scores of all (task, w, x) in
        ``parts``. ``same_in_sums`` names attributes that all of the tasks must share, and ``check_sum(parts)`` raises for
        pairs (name, input) of one example that do not go together.
    ``argmax_kernel(x, support, coef, kernel, gamma, normalize)``
        The output whose joint feature has the largest kernel expansion (kernel inference of JKSE, without listing outputs).
    ``check(X, Y)``
        Raise ``ValueError`` for data that the task cannot use; called once by ``fit``.
    ``tabular``
        True if the inputs are the rows of one table; arrays, frames and missing rows are then read as everywhere else.
    ``compile(X, Y)``
        An oracle (see ``lupi.structured.margin_rescaling``) with a compiled ``sweep``.
    """

    n_features: int

    def joint_feature(self, x: Any, y: Any) -> np.ndarray:
        r"""The vector :math:`\Psi(x, y)`."""
        ...

    def loss(self, y_true: Any, y: Any) -> float:
        r"""The loss :math:`\Delta(y_{true}, y) \ge 0`, zero for the true output."""
        ...

    def argmax(self, w: np.ndarray, x: Any, y_true: Any = None, loss_weight: float = 0.0) -> Any:
        r"""The y that maximizes :math:`\langle w, \Psi(x, y)\rangle` + loss_weight * loss(y_true, y).

        ``loss_weight`` may be negative.
        """
        ...


def predict_batch(task: Task, w: np.ndarray, X: Any, n_jobs: int | None = None) -> list[Any]:
    """``task.argmax`` without a loss for every input: by the task's own batch method, else in joblib threads."""
    if hasattr(task, "argmax_batch"):
        return list(task.argmax_batch(w, X))
    if min(effective_n_jobs(n_jobs), len(X)) <= 1:
        return [task.argmax(w, x) for x in X]
    return list(Parallel(n_jobs=n_jobs, backend="threading")(delayed(task.argmax)(w, x) for x in X))


def argmax_scored(task: Task, w: np.ndarray, x: Any, y_true: Any, loss_weights: tuple[float, ...]) -> list[Any]:
    """One (argmax, its loss, its score) for each loss weight."""
    if hasattr(task, "argmax_scored"):
        return list(task.argmax_scored(w, x, y_true, loss_weights))
    found = [task.argmax(w, x, y_true, c) for c in loss_weights]
    return [(y, float(task.loss(y_true, y)), float(task.joint_feature(x, y) @ w)) for y in found]
