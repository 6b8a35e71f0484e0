"""One-class SVM+: scikit-learn and a reference QP, limits, missing privileged rows."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import OneClassSVM
from sklearn.utils.estimator_checks import parametrize_with_checks

from lupi import OneClassSVMPlus


@parametrize_with_checks([OneClassSVMPlus()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def cloud(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)), rng.normal(size=(n, 2))


@pytest.mark.parametrize("nu", [0.06, 0.31, 0.88])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_plain_is_scikit_learns_one_class_svm(nu, kernel):
    X, _ = cloud()
    X = X + 3.0
    ours = OneClassSVMPlus(nu=nu, kernel=kernel, coef0=1.0, tol=1e-7).fit(X)
    theirs = OneClassSVM(nu=nu, kernel=kernel, coef0=1.0, tol=1e-10).fit(X)
    size = np.abs(theirs.score_samples(X)).max()
    np.testing.assert_allclose(ours.score_samples(X), theirs.score_samples(X), atol=1e-5 * size)
    assert ours.offset_ == pytest.approx(theirs.offset_[0], abs=1e-4 * size)
    assert ours.dual_coef_.sum() == pytest.approx(nu * len(X))
    assert ours.dual_gap_ < 1e-7


@pytest.mark.parametrize("lam", [0.01, 1.0, 100.0])
def test_plus_reaches_the_reference_qp_and_satisfies_the_constraints(lam):
    X, Z = cloud()
    Z[::7] = np.nan
    X[7] = 5.0
    fits = [OneClassSVMPlus(nu=0.3, lam=lam, solver=s, tol=1e-6).fit(X, privileged=Z) for s in ("auto", "reference")]
    assert fits[0].objective_ == pytest.approx(fits[1].objective_, rel=1e-3)
    assert fits[0].dual_gap_ < 1e-6
    assert fits[0].dual_coef_.sum() == pytest.approx(0.3 * len(X))
    assert abs(fits[0].privileged_dual_coef_.sum()) < 1e-8 / lam
    # An example without a privileged row keeps the box of the plain machine; the others may exceed it.
    alpha = np.zeros(len(X))
    alpha[fits[0].support_] = fits[0].dual_coef_[0]
    assert alpha[::7].max() == pytest.approx(1.0)
    assert alpha.max() > 1.1


def test_small_lam_and_definite_kernel_give_the_plain_machine():
    X, Z = cloud()
    plain = OneClassSVMPlus(nu=0.3, tol=1e-8).fit(X)
    plus = OneClassSVMPlus(nu=0.3, lam=1e-7, privileged_gamma=1e4, tol=1e-6).fit(X, privileged=Z)
    np.testing.assert_allclose(plus.score_samples(X), plain.score_samples(X), atol=1e-4)
    other = OneClassSVMPlus(nu=0.3, lam=1.0, privileged_gamma=1e4, tol=1e-8).fit(X, privileged=Z)
    assert np.abs(other.score_samples(X) - plain.score_samples(X)).max() > 1e-2


@pytest.mark.parametrize("seed", range(8))
def test_an_exact_fit_at_the_end_of_the_digits_is_finished(seed):
    """With lam = 1e-7 the last digit of a coefficient changes the optimality conditions by 1e-9, and the gap by up to 1e-6."""
    X, Z = cloud(seed=seed)
    model = OneClassSVMPlus(nu=0.3, lam=1e-7, privileged_gamma=1e4, tol=1e-6).fit(X, privileged=Z)
    assert model.dual_gap_ < 1e-6
    with pytest.warns(ConvergenceWarning, match="> tol=1e-08"):
        last = OneClassSVMPlus(nu=0.3, lam=1e-7, privileged_gamma=1e4, tol=1e-8).fit(X, privileged=Z)
    assert last.n_iter_ <= model.n_iter_ + 10


def test_privileged_rows_that_are_all_missing_change_nothing():
    X, Z = cloud()
    plain = OneClassSVMPlus(nu=0.3).fit(X)
    missing = OneClassSVMPlus(nu=0.3).fit(X, privileged=np.full_like(Z, np.nan))
    np.testing.assert_array_equal(plain.score_samples(X), missing.score_samples(X))


@pytest.mark.parametrize("nu", [0.0, -0.2, 1.5, 100.0])
def test_impossible_nu_is_explained(nu):
    X, _ = cloud()
    with pytest.raises(ValueError, match=r"nu must lie in \(0, 1\], got .*sum to nu \* n_samples"):
        OneClassSVMPlus(nu=nu).fit(X)
