"""Optima of the machines by their primal problems, written out for another solver: from the formulas and nothing else."""

from itertools import pairwise

import numpy as np
from scipy import sparse


def clarabel_optimum(P, q, rows, bounds, blocks=(), lam=0.0):
    """Least value of 1/2 x'Px + q'x, plus lam/2 times the squared sum of the norms of some blocks of x, with rows x <= bounds."""
    import clarabel

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    cones = [clarabel.NonnegativeConeT(len(bounds) + bool(blocks))]
    if blocks:
        # |x_m| <= s_m, and the sum of all s_m <= t: one more unknown a block, and t.
        size, more = len(q), len(blocks) + 1
        P = np.pad(P, (0, more))
        P[-1, -1] = lam
        q = np.pad(q, (0, more))
        total = np.zeros(size + more)
        total[size:-1], total[-1] = 1.0, -1.0
        rows, bounds = np.vstack([np.pad(rows, ((0, 0), (0, more))), total]), np.append(bounds, 0.0)
        for m, block in enumerate(blocks):
            cone = np.zeros((1 + block.stop - block.start, size + more))
            cone[0, size + m] = -1.0
            cone[1:, block] = -np.eye(len(cone) - 1)
            rows, bounds = np.vstack([rows, cone]), np.append(bounds, np.zeros(len(cone)))
            cones.append(clarabel.SecondOrderConeT(len(cone)))
    P, rows = (sparse.csc_matrix(part) for part in (np.triu(P), rows))
    found = clarabel.DefaultSolver(P, q, rows, bounds, cones, settings).solve()
    # Judged by its own residuals and gap: a status near the rounding error depends on the processor.
    size = max(1.0, abs(found.obj_val))
    assert max(found.r_prim, found.r_dual, abs(found.obj_val - found.obj_val_dual) / size) <= 1e-8
    return found


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
    return found.obj_val


def one_function_optimum(kind, K, stars, lams, y, C, kappa, available):
    """The optimum of a machine with one correcting function of several spaces: "svm+", "svm2+", or "one class" (C is nu).

    Unknowns: w, b (or rho), the weights of every privileged space, b* (or rho*), and one slack an example. One number `lams` is the
    weight of the squared sum of their norms, in place of a sum of squared norms.
    """
    learned = lams if np.isscalar(lams) else None
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
    P[begin : size - n - 1] = 0.0 if learned else np.repeat(lams, widths)
    ends = begin + np.cumsum([0, *widths])
    blocks = [slice(a, b) for a, b in pairwise(ends)] if learned else []
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
        H[size - n - 1, size - n - 1] += learned or 1.0 / np.sum(1.0 / np.asarray(lams))
    return clarabel_optimum(H, q, np.vstack(rows), np.concatenate(bounds), blocks, learned).obj_val
