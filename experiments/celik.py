"""Celik et al. (2015): the quadratic program of SVM+ as the paper writes it, solved by PIQP, beside `SVMPlus`.

The paper has no experiment and prints no figures; what can be repeated is its program, eq. (2) in the form (11) for MATLAB's
`quadprog`. It is written out here from the paper, without the problems and kernels of this package.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

from experiments.common import entry, subfolder, write_result
from experiments.data import load_mnist_plus
from lupi import SVMPlus
from lupi.datasets import make_privileged
from lupi.svm.reference import solve_qp

GRAM = {"linear": lambda A, B, gamma: linear_kernel(A, B), "rbf": lambda A, B, gamma: rbf_kernel(A, B, gamma)}
# Relative difference of the objectives, and difference of decision values, up to which two solvers count as agreeing.
SAME_OBJECTIVE, SAME_DECISION = 1e-7, 1e-4
# A dual variable nearer to a bound than this share of its range is at the bound.
AT_BOUND = 1e-5


class Sample(NamedTuple):
    """Training rows with labels -1 and +1 and weights C_i, privileged rows, test rows."""

    X: np.ndarray
    y: np.ndarray
    Z: np.ndarray
    weights: np.ndarray
    X_test: np.ndarray


class Setting(NamedTuple):
    """One problem; `gamma` is the paper's (1 / lam), `kappa` and C as in eq. (2), `widths` are those of rbf kernels."""

    data: str
    kernel: str
    C: float
    kappa: float
    gamma: float
    weighted: bool = False
    widths: tuple[float, float] = (0.1, 0.1)

    def __str__(self):
        weighted = ", C_i differ" if self.weighted else ""
        return f"{self.data}, {self.kernel}, C={self.C:g}, kappa={self.kappa:g}, gamma={self.gamma:g}{weighted}"


SETTINGS = (
    Setting("generated", "linear", 1.0, 3.0, 1.0),
    Setting("generated", "linear", 1.0, 10.0, 5.0),
    Setting("generated", "rbf", 1.0, 3.0, 1.0),
    Setting("generated", "rbf", 10.0, 2.0, 0.1),
    Setting("generated", "rbf", 1.0, 3.0, 1.0, weighted=True),
    Setting("MNIST+", "rbf", 1.0, 3.0, 1.0, widths=(0.05, 0.02)),
    Setting("MNIST+", "rbf", 100.0, 5.0, 0.1, widths=(0.05, 0.02)),
)


def quadprog_form(K, K_star, y, C, kappa, gamma):
    """The arguments of `quadprog` in section III of the paper, for z = (alpha, delta)."""
    L = len(y)
    signs = np.outer(y, y)
    H11 = (K + gamma * K_star) * signs
    H12 = -gamma * K_star * signs
    H22 = gamma * K_star * signs
    return {
        "H": np.block([[H11, H12], [H12, H22]]),
        "f": np.concatenate([-np.ones(L), np.zeros(L)]),
        "Aeq": np.block([[y, np.zeros(L)], [np.zeros(L), y]]),
        "beq": np.zeros(2),
        "lb": np.zeros(2 * L),
        "ub": np.concatenate([kappa * C, C]),
    }


def quadprog(problem, tol=1e-10):
    """Solve `quadprog_form` with PIQP, or with Clarabel where PIQP stops early."""
    named = {"P": "H", "q": "f", "A": "Aeq", "b": "beq", "lb": "lb", "ub": "ub"}
    qp = {ours: problem[theirs] for ours, theirs in named.items()}
    found = solve_qp(qp, tol=tol)
    if not found.accepted:
        raise ValueError(
            f"the reference solvers stopped at a relative error of {found.error:.2g}; at most 1e-8 is accepted."
        )
    return found.x


def _interval(threshold, y, share):
    """Smallest and largest bias with y (bias - threshold) = 0 for free variables, >= 0 at the lower bound, <= 0 at the
    upper.
    """
    lower, upper = share < AT_BOUND, share > 1 - AT_BOUND
    free = ~(lower | upper)
    if free.any():
        return (float(threshold[free].mean()),) * 2
    from_below = (lower & (y > 0)) | (upper & (y < 0))
    return float(threshold[from_below].max()), float(threshold[~from_below].min())


def biases(K, K_star, problem, y, gamma, z):
    """The B of the paper's eq. (10), and the smallest and largest optimal bias b of the decision function."""
    L = len(y)
    alpha, delta = z[:L], z[L:]
    F, f = K @ (y * alpha), gamma * (K_star @ (y * (alpha - delta)))
    B = sum(_interval(y - F - f, y, alpha / problem["ub"][:L])) / 2
    # y g >= 0 at the upper bound of delta and <= 0 at the lower one: the other way round than for alpha.
    least, most = _interval(-f, -y, delta / problem["ub"][L:])
    return B, B - most, B - least


def compare_with_quadprog(sample, setting):
    """Both solutions of one problem."""
    X, y, Z, weights, X_test = sample
    kernel = GRAM[setting.kernel]
    K, K_star = kernel(X, X, setting.widths[0]), kernel(Z, Z, setting.widths[1])
    problem = quadprog_form(K, K_star, y, setting.C * weights, setting.kappa, setting.gamma)
    z = quadprog(problem)
    L = len(y)
    B, least, most = biases(K, K_star, problem, y, setting.gamma, z)
    field = kernel(X_test, X, setting.widths[0]) @ (y * z[:L])

    model = SVMPlus(
        C=setting.C,
        lam=1 / setting.gamma,
        kappa=setting.kappa,
        correction="labeled",
        kernel=setting.kernel,
        gamma=setting.widths[0],
        privileged_kernel=setting.kernel,
        privileged_gamma=setting.widths[1],
        tol=1e-9,
    )
    # Whether so small a tolerance was reached is part of the result.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, privileged=Z, sample_weight=weights)
    alpha = np.zeros(L)
    alpha[model.support_] = model.dual_coef_[0]
    alpha *= y
    delta = alpha - y * model.privileged_dual_coef_[0] / setting.gamma
    ours = np.concatenate([alpha, delta])

    def value(point):
        return float(point @ problem["H"] @ point / 2 + problem["f"] @ point)

    b = np.clip(model.intercept_[0], least, most)
    outside = np.concatenate([problem["lb"] - ours, ours - problem["ub"], np.abs(problem["Aeq"] @ ours)])
    result = {
        "setting": str(setting),
        "n": L,
        "objective": value(z),
        "ours": value(ours),
        "objective_difference": abs(value(ours) - value(z)) / abs(value(z)),
        "infeasibility": float(max(0.0, outside.max())),
        "decision_difference": float(np.abs(model.decision_function(X_test) - field - b).max()),
        "bias_interval": most - least,
        "paper_bias_difference": float(np.abs(model.decision_function(X_test) - field - B).max()),
        "gap": model.dual_gap_,
        "converged": not any(issubclass(warning.category, ConvergenceWarning) for warning in caught),
    }
    same = result["objective_difference"] <= SAME_OBJECTIVE and result["decision_difference"] <= SAME_DECISION
    return result | {"same": bool(same and result["infeasibility"] <= SAME_DECISION)}


def generated(seed, weighted, n=150):
    """A drawn sample; the weights are 1, or between 1/2 and 2."""
    made = make_privileged(2 * n, 10, 4, random_state=seed)
    weights = np.random.default_rng(seed).uniform(0.5, 2.0, n) if weighted else np.ones(n)
    y = np.where(made.target == 1, 1.0, -1.0)
    return Sample(made.data[:n], y[:n], made.privileged[:n], weights, made.data[n:])


def _mnist_plus(root, seed, n=90):
    digits = load_mnist_plus(root)
    rows = np.random.default_rng(seed).permutation(len(digits.target))[:n]
    y = np.where(digits.target[rows] == digits.target.max(), 1.0, -1.0)
    return Sample(digits.data[rows] / 255.0, y, digits.privileged[rows], np.ones(n), digits.test_data / 255.0)


@entry(
    "celik-qp",
    "Celik et al. 2015, the quadratic program",
    "PIQP (pip install 'lupi[reference]'); mnist_plus for two of its problems, left out without it",
)
def quadratic_program(data, out, *, n_splits=5, tasks=None, n_jobs=1, on_progress=None):
    settings = SETTINGS[: tasks or len(SETTINGS)]
    results, missing = [], []
    for k, setting in enumerate(settings):
        for seed in range(n_splits):
            try:
                if setting.data == "generated":
                    sample = generated(seed, setting.weighted)
                else:
                    sample = _mnist_plus(subfolder(data, "mnist_plus"), seed)
            except FileNotFoundError as problem:
                missing.append(f"not run: {setting} ({problem})")
                break
            results.append({"seed": seed, **compare_with_quadprog(sample, setting)})
            if on_progress:
                on_progress(k * n_splits + seed + 1, len(settings) * n_splits)
    same = sum(result["same"] for result in results)
    write_result(out, "celik-qp", n_draws=n_splits, problems=results, agreeing=same, not_run=missing)
    return [*table_lines(results, n_splits), *missing]


def table_lines(results, n_draws):
    """Lines of the table."""
    lines = [
        "The paper prints no figures. Its program (2), (11) by PIQP, beside SVMPlus(correction='labeled', lam=1/gamma).",
        f"The largest of {n_draws} draws; * : objectives within {SAME_OBJECTIVE:g} (relative), decisions within "
        f"{SAME_DECISION:g}, in every draw.",
        f"{'problem':52} {'objective diff.':>16} {'max |decision diff.|':>21} {'with B of eq. (10)':>19}",
    ]
    for setting in dict.fromkeys(result["setting"] for result in results):
        mine = [result for result in results if result["setting"] == setting]
        worst = {
            name: max(r[name] for r in mine)
            for name in ("objective_difference", "decision_difference", "paper_bias_difference")
        }
        mark = "*" if all(r["same"] for r in mine) else " "
        lines.append(
            f"{setting:52} {worst['objective_difference']:16.1e} {worst['decision_difference']:20.1e}{mark} "
            f"{worst['paper_bias_difference']:19.2g}"
        )
    same = sum(result["same"] for result in results)
    lines += [
        f"Agreement in {same} of {len(results)} problems. Largest duality gap that SVMPlus certifies: "
        f"{max(r['gap'] for r in results):.1e}; it warned in {sum(not r['converged'] for r in results)} of them that its KKT "
        "tolerance, 1e-9, was not reached.",
        f"In {sum(r['bias_interval'] > 0 for r in results)} of them no delta is strictly inside its bounds: b is not unique "
        "(ours is among the optimal ones if the decisions agree).",
        "Eq. (10) gives b + b*, not b: its decision values are off by b* wherever that is not 0 (last column).",
    ]
    return lines
