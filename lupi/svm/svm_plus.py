"""SVM+ with hinge loss."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Self

from lupi.inputs.decorators import fit_context
from lupi.inputs.types import MatrixLike, PrivilegedLike, VectorLike
from lupi.model_parts import model_part
from lupi.solution import deadline
from lupi.svm.duals import svm_dual, svm_plus_dual
from lupi.svm.kernel_machine import CorrectedClassifier, check_input, one_vs_rest, store, warn_about
from lupi.svm.linear_machines import linear_problems
from lupi.svm.solve import solve

if TYPE_CHECKING:
    from lupi.inputs import TrainingSet
    from lupi.svm.kernel_machine import Problems, Spaces


@model_part
class SVMPlus(CorrectedClassifier):
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
    the privileged features. Examples without privileged features keep a slack of their own at price C. The dual is
    solved; ``dual_gap_`` certifies the result.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss.
    lam : float, or list or dict of float, default=1.0
        Weight of the correcting function's norm. Small: slacks follow the privileged features closely. Of several spaces one
        value for all, or one each: their kernels enter as the sum of :math:`K^*_m / \lambda_m`.
    correction : {"slack", "labeled"}, default="slack"
        Which of the two problems above.
    kappa : float, default=3.0
        Price of slack that the privileged features do not explain, relative to C. ``inf`` forbids it, as the papers do;
        this is safe only where the classes are separable.
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
    solver : {"auto", "interior_point", "smo", "decomposition", "reference"}, default="auto"
        "auto", with linear kernels in both spaces and more examples than features: the interior point over the weights,
        without any kernel matrix; many examples after a sample of them, on the rows near a kink; few examples by SMO on
        kernel matrices that all classes share, as long as that is the quicker way. Otherwise SMO, on working sets with
        kernel blocks on demand where a kernel matrix does not fit into ``cache_size``, finished by active-set steps when
        ``tol`` is below 1e-3, SMO is slow, or they cost nothing (few free variables), with the interior point as the last
        resort. "reference" is PIQP, slow, for checking.
    tol : float, default=1e-3
        Largest violation of the optimality conditions; relative duality gap of the solvers over weights.
    max_iter : int, default=-1
        Limit on the iterations of the solver; -1 for none.
    max_time : float or None, default=None
        Seconds after which a fit ends with the best point so far, its gap and a ``ConvergenceWarning``; None for no limit.
    cache_size : float, default=200
        Megabytes that a kernel matrix may take; of a larger one, blocks are computed when they are needed.
    random_state : int, RandomState or None, default=None
        Chooses the landmarks of ``n_components``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    support_ : ndarray
        Indices of the training examples with a non-zero coefficient.
    support_vectors_ : ndarray or sparse matrix
        Their features; not kept by the solvers over weights.
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
            None fits the C-SVM.
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

    def _problems(self, data: TrainingSet, spaces: Spaces) -> Problems:
        """One problem per class, on the same spaces."""
        C, lam, labeled = self.C * data.loss_weight, spaces.lam(self), self.correction == "labeled"
        if spaces.over_weights(self, data, smooth=False):
            X, Z = spaces.explicit
            costs = C, lam, self.kappa, labeled, spaces.available
            return linear_problems(X, Z, one_vs_rest(data), *costs, squared=False)
        if spaces.stack is None:
            return [svm_dual(spaces.decision, y, C) for y in one_vs_rest(data)]
        privileged = replace(spaces.privileged, weight=1.0 / lam)
        shared = C, self.kappa, labeled, spaces.available
        return [svm_plus_dual(spaces.decision, privileged, y, *shared) for y in one_vs_rest(data)]
