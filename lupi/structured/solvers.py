r"""Solvers of structural SVMs: block-coordinate Frank-Wolfe, one-slack and n-slack cutting planes.

.. math::

    \min_w \; \tfrac12 \|w\|^2 + \tfrac{C}{n} \sum_i H_i(w), \qquad
    \max_{\alpha \ge 0} \; \sum_{ik} \alpha_{ik} \ell_{ik} - \tfrac12 \Big\| \sum_{ik} \alpha_{ik} \psi_{ik} \Big\|^2
    \;\; \text{s.t.} \;\; \sum_k \alpha_{ik} = C/n .
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lupi.solution import BEYOND, Solution, out_of_time, relative_gap
from lupi.structured.oracle import Found, Oracle, Slices
from lupi.structured.planes import PlaneStore, simplex_ascent

# Passes between two certificates when the running estimate has not required one earlier.
_CHECK_EVERY = 5
# Plain Frank-Wolfe steps are cheap but slow on strongly coupled problems: after this many passes planes are kept.
_SWITCH = 60
# Passes from example to example with which a store begins.
_FIRST_PASSES = 2
# Parts of these passes whose examples are searched at the same weights.
_PARTS = 40
# The most that the query point of a certificate is moved towards the best weights: to the middle.
_MOST_PULL = 0.5
# Sweeps over the stored planes after each pass: their largest number, and the share of the gap of all planes at which they stop.
# The second pair is for inference in Python, where further sweeps are comparatively cheap.
_SWEEPS = {True: (30, 0.3), False: (50, 0.1)}
# A plane of the one-slack problem that had no weight for this many rounds is dropped.
_PATIENCE = 50

Callback = Callable[[dict[str, Any]], object]


@dataclass(frozen=True)
class StructuralProblem:
    """n-slack structural SVM with margin rescaling: an oracle of the hinges, and the weight of the loss."""

    oracle: Oracle
    C: float

    @property
    def cap(self) -> float:
        """C/n, the mass of each block's simplex."""
        return self.C / self.oracle.n_samples

    def primal(self, w: np.ndarray, found: Found) -> float:
        """Primal objective at w, given the most violated outputs of all examples at w."""
        return float(0.5 * w @ w + self.cap * found.hinge.sum())


class Progress:
    """Best primal and dual values so far, by inference on all examples."""

    def __init__(self, problem: StructuralProblem, solver: str, tol: float, callback: Callback | None) -> None:
        self.problem, self.solver, self.tol, self.callback = problem, solver, tol, callback
        self.primal, self.dual = np.inf, 0.0
        self.w = np.zeros(problem.oracle.n_features)
        self.n_oracle_calls = 0

    def search(self, w: np.ndarray) -> Found:
        """Most violated outputs of all examples; counted."""
        self.n_oracle_calls += self.problem.oracle.n_samples
        return self.problem.oracle.search(w)

    def update(self, w: np.ndarray, found: Found, dual: float, n_iter: int) -> bool:
        """Record (w, dual); True when the gap is small enough, the time limit is reached or the callback returns true."""
        primal = self.problem.primal(w, found)
        if primal < self.primal:
            self.primal, self.w = primal, w.copy()
        self.dual = max(self.dual, dual)
        stopped = False
        if self.callback is not None:
            info = {
                "n_iter": n_iter,
                "primal": self.primal,
                "dual": self.dual,
                "dual_gap": relative_gap(self.primal, self.dual),
                "n_oracle_calls": self.n_oracle_calls,
            }
            stopped = bool(self.callback(info))
        return stopped or self.converged or out_of_time()

    @property
    def converged(self) -> bool:
        """Whether the relative duality gap is below the tolerance."""
        return relative_gap(self.primal, self.dual) <= self.tol

    def solution(self, n_iter: int) -> Solution:
        """The best point; its certificate is this record."""
        return Solution(self.w, self.primal, self.dual, n_iter, self.converged, self.solver, certificate=self)


def run(
    progress: Progress,
    passes: Any,
    max_iter: int,
    average: bool = False,
    random_state: np.random.RandomState | None = None,
) -> Solution:
    """Passes from example to example, and certificates whose planes improve the model of the objective.

    Between two passes over the examples, which only Frank-Wolfe methods have, ``gaps`` estimate the duality gap.
    """
    rng = np.random.RandomState(0) if random_state is None else random_state
    oracle = progress.problem.oracle
    mean, gaps = np.zeros(oracle.n_features), np.full(oracle.n_samples, np.inf)
    checked = n_iter = 0
    next_check = 2 if oracle.n_samples > 1 else 1
    for n_iter in range(1, max_iter + 1):
        if n_iter == _SWITCH:
            passes = passes.stored(progress.problem)
        if passes.one_by_one:
            progress.n_oracle_calls += oracle.n_samples
            passes.run_pass(gaps, n_iter, rng)
        if average:
            mean += 2.0 / (n_iter + 1) * (passes.w - mean)
        promising = gaps.sum() <= 0.9 * progress.tol * max(passes.dual, 0.0) and n_iter > checked + 1
        due = n_iter >= next_check or n_iter == max_iter or not passes.one_by_one
        if promising or due or out_of_time():
            checked, next_check = n_iter, n_iter + _CHECK_EVERY
            w = passes.query(progress, n_iter)
            found = progress.search(w)
            if progress.update(w, found, passes.dual, n_iter):
                break
            passes.learn(found, gaps, progress)
    if average:
        progress.primal, progress.w = progress.problem.primal(mean, progress.search(mean)), mean
    return progress.solution(n_iter)


class Passes:
    """Base class of the solvers: planes of certificates and, where there are some, passes from example to example."""

    w: np.ndarray
    # After so many passes from example to example, the only planes are those of certificates.
    first_passes: float = 0
    n_passes = 0

    @property
    def one_by_one(self) -> bool:
        """Whether the next pass goes from example to example."""
        return self.n_passes < self.first_passes

    @property
    def dual(self) -> float:
        """Dual objective."""
        raise NotImplementedError

    def query(self, progress: Progress, n_iter: int) -> np.ndarray:
        """Weights of the next certificate."""
        return self.w

    def learn(self, found: Found, gaps: np.ndarray, progress: Progress) -> None:
        """Use the planes of a certificate."""

    def stored(self, problem: StructuralProblem) -> Passes:
        """The passes with stored planes that replace slow ones."""
        return self


class CompiledPasses(Passes):
    """Passes in the task's compiled loop, which are as cheap as a stored plane."""

    first_passes = np.inf

    def __init__(self, passes: Any) -> None:
        self.passes, self.w, self.slices = passes, passes.w, Slices(64)

    @property
    def dual(self) -> float:
        """Dual objective."""
        return float(self.passes.linear.sum() - 0.5 * self.w @ self.w)

    def run_pass(self, gaps: np.ndarray, n_iter: int, rng: np.random.RandomState) -> None:
        """One step for all examples in every third pass, otherwise for examples drawn by their last known gap."""
        n = len(gaps)
        if n_iter % 3 == 1 or not np.isfinite(gaps).all() or gaps.sum() <= 0.0:
            order = rng.permutation(n)
        else:
            p = np.maximum(gaps, 0.0) + 0.1 * np.maximum(gaps, 0.0).mean()
            order = rng.choice(n, size=n, p=p / p.sum())
        for part in self.slices.cut(order):
            self.passes.run(part, gaps)
            if out_of_time():
                break

    def stored(self, problem: StructuralProblem) -> Passes:
        """Stored planes that begin with the blocks so far, if the task has these."""
        if self.passes.blocks is None:
            return self
        passes = StoredPasses(problem)
        passes.store.start_from(self.passes.blocks, self.passes.linear)
        return passes


class StoredPasses(Passes):
    """Passes whose planes are stored and, between passes, re-optimized, which requires no search.

    The first passes go from example to example, each at the weights that the previous one left. Later the weights move little
    within a pass: all planes are then those of a certificate, at one and the same w.
    """

    first_passes = _FIRST_PASSES

    def __init__(self, problem: StructuralProblem) -> None:
        self.oracle = problem.oracle
        self.store = PlaneStore(self.oracle.n_samples, self.oracle.n_features, problem.cap)
        self.w, self.pull, self.seen = self.store.w, 0.0, (np.inf, 0.0)

    @property
    def dual(self) -> float:
        """Dual objective."""
        return self.store.dual

    def query(self, progress: Progress, n_iter: int) -> np.ndarray:
        """Weights of the next certificate: the current ones, moved towards the best ones so far after a step that failed.

        The dual's weights overshoot where few planes are stored; a proximal bundle method holds them back in the same way.
        Without a gain of the dual there is no pull: the same planes would be found again.
        """
        primal, dual = self.seen
        self.seen = progress.primal, self.dual
        if self.dual - dual < 0.01 * (progress.primal - self.dual):
            self.pull = 0.0
        else:
            self.pull = min(_MOST_PULL, self.pull + 0.25) if progress.primal >= primal else 0.7 * self.pull
        return self.w + self.pull * (progress.w - self.w)

    def run_pass(self, gaps: np.ndarray, n_iter: int, rng: np.random.RandomState) -> None:
        """One search and an exact block step per example, then sweeps over the stored planes."""
        order = rng.permutation(len(gaps))
        for part in np.array_split(order, min(_PARTS, len(order))):
            found = self.oracle.search(self.w, part)
            self.store.take(found.rows, self.oracle.planes(found), found.loss, gaps, ascend=True)
            if out_of_time():
                break
        self.n_passes += 1
        self._polish(gaps)

    def learn(self, found: Found, gaps: np.ndarray, progress: Progress) -> None:
        """Store the planes of a certificate."""
        self.store.take(found.rows, self.oracle.planes(found), found.loss, gaps, ascend=False)
        self._polish(gaps)

    def _polish(self, gaps: np.ndarray) -> None:
        total = np.maximum(gaps[np.isfinite(gaps)], 0.0).sum()
        sweeps, share = _SWEEPS[self.oracle.compiled]
        self.store.ascend_all(max_sweeps=sweeps, target=max(share * total, 1e-12))
        self.store.tidy()


class OneSlack(Passes):
    """One-slack cutting planes: each certificate adds the mean of all examples' most violated planes.

    Joachims, Finley and Yu (2009), Algorithm 3. The query point is the midpoint of the best and the last solution
    in every second round, as in proximal bundle methods, which halves the number of rounds.
    """

    def __init__(self, problem: StructuralProblem) -> None:
        self.problem, self.w = problem, np.zeros(problem.oracle.n_features)
        self.planes, self.losses, self.idle = np.zeros((1, len(self.w))), np.zeros(1), np.zeros(1, dtype=int)
        self.gram, self.alpha = np.zeros((1, 1)), np.array([problem.C])

    @property
    def dual(self) -> float:
        """Dual objective."""
        return float(self.alpha @ self.losses - 0.5 * self.w @ self.w)

    def query(self, progress: Progress, n_iter: int) -> np.ndarray:
        """The last solution, or its midpoint with the best one."""
        return self.w if n_iter % 2 else 0.5 * (self.w + progress.w)

    def learn(self, found: Found, gaps: np.ndarray, progress: Progress) -> None:
        """Add the mean plane and solve the QP over all planes."""
        mean = self.problem.oracle.planes(found).mean(axis=0)
        keep = (self.idle < _PATIENCE) | (np.arange(len(self.alpha)) == 0)
        self.planes = np.vstack([self.planes[keep], mean])
        self.losses = np.append(self.losses[keep], found.loss.mean())
        self.alpha, idle = np.append(self.alpha[keep], 0.0), np.append(self.idle[keep], 0)
        self.gram = np.pad(self.gram[np.ix_(keep, keep)], (0, 1))
        self.gram[-1] = self.gram[:, -1] = self.planes @ mean
        grad, gap = self.losses - self.gram @ self.alpha, progress.primal - progress.dual
        simplex_ascent(self.gram, grad, self.alpha, len(grad), 1e-2 * gap / self.problem.C, 100_000)
        self.idle = np.where(self.alpha > 0.0, 0, idle + 1)
        self.w = self.alpha @ self.planes


class NSlack(StoredPasses):
    """n-slack cutting planes: each certificate adds every example's most violated plane, then the QP over all planes is solved.

    Feyereisl et al. (2014), Algorithm 1, with one QP per round, started from the last solution.
    """

    first_passes = 0
    query = Passes.query

    def _polish(self, gaps: np.ndarray) -> None:
        self.store.ascend_all(max_sweeps=300, target=max(0.05 * np.maximum(gaps, 0.0).sum(), 1e-14))
        self.store.tidy()


def frank_wolfe(problem: StructuralProblem) -> Passes:
    """The passes with which block-coordinate Frank-Wolfe begins: compiled where the task has them.

    Lacoste-Julien et al. (2013), Algorithm 4; Osokin et al. (2016) for gap sampling; Shah et al. (2015) for stored planes.
    """
    oracle = problem.oracle
    passes = oracle.decision.passes(problem.cap) if oracle.privileged is None else None
    return StoredPasses(problem) if passes is None else CompiledPasses(passes)


SOLVERS: dict[str, Callable[[StructuralProblem], Passes]] = {
    "bcfw": frank_wolfe,
    "cutting_plane": OneSlack,
    "n_slack": NSlack,
}


def solve_structured(
    problem: StructuralProblem,
    solver: str,
    *,
    tol: float,
    max_iter: int,
    callback: Callback | None = None,
    **options: Any,
) -> Solution:
    """Solve a structural SVM with the solver of that name; the certificate comes from exact inference."""
    # Overflow shows in the result.
    with np.errstate(over="ignore", invalid="ignore"):
        solution = run(Progress(problem, solver, tol, callback), SOLVERS[solver](problem), max_iter, **options)
    if problem.oracle.inference != "exact":
        found = problem.oracle.exact().search(solution.point)
        solution = replace(solution, objective=problem.primal(solution.point, found))
    if not np.isfinite(solution.point).all() or not np.isfinite(solution.objective):
        raise ValueError(BEYOND)
    if solution.lower_bound > solution.objective + 1e-9 * abs(solution.objective):
        # The optimum lies between the two: this bound is a numerical failure, and proves nothing.
        solution = replace(solution, lower_bound=-np.inf)
    converged = solution.gap <= tol
    return replace(solution, converged=converged, in_time=converged or not out_of_time())
