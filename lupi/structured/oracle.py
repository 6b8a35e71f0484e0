r"""Loss-augmented inference over a training set, in the decision space and in the privileged spaces.

The surrogate loss of SSVM+ (Feyereisl et al. 2014, eq. 7) couples an output y with an output y* of the privileged spaces:
:math:`\bar\Delta(y, y^*) = \Delta^*(y^*)/\rho + [\Delta(y) - \Delta^*(y^*)]_+`. Since :math:`[t]_+ = \max(t, 0)`, its
maximum together with two scores is the larger of two sums of independent searches:

1. :math:`\max_y \{\Delta(y) + s(y)\} + \max_{y^*} \{(1/\rho - 1) \Delta^*(y^*) + s^*(y^*)\}`,
2. :math:`\max_y s(y) + \max_{y^*} \{\Delta^*(y^*)/\rho + s^*(y^*)\}`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from lupi.structured.task import Examples, Slices, in_parts

INFERENCE = ("exact", "alternating")


class Found(NamedTuple):
    """Most violated outputs of some examples, with the hinge and the surrogate loss at them (0 where nothing is violated)."""

    rows: np.ndarray
    outputs: np.ndarray
    privileged_outputs: np.ndarray
    loss: np.ndarray
    hinge: np.ndarray
    decision_larger: np.ndarray


@dataclass
class Oracle:
    r"""The hinges :math:`H_i(v) = \max_{y, y^*} [\bar\Delta - \langle v, \psi_i(y, y^*) \rangle]` of a structural SVM.

    SSVM+ is a structural SVM on the joint vector :math:`v = [w, v^*]`, v* being the scaled weights of the privileged spaces
    (:class:`Examples`). An example without privileged input keeps the hinge of the plain machine; in a plain structural SVM
    no example has one.

    ``inference`` is "exact", the global joint search, or "alternating", the alternation of the paper.
    """

    decision: Examples
    privileged: Examples | None = None
    available: Any = None
    _: KW_ONLY
    C: float = 1.0
    rho: float = 2.0
    inference: str = "exact"
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        self.n_samples, self.n_decision = len(self.decision.Y), self.decision.n_features
        self.n_features, compiled = self.n_decision, self.decision.compiled
        self.cap = self.C / self.n_samples  # the mass of each block's simplex
        if self.privileged is None:
            self.inference, self.available = "exact", np.zeros(self.n_samples, dtype=bool)
        else:
            self.n_features, compiled = (
                self.n_features + self.privileged.n_features,
                compiled and self.privileged.compiled,
            )
        self.slices = Slices() if compiled else None

    def exact(self) -> Oracle:
        """The same searches with exact inference."""
        return self if self.inference == "exact" else replace(self, inference="exact")

    def primal(self, v: np.ndarray, found: Found) -> float:
        """Primal objective at v, given the most violated outputs of all examples at v."""
        return float(0.5 * v @ v + self.cap * found.hinge.sum())

    def search(self, v: np.ndarray, rows: np.ndarray | None = None) -> Found:
        """Most violated outputs of the examples `rows` (all by default)."""
        rows = np.arange(self.n_samples) if rows is None else rows
        parts = in_parts(lambda part: self._search(v, part), rows, self.n_jobs, self.slices)
        return parts[0] if len(parts) == 1 else Found(*map(np.concatenate, zip(*parts)))

    def _search(self, v: np.ndarray, rows: np.ndarray) -> Found:
        w = v[: self.n_decision]
        if self.privileged is None:
            outputs, loss, score = (part[:, 0] for part in self.decision.search(rows, w, (1.0,)))
            return Found(rows, outputs, np.zeros((len(rows), 0)), *_hinge(loss, score), loss > 0.0)
        outputs, loss, score = self.decision.search(rows, w, (1.0, 0.0))
        has, first = self.available[rows], np.zeros(len(rows), dtype=int)
        star_loss, star_score = np.zeros((2, len(rows)))
        weights = (1.0 / self.rho - 1.0, 1.0 / self.rho)
        found = self.privileged.search(rows[has], v[self.n_decision :], weights)
        first[has], second = self._pair((loss[has], score[has]), found[1:])
        # Outputs of examples without a privileged input are placeholders, which `planes` leaves out.
        stars = np.zeros((len(rows), *found[0].shape[2:]), dtype=found[0].dtype)
        for column, part in zip((stars, star_loss, star_score), found):
            column[has] = part[np.arange(len(second)), second]
        q = np.arange(len(rows))
        outputs, loss, score = outputs[q, first], loss[q, first], score[q, first]
        surrogate = star_loss / self.rho + np.maximum(loss - star_loss, 0.0)
        return Found(rows, outputs, stars, *_hinge(surrogate, score + star_score), loss > star_loss)

    def _pair(self, decision: Any, privileged: Any) -> tuple[np.ndarray, np.ndarray]:
        """Which of the two candidates of each space form the joint maximum, or where the alternation ends."""
        value = self.joint_value(*(part[:, :, None] for part in decision), *(part[:, None, :] for part in privileged))
        q = np.arange(len(value))
        if self.inference == "exact":
            best = (value[:, 1, 1] > value[:, 0, 0]).astype(int)
            return best, best
        # Eq. 13 and 14 from the true output, whose loss and relative score are 0; four rounds reach the best of four pairs.
        b = np.argmax(self.joint_value(0.0, 0.0, *privileged), axis=1)
        a = np.argmax(value[q, :, b], axis=1)
        for _ in range(3):
            b = np.argmax(value[q, a], axis=1)
            a = np.argmax(value[q, :, b], axis=1)
        return a, b

    def joint_value(self, loss: Any, score: Any, star_loss: Any, star_score: Any) -> Any:
        """The objective of joint inference: eq. 7 plus the two scores."""
        return star_loss / self.rho + np.maximum(loss - star_loss, 0.0) + score + star_score

    def planes(self, found: Found) -> np.ndarray:
        """The vectors psi of some outputs, one row each; zero where the hinge is zero."""
        psi = np.zeros((len(found.rows), self.n_features))
        violated = np.flatnonzero(found.hinge > 0.0)
        if len(violated):
            psi[violated, : self.n_decision] = self.decision.differences(found.rows[violated], found.outputs[violated])
        joint = violated[self.available[found.rows[violated]]]
        if self.privileged is not None and len(joint):
            stars = self.privileged.differences(found.rows[joint], found.privileged_outputs[joint])
            psi[joint, self.n_decision :] = stars
        return psi


def _hinge(loss: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Loss and hinge, both 0 where the true output is the best."""
    hinge = np.maximum(loss + score, 0.0)
    return np.where(hinge > 0.0, loss, 0.0), hinge
