"""Options of comparisons: splits of the user, a validation set, rankers searched at once, the rank reference."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.model_selection import StratifiedKFold

from lupi import RankSVM, SVMPlus
from lupi.comparison import compare
from lupi.comparison.methods import METHODS, choose_methods
from lupi.comparison.problem import Problem
from lupi.comparison.units import Plan, Unit, fit_best, given_splits, inner_folds, run_unit, split_rows
from lupi.ranking.ranking_metrics import precision_of_ranking


def unbalanced(n_rare=20, n_common=70, seed=0, shift=0.8):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], [n_common, n_rare])
    X = rng.standard_normal((len(y), 3)) + shift * y[:, None]
    return X, y, X[:, :2] + 0.3 * rng.standard_normal((len(y), 2))


SVMS = {"methods": ["svm+"], "baselines": [], "grids": {"svm": {"C": [1.0]}, "svm+": {"C": [1.0], "lam": [1.0]}}}


def test_splits_of_the_user():
    X, y, Z = unbalanced()
    y = y.astype(float)
    y[:5] = np.nan  # positions are among the labeled rows
    cv = StratifiedKFold(3)
    labeled = np.arange(5, len(y))
    problem = Problem.of(X, y, Z)
    splits = given_splits(cv, problem)
    for split, (train, test) in zip(splits, cv.split(X[labeled], y[labeled])):
        assert_array_equal(split[0], labeled[train])
        assert_array_equal(split[1], labeled[test])
    plan = Plan(train_sizes=(20, 40), splits=splits, n_splits=3)
    for split, (train, test) in enumerate(splits):
        trains, tested = split_rows(plan, split, problem)
        assert_array_equal(tested, test)
        assert set(trains[20]) < set(trains[40]) < set(train)
    result = compare(X, y, Z, cv=[(range(40, 80), range(30))] * 2, train_size=40, permutations=0, **SVMS)
    assert (result.summary["protocol"]["n_splits"], result.summary["sizes"][0]["n_test"]) == (2, 30)


def test_wrong_splits_are_named():
    X, y, Z = unbalanced()
    with pytest.raises(ValueError, match="must leave 8 rows or more for training and 4 for the test of 44"):
        compare(X, y, Z, cv=[(range(40), range(40, 80))], train_size=41)
    with pytest.raises(ValueError, match=r"must give pairs \(train, test\)"):
        compare(X, y, Z, cv=[(range(40),)])
    with pytest.raises(ValueError, match="must give pairs"):
        compare(X, y, Z, cv=[])


def test_at_most_so_many_test_rows():
    X, y, Z = unbalanced()
    grids = {"l2svm": {"C": [1.0]}, "svm2+": {"C": [1.0]}}
    result = compare(X, y, Z, methods=["svm2+"], baselines=[], grids=grids, n_splits=2, train_size=20, max_test=12)
    assert result.summary["sizes"][0]["n_test"] == 12


def test_parameters_are_chosen_on_the_validation_rows():
    X, y, Z = unbalanced(60, 60, 1, shift=1.5)
    X_valid, y_valid, _ = unbalanced(40, 40, 2, shift=1.5)
    grid = {"C": [0.1, 0.3, 1.0, 3.0, 10.0], "lam": [0.1, 1.0, 10.0]}
    settings = {"metric": "accuracy", "train_sizes": (60,), "kernel": "linear", "standardize": False, "n_splits": 2}
    protocol = Plan(**settings, grids={"svm+": grid})
    data = Problem.of(X, y, Z, validation=Problem.of(X_valid, y_valid, X_valid))
    model, best, score = fit_best(METHODS["svm+"], protocol, 0, data)
    found = {}
    for C in grid["C"]:
        for lam in grid["lam"]:
            alone = SVMPlus(C, lam, kernel="linear", privileged_kernel="linear").fit(X, y, privileged=Z)
            found[C, lam] = alone.score(X_valid, y_valid)
    assert score == pytest.approx(max(found.values()))
    assert found[best["C"], best["lam"]] == pytest.approx(max(found.values()))
    # All training rows are used for each candidate, none is set apart.
    np.testing.assert_allclose(
        model.decision_function(X_valid),
        SVMPlus(**best).fit(X, y, privileged=Z).decision_function(X_valid),
    )


def test_validation_rows_of_a_split_select_the_parameters():
    X, y, Z = unbalanced(60, 60, 1, shift=1.5)
    train, validation, test = np.arange(0, 120, 3), np.arange(1, 120, 3), np.arange(2, 120, 3)
    settings = {"metric": "accuracy", "train_sizes": (40,), "n_splits": 2, "methods": METHODS}
    plan, problem = Plan(**settings, splits=((train, test, validation),)), Problem.of(X, y, Z)
    result = run_unit(Unit(40, 0, "svm+"), problem, plan)
    model, best, score = fit_best(
        METHODS["svm+"], plan, 0, replace(problem.take(train), validation=problem.take(validation))
    )
    assert (result["params"], result["inner_score"]) == (best, score)
    assert result["score"] == np.mean(model.predict(X[test]) == y[test])


def test_a_ranking_svm_searched_at_once_chooses_as_one_by_one():
    X, y, Z = unbalanced(30, 30)
    protocol = Plan(metric="ap", train_sizes=(60,), kernel="linear", standardize=False)
    _, best, score = fit_best(METHODS["ranksvm"], protocol, 0, Problem.of(X, y, Z))
    assert set(best) == {"C", "kernel"}
    folds = inner_folds(protocol, 0, Problem.of(X, y, Z))
    grid = [0.01 * C for C in METHODS["ranksvm"].grid["C"]]
    scores = [
        np.mean(
            [
                precision_of_ranking(y[test] == 1, RankSVM(C=C).fit(X[train], y[train]).decision_function(X[test]))
                for train, test in folds
            ]
        )
        for C in grid
    ]
    assert score == pytest.approx(max(scores), abs=1e-3)
    assert scores[grid.index(best["C"])] == pytest.approx(max(scores), abs=1e-3)


def test_the_rank_reference_takes_part_by_name_only():
    assert "rankreference" not in choose_methods(None, None, "ap", 2)
    assert list(choose_methods(["rankreference"], [], "ap", 2)) == ["rankreference"]
    X, y, _ = unbalanced(30, 30)
    # Privileged features that tell the class: a ranker that sees them at test time, too, makes no mistake.
    problem = Problem.of(X, y, 3.0 * y[:, None] + X[:, :1] / 9)
    result = run_unit(Unit(30, 0, "rankreference"), problem, Plan(train_sizes=(30,), methods=METHODS))
    assert result["score"] == pytest.approx(1.0)
