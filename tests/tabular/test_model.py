"""`lupi.tabular_model`: raw data frames in, predictions out."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import cross_val_score

import lupi


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    made = pd.DataFrame({"a": rng.standard_normal(90), "town": rng.choice(["Ulm", "Bonn"], 90)})
    made["day"] = (pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 300, 90), "D")).strftime("%d.%m.%Y")
    made["cost_1"], made["cost_2"] = made["a"] + rng.standard_normal(90), rng.choice(["high", "low"], 90)
    made.loc[::8, "a"] = np.nan
    made.loc[5, ["cost_1", "cost_2"]] = None
    return made


@pytest.fixture(scope="module")
def labels(frame):
    return np.where(frame["cost_1"].fillna(0) > 0, "ill", "well")


def test_fit_predict_save_and_clone(frame, labels, tmp_path):
    model = lupi.tabular_model(lupi.SurrogateClassifier("ridge"), privileged="cost_*").fit(frame, labels)
    bare = frame[["day", "town", "a"]]
    assert set(model.predict(bare)) == {"ill", "well"}
    assert (model.predict(bare) == labels).mean() > 0.6
    np.testing.assert_array_equal(model.predict(frame), model.predict(bare))
    np.testing.assert_allclose(model.predict_proba(bare).sum(axis=1), 1)
    lupi.save(model, tmp_path / "m.lupi")
    again = lupi.load(tmp_path / "m.lupi")
    np.testing.assert_array_equal(again.decision_function(bare), model.decision_function(bare))
    assert again.schema_ == model.schema_
    assert set(again.schema_.columns) == set(bare)  # nothing of the privileged columns
    assert cross_val_score(clone(model), frame, labels, cv=3).mean() > 0.6
    polars = pytest.importorskip("polars")
    np.testing.assert_array_equal(model.predict(polars.from_pandas(bare)), model.predict(bare))


def test_the_estimator_sees_both_blocks_encoded(frame, labels):
    model = lupi.tabular_model(lupi.SVM2Plus(kernel="linear"), privileged=["cost_1", "cost_2"]).fit(frame, labels)
    hidden = frame[["cost_1", "cost_2"]].assign(high=frame["cost_2"] == "high", low=frame["cost_2"] == "low")
    known = frame["cost_1"].notna().to_numpy()
    Z = hidden.drop(columns="cost_2").to_numpy(dtype=float)
    Z[:, 0] = (Z[:, 0] - Z[known, 0].mean()) / Z[known, 0].std()
    Z[~known] = np.nan
    X = model.features_of(frame)
    expected = lupi.SVM2Plus(kernel="linear").fit(X, labels == "well", privileged=Z)
    np.testing.assert_allclose(model.estimator_.coef_, expected.coef_, rtol=1e-6)


def test_default_estimator_follows_the_target(frame, labels):
    some = frame[:40].drop(columns=["cost_1", "cost_2"])
    classes = lupi.tabular_model().fit(some, labels[:40])
    assert isinstance(classes.estimator_, lupi.SurrogateClassifier)
    assert is_classifier(classes)
    numbers = lupi.tabular_model().fit(some, frame["cost_1"][:40])
    assert isinstance(numbers.estimator_, lupi.SurrogateRegressor)
    assert is_regressor(numbers)
    assert is_regressor(lupi.tabular_model(Ridge()))
    scaled = lupi.tabular_model(Ridge(1e-9)).fit(some, 1000 + 5 * np.arange(40))
    assert abs(scaled.predict(some).mean() - 1097.5) < 1e-6


def test_unlabeled_rows_and_estimators_that_accept_gaps_or_words(frame, labels):
    partly = pd.Series(labels, dtype=object).mask(np.arange(90) % 3 == 0)
    model = lupi.tabular_model(lupi.SurrogateClassifier("ridge"), privileged="cost_*").fit(frame, partly)
    assert model.estimator_.n_unlabeled_ == 30
    assert list(model.classes_) == ["ill", "well"]
    seen = {}

    class Sees(HistGradientBoostingClassifier):
        def fit(self, X, y):
            seen["X"] = X
            return super().fit(X, y)

    lupi.tabular_model(Sees(max_iter=3)).fit(frame, labels)
    assert list(seen["X"]["town"].cat.categories) == ["Bonn", "Ulm"]
    assert seen["X"]["a"].isna().sum() == frame["a"].isna().sum()


def test_errors(frame, labels):
    with pytest.raises(ValueError, match=r"`privileged` \(--privileged\) names the column 'stay'"):
        lupi.tabular_model(privileged=["stay"]).fit(frame, labels)
    with pytest.raises(TypeError, match="`X` must be a data frame"):
        lupi.tabular_model(privileged=["stay"]).fit(np.zeros((90, 2)), labels)
    model = lupi.tabular_model(LogisticRegression(), privileged="day,cost_*").fit(frame, labels)
    assert list(model.schema_.columns) == ["a", "town"]  # an estimator without `privileged` gets the others
    with pytest.raises(ValueError, match=r"lacks the column\(s\) that the model needs: a"):
        model.predict(frame[["town"]])


def test_masked_arrays_are_refused():
    rng = np.random.default_rng(0)
    X, Z, y = rng.normal(size=(40, 2)), rng.normal(size=(40, 1)), np.arange(40) % 2
    model = lupi.tabular_model(lupi.SurrogateClassifier("ridge")).fit(X, y, Z)
    for given in (
        (np.ma.masked_less(X, 0.0), y, Z),
        (X, np.ma.masked_less(y, 1), Z),
        (X, y, np.ma.masked_less(Z, 0.0)),
    ):
        with pytest.raises(ValueError, match="is a masked array"):
            clone(model).fit(*given)
    with pytest.raises(ValueError, match="is a masked array"):
        model.predict(np.ma.masked_less(X, 0.0))
