"""Dominance sums against brute force over explicit pairs."""

import numpy as np
import pytest
from ranking_reference import hinge

from benchmarks.ranking_pairs import explicit_pairs, pair_objective
from lupi.ranking.pairwise import RankingProblem, plain_pairs, transfer_pairs

CASES = {
    "binary": {"n": 90, "grades": 2},
    "graded": {"n": 120, "grades": 4},
    "all grades differ": {"n": 70, "grades": 10_000},
    "groups": {"n": 150, "grades": 3, "groups": 12},
    "ties in every score": {"n": 100, "grades": 3, "groups": 2, "decimals": 0},
    "large node": {"n": 700, "grades": 2, "decimals": 1},
    "missing rows": {"n": 110, "grades": 3, "groups": 3, "missing": 0.3},
    "missing rows, ties": {"n": 110, "grades": 3, "missing": 0.5, "decimals": 0},
}


def make(n, grades, groups=None, decimals=8, missing=0.0, seed=0):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, 4)), min(decimals, 1) if decimals < 8 else 8)
    y = rng.integers(0, grades, n)
    teacher = np.round(0.3 * (y > np.median(y)) + rng.normal(size=n), decimals)
    teacher[rng.random(n) < missing] = np.nan
    group = None if groups is None else rng.integers(0, groups, n).astype(str)
    return X, y, teacher, group


def pair_sets(y, teacher, group):
    yield plain_pairs(y, group), explicit_pairs(y, group=group)
    for within in (False, True):
        for tau in (0.0, 0.5):
            yield (
                transfer_pairs(y, teacher, tau=tau, within=within, group=group),
                explicit_pairs(y, teacher, tau=tau, within=within, group=group),
            )


@pytest.mark.parametrize("case", CASES)
def test_pair_sets_are_complete(case):
    _, y, teacher, group = make(**CASES[case])
    for pairs, (i, j, margin) in pair_sets(y, teacher, group):
        assert pairs.n_pairs == len(i) > 0
        # At w = 0 every pair with a positive margin is active: degrees and margins are those of the enumeration.
        active = pairs.active(pairs.keys(np.zeros(len(y))))
        wins = np.bincount(pairs.element[pairs.winner], active.degree[pairs.winner], len(y))
        losses = np.bincount(pairs.element[~pairs.winner], active.degree[~pairs.winner], len(y))
        np.testing.assert_array_equal(wins, np.bincount(i, minlength=len(y)))
        np.testing.assert_array_equal(losses, np.bincount(j, minlength=len(y)))
        slope = np.where(pairs.winner, active.degree, -active.degree)
        assert slope @ pairs.offset == pytest.approx(margin.sum(), rel=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_squared_hinge_matches_brute_force(case):
    X, y, teacher, group = make(**CASES[case])
    # Half-integer weights keep the scores' ties exact.
    w = np.array([0.5, -0.5, 1.0, 0.0])
    for pairs, (i, j, margin) in pair_sets(y, teacher, group):
        point = RankingProblem(X, pairs, 0.7, "squared_hinge").at(w)
        assert point.value == pytest.approx(pair_objective(w, X, i, j, margin, 0.7, "squared_hinge"), rel=1e-10)
        D = X[i] - X[j]
        slack = np.maximum(0, margin - D @ w)
        np.testing.assert_allclose(point.gradient, w - 1.4 * D.T @ slack, rtol=1e-9, atol=1e-9)
        alpha = 1.4 * slack
        dual = margin @ alpha - 0.5 * np.sum((D.T @ alpha) ** 2) - np.sum(alpha**2) / 2.8
        assert point.lower_bound == pytest.approx(dual, rel=1e-9, abs=1e-6)
        # Ties leave the generalized Hessian a choice on the kink: compare off it.
        off = w + 1e-3 * np.array([1.0, 2.0, -1.0, 0.7])
        v = np.array([1.0, -2.0, 0.3, 0.1])
        active = margin - D @ off > 0
        expected = v + 1.4 * D[active].T @ (D[active] @ v)
        got = RankingProblem(X, pairs, 0.7, "squared_hinge").at(off).hessian_product(v)
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_hinge_and_its_smoothing_match_brute_force(case):
    X, y, teacher, group = make(**CASES[case])
    w = np.array([0.5, -0.5, 1.0, 0.0])
    for pairs, (i, j, margin) in pair_sets(y, teacher, group):
        problem = RankingProblem(X, pairs, 0.7, "hinge", width=0.25)
        D = X[i] - X[j]
        slack = np.maximum(0, margin - D @ w)
        expected = pair_objective(w, X, i, j, margin, 0.7, "hinge")
        objective, plane, height = hinge(problem, w)
        assert objective == pytest.approx(expected, rel=1e-10)
        # The plane touches the loss at w and stays below it elsewhere.
        assert height - plane @ w == pytest.approx(objective - 0.5 * w @ w, rel=1e-9)
        for other in (np.zeros(4), -w, 3 * w):
            assert height - plane @ other <= hinge(problem, other)[0] - 0.5 * other @ other + 1e-8
        point = problem.at(w)
        alpha = 0.7 * np.minimum(1, slack / 0.25)
        smooth = np.where(slack < 0.25, slack**2 / 0.5, slack - 0.125)
        assert point.objective == pytest.approx(expected, rel=1e-10)
        assert point.value == pytest.approx(0.5 * w @ w + 0.7 * smooth.sum(), rel=1e-9)
        np.testing.assert_allclose(point.gradient, w - D.T @ alpha, rtol=1e-8, atol=1e-8)
        dual = margin @ alpha - 0.5 * np.sum((D.T @ alpha) ** 2)
        assert point.lower_bound == pytest.approx(dual, rel=1e-8, abs=1e-6)


def test_equal_keys_are_no_active_pair():
    """A pair that meets its margin exactly has no slack, whichever role comes first in the sort."""
    y = np.array([0, 1, 0, 1, 1])
    pairs = plain_pairs(y)
    scores = y.astype(float)
    assert not pairs.active(pairs.keys(scores)).degree.any()
    assert pairs.active(pairs.keys(scores * (1 - 1e-9))).degree.sum() == 2 * pairs.n_pairs


def test_only_score_differences_matter():
    """A constant added to all scores of a query, however large, changes nothing."""
    X, y, teacher, group = make(n=200, grades=3, groups=4)
    pairs = transfer_pairs(y, teacher, tau=0.1, within=True, group=group)
    w = np.array([0.3, -0.2, 0.1, 0.5])
    far = np.unique(group, return_inverse=True)[1] * 1e6
    plain = RankingProblem(X, pairs, 1.0, "squared_hinge").at(w).value
    shifted = RankingProblem(np.column_stack([X, far]), pairs, 1.0, "squared_hinge").at(np.append(w, 1.0)).value
    assert shifted - 0.5 == pytest.approx(plain, rel=1e-7)


def test_storage_grows_with_the_logarithm_of_the_grades():
    n = 4096
    assert len(plain_pairs(np.arange(n)).element) == n * 12
    assert len(plain_pairs(np.arange(n) % 2).element) == n


def test_nothing_to_rank():
    pairs = transfer_pairs(np.array([0, 1]), np.array([0.0, 0.05]), tau=0.1, within=True)
    point = RankingProblem(np.eye(2), pairs, 1.0, "squared_hinge").at(np.zeros(2))
    assert pairs.n_pairs == 0
    assert point.value == 0
    assert not point.gradient.any()
