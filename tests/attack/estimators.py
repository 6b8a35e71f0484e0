"""Targets: every estimator, on data of any shape, size, type and container, with any of its parameters."""

import warnings

import numpy as np
import pandas as pd
from attack.harness import Target
from attack.mutations import pick
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge

import lupi
from lupi.comparison.model import TabularModel
from lupi.tasks import Multiclass

# Above this, the value found may be far from the optimum, and the user has to be told.
LARGEST_SILENT_GAP = 0.1
PRICES = (1e-12, 1e-6, 1e-3, 0.1, 1.0, 1.0, 1.0, 10.0, 1e3, 1e6, 1e12)
SIZES = (1.0, 1.0, 1.0, 1.0, 1e-3, 1e3, 1e-8, 1e8, 1e-30, 1e30, 1e-160, 1e160, 1e300)


def kernel(rng, prefix=""):
    """Parameters of a kernel."""
    return {
        f"{prefix}kernel": pick(rng, ("linear", "rbf", "poly", "sigmoid", "laplacian", "chi2")),
        f"{prefix}gamma": pick(rng, ("scale", "scale", "auto", 0.1, 1e-9, 1e9)),
        f"{prefix}degree": pick(rng, (2, 3, 0, 7)),
        f"{prefix}coef0": pick(rng, (0.0, 1.0, -1.0, 1e6)),
    }


def kernels(rng):
    return kernel(rng) | kernel(rng, "privileged_")


def stop(rng, *solvers):
    """How long to go on, and how."""
    return {"tol": pick(rng, (1e-3, 1e-3, 1e-5, 0.1, 1e-9)), "solver": pick(rng, solvers)}


def svm_plus(kind):
    def make(rng):
        params = {
            "C": pick(rng, PRICES), "lam": pick(rng, PRICES), "kappa": pick(rng, (3.0, 3.0, 1.0, 1e6, np.inf)),
            "correction": pick(rng, ("slack", "slack", "labelled")), "class_weight": pick(rng, (None, None, "balanced")),
            "max_iter": pick(rng, (-1, -1, -1, 0, 1, 50)), **kernels(rng),
            **stop(rng, "auto", "auto", "smo", "newton", "interior_point"),
        }  # fmt: skip
        return kind(**params)

    return make


def svm_2k(rng):
    prices = {name: pick(rng, PRICES) for name in ("C", "C_privileged", "D")}
    return lupi.SVM2K(**prices, epsilon=pick(rng, (0.0, 0.1, 1e6)), **kernels(rng), max_iter=pick(rng, (-1, -1, 5)))


def svr_plus(rng):
    prices = {"C": pick(rng, PRICES), "lam": pick(rng, PRICES), "kappa": pick(rng, (3.0, 3.0, 1.0, 1e6, np.inf))}
    epsilon = pick(rng, (0.1, 0.0, 1e6))
    return lupi.SVRPlus(**prices, epsilon=epsilon, **kernels(rng), **stop(rng, "auto", "smo", "interior_point"))


def one_class(rng):
    return lupi.OneClassSVMPlus(pick(rng, (0.5, 0.01, 1.0, 1e-9)), pick(rng, PRICES), **kernels(rng))


def ranker(rng):
    common = {
        "loss": pick(rng, ("squared_hinge", "hinge")),
        "n_components": pick(rng, (None, None, 4)),
        "random_state": 0,
    }
    common |= {"max_iter": pick(rng, (500, 500, 1)), "tol": pick(rng, (1e-5, 1e-2, 1e-10))}
    if rng.random() < 0.3:
        return lupi.RankSVM(pick(rng, PRICES), **common, **kernel(rng))
    common |= kernels(rng) | {"pairs": pick(rng, ("all", "across")), "margin_threshold": pick(rng, (0.0, 0.1, 1e6))}
    if rng.random() < 0.1:
        return lupi.RankTransferCV(Cs=[pick(rng, PRICES)], Cs_privileged=[0.1, pick(rng, PRICES)], cv=2, **common)
    return lupi.RankTransfer(pick(rng, PRICES), pick(rng, PRICES), **common)


def structured(rng):
    task, star = Multiclass(2, 3), Multiclass(2, 2)
    joint = {"kernel": pick(rng, ("linear", "rbf", "chi2")), "gamma": pick(rng, ("scale", 0.1, 1e9))}
    common = {"tol": pick(rng, (1e-2, 1e-3)), "max_iter": pick(rng, (200, 200, 1)), "random_state": 0}
    kind = int(rng.integers(4))
    if kind == 0:
        return lupi.StructuralSVM(task, pick(rng, PRICES), **common)
    if kind == 1:
        return lupi.StructuralSVMPlus(
            task, star, pick(rng, PRICES), pick(rng, PRICES), pick(rng, (2.0, 1.0, 1e6)), **common
        )
    if kind == 2:
        return lupi.JKSE(task, pick(rng, (0.5, 0.05, 1.0)), **joint)
    other = {f"privileged_{name}": value for name, value in joint.items()}
    return lupi.JKSEPlus(task, pick(rng, (0.5, 0.05, 1.0)), pick(rng, PRICES), **joint, **other)


def wrapper(rng):
    inner = lupi.SVM2Plus(pick(rng, PRICES), kernel=pick(rng, ("linear", "rbf")))
    students = (
        lupi.KnowledgeTransfer(LogisticRegression(), pick(rng, (None, Ridge(1e-9))), passthrough=rng.random() < 0.7),
        lupi.Distillation(LogisticRegression(), imitation=pick(rng, (0.0, 0.5, 1.0)), temperature=pick(rng, (1.0, 1e-6, 1e6))),
        lupi.Distillation(LogisticRegression(), teacher_features="privileged"),
        lupi.KnowledgeTransfer(Ridge()),
        lupi.Distillation(Ridge()),
        TabularModel(inner),
    )  # fmt: skip
    return pick(rng, students)


def surrogate(rng):
    kind = pick(rng, (lupi.SurrogateClassifier, lupi.SurrogateRegressor))
    return kind(
        pick(rng, ("ridge", "ridge", "ridge", Ridge())), scales=pick(rng, ((0, 0.1, 0.3, 1), (1,))), random_state=0
    )


def values(rng, n, p, size):
    """A block of numbers: spread, doubled, constant, whole, or with a few far out."""
    block = rng.normal(size=(n, p))
    kind = int(rng.integers(7))
    if kind == 0:
        block = np.round(block)
    elif kind == 1:
        block[:] = block[0]
    elif kind == 2:
        block[:, 0] = pick(rng, (0.0, 1.0))
    elif kind == 3:
        block[rng.integers(n)] *= 1e6
    elif kind == 4:
        block = block[rng.integers(0, n, n)]
    block = block * size
    if rng.random() < 0.03:
        block[rng.integers(n), rng.integers(p)] = pick(rng, (np.nan, np.inf, -np.inf))
    return block


def contained(rng, block):
    """The same numbers in another type or container."""
    kind = int(rng.integers(12))
    if kind == 0 and np.abs(block).max(initial=0) < 1e30:
        return block.astype(np.float32)
    if kind == 1 and np.isfinite(block).all() and np.abs(block).max(initial=0) < 100:
        return block.astype(pick(rng, (np.int64, np.int32, np.int8, bool)))
    if kind == 2:
        return np.asfortranarray(block)
    if kind == 3:
        block.setflags(write=False)
        return block
    if kind == 4:
        return block.tolist()
    if kind == 5:
        return pd.DataFrame(block, columns=[f"c{k}" for k in range(block.shape[1])])
    if kind == 6:
        return pick(rng, (sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix, sparse.csr_array))(block)
    return np.repeat(block, 2, axis=0)[::2] if kind == 7 else block


def labels(rng, model, n):
    if isinstance(model, lupi.SVRPlus):
        return rng.normal(size=n) * pick(rng, SIZES)
    k = pick(rng, (2, 2, 2, 3, 5, 1)) if not hasattr(model, "task") else 2
    y = rng.integers(0, k, n)
    y[: min(k, n)] = np.arange(k)[:n]
    if isinstance(model, lupi.RankSVM | lupi.RankTransfer | lupi.RankTransferCV) or hasattr(model, "task"):
        return y
    return pick(rng, (y, y, np.array(list("abcde"))[y], y.astype(float), y - 1, (y * 10**12)))


def make_with(build):
    def make(rng, _):
        rng = np.random.default_rng(0) if rng is None else rng
        model = build(rng)
        n, p, q = int(pick(rng, (2, 3, 6, 12, 25, 25, 40))), int(rng.integers(1, 6)), int(rng.integers(1, 4))
        if hasattr(model, "task"):
            p, q = 3, 2
        X, Z = values(rng, n, p, pick(rng, SIZES)), values(rng, n, q, pick(rng, SIZES))
        if "chi2" in (getattr(model, "kernel", ""), getattr(model, "privileged_kernel", "")):
            X, Z = np.abs(X), np.abs(Z)
        if rng.random() < 0.2:
            Z[rng.random(n) < pick(rng, (0.3, 0.9, 1.0))] = np.nan
        extra = {"privileged": None if rng.random() < 0.1 else contained(rng, Z)}
        if isinstance(model, lupi.RankSVM | lupi.StructuralSVM | lupi.JKSE) and not hasattr(model, "lam"):
            extra = {}
        if hasattr(model, "correction") and rng.random() < 0.2:
            extra["sample_weight"] = rng.integers(0, 3, n) * pick(rng, (1.0, 1e-6, 1e6))
        y = labels(rng, model, n)
        return model, contained(rng, X.copy()), y, extra, X

    return make


def attack(case, _):
    """Fits and gives finite answers; a value that is not the optimum comes with a warning."""
    model, X, y, extra, plain = case
    target = {} if isinstance(model, lupi.OneClassSVMPlus) else {"Y" if hasattr(model, "task") else "y": y}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            model.fit(X, **target, **extra)
        except np.linalg.LinAlgError as error:  # a ValueError, but one of linear algebra inside
            raise AssertionError(f"LinAlgError: {error}") from error
        ways = ("predict", "decision_function", "predict_proba")
        answers = [np.asarray(getattr(model, way)(X)) for way in ways if hasattr(model, way)]
    for found in answers:
        assert len(found) == len(plain)
        assert found.dtype.kind not in "fc" or np.isfinite(found).all(), "an answer that is no number"
    gap = getattr(model, "dual_gap_", 0.0)
    assert np.isfinite(gap), "a gap that is no number"
    warned = any(issubclass(warning.category, ConvergenceWarning) for warning in told)
    assert warned or gap <= LARGEST_SILENT_GAP, f"a gap of {gap:.3g} without a warning"


KINDS = {
    "svm+": svm_plus(lupi.SVMPlus), "svm2+": svm_plus(lupi.SVM2Plus), "svm-2k": svm_2k, "svr+": svr_plus, "one class": one_class,
    "ranking": ranker, "structured": structured, "wrappers": wrapper, "surrogate": surrogate,
}  # fmt: skip
TARGETS = [
    Target(name, lambda folder: None, make_with(build), attack, (ValueError, TypeError), lambda case: 100_000)
    for name, build in KINDS.items()
]
