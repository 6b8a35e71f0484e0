r"""Joint loss-augmented inference in the decision space and the privileged space.

The surrogate loss of SSVM+ (Feyereisl et al. 2014, eq. 7) couples an output y with an output y* of the privileged space:
:math:`\bar\Delta(y, y^*) = \Delta^*(y^*)/\rho + [\Delta(y) - \Delta^*(y^*)]_+`. Since :math:`[t]_+ = \max(t, 0)`, its
maximum together with two scores is the larger of two sums of independent searches:

1. :math:`\max_y \{\Delta(y) + s(y)\} + \max_{y^*} \{(1/\rho - 1) \Delta^*(y^*) + s^*(y^*)\}`,
2. :math:`\max_y s(y) + \max_{y^*} \{\Delta^*(y^*)/\rho + s^*(y^*)\}`.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs

from lupi.structured import box_planes
from lupi.structured.oracle import TrueFeatures, planes_by_plane
from lupi.structured.protocol import Task, argmax_scored

if TYPE_CHECKING:
    from lupi.structured.planes import PlaneStore


@dataclass(frozen=True)
class TaskData:
    """One side of the pair: a task with its training inputs and outputs."""

    task: Task
    X: Any
    Y: Any

    def true_output(self, w: np.ndarray, i: int) -> Candidate:
        """The true output as a candidate."""
        return Candidate(self.Y[i], 0.0, float(self.feature(i, self.Y[i]) @ w))

    def search(self, w: np.ndarray, i: int, loss_weights: tuple[float, ...]) -> list[Candidate]:
        """The best output for each loss weight."""
        return [Candidate(*found) for found in argmax_scored(self.task, w, self.X[i], self.Y[i], loss_weights)]

    def feature(self, i: int, y: Any) -> np.ndarray:
        """Joint feature of example i."""
        return self.task.joint_feature(self.X[i], y)


class Candidate(NamedTuple):
    """An output of one space with its loss and score."""

    y: Any
    loss: float
    score: float


def surrogate_loss(loss: float, privileged_loss: float, rho: float) -> float:
    """Eq. 7."""
    return privileged_loss / rho + max(loss - privileged_loss, 0.0)


def joint_value(a: Candidate, b: Candidate, rho: float) -> float:
    """What joint inference maximizes."""
    return surrogate_loss(a.loss, b.loss, rho) + a.score + b.score


def exact_inference(
    space: TaskData, privileged: TaskData, w: np.ndarray, w_star: np.ndarray, i: int, rho: float
) -> tuple[Candidate, Candidate]:
    """The global maximum over (y, y*) by four independent searches."""
    with_loss, plain = space.search(w, i, (1.0, 0.0))
    low, high = privileged.search(w_star, i, (1.0 / rho - 1.0, 1.0 / rho))
    first, second = (with_loss, low), (plain, high)
    return first if joint_value(*first, rho) >= joint_value(*second, rho) else second


def alternating_inference(
    space: TaskData, privileged: TaskData, w: np.ndarray, w_star: np.ndarray, i: int, rho: float, max_rounds: int = 50
) -> tuple[Candidate, Candidate]:
    """The paper's procedure (eq. 13 and 14) from the true output: a local maximum, often not the global one.

    Each round asks for the best output of one space, that of the other one given: always one of the same two, so that every
    space is searched once.
    """
    y = space.true_output(w, i)
    y_star = None
    value = -np.inf
    stars, options = privileged.search(w_star, i, (1.0 / rho - 1.0, 1.0 / rho)), space.search(w, i, (1.0, 0.0))
    for _ in range(max_rounds):
        new_star = max(stars, key=lambda b: joint_value(y, b, rho))
        new = max(options, key=lambda a: joint_value(a, new_star, rho))
        new_value = joint_value(new, new_star, rho)
        if new_value <= value + 1e-12 * (1.0 + abs(value)):
            break
        y, y_star, value = new, new_star, new_value
    return y, y_star


INFERENCE = {"exact": exact_inference, "alternating": alternating_inference}


class JointOracle:
    r"""SSVM+ as a structural SVM on the joint vector :math:`v = [w, \sqrt{\lambda} w^*]`.

    Parameters
    ----------
    task, privileged_task : Task
        The two output spaces.
    X, privileged, Y : sequences
        Training set.
    available : bool ndarray
        False where an example has no privileged input: it keeps the hinge of the plain structural SVM.
    lam, rho : float
        Weight of the privileged norm; eq. 7's penalization.
    n_jobs : int or None
        Threads.
    """

    def __init__(
        self,
        task: Task,
        privileged_task: Task,
        X: Sequence[Any],
        privileged: Sequence[Any],
        available: np.ndarray,
        Y: Sequence[Any],
        *,
        lam: float,
        rho: float,
        n_jobs: int | None = None,
    ) -> None:
        self.space, self.privileged = TaskData(task, X, Y), TaskData(privileged_task, privileged, Y)
        self.available, rows = available, np.flatnonzero(available)
        self.true, self.true_star = TrueFeatures(task, X, Y), TrueFeatures(privileged_task, privileged, Y, rows)
        self.root, self.rho, self.infer, self.n_jobs = float(np.sqrt(lam)), float(rho), exact_inference, n_jobs
        self.n_samples, self.n_decision = len(X), int(task.n_features)
        self.n_features = self.n_decision + int(privileged_task.n_features)
        self.packed = (self.true.packed(), self.true_star.packed())
        self.boxes = self._compiled_planes()

    @property
    def compiled(self) -> bool:
        """Whether the planes come from compiled searches: boxes in both spaces, none missing."""
        return self.boxes is not None

    @property
    def alternating(self) -> bool:
        """Whether the joint search is the paper's."""
        return self.infer is alternating_inference

    def _compiled_planes(self) -> box_planes.CompiledPlanes | None:
        if None in self.packed:
            return None
        loops = (box_planes.fill_joint_planes, box_planes.joint_plane_steps)
        spaces = (*self.packed, self.root, self.rho, self.alternating)
        return box_planes.CompiledPlanes(*loops, spaces, self.n_samples, self.n_features)

    def searched_by(self, inference: str) -> JointOracle:
        """The same oracle with another joint search, one of ``INFERENCE``."""
        other = copy(self)
        other.infer = INFERENCE[inference]
        other.boxes = other._compiled_planes()
        return other

    def split(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """W and w* of a joint vector."""
        return v[: self.n_decision], v[self.n_decision :] / self.root

    def planes(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Most violated planes of all examples."""
        if not self.compiled or effective_n_jobs(self.n_jobs) > 1:
            return planes_by_plane(self, v)
        return self.boxes.planes(v)

    def plane_steps(self, store: PlaneStore, rows: np.ndarray, gaps: np.ndarray) -> None:
        """Find, store and use the planes of some examples, one after the other; where ``compiled``."""
        self.boxes.take_into(store, rows, gaps)

    def plane(self, i: int, v: np.ndarray) -> tuple[np.ndarray, float]:
        """Most violated plane of example i, or the zero plane if nothing violates."""
        if self.compiled:
            psi = np.empty(self.n_features)
            return psi, box_planes.joint_plane(*self.packed, i, v, self.root, self.rho, self.alternating, psi)
        w, w_star = self.split(v)
        psi = np.zeros(self.n_features)
        if self.available[i]:
            a, b = self.infer(self.space, self.privileged, w, w_star, i, self.rho)
            psi[self.n_decision :] = (self.true_star[i] - self.privileged.feature(i, b.y)) / self.root
            loss = surrogate_loss(a.loss, b.loss, self.rho)
        else:
            a = self.space.search(w, i, (1.0,))[0]
            loss = a.loss
        psi[: self.n_decision] = self.true[i] - self.space.feature(i, a.y)
        if loss - psi @ v <= 0.0:
            return np.zeros(self.n_features), 0.0
        return psi, loss

    def first_branch_share(self, v: np.ndarray) -> float:
        """Share of examples whose joint maximum has the decision loss above the privileged loss (search 1).

        Only examples with a privileged input count.
        """
        rows = np.flatnonzero(self.available)
        if self.compiled:
            return float(np.mean([box_planes.first_branch(*self.packed, i, v, self.root, self.rho) for i in rows]))
        w, w_star = self.split(v)
        pairs = (exact_inference(self.space, self.privileged, w, w_star, int(i), self.rho) for i in rows)
        return float(np.mean([a.loss > b.loss for a, b in pairs]))
