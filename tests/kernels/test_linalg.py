"""Factors and inverses in blocks are those of LAPACK."""

import numpy as np
import pytest
from scipy.linalg import LinAlgError, lapack

from lupi.kernels import linalg
from lupi.kernels.linalg import cholesky, inverse_from_cholesky


def positive(n, dtype, order, seed=0):
    B = np.random.default_rng(seed).normal(size=(n, n + 5))
    return np.array(B @ B.T + np.eye(n), dtype=dtype, order=order)


@pytest.fixture(params=[False, True], ids=["at once", "in blocks"])
def blocks(request, monkeypatch):
    if request.param:
        monkeypatch.setattr(linalg, "WHOLE", dict.fromkeys(linalg.WHOLE, 10))
        monkeypatch.setattr(linalg, "OF_A_BLOCK", 0)
    return request.param


@pytest.mark.parametrize("n", [9, 64, 75, 131])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_factor(n, order, dtype, blocks):
    A = positive(n, dtype, order)
    A[np.triu_indices(n, 1)] = np.nan  # nobody reads it
    expected = np.linalg.cholesky(positive(n, np.float64, "C"))
    found = cholesky(A)
    assert found is A
    np.testing.assert_allclose(np.tril(found), expected, atol=1e-12 if dtype is np.float64 else 1e-4)
    assert np.isnan(found[np.triu_indices(n, 1)]).all()


@pytest.mark.parametrize("n", [9, 64, 131])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_inverse(n, dtype, blocks):
    A = positive(n, dtype, "F")
    expected = np.linalg.inv(positive(n, np.float64, "C"))
    found = inverse_from_cholesky(cholesky(A))
    assert found is A
    tolerance = {"rtol": 1e-9, "atol": 1e-12} if dtype is np.float64 else {"rtol": 1e-2, "atol": 1e-4}
    np.testing.assert_allclose(np.tril(found), np.tril(expected), **tolerance)


def test_not_positive_definite(blocks):
    A = positive(80, np.float64, "C")
    A[70, 70] = -1.0
    with pytest.raises(LinAlgError, match="not positive definite"):
        cholesky(A)


def test_large_matrices_are_done_in_blocks(monkeypatch):
    """Ctrl-C would wait for one call: no call of LAPACK may see the whole matrix."""
    seen = []
    monkeypatch.setattr(
        linalg,
        "get_lapack_funcs",
        lambda names, arrays: [
            lambda A, name=name, **options: (seen.append(len(A)), getattr(lapack, f"d{name}")(A, **options))[1]
            for name in names
        ],
    )
    monkeypatch.setattr(linalg, "WHOLE", dict.fromkeys(linalg.WHOLE, 400))
    inverse_from_cholesky(cholesky(positive(600, np.float64, "F")))
    assert max(seen) == 256
