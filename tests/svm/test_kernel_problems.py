import numpy as np
import pytest

from lupi.kernels import Kernel, KernelRows, Space
from lupi.solution import relative_gap
from lupi.svm.duals import svm_2k_dual, svm_dual, svm_plus_dual
from lupi.svm.kernel_qp import KernelQP, central_biases
from lupi.svm.reference import solve_reference
from lupi.svm.svm2_dual import deformation_features, deformation_matrix, deformation_space, svm2_plus_dual

N = 24
rng = np.random.default_rng(3)
X, Z = rng.normal(size=(N, 3)), rng.normal(size=(N, 2))
Y = np.where(X[:, 0] + 0.7 * rng.normal(size=N) > 0, 1.0, -1.0)
K = Kernel("rbf", gamma=0.4)(X)
K_STAR = Kernel("rbf", gamma=0.6)(Z)
C = 2.0 * rng.uniform(0.5, 1.5, size=N)
LAM = 0.3
ALL = np.ones(N, dtype=bool)
SOME = np.arange(N) % 4 > 0


def positive(t):
    return np.maximum(t, 0.0)


def gap_of(certificate):
    return relative_gap(certificate.primal, certificate.lower_bound)


def test_a_bound_above_the_objective_proves_nothing():
    assert relative_gap(1.0, 1.0 + 1e-15) == 0.0
    assert relative_gap(1.0, 1e21) == relative_gap(1.0, 1.0 + 1e-6) == relative_gap(-1.0, 0.0) == np.inf


@pytest.mark.parametrize("available", [ALL, SOME])
def test_a_point_that_misses_its_constraints_is_made_feasible_before_it_bounds_the_optimum(available):
    problem = svm_plus_dual(
        Space(matrix=K), Space(matrix=masked(available), weight=1 / LAM), Y, C, 3.0, False, available
    )
    best = solve_reference(problem).certificate
    outside = np.random.default_rng(0).normal(scale=1e-4, size=problem.n_variables)
    for missed in (outside, 1e-3 * outside, np.full(problem.n_variables, 1e-9)):
        found = problem.solution(solve_reference(problem).point + missed, 0, True, "none")
        assert problem.infeasibility(found.point) < 1e-12
        assert best.primal * (1 - 1e-3) < found.lower_bound <= best.primal * (1 + 1e-9)
        assert found.objective >= best.dual * (1 - 1e-9)


def masked(available):
    return K_STAR * np.outer(available, available)


# ---------------------------------------------------------------- primal values, written out by hand (formulas.md)


def svm_primal(f_norm, f):
    return 0.5 * f_norm + np.sum(C * positive(1 - Y * f))


def slack_primal(f_norm, f, g_norm, g, kappa, available):
    residual = positive(1 - Y * f - g)
    known = np.sum((C * (g + (0.0 if np.isinf(kappa) else kappa) * residual))[available])
    return 0.5 * f_norm + 0.5 * LAM * g_norm + known + np.sum((C * positive(1 - Y * f))[~available])


def labeled_primal(f_norm, f, g_norm, g, kappa, available):
    residual = positive(1 - Y * f - Y * g)
    known = np.sum((C * (positive(Y * g) + (0.0 if np.isinf(kappa) else kappa) * residual))[available])
    return 0.5 * f_norm + 0.5 * LAM * g_norm + known + np.sum((C * positive(1 - Y * f))[~available])


def svm2_plus_primal(f_norm, f, v_norm, rho, xi, kappa, labeled, available):
    residual = positive(1 - Y * f - (Y * xi if labeled else xi))
    known = np.sum((0.5 * C * (xi**2 + (0.0 if np.isinf(kappa) else kappa) * residual**2))[available])
    alone = np.sum((0.5 * C * positive(1 - Y * f) ** 2)[~available])
    return 0.5 * f_norm + 0.5 * LAM * (v_norm + rho**2) + known + alone


def feasible_point(problem, seed=0):
    """Some dual point that keeps the equalities, by projecting a random one on them and on the box in turn."""
    draw = np.random.default_rng(seed)
    low = np.where(np.isfinite(problem.lower), problem.lower, -2.0)
    high = np.where(np.isfinite(problem.upper), problem.upper, 3.0)
    x = low + (high - low) * draw.uniform(0.3, 0.7, size=problem.n_variables)
    E = problem.coef[problem.biased]
    for _ in range(200):
        x = np.clip(x, low + 0.1 * (high - low), high - 0.1 * (high - low))
        x = x - np.linalg.pinv(E) @ (E @ x - problem.total[problem.biased])
    assert np.all(x >= problem.lower)
    assert np.all(x <= problem.upper)
    return x


def points(problem):
    """Certificates of points far from the optimum and of the optimum (there with PIQP's multipliers as biases)."""
    best = solve_reference(problem, tol=1e-10)
    x = feasible_point(problem)
    far = [
        (point, problem.certificate(point)) for point in (x, 0.05 * x)
    ]  # large and small functions: slack everywhere
    return [*far, (best.point, problem.certificate(best.point, best.certificate.biases))]


def test_svm_certificate_is_the_hand_written_primal_and_dual():
    problem = svm_dual(Space(matrix=K), Y, C)
    for a, certificate in points(problem):
        w = K @ (Y * a)
        assert certificate.primal == pytest.approx(svm_primal((Y * a) @ w, w + certificate.biases[0]), rel=1e-10)
        assert certificate.dual == pytest.approx(a.sum() - 0.5 * (Y * a) @ w, rel=1e-10)
        gap = (certificate.primal - certificate.dual) / certificate.primal
        assert gap_of(certificate) == pytest.approx(gap, rel=1e-8)
    assert -1e-12 < (certificate.primal - certificate.dual) / certificate.primal < 1e-6


@pytest.mark.parametrize("available", [ALL, SOME], ids=["all rows", "missing rows"])
@pytest.mark.parametrize("labeled", [False, True], ids=["slack", "labeled"])
@pytest.mark.parametrize("kappa", [1.5, 4.0, np.inf])
def test_svm_plus_certificate_is_the_hand_written_primal_and_dual(kappa, labeled, available):
    problem = svm_plus_dual(
        Space(matrix=K), Space(matrix=masked(available), weight=1 / LAM), Y, C, kappa, labeled, available
    )
    s = Y if labeled else np.ones(N)
    primal = labeled_primal if labeled else slack_primal
    for x, certificate in points(problem):
        a, d = x[:N], np.zeros(N)
        d[available] = x[N:]
        beta, eta = Y * a, np.where(available, s * (a - d), 0.0)
        t = certificate.scale  # stretches functions until the hard constraints hold
        f = t * (K @ beta + certificate.biases[0])
        g = t * (K_STAR @ eta / LAM + certificate.biases[1])
        norms = t**2 * beta @ K @ beta, t**2 * eta @ K_STAR @ eta / LAM**2
        if np.isfinite(gap_of(certificate)):
            expected = primal(norms[0], f, norms[1], g, kappa, available)
            assert certificate.primal == pytest.approx(expected, rel=1e-9)
            if not labeled:
                assert g[available].min() > -1e-9
            if np.isinf(kappa):
                assert (Y * f + (Y * g if labeled else g))[available].min() > 1 - 1e-9
        dual = a.sum() - 0.5 * beta @ K @ beta - 0.5 / LAM * eta @ K_STAR @ eta
        assert certificate.dual == pytest.approx(dual, rel=1e-10)
    assert -1e-12 < (certificate.primal - certificate.dual) / certificate.primal < 1e-5


@pytest.mark.parametrize("available", [ALL, SOME], ids=["all rows", "missing rows"])
@pytest.mark.parametrize("labeled", [False, True], ids=["slack", "labeled"])
@pytest.mark.parametrize("kappa", [1.5, np.inf])
def test_svm2_plus_certificate_is_the_hand_written_primal(kappa, labeled, available):
    Q = Space(matrix=deformation_matrix(masked(available), C, LAM, available))
    problem = svm2_plus_dual(Space(matrix=K), Q, Y, C, LAM, kappa, labeled, available)
    s = Y if labeled else np.ones(N)
    for a, certificate in points(problem):
        t, beta = certificate.scale, Y * a
        xi = Q.matrix @ (s * a)
        multipliers = np.where(available, s * a - C * xi, 0.0) / LAM
        rho = multipliers.sum()
        np.testing.assert_allclose((K_STAR @ multipliers + rho)[available], xi[available], atol=1e-9)
        if np.isfinite(gap_of(certificate)):
            expected = svm2_plus_primal(
                t**2 * beta @ K @ beta, t * (K @ beta + certificate.biases[0]), t**2 * multipliers @ K_STAR @ multipliers,
                t * rho, t * xi, kappa, labeled, available,
            )  # fmt: skip
            assert certificate.primal == pytest.approx(expected, rel=1e-9)
    assert -1e-12 < (certificate.primal - certificate.dual) / certificate.primal < 1e-5


@pytest.mark.parametrize("available", [ALL, SOME], ids=["all rows", "missing rows"])
@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_svm_2k_certificate_is_the_hand_written_primal(epsilon, available):
    CB, D = 0.5 * C, 0.3 * C
    problem = svm_2k_dual(Space(matrix=K), Space(matrix=masked(available)), Y, C, CB, D, epsilon, available)
    for x, certificate in points(problem):
        m = available.sum()
        aB, plus, minus = np.zeros((3, N))
        aB[available], plus[available], minus[available] = x[N:].reshape(3, m)
        gA, gB = Y * x[:N] - plus + minus, Y * aB + plus - minus
        fA, fB = K @ gA + certificate.biases[0], K_STAR @ gB + certificate.biases[1]
        second = CB * positive(1 - Y * fB) + D * positive(np.abs(fA - fB) - epsilon)
        expected = (
            0.5 * gA @ K @ gA + 0.5 * gB @ K_STAR @ gB + np.sum(C * positive(1 - Y * fA)) + second[available].sum()
        )
        assert certificate.primal == pytest.approx(expected, rel=1e-9)
        dual = x[: N + m].sum() - epsilon * x[N + m :].sum() - 0.5 * gA @ K @ gA - 0.5 * gB @ K_STAR @ gB
        assert certificate.dual == pytest.approx(dual, rel=1e-9)
    assert -1e-12 < (certificate.primal - certificate.dual) / certificate.primal < 1e-5


# ---------------------------------------------------------------- what proves nothing


@pytest.mark.parametrize("change", [0.5, -0.5])
def test_gap_is_infinite_where_an_equality_is_violated(change):
    problem = svm_dual(Space(matrix=K), Y, C)
    x = feasible_point(problem)
    assert np.isfinite(gap_of(problem.certificate(x)))
    x[0] += change
    assert gap_of(problem.certificate(x)) == np.inf
    assert problem.infeasibility(x) > 1e-2


def test_gap_is_infinite_outside_the_box():
    problem = svm_dual(Space(matrix=K), Y, C)
    x = feasible_point(problem)
    i, j = np.flatnonzero(Y > 0)[0], np.flatnonzero(Y < 0)[0]
    x[[i, j]] += C.max()
    assert gap_of(problem.certificate(x)) == np.inf


def test_gap_is_infinite_where_hard_constraints_cannot_be_met():
    problem = svm_plus_dual(Space(matrix=np.zeros((N, N))), Space(matrix=np.zeros((N, N))), Y, C, np.inf, True, ALL)
    certificate = problem.certificate(feasible_point(problem))
    assert certificate.primal == np.inf
    assert gap_of(certificate) == np.inf


def test_divergence_is_never_claimed_where_slack_can_always_be_paid():
    huge = np.full(2 * N, 1e12)
    decision, privileged = Space(matrix=K), Space(matrix=K_STAR, weight=1 / LAM)
    assert not svm_plus_dual(decision, privileged, Y, C, np.inf, False, ALL).diverges(huge)
    assert not svm_plus_dual(decision, privileged, Y, C, 2.0, True, ALL).diverges(huge)
    assert svm_plus_dual(decision, privileged, Y, C, np.inf, True, ALL).diverges(huge)
    Q = Space(matrix=deformation_matrix(K_STAR, C, LAM, ALL))
    assert not svm2_plus_dual(decision, Q, Y, C, LAM, np.inf, False, ALL).diverges(huge[:N])
    assert svm2_plus_dual(decision, Q, Y, C, LAM, np.inf, True, ALL).diverges(huge[:N])


# ---------------------------------------------------------------- intercepts

INF = np.inf


@pytest.mark.parametrize(
    ("low", "high", "bias", "violation"),
    [
        ([0.7], [0.7], 0.7, 0.0),  # a free variable
        ([-1.0], [3.0], 1.0, 0.0),  # an interval: its midpoint
        ([2.0], [INF], 2.0, 0.0),  # only one side is known
        ([-INF], [-3.0], -3.0, 0.0),
        ([-INF], [INF], 0.0, 0.0),
        ([1.0], [0.5], 0.75, 0.5),  # not optimal yet
        ([0.0, 1.0], [4.0, INF], 2.5, 0.0),
    ],
)
def test_one_bias(low, high, bias, violation):
    kinds = np.ones((len(low), 1))
    biases, remaining = central_biases(kinds, np.array(low), np.array(high))
    assert biases == pytest.approx([bias])
    assert remaining == pytest.approx(violation)


def test_one_bias_with_both_signs():
    biases, remaining = central_biases(np.array([[1.0], [-1.0]]), np.array([0.0, -3.0]), np.array([INF, INF]))
    assert biases == pytest.approx([1.5])  # b >= 0 and -b >= -3
    assert remaining == 0.0


@pytest.mark.parametrize(
    ("kinds", "low", "high", "expected", "violation"),
    [
        ([[1, 1], [0, -1]], [0.4, 0.3], [0.4, 0.3], [0.7, -0.3], 0.0),  # both free
        ([[1, 1], [0, -1]], [0.0, -1.0], [0.0, 1.0], [0.0, 0.0], 0.0),  # b + b* known, b* in [-1, 1]
        ([[1, 1], [-1, 1]], [0.0, 0.0], [2.0, 4.0], [-0.5, 1.5], 0.0),  # b* in [0, 3], then b in [-1.5, 0.5]
        ([[0, -1], [1, 1]], [-INF, 1.0], [2.0, INF], [3.0, -2.0], 0.0),  # half-infinite
        ([[0, -1], [0, 1]], [1.0, 1.0], [INF, INF], [0.0, 0.0], 2.0),  # b* <= -1 and b* >= 1
    ],
)
def test_two_biases(kinds, low, high, expected, violation):
    biases, remaining = central_biases(np.array(kinds, float), np.array(low), np.array(high))
    assert biases == pytest.approx(expected)
    assert remaining == pytest.approx(violation)


def test_no_bias_leaves_the_plain_violation():
    biases, violation = central_biases(np.zeros((2, 0)), np.array([0.5, -INF]), np.array([0.1, 1.0]))
    assert biases.shape == (0,)
    assert violation == pytest.approx(0.4)


# ---------------------------------------------------------------- the matrix Q


def test_deformation_of_equal_weights_is_xus_formula():
    Kt = K_STAR + 1
    expected = (1 / 1.7) * Kt @ np.linalg.inv(LAM / 1.7 * np.eye(N) + Kt)
    np.testing.assert_allclose(deformation_matrix(K_STAR, np.full(N, 1.7), LAM, ALL), expected, atol=1e-9)


@pytest.mark.parametrize("available", [ALL, SOME], ids=["all rows", "missing rows"])
@pytest.mark.parametrize("lam", [1e-3, 0.3, 1e3])
def test_weighted_deformation(lam, available):
    price, c = 2.0, (C / 2.0)[available]
    Kt = K_STAR[np.ix_(available, available)] + 1
    expected = np.zeros((N, N))
    block = (1 / price) * Kt @ np.linalg.inv(lam / price * np.diag(1 / c) + Kt) @ np.diag(1 / c)
    expected[np.ix_(available, available)] = block
    before = K_STAR.copy()
    Q = deformation_matrix(K_STAR, C, lam, available)
    np.testing.assert_allclose(Q, expected, atol=1e-8 / lam**0.5)
    np.testing.assert_array_equal(Q, Q.T)
    np.testing.assert_array_equal(K_STAR, before)


@pytest.mark.parametrize("available", [ALL, SOME], ids=["all rows", "missing rows"])
@pytest.mark.parametrize("lam", [1e-3, 0.3, 1e3])
def test_deformation_through_features_is_the_same_matrix(lam, available):
    U = deformation_features(Z, C, lam, available)
    assert U.shape == (N, 3)
    np.testing.assert_allclose(U @ U.T, deformation_matrix(Z @ Z.T, C, lam, available), atol=1e-8)


def test_deformation_where_lam_is_lost_beside_the_prices():
    column = np.random.default_rng(0).normal(size=(20, 1))
    Z, C = np.hstack([column, column, 3 * column]), np.full(20, 1e12)
    U = deformation_features(Z, C, 1e-12, np.ones(20, dtype=bool))
    # Without lam: the projection on what the features span.
    span, _ = np.linalg.qr(np.hstack([column, np.ones((20, 1))]))
    np.testing.assert_allclose(1e12 * U @ U.T, span @ span.T, atol=1e-10)


@pytest.mark.parametrize("share", [1.0, 0.7])
@pytest.mark.parametrize("lam", [0.5, 3.0])
def test_a_factorization_in_single_precision_gives_products_in_double_precision(share, lam, monkeypatch):
    monkeypatch.setattr("lupi.svm.svm2_dual.LARGE_MATRIX", 1)
    draw = np.random.default_rng(3)
    features = draw.normal(size=(60, 5))
    available, C = draw.random(60) < share, draw.uniform(0.5, 2.0, size=60)
    K_star = Kernel("rbf", gamma=0.2)(features) * np.outer(available, available)
    space = deformation_space(Space(matrix=K_star), C, lam, available, single=True)
    exact = deformation_matrix(K_star, C, lam, available)
    assert space.inexact
    assert 0 < np.abs(space.dense - exact).max() < 1e-5
    vector = draw.normal(size=60)
    np.testing.assert_allclose(space.product(vector), exact @ vector, atol=1e-11)


@pytest.mark.parametrize("share", [1.0, 0.7])
def test_a_low_rank_matrix_near_q_gives_products_in_double_precision(share, monkeypatch):
    monkeypatch.setattr("lupi.svm.svm2_dual.LARGE_MATRIX", 1)
    draw = np.random.default_rng(3)
    features = draw.normal(size=(200, 3))
    available, C = draw.random(200) < share, draw.uniform(0.5, 2.0, size=200)
    K_star = Kernel("rbf", gamma=0.05)(features) * np.outer(available, available)
    space = deformation_space(Space(matrix=K_star), C, 0.5, available, single=True, curvature=1.0)
    exact = deformation_matrix(K_star, C, 0.5, available)
    assert space.low_rank[0].shape[1] <= 51
    assert 1e-5 < np.abs(space.rounded - exact).max() < 0.05
    np.testing.assert_allclose(space.diagonal(), np.diagonal(space.rounded), atol=1e-5)
    vector = draw.normal(size=200)
    np.testing.assert_allclose(space.product(vector), exact @ vector, atol=1e-11)
    # Whoever asks for the matrix itself gets it.
    np.testing.assert_allclose(space.dense, exact, atol=1e-5)
    assert space.n_examples == 200


def test_a_kernel_of_full_rank_has_no_low_rank_matrix_near_it(monkeypatch):
    monkeypatch.setattr("lupi.svm.svm2_dual.LARGE_MATRIX", 1)
    space = deformation_space(Space(matrix=np.eye(40)), np.ones(40), 1.0, np.ones(40, bool), single=True, curvature=1.0)
    assert space.inexact
    assert space.low_rank is None


def test_single_precision_is_not_trusted_with_a_bad_condition(monkeypatch):
    monkeypatch.setattr("lupi.svm.svm2_dual.LARGE_MATRIX", 1)
    C, every = np.full(30, 1e6), np.ones(30, bool)
    space = deformation_space(
        Space(matrix=Kernel("rbf")(rng.normal(size=(30, 2)))), C, 1e-3, every, single=True, curvature=1.0
    )
    assert not space.inexact


# ---------------------------------------------------------------- spaces


@pytest.mark.parametrize("kind", ["matrix", "factor", "both", "rows on demand"])
def test_every_kind_of_space_gives_the_same_numbers(kind):
    matrix = X @ X.T
    rows = KernelRows(Kernel("linear"), X)
    arguments = {"matrix": {"matrix": matrix}, "factor": {"factor": X}, "both": {"matrix": matrix, "factor": X}}
    space = Space(**arguments.get(kind, {"source": rows}), weight=0.5)
    beta, index, columns = rng.normal(size=N), np.array([3, 3, 0]), np.array([1, 5])
    np.testing.assert_allclose(space.product(beta), 0.5 * matrix @ beta, atol=1e-12)
    signs, block = np.array([1.0, 0.0, -1.0]), np.ones((3, 3))
    space.add_block(block, index, signs)
    expected = 1.0 + 0.5 * np.outer(signs, signs) * matrix[np.ix_(index, index)]
    np.testing.assert_allclose(block, expected, atol=1e-12)
    np.testing.assert_allclose(space.diagonal(), 0.5 * np.diagonal(matrix), atol=1e-12)
    np.testing.assert_allclose(space.block(index, columns), 0.5 * matrix[np.ix_(index, columns)], atol=1e-12)
    np.testing.assert_allclose(space.dense, matrix, atol=1e-12)
    assert space.n_examples == N
    assert space.on_demand == (kind == "rows on demand")


def test_dual_value_and_margins_agree_with_a_general_quadratic_program():
    coef = rng.integers(-1, 2, size=(2, 30)).astype(float)
    example = rng.integers(0, N, size=30)
    problem = KernelQP(
        spaces=(Space(matrix=K), Space(matrix=K_STAR, weight=2.0, bias=False)),
        example=example, coef=coef, p=rng.normal(size=30), lower=np.zeros(30), upper=np.ones(30),
        ridge=rng.random(30), total=np.zeros(2),
    )  # fmt: skip
    H = np.diag(problem.ridge)
    for matrix, c in zip((K, 2 * K_STAR), coef):
        H += np.outer(c, c) * matrix[np.ix_(example, example)]
    x = rng.random(30)
    assert problem.certificate(x).dual == pytest.approx(problem.p @ x - 0.5 * x @ H @ x)
    np.testing.assert_allclose(problem.margins(x) - problem.ridge * x, problem.p - H @ x, atol=1e-12)
