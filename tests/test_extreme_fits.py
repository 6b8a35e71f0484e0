"""Extreme prices, scales and shapes: certified, warned of, or refused with a sentence that helps."""

import warnings

import numpy as np
import pytest
from extreme_fits import run
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from lupi import OneClassSVMPlus, RankTransfer, StructuralSVM, SurrogateClassifier, SVM2Plus, SVMPlus
from lupi.datasets import make_privileged
from lupi.kernels import Kernel
from lupi.structured import Multiclass


@pytest.fixture(scope="module")
def data():
    return make_privileged(60, random_state=0, return_X_y_privileged=True)


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_extreme_fits_end_well(first):
    ends = {seed: run(seed) for seed in range(first, first + 40)}
    assert set(ends.values()) <= {"certified", "warned", "refused"}, ends


@pytest.mark.parametrize(
    "estimator", [SVMPlus(), SVM2Plus(kernel="linear", privileged_kernel="linear"), RankTransfer()]
)
@pytest.mark.parametrize("argument", ["X", "privileged"])
def test_features_too_large_to_be_squared_are_named(data, estimator, argument):
    X, y, Z = data
    X, Z = (1e160 * X, Z) if argument == "X" else (X, 1e160 * Z)
    with pytest.raises(ValueError, match=rf"`{argument}` has values as large as .*e\+160.*scale the features"):
        estimator.fit(X, y, privileged=Z)


def test_kernel_beyond_double_precision_is_named(data):
    X, y, Z = data
    with pytest.raises(ValueError, match=r"poly kernel of `privileged`.*scale the features"):
        SVMPlus(privileged_kernel="poly", privileged_degree=9, privileged_gamma=1.0).fit(X, y, privileged=1e40 * Z)


def test_surrogate_learning_names_large_features(data):
    X, y, Z = data
    with pytest.raises(ValueError, match="`X` has values as large as"):
        SurrogateClassifier().fit(1e160 * X, y, privileged=Z)


def test_sparse_inputs_of_a_structured_task_are_refused(data):
    X, y, _ = data
    with pytest.raises(ValueError, match=r"`X` is a sparse matrix.*X.toarray\(\)"):
        StructuralSVM(Multiclass(2, X.shape[1])).fit(sparse.csr_matrix(X), y)


@pytest.mark.parametrize("kernel", ["chi2", "laplacian"])
def test_kernels_take_read_only_arrays_and_long_indices(data, kernel):
    X = np.abs(data[0])
    X.setflags(write=False)
    rows = sparse.csr_matrix(X)
    rows.indices, rows.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    np.testing.assert_allclose(Kernel(kernel)(X), Kernel(kernel)(X.copy()))
    np.testing.assert_allclose(Kernel(kernel)(rows, rows[:5]), Kernel(kernel)(X.copy(), X[:5].copy()))


@pytest.mark.parametrize("C", [1e4, 1e8])
def test_a_gap_above_the_tolerance_is_more_work_or_a_warning(data, C):
    X, y, Z = data
    model = SVMPlus(C, solver="smo", tol=0.5, max_iter=40)
    with pytest.warns(ConvergenceWarning, match=r"relative duality gap of \S+ > tol=0.5 and a KKT violation"):
        model.fit(X, y, privileged=Z)
    assert model.dual_gap_ > 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert SVMPlus(C, tol=0.5, solver="smo").fit(X, y, privileged=Z).dual_gap_ <= 0.5
        assert SVMPlus(C, tol=0.5).fit(X, y, privileged=Z).dual_gap_ < 0.1


def test_violation_and_gap_agree_after_an_interior_point(data):
    X, y, Z = data
    for solver in ("interior_point", "auto"):
        model = SVMPlus(1e-3, solver=solver, class_weight={0: 1e3, 1: 1e-3}).fit(X, y, privileged=Z)
        assert model.dual_gap_ < 1e-2
        assert model.kkt_violation_ < 2e-3


@pytest.mark.parametrize("max_iter", [1, 5, 30, 300])
@pytest.mark.parametrize(
    "estimator",
    [SVMPlus(100.0, 1e-2), SVM2Plus(100.0, 1e-2), SVMPlus(solver="interior_point"), OneClassSVMPlus(tol=1e-10)],
)
def test_iterations_stay_below_their_limit(data, estimator, max_iter):
    X, y, Z = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = estimator.set_params(max_iter=max_iter).fit(X, y, privileged=Z)
    assert model.n_iter_ <= max_iter


@pytest.mark.parametrize("estimator", [SVMPlus(), SVM2Plus()])
def test_balanced_classes_count_the_weights(data, estimator):
    X, y, Z = data
    weight = np.where(np.arange(60) % 3 == 0, 3, 1)
    estimator.set_params(class_weight="balanced", tol=1e-8, gamma=0.1, privileged_gamma=0.1)
    scores = estimator.fit(X, y, privileged=Z, sample_weight=weight).decision_function(X)
    rows = np.repeat(np.arange(60), weight)
    repeated = estimator.fit(X[rows], y[rows], privileged=Z[rows]).decision_function(X)
    np.testing.assert_allclose(scores, repeated, atol=1e-5)
