import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from lupi import SVM2K, SVM2Plus, SVMPlus
from lupi.datasets import make_privileged

DATA = make_privileged(n_samples=60, random_state=0)


def fitted(cls, **parameters):
    return cls(**parameters).fit(DATA.data, DATA.target, privileged=DATA.privileged)


@pytest.mark.parametrize("cls", [SVMPlus, SVM2Plus, SVM2K])
def test_correction_evaluates_the_correcting_function(cls):
    model = fitted(cls)
    np.testing.assert_array_equal(model.correction(DATA.privileged), model.correcting_function(DATA.privileged))


@pytest.mark.parametrize("cls", [SVMPlus, SVM2Plus])
def test_correction_stays_an_ordinary_parameter(cls):
    model = fitted(cls, correction="labelled")
    assert model.correction == "labelled"
    assert model.get_params()["correction"] == "labelled"
    assert "labelled" in repr(model)
    assert model.set_params(correction="slack").correction == "slack"


@pytest.mark.parametrize("copier", [clone, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_hold_a_plain_string(copier):
    model = fitted(SVM2Plus, correction="labelled")
    twin = copier(model)
    assert type(vars(twin)["correction"]) is str
    assert twin.get_params() == model.get_params()


def test_parameters_of_a_fitted_model_do_not_hold_the_model():
    model = fitted(SVMPlus)
    other = SVMPlus(**model.get_params())
    assert type(vars(other)["correction"]) is str


def test_an_unfitted_correction_is_not_callable():
    with pytest.raises(TypeError):
        SVMPlus().correction(DATA.privileged)


def test_grid_search_over_the_correction():
    search = GridSearchCV(SVM2Plus(), {"correction": ["slack", "labelled"]}, cv=2)
    search.fit(DATA.data, DATA.target, privileged=DATA.privileged)
    assert search.best_params_["correction"] in ("slack", "labelled")
    assert search.best_estimator_.correction(DATA.privileged).shape == (60,)
