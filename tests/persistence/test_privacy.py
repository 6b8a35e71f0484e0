"""No file and no pickle holds a privileged value: every estimator is fitted on marked values, and what it leaves is searched."""

import copy
import inspect
import pickle
import warnings
from importlib.util import find_spec

import numpy as np
import pytest
from marks import marked_numbers, marks_in, standardized
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestRegressor
from sklearn.impute import KNNImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier

import lupi
from lupi.localize import Localizer
from lupi.privacy import MODEL_PARTS, OF_EVERY_ESTIMATOR, WithoutPrivilegedRows
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
    "distillation": lupi.Distillation(LogisticRegression()),
    "distillation of neighbors": lupi.Distillation(
        SVC(), KNeighborsClassifier()
    ),
    "distillation of a tree": lupi.Distillation(SVC(), DecisionTreeClassifier()),
    "distillation, its teacher fitted before": lupi.Distillation(SVC(), KNeighborsClassifier().fit(Z, Y)),
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
        lupi.SVMPlus(), columns=[3, 4], privileged_transformer=KNNImputer().fit(Z)
    ),
    "columns of a pipeline": lupi.PrivilegedColumns(make_pipeline(StandardScaler(), lupi.SVM2Plus()), columns=[3, 4]),
    "columns of a surrogate": lupi.PrivilegedColumns(lupi.SurrogateClassifier("ridge"), columns=[3, 4]),
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
    assert takes - {lupi.KnowledgeTransfer} <= {type(model) for model in MODELS.values()}
    # Only what prediction needs leaves, whatever a fit sets.
    assert all(issubclass(kind, WithoutPrivilegedRows) for kind in takes)
    parts = [
        kind for kind in MODEL_PARTS.values() if "privileged" in inspect.signature(getattr(kind, "fit", len)).parameters
    ]
    assert {kind for kind in parts if not issubclass(kind, WithoutPrivilegedRows)} == {Localizer}


def parts_of(value):
    """All estimators of lupi in a model that leave without what prediction does not need."""
    if isinstance(value, BaseEstimator):
        return [value] * isinstance(value, WithoutPrivilegedRows) + parts_of(list(vars(value).values()))
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [part for one in inner for part in parts_of(one)]


# Positions of the support vectors, needed with a precomputed kernel; names of what was left out.
HARMLESS = ("support_", "_left_out")


def answers(model):
    ways = [way for way in ("predict", "decision_function", "predict_proba") if hasattr(model, way)]
    return [getattr(model, way)(X) for way in ways] + ([model.score(X, Y)] if hasattr(model, "score") else [])


@pytest.mark.parametrize("name", MODELS)
def test_nothing_leaves_that_prediction_does_not_need(name):
    """Everything but the parameters is taken away from a loaded model, one by one: predictions are another or none."""
    again = pickle.loads(pickle.dumps(fitted(copy.deepcopy(MODELS[name]))))
    expected, parts = answers(again), parts_of(again)
    assert parts
    for part in parts:
        for attribute in vars(part).keys() - part.get_params(deep=False).keys() - {*OF_EVERY_ESTIMATOR, *HARMLESS}:
            kept = vars(part).pop(attribute)
            try:
                for found, one in zip(answers(again), expected, strict=True):
                    assert_array_equal(found, one)
                needed = False
            except Exception:
                needed = True
            vars(part)[attribute] = kept
            assert needed, (type(part).__name__, attribute)


def test_what_was_left_out_is_named():
    model = fitted(lupi.SVMPlus())
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(model))))
    for name in ("privileged_dual_coef_", "objective_", "dual_gap_"):
        assert hasattr(model, name)
        assert not hasattr(again, name)
        with pytest.raises(
            AttributeError, match=f"hold no privileged rows, only what prediction needs: '{name}' was left"
        ):
            getattr(again, name)
    with pytest.raises(AttributeError, match=r"^'SVMPlus' object has no attribute 'nothing'$"):
        getattr(again, "nothing")  # noqa: B009
    with pytest.raises(ValueError, match="'_report' was left out"):
        pickle.loads(pickle.dumps(fitted(lupi.SurrogateClassifier("ridge")))).explain()
    assert fitted(again).objective_ == model.objective_
    with lupi.keep_privileged():
        assert pickle.loads(pickle.dumps(model)).objective_ == model.objective_


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


@pytest.mark.parametrize("regressor", [None, LinearRegression(), KNeighborsRegressor(1)])
def test_knowledge_transfer_leaves_only_on_request(regressor, tmp_path):
    """It predicts with functions of the privileged features: with 40 columns and 36 rows a ridge gives every cell."""
    wide = RNG.normal(size=(N, 40))
    model = lupi.KnowledgeTransfer(LogisticRegression(), regressor, random_state=0).fit(wide, Y, privileged=Z)
    ways = [lambda m: lupi.save(m, tmp_path / "m"), pickle.dumps, lambda m: pickle.dumps([{"model": m}])]
    if find_spec("onnx") is not None:
        ways += [
            lambda m: lupi.to_onnx(m, tmp_path / "m"),
            lambda m: lupi.to_onnx(make_pipeline(MinMaxScaler().fit(X), m)),
        ]
    for write in ways:
        with pytest.raises(
            TypeError, match=r"functions that were fitted to the privileged features.*keep_privileged=True"
        ):
            write(model)
    assert not list(tmp_path.iterdir())
    with lupi.keep_privileged():
        assert_allclose(pickle.loads(pickle.dumps(model)).predict(wide), model.predict(wide))
    assert_allclose(copy.deepcopy(model).decision_function(wide), model.decision_function(wide))
    assert pickle.loads(pickle.dumps(model.fit(wide, Y))).regressor_ is None


def test_a_column_that_could_be_solved_for_leaves_only_on_request(tmp_path):
    """If every row is a support vector, the decision function gives all slacks, and these give the line that they are."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(50, 1)) + 1
    X, y = 0.7 * z + rng.normal(size=(50, 3)), (z[:, 0] + 0.3 * rng.normal(size=50) > 1).astype(int)
    options = {"C": 0.1, "privileged_kernel": "linear", "tol": 1e-12}
    model = lupi.SVM2Plus(**options).fit(X, y, privileged=z)
    assert len(model.support_) == 50
    sign, a = np.where(y == 1, 1, -1), np.abs(model.dual_coef_[0])
    slack = 1 - sign * model.decision_function(X) - a / (model.C * model.kappa)
    rest = a - model.C * slack  # lam v = sum rest z, lam rho = sum rest
    column = (slack - rest.sum()) / np.sqrt(rest @ (slack - rest.sum()))
    assert min(np.abs(column - z[:, 0]).max(), np.abs(column + z[:, 0]).max()) < 1e-9
    ways = [lambda m: lupi.save(m, tmp_path / "m"), pickle.dumps, *[lupi.to_onnx] * (find_spec("onnx") is not None)]
    for write in ways:
        with pytest.raises(TypeError, match="its only privileged column could be computed"):
            write(model)
    with lupi.keep_privileged():
        assert_allclose(pickle.loads(pickle.dumps(model)).decision_function(X), model.decision_function(X))
    for other in ({"C": 10.0}, {"kernel": "linear"}, {"privileged_kernel": "rbf"}):
        pickle.dumps(lupi.SVM2Plus(**options | other).fit(X, y, privileged=z))
    pickle.dumps(lupi.SVM2Plus(**options).fit(X, y, privileged=np.hstack([z, X[:, :1]])))
    pickle.dumps(pickle.loads(pickle.dumps(lupi.SVM2Plus(**options).fit(X, y))))
