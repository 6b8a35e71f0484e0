"""A slow, independent solver: the problem written out as a dense QP for PIQP. Tests and benchmarks compare with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from lupi.kernels import require_matrix
from lupi.solution import Solution
from lupi.svm import KernelQP


def dense_qp(problem: KernelQP) -> dict[str, np.ndarray]:
    """The problem as ``min 1/2 x'Px + q'x, A x = b, lb <= x <= ub`` with dense matrices."""
    # The matrix and the summands that make it.
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


def piqp_qp(qp: dict[str, np.ndarray], *, tol: float, max_iter: int = 200) -> Any:
    """PIQP's answer to a problem in the form of :func:`dense_qp`: with ``x``, the multipliers ``y`` of A x = b, and ``info``."""
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
    return solver.result


def solve_reference(problem: KernelQP, *, tol: float = 1e-9, max_iter: int = -1) -> Solution:
    """Solve with PIQP's dense interior point."""
    qp = dense_qp(problem)
    out = piqp_qp(qp, tol=tol, max_iter=200 if max_iter < 0 else max_iter)
    x = np.clip(out.x, qp["lb"], qp["ub"])
    biases = np.zeros(len(problem.spaces))
    biases[problem.biased] = out.y
    return Solution.certify(problem, x, out.info.iter, out.info.status.name == "PIQP_SOLVED", "reference", biases)
