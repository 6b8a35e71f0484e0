"""SurrogateClassifier and SurrogateRegressor as scikit-learn estimators: input of every kind, routing, files, students."""

import json
import tracemalloc
import zipfile

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.utils._testing import ignore_warnings
from sklearn.utils.estimator_checks import parametrize_with_checks

import lupi
from lupi import PrivilegedColumns, SurrogateClassifier, SurrogateRegressor
from lupi.inputs.training_set import ArrayRows
from lupi.surrogate.estimators import make_folds
from lupi.surrogate.members import ForestMember, Sample
from lupi.surrogate.targets import area_under_curve


@ignore_warnings  # scikit-learn's own: checks that are skipped, casts of NaN
@parametrize_with_checks([SurrogateClassifier(random_state=0), SurrogateRegressor("ridge")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def table(n=80, n_unlabeled=40, classes=2, seed=0, p=6, q=3):
    """X, y with missing labels, Z; the label follows Z, and X follows Z with noise."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n + n_unlabeled, q))
    X = np.hstack([Z + 0.7 * rng.normal(size=Z.shape), rng.normal(size=(len(Z), p - q))])
    score = Z.sum(axis=1) + 0.5 * rng.normal(size=len(Z))
    y = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes)).astype(float)
    y[n:] = np.nan
    return X, y, Z


def test_labels_of_any_type_and_missing_marks():
    X, y, Z = table()
    words = np.array(["no", "yes"])[np.nan_to_num(y).astype(int)].astype(object)
    words[np.isnan(y)] = None
    expected = SurrogateClassifier("ridge").fit(X, y, privileged=Z)
    missing = pd.Series(y).astype("Int64")
    assert missing.isna().sum() == 40
    for labels, unlabeled in (
        (words, None),
        (pd.Series(words), None),
        (pl.Series(words.tolist()), None),
        (missing, None),
        (np.where(np.isnan(y), -1, y).astype(int), -1),
        (np.where(np.isnan(y), "?", words.astype(str)), "?"),
    ):
        model = SurrogateClassifier("ridge", unlabeled=unlabeled).fit(X, labels, privileged=Z)
        assert (model.n_labeled_, model.n_unlabeled_) == (80, 40)
        np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X))
        assert set(model.predict(X)) == set(model.classes_)
    assert SurrogateClassifier("ridge").fit(X, words, privileged=Z).classes_.tolist() == ["no", "yes"]


def test_minus_one_as_a_class_warns_and_says_what_to_pass():
    X, _, Z = table()
    y = np.arange(120) % 3 - 1
    with pytest.warns(UserWarning, match="unlabeled=-1"):
        SurrogateClassifier("ridge").fit(X, y, privileged=Z)
    model = SurrogateClassifier("ridge", unlabeled=float("nan")).fit(X, y, privileged=Z)  # warnings are errors here
    assert model.classes_.tolist() == [-1, 0, 1]


@pytest.mark.parametrize("model", [SurrogateClassifier("ridge"), SurrogateRegressor("ridge")])
def test_no_labeled_row(model):
    X, y, Z = table()
    with pytest.raises(ValueError, match="no labeled row"):
        model.fit(X, np.full_like(y, np.nan), privileged=Z)


def test_a_constant_target_among_rows_with_privileged_features_warns():
    X, y, Z = table(n_unlabeled=0)
    Z[y == 1] = np.nan
    with pytest.warns(UserWarning, match="nothing to learn from `privileged`"):
        model = SurrogateClassifier("ridge").fit(X, y, privileged=Z)
    np.testing.assert_allclose(model.decision_function(X), SurrogateClassifier("ridge").fit(X, y).decision_function(X))


def test_labels_that_are_not_missing_at_random_warn():
    X, y, Z = table(n=60, n_unlabeled=60)
    y[:] = np.arange(120) % 2
    SurrogateClassifier("ridge").fit(X, np.where(np.arange(120) % 3 == 0, np.nan, y), privileged=Z)
    with pytest.warns(UserWarning, match="not missing at random"):
        SurrogateClassifier("ridge").fit(X, np.where(Z[:, 0] > 0, np.nan, y), privileged=Z)


@pytest.mark.parametrize("estimator", ["ridge", None])
def test_frames_and_sparse_matrices(estimator):
    X, y, Z = table(classes=3)
    X[np.abs(X) < 0.5] = 0.0
    names = list("abcdef")
    expected = SurrogateClassifier(estimator, random_state=0).fit(X, y, privileged=Z)
    for kind in (pd.DataFrame, pl.DataFrame):
        frame = kind(dict(zip(names, X.T)))
        model = SurrogateClassifier(estimator, random_state=0)
        model.fit(frame, y, privileged=kind(dict(zip("uvw", Z.T))))
        assert model.feature_names_in_.tolist() == names
        assert list(model.explain()["columns"] or "uvw") == list("uvw")
        np.testing.assert_allclose(model.predict_proba(frame), expected.predict_proba(X))
    model = SurrogateClassifier("ridge").fit(sparse.csr_array(X), y, privileged=sparse.csr_array(Z))
    dense = SurrogateClassifier("ridge").fit(X, y, privileged=Z)
    np.testing.assert_allclose(model.predict_proba(sparse.csr_array(X)), dense.predict_proba(X), atol=1e-8)


def test_several_spaces_are_blocks_with_names():
    X, y, Z = table()
    noise = np.random.default_rng(1).normal(size=(120, 30))
    model = SurrogateClassifier("ridge").fit(X, y, privileged={"visit": Z, "noise": noise})
    facts = model.explain()
    assert facts["teachers"] == model.teacher_weights_
    assert len(model.teacher_weights_) == 5 * 4 + 1
    assert sum(w for name, w in facts["teachers"].items() if name.startswith("visit")) > 0.9
    assert list(facts["columns"])[:4] == ["visit/0", "visit/1", "visit/2", "noise/0"]
    again = SurrogateClassifier("ridge").fit(X, y, privileged=[Z, noise])
    np.testing.assert_allclose(again.decision_function(X), model.decision_function(X))
    # A row that has only one of the spaces still counts.
    noise[::2] = np.nan
    half = SurrogateClassifier("ridge").fit(X, y, privileged=[Z, noise])
    assert not np.isnan(half.surrogate_).any()


def test_groups_leave_whole_groups_out():
    """Copies of rows make leave-one-out scores too good; with groups they are as without the copies."""
    X, y, Z = table(n=60, n_unlabeled=0)
    three = np.tile(np.arange(60), 3)
    once = SurrogateClassifier("ridge").fit(X, y, privileged=Z)
    model = SurrogateClassifier("ridge")
    grouped = model.fit(X[three], y[three], privileged=Z[three], groups=three).explain()["teacher_quality"]["AUC"]
    blind = model.fit(X[three], y[three], privileged=Z[three]).explain()["teacher_quality"]["AUC"]
    assert abs(grouped - once.explain()["teacher_quality"]["AUC"]) < 0.01
    assert grouped < blind
    with pytest.raises(ValueError, match="`groups` has shape"):
        model.fit(X, y, privileged=Z, groups=[1, 2])


STUDENTS = {
    "regressor": Ridge(),
    "forest": RandomForestClassifier(20, random_state=0),
    "extra trees": ExtraTreesRegressor(20, random_state=0),
    "boosting": HistGradientBoostingClassifier(max_iter=20),
    "kernel machine": SVC(),
    "one target only": SVR(),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
}


@pytest.mark.parametrize(
    ("name", "classes"),
    [*((name, 2) for name in STUDENTS), ("forest", 3), ("kernel machine", 3), ("one target only", 3)],
)
def test_any_student(name, classes):
    X, y, Z = table(classes=classes)
    _, truth, _ = table(120, 0, classes=classes)
    model = SurrogateClassifier(STUDENTS[name], random_state=0).fit(X, y, privileged=Z)
    assert model.score(X[80:], truth[80:]) > (0.7 if classes == 2 else 0.55)
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(X))
    assert model.explain()["surrogate_correlation"] > 0.3


def test_students_of_a_regression_and_of_labels():
    X, _, Z = table()
    y = Z.sum(axis=1)
    y[80:] = np.nan
    model = SurrogateRegressor(ExtraTreesRegressor(30, random_state=0), random_state=0).fit(X, y, privileged=Z)
    assert model.score(X[80:], Z[80:].sum(axis=1)) > 0.4
    plain = SurrogateClassifier(LogisticRegression(), random_state=0).fit(X, (Z[:, 0] > 0).astype(int))
    expected = LogisticRegression().fit(X, Z[:, 0] > 0)
    np.testing.assert_allclose(plain.baseline_.coef_, expected.coef_)
    np.testing.assert_allclose(np.corrcoef(plain.decision_function(X), expected.decision_function(X))[0, 1], 1)


def test_missing_values_where_the_student_allows_them():
    X, y, Z = table()
    X[::7, 2] = np.nan
    model = SurrogateClassifier(HistGradientBoostingClassifier(max_iter=4)).fit(X, y, privileged=Z)
    assert model.predict(X).shape == (120,)
    with pytest.raises(ValueError, match="NaN"):
        SurrogateClassifier("ridge").fit(X, y, privileged=Z)


def test_a_student_without_weights_says_so():
    X, y, Z = table()
    with pytest.raises(TypeError, match="must take `sample_weight`"):
        SurrogateClassifier(KNeighborsClassifier()).fit(X, y, privileged=Z)


@pytest.mark.parametrize(
    ("teacher", "classes"),
    [(Ridge(), 2), (Ridge(), 3), (LogisticRegression(), 2), (RandomForestClassifier(10, random_state=0), 3)],
)
def test_any_teacher(teacher, classes):
    X, y, Z = table(classes=classes)
    _, truth, _ = table(120, 0, classes=classes)
    model = SurrogateClassifier("ridge", teacher=teacher, random_state=0).fit(X, y, privileged=Z)
    assert len(model.teacher_weights_) == 5
    assert model.teacher_weights_["X alone"] < 0.1
    assert model.score(X[80:], truth[80:]) > (0.7 if classes == 2 else 0.55)
    assert model.explain()["columns"] is None


def test_folds_of_a_splitter():
    X, y, Z = table()
    models = [SurrogateClassifier(Ridge(), cv=cv, random_state=0).fit(X, y, privileged=Z) for cv in (5, KFold(3), None)]
    assert len({model.explain()["surrogate_correlation"] for model in models}) == 3


def test_teacher_of_the_users_with_groups_is_fitted_without_the_group():
    X, y, Z = table(n_unlabeled=0)
    twice = np.tile(np.arange(80), 2)
    memory = KNeighborsClassifier(1)  # repeats the label of a copy
    blind = SurrogateClassifier("ridge", teacher=memory, random_state=0)
    blind.fit(X[twice], y[twice], privileged=Z[twice])
    grouped = clone(blind).fit(X[twice], y[twice], privileged=Z[twice], groups=twice)
    assert blind.explain()["teacher_quality"]["AUC"] > 0.95
    assert grouped.explain()["teacher_quality"]["AUC"] < 0.93


@pytest.mark.parametrize(
    "search",
    [
        GridSearchCV(LogisticRegression(), {"C": [1e-6, 1.0]}, cv=3, scoring="accuracy"),
        GridSearchCV(Ridge(), {"alpha": [1.0, 1e9]}, cv=3),
        GridSearchCV(make_pipeline(StandardScaler(), GaussianNB()), [{"gaussiannb__var_smoothing": [1e-9, 1e6]}], cv=3),
    ],
)
def test_a_search_is_scored_against_the_surrogate(search):
    X, y, Z = table()
    model = SurrogateClassifier(search).fit(X, y, privileged=Z)
    scores = model.estimator_.cv_results_["mean_test_score"]
    assert model.estimator_.best_score_ == max(scores) > 0.6  # a correlation with the soft target
    assert model.predict(X).shape == (120,)


@pytest.mark.parametrize("routing", [False, True])
def test_routing(routing):
    X, y, Z = table(n_unlabeled=0)
    groups = np.arange(80) // 4
    with sklearn.config_context(enable_metadata_routing=routing):
        params = {"privileged": Z} | ({"groups": groups} if routing else {})
        model = SurrogateClassifier("ridge")
        if routing:
            found = cross_validate(model, X, y, cv=GroupKFold(4), params=params)
        else:
            found = cross_validate(model, X, y, cv=4, params=params)
        assert found["test_score"].mean() > 0.7
        model.set_fit_request(privileged=True, sample_weight=True, groups=False) if routing else None
    columns = PrivilegedColumns(SurrogateClassifier("ridge"), columns=[6, 7, 8])
    expected = SurrogateClassifier("ridge").fit(X, y, privileged=Z).predict(X)
    np.testing.assert_array_equal(columns.fit(np.hstack([X, Z]), y).predict(X), expected)


@pytest.mark.parametrize(
    "model",
    [
        SurrogateClassifier(random_state=0),
        SurrogateClassifier("ridge"),
        SurrogateClassifier(LogisticRegression(), teacher=SVC(), cv=2),
        SurrogateRegressor(random_state=0),
        SurrogateRegressor(SVR()),
    ],
    ids=["default", "ridge", "student and teacher", "regression", "kernel machine"],
)
def test_a_saved_model_predicts_the_same_and_holds_nothing_privileged(model, tmp_path):
    X, y, Z = table()
    mark = 123456.789
    model = clone(model).fit(X, y, privileged=pd.DataFrame(Z * mark, columns=["u", "v", "w"]))
    lupi.save(model, tmp_path / "model.lupi")
    again = lupi.load(tmp_path / "model.lupi")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="'_report' was left out"):
        again.explain()
    assert not {"surrogate_", "teacher_weights_", "plain_weight_", "member_weights_"} & {*vars(again)}
    lupi.save(model, tmp_path / "whole.lupi", keep_privileged=True)
    assert repr(lupi.load(tmp_path / "whole.lupi").explain()) == repr(model.explain())
    # Apart from X, labels, weights and what students are made of, no array has as many rows as the training data.
    with zipfile.ZipFile(tmp_path / "model.lupi") as file:
        sizes = [
            np.load(file.open(name), allow_pickle=False).shape for name in file.namelist() if name.endswith(".npy")
        ]
        text = json.dumps(json.loads(file.read("schema.json")))
    assert "123456." not in text
    assert (120,) not in sizes


def test_a_second_fit_forgets_the_first():
    X, y, Z = table(n_unlabeled=0)
    model = SurrogateClassifier("ridge").fit(X, y, privileged=Z)
    model.fit(X, y)
    assert model.surrogate_ is None
    assert model.teacher_weights_ == {}
    assert model.plain_weight_ == 1
    assert "the model is the baseline" in repr(model.explain())


def test_representations():
    X, y, Z = table()
    model = SurrogateClassifier(random_state=0).fit(X, y, privileged=pd.DataFrame(Z, columns=["u", "v", "w"]))
    assert "SurrogateClassifier" in model._repr_html_()
    text = repr(model.explain())
    for part in (
        "80 labeled and 40 unlabeled",
        "Z (rbf)",
        "left-out rows: AUC",
        "more labeled rows",
        "  u",
        "  v",
    ):
        assert part in text
    assert json.loads(json.dumps(model.explain()))["n_labeled"] == 80


def test_stored_trees_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    A, t = rng.normal(size=(60, 4)), rng.uniform(-0.6, 0.6, size=(60, 2))
    grown = {}
    member = ForestMember(n_trees=7, random_state=0)
    store = member._store
    member._store = lambda trees, *rest: (grown.update(trees=trees, columns=rest[0]), store(trees, *rest))
    member.fit_left_out(Sample(ArrayRows(A), t, np.ones(60), None))
    new = rng.normal(size=(9, 4))
    inputs = new.astype(np.float32)[:, grown["columns"]]
    values = np.mean([tree.predict(inputs).reshape(9, 2) for tree in grown["trees"]], axis=0)
    expected = t.mean(axis=0) + values * np.sqrt(t.var(axis=0).mean())
    np.testing.assert_allclose(member.predict(new), expected)


@pytest.mark.parametrize("change", ["rows", "columns", "storage", "origin"])
def test_the_forest_depends_on_values_alone(change):
    rng = np.random.default_rng(0)
    X, new = np.round(rng.normal(size=(2, 40, 5)) * 2)  # whole numbers: many values halfway between two others
    y = X @ [1.0, 1.0, 0.5, 0.0, 0.0] + rng.normal(size=40)
    expected = SurrogateRegressor(["forest"], random_state=0).fit(X, y).predict(new)
    order, origin = np.arange(40), 0.0
    if change == "rows":
        order = rng.permutation(40)
    elif change == "columns":
        X, new = X[:, ::-1], new[:, ::-1]
    elif change == "storage":
        X, new = sparse.csr_matrix(X), sparse.csc_matrix(new)
    else:
        origin = 1e7
    found = SurrogateRegressor(["forest"], random_state=0).fit(X[order], y[order] + origin).predict(new)
    np.testing.assert_allclose(found - origin, expected, atol=1e-6 * np.ptp(expected))


def test_columns_of_equal_correlation_have_an_order_without_rounding_errors():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 15)
    # Yes or no, with the same counts in each class.
    blocks = [[rng.permutation(np.arange(15) < ones) for _ in range(4)] for ones in (4, 9)]
    X = np.concatenate(blocks, axis=1).T.astype(float)
    expected = SurrogateClassifier(["forest"], random_state=0).fit(X, y).decision_function(X)
    for away in (1e3, 1e4, 1e5, [1e6, 0.0, -1e5, 0.1]):
        found = SurrogateClassifier(["forest"], random_state=0).fit(X + away, y).decision_function(X + away)
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_left_out_values_of_the_forest_do_not_know_the_row():
    rng = np.random.default_rng(0)
    A, t = rng.normal(size=(200, 5)), rng.normal(size=(200, 1))
    member = ForestMember(random_state=0)
    left_out = member.fit_left_out(Sample(ArrayRows(A), t, np.ones(200), None))
    assert np.corrcoef(member.predict(A)[:, 0], t[:, 0])[0, 1] > 0.5
    assert np.corrcoef(left_out[:, 0], t[:, 0])[0, 1] < 0.1


def test_the_forest_with_labels_in_few_of_many_groups():
    X, y, Z = table(n=40, n_unlabeled=200)
    groups = 29 - np.arange(240) // 8  # the labels are in the last five groups
    model = SurrogateClassifier("forest", random_state=0).fit(X, y, privileged=Z, groups=groups)
    assert model.predict(X).shape == (240,)


@pytest.mark.parametrize("members", [[], ["ridge", "stump"], "stump"])
def test_names_of_members_are_checked(members):
    X, y, Z = table()
    with pytest.raises(ValueError, match=r"(?s)estimator.*'ridge'"):
        SurrogateClassifier(members).fit(X, y, privileged=Z)


def test_a_list_of_members_is_a_pool_of_them():
    X, y, Z = table()
    model = SurrogateClassifier(["ridge", "rbf"]).fit(X, y, privileged=Z)
    assert list(model.member_weights_) == ["ridge", "rbf"]
    assert sum(model.member_weights_.values()) == pytest.approx(1.0)
    alone = SurrogateClassifier(["ridge"]).fit(X, y, privileged=Z)
    assert alone.member_weights_ == {"ridge": 1.0}
    outputs = [SurrogateClassifier(name).fit(X, y, privileged=Z).baseline_.predict(X) for name in ("ridge", "rbf")]
    mixed = np.average(outputs, axis=0, weights=model.baseline_.weights_)[:, 0]
    np.testing.assert_allclose(np.corrcoef(model.baseline_.predict(X)[:, 0], mixed)[0, 1], 1)


def test_sparse_rows_are_clipped_like_dense_ones():
    """Also zeros that are not stored; and a model predicts the same for both kinds of rows."""
    X, y, Z = table(n=100, n_unlabeled=0)
    X[:, 5] = 20 + 0.1 * X[:, 5]
    X[:3, 5] = 0.0  # 5 standard deviations and more below the mean
    X[np.abs(X) < 0.3] = 0.0
    dense = SurrogateClassifier("ridge").fit(X, y, privileged=Z)
    thin = SurrogateClassifier("ridge").fit(sparse.csr_array(X), y, privileged=Z)
    expected = dense.decision_function(X)
    for found in (
        thin.decision_function(sparse.csr_array(X)),
        thin.decision_function(X),
        dense.decision_function(sparse.csr_array(X)),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-8)
    pool = SurrogateClassifier(random_state=0).fit(sparse.csr_array(X), y, privileged=Z)
    np.testing.assert_allclose(pool.decision_function(X), pool.decision_function(sparse.csr_array(X)), atol=0.05)


def test_wide_sparse_tables_stay_sparse():
    rng = np.random.default_rng(0)
    places = rng.integers(200, size=1000), rng.integers(50_000, size=1000)
    X = sparse.csr_array((rng.random(1000), places), shape=(200, 50_000))
    Z = rng.normal(size=(200, 2))
    X = sparse.hstack([X, sparse.csr_array(Z + rng.normal(size=Z.shape))], format="csr")
    y = np.where(np.arange(200) < 100, Z[:, 0] > 0, np.nan)
    tracemalloc.start()
    model = SurrogateClassifier("ridge").fit(X, y, privileged=Z)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < X.shape[0] * X.shape[1] * 8  # what one dense copy would take
    assert model.explain()["teacher_quality"]["AUC"] > 0.9


def test_a_student_that_says_nothing_is_no_division_by_zero():
    X, y = np.zeros((8, 2)), np.arange(8.0)
    model = SurrogateRegressor(random_state=0).fit(X, y, privileged=np.zeros((8, 1)))
    np.testing.assert_allclose(model.predict(X), 3.5)


@pytest.mark.parametrize("student", [Ridge(), "ridge", None], ids=["given", "ridge", "averaged"])
def test_one_group_leaves_nobody_out_and_still_predicts_numbers(student):
    rng = np.random.default_rng(0)
    X, y, Z = rng.normal(size=(6, 2)), rng.normal(size=6), rng.normal(size=(6, 1))
    with pytest.warns(UserWarning, match="nothing to learn from `privileged`"):
        model = SurrogateRegressor(student, random_state=0).fit(X, y, privileged=Z, groups=np.zeros(6))
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("student", ["ridge", None], ids=["ridge", "averaged"])
def test_one_target_for_all_rows_is_what_is_predicted(student):
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(6, 2)), rng.normal(size=(6, 1))
    with pytest.warns(UserWarning, match="nothing to learn from `privileged`"):
        model = SurrogateRegressor(student, random_state=0).fit(X, np.full(6, -9.6e7), privileged=Z)
    np.testing.assert_allclose(model.predict(X), -9.6e7)


def test_targets_too_large_to_compute_with_are_refused():
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(6, 2)), rng.normal(size=(6, 1))
    with pytest.raises(ValueError, match=r"`y` has values as large as 1e\+160.*scale the targets"):
        SurrogateRegressor().fit(X, np.full(6, 1e160), privileged=Z)


def test_labels_without_weight_are_refused():
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(6, 2)), rng.normal(size=(6, 1))
    y, weight = np.array([1.0, 2.0, *[np.nan] * 4]), np.array([0.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="every example with a label has `sample_weight` 0"):
        SurrogateRegressor("ridge").fit(X, y, privileged=Z, sample_weight=weight)


@pytest.mark.parametrize("grouped", [False, True])
def test_folds_spread_the_classes_and_keep_groups_together(grouped):
    classes = np.repeat([0, 1], [16, 8])
    groups = np.arange(24) // 4 if grouped else None
    rows = np.arange(4, 24)
    folds = make_folds(rows, classes, groups, np.random.RandomState(0), cv=2)
    assert sorted(np.concatenate(folds)) == rows.tolist()
    for fold in folds:
        assert (classes[fold] == 1).sum() == 4
        assert not grouped or all(np.isin(rows[groups[rows] == g], fold).all() for g in groups[fold])


def test_area_under_the_curve_with_ties_and_weights():
    rng = np.random.default_rng(0)
    score, positive, weight = rng.integers(0, 5, 40), rng.random(40) < 0.4, rng.integers(1, 4, 40)
    expected = roc_auc_score(positive, score, sample_weight=weight)
    assert area_under_curve(score, positive, weight) == pytest.approx(expected)
