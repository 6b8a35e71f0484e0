"""Products of symmetric matrices, at the speed of compiled loops."""

from __future__ import annotations

import numpy as np
from numba import njit
from scipy.linalg import blas

# Operations of one matrix product, a few tenths of a second: Ctrl-C has to wait for its end.
OPERATIONS = 1e10


def self_products(X: np.ndarray) -> np.ndarray:
    """X X' at half the work of a general product."""
    n, d = X.shape
    if d == 0:  # BLAS would refuse, on the error stream, and return whatever was there
        return np.zeros((n, n))
    together = max(1, int(OPERATIONS / max(1, n * n)))
    product: np.ndarray = blas.dsyrk(1.0, np.ascontiguousarray(X[:, :together]).T, trans=1, lower=1)
    for start in range(together, d, together):
        columns = np.ascontiguousarray(X[:, start : start + together]).T
        product = blas.dsyrk(1.0, columns, trans=1, lower=1, beta=1.0, c=product, overwrite_c=1)
    product = product.T
    scale_and_mirror(product, np.ones(len(product)), product)
    return product


@njit(cache=True)
def scale_and_mirror(matrix: np.ndarray, scale: np.ndarray, out: np.ndarray) -> None:
    """From the upper triangle: out_ij = out_ji = scale_i scale_j matrix_ij, block by block; out may be the matrix."""
    n = matrix.shape[0]
    for bi in range(0, n, 64):
        for bj in range(bi, n, 64):
            for i in range(bi, min(bi + 64, n)):
                for j in range(max(bj, i), min(bj + 64, n)):
                    value = scale[i] * scale[j] * matrix[i, j]
                    out[i, j] = value
                    out[j, i] = value


@njit(cache=True, fastmath=True, nogil=True)
def sparse_product(matrix: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """Symmetric matrix times a vector with many zeros: reads only the rows that count."""
    out = np.zeros(matrix.shape[0])
    for i in range(coefficients.shape[0]):
        c = coefficients[i]
        if c != 0.0:
            row = matrix[i]
            for t in range(row.shape[0]):
                out[t] += c * row[t]
    return out


@njit(cache=True, nogil=True)
def add_signed_block(out: np.ndarray, matrix: np.ndarray, index: np.ndarray, signs: np.ndarray) -> None:
    """Add signs_u signs_v matrix[index_u, index_v] to the lower triangle of ``out``; where a sign is 0, nothing."""
    used = np.flatnonzero(signs)
    columns = index[used]
    for a in range(used.shape[0]):
        u = used[a]
        row = matrix[index[u]]
        sign = signs[u]
        for b in range(a + 1):
            v = used[b]
            out[u, v] += sign * signs[v] * row[columns[b]]
