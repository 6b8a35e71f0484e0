"""Generic QP solvers on the same dual: ``peer(qp) -> x`` for the dictionary of :func:`lupi.svm.reference.dense_qp`."""

from __future__ import annotations

import numpy as np


def solve_cvxopt(qp):
    """CVXOPT's dense interior point at its default tolerance (1e-7)."""
    from cvxopt import matrix, solvers, spmatrix

    below = np.flatnonzero(np.isfinite(qp["lb"]))
    above = np.flatnonzero(np.isfinite(qp["ub"]))
    m = len(below) + len(above)
    signs = [-1.0] * len(below) + [1.0] * len(above)
    G = spmatrix(signs, list(range(m)), [*below.tolist(), *above.tolist()], (m, len(qp["q"])))
    h = np.concatenate([-qp["lb"][below], qp["ub"][above]])
    P, q, A, b = (matrix(qp[name]) for name in ("P", "q", "A", "b"))
    found = solvers.qp(P, q, G, matrix(h), A, b, options={"show_progress": False})
    return np.array(found["x"]).ravel()


def solve_piqp(qp):
    """PIQP's dense solver at its default tolerance (1e-8)."""
    import piqp

    solver = piqp.DenseSolver()
    solver.settings.verbose = False
    solver.setup(qp["P"], qp["q"], qp["A"], qp["b"], x_l=qp["lb"], x_u=qp["ub"])
    solver.solve()
    return np.array(solver.result.x)


def solve_highs(qp):
    """HiGHS' active-set QP solver at its default tolerance (1e-7)."""
    import highspy
    from scipy import sparse

    lower = sparse.tril(sparse.csc_matrix(qp["P"]), format="csc")
    A = sparse.csc_matrix(qp["A"])
    model = highspy.HighsModel()
    lp = model.lp_
    lp.num_col_, lp.num_row_ = len(qp["q"]), len(qp["b"])
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = qp["q"], qp["lb"], qp["ub"]
    lp.row_lower_ = lp.row_upper_ = qp["b"]
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = A.indptr, A.indices, A.data
    model.hessian_.dim_ = len(qp["q"])
    model.hessian_.format_ = highspy.HessianFormat.kTriangular
    model.hessian_.start_, model.hessian_.index_, model.hessian_.value_ = lower.indptr, lower.indices, lower.data
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.passModel(model)
    solver.run()
    return np.array(solver.getSolution().col_value)


PEERS = {"CVXOPT": ("cvxopt", solve_cvxopt), "PIQP": ("piqp", solve_piqp), "HiGHS": ("highspy", solve_highs)}
