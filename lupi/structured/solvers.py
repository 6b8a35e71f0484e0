r"""Solvers of structural SVMs: block-coordinate Frank-Wolfe, one-slack and n-slack cutting planes.

.. math::

    \min_w \; \tfrac12 \|w\|^2 + \tfrac{C}{n} \sum_i H_i(w), \qquad
    \max_{\alpha \ge 0} \; \sum_{ik} \alpha_{ik} \ell_{ik} - \tfrac12 \Big\| \sum_{ik} \alpha_{ik} \psi_{ik} \Big\|^2
    \;\; \text{s.t.} \;\; \sum_k \alpha_{ik} = C/n .
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lupi.solution import BEYOND, Solution, out_of_time, relative_gap
from lupi.structured.oracle import Found, Oracle
from lupi.structured.planes import PlaneStore

# The most that the query point of a certificate is moved towards the best weights: to the middle.
_MOST_PULL = 0.5
# Passes over groups of examples with which Frank-Wolfe begins, and the groups of a pass.
_FIRST_PASSES = 2
_GROUPS = 10

Callback = Callable[[dict[str, Any]], object]


class Progress:
    """Best primal and dual values so far, by inference on all examples."""

    def __init__(self, oracle: Oracle, tol: float, callback: Callback | None) -> None:
        self.oracle, self.tol, self.callback = oracle, tol, callback
        self.primal, self.dual = np.inf, 0.0
        self.w = np.zeros(oracle.n_features)
        self.n_oracle_calls = 0

    def search(self, w: np.ndarray, rows: np.ndarray | None = None) -> Found:
        """Most violated outputs of the examples `rows` (all by default); counted."""
        self.n_oracle_calls += self.oracle.n_samples if rows is None else len(rows)
        return self.oracle.search(w, rows)

    def update(self, w: np.ndarray, found: Found, dual: float, n_iter: int) -> bool:
        """Record (w, dual); True when the gap is small enough, the time limit is reached or the callback returns true."""
        primal = self.oracle.primal(w, found)
        if primal < self.primal:
            self.primal, self.w = primal, w.copy()
        self.dual = max(self.dual, dual)
        # Alternating inference misses violated outputs: its primal value may lie below the optimum.
        gap, stopped = relative_gap(self.primal, min(self.primal, self.dual)), False
        if self.callback is not None:
            info = {
                "n_iter": n_iter,
                "primal": self.primal,
                "dual": self.dual,
                "dual_gap": gap,
                "n_oracle_calls": self.n_oracle_calls,
            }
            stopped = bool(self.callback(info))
        return stopped or gap <= self.tol or out_of_time()


class Passes:
    """Base class of the solvers: what happens between two certificates, and the use of their planes."""

    w: np.ndarray
    dual: float

    def advance(self, progress: Progress, n_iter: int, rng: np.random.RandomState) -> bool:
        """A pass from example to example, if the solver has such; returns whether a certificate is due."""
        return True

    def query(self, progress: Progress, n_iter: int) -> np.ndarray:
        """Weights of the next certificate."""
        return self.w

    def learn(self, found: Found, progress: Progress) -> None:
        """Use the planes of a certificate."""


class NSlack(Passes):
    """n-slack cutting planes: each certificate adds every example's most violated plane; then the QP over all planes is solved.

    Feyereisl et al. (2014), Algorithm 1, with one QP per round, started from the last solution. The QP stops at a share of the
    duality gap.
    """

    max_sweeps, share = 300, 0.02

    def __init__(self, oracle: Oracle) -> None:
        self.oracle, self.store = oracle, PlaneStore(oracle.n_samples, oracle.n_features, oracle.cap)

    w: Any = property(lambda self: self.store.w)
    dual: Any = property(lambda self: self.store.dual)

    def learn(self, found: Found, progress: Progress) -> None:
        """Store the planes and solve the QP."""
        self._add(found)
        target = max(self.share * (progress.primal - progress.dual), 1e-14)
        self.store.ascend(max_sweeps=self.max_sweeps, target=target)
        self.store.tidy()

    def _add(self, found: Found) -> None:
        """Add the planes that are violated."""
        violated = found.hinge > 0.0
        found = Found(*(column[violated] for column in found))
        self.store.add(found.rows, self.oracle.planes(found), found.loss)


class StoredFrankWolfe(NSlack):
    """Block-coordinate Frank-Wolfe with stored planes.

    The first passes visit the examples in random order, a group at a time: a search at the weights that the last group left,
    and steps on the group's blocks. Later the weights move little within a pass, so one certificate finds the planes of all
    blocks. Between passes, steps on the stored planes require no search.
    """

    max_sweeps, share = 30, 0.4

    def __init__(self, oracle: Oracle) -> None:
        super().__init__(oracle)
        self.pull, self.seen = 0.0, (np.inf, 0.0)

    def advance(self, progress: Progress, n_iter: int, rng: np.random.RandomState) -> bool:
        """A pass over groups of examples, while there are few planes."""
        if n_iter > _FIRST_PASSES:
            return True
        order = rng.permutation(self.store.n)
        for rows in np.array_split(order, min(_GROUPS, len(order))):
            self._add(progress.search(self.w, rows))
            self.store.step(rows)
            if out_of_time():
                break
        self.store.ascend(max_sweeps=1, target=0.0)
        return n_iter == _FIRST_PASSES

    def query(self, progress: Progress, n_iter: int) -> np.ndarray:
        """The last solution, moved towards the best weights so far after a step that failed.

        The dual's weights overshoot where few planes are stored. Without a gain of the dual there is no pull: the same planes
        would be found again.
        """
        primal, dual = self.seen
        self.seen = progress.primal, self.dual
        if self.dual - dual < 0.01 * (progress.primal - self.dual):
            self.pull = 0.0
        else:
            self.pull = min(_MOST_PULL, self.pull + 0.25) if progress.primal >= primal else 0.7 * self.pull
        return self.w + self.pull * (progress.w - self.w)


class OneSlack(NSlack):
    """One-slack cutting planes: each certificate adds the mean of all examples' most violated planes.

    Joachims, Finley and Yu (2009), Algorithm 3. The query point is the midpoint of the best and the last solution
    in every second round, as in proximal bundle methods, which halves the number of rounds.
    """

    share = 0.01

    def __init__(self, oracle: Oracle) -> None:
        self.oracle, self.store = oracle, PlaneStore(1, oracle.n_features, oracle.C)

    def query(self, progress: Progress, n_iter: int) -> np.ndarray:
        """The last solution, or its midpoint with the best one."""
        return self.w if n_iter % 2 else 0.5 * (self.w + progress.w)

    def _add(self, found: Found) -> None:
        psi = self.oracle.planes(found).mean(axis=0, keepdims=True)
        self.store.add(np.zeros(1, dtype=int), psi, found.loss.mean(keepdims=True))


def frank_wolfe(oracle: Oracle) -> Passes:
    """Block-coordinate Frank-Wolfe: the task's own compiled steps if it has them, otherwise with stored planes.

    Lacoste-Julien et al. (2013), Algorithm 4; Osokin et al. (2016) for gap sampling; Shah et al. (2015) for stored planes.
    """
    passes = oracle.decision.passes(oracle.cap) if oracle.privileged is None else None
    return StoredFrankWolfe(oracle) if passes is None else passes


SOLVERS: dict[str, Any] = {"bcfw": frank_wolfe, "cutting_plane": OneSlack, "n_slack": NSlack}


@np.errstate(over="ignore", invalid="ignore")  # overflow shows in the result
def solve_structured(
    oracle: Oracle, solver: str, *, tol: float, max_iter: int, rng: Any = None, callback: Callback | None = None
) -> Solution:
    """Solve a structural SVM with the solver of that name.

    Passes over the examples alternate with certificates, whose planes improve the model of the objective. The last certificate
    comes from exact inference.
    """
    rng, progress, passes = (
        rng or np.random.RandomState(0),
        Progress(oracle, tol, callback),
        SOLVERS[solver](oracle),
    )
    n_iter = 0
    for n_iter in range(1, max_iter + 1):
        due = passes.advance(progress, n_iter, rng)
        if due or n_iter == max_iter or out_of_time():
            w = passes.query(progress, n_iter)
            found = progress.search(w)
            if progress.update(w, found, passes.dual, n_iter):
                break
            passes.learn(found, progress)
    point, objective, bound = progress.w, progress.primal, progress.dual
    if oracle.inference != "exact":
        objective = oracle.primal(point, oracle.exact().search(point))
    if not np.isfinite(point).all() or not np.isfinite(objective):
        raise ValueError(BEYOND)
    converged = relative_gap(objective, bound) <= tol
    in_time = converged or not out_of_time()
    return Solution(point, objective, bound, n_iter, converged, solver, certificate=progress, in_time=in_time)
