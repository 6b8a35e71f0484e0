"""SSVM+: joint inference against brute force, reductions, solvers against each other."""

import itertools

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from structured_reference import reference_objective

from lupi import StructuralSVM, StructuralSVMPlus
from lupi.datasets import make_planted_boxes
from lupi.structured import BoxLocalization, Multiclass
from lupi.structured.boxes import BoxExamples
from lupi.structured.oracle import Oracle
from lupi.vision import Box


def brute_force_hinge(spaces, Y, outputs, w, w_star, i, rho):
    """The largest surrogate loss minus both margins, over all pairs of outputs."""
    margins, losses = [], np.array([spaces[0][0].loss(Y[i], y) for y in outputs])
    for (task, X), weights in zip(spaces, (w, w_star)):
        true = task.joint_feature(X[i], Y[i])
        margins.append(np.array([(true - task.joint_feature(X[i], y)) @ weights for y in outputs]))
    surrogate = losses[None, :] / rho + np.maximum(losses[:, None] - losses[None, :], 0.0)
    return float(np.max(surrogate - margins[0][:, None] - margins[1][None, :]))


def random_spaces(seed, n=10):
    X, Y, Z = make_planted_boxes(n, shape=(5, 6), n_words=6, n_points=15, n_privileged_words=2, random_state=seed)
    outputs = [
        Box(t, l, b, r) for t, b in itertools.combinations(range(6), 2) for l, r in itertools.combinations(range(7), 2)
    ]
    return [(BoxLocalization(6), X), (BoxLocalization(8), Z)], Y, outputs


@pytest.mark.parametrize("rho", [0.5, 1.0, 2.0, 8.0])
def test_four_searches_equal_brute_force(rho):
    rng = np.random.default_rng(0)
    missed = 0
    for seed in range(4 if rho == 2.0 else 2):
        spaces, Y, outputs = random_spaces(seed)
        everyone = np.ones(10, dtype=bool)
        pair = [BoxExamples([task], [X], [everyone], Y, [1.0]) for task, X in spaces]
        exact, local = (Oracle(*pair, everyone, rho=rho, inference=name) for name in ("exact", "alternating"))
        for i in range(10):
            scale = 10.0 ** rng.uniform(-2, 0)
            w, w_star = scale * rng.normal(size=6), scale * rng.normal(size=8)
            if i % 2:  # weights as training finds them: the true box scores high
                w_star = 0.01 * scale * rng.normal(size=8)
                w = scale * (np.array([3.0, -1.0, -1.0, -1.0, -1.0, -1.0]) + 0.3 * rng.normal(size=6))
            v, row = np.concatenate([w, w_star]), np.array([i])
            best = brute_force_hinge(spaces, Y, outputs, w, w_star, i, rho)
            found, alternated = exact.search(v, row).hinge[0], local.search(v, row).hinge[0]
            assert found == pytest.approx(best, abs=1e-9)
            assert alternated <= found + 1e-9
            missed += alternated < found - 1e-9
    if rho == 2.0:
        assert missed > 0  # otherwise the exact search would gain nothing


def surrogate_loss(loss, privileged_loss, rho):
    """Eq. 7."""
    return privileged_loss / rho + max(loss - privileged_loss, 0.0)


def multiclass_data(seed=0, n=25):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    centers = 2 * rng.normal(size=(3, 2))
    return centers[y] + 1.5 * rng.normal(size=(n, 2)), y, centers[y] + 0.3 * rng.normal(size=(n, 2))


@pytest.mark.parametrize("solver", ["bcfw", "cutting_plane", "n_slack"])
@pytest.mark.parametrize(("C", "lam", "rho"), [(1.0, 1.0, 2.0), (10.0, 0.1, 0.5), (5.0, 0.01, 4.0)])
def test_solvers_reach_the_reference_qp(solver, C, lam, rho):
    X, y, Z = multiclass_data()
    task = Multiclass(3, 2)
    psi, loss, block = [], [], []
    for i in range(len(X)):
        true = np.concatenate([task.joint_feature(X[i], y[i]), task.joint_feature(Z[i], y[i]) / np.sqrt(lam)])
        for a, b in itertools.product(range(3), repeat=2):
            psi.append(true - np.concatenate([task.joint_feature(X[i], a), task.joint_feature(Z[i], b) / np.sqrt(lam)]))
            loss.append((b != y[i]) / rho + max(float(a != y[i]) - float(b != y[i]), 0.0))
            block.append(i)
    reference = reference_objective(np.array(psi), np.array(loss), np.array(block), C)
    model = StructuralSVMPlus(task, C=C, lam=lam, rho=rho, solver=solver, tol=1e-4, max_iter=10_000, random_state=0)
    model.fit(X, y, privileged=Z)
    assert reference - 1e-7 <= model.objective_ <= reference * (1 + 1.5e-4)
    norm = 0.5 * model.coef_ @ model.coef_ + 0.5 * lam * model.privileged_coef_ @ model.privileged_coef_
    assert norm < model.objective_
    assert 0.0 <= model.first_branch_share_ <= 1.0


def test_without_privileged_it_is_the_structural_svm():
    X, y, _ = multiclass_data()
    plus = StructuralSVMPlus(Multiclass(3, 2), random_state=0).fit(X, y)
    plain = StructuralSVM(Multiclass(3, 2), random_state=0).fit(X, y)
    np.testing.assert_array_equal(plus.coef_, plain.coef_)
    assert plus.privileged_coef_ is None


def test_large_lam_switches_the_privileged_space_off():
    X, y, Z = multiclass_data()
    # With w* = 0 and a large rho the best y* is the true label, and the surrogate loss is the plain loss.
    plus = StructuralSVMPlus(Multiclass(3, 2), lam=1e9, rho=1e9, C=5.0, tol=1e-5, random_state=0).fit(
        X, y, privileged=Z
    )
    plain = StructuralSVM(Multiclass(3, 2), C=5.0, tol=1e-5, random_state=0).fit(X, y)
    np.testing.assert_allclose(plus.coef_, plain.coef_, atol=2e-2 * np.abs(plain.coef_).max())
    assert np.abs(plus.privileged_coef_).max() < 1e-6


def test_alternating_fit_is_judged_by_the_exact_search():
    data = {
        "shape": (8, 9),
        "n_words": 10,
        "n_object_words": 3,
        "n_points": 60,
        "object_rate": 0.8,
        "n_privileged_words": 4,
    }
    X, Y, Z = make_planted_boxes(20, **data, hard=0.2, distractors=0.2, random_state=0)
    args = {"C": 5.0, "lam": 1.0, "rho": 2.0, "tol": 1e-3, "random_state": 0}
    exact = StructuralSVMPlus(BoxLocalization(10), BoxLocalization(14), **args).fit(X, Y, privileged=Z)
    with pytest.warns(ConvergenceWarning, match="relative duality gap"):
        local = StructuralSVMPlus(BoxLocalization(10), BoxLocalization(14), inference="alternating", **args).fit(
            X, Y, privileged=Z
        )
    assert local.objective_ > exact.objective_ * (1 + 1e-3)
    assert local.objective_ * (1 - local.dual_gap_) <= exact.objective_


def test_an_example_without_privileged_input_keeps_the_plain_hinge():
    X, y, Z = multiclass_data()
    task, C, lam, rho = Multiclass(3, 2), 5.0, 0.1, 2.0
    missing = np.arange(len(y)) % 3 == 0
    psi, loss, block = [], [], []
    for i, lacks in enumerate(missing):
        for a, b in itertools.product(range(3), [y[i]] if lacks else range(3)):
            star = (task.joint_feature(Z[i], y[i]) - task.joint_feature(Z[i], b)) / np.sqrt(lam)
            psi.append(np.concatenate([task.joint_feature(X[i], y[i]) - task.joint_feature(X[i], a), star]))
            loss.append(surrogate_loss(float(a != y[i]), float(b != y[i]), rho))
            block.append(i)
    reference = reference_objective(np.array(psi), np.array(loss), np.array(block), C)
    given = np.where(missing[:, None], np.nan, Z)
    model = StructuralSVMPlus(task, C=C, lam=lam, rho=rho, tol=1e-7, random_state=0).fit(X, y, privileged=given)
    assert model.objective_ == pytest.approx(reference, rel=1e-6)
    plain = StructuralSVM(task, C=C, tol=1e-7, random_state=0).fit(X, y)
    nothing = StructuralSVMPlus(task, C=C, tol=1e-7, random_state=0).fit(X, y, privileged=np.full_like(Z, np.nan))
    np.testing.assert_array_equal(nothing.coef_, plain.coef_)
    assert nothing.privileged_coef_ is None


def test_missing_images_are_none():
    data = {"shape": (8, 9), "n_words": 10, "n_object_words": 3, "object_rate": 0.8, "n_privileged_words": 4}
    X, Y, Z = make_planted_boxes(12, **data, n_points=60, hard=0.2, distractors=0.2, random_state=0)
    args = {"C": 5.0, "tol": 1e-3, "random_state": 0}
    half = [z if i % 2 else None for i, z in enumerate(Z)]
    model, full = (
        StructuralSVMPlus(BoxLocalization(10), BoxLocalization(14), rho=0.5, **args).fit(X, Y, privileged=given)
        for given in (half, Z)
    )
    plain = StructuralSVM(BoxLocalization(10), **args).fit(X, Y)
    assert model.dual_gap_ <= 1e-3
    # With rho < 1 the privileged loss costs more than the plain one: each example that has it adds its part.
    assert plain.objective_ + 0.5 < model.objective_ < full.objective_ - 0.5
    nothing = StructuralSVMPlus(BoxLocalization(10), BoxLocalization(14), **args).fit(X, Y, privileged=[None] * 12)
    np.testing.assert_array_equal(nothing.coef_, plain.coef_)


def test_clone_and_metadata_request():
    model = StructuralSVMPlus(Multiclass(3, 2), C=3.0, rho=5.0)
    assert clone(model).get_params()["rho"] == 5.0
    assert model.get_metadata_routing().fit.requests == {"privileged": True}


def test_messages():
    X, y, Z = multiclass_data()
    with pytest.raises(ValueError, match="`privileged` has 24 rows, but `X` has 25 examples"):
        StructuralSVMPlus(Multiclass(3, 2)).fit(X, y, privileged=Z[1:])
    with pytest.raises(ValueError, match=r"`privileged` does not fit the privileged task: X must have shape \(n, 5\)"):
        StructuralSVMPlus(Multiclass(3, 2), Multiclass(3, 5)).fit(X, y, privileged=Z)
    with pytest.raises(ValueError, match="The 'rho' parameter"):
        StructuralSVMPlus(Multiclass(3, 2), rho=0.0).fit(X, y)
