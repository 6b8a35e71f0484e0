"""Fits of one estimator for many parameters on the same data."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterable, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeAlias

from sklearn.base import clone

from lupi.inputs.types import MatrixLike, VectorLike
from lupi.solution import Solution, deadline
from lupi.svm.kernel_qp import KernelQP
from lupi.svm.linear import LinearPrimal
from lupi.svm.solve import solve, solve_near

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

# Of one machine: one for each class, or a single one.
Problems: TypeAlias = Sequence[KernelQP | LinearPrimal]


def fit_path(
    estimator: BaseEstimator, candidates: list[dict[str, Any]], X: MatrixLike, y: VectorLike, **fit_params: Any
) -> list[Any]:
    """Fit an estimator for each candidate: by its own ``fit_path`` if it has one, else one by one.

    Parameters
    ----------
    estimator : estimator
    candidates : sequence of dict
        Parameters of each fit.
    X, y : array-like
        Training data.
    **fit_params
        Further arguments of `fit`, such as `privileged`.

    Returns
    -------
    list of estimator or ValueError
        For each candidate the fitted clone, or why there is none.

    Examples
    --------
    >>> from lupi import SVMPlus
    >>> from lupi.datasets import make_privileged
    >>> X, y, Z = make_privileged(60, random_state=0, return_X_y_privileged=True)
    >>> models = fit_path(SVMPlus(), [{"C": 1.0}, {"C": 10.0}], X, y, privileged=Z)
    >>> [model.C for model in models]
    [1.0, 10.0]
    """
    if hasattr(estimator, "fit_path"):
        return list(estimator.fit_path(candidates, X, y, **fit_params))
    fitted = []
    for params in candidates:
        try:
            fitted.append(clone(estimator).set_params(**params).fit(X, y, **fit_params))
        except ValueError as problem:
            fitted.append(problem)
    return fitted


class WarmStartedPath:
    """``fit_path`` of an estimator whose fit is check, problems, solve, store."""

    # Parameters that leave kernels and checked data as they are.
    _prices: tuple[str, ...] = ()
    solver: str
    tol: float
    max_iter: int
    max_time: float | None

    def fit_path(self, candidates: list[dict[str, Any]], X: MatrixLike, y: VectorLike, **fit_params: Any) -> list[Any]:
        """Fit a clone for each candidate: kernels and checked data are shared where only prices differ.

        Each fit starts from the solution of the nearest candidate that is already solved; it is the same within the
        solver's tolerance. ``max_time`` counts for all fits together.

        Parameters
        ----------
        candidates : sequence of dict
            Parameters of each fit.
        X, y : array-like
            Training data, as in ``fit``.
        **fit_params
            Further arguments of ``fit``, such as ``privileged``.

        Returns
        -------
        list of estimator or ValueError
            For each candidate the fitted clone, or why there is none.
        """
        with deadline(self.max_time):
            fitted: list[Any] = [None] * len(candidates)
            for members in _same_but(candidates, self._prices):
                data: Any = None
                solved: dict[int, Any] = {}
                for k in _easiest_first(members, candidates):
                    model = clone(self).set_params(**candidates[k])
                    try:
                        model._validate_params()
                        if data is None:
                            data = model._check(X, y, **fit_params)
                        problems = model._problems(data)
                        nearest = _nearest(candidates[k], {j: candidates[j] for j in solved})
                        near = None if nearest is None else solved[nearest]
                        solved[k] = problems, model._solve_near(problems, near)
                        for remark in [*data.remarks, *model._remarks(*solved[k])]:
                            warnings.warn(remark, stacklevel=2)
                        data.remarks.clear()
                        fitted[k] = model._store(data, *solved[k])
                    except ValueError as problem:
                        fitted[k] = problem
            return fitted

    def _solve_near(self, problems: Problems, near: tuple[Problems, list[Solution]] | None) -> list[Solution]:
        """Solutions that start from those of similar problems, where that is of use."""
        solutions = []
        for k, problem in enumerate(problems):
            solution = None if near is None else solve_near(problem, near[0][k], near[1][k], tol=self.tol)
            solutions.append(solution or solve(problem, self.solver, tol=self.tol, max_iter=self.max_iter))
        return solutions


def _same_but(candidates: list[dict[str, Any]], free: Collection[str]) -> Iterable[list[int]]:
    """Positions of the candidates, in groups that agree in all parameters but the free ones."""
    groups: dict[str, list[int]] = {}
    for k, params in enumerate(candidates):
        # A price with one value per space is part of the kernels' sum.
        fixed = {name: value for name, value in params.items() if name not in free or not isinstance(value, Real)}
        key = repr(sorted(fixed.items()))
        groups.setdefault(key, []).append(k)
    return groups.values()


def _easiest_first(members: list[int], candidates: list[dict[str, Any]]) -> list[int]:
    """Positions in the order of C; with a large lam the correcting function hardly moves, so that comes first."""

    def price(k: int, name: str) -> float:
        value = candidates[k].get(name, 0.0)
        return float(value) if isinstance(value, Real) else 0.0

    return sorted(members, key=lambda k: (price(k, "C"), -price(k, "lam")))


def _nearest(params: dict[str, Any], others: dict[int, dict[str, Any]]) -> int | None:
    """Key of the candidate whose values are the fewest steps away on a logarithmic scale; None if there is none."""
    return min(others, key=lambda k: _distance(params, others[k]), default=None)


def _distance(first: dict[str, Any], second: dict[str, Any]) -> float:
    """Steps on a logarithmic scale between two candidates; kappa may be infinite, epsilon 0, and a value invalid."""
    pairs = [(first[name], second[name]) for name in first if name in second]
    return sum(abs(_log(a) - _log(b)) for a, b in pairs if a != b)


def _log(price: float) -> float:
    return math.log(max(float(price), 1e-300))
