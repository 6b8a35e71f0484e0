"""Linear algebra on large symmetric matrices, in calls short enough for Ctrl-C."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, get_blas_funcs, get_lapack_funcs, lapack, solve_triangular

# Operations of one matrix product: a few tenths of a second.
OPERATIONS = 1e10
# Up to this many rows one call of LAPACK, a fifth faster than blocks, takes less than a second.
WHOLE = {np.dtype(np.float64): 4000, np.dtype(np.float32): 5000}
# Multiplications of a block of columns: half a second.
OF_A_BLOCK = 1.6e10
# Columns that a pivoted factorization takes at a time, and candidates for each of them.
COLUMNS, CANDIDATES = 64, 2


def _block(A: np.ndarray) -> int:
    """Columns of a block."""
    n = len(A)
    return n if n <= WHOLE[A.dtype] else int(np.clip(OF_A_BLOCK / n**2, 32, 256))


def _check(info: int) -> None:
    if info != 0:
        raise LinAlgError("the matrix is not positive definite to this precision")


def cholesky(A: np.ndarray) -> np.ndarray:
    """Overwrite the lower triangle of a positive definite matrix, the only one that is read, with its Cholesky factor.

    Examples
    --------
    >>> cholesky(np.array([[4.0, 0.0], [2.0, 5.0]], order="F"))
    array([[2., 0.],
           [1., 2.]])
    """
    (potrf,), (trsm,) = get_lapack_funcs(("potrf",), (A,)), get_blas_funcs(("trsm",), (A,))
    n, size = len(A), _block(A)
    if size == n:
        # To LAPACK, rows are columns: the lower triangle is the upper one of the transpose.
        rows = A.flags.c_contiguous
        _, info = potrf(A.T if rows else A, lower=not rows, overwrite_a=1, clean=0)
        _check(info)
        return A
    for start in range(0, n, size):
        end = min(start + size, n)
        panel = A[start:, start:end]
        if start:
            panel -= A[start:, :start] @ A[start:end, :start].T
        corner, info = potrf(panel[: end - start], lower=1, clean=0)
        _check(info)
        panel[: end - start] = corner
        if end < n:
            panel[end - start :] = trsm(1.0, corner, panel[end - start :], side=1, lower=1, trans_a=1)
    return A


def inverse_from_cholesky(L: np.ndarray) -> np.ndarray:
    """Overwrite the lower triangle of a Cholesky factor (Fortran order) with that of the inverse of L L'.

    Examples
    --------
    >>> np.tril(inverse_from_cholesky(np.array([[2.0, 0.0], [1.0, 1.0]], order="F")))  # of [[4, 2], [2, 2]]
    array([[ 0.5,  0. ],
           [-0.5,  1. ]])
    """
    (potri,), (trsm,) = get_lapack_funcs(("potri",), (L,)), get_blas_funcs(("trsm",), (L,))
    n, size = len(L), _block(L)
    if size == n:
        inverse, info = potri(L, lower=1, overwrite_c=1)
        _check(info)
        return np.asarray(inverse)
    for start in range(0, n, size):
        # Columns of the inverse from the diagonal down need nothing of L above or to the left.
        rest = np.asfortranarray(L[start:, start:])
        columns = np.eye(n - start, min(size, n - start), dtype=L.dtype, order="F")
        columns = trsm(1.0, rest, columns, lower=1, overwrite_b=1)
        L[start:, start : start + size] = trsm(1.0, rest, columns, lower=1, trans_a=1, overwrite_b=1)
    return L


def pivoted_cholesky(matrix: np.ndarray, tol: float, most: int) -> tuple[np.ndarray, np.ndarray]:
    """L with at most ``most`` columns and the diagonal of ``matrix - L @ L.T``, which is below ``tol`` if they suffice.

    Columns are taken many at a time, so that nearly all work is in matrix products: among the examples with the largest
    remainders, a small factorization chooses those that explain the others.

    Examples
    --------
    >>> L, remainder = pivoted_cholesky(np.array([[4.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 0.1]]), 0.2, 3)
    >>> L.shape, remainder
    ((3, 1), array([0. , 0. , 0.1]))
    """
    n, dtype = len(matrix), matrix.dtype
    L = np.zeros((n, min(most, n)), dtype=dtype, order="F")
    remainder = np.diagonal(matrix).astype(np.float64)
    rank = 0
    while rank < L.shape[1] and remainder.max() > tol:
        room = min(COLUMNS, L.shape[1] - rank)
        candidates = np.argsort(-remainder, kind="stable")[: CANDIDATES * room]
        among = L[candidates, :rank].astype(np.float64)
        among = matrix[np.ix_(candidates, candidates)] - among @ among.T
        factor, order, found, _ = lapack.dpstrf(among, lower=1, tol=0.5 * tol)
        if found == 0:
            break
        found = min(found, room)
        chosen = candidates[order[:found] - 1]
        columns = matrix[chosen] - L[chosen, :rank] @ L[:, :rank].T
        columns = solve_triangular(factor[:found, :found].astype(dtype), columns, lower=True, check_finite=False)
        L[:, rank : rank + found] = columns.T
        rank += found
        remainder -= np.einsum("ij,ij->j", columns, columns)
        remainder[chosen] = 0.0
        np.maximum(remainder, 0.0, out=remainder)
    return L[:, :rank], remainder
