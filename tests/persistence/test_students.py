"""Searches and forests as students, and searches over our estimators, come back from a file as they were."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV

import lupi

rng = np.random.default_rng(0)
X, Z = rng.random((60, 4)), rng.random((60, 2))
Y = (X[:, 0] + Z[:, 0] > 1).astype(int)


def forest(kind=RandomForestClassifier):
    return kind(3, max_depth=3, random_state=0)


STUDENTS = {
    "forest": lupi.SurrogateClassifier(forest(), random_state=0),
    "forest of numbers": lupi.SurrogateRegressor(forest(RandomForestRegressor), random_state=0),
    "searched forest": lupi.SurrogateClassifier(GridSearchCV(forest(), {"max_depth": [1, 2]}, cv=2), random_state=0),
    "searched ridge": lupi.SurrogateRegressor(GridSearchCV(Ridge(), {"alpha": [1, 10]}, cv=2), random_state=0),
    "boosting": lupi.Distillation(HistGradientBoostingClassifier(max_iter=3, random_state=0)),
    "distilled forest": lupi.Distillation(forest()),
    "transferred forest": lupi.KnowledgeTransfer(forest(), Ridge(), random_state=0),
    "search over it": GridSearchCV(lupi.SurrogateClassifier(), {"estimator": ["ridge", ["ridge", "forest"]]}, cv=2),
    "search over a machine": GridSearchCV(lupi.SVM2Plus(), {"C": [0.1, 1.0]}, cv=2),
}


@pytest.mark.parametrize("name", STUDENTS)
def test_back_from_a_file(name, tmp_path):
    model = STUDENTS[name].fit(X, Y, privileged=Z)
    lupi.save(model, tmp_path / "model.lupi", keep_privileged=isinstance(model, lupi.KnowledgeTransfer))
    again = lupi.load(tmp_path / "model.lupi")
    new = rng.random((50, 4))
    np.testing.assert_array_equal(again.predict(new), model.predict(new))
    if hasattr(model, "predict_proba"):
        np.testing.assert_array_equal(again.predict_proba(new), model.predict_proba(new))
    assert type(again) is type(model)
