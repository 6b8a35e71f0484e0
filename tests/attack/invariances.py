"""Targets: every estimator on the same data in other units, in another order, with other labels and in other containers.

Each case fits one estimator twice, to the data before and after one of the `CHANGES`, and compares the predictions of new rows.
`FAMILIES` lists the methods, each with the changes that its definition does not allow for.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numba
import numpy as np
import pandas as pd
from attack.harness import Target
from attack.mutations import pick
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import lupi
from lupi.structured import Multiclass

try:
    import polars as pl
except ImportError:  # an extra
    pl = None

# Relative to the spread of the predictions.
LARGEST_DIFFERENCE = 1e-6
N_NEW, P, Q = 15, 4, 3


@dataclass(frozen=True)
class Data:
    """Training rows and new rows; `y` holds class codes, grades or numbers."""

    X: object
    Z: object
    y: np.ndarray
    new: object
    # What undoes the change in the predictions: the unit of the target, its origin, and the names of the classes.
    unit: float = 1.0
    origin: float = 0.0
    names: np.ndarray | None = None
    # Threads, and jobs of the estimators that have some.
    threads: int = 1


# ---------------------------------------------------------------- changes


def factors(rng, n):
    return 10.0 ** rng.uniform(-12, 12, n)


def units(rng, data):
    """Other units of every column."""
    factor = factors(rng, data.X.shape[1])
    return replace(data, X=data.X * factor, new=data.new * factor, Z=data.Z * factors(rng, data.Z.shape[1]))


def shift(rng, data):
    """Another origin of every column, up to 1e6 spreads away."""
    away = rng.uniform(-1e6, 1e6, data.X.shape[1]) * data.X.std(axis=0)
    Z = data.Z + rng.uniform(-1e6, 1e6, data.Z.shape[1]) * np.nanstd(data.Z, axis=0)
    return replace(data, X=data.X + away, new=data.new + away, Z=Z)


def together(rng, data):
    """The same other unit and origin of all columns, up to 1e6 spreads away."""
    (unit, other), (away, gone) = factors(rng, 2), rng.uniform(-1e6, 1e6, 2)
    X, new = ((block + away * data.X.std()) * unit for block in (data.X, data.new))
    return replace(data, X=X, new=new, Z=(data.Z + gone * np.nanstd(data.Z)) * other)


def together_stored(rng, data):
    """The same in sparse matrices."""
    return storage(rng, together(rng, data))


def target_unit(rng, data):
    """Another unit and origin of the target."""
    unit = float(factors(rng, 1)[0])
    origin = float(rng.uniform(-1e6, 1e6)) * unit * float(np.nanstd(data.y))
    return replace(data, y=data.y * unit + origin, unit=unit, origin=origin)


def rows(rng, data):
    """Training rows in another order."""
    order = rng.permutation(len(data.y))
    return replace(data, X=data.X[order], Z=data.Z[order], y=data.y[order])


def columns(rng, data):
    """Columns in another order."""
    order = rng.permutation(data.X.shape[1])
    return replace(data, X=data.X[:, order], new=data.new[:, order], Z=data.Z[:, rng.permutation(data.Z.shape[1])])


def labels(rng, data):
    """Other names of the classes, in another order."""
    known = np.unique(data.y[~np.isnan(data.y)]).astype(int)
    names = np.array(["", *"abcdefgh"], dtype=object)[1 + rng.permutation(8)[: known.max() + 1]]
    y = np.where(np.isnan(data.y), None, names[np.nan_to_num(data.y).astype(int)])
    return replace(data, y=y, names=names)


def stored(rng, block):
    """The same cells in a sparse matrix; of CSR also with some of them stored in parts."""
    kind = int(rng.integers(4))
    if kind < 3:
        return (sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix)[kind](block)
    cells = sparse.csr_array(block)
    # Halves of a double add up to it without a rounding error.
    parts = np.repeat(cells.data / 2, 2), np.repeat(cells.indices, 2), 2 * cells.indptr
    return sparse.csr_matrix(parts, shape=block.shape)


def storage(rng, data):
    """Sparse matrices."""
    gaps = np.isnan(data.Z).any()
    return replace(data, X=stored(rng, data.X), new=stored(rng, data.new), Z=data.Z if gaps else stored(rng, data.Z))


def new_storage(rng, data):
    """Sparse matrices in `predict` alone."""
    return replace(data, new=stored(rng, data.new))


def typed(rng, block):
    """The same whole numbers in another type."""
    if np.isnan(block).any():
        return block.astype(np.float32)
    small = np.isin(block, (0, 1)).all()
    return block.astype(pick(rng, (np.float32, np.int64, np.int32, np.int8, *(np.bool_,) * (3 * small))))


def dtypes(rng, data):
    """Other types of numbers."""
    return replace(data, X=typed(rng, data.X), new=typed(rng, data.new), Z=typed(rng, data.Z))


def contained(kind, block):
    """The same cells in another container or memory layout."""
    if kind == "fortran":
        return np.asfortranarray(block)
    if kind == "slices":
        return np.repeat(block, 2, axis=0)[::2]
    if kind == "lists":
        return block.tolist()
    names = [f"c{k}" for k in range(block.shape[1])]
    return pd.DataFrame(block, columns=names) if kind == "pandas" else pl.DataFrame(block, schema=names)


def containers(rng, data):
    """Other containers."""
    kinds = ("fortran", "slices", "lists", "pandas", *["polars"] * (pl is not None))
    kind, other = pick(rng, kinds), pick(rng, kinds)
    return replace(data, X=contained(kind, data.X), new=contained(kind, data.new), Z=contained(other, data.Z))


def threads(rng, data):
    """Two threads and two jobs."""
    return replace(data, threads=2)


CHANGES = {
    change.__name__: change
    for change in (
        units, shift, together, together_stored, target_unit, rows, columns, labels, storage, new_storage, dtypes,
        containers, threads,
    )
}  # fmt: skip


# ---------------------------------------------------------------- methods

# Changes of which a method is not independent by definition, with the reason. Machines that penalize coefficients in the units of
# X, and the epsilon of SVRPlus, are compared behind a StandardScaler.
FOLDS = {"rows"}  # folds are drawn by the numbers of the rows
NUMBERS = {"labels"}  # grades, and the outputs of Multiclass, are numbers
DENSE = {"storage", "new_storage", "together_stored"}  # sparse matrices are refused
# Coefficients are penalized in the units of the columns, or the joint features hold zeros.
RAW = {"together", "together_stored"}
SCALED = ("units", "shift", "target_unit")


@dataclass(frozen=True)
class Method:
    """An estimator; `target` is "classes", "numbers", "grades" (0, 1, 2 as numbers) or "none"."""

    build: Callable
    target: str = "classes"
    unlabeled: bool = False
    scale_free: bool = False
    excepted: frozenset = frozenset()

    def changes(self):
        """Names of the changes that leave its predictions as they are."""
        other = {"classes": {"target_unit"}, "numbers": {"labels"}}.get(self.target, {"target_unit", "labels"})
        return [name for name in CHANGES if name not in self.excepted | other]


def surrogate(kind, *args, target="classes", **params):
    return Method(lambda: kind(*args, random_state=0, **params), target, unlabeled=True, scale_free=True)


def kernels(kind, target="classes", **params):
    """A kernel machine with RBF kernels, and with linear ones."""
    return [
        Method(lambda: kind(tol=TOL, kernel="rbf", privileged_kernel="rbf", **params), target),
        Method(lambda: kind(tol=TOL, **LINEAR, **params), target, excepted=frozenset(RAW)),
    ]


def structured(kind, *args, **params):
    return Method(lambda: kind(*args, **params), "grades", excepted=frozenset(NUMBERS | DENSE | RAW))


def wrapper(kind, inner, target="classes", excepted=(), **params):
    return Method(lambda: kind(inner, **params), target, excepted=frozenset(RAW | set(excepted)))


def table(inner, target="classes"):
    return Method(lambda: lupi.tabular_model(inner), target, True, True, frozenset(DENSE))


TOL = 1e-13
LINEAR = {"kernel": "linear", "privileged_kernel": "linear"}
CLASSIFIER, REGRESSOR = lupi.SurrogateClassifier, lupi.SurrogateRegressor
LOGISTIC = LogisticRegression(tol=1e-12, solver="newton-cholesky")
RIDGE = Ridge(tol=1e-12)
TASKS = Multiclass(3, P), Multiclass(3, Q)
RBF = {"kernel": "rbf", "tol": TOL}
FAMILIES = {
    "surrogate of lines": [
        surrogate(CLASSIFIER, "ridge"),
        surrogate(REGRESSOR, "ridge", target="numbers"),
        surrogate(CLASSIFIER, ["ridge", "rbf"]),
        surrogate(REGRESSOR, ["ridge", "rbf"], target="numbers"),
        replace(surrogate(REGRESSOR, RIDGE, teacher=RIDGE, target="numbers"), scale_free=False, excepted=FOLDS | RAW),
    ],
    "surrogate": [surrogate(CLASSIFIER), surrogate(REGRESSOR, target="numbers")],
    "svm+": [*kernels(lupi.SVMPlus), *kernels(lupi.SVMPlus, correction="labeled")],
    "svm2+": [*kernels(lupi.SVM2Plus), *kernels(lupi.SVM2Plus, correction="labeled")],
    "svm-2k": kernels(lupi.SVM2K),
    "svr+": kernels(lupi.SVRPlus, "numbers"),
    # Linear in X as well, its optimum is 0 for standardized columns.
    "one class": [
        Method(lambda: lupi.OneClassSVMPlus(tol=TOL), "none"),
        Method(lambda: lupi.OneClassSVMPlus(privileged_kernel="linear", tol=TOL), "none", excepted=frozenset(RAW)),
    ],
    "ranking": [
        *kernels(lupi.RankTransfer, "grades"),
        Method(lambda: lupi.RankSVM(tol=TOL), "grades", excepted=frozenset(RAW)),
    ],
    "structured": [
        structured(lupi.StructuralSVM, TASKS[0], tol=1e-12, random_state=0),
        structured(lupi.StructuralSVMPlus, *TASKS, tol=1e-12, random_state=0),
        structured(lupi.JKSE, TASKS[0], **RBF),
        structured(lupi.JKSEPlus, TASKS[0], privileged_kernel="rbf", **RBF),
    ],
    "wrappers": [
        # The default teacher stops at scikit-learn's tolerance of 1e-4.
        wrapper(lupi.Distillation, LOGISTIC, teacher=LOGISTIC),
        wrapper(lupi.Distillation, RIDGE, "numbers"),
        wrapper(lupi.KnowledgeTransfer, LOGISTIC, excepted=FOLDS, random_state=0),
        wrapper(lupi.KnowledgeTransfer, RIDGE, "numbers", excepted=FOLDS, random_state=0),
    ],
    "tables": [table(CLASSIFIER("ridge")), table(REGRESSOR("ridge"), "numbers"), table(CLASSIFIER(random_state=0))],
}


# ---------------------------------------------------------------- cases


def block(rng, n, p, kind):
    """Cells: normal, with far values, whole numbers, yes or no, mostly 0."""
    cells = rng.normal(size=(n, p))
    if kind == "far":
        cells[rng.integers(0, n, 3), rng.integers(0, p, 3)] *= 1e3
    elif kind == "whole":
        cells = np.round(2 * cells)
    elif kind == "binary":
        cells = (cells > 0).astype(float)
    elif kind == "sparse":
        cells *= rng.random((n, p)) < 0.4
    cells[:2] = [[0.0], [1.0]]  # no column is constant
    return cells


def make_with(methods):
    def make(rng, _):
        rng = np.random.default_rng(0) if rng is None else rng
        method = pick(rng, methods)
        name = pick(rng, method.changes())
        kinds = ("whole", "binary") if name == "dtypes" else ("normal", "normal", "far", "whole", "binary", "sparse")
        n = int(rng.integers(30, 60))
        X = block(rng, n + N_NEW, P, pick(rng, kinds))
        Z = block(rng, n, Q, pick(rng, kinds)) + (X[:n, :Q] if name != "dtypes" else 0)
        score = X[:n, 0] + Z[:, 0] + rng.normal(size=n)
        y = score
        if method.target != "numbers":
            k = 3 if method.target == "grades" else int(rng.integers(2, 4))
            y = np.searchsorted(np.quantile(score, np.arange(1, k) / k), score).astype(float)
        if method.unlabeled and rng.random() < 0.5:
            y[rng.random(n) < 0.5] = np.nan
            y[:3] = score[:3] if method.target == "numbers" else np.arange(3) % k
        if rng.random() < 0.3:
            Z[5:] = np.where(rng.random(n - 5) < 0.2, np.nan, 1.0)[:, None] * Z[5:]
        data = Data(X[:n], Z, y, X[n:])
        return method, name, data, CHANGES[name](rng, data)

    return make


def attack(case, _):
    """Predictions of new rows do not change."""
    method, name, data, changed = case
    scaled = name in SCALED and not method.scale_free
    (expected, error), (found, other) = (predictions(method, one, scaled) for one in (data, changed))
    # A margin is 1; machines whose value is the same for all rows have no other unit.
    least = 1e-3 * np.nanstd(data.y) if method.target == "numbers" else 1.0
    difference = np.abs(found - expected).max() / max(np.ptp(expected), least)
    if LARGEST_DIFFERENCE < difference <= max(error, other):
        return f"{name}, not converged"
    assert difference <= LARGEST_DIFFERENCE, f"{name}: {difference:.2g} spreads"
    return name


def predictions(method, data, scaled):
    """Values of the new rows, of shape (n, k), in the unit and the order of the original data; and their error.

    A machine that warns that it has not converged is off by about the root of its gap, of which half the squared norm of the
    error is a part; others have no error.
    """
    X, Z, y, new = data.X, data.Z, data.y, data.new
    if scaled:
        scaler = StandardScaler().fit(X)
        X, new, Z = scaler.transform(X), scaler.transform(new), StandardScaler().fit_transform(Z)
    center, unit = (np.nanmean(y), np.nanstd(y)) if scaled and method.target == "numbers" else (0.0, 1.0)
    if method.target == "numbers":
        y = (y - center) / unit
    elif y.dtype.kind == "f" and not np.isnan(y).any():
        y = y.astype(int)
    model = method.build()
    if "n_jobs" in model.get_params():
        model.set_params(n_jobs=data.threads)
    target = {"y": y, "privileged": Z}
    if method.target == "none":
        del target["y"]
    if hasattr(model, "task"):
        target["Y"] = target.pop("y")
    if isinstance(model, lupi.RankSVM | lupi.StructuralSVM) or type(model) is lupi.JKSE:
        del target["privileged"]
    with warnings.catch_warnings(record=True) as caught, threadpool_limits(data.threads):
        warnings.simplefilter("always")
        numba.set_num_threads(data.threads)
        values = values_of(model.fit(X, **target), new, method.target == "numbers")
    warned = any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    error = np.sqrt(model.dual_gap_) if warned else 0.0
    if method.target == "numbers":
        return ((values * unit + center) - data.origin) / data.unit, error
    if method.target == "classes":
        values = np.column_stack([-values, values]) if values.ndim == 1 else values
        if data.names is not None:
            values = values[:, [list(model.classes_).index(name) for name in data.names]]
    return values, error


def values_of(model, new, numbers):
    """Numbers, decision values, or scores of the outputs."""
    if numbers:
        return model.predict(new)
    if isinstance(model, lupi.JKSE):
        return np.column_stack([model.score_pairs(new, np.full(N_NEW, k)) for k in range(3)])
    if hasattr(model, "task"):
        return np.asarray(new, dtype=float) @ model.coef_.reshape(3, -1).T
    for way in ("decision_function", "score_samples", "predict_proba"):
        if hasattr(model, way):
            return np.asarray(getattr(model, way)(new))
    return np.asarray(model.predict(new))


TARGETS = [
    Target(name, lambda folder: None, make_with(methods), attack, (), lambda case: 100_000)
    for name, methods in FAMILIES.items()
]
