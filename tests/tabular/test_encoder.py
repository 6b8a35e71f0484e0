"""Features of a table, against scikit-learn's transformers."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from lupi.tabular.model import MAX_LEVELS, TableEncoder, privileged_encoder
from lupi.tabular.table import Table


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    made = pd.DataFrame({"a": rng.normal(3, 2, 60), "b": np.ones(60), "c": np.full(60, np.nan)})
    made["town"] = rng.choice(["x", "y", "z"], 60)
    made.loc[::7, ["a", "town"]] = np.nan
    return made


def test_features_are_those_of_scikit_learn(frame):
    numbers = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler())
    words = OneHotEncoder(categories=[["x", "y", "z"]], handle_unknown="ignore", sparse_output=False)
    reference = make_column_transformer((numbers, ["a", "b", "c"]), (words, ["town"]))
    train, test = frame[:40], frame[40:].assign(town=["elsewhere", "x"] * 10)
    fitted = TableEncoder().fit(Table.of(train))
    for part in (train, test):
        expected = reference.fit(train).transform(part)
        found = fitted.transform(Table.of(train).schema.parse(part))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
        assert found.shape[1] == fitted.n_features_out_
    raw = TableEncoder(standardize=False, fill=False).fit(Table.of(train)).transform(Table.of(train))
    np.testing.assert_array_equal(raw[:, :3], train[["a", "b", "c"]])


def test_rare_words_and_gaps_have_no_feature():
    words = [f"w{k:02}" for k in range(MAX_LEVELS + 2) for _ in range(2 if k > 1 else 1)] + [None]
    table = Table.of(pd.DataFrame({"word": words, "n": 1.0}))
    fitted = TableEncoder().fit(table)
    assert fitted.levels_["word"] == [f"w{k:02}" for k in range(2, MAX_LEVELS + 2)]
    features = fitted.transform(table)[:, 1:]
    assert features.sum(axis=1).tolist() == [0, 0] + [1] * 2 * MAX_LEVELS + [0]
    assert (features.argmax(axis=1)[2:-1] == np.repeat(np.arange(MAX_LEVELS), 2)).all()


def test_free_text_keeps_the_inner_products_of_tfidf():
    """With as many components as the training rows have ranks, the features are TF-IDF weights in other axes."""
    rng = np.random.default_rng(0)
    words = np.array(["red", "blue", "beak", "wing", "tail", "long"])
    train = pd.DataFrame({"note": [" ".join(rng.choice(words, 5)) for _ in range(400)], "n": 1.0})
    later = pd.DataFrame({"note": ["", None, "red wing red", "RED unseen wing", "unseen"], "n": 1.0})
    table = Table.of(train)
    assert table.texts == ["note"]
    fitted = TableEncoder().fit(table)
    reference = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2).fit(train["note"])
    expected = reference.transform(train["note"])
    features = fitted.transform(table)[:, 1:]
    assert features.shape == (400, expected.shape[1])
    assert features.std(axis=0).max() == pytest.approx(1)
    scale = (features**2).sum() / expected.power(2).sum()
    np.testing.assert_allclose(features @ features.T, scale * (expected @ expected.T).toarray(), atol=1e-9)
    assert fitted.sources_ == ["n"] + ["note"] * features.shape[1]
    found = fitted.transform(table.schema.parse(later))[:, 1:]
    expected_later = reference.transform(later["note"].fillna(""))
    np.testing.assert_allclose(found @ features.T, scale * (expected_later @ expected.T).toarray(), atol=1e-9)
    assert not found[[0, 1, 4]].any()
    framed = TableEncoder(as_frame=True).fit(table).transform(table.take([3, 3, 0]))
    np.testing.assert_allclose(framed.drop(columns="n"), features[[3, 3, 0]], atol=1e-10)


def test_free_text_without_a_term_in_two_rows_has_no_feature():
    table = Table.of(pd.DataFrame({"note": [f"{a}{b}x {a}{b}y {a}{b}z" for a in "abcdef" for b in "abcdef"], "n": 1.0}))
    assert table.texts == ["note"]
    for options in ({}, {"as_frame": True}):
        assert TableEncoder(**options).fit(table).transform(table).shape == (36, 1)


def test_rows_without_a_privileged_value_stay_without(frame):
    hidden = frame[["a", "town"]]
    features = privileged_encoder(Table.of(hidden)).transform(Table.of(hidden))
    empty = np.arange(60) % 7 == 0
    assert np.isnan(features[empty]).all()
    np.testing.assert_allclose(features[~empty, 0], StandardScaler().fit_transform(hidden[["a"]])[~empty, 0])


@pytest.mark.parametrize("unit", [1e-14, 1e14])
def test_the_unit_of_a_column_does_not_matter(frame, unit):
    table, other = Table.of(frame), Table.of(frame.assign(a=unit * frame["a"]))
    found = TableEncoder().fit(other).transform(other)
    np.testing.assert_allclose(found, TableEncoder().fit(table).transform(table), rtol=1e-9, atol=1e-12)
