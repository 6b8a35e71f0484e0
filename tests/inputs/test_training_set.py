"""The input check that every `fit` and `predict` shares."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import validate_data

from lupi import SVM2K, JKSEPlus, RankTransfer, StructuralSVMPlus, SurrogateClassifier, SVM2Plus, SVRPlus
from lupi.inputs.training_set import (
    ArrayRows,
    check_privileged_rows,
    check_rows,
    check_training_set,
    chunkwise,
    side_by_side,
    take_values,
)
from lupi.structured import Chain, Multiclass

rng = np.random.default_rng(0)
X = rng.normal(size=(6, 2))
Z = rng.normal(size=(6, 3))
Y = np.array(["a", "b", "a", "b", "a", "b"])
HOLES = Z.copy()
HOLES[1] = np.nan


def test_zero_weight_rows_are_dropped_everywhere():
    weight = np.array([1.0, 2.0, 0.0, 1.0, 1.0, 1.0])
    data = check_training_set(SVM2Plus(class_weight={"b": 3}), X, Y, HOLES, weight, groups=list("ppqqrr"))
    kept = [0, 1, 3, 4, 5]
    assert data.kept.tolist() == kept
    np.testing.assert_array_equal(data.X.values, X[kept])
    np.testing.assert_array_equal(data.target, [0, 1, 1, 0, 1])
    np.testing.assert_array_equal(data.weight, weight[kept])
    np.testing.assert_array_equal(data.loss_weight, [1, 6, 3, 1, 3])
    assert data.groups.tolist() == [0, 0, 1, 2, 2]
    np.testing.assert_array_equal(data.available, [True, False, True, True, True])
    np.testing.assert_array_equal(data.labels, Y[kept])
    assert data.n_rows == 6


def test_balanced_class_weights_count_sample_weights():
    weight = np.array([3.0, 1.0, 0.0, 1.0, 0.0, 0.0])
    data = check_training_set(SVM2Plus(class_weight="balanced"), X, Y, sample_weight=weight)
    repeated = check_training_set(SVM2Plus(class_weight="balanced"), X[[0, 0, 0, 1, 3]], Y[[0, 0, 0, 1, 3]])
    np.testing.assert_allclose(data.class_weight, repeated.class_weight)


@pytest.mark.parametrize("given", [[Z, HOLES], {"tests": Z, "wages": HOLES}])
def test_several_tables_are_several_blocks(given):
    data = check_training_set(SVM2Plus(lam=[1.0, 2.0] if isinstance(given, list) else 2.0), X, Y, given)
    assert [block.name for block in data.privileged] == list(given if isinstance(given, dict) else range(2))
    assert [block.available.sum() for block in data.privileged] == [6, 5]
    assert data.privileged_columns == tuple((block.name, 3) for block in data.privileged)
    blocks = check_privileged_rows(SVM2Plus(), given, data.privileged_columns)
    assert blocks[1].available.sum() == 5


@pytest.mark.parametrize(
    ("model", "privileged", "message"),
    [
        (SVM2Plus(lam=[1.0, 2.0]), Z, "`lam` has one value per space.*`privileged` is one table"),
        (SVM2Plus(lam=[1.0, 2.0, 3.0]), [Z, Z], "`privileged` has 2 spaces; give 2 values"),
        (SVM2Plus(privileged_gamma={"a": 1.0}), {"b": Z}, r"the spaces of `privileged` are \['b'\]"),
        (SVM2Plus(lam=[1.0, -2.0]), [Z, Z], "'lam' parameter of SVM2Plus must be.*got -2.0 for the space 1"),
        (SVM2Plus(), {"a": Z, "b": None}, "`privileged` has None for the space 'b'"),
        (SVM2Plus(), {}, "`privileged` names no space"),
        (SVM2Plus(), {"a": Z, "b": Z[1:]}, r"^SVM2Plus: `privileged\['b'\]` has 5 rows, but `X` has 6 examples"),
        (SVM2Plus(), np.ma.masked_less(Z, 0.0), r"`privileged` is a masked array; pass privileged.filled"),
        (SVM2Plus(), Z * 1e70, r"`privileged` has values as large as"),
        (SVM2Plus(), pd.DataFrame(Z)[::-1], r"`privileged` has the rows of `X` in another order"),
        (SVM2Plus(privileged_kernel="precomputed"), Z, r"has shape \(6, 3\), but .* must be square: \(6, 6\)"),
    ],
)
def test_messages_for_privileged(model, privileged, message):
    with pytest.raises(ValueError, match=message):
        check_training_set(model, pd.DataFrame(X), Y, privileged)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": np.ma.masked_less(X, 0.0)}, "`X` is a masked array"),
        ({"y": np.ma.masked_equal(np.arange(6), 3)}, "`y` is a masked array"),
        ({"X": X * 1e70}, "`X` has values as large as"),
        ({"y": Y[:5]}, "inconsistent numbers of samples"),
        ({"y": None}, "requires y to be passed, but the target y is None"),
        ({"y": ["a", "b", None, "b", "a", "b"]}, "Input y contains NaN in row 2"),
        ({"y": ["a"] * 6}, "needs at least two classes"),
        ({"sample_weight": (Y == "a").astype(float)}, "every example of class .*'b'.* has `sample_weight` 0"),
        ({"groups": [1, 2]}, r"`groups` has shape \(2,\), expected \(6,\)"),
    ],
)
def test_messages_for_the_rest(arguments, message):
    with pytest.raises(ValueError, match=message):
        check_training_set(SVM2Plus(), **{"X": X, "y": Y} | arguments)


def test_a_matrix_of_a_dictionary_of_keys_is_one_table():
    Z_dok = sparse.dok_matrix(Z)
    data = check_training_set(SVM2Plus(), X, Y, Z_dok)
    np.testing.assert_array_equal(data.privileged[0].rows.values.toarray(), Z)


def test_kernel_matrices_lose_rows_and_columns():
    K, L = X @ X.T, Z @ Z.T
    L[1] = L[0, 1] = np.nan
    weight = np.array([1.0, 1.0, 0.0, 1.0, 1.0, 1.0])
    data = check_training_set(SVM2Plus(kernel="precomputed", privileged_kernel="precomputed"), K, Y, L, weight)
    kept = np.ix_(data.kept, data.kept)
    np.testing.assert_array_equal(data.X.values, K[kept])
    expected = np.where(np.isnan(L) | (np.arange(6) == 1), 0.0, L)[kept]
    np.testing.assert_array_equal(data.privileged[0].rows.values, expected)
    with pytest.raises(ValueError, match="needs a square matrix"):
        check_training_set(SVM2Plus(kernel="precomputed"), X, Y)
    with pytest.raises(ValueError, match="needs a dense matrix"):
        check_training_set(SVM2Plus(kernel="precomputed"), sparse.csr_array(K), Y)


def test_single_precision_on_request():
    model, single = SVM2Plus(kernel="linear"), X.astype(np.float32)
    assert check_training_set(model, single, Y).X.values.dtype == np.float64
    data = check_training_set(model, single, Y, Z.astype(np.float32), single=True)
    assert data.X.values.dtype == data.privileged[0].rows.values.dtype == np.float32


def test_unlabeled_rows():
    y = ["a", None, "b", np.nan, "a", "b"]
    with pytest.warns(UserWarning, match="1 rows have neither a label nor privileged features and are dropped"):
        data = check_training_set(SurrogateClassifier(), X, y, HOLES)
    assert data.kept.tolist() == [0, 2, 3, 4, 5]
    assert data.target.tolist() == [0, 1, -1, 0, 1]
    assert data.labeled.tolist() == [True, True, False, True, True]
    grades = [1, -1, 0, 1, 0, -1]
    with pytest.warns(UserWarning, match="If -1 marks unlabeled rows, pass unlabeled=-1"):
        check_training_set(RankTransfer(), X, grades, Z, target="grades")
    data = check_training_set(RankTransfer(unlabeled=-1), X, grades, Z, target="grades")
    np.testing.assert_array_equal(data.target, [1, np.nan, 0, 1, 0, np.nan])
    with pytest.raises(ValueError, match="numeric grades, higher = ranked higher"):
        check_training_set(RankTransfer(), X, Y, target="grades")
    with pytest.raises(ValueError, match="every example with a label has `sample_weight` 0"):
        check_training_set(SurrogateClassifier(), X, y, Z, [0, 1, 0, 1, 0, 0])


def test_numbers_and_no_target():
    data = check_training_set(
        SVRPlus(), X, ["1", "2.5", "3", "4", "5", "6"], sparse.csr_array(Z), dense_privileged=True
    )
    assert data.target.tolist() == [1.0, 2.5, 3.0, 4.0, 5.0, 6.0]
    assert isinstance(data.privileged[0].rows.values, np.ndarray)
    assert check_training_set(SVM2Plus(), X, None, target="none").labeled.all()


def test_column_names_are_set_and_forgotten():
    model, frame = SVM2Plus(), pd.DataFrame(X, columns=["a", "b"])
    data = check_training_set(model, frame, Y, sample_weight=[1, 1, 0, 1, 1, 1])
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert data.table().columns.tolist() == ["a", "b"]
    assert len(data.table()) == 5
    other = SVM2K()
    data.set_columns(other)
    assert other.n_features_in_ == 2
    assert other.feature_names_in_.tolist() == ["a", "b"]
    check_training_set(model, X, Y)
    assert not hasattr(model, "feature_names_in_")


def test_duplicate_entries_of_sparse_rows_are_summed_in_a_copy():
    given = sparse.csr_matrix((np.ones(3), [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    data = check_training_set(SVM2Plus(), given, ["a", "b"])
    assert data.X.values.toarray().tolist() == [[2.0, 0.0], [0.0, 1.0]]
    assert data.X.values.nnz == 2
    assert check_rows(Fitted().fit(X, Y), given).data.tolist() == [2.0, 1.0]
    assert given.nnz == 3


# ---------------------------------------------------------------- structured tasks


def test_pandas_objects_are_read_by_position():
    frame = pd.DataFrame(X, index=[5, 4, 3, 2, 1, 0])
    labels = pd.Series([0, 1, 0, 1, 0, 1], index=frame.index)
    data = check_training_set(
        StructuralSVMPlus(Multiclass(2, 2)), frame, labels, target="outputs", task=Multiclass(2, 2)
    )
    np.testing.assert_array_equal(data.X.values, X)
    assert [data.target[i] for i in range(6)] == [0, 1, 0, 1, 0, 1]
    task = Chain(2, 3)
    inputs = [rng.normal(size=(2, 3)) for _ in range(3)]
    outputs = pd.Series([np.array([0, 1])] * 3, index=[2, 1, 0])
    privileged = pd.Series([inputs[0], None, inputs[2]], index=[2, 1, 0])
    data = check_training_set(
        StructuralSVMPlus(task), pd.Series(inputs, index=[2, 1, 0]), outputs, privileged,
        target="outputs", task=task, privileged_task=task,
    )  # fmt: skip
    assert all(data.X.values[i] is inputs[i] for i in range(3))
    assert data.privileged[0].available.tolist() == [True, False, True]
    assert data.privileged[0].rows.values[0] is inputs[0]
    assert data.take(np.array([2])).privileged[0].rows.values[0] is inputs[2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": sparse.csr_matrix(X)}, "`X` is a sparse matrix"),
        ({"X": np.where(X[2, 0] == X, np.nan, X)}, "`X` contains NaN or infinity"),
        ({"X": 7}, "`X` has 0 dimensions"),
        ({"y": [0, 1]}, "`X` has 6 examples and `Y` has 2"),
        ({"privileged": Z[:4]}, "`privileged` has 4 rows, but `X` has 6 examples"),
        ({"privileged": {"p": Z, "q": Z[1:]}}, r"`privileged\['q'\]` has 5 rows"),
    ],
)
def test_messages_of_structured_tasks(change, message):
    given = {"X": X, "y": [0, 1, 0, 1, 0, 1]} | change
    task, other = Multiclass(2, 2), Multiclass(2, 3)
    with pytest.raises(ValueError, match=message):
        check_training_set(StructuralSVMPlus(task, other), **given, target="outputs", task=task, privileged_task=other)


def test_spaces_of_tasks_and_of_tables():
    task, labels = Multiclass(2, 2), [0, 1, 0, 1, 0, 1]
    tasks = {"p": Multiclass(2, 3), "q": None}
    model = JKSEPlus(task, privileged_task=tasks)
    data = check_training_set(
        model, X, labels, {"p": Z, "q": HOLES}, target="outputs", task=task, privileged_task=tasks
    )
    assert [(block.name, block.available.sum()) for block in data.privileged] == [("p", 6), ("q", 5)]
    with pytest.raises(
        ValueError, match=r"`privileged_task` has one value per space.*the spaces of `privileged` are \['p'\]"
    ):
        check_training_set(model, X, labels, {"p": Z}, target="outputs", task=task, privileged_task=tasks)
    with pytest.raises(ValueError, match="`privileged` must be a list or dict with the inputs of each space"):
        check_training_set(model, X, labels, Z, target="outputs", task=task, privileged_task=tasks)
    # A list of inputs that are tables themselves is one space, unless parameters have one value per space.
    chain, inputs = Chain(2, 3), [rng.normal(size=(2, 3)) for _ in range(3)]
    outputs = [np.array([0, 1])] * 3
    for lam, given, n_blocks in ((1.0, inputs, 1), ([1.0, 2.0], [inputs, inputs], 2)):
        data = check_training_set(
            StructuralSVMPlus(chain, lam=lam),
            inputs,
            outputs,
            given,
            target="outputs",
            task=chain,
            privileged_task=chain,
        )
        assert len(data.privileged) == n_blocks


# ---------------------------------------------------------------- predict


class Fitted(LogisticRegression):
    def fit(self, X, y):
        validate_data(self, X)
        self.coef_ = 0
        return self


def test_rows_of_predict():
    with pytest.raises(NotFittedError):
        check_rows(LogisticRegression(), X)
    model = Fitted().fit(X, Y)
    assert check_rows(model, sparse.csc_array(X.astype(np.float32))).format == "csr"
    with pytest.raises(ValueError, match="X has 3 features, but Fitted is expecting 2"):
        check_rows(model, Z)
    with pytest.raises(ValueError, match="`X` contains NaN"):
        check_rows(model, np.full((2, 2), np.nan), task=Multiclass(2, 2))
    np.testing.assert_array_equal(check_rows(model, pd.DataFrame(X, columns=["a", "b"]), task=Multiclass(2, 2)), X)


def test_new_privileged_rows():
    model, columns = SVM2Plus(), ((None, 3),)
    (block,) = check_privileged_rows(model, HOLES, columns)
    assert block.available.sum() == 5
    with pytest.raises(ValueError, match="`privileged` has 2 features, but SVM2Plus was fitted with 3"):
        check_privileged_rows(model, X, columns)
    with pytest.raises(ValueError, match=r"the spaces of `privileged` were \[None\] in fit, and are \[0, 1\] here"):
        check_privileged_rows(model, [Z, Z], columns)


# ---------------------------------------------------------------- rows


@pytest.mark.parametrize("values", [Z, sparse.csr_array(np.where(Z > 0, Z, 0.0)), Z.astype(np.float32)])
def test_rows_in_memory(values):
    rows = ArrayRows(values)
    dense = values.toarray() if sparse.issparse(values) else values
    joined = side_by_side([rows, ArrayRows(X)], [1.0, 0.5])
    np.testing.assert_allclose(joined.values @ np.ones(5), dense.sum(axis=1) + 0.5 * X.sum(axis=1), rtol=1e-6)
    first, second = take_values(rows.operand, None, np.array([1, 3]))
    np.testing.assert_array_equal(first @ np.eye(3), dense[[1, 3]])
    assert second is None
    np.testing.assert_array_equal(rows.load(np.array([3, 1])) @ np.eye(3), dense[[3, 1]])
    assert rows.take(np.arange(6)) is rows
    V, weight = rng.normal(size=(6, 2)), np.arange(6.0)
    np.testing.assert_allclose(rows.times(np.eye(3)[:, :2]), dense[:, :2])
    np.testing.assert_allclose(rows.transposed_times(V), dense.T @ V)
    np.testing.assert_allclose(rows.transposed_times(V[:, 0]), dense.T @ V[:, 0])
    np.testing.assert_allclose(rows.gram(weight), dense.T @ (weight[:, None] * dense))


def test_chunkwise_functions_accept_arrays_and_rows():
    @chunkwise("concatenate")
    def row_sums(data, shift):
        return data.sum(axis=1) + shift

    np.testing.assert_array_equal(row_sums(Z, 1.0), row_sums(ArrayRows(Z).operand, 1.0))
