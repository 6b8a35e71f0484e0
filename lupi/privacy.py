"""What may leave the process: registered classes, no privileged rows unless requested, and no paths of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy, deepcopy
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np
from sklearn.base import BaseEstimator

Kind = TypeVar("Kind", bound=Callable[..., Any])

# Classes that a model file may contain, by their full name.
MODEL_PARTS: dict[str, Any] = {}
_kept = ContextVar("keep_privileged", default=False)


def model_part(kind: Kind) -> Kind:
    """Class decorator: :func:`lupi.load` may create its objects. Loading only sets their attributes."""
    MODEL_PARTS[f"{kind.__module__}.{kind.__qualname__}"] = kind
    return kind


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
