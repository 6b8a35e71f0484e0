import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.svm import SVC

from lupi.inputs.training_set import check_training_set, read_block

Z = np.array([[1.0, 2.0], [3.0, 0.0], [0.0, 6.0]])
Z_MISSING = np.array([[1.0, 2.0], [np.nan, np.nan], [0.0, 6.0]])
X = np.arange(8.0).reshape(4, 2)
Y = np.array([0, 1, 0, 1])


def check_classification_input(estimator, X, y, sample_weight=None):
    data = check_training_set(estimator, X, y, sample_weight=sample_weight)
    return data.X.values, data.target, data.classes, data.weight


class check_privileged:
    """A checked privileged table."""

    def __init__(self, table, n_rows, estimator_name="SVMPlus", precomputed=False, accept_sparse=True):
        block = read_block(estimator_name, None, table, n_rows, None, square=precomputed, dense=not accept_sparse)
        self.data, self.available, self.feature_names = block.rows.values, block.available, block.feature_names


def dense(data):
    return data.toarray() if sparse.issparse(data) else data


# ---------------------------------------------------------------- privileged: what is accepted


@pytest.mark.parametrize(
    "convert",
    [
        np.asarray,
        np.asfortranarray,
        lambda z: z.tolist(),
        lambda z: z.astype(object),
        sparse.csr_matrix,
        sparse.csc_array,
        sparse.coo_array,
        lambda z: pd.DataFrame(z, columns=["a", "b"]),
        lambda z: pl.DataFrame(z, schema=["a", "b"]),
    ],
)
@pytest.mark.parametrize("values", [Z, Z_MISSING])
def test_containers_give_the_same_result(convert, values):
    checked = check_privileged(convert(values), 3)
    missing = np.isnan(values).any(axis=1)
    np.testing.assert_array_equal(dense(checked.data), np.nan_to_num(values))
    np.testing.assert_array_equal(checked.available, ~missing)
    assert checked.data.dtype == np.float64
    assert checked.available.dtype == bool
    if sparse.issparse(checked.data):
        assert checked.data.format == "csr"
        assert checked.data.has_canonical_format
    else:
        assert checked.data.flags.c_contiguous


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, bool])
def test_numeric_dtypes_become_float64(dtype):
    checked = check_privileged(Z.astype(dtype), 3)
    assert checked.data.dtype == np.float64
    np.testing.assert_array_equal(checked.data, Z.astype(dtype))


def test_nullable_frames_use_null_as_missing():
    frame = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": pd.array([True, None], dtype="boolean")})
    polars_frame = pl.DataFrame({"a": [1, None], "b": [True, None]})
    for table in (frame, polars_frame):
        checked = check_privileged(table, 2)
        np.testing.assert_array_equal(checked.data, [[1, 1], [0, 0]])
        np.testing.assert_array_equal(checked.available, [True, False])


def test_feature_names():
    assert check_privileged(pd.DataFrame(Z, columns=["a", "b"]), 3).feature_names.tolist() == ["a", "b"]
    assert check_privileged(pl.DataFrame(Z, schema=["a", "b"]), 3).feature_names.tolist() == ["a", "b"]
    assert check_privileged(pd.DataFrame(Z), 3).feature_names is None
    assert check_privileged(Z, 3).feature_names is None


def test_all_rows_may_be_missing():
    for values in (np.full((3, 2), np.nan), sparse.csr_matrix(np.full((3, 2), np.nan))):
        checked = check_privileged(values, 3)
        assert not checked.available.any()
        np.testing.assert_array_equal(dense(checked.data), np.zeros((3, 2)))


@pytest.mark.parametrize("convert", [np.array, sparse.csr_matrix])
def test_the_callers_data_is_not_changed(convert):
    values = convert(Z_MISSING)
    check_privileged(values, 3)
    np.testing.assert_array_equal(dense(values), Z_MISSING)


def test_duplicate_sparse_entries_are_summed_in_a_copy():
    values = sparse.csr_matrix((np.array([1.0, 2.0]), np.array([0, 0]), np.array([0, 2])), shape=(1, 1))
    checked = check_privileged(values, 1).data
    assert checked.data.tolist() == [3.0]
    assert values.nnz == 2


def test_nothing_is_copied_without_need():
    assert np.shares_memory(check_privileged(Z, 3).data, Z)
    gram = Z @ Z.T
    assert np.shares_memory(check_privileged(gram, 3, precomputed=True).data, gram)


def test_precomputed_ignores_row_and_column_of_missing_examples():
    gram = Z @ Z.T
    gram[1] = np.nan
    gram[0, 1] = np.nan
    gram[2, 1] = np.inf
    checked = check_privileged(gram, 3, precomputed=True)
    expected = np.array([[5.0, 0, 12], [0, 0, 0], [12, 0, 36]])
    np.testing.assert_array_equal(checked.data, expected)
    np.testing.assert_array_equal(checked.available, [True, False, True])
    np.testing.assert_array_equal(
        check_privileged(sparse.csr_matrix(expected), 3, precomputed=True).data,
        expected,
    )


# ---------------------------------------------------------------- privileged: what is refused


@pytest.mark.parametrize(
    ("privileged", "message"),
    [
        (Z[:2], r"has 2 rows, but `X` has 3 examples"),
        (sparse.csr_matrix(Z[:2]), r"has 2 rows, but `X` has 3 examples"),
        (Z[:, 0], r"1-dimensional.*reshape\(-1, 1\)"),
        pytest.param(
            sparse.coo_array(Z[:, 0]),
            r"1-dimensional.*reshape\(-1, 1\)",
            marks=pytest.mark.skipif(
                sparse.coo_array(Z[:, 0]).ndim == 2, reason="sparse arrays of SciPy 1.12 have two dimensions"
            ),
        ),
        (Z[:, :, None], r"has 3 dimensions, expected 2"),
        (3.0, r"has 0 dimensions, expected 2"),
        ({"view": Z}, r"is a dict; pass one table"),
        (pd.Series(Z[:, 0]), r"1-dimensional.*to_frame\(\)"),
        ([[1.0], [1.0, 2.0], [1.0]], r"rows differ in length"),
        (Z.astype(str), r"must hold real numbers, but has dtype <U32"),
        ([["1", 2.0]] * 3, r"must hold real numbers, but has dtype <U"),
        (
            np.array([["1", 2.0]] * 3, dtype=object),
            r"has text in it; encode it as numbers, or fit lupi.tabular_model\(estimator\)",
        ),
        (np.array([[object(), 2.0]] * 3, dtype=object), r"does not convert to numbers"),
        (Z.astype(complex), r"must hold real numbers, but has dtype complex128"),
        (sparse.csr_matrix(Z.astype(complex)), r"must hold real numbers, but has dtype complex128"),
        (Z.astype("datetime64[s]"), r"must hold real numbers, but has dtype datetime64"),
        (pd.DataFrame({"a": ["x", "y", "z"]}), r"lupi.tabular_model\(estimator\) to the data frame"),
        (pd.DataFrame({"a": pd.to_datetime(["2020-01-01"] * 3)}), r"non-numeric column 'a' \(dtype datetime64"),
        (pl.DataFrame({"a": ["x", "y", "z"]}), r"non-numeric column 'a' \(dtype String\)"),
        (np.array([[1.0, np.inf], [2, 3], [4, 5]]), r"infinite value in row 0"),
        (sparse.csr_matrix([[0.0, 1], [2, -np.inf], [4, 5]]), r"infinite value in row 1"),
        (np.array([[1.0, 1], [2, np.nan], [4, 5]]), r"row 1 has 1 NaN in its 2 columns.*whole row.*impute"),
        (sparse.csr_matrix([[0.0, 1], [2, 3], [0, np.nan]]), r"row 2 has 1 NaN in its 2 columns.*whole row.*impute"),
        (np.empty((3, 0)), r"has no columns"),
        (pd.DataFrame(index=range(3)), r"has no columns"),
    ],
)
def test_messages_for_privileged(privileged, message):
    with pytest.raises(ValueError, match=r"^SVMPlus: `privileged` .*" + message):
        check_privileged(privileged, 3, estimator_name="SVMPlus")


def test_sparse_becomes_dense_on_request():
    checked = check_privileged(sparse.csr_matrix(Z_MISSING), 3, accept_sparse=False)
    np.testing.assert_array_equal(checked.data, np.nan_to_num(Z_MISSING))
    np.testing.assert_array_equal(checked.available, [True, False, True])


def test_messages_for_precomputed():
    with pytest.raises(ValueError, match=r"`privileged` has shape \(3, 2\).*square: \(3, 3\)"):
        check_privileged(Z, 3, precomputed=True)
    gram = Z @ Z.T
    gram[0, 1] = np.nan
    with pytest.raises(ValueError, match=r"`privileged` is NaN in part: row 0 has 1 NaN in its 3 columns"):
        check_privileged(gram, 3, precomputed=True)
    gram[0, 1] = np.inf
    with pytest.raises(ValueError, match=r"`privileged` has an infinite value in row 0"):
        check_privileged(gram, 3, precomputed=True)


# ---------------------------------------------------------------- X, y and weights


@pytest.mark.parametrize(
    "convert",
    [
        np.asfortranarray,
        lambda x: x.tolist(),
        lambda x: x.astype(np.float32),
        sparse.csc_matrix,
        lambda x: pd.DataFrame(x, columns=["a", "b"]),
        lambda x: pl.DataFrame(x, schema=["a", "b"]),
    ],
)
def test_classification_input(convert):
    estimator = SVC()
    checked_X, y, classes, weight = check_classification_input(estimator, convert(X), ["u", "v", "u", "w"])
    np.testing.assert_array_equal(dense(checked_X), X)
    assert checked_X.dtype == np.float64
    assert checked_X.format == "csr" if sparse.issparse(checked_X) else checked_X.flags.c_contiguous
    np.testing.assert_array_equal(y, [0, 1, 0, 2])
    assert y.dtype == np.int64
    assert classes.tolist() == ["u", "v", "w"]
    np.testing.assert_array_equal(weight, np.ones(4))
    assert estimator.n_features_in_ == 2


@pytest.mark.parametrize(
    ("X", "y", "sample_weight", "message"),
    [
        (X, [1] * 4, None, r"SVC needs at least two classes, but `y` has only one class: .*1"),
        (X, [0.5, 1.5, 0.25, 2.5], None, r"Unknown label type: continuous"),
        (X, Y[:3], None, r"inconsistent numbers of samples: \[4, 3\]"),
        (X, None, None, r"requires y to be passed, but the target y is None"),
        (X, [0, 1, np.nan, 1], None, r"Input y contains NaN"),
        (X[0], Y, None, r"Expected 2D array, got 1D array"),
        (X[:0], Y[:0], None, r"Found array with 0 sample\(s\)"),
        (X[:, :0], Y, None, r"Found array with 0 feature\(s\)"),
        (np.where(X == 3, np.nan, X), Y, None, r"Input X contains NaN"),
        (np.where(X == 3, np.inf, X), Y, None, r"Input X contains infinity"),
        (X.astype(complex), Y, None, r"Complex data not supported"),
        (X, Y, [1, 1, 1, -0.5], r"SVC: `sample_weight` has negative values \(the smallest is -0.5\)"),
        (X, Y, np.zeros(4), r"`sample_weight` is zero for every example"),
        (X, Y, np.ones(5), r"`sample_weight` has shape \(5,\), expected \(4,\)"),
        (X, Y, np.ones((4, 1)), r"`sample_weight` has shape \(4, 1\), expected \(4,\)"),
        (X, Y, [1, np.nan, 1, 1], r"sample_weight contains NaN"),
        (X, Y, Y, r"every example of class .*0.* has `sample_weight` 0"),
    ],
)
def test_messages_for_classification_input(X, y, sample_weight, message):
    with pytest.raises(ValueError, match=message):
        check_classification_input(SVC(), X, y, sample_weight)


def test_sample_weight_may_be_a_number():
    np.testing.assert_array_equal(check_classification_input(SVC(), X, Y, 2)[3], [2.0, 2.0, 2.0, 2.0])


def test_class_weight():
    def weigh(class_weight):
        labels = np.array(["a", "a", "a", "b"])
        return check_training_set(SVC(class_weight=class_weight), X, labels).class_weight

    np.testing.assert_array_equal(weigh(None), [1, 1])
    np.testing.assert_allclose(weigh("balanced"), [4 / 6, 2])
    np.testing.assert_array_equal(weigh({"b": 3, "a": 0.5}), [0.5, 3])
    with pytest.raises(ValueError, match=r"`class_weight` of class .*b.* is -1; class weights must be positive"):
        weigh({"b": -1})
    with pytest.raises(ValueError, match=r"`class_weight` of class .*b.* is 0; class weights must be positive"):
        weigh({"b": 0})
    with pytest.raises(ValueError, match=r"not in class_weight"):
        weigh({"c": 1, "d": 2, "e": 3})
