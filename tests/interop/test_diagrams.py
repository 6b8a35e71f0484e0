"""The diagrams of notebooks, for every estimator, fitted or not."""

import inspect

import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import Ridge

import lupi
from lupi.structured import Multiclass

NEEDED = {"estimator": Ridge(), "task": Multiclass(3, 4), "columns": ["u"]}
ESTIMATORS = [
    name for name in lupi.__all__ if inspect.isclass(found := getattr(lupi, name)) and issubclass(found, BaseEstimator)
]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_diagram(name):
    kind = getattr(lupi, name)
    required = [
        key
        for key, parameter in inspect.signature(kind).parameters.items()
        if parameter.default is inspect.Parameter.empty
    ]
    page = kind(**{key: NEEDED[key] for key in required})._repr_html_()
    assert f">{name}<" in page
    assert "Not fitted" in page


def test_diagram_of_a_fitted_model(arrays):
    X, y, Z = arrays
    page = lupi.SurrogateClassifier(Ridge()).fit(X, y, privileged=Z)._repr_html_()
    assert ">Ridge<" in page
    assert "Fitted" in page
