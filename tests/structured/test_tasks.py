"""Tasks: inference against brute force for every sign of the loss weight, and messages."""

import itertools

import numpy as np
import pytest
from structured_reference import all_sequences

from lupi.datasets import make_planted_boxes
from lupi.structured import BoxLocalization, Chain, Multiclass, Task
from lupi.structured.oracle import Oracle
from lupi.structured.task import Examples, as_task, searches_of
from lupi.vision import Box

LOSS_WEIGHTS = [0.0, 1.0, 0.5, -0.5, -2.0]


def value(task, w, x, y, y_true, c):
    return float(task.joint_feature(x, y) @ w) + (c * task.loss(y_true, y) if c else 0.0)


def examples(task, X, Y, kind=None):
    """Searches over a training set, by default those of the task."""
    return (kind or searches_of([task]))([task], [X], [np.ones(len(X), dtype=bool)], Y, [1.0])


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
    assert examples(task, X, Y).search(np.arange(20), w, (c,))[0][:, 0].tolist() == expected


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
        found = task.argmax(w, x, y, c)
        assert found in outputs
        assert value(task, w, x, found, y, c) == pytest.approx(best, abs=1e-10)
        _, loss, score = (part[0, 0] for part in examples(task, [x], [y]).search(np.array([0]), w, (c,)))
        assert score + c * loss == pytest.approx(best - task.joint_feature(x, y) @ w, abs=1e-10)
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
        for c in (0.0, 1.0):
            assert silent.argmax(w, x, y, c) == plain.argmax(w[:6], x, y, c)
    assert any(loud.argmax(w, x) != plain.argmax(w[:6], x) for x in X)
    with pytest.raises(ValueError, match=r"geometry_scale must be a finite number of at least 0, got -1"):
        BoxLocalization(6, geometry=True, geometry_scale=-1.0)


def box_spaces(absent, geometry):
    """Boxes in images of two sizes, with privileged images; some are missing."""
    data = {"n_words": 6, "n_privileged_words": 3, "absent": 0.3 if absent else 0.0}
    first = make_planted_boxes(6, shape=(9, 11), n_points=30, **data, random_state=0)
    second = make_planted_boxes(4, shape=(14, 8), n_points=20, **data, random_state=1)
    X, Y, Z = ([*a, *b] for a, b in zip(first, second))
    options = {"grid_step": 2, "scale": 0.5, "geometry": geometry, "geometry_scale": 3.0, "allow_absent": absent}
    return [(BoxLocalization(6, **options), X), (BoxLocalization(9, **options), Z)], Y


def chain_spaces():
    """Sequences of two lengths, with a second input."""
    rng = np.random.default_rng(3)
    Y = [rng.integers(0, 3, 3 + i % 2) for i in range(10)]
    X, Z = ([rng.normal(size=(len(y), d)) for y in Y] for d in (2, 3))
    return [(Chain(3, 2), X), (Chain(3, 3), Z)], Y


def class_spaces():
    """Rows of two tables."""
    rng = np.random.default_rng(4)
    return [(Multiclass(3, d), rng.normal(size=(10, d))) for d in (2, 4)], rng.integers(0, 3, 10)


@pytest.mark.parametrize("inference", ["exact", "alternating"])
@pytest.mark.parametrize(
    "spaces",
    [lambda: box_spaces(False, False), lambda: box_spaces(True, True), chain_spaces, class_spaces],
    ids=["boxes", "placed boxes or none", "chains", "classes"],
)
def test_searches_over_many_examples_are_those_of_argmax(spaces, inference):
    """The hinges and planes of both oracles, example by example and all at once; every third privileged input is missing."""
    ((task, X), (star, Z)), Y = spaces()
    available = np.arange(10) % 3 != 1
    pairs = []
    for kinds in ((searches_of([task]), searches_of([star])), (Examples, Examples)):
        decision = examples(task, X, Y, kinds[0])
        privileged = kinds[1]([star], [Z], [available], Y, [0.7])
        pairs.append([Oracle(decision), Oracle(decision, privileged, available, rho=1.7, inference=inference)])
    rng = np.random.default_rng(0)
    for fast, slow in zip(*pairs):
        for size in (0.02, 0.3, 1.0):
            w = size * rng.normal(size=fast.n_features)
            found, expected = fast.search(w), slow.search(w)
            np.testing.assert_allclose(found.hinge, expected.hinge, atol=1e-12)
            np.testing.assert_allclose(found.loss, expected.loss, atol=1e-12)
            np.testing.assert_array_equal(found.decision_larger, expected.decision_larger)
            psi = fast.planes(found)
            np.testing.assert_allclose(psi, slow.planes(expected), atol=1e-12)
            np.testing.assert_allclose(np.maximum(found.loss - psi @ w, 0.0), found.hinge, atol=1e-12)
            for i in range(10):
                one = fast.search(w, np.array([i]))
                assert one.hinge[0] == pytest.approx(found.hinge[i], abs=1e-14)


def test_a_class_that_redefines_its_features_is_searched_by_argmax():
    class Doubled(Multiclass):
        def joint_feature(self, x, y):
            return 2.0 * super().joint_feature(x, y)

        def argmax(self, w, x, y_true=None, loss_weight=0.0):
            return super().argmax(2.0 * w, x, y_true, loss_weight)

    assert searches_of([Doubled(3, 2)]) is Examples
    assert searches_of([type("Named", (Multiclass,), {})(3, 2)]) is Multiclass.examples
    assert searches_of([Multiclass(3, 2), Chain(3, 2)]) is Examples


def test_box_loss_is_equation_10():
    task = BoxLocalization(1, allow_absent=True)
    assert task.loss(None, None) == 0.0
    assert task.loss(None, Box(0, 0, 1, 1)) == task.loss(Box(0, 0, 1, 1), None) == 1.0
    assert task.loss(Box(0, 0, 2, 2), Box(2, 2, 4, 4)) == 1.0
    assert task.loss(Box(0, 0, 2, 2), Box(0, 0, 2, 2)) == 0.0


def test_any_object_with_three_methods_is_a_task():
    class Own:
        n_features = 1

        def joint_feature(self, x, y):
            return np.array([x * y])

        def loss(self, y_true, y):
            return float(y_true != y)

        def argmax(self, w, x, y_true=None, loss_weight=0.0):
            return 1

    task = as_task(Own())
    assert isinstance(task, Task)
    assert task.outputs(0.0) is None
    assert task.joint_feature(2.0, 3) == 6.0
    assert as_task(task) is task


def test_capped_branch_and_bound_warns():
    X, Y, _ = make_planted_boxes(1, shape=(40, 50), n_words=20, n_points=300, random_state=0)
    task = BoxLocalization(20, method="branch_and_bound", max_nodes=3)
    with pytest.warns(RuntimeWarning, match="reached max_nodes=3"):
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
        ValueError, match=r"Y\[1\] is None .no object., which requires BoxLocalization\(..., allow_absent=True\)"
    ):
        BoxLocalization(5).check(X, [Y[0], None])
    with pytest.raises(ValueError, match=r"Y\[0\] = .* reaches outside its image of shape \(6, 7\)"):
        BoxLocalization(5).check(X, [Box(0, 0, 7, 7), Y[1]])
    with pytest.raises(ValueError, match=r"Y\[0\] must be a Box"):
        BoxLocalization(5).check(X, [3, Y[1]])
    with pytest.raises(ValueError, match=r"X\[0\] must be a WordImage, got int"):
        BoxLocalization(5).check([1], [Y[0]])
