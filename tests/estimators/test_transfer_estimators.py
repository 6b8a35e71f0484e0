"""KnowledgeTransfer and Distillation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from lupi import Distillation, KnowledgeTransfer
from lupi.datasets import make_privileged

MODELS = [
    KnowledgeTransfer(LogisticRegression()),
    KnowledgeTransfer(Ridge()),
    Distillation(LogisticRegression()),
    Distillation(Ridge()),
]


@parametrize_with_checks(MODELS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    return make_privileged(120, 5, 2, random_state=0, return_X_y_privileged=True)


@pytest.mark.parametrize("model", MODELS)
def test_without_privileged_features_it_is_the_student(model, data):
    X, y, Z = data
    student = type(model.estimator)().fit(X, y)
    for privileged in (None, np.full_like(Z, np.nan)):
        assert_array_equal(model.fit(X, y, privileged).predict(X), student.predict(X))


def test_knowledge_transfer_by_hand(data):
    X, y, Z = data
    model = KnowledgeTransfer(LogisticRegression(), random_state=3).fit(X, y, privileged=Z)
    guess = cross_val_predict(Ridge(), X, Z, cv=KFold(5, shuffle=True, random_state=3))
    student = LogisticRegression().fit(np.hstack([X, guess]), y)
    later = np.hstack([X, Ridge().fit(X, Z).predict(X)])
    assert_allclose(model.decision_function(X), student.decision_function(later))
    assert_allclose(model.predict_proba(X), student.predict_proba(later))
    alone = KnowledgeTransfer(LogisticRegression(), passthrough=False, random_state=3).fit(X, y, privileged=Z)
    assert alone.estimator_.n_features_in_ == Z.shape[1]


def test_knowledge_transfer_leaves_missing_rows_out(data):
    X, y, Z = data
    Z = Z.copy()
    Z[::3] = np.nan
    model = KnowledgeTransfer(LogisticRegression(), random_state=0).fit(X, y, privileged=Z)
    kept = ~np.isnan(Z).any(axis=1)
    assert_allclose(model.regressor_.coef_, Ridge().fit(X[kept], Z[kept]).coef_)


@pytest.mark.parametrize("imitation", [0.0, 0.4, 1.0])
def test_distillation_is_a_weighted_fit(imitation, data):
    X, y, Z = data
    model = Distillation(SVC(), imitation=imitation, temperature=2.0).fit(X, y, privileged=Z)
    logits = LogisticRegression(max_iter=1000).fit(Z, y).decision_function(Z) / 2.0
    positive = (1 - imitation) * y + imitation / (1 + np.exp(-logits))
    twice = np.vstack([X, X])
    labels = np.repeat([0, 1], len(y))
    weight = np.concatenate([1 - positive, positive])
    kept = weight > 1e-3
    order = np.argsort(np.tile(np.arange(len(y)), 2)[kept], kind="stable")
    student = SVC().fit(twice[kept][order], labels[kept][order], sample_weight=weight[kept][order])
    assert_allclose(model.decision_function(X), student.decision_function(X), atol=1e-6)


def test_distillation_of_a_regression_and_missing_rows(data):
    X, y, Z = data
    y = y + X[:, 0]
    Z = Z.copy()
    Z[:40] = np.nan
    model = Distillation(LinearRegression(), imitation=0.25).fit(X, y, privileged=Z)
    soft = y.copy()
    soft[40:] = 0.75 * y[40:] + 0.25 * Ridge().fit(Z[40:], y[40:]).predict(Z[40:])
    assert_allclose(model.predict(X), LinearRegression().fit(X, soft).predict(X))


def test_three_classes():
    rng = np.random.default_rng(0)
    y = np.array(["a", "b", "c"])[rng.integers(0, 3, 90)]
    Z = (y[:, None] == np.array(["a", "b", "c"])) + 0.1 * rng.standard_normal((90, 3))
    X = Z + rng.standard_normal((90, 3))
    for model in (Distillation(LogisticRegression()), KnowledgeTransfer(LogisticRegression(), random_state=0)):
        fitted = model.fit(X, y, privileged=Z)
        assert fitted.classes_.tolist() == ["a", "b", "c"]
        assert fitted.score(X, y) > 0.6


def test_distillation_says_that_weights_are_needed(data):
    X, y, Z = data
    with pytest.raises(TypeError, match="must take `sample_weight`; that of KNeighborsClassifier does not"):
        Distillation(KNeighborsClassifier()).fit(X, y, privileged=Z)
