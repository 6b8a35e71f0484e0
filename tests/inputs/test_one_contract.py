"""Every estimator that takes `privileged` reads it in the same way and refuses it in the same words."""

import inspect

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import lupi
from lupi import (
    SVM2K,
    Distillation,
    JKSEPlus,
    KnowledgeTransfer,
    OneClassSVMPlus,
    RankTransfer,
    RankTransferCV,
    StructuralSVMPlus,
    SurrogateClassifier,
    SurrogateRegressor,
    SVM2Plus,
    SVMPlus,
    SVRPlus,
)
from lupi.inputs.training_set import check_training_set
from lupi.structured import Chain, Multiclass

rng = np.random.default_rng(0)
N = 24
Y = np.arange(N) % 2
X = rng.normal(size=(N, 3)) + Y[:, None]
Z = rng.normal(size=(N, 2)) + 2 * Y[:, None]
HOLES = Z.copy()
HOLES[[3, 10, 17]] = np.nan
LABELS = rng.permutation(N) + 100

ESTIMATORS = {
    "SVMPlus": SVMPlus,
    "SVM2Plus": SVM2Plus,
    "SVM2K": SVM2K,
    "SVRPlus": SVRPlus,
    "OneClassSVMPlus": OneClassSVMPlus,
    "RankTransfer": lambda: RankTransfer(0.1),
    "RankTransferCV": lambda: RankTransferCV([0.1], [0.1, 1.0], cv=2),
    "JKSEPlus": lambda: JKSEPlus(Multiclass(2, 3), kernel="rbf", privileged_kernel="rbf"),
    "JKSEPlus with a task": lambda: JKSEPlus(
        Multiclass(2, 3), privileged_task=Multiclass(2, 2), kernel="rbf", privileged_kernel="rbf"
    ),
    "StructuralSVMPlus": lambda: StructuralSVMPlus(Multiclass(2, 3), Multiclass(2, 2), random_state=0),
    "Distillation": lambda: Distillation(LogisticRegression()),
    "KnowledgeTransfer": lambda: KnowledgeTransfer(LogisticRegression(), random_state=0),
    "SurrogateClassifier": lambda: SurrogateClassifier("ridge"),
    "SurrogateRegressor": lambda: SurrogateRegressor("ridge"),
}


frame = pd.DataFrame(Z, columns=["a", "b"], index=LABELS)
SAME_AS_DENSE = {
    "list": lambda z: z.tolist(),
    "Fortran order": np.asfortranarray,
    "object": lambda z: z.astype(object),
    "sparse": sparse.csr_matrix,
    "sparse columns": sparse.csc_array,
    "pandas": lambda z: pd.DataFrame(z, columns=["a", "b"], index=LABELS),
    "pandas, nullable": lambda z: pd.DataFrame(z, columns=["a", "b"], index=LABELS).convert_dtypes(),
    "pandas, other labels": lambda z: pd.DataFrame(z, columns=["a", "b"]),
    "polars": lambda z: pl.DataFrame(z, schema=["a", "b"]),
}

REFUSED = {
    "too few rows": (Z[1:], "has 23 rows, but `X` has 24 examples"),
    "too few sparse rows": (sparse.csr_matrix(Z[1:]), "has 23 rows, but `X` has 24 examples"),
    "one dimension": (Z[:, 0], r"is 1-dimensional, .*reshape\(-1, 1\)"),
    "column of a frame": (frame["a"], r"is 1-dimensional, .*to_frame\(\)"),
    "three dimensions": (Z[:, :, None], "has 3 dimensions"),
    "words": (np.array([["good", "bad"]] * N), "must hold real numbers, but has dtype <U4"),
    "words in a frame": (pl.DataFrame({"a": ["good"] * N}), "has the non-numeric column 'a'"),
    "dates": (pd.DataFrame({"a": pd.to_datetime(["2020-01-01"] * N)}), "has the non-numeric column 'a'"),
    "NaN in part": (np.where(np.arange(2 * N).reshape(N, 2) == 5, np.nan, Z), "is NaN in part: row 2 has 1 NaN"),
    "sparse NaN in part": (
        sparse.csr_matrix(np.where(np.arange(2 * N).reshape(N, 2) == 5, np.nan, Z)),
        "is NaN in part: row 2 has 1 NaN",
    ),
    "infinite": (np.where(np.arange(2 * N).reshape(N, 2) == 5, np.inf, Z), "has an infinite value in row 2"),
    "no columns": (np.empty((N, 0)), "has no columns"),
    "ragged": ([[1.0, 2.0]] * (N - 1) + [[1.0]], "its rows differ in length"),
    "another order": (frame.sort_index(), r"has the rows of `X` in another order: .* privileged.loc\[X.index\]"),
}


def scores(model):
    return getattr(model, "decision_function", model.predict)(X)


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_same_words_from_every_estimator(name, case):
    given, words = REFUSED[case]
    decision = pd.DataFrame(X, index=LABELS)
    with pytest.raises(ValueError, match=words):
        ESTIMATORS[name]().fit(decision, Y, privileged=given)


@pytest.mark.parametrize("values", [Z, HOLES], ids=["complete", "with missing rows"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_same_model_from_every_container(name, values):
    expected = scores(ESTIMATORS[name]().fit(X, Y, privileged=values))
    decision = pd.DataFrame(X, index=LABELS)
    for container, convert in SAME_AS_DENSE.items():
        model = ESTIMATORS[name]().fit(decision, Y, privileged=convert(values))
        np.testing.assert_allclose(scores(model), expected, rtol=1e-7, atol=1e-9, err_msg=container)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_shuffled_table_aligned_as_the_message_says(name):
    decision = pd.DataFrame(X, index=LABELS)
    aligned = frame.sort_index().loc[decision.index]
    expected = ESTIMATORS[name]().fit(X, Y, privileged=Z)
    found = ESTIMATORS[name]().fit(decision, Y, privileged=aligned)
    np.testing.assert_allclose(scores(found), scores(expected), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_no_row_available_is_the_plain_counterpart(name):
    plain = ESTIMATORS[name]().fit(X, Y)
    for nothing in (np.full((N, 2), np.nan), sparse.csr_matrix(np.full((N, 2), np.nan))):
        model = ESTIMATORS[name]().fit(X, Y, privileged=nothing)
        np.testing.assert_allclose(scores(model), scores(plain), rtol=1e-7, atol=1e-9)


def test_every_estimator_with_privileged_features_is_in_the_contract():
    kinds = {getattr(lupi, name) for name in lupi.__all__ if inspect.isclass(getattr(lupi, name))}
    takes = {kind.__name__ for kind in kinds if "privileged" in inspect.signature(kind.fit).parameters}
    assert takes == {name.split()[0] for name in ESTIMATORS}


def test_labels_that_are_not_those_of_x_match_by_position():
    other = frame.set_axis(np.arange(N) + 1000)
    assert check_training_set(SVM2Plus(), pd.DataFrame(X, index=LABELS), Y, other).available.all()
    assert check_training_set(SVM2Plus(), X, Y, frame.sort_index()).available.all()


def test_sequences():
    task = Chain(2, 3)
    inputs = [rng.normal(size=(2, 3)) for _ in range(4)]
    outputs = [np.array([0, 1])] * 4
    for wrong, message in (
        (inputs[:3], "StructuralSVMPlus: `privileged` has 3 inputs, but `X` has 4 examples"),
        (7, "StructuralSVMPlus: `privileged` must be a sequence with one entry for each example; got 7"),
        ({"a": inputs[:3]}, r"StructuralSVMPlus: `privileged\['a'\]` has 3 inputs, but `X` has 4 examples"),
        ({}, "StructuralSVMPlus: `privileged` names no space"),
        ([None, *inputs[:2], np.ones((2, 2))], r"`privileged` does not fit the privileged task: X\[2\] must have"),
    ):
        with pytest.raises(ValueError, match=message):
            StructuralSVMPlus(task).fit(inputs, outputs, privileged=wrong)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (None, []),
        (Z, [None]),
        (Z.tolist(), [None]),
        (frame, [None]),
        ([Z, HOLES], [0, 1]),
        ((sparse.csr_matrix(Z), frame), [0, 1]),
        ([Z.tolist(), HOLES], [0, 1]),
        ({"tests": frame, "wages": HOLES}, ["tests", "wages"]),
    ],
)
def test_one_or_several_spaces(given, names):
    blocks = check_training_set(SVM2Plus(), X, Y, given).privileged
    assert [block.name for block in blocks] == names
    for block in blocks:
        values = block.rows.values.toarray() if sparse.issparse(block.rows.values) else block.rows.values
        np.testing.assert_array_equal(values, np.where(block.available[:, None], Z, 0.0))
        assert block.available.sum() in (N, N - 3)
    if "tests" in names:
        assert blocks[0].feature_names.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tests": Z, "wages": Z[1:]}, r"^SVM2Plus: `privileged\['wages'\]` has 23 rows"),
        ([Z, Z[:, 0]], r"^SVM2Plus: `privileged\[1\]` is 1-dimensional"),
        ({}, "`privileged` names no space"),
        ({"tests": Z, "wages": None}, "`privileged` has None for the space 'wages'"),
        ([frame, frame.sort_index()], r"`privileged\[1\]` has the rows of `X` in another order"),
    ],
)
def test_messages_for_spaces(given, message):
    with pytest.raises(ValueError, match=message):
        check_training_set(SVM2Plus(), frame, Y, given)


@pytest.mark.parametrize(
    "ids", [["b", "a", "b"], ["a", 1, "a"], [7, 2, 7], pd.Series(["b", "a", "b"]), [["b"], ["a"], ["b"]], [1.5, 0, 1.5]]
)
def test_group_ids_become_numbers(ids):
    assert check_training_set(SVM2Plus(), X[:3], Y[:3], groups=ids).groups.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1, 2], r"`groups` has shape \(2,\), expected \(3,\)"),
        ([["a", "b"]] * 3, r"`groups` has shape \(3, 2\), expected \(3,\)"),
        ([1.0, np.nan, 2.0], "`groups` has no id for example 1"),
        (["a", "b", None], "`groups` has no id for example 2"),
    ],
)
def test_messages_for_group_ids(ids, message):
    with pytest.raises(ValueError, match=message):
        check_training_set(SVM2Plus(), X[:3], Y[:3], groups=ids)
