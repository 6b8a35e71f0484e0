"""SVM+ and SVM2+: classifiers whose slacks are a function of privileged features."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions

from lupi.inputs.decorators import fit_context
from lupi.inputs.types import MatrixLike, PrivilegedLike, RandomState, VectorLike
from lupi.kernels import Space, all_are, fits
from lupi.privacy import model_part, privileged_is_kept
from lupi.svm.auto import SOLVERS
from lupi.svm.duals import svm_dual, svm_plus_dual
from lupi.svm.features import LinearSpace
from lupi.svm.kernel_machine import (
    KAPPA,
    LAM,
    POSITIVE,
    KernelClassifier,
    fit_machine,
    make_spaces,
    one_vs_rest,
)
from lupi.svm.svm2_dual import deformation_metric, deformation_space, svm2_plus_dual

if TYPE_CHECKING:
    from lupi.inputs.training_set import TrainingSet
    from lupi.svm.kernel_machine import Problems, Spaces

# SVM2+: least tolerance for steps on an approximation of Q, and the most problems that share a low-rank one.
COARSE = 1e-4
FEW_PROBLEMS = 3
# Q may take this many megabytes before it is replaced by an approximation.
LARGEST_MATRIX = 1100
NYSTROEM_RANK = 1500


@dataclass(eq=False, repr=False)
class _CorrectedClassifier(KernelClassifier):
    """Parameters and `fit` of SVM+ and SVM2+, which differ in the loss."""

    C: float = 1.0
    lam: Any = 1.0
    _: KW_ONLY
    correction: str = "slack"
    kappa: float = 3.0
    n_components: int | None = None
    random_state: RandomState = None

    _squared: ClassVar[bool]
    _path_parameters = ("C", "lam", "kappa")
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **KernelClassifier._parameter_constraints,
        "C": POSITIVE,
        "lam": LAM,
        "kappa": KAPPA,
        "correction": [StrOptions({"slack", "labeled"})],
        "n_components": [None, Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: MatrixLike,
        y: VectorLike,
        privileged: PrivilegedLike | None = None,
        sample_weight: VectorLike | None = None,
    ) -> Self:
        """Fit to decision features, labels and privileged features.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or Dask collection of shape (n_samples, n_features)
            Decision features; the kernel matrix with ``kernel="precomputed"``. A Dask collection stays in its chunks, which
            requires linear kernels; the other arguments are then chunked alike.
        y : array-like of shape (n_samples,)
            Labels of any type, two classes or more (one against the rest).
        privileged : array-like, sparse matrix or data frame of shape (n_samples, n_privileged), optional
            Features that exist at training time only. A row that is entirely NaN is not available for that example. A list or
            dict of tables is several spaces; a space that an example lacks contributes nothing to its correction.
            None fits the plain machine: the C-SVM for SVM+, the L2-SVM for SVM2+.
        sample_weight : array-like of shape (n_samples,), optional
            Weights that multiply C.

        Returns
        -------
        self : object
        """
        return fit_machine(self, X, y, privileged, sample_weight)

    def _spaces(self, data: TrainingSet) -> Spaces:
        """Spaces; of SVM2+ with landmarks instead of a privileged kernel where the matrix Q would not fit into memory."""
        if not self._squared:
            return make_spaces(self, data, cache_sizes=(self.cache_size, self.cache_size))
        cache_sizes = self.cache_size, max(self.cache_size, LARGEST_MATRIX)
        exact = all_are(self.privileged_kernel, "linear") or all_are(self.privileged_kernel, "precomputed")
        if exact or self.n_components is not None or fits(len(data), cache_sizes[1]) or not data.available.any():
            return make_spaces(self, data, cache_sizes=cache_sizes)
        warnings.warn(
            f"SVM2Plus: {len(data)} examples are too many for the matrix Q, so the privileged kernel is replaced "
            f"by its Nystroem approximation with {NYSTROEM_RANK} landmarks; dual_gap_ certifies the problem with the "
            "approximate kernel. privileged_kernel='linear' and SVMPlus are exact at this size.",
            stacklevel=5,
        )
        return make_spaces(self, data, cache_sizes=cache_sizes, privileged_components=NYSTROEM_RANK)

    def _problems(self, data: TrainingSet, spaces: Spaces) -> Problems:
        """One problem per class, on the same spaces and, of SVM2+, with the same Q."""
        C, lam, signs = self.C * data.loss_weight, spaces.lam(self), one_vs_rest(data)
        labeled, available, plain = self.correction == "labeled", spaces.available, spaces.stack is None
        privileged: Space | None = None
        if spaces.over_weights(self, data, smooth=self._squared and (plain or np.isfinite(self.kappa))):
            X, Z = spaces.explicit
            decision: Space = LinearSpace(factor=X)
            if not plain:
                metric = deformation_metric(Z, C, lam, available) if self._squared else None
                privileged = LinearSpace(factor=Z, weight=1.0 if self._squared else 1.0 / lam, metric=metric)
        else:
            decision = spaces.decision
            if self._squared and not plain:
                privileged = self._deformation(spaces, C, lam, len(signs))
            elif not plain:
                privileged = replace(spaces.privileged, weight=1.0 / lam)
        if self._squared:
            return [svm2_plus_dual(decision, privileged, y, C, lam, self.kappa, labeled, available) for y in signs]
        if privileged is None:
            return [svm_dual(decision, y, C) for y in signs]
        return [svm_plus_dual(decision, privileged, y, C, self.kappa, labeled, available) for y in signs]

    def _deformation(self, spaces: Spaces, C: np.ndarray, lam: float, n_problems: int) -> Space:
        """The matrix Q of SVM2+."""
        if spaces.privileged_landmarks is not None:
            privileged = Space(factor=spaces.landmark_rows.astype(np.float64, copy=False))
        elif spaces.privileged.on_demand:
            privileged = Space(factor=spaces.Z.toarray() if sparse.issparse(spaces.Z) else spaces.Z)
        else:
            privileged = spaces.privileged
        curvature = None
        # With many classes, the corrections of steps on a low-rank Q cost more than Q itself.
        if self.tol >= COARSE and n_problems <= FEW_PROBLEMS and not spaces.decision.on_demand:
            curvature = float(spaces.decision.diagonal().mean())
        single = self.tol >= COARSE
        return deformation_space(privileged, C, lam, spaces.available, single=single, curvature=curvature)


@model_part
class SVMPlus(_CorrectedClassifier):
    r"""SVM+ classifier: a support vector machine whose slacks are a function of privileged features.

    With ``correction="slack"`` (Vapnik & Vashist [1]_; Xu et al. [3]_, eq. 1-2)

    .. math::

        \min_{w, b, w^*, b^*, \zeta \ge 0}\; \tfrac12 |w|^2 + \tfrac{\lambda}{2} |w^*|^2
        + \sum_i C_i \big(g(z_i) + \kappa \zeta_i\big)
        \quad\text{s.t.}\quad y_i f(x_i) \ge 1 - g(z_i) - \zeta_i,\;\; g(z_i) \ge 0,

    with ``correction="labeled"`` (Vapnik & Izmailov [2]_; Celik et al. [4]_, eq. 2, whose gamma is 1 / lam)

    .. math::

        \min_{w, b, w^*, b^*}\; \tfrac12 |w|^2 + \tfrac{\lambda}{2} |w^*|^2 + \sum_i C_i [y_i g(z_i)]_+
        + \kappa \sum_i C_i [1 - y_i f(x_i) - y_i g(z_i)]_+ ,

    where :math:`f(x) = w \cdot x + b` is the decision function and :math:`g(z) = w^* \cdot z + b^*` the correcting function of
    the privileged features. Examples without privileged features have slacks of their own that cost C. The dual is solved;
    ``dual_gap_`` certifies the result.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss.
    lam : float, or list or dict of float, default=1.0
        Weight of the correcting function's norm. Small: slacks follow the privileged features closely. Several spaces have one
        value for all, or one each: their kernels enter as the sum of :math:`K^*_m / \lambda_m`.
    correction : {"slack", "labeled"}, default="slack"
        Which of the two problems above.
    kappa : float, default=3.0
        Cost of slack that the privileged features do not explain, relative to C. ``inf`` forbids it, as the papers do, which is
        safe only for separable classes.
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
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with the sample weights.
    n_components : int, default=None
        Replace kernels that are not linear by Nystroem features with this many random rows as landmarks, and train on their
        weights: time and memory then grow with the number of examples, not with its square. ``dual_gap_`` certifies the problem
        with the approximate kernels, ``approximation_error_`` and ``privileged_approximation_error_`` report what they miss.
        None: exact kernels.
    solver : {"auto", "interior_point", "smo", "decomposition", "reference"}, default="auto"
        "auto" with linear kernels and more examples than features is an interior point on the weights, without kernel
        matrices. Otherwise it is SMO, on working sets with kernel blocks on demand if a kernel matrix exceeds ``cache_size``,
        finished by active-set steps if ``tol`` is below 1e-3 or few variables are free, with an interior point as the last
        resort. "reference" is PIQP, slow, for checking.
    tol : float, default=1e-3
        Relative duality gap that a fit aims at; it ends above it only with a ``ConvergenceWarning``.
    max_iter : int, default=-1
        Largest number of iterations; -1 for no limit.
    max_time : float or None, default=None
        Seconds after which a fit ends with the best point so far, its gap and a ``ConvergenceWarning``; None for no limit.
    cache_size : float, default=200
        Megabytes for a kernel matrix; blocks of a larger one are computed when they are needed.
    random_state : int, RandomState or None, default=None
        Chooses the landmarks of ``n_components``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    support_ : ndarray
        Indices of the training examples with a non-zero coefficient.
    support_vectors_ : ndarray or sparse matrix
        Their features; not kept by the solvers on weights.
    dual_coef_ : ndarray of shape (1 or n_classes, n_support)
        Coefficients :math:`y_i a_i`.
    intercept_ : ndarray of shape (1 or n_classes,)
        From the optimality conditions; the midpoint where they leave an interval.
    coef_ : ndarray
        Weights, for the linear kernel.
    privileged_dual_coef_ : ndarray of shape (1 or n_classes, n_available)
        Coefficients of the correcting function over the examples with privileged features.
    privileged_intercept_ : ndarray
    objective_ : float
        Value of the problem above, summed over the one-vs-rest problems.
    dual_gap_ : float
        Relative duality gap (the largest of the one-vs-rest problems).
    kkt_violation_ : float
        Largest violation of the optimality conditions.
    n_iter_ : int
    approximation_error_, privileged_approximation_error_ : float
        With ``n_components``: share of each kernel's trace that its features miss, on up to 2000 random training examples;
        0 where they are exact. ``support_vectors_`` are then the landmarks.

    References
    ----------
    .. [1] V. Vapnik, A. Vashist. A new learning paradigm: learning using privileged information. Neural Networks, 2009.
    .. [2] V. Vapnik, R. Izmailov. Learning using privileged information: similarity control and knowledge transfer.
       JMLR, 2015.
    .. [3] X. Xu et al. Simple and efficient learning using privileged information, 2016.
    .. [4] Z. B. Celik, R. Izmailov, P. McDaniel. Proof and implementation of algorithmic realization of learning using
       privileged information (LUPI) paradigm: SVM+, 2015. Its eq. (10) gives b + b*, not b.

    Examples
    --------
    >>> from lupi import SVMPlus
    >>> from lupi.datasets import make_privileged
    >>> data = make_privileged(n_samples=100, random_state=0)
    >>> model = SVMPlus().fit(data.data, data.target, privileged=data.privileged)
    >>> model.dual_gap_ < 1e-3
    True
    >>> model.predict(data.data[:2]).shape
    (2,)
    """

    _squared = False


@model_part
class SVM2Plus(_CorrectedClassifier):
    r"""SVM2+ classifier: SVM+ with squared slacks, as fast as a plain SVM.

    .. math::

        \min_{w, b, v, \rho, \zeta}\; \tfrac12 |w|^2 + \tfrac{\lambda}{2}(|v|^2 + \rho^2)
        + \tfrac12 \sum_i C_i (\xi_i^2 + \kappa \zeta_i^2), \qquad \xi_i = v \cdot z_i + \rho,
        \quad\text{s.t.}\quad y_i (w \cdot x_i + b) \ge 1 - \xi_i - \zeta_i

    (Xu et al. [1]_, eq. 3-5, with a residual slack :math:`\zeta`); ``correction="labeled"`` has :math:`y_i \xi_i` in the
    constraint (their footnote 1). The dual is that of a hard-margin SVM with the kernel :math:`yy' \circ K + Q`, where Q depends
    on the privileged features, C and lam only: all classes of a one-vs-rest fit share it. Examples without privileged features
    have slacks of their own. Without any privileged features this is the L2-SVM.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss.
    lam : float, or list or dict of float, default=1.0
        Weight of the correcting function's norm. Several spaces have one value for all, or one each: their kernels enter as the
        sum of :math:`K^*_m / \lambda_m`.
    correction : {"slack", "labeled"}, default="slack"
        Whether the correcting function models the slack or, multiplied by the label, the margin.
    kappa : float, default=3.0
        Cost of slack that the privileged features do not explain, relative to C. ``inf`` forbids it, as the paper does, which is
        safe only for separable classes; with ``correction="labeled"`` the problem may then have no solution.
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
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with the sample weights.
    n_components : int, default=None
        Number of Nystroem landmarks that replace kernels which are not linear, as in :class:`SVMPlus`. None: exact kernels.
    solver : {"auto", "newton", "interior_point", "smo", "decomposition", "reference"}, default="auto"
        As in :class:`SVMPlus`. On weights, a finite kappa allows Newton's method, which "auto" then uses and "newton" requires:
        a few passes over the data, dense or sparse. With other kernels Q is formed by one Cholesky factorization. Above about
        11,000 examples Q would not fit: a non-linear privileged kernel is then replaced by its Nystroem approximation with 1500
        landmarks, with a warning.
    tol : float, default=1e-3
        Relative duality gap that a fit aims at; it ends above it only with a ``ConvergenceWarning``.
    max_iter : int, default=-1
        Largest number of iterations; -1 for no limit.
    max_time : float or None, default=None
        Seconds after which a fit ends with the best point so far, its gap and a ``ConvergenceWarning``; None for no limit.
    cache_size : float, default=200
        Megabytes for the decision kernel's matrix; blocks of a larger one are computed when they are needed.
    random_state : int, RandomState or None, default=None
        Chooses the landmarks of the Nystroem approximation.

    Attributes
    ----------
    classes_, n_features_in_, support_, support_vectors_, dual_coef_, intercept_, coef_
        As in :class:`SVMPlus`.
    privileged_dual_coef_, privileged_intercept_
        Correcting function :math:`\xi(z)`; its intercept is :math:`\rho`.
    objective_, dual_gap_, kkt_violation_, n_iter_, approximation_error_, privileged_approximation_error_
        As in :class:`SVMPlus`.

    References
    ----------
    .. [1] X. Xu, J. T. Zhou, I. W. Tsang, Z. Qin, R. S. M. Goh, Y. Liu. Simple and efficient learning using privileged
       information, 2016.

    Examples
    --------
    >>> from lupi import SVM2Plus
    >>> from lupi.datasets import make_privileged
    >>> data = make_privileged(n_samples=100, random_state=0)
    >>> model = SVM2Plus(C=1.0, lam=0.1).fit(data.data, data.target, privileged=data.privileged)
    >>> model.dual_gap_ < 1e-3
    True
    >>> model.correcting_function(data.privileged[:3]).shape
    (3,)
    """

    _squared = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **_CorrectedClassifier._parameter_constraints,
        "solver": [StrOptions(set(SOLVERS["kernel"]) | set(SOLVERS["linear"]))],
    }

    def __getstate__(self) -> dict[str, Any]:
        # A support vector's slack follows from the decision function, and the slacks of all rows give the line that they are.
        single = getattr(self, "privileged_coef_", np.empty(0)).shape[-1] == 1 and not hasattr(self, "coef_")
        if single and len(self.support_) >= self.privileged_dual_coef_.shape[1] and not privileged_is_kept():
            raise TypeError(
                "this SVM2Plus can be neither saved nor pickled nor exported: every row is a support vector, so its only "
                "privileged column could be computed from its slacks, which are linear in it. Use a larger C or kernel='linear', "
                "or allow it with lupi.save(..., keep_privileged=True), within lupi.keep_privileged(), or with "
                "`lupi fit --keep-privileged`."
            )
        return super().__getstate__()
