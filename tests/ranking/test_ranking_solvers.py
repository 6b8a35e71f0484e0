"""Solutions against explicit pairs: an interior-point QP, LIBLINEAR's reparameterised form, and one another."""

from functools import cache

import numpy as np
import pytest
from ranking_reference import solve_ranking_bundle

from benchmarks.ranking_pairs import explicit_pairs, pair_objective, solve_liblinear, solve_qp
from lupi.ranking.pairwise import RankingProblem, plain_pairs, transfer_pairs
from lupi.ranking.solvers import PairDual, solve_ranking_auto, solve_ranking_coordinate, solve_ranking_newton

LOSSES = ("squared_hinge", "hinge")


@cache
def data(n=70, grades=2, groups=None, ties=False, missing=0.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    X = np.round(X, 0) if ties else X
    y = np.digitize(X[:, 0] + rng.normal(size=n), np.linspace(-1, 1, grades + 1)[1:-1])
    teacher = y + 0.5 * X[:, 1] + rng.normal(size=n)
    teacher = np.round(teacher, 1 if ties else 9)
    teacher[rng.random(n) < missing] = np.nan
    return X, y, teacher, None if groups is None else rng.integers(0, groups, n)


SETTINGS = {
    "binary": {},
    "graded": {"grades": 4},
    "groups": {"n": 120, "grades": 3, "groups": 5},
    "ties": {"ties": True, "grades": 3},
    "missing": {"missing": 0.3, "n": 60},
}


def problems(setting, C, loss):
    X, y, teacher, group = data(**SETTINGS[setting])
    yield RankingProblem(X, plain_pairs(y, group), C, loss), explicit_pairs(y, group=group)
    for within in (False, True):
        yield (
            RankingProblem(X, transfer_pairs(y, teacher, tau=0.1, within=within, group=group), C, loss),
            explicit_pairs(y, teacher, tau=0.1, within=within, group=group),
        )


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("loss", LOSSES)
def test_matches_a_quadratic_program_over_all_pairs(setting, loss):
    C = 0.02
    for problem, (i, j, margin) in problems(setting, C, loss):
        reference = solve_qp(problem.X, i, j, margin, C, loss)
        optimum = pair_objective(reference, problem.X, i, j, margin, C, loss)
        solution = solve_ranking_newton(problem, tol=1e-7)
        assert solution.gap <= 1e-7
        assert solution.objective == pytest.approx(optimum, rel=2e-7)
        assert solution.lower_bound <= optimum * (1 + 1e-9)
        assert pair_objective(solution.point, problem.X, i, j, margin, C, loss) == pytest.approx(
            solution.objective, rel=1e-9
        )
        np.testing.assert_allclose(solution.point, reference, atol=3e-4 * np.linalg.norm(reference))


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("C", [1e-3, 1.0])
def test_bundle_and_newton_agree(setting, C):
    for problem, _ in problems(setting, C, "hinge"):
        newton = solve_ranking_newton(problem, tol=1e-5)
        bundle = solve_ranking_bundle(problem, tol=1e-5)
        assert newton.gap <= 1e-5
        assert bundle.gap <= 1e-5
        assert bundle.objective == pytest.approx(newton.objective, rel=1e-5)
        # Each certificate must also hold for the other's solution.
        assert max(newton.lower_bound, bundle.lower_bound) <= min(newton.objective, bundle.objective)


def hinge_dual(problem, solution):
    """The dual's value of the pairs' variables, pair by pair."""
    i, j, margin = problem.pairs.written_down
    alpha = solution.certificate.alpha
    assert alpha.min() >= 0
    assert alpha.max() <= problem.C
    w = alpha @ (problem.X[i] - problem.X[j])
    return alpha @ margin - 0.5 * w @ w


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("wide", [False, True])
def test_coordinate_descent_matches_the_quadratic_program(setting, wide):
    for narrow, (i, j, margin) in problems(setting, 0.02, "hinge"):
        X = np.random.default_rng(5).normal(size=(narrow.X.shape[0], 150)) if wide else narrow.X
        problem = RankingProblem(X, narrow.pairs, 0.02, "hinge")
        reference = solve_qp(X, i, j, margin, 0.02, "hinge")
        optimum = pair_objective(reference, X, i, j, margin, 0.02, "hinge")
        solution = solve_ranking_coordinate(problem, tol=1e-6, max_iter=20_000)
        assert solution.converged
        assert solution.gap <= 1e-6
        assert solution.objective == pytest.approx(optimum, rel=2e-6)
        assert solution.lower_bound <= optimum * (1 + 1e-9)
        assert solution.lower_bound == pytest.approx(hinge_dual(problem, solution), rel=1e-9)
        assert pair_objective(solution.point, X, i, j, margin, 0.02, "hinge") == pytest.approx(solution.objective)


def test_written_pairs_are_the_pairs():
    for setting in SETTINGS:
        for problem, (i, j, margin) in problems(setting, 1.0, "hinge"):
            winner, loser, wanted = problem.pairs.written_down
            expected = sorted(zip(i.tolist(), j.tolist(), margin.tolist()))
            assert sorted(zip(winner.tolist(), loser.tolist(), wanted.tolist())) == expected


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("loss", LOSSES)
def test_written_hessian_is_that_of_the_products(setting, loss):
    for plain, _ in problems(setting, 0.02, loss):
        problem = RankingProblem(plain.X, plain.pairs, 0.02, loss, width=0.5)
        point = problem.at(np.linspace(-1, 1, plain.X.shape[1]))
        columns = [point.hessian_product(column) for column in np.eye(plain.X.shape[1])]
        np.testing.assert_allclose(point.hessian(), columns, rtol=1e-9, atol=1e-9)


def test_a_path_goes_on_from_the_dual_variables():
    """Where no pair is at its bound, a larger C has the same solution: nothing is left to do."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 90)), np.arange(40) % 2
    pairs = plain_pairs(y)
    first = solve_ranking_coordinate(RankingProblem(X, pairs, 10.0, "hinge"), tol=1e-6, max_iter=2000)
    assert first.certificate.alpha.max() < 10
    second = solve_ranking_coordinate(RankingProblem(X, pairs, 1000.0, "hinge"), tol=2e-6, start=first)
    assert second.n_iter == 0
    assert second.gap <= 2e-6
    # A smaller C takes what it may of them; other pairs nothing.
    small = RankingProblem(X, pairs, 1e-3, "hinge")
    third = solve_ranking_coordinate(small, tol=1e-6, start=first)
    assert third.certificate.alpha.max() <= 1e-3
    assert third.objective == pytest.approx(solve_ranking_newton(small, tol=1e-7).objective, rel=2e-6)
    others = RankingProblem(X, plain_pairs(1 - y), 1.0, "hinge")
    assert solve_ranking_coordinate(others, tol=1e-6, start=first, max_iter=2000).gap <= 1e-6


def test_what_coordinate_descent_leaves_newton_finishes(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 40)), np.arange(60) % 2
    problem = RankingProblem(X, plain_pairs(y), 10.0, "hinge")
    alone = solve_ranking_newton(problem, tol=1e-7)
    monkeypatch.setattr("lupi.ranking.solvers.PASSES", 3)
    both = solve_ranking_auto(problem, tol=1e-7, max_iter=300)
    assert both.converged
    assert 3 < both.n_iter <= 300
    assert both.gap <= 1e-7
    assert both.objective == pytest.approx(alone.objective, rel=2e-7)
    assert isinstance(both.certificate, PairDual)
    cut = solve_ranking_auto(problem, tol=1e-12, max_iter=5)
    assert cut.n_iter == 5
    assert not cut.converged
    assert cut.lower_bound <= alone.objective <= cut.objective


def test_coordinate_descent_says_what_it_needs(monkeypatch):
    X, y, _, _ = data()
    with pytest.raises(ValueError, match=r"needs loss='hinge'.*Use solver='newton'"):
        solve_ranking_coordinate(RankingProblem(X, plain_pairs(y), 1.0, "squared_hinge"))
    monkeypatch.setattr("lupi.ranking.solvers.MOST_PAIRS", 10)
    with pytest.raises(ValueError, match=r"at most 10 pairs of 2000 examples.*Use solver='newton'"):
        solve_ranking_coordinate(RankingProblem(X, plain_pairs(y), 1.0, "hinge"))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("within", [False, True])
def test_reparameterised_form_is_the_same_problem(loss, within):
    """Eq. (10)-(11): examples (x_i - x_j) / rho_ij with weights C rho_ij, solved by LIBLINEAR."""
    X, y, teacher, _ = data(n=60)
    C = 0.01
    i, j, margin = explicit_pairs(y, teacher, tau=0.1, within=within)
    w = solve_liblinear(X, i, j, margin, C, loss, tol=1e-6)
    problem = RankingProblem(X, transfer_pairs(y, teacher, tau=0.1, within=within), C, loss)
    solution = solve_ranking_newton(problem, tol=1e-8)
    assert solution.objective == pytest.approx(pair_objective(w, X, i, j, margin, C, loss), rel=1e-5)
    np.testing.assert_allclose(solution.point, w, atol=2e-3 * np.linalg.norm(w))


@pytest.mark.parametrize("loss", LOSSES)
def test_equal_margins_are_the_ranking_svm(loss):
    """rho_ij = 1 for all pairs, and 0 inside a grade."""
    X, y, _, _ = data(n=80, grades=2)
    plain = solve_ranking_newton(RankingProblem(X, plain_pairs(y), 0.01, loss), tol=1e-9)
    for within in (False, True):
        pairs = transfer_pairs(y, y.astype(float), tau=0.1, within=within)
        transfer = solve_ranking_newton(RankingProblem(X, pairs, 0.01, loss), tol=1e-9)
        assert transfer.objective == pytest.approx(plain.objective, rel=1e-8)
        np.testing.assert_allclose(transfer.point, plain.point, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_scaling_the_margins_scales_the_weights(loss):
    X, y, teacher, _ = data()
    C = 0.05
    once = transfer_pairs(y, teacher, tau=0.1, within=True)
    twice = transfer_pairs(y, 2 * teacher, tau=0.2, within=True)
    # With margins 2 m the slacks double: the hinge needs 2 C to weigh the same against |2 w|^2.
    factor = 1.0 if loss == "squared_hinge" else 2.0
    a = solve_ranking_newton(RankingProblem(X, once, C, loss), tol=1e-9)
    b = solve_ranking_newton(RankingProblem(X, twice, C * factor, loss), tol=1e-9)
    np.testing.assert_allclose(b.point, 2 * a.point, rtol=1e-3, atol=1e-4)
    assert b.objective == pytest.approx(4 * a.objective, rel=1e-7)


@pytest.mark.parametrize("loss", LOSSES)
def test_ill_conditioned_and_separable(loss):
    """Feature scales over four decades, and a hard margin: certified nevertheless."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 40)) * np.logspace(-2, 2, 40)
    separable = rng.normal(size=(60, 80))
    for features, C in ((X, 1.0), (separable, 1e3)):
        y = rng.integers(0, 2, len(features))
        solution = solve_ranking_newton(RankingProblem(features, plain_pairs(y), C, loss), tol=1e-5)
        assert solution.gap <= 1e-5


def test_warm_start_and_iteration_limit():
    X, y, teacher, _ = data(n=200, grades=3)
    problem = RankingProblem(X, transfer_pairs(y, teacher, tau=0.1, within=True), 1.0, "squared_hinge")
    cold = solve_ranking_newton(problem, tol=1e-8)
    warm = solve_ranking_newton(problem, tol=1e-8, start=cold)
    assert cold.n_iter > 0
    assert warm.n_iter == 0
    cut = solve_ranking_newton(problem, tol=1e-12, max_iter=1)
    assert cut.n_iter == 1
    # Certified: the true optimum lies within the gap that was reported.
    assert cut.gap > 1e-12
    assert cut.lower_bound <= cold.objective <= cut.objective


def test_permuting_examples_permutes_nothing_else():
    X, y, teacher, group = data(**SETTINGS["groups"])
    order = np.random.default_rng(3).permutation(len(y))
    a = RankingProblem(X, transfer_pairs(y, teacher, tau=0.1, within=True, group=group), 0.1, "squared_hinge")
    shuffled = transfer_pairs(y[order], teacher[order], tau=0.1, within=True, group=group[order])
    b = RankingProblem(X[order], shuffled, 0.1, "squared_hinge")
    np.testing.assert_allclose(
        solve_ranking_newton(a, tol=1e-10).point, solve_ranking_newton(b, tol=1e-10).point, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_nothing_to_learn_from_equal_features(loss):
    """The gradient is exactly 0 at the start; no tolerance may ask for a step."""
    y = np.array([0, 1, 0, 1, 0, 1])
    solution = solve_ranking_newton(RankingProblem(np.ones((6, 2)), plain_pairs(y), 1.0, loss), tol=1e-30)
    assert not solution.point.any()
    assert solution.objective == 9.0
    assert solution.gap < 1e-13
