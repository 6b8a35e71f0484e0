"""Calibration against scikit-learn's logistic regression and a generic optimizer; effective rows against the risk formulas."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

from lupi.surrogate.report import effective_rows
from lupi.surrogate.targets import blend, calibrate, calibrate_values, log_loss, one_hot
from lupi.surrogate.teachers import label_noise


def test_two_classes_are_logistic_regression_with_a_unit_ridge():
    rng = np.random.default_rng(0)
    score, weight = rng.normal(size=40) * 3 + 1, rng.integers(1, 4, size=40)
    labels = (score + 3 * rng.normal(size=40) > 1).astype(int)
    found = calibrate(score[:, None], one_hot(labels, 2), weight.astype(float))
    mean = np.average(score, weights=weight)
    unit = (score - mean) / np.sqrt(np.average((score - mean) ** 2, weights=weight))
    peer = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(unit[:, None], labels, sample_weight=weight)
    np.testing.assert_allclose([found.slope, found.intercept[0]], [peer.coef_[0, 0], peer.intercept_[0]], atol=1e-5)
    np.testing.assert_allclose(found.logits(score[:, None])[:, 0], peer.decision_function(unit[:, None]), atol=1e-5)


def test_several_classes_minimize_the_penalized_softmax_loss():
    rng = np.random.default_rng(1)
    scores, labels = rng.normal(size=(50, 4)), rng.integers(0, 4, size=50)
    scores[np.arange(50), labels] += 1.0
    weight = rng.random(50) + 0.5
    found = calibrate(scores, one_hot(labels, 4), weight)
    unit = (scores - found.center) / found.scale

    def objective(parameters):
        a, b = parameters[:-1], parameters[-1]
        losses = -log_softmax(a + b * unit, axis=1)[np.arange(50), labels]
        return weight @ losses + (b * b + a @ a) / 2

    peer = minimize(objective, np.zeros(5), tol=1e-12)
    np.testing.assert_allclose([*found.intercept, found.slope], peer.x, atol=1e-5)
    np.testing.assert_allclose(
        log_loss(found.logits(scores), labels, weight),
        (peer.fun - (peer.x @ peer.x) / 2) / weight.sum(),
        atol=1e-7,
    )


@pytest.mark.parametrize("k", [1, 3])
def test_slope_is_never_negative(k):
    labels = np.arange(60) % max(2, k)
    scores = -one_hot(labels, max(2, k))[:, -k:] + 0.1 * np.random.default_rng(0).normal(size=(60, k))
    found = calibrate(scores, one_hot(labels, max(2, k)), np.ones(60))
    assert found.slope == 0.0
    assert np.ptp(found.logits(scores), axis=0).max() == 0.0
    assert calibrate_values(-labels[:, None].astype(float), labels.astype(float), np.ones(60)).slope == 0.0


def test_separable_scores_stay_finite():
    labels = np.repeat([0, 1], 20)
    found = calibrate(np.where(labels == 1, 5.0, -5.0)[:, None], one_hot(labels, 2), np.ones(40))
    assert 1.0 < found.slope < 5.0


def test_constant_scores_give_the_class_frequencies():
    labels = np.repeat([0, 1], [30, 10])
    logit = calibrate(np.zeros((40, 1)), one_hot(labels, 2), np.ones(40)).logits(np.zeros((1, 1)))[0, 0]
    assert abs(1 / (1 + np.exp(-logit)) - 0.25) < 1e-3


def test_soft_labels_with_certain_shares_are_hard_labels():
    rng = np.random.default_rng(2)
    score, labels = rng.normal(size=(30, 1)), rng.integers(0, 2, size=30)
    doubled = calibrate(np.vstack([score, score]), np.vstack([one_hot(labels, 2), np.full((30, 2), 0.5)]), np.ones(60))
    # A share of one half is half a row of each class.
    halves = np.vstack([score, score, score])
    shares = np.vstack([one_hot(labels, 2), one_hot(np.zeros(30, int), 2), one_hot(np.ones(30, int), 2)])
    weighted = calibrate(halves, shares, np.repeat([1.0, 0.5, 0.5], 30))
    np.testing.assert_allclose([doubled.slope, *doubled.intercept], [weighted.slope, *weighted.intercept], atol=1e-9)


def test_blend_of_two_calibrations():
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(40, 3))
    one, other = (calibrate(scores * s, one_hot(rng.integers(0, 3, 40), 3), np.ones(40)) for s in (1.0, 2.0))
    np.testing.assert_allclose(
        blend(one, other, 0.3).logits(scores), 0.3 * one.logits(scores) + 0.7 * other.logits(scores), atol=1e-12
    )


def test_the_unit_of_the_scores_does_not_matter():
    rng = np.random.default_rng(4)
    score, labels, values = rng.normal(size=(30, 1)), rng.integers(0, 2, 30), rng.normal(size=30)
    for unit in (1e-13, 1e13):
        small = calibrate(unit * score, one_hot(labels, 2), np.ones(30))
        line = calibrate_values(unit * score, unit * values, np.ones(30))
        np.testing.assert_allclose(small.slope, calibrate(score, one_hot(labels, 2), np.ones(30)).slope, rtol=1e-9)
        np.testing.assert_allclose(line.slope, unit * calibrate_values(score, values, np.ones(30)).slope, rtol=1e-9)


def plain_risk(noise, gap, p, n):
    return (gap + noise) * p / n


def surrogate_risk(noise, gap, p, trace, n, n_scored=None):
    return gap * p / (n_scored or n) + noise * trace / n


def overlap(X, Z):
    """tr(P_X P_Z)."""
    return np.sum(np.square(np.linalg.qr(X)[0].T @ np.linalg.qr(Z)[0]))


def _projection_probe(n, p, q, n_unlabeled):
    """Ridges with hardly any penalty, so that the risks are those of least squares."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n + n_unlabeled, p))
    Z = X[:, :q] + rng.normal(size=(n + n_unlabeled, q))
    known = np.arange(n + n_unlabeled) < n
    coef = np.linalg.lstsq(np.c_[np.ones(n), Z[:n]], label_noise(np.ones(n)), rcond=None)[0]
    return X, Z, known, np.c_[np.ones(len(Z)), Z] @ coef


def test_effective_rows_are_those_of_the_risk_formula():
    n, p, q = 400, 30, 8
    X, Z, known, noise = _projection_probe(n, p, q, 0)
    found = effective_rows(1.0, 0.25, X, known, np.ones(n), noise, alpha=1e-6)
    # The formula, with one more degree of freedom in each regression for the intercept.
    risk = surrogate_risk(1.0, 0.25, p + 1, 1 + overlap(X - X.mean(0), Z - Z.mean(0)), n)
    np.testing.assert_allclose(found, n * plain_risk(1.0, 0.25, p + 1, n) / risk, rtol=0.1)


def test_unlabeled_rows_count_for_what_x_cannot_know_of_the_score():
    known = {}
    for n_unlabeled in (0, 2000):
        X, _, labeled, noise = _projection_probe(200, 20, 20, n_unlabeled)
        known[n_unlabeled] = effective_rows(0.5, 0.5, X, labeled, np.ones(len(X)), noise, alpha=1e-6)
    assert known[0] < 500 < known[2000]
