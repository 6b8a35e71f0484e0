"""SVR+: support vector regression whose slacks are functions of privileged features."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin

from lupi.inputs.decorators import fit_context
from lupi.inputs.types import MatrixLike, PrivilegedLike, VectorLike
from lupi.privacy import model_part
from lupi.svm.duals import svr_plus_dual
from lupi.svm.kernel_machine import KAPPA, LAM, NON_NEGATIVE, POSITIVE, KernelMachine, fit_machine

if TYPE_CHECKING:
    from lupi.inputs.training_set import TrainingSet
    from lupi.svm.kernel_machine import Problems, Spaces


@model_part
@dataclass(eq=False, repr=False)
class SVRPlus(RegressorMixin, KernelMachine):
    r"""Support vector regression whose slacks, on either side of the tube, are functions of privileged features.

    .. math::

        \min_{w, b, w^*_k, b^*_k, \zeta_k \ge 0}\; \tfrac12 |w|^2 + \tfrac{\lambda}{2} \sum_{k=1}^2 |w^*_k|^2
        + \sum_i C_i \sum_{k=1}^2 \big(g_k(z_i) + \kappa \zeta_{ki}\big) \quad\text{s.t.}

    .. math::

        t_i - f(x_i) \le \varepsilon + g_1(z_i) + \zeta_{1i},\quad f(x_i) - t_i \le \varepsilon + g_2(z_i) + \zeta_{2i},\quad
        g_k(z_i) \ge 0,

    where :math:`f(x) = w \cdot x + b` is the prediction, and the correcting functions :math:`g_k(z) = w^*_k \cdot z + b^*_k`
    model how far above (:math:`g_1`) and below (:math:`g_2`) of it a target lies. This is SVM+ [1]_ for numbers [2]_, with the
    residual slack of :class:`SVMPlus`. Examples without privileged features have slacks of their own that cost C; without any
    privileged features this is the epsilon-SVR. The dual is solved; ``dual_gap_`` certifies the result.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss.
    lam : float, or list or dict of float, default=1.0
        Weight of the correcting functions' norms. Small: slacks follow the privileged features closely. Several spaces have one
        value for all, or one each: their kernels enter as the sum of :math:`K^*_m / \lambda_m`.
    epsilon : float, default=0.1
        Half the width of the tube in which errors cost nothing, in units of the target.
    kappa : float, default=3.0
        Cost of slack that the privileged features do not explain, relative to C; ``inf`` forbids it.
    kernel : {"linear", "rbf", "poly", "sigmoid", "chi2", "laplacian", "intersection", "precomputed"} or callable, default="rbf"
        Kernel of the decision space; a callable gets two feature matrices and returns their kernel matrix.
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel coefficient; "scale" is 1 / (n_features * X.var()), with sample weights in the variance.
    degree : float, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Constant of "poly" and "sigmoid".
    privileged_kernel, privileged_gamma, privileged_degree, privileged_coef0
        The same for the privileged space; several spaces have one value for all, or a list or dict with one each.
    solver : {"auto", "interior_point", "smo", "decomposition", "reference"}, default="auto"
        "auto" with linear kernels of few features in both spaces is an interior point on the features; otherwise SMO over both
        sides of the tube, on working sets if a kernel matrix exceeds ``cache_size``, finished by active-set steps, with an
        interior point as the last resort. "reference" is PIQP, slow, for checking.
    tol : float, default=1e-3
        Relative duality gap that a fit aims at; it ends above it only with a ``ConvergenceWarning``.
    max_iter : int, default=-1
        Largest number of iterations; -1 for no limit.
    max_time : float or None, default=None
        Seconds after which a fit ends with the best point so far, its gap and a ``ConvergenceWarning``; None for no limit.
    cache_size : float, default=200
        Megabytes for a kernel matrix; blocks of a larger one are computed when they are needed.

    Attributes
    ----------
    n_features_in_ : int
    support_ : ndarray
        Indices of the training examples with a non-zero coefficient.
    support_vectors_ : ndarray or sparse matrix
        Their features.
    dual_coef_ : ndarray of shape (1, n_support)
        Coefficients :math:`a_{1i} - a_{2i}`.
    intercept_ : ndarray of shape (1,)
        From the optimality conditions; the midpoint where they leave an interval.
    coef_ : ndarray of shape (1, n_features)
        Weights, for the linear kernel.
    privileged_dual_coef_ : ndarray of shape (2, n_available)
        Coefficients of both correcting functions over the examples with privileged features.
    privileged_intercept_ : ndarray of shape (2,)
    objective_ : float
        Value of the problem above.
    dual_gap_ : float
        Relative duality gap.
    kkt_violation_ : float
        Largest violation of the optimality conditions.
    n_iter_ : int

    References
    ----------
    .. [1] V. Vapnik, A. Vashist. A new learning paradigm: learning using privileged information. Neural Networks, 2009.
    .. [2] V. Vapnik. Estimation of dependences based on empirical data, afterword of 2006, section 2.4: SVM+ regression.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi import SVRPlus
    >>> rng = np.random.default_rng(0)
    >>> X, noise = rng.normal(size=(100, 3)), rng.normal(size=100)
    >>> model = SVRPlus(kernel="linear").fit(X, X[:, 0] + noise, privileged=noise[:, None])
    >>> model.dual_gap_ < 1e-3
    True
    >>> model.predict(X[:2]).shape
    (2,)
    >>> model.correcting_function([[2.0], [-2.0]]).shape  # above and below the tube
    (2, 2)
    """

    C: float = 1.0
    lam: Any = 1.0
    epsilon: float = 0.1
    _: KW_ONLY
    kappa: float = 3.0
    cache_size: float = 200

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **KernelMachine._parameter_constraints,
        "C": POSITIVE,
        "lam": LAM,
        "epsilon": NON_NEGATIVE,
        "kappa": KAPPA,
        "cache_size": POSITIVE,
    }

    _path_parameters = ("C", "lam", "kappa", "epsilon")
    _advice = "increase max_iter, raise tol, scale the features and the target, or lower C"

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: MatrixLike,
        y: VectorLike,
        privileged: PrivilegedLike | None = None,
        sample_weight: VectorLike | None = None,
    ) -> Self:
        """Fit to decision features, targets and privileged features.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Decision features; the kernel matrix with ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Numbers.
        privileged : array-like, sparse matrix or data frame of shape (n_samples, n_privileged), optional
            Features that exist at training time only. A row that is entirely NaN is not available for that example. A list or
            dict of tables is several spaces; a space that an example lacks contributes nothing to its correction.
            None fits the epsilon-SVR.
        sample_weight : array-like of shape (n_samples,), optional
            Weights that multiply C.

        Returns
        -------
        self : object
        """
        return fit_machine(self, X, y, privileged, sample_weight)

    def _problems(self, data: TrainingSet, spaces: Spaces) -> Problems:
        """One problem."""
        privileged = None
        if spaces.stack is not None:
            privileged = replace(spaces.privileged, weight=1.0 / spaces.lam(self))
        costs = self.C * data.weight, self.epsilon, self.kappa
        return [svr_plus_dual(spaces.decision, privileged, data.target, *costs, spaces.available)]

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Predict targets; privileged features are never needed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Decision features; with ``kernel="precomputed"`` their kernel values with the training examples.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return np.asarray((self._decision_values(X) + self.intercept_).ravel())
