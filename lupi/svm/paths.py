"""Fits of one estimator for many parameters on the same data, each started from its neighbor's solution."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from numbers import Real
from typing import TYPE_CHECKING, Any

from sklearn.base import clone

from lupi.inputs.types import MatrixLike, VectorLike
from lupi.solution import deadline
from lupi.svm.kernel_machine import KernelMachine, Solved, check_input, solve_and_store

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


def fit_path(
    estimator: BaseEstimator, candidates: list[dict[str, Any]], X: MatrixLike, y: VectorLike, **fit_params: Any
) -> list[Any]:
    """Fit a clone of an estimator for each candidate.

    Kernel machines share checked data and kernels where candidates differ in C, lam and the like, and start from the solution
    of the nearest candidate that is already solved: the result is the same within the solver's tolerance. ``max_time`` is the
    limit of all fits together. Rankers have their own ``fit_path``; other estimators are fitted one by one.

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
        For each candidate the fitted clone, or the error that its fit raised.

    Examples
    --------
    >>> from lupi import SVMPlus
    >>> from lupi.datasets import make_privileged
    >>> X, y, Z = make_privileged(60, random_state=0, return_X_y_privileged=True)
    >>> models = fit_path(SVMPlus(), [{"C": 1.0}, {"C": 10.0}], X, y, privileged=Z)
    >>> [model.C for model in models]
    [1.0, 10.0]
    """
    if isinstance(estimator, KernelMachine) and estimator._path_parameters:
        return _fit_machines(estimator, candidates, X, y, **fit_params)
    if hasattr(estimator, "fit_path"):
        return list(estimator.fit_path(candidates, X, y, **fit_params))
    fitted = []
    for params in candidates:
        try:
            fitted.append(clone(estimator).set_params(**params).fit(X, y, **fit_params))
        except ValueError as problem:
            fitted.append(problem)
    return fitted


def _fit_machines(
    estimator: KernelMachine,
    candidates: list[dict[str, Any]],
    X: MatrixLike,
    y: VectorLike,
    privileged: Any = None,
    sample_weight: VectorLike | None = None,
) -> list[Any]:
    """Fits of a kernel machine."""
    fitted: dict[int, Any] = {}
    with deadline(estimator.max_time):
        for members in _same_but(candidates, estimator._path_parameters):
            machines = {k: clone(estimator).set_params(**candidates[k]) for k in _easiest_first(members, candidates)}
            fitted |= _fit_group(machines, candidates, X, y, privileged, sample_weight)
    return [fitted[k] for k in range(len(candidates))]


def _fit_group(machines: dict[int, Any], candidates: list[dict[str, Any]], *data_of_fit: Any) -> dict[int, Any]:
    """Fits that share their input check and their spaces."""
    data = spaces = None
    solved: dict[int, Solved] = {}
    fitted: dict[int, Any] = {}
    for k, machine in machines.items():
        try:
            machine._validate_params()
            if data is None or spaces is None:
                data = check_input(machine, *data_of_fit)
                spaces = machine._spaces(data)
            nearest = _nearest(candidates[k], {j: candidates[j] for j in solved})
            solved[k] = solve_and_store(machine, data, spaces, None if nearest is None else solved[nearest])
            fitted[k] = machine
        except ValueError as problem:
            fitted[k] = problem
    return fitted


def _same_but(candidates: list[dict[str, Any]], free: Collection[str]) -> Iterable[list[int]]:
    """Positions of the candidates, in groups that agree in all parameters but the free ones."""
    groups: dict[str, list[int]] = {}
    for k, params in enumerate(candidates):
        # One value per space changes the sum of the kernels.
        fixed = {name: value for name, value in params.items() if name not in free or not isinstance(value, Real)}
        key = repr(sorted(fixed.items()))
        groups.setdefault(key, []).append(k)
    return groups.values()


def _easiest_first(members: list[int], candidates: list[dict[str, Any]]) -> list[int]:
    """Positions in the order of C; a large lam first, because the correcting function hardly moves then."""

    def value(k: int, name: str) -> float:
        found = candidates[k].get(name, 0.0)
        return float(found) if isinstance(found, Real) else 0.0

    return sorted(members, key=lambda k: (value(k, "C"), -value(k, "lam")))


def _nearest(params: dict[str, Any], others: dict[int, dict[str, Any]]) -> int | None:
    """Key of the candidate whose values are the fewest steps away on a logarithmic scale; None if there is none."""
    return min(others, key=lambda k: _distance(params, others[k]), default=None)


def _distance(first: dict[str, Any], second: dict[str, Any]) -> float:
    """Steps on a logarithmic scale between two candidates; kappa may be infinite, epsilon 0, and a value invalid."""
    pairs = [(first[name], second[name]) for name in first if name in second]
    return sum(abs(_log(a) - _log(b)) for a, b in pairs if a != b)


def _log(value: float) -> float:
    return math.log(max(float(value), 1e-300))
