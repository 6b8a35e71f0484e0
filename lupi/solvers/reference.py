"""A slow, independent solver: the problem written out as a dense QP for CVXOPT. Tests and benchmarks compare with it."""

from __future__ import annotations

import numpy as np

from lupi.problems import KernelQP
from lupi.solvers.solution import Solution


def dense_qp(problem: KernelQP) -> dict[str, np.ndarray]:
    """The problem as ``min 1/2 x'Px + q'x, A x = b, lb <= x <= ub`` with dense matrices."""
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


def solve_reference(problem: KernelQP, *, tol: float = 1e-9, max_iter: int = -1) -> Solution:
    """Solve with CVXOPT's dense interior point (install the ``test`` or ``peers`` extra)."""
    try:
        from cvxopt import matrix, solvers, spmatrix
    except ImportError as error:  # pragma: no cover - depends on the installation
        raise ImportError("solver='reference' needs CVXOPT: pip install 'lupi[peers]'") from error
    qp = dense_qp(problem)
    n = problem.n_variables
    below = np.flatnonzero(np.isfinite(qp["lb"]))
    above = np.flatnonzero(np.isfinite(qp["ub"]))
    rows = list(range(len(below) + len(above)))
    G = spmatrix([-1.0] * len(below) + [1.0] * len(above), rows, [*below.tolist(), *above.tolist()], (len(rows), n))
    h = np.concatenate([-qp["lb"][below], qp["ub"][above]])
    options = {
        "show_progress": False,
        "abstol": tol,
        "reltol": tol,
        "feastol": tol,
        "maxiters": 200 if max_iter < 0 else max_iter,
    }
    out = solvers.qp(matrix(qp["P"]), matrix(qp["q"]), G, matrix(h), matrix(qp["A"]), matrix(qp["b"]), options=options)
    x = np.clip(np.array(out["x"]).ravel(), qp["lb"], qp["ub"])
    biases = np.zeros(len(problem.spaces))
    biases[problem.biased] = np.array(out["y"]).ravel()
    return Solution.certify(problem, x, int(out["iterations"]), out["status"] == "optimal", "reference", biases)
