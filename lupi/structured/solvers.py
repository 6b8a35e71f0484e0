r"""Solvers of structural SVMs: block-coordinate Frank-Wolfe, one-slack and n-slack cutting planes.

.. math::

    \min_w \; \tfrac12 \|w\|^2 + \tfrac{C}{n} \sum_i H_i(w), \qquad
    \max_{\alpha \ge 0} \; \sum_{ik} \alpha_{ik} \ell_{ik} - \tfrac12 \Big\| \sum_{ik} \alpha_{ik} \psi_{ik} \Big\|^2
    \;\; \text{s.t.} \;\; \sum_k \alpha_{ik} = C/n .
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
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


def solve_frank_wolfe(
    problem: StructuralProblem,
    *,
    tol: float = 1e-3,
    max_iter: int = 1000,
    average: bool = False,
    random_state: np.random.RandomState | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Block-coordinate Frank-Wolfe with gap sampling and stored planes.

    A pass finds one plane of every example. Between passes the stored planes are re-optimized, which requires no search. Tasks with
    compiled passes need no store. With a store, the first passes go from example to example, each at the weights that the previous
    one left. Later the weights move little within a pass: all planes are then those of a certificate, at one and the same w.

    Lacoste-Julien et al. (2013), Algorithm 4; Osokin et al. (2016) for gap sampling; Shah et al. (2015) for stored planes.
    """
    rng = np.random.RandomState(0) if random_state is None else random_state
    progress, oracle = Progress(problem, "bcfw", tol, callback), problem.oracle
    passes = oracle.decision.passes(problem.cap) if oracle.privileged is None else None
    engine: CompiledPasses | StoredPasses = StoredPasses(problem) if passes is None else CompiledPasses(passes)
    mean = np.zeros(oracle.n_features)
    gaps = np.full(oracle.n_samples, np.inf)
    checked = n_iter = 0
    next_check = 2 if oracle.n_samples > 1 else 1
    for n_iter in range(1, max_iter + 1):
        if n_iter == _SWITCH and passes is not None and passes.blocks is not None:
            engine = StoredPasses(problem)
            engine.store.start_from(passes.blocks, passes.linear)
        if engine.one_by_one:
            progress.n_oracle_calls += oracle.n_samples
            engine.run_pass(gaps, n_iter, rng)
        if average:
            mean += 2.0 / (n_iter + 1) * (engine.w - mean)
        promising = gaps.sum() <= 0.9 * tol * max(engine.dual, 0.0) and n_iter > checked + 1
        due = n_iter >= next_check or n_iter == max_iter or not engine.one_by_one
        if promising or due or out_of_time():
            checked, next_check = n_iter, n_iter + _CHECK_EVERY
            w = engine.query(progress)
            found = progress.search(w)
            if progress.update(w, found, engine.dual, n_iter):
                break
            engine.learn(found, gaps)
    if average:
        progress.primal, progress.w = problem.primal(mean, progress.search(mean)), mean
    return progress.solution(n_iter)


class CompiledPasses:
    """Passes from example to example in the task's compiled loop."""

    one_by_one = True

    def __init__(self, passes: Any) -> None:
        self.passes, self.slices = passes, Slices(64)

    @property
    def w(self) -> np.ndarray:
        """Current weights."""
        return self.passes.w

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

    def query(self, progress: Progress) -> np.ndarray:
        """Weights of the next certificate."""
        return self.w

    def learn(self, found: Found, gaps: np.ndarray) -> None:
        """Nothing to keep: the compiled pass is as cheap as a stored plane."""


class StoredPasses:
    """Passes whose planes are stored and reused."""

    def __init__(self, problem: StructuralProblem) -> None:
        self.oracle = problem.oracle
        self.store = PlaneStore(self.oracle.n_samples, self.oracle.n_features, problem.cap)
        self.n_passes = 0
        self.pull, self.seen = 0.0, (np.inf, 0.0)

    @property
    def w(self) -> np.ndarray:
        """Current weights."""
        return self.store.w

    @property
    def dual(self) -> float:
        """Dual objective."""
        return self.store.dual

    @property
    def one_by_one(self) -> bool:
        """Whether the next pass goes from example to example; otherwise its planes are those of a certificate."""
        return self.n_passes < _FIRST_PASSES

    def query(self, progress: Progress) -> np.ndarray:
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

    def learn(self, found: Found, gaps: np.ndarray) -> None:
        """Store the planes of a certificate."""
        self.store.take(found.rows, self.oracle.planes(found), found.loss, gaps, ascend=False)
        self._polish(gaps)

    def _polish(self, gaps: np.ndarray) -> None:
        total = np.maximum(gaps[np.isfinite(gaps)], 0.0).sum()
        sweeps, share = _SWEEPS[self.oracle.compiled]
        self.store.ascend_all(max_sweeps=sweeps, target=max(share * total, 1e-12))
        self.store.tidy()


def solve_one_slack(
    problem: StructuralProblem, *, tol: float = 1e-3, max_iter: int = 1000, callback: Callback | None = None
) -> Solution:
    """One-slack cutting planes: each round adds the mean of all examples' most violated planes.

    Joachims, Finley and Yu (2009), Algorithm 3. The query point is the midpoint of the best and the last solution
    in every second round, as in proximal bundle methods, which halves the number of rounds.
    """
    progress, oracle = Progress(problem, "cutting_plane", tol, callback), problem.oracle
    planes, losses = np.zeros((1, oracle.n_features)), np.zeros(1)
    gram, alpha, idle = np.zeros((1, 1)), np.array([problem.C]), np.zeros(1, dtype=int)
    w = query = np.zeros(oracle.n_features)
    dual = 0.0
    n_iter = 0
    for n_iter in range(1, max_iter + 1):
        found = progress.search(query)
        if progress.update(query, found, dual, n_iter):
            break
        mean = oracle.planes(found).mean(axis=0)
        keep = (idle < _PATIENCE) | (np.arange(len(alpha)) == 0)
        planes = np.vstack([planes[keep], mean])
        losses = np.append(losses[keep], found.loss.mean())
        alpha, idle = np.append(alpha[keep], 0.0), np.append(idle[keep], 0)
        gram = np.pad(gram[np.ix_(keep, keep)], (0, 1))
        gram[-1] = gram[:, -1] = planes @ mean
        grad = losses - gram @ alpha
        gap = progress.primal - progress.dual
        simplex_ascent(gram, grad, alpha, len(alpha), 1e-2 * gap / problem.C, 100_000)
        idle = np.where(alpha > 0.0, 0, idle + 1)
        w = alpha @ planes
        dual = float(alpha @ losses - 0.5 * w @ w)
        query = 0.5 * (w + progress.w) if n_iter % 2 else w
    return progress.solution(n_iter)


def solve_n_slack(
    problem: StructuralProblem, *, tol: float = 1e-3, max_iter: int = 1000, callback: Callback | None = None
) -> Solution:
    """n-slack cutting planes: each round adds every example's most violated plane and solves the QP over all planes.

    Feyereisl et al. (2014), Algorithm 1, with one QP per round, started from the last solution.
    """
    progress, oracle = Progress(problem, "n_slack", tol, callback), problem.oracle
    store, gaps = PlaneStore(oracle.n_samples, oracle.n_features, problem.cap), np.zeros(oracle.n_samples)
    n_iter = 0
    for n_iter in range(1, max_iter + 1):
        found = progress.search(store.w)
        if progress.update(store.w, found, store.dual, n_iter):
            break
        store.take(found.rows, oracle.planes(found), found.loss, gaps, ascend=False)
        store.ascend_all(max_sweeps=300, target=max(0.05 * np.maximum(gaps, 0.0).sum(), 1e-14))
        store.tidy()
    return progress.solution(n_iter)


SOLVERS: dict[str, Callable[..., Solution]] = {
    "bcfw": solve_frank_wolfe,
    "cutting_plane": solve_one_slack,
    "n_slack": solve_n_slack,
}


def solve(problem: StructuralProblem, solver: str, *, tol: float, max_iter: int, **options: Any) -> Solution:
    """Solve a structural SVM with the solver of that name; the certificate comes from exact inference."""
    # Overflow shows in the result.
    with np.errstate(over="ignore", invalid="ignore"):
        solution = SOLVERS[solver](problem, tol=tol, max_iter=max_iter, **options)
    if problem.oracle.inference != "exact":
        exact = copy(problem.oracle)
        exact.inference = "exact"
        solution = replace(solution, objective=problem.primal(solution.point, exact.search(solution.point)))
    if not np.isfinite(solution.point).all() or not np.isfinite(solution.objective):
        raise ValueError(BEYOND)
    if solution.lower_bound > solution.objective + 1e-9 * abs(solution.objective):
        # The optimum lies between the two: this bound is a numerical failure, and proves nothing.
        solution = replace(solution, lower_bound=-np.inf)
    converged = solution.gap <= tol
    return replace(solution, converged=converged, in_time=converged or not out_of_time())
