"""SVM-2K: two views that must agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from lupi.inputs.decorators import fit_context
from lupi.inputs.types import MatrixLike, PrivilegedLike, VectorLike
from lupi.privacy import model_part
from lupi.svm.duals import svm_2k_dual, svm_dual
from lupi.svm.kernel_machine import NON_NEGATIVE, POSITIVE, KernelClassifier, fit_machine, one_vs_rest

if TYPE_CHECKING:
    from lupi.inputs.training_set import TrainingSet
    from lupi.svm.kernel_machine import Problems, Spaces


@model_part
@dataclass(eq=False, repr=False)
class SVM2K(KernelClassifier):
    r"""SVM-2K classifier: one SVM on each of the two views, tied together on the training examples.

    .. math::

        \min\; \tfrac12 |w_A|^2 + \tfrac12 |w_B|^2 + \sum_i C_i [1 - y_i f_A(x_i)]_+ + \sum_i C^*_i [1 - y_i f_B(z_i)]_+
        + \sum_i D_i \big[\,|f_A(x_i) - f_B(z_i)| - \epsilon\,\big]_+

    Predictions use :math:`f_A` alone, so the second view may be privileged (the baseline of Xu et al. [2]_). An example
    without privileged features has no second view. Without any privileged features this is the C-SVM.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the decision view's loss.
    C_privileged : float, default=1.0
        Weight of the privileged view's loss.
    D : float, default=1.0
        Weight of disagreement; 0 gives two independent SVMs.
    epsilon : float, default=0.0
        Disagreement that costs nothing.
    kernel : {"linear", "rbf", "poly", "sigmoid", "chi2", "laplacian", "intersection", "precomputed"} or callable, default="rbf"
        Kernel of the decision space; a callable gets two feature matrices and returns their kernel matrix.
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel coefficient; "scale" is 1 / (n_features * X.var()), with sample weights in the variance.
    degree : float, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Constant of "poly" and "sigmoid".
    privileged_kernel, privileged_gamma, privileged_degree, privileged_coef0
        The same for the privileged space; several spaces, whose kernels are added up, have one value for all or one each.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with the sample weights; both scale C, C_privileged and D.
    solver : {"auto", "smo", "decomposition", "interior_point", "reference"}, default="auto"
        "auto" is SMO, finished by active-set steps where that is cheap; on working sets if a kernel matrix exceeds ``cache_size``.
    tol : float, default=1e-3
        Relative duality gap that a fit aims at; it ends above it only with a ``ConvergenceWarning``.
    max_iter : int, default=-1
        Largest number of iterations; -1 for no limit.
    max_time : float or None, default=None
        Seconds after which a fit ends with the best point so far, its gap and a ``ConvergenceWarning``; None for no limit.
    cache_size : float, default=200
        Megabytes for each kernel matrix.

    Attributes
    ----------
    classes_, n_features_in_, support_, support_vectors_, dual_coef_, intercept_, coef_
        The decision view's classifier, as in :class:`SVMPlus`.
    privileged_dual_coef_, privileged_intercept_
        The privileged view's classifier.
    objective_, dual_gap_, kkt_violation_, n_iter_
        As in :class:`SVMPlus`.

    References
    ----------
    .. [1] J. D. R. Farquhar, D. R. Hardoon, H. Meng, J. Shawe-Taylor, S. Szedmak. Two view learning: SVM-2K, theory and
       practice. NIPS, 2005.
    .. [2] X. Xu et al. Simple and efficient learning using privileged information, 2016.

    Examples
    --------
    >>> from lupi import SVM2K
    >>> from lupi.datasets import make_privileged
    >>> data = make_privileged(n_samples=80, random_state=0)
    >>> model = SVM2K(D=0.5).fit(data.data, data.target, privileged=data.privileged)
    >>> model.dual_gap_ < 1e-3
    True
    """

    C: float = 1.0
    C_privileged: float = 1.0
    D: float = 1.0
    epsilon: float = 0.0

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **KernelClassifier._parameter_constraints,
        "C": POSITIVE,
        "C_privileged": POSITIVE,
        "D": NON_NEGATIVE,
        "epsilon": NON_NEGATIVE,
    }

    _path_parameters = ("C", "C_privileged", "D", "epsilon")

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
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Decision features; the kernel matrix with ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Labels of any type, two classes or more (one against the rest).
        privileged : array-like, sparse matrix or data frame of shape (n_samples, n_privileged), optional
            The second view, which exists at training time only. A row that is entirely NaN is not available for that example.
            None fits the C-SVM.
        sample_weight : array-like of shape (n_samples,), optional
            Weights that multiply C, C_privileged and D.

        Returns
        -------
        self : object
        """
        return fit_machine(self, X, y, privileged, sample_weight)

    def _problems(self, data: TrainingSet, spaces: Spaces) -> Problems:
        """One problem per class, on the same spaces."""
        C, C_privileged, D = (cost * data.loss_weight for cost in (self.C, self.C_privileged, self.D))
        if spaces.stack is None:
            return [svm_dual(spaces.decision, y, C) for y in one_vs_rest(data)]
        shared = C, C_privileged, D, self.epsilon, spaces.available
        return [svm_2k_dual(spaces.decision, spaces.privileged, y, *shared) for y in one_vs_rest(data)]
