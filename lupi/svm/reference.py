"""Slow, independent solvers for checking: the problem as a dense quadratic program for PIQP, then Clarabel."""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from scipy import sparse

from lupi.kernels import require_matrix
from lupi.solution import Solution
from lupi.svm.kernel_qp import KernelQP

# A point is accepted with relative residuals and a relative duality gap up to this size.
ACCEPTED = 1e-8


class QPSolution(NamedTuple):
    """Point, multipliers of the equalities, iterations, and the largest of its relative residuals and duality gap."""

    x: np.ndarray
    y: np.ndarray
    n_iter: int
    error: float

    @property
    def accepted(self) -> bool:
        """Whether the point itself proves that it is near the optimum."""
        return self.error <= ACCEPTED


def dense_qp(problem: KernelQP) -> dict[str, np.ndarray]:
    """The problem as ``min 1/2 x'Px + q'x, A x = b, lb <= x <= ub`` with dense matrices."""
    # The matrix and the terms that make it.
    require_matrix(problem.n_variables, "the reference solver's matrix over all dual variables", copies=4)
    index = problem.example
    P = np.diag(problem.ridge)
    for space, coef in zip(problem.spaces, problem.coef):
        P += space.weight * space.dense[np.ix_(index, index)] * np.outer(coef, coef)
    return {
        "P": P,
        "q": -problem.p,
        "A": problem.coef[problem.biased],
        "b": problem.total[problem.biased],
        "lb": problem.lower,
        "ub": problem.upper,
    }


def solve_qp(qp: dict[str, np.ndarray], *, tol: float = 1e-10, max_iter: int = 200) -> QPSolution:
    """Solve a program in the form of :func:`dense_qp` with PIQP, and with Clarabel where PIQP's point is not accepted.

    The point is judged by its own residuals and duality gap: a status at tolerances near the rounding error depends on
    the processor.

    Examples
    --------
    >>> import numpy as np
    >>> one = np.ones(1)
    >>> found = solve_qp({"P": np.eye(1), "q": -one, "A": np.ones((0, 1)), "b": np.zeros(0), "lb": 0 * one, "ub": 3 * one})
    >>> found.x.round(6), found.accepted
    (array([1.]), True)
    """
    found = _piqp(qp, tol, max_iter)
    if found.accepted or find_spec("clarabel") is None:
        return found
    second = _clarabel(qp, tol, max_iter)
    return second if second.accepted else found


def solve_reference(problem: KernelQP, *, tol: float = 1e-9, max_iter: int = -1) -> Solution:
    """Solve with PIQP's dense interior point, or Clarabel."""
    found = solve_qp(dense_qp(problem), max_iter=200 if max_iter < 0 else max_iter)
    biases = np.zeros(len(problem.spaces))
    biases[problem.biased] = found.y
    return problem.solution(found.x, found.n_iter, found.error <= max(tol, ACCEPTED), "reference", biases)


def _piqp(qp: dict[str, np.ndarray], tol: float, max_iter: int) -> QPSolution:
    try:
        import piqp
    except ImportError as error:  # pragma: no cover - depends on the installation
        raise ImportError("solver='reference' needs PIQP: pip install 'lupi[reference]'") from error
    solver = piqp.DenseSolver()
    settings = solver.settings
    settings.verbose, settings.max_iter = False, max_iter
    settings.eps_abs = settings.eps_rel = settings.eps_duality_gap_abs = settings.eps_duality_gap_rel = tol
    solver.setup(qp["P"], qp["q"], qp["A"], qp["b"], x_l=qp["lb"], x_u=qp["ub"])
    solver.solve()
    return _judged(qp, solver.result.x, solver.result.y, solver.result.info.iter)


def _clarabel(qp: dict[str, np.ndarray], tol: float, max_iter: int) -> QPSolution:
    import clarabel

    below, above = np.flatnonzero(np.isfinite(qp["lb"])), np.flatnonzero(np.isfinite(qp["ub"]))
    eye = sparse.identity(len(qp["q"]), format="csr")
    rows = sparse.vstack([sparse.csr_matrix(qp["A"]), -eye[below], eye[above]], format="csc")
    right = np.concatenate([qp["b"], -qp["lb"][below], qp["ub"][above]])
    cones = [clarabel.ZeroConeT(len(qp["b"])), clarabel.NonnegativeConeT(len(below) + len(above))]
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_iter = False, max_iter
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tol
    P = sparse.csc_matrix(np.triu(qp["P"]))
    found = clarabel.DefaultSolver(P, qp["q"], rows, right, cones, settings).solve()
    return _judged(qp, np.array(found.x), np.array(found.z)[: len(qp["b"])], found.iterations)


def _judged(qp: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray, n_iter: int) -> QPSolution:
    """The point inside its bounds, with its largest relative residual or duality gap."""
    x, lower, upper = np.clip(x, qp["lb"], qp["ub"]), qp["lb"], qp["ub"]
    image = qp["P"] @ x
    slope = image + qp["q"] + qp["A"].T @ y
    bound = np.where(slope > 0, lower, upper)
    # What a slope towards a finite bound leaves of the objective; without a bound it has to vanish.
    left = np.where(np.isfinite(bound), slope * (x - np.where(np.isfinite(bound), bound, 0.0)), 0.0).sum()
    unbounded = np.max(np.abs(slope[~np.isfinite(bound)]), initial=0.0)
    unmet = np.max(np.abs(qp["A"] @ x - qp["b"]), initial=0.0)
    value = abs(0.5 * float(x @ image) + float(qp["q"] @ x))
    errors = (
        left / max(value, 1e-300),
        unbounded / max(1.0, np.max(np.abs(qp["q"])), np.max(np.abs(image))),
        unmet / max(1.0, np.max(np.abs(x))),
    )
    error = float(max(errors))
    return QPSolution(x, y, int(n_iter), error if np.isfinite(error) else np.inf)
