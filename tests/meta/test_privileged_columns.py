import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.compose import make_column_selector
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted, validate_data

import lupi
from lupi import PrivilegedColumns, SVM2Plus
from lupi.datasets import make_privileged
from lupi.inputs.training_set import check_training_set

made = make_privileged(60, 3, 2, random_state=0, as_frame=True)
NAMES = ["x0", "z0", "x1", "z1", "x2"]  # privileged columns in between
TABLE = made.frame[NAMES]
Y = made.target.to_numpy()
X, Z = made.data.to_numpy(), made.privileged.to_numpy()


class Recorder(ClassifierMixin, BaseEstimator):
    """Remembers what it was fitted with; predicts with a linear rule."""

    __metadata_request__fit = {"privileged": True}

    def __init__(self, C=1.0):
        self.C = C

    def fit(self, X, y, sample_weight=None, privileged=None):
        data = check_training_set(self, X, y, privileged, sample_weight)
        self.X_, self.classes_, self.sample_weight_ = data.X.values, data.classes, data.weight
        self.privileged_ = data.privileged[0].rows.values if data.privileged else None
        self.available_ = data.privileged[0].available if data.privileged else None
        self.model_ = LogisticRegression(C=self.C).fit(self.X_, data.target, self.sample_weight_)
        return self

    def decision_function(self, X):
        check_is_fitted(self)
        return self.model_.decision_function(validate_data(self, X, reset=False))

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]


def assert_split_right(model):
    np.testing.assert_array_equal(model.estimator_.X_, X)
    np.testing.assert_array_equal(model.estimator_.privileged_, Z)
    assert model.privileged_columns_.tolist() == [1, 3]
    assert model.n_features_in_ == 5


# ---------------------------------------------------------------- which columns, which tables


@pytest.mark.parametrize(
    "columns",
    [
        ["z0", "z1"],
        ["z1", "z0"],
        ("z0", "z1"),
        np.array(["z0", "z1"]),
        pd.Index(["z0", "z1"]),
        [1, 3],
        [1, -2],
        slice(1, 5, 2),
        np.array([False, True, False, True, False]),
        lambda table: [name for name in table.columns if name.startswith("z")],
    ],
)
@pytest.mark.parametrize("table", [TABLE, pl.from_pandas(TABLE)], ids=["pandas", "polars"])
def test_ways_to_name_columns(columns, table):
    assert_split_right(PrivilegedColumns(Recorder(), columns).fit(table, Y))


def test_column_selector_of_scikit_learn():
    assert_split_right(PrivilegedColumns(Recorder(), make_column_selector(pattern="^z")).fit(TABLE, Y))


@pytest.mark.parametrize("columns", ["z0", 1, np.int64(1)])
def test_one_column(columns):
    model = PrivilegedColumns(Recorder(), columns).fit(TABLE, Y)
    np.testing.assert_array_equal(model.estimator_.privileged_, Z[:, :1])
    np.testing.assert_array_equal(model.estimator_.X_, TABLE.drop(columns="z0"))


@pytest.mark.parametrize("start_stop", [("z1", None), (None, "x0"), ("x1", "z1")])
def test_slices_of_names_include_the_end(start_stop):
    model = PrivilegedColumns(Recorder(), slice(*start_stop)).fit(TABLE, Y)
    expected = TABLE.loc[:, slice(*start_stop)].columns
    assert [NAMES[j] for j in model.privileged_columns_] == expected.tolist()


@pytest.mark.parametrize(
    "convert", [np.asarray, lambda t: t.to_numpy().tolist(), lambda t: t.set_axis(range(5), axis=1)]
)
def test_tables_without_names(convert):
    model = PrivilegedColumns(Recorder(), [1, 3]).fit(convert(TABLE), Y)
    assert_split_right(model)
    assert not hasattr(model, "feature_names_in_")
    full, reduced = model.predict(TABLE.to_numpy()), model.predict(X)
    np.testing.assert_array_equal(full, reduced)
    np.testing.assert_array_equal(full, model.estimator_.predict(X))


def test_sparse_table():
    model = PrivilegedColumns(Recorder(), [1, 3]).fit(sparse.coo_array(TABLE.to_numpy()), Y)
    np.testing.assert_array_equal(model.estimator_.X_.toarray(), X)
    np.testing.assert_array_equal(model.estimator_.privileged_.toarray(), Z)


def test_missing_privileged_rows_reach_the_estimator():
    table = TABLE.copy()
    table.loc[[0, 5], ["z0", "z1"]] = np.nan
    model = PrivilegedColumns(Recorder(), ["z0", "z1"]).fit(table, Y)
    assert np.flatnonzero(~model.estimator_.available_).tolist() == [0, 5]


def test_empty_list_fits_the_plain_counterpart():
    model = PrivilegedColumns(Recorder(), []).fit(TABLE, Y)
    assert model.estimator_.privileged_ is None
    assert model.estimator_.n_features_in_ == 5


# ---------------------------------------------------------------- the transformer of the privileged columns


@pytest.mark.parametrize("convert", [lambda table: table, pl.from_pandas, pd.DataFrame.to_numpy])
def test_privileged_columns_are_transformed_as_by_hand(convert):
    columns = ["z0", "z1"] if convert is not pd.DataFrame.to_numpy else [1, 3]
    model = PrivilegedColumns(Recorder(), columns, privileged_transformer=StandardScaler()).fit(convert(TABLE), Y)
    np.testing.assert_allclose(model.estimator_.privileged_, StandardScaler().fit_transform(Z))
    np.testing.assert_array_equal(model.estimator_.X_, X)
    assert model.privileged_transformer_.n_samples_seen_ == 60


def test_the_transformer_sees_the_training_rows_with_a_value_only():
    table = TABLE.copy()
    table.loc[[0, 5], ["z0", "z1"]] = np.nan
    known = np.setdiff1d(np.arange(60), [0, 5])
    for given, columns in ((table, ["z0", "z1"]), (table.astype(object).to_numpy(), [1, 3])):
        transformer = SimpleImputer(strategy="mean")
        model = PrivilegedColumns(Recorder(), columns, privileged_transformer=transformer).fit(given, Y)
        assert np.flatnonzero(~model.estimator_.available_).tolist() == [0, 5]
        np.testing.assert_allclose(model.privileged_transformer_.statistics_, Z[known].mean(axis=0))
    assert not hasattr(transformer, "statistics_")  # a clone was fitted


def test_words_can_be_privileged_with_an_encoder():
    words = np.where(Z[:, 0] > 0, "high", "low")
    table = TABLE.drop(columns=["z0", "z1"]).assign(word=words)
    model = PrivilegedColumns(Recorder(), ["word"], privileged_transformer=OneHotEncoder()).fit(table, Y)
    np.testing.assert_array_equal(model.estimator_.privileged_.toarray()[:, 0], words == "high")
    assert model.predict(table.drop(columns="word")).shape == (60,)


def test_a_transformer_without_rows_or_columns():
    model = PrivilegedColumns(Recorder(), [], privileged_transformer=StandardScaler()).fit(TABLE, Y)
    assert not hasattr(model, "privileged_transformer_")
    with pytest.raises(ValueError, match="no row has a value in the privileged columns"):
        PrivilegedColumns(Recorder(), ["z0"], StandardScaler()).fit(TABLE.assign(z0=np.nan), Y)


def test_a_file_holds_nothing_of_the_transformer(tmp_path):
    model = PrivilegedColumns(SVM2Plus(), ["z0", "z1"], StandardScaler()).fit(TABLE, Y)
    lupi.save(model, tmp_path / "m.lupi")
    again = lupi.load(tmp_path / "m.lupi")
    assert not hasattr(again, "privileged_transformer_")
    np.testing.assert_array_equal(again.predict(TABLE), model.predict(TABLE))


# ---------------------------------------------------------------- prediction


@pytest.mark.parametrize("table", [TABLE, pl.from_pandas(TABLE)], ids=["pandas", "polars"])
def test_predict_with_without_and_with_some_privileged_columns(table):
    model = PrivilegedColumns(Recorder(), ["z0", "z1"]).fit(table, Y)
    expected = model.estimator_.decision_function(made.data)
    for names in (NAMES, ["x0", "x1", "x2"], ["z1", "x0", "x1", "x2"]):
        # Columns of a table may lie in memory in another order, and then sums in another.
        np.testing.assert_allclose(model.decision_function(table[names]), expected, rtol=1e-13)
    np.testing.assert_array_equal(model.predict(table), model.estimator_.predict(made.data))
    assert model.score(table, Y) == np.mean(model.predict(table) == Y)
    assert model.feature_names_in_.tolist() == NAMES
    assert model.classes_.tolist() == [0, 1]


def test_arrays_may_follow_a_frame():
    model = PrivilegedColumns(Recorder(), ["z0", "z1"]).fit(TABLE, Y)
    for table in (TABLE.to_numpy(), X):
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            np.testing.assert_array_equal(model.predict(table), model.predict(TABLE))


def test_privileged_values_do_not_change_predictions():
    model = PrivilegedColumns(Recorder(), ["z0", "z1"]).fit(TABLE, Y)
    changed = TABLE.assign(z0=np.nan, z1="text")
    np.testing.assert_array_equal(model.predict(changed), model.predict(TABLE))


def test_missing_decision_column_at_predict():
    model = PrivilegedColumns(Recorder(), ["z0", "z1"]).fit(TABLE, Y)
    with pytest.raises(ValueError, match=r"(?s)Feature names seen at fit time, yet now missing:\n- x1"):
        model.predict(TABLE.drop(columns="x1"))


def test_refit_without_names_forgets_them():
    model = PrivilegedColumns(Recorder(), [1, 3]).fit(TABLE, Y)
    model.fit(TABLE.to_numpy(), Y)
    assert not hasattr(model, "feature_names_in_")


# ---------------------------------------------------------------- scikit-learn's tools


def test_delegation_follows_the_estimator():
    model = PrivilegedColumns(Recorder(), ["z0", "z1"])
    assert is_classifier(model)
    assert hasattr(model, "decision_function")
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "classes_")
    with pytest.raises(NotFittedError):
        model.predict(TABLE)


def test_params_clone_and_pickle():
    model = PrivilegedColumns(Recorder(), ["z0", "z1"]).set_params(estimator__C=7.0)
    assert model.estimator.C == 7.0
    copy = clone(model).fit(TABLE, Y)
    assert copy.estimator_.C == 7.0
    assert copy.estimator_ is not copy.estimator
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(copy)).predict(TABLE), copy.predict(TABLE))


@pytest.mark.parametrize("routing", [False, True])
def test_cross_validation_and_grid_search(routing):
    model = PrivilegedColumns(Recorder(), ["z0", "z1"])
    with config_context(enable_metadata_routing=routing):
        plain = cross_val_score(Recorder(), X, Y)
        np.testing.assert_array_equal(cross_val_score(model, TABLE, Y), plain)
        search = GridSearchCV(model, {"estimator__C": [1e-3, 1.0], "columns": [["z0"], ["z0", "z1"]]}).fit(TABLE, Y)
    assert set(search.best_params_) == {"columns", "estimator__C"}
    assert search.predict(TABLE).shape == (60,)


@pytest.mark.parametrize("routing", [False, True])
def test_inside_and_around_pipelines(routing):
    with config_context(enable_metadata_routing=routing):
        scale = StandardScaler().set_output(transform="pandas")
        outer = make_pipeline(scale, PrivilegedColumns(Recorder(), ["z0", "z1"])).fit(TABLE, Y)
        inner = PrivilegedColumns(make_pipeline(StandardScaler(), Recorder()), ["z0", "z1"]).fit(TABLE, Y)
    np.testing.assert_allclose(outer[-1].estimator_.X_, inner.estimator_[-1].X_)
    np.testing.assert_array_equal(inner.estimator_[-1].privileged_, Z)
    np.testing.assert_array_equal(outer.predict(TABLE), inner.predict(made.data))


def test_a_grid_search_may_be_wrapped():
    model = PrivilegedColumns(GridSearchCV(Recorder(), {"C": [0.1, 1.0]}), ["z0", "z1"]).fit(TABLE, Y)
    np.testing.assert_array_equal(model.estimator_.best_estimator_.privileged_, Z)


@pytest.mark.parametrize("routing", [False, True])
def test_sample_weight_is_passed_on(routing):
    weight = np.arange(1.0, 61.0)
    with config_context(enable_metadata_routing=routing):
        inner = Recorder()
        if routing:
            inner.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        model = PrivilegedColumns(inner, ["z0", "z1"]).fit(TABLE, Y, sample_weight=weight)
        np.testing.assert_array_equal(model.estimator_.sample_weight_, weight)
        right = model.predict(TABLE) == Y
        assert model.score(TABLE, Y, sample_weight=weight) == pytest.approx(np.average(right, weights=weight))


def test_routing_refuses_what_was_not_requested():
    with config_context(enable_metadata_routing=True):
        model = PrivilegedColumns(Recorder(), ["z0", "z1"])
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            model.fit(TABLE, Y, sample_weight=np.ones(60))
        model.fit(TABLE, Y)
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            model.score(TABLE, Y, sample_weight=np.ones(60))


# ---------------------------------------------------------------- with a real estimator


@pytest.mark.parametrize("routing", [False, True])
def test_equals_the_estimator_with_privileged(routing):
    with config_context(enable_metadata_routing=routing):
        model = PrivilegedColumns(SVM2Plus(C=2.0), ["z0", "z1"]).fit(TABLE, Y)
        direct = SVM2Plus(C=2.0).fit(X, Y, privileged=Z)
        np.testing.assert_allclose(model.decision_function(TABLE), direct.decision_function(X))
        plain = PrivilegedColumns(SVM2Plus(C=2.0), []).fit(made.data, Y)
        assert not np.allclose(plain.decision_function(made.data), direct.decision_function(X), rtol=1e-2)
        grid = {"estimator__C": [0.1, 10], "columns": [[], ["z0", "z1"]]}
        search = GridSearchCV(PrivilegedColumns(SVM2Plus(), []), grid, cv=3).fit(TABLE, Y)
    assert search.best_score_ > 0.6


@parametrize_with_checks([PrivilegedColumns(SVM2Plus(), [])])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["z0", "z9"], r"`columns` is \['z0', 'z9'\], but `X` has the columns \['x0', 'z0'"),
        ([7], r"`columns` is \[7\], but `X` has the columns"),
        (-6, r"`columns` is -6, but `X` has the columns"),
        ([1.5], r"`columns` is \[1.5\], but `X` has the columns"),
        (NAMES, r"makes all 5 columns of `X` privileged; at least one must be left"),
        ([True, False], r"mask of length 2, but `X` has 5 columns"),
        (make_column_selector(pattern="^q"), r"selected no column of `X`.*columns=\[\]"),
    ],
)
def test_messages_for_columns(columns, message):
    with pytest.raises(ValueError, match=message):
        PrivilegedColumns(Recorder(), columns).fit(TABLE, Y)


def test_messages_for_tables():
    with pytest.raises(ValueError, match=r"`columns` is \['z0'\], but `X` has 5 columns without names"):
        PrivilegedColumns(Recorder(), ["z0"]).fit(TABLE.to_numpy(), Y)
    with pytest.raises(ValueError, match=r"`X` must have distinct column names"):
        PrivilegedColumns(Recorder(), ["z0"]).fit(pd.concat([TABLE, TABLE[["z0"]]], axis=1), Y)
    with pytest.raises(ValueError, match=r"Expected 2D array, got 1D array instead"):
        PrivilegedColumns(Recorder(), [0]).fit(X[0], Y)
    with pytest.raises(ValueError, match=r"Found array with 0 feature\(s\)"):
        PrivilegedColumns(Recorder(), []).fit(X[:, :0], Y)
    model = PrivilegedColumns(Recorder(), [1, 3]).fit(TABLE.to_numpy(), Y)
    with pytest.raises(
        ValueError, match=r"X has 4 features, but PrivilegedColumns is expecting 5 .*\(3 without the priv"
    ):
        model.predict(TABLE.to_numpy()[:, :4])


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (LogisticRegression(), r"whose `fit` takes `privileged`.*but got LogisticRegression\."),
        (Pipeline([("model", LogisticRegression())]), r"but got LogisticRegression\."),
        (Recorder, r"but got Recorder \(a class; pass an object\)"),
        ("SVM2Plus", r"but got str\."),
    ],
)
def test_messages_for_estimators(estimator, message):
    with pytest.raises(TypeError, match=message):
        PrivilegedColumns(estimator, ["z0"]).fit(TABLE, Y)


def test_privileged_keyword_is_refused():
    with pytest.raises(TypeError, match=r"from the columns of `X`; leave out privileged="):
        PrivilegedColumns(Recorder(), ["z0"]).fit(TABLE, Y, privileged=Z)


def test_a_masked_array_is_refused():
    X, y, Z = make_privileged(40, random_state=0, return_X_y_privileged=True)
    table = np.hstack([X, Z])
    masked, model = np.ma.masked_greater(table, 1.0), PrivilegedColumns(SVM2Plus(), columns=[-2, -1])
    with pytest.raises(ValueError, match="`X` is a masked array"):
        model.fit(masked, y)
    with pytest.raises(ValueError, match="`X` is a masked array"):
        model.fit(table, y).predict(masked)
