"""A slow, independent solver: the problem written out as a dense QP for CVXOPT. Tests and benchmarks compare with it."""

from __future__ import annotations

import numpy as np

from lupi.kernels import require_matrix
from lupi.problems import KernelQP
from lupi.solvers.solution import Solution


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


def cvxopt_qp(qp: dict[str, np.ndarray], **options: float) -> dict:
    """CVXOPT's answer to a problem in the form of :func:`dense_qp` (install the ``test`` or ``peers`` extra)."""
    try:
        from cvxopt import matrix, solvers, spmatrix
    except ImportError as error:  # pragma: no cover - depends on the installation
        raise ImportError("solver='reference' needs CVXOPT: pip install 'lupi[peers]'") from error
    below = np.flatnonzero(np.isfinite(qp["lb"]))
    above = np.flatnonzero(np.isfinite(qp["ub"]))
    m = len(below) + len(above)
    signs = [-1.0] * len(below) + [1.0] * len(above)
    G = spmatrix(signs, list(range(m)), [*below.tolist(), *above.tolist()], (m, len(qp["q"])))
    h = np.concatenate([-qp["lb"][below], qp["ub"][above]])
    P, q, A, b = (matrix(qp[name]) for name in ("P", "q", "A", "b"))
    return solvers.qp(P, q, G, matrix(h), A, b, options={"show_progress": False, **options})


def solve_reference(problem: KernelQP, *, tol: float = 1e-9, max_iter: int = -1) -> Solution:
    """Solve with CVXOPT's dense interior point."""
    qp = dense_qp(problem)
    out = cvxopt_qp(qp, abstol=tol, reltol=tol, feastol=tol, maxiters=200 if max_iter < 0 else max_iter)
    x = np.clip(np.array(out["x"]).ravel(), qp["lb"], qp["ub"])
    biases = np.zeros(len(problem.spaces))
    biases[problem.biased] = np.array(out["y"]).ravel()
    return Solution.certify(problem, x, int(out["iterations"]), out["status"] == "optimal", "reference", biases)
