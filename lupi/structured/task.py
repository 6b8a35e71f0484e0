"""Structured tasks: output space, joint features, loss and inference."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from lupi.inputs.training_set import values_per_space

# Outputs, losses, and scores minus those of the true outputs.
Searched = tuple[np.ndarray, np.ndarray, np.ndarray]

if TYPE_CHECKING:
    from lupi.inputs.training_set import PrivilegedBlock
    from lupi.kernels import Kernel

# True joint features are kept when they fit into this many doubles, and recomputed otherwise.
_KEEP = 20_000_000
# Seconds of a compiled call below which the next one may have twice as many examples.
_SHORT = 0.05


class Slices:
    """Cuts rows into parts whose compiled calls take about a tenth of a second, so that Ctrl-C is seen between them.

    Examples
    --------
    >>> import numpy as np
    >>> [part.tolist() for part in Slices(2).cut(np.arange(5))]
    [[0, 1], [2, 3, 4]]
    """

    def __init__(self, size: int = 1):
        self.size = size

    def cut(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Part by part; the time that the caller takes for a part determines the size of the next."""
        done = 0
        while done < len(rows):
            part = rows[done : done + self.size]
            began = time.monotonic()
            yield part
            seconds = time.monotonic() - began
            done += len(part)
            if seconds > 2.0 * _SHORT:
                self.size = max(1, self.size // 2)
            elif len(part) == self.size and seconds < _SHORT:
                self.size *= 2


def in_parts(
    call: Callable[[np.ndarray], Any], rows: np.ndarray, n_jobs: int | None, slices: Slices | None
) -> list[Any]:
    """Results of a call for parts of some rows: in threads, in slices where it is compiled, or for all rows at once."""
    jobs = min(effective_n_jobs(n_jobs), len(rows))
    if jobs > 1:
        chunks = np.array_split(rows, min(4 * jobs, len(rows)))
        return list(Parallel(n_jobs=jobs, backend="threading")(delayed(call)(chunk) for chunk in chunks))
    return [call(rows)] if slices is None or len(rows) < 2 else [call(part) for part in slices.cut(rows)]


class Examples:
    r"""Training inputs and outputs of one task, or of several tasks with one output in common, and searches over them.

    The joint feature of several tasks is :math:`[r_1 \Psi_1(x_1, y), \dots, r_M \Psi_M(x_M, y)]`, zero where an input is missing.
    With :math:`r_m = 1 / \sqrt{\lambda_m}` the squared norm of the joint weights is :math:`\sum_m \lambda_m \|w_m\|^2`.

    ``inputs`` and ``available`` (which examples have an input) are lists with one entry per task, ``Y`` are the true outputs and
    ``scales`` the factors r_m.
    """

    # Whether searches run in compiled loops, which cannot be interrupted.
    compiled = False

    def __init__(
        self, tasks: list[Any], inputs: list[Any], available: list[np.ndarray], Y: Any, scales: list[float]
    ) -> None:
        self.tasks, self.inputs, self.available, self.Y, self.scales = tasks, inputs, available, Y, scales
        self.ends = np.cumsum([0, *(int(task.n_features) for task in tasks)])
        self.n_features = int(self.ends[-1])

    @cached_property
    def _kept(self) -> np.ndarray | None:
        """Joint features of the true outputs, if they are small enough to keep."""
        if len(self.Y) * self.n_features > _KEEP:
            return None
        return np.array([self.feature(i, y) for i, y in enumerate(self.Y)])

    def _true(self, rows: np.ndarray) -> np.ndarray:
        """Joint features of true outputs."""
        if self._kept is not None:
            return self._kept[rows]
        return np.array([self.feature(i, self.Y[i]) for i in rows]).reshape(len(rows), self.n_features)

    def parts(self, i: int) -> list[tuple[Any, Any, slice, float]]:
        """Task, input, features and factor of every space that example i has."""
        spaces = zip(self.tasks, self.inputs, self.available, self.ends, self.ends[1:], self.scales)
        return [(task, x[i], slice(a, b), r) for task, x, has, a, b, r in spaces if has[i]]

    def feature(self, i: int, y: Any) -> np.ndarray:
        """Joint feature of example i and an output."""
        out = np.zeros(self.n_features)
        for task, x, columns, scale in self.parts(i):
            out[columns] = scale * task.joint_feature(x, y)
        return out

    def split(self, w: np.ndarray) -> list[np.ndarray]:
        """Weights of each task."""
        return [scale * w[a:b] for scale, a, b in zip(self.scales, self.ends, self.ends[1:])]

    def search(self, rows: np.ndarray, w: np.ndarray, loss_weights: Sequence[float]) -> Searched:
        """Best output of each row for each loss weight: outputs, losses, and scores minus that of the true output."""
        shape = len(rows), len(loss_weights)
        outputs, loss, score = np.empty(shape, dtype=object), np.empty(shape), np.empty(shape)
        for q, i in enumerate(rows):
            for j, found in enumerate(self._scored(i, w, loss_weights)):
                outputs[q, j], loss[q, j], score[q, j] = found
        return outputs, loss, score - (self._true(rows) @ w)[:, None]

    def _scored(self, i: int, w: np.ndarray, loss_weights: Sequence[float]) -> list[tuple[Any, float, float]]:
        """One (output, loss, score) for each loss weight."""
        task, y_true = self.tasks[0], self.Y[i]
        if len(self.tasks) == 1:
            x, w = self.inputs[0][i], self.scales[0] * w
            found = [task.argmax(w, x, y_true, c) for c in loss_weights]
            return [(y, task.loss(y_true, y), task.joint_feature(x, y) @ w) for y in found]
        # The first task that has an input lists the outputs.
        outputs = list(next(task.outputs(x) for task, x, _, _ in self.parts(i)))
        scores = np.array([self.feature(i, y) @ w for y in outputs])
        losses = np.array([task.loss(y_true, y) for y in outputs])
        best = [int(np.argmax(scores + c * losses)) for c in loss_weights]
        return [(outputs[k], losses[k], scores[k]) for k in best]

    def differences(self, rows: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """Joint features of the true outputs minus those of others, one row each."""
        return self._true(rows) - np.array([self.feature(i, y) for i, y in zip(rows, outputs)])

    @staticmethod
    def predict(task: Any, w: np.ndarray, X: Any, n_jobs: int | None = None) -> Any:
        """``argmax`` of every input without a loss, in joblib threads."""
        parts = in_parts(lambda rows: [task.argmax(w, X[i]) for i in rows], np.arange(len(X)), n_jobs, None)
        return [y for part in parts for y in part]

    def passes(self, cap: float) -> Any:
        """Compiled Frank-Wolfe passes over all examples; None if the task has none."""
        return None


class Task:
    r"""Base class of structured tasks: a joint feature map, a loss and an exact inference.

    A task of your own sets ``n_features`` and defines ``joint_feature``, ``loss`` and ``argmax``. It can inherit this class, which
    has defaults for everything else, or be any object with these attributes.

    Attributes
    ----------
    n_features : int
        Length of ``joint_feature``.
    tabular : bool
        Whether the inputs are the rows of one table.
    n_geometry : int
        How many of the last joint features describe where an output lies. Kernels compare them by a Gaussian.
    examples : type
        Class of the searches over a training set.
    common : tuple of str
        Attributes that the tasks of several privileged spaces must have in common to be searched by ``examples``.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi import StructuralSVM
    >>> from lupi.structured import Task
    >>> class Sign(Task):
    ...     n_features = 1
    ...     def joint_feature(self, x, y):
    ...         return np.array([x * y])
    ...     def loss(self, y_true, y):
    ...         return float(y_true != y)
    ...     def argmax(self, w, x, y_true=None, loss_weight=0.0):
    ...         return max((-1, 1), key=lambda y: x * y * w[0] + (loss_weight * (y_true != y) if y_true else 0.0))
    >>> StructuralSVM(Sign()).fit([-2.0, 1.0, 3.0], [-1, 1, 1]).predict([0.5, -0.5])
    array([ 1, -1])
    """

    n_features: int
    tabular: bool = False
    n_geometry: int = 0
    examples: ClassVar[type[Examples]] = Examples
    common: tuple[str, ...] = ()

    def joint_feature(self, x: Any, y: Any) -> np.ndarray:
        r"""The vector :math:`\Psi(x, y)`."""
        raise NotImplementedError

    def loss(self, y_true: Any, y: Any) -> float:
        r"""The loss :math:`\Delta(y_{true}, y) \ge 0`, zero for the true output."""
        raise NotImplementedError

    def argmax(self, w: np.ndarray, x: Any, y_true: Any = None, loss_weight: float = 0.0) -> Any:
        r"""The y that maximizes :math:`\langle w, \Psi(x, y)\rangle` + loss_weight * loss(y_true, y).

        ``loss_weight`` may be negative.
        """
        raise NotImplementedError

    def outputs(self, x: Any) -> Any:
        """All outputs of an input, or None where they cannot be listed.

        Required by ``JKSE`` and by several privileged spaces, unless the task has a search of its own for them.
        """
        return None

    def check(self, X: Sequence[Any], Y: Sequence[Any] | None = None) -> None:
        """Raise ``ValueError`` for inputs and outputs (None: inputs alone) that the task cannot use."""

    def check_several(self, tasks: list[Any], inputs: list[Any], names: list[Any]) -> None:
        """Raise ``ValueError`` if several privileged spaces cannot be searched for a common output."""
        if not self.common and any(task.outputs(x[0]) is None for task, x in zip(tasks, inputs)):
            kinds = ", ".join(sorted({type(task).__name__ for task in tasks}))
            raise ValueError(
                f"several privileged spaces require an exact search of their summed scores, which the tasks ({kinds}) do not "
                "have: use tasks of one class of lupi.structured, or tasks that list their `outputs`."
            )
        for name, task in zip(names, tasks):
            for attribute in self.common:
                first, other = getattr(tasks[0], attribute), getattr(task, attribute)
                if first != other:
                    raise ValueError(
                        f"the tasks of several privileged spaces must have the same {attribute}: it is {first} for the space "
                        f"{names[0]!r} and {other} for {name!r}."
                    )

    def check_kernel(self, kernel: str) -> None:
        """Raise ``ValueError`` if the task cannot be searched with this kernel."""
        if type(self).outputs is Task.outputs:
            raise ValueError(
                f"task must support a search with a kernel: {type(self).__name__} does not list its outputs(x)."
            )

    def argmax_kernel(self, x: Any, kernel: Kernel, support: np.ndarray, coef: np.ndarray, normalize: bool) -> Any:
        """The output whose joint feature has the largest kernel expansion over the support vectors."""
        outputs = list(self.outputs(x))
        features = joint_features(self, [x] * len(outputs), outputs, normalize)
        return outputs[int(np.argmax(kernel(features, support) @ coef))]


class ThreeMethods(Task):
    """A task that is any object with three methods."""

    def __init__(self, task: Any) -> None:
        self.n_features = int(task.n_features)
        self.joint_feature, self.loss, self.argmax = task.joint_feature, task.loss, task.argmax  # type: ignore[method-assign]


def as_task(task: Any) -> Task:
    """The task itself if it inherits :class:`Task`, else one with its three methods."""
    return task if isinstance(task, Task) else ThreeMethods(task)


def privileged_tasks(estimator: Any, blocks: Sequence[PrivilegedBlock], Y: Any, default: Any = None) -> list[Any]:
    """Task of each privileged space (None where its inputs are features), after its check of the available inputs."""
    given = values_per_space(estimator, "privileged_task", [block.name for block in blocks])
    tasks = [default if task is None else as_task(task) for task in given]
    for block, task in zip(blocks, tasks):
        used = np.flatnonzero(block.available).tolist()
        if task is None or not used:
            continue
        try:
            task.check([block.rows.values[i] for i in used], [Y[i] for i in used])
        except ValueError as error:
            argument = "privileged" if block.name is None else f"privileged[{block.name!r}]"
            raise ValueError(
                f"{type(estimator).__name__}: `{argument}` does not fit the privileged task: {error}"
            ) from None
    return tasks


def searches_of(tasks: list[Any]) -> type[Examples]:
    """Class of the searches of some tasks: their own if they have it in common and do not redefine what it searches."""
    if len({type(task) for task in tasks}) == 1:
        kind: Any
        for kind in type(tasks[0]).__mro__:
            if "examples" in vars(kind):
                return kind.examples
            if vars(kind).keys() & {"joint_feature", "loss", "argmax"}:
                break
    return Examples


def joint_features(task: Task, X: Sequence[Any], Y: Sequence[Any], normalize: bool) -> np.ndarray:
    """Joint features of pairs, one row each; with `normalize` divided by their sum, the geometry aside."""
    out = np.array([task.joint_feature(x, y) for x, y in zip(X, Y)], dtype=float)
    return normalized(out, task.n_geometry) if normalize else out


def normalized(features: np.ndarray, n_geometry: int = 0) -> np.ndarray:
    """Rows divided by their sum, the last ``n_geometry`` features aside; rows of zeros stay zero."""
    words, places = np.split(features, [features.shape[1] - n_geometry], axis=1)
    total = words.sum(axis=1, keepdims=True)
    return np.hstack([words / np.where(total > 0, total, 1.0), places])


def check_integer(value: float, name: str, minimum: int = 1) -> int:
    """An integer of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise ValueError(f"{name} must be an integer of at least {minimum}, got {value!r}.")
    return int(value)


def check_positive(value: float, name: str, *, or_zero: bool = False) -> float:
    """A positive finite number."""
    if isinstance(value, bool) or not isinstance(value, Real) or not (0.0 < value < np.inf or (or_zero and value == 0)):
        allowed = "a finite number of at least 0" if or_zero else "a positive finite number"
        raise ValueError(f"{name} must be {allowed}, got {value!r}.")
    return float(value)


def check_inputs(X: Any, n_features: int, name: str) -> None:
    """Raise unless X is a finite (n, n_features) array."""
    rows = np.asarray(X, dtype=float)
    if rows.ndim != 2 or rows.shape[1] != n_features:
        raise ValueError(f"{name} must have shape (n, {n_features}), got {rows.shape}.")
    if not np.isfinite(rows).all():
        raise ValueError(f"{name} contains NaN or infinity; impute or remove those values.")
