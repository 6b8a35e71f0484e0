"""The store of cutting planes against plain NumPy: sparse and dense planes, merged planes, the sum of the weights, projections."""

import numpy as np
import pytest

from lupi.structured import Multiclass, planes
from lupi.structured.oracle import Oracle
from lupi.structured.planes import PlaneStore, project
from lupi.structured.solvers import NSlack, Progress, frank_wolfe, solve_structured


def check(store):
    """Every block has its mass, and w and the gap follow from the planes."""
    psi = store.psi.toarray()
    np.testing.assert_allclose(store.w, store.alpha @ psi, atol=1e-9)
    mass = np.bincount(store.blocks, store.alpha, minlength=store.n)
    assert store.alpha.min() >= 0.0
    assert mass.max() <= store.cap * (1 + 1e-9)
    return store.losses - psi @ store.w, psi


def add(store, i, psi, loss):
    store.add(np.array([i]), np.asarray(psi)[None], np.array([float(loss)]))


@pytest.mark.parametrize("share", [0.02, 0.3, 1.0])
@pytest.mark.parametrize("budget", [3000, 10**6])
def test_store_follows_from_its_planes(share, budget, monkeypatch):
    rng = np.random.default_rng(0)
    n, d = 4, 300
    monkeypatch.setattr(planes, "_BUDGET", budget)
    store = PlaneStore(n, d, cap=0.25)
    dual = 0.0
    for _ in range(12):
        before = store.dual
        for i in range(n):
            add(store, i, rng.normal(size=d) * (rng.random(d) < share), 2.0)
            assert store.dual == pytest.approx(before)
        store.ascend(max_sweeps=5, target=1e-9)
        check(store)
        store.tidy()
        check(store)
        assert store.dual >= dual - 1e-9
        dual = store.dual
    assert dual > 0.1
    if share == 1.0 and budget == 3000:
        assert len(store.alpha) <= 10  # planes of full budgets are merged


def test_ascent_ends_at_the_optimum():
    """At the optimum no block has a gap; without conjugate gradients the sweeps end there too, later."""
    duals = []
    for face_step in (PlaneStore._face_step, lambda self: None):
        store = PlaneStore(5, 20, cap=0.5)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PlaneStore, "_face_step", face_step)
            rng = np.random.default_rng(1)
            for _ in range(6):
                store.add(np.arange(4), rng.normal(size=(4, 20)), rng.uniform(1.0, 3.0, 4))
            gap = store.ascend(max_sweeps=10_000, target=1e-10)
        grad, _ = check(store)
        top = np.zeros(5)
        np.maximum.at(top, store.blocks, grad)
        assert gap <= 1e-10
        assert 0.5 * top.sum() - store.alpha @ grad <= 1e-9
        duals.append(store.dual)
    assert duals[0] == pytest.approx(duals[1], abs=1e-9)


@pytest.mark.parametrize("size", [1.0, 1e6, 1e22])
def test_projection_onto_simplices_of_any_size(size):
    """However large the values are, the result is feasible and nearest."""
    rng = np.random.default_rng(3)
    values = size * rng.normal(size=(3, 5))
    values[0, 3:] = -np.inf
    for given, block in zip(values, project(values, 0.5)):
        assert block.min() >= 0.0
        assert block.sum() == pytest.approx(0.5, rel=1e-12)
        assert not block[np.isinf(given)].any()
        # Optimality: the positive entries were moved by the same amount, the others at least as far up.
        shift = (block - given) / size
        assert np.ptp(shift[block > 0]) <= 1e-12
        assert (shift[block == 0] >= shift[block > 0].max() - 1e-12).all()


def test_the_bound_does_not_trust_the_solver():
    """Weights of planes beyond a block's mass, and w of other planes, bound nothing until they are made feasible."""
    X, y = np.random.default_rng(0).normal(size=(6, 2)), np.arange(6) % 3
    decision = Multiclass(3, 2).examples([Multiclass(3, 2)], [X], [np.ones(6, dtype=bool)], y, [1.0])
    oracle = Oracle(decision, C=2.0)
    optimum = solve_structured(oracle, "n_slack", tol=1e-9, max_iter=100).objective
    for make in (NSlack, frank_wolfe):
        solver, progress = make(oracle), Progress(oracle, 1e-9, None)
        for n_iter in range(1, 10):
            solver.advance(progress, n_iter, np.random.RandomState(0))
            solver.learn(progress.search(solver.w), progress)
        kept = solver.store if make is NSlack else solver
        assert optimum * (1 - 1e-3) < solver.dual <= optimum
        kept.w *= 0.0
        assert optimum * (1 - 1e-3) < solver.dual <= optimum
        kept.alpha *= 1e6
        assert solver.dual <= optimum


def test_a_direction_without_curvature_leaves_the_dual_finite():
    """Planes of two blocks that cancel make the quadratic on the face unbounded."""
    store = PlaneStore(2, 3, cap=0.5)
    for i, sign in ((0, 1.0), (1, -1.0)):
        for k, psi in enumerate(([1.0, 0.0, 0.0], [0.0, 1.0, 1e-9])):
            add(store, i, sign * np.array(psi), 1.0 + k)
            store.ascend(max_sweeps=1, target=1e-12)
    for _ in range(20):
        store.ascend(max_sweeps=5, target=1e-12)
        check(store)
    assert abs(store.dual) < 10.0
