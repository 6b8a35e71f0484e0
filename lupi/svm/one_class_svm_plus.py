"""One-class SVM with privileged information."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.utils._param_validation import StrOptions

from lupi.inputs.decorators import fit_context
from lupi.inputs.types import MatrixLike, PrivilegedLike, VectorLike
from lupi.privacy import model_part
from lupi.svm.auto import SOLVERS
from lupi.svm.duals import check_nu, one_class_dual, one_class_plus_dual
from lupi.svm.kernel_machine import LAM, KernelMachine, fit_machine

if TYPE_CHECKING:
    from lupi.inputs.training_set import TrainingSet
    from lupi.svm.kernel_machine import Problems, Spaces

# One-class problems have no kernel rows on demand, which working sets need.
ONE_CLASS_SOLVERS = set(SOLVERS["kernel"]) - {"decomposition"}


@model_part
@dataclass(eq=False, repr=False)
class OneClassSVMPlus(OutlierMixin, KernelMachine):
    r"""Novelty detection whose slacks are a function of privileged features.

    .. math::

        \min_{w, \rho, w^*, b^*, \zeta \ge 0} \tfrac{\nu l}{2} |w|^2 + \tfrac{\lambda}{2} |w^*|^2 - \nu l \rho
        + \sum_i (g(z_i) + \zeta_i) \quad\text{s.t.}\quad w \cdot \phi(x_i) \ge \rho - g(z_i),\;\; g(z_i) + \zeta_i \ge 0

    with :math:`g(z) = w^* \cdot z + b^*`. Without privileged features it is the one-class SVM.

    Parameters
    ----------
    nu : float, default=0.5
        In (0, 1]: about the share of training examples outside of the support.
    lam : float, or list or dict of float, default=1.0
        Weight of the correcting function's norm. Several spaces have one value for all, or one each: their kernels
        enter as the sum of :math:`K^*_m / \lambda_m`.
    kernel, gamma, degree, coef0
        Kernel of the decision space, as in :class:`SVMPlus`.
    privileged_kernel, privileged_gamma, privileged_degree, privileged_coef0
        The same for the privileged space; several spaces have one value for all, or a list or dict with one each.
    solver : {"auto", "smo", "interior_point", "reference"}, default="auto"
        As in :class:`SVMPlus`.
    tol : float, default=1e-4
        Relative duality gap that a fit aims at; it ends above it only with a ``ConvergenceWarning``.
    max_iter : int, default=-1
        Largest number of iterations; -1 for no limit.
    max_time : float or None, default=None
        Seconds after which a fit ends with the best point so far, its gap and a ``ConvergenceWarning``; None for no limit.

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

    nu: float = 0.5
    lam: Any = 1.0
    _: KW_ONLY
    tol: float = 1e-4

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **KernelMachine._parameter_constraints,
        "nu": [Real],
        "lam": LAM,
        "solver": [StrOptions(ONE_CLASS_SOLVERS)],
    }
    _needed = ("coef_", "offset_")
    _advice = "raise max_iter or tol"

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: VectorLike | None = None, privileged: PrivilegedLike | None = None) -> Self:
        """Find the support of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Decision features; the kernel matrix with ``kernel="precomputed"``.
        y : None
            Ignored.
        privileged : array-like of shape (n_samples, n_privileged), optional
            Features that exist at training time only; a row of NaN is not available. A list or dict of tables is several spaces.
            None gives the one-class SVM.

        Returns
        -------
        self
        """
        check_nu(self.nu)
        fit_machine(self, X, None, privileged)
        if hasattr(self, "privileged_intercept_"):
            self.privileged_intercept_: Any = float(self.privileged_intercept_[0])
        rho = -self.intercept_[0]
        # A training example on the boundary is inside, whatever the rounding of its kernel values.
        self.offset_ = float(rho - 1e-9 * abs(rho))
        return self

    def _problems(self, data: TrainingSet, spaces: Spaces) -> Problems:
        """One problem."""
        if spaces.stack is None:
            return [one_class_dual(spaces.decision.dense, self.nu)]
        matrices = spaces.decision.dense, spaces.privileged.dense
        return [one_class_plus_dual(*matrices, self.nu, spaces.lam(self), spaces.available)]

    def score_samples(self, X: MatrixLike) -> np.ndarray:
        """Kernel expansion of each example, without the offset: large for typical examples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._decision_values(X).ravel()

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Score of each example: positive inside the support, negative outside.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X: MatrixLike) -> np.ndarray:
        """+1 for inliers, -1 for outliers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return np.where(self.decision_function(X) >= 0, 1, -1)
