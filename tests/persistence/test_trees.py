"""Forests and boosting in model files: they come back as they were, and trees that lead astray are refused."""

import io
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

import lupi
from lupi.datasets import make_privileged
from lupi.persistence import _check_parts

X, Y, Z = make_privileged(80, 3, 2, random_state=0, return_X_y_privileged=True)
MODELS = {
    "forest": RandomForestClassifier(4, random_state=0),
    "forest of numbers": RandomForestRegressor(4, random_state=0),
    "boosting": HistGradientBoostingClassifier(max_iter=4),
    "boosting of numbers": HistGradientBoostingRegressor(max_iter=4),
    "surrogate": lupi.SurrogateClassifier(random_state=0),
    "surrogate, boosted": lupi.SurrogateClassifier(HistGradientBoostingRegressor(max_iter=4), random_state=0),
}


def fitted(name):
    model = MODELS[name]
    return model.fit(X, Y, privileged=Z) if name.startswith("surrogate") else model.fit(X, Y)


@pytest.mark.parametrize("name", MODELS)
def test_trees_come_back_as_they_were(name, tmp_path):
    model = fitted(name)
    lupi.save(model, tmp_path / "m.lupi")
    assert_array_equal(lupi.load(tmp_path / "m.lupi").predict(X), model.predict(X))


def with_nodes(path, change):
    """The file again, the nodes of its first boosted tree changed."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for name, content in parts.items():
        if name.endswith(".npy"):
            array = np.load(io.BytesIO(content))
            if array.dtype.names and "feature_idx" in array.dtype.names:
                change(array)
                buffer = io.BytesIO()
                np.save(buffer, array)
                parts[name] = buffer.getvalue()
                break
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("left", 0, "nodes that do not exist or lead back"),
        ("right", 10_000, "nodes that do not exist or lead back"),
        ("feature_idx", 3, "features that do not exist"),
    ],
)
def test_trees_that_lead_astray_are_refused(field, value, message, tmp_path):
    path = tmp_path / "m.lupi"
    lupi.save(fitted("boosting"), path)

    def change(nodes):
        nodes[field][0] = value

    with_nodes(path, change)
    with pytest.raises(ValueError, match=message):
        lupi.load(path)


def test_a_forest_with_fewer_features_than_its_trees_is_refused():
    model = RandomForestClassifier(2, random_state=0).fit(X, Y)
    _check_parts(model)
    for tree in model.estimators_:
        tree.n_features_in_ = 1
    model.n_features_in_ = 1
    with pytest.raises(ValueError, match="features that do not exist"):
        _check_parts(model)
