"""Ranking SVM: learn scores from graded examples."""

from numbers import Real
from typing import ClassVar

from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval

from lupi.engine.model_parts import model_part
from lupi.estimators.ranking_base import SHARED_CONSTRAINTS, BaseRanker, check_has_pairs, check_ranking_input
from lupi.estimators.ranking_spaces import KernelSpec, decision_space
from lupi.problems.ranking.pairwise import plain_pairs


@model_part
class RankSVM(BaseRanker):
    r"""Ranking SVM that never writes its pairs down.

    .. math:: \min_w \; \tfrac12 \|w\|^2 + C \sum_{(i, j):\, y_i > y_j} \ell(\xi_{ij}), \qquad
              \xi_{ij} = [1 - w \cdot (x_i - x_j)]_+ ,

    with :math:`\ell(\xi) = \xi^2` or :math:`\xi`, eq. (6)-(7) of [1]_. If ``group`` is given, the sum runs over pairs
    of one query. Loss, gradient and Hessian products are dominance sums: O(n log n) for n examples, whatever the number
    of pairs, and exact.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss of **one pair**. The number of pairs grows with the square of the number of examples: keep
        ``C * n_pairs_`` fixed to compare training sets of different sizes.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        Loss of a pair.
    kernel : {"linear", "poly", "rbf", "laplacian", "chi2"} or callable, default="linear"
        Kernel. Exact up to 2000 examples (kernel expansion); above, or with ``n_components``, scikit-learn's
        :class:`~sklearn.kernel_approximation.Nystroem`.
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel coefficient of "poly", "rbf", "laplacian", "chi2".
    degree : float, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Constant of "poly".
    n_components : int, default=None
        Use Nystroem with so many components. None: only above 2000 examples, with 500.
    solver : {"newton", "bundle"}, default="newton"
        Truncated Newton (the hinge through a sharpening smooth loss), or cutting planes (hinge only).
    tol : float, default=1e-5
        Relative gap at which the solver stops.
    max_iter : int, default=500
        Newton steps or cutting planes at most.
    random_state : int, RandomState instance or None, default=None
        Choice of Nystroem's components.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights (linear kernel).
    dual_coef_ : ndarray of shape (n_samples,)
        Coefficients of the kernel expansion (other kernels, exact).
    grades_ : ndarray
        The different values of y.
    n_pairs_ : int
        Number of pairs in the loss.
    objective_ : float
        Value of the objective above.
    dual_gap_ : float
        Certified relative duality gap: no weights have an objective below ``objective_ * (1 - dual_gap_)``.
    n_iter_ : int
        Iterations.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Their names, if X has them.

    See Also
    --------
    RankTransfer : The same with margins from privileged features.

    References
    ----------
    .. [1] V. Sharmanska, N. Quadrianto, C. H. Lampert, *Learning to rank using privileged information*, ICCV 2013.
    .. [2] T. Joachims, *Optimizing search engines using clickthrough data*, KDD 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi import RankSVM
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 5))
    >>> y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=2000), [-1, 0, 1])
    >>> ranker = RankSVM(C=1e-6).fit(X, y)
    >>> ranker.n_pairs_
    1465319
    >>> round(ranker.score(X, y), 2)
    0.99
    """

    __metadata_request__fit: ClassVar = {"group": True}

    _parameter_constraints: ClassVar[dict] = {
        "C": [Interval(Real, 0.0, None, closed="neither")],
        **SHARED_CONSTRAINTS,
    }

    def __init__(
        self,
        C=1.0,
        loss="squared_hinge",
        *,
        kernel="linear",
        gamma="scale",
        degree=3,
        coef0=0.0,
        n_components=None,
        solver="newton",
        tol=1e-5,
        max_iter=500,
        random_state=None,
    ):
        self.C = C
        self.loss = loss
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_components = n_components
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, group=None):
        """Learn to rank.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Examples.
        y : array-like of shape (n_samples,)
            Grades, higher = to be ranked higher. Any numbers; only their order counts.
        group : array-like of shape (n_samples,), default=None
            Query of each example: only examples of the same query are compared.

        Returns
        -------
        RankSVM
            Itself.
        """
        X, y, group = check_ranking_input(self, X, y, group)
        check_has_pairs(y, group)
        spec = KernelSpec(self.kernel, self.gamma, self.degree, self.coef0, self.n_components, self.random_state)
        space = decision_space(X, spec)
        pairs = plain_pairs(y, group)
        return self._store(space, pairs, self._solve(space, pairs, self.C), y)
