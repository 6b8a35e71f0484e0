"""Structural SVM: solvers against each other and against independent references."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from structured_reference import all_sequences, reference_objective

from lupi import JKSE, JKSEPlus, StructuralSVM, StructuralSVMPlus
from lupi.datasets import make_planted_boxes
from lupi.structured import BoxLocalization, Chain, Multiclass

SOLVERS = ["bcfw", "cutting_plane", "n_slack"]


class Plain:
    """A user's own task: the three methods of another task and nothing else."""

    def __init__(self, task):
        self.task, self.n_features = task, task.n_features

    def joint_feature(self, x, y):
        return self.task.joint_feature(x, y)

    def loss(self, y_true, y):
        return self.task.loss(y_true, y)

    def argmax(self, w, x, y_true=None, loss_weight=0.0):
        return self.task.argmax(w, x, y_true, loss_weight)


def chain_data(n=12, length=4, seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(length, 2)) for _ in range(n)]
    return X, [np.where(x[:, 0] + 0.5 * rng.normal(size=length) > 0, 1, 0) for x in X]


@pytest.fixture(scope="module")
def chain_problem():
    X, Y = chain_data()
    task = Chain(2, 2)
    psi, loss, block = [], [], []
    for i, (x, y) in enumerate(zip(X, Y)):
        for other in all_sequences(2, len(y)):
            psi.append(task.joint_feature(x, y) - task.joint_feature(x, other))
            loss.append(task.loss(y, other))
            block.append(i)
    return X, Y, task, {C: reference_objective(np.array(psi), np.array(loss), np.array(block), C) for C in (0.5, 20.0)}


@pytest.mark.parametrize("C", [0.5, 20.0])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("wrap", [lambda t: t, Plain], ids=["compiled", "plain"])
def test_every_solver_reaches_the_reference_qp(chain_problem, solver, C, wrap):
    X, Y, task, reference = chain_problem
    model = StructuralSVM(wrap(task), C=C, solver=solver, tol=1e-4, max_iter=20_000, random_state=0).fit(X, Y)
    assert model.dual_gap_ <= 1e-4
    assert reference[C] - 1e-7 <= model.objective_ <= reference[C] * (1 + 1.5e-4)
    # The certificate is honest: the objective recomputed from the weights, and the dual below the reference.
    hinge = [
        max(
            task.loss(y, o) - (task.joint_feature(x, y) - task.joint_feature(x, o)) @ model.coef_
            for o in all_sequences(2, 4)
        )
        for x, y in zip(X, Y)
    ]
    assert model.objective_ == pytest.approx(0.5 * model.coef_ @ model.coef_ + C * np.mean(hinge), rel=1e-9)
    assert model.objective_ * (1 - model.dual_gap_) <= reference[C] + 1e-7


# Old versions of scikit-learn count the steps of this solver wrongly.
@pytest.mark.filterwarnings("ignore:Liblinear failed to converge")
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_multiclass_is_crammer_singer(C):
    X, y = load_iris(return_X_y=True)
    model = StructuralSVM(Multiclass(3, 4), C=C, tol=1e-6, random_state=0).fit(X, y)
    reference = LinearSVC(
        multi_class="crammer_singer", C=C / len(X), fit_intercept=False, tol=1e-8, max_iter=1_000_000, random_state=0
    ).fit(X, y)
    np.testing.assert_allclose(model.coef_.reshape(3, 4), reference.coef_, atol=2e-3 * np.abs(reference.coef_).max())
    assert np.mean(model.predict(X) == reference.predict(X)) > 0.99


@pytest.mark.parametrize("absent", [0.0, 0.3])
def test_boxes_solvers_agree(absent):
    X, Y, _ = make_planted_boxes(15, shape=(10, 12), n_words=15, n_points=50, absent=absent, random_state=0)
    task = BoxLocalization(15, allow_absent=absent > 0)
    fits = [StructuralSVM(task, C=5.0, solver=s, tol=1e-3, max_iter=5000, random_state=0).fit(X, Y) for s in SOLVERS]
    objectives = [m.objective_ for m in fits]
    assert max(objectives) <= min(objectives) * (1 + 1.1e-3)
    assert fits[0].score(X, Y) == pytest.approx(1 - np.mean([task.loss(y, p) for y, p in zip(Y, fits[0].predict(X))]))
    if absent:
        assert any(p is None for p in fits[0].predict(X))


def test_threads_give_the_same_fit():
    X, Y, _ = make_planted_boxes(10, shape=(10, 12), n_words=15, n_points=50, random_state=0)
    one, two = (
        StructuralSVM(BoxLocalization(15), solver="cutting_plane", n_jobs=j, tol=0.01).fit(X, Y) for j in (None, 2)
    )
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert one.predict(X) == two.predict(X)


def test_few_slots_merge_planes_without_losing_the_optimum(monkeypatch):
    X, Y = chain_data()
    reference = StructuralSVM(Plain(Chain(2, 2)), C=20.0, tol=1e-3, random_state=0).fit(X, Y).objective_
    monkeypatch.setattr("lupi.structured.planes._BUDGET", 1)
    small = StructuralSVM(Plain(Chain(2, 2)), C=20.0, tol=1e-2, max_iter=5000, random_state=0).fit(X, Y)
    assert small.objective_ <= reference * 1.011


def test_a_bound_above_the_objective_is_a_warning(monkeypatch):
    monkeypatch.setattr("lupi.structured.planes.PlaneStore.dual", 1e21)
    with pytest.warns(ConvergenceWarning, match="relative duality gap of inf > tol=0.001"):
        model = StructuralSVM(Chain(2, 2), C=20.0, max_iter=5, random_state=0).fit(*chain_data())
    assert model.dual_gap_ == np.inf


def test_inputs_of_zeros_are_solved():
    X, y = np.array([[1.0], [-1.0], [0.0], [0.0]]), np.array([0, 1, 2, 0])
    model = StructuralSVM(Multiclass(3, 1), tol=1e-8, random_state=0).fit(X, y)
    planes = StructuralSVM(Multiclass(3, 1), tol=1e-8, solver="n_slack").fit(X, y)
    assert model.dual_gap_ <= 1e-8
    assert model.objective_ == pytest.approx(planes.objective_, rel=1e-7)


def test_stopping_early_warns_and_reports_the_gap():
    X, Y = chain_data()
    with pytest.warns(
        ConvergenceWarning,
        match=r"stopped after 1 iterations at a relative duality gap of .* raise max_iter or tol",
    ):
        model = StructuralSVM(Chain(2, 2), C=20.0, tol=1e-6, max_iter=1, random_state=0).fit(X, Y)
    assert model.dual_gap_ > 1e-6
    assert model.n_iter_ == 1


def test_random_state_is_the_order_of_the_examples():
    """Frank-Wolfe steps depend on the order; cutting planes know none."""
    X, Y = chain_data()
    for solver, differs in (("bcfw", True), ("n_slack", False)):
        first, again, other = (
            StructuralSVM(Chain(2, 2), C=20.0, solver=solver, tol=0.1, random_state=seed).fit(X, Y).coef_
            for seed in (0, 0, 1)
        )
        np.testing.assert_array_equal(first, again)
        assert np.array_equal(first, other) != differs


def test_callback_sees_progress_and_stops():
    X, Y = chain_data(60)
    seen = []

    def callback(info):
        seen.append(info)
        return len(seen) == 2

    with pytest.warns(ConvergenceWarning):
        StructuralSVM(Chain(2, 2), C=20.0, tol=1e-9, callback=callback, random_state=0).fit(X, Y)
    assert len(seen) == 2
    assert seen[1]["primal"] <= seen[0]["primal"]
    assert seen[1]["dual"] >= seen[0]["dual"]
    assert set(seen[0]) == {"n_iter", "primal", "dual", "dual_gap", "n_oracle_calls"}


def test_seed_decides_and_clone_works():
    X, Y = chain_data()
    model = StructuralSVM(Chain(2, 2), C=2.0, random_state=3)
    first, second = model.fit(X, Y).coef_, clone(model).fit(X, Y).coef_
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [
        ([], [], "`X` is empty"),
        (np.ones((3, 2)), [0, 1], "`X` has 3 examples and `Y` has 2"),
        (np.ones((3, 2)), None, "`Y` must be a sequence with one entry for each example; got None"),
        (np.ones((3, 2)), [0, 1, 7], "labels from 0 to 7"),
    ],
)
def test_fit_messages(X, Y, message):
    with pytest.raises(ValueError, match=message):
        StructuralSVM(Multiclass(3, 2)).fit(X, Y)


@pytest.mark.parametrize("params", [{"task": object()}, {"C": 0.0}, {"solver": "sgd"}, {"tol": -1.0}, {"max_iter": 0}])
def test_parameter_constraints(params):
    with pytest.raises(ValueError, match=f"The '{next(iter(params))}' parameter of StructuralSVM must be"):
        StructuralSVM(**{"task": Multiclass(3, 2), **params}).fit(np.ones((3, 2)), [0, 1, 2])


def table_problem():
    """Rows of a frame whose index is not 0, 1, ..."""
    rng = np.random.default_rng(5)
    y = rng.integers(0, 3, 40)
    X = np.abs(np.eye(3)[y] + 0.4 * rng.normal(size=(40, 3)))
    Z = np.abs(np.eye(3)[y] + 0.2 * rng.normal(size=(40, 3)))
    return X, y, Z, rng.permutation(40)


@pytest.mark.parametrize("make", [StructuralSVMPlus, JKSEPlus])
def test_pandas_objects_are_read_by_position(make):
    X, y, Z, index = table_problem()
    frame, labels, privileged = pd.DataFrame(X, index), pd.Series(y, index), pd.DataFrame(Z, index)
    options = {"random_state": 0} if make is StructuralSVMPlus else {}
    model = make(Multiclass(3, 3), privileged_task=Multiclass(3, 3), **options)
    expected = clone(model).fit(X, y, privileged=Z)
    found = model.fit(frame, labels, privileged=privileged)
    assert found.objective_ == expected.objective_
    np.testing.assert_array_equal(found.predict(frame), expected.predict(X))
    assert found.score(frame, labels) == expected.score(X, y)


def test_the_rows_of_a_frame_are_outputs():
    X, y = chain_data()
    X, y = [x[:3] for x in X], np.array([labels[:3] for labels in y])
    model, frame = StructuralSVM(Chain(2, 2), random_state=0).fit(X, y), pd.DataFrame(y)
    assert model.score(X, frame) == model.score(X, y)
    with pytest.raises(ValueError, match="StructuralSVM: `Y` is a masked array"):
        model.score(X, np.ma.masked_equal(y, 1))


@pytest.mark.parametrize("make", [StructuralSVM, StructuralSVMPlus, JKSE, JKSEPlus])
def test_predict_checks_its_input(make):
    X, y, _, _ = table_problem()
    model = make(Multiclass(3, 3)).fit(X, y)
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="`X` contains NaN or infinity"):
        model.predict(X)
    with pytest.raises(ValueError, match=r"X must have shape \(n, 3\), got \(40, 2\)"):
        model.predict(np.ones((40, 2)))
    chains, labels = chain_data()
    with pytest.raises(ValueError, match=r"X\[1\] contains NaN or infinity"):
        StructuralSVM(Chain(2, 2)).fit(chains, labels).predict([chains[0], np.full((4, 2), np.nan)])


def test_bounds_are_never_above_the_optimum():
    """Small problems with a privileged space: unbounded faces once made the dual value a number of 1e17."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n, d, s = rng.integers(4, 20), rng.integers(1, 6), rng.integers(1, 6)
        X, Z, y = rng.normal(size=(n, d)), rng.normal(size=(n, s)), rng.integers(0, 3, n)
        scale = 10.0 ** rng.uniform(-1, 2)
        fits = [
            StructuralSVMPlus(
                Multiclass(3, d), Multiclass(3, s), scale, tol=1e-4, solver=solver, max_iter=20_000, random_state=0
            ).fit(X, y, privileged=Z)
            for solver in ("bcfw", "cutting_plane")
        ]
        assert all(model.dual_gap_ <= 1e-4 for model in fits)
        assert fits[0].objective_ == pytest.approx(fits[1].objective_, rel=1.1e-4)
