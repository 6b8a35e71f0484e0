"""KnowledgeTransfer and Distillation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
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
    Distillation(LogisticRegression(), passthrough=True, cv=3),
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


def test_knowledge_transfer_from_sparse_rows_is_that_from_dense_rows(data):
    X, y, Z = data
    X = X * 10.0 ** np.arange(5)
    expected = KnowledgeTransfer(Ridge(solver="cholesky"), passthrough=False, random_state=0).fit(X, y, Z)
    found = KnowledgeTransfer(Ridge(solver="cholesky"), passthrough=False, random_state=0).fit(
        sparse.csr_array(X), y, Z
    )
    assert_allclose(found.predict(X), expected.predict(X), atol=1e-6 * np.ptp(expected.predict(X)))


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


def test_unlabeled_rows_have_the_teachers_target(data):
    X, y, Z = data
    y = y + X[:, 0]
    y[:70] = np.nan
    Z = Z.copy()
    Z[50:80] = np.nan  # rows 50 to 69 are dropped, rows 70 to 79 keep their target
    with pytest.warns(UserWarning, match="20 rows have neither a label nor privileged features"):
        model = Distillation(LinearRegression(), imitation=0.25).fit(X, y, privileged=Z)
    scored = ~np.isnan(Z[:, 0])
    soft = np.full(len(y), np.nan)
    soft[scored] = Ridge().fit(Z[80:], y[80:]).predict(Z[scored])
    target = np.where(np.isnan(y), soft, np.where(np.isnan(soft), y, 0.75 * y + 0.25 * soft))
    rows = ~np.isnan(target)
    assert rows.sum() == 100
    assert_allclose(model.predict(X), LinearRegression().fit(X[rows], target[rows]).predict(X))


def test_unlabeled_rows_have_the_teachers_classes(data):
    X, y, Z = data
    labels = y.astype(float)
    labels[:60] = np.nan
    model = Distillation(LogisticRegression(), imitation=0.7).fit(X, labels, privileged=Z)
    soft = LogisticRegression(max_iter=1000).fit(Z[60:], y[60:]).predict_proba(Z)[:, 1]
    positive = np.where(np.isnan(labels), soft, 0.3 * y + 0.7 * soft)
    codes, weight = np.tile([0.0, 1.0], len(y)), np.column_stack([1 - positive, positive]).ravel()
    kept = weight > 1e-3
    student = LogisticRegression().fit(np.repeat(X, 2, axis=0)[kept], codes[kept], sample_weight=weight[kept])
    assert_allclose(model.decision_function(X), student.decision_function(X), atol=1e-6)


def test_one_privileged_table(data):
    X, y, Z = data
    for kind in (Distillation, KnowledgeTransfer):
        with pytest.raises(ValueError, match=f"{kind.__name__}: `privileged` has 2 tables; pass one table"):
            kind(LogisticRegression()).fit(X, y, privileged=[Z, Z])


@pytest.mark.parametrize("kind", [Distillation, KnowledgeTransfer])
def test_labels_that_are_missing(kind, data):
    X, y, Z = data
    words = np.array(["no", "yes"], dtype=object)[y]
    words[::2] = None
    coded = np.where(np.arange(len(y)) % 2 == 0, -1, y)
    by_words = kind(LogisticRegression()).fit(X, words, privileged=Z)
    by_code = kind(LogisticRegression(), unlabeled=-1).fit(X, coded, privileged=Z)
    assert by_words.classes_.tolist() == ["no", "yes"]
    assert by_code.classes_.tolist() == [0, 1]
    if kind is Distillation:
        assert_allclose(by_words.decision_function(X), by_code.decision_function(X))
    with pytest.warns(UserWarning, match="pass unlabeled=-1"):
        kind(LogisticRegression()).fit(X, coded, privileged=Z)
    with pytest.raises(ValueError, match="no labeled row"):
        kind(LogisticRegression()).fit(X, np.full(len(y), np.nan), privileged=Z)


def test_rows_without_a_label_train_the_regressor_of_privileged_features(data):
    X, y, Z = data
    y = y.astype(float)
    y[:60] = np.nan
    model = KnowledgeTransfer(LogisticRegression(), random_state=0).fit(X, y, privileged=Z)
    assert_allclose(model.regressor_.coef_, Ridge().fit(X, Z).coef_)
    guess = cross_val_predict(Ridge(), X, Z, cv=KFold(5, shuffle=True, random_state=0))
    student = LogisticRegression().fit(np.hstack([X, guess])[60:], y[60:])
    assert_allclose(model.estimator_.coef_, student.coef_)


@pytest.mark.parametrize("kind", [KnowledgeTransfer, Distillation])
def test_numbers_too_large_to_compute_with_are_refused(kind):
    rng = np.random.default_rng(0)
    X, y, Z = rng.normal(size=(12, 3)), rng.normal(size=12), rng.normal(size=(12, 1))
    with pytest.raises(ValueError, match=rf"{kind.__name__}: `y` has values as large as .*e\+160.*scale the targets"):
        kind(Ridge()).fit(X, 1e160 * y, privileged=Z)
    with pytest.raises(ValueError, match=rf"{kind.__name__}: `X` has values as large as .*e\+160.*scale the features"):
        kind(Ridge()).fit(1e160 * X, y, privileged=Z)
    whole = np.arange(36).reshape(12, 3)  # whole numbers stay what they are
    assert np.isfinite(kind(Ridge()).fit(whole, y, privileged=Z).predict(whole)).all()


@pytest.mark.parametrize("numbers", [False, True])
def test_a_cross_fitted_teacher_on_all_columns_by_hand(numbers, data):
    X, y, Z = data
    y, teacher, method = (y + X[:, 0], Ridge(), "predict") if numbers else (y, LogisticRegression(), "predict_proba")
    unlabeled = np.arange(len(y)) % 3 == 0
    student = Ridge() if numbers else LogisticRegression(tol=1e-10)
    model = Distillation(student, teacher, passthrough=True, cv=5, random_state=2)
    model.fit(X, np.where(unlabeled, np.nan, y), privileged=Z)
    both, known = np.hstack([X, Z]), ~unlabeled
    folds = StratifiedKFold(5, shuffle=True, random_state=2).split(
        X[known], np.zeros(known.sum()) if numbers else y[known]
    )
    soft = getattr(teacher.fit(both[known], y[known]), method)(both)
    soft[known] = cross_val_predict(teacher, both[known], y[known], cv=folds, method=method)
    if numbers:
        student.fit(X, np.where(unlabeled, soft, (y + soft) / 2))
    else:
        share = np.where(unlabeled, soft[:, 1], (y + soft[:, 1]) / 2)
        student.fit(np.vstack([X, X]), np.repeat([0, 1], len(y)), sample_weight=np.r_[1 - share, share])
    assert_allclose(model.estimator_.coef_, student.coef_, atol=1e-6)


def test_a_class_of_one_row_is_not_cross_fitted(data):
    X, y, Z = data
    y = np.where(np.arange(len(y)) == 0, 2, y)
    crossed, plain = (Distillation(LogisticRegression(), cv=cv).fit(X, y, privileged=Z) for cv in (5, None))
    assert_array_equal(crossed.estimator_.coef_, plain.estimator_.coef_)


def test_a_teacher_on_sparse_rows_is_that_on_dense_rows(data):
    X, y, Z = data
    model = Distillation(Ridge(tol=1e-12), Ridge(tol=1e-12), passthrough=True)
    dense = model.fit(X, y + X[:, 0], privileged=Z).predict(X)
    assert_allclose(model.fit(sparse.csr_array(X), y + X[:, 0], privileged=Z).predict(X), dense, rtol=1e-6)
