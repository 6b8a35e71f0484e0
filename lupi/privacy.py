"""What may leave the process: no privileged rows, unless requested, and no paths of this machine."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy, deepcopy
from io import BytesIO
from typing import Any, ClassVar, Self, cast

import numpy as np
from sklearn.base import BaseEstimator

_kept = ContextVar("keep_privileged", default=False)


@contextmanager
def keep_privileged(keep: bool = True) -> Iterator[None]:
    """Keep privileged training rows in pickles and files of fitted models within this block.

    Otherwise :func:`lupi.save`, ``pickle.dumps`` and ``joblib.dump`` leave out the data of correcting functions and teachers
    (prediction is not affected), and raise for a model that cannot predict without them.

    Parameters
    ----------
    keep : bool, default=True

    Examples
    --------
    >>> import pickle, lupi
    >>> from lupi.datasets import make_privileged
    >>> X, y, privileged = make_privileged(60, random_state=0, return_X_y_privileged=True)
    >>> model = lupi.SVMPlus().fit(X, y, privileged=privileged)
    >>> with lupi.keep_privileged():
    ...     whole = pickle.dumps(model)
    >>> bool((pickle.loads(whole).correcting_function(privileged) == model.correcting_function(privileged)).all())
    True
    >>> pickle.loads(pickle.dumps(model)).correcting_function(privileged)
    Traceback (most recent call last):
    ValueError: ...files and pickles hold no privileged rows...
    """
    token = _kept.set(bool(keep))
    try:
        yield
    finally:
        _kept.reset(token)


class WithoutPrivilegedRows:
    """Estimator whose attributes in ``_privileged_rows_in`` do not leave the process; copies within it are complete."""

    _privileged_rows_in: ClassVar[tuple[str, ...]] = ()

    def __getstate__(self) -> dict[str, Any]:
        state = cast("dict[str, Any]", super().__getstate__())
        if _kept.get():
            return state
        self._check_leaves()
        return {name: value for name, value in state.items() if name not in self._privileged_rows_in}

    def _check_leaves(self) -> None:
        """Raise TypeError if the model can neither leave with privileged rows nor predict without them."""

    def __copy__(self) -> Self:
        new = type(self).__new__(type(self))
        vars(new).update(vars(self))
        return new

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = memo[id(self)] = type(self).__new__(type(self))
        vars(new).update(deepcopy(vars(self), memo))
        return new


def without_local_data(value: Any) -> Any:
    """Copy with None for the parameters that a class lists in ``_local_paths_in``, and without the rows behind views."""
    if isinstance(value, BaseEstimator):
        stripped, local = copy(value), getattr(value, "_local_paths_in", ())
        for name, part in vars(value).items():
            setattr(stripped, name, None if name in local else without_local_data(part))
        return stripped
    if type(value) in (list, tuple):
        return type(value)(map(without_local_data, value))
    if type(value) is dict:
        return {key: without_local_data(part) for key, part in value.items()}
    return value.copy() if isinstance(value, np.ndarray) and value.base is not None else value


class _Contents(pickle.Pickler):
    """Everything that an object consists of: shapes of its arrays, and its numbers."""

    def __init__(self) -> None:
        super().__init__(BytesIO())
        self.sizes: list[int] = []
        self.numbers: list[np.ndarray] = []

    def persistent_id(self, part: Any) -> None:
        """Called by pickle for every part; None: go on into it."""
        if isinstance(part, float):
            self.numbers.append(np.array([part]))
        elif isinstance(part, np.ndarray) and part.dtype != object:
            self.sizes.append(part.size)
            fields = [part[name] for name in part.dtype.names] if part.dtype.names else [part]
            self.numbers += [np.ravel(field) for field in fields if field.dtype.kind == "f"]


def _contents(fitted: BaseEstimator) -> tuple[list[int], np.ndarray]:
    found = _Contents()
    with keep_privileged():
        found.dump(fitted)
    return sorted(found.sizes), np.concatenate([np.zeros(0), *found.numbers])


def restores_rows(fitted: BaseEstimator, refitted: list[BaseEstimator], targets: np.ndarray) -> bool:
    """Whether a fitted estimator holds so much of its targets that single rows of them can be restored.

    Two signs, found in whatever the object consists of: its size depends on the number of rows (kernel methods, neighbors,
    trees and Gaussian processes hold a number for each row or leaf; linear models and networks do not), or a number in it is
    the target of one row only (a median is).

    Parameters
    ----------
    fitted : estimator
        Fitted on all rows.
    refitted : list of estimator
        The same, fitted on fewer rows.
    targets : ndarray of shape (n_samples, n_outputs)
        What it was fitted to.

    Returns
    -------
    bool

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.kernel_ridge import KernelRidge
    >>> from sklearn.linear_model import Ridge
    >>> X = Z = np.random.default_rng(0).normal(size=(20, 2))
    >>> [restores_rows(kind().fit(X, Z), [kind().fit(X[:15], Z[:15])], Z) for kind in (Ridge, KernelRidge)]
    [False, True]
    """
    try:
        sizes, numbers = _contents(fitted)
        if any(_contents(other)[0] != sizes for other in refitted):
            return True
    except (TypeError, AttributeError, pickle.PicklingError):
        return True  # it cannot be looked into
    values, counts = np.unique(targets, return_counts=True)
    # Whole numbers, such as a count of rows, meet by chance.
    single = values[(counts == 1) & (values != np.round(values))]
    return bool(np.isin(numbers, single).any())
