"""What must hold exactly or in the limit: methods that become other methods (formulas.md, section 10)."""

import numpy as np
import pytest
from sklearn.svm import SVC

from lupi import SVM2K, SVM2Plus, SVMPlus
from lupi.kernels import Kernel, Space
from lupi.svm.auto import SOLVERS
from lupi.svm.duals import svm_plus_dual

N = 50
rng = np.random.default_rng(11)
X, Z = rng.normal(size=(N, 3)), rng.normal(size=(N, 2))
Y = np.where(X[:, 0] + 0.8 * rng.normal(size=N) > 0, 1, -1)
NEW = rng.normal(size=(20, 3))
K, K_STAR = Kernel("rbf", gamma=0.3)(X), Kernel("rbf", gamma=0.5)(Z)
RBF = {"gamma": 0.3, "privileged_gamma": 0.5, "tol": 1e-8}
GRAM = {"kernel": "precomputed", "privileged_kernel": "precomputed", "tol": 1e-8}
WEIGHT = rng.uniform(0.2, 3.0, size=N)


def svc(C=1.0, **options):
    return SVC(C=C, tol=1e-9, **{"gamma": 0.3, **options})


def dense_coef(model):
    """Coefficients over all training examples."""
    out = np.zeros(N)
    out[model.support_] = model.dual_coef_[0]
    return out


# ---------------------------------------------------------------- without privileged features


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["equal", "weighted"])
@pytest.mark.parametrize("privileged", [None, np.full((N, 2), np.nan)], ids=["none", "all rows missing"])
@pytest.mark.parametrize("make", [SVMPlus, SVM2K])
@pytest.mark.parametrize("C", [0.05, 1.0, 100.0])
def test_no_privileged_features_give_the_svm(C, make, privileged, weight):
    model = make(C=C, **RBF).fit(X, Y, privileged=privileged, sample_weight=weight)
    plain = svc(C).fit(X, Y, sample_weight=weight)
    assert model.dual_gap_ < 1e-9
    np.testing.assert_allclose(dense_coef(model), dense_coef(plain), rtol=1e-4, atol=1e-5 * C)
    accuracy = max(1e-5, 1e-6 * C)  # libsvm keeps kernel values in single precision
    assert model.intercept_ == pytest.approx(plain.intercept_, abs=accuracy)
    np.testing.assert_allclose(model.decision_function(NEW), plain.decision_function(NEW), atol=accuracy)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["equal", "weighted"])
@pytest.mark.parametrize("privileged", [None, np.full((N, 2), np.nan)], ids=["none", "all rows missing"])
@pytest.mark.parametrize("C", [0.05, 1.0, 100.0])
def test_no_privileged_features_give_the_l2_svm(C, privileged, weight):
    model = SVM2Plus(C=C, **RBF).fit(X, Y, privileged=privileged, sample_weight=weight)
    c = np.ones(N) if weight is None else weight
    plain = svc(1e9, kernel="precomputed").fit(K + np.diag(1 / (C * c)), Y)
    assert model.dual_gap_ < 1e-9
    np.testing.assert_allclose(dense_coef(model), dense_coef(plain), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(model.decision_function(X), K @ dense_coef(plain) + plain.intercept_, atol=1e-4)


def test_kernels_of_missing_rows_do_not_matter():
    some = np.where((np.arange(N) % 3 == 0)[:, None], np.nan, Z)
    base = SVMPlus(**RBF).fit(X, Y, privileged=some)
    gram = np.where(np.isnan(some).any(axis=1)[:, None], np.nan, K_STAR)
    given = SVMPlus(**{**RBF, "privileged_kernel": "precomputed"}).fit(X, Y, privileged=gram)
    np.testing.assert_allclose(given.decision_function(X), base.decision_function(X), atol=1e-6)


# ---------------------------------------------------------------- limits in the privileged space


@pytest.mark.parametrize("kappa", [2.0, np.inf])
def test_svm_plus_slack_with_a_large_multiple_of_the_identity_is_the_svm(kappa):
    model = SVMPlus(kappa=kappa, **GRAM).fit(K, Y, privileged=1e6 * np.eye(N))
    plain = svc(kernel="precomputed").fit(K, Y)
    np.testing.assert_allclose(model.decision_function(K), plain.decision_function(K), atol=1e-3)
    np.testing.assert_allclose(dense_coef(model), dense_coef(plain), atol=1e-3)


@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_svm2_plus_with_small_lam_and_full_rank_is_the_l2_svm(C):
    privileged = K_STAR + np.eye(N)
    model = SVM2Plus(C=C, lam=1e-7, kappa=np.inf, **GRAM).fit(K, Y, privileged=privileged)
    plain = SVM2Plus(C=C, **GRAM).fit(K, Y)
    np.testing.assert_allclose(model.decision_function(K), plain.decision_function(K), atol=1e-4)
    svm = svc(1e9, kernel="precomputed").fit(K + np.eye(N) / C, Y)
    np.testing.assert_allclose(dense_coef(model), dense_coef(svm), atol=1e-3 * C)


@pytest.mark.parametrize("correction", ["slack", "labeled"])
@pytest.mark.parametrize("make", [SVMPlus, SVM2Plus])
def test_a_large_lam_leaves_the_privileged_features_without_influence(make, correction):
    first, second = (
        make(lam=1e9, correction=correction, **RBF).fit(X, Y, privileged=A).decision_function(NEW) for A in (Z, Z[::-1])
    )
    np.testing.assert_allclose(first, second, atol=1e-4)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["equal", "weighted"])
def test_labeled_with_kappa_one_is_the_svm(weight):
    # A correction of slack costs as much as the slack itself, so it is never worth its norm.
    model = SVMPlus(C=2.0, correction="labeled", kappa=1.0, **RBF).fit(X, Y, privileged=Z, sample_weight=weight)
    plain = svc(2.0).fit(X, Y, sample_weight=weight)
    assert model.objective_ == pytest.approx(SVMPlus(C=2.0, **RBF).fit(X, Y, sample_weight=weight).objective_, rel=1e-7)
    np.testing.assert_allclose(dense_coef(model), dense_coef(plain), atol=1e-4)
    np.testing.assert_allclose(model.privileged_dual_coef_, 0.0, atol=1e-4)


# ---------------------------------------------------------------- SVM-2K


def test_svm_2k_without_a_tie_is_two_svms():
    model = SVM2K(C=2.0, C_privileged=0.5, D=0, **RBF).fit(X, Y, privileged=Z)
    first, second = svc(2.0).fit(X, Y), svc(0.5, gamma=0.5).fit(Z, Y)
    np.testing.assert_allclose(model.decision_function(NEW), first.decision_function(NEW), atol=1e-5)
    np.testing.assert_allclose(model.correcting_function(Z), second.decision_function(Z), atol=1e-5)


def test_svm_2k_with_a_wide_tube_is_two_svms():
    model = SVM2K(D=3.0, epsilon=1e3, **RBF).fit(X, Y, privileged=Z)
    np.testing.assert_allclose(model.decision_function(NEW), svc().fit(X, Y).decision_function(NEW), atol=1e-5)


def test_svm_2k_with_a_tight_tie_agrees_in_both_views():
    loose, tight = (SVM2K(D=D, **RBF).fit(X, Y, privileged=Z) for D in (0.01, 100.0))
    apart = [np.abs(m.decision_function(X) - m.correcting_function(Z)).max() for m in (loose, tight)]
    assert apart[1] < 1e-6 < 0.1 < apart[0]


# ---------------------------------------------------------------- invariances


@pytest.mark.parametrize("correction", ["slack", "labeled"])
@pytest.mark.parametrize("scale", [1e-2, 7.0])
@pytest.mark.parametrize("make", [SVMPlus, SVM2Plus])
def test_scaling_kernels_and_weights_together_changes_nothing(make, scale, correction):
    base = make(C=2.0, lam=0.5, correction=correction, **GRAM).fit(K, Y, privileged=K_STAR)
    # Kernel s K with C / s (and lam / s): |w|^2 becomes |w|^2 / s, so the whole objective is divided by s.
    decision = make(C=2.0 / scale, lam=0.5 / scale, correction=correction, **GRAM).fit(scale * K, Y, privileged=K_STAR)
    np.testing.assert_allclose(decision.decision_function(scale * K), base.decision_function(K), atol=1e-5)
    np.testing.assert_allclose(decision.correcting_function(K_STAR), base.correcting_function(K_STAR), atol=1e-5)
    assert decision.objective_ * scale == pytest.approx(base.objective_, rel=1e-6)
    if make is SVMPlus:  # SVM2+ adds the constant 1 to K*, which does not scale
        other = make(C=2.0, lam=0.5 * scale, correction=correction, **GRAM).fit(K, Y, privileged=scale * K_STAR)
        np.testing.assert_allclose(other.decision_function(K), base.decision_function(K), atol=1e-5)


@pytest.mark.parametrize("correction", ["slack", "labeled"])
@pytest.mark.parametrize("make", [SVMPlus, SVM2Plus])
def test_permuting_examples_permutes_the_dual_variables(make, correction):
    order = np.random.default_rng(0).permutation(N)
    some = np.where((np.arange(N) % 5 == 0)[:, None], np.nan, Z)
    base = make(C=2.0, correction=correction, **RBF).fit(X, Y, privileged=some)
    moved = make(C=2.0, correction=correction, **RBF).fit(X[order], Y[order], privileged=some[order])
    np.testing.assert_allclose(dense_coef(moved), dense_coef(base)[order], atol=1e-5)
    np.testing.assert_allclose(moved.decision_function(NEW), base.decision_function(NEW), atol=1e-5)
    np.testing.assert_allclose(moved.correcting_function(Z), base.correcting_function(Z), atol=1e-5)


@pytest.mark.parametrize("make", [SVMPlus, SVM2Plus, SVM2K])
def test_swapping_the_labels_turns_the_decision_round(make):
    labeled = {} if make is SVM2K else {"correction": "labeled"}
    base = make(**labeled, **RBF).fit(X, Y, privileged=Z)
    swapped = make(**labeled, **RBF).fit(X, -Y, privileged=Z)
    np.testing.assert_allclose(swapped.decision_function(NEW), -base.decision_function(NEW), atol=1e-5)
    np.testing.assert_allclose(swapped.correcting_function(Z), -base.correcting_function(Z), atol=1e-5)


# ---------------------------------------------------------------- intercepts


@pytest.mark.parametrize("solver", ["auto", "smo", "interior_point"])
def test_intercept_is_b_alone_and_not_the_sum_of_both_biases(solver):
    # Celik's eq. (10) computes y_i - w.x_i - w*.z_i of a free a_i: that is b + b*.
    parameters = {**RBF, "tol": 1e-8 if solver == "auto" else 1e-6}
    model = SVMPlus(1.0, 0.2, correction="labeled", kappa=10.0, solver=solver, **parameters).fit(X, Y, privileged=Z)
    f, g = model.decision_function(X), model.correcting_function(Z)
    a = dense_coef(model) * Y
    free = (a > 1e-4) & (a < 10.0 - 1e-4)
    assert free.any()
    np.testing.assert_allclose((f + g)[free], Y[free], atol=1e-4)
    b, b_star = model.intercept_[0], model.privileged_intercept_[0]
    assert abs(b_star) > 1e-2
    celik = (Y - (f - b) - (g - b_star))[free]
    np.testing.assert_allclose(celik, b + b_star, atol=1e-4)
    # 0 < d < C says g = 0 there, which fixes b*.
    d = a - Y * model.lam * model.privileged_dual_coef_[0]
    between = (d > 1e-4) & (d < 1.0 - 1e-4)
    np.testing.assert_allclose(g[between], 0.0, atol=1e-4)


def test_intercept_is_the_midpoint_where_nothing_is_free():
    # Two points and a tiny C: a = C for both, w = C (x_2 - x_1), and every b that leaves both margins below 1 is optimal.
    points, labels = np.array([[-1.0], [1.5]]), np.array([-1, 1])
    model = SVMPlus(C=0.01, kernel="linear", tol=1e-9).fit(points, labels)
    w = 0.01 * 2.5
    assert model.coef_ == pytest.approx(np.array([[w]]))
    assert model.intercept_ == pytest.approx([0.5 * ((-1 + w) + (1 - 1.5 * w))])


@pytest.mark.parametrize("solver", ["auto", "smo", "decomposition", "interior_point"])
def test_privileged_intercept_is_the_midpoint_where_no_d_is_free(solver):
    y, ones = np.array([1.0, -1.0, 1.0, -1.0]), np.ones(4)
    privileged = Space(matrix=np.diag([1.0, 2.0, 1.0, 2.0]))
    problem = svm_plus_dual(Space(matrix=np.eye(4)), privileged, y, 0.1 * ones, 3.0, True, ones > 0)
    certificate = SOLVERS["kernel"][solver](problem, tol=1e-9).certificate
    # a = kappa C = 0.3 and d = C = 0.1 for all, so w*.z_i = 0.2 K*_ii y_i. d_i = C asks for y_i g(z_i) >= 0: b* is in
    # [-0.2, 0.4]. a_i = kappa C asks for y_i (f + g) <= 1: with b* = 0.1, b is in [-0.4, 0.4].
    np.testing.assert_allclose(certificate.expansions, [0.3 * y, 0.2 * y], atol=1e-9)
    assert certificate.biases == pytest.approx([0.0, 0.1], abs=1e-9)
