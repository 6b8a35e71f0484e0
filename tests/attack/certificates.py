"""Targets: the certificate of every estimator, against a primal written out here and another solver's optimum.

A case is a random small problem. The value of its primal is computed from the fitted estimator's public functions and compared with
`objective_`; the optimum comes from a dense quadratic program, accepted by its own residuals. How far the functions are from
the optimum must not exceed `dual_gap_`, and a gap above `tol` needs a ConvergenceWarning.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from attack.harness import Target
from attack.mutations import pick
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels
from structured_reference import reference_objective

import lupi
from lupi.structured import Multiclass
from lupi.svm.reference import solve_qp

# What the reported gap may fall short of the true one, and the objective of the value found here: both relative.
LARGEST_DIFFERENCE = 1e-6
# Constraints without slack may be missed by this share of the values that they compare.
ROUNDING = 1e-9
LAST_DIGITS = 16 * float(np.finfo(float).eps)
TOLERANCES = (1e-3, 1e-3, 1e-3, 0.1, 1e-2, 1e-4, 1e-6, 1e-9)


@dataclass(frozen=True)
class Case:
    """An estimator and the arguments of its fit; `weight` is 1 where `fit` takes none, and 0 for rows that are dropped."""

    model: object
    X: np.ndarray
    y: np.ndarray
    spaces: list
    weight: np.ndarray

    @property
    def privileged(self):
        return None if not self.spaces else self.spaces[0] if len(self.spaces) == 1 else self.spaces

    def kept(self):
        """The rows that the fit keeps."""
        rows = self.weight > 0
        return Case(self.model, self.X[rows], self.y[rows], [Z[rows] for Z in self.spaces], self.weight[rows])


# ---------------------------------------------------------------- cases


def table(rng, n, d):
    """Features: normal, whole numbers with ties, repeated rows, constant columns, other units, far from 0."""
    cells = rng.normal(size=(n, d))
    kind = int(rng.integers(8))
    if kind == 0:
        cells = np.round(cells)
    elif kind == 1:
        cells = cells[rng.integers(0, n, n)]
    elif kind == 2:
        cells[:, 0] = 1.0
    elif kind == 3:
        cells *= 10.0 ** rng.uniform(-2, 2)
    elif kind == 4:
        cells += 10.0
    return cells


def price(rng, least=-3, most=3):
    return float(10.0 ** rng.uniform(least, most))


def cost(rng):
    return pick(rng, (3.0, 3.0, 1.0, price(rng, 0, 3), np.inf))


def privileged_spaces(rng, X, y):
    """No space, one or two; some rows are missing."""
    spaces = []
    for _ in range(pick(rng, (1, 1, 1, 2, 0))):
        Z = table(rng, len(X), int(rng.integers(1, 4)))
        if rng.random() < 0.5:
            Z[:, 0] += y
        if rng.random() < 0.4:
            Z[rng.random(len(X)) < pick(rng, (0.1, 0.5))] = np.nan
        if np.isnan(Z).all():
            Z[0] = 0.0
        spaces.append(Z)
    return spaces


def kernel(rng, prefix=""):
    names = {f"{prefix}kernel": pick(rng, ("linear", "rbf", "rbf", "laplacian"))}
    return names | {f"{prefix}gamma": price(rng, -1, 0.5)}


def weights_of(rng, spaces):
    """One weight of the correcting function, or one for each space."""
    return price(rng) if len(spaces) < 2 or rng.random() < 0.5 else [price(rng) for _ in spaces]


def stop(rng, *solvers):
    limit = {"max_iter": int(rng.integers(1, 200))} if rng.random() < 0.1 else {}
    return {"tol": pick(rng, TOLERANCES), "solver": pick(rng, solvers)} | limit


KERNEL_SOLVERS = ("auto", "auto", "auto", "smo", "decomposition", "interior_point")


def make_kernel_machine(rng, _):
    rng = np.random.default_rng(0) if rng is None else rng
    # Of more than 200 examples, linear functions are found by their weights.
    many = rng.random() < 0.1
    n = int(rng.integers(201, 240)) if many else int(rng.integers(6, 41))
    X = table(rng, n, int(rng.integers(1, 5)))
    kind = pick(rng, (lupi.SVMPlus, lupi.SVM2Plus, lupi.SVM2K, lupi.SVRPlus, lupi.OneClassSVMPlus))
    k = pick(rng, (2, 2, 2, 3)) if n < 30 else 2
    y = np.arange(n) % k
    if rng.random() < 0.6:
        order = np.argsort(np.argsort(X[:, 0] + rng.normal(size=n)))
        y = np.sort(y)[order]
    spaces = privileged_spaces(rng, X, y)
    weight = np.ones(n)
    if kind is not lupi.OneClassSVMPlus and rng.random() < 0.3:
        weight = rng.uniform(0.1, 3.0, n) * (rng.random(n) < 0.9)
        weight[: 2 * k] = 1.0
    params = kernel(rng) | kernel(rng, "privileged_")
    if many:
        params |= {"kernel": "linear", "privileged_kernel": "linear"}
    solvers = KERNEL_SOLVERS
    if kind is lupi.OneClassSVMPlus:
        params |= {"nu": float(rng.uniform(0.05, 1.0)), "lam": weights_of(rng, spaces)}
        solvers = ("auto", "auto", "smo", "interior_point")
    elif kind is lupi.SVM2K:
        params |= {"C": price(rng), "C_privileged": price(rng), "D": pick(rng, (0.0, price(rng)))}
        params |= {"epsilon": pick(rng, (0.0, 0.1))}
    else:
        params |= {"C": price(rng), "lam": weights_of(rng, spaces), "kappa": cost(rng)}
        if kind is lupi.SVRPlus:
            params |= {"epsilon": pick(rng, (0.0, 0.1, 1.0))}
            y = X[:, 0] + rng.normal(size=n)
        else:
            params |= {"correction": pick(rng, ("slack", "labeled"))}
    return Case(kind(**params, **stop(rng, *solvers)), X, y, spaces, weight)


def make_ranker(rng, _):
    rng = np.random.default_rng(0) if rng is None else rng
    n = int(rng.integers(6, 18))
    X, y = table(rng, n, int(rng.integers(1, 5))), np.arange(n) % int(rng.integers(2, 4))
    loss = pick(rng, ("hinge", "squared_hinge"))
    common = {"C": price(rng), "loss": loss, **kernel(rng)}
    common |= stop(rng, "auto", "auto", "newton", *["coordinate"] * (loss == "hinge"))
    if rng.random() < 0.4:
        return Case(lupi.RankSVM(**common), X, y, [], np.ones(n))
    spaces = privileged_spaces(rng, X, y)
    for Z in spaces:  # a teacher needs two grades
        Z[: y.max() + 1] = np.nan_to_num(Z[: y.max() + 1])
    more = {"C_privileged": price(rng), "pairs": pick(rng, ("across", "all")), **kernel(rng, "privileged_")}
    threshold = pick(rng, (0.1, 0.1, 0.0, 1.0))
    return Case(lupi.RankTransfer(**common, **more, margin_threshold=threshold), X, y, spaces, np.ones(n))


def make_structural(rng, _):
    rng = np.random.default_rng(0) if rng is None else rng
    n, k = int(rng.integers(6, 25)), int(rng.integers(2, 5))
    X, y = table(rng, n, int(rng.integers(1, 5))), rng.integers(0, k, n)
    spaces = privileged_spaces(rng, X, y)
    common = {"C": price(rng, -2, 3), "random_state": 0, **stop(rng, "bcfw", "bcfw", "cutting_plane", "n_slack")}
    # A tiny tolerance takes cutting planes long.
    common |= {"tol": max(common["tol"], 1e-6), "max_time": 3.0}
    task = Multiclass(k, X.shape[1])
    if not spaces:
        return Case(lupi.StructuralSVM(task, **common), X, y, spaces, np.ones(n))
    tasks = [Multiclass(k, Z.shape[1]) for Z in spaces]
    common |= {"lam": weights_of(rng, spaces), "rho": pick(rng, (2.0, 0.5, 1.0, 5.0))}
    common |= {"inference": pick(rng, ("exact", "exact", "alternating"))}
    model = lupi.StructuralSVMPlus(task, tasks[0] if len(tasks) == 1 else tasks, **common)
    return Case(model, X, y, spaces, np.ones(n))


def make_support(rng, _):
    rng = np.random.default_rng(0) if rng is None else rng
    n, k = int(rng.integers(6, 41)), int(rng.integers(2, 5))
    X, y = table(rng, n, int(rng.integers(1, 5))), rng.integers(0, k, n)
    spaces = privileged_spaces(rng, X, y)
    names = ("rbf", "linear", "rbf")
    params = {"nu": float(rng.uniform(0.05, 1.0)), "kernel": pick(rng, names), "gamma": price(rng, -1, 0.5)}
    params |= stop(rng, "auto", "auto", "smo", "interior_point")
    task = Multiclass(k, X.shape[1])
    if not spaces:
        return Case(lupi.JKSE(task, **params), X, y, spaces, np.ones(n))
    params |= {"privileged_kernel": pick(rng, names), "privileged_gamma": price(rng, -1, 0.5)}
    return Case(lupi.JKSEPlus(task, lam=weights_of(rng, spaces), **params), X, y, spaces, np.ones(n))


# ---------------------------------------------------------------- what is checked


def attack_with(values_of):
    """`values_of` returns pairs for each class: the terms of the primal value and the optimum; None where one is not known."""

    def attack(case, _):
        model = case.model
        arguments = {} if isinstance(model, lupi.OneClassSVMPlus) else {"Y" if hasattr(model, "task") else "y": case.y}
        if type(model) not in (lupi.RankSVM, lupi.StructuralSVM, lupi.JKSE):
            arguments["privileged"] = case.privileged
        if (case.weight != 1).any():
            arguments["sample_weight"] = case.weight
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(case.X, **arguments)
        warned = any(warning.category is ConvergenceWarning for warning in caught)
        assert warned or model.dual_gap_ <= model.tol, f"gap {model.dual_gap_:.3g} > tol={model.tol:g} and no warning"
        if np.isinf(model.dual_gap_):  # nothing is certified
            return "warned"
        found = values_of(case)
        if found[0][0] is not None:
            total = sum(sum(terms) for terms, _ in found)
            rounding = ROUNDING * sum(np.abs(terms).sum() for terms, _ in found)
            same = np.isfinite(total) and abs(total - model.objective_) <= LARGEST_DIFFERENCE * abs(total) + rounding
            assert same, f"objective_ {model.objective_:.12g}, found {total:.12g}"
        for terms, optimum in found:
            if optimum is not None:
                value = model.objective_ if terms is None else sum(terms)
                size = max(abs(value), abs(optimum), 1e-300)
                rounding = 0.0 if terms is None else ROUNDING * np.abs(terms).sum() / size
                missed, room = (value - optimum) / size, LARGEST_DIFFERENCE + rounding
                # Values of different signs have a gap above 1, which proves nothing.
                assert min(missed, 1.0) <= model.dual_gap_ + room, f"gap {model.dual_gap_:.3g}, but {missed:.3g}"
                assert missed >= -room, f"below the optimum by {-missed:.3g}"
        known = all(optimum is not None for _, optimum in found)
        return f"{'warned' if warned else 'certified'}{'' if known else ' without reference'}"

    return attack


def optimum_of(P, p, A, b, lower, upper):
    """Largest value of p'x - x'Px / 2 with A x = b and bounds; None if the reference finds no accepted point."""
    A, b = np.atleast_2d(A), np.atleast_1d(b).astype(float)
    found = solve_qp({"P": P, "q": -p, "A": A, "b": b, "lb": lower, "ub": upper})
    return float(p @ found.x - 0.5 * found.x @ P @ found.x) if found.accepted else None


def positive(values):
    return np.maximum(values, 0.0)


def forbidden(missed, *values):
    """Infinite where a constraint without slack is missed by more than rounding."""
    size = 1.0 + sum(float(np.abs(value).max(initial=0.0)) for value in values)
    return 0.0 if np.max(missed, initial=0.0) <= ROUNDING * size else np.inf


def priced(costs, losses, *values):
    """Sum of costs times losses; an infinite cost forbids the loss."""
    hard = np.isinf(costs)
    return float(costs[~hard] @ losses[~hard]) + forbidden(losses[hard], *values)


def gram(name, gamma, rows):
    return pairwise_kernels(rows, metric=name, **({} if name == "linear" else {"gamma": gamma}))


# ---------------------------------------------------------------- kernel machines


@dataclass(frozen=True)
class Functions:
    """One class: labels or numbers, costs, kernels, and the fitted functions with their squared norms.

    `K_star` is the kernel of all privileged spaces, whose function has the norm's weight `lam`; of a regressor, `g` and `own_star`
    have one column and one row of each correcting function. `own` and `own_star` are terms of squared norms.
    """

    model: object
    y: np.ndarray
    C: np.ndarray
    K: np.ndarray
    K_star: np.ndarray
    lam: float
    available: np.ndarray
    f: np.ndarray
    own: np.ndarray
    b: float
    g: np.ndarray
    own_star: np.ndarray
    b_star: np.ndarray
    # Sums of absolute values behind the functions' values, as far as their last digits count in units of ROUNDING.
    grain: float

    def curvature(self, decision, *privileged):
        """Of the dual, over variables whose coefficients in every space are the columns of these matrices."""
        return decision.T @ self.K @ decision + sum(part.T @ self.K_star @ part for part in privileged) / self.lam


def kernel_machine_values(case):
    """Primal value and optimum of each class."""
    model, rows, case = case.model, case.weight > 0, case.kept()
    n, spaces = len(case.X), case.spaces
    known = [~np.isnan(Z).any(axis=1) for Z in spaces]
    lams = np.broadcast_to(getattr(model, "lam", 1.0), len(spaces))
    lam = 1.0 / np.sum(1.0 / lams) if hasattr(model, "lam") and spaces else 1.0
    K, K_star = gram(model.kernel, model.gamma, case.X), np.zeros((n, n))
    for Z, has, one in zip(spaces, known, lams):
        K_star[np.ix_(has, has)] += lam / one * gram(model.privileged_kernel, model.privileged_gamma, Z[has])
    available = np.any([np.zeros(n, dtype=bool), *known], axis=0)
    dual = np.zeros((len(model.dual_coef_), len(rows)))
    dual[:, model.support_] = model.dual_coef_
    own = squared_norms(K, dual[:, rows])
    g, own_star, b_star = np.zeros((n, len(dual))), np.zeros((len(dual), 2)), np.zeros(len(dual))
    if available.any():
        g = model.correcting_function(case.privileged).reshape(n, -1)
        own_star = squared_norms(K_star[np.ix_(available, available)], np.atleast_2d(model.privileged_dual_coef_))
        b_star = np.ravel(model.privileged_intercept_)
    if n > 200 and isinstance(model, lupi.SVMPlus | lupi.SVM2Plus):  # linear, and solved on weights
        own = (model.coef_**2).sum(axis=1, keepdims=True)
        if available.any():
            widths = [Z.shape[1] for Z in spaces]
            own_star = (model.privileged_coef_**2 * np.repeat(lams / lam, widths)).sum(axis=1, keepdims=True)
    g = np.where(available[:, None], g, 0.0)
    sums = [np.abs(dual[:, rows]) @ np.abs(K)]
    if available.any():
        sums += [np.abs(model.privileged_dual_coef_) @ np.abs(K_star[np.ix_(available, available)])]
    grain = LAST_DIGITS / ROUNDING * max(float(part.max()) for part in sums)
    shared = {"grain": grain, "model": model, "K": K, "K_star": K_star, "lam": lam, "available": available}
    C = getattr(model, "C", 1.0) * case.weight
    if isinstance(model, lupi.SVRPlus | lupi.OneClassSVMPlus):
        f = model.predict(case.X) if isinstance(model, lupi.SVRPlus) else model.score_samples(case.X)
        one = Functions(
            y=case.y, C=C, f=f, own=own[0], b=model.intercept_[0], g=g, own_star=own_star, b_star=b_star, **shared
        )
        return [svr_plus(one) if isinstance(model, lupi.SVRPlus) else one_class_plus(one)]
    labels = [np.where(case.y == name, 1.0, -1.0) for name in model.classes_]
    F = model.decision_function(case.X).reshape(n, -1)
    out = []
    for k, y in enumerate(labels if F.shape[1] > 1 else labels[1:]):
        part = {"f": F[:, k], "own": own[k], "b": model.intercept_[k], "g": g[:, k], "own_star": own_star[k]}
        out.append(OF_CLASS[type(model)](Functions(y=y, C=C, b_star=b_star[k], **part, **shared)))
    return out


def squared_norms(K, coefficients):
    """The positive and the negative terms of every row's squared norm, which may cancel."""
    terms = coefficients[:, :, None] * K * coefficients[:, None, :]
    return np.column_stack([positive(part).sum(axis=(1, 2)) * sign for part, sign in ((terms, 1), (-terms, -1))])


def svm_plus(one):
    """Formulas, section 2."""
    labeled, n, known = one.model.correction == "labeled", len(one.y), np.flatnonzero(one.available)
    s, price_of_slack = one.y if labeled else np.ones(n), np.where(one.available, one.model.kappa, 1.0) * one.C
    terms = [*0.5 * one.own, *0.5 * one.lam * one.own_star, float(one.C @ positive(s * one.g))]
    terms += [priced(price_of_slack, positive(1 - one.y * one.f - s * one.g), one.f, one.g, one.grain)]
    terms += [0.0 if labeled else forbidden(-one.g, one.g, one.grain)]
    decision = np.hstack([np.diag(one.y), np.zeros((n, len(known)))])
    privileged = np.hstack([np.diag(s * one.available), -np.diag(s)[:, known]])
    sums = [decision.sum(axis=0)] + [privileged.sum(axis=0)] * bool(len(known))
    lower = np.concatenate([np.zeros(n), np.full(len(known), 0.0 if labeled else -np.inf)])
    upper = np.concatenate([price_of_slack, one.C[known]])
    p = np.repeat([1.0, 0.0], [n, len(known)])
    return terms, optimum_of(one.curvature(decision, privileged), p, sums, np.zeros(len(sums)), lower, upper)


def svm2_plus(one):
    """Formulas, section 3."""
    n, known = len(one.y), np.flatnonzero(one.available)
    s, kappa = one.y if one.model.correction == "labeled" else np.ones(n), np.where(one.available, one.model.kappa, 1.0)
    terms = [*0.5 * one.own, *0.5 * one.lam * one.own_star, 0.5 * one.lam * one.b_star**2]
    terms += [0.5 * float(one.C @ one.g**2)]
    terms += [0.5 * priced(kappa * one.C, positive(1 - one.y * one.f - s * one.g) ** 2, one.f, one.g, one.grain)]
    Q, Kt = np.zeros((n, n)), one.K_star[np.ix_(known, known)] + 1.0
    Q[np.ix_(known, known)] = np.linalg.solve(Kt + np.diag(one.lam / one.C[known]), Kt) / one.C[known, None]
    P = np.outer(one.y, one.y) * one.K + np.outer(s, s) * (Q + Q.T) / 2 + np.diag(1.0 / (kappa * one.C))
    return terms, optimum_of(P, np.ones(n), one.y, 0.0, np.zeros(n), np.full(n, np.inf))


def svm_2k(one):
    """Formulas, section 4."""
    model, known, n = one.model, np.flatnonzero(one.available), len(one.y)
    own, other, tie = (price * one.C / model.C for price in (model.C, model.C_privileged, model.D))
    f, g, m = one.f, one.g, len(known)
    terms = [*0.5 * one.own, *0.5 * one.own_star, float(own @ positive(1 - one.y * f))]
    terms += [float((other * positive(1 - one.y * g) + tie * positive(np.abs(f - g) - model.epsilon))[known].sum())]
    I = np.eye(n)[:, known]
    decision = np.hstack([np.diag(one.y), 0 * I, -I, I])
    privileged = np.hstack([np.zeros((n, n)), np.diag(one.y)[:, known], I, -I])
    sums = [decision.sum(axis=0)] + [privileged.sum(axis=0)] * bool(m)
    p = np.repeat([1.0, -model.epsilon], [n + m, 2 * m])
    upper = np.concatenate([own, other[known], tie[known], tie[known]])
    return terms, optimum_of(one.curvature(decision, privileged), p, sums, np.zeros(len(sums)), 0 * p, upper)


def svr_plus(one):
    """Formulas, section 8."""
    model, known, n = one.model, np.flatnonzero(one.available), len(one.y)
    price_of_slack, m = np.where(one.available, model.kappa, 1.0) * one.C, len(known)
    terms = [*0.5 * one.own, *0.5 * one.lam * one.own_star.ravel()]
    sides = one.g.T if one.g.shape[1] == 2 else np.zeros((2, n))
    for sign, g in zip((1.0, -1.0), sides):
        terms += [float(one.C @ g) + forbidden(-g, g, one.grain)]
        terms += [
            priced(price_of_slack, positive(sign * (one.y - one.f) - model.epsilon - g), one.y, one.f, g, one.grain)
        ]
    I, has, none = np.eye(n), np.diag(one.available.astype(float)), np.zeros((n, m))
    decision = np.hstack([I, -I, none, none])
    spaces = [np.hstack([has, 0 * I, -I[:, known], none]), np.hstack([0 * I, has, none, -I[:, known]])][: 2 * bool(m)]
    sums = [part.sum(axis=0) for part in (decision, *spaces)]
    p = np.concatenate([one.y - model.epsilon, -one.y - model.epsilon, np.zeros(2 * m)])
    lower = np.repeat([0.0, -np.inf], [2 * n, 2 * m])
    upper = np.concatenate([price_of_slack, price_of_slack, one.C[known], one.C[known]])
    return terms, optimum_of(one.curvature(decision, *spaces), p, sums, np.zeros(len(sums)), lower, upper)


def one_class_plus(one):
    """Formulas, section 6; `f` is nu l times the function of the primal."""
    total, g = one.model.nu * len(one.f), one.g[:, 0]
    missed = positive((-one.b - one.f) / total - g)
    terms = [*0.5 * one.own / total, *0.5 * one.lam * one.own_star[0], one.b, float(positive(g).sum())]
    terms += [float(missed[~one.available].sum()) + forbidden(missed[one.available], one.f / total, g, one.grain)]
    return terms, one_class_optimum(one.K, one.K_star, one.lam, one.available, total)


def one_class_optimum(K, K_star, lam, available, total):
    n, known = len(K), np.flatnonzero(available)
    m = len(known)
    decision = np.hstack([np.eye(n), np.zeros((n, m))])
    privileged = np.hstack([np.diag(available.astype(float)), -np.eye(n)[:, known]])
    P = decision.T @ K @ decision / total + privileged.T @ K_star @ privileged / lam
    sums = [decision.sum(axis=0)] + [privileged.sum(axis=0)] * bool(m)
    upper = np.concatenate([np.where(available, np.inf, 1.0), np.ones(m)])
    return optimum_of(P, np.zeros(n + m), sums, np.array([total, 0.0])[: len(sums)], np.zeros(n + m), upper)


OF_CLASS = {lupi.SVMPlus: svm_plus, lupi.SVM2Plus: svm2_plus, lupi.SVM2K: svm_2k}


# ---------------------------------------------------------------- rankers


def ranker_values(case):
    """Primal value and optimum of the student, over a list of all pairs."""
    model, n = case.model, len(case.X)
    t = getattr(model, "margins_", np.full(n, np.nan))
    y, margin = case.y, t[:, None] - t
    taught = ~np.isnan(margin)
    chosen = (y[:, None] > y) & ~taught
    if hasattr(model, "margins_"):
        across = y[:, None] >= y if model.pairs == "all" else y[:, None] > y
        chosen |= across & taught & (np.nan_to_num(margin) > model.margin_threshold)
    winner, loser = np.nonzero(chosen)
    rho = np.where(taught, margin, 1.0)[winner, loser]
    K = gram(model.kernel, model.gamma, case.X)
    f = model.decision_function(case.X)
    if hasattr(model, "coef_"):
        own = float(model.coef_ @ model.coef_)
    else:
        own = float(model.dual_coef_ @ gram(model.kernel, model.gamma, model.X_fit_) @ model.dual_coef_)
    xi = positive(rho - (f[winner] - f[loser]))
    hinge = model.loss == "hinge"
    terms = [0.5 * own, model.C * float(np.sum(xi if hinge else xi**2))]
    if not len(rho):
        return [(terms, 0.0)]
    P = K[np.ix_(winner, winner)] - K[np.ix_(winner, loser)] - K[np.ix_(loser, winner)] + K[np.ix_(loser, loser)]
    upper = np.full(len(rho), model.C if hinge else np.inf)
    P = P + (0.0 if hinge else 0.5 / model.C) * np.eye(len(rho))
    return [(terms, optimum_of(P, rho, np.zeros((0, len(rho))), np.zeros(0), np.zeros(len(rho)), upper))]


# ---------------------------------------------------------------- structured


def structural_values(case):
    """Primal value by all pairs of outputs, and the optimum over all planes."""
    model, X, y, n = case.model, case.X, case.y, len(case.X)
    k = model.task.n_classes
    lams = np.broadcast_to(getattr(model, "lam", 1.0), len(case.spaces))
    known = [~np.isnan(Z).any(axis=1) for Z in case.spaces]
    available = np.any([np.zeros(n, dtype=bool), *known], axis=0)
    # The privileged features divided by the roots of their weights: |w*|^2 then has the weight 1.
    Z = np.hstack([np.zeros((n, 0)), *(np.nan_to_num(part) / np.sqrt(lam) for part, lam in zip(case.spaces, lams))])
    W, parts = model.coef_.reshape(k, -1), getattr(model, "privileged_coef_", None)
    parts = [] if parts is None else parts if isinstance(parts, list) else [parts]
    W_star = np.hstack([np.zeros((k, 0)), *(w.reshape(k, -1) * np.sqrt(lam) for w, lam in zip(parts, lams))])
    W_star = W_star if W_star.shape[1] else np.zeros((k, Z.shape[1]))
    rows, first, second = np.indices((n, k, k)).reshape(3, -1)
    used = available[rows] | (second == y[rows])
    rows, first, second = rows[used], first[used], second[used]
    loss, loss_star = (first != y[rows]).astype(float), (second != y[rows]).astype(float)
    loss = np.where(available[rows], loss_star / getattr(model, "rho", 1.0) + positive(loss - loss_star), loss)
    psi = np.hstack([differences(X, y, rows, first, k), differences(Z, y, rows, second, k)])
    v = np.concatenate([W.ravel(), W_star.ravel()])
    hinge = np.zeros(n)
    np.maximum.at(hinge, rows, loss - psi @ v)
    terms = [0.5 * float(v @ v), model.C / n * float(hinge.sum())]
    used = loss > 0
    try:
        return [(terms, reference_objective(psi[used], loss[used], rows[used], model.C))]
    except AssertionError:
        return [(terms, None)]


def differences(X, y, rows, outputs, k):
    out = np.zeros((len(rows), k, X.shape[1]))
    q = np.arange(len(rows))
    out[q, y[rows]] += X[rows]
    out[q, outputs] -= X[rows]
    return out.reshape(len(rows), -1)


def support_values(case):
    """The optimum; the threshold rho is not public: the best one bounds `objective_` from below."""
    model, n, k = case.model, len(case.X), case.model.task.n_classes

    def joint(rows, y):
        out = np.zeros((len(rows), k, rows.shape[1]))
        out[np.arange(len(rows)), y] = rows
        return out.reshape(len(rows), -1)

    K, K_star = gram(model.kernel, model.gamma, joint(case.X, case.y)), np.zeros((n, n))
    lams = np.broadcast_to(getattr(model, "lam", 1.0), len(case.spaces))
    lam = 1.0 / np.sum(1.0 / lams) if case.spaces else 1.0
    known = [~np.isnan(Z).any(axis=1) for Z in case.spaces]
    for Z, has, one in zip(case.spaces, known, lams):
        K_star[np.ix_(has, has)] += lam / one * gram(model.privileged_kernel, model.privileged_gamma, Z[has])
    available = np.any([np.zeros(n, dtype=bool), *known], axis=0)
    total, g, own_star = model.nu * n, np.zeros(n), np.zeros(2)
    if available.any():
        g = np.where(available, model.correcting_function(case.privileged), 0.0)
        eta = np.asarray(model.privileged_dual_coef_)
        eta = eta if len(eta) == n else np.zeros(n)
        own_star = squared_norms(K_star, eta[None])[0]
    f = model.score_pairs(case.X, case.y) / total
    alpha = np.zeros(n)
    alpha[model.support_] = model.dual_coef_
    terms = [*0.5 * squared_norms(K, alpha[None])[0] / total, *0.5 * lam * own_star, float(positive(g).sum())]
    fixed = sum(terms)
    most = np.min((f + g)[available], initial=np.inf)
    thresholds = np.minimum(np.append(f[~available], most if available.any() else f.max()), most)
    best = min(fixed - total * rho + float(positive(rho - f[~available]).sum()) for rho in thresholds)
    rounding = LARGEST_DIFFERENCE * abs(best) + ROUNDING * np.abs(terms).sum()
    assert best <= model.objective_ + rounding, f"objective_ {model.objective_:.12g}, found {best:.12g}"
    return [(None, one_class_optimum(K, K_star, lam, available, total))]


TARGETS = [
    Target(name, lambda folder: None, make, attack_with(values_of), (ValueError,), lambda case: 100_000)
    for name, make, values_of in (
        ("kernel machines", make_kernel_machine, kernel_machine_values),
        ("rankers", make_ranker, ranker_values),
        ("structural", make_structural, structural_values),
        ("support", make_support, support_values),
    )
]
