"""The joint grid search against separate fits."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, StratifiedKFold

import lupi.ranking.rank_transfer as module
from lupi import RankSVM, RankTransfer, RankTransferCV
from lupi.ranking.ranker import SOLVERS
from lupi.ranking.ranking_metrics import roc_auc

CS, CS_PRIVILEGED = [1e-3, 1.0, 1e-1], [1e-2, 10.0]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    quality = rng.normal(size=150)
    X = quality[:, None] * rng.normal(size=200) * 0.3 + rng.normal(size=(150, 200))
    Z = quality[:, None] + 0.3 * rng.normal(size=(150, 3))
    y = (quality + 0.4 * rng.normal(size=150) > 0).astype(int)
    return X, y, Z


@pytest.mark.parametrize(("loss", "tol"), [("squared_hinge", 1e-7), ("hinge", 1e-5)])
def test_same_scores_as_a_plain_grid_search(data, loss, tol):
    X, y, Z = data
    cv = StratifiedKFold(3)
    joint = RankTransferCV(CS, CS_PRIVILEGED, cv=cv, loss=loss, tol=tol).fit(X, y, privileged=Z)
    grid = {"C_privileged": CS_PRIVILEGED, "C": CS}
    plain = GridSearchCV(RankTransfer(loss=loss, tol=tol), grid, cv=cv).fit(X, y, privileged=Z)
    # The plain search may list the same points in another order.
    order = [plain.cv_results_["params"].index(params) for params in joint.cv_results_["params"]]
    for key in ("split0_test_score", "split2_test_score", "mean_test_score", "std_test_score"):
        np.testing.assert_allclose(joint.cv_results_[key], plain.cv_results_[key][order], atol=2e-3)
    assert joint.best_score_ == pytest.approx(plain.best_score_, abs=2e-3)
    assert joint.cv_results_["rank_test_score"].min() == 1
    refit = RankTransfer(**joint.best_params_, loss=loss, tol=tol).fit(X, y, privileged=Z)
    np.testing.assert_allclose(joint.decision_function(X), refit.decision_function(X), rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(joint.predict(X), joint.best_estimator_.predict(X))
    assert joint.score(X, y) == joint.best_estimator_.score(X, y)
    assert joint.n_splits_ == 3
    np.testing.assert_array_equal(joint.coef_, joint.best_estimator_.coef_)


def test_each_teacher_is_trained_once_per_fold(data, monkeypatch):
    X, y, Z = data
    sizes, starts, path = [], [], []

    solver = SOLVERS["auto"]

    def spy(problem, *, start, **options):
        sizes.append(problem.X.shape[1])
        starts.append(start is not None)
        path.append(problem.C)
        return solver(problem, start=start, **options)

    monkeypatch.setitem(SOLVERS, "auto", spy)
    RankTransferCV(CS, CS_PRIVILEGED, cv=3).fit(X, y, privileged=Z)
    sizes, starts, path = sizes[:-2], starts[:-2], path[:-2]  # teacher and student of the refit
    teachers = sum(size == Z.shape[1] for size in sizes)
    assert teachers == 3 * len(CS_PRIVILEGED)
    assert len(sizes) - teachers == 3 * len(CS) * len(CS_PRIVILEGED)
    # Paths go up in C, whatever the order of the grid: the solution for a small C is the better start.
    students = [C for C, size in zip(path, sizes) if size != Z.shape[1]]
    assert students == sorted(CS) * (3 * len(CS_PRIVILEGED))
    # All but the first of each path start at their neighbor's solution.
    assert sum(starts) == 3 * (len(CS_PRIVILEGED) - 1 + len(CS_PRIVILEGED) * (len(CS) - 1))


def test_queries_stay_together_and_missing_rows_are_known(data):
    X, y, Z = data
    group = np.arange(150) // 10
    Z = Z.copy()
    Z[::4] = np.nan
    joint = RankTransferCV(CS, CS_PRIVILEGED, cv=3, scoring="roc_auc").fit(X, y, privileged=Z, group=group)
    expected = []
    for train, test in GroupKFold(3).split(X, y, group):
        model = RankTransfer(1e-1, 10.0).fit(X[train], y[train], privileged=Z[train], group=group[train])
        expected.append(roc_auc(y[test], model.predict(X[test]), group[test]))
    place = joint.cv_results_["params"].index({"C": 1e-1, "C_privileged": 10.0})
    assert joint.cv_results_["mean_test_score"][place] == pytest.approx(np.mean(expected), abs=2e-3)


def test_without_privileged_only_c_is_searched(data):
    X, y, _ = data
    joint = RankTransferCV(CS, CS_PRIVILEGED, cv=KFold(3)).fit(X, y)
    assert len(joint.cv_results_["params"]) == len(CS)
    best = GridSearchCV(RankSVM(), {"C": CS}, cv=KFold(3)).fit(X, y)
    assert joint.best_params_["C"] == best.best_params_["C"]
    assert joint.best_score_ == pytest.approx(best.best_score_, abs=2e-3)


def test_callable_scoring_and_kernels(data):
    X, y, Z = data
    calls = []

    def scoring(grades, scores, group):
        calls.append(len(grades))
        return -float(np.abs(scores).max())

    joint = RankTransferCV(CS, [1.0], cv=2, scoring=scoring, kernel="rbf", privileged_kernel="rbf")
    joint.fit(X, y, privileged=Z)
    assert len(calls) == 2 * len(CS)
    assert joint.best_params_["C"] == min(CS)
    assert joint.decision_function(X).shape == (150,)


def test_precomputed_kernels_are_split_by_rows_and_columns(data):
    X, y, Z = data
    settings = {"cv": 3, "tol": 1e-7}
    linear = RankTransferCV(CS, CS_PRIVILEGED, **settings).fit(X, y, privileged=Z)
    given = RankTransferCV(CS, CS_PRIVILEGED, kernel="precomputed", privileged_kernel="precomputed", **settings)
    given.fit(X @ X.T, y, privileged=Z @ Z.T)
    for key in ("mean_test_score", "split1_test_score"):
        np.testing.assert_allclose(given.cv_results_[key], linear.cv_results_[key], atol=2e-3)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_path_is_the_fits_one_by_one(data, kernel):
    X, y, Z = data
    Z = np.where(np.arange(150)[:, None] % 5 == 0, np.nan, Z)
    candidates = [{"C": 1.0, "C_privileged": 0.1}, {"C": 0.01, "C_privileged": 1.0}, {"C": 0.1, "C_privileged": 0.1}]
    candidates += [{"C": -1.0, "C_privileged": 1.0}, {"C": 0.1, "pairs": "across"}]
    ranker = RankTransfer(tol=1e-8, kernel=kernel)
    models = ranker.fit_path(candidates, X, y, privileged=Z)
    assert isinstance(models[3], ValueError)
    assert "The 'C' parameter of RankTransfer must be" in str(models[3])
    assert models[0].teacher_ is models[2].teacher_
    for params, model in zip(candidates, models):
        if params["C"] < 0:
            continue
        alone = RankTransfer(tol=1e-8, kernel=kernel, **params).fit(X, y, privileged=Z)
        assert model.get_params() == alone.get_params()
        assert set(vars(model)) == set(vars(alone))
        assert model.objective_ == pytest.approx(alone.objective_, rel=1e-6)
        np.testing.assert_allclose(model.decision_function(X), alone.decision_function(X), rtol=1e-3, atol=1e-4)
    plain = RankSVM(kernel=kernel, tol=1e-8).fit_path([{"C": 1.0}, {"C": 0.1}, {"C": "many"}], X, y)
    assert isinstance(plain[2], ValueError)
    for model in plain[:2]:
        alone = RankSVM(model.C, kernel=kernel, tol=1e-8).fit(X, y)
        assert set(vars(model)) == set(vars(alone))
        assert model.objective_ == pytest.approx(alone.objective_, rel=1e-6)


def test_a_path_without_solution_says_why(data):
    X, y, Z = data
    few = np.where(np.arange(150)[:, None] < 2, Z, np.nan)
    same = y.copy()
    same[:2] = 1
    models = RankTransfer().fit_path([{"C": 1.0}, {"C": 0.1}], X, same, privileged=few)
    assert all("no teacher can be trained on the 2 examples" in str(model) for model in models)
    assert all(isinstance(model, ValueError) for model in models)
    assert "only one class" in str(RankSVM().fit_path([{"C": 1.0}], X, np.ones(150))[0])


def test_paper_grid_is_the_default():
    assert np.allclose(module.PAPER_GRID, np.logspace(-3, 3, 7))
    assert RankTransferCV().Cs is RankTransferCV().Cs_privileged is module.PAPER_GRID
