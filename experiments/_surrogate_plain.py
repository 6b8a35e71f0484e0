"""Plain learners that surrogate learning is measured against, tuned by inner cross-validation, the forest out of bag."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, ParameterGrid, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

PLAIN = ("logistic", "forest", "boosting", "svm")
N_FOLDS = 3
# What each learner is tuned over; gamma of the SVM in units of 1 / number of columns.
GRIDS = {
    "logistic": {"C": (0.001, 0.01, 0.1, 1.0, 10.0)},
    "svm": {"C": (0.1, 1.0, 10.0, 100.0), "gamma": (0.2, 1.0)},
    "forest": {"n_estimators": (200,), "min_samples_leaf": (1, 5)},
    "boosting": {"max_iter": (60,), "min_samples_leaf": (5, 15), "max_leaf_nodes": (6,)},
}


def plain_learner(name, n_features, seed):
    """A learner with its grid, not fitted.

    Parameters
    ----------
    name : {"logistic", "forest", "boosting", "svm"}
    n_features : int
    seed : int
        Of the forest and of boosting.

    Returns
    -------
    estimator, grid
    """
    grid = GRIDS[name]
    if name == "logistic":
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)), _prefixed(grid, "logisticregression")
    if name == "svm":
        scaled = {**grid, "gamma": tuple(g / n_features for g in grid["gamma"])}
        return make_pipeline(StandardScaler(), SVC()), _prefixed(scaled, "svc")
    if name == "forest":
        return RandomForestClassifier(random_state=seed), grid
    return HistGradientBoostingClassifier(early_stopping=False, random_state=seed), grid


def _prefixed(grid, step):
    return {f"{step}__{name}": values for name, values in grid.items()}


def fit_plain(name, X, y, seed, scoring="roc_auc"):
    """Tune and fit a plain learner.

    Parameters
    ----------
    name : str
        One of `PLAIN`.
    X, y : ndarray
    seed : int
        Of the folds and of the learner.
    scoring : {"roc_auc", "accuracy"}

    Returns
    -------
    model : estimator
        Fitted.
    chosen : dict
        Its parameters.
    """
    learner, grid = plain_learner(name, X.shape[1], seed)
    if name == "forest":
        return _best_out_of_bag(learner, grid, X, y, scoring)
    # Ten classes and 60 labels: a class may have fewer rows than there are folds.
    n_folds = max(2, min(N_FOLDS, np.bincount(y).min()))
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    search = GridSearchCV(learner, {name: list(values) for name, values in grid.items()}, scoring=scoring, cv=folds)
    search.fit(X, y)
    return search.best_estimator_, search.best_params_


def _best_out_of_bag(forest, grid, X, y, scoring):
    """The forest whose trees predict the rows that they did not see best."""
    candidates = []
    for chosen in ParameterGrid(grid):
        model = clone(forest).set_params(oob_score=True, **chosen).fit(X, y)
        votes = model.oob_decision_function_
        score = np.mean(votes.argmax(axis=1) == y) if scoring == "accuracy" else roc_auc_score(y, votes[:, 1])
        candidates.append((score, model, chosen))
    _, model, chosen = max(candidates, key=lambda candidate: candidate[0])
    return model, chosen


def held_out_score(model, X, y, scoring="roc_auc"):
    """Score of a fitted classifier on test rows."""
    if scoring == "accuracy":
        return float(accuracy_score(y, model.predict(X)))
    if hasattr(model, "decision_function"):
        return float(roc_auc_score(y, model.decision_function(X)))
    return float(roc_auc_score(y, model.predict_proba(X)[:, 1]))
