"""Ranking problems with every pair written out: the reference of the tests and the peer of the benchmarks."""

import numpy as np
from scipy import sparse
from sklearn.svm import LinearSVC


def explicit_pairs(y, teacher=None, *, tau=0.1, within=False, group=None):
    """Pairs (i, j) and their margins; arguments as in :func:`lupi.ranking.pairwise.transfer_pairs`, no teacher: ranking SVM."""
    y = np.asarray(y)
    above, level = y[:, None] > y[None, :], y[:, None] == y[None, :]
    teacher = np.full(len(y), np.nan) if teacher is None else np.asarray(teacher)
    rho = teacher[:, None] - teacher[None, :]
    known = ~np.isnan(rho)
    with np.errstate(invalid="ignore"):
        admitted = np.where(known, (above | (level & within)) & (rho > tau), above)
    if group is not None:
        admitted &= np.asarray(group)[:, None] == np.asarray(group)[None, :]
    i, j = np.nonzero(admitted)
    return i, j, np.where(known, rho, 1.0)[i, j]


def pair_objective(w, X, i, j, margin, C, loss):
    """Objective of eq. (8) of Sharmanska et al. (2013), pair by pair."""
    s = X @ w
    slack = np.maximum(0.0, margin - (s[i] - s[j]))
    return 0.5 * float(w @ w) + C * float((slack**2 if loss == "squared_hinge" else slack).sum())


def solve_qp(X, i, j, margin, C, loss):
    """Weights of the pairwise problem, solved as a quadratic program by PIQP."""
    import piqp

    n_pairs, d = len(i), X.shape[1]
    quadratic = 2.0 * C if loss == "squared_hinge" else 0.0
    P = sparse.diags_array(np.concatenate((np.ones(d), np.full(n_pairs, quadratic))), format="csc")
    q = np.concatenate((np.zeros(d), np.full(n_pairs, 0.0 if quadratic else C)))
    # w (x_i - x_j) + slack >= margin, slack >= 0.
    G = sparse.hstack((sparse.csc_matrix(X[i] - X[j]), sparse.identity(n_pairs)), format="csc")
    solver = piqp.SparseSolver()
    settings = solver.settings
    settings.eps_abs = settings.eps_rel = settings.eps_duality_gap_abs = settings.eps_duality_gap_rel = 1e-11
    solver.setup(sparse.csc_matrix(P), q, G=G, h_l=margin, x_l=np.concatenate((np.full(d, -np.inf), np.zeros(n_pairs))))
    solver.solve()
    return np.array(solver.result.x[:d])


def solve_liblinear(X, i, j, margin, C, loss, *, tol=1e-4, dual=True, max_iter=100_000):
    """Weights by LIBLINEAR on the explicit-pair form, eq. (10)-(11): examples (x_i - x_j) / rho_ij, weights C rho_ij.

    For the squared hinge the weights are C rho_ij^2. LIBLINEAR needs two classes: every other example is mirrored.
    """
    sign = np.where(np.arange(len(i)) % 2, 1.0, -1.0)
    examples = (X[i] - X[j]) * (sign / margin)[:, None]
    weight = margin**2 if loss == "squared_hinge" else margin
    svc = LinearSVC(C=C, loss=loss, dual=dual, fit_intercept=False, tol=tol, max_iter=max_iter, random_state=0)
    return svc.fit(examples, sign, sample_weight=weight).coef_[0]
