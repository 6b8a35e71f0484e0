"""Tasks: inference against brute force for every sign of the loss weight, and messages."""

import itertools

import numpy as np
import pytest
from structured_reference import all_sequences

from lupi.datasets.planted_boxes import make_planted_boxes
from lupi.structured import BoxLocalization, Chain, Multiclass, Task
from lupi.structured.joint import JointOracle
from lupi.structured.oracle import TaskOracle
from lupi.structured.planes import EXACT, PlaneStore
from lupi.vision import Box

LOSS_WEIGHTS = [0.0, 1.0, 0.5, -0.5, -2.0]


def value(task, w, x, y, y_true, c):
    return float(task.joint_feature(x, y) @ w) + (c * task.loss(y_true, y) if c else 0.0)


@pytest.mark.parametrize("c", LOSS_WEIGHTS)
@pytest.mark.parametrize("normalize", [True, False])
def test_chain_equals_brute_force(c, normalize):
    rng = np.random.default_rng(0)
    task = Chain(3, 2, normalize=normalize)
    for length in (1, 2, 4, 5):
        x, w = rng.normal(size=(length, 2)), rng.normal(size=task.n_features)
        y_true = rng.integers(0, 3, length)
        best = max(value(task, w, x, y, y_true, c) for y in all_sequences(3, length))
        assert value(task, w, x, task.argmax(w, x, y_true, c), y_true, c) == pytest.approx(best, abs=1e-10)


@pytest.mark.parametrize("c", LOSS_WEIGHTS)
def test_multiclass_equals_brute_force(c):
    rng = np.random.default_rng(1)
    task = Multiclass(4, 3)
    X, Y = rng.normal(size=(20, 3)), rng.integers(0, 4, 20)
    w = rng.normal(size=12)
    expected = [max(range(4), key=lambda k: value(task, w, x, k, y, c)) for x, y in zip(X, Y)]
    assert [task.argmax(w, x, y, c) for x, y in zip(X, Y)] == expected
    assert task.argmax_batch(w, X, Y, c).tolist() == expected


@pytest.mark.parametrize("geometry", [False, True])
@pytest.mark.parametrize("absent", [False, True])
@pytest.mark.parametrize("c", LOSS_WEIGHTS)
def test_boxes_equal_brute_force(c, absent, geometry):
    rng = np.random.default_rng(2)
    X, Y, _ = make_planted_boxes(
        12, shape=(6, 7), n_words=5, n_points=12, absent=0.4 if absent else 0.0, random_state=1
    )
    task = BoxLocalization(5, grid_step=2, allow_absent=absent, scale=0.5, geometry=geometry, geometry_scale=3.0)
    assert task.n_features == 5 + absent + 9 * geometry
    edges = [[0, 2, 4, 6], [0, 2, 4, 6, 7]]
    outputs = [
        Box(t, l, b, r) for t, b in itertools.combinations(edges[0], 2) for l, r in itertools.combinations(edges[1], 2)
    ] + [None] * absent
    for x, y in zip(X, Y):
        w = rng.normal(size=task.n_features)
        best = max(value(task, w, x, o, y, c) for o in outputs)
        found, loss, score = task.argmax_scored(w, x, y, (c,))[0]
        assert found in outputs
        assert value(task, w, x, found, y, c) == pytest.approx(best, abs=1e-10)
        assert score + c * loss == pytest.approx(best, abs=1e-10)
        assert task.loss(y, found) == pytest.approx(loss)


def test_geometry_of_scale_zero_changes_no_search():
    X, Y, _ = make_planted_boxes(5, shape=(9, 11), n_words=6, n_points=30, random_state=0)
    plain, silent, loud = (
        BoxLocalization(6, geometry=on, geometry_scale=scale)
        for on, scale in ((False, 20.0), (True, 0.0), (True, 20.0))
    )
    w = np.random.default_rng(0).normal(size=silent.n_features)
    for x, y in zip(X, Y):
        np.testing.assert_array_equal(silent.joint_feature(x, y), [*plain.joint_feature(x, y), *[0.0] * 9])
        assert silent.argmax_scored(w, x, y, (0.0, 1.0)) == plain.argmax_scored(w[:6], x, y, (0.0, 1.0))
    assert any(loud.argmax(w, x) != plain.argmax(w[:6], x) for x in X)
    with pytest.raises(ValueError, match=r"geometry_scale must be a finite number of at least 0, got -1"):
        BoxLocalization(6, geometry=True, geometry_scale=-1.0)


@pytest.mark.parametrize("geometry", [False, True])
def test_compiled_planes_are_those_of_the_tasks_own_search(geometry):
    """Of both oracles, image by image and all at once; images differ in size."""
    X, Y, Z = make_planted_boxes(6, shape=(9, 11), n_words=6, n_points=30, n_privileged_words=3, random_state=0)
    other = make_planted_boxes(4, shape=(14, 8), n_words=6, n_points=20, n_privileged_words=3, random_state=1)
    X, Y, Z = ([*a, *b] for a, b in zip((X, Y, Z), other))
    options = {"grid_step": 2, "scale": 0.5, "geometry": geometry, "geometry_scale": 3.0}
    task, star = BoxLocalization(6, **options), BoxLocalization(9, **options)
    everyone = np.ones(10, dtype=bool)
    pairs = [
        [TaskOracle(task, X, Y) for _ in range(2)],
        [JointOracle(task, star, X, Z, everyone, Y, lam=0.3, rho=1.7) for _ in range(2)],
    ]
    pairs.append([oracle.searched_by("alternating") for oracle in pairs[1]])
    rng = np.random.default_rng(0)
    for fast, slow in pairs:
        slow.boxes = None
        assert fast.compiled
        assert not slow.compiled
        for size in (0.02, 0.3, 1.0):
            w = size * rng.normal(size=fast.n_features)
            psi, loss = fast.planes(w)
            np.testing.assert_allclose(psi, slow.planes(w)[0], atol=1e-12)
            np.testing.assert_allclose(loss, slow.planes(w)[1], atol=1e-12)
            if isinstance(fast, JointOracle):
                assert fast.first_branch_share(w) == slow.first_branch_share(w)
            for i in range(10):
                one = fast.plane(i, w)
                np.testing.assert_array_equal(one[0], psi[i])
                assert one[1] == loss[i]
        # Steps from image to image, each at the weights that the one before left; later ones need wider slots.
        stores = [PlaneStore(10, fast.n_features, 5.0) for _ in range(2)]
        for _ in range(6):
            gaps, order = np.full((2, 10), np.inf), rng.permutation(10)
            fast.plane_steps(stores[0], order, gaps[0])
            for i in order:
                gaps[1, i] = stores[1].add(i, *slow.plane(i, stores[1].w))
                stores[1].ascend(i, EXACT)
            np.testing.assert_allclose(*gaps, atol=1e-9)
            np.testing.assert_allclose(stores[0].w, stores[1].w, atol=1e-9)
    # What needs the task itself is not packed: absence, a capped search, a subclass.
    for plain in (BoxLocalization(6, allow_absent=True), BoxLocalization(6, method="branch_and_bound")):
        assert TaskOracle(plain, X, Y).boxes is None
    assert TaskOracle(type("Mine", (BoxLocalization,), {})(6), X, Y).boxes is None


def test_box_loss_is_equation_10():
    task = BoxLocalization(1, allow_absent=True)
    assert task.loss(None, None) == 0.0
    assert task.loss(None, Box(0, 0, 1, 1)) == task.loss(Box(0, 0, 1, 1), None) == 1.0
    assert task.loss(Box(0, 0, 2, 2), Box(2, 2, 4, 4)) == 1.0
    assert task.loss(Box(0, 0, 2, 2), Box(0, 0, 2, 2)) == 0.0


def test_builtin_tasks_follow_the_protocol():
    for task in (Multiclass(2, 3), Chain(2, 3), BoxLocalization(4)):
        assert isinstance(task, Task)


def test_capped_branch_and_bound_warns():
    X, Y, _ = make_planted_boxes(1, shape=(40, 50), n_words=20, n_points=300, random_state=0)
    task = BoxLocalization(20, method="branch_and_bound", max_nodes=3)
    with pytest.warns(RuntimeWarning, match="met max_nodes=3"):
        task.argmax(np.random.default_rng(0).normal(size=20), X[0], Y[0], 1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Multiclass(1, 3), "n_classes must be an integer of at least 2, got 1"),
        (lambda: Chain(2, 0), "n_features must be an integer of at least 1, got 0"),
        (lambda: BoxLocalization(2.5), "n_words must be an integer of at least 1, got 2.5"),
        (lambda: BoxLocalization(2, scale=0), "scale must be a positive finite number, got 0"),
        (lambda: BoxLocalization(2, method="x"), "method must be one of"),
        (
            lambda: Multiclass(3, 2).check(np.ones((2, 2)), [0, 3]),
            "Y has labels from 0 to 3; Multiclass.n_classes=3. takes 0 to 2",
        ),
        (lambda: Multiclass(3, 2).check(np.ones((2, 2)), ["a", "b"]), "Y must be a sequence of integer labels"),
        (lambda: Multiclass(3, 2).check(np.ones((2, 5)), [0, 1]), r"X must have shape \(n, 2\), got \(2, 5\)"),
        (lambda: Multiclass(3, 1).check([[np.nan]], [0]), "X contains NaN"),
        (lambda: Chain(2, 1).check([np.ones((3, 1))], [[0, 1]]), r"Y\[0\] must hold one label for each of the 3 rows"),
        (lambda: Chain(2, 1).check([np.ones((2, 1))], [[0, 2]]), r"Y\[0\] must hold integers from 0 to 1"),
    ],
)
def test_messages(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_box_messages():
    X, Y, _ = make_planted_boxes(2, shape=(6, 7), n_words=5, n_points=12, random_state=1)
    with pytest.raises(ValueError, match=r"X\[0\] uses word . *; n_words=2 allows 0 to 1"):
        BoxLocalization(2).check(X, Y)
    with pytest.raises(
        ValueError, match=r"Y\[1\] is None .no object., which needs BoxLocalization\(..., allow_absent=True\)"
    ):
        BoxLocalization(5).check(X, [Y[0], None])
    with pytest.raises(ValueError, match=r"Y\[0\] = .* reaches outside its image of shape \(6, 7\)"):
        BoxLocalization(5).check(X, [Box(0, 0, 7, 7), Y[1]])
    with pytest.raises(ValueError, match=r"Y\[0\] must be a Box"):
        BoxLocalization(5).check(X, [3, Y[1]])
    with pytest.raises(ValueError, match=r"X\[0\] must be a WordImage, got int"):
        BoxLocalization(5).check([1], [Y[0]])
