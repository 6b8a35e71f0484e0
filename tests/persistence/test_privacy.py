"""No file and no pickle holds a privileged value: every estimator is fitted on marked values, and what it leaves is searched."""

import copy
import inspect
import pickle
import warnings

import numpy as np
import pytest
from marks import marked_numbers, marks_in, standardized
from numpy.testing import assert_allclose
from sklearn.ensemble import RandomForestRegressor
from sklearn.impute import KNNImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier

import lupi
from lupi.privacy import MODEL_PARTS, WithoutPrivilegedRows
from lupi.structured import Multiclass
from lupi.tabular.model import TabularModel

N = 36
RNG = np.random.default_rng(5)
Y = np.arange(N) % 2
X = RNG.normal(size=(N, 3)) + Y[:, None]
Z = marked_numbers((N, 2)) + Y[:, None]
MARKS = np.concatenate([Z, standardized(Z)])
TASKS = Multiclass(2, 3), Multiclass(2, 2)

MODELS = {
    "svm+": lupi.SVMPlus(),
    "svm+ labeled": lupi.SVMPlus(correction="labeled"),
    "svm+ linear": lupi.SVMPlus(kernel="linear", privileged_kernel="linear"),
    "svm2+": lupi.SVM2Plus(privileged_kernel="poly"),
    "svm2+ linear": lupi.SVM2Plus(kernel="linear", privileged_kernel="linear"),
    "svm+ landmarks": lupi.SVMPlus(n_components=8, random_state=0),
    "svm2+ landmarks": lupi.SVM2Plus(n_components=8, random_state=0),
    "svm-2k": lupi.SVM2K(),
    "svr+": lupi.SVRPlus(),
    "svr+ linear": lupi.SVRPlus(kernel="linear", privileged_kernel="linear"),
    "rank": lupi.RankTransfer(),
    "rank rbf": lupi.RankTransfer(kernel="rbf", privileged_kernel="rbf"),
    "rank cv": lupi.RankTransferCV(Cs=[0.1], Cs_privileged=[0.1, 1.0], cv=2, privileged_kernel="rbf"),
    "one class": lupi.OneClassSVMPlus(),
    "structural": lupi.StructuralSVMPlus(*TASKS, random_state=0, tol=0.1),
    "jkse": lupi.JKSEPlus(TASKS[0], kernel="rbf", privileged_kernel="rbf"),
    "transfer": lupi.KnowledgeTransfer(LogisticRegression(), random_state=0),
    "distillation": lupi.Distillation(LogisticRegression()),
    "distillation of neighbors": lupi.Distillation(
        SVC(), KNeighborsClassifier()
    ),
    "distillation of a tree": lupi.Distillation(SVC(), DecisionTreeClassifier()),
    "surrogate": lupi.SurrogateClassifier(random_state=0),
    "surrogate of ridge": lupi.SurrogateClassifier("ridge"),
    "surrogate of an svm": lupi.SurrogateClassifier(SVR(), random_state=0),
    "surrogate taught by neighbors": lupi.SurrogateClassifier("ridge", teacher=KNeighborsRegressor(), random_state=0),
    "surrogate taught by a forest": lupi.SurrogateClassifier(
        Ridge(), teacher=RandomForestRegressor(5, random_state=0), random_state=0
    ),
    "surrogate of numbers": lupi.SurrogateRegressor("ridge"),
    "table": TabularModel(lupi.SVM2Plus()),
    "columns": lupi.PrivilegedColumns(lupi.SVMPlus(), columns=[3, 4]),
    "columns of two spaces": lupi.PrivilegedColumns(lupi.SVMPlus(), columns={"a": [3], "b": [4]}),
    "columns, transformed": lupi.PrivilegedColumns(
        lupi.SVMPlus(), columns=[3, 4], privileged_transformer=KNNImputer()
    ),
    "columns of a pipeline": lupi.PrivilegedColumns(make_pipeline(StandardScaler(), lupi.SVM2Plus()), columns=[3, 4]),
    "columns of a search": GridSearchCV(
        lupi.PrivilegedColumns(lupi.SVM2Plus(), columns=[3, 4]), {"estimator__C": [0.1, 1.0]}, cv=2
    ),
    "search": GridSearchCV(lupi.SVMPlus(), {"C": [0.1, 1.0]}, cv=2),
    "pipeline": make_pipeline(StandardScaler(), lupi.SVMPlus()),
}  # fmt: skip


def fitted(model):
    """The model fitted on X, Y and the marked rows, in its own way."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the marks are no good teachers, and solvers may stop early
        if any(name.split("__")[-1] == "columns" for name in model.get_params()):
            return model.fit(np.hstack([X, Z]), Y)
        if hasattr(model, "steps"):
            return model.fit(X, Y, **{f"{model.steps[-1][0]}__privileged": Z})
        if isinstance(model, lupi.OneClassSVMPlus):
            return model.fit(X, privileged=Z)
        return model.fit(X, Y, privileged=Z)


@pytest.mark.parametrize("name", MODELS)
def test_neither_file_nor_pickle_holds_a_privileged_value(name, tmp_path):
    model = fitted(copy.deepcopy(MODELS[name]))
    written = {"pickle": pickle.dumps(model), "text": pickle.dumps(model, protocol=0)}
    lupi.save(model, tmp_path / "m")
    written["file"] = (tmp_path / "m").read_bytes()
    for content in written.values():
        assert marks_in(content, MARKS) == []
    for other in (pickle.loads(written["pickle"]), lupi.load(tmp_path / "m")):
        assert_allclose(other.predict(X), model.predict(X))


def test_every_estimator_with_privileged_features_is_searched():
    kinds = [getattr(lupi, name) for name in lupi.__all__ if inspect.isclass(getattr(lupi, name))]
    takes = {kind for kind in kinds if "privileged" in inspect.signature(kind.fit).parameters}
    assert takes <= {type(model) for model in MODELS.values()}


def test_a_list_of_what_stays_is_heeded():
    parts = [kind for kind in MODEL_PARTS.values() if getattr(kind, "_privileged_rows_in", ())]
    assert parts
    assert all(issubclass(kind, WithoutPrivilegedRows) for kind in parts)


def test_the_search_finds_what_is_there(tmp_path):
    model = fitted(lupi.SVMPlus())
    with lupi.keep_privileged():
        assert len(marks_in(pickle.dumps(model), Z)) == Z.size
    lupi.save(model, tmp_path / "m", keep_privileged=True)
    assert len(marks_in((tmp_path / "m").read_bytes(), Z)) >= Z.size
    assert_allclose(lupi.load(tmp_path / "m").correcting_function(Z), model.correcting_function(Z))
    assert marks_in(f"mean {Z[3, 1]:.7f}".encode(), Z) == [("", Z[3, 1])]
    assert marks_in(np.float32(Z).tobytes(), Z[0])


def test_copies_within_the_process_are_whole():
    model = fitted(lupi.SVMPlus())
    for other in (copy.copy(model), copy.deepcopy(model)):
        assert_allclose(other.correcting_function(Z), model.correcting_function(Z))
    assert copy.deepcopy(model)._privileged_data is not model._privileged_data


@pytest.mark.parametrize("regressor", [KNeighborsRegressor(1), make_pipeline(StandardScaler(), KernelRidge())])
def test_a_regressor_that_may_hold_privileged_rows_is_not_saved(regressor, tmp_path):
    model = lupi.KnowledgeTransfer(LogisticRegression(), regressor, random_state=0).fit(X, Y, privileged=Z)
    for write in (lambda m: lupi.save(m, tmp_path / "m"), pickle.dumps, lambda m: pickle.dumps([{"model": m}])):
        with pytest.raises(TypeError, match="was fitted to the privileged features and may hold them"):
            write(model)
    assert not list(tmp_path.iterdir())
    with lupi.keep_privileged():
        assert_allclose(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    assert_allclose(copy.deepcopy(model).decision_function(X), model.decision_function(X))
