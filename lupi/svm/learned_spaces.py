"""Weights of several privileged spaces, learned with the machine: multiple kernel learning in the correcting space."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from lupi.inputs import is_per_space, names_of_spaces
from lupi.inputs.types import MatrixLike, PrivilegedLike, VectorLike
from lupi.kernels.several_spaces import SpaceStack
from lupi.svm.svm2_plus import SVM2Plus
from lupi.svm.svm_plus import SVMPlus
from lupi.svm.svr_plus import SVRPlus

MACHINES = (SVMPlus, SVM2Plus, SVRPlus)
# A weight of exactly 0 would be an infinite `lam`.
_LEAST = 1e-9


@dataclass(frozen=True)
class LearnedSpaces:
    """What :func:`learn_space_weights` found.

    Attributes
    ----------
    estimator : estimator
        A copy of the given one with ``lam`` one for each space, fitted.
    weights : dict or list of float
        Share of each space, by name or in the order given; they sum to 1.
    objective : float
        The problem's value.
    dual_gap : float
        Certified relative duality gap of the whole problem, weights included.
    n_iter : int
        Number of fits.
    """

    estimator: Any
    weights: Any
    objective: float
    dual_gap: float
    n_iter: int


def learn_space_weights(
    estimator: Any,
    X: MatrixLike,
    y: VectorLike,
    privileged: PrivilegedLike,
    *,
    sample_weight: VectorLike | None = None,
    tol: float = 1e-4,
    max_iter: int = 100,
) -> LearnedSpaces:
    r"""Fit a machine on several privileged spaces, and learn how much to trust each.

    In place of :math:`\tfrac12 \sum_m \lambda_m \|w^*_m\|^2` the machine pays, with one :math:`\lambda`,

    .. math:: \tfrac{\lambda}{2} \Big(\sum_m \|w^*_m\|\Big)^2 = \min_{d \ge 0, \sum_m d_m = 1} \; \tfrac{\lambda}{2} \sum_m
        \|w^*_m\|^2 / d_m ,

    a convex problem that leaves spaces of little use out. It is solved by turns: a fit with :math:`\lambda_m = \lambda / d_m`,
    then :math:`d_m \propto \|w^*_m\|`. With :math:`q_m = \lambda^2 \|w^*_m\|^2 / d_m^2` the dual value of a fit, lowered by
    :math:`(\max_m q_m - \sum_m d_m q_m) / (2 \lambda)`, bounds the whole problem from below.

    The weights follow how well a space explains slack, and its scale: bring all spaces to the same scale first.

    Parameters
    ----------
    estimator : SVMPlus, SVM2Plus or SVRPlus
        With one ``lam`` for all spaces. Of several classes all share the weights.
    X, y, privileged, sample_weight
        As in its ``fit``; `privileged` is a list or dict of at least two tables.
    tol : float, default=1e-4
        Relative duality gap at which the turns end. The gap of each fit is part of it.
    max_iter : int, default=100
        Largest number of fits; a ``ConvergenceWarning`` says if they did not suffice.

    Returns
    -------
    LearnedSpaces

    Examples
    --------
    >>> import numpy as np
    >>> from lupi import SVMPlus, learn_space_weights
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 3))
    >>> y = np.where(X[:, 0] + rng.normal(size=80) > 0, 1, -1)
    >>> slack = np.maximum(1 - y * X[:, 0], 0)
    >>> spaces = {"hardness": slack[:, None], "nothing": rng.normal(size=(80, 1))}
    >>> found = learn_space_weights(SVMPlus(C=10.0, privileged_kernel="linear"), X, y, spaces)
    >>> found.weights["hardness"] > 0.9, found.dual_gap <= 1e-4
    (True, True)
    """
    name = type(estimator).__name__
    if not isinstance(estimator, MACHINES):
        raise ValueError(f"estimator must be one of {', '.join(m.__name__ for m in MACHINES)}; got {name}.")
    if is_per_space(estimator.lam):
        raise ValueError(
            f"`lam` of {name} must be one number, from which the spaces get theirs; got {estimator.lam!r}."
        )
    if getattr(estimator, "n_components", None) is not None:
        raise ValueError(f"`n_components` of {name} must be None: features of the sum of kernels have no parts.")
    names = names_of_spaces(privileged)
    if len(names) < 2:
        raise ValueError("`privileged` must be a list or dict of at least two tables, one for each space.")
    if not tol > 0 or not max_iter >= 1:
        raise ValueError(f"tol must be positive and max_iter at least 1; got {tol!r} and {max_iter!r}.")
    lam, shares = float(estimator.lam), np.full(len(names), 1.0 / len(names))
    options = {} if sample_weight is None else {"sample_weight": sample_weight}
    for n_iter in range(1, max_iter + 1):
        machine = clone(estimator).set_params(lam=_as_given(lam / shares, privileged))
        machine.fit(X, y, privileged=privileged, **options)
        norms = squared_norms(machine, privileged)
        missed = 0.5 * lam * (np.max(norms / shares**2) - np.sum(norms / shares))
        gap = machine.dual_gap_ + missed / max(abs(machine.objective_), np.finfo(float).tiny)
        if gap <= tol or not norms.any():
            break
        found = np.maximum(np.sqrt(norms) / np.sqrt(norms).sum(), _LEAST)
        if n_iter < max_iter:
            shares = found / found.sum()
    if gap > tol:
        warnings.warn(
            f"learn_space_weights: after {n_iter} fits the relative duality gap is {gap:.2g}, above tol={tol:g}. Raise max_iter, "
            f"or lower the tol of {name} (its last gap is {machine.dual_gap_:.2g}).",
            ConvergenceWarning,
            stacklevel=2,
        )
    return LearnedSpaces(machine, _as_given(shares, privileged), float(machine.objective_), float(gap), n_iter)


def _as_given(values: np.ndarray, privileged: Any) -> Any:
    """By the names of the spaces, where these have names."""
    return dict(zip(privileged, values.tolist())) if isinstance(privileged, dict) else values.tolist()


def squared_norms(machine: Any, privileged: Any) -> np.ndarray:
    """Squared norm of the correcting functions' part in each space, summed over all of a machine's functions."""
    stack: SpaceStack = machine._stack
    ends = np.cumsum((0, *stack.widths))
    if stack.form == "linear":
        return np.array([np.sum(machine.privileged_coef_[:, a:b] ** 2) for a, b in pairwise(ends)])
    coefficients, found = machine.privileged_dual_coef_, []
    for m, weight in enumerate(stack.weights):
        if stack.form == "precomputed":
            given = privileged[stack.names[m]]
            rows = machine._privileged_rows
            values = (given.toarray() if sparse.issparse(given) else np.asarray(given, dtype=float))[np.ix_(rows, rows)]
            # An example that lacks this space, but has another one.
            values = np.where(np.isnan(values), 0.0, values)
            here = coefficients
        else:
            table, part = machine._privileged_data, machine._privileged_kernel.parts[m]
            there = table[:, ends[-1] + m] > 0
            here = coefficients[:, there]
            values = part(table[there, ends[m] : ends[m + 1]]) if there.any() else np.zeros((0, 0))
        found.append(weight**2 * np.sum((here @ values) * here))
    return np.maximum(found, 0.0)
