"""The store of cutting planes against plain NumPy: sparse and dense planes, full blocks, the sum of the weights, projections."""

import numpy as np
import pytest

from lupi.structured import planes
from lupi.structured.planes import PlaneStore


def check(store):
    """Everything that the store keeps beside its planes follows from them."""
    arrays, total = store.arrays, np.zeros(len(store.w))
    for i, count in enumerate(arrays.used):
        rows = np.array([store.plane(i, k) for k in range(count)])
        total += arrays.alpha[i, :count] @ rows
        np.testing.assert_allclose(arrays.gram[i, :count, :count], rows @ rows.T, atol=1e-9)
        assert arrays.alpha[i].sum() == pytest.approx(arrays.cap)
        assert arrays.alpha[i].min() >= 0.0
    np.testing.assert_allclose(store.w, total, atol=1e-9)


def take(store, i, psi, loss, *, ascend=False):
    """Store one plane; returns the gap of its block."""
    gaps = np.full(len(store.arrays.used), np.inf)
    store.take(np.array([i]), psi[None], np.array([float(loss)]), gaps, ascend=ascend)
    return gaps[i]


@pytest.mark.parametrize("share", [0.02, 0.3, 1.0])
@pytest.mark.parametrize("slots", [3, 40])
def test_store_follows_from_its_planes(share, slots, monkeypatch):
    rng = np.random.default_rng(0)
    n, d = 4, 300
    monkeypatch.setattr(planes, "_BUDGET", slots * n * d)
    store = PlaneStore(n, d, cap=0.25)
    assert store.arrays.alpha.shape[1] == slots
    dual = 0.0
    for _ in range(12):
        for i in range(n):
            psi = rng.normal(size=d) * (rng.random(d) < share)
            before = store.arrays.used[i]
            gap = take(store, i, psi, 2.0)
            arrays = store.arrays
            kept = [store.plane(i, k) for k in range(arrays.used[i])]
            if arrays.used[i] > before:
                np.testing.assert_array_equal(kept[-1], psi)
            grads = [arrays.losses[i, k] - plane @ store.w for k, plane in enumerate(kept)]
            if before < slots:  # in a full block an earlier plane made room
                expected = arrays.cap * max(*grads, 2.0 - psi @ store.w) - arrays.alpha[i, : len(kept)] @ grads
                assert gap == pytest.approx(expected)
            check(store)
            take(store, i, np.zeros(d), 0.0, ascend=True)
            check(store)
        store.ascend_all(max_sweeps=5, target=1e-9)
        check(store)
        store.tidy()
        check(store)
        assert store.dual >= dual - 1e-9
        dual = store.dual
    assert dual > 0.1


def test_planes_of_another_solver_are_taken_over():
    rng = np.random.default_rng(1)
    store = PlaneStore(3, 200, cap=0.5)
    blocks, linear = rng.normal(size=(3, 200)) * (rng.random((3, 200)) < 0.1), rng.uniform(size=3)
    store.start_from(blocks, linear)
    check(store)
    assert store.dual == pytest.approx(linear.sum() - 0.5 * blocks.sum(axis=0) @ blocks.sum(axis=0))


@pytest.mark.parametrize("slots", [3, 40])
def test_many_planes_are_taken_as_one_after_the_other(slots, monkeypatch):
    rng = np.random.default_rng(2)
    n, d = 5, 300
    monkeypatch.setattr(planes, "_BUDGET", slots * n * d)
    many, single = PlaneStore(n, d, cap=0.2), PlaneStore(n, d, cap=0.2)
    for share in (0.02, 0.3, 0.3, 0.4, 1.0, 0.1):  # wider planes than the slots, and more than there are slots
        order, loss = rng.permutation(n), rng.uniform(1.0, 3.0, n)
        psi = rng.normal(size=(n, d)) * (rng.random((n, d)) < share)
        gaps, expected = np.full(n, np.inf), np.full(n, np.inf)
        many.take(order, psi, loss, gaps, ascend=True)
        for q, i in enumerate(order):
            expected[i] = take(single, i, psi[q], loss[q], ascend=True)
        np.testing.assert_allclose(gaps, expected)
        np.testing.assert_allclose(many.w, single.w, atol=1e-12)
        check(many)


@pytest.mark.parametrize("size", [1.0, 1e6, 1e22])
def test_projection_onto_simplices_of_any_size(size):
    """However large the values are, the result is feasible and nearest."""
    rng = np.random.default_rng(3)
    start, cap = np.array([0, 3, 3, 8]), 0.5
    values = size * rng.normal(size=8)
    projected = values.copy()
    planes._project(projected, start, cap)
    for a, b in ((0, 3), (3, 8)):
        block = projected[a:b]
        assert block.min() >= 0.0
        assert block.sum() == pytest.approx(cap, rel=1e-12)
        # Optimality: the positive entries were moved by the same amount, the others at least as far up.
        shift = (block - values[a:b]) / size
        assert np.ptp(shift[block > 0]) <= 1e-12
        assert (shift[block == 0] >= shift[block > 0].max() - 1e-12).all()


def test_a_direction_without_curvature_leaves_the_dual_finite():
    """Planes of two blocks that cancel make the quadratic on the face unbounded."""
    store = PlaneStore(2, 3, cap=0.5)
    for i, sign in ((0, 1.0), (1, -1.0)):
        for k, psi in enumerate(([1.0, 0.0, 0.0], [0.0, 1.0, 1e-9])):
            take(store, i, sign * np.array(psi), 1.0 + k, ascend=True)
    for _ in range(20):
        store.ascend_all(max_sweeps=5, target=1e-12)
        check(store)
    assert abs(store.dual) < 10.0
