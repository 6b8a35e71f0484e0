"""RankSVM and RankTransfer as scikit-learn estimators."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.fixes import parse_version

from benchmarks.ranking_pairs import explicit_pairs, pair_objective
from lupi import RankSVM, RankTransfer, RankTransferCV
from lupi.datasets import make_privileged
from lupi.ranking.ranking_metrics import RANKING_METRICS, average_precision, ndcg, roc_auc


@parametrize_with_checks(
    [
        RankSVM(),
        RankSVM(kernel="rbf"),
        RankTransfer(loss="hinge"),
        RankTransferCV(Cs=[0.1, 1.0], Cs_privileged=[1.0], cv=2),
    ]
)
def test_sklearn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    quality = rng.normal(size=240)
    X = quality[:, None] * np.array([1.0, 0.5, 0.0, 0.3]) + rng.normal(size=(240, 4))
    privileged = quality[:, None] + 0.3 * rng.normal(size=(240, 3))
    y = np.digitize(quality + 0.4 * rng.normal(size=240), [-0.5, 0.7])
    return X, y, privileged, np.repeat(np.arange(12), 20)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
@pytest.mark.parametrize("pairs", ["all", "across"])
@pytest.mark.parametrize("grouped", [False, True])
def test_algorithm_1(data, loss, pairs, grouped):
    """Teacher on its own training data, its margins for the student; the objective is that of the explicit pairs."""
    X, y, Z, group = data
    group = group if grouped else None
    model = RankTransfer(0.01, 0.1, pairs=pairs, loss=loss, tol=1e-6).fit(X, y, privileged=Z, group=group)
    teacher = RankSVM(0.1, loss, tol=1e-6).fit(Z, y, group=group)
    np.testing.assert_allclose(model.teacher_.coef_, teacher.coef_)
    np.testing.assert_allclose(model.margins_, teacher.decision_function(Z))
    i, j, margin = explicit_pairs(y, model.margins_, tau=0.1, within=pairs == "all", group=group)
    assert model.n_pairs_ == len(i)
    assert model.objective_ == pytest.approx(pair_objective(model.coef_, X, i, j, margin, 0.01, loss), rel=1e-9)
    assert 0 <= model.dual_gap_ <= 1e-6


def test_margin_threshold_is_strict(data):
    X, y, _, _ = data
    Z = y[:, None].astype(float)
    loose = RankTransfer(margin_threshold=0.0, C_privileged=1e-4).fit(X, y, privileged=Z)
    # Three grades give teacher scores 0, a, 2a: a threshold of exactly a keeps the pairs that are two grades apart.
    a = np.diff(np.unique(loose.margins_)).max()
    tight = RankTransfer(margin_threshold=a, C_privileged=1e-4).fit(X, y, privileged=Z)
    counts = np.bincount(y)
    assert loose.n_pairs_ == counts[0] * counts[1] + counts[0] * counts[2] + counts[1] * counts[2]
    assert tight.n_pairs_ == counts[0] * counts[2]


def test_without_privileged_it_is_the_ranking_svm(data):
    X, y, Z, group = data
    plain = RankSVM(0.3).fit(X, y, group=group)
    nothing = np.full_like(Z, np.nan)
    for model in (RankTransfer(0.3).fit(X, y, group=group), RankTransfer(0.3).fit(X, y, nothing, group)):
        np.testing.assert_array_equal(model.coef_, plain.coef_)
        assert model.teacher_ is None


def test_missing_rows_fall_back_to_the_plain_margin(data):
    X, y, Z, group = data
    Z = Z.copy()
    missing = np.arange(len(y)) % 3 == 0
    Z[missing] = np.nan
    model = RankTransfer(0.01, tol=1e-8, pairs="all").fit(X, y, privileged=Z, group=group)
    teacher = RankSVM(tol=1e-8).fit(Z[~missing], y[~missing], group=group[~missing])
    np.testing.assert_allclose(model.teacher_.coef_, teacher.coef_)
    assert np.isnan(model.margins_[missing]).all()
    i, j, margin = explicit_pairs(y, model.margins_, within=True, group=group)
    lacking = missing[i] | missing[j]
    assert (margin[lacking] == 1).all()
    assert (y[i] > y[j])[lacking].all()
    assert model.n_pairs_ == len(i)
    assert model.objective_ == pytest.approx(pair_objective(model.coef_, X, i, j, margin, 0.01, "squared_hinge"))


@pytest.mark.parametrize("estimator", [RankSVM(0.1), RankTransfer(0.1, 0.1), RankSVM(0.1, kernel="rbf")])
def test_sparse_dense_and_frames_agree(data, estimator):
    X, y, Z, group = data
    X = np.round(X, 1)
    keywords = {"group": group} | ({"privileged": Z} if isinstance(estimator, RankTransfer) else {})
    dense = clone(estimator).fit(X, y, **keywords)
    names = list("abcd")
    for other in (sparse.csr_matrix(X), sparse.csc_array(X), pd.DataFrame(X, columns=names), pl.DataFrame(X, names)):
        model = clone(estimator).fit(other, y, **keywords)
        np.testing.assert_allclose(model.predict(other), dense.decision_function(X), rtol=1e-5, atol=1e-7)
        if not sparse.issparse(other):
            assert list(model.feature_names_in_) == names


def test_privileged_may_be_sparse_or_a_frame(data):
    X, y, Z, _ = data
    dense = RankTransfer(0.1).fit(X, y, privileged=Z)
    for other in (sparse.csr_matrix(Z), pd.DataFrame(Z), pl.DataFrame(Z)):
        np.testing.assert_allclose(RankTransfer(0.1).fit(X, y, privileged=other).coef_, dense.coef_, rtol=1e-6)


def test_more_features_than_examples_is_exact():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 300)), rng.integers(0, 3, 40)
    model = RankSVM(0.05, tol=1e-9).fit(X, y)
    i, j, margin = explicit_pairs(y)
    assert model.coef_.shape == (300,)
    slack = np.maximum(0, margin - (X[i] - X[j]) @ model.coef_)
    np.testing.assert_allclose(model.coef_, 0.1 * (X[i] - X[j]).T @ slack, atol=1e-4)
    same = RankSVM(0.05, tol=1e-9).fit(sparse.csr_matrix(X), y)
    np.testing.assert_allclose(same.coef_, model.coef_, atol=1e-6)


def test_kernel_expansion_is_the_linear_ranker_in_feature_space(data):
    X, y, _, _ = data
    kernel = RankSVM(0.01, kernel="poly", degree=2, gamma=1.0, coef0=1.0, tol=1e-8).fit(X, y)
    # (x.z + 1)^2 has the features 1, sqrt(2) x_i, x_i^2, sqrt(2) x_i x_j.
    phi = PolynomialFeatures(2).fit(X)
    scale = np.where((phi.powers_.max(axis=1) == 2) | (phi.powers_.sum(axis=1) == 0), 1, np.sqrt(2))
    linear = RankSVM(0.01, tol=1e-8).fit(phi.transform(X) * scale, y)
    assert kernel.objective_ == pytest.approx(linear.objective_, rel=1e-6)
    expected = linear.decision_function(phi.transform(X) * scale)
    np.testing.assert_allclose(np.diff(kernel.decision_function(X)), np.diff(expected), rtol=1e-3, atol=1e-4)


def test_nystroem_with_all_components_is_exact(data):
    X, y, _, _ = data
    exact = RankSVM(0.01, kernel="rbf", gamma=0.5, tol=1e-8).fit(X, y)
    full = RankSVM(0.01, kernel="rbf", gamma=0.5, n_components=240, random_state=0, tol=1e-8).fit(X, y)
    few = RankSVM(0.01, kernel="rbf", gamma=0.5, n_components=20, random_state=0, tol=1e-8).fit(X, y)
    assert full.objective_ == pytest.approx(exact.objective_, rel=1e-4)
    assert few.objective_ > exact.objective_
    assert few.dual_coef_.shape == (20,)
    assert few.decision_function(X).shape == (240,)


def test_refit_with_another_kernel_forgets_the_first(data):
    X, y, _, _ = data
    model = RankSVM(0.1).fit(X, y)
    model.set_params(kernel="rbf").fit(X, y)
    assert not hasattr(model, "coef_")
    np.testing.assert_array_equal(model.predict(X), RankSVM(0.1, kernel="rbf").fit(X, y).predict(X))


def test_callable_kernel_must_be_positive_semidefinite(data):
    X, y, _, _ = data
    linear = RankSVM(0.1).fit(X, y)
    found = RankSVM(0.1, kernel=lambda A, B: A @ B.T).fit(X, y)
    np.testing.assert_allclose(found.predict(X[:9]), linear.predict(X[:9]), rtol=1e-5, atol=1e-7)
    with pytest.raises(ValueError, match="kernel matrix of `X` is indefinite"):
        RankSVM(kernel=lambda A, B: -A @ B.T).fit(X, y)
    with pytest.raises(ValueError, match=r"returned shape \(1,\) .* it must return one value per pair"):
        RankSVM(kernel=lambda a, b: 1.0).fit(X, y)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_a_precomputed_linear_kernel_is_the_linear_ranker(data, loss):
    X, y, Z, group = data
    train, test = np.arange(160), np.arange(160, 240)
    settings = {"loss": loss, "tol": 1e-7}
    linear = RankTransfer(0.01, 0.1, **settings).fit(X[train], y[train], privileged=Z[train], group=group[train])
    given = RankTransfer(0.01, 0.1, kernel="precomputed", privileged_kernel="precomputed", **settings)
    K, K_star = X @ X.T, Z @ Z.T
    given.fit(K[np.ix_(train, train)], y[train], privileged=K_star[np.ix_(train, train)], group=group[train])
    np.testing.assert_allclose(given.margins_, linear.margins_, rtol=1e-4, atol=1e-6)
    found, expected = given.predict(K[np.ix_(test, train)]), linear.predict(X[test])
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    assert given.objective_ == pytest.approx(linear.objective_, rel=1e-5)
    missing = Z.copy()
    missing[::3] = np.nan
    K_star[::3] = np.nan
    one = RankTransfer(0.1, **settings).fit(X, y, privileged=missing)
    two = clone(given).set_params(C=0.1, C_privileged=1.0).fit(K, y, privileged=K_star)
    assert two.objective_ == pytest.approx(one.objective_, rel=1e-5)


def test_precomputed_kernels_are_checked_and_split(data):
    X, y, Z, _ = data
    K = X @ X.T
    plain, given = RankSVM(), RankSVM(kernel="precomputed")
    with pytest.raises(
        ValueError, match=r"needs a square matrix of shape \(n_samples, n_samples\) as `X`; got \(240, 4\)"
    ):
        RankSVM(kernel="precomputed").fit(X, y)
    with pytest.raises(ValueError, match="precomputed kernel matrix of `X` is indefinite"):
        RankSVM(kernel="precomputed").fit(-K, y)
    with pytest.raises(ValueError, match=r"`privileged` has shape \(240, 3\), but a precomputed privileged kernel"):
        RankTransfer(privileged_kernel="precomputed").fit(X, y, privileged=Z)
    # scikit-learn takes rows and columns of the kernel matrix.
    np.testing.assert_allclose(cross_val_score(given, K, y), cross_val_score(plain, X, y), atol=1e-6)
    few = RankSVM(kernel="precomputed", n_components=4, random_state=0, tol=1e-8).fit(K, y)
    np.testing.assert_allclose(few.predict(K), RankSVM(tol=1e-8).fit(X, y).predict(X), rtol=1e-3, atol=1e-4)


def test_sigmoid_kernel(data):
    X, y, _, _ = data
    # Only a small gamma gives a matrix that is positive semi-definite up to the rounding that is allowed.
    given = RankSVM(10.0, kernel="sigmoid", gamma=1e-4, tol=1e-8).fit(X, y)
    same = RankSVM(10.0, kernel="precomputed", tol=1e-8).fit(np.tanh(1e-4 * X @ X.T), y)
    assert given.objective_ == pytest.approx(same.objective_, rel=1e-6)
    np.testing.assert_allclose(given.predict(X[:9]), same.predict(np.tanh(1e-4 * X[:9] @ X.T)), rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="sigmoid kernel matrix of `X` is indefinite"):
        RankSVM(kernel="sigmoid", gamma=1.0).fit(X, y)


def test_scores_are_those_of_scikit_learn(data):
    X, y, _, group = data
    model = RankSVM(0.1).fit(X, y)
    s = model.decision_function(X)
    assert model.score(X, y) == ndcg_score([y], [s])
    binary = y > 0
    assert RankSVM(0.1).fit(X, binary).score(X, binary) == average_precision_score(
        binary, RankSVM(0.1).fit(X, binary).decision_function(X)
    )
    assert ndcg(y, s, k=5) == RANKING_METRICS["ndcg@5"](y, s) == ndcg_score([y], [s], k=5)
    assert roc_auc(y, s) == roc_auc_score(binary, s)
    per_query = [average_precision_score(binary[group == g], s[group == g]) for g in range(12)]
    assert average_precision(y, s, group) == pytest.approx(np.mean(per_query))
    assert model.score(X, y, group) == pytest.approx(
        np.mean([ndcg_score([y[group == g]], [s[group == g]]) for g in range(12)])
    )
    assert average_precision(y - 5, s) == average_precision(y, s)
    assert ndcg(y - 5, s) == ndcg(y, s)


def test_queries_without_a_choice_do_not_count():
    y, s = np.array([1, 1, 0, 1]), np.array([0.0, 1.0, 0.0, 1.0])
    assert average_precision(y, s, ["a", "a", "b", "b"]) == 1.0
    assert np.isnan(average_precision(y, s, ["a", "a", "b", "c"]))


def test_scikit_learn_scorers_and_grid_search(data):
    X, y, Z, _ = data
    binary = (y > 0).astype(int)
    # Before 1.9 scikit-learn's own scorers take no decision values of what is no classifier.
    own = parse_version(sklearn.__version__) >= parse_version("1.9")
    scoring = "average_precision" if own else lambda model, X, y: average_precision_score(y, model.decision_function(X))
    assert (cross_val_score(RankSVM(0.1), X, binary, scoring=scoring) > 0.6).all()
    grid = GridSearchCV(RankTransfer(), {"C": [1e-3, 1e-1]}, cv=3).fit(X, binary, privileged=Z)
    assert grid.best_estimator_.teacher_ is not None


def test_metadata_is_routed_through_a_pipeline(data):
    X, y, Z, group = data
    direct = RankTransfer(0.1).fit(StandardScaler().fit_transform(X), y, privileged=Z, group=group)
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), RankTransfer(0.1)).fit(X, y, privileged=Z, group=group)
        search = GridSearchCV(RankTransfer(), {"C": [0.01, 0.1]}, cv=3).fit(X, y, privileged=Z, group=group)
    np.testing.assert_allclose(pipeline[-1].coef_, direct.coef_)
    assert search.best_estimator_.teacher_ is not None


def test_learns_from_the_teacher():
    """Labels are the sign of a noisy quality that the privileged features show clearly."""
    rng = np.random.default_rng(0)
    gains = []
    for _ in range(5):
        quality = rng.normal(size=1060)
        X = 0.5 * quality[:, None] * rng.normal(size=20) + rng.normal(size=(1060, 20))
        y = quality + rng.normal(size=1060) > 0
        Z = quality[:60, None] + 0.1 * rng.normal(size=(60, 1))
        plain = RankSVM(1e-3).fit(X[:60], y[:60])
        student = RankTransfer(1e-2, 1.0).fit(X[:60], y[:60], privileged=Z)
        gains.append(roc_auc(y[60:], student.predict(X[60:])) - roc_auc(y[60:], plain.predict(X[60:])))
    assert np.mean(gains) > 0.005


@pytest.mark.parametrize("solver", ["newton", "coordinate"])
def test_convergence_warning_tells_the_gap(data, solver):
    X, y, _, _ = data
    with pytest.warns(
        ConvergenceWarning, match=r"stopped after 2 iterations at a relative duality gap of .* > tol=1e-10"
    ):
        model = RankSVM(1.0, "hinge", solver=solver, max_iter=2, tol=1e-10).fit(X, y)
    assert model.dual_gap_ > 1e-10
    assert model.n_iter_ == 2


MESSAGES = {
    "short group": ({"group": [1, 2]}, r"`group` has shape \(2,\), expected \(6,\): one id for each example"),
    "no group": ({"group": [1, 1, None, 2, 2, 2]}, r"`group` has no id for example 2"),
    "lonely queries": ({"group": np.arange(6)}, r"group leaves nothing to rank: no query has two examples"),
    "one grade": ({"y": np.ones(6)}, r"y has only one class \(grade 1.0\)"),
    "strings": ({"y": list("aabbab")}, r"y must hold numeric grades, higher = ranked higher"),
    "few available": (
        {"privileged": [[1.0]] * 2 + [[np.nan]] * 4},
        r"no teacher can be trained on the 2 examples that have `privileged`, its X: y has only one class",
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_messages_name_the_argument(case):
    keywords, message = MESSAGES[case]
    arguments = {"X": np.arange(12.0).reshape(6, 2), "y": [0, 0, 1, 1, 0, 1]} | keywords
    with pytest.raises(ValueError, match=message):
        RankTransfer().fit(**arguments)
    with pytest.raises(ValueError, match=message):
        RankTransferCV(cv=[([0, 1, 2, 3], [4, 5])]).fit(**arguments)


def test_parameter_messages():
    X, y = np.arange(12.0).reshape(6, 2), [0, 0, 1, 1, 0, 1]
    with pytest.raises(ValueError, match=r"The 'C' parameter of RankSVM must be a float in the range \(0.0, inf\)"):
        RankSVM(C=0).fit(X, y)
    with pytest.raises(ValueError, match="The 'pairs' parameter of RankTransfer must be a str among"):
        RankTransfer(pairs="some").fit(X, y)
    with pytest.raises(ValueError, match=r"solver='coordinate' needs loss='hinge'; got loss='squared_hinge'"):
        RankSVM(solver="coordinate").fit(X, y)
    with pytest.raises(ValueError, match="Cs must be a list of positive numbers"):
        RankTransferCV(Cs=[1.0, -1.0]).fit(X, y)


def test_no_pair_above_the_threshold_is_said(data):
    X, y, Z, _ = data
    with pytest.warns(UserWarning, match=r"margin_threshold=100 leaves no pair: the teacher's largest margin is"):
        model = RankTransfer(margin_threshold=100.0).fit(X, y, privileged=Z)
    assert not model.coef_.any()
    assert model.objective_ == model.dual_gap_ == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RankTransfer().fit(X, y, privileged=Z)


@pytest.mark.parametrize("pairs", ["across", "all"])
def test_examples_without_a_grade_keep_the_teachers_order(data, pairs):
    X, y, Z, group = data
    unlabeled = np.arange(len(y)) % 4 == 0
    grades = np.where(unlabeled, np.nan, y)
    model = RankTransfer(0.01, tol=1e-8, pairs=pairs).fit(X, grades, privileged=Z, group=group)
    teacher = RankSVM(tol=1e-8).fit(Z[~unlabeled], y[~unlabeled], group=group[~unlabeled])
    np.testing.assert_allclose(model.margins_, teacher.decision_function(Z))
    i, j = np.nonzero(group[:, None] == group)
    margin = model.margins_[i] - model.margins_[j]
    graded = (y[i] >= y[j] if pairs == "all" else y[i] > y[j]) & ~unlabeled[i] & ~unlabeled[j]
    kept = (margin > 0.1) & (graded | (unlabeled[i] & unlabeled[j]))
    assert model.n_pairs_ == kept.sum()
    value = pair_objective(model.coef_, X, i[kept], j[kept], margin[kept], 0.01, "squared_hinge")
    assert model.objective_ == pytest.approx(value)
    coded = RankTransfer(0.01, tol=1e-8, pairs=pairs, unlabeled=-1)
    coded.fit(X, np.where(unlabeled, -1, y), privileged=Z, group=group)
    np.testing.assert_array_equal(coded.coef_, model.coef_)
    # Without privileged features they take no part.
    plain = RankTransfer(0.01).fit(X, grades, group=group)
    np.testing.assert_allclose(
        plain.coef_, RankSVM(0.01).fit(X[~unlabeled], y[~unlabeled], group=group[~unlabeled]).coef_
    )


def test_a_teacher_near_chance_is_pointed_out():
    X, y, Z = make_privileged(200, random_state=23, return_X_y_privileged=True)
    with pytest.warns(UserWarning, match="no better than chance"):
        model = RankTransfer().fit(X, y, privileged=Z)
    # Pairs across the grades alone cannot turn the order round.
    assert model.score(X, y) > 0.5
    with pytest.warns(UserWarning, match=r"gives 0\.\d% a margin above margin_threshold=1000|leaves no pair"):
        RankTransfer(margin_threshold=1000.0).fit(X, y, privileged=Z)


def test_minus_one_among_the_grades():
    X, y, _ = make_privileged(60, random_state=0, return_X_y_privileged=True)
    y = np.where(np.arange(60) < 20, -1, y)
    with pytest.warns(UserWarning, match="pass unlabeled=-1"):
        RankTransfer(0.01).fit(X, y)
