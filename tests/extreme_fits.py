"""Seeded fits with extreme prices, scales and shapes: what is neither certified nor warned of, and errors of the wrong type.

`python tests/estimators/extreme_fits.py 20000` runs that many and prints what was found; the suite runs a few hundred.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from lupi import SVM2K, OneClassSVMPlus, RankSVM, RankTransfer, StructuralSVM, StructuralSVMPlus, SVM2Plus, SVMPlus
from lupi.structured import Multiclass

PRICES = (1e-12, 1e-6, 1e-3, 0.1, 1.0, 10.0, 1e3, 1e6, 1e12)
SCALES = (1e-200, 1e-30, 1e-8, 1e-3, 1.0, 1e3, 1e8, 1e30, 1e160)
KERNELS = ("linear", "rbf", "poly", "laplacian")


def draw(rng):
    """A random estimator with the arguments of its fit."""
    n, d, s = int(rng.integers(4, 20)), int(rng.integers(1, 6)), int(rng.integers(1, 4))
    common = rng.random() < 0.5
    X = rng.normal(size=(n, d)) * rng.choice(SCALES[3:6] if common else SCALES)
    Z = rng.normal(size=(n, s)) * rng.choice(SCALES[3:6] if common else SCALES)
    if rng.random() < 0.2:
        X, Z = np.round(X), np.repeat(Z[:1], n, axis=0)
    if rng.random() < 0.2:
        X = X + rng.choice([1e3, 1e8])
    if rng.random() < 0.15:
        Z[rng.random(n) < 0.4] = np.nan
    y = np.arange(n) % int(rng.integers(2, 4))
    if rng.random() < 0.5:
        y[: n // 2] = rng.permutation(y[: n // 2])
    price = [float(rng.choice(PRICES)) for _ in range(4)]
    kernels = {"kernel": str(rng.choice(KERNELS)), "privileged_kernel": str(rng.choice(KERNELS))}
    if rng.random() < 0.1 and np.isfinite(Z).all():
        X = sparse.csr_matrix(X)
    privileged = Z if rng.random() < 0.85 else None
    return (y, X, privileged, price, kernels, float(rng.choice([1.0, 1.001, 3.0, 1e6, np.inf])))


def classifiers(rng, case):
    """One of the kernel classifiers."""
    y, X, privileged, (C, lam, more, D), kernels, kappa = case
    solver = str(rng.choice(["auto", "auto", "smo", "interior_point"]))
    weight = {"balanced": "balanced", "none": None, "skewed": {0: 1e3, 1: 1e-4, 2: 1e-4}}[
        str(rng.choice(["balanced", "none", "none", "skewed"]))
    ]
    shared = {**kernels, "class_weight": weight}
    which = int(rng.integers(4))
    if which == 0:
        model = SVMPlus(C, lam, correction="slack", solver=solver, **shared)
    elif which == 1:
        model = SVMPlus(C, lam, correction="labeled", kappa=kappa, solver=solver, **shared)
    elif which == 2:
        model = SVM2Plus(C, lam, kappa=kappa, solver=solver, **shared)
    else:
        model = SVM2K(C, more, D, **shared)
    if rng.random() < 0.3:
        model.set_params(max_iter=int(rng.choice([0, 1, 7, 100])))
    return model, (X, y), {"privileged": privileged}


def others(rng, case):
    """A one-class machine, a ranker or a structural machine."""
    y, X, privileged, (C, lam, _, _), kernels, _ = case
    which = int(rng.integers(4))
    if which == 0:
        return (
            OneClassSVMPlus(float(rng.choice([1e-9, 0.1, 0.5, 1.0])), lam, **kernels),
            (X,),
            {"privileged": privileged},
        )
    loss = str(rng.choice(["hinge", "squared_hinge"]))
    ranked = {"loss": loss, "solver": "auto" if loss == "hinge" and rng.random() < 0.5 else "newton"}
    if which == 1:
        return RankSVM(C, kernel=kernels["kernel"], **ranked), (X, y), {}
    if which == 2:
        return RankTransfer(C, lam, **kernels, **ranked), (X, y), {"privileged": privileged}
    solver = str(rng.choice(["bcfw", "cutting_plane", "n_slack"]))
    task = Multiclass(3, X.shape[1])
    if privileged is None:
        return StructuralSVM(task, C, solver=solver, max_iter=60), (X, y), {}
    star = Multiclass(3, privileged.shape[1])
    return StructuralSVMPlus(task, star, C, lam, solver=solver, max_iter=60), (X, y), {"privileged": privileged}


def run(seed):
    """Fit case number `seed`; how it ended ("certified", "warned", "refused"), or what is wrong."""
    rng = np.random.default_rng(seed)
    case = draw(rng)
    model, arguments, options = (classifiers if rng.random() < 0.6 else others)(rng, case)
    # Some cannot be solved, and would be tried for ten seconds.
    model.set_params(max_time=1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(*arguments, **options)
        except Exception as error:
            helps = type(error) is ValueError and len(str(error)) > 40 and "sample(s)" not in str(error)
            return "refused" if helps else f"{type(error).__name__}: {error}"
    kinds = {warning.category for warning in caught}
    return RuntimeWarning.__name__ if RuntimeWarning in kinds else judged(model, ConvergenceWarning in kinds)


def judged(model, warned):
    """How a fit ended, or what is wrong with what it left behind."""
    for name in ("coef_", "dual_coef_", "intercept_"):
        if not np.isfinite(getattr(model, name, 0.0)).all():
            return f"{name} is not finite"
    if not warned and not model.dual_gap_ <= model.tol:
        return "a gap above tol, without a warning"
    if model.max_iter >= 0 and model.n_iter_ > model.max_iter:
        return "n_iter_ above max_iter"
    if model.dual_gap_ < 1e-9 and getattr(model, "kkt_violation_", 0.0) > 0.1:
        return "kkt_violation_ tells another story than dual_gap_"
    return "warned" if warned else "certified"


def main(n, first=0):
    """Run n cases; print how many ended how, with the number of the first one."""
    ends, firsts = Counter(), {}
    for seed in range(first, first + n):
        end = run(seed)
        ends[end] += 1
        firsts.setdefault(end, seed)
    for end, count in ends.most_common():
        print(f"{count:6d}  first {firsts[end]:6d}  {end}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
