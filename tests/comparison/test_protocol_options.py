"""Options of comparisons: balanced splits, a validation set, rankers searched at once, the rank reference."""

import numpy as np
import pytest

from lupi import RankSVM, SVMPlus
from lupi.comparison import compare
from lupi.comparison.methods import METHODS, choose_methods
from lupi.comparison.plan import Plan, inner_folds, split_rows
from lupi.comparison.problem import Problem
from lupi.comparison.units import Unit, fit_best, run_unit
from lupi.ranking.ranking_metrics import precision_of_ranking


def unbalanced(n_rare=20, n_common=70, seed=0, shift=0.8):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], [n_common, n_rare])
    X = rng.standard_normal((len(y), 3)) + shift * y[:, None]
    return X, y, X[:, :2] + 0.3 * rng.standard_normal((len(y), 2))


def test_balanced_splits_draw_anew_from_both_classes():
    _, y, _ = unbalanced()
    protocol = Plan(train_sizes=(20,), balanced=True)
    data = Problem.of(y[:, None], y, y[:, None])
    splits = [split_rows(protocol, k, data) for k in range(6)]
    for trains, test in splits:
        assert np.bincount(y[trains[20]]).tolist() == [10, 10]
        assert np.bincount(y[test]).tolist() == [10, 10]
        assert not set(trains[20]) & set(test)
    used = np.unique(np.concatenate([np.concatenate([trains[20], test]) for trains, test in splits]))
    assert np.sum(y[used] == 0) > 40  # one draw has 20 of the common class
    trains, test = split_rows(Plan(train_sizes=(20,)), 0, data)
    assert np.bincount(y[trains[20]]).tolist() == [16, 4]  # otherwise classes keep their shares


def test_balanced_needs_classes_and_enough_rows():
    X, y, Z = unbalanced()
    with pytest.raises(ValueError, match="must leave 8 rows or more for training and 4 for the test of 40"):
        compare(X, y, Z, balanced=True, train_size=39)
    with pytest.raises(ValueError, match="no `groups` or `test_only`"):
        compare(X, y, Z, balanced=True, groups=y)
    with pytest.raises(ValueError, match="needs classes"):
        compare(X, y + 0.5, Z, balanced=True, metric="r2")


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
    data = Problem.of(X, y, Z, validation=(X_valid, y_valid))
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


def test_validation_is_checked():
    X, y, Z = unbalanced()
    with pytest.raises(ValueError, match="`validation` has 2 columns, but `X` has 3"):
        compare(X, y, Z, validation=(X[:, :2], y))
    with pytest.raises(ValueError, match="labels that `y` does not have: 7"):
        compare(X, y, Z, validation=(X, np.where(y == 1, 7, 0)))
    problem, plan = Problem.of(X, y, Z, validation=(X, y)), Plan(train_sizes=(20,), methods=METHODS)
    result = run_unit(Unit(20, 0, "reference"), problem, plan)
    assert "validation rows have no privileged features" in result["error"]


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
