r"""The matrix Q through which privileged features enter SVM2+.

.. math:: Q = P - \lambda P (\tilde K + \lambda P)^{-1} P, \qquad P = \mathrm{diag}(1/C_i),\; \tilde K = K^* + 1,

which is :math:`\frac1C \tilde K (\frac{\lambda}{C} I + \tilde K)^{-1}` for equal weights: Xu et al. (2016), eq. (5), in a form
whose eigenvalues stay in [0, 1/C). Rows of examples without privileged features are 0.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, lapack, solve_triangular

from lupi.kernels import scale_and_mirror


def deformation_matrix(K_star: np.ndarray, C: np.ndarray, lam: float, available: np.ndarray) -> np.ndarray:
    """Q as a dense matrix, by one Cholesky factorization and inversion.

    Examples
    --------
    >>> import numpy as np
    >>> Q = deformation_matrix(np.eye(2), np.ones(2), 1.0, np.array([True, True]))
    >>> np.round(Q, 3)
    array([[0.625, 0.125],
           [0.125, 0.625]])
    """
    rows = np.flatnonzero(available)
    everything = len(rows) == len(available)
    A = np.array(K_star if everything else K_star[np.ix_(rows, rows)], order="C")
    A += 1.0
    price = 1.0 / C[rows]
    A[np.diag_indices(len(A))] += lam * price
    # A is symmetric, so its C-ordered transpose is the Fortran-ordered matrix LAPACK can overwrite.
    factor, info = lapack.dpotrf(A.T, lower=1, overwrite_a=1)
    if info == 0:
        inverse, info = lapack.dpotri(factor, lower=1, overwrite_c=1)
    if info != 0:
        raise LinAlgError("the privileged kernel matrix is not positive semi-definite")
    Q = inverse.T
    scale_and_mirror(Q, np.sqrt(lam) * price)
    np.negative(Q, out=Q)
    Q[np.diag_indices(len(Q))] += price
    if everything:
        return Q
    out = np.zeros((len(available), len(available)))
    out[np.ix_(rows, rows)] = Q
    return out


def deformation_features(features: np.ndarray, C: np.ndarray, lam: float, available: np.ndarray) -> np.ndarray:
    r"""U with :math:`Q = U U'`, for privileged features (or an approximation's features) fewer than examples.

    :math:`U = \tilde Z (\lambda I + \tilde Z' \mathrm{diag}(C) \tilde Z)^{-1/2}` with :math:`\tilde Z = [Z, 1]`: O(n s^2).
    """
    Z = np.hstack([features, np.ones((len(features), 1))]) * available[:, None]
    M = (Z * C[:, None]).T @ Z
    M[np.diag_indices(len(M))] += lam
    L, _ = cho_factor(M, lower=True)
    return np.ascontiguousarray(solve_triangular(L, Z.T, lower=True).T)
