"""JKSE and JKSE+: scikit-learn as reference, limits, kernel search against brute force."""

import itertools

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics.pairwise import additive_chi2_kernel, chi2_kernel
from sklearn.svm import OneClassSVM

from lupi import JKSE, JKSEPlus
from lupi.datasets import make_planted_boxes
from lupi.kernels import Kernel
from lupi.structured import BoxLocalization, Chain, Multiclass
from lupi.vision import Box


@pytest.mark.parametrize("nu", [0.0, 1.5])
def test_impossible_nu_is_explained(nu):
    with pytest.raises(ValueError, match=r"nu must lie in \(0, 1\], got .*sum to nu \* n_samples"):
        JKSE(Multiclass(3, 3), nu=nu).fit(np.ones((5, 3)), np.zeros(5, dtype=int))


def box_data(n=14):
    data = {"shape": (6, 8), "n_words": 5, "n_points": 30, "n_privileged_words": 3, "object_rate": 0.8}
    return make_planted_boxes(n, **data, random_state=0)


def all_boxes(h, w):
    return [Box(t, l, b, r) for t, b in itertools.combinations(h, 2) for l, r in itertools.combinations(w, 2)]


@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(
    ("step", "scale", "geometry"), [(1, 1.0, False), (3, 0.1, False), (1, 1.0, True), (2, 0.1, True)]
)
def test_kernel_search_equals_brute_force(kernel, normalize, step, scale, geometry):
    X, Y, _ = box_data(30)
    task = BoxLocalization(5, grid_step=step, scale=scale, geometry=geometry, geometry_scale=4.0)
    outputs = all_boxes([*range(0, 6, step), 6], [*range(0, 8, step), 8])
    for gamma in ("scale", 5.0):
        model = JKSE(task, nu=0.4, kernel=kernel, gamma=gamma, normalize=normalize).fit(X[:10], Y[:10])
        for x, found in zip(X[10:20], model.predict(X[10:20])):
            # Without points there is nothing to divide: such a box is no output of normalized histograms.
            possible = [y for y in outputs if not normalize or x.histogram(y, 5).sum() > 0]
            assert found in possible
            scores = model.score_pairs([x] * len(possible), possible)
            assert model.score_pairs([x], [found])[0] == pytest.approx(scores.max(), rel=1e-9)


def test_geometry_multiplies_the_kernel_by_a_gaussian():
    X, Y, Z = box_data()
    words, placed = BoxLocalization(5), BoxLocalization(5, geometry=True, geometry_scale=3.0)
    plain, model = (JKSE(task, gamma=0.5, normalize=True).fit(X, Y) for task in (words, placed))
    h, w = X[0].shape
    sides = np.array([np.array(y) / [h, w, h, w] for y in Y]) - [0.25, 0.25, 0.75, 0.75]
    areas = np.array([y.area / (h * w) for y in Y])
    places = 3.0 * np.column_stack([sides, sides**2, areas])
    apart = ((places[:, None] - places[None]) ** 2).sum(axis=2)
    histograms = np.array([x.histogram(y, 5) for x, y in zip(X, Y)])
    histograms /= np.maximum(histograms.sum(axis=1, keepdims=True), 1.0)
    K = chi2_kernel(histograms, gamma=0.5) * np.exp(-apart)
    alpha = np.zeros(len(X))
    alpha[model.support_] = model.dual_coef_
    np.testing.assert_allclose(model.score_pairs(X, Y), K @ alpha, rtol=1e-10)
    assert np.abs(model.score_pairs(X, Y) - plain.score_pairs(X, Y)).max() > 1e-3
    # Scale 0 is the kernel of the words alone, in both spaces.
    silent, star = BoxLocalization(5, geometry=True, geometry_scale=0.0), BoxLocalization(8)
    np.testing.assert_allclose(
        JKSE(silent, gamma=0.5, normalize=True).fit(X, Y).score_pairs(X, Y), plain.score_pairs(X, Y)
    )
    without = JKSEPlus(words, privileged_task=star).fit(X, Y, privileged=Z)
    star = BoxLocalization(8, geometry=True, geometry_scale=0.0)
    zero = JKSEPlus(silent, privileged_task=star).fit(X, Y, privileged=Z)
    np.testing.assert_allclose(zero.correcting_function(Z, Y), without.correcting_function(Z, Y), atol=1e-6)


def test_far_support_vectors_do_not_underflow():
    X, Y, _ = make_planted_boxes(6, shape=(12, 12), n_words=5, n_points=300, random_state=0)
    model = JKSE(BoxLocalization(5), gamma=10_000.0).fit(X[:5], Y[:5])
    x, outputs = X[5], all_boxes(range(13), range(13))

    def nearest(boxes):
        features = np.array([x.histogram(b, 5) for b in boxes])
        return -additive_chi2_kernel(features, model.support_features_).max(axis=1)

    best = nearest(outputs).min()
    assert best * 10_000.0 > 800.0  # exp underflows
    assert nearest(model.predict([x]))[0] == pytest.approx(best, abs=1e-6)


def test_jkse_is_a_one_class_svm_on_pairs():
    X, Y, _ = box_data(30)
    model = JKSE(BoxLocalization(5), nu=0.3, gamma=0.2, tol=1e-7).fit(X, Y)
    features = np.array([x.histogram(y, 5) for x, y in zip(X, Y)])
    theirs = OneClassSVM(nu=0.3, kernel="precomputed", tol=1e-10).fit(chi2_kernel(features, gamma=0.2))
    expected = theirs.score_samples(chi2_kernel(features, gamma=0.2))
    np.testing.assert_allclose(model.score_pairs(X, Y), expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("as_features", [False, True])
def test_jkse_plus_becomes_jkse(as_features):
    # Enough points for every pair to have its own histogram: duplicates would make the privileged kernel singular.
    X, Y, Z = make_planted_boxes(30, shape=(20, 20), n_words=5, n_points=600, n_privileged_words=3, random_state=0)
    task, star = BoxLocalization(5), BoxLocalization(8)
    privileged = np.array([star.joint_feature(z, y) for z, y in zip(Z, Y)]) if as_features else Z
    options = {"privileged_task": None if as_features else star, "privileged_gamma": 50.0, "tol": 1e-6}
    plain = JKSE(task, nu=0.5, tol=1e-8).fit(X, Y)
    limit = JKSEPlus(task, nu=0.5, lam=1e-5, **options).fit(X, Y, privileged=privileged)
    other = JKSEPlus(task, nu=0.5, lam=10.0, **options).fit(X, Y, privileged=privileged)
    off = JKSEPlus(task, nu=0.5, lam=10.0, **options).fit(X, Y)
    scores = [m.score_pairs(X, Y) for m in (plain, limit, other, off)]
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-4)
    np.testing.assert_array_equal(scores[3], scores[0])
    assert np.abs(scores[2] - scores[0]).max() > 1e-2
    assert other.dual_gap_ < 1e-6


def test_tasks_that_list_their_outputs():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    X = np.eye(3)[y] + 0.3 * rng.random((60, 3))
    model = JKSE(Multiclass(3, 3), nu=0.2).fit(X[:40], y[:40])
    assert model.score(X[40:], y[40:]) > 0.9
    assert clone(model).get_params()["nu"] == 0.2


def test_messages():
    X, Y, _ = box_data()
    with pytest.raises(ValueError, match="task must support a search with a kernel: Chain does not list its outputs"):
        JKSE(Chain(2, 3)).fit([np.ones((2, 3))], [[0, 1]])
    with pytest.raises(
        ValueError, match=r"kernel must be one of \['chi2', 'intersection'\] for a search over boxes, got 'rbf'"
    ):
        JKSE(BoxLocalization(5), kernel="rbf").fit(X, Y)
    for options in ({"offset": True}, {"allow_absent": True}):
        with pytest.raises(ValueError, match=r"use BoxLocalization\(..., allow_absent=False, offset=False\)"):
            JKSE(BoxLocalization(5, **options)).fit(X, Y)
    with pytest.raises(ValueError, match="has negative values"):
        JKSE(Multiclass(2, 1)).fit([[-1.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match="`privileged` has 1 inputs, but `X` has 14 examples"):
        JKSEPlus(BoxLocalization(5), privileged_task=BoxLocalization(8)).fit(X, Y, privileged=X[:1])
    with pytest.raises(ValueError, match="`privileged` has 1 rows"):
        JKSEPlus(BoxLocalization(5)).fit(X, Y, privileged=np.ones((1, 3)))
    with pytest.warns(RuntimeWarning, match="reached max_nodes=2"):
        JKSE(BoxLocalization(5, max_nodes=2)).fit(X, Y).predict(X[:1])
    with pytest.raises(ValueError, match="needs more than 2 GB; raise grid_step"):
        BoxLocalization(10**8).argmax_kernel(X[0], Kernel("chi2"), np.ones((1, 5)), np.ones(1), False)
