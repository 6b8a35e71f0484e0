"""Rows in Dask chunks against the same rows in memory: selections, products, sums, and loaded rows."""

from functools import partial

import numpy as np
import pytest

from lupi.inputs import dask_rows
from lupi.inputs.dask_rows import Collection, DaskRows, row_blocks
from lupi.inputs.training_set import affine, side_by_side, take_values
from lupi.svm.features import squared_norms, transposed_values, values, weighted_products

dask = pytest.importorskip("dask", reason='Dask is not installed: pip install "lupi[dask]"')
da = pytest.importorskip("dask.array")

SIZES = (4, 0, 5, 2)
N = sum(SIZES)
TABLE = np.random.default_rng(0).normal(size=(N, 3))
OTHER = np.random.default_rng(1).normal(size=(N, 2))


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def tables():
    collections = {"X": da.from_array(TABLE, chunks=(SIZES, 3)), "privileged": da.from_array(OTHER, chunks=(SIZES, 2))}
    blocks = tuple(row_blocks(collections, "fit"))
    return tuple(
        DaskRows(blocks, np.array(SIZES), Collection(name), width, np.arange(N))
        for name, width in (("X", 3), ("privileged", 2))
    )


@pytest.mark.parametrize(
    "rows", [np.arange(N), np.array([0, 3, 4, 9, 10]), np.array([5, 6]), np.array([1, 1, 4, 4, 4, 10]), np.arange(4, 9)]
)
def test_products_of_selected_rows(rows, tables):
    X, Z = (table.take(rows) for table in tables)
    here, other = TABLE[rows], OTHER[rows]
    v = np.linspace(1.0, 2.0, len(rows))
    weights = np.arange(4.0), np.arange(3.0)
    np.testing.assert_allclose(values(X, Z, weights), values(here, other, weights))
    np.testing.assert_allclose(X @ np.eye(3)[:, :2], here[:, :2])
    betas = np.array([v, v**2])
    np.testing.assert_allclose(transposed_values(X, Z, betas), transposed_values(here, other, betas))
    np.testing.assert_allclose(X.T @ np.column_stack([v, v**2]), here.T @ np.column_stack([v, v**2]))
    np.testing.assert_allclose(squared_norms(X, None), squared_norms(here, None))
    products = np.array([[v**2, 0 * v], [np.cos(v), np.ones(len(v))]])
    np.testing.assert_allclose(weighted_products(X, Z, products), weighted_products(here, other, products))
    both = np.column_stack([other, np.ones(len(rows))]).T @ (
        np.cos(v)[:, None] * np.column_stack([here, np.ones(len(rows))])
    )
    np.testing.assert_allclose(weighted_products(X, Z, products)[4:, :4], both)
    joined = side_by_side([X, Z], [1.0, 0.5]).map(partial(affine, matrix=np.ones((5, 1)), shift=np.array([2.0])), 1)
    np.testing.assert_allclose(joined @ np.ones(1), here.sum(axis=1) + 0.5 * other.sum(axis=1) + 2.0)


def test_a_selection_of_a_selection(tables):
    first = tables[0].take(np.array([1, 4, 6, 9]))
    np.testing.assert_allclose(first.take(np.array([0, 2, 3])) @ np.eye(3), TABLE[[1, 6, 9]])
    np.testing.assert_allclose(first.take(np.array([False, True, True, False])) @ np.eye(3), TABLE[[4, 6]])
    with pytest.raises(IndexError, match="increasing order"):
        first.take(np.array([2, 1]))


@pytest.mark.parametrize("gathered", [0.0, 0.25])
def test_rows_are_loaded_if_they_fit(gathered, tables, monkeypatch):
    monkeypatch.setattr(dask_rows, "GATHERED", gathered)
    index = np.array([2, 5, 10])
    X, Z = take_values(*tables, index)
    assert isinstance(X, dask_rows.DaskRows) == (gathered == 0.0)
    np.testing.assert_array_equal(X @ np.eye(3), TABLE[index])
    np.testing.assert_array_equal(Z @ np.eye(2), OTHER[index])
    assert take_values(tables[0], None, index)[1] is None
    np.testing.assert_array_equal(tables[0].load(np.array([10, 2, 5])), TABLE[[10, 2, 5]])
