"""SVM2+: SVM+ with squared hinge loss."""

from __future__ import annotations

import warnings

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from lupi.engine.model_parts import model_part
from lupi.estimators.svm_plus import SVMPlus
from lupi.kernels import LandmarkFeatures, fits
from lupi.problems import Space, deformation_features, deformation_matrix, svm2_plus_dual

# Q is worth this many megabytes before it is replaced by an approximation.
LARGEST_MATRIX = 1100
NYSTROEM_RANK = 1500


@model_part
class SVM2Plus(SVMPlus):
    r"""SVM2+ classifier: SVM+ with squared slacks, as fast as a plain SVM.

    .. math::

        \min_{w, b, v, \rho, \zeta}\; \tfrac12 |w|^2 + \tfrac{\lambda}{2}(|v|^2 + \rho^2)
        + \tfrac12 \sum_i C_i (\xi_i^2 + \kappa \zeta_i^2), \qquad \xi_i = v \cdot z_i + \rho,
        \quad\text{s.t.}\quad y_i (w \cdot x_i + b) \ge 1 - \xi_i - \zeta_i

    (Xu et al. [1]_, eq. 3-5, with a residual slack :math:`\zeta`); ``correction="labelled"`` has :math:`y_i \xi_i` in the
    constraint (their footnote 1). Its dual is that of a hard-margin SVM with the kernel :math:`yy' \circ K + Q`, and Q
    depends on the privileged features, C and lam only: all classes of a one-vs-rest fit share it. Examples without
    privileged features keep a slack of their own. Without privileged features this is the L2-SVM.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss.
    lam : float, default=1.0
        Weight of the correcting function's norm.
    correction : {"slack", "labelled"}, default="slack"
        Whether the correcting function models the slack or, multiplied with the label, the margin.
    kappa : float, default=3.0
        Price of slack that the privileged features do not explain, relative to C. ``inf`` forbids it, as the paper does;
        this is safe only where the classes are separable, and with ``correction="labelled"`` may have no solution.
    kernel : {"linear", "rbf", "poly", "sigmoid", "chi2", "laplacian", "precomputed"} or callable, default="rbf"
        Kernel of the decision space.
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel coefficient; "scale" is 1 / (n_features * X.var()), with sample weights in the variance.
    degree : float, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Constant of "poly" and "sigmoid".
    privileged_kernel, privileged_gamma, privileged_degree, privileged_coef0
        The same for the privileged space.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with the sample weights.
    solver : {"auto", "smo", "decomposition", "interior_point", "reference"}, default="auto"
        As in :class:`SVMPlus`. Q is formed by one Cholesky factorization, or through the features where the privileged
        kernel is linear with fewer features than examples. Beyond about 11,000 examples Q would not fit: a non-linear
        privileged kernel is then replaced by its Nystroem approximation with 1500 components, and a warning says so.
    tol : float, default=1e-3
        Largest violation of the optimality conditions.
    max_iter : int, default=-1
        Limit on the iterations of the solver; -1 for none.
    cache_size : float, default=200
        Megabytes for the decision kernel's matrix or for the rows kept of it.
    random_state : int, RandomState or None, default=None
        Chooses the components of the Nystroem approximation.

    Attributes
    ----------
    classes_, n_features_in_, support_, support_vectors_, dual_coef_, intercept_, coef_
        As in :class:`SVMPlus`.
    privileged_dual_coef_, privileged_intercept_
        Correcting function :math:`\xi(z)`; its intercept is :math:`\rho`.
    objective_, dual_gap_, kkt_violation_, n_iter_
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
    >>> model.correction(data.privileged[:3]).shape
    (3,)
    """

    def _prepare(self, data):
        C, decision = self.C * data.scale, data.decision
        deformation = None if data.Z is None else self._deformation(data, C)
        if deformation is not None and decision.factor is not None and deformation.factor is None:
            decision = Space(matrix=decision.dense)
        labelled = self.correction == "labelled"
        return lambda y: svm2_plus_dual(decision, deformation, y, C, self.kappa, labelled, data.available)

    def _deformation(self, data, C):
        """Q of the training data, as a matrix or as features."""
        kernel, Z, available = self._privileged_kernel, data.Z, data.available
        self._approximation = None
        if kernel.name == "precomputed" or fits(Z.shape[0], max(self.cache_size, LARGEST_MATRIX)):
            space = self._privileged_space(data, max(self.cache_size, LARGEST_MATRIX))
            if space.factor is None:
                return Space(matrix=deformation_matrix(space.dense, C, self.lam, available))
            features = space.factor
        elif kernel.name == "linear":
            features = Z.toarray() if sparse.issparse(Z) else Z
        else:
            features = self._approximate(Z, available)
        return Space(factor=deformation_features(features, C, self.lam, available))

    def _approximate(self, Z, available):
        """Nystroem features of the privileged space, where Q would not fit into memory."""
        random_state = check_random_state(self.random_state)
        self._approximation = LandmarkFeatures.choose(
            self._privileged_kernel, Z[available], NYSTROEM_RANK, random_state
        )
        warnings.warn(
            f"SVM2Plus: {Z.shape[0]} examples are too many for the matrix Q, so the privileged kernel is replaced by its "
            f"Nystroem approximation with {NYSTROEM_RANK} landmarks; dual_gap_ certifies the problem with the approximate "
            "kernel. privileged_kernel='linear' and SVMPlus are exact at this size.",
            UserWarning,
            stacklevel=7,
        )
        features = self._approximation(Z[available])
        out = np.zeros((Z.shape[0], features.shape[1]))
        out[available] = features
        return out

    def _privileged_expansion(self, certificate, C, available):
        """V = (1 / lam) sum eta_i z_i and rho = (1 / lam) sum eta_i, where eta = s o a - C xi and xi = Q (s o a)."""
        eta = np.where(available, certificate.expansions[1] - C * certificate.fields[1], 0.0)
        return eta / self.lam, float(eta.sum() / self.lam)
