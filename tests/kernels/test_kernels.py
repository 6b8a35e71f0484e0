import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import SVC

from lupi.kernels import (
    FeatureSpace,
    Kernel,
    KernelRows,
    Space,
    check_definite,
    fits,
    pivoted_cholesky,
    resolve_gamma,
)
from lupi.kernels.kernel import self_products

rng = np.random.default_rng(0)
A = rng.random((7, 4))
B = rng.random((5, 4))
HAND = {
    "linear": lambda a, b: a @ b,
    "rbf": lambda a, b: np.exp(-0.7 * np.sum((a - b) ** 2)),
    "poly": lambda a, b: (0.7 * (a @ b) + 0.5) ** 2,
    "sigmoid": lambda a, b: np.tanh(0.7 * (a @ b) + 0.5),
    "chi2": lambda a, b: np.exp(-0.7 * np.sum((a - b) ** 2 / (a + b))),
    "laplacian": lambda a, b: np.exp(-0.7 * np.sum(np.abs(a - b))),
    "intersection": lambda a, b: np.minimum(a, b).sum(),
}


def make(name):
    return Kernel(name, gamma=0.7, degree=2, coef0=0.5)


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("name", HAND)
def test_values_follow_the_definition(name, convert):
    expected = np.array([[HAND[name](a, b) for b in B] for a in A])
    values = make(name)(convert(A), convert(B))
    assert isinstance(values, np.ndarray)
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    np.testing.assert_allclose(make(name)(convert(A)), make(name)(A, A), rtol=1e-12)


@pytest.mark.parametrize("n", [1, 3, 64, 65, 200])
def test_linear_matrix_with_itself_is_symmetric_at_every_block_size(n):
    X = rng.normal(size=(n, 5))
    np.testing.assert_allclose(Kernel("linear")(X), X @ X.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(Kernel("linear")(np.asfortranarray(X)), X @ X.T, rtol=1e-12, atol=1e-12)


def test_callable_gets_both_matrices():
    kernel = Kernel(lambda a, b: (a @ b.T) ** 2)
    np.testing.assert_allclose(kernel(A, B), (A @ B.T) ** 2)
    np.testing.assert_allclose(kernel(A), (A @ A.T) ** 2)


def test_callable_of_the_wrong_shape_is_refused():
    with pytest.raises(ValueError, match=r"kernel function for `privileged` returned shape \(7,\) for 7 and 5 rows"):
        Kernel(lambda a, b: np.ones(len(a)), argument="privileged")(A, B)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("name", ["chi2", "intersection"])
def test_kernels_of_histograms_refuse_negative_values_in_either_argument(name, convert):
    kernel = Kernel(name, argument="privileged")
    for left, right in ((A - 0.5, B), (A, B - 0.5)):
        with pytest.raises(
            ValueError, match=f"{name} kernel compares histograms, but `privileged` has negative values"
        ):
            kernel(convert(left), convert(right))


@pytest.mark.parametrize(
    ("name", "unsafe"), [("rbf", False), ("linear", False), ("sigmoid", True), ("precomputed", True)]
)
def test_unsafe_kernels_are_known(name, unsafe):
    assert Kernel(name).unsafe is unsafe
    assert Kernel(lambda a, b: a @ b.T).unsafe


@pytest.mark.parametrize(
    ("degree", "coef0", "unsafe"), [(3, 0.0, False), (2, 1.0, False), (2, -1.0, True), (0.5, 0.0, True)]
)
def test_polynomials_are_safe_with_natural_degrees_and_positive_constants(degree, coef0, unsafe):
    assert Kernel("poly", degree=degree, coef0=coef0).unsafe is unsafe


def test_precomputed_values_are_chosen_by_position():
    gram, columns = make("rbf")(A), np.array([4, 1])
    kernel = Kernel("precomputed")
    np.testing.assert_array_equal(kernel(gram, kernel.rows(gram, columns)), gram[:, columns])
    np.testing.assert_array_equal(kernel.among(gram, columns), gram[np.ix_(columns, columns)])


@pytest.mark.parametrize("coefficients", [rng.normal(size=7), rng.normal(size=(3, 7))], ids=["one", "three"])
def test_expansions_are_sums_of_kernel_values(coefficients, monkeypatch):
    monkeypatch.setattr("lupi.kernels.kernel.LARGEST_BLOCK", 14)  # two rows at a time
    values = make("rbf").expand(B, A, coefficients)
    np.testing.assert_allclose(values, make("rbf")(B, A) @ coefficients.T, rtol=1e-12)


# ---------------------------------------------------------------- gamma


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("gamma", ["scale", "auto"])
def test_gamma_is_that_of_scikit_learn(gamma, convert):
    y = np.arange(len(A)) % 2
    expected = SVC(gamma=gamma).fit(convert(A), y)._gamma
    np.testing.assert_allclose(resolve_gamma(gamma, convert(A)), expected, rtol=1e-12)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix])
def test_gamma_of_features_without_digits_is_a_number(convert):
    assert resolve_gamma("scale", convert(1e-160 * A)) == 1.0


def test_products_of_no_features_are_zero(capfd):
    np.testing.assert_array_equal(self_products(np.zeros((4, 0))), np.zeros((4, 4)))
    assert capfd.readouterr() == ("", "")


def test_gamma_number_stays():
    assert resolve_gamma(0.25, A) == 0.25


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_gamma_counts_rows_by_weight(convert):
    weight = np.array([1.0, 3, 2, 1, 1, 2, 4])
    repeated = np.repeat(A, weight.astype(int), axis=0)
    np.testing.assert_allclose(resolve_gamma("scale", convert(A), weight), 1 / (4 * repeated.var()), rtol=1e-12)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("value", [0.0, 3.7, 1e9])
def test_gamma_of_constant_features_is_one(value, convert):
    assert resolve_gamma("scale", convert(np.full((6, 3), value))) == 1.0


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_features_far_from_zero_keep_their_digits(convert):
    np.testing.assert_allclose(resolve_gamma("scale", convert(A + 1e8)), 1 / (4 * A.var()), rtol=1e-6)
    far = np.array([1e6, 0.0, -1e6, 0.0])
    for pair in ((A,), (A, B)):
        expected = make("rbf")(*pair)
        np.testing.assert_allclose(make("rbf")(*(convert(rows + far) for rows in pair)), expected, atol=1e-8)


# ---------------------------------------------------------------- positive semi-definite or not


@pytest.mark.parametrize("name", ["linear", "rbf", "poly", "chi2", "laplacian", "intersection"])
def test_definite_matrices_pass(name):
    check_definite(make(name), make(name)(np.vstack([A, A])))  # repeated rows: singular, yet fine


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_an_indefinite_matrix_is_explained_at_every_scale(scale):
    matrix = scale * np.diag([1.0, 2.0, -0.1])
    with pytest.raises(
        ValueError, match=r"precomputed kernel matrix of `X` is indefinite .*clip its negative eigenvalues"
    ):
        check_definite(Kernel("precomputed"), matrix)


def test_rounding_is_no_negative_eigenvalue():
    vectors = np.linalg.qr(rng.normal(size=(30, 30)))[0]
    matrix = (vectors * np.append(np.ones(29), -1e-10)) @ vectors.T
    check_definite(Kernel("precomputed"), 0.5 * (matrix + matrix.T))


def test_asymmetric_and_rectangular_matrices_are_explained():
    with pytest.raises(ValueError, match=r"not symmetric \(entries differ by up to 1\)"):
        check_definite(Kernel("precomputed"), np.array([[1.0, 1.0], [0.0, 1.0]]))
    with pytest.raises(ValueError, match=r"for `privileged` must be square; its shape is \(2, 3\)"):
        check_definite(Kernel("precomputed", argument="privileged"), np.ones((2, 3)))


def test_a_large_indefinite_matrix_shows_in_its_sample(monkeypatch):
    monkeypatch.setattr("lupi.kernels.kernel.PROBE", 20)
    matrix = -np.ones((60, 60)) + 2 * np.eye(60)
    with pytest.raises(ValueError, match="indefinite"):
        check_definite(Kernel("precomputed"), matrix)


# ---------------------------------------------------------------- rows on demand

X = rng.normal(size=(40, 3))
K = make("rbf")(X)


@pytest.mark.parametrize("available", [None, np.arange(40) % 3 > 0])
def test_product_block_and_diagonal(available, monkeypatch):
    rows = KernelRows(make("rbf"), X, available)
    full = K if available is None else K * np.outer(available, available)
    coefficients = np.where(np.arange(40) % 2, rng.normal(size=40), 0.0)
    np.testing.assert_allclose(rows.product(coefficients), full @ coefficients, atol=1e-12)
    some, others = np.array([5, 0, 0, 9]), np.array([1, 30, 3])
    np.testing.assert_allclose(rows.block(some, others), full[np.ix_(some, others)], rtol=1e-12)
    np.testing.assert_allclose(rows.block(np.arange(40)), full, rtol=1e-12)
    np.testing.assert_allclose(rows.diagonal(chunk=7), np.diagonal(full), rtol=1e-12)
    monkeypatch.setattr("lupi.kernels.space.BAND", 7)
    many = rng.normal(size=40)
    for vector in (coefficients, many):
        np.testing.assert_allclose(rows.product(vector), full @ vector, atol=1e-12)
    np.testing.assert_allclose(rows.dense(), full, rtol=1e-12)


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("available", [None, np.arange(40) % 3 > 0])
@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_blocks_are_those_of_the_matrix(name, available, single):
    kernel = make(name)
    full = kernel(X) if available is None else kernel(X) * np.outer(available, available)
    index, tolerance = np.array([7, 2, 30, 8]), 1e-5 if single else 1e-10
    blocks = Space(source=KernelRows(kernel, X + 100.0, available)).blocks(single)
    assert blocks.among(index).dtype == (np.float32 if single else np.float64)
    np.testing.assert_allclose(blocks.among(index), full[np.ix_(index, index)], atol=tolerance)
    out, coefficients = np.ones(40), np.array([1.0, -2.0, 0.5, 3.0])
    known = index if available is None else index[available[index]]
    blocks.add_product(out, known, coefficients[: len(known)])
    np.testing.assert_allclose(out, 1.0 + coefficients[: len(known)] @ full[known], atol=4 * tolerance)


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("kind", [{"factor": X}, {"matrix": X @ X.T}])
def test_features_and_matrices_have_blocks_too(kind, single):
    blocks, full, index = Space(**kind).blocks(single), X @ X.T, np.array([7, 2, 30])
    np.testing.assert_allclose(
        blocks.among(index), full[np.ix_(index, index)], rtol=1e-5 if single else 1e-12, atol=1e-6
    )
    # Steps between pairs rely on it: never less curved than the kernel.
    assert not single or np.all(np.diagonal(blocks.among(index)) > np.diagonal(full)[index])
    out = np.ones(40)
    blocks.add_product(out, index, np.array([1.0, -2.0, 0.5]))
    np.testing.assert_allclose(out, 1.0 + np.array([1.0, -2.0, 0.5]) @ full[index], atol=1e-12)


def test_single_precision_is_refused_where_it_would_cancel():
    far = 1e4 * X
    blocks = Space(source=KernelRows(Kernel("rbf", gamma=1.0), far)).blocks(single=True)
    np.testing.assert_allclose(blocks.among(np.arange(40)), Kernel("rbf", gamma=1.0)(far), atol=1e-5)


@pytest.mark.parametrize("n", [30, 200])
def test_pivoted_cholesky_leaves_what_it_says(n):
    features = rng.normal(size=(n, 2))
    matrix = Kernel("rbf", gamma=0.1)(features)
    for tol in (0.5, 1e-2, 1e-6):
        L, remainder = pivoted_cholesky(matrix, tol, n)
        left = matrix - L @ L.T
        assert remainder.max() <= tol
        np.testing.assert_allclose(np.diagonal(left), remainder, atol=1e-9)
        assert np.abs(left).max() <= tol + 1e-9
    assert L.shape[1] < n
    L, remainder = pivoted_cholesky(matrix, 0.0, 3)
    assert L.shape == (n, 3)
    assert remainder.max() > 0


def test_full_matrix_fits_or_not():
    assert fits(1024, 8)
    assert not fits(1025, 8)


# ---------------------------------------------------------------- explicit features

WIDE = rng.normal(size=(12, 30))


def feature_spaces():
    gram = make("rbf")(X)
    yield pytest.param(Kernel("linear"), X, None, Kernel("linear")(X), id="features as they are")
    yield pytest.param(Kernel("linear"), sparse.csr_array(X), None, Kernel("linear")(X), id="sparse features")
    yield pytest.param(Kernel("linear"), WIDE, None, Kernel("linear")(WIDE), id="fewer examples than features")
    yield pytest.param(Kernel("linear"), sparse.csr_array(WIDE), None, Kernel("linear")(WIDE), id="sparse and wide")
    yield pytest.param(make("rbf"), X, None, gram, id="exact")
    yield pytest.param(make("rbf"), sparse.csr_array(X), None, gram, id="sparse exact")
    yield pytest.param(Kernel("precomputed"), gram, None, gram, id="precomputed")
    yield pytest.param(make("rbf"), X, 100, gram, id="all landmarks")
    yield pytest.param(Kernel("precomputed"), gram, 100, gram, id="all landmarks precomputed")


@pytest.mark.parametrize(("kernel", "data", "n_components", "expected"), list(feature_spaces()))
def test_inner_products_of_the_features_are_the_kernel(kernel, data, n_components, expected):
    space = FeatureSpace.of(kernel, data, n_components=n_components, random_state=0)
    features = space.values
    np.testing.assert_allclose((features @ features.T + np.zeros_like(expected)), expected, atol=1e-8)
    assert features.shape[1] <= max(data.shape[0], 3)
    # A function by its weights is the function by what an estimator keeps.
    weights = rng.normal(size=features.shape[1])
    kept = space.fitted_attributes(weights)
    new = data[:7]
    values = new @ kept["coef_"] if "coef_" in kept else kernel.expand(new, kept["X_fit_"], kept["dual_coef_"])
    np.testing.assert_allclose(values, features[:7] @ weights, atol=1e-6)
    np.testing.assert_allclose(space.transform(new) @ weights, values, atol=1e-6)


def test_fewer_examples_than_features_need_no_more_coordinates():
    assert FeatureSpace.of(Kernel("linear"), WIDE).values.shape == (12, 12)


def test_beyond_the_limit_the_kernel_is_approximated(monkeypatch):
    monkeypatch.setattr("lupi.kernels.nystroem.EXACT_KERNEL_LIMIT", 39)
    monkeypatch.setattr("lupi.kernels.nystroem.DEFAULT_COMPONENTS", 10)
    space = FeatureSpace.of(make("rbf"), X, random_state=0)
    assert space.rows.shape == (10, 3)
    remainder = K - space.values @ space.values.T
    assert np.linalg.eigvalsh(remainder)[0] > -1e-8
    assert np.abs(remainder).max() > 1e-3
    at = space.transform(space.rows)
    np.testing.assert_allclose(at @ at.T, make("rbf")(space.rows), atol=1e-8)
    np.testing.assert_array_equal(FeatureSpace.of(make("rbf"), X, random_state=0).rows, space.rows)


@pytest.mark.parametrize("n_components", [None, 20])
def test_features_of_an_indefinite_kernel_are_refused(n_components):
    with pytest.raises(ValueError, match="indefinite"):
        FeatureSpace.of(Kernel(lambda a, b: -a @ b.T), X, n_components=n_components)


def test_a_kernel_of_low_rank_gives_few_features():
    features = FeatureSpace.nystroem(Kernel("linear"), X, 20, 0).values
    assert features.shape == (40, 3)
    np.testing.assert_allclose(features @ features.T, X @ X.T, atol=1e-8)
