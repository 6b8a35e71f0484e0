"""Block-coordinate Frank-Wolfe for the structural SVM, with gap sampling and cached planes.

A pass asks the oracle for one plane of every example. Between passes the stored planes are re-optimized, which costs no
oracle call. Tasks whose inference is compiled run whole passes in one call (``oracle.sweep``) and need no store.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from lupi.problems.structural.margin_rescaling import StructuralProblem
from lupi.solvers.solution import Solution, out_of_time
from lupi.solvers.structural.planes import PlaneStore
from lupi.solvers.structural.progress import Progress

# Passes between two certificates when the running estimate has not called for one earlier.
_CHECK_EVERY = 5
# Plain Frank-Wolfe steps are cheap but creep on strongly coupled problems: after this many passes planes are kept.
_SWITCH = 60
# Seconds below which compiled steps may be taken for more examples together.
_SHORT = 0.05


def solve_frank_wolfe(
    problem: StructuralProblem,
    *,
    tol: float = 1e-3,
    max_iter: int = 1000,
    average: bool = False,
    random_state: np.random.RandomState | None = None,
    callback: Callable[[dict[str, Any]], object] | None = None,
) -> Solution:
    """Minimize a structural SVM to a certified relative duality gap.

    Parameters
    ----------
    problem : StructuralProblem
        What to minimize.
    tol : float
        Relative duality gap at which to stop.
    max_iter : int
        Largest number of passes.
    average : bool
        Return the average of the iterates (weight proportional to the pass) instead of the best one.
    random_state : RandomState or None
        Order of the examples.
    callback : callable or None
        Called with a dict after each certificate; a true answer stops the fit.

    Returns
    -------
    Solution

    References
    ----------
    Lacoste-Julien et al. (2013), Algorithm 4; Osokin et al. (2016) for gap sampling; Shah et al. (2015) for
    cached planes.
    """
    rng = np.random.RandomState(0) if random_state is None else random_state
    progress = Progress(problem, "bcfw", tol, callback)
    engine: Any = CompiledEngine(problem) if hasattr(problem.oracle, "sweep") else CachedEngine(problem)
    mean = np.zeros(problem.n_features)
    gaps = np.full(problem.n_samples, np.inf)
    checked = n_iter = 0
    next_check = 2 if problem.n_samples > 1 else 1
    for n_iter in range(1, max_iter + 1):
        if n_iter == _SWITCH and hasattr(problem.oracle, "blocks"):
            engine = CachedEngine(problem, *problem.oracle.blocks(engine.state))
        progress.n_oracle_calls += problem.n_samples
        engine.run_pass(_order(gaps, n_iter, rng), gaps)
        if average:
            mean += 2.0 / (n_iter + 1) * (engine.w - mean)
        promising = gaps.sum() <= 0.9 * tol * max(engine.dual, 0.0) and n_iter > checked + 1
        if promising or n_iter >= next_check or n_iter == max_iter or out_of_time():
            checked = n_iter
            next_check = n_iter + (1 if getattr(problem.oracle, "cheap_batch", False) else _CHECK_EVERY)
            psi, loss = progress.planes(engine.w)
            done = progress.update(engine.w, psi, loss, engine.dual, n_iter)
            if done:
                break
            engine.learn(psi, loss, gaps)
    if average:
        psi, loss = progress.planes(mean)
        progress.primal = problem.primal(mean, psi, loss)
        progress.w = mean
    return progress.solution(n_iter)


def _order(gaps: np.ndarray, n_iter: int, rng: np.random.RandomState) -> np.ndarray:
    """All examples once in every third pass, otherwise drawn by their last known gap."""
    n = len(gaps)
    if n_iter % 3 == 1 or not np.isfinite(gaps).all() or gaps.sum() <= 0.0:
        return rng.permutation(n)
    p = np.maximum(gaps, 0.0) + 0.1 * np.maximum(gaps, 0.0).mean()
    return rng.choice(n, size=n, p=p / p.sum())


class CompiledEngine:
    """Frank-Wolfe steps in the oracle's own compiled loop."""

    def __init__(self, problem: StructuralProblem):
        oracle: Any = problem.oracle
        self.oracle = oracle
        self.cap = problem.cap
        self.w = np.zeros(problem.n_features)
        self.state = oracle.start()
        # Examples of one call: a compiled loop cannot be interrupted, so that it must not last.
        self.together = 64

    @property
    def dual(self) -> float:
        """Dual objective."""
        return float(self.oracle.linear_part(self.state) - 0.5 * self.w @ self.w)

    def run_pass(self, order: np.ndarray, gaps: np.ndarray) -> None:
        """One step for each example of `order`."""
        done = 0
        while done < len(order) and not out_of_time():
            part = order[done : done + self.together]
            began = time.monotonic()
            self.oracle.sweep(self.state, self.w, part, self.cap, gaps)
            done += len(part)
            if len(part) == self.together and time.monotonic() - began < _SHORT:
                self.together *= 2

    def learn(self, psi: np.ndarray, loss: np.ndarray, gaps: np.ndarray) -> None:
        """Nothing to keep: the compiled pass is as cheap as a stored plane."""


class CachedEngine:
    """Oracle calls from Python; every plane is stored and re-used. May take over another engine's blocks."""

    def __init__(self, problem: StructuralProblem, blocks: np.ndarray | None = None, linear: np.ndarray | None = None):
        self.oracle = problem.oracle
        self.store = PlaneStore(problem.n_samples, problem.n_features, problem.cap)
        if blocks is not None and linear is not None:
            self.store.start_from(blocks, linear)

    @property
    def w(self) -> np.ndarray:
        """Current weights."""
        return self.store.w

    @property
    def dual(self) -> float:
        """Dual objective."""
        return self.store.dual

    def run_pass(self, order: np.ndarray, gaps: np.ndarray) -> None:
        """One oracle call for each example of `order`, then sweeps over the stored planes."""
        store = self.store
        for i in order:
            gaps[i] = store.add(i, *self.oracle.plane(i, store.w))
            store.ascend(i, 1e-10)
            if out_of_time():
                break
        self._polish(gaps)

    def learn(self, psi: np.ndarray, loss: np.ndarray, gaps: np.ndarray) -> None:
        """Keep the planes of a certificate, which were found at one and the same w."""
        for i in range(len(psi)):
            gaps[i] = self.store.add(i, psi[i], loss[i])
        self._polish(gaps)

    def _polish(self, gaps: np.ndarray) -> None:
        total = np.maximum(gaps[np.isfinite(gaps)], 0.0).sum()
        self.store.ascend_all(max_sweeps=10, target=max(0.1 * total, 1e-12))
        self.store.tidy()
