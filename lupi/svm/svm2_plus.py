"""SVM2+: SVM+ with squared hinge loss."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions

from lupi.inputs.decorators import fit_context
from lupi.inputs.types import KernelName, MatrixLike, PrivilegedLike, RandomState, VectorLike
from lupi.kernels import FeatureSpace, Space
from lupi.kernels.several_spaces import PER_SPACE, POSITIVE
from lupi.model_parts import model_part
from lupi.solution import deadline
from lupi.svm import linear_problems
from lupi.svm.kernel_machine import KernelClassifier
from lupi.svm.solve import SOLVERS, solve
from lupi.svm.svm2_plus_dual import deformation_space, svm2_plus_dual

if TYPE_CHECKING:
    from lupi.svm.kernel_machine import TrainingData
    from lupi.svm.paths import Problems

# Tolerances for which Q in single precision suffices, and the most problems that share its low-rank approximation.
ROUGH = 1e-4
FEW_PROBLEMS = 3
# Q is worth this many megabytes before it is replaced by an approximation.
LARGEST_MATRIX = 1100
NYSTROEM_RANK = 1500


@model_part
class SVM2Plus(KernelClassifier):
    r"""SVM2+ classifier: SVM+ with squared slacks, as fast as a plain SVM.

    .. math::

        \min_{w, b, v, \rho, \zeta}\; \tfrac12 |w|^2 + \tfrac{\lambda}{2}(|v|^2 + \rho^2)
        + \tfrac12 \sum_i C_i (\xi_i^2 + \kappa \zeta_i^2), \qquad \xi_i = v \cdot z_i + \rho,
        \quad\text{s.t.}\quad y_i (w \cdot x_i + b) \ge 1 - \xi_i - \zeta_i

    (Xu et al. [1]_, eq. 3-5, with a residual slack :math:`\zeta`); ``correction="labeled"`` has :math:`y_i \xi_i` in the
    constraint (their footnote 1). Its dual is that of a hard-margin SVM with the kernel :math:`yy' \circ K + Q`, and Q
    depends on the privileged features, C and lam only: all classes of a one-vs-rest fit share it. Examples without
    privileged features keep a slack of their own. Without privileged features this is the L2-SVM.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss.
    lam : float, or list or dict of float, default=1.0
        Weight of the correcting function's norm. Of several spaces one
        value for all, or one each: their kernels enter as the sum of :math:`K^*_m / \lambda_m`.
    correction : {"slack", "labeled"}, default="slack"
        Whether the correcting function models the slack or, multiplied with the label, the margin.
    kappa : float, default=3.0
        Price of slack that the privileged features do not explain, relative to C. ``inf`` forbids it, as the paper does;
        this is safe only where the classes are separable, and with ``correction="labeled"`` may have no solution.
    kernel : {"linear", "rbf", "poly", "sigmoid", "chi2", "laplacian", "intersection", "precomputed"} or callable, default="rbf"
        Kernel of the decision space; a callable gets two feature matrices and returns their kernel matrix.
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel coefficient; "scale" is 1 / (n_features * X.var()), with sample weights in the variance.
    degree : float, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Constant of "poly" and "sigmoid".
    privileged_kernel, privileged_gamma, privileged_degree, privileged_coef0
        The same for the privileged space; of several spaces one value for all, or a list or dict with one each.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with the sample weights.
    n_components : int, default=None
        Put Nystroem's features in the place of both kernels (linear ones have features of their own), with so many random
        rows as landmarks, and train over their weights: time and memory then grow with the number of examples, not with
        its square. ``dual_gap_`` certifies the problem with the approximate kernels; how much of them is missing is said by
        ``approximation_error_`` and ``privileged_approximation_error_``. None: the kernels themselves.
    solver : {"auto", "newton", "interior_point", "smo", "decomposition", "reference"}, default="auto"
        As in :class:`SVMPlus`; over weights a finite kappa allows Newton's method, which "auto" then uses and "newton" asks
        for: a few passes over the data, dense or sparse. With other kernels Q is formed by one Cholesky factorization.
        Beyond about 11,000 examples it would not fit: a non-linear privileged kernel is then replaced by its Nystroem
        approximation with 1500 components, and a warning says so.
    tol : float, default=1e-3
        Largest violation of the optimality conditions; relative duality gap of the solvers over weights.
    max_iter : int, default=-1
        Limit on the iterations of the solver; -1 for none.
    max_time : float or None, default=None
        Seconds after which a fit ends with the best point so far, its gap and a ``ConvergenceWarning``; None for no limit.
    cache_size : float, default=200
        Megabytes that the decision kernel's matrix may take; of a larger one, blocks are computed when they are needed.
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

    _parameter_constraints: dict[str, Any] = {
        **KernelClassifier._parameter_constraints,
        "C": POSITIVE,
        "lam": PER_SPACE["lam"],
        "kappa": [Interval(Real, 0, np.inf, closed="right")],
        "correction": [StrOptions({"slack", "labeled"})],
        "n_components": [None, Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "solver": [StrOptions(set(SOLVERS["kernel"]) | set(SOLVERS["linear"]))],
    }

    _prices = ("C", "lam", "kappa")

    def __init__(
        self,
        C: float = 1.0,
        lam: Any = 1.0,
        *,
        correction: str = "slack",
        kappa: float = 3.0,
        kernel: KernelName = "rbf",
        gamma: str | float = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        privileged_kernel: KernelName = "rbf",
        privileged_gamma: str | float = "scale",
        privileged_degree: float = 3,
        privileged_coef0: float = 0.0,
        class_weight: Any = None,
        n_components: int | None = None,
        solver: str = "auto",
        tol: float = 1e-3,
        max_iter: int = -1,
        max_time: float | None = None,
        cache_size: float = 200,
        random_state: RandomState = None,
    ) -> None:
        self.C = C
        self.lam = lam
        self.correction = correction
        self.kappa = kappa
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.privileged_kernel = privileged_kernel
        self.privileged_gamma = privileged_gamma
        self.privileged_degree = privileged_degree
        self.privileged_coef0 = privileged_coef0
        self.class_weight = class_weight
        self.n_components = n_components
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.cache_size = cache_size
        self.random_state = random_state

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
            Decision features; the kernel matrix with ``kernel="precomputed"``. A Dask array or frame stays in its chunks,
            which with linear kernels is all that training needs; the other arguments are then chunked alike.
        y : array-like of shape (n_samples,)
            Labels of any type, two classes or more (one against the rest).
        privileged : array-like, sparse matrix or data frame of shape (n_samples, n_privileged), optional
            Features that exist at training time only. A row that is entirely NaN is not available for that example. A list or
            dict of tables is several spaces; one that an example lacks contributes nothing to its correction.
            None fits the L2-SVM.
        sample_weight : array-like of shape (n_samples,), optional
            Weights that multiply C.

        Returns
        -------
        self : object
        """
        with deadline(self.max_time):
            data = self._check(X, y, privileged, sample_weight)
            problems = self._problems(data)
            for remark in data.remarks:
                warnings.warn(remark, stacklevel=3)
            solutions = [solve(problem, self.solver, tol=self.tol, max_iter=self.max_iter) for problem in problems]
            for remark in self._remarks(problems, solutions):
                warnings.warn(remark, stacklevel=3)
            return self._store(data, problems, solutions)

    def _problems(self, data: TrainingData) -> Problems:
        """One problem a class, over the same kernel matrix and the same Q."""
        C, deformation = self.C * data.weight, None
        prices = C, data.lam(self.lam), self.kappa, self.correction == "labeled", data.available
        if data.over_weights(self.solver, smooth=np.isfinite(self.kappa) or data.Z is None):
            X, Z = data.explicit
            return linear_problems(X, Z, data.signs, *prices, squared=True)
        if data.Z is not None:
            space = self._privileged_space(data)
            # Of many classes each would pay for the corrections that steps on a low-rank matrix need.
            few = self.tol >= ROUGH and len(data.signs) <= FEW_PROBLEMS and not data.decision.on_demand
            curvature = float(data.decision.diagonal().mean()) if few else None
            deformation = deformation_space(
                space, C, data.lam(self.lam), data.available, single=self.tol >= ROUGH, curvature=curvature
            )
        return [svm2_plus_dual(data.decision, deformation, y, *prices) for y in data.signs]

    def _privileged_space(self, data: TrainingData) -> Space:
        """Kernel matrix or features of the privileged space; features in its place where Q would not fit into memory."""
        space = data.privileged_space(max(self.cache_size, LARGEST_MATRIX))
        if not space.on_demand:
            return space
        if data.privileged_kernel.name == "linear":
            features = data.Z.toarray() if sparse.issparse(data.Z) else data.Z
        else:
            features = self._approximate(data)
        data.privileged = Space(factor=features)
        return data.privileged

    def _approximate(self, data: TrainingData) -> np.ndarray:
        """Nystroem features of the privileged space."""
        data.approximation = FeatureSpace.nystroem(
            data.privileged_kernel, data.known_privileged, NYSTROEM_RANK, self.random_state
        )
        data.remarks.append(
            UserWarning(
                f"SVM2Plus: {len(data.available)} examples are too many for the matrix Q, so the privileged kernel is replaced "
                f"by its Nystroem approximation with {NYSTROEM_RANK} landmarks; dual_gap_ certifies the problem with the "
                "approximate kernel. privileged_kernel='linear' and SVMPlus are exact at this size."
            )
        )
        return data.approximated_rows().astype(np.float64, copy=False)
