"""Argument checks that the tasks share; every message names the argument and says what would be right."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np

from lupi.inputs.types import MatrixLike


def check_positive_int(value: float, name: str, minimum: int = 1) -> int:
    """An integer of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise ValueError(f"{name} must be an integer of at least {minimum}, got {value!r}.")
    return int(value)


def check_positive_real(value: float, name: str) -> float:
    """A positive finite number."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < np.inf:
        raise ValueError(f"{name} must be a positive finite number, got {value!r}.")
    return float(value)


def check_real_from_zero(value: float, name: str) -> float:
    """A finite number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= float(value) < np.inf:
        raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}.")
    return float(value)


def check_rows(X: MatrixLike, n_features: int, name: str) -> np.ndarray:
    """A finite (n, n_features) array."""
    rows = np.asarray(X, dtype=float)
    if rows.ndim != 2 or rows.shape[1] != n_features:
        raise ValueError(f"{name} must have shape (n, {n_features}), got {rows.shape}.")
    if not np.isfinite(rows).all():
        raise ValueError(f"{name} contains NaN or infinity; impute or remove those values.")
    return rows
