"""Honest evidence: refits without each fold, the weights that follow from them, and the sparse member."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import ElasticNet

from lupi import SurrogateClassifier, SurrogateRegressor
from lupi.inputs.training_set import ArrayRows
from lupi.surrogate import surrogate as module
from lupi.surrogate.members import L1_RATIO, SPARSE_GRID, Sample, SparseMember, honest_share, member_weights


def numbers(n=60, n_unlabeled=0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + n_unlabeled, 5))
    Z = X[:, :2] + 0.5 * rng.normal(size=(n + n_unlabeled, 2))
    y = Z.sum(axis=1) + rng.normal(size=len(Z))
    return X, np.where(np.arange(len(y)) < n, y, np.nan), Z


def recorded(monkeypatch, model, *data, **options):
    """Honest outputs of a fit, and its folds."""
    found = {}
    inner, folds = module.honest_outputs, module.make_folds
    monkeypatch.setattr(module, "honest_outputs", lambda *a: found.setdefault("outputs", inner(*a)))
    monkeypatch.setattr(module, "make_folds", lambda *a: found.setdefault("folds", folds(*a)))
    model.fit(*data, **options)
    monkeypatch.undo()
    return found


@pytest.mark.parametrize("of_label", [False, True])
def test_honest_outputs_of_a_fold_do_not_depend_on_its_labels_and_privileged_features(of_label, monkeypatch):
    X, y, Z = numbers(n_unlabeled=20)
    groups = np.arange(80) % 40  # so that a changed label leaves the folds as they are
    make = lambda: SurrogateRegressor(["ridge", "rbf"], random_state=0)  # noqa: E731
    before = recorded(monkeypatch, make(), X, y, privileged=Z, groups=groups)
    fold = before["folds"][0]
    if of_label:
        y = y.copy()
        y[fold] += np.linspace(-1e-3, 1e-3, len(fold))  # the ranks stay
    else:
        Z = Z.copy()
        Z[fold] *= -3
    after = recorded(monkeypatch, make(), X, y, privileged=Z, groups=groups)
    rest = np.setdiff1d(np.arange(60), fold)
    for one, other in zip(before["outputs"], after["outputs"]):
        np.testing.assert_array_equal(one[fold], other[fold])
    assert not np.allclose(before["outputs"][1][rest], after["outputs"][1][rest])


def test_rows_of_a_group_are_left_out_together(monkeypatch):
    X, y, Z = numbers()
    groups = np.arange(60) // 2
    found = recorded(monkeypatch, SurrogateRegressor(["ridge"]), X, y, privileged=Z, groups=groups)
    assert len(found["folds"]) == 5
    assert all(np.isin(groups[fold], groups[np.setdiff1d(np.arange(60), fold)]).sum() == 0 for fold in found["folds"])


@pytest.mark.parametrize("Classifier", [True, False])
def test_with_labels_only_useless_columns_leave_the_baseline(Classifier):
    """Bit for bit."""
    X, y, _ = numbers(n=100, seed=2)
    Z = np.random.default_rng(0).normal(size=(100, 4))
    target = y > 0 if Classifier else y
    Kind = SurrogateClassifier if Classifier else SurrogateRegressor
    model = Kind(random_state=0).fit(X, target, privileged=Z)
    assert model.plain_weight_ == 1.0
    assert model.surrogate_ is None
    np.testing.assert_array_equal(model.predict(X), Kind(random_state=0).fit(X, target).predict(X))


def test_with_labels_only_clear_evidence_moves_the_output():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 60))
    Z = X[:, :4].sum(axis=1, keepdims=True) + 0.3 * rng.normal(size=(100, 1))
    model = SurrogateRegressor(["ridge"]).fit(X, Z[:, 0] + 2 * rng.normal(size=100), privileged=Z)
    assert model.plain_weight_ < 0.9


@pytest.mark.parametrize("prior", [0.2, 0.9])
def test_share_minimizes_its_objective(prior):
    rng = np.random.default_rng(3)
    t = rng.normal(size=(50, 1))
    pair = [t + rng.normal(size=(50, 1)), t + 2 * rng.normal(size=(50, 1))]
    weight = np.where(np.arange(50) % 4, 1.0, 2.0)
    W = weight.sum()
    center = lambda a: a - weight @ a / W  # noqa: E731
    u = np.hstack([center(part) / np.sqrt(weight @ center(part) ** 2 / W) for part in pair])
    s = center(t)[:, 0]
    first = np.array([1 - prior, prior])
    b = (weight * (u @ first)) @ s / (weight @ (u @ first) ** 2)
    noise, start = weight @ (s - b * u @ first) ** 2 / W, b * first
    objective = lambda v: weight @ (s - u @ v) ** 2 / W + noise / W * np.sum((v / start - 1) ** 2)  # noqa: E731
    best = minimize(objective, start, bounds=[(0, None)] * 2, options={"ftol": 1e-14, "gtol": 1e-10}).x
    assert honest_share(pair, t, weight, prior, sure=None) == pytest.approx(best[1] / best.sum(), rel=1e-5)
    copies = np.repeat(np.arange(50), weight.astype(int))
    twice = honest_share([part[copies] for part in pair], t[copies], np.ones(int(W)), prior, sure=None)
    assert twice == pytest.approx(best[1] / best.sum(), rel=1e-5)


def test_a_share_needs_as_many_standard_errors_as_required():
    rng = np.random.default_rng(0)
    t, weight = rng.normal(size=(60, 1)), np.ones(60)
    pair = [t + 1.5 * rng.normal(size=(60, 1)) for _ in range(2)]
    free = honest_share(pair, t, weight, 0.5, sure=None)
    shares = [honest_share(pair, t, weight, 0.5, sure=sure) for sure in (0.0, 1.0, 2.0, 4.0, 8.0)]
    assert free > 0.1
    assert (shares[0], shares[-1]) == (free, 0.0)
    assert shares == sorted(shares, reverse=True)
    worse = [t, rng.normal(size=(60, 1))]
    assert honest_share(worse, t, weight, 0.5, sure=None) > 0.0 == honest_share(worse, t, weight, 0.5, sure=0.0)


def test_above_many_rows_one_refit_predicts_the_other_half(monkeypatch):
    X, y, Z = numbers()
    monkeypatch.setattr(module, "MANY_ROWS", 40)
    found = recorded(monkeypatch, SurrogateRegressor(["ridge"], random_state=0), X, y, privileged=Z)
    predicted = ~np.isnan(found["outputs"][1][:, 0, 0])
    assert [len(fold) for fold in found["folds"]] == [30, 30]
    np.testing.assert_array_equal(np.flatnonzero(predicted), np.sort(found["folds"][0]))


def test_member_weights_follow_the_errors_slowly():
    rng = np.random.default_rng(4)
    t = rng.normal(size=(40, 1))
    good, bad = t + 0.5 * rng.normal(size=(40, 1)), rng.normal(size=(40, 1))
    weights = member_weights(np.stack([bad, good], axis=1), t, np.ones(40))
    errors = [1 - np.corrcoef(part[:, 0], t[:, 0])[0, 1] ** 2 for part in (bad, good)]
    assert weights[1] / weights[0] == pytest.approx((errors[0] / errors[1]) ** (0.1 * 40 / 2), rel=0.02)


def test_the_sparse_member_is_an_elastic_net():
    rng = np.random.default_rng(5)
    A, weight = rng.normal(size=(80, 12)), np.where(np.arange(80) % 3, 1.0, 2.0)
    t = A[:, :2].sum(axis=1) + rng.normal(size=80)
    member = SparseMember()
    left_out = member.fit_left_out(Sample(ArrayRows(A), t[:, None], weight, None))
    unit = np.sqrt(np.cov(t, aweights=weight, ddof=0))
    centered = A - weight @ A / weight.sum()
    largest = np.abs(centered.T @ (weight * (t - weight @ t / weight.sum()))).max() / weight.sum() / L1_RATIO / unit
    nets = [ElasticNet(alpha=a, l1_ratio=L1_RATIO, tol=1e-10).fit(A, t / unit, weight) for a in largest * SPARSE_GRID]
    errors = [np.abs(unit * net.coef_ - member.coef_[:, 0]).max() for net in nets]
    assert min(errors) < 1e-2
    assert np.count_nonzero(member.coef_) < 12
    np.testing.assert_allclose(member.predict(A)[:, 0], unit * nets[int(np.argmin(errors))].predict(A), atol=0.03)
    assert 0.3 < np.corrcoef(left_out[:, 0], t)[0, 1] < np.corrcoef(member.predict(A)[:, 0], t)[0, 1]
