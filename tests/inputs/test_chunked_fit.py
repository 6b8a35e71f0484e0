"""Training on Dask chunks: the weights of training in memory, and clear words where the chunks do not fit together."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from lupi import (
    Distillation,
    KnowledgeTransfer,
    RankSVM,
    RankTransfer,
    SurrogateClassifier,
    SurrogateRegressor,
    SVM2Plus,
    SVMPlus,
)
from lupi.inputs import dask_rows
from lupi.svm.paths import fit_path

dask = pytest.importorskip("dask", reason='Dask is not installed: pip install "lupi[dask]"')
da = pytest.importorskip("dask.array")

N, CHUNK = 5400, 1200


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 5))
    Z = X[:, :3] + 0.3 * rng.normal(size=(N, 3))
    y = np.digitize(Z.sum(axis=1) + rng.normal(size=N), [-1.0, 1.0])
    Z[::7] = np.nan
    return X, y, Z, rng.integers(0, 3, N).astype(float)


def chunked(array, size=CHUNK):
    return da.from_array(array, chunks=(size, *(2,) * (array.ndim - 1)))


def assert_same_model(first, second):
    for name in ("coef_", "intercept_", "privileged_coef_", "privileged_intercept_"):
        np.testing.assert_allclose(getattr(first, name), getattr(second, name), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(first.classes_, second.classes_)
    np.testing.assert_array_equal(first.support_, second.support_)
    assert abs(first.dual_gap_ - second.dual_gap_) < 1e-9


@pytest.mark.parametrize(
    ("model", "gathered"),
    [
        (SVMPlus(C=0.1, correction="labeled"), 0.25),
        (SVM2Plus(correction="labeled"), 0.25),
        (SVM2Plus(correction="labeled"), 0.0),
        (SVM2Plus(class_weight="balanced"), 0.0),
    ],
    ids=["hinges", "squared", "squared, views", "slack, views"],
)
def test_weights_are_those_of_memory(model, gathered, data, monkeypatch):
    X, y, Z, weight = data
    binary = (y > 0).astype(int)
    monkeypatch.setattr(dask_rows, "GATHERED", gathered)
    model = clone(model).set_params(kernel="linear", privileged_kernel="linear")
    here = clone(model).fit(X, binary, privileged=Z, sample_weight=weight + 1)
    # Vectors may have other chunks.
    there = model.fit(chunked(X), chunked(binary, 1000), privileged=chunked(Z), sample_weight=chunked(weight + 1))
    assert_same_model(here, there)
    assert there.decision_function(X[:3]).shape == (3,)


def test_three_classes_single_precision_and_rows_without_weight(data):
    X, y, Z, weight = data
    X, labels = X.astype(np.float32), np.array(["a", "b", "c"])[y]
    weight = np.where(np.arange(N) % 40 == 0, 0.0, weight + 1)
    model = SVM2Plus(kernel="linear", privileged_kernel="linear")
    here = clone(model).fit(X, labels, privileged=Z, sample_weight=weight)
    assert_same_model(here, model.fit(chunked(X), labels, privileged=chunked(Z), sample_weight=weight))
    assert model.coef_.shape == (3, 5)


def test_sparse_blocks_and_paths(data):
    X, y, Z, _ = data
    X, y = np.where(X > 0.5, X, 0.0), y > 0
    blocks = chunked(X).rechunk({1: -1}).map_blocks(sparse.csr_array, meta=sparse.csr_array((0, 0)))
    model = SVM2Plus(kernel="linear", privileged_kernel="linear")
    candidates = [{"C": 1.0}, {"C": 0.1}]
    here = fit_path(model, candidates, sparse.csr_array(X), y, privileged=Z)
    for first, second in zip(here, fit_path(model, candidates, blocks, chunked(y), privileged=chunked(Z))):
        assert_same_model(first, second)


def test_rankers_have_the_weights_of_memory(data, monkeypatch):
    X, y, Z, _ = data
    monkeypatch.setattr(dask_rows, "GATHERED", 0.0)
    group = np.arange(N) // 600
    grades = np.where((np.arange(N) % 11 == 0) & (np.arange(N) % 7 != 0), np.nan, y)
    for model, given in (
        (RankSVM(C=1e-3), {"y": y, "group": group}),
        (RankTransfer(C=1e-4, C_privileged=1e-3, pairs="all"), {"y": grades, "privileged": Z}),
    ):
        here = clone(model).fit(X, **given)
        there = model.fit(chunked(X), **{name: chunked(value) for name, value in given.items()})
        np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-7)
        assert there.n_pairs_ == here.n_pairs_
        assert there.dual_gap_ <= model.tol
    with pytest.raises(ValueError, match=r"RankSVM on 5400 rows in chunks needs linear kernels"):
        RankSVM(kernel="rbf").fit(chunked(X), chunked(y))


@pytest.mark.parametrize("model", [SurrogateClassifier("ridge"), SurrogateRegressor("ridge")])
def test_the_ridge_surrogate_is_that_of_memory(model, data, monkeypatch):
    X, y, Z, weight = data
    monkeypatch.setattr(dask_rows, "GATHERED", 0.0)
    unlabeled = (np.arange(N) % 3 == 0) & (np.arange(N) % 7 != 0)
    target = np.where(unlabeled, np.nan, y > 0 if isinstance(model, SurrogateClassifier) else X[:, 0] + y)
    here = clone(model).fit(X, target, privileged=Z, sample_weight=weight + 0.5)
    there = model.fit(chunked(X), chunked(target), privileged=chunked(Z), sample_weight=chunked(weight + 0.5))
    output = "predict_proba" if isinstance(model, SurrogateClassifier) else "predict"
    np.testing.assert_allclose(getattr(there, output)(X[:50]), getattr(here, output)(X[:50]), rtol=1e-7)
    assert there.teacher_weights_ == pytest.approx(here.teacher_weights_, rel=1e-7)
    np.testing.assert_allclose(there.surrogate_, here.surrogate_, rtol=1e-6)
    columns = here.explain()["columns"]
    assert {name: pytest.approx(value) for name, value in columns.items()} == there.explain()["columns"]
    with pytest.raises(
        ValueError, match=r"on 5400 rows in chunks needs estimator='ridge', teacher=None and groups=None"
    ):
        type(model)().fit(chunked(X), chunked(target), privileged=chunked(Z))


def test_estimators_that_need_rows_in_memory(data):
    X, y, Z, _ = data
    for model in (Distillation(LogisticRegression()), KnowledgeTransfer(LogisticRegression())):
        with pytest.raises(ValueError, match=r"on 5400 rows in chunks needs its rows in memory: pass X.compute\(\)"):
            model.fit(chunked(X), chunked(y > 0), privileged=chunked(Z))


def test_data_frames_of_unknown_lengths_and_with_empty_partitions(data):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    X, y, Z, _ = data
    frame = pd.DataFrame(np.column_stack([X, Z, y > 0]), columns=[*"abcde", *"pqr", "y"])
    frame["part"] = np.arange(N) // CHUNK
    parts = dd.from_pandas(frame, npartitions=3)
    parts = dd.concat([parts[parts.part == k] for k in (0, 1, 2, 3, 4)])  # most partitions are empty
    model = SVM2Plus(kernel="linear", privileged_kernel="linear")
    here = clone(model).fit(frame[[*"abcde"]], y > 0, privileged=frame[[*"pqr"]])
    there = model.fit(parts[[*"abcde"]], parts["y"] > 0, privileged=parts[[*"pqr"]])
    assert there.feature_names_in_.tolist() == [*"abcde"]
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-9)
    np.testing.assert_allclose(there.privileged_coef_, here.privileged_coef_, rtol=1e-9)


def test_few_rows_are_fitted_in_memory_with_any_kernel(data):
    X, y, Z, _ = (part[:90] for part in data)
    there = SVMPlus().fit(chunked(X, 40), chunked(y, 40), privileged=chunked(Z, 40))
    np.testing.assert_array_equal(there.decision_function(X), SVMPlus().fit(X, y, privileged=Z).decision_function(X))


def test_many_rows_need_linear_kernels(data):
    X, y, Z, _ = data
    for wrong in ({}, {"kernel": "linear"}, {"kernel": "linear", "privileged_kernel": "linear", "solver": "smo"}):
        with pytest.raises(
            ValueError,
            match=r"SVMPlus on 5400 rows in chunks needs kernel='linear', privileged_kernel='linear', solver='auto'",
        ):
            SVMPlus(**wrong).fit(chunked(X), chunked(y > 0), privileged=chunked(Z))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"privileged": lambda Z: Z.rechunk(1000)}, r"`X` has 5 chunks .*1200.*`privileged` has 6 chunks .*privileged.rechunk"),
        ({"privileged": lambda Z: Z.compute()}, r"`privileged` is a ndarray; .* pass a dask.array"),
        ({"privileged": lambda Z: da.where(da.isnan(Z[:, :1]), np.inf, Z)}, r"chunk 0: `privileged`.*infinite value in row 0"),
        ({"X": lambda X: da.where(X > 3.0, np.nan, X)}, r"(?s)X contains NaN.*chunk \d"),
        ({"X": lambda X: da.ma.masked_greater(X, 3.0)}, r"chunk \d: `X` is a masked array"),
        ({"y": lambda y: np.zeros(7)}, r"`y` has 7 entries, but the chunks of `X` have 5400 rows"),
        ({"y": lambda y: y * 0}, r"at least two classes"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_said(change, words, data):
    X, y, Z, _ = data
    given = {"X": chunked(X), "y": chunked(y), "privileged": chunked(Z)}
    given |= {name: f(given[name]) for name, f in change.items()}
    with pytest.raises(ValueError, match=words):
        SVM2Plus(kernel="linear", privileged_kernel="linear").fit(**given)


def test_chunks_of_unknown_and_different_length(data):
    X, y, Z, _ = data
    X, y, Z = chunked(X), chunked(y), chunked(Z)
    known = X[:, 0] > -1.0
    model = SVM2Plus(kernel="linear", privileged_kernel="linear")
    with pytest.raises(ValueError, match=r"chunk 0: `privileged` has 1200 rows, but `X` has \d+ examples"):
        model.fit(X[known], y[known], privileged=Z)
    with pytest.raises(ValueError, match=r"`y` has 5400 entries, but the chunks of `X` have \d+ rows"):
        model.fit(X[known], y, privileged=Z[known])


def test_vectors_of_all_rows_must_fit_into_memory(data, monkeypatch):
    X, y, _, _ = data
    monkeypatch.setattr(dask_rows, "VECTORS", 1e12)
    with pytest.raises(MemoryError, match=r"5400 examples.*train on a sample"):
        SVM2Plus(kernel="linear", privileged_kernel="linear").fit(chunked(X), chunked(y))
