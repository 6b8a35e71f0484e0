"""Block-coordinate Frank-Wolfe for the structural SVM, with gap sampling and cached planes.

A pass asks the oracle for one plane of every example. Between passes the stored planes are re-optimized, which costs no
oracle call. Tasks whose inference is compiled run whole passes in one call (``oracle.sweep``) and need no store.

With a store the first passes go from example to example, each at the weights that the one before left. Later the weights move
little within a pass: all planes are then asked for at one and the same w, where they are as good and prove a gap as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lupi.solution import Solution, out_of_time
from lupi.structured.margin_rescaling import StructuralProblem
from lupi.structured.planes import PlaneStore
from lupi.structured.progress import Progress, Slices

# Passes between two certificates when the running estimate has not called for one earlier.
_CHECK_EVERY = 5
# Plain Frank-Wolfe steps are cheap but creep on strongly coupled problems: after this many passes planes are kept.
_SWITCH = 60
# Passes from example to example with which a store begins.
_FIRST_PASSES = 2
# The most that a certificate's weights are drawn towards the best ones: to the middle.
_MOST_PULL = 0.5
# Sweeps over the stored planes after each pass: at most so many, until their own gap is this share of the gap of all planes.
# The second pair is for inference in Python, beside which more sweeps cost little.
_SWEEPS = {True: (30, 0.3), False: (50, 0.1)}


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
        if engine.one_by_one:
            progress.n_oracle_calls += problem.n_samples
            engine.run_pass(engine.order(gaps, n_iter, rng), gaps)
        if average:
            mean += 2.0 / (n_iter + 1) * (engine.w - mean)
        promising = gaps.sum() <= 0.9 * tol * max(engine.dual, 0.0) and n_iter > checked + 1
        due = n_iter >= next_check or n_iter == max_iter or not engine.one_by_one
        if promising or due or out_of_time():
            checked, next_check = n_iter, n_iter + _CHECK_EVERY
            w = engine.query(progress)
            psi, loss = progress.planes(w)
            done = progress.update(w, psi, loss, engine.dual, n_iter)
            if done:
                break
            engine.learn(psi, loss, gaps)
    if average:
        psi, loss = progress.planes(mean)
        progress.primal = problem.primal(mean, psi, loss)
        progress.w = mean
    return progress.solution(n_iter)


class CompiledEngine:
    """Frank-Wolfe steps in the oracle's own compiled loop."""

    # All passes go from example to example.
    one_by_one = True

    def __init__(self, problem: StructuralProblem):
        oracle: Any = problem.oracle
        self.oracle = oracle
        self.cap = problem.cap
        self.w = np.zeros(problem.n_features)
        self.state = oracle.start()
        self.slices = Slices(64)

    @property
    def dual(self) -> float:
        """Dual objective."""
        return float(self.oracle.linear_part(self.state) - 0.5 * self.w @ self.w)

    def order(self, gaps: np.ndarray, n_iter: int, rng: np.random.RandomState) -> np.ndarray:
        """All examples once in every third pass, otherwise drawn by their last known gap."""
        n = len(gaps)
        if n_iter % 3 == 1 or not np.isfinite(gaps).all() or gaps.sum() <= 0.0:
            return rng.permutation(n)
        p = np.maximum(gaps, 0.0) + 0.1 * np.maximum(gaps, 0.0).mean()
        return rng.choice(n, size=n, p=p / p.sum())

    def query(self, progress: Progress) -> np.ndarray:
        """Where the next certificate is asked for."""
        return self.w

    def run_pass(self, order: np.ndarray, gaps: np.ndarray) -> None:
        """One step for each example of `order`."""
        for part in self.slices.cut(order):
            self.oracle.sweep(self.state, self.w, part, self.cap, gaps)
            if out_of_time():
                break

    def learn(self, psi: np.ndarray, loss: np.ndarray, gaps: np.ndarray) -> None:
        """Nothing to keep: the compiled pass is as cheap as a stored plane."""


class CachedEngine:
    """Every plane is stored and re-used. May take over another engine's blocks."""

    def __init__(self, problem: StructuralProblem, blocks: np.ndarray | None = None, linear: np.ndarray | None = None):
        self.oracle: Any = problem.oracle
        self.store = PlaneStore(problem.n_samples, problem.n_features, problem.cap)
        self.compiled: bool = getattr(self.oracle, "compiled", False)
        self.slices = Slices()
        self.passes = 0
        self.pull, self.seen = 0.0, (np.inf, 0.0)
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

    @property
    def one_by_one(self) -> bool:
        """Whether the next pass goes from example to example; otherwise its planes are those of a certificate."""
        return self.passes < _FIRST_PASSES

    def order(self, gaps: np.ndarray, n_iter: int, rng: np.random.RandomState) -> np.ndarray:
        """All examples once."""
        return rng.permutation(len(gaps))

    def query(self, progress: Progress) -> np.ndarray:
        """Where the next certificate is asked for: the weights, drawn towards the best ones so far after a step that failed.

        The dual's weights overshoot where the stored planes say little; a proximal bundle method holds them back in the same way.
        Without a gain of the dual there is no pull: the same planes would be found again.
        """
        primal, dual = self.seen
        self.seen = progress.primal, self.dual
        if self.dual - dual < 0.01 * (progress.primal - self.dual):
            self.pull = 0.0
        else:
            self.pull = min(_MOST_PULL, self.pull + 0.25) if progress.primal >= primal else 0.7 * self.pull
        return self.w + self.pull * (progress.w - self.w) if self.pull > 0.0 else self.w

    def run_pass(self, order: np.ndarray, gaps: np.ndarray) -> None:
        """One oracle call and an exact block step for each example of `order`, then sweeps over the stored planes."""
        store = self.store
        for part in self.slices.cut(order):
            if self.compiled:
                self.oracle.plane_steps(store, part, gaps)
            else:
                for i in part:
                    psi, loss = self.oracle.plane(i, store.w)
                    store.take(np.array([i]), psi[None], np.array([float(loss)]), gaps, ascend=True)
            if out_of_time():
                break
        self.passes += 1
        self._polish(gaps)

    def learn(self, psi: np.ndarray, loss: np.ndarray, gaps: np.ndarray) -> None:
        """Keep the planes of a certificate, which were found at one and the same w."""
        self.store.take(np.arange(len(psi)), np.asarray(psi), loss, gaps, ascend=False)
        self._polish(gaps)

    def _polish(self, gaps: np.ndarray) -> None:
        total = np.maximum(gaps[np.isfinite(gaps)], 0.0).sum()
        sweeps, share = _SWEEPS[self.compiled]
        self.store.ascend_all(max_sweeps=sweeps, target=max(share * total, 1e-12))
        self.store.tidy()
