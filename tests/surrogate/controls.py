"""Useless privileged features: tables to try them on, and the change that they make."""

import numpy as np
from sklearn.datasets import make_classification, make_moons
from sklearn.metrics import accuracy_score, roc_auc_score

from lupi import SurrogateClassifier
from lupi.datasets import load_breast_cancer_followup, load_digits_lowres


def control_tables():
    """Tables on which useless privileged features are tried: name -> X, y, informative Z."""
    tables = {}
    for name, options in {
        "linear": {"n_informative": 5},
        "wide": {"n_features": 80, "n_informative": 5},
        "clusters": {"n_informative": 6, "n_clusters_per_class": 3},
        "noisy labels": {"n_informative": 5, "flip_y": 0.4},
        "few positives": {"n_informative": 5, "weights": [0.8]},
    }.items():
        X, y = make_classification(1500, random_state=0, **options)
        tables[name] = X, y, X[:, :4]
    X, y = make_moons(1500, noise=0.4, random_state=0)
    tables["moons"] = X, y, X
    tables["breast cancer"] = load_breast_cancer_followup(return_X_y_privileged=True)
    for size in (4, 2):
        tables[f"ten digits {size} x {size}"] = load_digits_lowres(resolution=size, return_X_y_privileged=True)
    X, y = make_classification(1500, n_informative=10, n_classes=10, n_clusters_per_class=1, random_state=0)
    tables["ten clusters"] = X, y, np.abs(X[:, :5])
    return tables


def control_change(X, y, Z, kind, n_labeled, n_unlabeled, seed, estimator=None):
    """AUC points (two classes) or accuracy points gained from useless privileged features: shuffled, noise or a copy of X."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    train, test = order[: n_labeled + n_unlabeled], order[n_labeled + n_unlabeled :]
    useless = {"shuffled": Z[rng.permutation(len(y))], "noise": rng.standard_normal((len(y), 40)), "copy": X}[kind]
    labels = y[train].astype(float)
    labels[n_labeled:] = np.nan
    scores = []
    for privileged in (useless[train], None):
        rows = slice(None) if privileged is not None else slice(n_labeled)
        model = SurrogateClassifier(estimator, random_state=0).fit(X[train][rows], labels[rows], privileged=privileged)
        if len(model.classes_) == 2:
            scores.append(roc_auc_score(y[test], model.decision_function(X[test])))
        else:
            scores.append(accuracy_score(y[test], model.predict(X[test])))
    return 100 * (scores[0] - scores[1])
