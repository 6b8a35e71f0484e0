"""Cholesky factors and inverses of large matrices in blocks of columns, as quick as LAPACK's, between which Ctrl-C is seen."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, get_blas_funcs, get_lapack_funcs

# Up to so many rows LAPACK does all at once, which is a fifth quicker: within a second.
WHOLE = {np.dtype(np.float64): 4000, np.dtype(np.float32): 5000}
# Multiplications of a block of columns: half a second, too.
OF_A_BLOCK = 1.6e10


def _block(A: np.ndarray) -> int:
    """Columns of a block."""
    n = len(A)
    return n if n <= WHOLE[A.dtype] else int(np.clip(OF_A_BLOCK / n**2, 32, 256))


def cholesky(A: np.ndarray) -> np.ndarray:
    """Overwrite the lower triangle of a positive definite matrix with its Cholesky factor; the upper one is left alone.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Single or double precision, rows or columns in one piece; only its lower triangle is read.

    Returns
    -------
    ndarray of shape (n, n)
        A itself.

    Raises
    ------
    LinAlgError
        If the matrix is not positive definite.

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
        # Not cleaned: its upper triangle stays as it was.
        corner, info = potrf(panel[: end - start], lower=1, clean=0)
        _check(info)
        panel[: end - start] = corner
        if end < n:
            panel[end - start :] = trsm(1.0, corner, panel[end - start :], side=1, lower=1, trans_a=1)
    return A


def _check(info: int) -> None:
    if info != 0:
        raise LinAlgError("the matrix is not positive definite to this precision")


def inverse_from_cholesky(L: np.ndarray) -> np.ndarray:
    """Overwrite the lower triangle of a Cholesky factor with that of the inverse of L L'; the upper one is of no use then.

    Parameters
    ----------
    L : ndarray of shape (n, n), Fortran order
        As of :func:`cholesky`.

    Returns
    -------
    ndarray of shape (n, n)
        L itself.

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
        # Columns of the inverse from the diagonal down need nothing of L above or to the left of it.
        rest = np.asfortranarray(L[start:, start:])
        columns = np.eye(n - start, min(size, n - start), dtype=L.dtype, order="F")
        columns = trsm(1.0, rest, columns, lower=1, overwrite_b=1)
        L[start:, start : start + size] = trsm(1.0, rest, columns, lower=1, trans_a=1, overwrite_b=1)
    return L
