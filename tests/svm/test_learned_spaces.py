"""Weights of privileged spaces that are learned: optima of the convex program by another solver, certificates, messages."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from primals import one_function_optimum
from sklearn.exceptions import ConvergenceWarning
from test_several_spaces import gram, spaces

from lupi import SVM2K, SVM2Plus, SVMPlus, SVRPlus, learn_space_weights
from lupi.kernels import Kernel

N = 36


@pytest.mark.parametrize("make", [SVMPlus, SVM2Plus])
@pytest.mark.parametrize("names", [("linear", "linear"), ("rbf", "linear"), ("rbf", "laplacian")])
@pytest.mark.parametrize("missing", [False, True])
def test_the_optimum_of_the_convex_program(make, names, missing):
    X, y, first, second = spaces(len(names[0]), missing)
    gammas, C, lam = [1.0, 0.5], 8.0, 30.0 if names == ("linear", "linear") else 0.3
    model = make(C=C, lam=lam, gamma=1.0, privileged_kernel=list(names), privileged_gamma=gammas, tol=1e-7)
    found = learn_space_weights(model, X, y, [first, second], tol=1e-5)
    stars = [gram(name, gamma, Z) for name, gamma, Z in zip(names, gammas, (first, second))]
    available = ~(np.isnan(first).any(axis=1) & np.isnan(second).any(axis=1))
    kind = {SVMPlus: "svm+", SVM2Plus: "svm2+"}[make]
    best = one_function_optimum(kind, Kernel("rbf", 1.0)(X), stars, lam, y, np.full(N, C), 3.0, available)
    assert found.objective == pytest.approx(best, rel=1e-4)
    assert found.dual_gap <= 1e-5
    assert found.objective * (1 - found.dual_gap) <= best * (1 + 1e-8)  # what the gap promises
    assert sum(found.weights) == pytest.approx(1.0)
    if missing and make is SVM2Plus and names[0] == "linear":
        return  # there equal weights are as good
    # Equal weights are another problem: otherwise nothing was learned here.
    equal = make(**model.get_params()).set_params(lam=2 * lam).fit(X, y, privileged=[first, second])
    assert equal.objective_ > best * (1 + 1e-4)
    assert_allclose(found.estimator.lam, lam / np.array(found.weights))


def test_a_space_that_knows_the_slack_is_trusted_and_names_are_kept():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = np.where(X[:, 0] + rng.normal(size=80) > 0, "yes", "no")
    slack = np.maximum(1 - np.where(y == "yes", 1, -1) * X[:, 0], 0)[:, None]
    given = {"nothing": rng.normal(size=(80, 1)), "slack": slack}
    for make in (SVMPlus, SVM2Plus, SVRPlus):
        target = y if make is not SVRPlus else (y == "yes").astype(float)
        found = learn_space_weights(make(C=10.0, privileged_kernel="linear"), X, target, given)
        assert list(found.weights) == ["nothing", "slack"]
        assert found.dual_gap <= 1e-4
        if make is not SVRPlus:
            assert found.weights["slack"] > 0.9
            assert found.estimator.score(X, y) > 0.6


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_kernel_matrices_are_as_their_kernels(kernel):
    X, y, first, second = spaces(2, missing=False)
    options = {"C": 5.0, "lam": 0.5, "tol": 1e-6}
    made = learn_space_weights(
        SVMPlus(**options, privileged_kernel=kernel, privileged_gamma=1.0), X, y, [first, second], tol=1e-6
    )
    matrices = [Kernel(kernel, 1.0)(Z) for Z in (first, second)]
    given = learn_space_weights(SVMPlus(**options, privileged_kernel="precomputed"), X, y, matrices, tol=1e-6)
    assert given.objective == pytest.approx(made.objective, rel=1e-6)
    assert_allclose(given.weights, made.weights, atol=0.02)


def test_several_classes_share_the_weights():
    X, y, first, second = spaces(3, missing=False)
    labels = np.where(X[:, 2] > 0.6, 2, y)
    found = learn_space_weights(SVM2Plus(lam=0.5, tol=1e-6, privileged_kernel="linear"), X, labels, [first, second])
    equal = SVM2Plus(lam=1.0, tol=1e-6, privileged_kernel="linear").fit(X, labels, privileged=[first, second])
    assert len(found.estimator.classes_) == 3
    assert found.dual_gap <= 1e-4
    assert found.objective <= equal.objective_ * (1 + 1e-6)


def test_too_few_turns_are_told():
    X, y, first, second = spaces(4, missing=False)
    with pytest.warns(ConvergenceWarning, match="after 1 fits the relative duality gap is"):
        found = learn_space_weights(SVMPlus(C=8.0, lam=0.3, tol=1e-7), X, y, [first, second], tol=1e-9, max_iter=1)
    assert found.weights == [0.5, 0.5]
    assert found.n_iter == 1


def test_messages():
    X, y, first, second = spaces(5, missing=False)
    for make, given, message in (
        (SVM2K(), [first, second], "estimator must be one of SVMPlus, SVM2Plus, SVRPlus; got SVM2K"),
        (SVMPlus(lam=[1.0, 2.0]), [first, second], "`lam` of SVMPlus must be one number"),
        (SVMPlus(n_components=5), [first, second], "`n_components` of SVMPlus must be None"),
        (SVMPlus(), first, "must be a list or dict of at least two tables"),
        (SVMPlus(), {"a": first}, "must be a list or dict of at least two tables"),
    ):
        with pytest.raises(ValueError, match="must be") as caught:
            learn_space_weights(make, X, y, given)
        assert message in str(caught.value)
    with pytest.raises(ValueError, match="max_iter at least 1"):
        learn_space_weights(SVMPlus(), X, y, [first, second], max_iter=0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("make", [SVMPlus, SVM2Plus])
def test_what_the_guide_says_of_noise(make, seed):
    """An RBF kernel on columns of noise fits any slack; a linear one does not."""
    rng = np.random.default_rng(seed)
    X, noise = rng.normal(size=(80, 3)), rng.normal(size=80)
    y = np.where(X[:, 0] + noise > 0, 1, -1)
    slack = np.maximum(1 - y * X[:, 0], 0)[:, None]
    given = {"slack": slack, "one": rng.normal(size=(80, 1)), "four": rng.normal(size=(80, 4))}
    rbf, linear = (
        learn_space_weights(make(C=10.0, privileged_kernel=kernel), X, y, given).weights["four"]
        for kernel in ("rbf", "linear")
    )
    assert 0.65 < rbf < 0.85
    assert linear < 0.1
