"""Targets: every estimator, on data of any shape, size, type and container, with any of its parameters."""

import warnings

import numpy as np
import pandas as pd
from attack.harness import Target
from attack.mutations import pick
from scipy import sparse
from sklearn.base import is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import lupi
from lupi.structured import Multiclass
from lupi.svm.paths import fit_path
from lupi.tabular.model import TabularModel

try:
    import dask
    import dask.array as da
except ImportError:  # an extra
    dask = da = None

PRICES = (1e-12, 1e-6, 1e-3, 0.1, 1.0, 1.0, 1.0, 10.0, 1e3, 1e6, 1e12)
SIZES = (*[1.0] * 12, 1e-3, 1e3, 1e-8, 1e8, 1e-30, 1e30, 1e-160, 1e160, 1e300)
# Of the classes -1, 0, 1, ...: no class, but the mark of a row without a label.
NO_LABEL = -7


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
            "correction": pick(rng, ("slack", "slack", "labeled")), "class_weight": pick(rng, (None, None, "balanced")),
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
        lupi.KnowledgeTransfer(Ridge()),
        lupi.Distillation(Ridge()),
        TabularModel(inner),
    )  # fmt: skip
    return pick(rng, students)


SURROGATES = (lupi.SurrogateClassifier, lupi.SurrogateRegressor)


def surrogate(rng):
    kind = pick(rng, SURROGATES)
    student = pick(rng, (*["ridge"] * 12, Ridge(), Ridge(), DecisionTreeRegressor(max_depth=2, random_state=0), None))
    teacher = pick(rng, (None, None, None, Ridge(1e-9), DecisionTreeRegressor(max_depth=2, random_state=0)))
    return kind(
        student, teacher=teacher, cv=pick(rng, (2, 5)), unlabeled=pick(rng, (None, NO_LABEL)), random_state=0,
    )  # fmt: skip


def landmarks(rng):
    """Kernels in place of which a few features stand."""
    kind = pick(rng, (lupi.SVMPlus, lupi.SVM2Plus))
    return kind(
        pick(rng, PRICES), pick(rng, PRICES), n_components=pick(rng, (1, 4, 100)), random_state=0, **kernels(rng)
    )


def linear(rng):
    """What is trained on rows in chunks."""
    lines = {"kernel": "linear", "privileged_kernel": "linear", "tol": pick(rng, (1e-3, 1e-6))}
    models = (
        lupi.SVMPlus(pick(rng, PRICES), pick(rng, PRICES), correction=pick(rng, ("slack", "labeled")), **lines),
        lupi.SVM2Plus(pick(rng, PRICES), pick(rng, PRICES), correction=pick(rng, ("slack", "labeled")), **lines),
        lupi.RankSVM(pick(rng, PRICES)),
        lupi.RankTransfer(pick(rng, PRICES), pick(rng, PRICES)),
        lupi.SurrogateClassifier("ridge"),
    )
    return pick(rng, models)


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
    """A target that suits the model; where rows without a label may be, some are."""
    y = all_labels(rng, model, n)
    if hasattr(model, "unlabeled") and rng.random() < 0.2:
        missing = rng.random(n) < pick(rng, (0.3, 0.8, 1.0))
        if model.unlabeled is not None and y.dtype.kind in "if":
            y = np.where(missing, NO_LABEL, y)
        elif model.unlabeled is None and y.dtype.kind == "f":
            y = np.where(missing, np.nan, y)
        elif model.unlabeled is None:
            y = np.where(missing, None, y.astype(object))
    return y


def all_labels(rng, model, n):
    if is_regressor(model):
        return values(rng, n, 1, pick(rng, SIZES))[:, 0]
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
        if (hasattr(model, "correction") or isinstance(model, SURROGATES)) and rng.random() < 0.2:
            extra["sample_weight"] = rng.integers(0, 3, n) * pick(rng, (1.0, 1e-6, 1e6))
        if isinstance(model, SURROGATES) and rng.random() < 0.2:
            extra["groups"] = rng.integers(0, 1 + n // 2, n)
        if isinstance(model, lupi.RankSVM | lupi.RankTransfer) and rng.random() < 0.2:
            extra["group"] = rng.integers(0, 3, n)
        y = labels(rng, model, n)
        return model, contained(rng, X.copy()), y, extra, X

    return make


def make_columns(rng, _):
    """One table, of which some columns are privileged."""
    model, _, y, _extra, X = make_with(
        pick(rng, (svm_plus(lupi.SVMPlus), svm_plus(lupi.SVM2Plus), surrogate)) if rng else surrogate
    )(rng, _)
    rng = np.random.default_rng(0) if rng is None else rng
    q = int(rng.integers(1, 4))
    last = range(X.shape[1], X.shape[1] + q)
    where = pick(rng, (last, last, last, last, [-1], [0], range(X.shape[1] + q), [99]))
    table = np.hstack([X, values(rng, len(X), q, pick(rng, SIZES))])
    model = lupi.PrivilegedColumns(model, list(where), pick(rng, (None, None, StandardScaler())))
    return model, contained(rng, table.copy()), y, {}, table


def make_path(rng, _):
    """A model, and the candidates that are fitted one near the other."""
    kinds = (svm_plus(lupi.SVMPlus), svm_plus(lupi.SVM2Plus), svm_2k, ranker)
    model, X, y, extra, plain = make_with(kinds[0] if rng is None else pick(rng, kinds))(rng, _)
    rng = np.random.default_rng(0) if rng is None else rng
    names = [name for name in ("C", "lam", "D", "C_privileged") if hasattr(model, name)]
    grid = [{name: pick(rng, PRICES) for name in names} for _ in range(int(rng.integers(1, 5)))]
    return model, X, y, {**extra, "candidates": grid}, plain


def make_chunks(rng, _):
    """The same rows in chunks of Dask arrays."""
    model, _, y, extra, X = make_with(linear)(rng, _)
    rng = np.random.default_rng(0) if rng is None else rng
    size = max(1, len(X) // int(rng.integers(1, 5)))

    def chunks(block):
        block = block.toarray() if sparse.issparse(block) else np.asarray(block)
        return da.from_array(block, chunks=(size, *block.shape[1:]))

    extra = {name: None if value is None else chunks(value) for name, value in extra.items()}
    return model, chunks(X.copy()), chunks(np.asarray(y)), extra, X


def attack(case, _):
    """Fits and gives finite answers; a value that is not the optimum comes with a warning."""
    model, X, y, extra, plain = case
    target = {} if isinstance(model, lupi.OneClassSVMPlus) else {"Y" if hasattr(model, "task") else "y": y}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            fitted = fit(model, X, **target, **extra)
        except np.linalg.LinAlgError as error:  # a ValueError, but one of linear algebra inside
            raise AssertionError(f"LinAlgError: {error}") from error
        X = plain if hasattr(X, "__dask_graph__") else X
        ways = ("predict", "decision_function", "predict_proba")
        answers = [np.asarray(getattr(m, way)(X)) for m in fitted for way in ways if hasattr(m, way)]
    for found in answers:
        assert len(found) == len(plain)
        assert found.dtype.kind not in "fc" or np.isfinite(found).all(), "an answer that is no number"
    # Infinite is a gap of which nothing is known.
    gaps = [(m.dual_gap_, m.tol) for m in fitted if hasattr(m, "dual_gap_")]
    assert all(gap >= 0 for gap, _ in gaps), "a gap that is no number"
    warned = any(issubclass(warning.category, ConvergenceWarning) for warning in told)
    silent = [gap for gap, tol in gaps if gap > tol]
    assert warned or not silent, f"a gap of {max(silent):.3g} > tol without a warning"


def fit(model, X, candidates=None, **rest):
    """The fitted model, in a list; or those of a path, of which at least one was possible."""
    if candidates is None:
        return [model.fit(X, **rest)]
    found = fit_path(model, candidates, X, **rest)
    fitted = [one for one in found if not isinstance(one, ValueError)]
    if not fitted:
        raise found[0]
    return fitted


def one_thread(folder):
    """Chunks are computed here and now: threads would only cost time."""
    dask.config.set(scheduler="synchronous")


KINDS = {
    "svm+": svm_plus(lupi.SVMPlus), "svm2+": svm_plus(lupi.SVM2Plus), "svm-2k": svm_2k, "svr+": svr_plus, "one class": one_class,
    "ranking": ranker, "structured": structured, "wrappers": wrapper, "surrogate": surrogate, "landmarks": landmarks,
}  # fmt: skip
MAKERS = {name: make_with(build) for name, build in KINDS.items()} | {"columns": make_columns, "paths": make_path}
if da is not None:
    MAKERS["chunks"] = make_chunks
TARGETS = [
    Target(
        name,
        one_thread if name == "chunks" else (lambda folder: None),
        make,
        attack,
        (ValueError, TypeError),
        lambda case: 100_000,
    )
    for name, make in MAKERS.items()
]
