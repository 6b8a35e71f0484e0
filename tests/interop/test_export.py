"""ONNX: the same values as the model's, on a thousand new rows."""

import inspect

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC, LinearSVC

import lupi
from lupi import (
    SVM2K,
    Distillation,
    KnowledgeTransfer,
    OneClassSVMPlus,
    PrivilegedColumns,
    RankSVM,
    RankTransfer,
    RankTransferCV,
    SurrogateClassifier,
    SurrogateRegressor,
    SVM2Plus,
    SVMPlus,
    SVRPlus,
)

KERNELS = ("linear", "rbf", "poly", "sigmoid", "chi2", "laplacian", "intersection")
rng = np.random.default_rng(0)
X, Z = rng.random((70, 5)), rng.random((70, 3))
TWO = (X[:, 0] + Z[:, 0] > 1).astype(int)
THREE = np.array(["low", "middle", "high"])[np.digitize(X[:, 0] + Z[:, 0], [0.8, 1.2])]
LARGEST = np.argmax(X[:, :3], axis=1)  # each class is linearly separable from the others
NUMBERS = X[:, 0] - X[:, 1] ** 2 + 0.1 * Z[:, 0]
# Some rows lie outside of where the features were in training, so that clipping counts.
NEW = 1.5 * rng.random((1000, 5))


def kernel_models():
    for kernel in KERNELS:
        options = {"gamma": 0.05, "coef0": 0.5, "degree": 2, "kernel": kernel}
        if kernel == "sigmoid":  # other parameters make it indefinite here
            options |= {"gamma": 1e-3, "coef0": 0.0}
        yield SVM2Plus(**options), TWO
        yield OneClassSVMPlus(**options), None
        yield RankSVM(**options), THREE == "high"
    yield SVMPlus(), THREE
    yield SVMPlus(kernel="linear", privileged_kernel="linear", kappa=1.0), LARGEST
    yield SVM2K(kernel="poly"), TWO == 1
    yield SVRPlus(), NUMBERS
    yield SVRPlus(kernel="linear", privileged_kernel="linear"), NUMBERS
    yield RankSVM(kernel="rbf", n_components=20, random_state=0), NUMBERS
    yield RankTransfer(kernel="rbf"), TWO
    yield RankTransfer(), TWO


def surrogate_models():
    for y in (TWO, THREE):
        yield SurrogateClassifier(random_state=0), y
        yield SurrogateClassifier("ridge"), y
        yield SurrogateClassifier(make_pipeline(StandardScaler(), LogisticRegression()), random_state=0), y
        yield SurrogateClassifier(Ridge(), random_state=0), y
    yield SurrogateRegressor(random_state=0), NUMBERS
    yield SurrogateRegressor(make_pipeline(MinMaxScaler(), LinearRegression()), random_state=0), NUMBERS
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=3)
    yield SurrogateRegressor(search, random_state=0), NUMBERS


def wrapped_models():
    yield KnowledgeTransfer(LogisticRegression(), random_state=0), THREE
    yield KnowledgeTransfer(Ridge(), passthrough=False, random_state=0), NUMBERS
    yield KnowledgeTransfer(LinearSVC(), make_pipeline(StandardScaler(), Ridge()), random_state=0), TWO
    yield KnowledgeTransfer(SVM2Plus(), random_state=0), TWO
    yield Distillation(LogisticRegression()), TWO
    yield Distillation(RidgeClassifier()), THREE
    yield make_pipeline(StandardScaler(with_std=False), MinMaxScaler(), SVM2Plus()), TWO
    yield make_pipeline(MaxAbsScaler(), "passthrough", SurrogateClassifier(random_state=0)), TWO
    yield GridSearchCV(SVM2Plus(), {"C": [0.1, 1.0]}, cv=2), TWO
    yield RankTransferCV([0.1, 1.0], [1.0], cv=2), TWO
    yield SVMPlus(n_components=20, random_state=0), THREE


MODELS = [*kernel_models(), *surrogate_models(), *wrapped_models()]


def test_every_predictor_is_tried():
    tried = {type(getattr(model, "estimator", model)).__name__ for model, _ in MODELS} | {
        type(model).__name__ for model, _ in MODELS
    }
    estimators = {
        name
        for name in lupi.__all__
        if inspect.isclass(found := getattr(lupi, name)) and issubclass(found, BaseEstimator)
    }
    # Outputs with structure are searched for, not computed; the table of columns has a test of its own.
    searched = {"StructuralSVM", "StructuralSVMPlus", "JKSE", "JKSEPlus"}
    assert estimators - tried == searched | {"PrivilegedColumns"}


@pytest.fixture(scope="module", params=range(len(MODELS)), ids=lambda k: f"{k}-{type(MODELS[k][0]).__name__}")
def fitted(request):
    model, y = MODELS[request.param]
    if isinstance(model, RankSVM):
        return model.fit(X, y)
    name = f"{model.steps[-1][0]}__privileged" if hasattr(model, "steps") else "privileged"
    return model.fit(X, y, **{name: Z})


def values(model, data):
    """The numbers behind a prediction."""
    return model.decision_function(data) if hasattr(model, "decision_function") else model.predict(data)


def outputs(model, data, **options):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    with lupi.keep_privileged():
        content = lupi.to_onnx(model, **options).SerializeToString()
    session = runtime.InferenceSession(content)
    return dict(zip([end.name for end in session.get_outputs()], session.run(None, {"X": data})))


def test_onnx_gives_the_same_values(fitted):
    found = outputs(fitted, NEW)
    wanted = values(fitted, NEW)
    name = "decision_function" if "decision_function" in found else "prediction"
    assert found[name].shape == wanted.shape
    assert np.abs(found[name] - wanted).max() < 1e-5
    if "label" in found:
        clear = np.abs(wanted) > 1e-5 if wanted.ndim == 1 else np.diff(np.sort(wanted, axis=1)[:, -2:])[:, 0] > 1e-5
        assert clear.mean() > 0.9
        assert (found["label"] == fitted.predict(NEW))[clear].all()
    assert ("probabilities" in found) == hasattr(fitted, "predict_proba")
    if "probabilities" in found:
        assert np.abs(found["probabilities"] - fitted.predict_proba(NEW)).max() < 1e-5


def test_precomputed_and_sparse():
    gram, new = X @ X.T, NEW @ X.T
    for model in (SVM2Plus(kernel="precomputed").fit(gram, TWO), RankSVM(kernel="precomputed").fit(gram, TWO)):
        np.testing.assert_allclose(outputs(model, new)["decision_function"], model.decision_function(new), atol=1e-8)
    model = SVM2Plus().fit(sparse.csr_matrix(X), TWO, privileged=Z)
    np.testing.assert_allclose(outputs(model, NEW)["decision_function"], model.decision_function(NEW), atol=1e-8)


def test_single_precision():
    model = SurrogateClassifier("ridge").fit(X, TWO, privileged=Z)
    found = outputs(model, NEW.astype(np.float32), dtype="float32")
    assert found["decision_function"].dtype == np.float32
    assert np.abs(found["decision_function"] - model.decision_function(NEW)).max() < 1e-4
    with pytest.raises(ValueError, match="'float64' or 'float32', got 'half'"):
        lupi.to_onnx(model, dtype="half")


def test_column_names_and_file(tmp_path):
    frame = pd.DataFrame(np.hstack([X, Z]), columns=[*"abcde", "u", "v", "w"])
    model = PrivilegedColumns(SurrogateClassifier("ridge"), columns=["u", "v", "w"]).fit(frame, TWO)
    new = pd.DataFrame(NEW, columns=list("abcde"))
    np.testing.assert_array_equal(outputs(model, NEW)["label"], model.predict(new))
    onnx = pytest.importorskip("onnx")
    lupi.to_onnx(model, tmp_path / "model.onnx")
    (names,) = [p.value for p in onnx.load(tmp_path / "model.onnx").metadata_props if p.key == "feature_names"]
    assert names.split("\n") == list("abcde")


def table_models():
    for estimator, y in (
        (SurrogateClassifier("ridge"), THREE),
        (SVM2Plus(), np.where(TWO, "yes", "no")),
        (Ridge(), NUMBERS),
        (SurrogateRegressor("ridge"), 100 + 5 * NUMBERS),
        (RankSVM(), TWO),
        (LogisticRegression(), TWO == 1),
    ):
        yield lupi.tabular_model(estimator, privileged="hidden"), y


@pytest.mark.parametrize("case", range(6))
def test_the_inputs_of_a_tabular_model_are_its_columns(case):
    runtime, _ = pytest.importorskip("onnxruntime"), pytest.importorskip("onnx")
    model, y = list(table_models())[case]
    frame = pd.DataFrame(X[:, :2], columns=["n0", "size of a leaf"]).assign(
        town=np.where(X[:, 2] > 0.6, "Ulm", "Bonn"), nothing=pd.Series([None] * 70, dtype=object),
        day=pd.to_datetime("2024-01-01") + pd.to_timedelta(np.arange(70) % 9, "D"), hidden=Z[:, 0],
    )  # fmt: skip
    frame.loc[::7, ["n0", "town", "day"]] = None
    model = (GridSearchCV(model, {"standardize": [True]}, cv=2) if case == 0 else model).fit(frame, y)
    session = runtime.InferenceSession(lupi.to_onnx(model).SerializeToString())
    given = frame.drop(columns="hidden").assign(day=(frame["day"] - pd.Timestamp(0)).dt.total_seconds() / 86400)
    assert {end.name for end in session.get_inputs()} == set(given)
    feed = {end.name: given[[end.name]].to_numpy() for end in session.get_inputs()}
    feed["town"] = frame[["town"]].fillna("").to_numpy(dtype=object)
    feed["nothing"] = np.full((70, 1), np.nan)
    found = dict(zip([end.name for end in session.get_outputs()], session.run(None, feed)))
    if "label" in found:
        assert found["label"].tolist() == model.predict(frame).tolist()
    name = "prediction" if "prediction" in found else "decision_function"
    wanted = model.predict(frame) if name == "prediction" else model.decision_function(frame)
    np.testing.assert_allclose(found[name], wanted, rtol=1e-6, atol=1e-6)


def test_free_text_is_not_exported():
    frame = pd.DataFrame({"note": [f"a leaf of {k} centimeters" for k in range(70)], "n": X[:, 0]})
    model = lupi.tabular_model(Ridge()).fit(frame, NUMBERS)
    with pytest.raises(TypeError, match="free text of the column 'note' cannot be exported; leave it out"):
        lupi.to_onnx(model)


def own_kernel(A, B):
    return A @ B.T


def test_a_function_as_kernel():
    model = SVM2Plus(kernel=own_kernel).fit(X, TWO, privileged=Z)
    pytest.importorskip("onnx")
    with pytest.raises(TypeError, match="a custom kernel function cannot be written"):
        lupi.to_onnx(model)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            KnowledgeTransfer(SVC(), random_state=0),
            "a SVC cannot be exported; .* as can linear estimators such as Ridge",
        ),
        (SurrogateClassifier(RandomForestClassifier(5, random_state=0)), "a RandomForestClassifier cannot be exported"),
        (Distillation(RandomForestClassifier(5, random_state=0)), "a RandomForestClassifier cannot be exported"),
        (make_pipeline(PolynomialFeatures(), LogisticRegression()), "a PolynomialFeatures cannot be exported"),
        (RandomForestRegressor(5, random_state=0), "lupi.save keeps any model"),
    ],
)
def test_what_cannot_be_exported(model, message):
    model.fit(
        X,
        TWO,
        **({"privileged": Z} if hasattr(model, "get_metadata_routing") and "lupi" in type(model).__module__ else {}),
    )
    with pytest.raises(TypeError, match=message), lupi.keep_privileged():
        lupi.to_onnx(model)


def test_only_fitted_models_are_exported():
    from sklearn.exceptions import NotFittedError

    for model in (SVM2Plus(), SurrogateRegressor(), RankSVM(), KnowledgeTransfer(Ridge()), OneClassSVMPlus()):
        with pytest.raises(NotFittedError):
            lupi.to_onnx(model)
