"""SVM, SVM+ and SVM2+ as problems over weights, and when that is the better form."""

from __future__ import annotations

from typing import Any

import numpy as np

from lupi.svm.feature_products import SharedMoment
from lupi.svm.linear import LinearPrimal

# So few examples are solved exactly on their kernel matrices.
VERY_FEW = 200
# Kernel matrices of up to this many examples are cheaper than weights that are more than this share of the examples.
MOST_EXAMPLES, MANY_WEIGHTS = 5000, 0.7
# The interior point factorizes a matrix over the weights; not over more of them.
MOST_WEIGHTS = 5000


def over_weights(n: int, n_weights: int, smooth: bool) -> bool:
    """Whether a problem with linear kernels is better posed over its weights than over kernel matrices."""
    if n <= VERY_FEW:
        return False
    if n_weights < MANY_WEIGHTS * n:
        return smooth or n_weights <= MOST_WEIGHTS
    return smooth and n > MOST_EXAMPLES


def linear_problems(
    X: Any,
    Z: Any,
    signs: list[np.ndarray],
    C: np.ndarray,
    lam: float,
    kappa: float,
    labeled: bool,
    available: np.ndarray,
    *,
    squared: bool,
) -> list[LinearPrimal]:
    """SVM+ or SVM2+ of every class against the others; what does not depend on the class is shared."""
    prices = C, lam, kappa, labeled, available
    if not squared:
        return [linear_svm_plus(X, Z, y, *prices) for y in signs]
    moment = None if Z is None else SharedMoment(Z, np.where(available, C, 0.0))
    return [linear_svm2_plus(X, Z, y, *prices, moment) for y in signs]


def linear_svm_plus(
    X: Any,
    Z: Any,
    y: np.ndarray,
    C: np.ndarray,
    lam: float,
    kappa: float,
    labeled: bool,
    available: np.ndarray,
) -> LinearPrimal:
    """SVM+ with hinge losses; without any privileged row (``Z=None``) the C-SVM."""
    s = np.where(available, y if labeled else 1.0, 0.0)
    upper = np.where(available, kappa, 1.0) * C
    tables = np.zeros((4, len(y)))
    tables[1] = upper
    tables[2] = np.where(available, 0.0 if labeled else -np.inf, 0.0)
    tables[3] = np.where(available, C, 0.0)
    return LinearPrimal(X, Z, y, s, tables, C, lam)


def linear_svm2_plus(
    X: Any,
    Z: Any,
    y: np.ndarray,
    C: np.ndarray,
    lam: float,
    kappa: float,
    labeled: bool,
    available: np.ndarray,
    moment: Any = None,
) -> LinearPrimal:
    """SVM2+; without any privileged row (``Z=None``) the L2-SVM. ``moment`` does not depend on y: classes can share it."""
    s = np.where(available, y if labeled else 1.0, 0.0)
    tables = np.zeros((4, len(y)))
    tables[0] = np.where(available, 1.0 / kappa, 1.0) / C
    tables[1] = np.inf
    if Z is not None and moment is None:
        moment = SharedMoment(Z, np.where(available, C, 0.0))
    return LinearPrimal(X, Z, y, s, tables, C, lam, moment)
