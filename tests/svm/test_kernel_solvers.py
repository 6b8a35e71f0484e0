import numpy as np
import pytest

from lupi.kernels import Kernel, KernelRows, Space, make_space
from lupi.svm.auto import SOLVERS, polish, solve_auto, solve_interior_point
from lupi.svm.duals import svm_2k_dual, svm_dual, svm_plus_dual
from lupi.svm.interior_point import FeatureSystem, KernelSystem, MixedSystem, newton_system
from lupi.svm.reference import _clarabel, dense_qp, solve_reference
from lupi.svm.smo import solve_decomposition, solve_smo
from lupi.svm.smo_loop import BLOCKED, LANES, highest, position
from lupi.svm.svm2_dual import deformation_features, deformation_matrix, deformation_space, svm2_plus_dual

KERNELS = ["linear", "rbf", "poly", "chi2", "laplacian"]


def data(seed, n, noise=0.7):
    rng = np.random.default_rng(seed)
    X, Z = rng.random((n, 4)), rng.random((n, 3))
    margin = X[:, 0] - X[:, 1] + 0.4 * noise * rng.normal(size=n)
    y = np.where(margin > np.median(margin), 1.0, -1.0)
    Z[:, 0] = np.clip(Z[:, 0] + np.abs(margin), 0, None)
    return rng, X, Z, y


def space(name, A, weight=1.0, available=None):
    kernel = Kernel(name, gamma=2.0, degree=3, coef0=1.0)
    mask = np.ones(len(A)) if available is None else available.astype(float)
    if name == "linear":
        return Space(factor=A * mask[:, None], matrix=np.outer(mask, mask) * (A @ A.T), weight=weight)
    return Space(matrix=kernel(A) * np.outer(mask, mask), weight=weight)


def build(seed, family, n, C, lam, kappa, labeled, missing, kernel="rbf", privileged_kernel="rbf", noise=0.7):
    """A random problem, and a function that gives its primal and dual value from formulas.md alone."""
    rng, X, Z, y = data(seed, n, noise)
    available = rng.random(n) >= (0.3 if missing else 0.0)
    C = C * rng.uniform(0.5, 2.0, size=n)
    decision = space(kernel, X)
    K, K_star = decision.dense, space(privileged_kernel, Z, available=available).dense
    s = y if labeled else np.ones(n)
    if family == "svm+":
        privileged = space(privileged_kernel, Z, 1 / lam, available)
        problem = svm_plus_dual(decision, privileged, y, C, kappa, labeled, available)
        return problem, lambda solution: svm_plus_values(solution, K, K_star, y, s, C, lam, kappa, labeled, available)
    Q = deformation_matrix(K_star, C, lam, available)
    decision = Space(matrix=K)
    problem = svm2_plus_dual(decision, Space(matrix=Q), y, C, lam, kappa, labeled, available)
    return problem, lambda solution: svm2_plus_values(solution, K, K_star, y, s, C, lam, kappa, available)


def price(factor, slack):
    """Factor times slack, where an infinite price of no slack is nothing (up to rounding)."""
    out = np.zeros_like(slack)
    out[slack > 1e-9] = factor * slack[slack > 1e-9]
    return out


def svm_plus_values(solution, K, K_star, y, s, C, lam, kappa, labeled, available):
    n, t = len(y), solution.certificate.scale
    a, d = solution.point[:n], np.zeros(n)
    d[available] = solution.point[n:]
    beta, eta = y * a, np.where(available, s * (a - d), 0.0)
    quadratic = 0.5 * beta @ K @ beta + 0.5 / lam * eta @ K_star @ eta
    f = t * (K @ beta + solution.certificate.biases[0])
    g = t * (K_star @ eta / lam + solution.certificate.biases[1])
    # The terms of g may be 1e16 times as large as g itself: their rounding is no violation.
    rounding = max(1e-9 * (1 + np.abs(g).max()), np.finfo(float).eps * (np.abs(K_star) @ np.abs(eta)).max() / lam)
    first = np.maximum(y * g, 0) if labeled else np.where(g < -rounding, np.inf, g)
    known = C * (first + price(kappa, np.maximum(1 - y * f - s * g, 0)))
    primal = t**2 * quadratic + known[available].sum() + (C * np.maximum(1 - y * f, 0))[~available].sum()
    return primal, a.sum() - quadratic


def svm2_plus_values(solution, K, K_star, y, s, C, lam, kappa, available):
    a, t = solution.point, solution.certificate.scale
    beta = y * a
    m = np.flatnonzero(available)
    Kt = K_star[np.ix_(m, m)] + 1
    # v and rho by solving for the multipliers, not through Q.
    e = np.linalg.solve(Kt * C[m][:, None] + lam * np.eye(len(m)), (s * a)[m])
    xi = np.zeros(len(y))
    xi[m] = t * (Kt @ e)
    f = t * (K @ beta + solution.certificate.biases[0])
    residual = np.maximum(1 - y * f - s * xi, 0)
    loss = np.where(available, xi**2 + price(kappa, residual**2), np.maximum(1 - y * f, 0) ** 2)
    primal = 0.5 * t**2 * beta @ K @ beta + 0.5 * lam * t**2 * e @ Kt @ e + 0.5 * (C * loss).sum()
    ridge = np.where(available, 1 / kappa, 1.0) / C
    own = (C[m] * (Kt @ e) ** 2).sum() + lam * e @ Kt @ e
    return primal, a.sum() - 0.5 * beta @ K @ beta - 0.5 * own - 0.5 * ridge @ a**2


def random_cases():
    rng = np.random.default_rng(7)
    cases = []
    for seed in range(152):
        labeled = bool(seed % 2)
        kappa = [1.5, 3.0, 20.0, np.inf][seed // 2 % 4]
        kernels = [str(k) for k in rng.choice(KERNELS, size=2)]
        C, lam = 10.0 ** rng.uniform(-3, 4), 10.0 ** rng.uniform(-3, 3)
        if labeled and np.isinf(kappa):
            kernels = [str(k) for k in rng.choice(["rbf", "laplacian"], size=2)]  # separable, so that a solution exists
        family = "svm+" if seed % 8 < 4 or seed % 3 else "svm2+"
        n = int(rng.integers(20, 61))
        cases.append((seed, family, n, C, lam, kappa, labeled, bool(rng.random() < 0.4), *kernels))
    return cases


@pytest.mark.parametrize("case", random_cases(), ids=lambda c: f"{c[0]}-{c[1]}-C{c[3]:.0e}-lam{c[4]:.0e}-kappa{c[5]}")
def test_auto_finds_the_optimum_of_the_reference_on_every_random_problem(case):
    problem, values = build(*case)
    solution = solve_auto(problem, tol=1e-7)
    assert solution.converged or solution.gap < 1e-6  # where digits end
    reference = solve_reference(problem)
    assert solution.certificate.dual == pytest.approx(reference.certificate.dual, rel=1e-4)
    primal, dual = values(solution)
    size = max(abs(primal), abs(dual))
    assert abs((primal - dual) / size - solution.gap) < 1e-6
    assert (primal - dual) / size < 1e-4
    assert problem.infeasibility(solution.point) < 1e-7


def test_the_optimum_is_that_of_clarabel_too():
    """The reference solver is PIQP, in its form for dense matrices; this is another program, on sparse ones."""
    pytest.importorskip("clarabel")
    for case in random_cases()[:24]:
        problem, _ = build(*case)
        if case[3] > 100 or case[4] < 0.1:
            continue  # not every solver's regime
        found = _clarabel(dense_qp(problem), 1e-9, 200)
        dual = solve_auto(problem, tol=1e-7).certificate.dual
        assert dual == pytest.approx(problem.certificate(found.x).dual, rel=1e-5)


# ---------------------------------------------------------------- every solver, the same optimum


def problem_set():
    for labeled in (False, True):
        for missing in (False, True):
            for family in ("svm+", "svm2+"):
                kernels = ("linear", "rbf") if missing else ("rbf", "linear")
                name = f"{family}-{'labeled' if labeled else 'slack'}-{'missing' if missing else 'all'}"
                yield pytest.param((5, family, 60, 1.5, 0.5, 3.0, labeled, missing, *kernels), id=name)


@pytest.mark.parametrize("case", list(problem_set()))
@pytest.mark.parametrize("solver", [*SOLVERS["kernel"], "decomposition of small sets"])
def test_every_solver_finds_the_same_optimum(solver, case):
    problem, _ = build(*case)
    best = solve_reference(problem).certificate.dual
    if solver == "decomposition of small sets":
        solution = solve_decomposition(problem, tol=1e-6, working_set=20)
    else:
        solution = SOLVERS["kernel"][solver](problem, tol=1e-6, max_iter=-1)
    assert solution.converged
    assert solution.certificate.dual == pytest.approx(best, rel=1e-6)
    assert solution.objective - solution.certificate.dual > -1e-9 * abs(best)
    assert solution.gap < 1e-5


@pytest.mark.parametrize("solver", ["smo", "decomposition", "interior_point", "auto"])
def test_labels_sorted_by_class_are_no_obstacle(solver):
    _, X, Z, y = data(2, 90)
    order = np.argsort(y, kind="stable")
    X, Z, y = X[order], Z[order], y[order]
    problem = svm_plus_dual(space("rbf", X), space("rbf", Z), y, np.ones(90), 3.0, False, np.ones(90, bool))
    options = {"working_set": 24} if solver == "decomposition" else {}
    solution = SOLVERS["kernel"][solver](problem, tol=1e-5, **options)
    assert solution.converged
    assert solution.certificate.dual == pytest.approx(solve_reference(problem).certificate.dual, rel=1e-6)


@pytest.mark.parametrize("labeled", [False, True])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(
    ("kernels", "system"),
    [(("linear", "linear"), FeatureSystem), (("linear", "rbf"), MixedSystem), (("rbf", "linear"), MixedSystem),
     (("rbf", "rbf"), KernelSystem)],
)  # fmt: skip
def test_interior_point_in_every_newton_system(kernels, system, missing, labeled):
    problem, values = build(3, "svm+", 50, 2.0, 0.3, 4.0, labeled, missing, *kernels)
    assert type(newton_system(problem)) is system
    solution = solve_interior_point(problem, tol=1e-7)
    assert solution.converged
    assert solution.certificate.dual == pytest.approx(solve_reference(problem).certificate.dual, rel=1e-7)
    np.testing.assert_allclose(values(solution), solution.certificate.dual, rtol=1e-6)


def two_views(seed, n, epsilon, tie, kernels=("rbf", "rbf"), missing=0.2):
    rng, X, Z, y = data(seed, n)
    available = rng.random(n) > missing
    C = rng.uniform(0.5, 2.0, size=n)
    spaces = space(kernels[0], X), space(kernels[1], Z, available=available)
    return svm_2k_dual(*spaces, y, C, 2 * C, tie * C, epsilon, available)


@pytest.mark.parametrize("kernels", [("linear", "linear"), ("linear", "rbf"), ("rbf", "rbf")])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("solver", ["smo", "interior_point", "auto", "decomposition of small sets"])
def test_every_solver_solves_svm_2k(solver, epsilon, kernels):
    problem = two_views(4, 40, epsilon, 0.5, kernels)
    if solver == "decomposition of small sets":
        solution = solve_decomposition(problem, tol=1e-6, working_set=16)
    else:
        solution = SOLVERS["kernel"][solver](problem, tol=1e-6)
    assert solution.converged
    assert solution.certificate.dual == pytest.approx(solve_reference(problem).certificate.dual, rel=1e-6)
    assert solution.gap < 1e-4


@pytest.mark.parametrize("tie", [0.0, 0.02, 3.0, 100.0])
@pytest.mark.parametrize("missing", [0.0, 0.7])
def test_views_move_together_where_one_has_no_room(tie, missing):
    # With a strong tie almost every step needs both views; pairs within one kind of variable alone stall.
    problem = two_views(7, 50, 0.05, tie, missing=missing)
    solution = solve_smo(problem, tol=1e-7)
    assert solution.converged
    assert solution.violation < 1e-6
    assert solution.certificate.dual == pytest.approx(solve_reference(problem).certificate.dual, rel=1e-6)


@pytest.mark.parametrize("labeled", [False, True])
def test_svm2_plus_through_features_is_svm2_plus_through_matrices(labeled):
    rng, X, Z, y = data(6, 250)
    C, available = rng.uniform(0.5, 2.0, size=250), rng.random(250) > 0.2
    U = deformation_features(Z, C, 0.5, available)
    dense = Space(matrix=deformation_matrix(Z @ Z.T, C, 0.5, available))
    problem = svm2_plus_dual(space("linear", X), Space(factor=U), y, C, 0.5, 3.0, labeled, available)
    matrices = svm2_plus_dual(Space(matrix=X @ X.T), dense, y, C, 0.5, 3.0, labeled, available)
    assert type(newton_system(problem)) is FeatureSystem
    by_features, by_matrices = solve_auto(problem, tol=1e-7), solve_auto(matrices, tol=1e-7)
    np.testing.assert_allclose(by_features.point, by_matrices.point, atol=1e-5)


@pytest.mark.parametrize("family", ["svm", "svm+"])
def test_rows_on_demand_give_the_solution_of_the_full_matrix(family):
    _, X, Z, y = data(8, 120)
    kernel = Kernel("rbf", gamma=2.0)

    def make(on_demand):
        first, second = (Space(source=KernelRows(kernel, A)) if on_demand else Space(matrix=kernel(A)) for A in (X, Z))
        if family == "svm":
            return svm_dual(first, y, np.ones(120))
        return svm_plus_dual(first, second, y, np.ones(120), 3.0, True, np.ones(120, bool))

    full = solve_auto(make(False), tol=1e-7)
    for solver in (solve_auto, solve_interior_point):
        rows = solver(make(True), tol=1e-6)
        assert rows.converged
        assert rows.certificate.dual == pytest.approx(full.certificate.dual, rel=1e-6)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("family", ["svm", "svm+"])
def test_single_precision_blocks_meet_a_tolerance_in_double_precision(family, missing):
    _, X, Z, y = data(8, 300)
    available = np.arange(300) % 4 > 0 if missing else np.ones(300, bool)
    kernel = Kernel("rbf", gamma=0.5)
    K, K_star = kernel(X), kernel(Z) * np.outer(available, available)
    first, second = Space(source=KernelRows(kernel, X)), Space(source=KernelRows(kernel, Z, available))

    def make(*spaces):
        if family == "svm":
            return svm_dual(spaces[0], y, np.ones(300))
        return svm_plus_dual(*spaces, y, np.ones(300), 3.0, False, available)

    found = solve_decomposition(make(first, second), tol=1e-3, working_set=60)
    assert found.converged
    exact = make(Space(matrix=K), Space(matrix=K_star))
    assert exact.certificate(found.point).violation < 1e-3
    assert found.certificate.dual == pytest.approx(solve_auto(exact, tol=1e-8).certificate.dual, rel=1e-3)


def test_double_precision_goes_on_where_single_precision_ends_too_early(monkeypatch):
    _, X, _, y = data(8, 200)
    blocks = Space.blocks

    def wrong(self, single):
        """Single precision that is far off."""
        out = blocks(self, single)
        if single:
            out.left *= np.float32(1.001)
        return out

    monkeypatch.setattr(Space, "blocks", wrong)
    kernel = Kernel("rbf", gamma=0.5)
    found = solve_decomposition(svm_dual(Space(source=KernelRows(kernel, X)), y, np.full(200, 10.0)), tol=1e-4)
    assert found.converged
    assert svm_dual(Space(matrix=kernel(X)), y, np.full(200, 10.0)).certificate(found.point).violation <= 1.01e-4


class NearKernel(Space):
    """Products with 1% less on the diagonal than the matrix has."""

    def product(self, coefficients):
        return super().product(coefficients) - 0.01 * coefficients


def test_smo_on_a_matrix_near_the_kernel_finds_the_optimum_of_the_kernel():
    _, X, Z, y = data(5, 150)
    C, every, prices = np.ones(150), np.ones(150, bool), (1.0, 3.0, False)
    decision = Space(matrix=Kernel("rbf", gamma=0.5)(X))
    Q = deformation_matrix(Kernel("rbf", gamma=0.5)(Z), C, 1.0, every)
    near = svm2_plus_dual(decision, NearKernel(matrix=Q + 0.01 * np.eye(150), inexact=True), y, C, *prices, every)
    exact = svm2_plus_dual(decision, Space(matrix=Q), y, C, *prices, every)
    found = solve_smo(near, tol=1e-6)
    assert found.converged
    assert exact.certificate(found.point).violation < 1e-6
    few = solve_smo(near, tol=1e-6, max_iter=5)
    assert few.n_iter == 5
    assert not few.converged


@pytest.mark.parametrize("kappa", [3.0, np.inf])
def test_a_low_rank_matrix_near_q_leads_to_the_optimum(kappa, monkeypatch):
    monkeypatch.setattr("lupi.svm.svm2_dual.LARGE_MATRIX", 1)
    _, X, Z, y = data(5, 300)
    C, every, kernel = np.ones(300), np.ones(300, bool), Kernel("rbf", gamma=0.1)
    decision, privileged = (make_space(kernel, A, 200) for A in (X, Z))
    values = []
    for single in (True, False):
        Q = deformation_space(privileged, C, 1.0, every, single=single, curvature=1.0)
        assert Q.inexact == single
        problem = svm2_plus_dual(decision, Q, y, C, 1.0, kappa, False, every)
        found = solve_smo(problem, tol=1e-3) if Q.inexact else solve_auto(problem, tol=1e-8)
        assert found.converged
        values.append((found.lower_bound, found.objective))
    (low, high), (exact, _) = values
    assert low <= exact * (1 + 1e-9)
    assert high >= exact * (1 - 1e-9)
    assert high - low < 1e-2 * exact


@pytest.mark.parametrize("gamma", [20.0, 50.0])
def test_a_gap_that_says_little_is_made_smaller_by_more_steps(gamma, monkeypatch):
    _, X, Z, y = data(3, 150)
    kernel, every = Kernel("rbf", gamma=gamma), np.ones(150, bool)
    spaces = Space(matrix=kernel(X)), Space(matrix=kernel(Z))
    problem = svm_plus_dual(*spaces, y, np.full(150, 300.0), 3.0, False, every)
    first = solve_smo(problem, tol=1e-3)
    assert first.violation < 1e-3
    assert first.gap > 2e-2
    assert solve_auto(problem, tol=1e-3).gap < 1e-6  # few free variables: active-set steps are cheap
    monkeypatch.setattr("lupi.svm.auto.CHEAPLY_FACTORIZED", 0)
    found = solve_auto(problem, tol=1e-3)
    assert found.converged
    assert found.solver == "smo"
    assert found.gap < 5e-3
    exact = solve_reference(problem).certificate.dual
    assert found.lower_bound <= exact * (1 + 1e-6)
    assert found.objective >= exact * (1 - 1e-6)
    # Where these steps may not be taken, active-set steps do it.
    monkeypatch.setattr("lupi.svm.auto._smo_budget", lambda problem: first.n_iter)
    assert solve_auto(problem, tol=1e-3).solver.endswith("active_set")


@pytest.mark.parametrize("n", [3, 64, 65, 255, 256, 257, 700])
def test_extremes_by_lanes_are_those_of_the_array(n):
    rng = np.random.default_rng(n)
    rate, lanes = rng.standard_normal((1, n)), np.empty((2, 1, LANES))
    open_ = rng.random((2, 1, n)) < 0.5
    open_[:, :, 0] = True
    mask = np.where(open_, 0.0, -BLOCKED)
    for side, sign in ((0, 1.0), (1, -1.0)):
        found = highest(rate, 0, mask, side, 0, lanes)
        allowed = np.flatnonzero(open_[side, 0])
        assert found == np.max(sign * rate[0, allowed])
        assert position(rate, 0, mask, side, 0, lanes, found) == allowed[np.argmax(sign * rate[0, allowed])]


def test_where_smo_gets_nowhere_an_interior_point_finds_the_bounds():
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(620, 10)), rng.normal(size=(620, 20))
    y = np.where(X[:, 0] + Z[:, 0] + 0.5 * rng.normal(size=620) > 0, 1.0, -1.0)
    privileged = Space(matrix=Kernel("rbf", gamma=0.05)(Z), weight=100.0)
    problem = svm_plus_dual(Space(factor=X / 3), privileged, y, np.ones(620), np.inf, False, np.ones(620, bool))
    found = solve_auto(problem, tol=1e-7)
    assert found.solver.startswith("interior_point")
    assert found.converged
    assert found.violation < 1e-7
    # The same point as that of the way through double precision.
    assert found.gap < 1e-8
    exact = solve_interior_point(problem, tol=1e-7)
    assert found.objective == pytest.approx(exact.objective, rel=1e-8)


@pytest.mark.parametrize("seed", [22, 35])
def test_singular_matrices_have_an_exact_finish_with_the_middle_of_the_best_intercepts(seed):
    """Linear functions of 4 and 3 features: the dual variables are not unique; of seed 35 the intercepts are not, either."""
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(40, 4)), rng.normal(size=(40, 3))
    y, found = np.where(X[:, 0] + Z[:, 0] + rng.normal(size=40) > 0, 1.0, -1.0), []
    for order in (np.arange(40), np.arange(40)[::-1]):
        spaces = (Space(factor=A[order], matrix=A[order] @ A[order].T) for A in (X, Z))
        problem = svm_plus_dual(*spaces, y[order], np.ones(40), 3.0, True, np.ones(40, bool))
        found.append(solve_interior_point(problem, tol=1e-13))
        assert found[-1].solver == "interior_point+active_set"
        assert found[-1].gap < 1e-14
    np.testing.assert_allclose(found[1].certificate.biases, found[0].certificate.biases, rtol=1e-9)


def test_a_mixed_system_in_single_precision_has_nearly_the_same_solution():
    problem, _ = build(1, "svm+", 150, 1.0, 1.0, 3.0, True, False, kernel="linear")
    system = newton_system(problem)
    assert isinstance(system, MixedSystem)
    D = np.linspace(0.1, 10.0, problem.n_variables)
    residual = np.ones(system.functions.n_weights)
    steps = []
    for single in (False, True):
        system.single = single
        system.factorize(D)
        assert system.factor.dtype == (np.float32 if single else np.float64)
        steps.append(system.solve(np.ones(problem.n_variables), residual, np.zeros(2))[0])
    np.testing.assert_allclose(steps[1], steps[0], atol=1e-3 * np.abs(steps[0]).max())
    assert np.any(steps[0] != steps[1])


# ---------------------------------------------------------------- limits, stalls, no solution


@pytest.mark.parametrize(
    ("family", "solver"),
    [
        *(("svm+", name) for name in ("smo", "decomposition", "interior_point", "auto")),
        ("svm2+", "smo"),
        ("svm2+", "decomposition"),
    ],
)
def test_too_few_iterations_are_not_called_converged(family, solver):
    problem, _ = build(1, family, 150, 100.0, 0.01, 3.0, True, False)
    solution = SOLVERS["kernel"][solver](problem, tol=1e-6, max_iter=1)
    assert not solution.converged
    assert solution.gap > 1e-3


@pytest.mark.parametrize(
    ("labeled", "missing"),
    [(False, False), (False, True), (True, True)],
    ids=["slack", "slack missing", "labeled missing"],
)
def test_smo_needs_circuits_where_pairs_stall(labeled, missing, monkeypatch):
    problems = [build(seed, "svm+", 20, 0.1, 1.0, 1.5, labeled, missing, "linear", "linear")[0] for seed in range(3)]
    best = [solve_reference(problem).certificate.dual for problem in problems]
    for problem, dual in zip(problems, best):
        solution = solve_smo(problem, tol=1e-6, max_iter=1_000_000)
        assert solution.converged
        assert solution.certificate.dual == pytest.approx(dual, rel=1e-6)
    # Without circuits it stops where no pair can move, below the optimum.
    monkeypatch.setattr("lupi.svm.smo._moves", lambda kinds, proves: np.array([np.eye(len(kinds))] * 2))
    stalled = [solve_smo(problem, tol=1e-6, max_iter=3000).certificate.dual for problem in problems]
    assert any(value < dual * (1 - 1e-4) for value, dual in zip(stalled, best))


@pytest.mark.parametrize("labeled", [False, True], ids=["slack", "labeled"])
@pytest.mark.parametrize("share", [0.5, 0.7, 0.8, 0.9, 0.95, 0.97])
def test_smo_meets_its_tolerance_with_many_missing_rows(share, labeled):
    """An example without a privileged row moves by joint steps alone: they count in the violation, and need triples."""
    for seed in range(4):
        rng, X, Z, y = data(seed, 80)
        available = np.zeros(80, dtype=bool)
        available[rng.permutation(80)[: round((1 - share) * 80)]] = True
        C, lam = 10.0 ** rng.uniform(-1, 1) * rng.uniform(0.5, 2.0, size=80), 10.0 ** rng.uniform(-1, 1)
        spaces = space("rbf", X), space("rbf", Z, 1 / lam, available)
        problem = svm_plus_dual(*spaces, y, C, 3.0, labeled, available)
        solution = solve_smo(problem, tol=1e-3)
        assert solution.converged
        assert solution.violation <= 1.001e-3  # by the certificate, not by what SMO believes


@pytest.mark.parametrize("solver", [solve_auto, solve_interior_point, solve_reference])
@pytest.mark.parametrize("family", ["svm+", "svm2+"])
def test_a_problem_without_a_feasible_point_is_recognized(family, solver):
    problem, _ = build(0, family, 60, 1.0, 1.0, np.inf, True, False, "linear", "linear", noise=3.0)
    solution = solver(problem)
    assert problem.diverges(solution.point)
    if solver is not solve_reference:
        assert not solution.converged
    feasible, _ = build(0, family, 60, 1.0, 1.0, np.inf, True, False, "laplacian", "laplacian", noise=3.0)
    assert not feasible.diverges(solver(feasible).point)


def test_polish_keeps_what_it_cannot_improve():
    problem, _ = build(2, "svm+", 40, 1.0, 1.0, 3.0, False, False)
    exact = solve_auto(problem, tol=1e-9)
    again = polish(problem, exact)
    assert again.gap <= exact.gap
    rough = solve_smo(problem, tol=0.1)
    better = polish(problem, rough)
    assert better.gap < 1e-9 < rough.gap
    assert better.n_iter > rough.n_iter
