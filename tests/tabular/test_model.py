"""`lupi.tabular_model`: raw data frames in, predictions out."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

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


COLORS, PARTS, REST = map(
    str.split,
    (
        "red blue gray brown black white yellow green orange buff spotted striped pale dark glossy",
        "wing belly beak crown tail breast eye leg throat back nape cheek",
        "small large tiny bird sits on a branch with long short pointed feathers seen in flight near water",
    ),
)


def captions(n, seed=0):
    """Captions of birds of two species, whose parts differ in how often they have a color."""
    rng, of_species = np.random.default_rng(seed), np.random.default_rng(9)
    shape = len(PARTS), len(COLORS)
    common, tint, own = (of_species.normal(size=size) for size in (shape, (2, 1, shape[1]), (2, *shape)))
    shares = np.exp(common + 0.8 * tint + 0.5 * own)
    shares /= shares.sum(axis=2, keepdims=True)
    species, made = rng.integers(0, 2, n), []
    for kind in species:
        parts = rng.permutation(len(PARTS))[: rng.integers(2, 6)]
        colored = [f"{rng.choice(COLORS, p=shares[kind, k])} {PARTS[k]}" for k in parts]
        made.append(" ".join(["a", *rng.choice(REST, 4), "with", " and ".join(colored), *rng.choice(REST, 4)]))
    return pd.DataFrame({"caption": made, "weight": rng.normal(size=n), "site": rng.choice(["a", "b"], n)}), species


def test_captions_are_worth_what_they_are_in_a_pipeline_made_by_hand():
    table, species = captions(1500)
    train, test = table[:700], table[700:]
    by_hand = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression()).fit(
        train["caption"], species[:700]
    )
    expected = roc_auc_score(species[700:], by_hand.decision_function(test["caption"]))
    assert expected > 0.7
    for estimator in (LogisticRegression(), lupi.SurrogateClassifier("ridge")):
        model = lupi.tabular_model(estimator).fit(train, species[:700])
        assert roc_auc_score(species[700:], model.decision_function(test)) > expected - 0.02
    one_hot = train.astype({"caption": "category"})
    model = lupi.tabular_model(LogisticRegression()).fit(one_hot, species[:700])
    with pytest.warns(
        UserWarning, match="'caption' should hold words that the model knows, but 800 of 800 cells do not"
    ):
        assert abs(roc_auc_score(species[700:], model.decision_function(test)) - 0.5) < 0.05


def test_a_model_of_free_text_is_searched_saved_and_explained_by_columns(tmp_path):
    table, species = captions(400)
    table = table.assign(report=table["caption"], day="2024-01-02", stay=table["weight"] + species)
    table["caption"] = captions(400, 1)[0]["caption"]
    model = lupi.tabular_model(lupi.SurrogateClassifier("ridge"), privileged=["report", "stay", "site"])
    search = GridSearchCV(model, {"estimator__cv": [3, 5]}, cv=2, scoring="roc_auc").fit(table, species)
    model = search.best_estimator_
    bare = table[["caption", "weight", "day"]]
    report = model.explain()
    assert list(report["columns"]) == ["stay", "site", "report"]
    encoded = model.estimator_.explain()["columns"]
    assert report["columns"]["stay"] == encoded["0"]
    assert report["columns"]["report"] == pytest.approx(sum(list(encoded.values())[3:]))
    assert "  report" in str(report)
    for kept in (False, True):
        lupi.save(model, tmp_path / "m", keep_privileged=kept)
        again = lupi.load(tmp_path / "m")
        np.testing.assert_array_equal(again.predict_proba(bare), model.predict_proba(bare))
        terms = set(again.encoder_.texts_["caption"][0].vocabulary_)
        assert terms == set(model.encoder_.texts_["caption"][0].vocabulary_)
        if kept:
            assert again.explain() == report
        else:
            with pytest.raises(lupi.privacy.LeftOutError):
                again.explain()


def test_no_term_of_a_privileged_text_is_saved(tmp_path):
    table, species = captions(200)
    table["caption"] = "secret " + table["caption"]
    model = lupi.tabular_model(lupi.SurrogateClassifier("ridge"), privileged="caption").fit(table, species)
    lupi.save(model, tmp_path / "m")
    assert b"secret" not in (tmp_path / "m").read_bytes()
    assert b"caption" in (tmp_path / "m").read_bytes()


def test_free_text_reaches_estimators_of_data_frames():
    table, species = captions(200)
    model = lupi.tabular_model(HistGradientBoostingClassifier(max_iter=3)).fit(table, species)
    assert model.predict(table).shape == (200,)
    assert list(model.features_of(table))[:3] == ["weight", "site", "caption 1"]


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
