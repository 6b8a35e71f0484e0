"""``correction`` is a plain string; ``correcting_function`` is the method of every privileged kernel estimator."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from lupi import JKSE, SVM2K, JKSEPlus, OneClassSVMPlus, SVM2Plus, SVMPlus, keep_privileged
from lupi.datasets import make_planted_boxes, make_privileged
from lupi.kernels import Kernel
from lupi.structured import BoxLocalization, Multiclass

DATA = make_privileged(n_samples=60, random_state=0)
X, Y, Z = DATA.data, DATA.target, DATA.privileged
MISSING = np.where((np.arange(60) % 5 == 0)[:, None], np.nan, Z)


def through_a_pickle(model):
    with keep_privileged():
        return pickle.loads(pickle.dumps(model))


COPIERS = [clone, copy.copy, copy.deepcopy, through_a_pickle]


@pytest.mark.parametrize("make", [SVMPlus, SVM2Plus])
def test_correction_is_an_ordinary_parameter(make):
    model = make(correction="labeled").fit(X, Y, privileged=Z)
    assert type(model.correction) is str
    assert model.get_params()["correction"] == "labeled"
    assert "correction='labeled'" in repr(model)
    assert repr(model.correction) == "'labeled'"
    assert model.set_params(correction="slack").correction == "slack"
    with pytest.raises(TypeError, match="not callable"):
        model.correction(Z)


@pytest.mark.parametrize("copier", COPIERS, ids=["clone", "copy", "deepcopy", "pickle"])
@pytest.mark.parametrize("make", [SVMPlus, SVM2Plus])
def test_copies_of_a_fitted_model(make, copier):
    model = make(correction="labeled").fit(X, Y, privileged=Z)
    twin = copier(model)
    assert type(twin.correction) is str
    assert twin.get_params() == model.get_params()
    assert repr(twin) == repr(model)
    assert pickle.loads(pickle.dumps(model.correction)) == copy.deepcopy(model.correction) == "labeled"
    if copier is clone:
        twin.fit(X, Y, privileged=Z)
    np.testing.assert_array_equal(twin.correcting_function(Z), model.correcting_function(Z))
    np.testing.assert_array_equal(twin.decision_function(X), model.decision_function(X))


def test_parameters_of_a_fitted_model_do_not_hold_the_model():
    model = SVMPlus().fit(X, Y, privileged=Z)
    assert all(value is not model for value in model.get_params().values())
    assert SVMPlus(**model.get_params()).correction == "slack"


def test_grid_search_over_the_correction():
    search = GridSearchCV(SVM2Plus(), {"correction": ["slack", "labeled"]}, cv=2)
    search.fit(X, Y, privileged=Z)
    assert search.best_params_["correction"] in ("slack", "labeled")
    assert search.best_estimator_.correcting_function(Z).shape == (60,)


# ---------------------------------------------------------------- one-class machines


@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
def test_correcting_function_of_the_one_class_svm(kernel):
    gram = np.where(np.isnan(MISSING[:, :1]), np.nan, Z @ Z.T)
    given = gram if kernel == "precomputed" else MISSING
    model = OneClassSVMPlus(nu=0.3, privileged_kernel=kernel, privileged_gamma=0.5).fit(X, privileged=given)
    known = ~np.isnan(MISSING[:, 0])
    matrix = Z @ Z.T if kernel != "rbf" else Kernel("rbf", gamma=0.5)(Z)
    expected = matrix[:, known] @ model.privileged_dual_coef_[0] + model.privileged_intercept_
    new = Z @ Z.T if kernel == "precomputed" else Z
    np.testing.assert_allclose(model.correcting_function(new), expected, atol=1e-9)
    np.testing.assert_array_equal(np.isnan(model.correcting_function(given)), ~known)
    # The primal by hand: w.x_i >= rho - g(z_i), and what g does not cover of it is paid by every example.
    l, scores, g = len(X), model.score_samples(X), expected
    alpha = np.zeros(l)
    alpha[model.support_] = model.dual_coef_[0]
    eta = model.privileged_dual_coef_[0]
    norms = 0.5 / (0.3 * l) * alpha @ scores + 0.5 * eta @ matrix[np.ix_(known, known)] @ eta
    rho = model.offset_ / (0.3 * l)
    slack = np.where(known, np.maximum(g, 0.0), np.maximum(rho - scores / (0.3 * l), 0.0))
    assert model.objective_ == pytest.approx(norms - 0.3 * l * rho + slack.sum(), rel=1e-6)
    with pytest.raises(ValueError, match="fitted without privileged features"):
        model.fit(X).correcting_function(new)


@pytest.mark.parametrize("kernel", ["rbf", "intersection"])
def test_correcting_function_of_jkse_plus(kernel):
    task, features = Multiclass(2, X.shape[1]), np.abs(MISSING)
    model = JKSEPlus(task, kernel="rbf", privileged_kernel=kernel, privileged_gamma=0.5).fit(X, Y, privileged=features)
    known = ~np.isnan(MISSING[:, 0])
    matrix = Kernel(kernel, gamma=0.5)(np.abs(Z))
    expected = matrix @ np.where(known, model.privileged_dual_coef_, 0.0) + model.privileged_intercept_
    np.testing.assert_allclose(model.correcting_function(np.abs(Z)), expected, atol=1e-9)
    np.testing.assert_array_equal(np.isnan(model.correcting_function(features)), ~known)
    with pytest.raises(ValueError, match="fitted without privileged features"):
        model.fit(X, Y).correcting_function(np.abs(Z))


def test_correcting_function_of_privileged_inputs_and_outputs():
    images, boxes, stars = make_planted_boxes(
        14, shape=(6, 8), n_words=5, n_points=30, n_privileged_words=3, random_state=0
    )
    star = BoxLocalization(8)
    by_task = JKSEPlus(BoxLocalization(5), privileged_task=star).fit(images, boxes, privileged=stars)
    rows = np.array([star.joint_feature(z, y) for z, y in zip(stars, boxes)])
    by_rows = JKSEPlus(BoxLocalization(5)).fit(images, boxes, privileged=rows)
    values = by_task.correcting_function(stars, boxes)
    np.testing.assert_allclose(values, by_rows.correcting_function(rows), atol=1e-12)
    assert np.ptp(values) > 0


@pytest.mark.parametrize("make", [SVMPlus, SVM2Plus, SVM2K, OneClassSVMPlus, JKSEPlus])
def test_every_privileged_kernel_estimator_has_a_correcting_function(make):
    assert callable(make.correcting_function)
    assert not callable(getattr(make, "correction", None))
    assert not hasattr(JKSE, "correcting_function")
