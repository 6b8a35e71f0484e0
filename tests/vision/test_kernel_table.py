"""Kernel searches by a table of distances: against branch and bound and against scores of all boxes."""

import itertools

import numpy as np
import pytest

from lupi import JKSE
from lupi.datasets.planted_boxes import make_planted_boxes
from lupi.structured import BoxLocalization
from lupi.structured.joint_features import joint_features
from lupi.vision import Box, WordImage
from lupi.vision.kernel_table import KernelTable


def boxes_of(shape, step):
    edges = [[*range(0, size, step), size] for size in shape]
    rows, cols = (itertools.combinations(side, 2) for side in edges)
    return [Box(t, l, b, r) for (t, b), (l, r) in itertools.product(rows, list(cols))]


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("scale", [0.0, 3.0])
def test_every_model_of_a_training_set_finds_its_best_box(normalize, scale):
    X, Y, _ = make_planted_boxes(18, shape=(7, 10), n_words=5, n_points=30, object_rate=0.8, random_state=0)
    step = 2
    features = joint_features(BoxLocalization(5, geometry=True, geometry_scale=1.0), X[:12], Y[:12], normalize)
    tables = [KernelTable(x, features[:, :5], features[:, 5:], grid_step=step, normalize=normalize) for x in X[12:]]
    task = BoxLocalization(5, grid_step=step, geometry=scale > 0, geometry_scale=scale)
    for nu, gamma in itertools.product((0.1, 0.9), (0.05, 1.0, 20.0)):
        model = JKSE(task, nu=nu, gamma=gamma, normalize=normalize).fit(X[:12], Y[:12])
        for x, table in zip(X[12:], tables):
            outputs = [y for y in boxes_of(x.shape, step) if x.histogram(y, 5).sum() > 0 or not normalize]
            best = model.score_pairs([x] * len(outputs), outputs).max()
            found = table.argmax(model.support_, model.dual_coef_, gamma, scale)
            searched = model.predict([x])[0]
            assert found in outputs
            assert searched in outputs
            np.testing.assert_allclose(model.score_pairs([x, x], [found, searched]), best, rtol=1e-9)


def test_a_box_without_points_is_never_chosen_when_histograms_are_normalized():
    """Its histogram of zeros is at distance 1 from every share; a box with other words than the support's is at 2."""
    train = [WordImage([1, 1], [1, 2], [0, 1], shape=(6, 6))]
    x = WordImage([5], [5], [2], shape=(6, 6))
    true = [Box(0, 0, 3, 3)]
    model = JKSE(BoxLocalization(3), nu=1.0, gamma=1.0, normalize=True).fit(train, true)
    assert model.score_pairs([x], [true[0]])[0] > model.score_pairs([x], [Box(5, 5, 6, 6)])[0]
    features = joint_features(BoxLocalization(3, geometry=True), train, true, True)
    table = KernelTable(x, features[:, :3], features[:, 3:], grid_step=1, normalize=True)
    for found in (model.predict([x])[0], table.argmax(model.support_, model.dual_coef_, 1.0)):
        assert x.histogram(found, 3).sum() == 1
    # An image without any points: the whole of it.
    empty = WordImage(np.empty(0, dtype=int), np.empty(0, dtype=int), np.empty(0, dtype=int), shape=(6, 6))
    assert model.predict([empty]) == [Box(0, 0, 6, 6)]
    bare = KernelTable(empty, features[:, :3], features[:, 3:], grid_step=1, normalize=True)
    assert bare.argmax(model.support_, model.dual_coef_, 1.0) == Box(0, 0, 6, 6)
