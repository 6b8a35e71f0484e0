"""The store of cutting planes against plain NumPy: sparse and dense planes, full blocks, the weights' sum."""

import numpy as np
import pytest

from lupi.structured import planes
from lupi.structured.planes import PlaneStore


def check(store):
    """Everything that the store keeps beside its planes follows from them."""
    total = np.zeros(store.d)
    for i in range(store.n):
        own = np.array([store.dense(i, k) for k in range(store.count[i])])
        total += store.alpha[i, : len(own)] @ own
        np.testing.assert_allclose(store.gram[i, : len(own), : len(own)], own @ own.T, atol=1e-9)
        assert store.alpha[i].sum() == pytest.approx(store.cap)
        assert store.alpha[i].min() >= 0.0
    np.testing.assert_allclose(store.w, total, atol=1e-9)


@pytest.mark.parametrize("share", [0.02, 0.3, 1.0])
@pytest.mark.parametrize("slots", [3, 40])
def test_store_follows_from_its_planes(share, slots, monkeypatch):
    rng = np.random.default_rng(0)
    n, d = 4, 300
    monkeypatch.setattr(planes, "_BUDGET", slots * n * d)
    store = PlaneStore(n, d, cap=0.25)
    assert store.slots == slots
    dual = 0.0
    for _ in range(12):
        for i in range(n):
            psi = rng.normal(size=d) * (rng.random(d) < share)
            before = store.count[i]
            gap = store.add(i, psi, 2.0)
            kept = [store.dense(i, k) for k in range(store.count[i])]
            if store.count[i] > before:
                np.testing.assert_array_equal(kept[-1], psi)
            grads = [store.losses[i, k] - plane @ store.w for k, plane in enumerate(kept)]
            if before < slots:  # in a full block an earlier plane made room
                expected = store.cap * max(*grads, 2.0 - psi @ store.w) - store.alpha[i, : len(kept)] @ grads
                assert gap == pytest.approx(expected)
            check(store)
            store.ascend(i, 1e-10)
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
            expected[i] = single.add(i, psi[q], loss[q])
            single.ascend(i, planes.EXACT)
        np.testing.assert_allclose(gaps, expected)
        np.testing.assert_allclose(many.w, single.w, atol=1e-12)
        check(many)
