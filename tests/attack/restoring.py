"""Targets: an attacker who has what was saved of a model, X and y, and wants the privileged cells.

Each case fits one method to random data, saves it in every way, and tries to restore the cells from all numbers that were saved:

- *read*: a saved number is a cell, a standardized cell, or a cell plus, minus, times or over a known value of its row. By
  chance one in 1e9 comparisons is; more than one cell is a finding. Nor is a saved number a statistic of a privileged column.
- *solved*: cells are linear in numbers that each row has, such as the slack of a support vector, and the factor and the
  constant are among the saved numbers.
- *predicted*: least squares, left-out, of each privileged column on the numbers that each row has. All cells but one are given
  here, which the attacker does not have. A finding is an error of less than half of what X and y alone leave, and of what the same
  numbers tell if the privileged rows were shuffled before the fit.

A model that is as flexible as there are rows (``memorizes``) tells with its predictions of training rows what it learned about
these, to whoever can query it. Its file must not tell more: predictions and coefficients are given there as X and y are. What
the predictions themselves tell is counted as "by predictions", and is no finding (SECURITY.md says so).
"""

import io
import pickle
import re
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from attack.harness import Target
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor

import lupi
from lupi.structured import Multiclass

# Unlike the numbers of classes and of privileged columns.
P = 5
# Relative differences of a number that is read, and of a statistic.
READ, STATISTIC = 1e-9, 1e-12
# Parts of the spread of a column: residuals of an exact line, and of one that is not.
EXACT = 1e-6
# A left-out squared error below this share of another is better than chance.
BETTER = 0.5
LINEAR = {"kernel": "linear", "privileged_kernel": "linear"}


@dataclass(frozen=True)
class Method:
    """A model for p decision and q privileged columns and k classes, and whether it remembers single rows."""

    build: Callable
    memorizes: bool = True
    kind: str = "classes"
    onnx: bool = True
    several: bool = False


def machine(kind, y="classes", **params):
    linear = params.get("kernel") == "linear"
    return Method(lambda q, k: kind(tol=1e-10, **params), not linear, y, several=True)


def plain(build, **options):
    return Method(build, False, **options)


METHODS = {
    "svm+": machine(lupi.SVMPlus),
    "svm+, linear correction": machine(lupi.SVMPlus, privileged_kernel="linear"),
    "svm+ labeled": machine(lupi.SVMPlus, correction="labeled"),
    "svm+ linear": machine(lupi.SVMPlus, **LINEAR),
    "svm+ landmarks": machine(lupi.SVMPlus, n_components=20, random_state=0),
    "svm2+": machine(lupi.SVM2Plus),
    "svm2+, linear correction": machine(lupi.SVM2Plus, privileged_kernel="linear"),
    "svm2+ labeled": machine(lupi.SVM2Plus, correction="labeled"),
    "svm2+ linear": machine(lupi.SVM2Plus, **LINEAR),
    "svm-2k": machine(lupi.SVM2K),
    "svm-2k linear": machine(lupi.SVM2K, **LINEAR),
    "svr+": machine(lupi.SVRPlus, "numbers"),
    "svr+ linear": machine(lupi.SVRPlus, "numbers", **LINEAR),
    "one class": machine(lupi.OneClassSVMPlus, "none"),
    "rank": plain(lambda q, k: lupi.RankTransfer(), kind="grades"),
    "rank rbf": Method(lambda q, k: lupi.RankTransfer(kernel="rbf", privileged_kernel="rbf"), kind="grades"),
    "rank cv": plain(lambda q, k: lupi.RankTransferCV([0.1], [0.1, 1.0], cv=2), kind="grades"),
    "jkse": Method(
        lambda q, k: lupi.JKSEPlus(Multiclass(k, P), kernel="rbf", privileged_kernel="rbf"), kind="outputs", onnx=False
    ),
    "structural": plain(
        lambda q, k: lupi.StructuralSVMPlus(Multiclass(k, P), Multiclass(k, q), random_state=0), kind="outputs", onnx=False
    ),
    "surrogate": Method(lambda q, k: lupi.SurrogateClassifier(random_state=0)),
    "surrogate of ridge": plain(lambda q, k: lupi.SurrogateClassifier("ridge")),
    "surrogate of logistic regression": plain(lambda q, k: lupi.SurrogateClassifier(LogisticRegression(), random_state=0)),
    "surrogate of numbers": Method(lambda q, k: lupi.SurrogateRegressor(random_state=0), kind="numbers"),
    "surrogate of numbers, ridge": plain(lambda q, k: lupi.SurrogateRegressor("ridge"), kind="numbers"),
    "surrogate of neighbors": Method(
        lambda q, k: lupi.SurrogateRegressor(KNeighborsRegressor(algorithm="brute"), random_state=0), kind="numbers", onnx=False
    ),
    "distillation": plain(lambda q, k: lupi.Distillation(LogisticRegression())),
    "distillation of numbers": plain(lambda q, k: lupi.Distillation(Ridge()), kind="numbers"),
    "columns": plain(lambda q, k: lupi.PrivilegedColumns(lupi.SVM2Plus(**LINEAR), columns=slice(P, P + q)), kind="table"),
    "columns, rbf": Method(lambda q, k: lupi.PrivilegedColumns(lupi.SVM2Plus(), columns=slice(P, P + q)), kind="table"),
    "table": plain(lambda q, k: lupi.tabular_model(lupi.SurrogateClassifier("ridge")), onnx=False),
}  # fmt: skip


@dataclass(frozen=True)
class Data:
    """Decision features, target and privileged features; some methods get these as one table per column."""

    X: np.ndarray
    y: np.ndarray
    Z: np.ndarray
    several: bool


# ---------------------------------------------------------------- what was saved


def numbers_in_archive(content):
    """Arrays and numbers of a zip archive, of archives within it and of its JSON."""
    found = []
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in archive.namelist():
            member = archive.read(name)
            if member.startswith(b"PK"):
                found += numbers_in_archive(member)
            elif member.startswith(b"\x93NUMPY"):
                found.append(np.load(io.BytesIO(member), allow_pickle=False))
            else:
                found += numbers_in_text(member.decode())
    return found


def numbers_in_text(text):
    return [np.array(re.findall(r"-?\d+\.\d+(?:[eE][-+]?\d+)?", text), dtype=float)]


def numbers_in_object(value, seen=None):
    """Arrays and numbers of an object that was unpickled, however deep; state that C code keeps included."""
    seen = {} if seen is None else seen
    if value is None or id(value) in seen or isinstance(value, str | bytes | type):
        return []
    seen[id(value)] = value
    if isinstance(value, int | float | np.generic):
        return [np.atleast_1d(value)]
    if sparse.issparse(value):
        return [value.toarray()]
    if isinstance(value, np.ndarray):
        if value.dtype.names:
            return [np.array(value[name]) for name in value.dtype.names]
        return [value] if value.dtype != object else numbers_in_object(value.ravel().tolist(), seen)
    inner = value
    if isinstance(value, dict):
        inner = list(value.values())
    elif not isinstance(value, list | tuple | set):
        inner = [vars(value) if hasattr(value, "__dict__") else None]
        inner += [value.__getstate__()] if type(value).__module__.endswith("_tree") else []
    return [array for part in inner for array in numbers_in_object(part, seen)]


def numbers_in_graph(graph):
    from onnx import numpy_helper

    found = [numpy_helper.to_array(constant) for constant in graph.graph.initializer]
    attributes = [attribute for node in graph.graph.node for attribute in node.attribute]
    return (
        found + [np.array([*one.floats, one.f]) for one in attributes] + [np.array([*one.ints]) for one in attributes]
    )


def saved(model, onnx):
    """A model from its pickle, and all numbers in its file, its pickle and its ONNX graph."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        lupi.save(model, path)
        found = numbers_in_archive(path.read_bytes())
    again = pickle.loads(pickle.dumps(model))
    found += numbers_in_object(again)
    if onnx:
        found += numbers_in_graph(lupi.to_onnx(model))
    return again, [array.astype(float) for array in found if array.dtype.kind in "fiub"]


# ---------------------------------------------------------------- attacks


def among(numbers, values, tolerance):
    """Which values, other than 0 and short decimal ones, are among sorted numbers."""
    place = np.clip(np.searchsorted(numbers, values), 1, len(numbers) - 1)
    distance = np.minimum(np.abs(numbers[place] - values), np.abs(numbers[place - 1] - values))
    return (distance <= tolerance * np.abs(values)) & (np.round(values, 3) != values)


def cells_read(numbers, data):
    """How many cells are a saved number, or that and a known value of their row."""
    known, cells = np.column_stack([data.X, np.where(data.y == 0, 1, data.y)])[:, None, :], data.Z[:, :, None]
    scaled = (cells - data.Z.mean(axis=0)[:, None]) / data.Z.std(axis=0)[:, None]
    forms = [cells, scaled, cells + known, cells - known, cells * known, cells / known]
    return int(among(numbers, np.concatenate(forms, axis=2), READ).any(axis=2).sum())


def statistics_of(Z):
    """Means, spreads and the like of privileged columns, and kernel widths from them."""
    variances = np.array([Z.var(), *Z.var(axis=0)])
    found = [
        np.sum(Z, axis=0),
        *(np.quantile(Z, share, axis=0) for share in (0, 0.5, 1)),
        Z.mean(axis=0),
        Z.std(axis=0),
    ]
    return np.concatenate([*found, variances, 1 / variances, 1 / (Z.shape[1] * variances)])


def row_numbers(arrays, X):
    """Columns with a number for each row: arrays as long as X or some of its rows, which are saved, and functions of P weights."""
    n, found = len(X), [np.zeros((len(X), 0))]
    # ONNX has the rows as columns, and their squared norms.
    places = [match_rows(array, X) or match_rows(array.T, X) for array in arrays]
    known = {place for place in places if place is not None and len(place) != n}
    norms = np.sort((X**2).sum(axis=1))
    for array, of_X in zip(arrays, places):
        of_X = of_X or among(norms, array, 1e-12).all()
        if not of_X and array.ndim in (1, 2) and 0 < array.size < 100 * n:
            table = array.reshape(len(array), -1)
            for columns in (table, table.T):
                if len(columns) in (n, P):
                    found.append(columns if len(columns) == n else X @ columns)
                for place in known:
                    if len(place) == len(columns):
                        found.append(np.zeros((n, columns.shape[1])))
                        found[-1][list(place)] = columns
    return np.unique(np.hstack(found), axis=1)


def match_rows(table, X):
    """Positions in X of the rows of a table; None if one is not there, and for few rows."""
    if table.ndim != 2 or not table.shape[1] == P < len(table):
        return None
    same = (table[:, None, :] == X[None, :, :]).all(axis=2)
    return tuple(same.argmax(axis=1)) if same.any(axis=1).all() else None


def with_products(columns, y):
    """Columns, and their products with the signs of each class."""
    signs = [np.where(y == label, 1.0, -1.0)[:, None] for label in np.unique(y)[1:3]]
    return np.hstack([columns, *(columns * sign for sign in signs)])


def left_out_errors(features, Z):
    """Left-out squared errors of each column by least squares, relative to its variance."""
    features = np.column_stack([np.ones(len(Z)), features])
    scale = np.abs(features).max(axis=0)
    U, s, _ = np.linalg.svd(features[:, scale > 0] / scale[scale > 0], full_matrices=False)
    U = U[:, s > 1e-9 * s[0]]
    left, center = 1 - np.sum(U**2, axis=1)[:, None], Z - Z.mean(axis=0)
    # A row through which the fit passes whatever its value is predicted by the mean.
    errors = np.where(left > 1e-9, (Z - U @ (U.T @ Z)) / np.maximum(left, 1e-9), center)
    return np.mean(errors**2, axis=0) / Z.var(axis=0)


def is_solved(numbers, model, data):
    """Whether a column is a line in the slack of support vectors, 1 - y f - t a, with the factor and constant of saved numbers."""
    a, y, Z = row_numbers(expansions_of(model, ("support_vectors_", "dual_coef_")), data.X), data.y, data.Z
    if Z.shape[1] > 1 or a.shape[1] != 1 or len(np.unique(y)) != 2 or np.count_nonzero(a) < 9:
        return False
    a, f, sign = a[:, 0], values_of(model, data.X)[:, 0], np.where(y == y.max(), 1.0, -1.0)
    support = a != 0
    features = np.column_stack([np.ones(len(Z)), sign * f, sign * a])[support]
    constant, slope, _ = line = np.linalg.lstsq(features, Z[support, 0], rcond=None)[0]
    if np.abs(features @ line - Z[support, 0]).max() > EXACT * Z.std():
        return False
    # z = (1 - y f - t a - b) / v
    factor = -1 / slope
    return bool(among(numbers, np.array([factor, 1 - constant * factor]), EXACT).all())


# ---------------------------------------------------------------- cases


def make(rng, _, number):
    """A method and its data; the number of rows is like no other size of a model."""
    name = list(METHODS)[number % len(METHODS)]
    rng = np.random.default_rng(0) if rng is None else rng
    n, q, k = int(rng.integers(41, 60)), int(rng.integers(1, 4)), int(rng.integers(2, 4))
    Z = rng.normal(size=(n, q)) * rng.uniform(0.5, 2, q) + rng.uniform(-3, 3, q)
    score = (Z - Z.mean(axis=0)).sum(axis=1)
    X = 0.7 * score[:, None] + rng.normal(size=(n, P))
    y = score + 0.3 * rng.normal(size=n)
    if METHODS[name].kind != "numbers":
        y = np.searchsorted(np.quantile(y, np.arange(1, k) / k), y).astype(float)
    return name, Data(X, y, Z, bool(rng.random() < 0.3)), rng.permutation(n)


def fitted(method, data, Z):
    """The model, and the rows that it predicts."""
    model, X = method.build(Z.shape[1], len(np.unique(data.y))), data.X
    y = data.y if method.kind == "numbers" else data.y.astype(int)
    given = {"privileged": np.split(Z, Z.shape[1], axis=1) if data.several and method.several else Z}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if method.kind == "none":
            return model.fit(X, **given)
        return model.fit(np.hstack([X, Z]), y) if method.kind == "table" else model.fit(X, y, **given)


def values_of(model, X):
    """What queries about rows tell."""
    if hasattr(model, "score_pairs"):
        return np.column_stack([model.score_pairs(X, np.full(len(X), label)) for label in range(2)])
    way = next((way for way in ("decision_function", "predict") if hasattr(model, way)), None)
    return np.asarray(getattr(model, way)(X), dtype=float).reshape(len(X), -1)


ROWS = ("support_", "support_vectors_", "landmarks_", "X_fit_", "_fit_X", "support_features_")


def expansions_of(model, names=(*ROWS, "dual_coef_", "coef_", "_y")):
    """Rows and coefficients of functions that are sums over training rows: their values determine these."""
    return [array for part in parts_of(model) for name in names for array in numbers_in_object(vars(part).get(name))]


def parts_of(value):
    if isinstance(value, BaseEstimator):
        return [value, *parts_of(list(vars(value).values()))]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [part for one in inner for part in parts_of(one)]


def attack(case, _):
    """No cell is read, solved for, or predicted better than by chance."""
    name, data, order = case
    method, Z = METHODS[name], data.Z
    try:
        model, arrays = saved(fitted(method, data, Z), method.onnx)
    except TypeError as error:
        if "its only privileged column could be computed" in str(error):
            return "refused"
        raise
    numbers = np.unique(np.concatenate([array.ravel() for array in arrays]))
    assert cells_read(numbers, data) <= 1, f"{name}: {cells_read(numbers, data)} of {Z.size} cells can be read"
    assert not among(numbers, statistics_of(Z), STATISTIC).any(), f"{name}: a statistic of a privileged column is saved"
    told = np.hstack([values_of(model, data.X), row_numbers(expansions_of(model), data.X)])
    assert not is_solved(numbers, model, data), f"{name}: cells can be solved for"
    start = with_products(np.column_stack([data.X, data.y]), data.y)
    asked = np.hstack([start, with_products(told, data.y)])
    base = asked if method.memorizes else start
    chance, errors = np.minimum(left_out_errors(start, Z), 1), left_out_errors(with_rows(base, arrays, data), Z)
    if (errors < BETTER * np.minimum(chance, left_out_errors(base, Z))).any():
        _, others = saved(fitted(method, data, Z[order]), method.onnx)
        control = np.minimum(chance, left_out_errors(with_rows(base, others, data), Z))
        assert (errors >= BETTER * control).all(), f"{name}: left-out errors {errors}, by X and y {chance}"
    support = told.any(axis=1) if told.shape[1] == 1 else told[:, 1:].any(axis=1)
    told_of_support = left_out_errors(asked[support], Z[support]) < BETTER * np.minimum(
        left_out_errors(start[support], Z[support]), 1
    )
    return "by predictions" if (told_of_support | (left_out_errors(asked, Z) < BETTER * chance)).any() else "nothing"


def with_rows(base, arrays, data):
    """The columns that are known, and those that arrays have for the rows, unless these follow from the former."""
    more = with_products(row_numbers(arrays, data.X), data.y)
    known = np.column_stack([np.ones(len(base)), base])
    rest = more - known @ np.linalg.lstsq(known, more, rcond=1e-12)[0]
    return np.hstack(
        [base, more[:, np.abs(rest).max(axis=0, initial=0) > 1e-6 * np.abs(more).max(axis=0, initial=1e-300)]]
    )


TARGETS = [Target("restoring", lambda folder: None, make, attack, (), lambda case: 10**6)]
