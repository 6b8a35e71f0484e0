"""Argument checks that the tasks share; every message names the argument and says what would be right."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np


def check_positive_int(value, name, minimum=1):
    """An integer of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise ValueError(f"{name} must be an integer of at least {minimum}, got {value!r}.")
    return int(value)


def check_positive_real(value, name):
    """A positive finite number."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < np.inf:
        raise ValueError(f"{name} must be a positive finite number, got {value!r}.")
    return float(value)


def check_real_from_zero(value, name):
    """A finite number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= float(value) < np.inf:
        raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}.")
    return float(value)


def check_rows(X, n_features, name):
    """A finite (n, n_features) array."""
    X = np.asarray(X, dtype=float)
    if X.ndim != 2 or X.shape[1] != n_features:
        raise ValueError(f"{name} must have shape (n, {n_features}), got {X.shape}.")
    if not np.isfinite(X).all():
        raise ValueError(f"{name} contains NaN or infinity; impute or remove those values.")
    return X
