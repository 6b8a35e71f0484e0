"""From a task and a training set to the oracle of a structural SVM."""

from __future__ import annotations

from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from lupi.structured import box_planes
from lupi.structured.protocol import Task

# True joint features are kept when they fit into this many doubles; otherwise they are recomputed.
_KEEP = 20_000_000


class TrueFeatures:
    """Joint features of the true outputs, kept if they are small; `rows` are the examples that have an input."""

    def __init__(self, task: Task, X: Any, Y: Any, rows: np.ndarray | None = None) -> None:
        self.task, self.X, self.Y = task, X, Y
        self.kept = None
        if len(X) * task.n_features <= _KEEP:
            self.kept = np.zeros((len(X), task.n_features))
            for i in range(len(X)) if rows is None else rows:
                self.kept[i] = task.joint_feature(X[i], Y[i])

    def packed(self) -> Any:
        """Inputs, outputs and features as compiled oracles read them; None if the task has no such form."""
        return self.task.packed(self.X, self.Y, self.kept) if hasattr(self.task, "packed") else None

    def __getitem__(self, i: int) -> np.ndarray:
        return self.task.joint_feature(self.X[i], self.Y[i]) if self.kept is None else self.kept[i]


def planes_by_plane(oracle: Any, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Planes of all examples by the oracle's ``plane``, in joblib threads: compiled inference releases the GIL."""
    psi = np.empty((oracle.n_samples, oracle.n_features))
    loss = np.empty(oracle.n_samples)

    def fill(chunk: np.ndarray) -> None:
        for i in chunk:
            psi[i], loss[i] = oracle.plane(i, w)

    jobs = min(effective_n_jobs(oracle.n_jobs), oracle.n_samples)
    if jobs <= 1:
        fill(np.arange(oracle.n_samples))
    else:
        chunks = np.array_split(np.arange(oracle.n_samples), 4 * jobs)
        Parallel(n_jobs=jobs, backend="threading")(delayed(fill)(chunk) for chunk in chunks)
    return psi, loss


class TaskOracle:
    """Loss-augmented inference of a task.

    Parameters
    ----------
    task : Task
        Output space, loss and inference.
    X, Y : sequences of the same length
        Training set.
    n_jobs : int or None
        Threads for batches of inferences.
    """

    def __init__(self, task: Task, X: Any, Y: Any, n_jobs: int | None = None) -> None:
        self.task, self.X, self.Y, self.n_jobs = task, X, Y, n_jobs
        self.n_samples, self.n_features = len(X), int(task.n_features)
        self.true = TrueFeatures(task, X, Y)
        self.cheap_batch = hasattr(task, "argmax_batch")
        packed = self.true.packed()
        self.boxes = None
        if packed is not None:
            loops = (box_planes.fill_planes, box_planes.plane_steps)
            self.boxes = box_planes.CompiledPlanes(*loops, (packed,), self.n_samples, self.n_features)

    @property
    def compiled(self) -> bool:
        """Whether the planes come from compiled searches."""
        return self.boxes is not None

    def planes(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Most violated planes of all examples, by the task's own batch inference if it has one."""
        if self.boxes is not None and effective_n_jobs(self.n_jobs) == 1:
            return self.boxes.planes(w)
        if not self.cheap_batch:
            return planes_by_plane(self, w)
        psi, loss = np.empty((self.n_samples, self.n_features)), np.empty(self.n_samples)
        for i, y in enumerate(self.task.argmax_batch(w, self.X, self.Y, 1.0)):
            psi[i] = self.true[i] - self.task.joint_feature(self.X[i], y)
            loss[i] = self.task.loss(self.Y[i], y)
        return psi, loss

    def plane_steps(self, store: Any, rows: np.ndarray, gaps: np.ndarray) -> None:
        """Find, store and use the planes of some examples, one after the other; where ``compiled``."""
        self.boxes.take_into(store, rows, gaps)

    def plane(self, i: int, w: np.ndarray) -> tuple[np.ndarray, float]:
        """Most violated plane of example i, or the zero plane if nothing violates."""
        if self.boxes is not None:
            psi = np.empty(self.n_features)
            return psi, box_planes.plane(self.boxes.spaces[0], i, w, psi)
        x, y = self.X[i], self.Y[i]
        if hasattr(self.task, "argmax_scored"):
            found, loss, _ = self.task.argmax_scored(w, x, y, (1.0,))[0]
        else:
            found = self.task.argmax(w, x, y, 1.0)
            loss = float(self.task.loss(y, found))
        psi = self.true[i] - self.task.joint_feature(x, found)
        if loss - psi @ w <= 0.0:
            return np.zeros(self.n_features), 0.0
        return psi, loss


def task_oracle(task: Task, X: Any, Y: Any, n_jobs: int | None = None) -> Any:
    """The task's compiled oracle when it offers one, the generic oracle otherwise."""
    compiled = task.compile(X, Y) if hasattr(task, "compile") else None
    return TaskOracle(task, X, Y, n_jobs) if compiled is None else compiled
