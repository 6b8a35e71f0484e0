"""What surrogate learning is for: it helps where it should, costs nothing where it cannot, and its probabilities hold."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from surrogate.controls import control_change, control_tables

from benchmarks.surrogate import follow_up
from lupi import SurrogateClassifier, SurrogateRegressor
from lupi.datasets import load_digits_lowres
from lupi.surrogate.targets import calibrate, one_hot


def split(n_unlabeled, seed, n=60):
    X, y, Z = follow_up(n + n_unlabeled + 1000, 15, 4, 0, seed)
    train = slice(n + n_unlabeled)
    labels = y[train].copy()
    labels[n:] = np.nan
    return X[train], labels, Z[train], X[n + n_unlabeled :], y[n + n_unlabeled :]


@pytest.mark.parametrize("estimator", ["ridge", None])
def test_it_helps_and_unlabeled_rows_help_more(estimator):
    gains = {0: [], 400: []}
    for n_unlabeled, found in gains.items():
        for seed in range(6):
            X, y, Z, X_test, y_test = split(n_unlabeled, seed)
            model = SurrogateClassifier(estimator, random_state=0).fit(X, y, privileged=Z)
            plain = SurrogateClassifier(estimator, random_state=0).fit(X[:60], y[:60])
            scores = [roc_auc_score(y_test, m.decision_function(X_test)) for m in (model, plain)]
            found.append(100 * (scores[0] - scores[1]))
    assert np.mean(gains[0]) > 0.3
    assert np.mean(gains[400]) > np.mean(gains[0]) + 1.5


def test_regression_gains_too():
    gains = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1400, 15))
        Z = X[:, :3] + 0.5 * rng.normal(size=(1400, 3))
        y = Z.sum(axis=1) + 3 * rng.normal(size=1400)
        labels = np.where(np.arange(400) < 60, y[:400], np.nan)
        model = SurrogateRegressor("ridge").fit(X[:400], labels, privileged=Z[:400])
        plain = SurrogateRegressor("ridge").fit(X[:60], y[:60])
        gains.append(model.score(X[400:], y[400:]) - plain.score(X[400:], y[400:]))
    assert np.mean(gains) > 0.05


@pytest.mark.parametrize("resolution", [4, 2])
def test_ten_digits_with_sharp_pictures_and_few_labels(resolution):
    X, y, Z = load_digits_lowres(resolution=resolution, return_X_y_privileged=True)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:600], order[600:]
    labels = np.where(np.arange(600) < 60, y[train], np.nan)
    model = SurrogateClassifier(random_state=0).fit(X[train], labels, privileged=Z[train])
    plain = SurrogateClassifier(random_state=0).fit(X[train[:60]], y[train[:60]])
    assert model.score(X[test], y[test]) > plain.score(X[test], y[test]) + 0.03
    assert model.teacher_weights_["X alone"] < 0.05


@pytest.mark.parametrize("n_unlabeled", [0, 150])
@pytest.mark.parametrize("kind", ["shuffled", "noise", "copy"])
@pytest.mark.parametrize("table", ["linear", "ten digits 4 x 4"])
def test_useless_privileged_features_cost_next_to_nothing(table, kind, n_unlabeled):
    n_labeled = 100 if n_unlabeled == 0 else 60
    data = control_tables()[table]
    changes = [control_change(*data, kind, n_labeled, n_unlabeled, seed, "ridge") for seed in range(6)]
    assert np.mean(changes) > -1.5


@pytest.mark.parametrize("n_unlabeled", [0, 300])
@pytest.mark.parametrize("estimator", ["ridge", None])
def test_probabilities_are_frequencies_of_labels_never_seen(estimator, n_unlabeled):
    probabilities, labels, slopes = [], [], []
    for seed in range(8):
        X, y, Z, X_test, y_test = split(n_unlabeled, seed, n=100)
        model = SurrogateClassifier(estimator, random_state=0).fit(X, y, privileged=Z)
        probabilities.append(model.predict_proba(X_test)[:, 1])
        labels.append(y_test)
        logit = model.decision_function(X_test)[:, None]
        found = calibrate(logit, one_hot(y_test.astype(int), 2), np.ones(len(y_test)))
        slopes.append(found.slope / found.scale)
    p, y = np.concatenate(probabilities), np.concatenate(labels)
    groups = np.digitize(p, np.quantile(p, np.arange(1, 8) / 8))
    gaps = [abs(p[groups == g].mean() - y[groups == g].mean()) for g in range(8)]
    assert max(gaps) < 0.1
    assert np.mean(gaps) < 0.05
    assert 0.7 < np.median(slopes) < 1.4  # 1: neither too sure of itself nor too shy


def test_probabilities_of_several_classes():
    """On average over three splits; the largest class probability against the frequency of right answers, in quarters."""
    X, y, Z = load_digits_lowres(resolution=2, return_X_y_privileged=True)
    differences = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(y))
        labels = np.where(np.arange(500) < 150, y[order[:500]], np.nan)
        model = SurrogateClassifier(random_state=0).fit(X[order[:500]], labels, privileged=Z[order[:500]])
        p, truth = model.predict_proba(X[order[500:]]), y[order[500:]]
        sure, right = p.max(axis=1), p.argmax(axis=1) == truth
        groups = np.digitize(sure, np.quantile(sure, [0.25, 0.5, 0.75]))
        differences.append([sure[groups == group].mean() - right[groups == group].mean() for group in range(4)])
    assert np.abs(np.mean(differences, axis=0)).max() < 0.1
