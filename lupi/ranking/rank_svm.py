"""Ranking SVM: learn scores from graded examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from lupi.inputs.decorators import fit_context
from lupi.inputs.training_set import TrainingSet
from lupi.inputs.types import MatrixLike, VectorLike
from lupi.privacy import model_part
from lupi.ranking.pairwise import plain_pairs
from lupi.ranking.ranker import BaseRanker, check_ranking_set, fit_candidates, fit_on_pairs, make_features
from lupi.solution import deadline


@model_part
@dataclass(eq=False, repr=False)
class RankSVM(BaseRanker):
    r"""Ranking SVM whose cost does not depend on the number of pairs.

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
    kernel : {"linear", "rbf", "poly", "sigmoid", "chi2", "laplacian", "intersection", "precomputed"} or callable, default="linear"
        Kernel; a function takes two feature matrices and returns their kernel matrix. With "precomputed", ``X`` is the
        kernel matrix of shape (n_samples, n_samples).
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel coefficient of "poly", "rbf", "sigmoid", "laplacian", "chi2".
    degree : float, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Constant of "poly" and "sigmoid".
    n_components : int, default=None
        Number of Nystroem components. None: exact up to 2000 examples, 500 components above.
    solver : {"auto", "newton", "coordinate"}, default="auto"
        Truncated Newton, which smooths the hinge less and less; or, for the hinge alone, coordinate descent over explicit
        pairs. "auto" uses coordinate descent for the hinge if pairs are few and features many, otherwise Newton.
    tol : float, default=1e-5
        Relative duality gap at which the solver stops.
    max_iter : int, default=500
        Largest number of Newton steps and of passes over the pairs.
    max_time : float or None, default=None
        Seconds after which a fit ends with the best point so far, its gap and a ``ConvergenceWarning``; None for no limit.
    random_state : int, RandomState instance or None, default=None
        Selects Nystroem's components.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights (linear kernel).
    dual_coef_ : ndarray of shape (n_rows,)
        Coefficients of the kernel expansion (other kernels).
    X_fit_ : ndarray or CSR matrix of shape (n_rows, n_features)
        Rows of the kernel expansion: all training examples, or Nystroem's components; their positions with
        ``kernel="precomputed"``.
    grades_ : ndarray
        Distinct values of y.
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
        Names of the features, if X has column names.

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

    C: float = 1.0
    loss: str = "squared_hinge"

    _path_parameters = ("C",)

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: VectorLike, group: VectorLike | None = None) -> Self:
        """Learn to rank.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask collection} of shape (n_samples, n_features)
            Examples. A Dask array or frame stays in its chunks (linear kernels).
        y : array-like of shape (n_samples,)
            Grades, higher = to be ranked higher. Only their order counts.
        group : array-like of shape (n_samples,), default=None
            Query of each example: only examples of the same query are compared.

        Returns
        -------
        RankSVM
            This object.
        """
        with deadline(self.max_time):
            self._fit_path([self], check_ranking_set(self, X, y, group=group))
        return self

    def fit_path(
        self, candidates: list[dict[str, Any]], X: MatrixLike, y: VectorLike, group: VectorLike | None = None
    ) -> list[Any]:
        """Fit for several parameters; each fit starts at the solution for the next smaller C.

        Parameters
        ----------
        candidates : sequence of dict
            Parameters of each fit; candidates that differ in C alone form a path.
        X, y, group : array-like
            As in :meth:`fit`.

        Returns
        -------
        list of RankSVM or ValueError
            For each candidate the fitted clone, or the error of its fit.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from lupi import RankSVM
        >>> X, y = load_iris(return_X_y=True)
        >>> [model.C for model in RankSVM().fit_path([{"C": 0.1}, {"C": 0.01}], X, y)]
        [0.1, 0.01]
        """
        return fit_candidates(self, candidates, X, y, None, group)

    def _fit_path(self, models: list[Any], data: TrainingSet) -> None:
        """Fit rankers that differ in C alone, on labeled rows."""
        fit_on_pairs(models, data, make_features(self, data), plain_pairs(data.target, data.groups))
