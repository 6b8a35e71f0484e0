"""SVM2+: SVM+ with squared hinge loss."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import StrOptions

from lupi.inputs.decorators import fit_context
from lupi.inputs.types import MatrixLike, PrivilegedLike, VectorLike
from lupi.kernels import Space, all_are, fits
from lupi.model_parts import model_part
from lupi.solution import deadline
from lupi.svm.kernel_machine import (
    CorrectedClassifier,
    check_input,
    make_spaces,
    one_vs_rest,
    store,
    warn_about,
)
from lupi.svm.linear_machines import linear_problems
from lupi.svm.solve import SOLVERS, solve
from lupi.svm.svm2_plus_dual import deformation_space, svm2_plus_dual

if TYPE_CHECKING:
    from lupi.inputs import TrainingSet
    from lupi.svm.kernel_machine import Problems, Spaces

# Tolerances for which Q in single precision suffices, and the most problems that share its low-rank approximation.
COARSE = 1e-4
FEW_PROBLEMS = 3
# Q may take this many megabytes before it is replaced by an approximation.
LARGEST_MATRIX = 1100
NYSTROEM_RANK = 1500


@model_part
class SVM2Plus(CorrectedClassifier):
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
        **CorrectedClassifier._parameter_constraints,
        "solver": [StrOptions(set(SOLVERS["kernel"]) | set(SOLVERS["linear"]))],
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
            data = check_input(self, X, y, privileged, sample_weight)
            spaces = self._spaces(data)
            problems = self._problems(data, spaces)
            solutions = [solve(problem, self.solver, tol=self.tol, max_iter=self.max_iter) for problem in problems]
            warn_about(self, problems, solutions)
            return store(self, data, spaces, problems, solutions)

    def _spaces(self, data: TrainingSet) -> Spaces:
        """Spaces, with landmarks instead of a privileged kernel where the matrix Q would not fit into memory."""
        cache_sizes = self.cache_size, max(self.cache_size, LARGEST_MATRIX)
        exact = all_are(self.privileged_kernel, "linear") or all_are(self.privileged_kernel, "precomputed")
        if exact or self.n_components is not None or fits(len(data), cache_sizes[1]) or not data.available.any():
            return make_spaces(self, data, cache_sizes=cache_sizes)
        warnings.warn(
            f"SVM2Plus: {len(data)} examples are too many for the matrix Q, so the privileged kernel is replaced "
            f"by its Nystroem approximation with {NYSTROEM_RANK} landmarks; dual_gap_ certifies the problem with the "
            "approximate kernel. privileged_kernel='linear' and SVMPlus are exact at this size.",
            stacklevel=4,
        )
        return make_spaces(self, data, cache_sizes=cache_sizes, privileged_components=NYSTROEM_RANK)

    def _problems(self, data: TrainingSet, spaces: Spaces) -> Problems:
        """One problem per class, with the same kernel matrix and the same Q."""
        C, lam, signs = self.C * data.loss_weight, spaces.lam(self), one_vs_rest(data)
        costs = C, lam, self.kappa, self.correction == "labeled", spaces.available
        if spaces.over_weights(self, data, smooth=np.isfinite(self.kappa) or spaces.stack is None):
            X, Z = spaces.explicit
            return linear_problems(X, Z, signs, *costs, squared=True)
        deformation = None
        if spaces.stack is not None:
            decision, curvature = spaces.decision, None
            # With many classes, the corrections of steps on a low-rank Q cost more than Q itself.
            if self.tol >= COARSE and len(signs) <= FEW_PROBLEMS and not decision.on_demand:
                curvature = float(decision.diagonal().mean())
            deformation = deformation_space(
                _privileged_space(spaces), C, lam, spaces.available, single=self.tol >= COARSE, curvature=curvature
            )
        return [svm2_plus_dual(spaces.decision, deformation, y, *costs) for y in signs]


def _privileged_space(spaces: Spaces) -> Space:
    """Kernel matrix or features of the privileged space."""
    if spaces.privileged_landmarks is not None:
        return Space(factor=spaces.landmark_rows.astype(np.float64, copy=False))
    if spaces.privileged.on_demand:
        return Space(factor=spaces.Z.toarray() if sparse.issparse(spaces.Z) else spaces.Z)
    return spaces.privileged
