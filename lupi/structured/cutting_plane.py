"""Cutting planes for the structural SVM: one slack for all examples, or one for each. QPs are warm-started."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lupi.solution import Solution
from lupi.structured.margin_rescaling import StructuralProblem
from lupi.structured.planes import PlaneStore, simplex_ascent
from lupi.structured.progress import Progress

# A plane of the one-slack problem that had no weight for this many rounds is dropped.
_PATIENCE = 50


def solve_one_slack(
    problem: StructuralProblem,
    *,
    tol: float = 1e-3,
    max_iter: int = 1000,
    callback: Callable[[dict[str, Any]], object] | None = None,
) -> Solution:
    """One-slack cutting planes: each round adds the mean of all examples' most violated planes.

    Parameters are those of :func:`lupi.structured.frank_wolfe.solve_frank_wolfe`.

    References
    ----------
    Joachims, Finley and Yu (2009), Algorithm 3. The query point is the midpoint of the best and the last solution
    in every second round, as in proximal bundle methods, which halves the number of rounds.
    """
    progress = Progress(problem, "cutting_plane", tol, callback)
    d, n = problem.n_features, problem.n_samples
    planes, losses = np.zeros((1, d)), np.zeros(1)
    gram, alpha, idle = np.zeros((1, 1)), np.array([problem.C]), np.zeros(1, dtype=int)
    w = query = np.zeros(d)
    dual = 0.0
    n_iter = 0
    for n_iter in range(1, max_iter + 1):
        psi, loss = progress.planes(query)
        if progress.update(query, psi, loss, dual, n_iter):
            break
        violated = problem.hinge(query, psi, loss) > 0.0
        mean, mean_loss = violated @ np.asarray(psi) / n, float(violated @ loss) / n
        keep = (idle < _PATIENCE) | (np.arange(len(alpha)) == 0)
        planes = np.vstack([planes[keep], mean])
        losses, alpha, idle = np.append(losses[keep], mean_loss), np.append(alpha[keep], 0.0), np.append(idle[keep], 0)
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
    problem: StructuralProblem,
    *,
    tol: float = 1e-3,
    max_iter: int = 1000,
    callback: Callable[[dict[str, Any]], object] | None = None,
) -> Solution:
    """n-slack cutting planes: each round adds every example's most violated plane and solves the QP over all planes.

    Parameters are those of :func:`lupi.structured.frank_wolfe.solve_frank_wolfe`.

    References
    ----------
    Feyereisl et al. (2014), Algorithm 1, with the QP solved once a round and from the last solution.
    """
    progress = Progress(problem, "n_slack", tol, callback)
    store = PlaneStore(problem.n_samples, problem.n_features, problem.cap)
    n_iter = 0
    for n_iter in range(1, max_iter + 1):
        psi, loss = progress.planes(store.w)
        if progress.update(store.w, psi, loss, store.dual, n_iter):
            break
        psi = np.asarray(psi)
        gap = float(sum(max(store.add(i, psi[i], loss[i]), 0.0) for i in range(problem.n_samples)))
        store.ascend_all(max_sweeps=300, target=max(0.05 * gap, 1e-14))
        store.tidy()
    return progress.solution(n_iter)
