"""One-class SVM with privileged information."""

from __future__ import annotations

import warnings
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from lupi.engine.model_parts import model_part
from lupi.estimators._base import KERNEL_CONSTRAINTS, POSITIVE
from lupi.estimators._spaces import make_kernel
from lupi.kernels import check_definite
from lupi.problems.kernel.one_class import check_nu, one_class_dual, one_class_plus_dual
from lupi.solvers import SOLVERS
from lupi.validation import check_privileged


def solve_one_class(estimator, K, K_star, available):
    """Coefficients of the decision space, of the privileged space (or None), and the solution; warns if it is not optimal."""
    nu = float(estimator.nu)
    if K_star is None:
        problem = one_class_dual(K, nu)
    else:
        problem = one_class_plus_dual(K, K_star, nu, float(estimator.lam), available)
    solution = SOLVERS[estimator.solver](problem, tol=estimator.tol, max_iter=estimator.max_iter)
    if not solution.converged:
        warnings.warn(
            f"{type(estimator).__name__} stopped after {solution.n_iter} iterations at a relative duality gap of "
            f"{solution.certificate.gap:.2g}; raise max_iter or tol, or rescale the features.",
            ConvergenceWarning,
            stacklevel=3,
        )
    expansions = problem.expansions(solution.x)
    return expansions[0], None if K_star is None else expansions[1] / estimator.lam, solution


@model_part
class OneClassSVMPlus(OutlierMixin, BaseEstimator):
    r"""Novelty detection whose slacks are a function of privileged features.

    .. math::

        \min_{w, \rho, w^*, b^*, \zeta \ge 0} \tfrac{\nu l}{2} |w|^2 + \tfrac{\lambda}{2} |w^*|^2 - \nu l \rho
        + \sum_i (g(z_i) + \zeta_i) \quad\text{s.t.}\quad w \cdot \phi(x_i) \ge \rho - g(z_i),\;\; g(z_i) + \zeta_i \ge 0

    with :math:`g(z) = w^* \cdot z + b^*`. Without privileged features it is the one-class SVM.

    Parameters
    ----------
    nu : float, default=0.5
        In (0, 1]: about the share of training examples that may be left outside.
    lam : float, default=1.0
        Weight of the correcting function's norm.
    kernel, gamma, degree, coef0
        Kernel of the decision space, as in :class:`SVMPlus`.
    privileged_kernel, privileged_gamma, privileged_degree, privileged_coef0
        The same for the privileged space.
    solver : {"auto", "smo", "interior_point", "reference"}, default="auto"
        As in :class:`SVMPlus`.
    tol : float, default=1e-4
        Largest violation of the optimality conditions.
    max_iter : int, default=-1
        Limit on the solver's iterations; -1 for none.

    Attributes
    ----------
    support_ : ndarray
        Examples with a positive coefficient.
    dual_coef_ : ndarray of shape (1, n_support)
        Their coefficients; they sum to nu * n_samples, as scikit-learn's do.
    offset_ : float
        ``decision_function = score_samples - offset_``.
    privileged_dual_coef_ : ndarray of shape (1, n_available)
        Coefficients of the correcting function; with ``privileged_intercept_`` only after a fit with privileged features.
    objective_, dual_gap_, n_iter_
        Value of the problem above, relative duality gap, iterations.

    References
    ----------
    .. [1] E. Burnaev, D. Smolyakov. One-class SVM with privileged information and its application to malware detection, 2016.
    .. [2] S. Sun, C. Zhang, Y. Tian. Joint kernel support estimation with privileged information, 2018, eq. 5 and 23.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi import OneClassSVMPlus
    >>> rng = np.random.default_rng(0)
    >>> X, Z = rng.normal(size=(60, 2)), rng.normal(size=(60, 1))
    >>> model = OneClassSVMPlus(nu=0.1).fit(X, privileged=Z)
    >>> model.predict(np.vstack([X[:1], [[6.0, 6.0]]]))
    array([ 1, -1])
    """

    __metadata_request__fit = {"privileged": True}

    _parameter_constraints: dict = {
        **KERNEL_CONSTRAINTS,
        "nu": [Real],
        "lam": POSITIVE,
        "solver": [StrOptions(set(SOLVERS) - {"decomposition"})],
        "tol": POSITIVE,
        "max_iter": [Interval(Integral, -1, None, closed="left")],
    }

    def __init__(
        self,
        nu=0.5,
        lam=1.0,
        *,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=0.0,
        privileged_kernel="rbf",
        privileged_gamma="scale",
        privileged_degree=3,
        privileged_coef0=0.0,
        solver="auto",
        tol=1e-4,
        max_iter=-1,
    ):
        self.nu = nu
        self.lam = lam
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.privileged_kernel = privileged_kernel
        self.privileged_gamma = privileged_gamma
        self.privileged_degree = privileged_degree
        self.privileged_coef0 = privileged_coef0
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, privileged=None):
        """Find the support of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Decision features; the kernel matrix with ``kernel="precomputed"``.
        y : None
            Ignored.
        privileged : array-like of shape (n_samples, n_privileged), optional
            Features that exist at training time only; a row of NaN is not available. None gives the one-class SVM.

        Returns
        -------
        self
        """
        check_nu(self.nu)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, order="C")
        known = check_privileged(
            privileged,
            X.shape[0],
            estimator_name=type(self).__name__,
            precomputed=self.privileged_kernel == "precomputed",
        )
        self._kernel = make_kernel(self, X)
        K = self._matrix(self._kernel, X)
        K_star = available = None
        if known is not None and known.available.any():
            available = known.available
            rows = known.data if self.privileged_kernel == "precomputed" else known.data[available]
            kernel = make_kernel(self, rows, "privileged_")
            K_star = self._matrix(kernel, known.data) * np.outer(available, available)
        alpha, eta, solution = solve_one_class(self, K, K_star, available)
        self.support_ = np.flatnonzero(alpha > 0)
        self.dual_coef_ = alpha[None, self.support_]
        if self._kernel.name != "precomputed":
            self.support_vectors_ = X[self.support_]
        rho = -self.nu * X.shape[0] * solution.certificate.biases[0]
        # A training example on the boundary is inside, whatever the rounding of its kernel values.
        self.offset_ = float(rho - 1e-9 * abs(rho))
        if eta is not None:
            self.privileged_dual_coef_ = eta[None, available]
            self.privileged_intercept_ = float(solution.certificate.biases[1])
        self.objective_, self.dual_gap_ = solution.certificate.primal, max(solution.certificate.gap, 0.0)
        self.n_iter_ = int(solution.n_iter)
        return self

    @staticmethod
    def _matrix(kernel, data):
        matrix = kernel(data)
        if kernel.unsafe:
            check_definite(kernel, matrix)
        return np.ascontiguousarray(matrix)

    def score_samples(self, X):
        """How typical each example is: the kernel expansion, without the offset.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, order="C", reset=False)
        if self._kernel.name == "precomputed":
            return X[:, self.support_] @ self.dual_coef_[0]
        return self._kernel(X, self.support_vectors_) @ self.dual_coef_[0]

    def decision_function(self, X):
        """Positive inside of the support, negative outside.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X):
        """+1 for inliers, -1 for outliers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return np.where(self.decision_function(X) >= 0, 1, -1)
