"""Searches and forests, around a model or in it, come back from a file; without privileged rows."""

import zipfile

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import lupi
from lupi.datasets import make_privileged

X, Y, Z = make_privileged(60, 4, 3, random_state=0, return_X_y_privileged=True)
FOREST = RandomForestClassifier(3, random_state=0)

MODELS = {
    "search around": GridSearchCV(lupi.SVM2Plus(), {"C": [1.0, 10.0]}, cv=2),
    "search around, folds": GridSearchCV(
        lupi.SurrogateClassifier(random_state=0),
        {"estimator": ["ridge", ["ridge", "rbf"]]},
        cv=ShuffleSplit(2, random_state=0),
    ),
    "search around a pipeline": GridSearchCV(
        make_pipeline(StandardScaler(), lupi.SVM2Plus()), {"svm2plus__C": [1.0, 10.0]}, cv=2
    ),
    "search of a classifier inside": lupi.SurrogateClassifier(
        GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2), random_state=0
    ),
    "search of a regressor inside": lupi.SurrogateClassifier(
        RandomizedSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, n_iter=1, cv=2, random_state=0), random_state=0
    ),
    "forest": lupi.SurrogateClassifier(FOREST, random_state=0),
    "search of a forest": lupi.SurrogateClassifier(GridSearchCV(FOREST, {"max_depth": [2, 3]}, cv=2), random_state=0),
    "forest after knowledge": lupi.KnowledgeTransfer(FOREST, random_state=0),
    "distilled forest": lupi.Distillation(FOREST),
}


@pytest.mark.parametrize("name", MODELS)
def test_searches_and_forests_come_back(name, tmp_path):
    model = MODELS[name]
    key = "svm2plus__privileged" if "pipeline" in name else "privileged"
    model.fit(X, Y, **{key: Z})
    lupi.save(model, tmp_path / "model.lupi", keep_privileged=isinstance(model, lupi.KnowledgeTransfer))
    again = lupi.load(tmp_path / "model.lupi")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert type(again) is type(model)
    with zipfile.ZipFile(tmp_path / "model.lupi") as archive:
        content = b"".join(archive.read(part) for part in archive.namelist())
    assert not [value for value in Z.ravel() if np.float64(value).tobytes() in content]


def test_a_scorer_of_the_users_own_is_refused(tmp_path):
    search = GridSearchCV(lupi.SVM2Plus(), {"C": [1.0]}, cv=2, scoring=lambda model, X, y: 0.0)
    search.fit(X, Y, privileged=Z)
    with pytest.raises(TypeError, match="no functions of your own"):
        lupi.save(search, tmp_path / "model.lupi")
    assert not (tmp_path / "model.lupi").exists()
