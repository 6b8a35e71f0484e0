"""Optima of the machines by their primal problems, written out for another solver: from the formulas and nothing else."""

import numpy as np
from scipy import sparse


def clarabel_optimum(P, q, rows, bounds):
    """Least value of 1/2 x'Px + q'x with rows x <= bounds."""
    import clarabel

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    P, rows = (sparse.csc_matrix(part) for part in (np.triu(P), rows))
    return clarabel.DefaultSolver(P, q, rows, bounds, [clarabel.NonnegativeConeT(len(bounds))], settings).solve()


def features(K):
    values, vectors = np.linalg.eigh(K)
    keep = values > 1e-12 * values[-1]
    return vectors[:, keep] * np.sqrt(values[keep])


def svr_plus_optimum(K, stars, lams, t, C, epsilon, kappa, available):
    """The optimum of SVR+ by its primal, from the formulas of the class and nothing else.

    Unknowns: w, b, then for each side the weights of every privileged space, b*, and one slack an example.
    """
    n, Phi = len(t), np.hstack([features(K), np.ones((len(t), 1))])
    Psi = [np.where(available[:, None], features(K_star), 0.0) for K_star in stars]
    widths = [part.shape[1] for part in Psi]
    side = sum(widths) + 1 + n
    size = Phi.shape[1] + 2 * side
    P, q = np.zeros(size), np.zeros(size)
    P[: Phi.shape[1] - 1] = 1.0
    rows, bounds = [], []
    price = C * np.where(available, kappa, 1.0)
    for k, sign in enumerate((1.0, -1.0)):
        begin = Phi.shape[1] + k * side
        P[begin : begin + sum(widths)] = np.repeat(lams, widths)
        g = np.zeros((n, size))
        g[:, begin : begin + sum(widths) + 1] = np.hstack([*Psi, np.ones((n, 1))])
        g[~available] = 0.0
        slack = np.zeros((n, size))
        slack[:, begin + side - n : begin + side] = np.eye(n)
        q += C @ g + np.where(np.isinf(price), 0.0, price) @ slack
        f = np.zeros((n, size))
        f[:, : Phi.shape[1]] = Phi
        usable = np.isfinite(price)
        rows += [-sign * f - g - slack * usable[:, None], -g[available], -slack]
        bounds += [epsilon - sign * t, np.zeros(available.sum()), np.zeros(n)]
    found = clarabel_optimum(np.diag(P), q, np.vstack(rows), np.concatenate(bounds))
    assert str(found.status) in ("Solved", "AlmostSolved")
    return found.obj_val


def one_function_optimum(kind, K, stars, lams, y, C, kappa, available):
    """The optimum of a machine with one correcting function of several spaces: "svm+", "svm2+", or "one class" (C is nu).

    Unknowns: w, b (or rho), the weights of every privileged space, b* (or rho*), and one slack an example.
    """
    n, Phi, Psi = len(K), features(K), [features(K_star) for K_star in stars]
    widths = [part.shape[1] for part in Psi]
    begin = Phi.shape[1] + 1
    size = begin + sum(widths) + 1 + n
    f, g, slack = (np.zeros((n, size)) for _ in range(3))
    f[:, :begin] = np.hstack([Phi, np.ones((n, 1))])
    g[:, begin : size - n] = np.hstack([*Psi, np.ones((n, 1))]) * available[:, None]
    slack[:, size - n :] = np.eye(n)
    P, q = np.zeros(size), np.zeros(size)
    P[: begin - 1] = 1.0
    P[begin : size - n - 1] = np.repeat(lams, widths)
    rows, bounds = [-slack], [np.zeros(n)]
    price = np.where(available, kappa, 1.0)
    if kind == "one class":
        total = C * n
        P[: begin - 1] = total
        q[begin - 1] = total  # b = -rho
        q += np.ones(n) @ (g + slack)
        rows += [-f - g - slack * ~available[:, None], -(g + slack)[available]]
        bounds += [np.zeros(n), np.zeros(available.sum())]
        return clarabel_optimum(np.diag(P), q, np.vstack(rows), np.concatenate(bounds)).obj_val
    rows.append(-y[:, None] * f - g - slack)
    bounds.append(-np.ones(n))
    H = np.diag(P)
    if kind == "svm+":
        q += C @ g + (C * price) @ slack
        rows.append(-g[available])
        bounds.append(np.zeros(available.sum()))
    else:
        H = H + g.T @ (C[:, None] * g) + slack.T @ ((C * price)[:, None] * slack)
        H[size - n - 1, size - n - 1] += 1.0 / np.sum(1.0 / np.asarray(lams))
    return clarabel_optimum(H, q, np.vstack(rows), np.concatenate(bounds)).obj_val
