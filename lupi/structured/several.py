"""Several privileged inputs of one example as one: their joint features side by side, their scores added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lupi.structured.protocol import Task

# What a class must not change below the class whose `argmax_sum` it inherits: it would search another sum.
_SEARCHED = ("joint_feature", "loss", "argmax", "argmax_scored")


class TaskSum:
    r"""One task on tuples of inputs, one of each space; the output is common to all of them.

    The joint feature is :math:`[r_1 \Psi_1(x_1, y), \dots, r_M \Psi_M(x_M, y)]`, with zeros for a space whose input is None, so
    that scores add up. With :math:`r_m = 1 / \sqrt{\lambda_m}` the squared norm of the joint weights is
    :math:`\sum_m \lambda_m \|w_m\|^2`.

    Parameters
    ----------
    tasks : sequence of Task
        One a space, all of one class that has ``argmax_sum``, or tasks that list their ``outputs``. The loss is that of the
        first, and has to be that of all.
    scales : sequence of float
        The :math:`r_m`.
    names : sequence
        Names of the spaces, for messages.

    Examples
    --------
    >>> from lupi.structured import Multiclass
    >>> both = TaskSum([Multiclass(2, 1), Multiclass(2, 2)], [1.0, 0.5], ["a", "b"])
    >>> both.joint_feature((np.array([3.0]), np.array([2.0, 4.0])), 1)
    array([0., 3., 0., 0., 1., 2.])
    >>> both.joint_feature((None, np.array([2.0, 4.0])), 0)
    array([0., 0., 1., 2., 0., 0.])
    """

    def __init__(self, tasks: Sequence[Task], scales: Sequence[float], names: Sequence[Any]) -> None:
        self.tasks, self.scales, self.names = list(tasks), [float(scale) for scale in scales], list(names)
        self.ends = np.cumsum([0, *(int(task.n_features) for task in self.tasks)])
        self.n_features = int(self.ends[-1])
        first = self.tasks[0]
        self.searched = len({type(task) for task in self.tasks}) == 1 and _searches_sums(type(first))
        if not self.searched and not all(hasattr(task, "outputs") for task in self.tasks):
            kinds = ", ".join(sorted({type(task).__name__ for task in self.tasks}))
            raise ValueError(
                f"several privileged spaces need an exact search of their summed scores, which the tasks ({kinds}) do not "
                "offer together: give all spaces tasks of one class with `argmax_sum`, or tasks that list their `outputs`, or "
                "write one task for all of them."
            )
        for name, task in zip(self.names, self.tasks):
            for attribute in getattr(first, "same_in_sums", ()) if self.searched else ():
                ours, theirs = getattr(first, attribute), getattr(task, attribute)
                if ours != theirs:
                    raise ValueError(
                        f"the tasks of all privileged spaces must have the same {attribute}: it is {ours} for the space "
                        f"{self.names[0]!r} and {theirs} for {name!r}."
                    )

    def blocks(self, w: np.ndarray) -> list[np.ndarray]:
        """Weights of the single tasks: the part of each in the joint weights, times its scale."""
        return [scale * w[a:b] for scale, a, b in zip(self.scales, self.ends, self.ends[1:])]

    def by_space(self, w: np.ndarray) -> dict[Any, np.ndarray] | list[np.ndarray]:
        """The same by the names of the spaces; a list where these are numbered."""
        blocks = self.blocks(w)
        return blocks if self.names == list(range(len(blocks))) else dict(zip(self.names, blocks))

    def joint_feature(self, x: Any, y: Any) -> np.ndarray:
        """Scaled joint features side by side; zero where an input is None."""
        out = np.zeros(self.n_features)
        for m, (task, given) in enumerate(zip(self.tasks, x)):
            if given is not None:
                out[self.ends[m] : self.ends[m + 1]] = self.scales[m] * task.joint_feature(given, y)
        return out

    def loss(self, y_true: Any, y: Any) -> float:
        """The loss of the first task."""
        return self.tasks[0].loss(y_true, y)

    def argmax(self, w: np.ndarray, x: Any, y_true: Any = None, loss_weight: float = 0.0) -> Any:
        """Best output, with the loss added when `y_true` is given."""
        return self.argmax_scored(w, x, y_true, (loss_weight,))[0][0]

    def argmax_scored(
        self, w: np.ndarray, x: Any, y_true: Any, loss_weights: Sequence[float]
    ) -> list[tuple[Any, float, float]]:
        """One (output, loss, summed score) for each loss weight."""
        parts = [
            (task, weights, given) for task, weights, given in zip(self.tasks, self.blocks(w), x) if given is not None
        ]
        if self.searched:
            return type(self.tasks[0]).argmax_sum(parts, y_true, loss_weights)
        outputs = list(parts[0][0].outputs(parts[0][2]))
        scores = np.array(
            [sum(float(weights @ task.joint_feature(z, y)) for task, weights, z in parts) for y in outputs]
        )
        losses = np.zeros(len(outputs))
        if y_true is not None:
            losses[:] = [self.loss(y_true, y) for y in outputs]
        best = [int(np.argmax(scores + weight * losses)) for weight in loss_weights]
        return [(outputs[k], float(losses[k]), float(scores[k])) for k in best]

    def check(self, X: Sequence[Any], Y: Sequence[Any]) -> None:
        """Raise where the inputs of one example do not go together; every task has checked its own."""
        if self.searched and hasattr(self.tasks[0], "check_sum"):
            for i, x in enumerate(X):
                given = [(f"privileged[{name!r}][{i}]", z) for name, z in zip(self.names, x) if z is not None]
                type(self.tasks[0]).check_sum(given)


def _searches_sums(kind: type) -> bool:
    """Whether a class has ``argmax_sum``, and no class below the one that defines it changes what is searched."""
    order = [set(vars(one)) for one in kind.__mro__]
    for names in order:
        if "argmax_sum" in names:
            return True
        if names & set(_SEARCHED):
            return False
    return False
