"""Low-rank factors of kernel matrices."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack, solve_triangular

# Columns that are taken into the factor at a time, and candidates for each of them.
COLUMNS, CANDIDATES = 64, 2


def pivoted_cholesky(matrix: np.ndarray, tol: float, most: int) -> tuple[np.ndarray, np.ndarray]:
    """L with few columns and ``matrix`` near L L', by a Cholesky factorization that takes the largest remainders first.

    Columns are taken many at a time, so that nearly all work is in matrix products: of the examples with the largest
    remainders, a factorization among themselves chooses those that explain the others of them.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        Positive semi-definite; only some columns of it are read.
    tol : float
        Stop when no example's remainder is larger.
    most : int
        Largest number of columns.

    Returns
    -------
    L : ndarray of shape (n, rank)
    remainder : ndarray of shape (n,)
        Diagonal of ``matrix - L @ L.T``.

    Examples
    --------
    >>> import numpy as np
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
