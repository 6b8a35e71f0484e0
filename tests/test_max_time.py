"""`max_time`: the best point so far, with its gap and a warning."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from lupi import (
    JKSE,
    SVM2K,
    JKSEPlus,
    OneClassSVMPlus,
    RankSVM,
    RankTransfer,
    RankTransferCV,
    StructuralSVM,
    StructuralSVMPlus,
    SVM2Plus,
    SVMPlus,
    SVRPlus,
)
from lupi.datasets import make_privileged
from lupi.structured import Multiclass
from lupi.svm.paths import fit_path

NO_TIME = 1e-9
LINEAR = {"kernel": "linear", "privileged_kernel": "linear"}
TASK, STAR = Multiclass(2, 20), Multiclass(2, 5)
ESTIMATORS = [
    SVMPlus(10.0, 1e-2, tol=1e-9),
    SVMPlus(10.0, solver="interior_point"),
    SVMPlus(10.0, **LINEAR),
    SVM2Plus(10.0, tol=1e-9),
    SVM2Plus(10.0, **LINEAR),
    SVM2K(),
    SVRPlus(10.0, 1e-2, tol=1e-9),
    OneClassSVMPlus(solver="interior_point"),
    RankSVM(),
    StructuralSVM(TASK),
    StructuralSVMPlus(TASK, STAR),
    JKSE(TASK, kernel="rbf", solver="interior_point"),
    JKSEPlus(TASK, kernel="rbf", privileged_kernel="rbf", solver="interior_point"),
]


@pytest.fixture(scope="module")
def data():
    return make_privileged(60, 20, 5, random_state=0, return_X_y_privileged=True)


def fitted(estimator, data):
    X, y, Z = data
    extra = {} if isinstance(estimator, (RankSVM, StructuralSVM, JKSE)) and not isinstance(
        estimator, (RankTransfer, JKSEPlus, StructuralSVMPlus)
    ) else {"privileged": Z}  # fmt: skip
    return clone(estimator).fit(X, y, **extra)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_no_time_is_a_warning_with_the_gap(estimator, data, monkeypatch):
    short = clone(estimator).set_params(max_time=NO_TIME)
    with monkeypatch.context() as patched:
        patched.setattr("lupi.solution.SLICE", 1)
        with pytest.warns(ConvergenceWarning, match=r"max_time=1e-09 s .* gap of"):
            model = fitted(short, data)
    patient = fitted(estimator, data)
    assert model.dual_gap_ > patient.dual_gap_
    assert np.isfinite(model.dual_gap_)
    # The bound that the unfinished fit proves holds for the finished one.
    least = model.objective_ - model.dual_gap_ * max(abs(model.objective_), abs(patient.objective_))
    assert least <= patient.objective_ + 1e-6 * abs(patient.objective_)
    assert len(model.predict(data[0])) == 60 if hasattr(model, "predict") else True


def test_enough_time_changes_nothing(data):
    patient, timed = (fitted(SVMPlus(max_time=limit), data) for limit in (None, 1e6))
    np.testing.assert_array_equal(patient.dual_coef_, timed.dual_coef_)


@pytest.mark.parametrize("limit", [0, -1.0, "long"])
def test_limits_are_positive(data, limit):
    with pytest.raises(ValueError, match="max_time"):
        fitted(SVMPlus(max_time=limit), data)


def test_a_path_shares_its_time(data, monkeypatch):
    monkeypatch.setattr("lupi.solution.SLICE", 1)
    X, y, Z = data
    with pytest.warns(ConvergenceWarning, match="max_time"):
        models = fit_path(SVMPlus(max_time=NO_TIME), [{"C": 1.0}, {"C": 10.0}], X, y, privileged=Z)
    assert all(model.dual_gap_ > 0.1 for model in models)


def test_a_search_chooses_by_the_folds_it_finished(data):
    X, y, Z = data
    search = RankTransferCV([0.1, 1.0], [1.0], cv=3, max_time=NO_TIME)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(X, y, privileged=Z)
    assert any("fold 1 of 3" in str(warning.message) for warning in caught)
    assert any("RankSVM stopped at the end of max_time=1e-09 s" in str(warning.message) for warning in caught)
    assert search.n_splits_ == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        assert search.set_params(max_time=1e6).fit(X, y, privileged=Z).n_splits_ == 3
