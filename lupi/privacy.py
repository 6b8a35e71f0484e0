"""What may leave the process: registered classes, what prediction needs unless more is requested, no paths of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy, deepcopy
from typing import Any, Self, TypeVar, cast

import numpy as np
from sklearn.base import BaseEstimator, clone

Kind = TypeVar("Kind", bound=Callable[..., Any])

# Classes that a model file may contain, by their full name.
MODEL_PARTS: dict[str, Any] = {}
# Attributes of every estimator that may leave: names and numbers of decision columns, labels, and which metadata `fit` takes.
OF_EVERY_ESTIMATOR = ("n_features_in_", "feature_names_in_", "classes_", "_metadata_request")
_kept = ContextVar("keep_privileged", default=False)


def privileged_is_kept() -> bool:
    """Whether this is within a block of :func:`lupi.keep_privileged`."""
    return _kept.get()


def model_part(kind: Kind) -> Kind:
    """Class decorator: :func:`lupi.load` may create its objects. Loading only sets their attributes."""
    MODEL_PARTS[f"{kind.__module__}.{kind.__qualname__}"] = kind
    return kind


@contextmanager
def keep_privileged(keep: bool = True) -> Iterator[None]:
    """Keep privileged training rows, and all else that a fit found, in pickles and files of fitted models within this block.

    Otherwise :func:`lupi.save`, ``pickle.dumps`` and ``joblib.dump`` write only the parameters and what prediction from X needs:
    no correcting functions, teachers, surrogates or reports of the fit. They raise for a model whose prediction needs functions
    that were fitted to privileged features, as does :func:`lupi.to_onnx`.

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
    lupi.privacy.LeftOutError: ...files and pickles hold no privileged rows...
    """
    token = _kept.set(bool(keep))
    try:
        yield
    finally:
        _kept.reset(token)


class LeftOutError(ValueError, AttributeError):
    """An attribute that a loaded model does not have, because prediction does not need it."""


class WithoutPrivilegedRows:
    """Estimator of which the parameters and what prediction needs leave the process; copies within it are complete.

    Prediction from X reads the fitted attributes `_needed` and, unless there is a ``coef_``, `_needed_without_coef`. All others
    stay behind, whatever they are.
    """

    _needed: tuple[str, ...] = ()
    _needed_without_coef: tuple[str, ...] = ()
    _left_out: Sequence[str] = ()

    def __getstate__(self) -> dict[str, Any]:
        state = cast("dict[str, Any]", super().__getstate__())
        if privileged_is_kept():
            return state
        params = cast("BaseEstimator", self).get_params(deep=False)
        # Estimators among the parameters are not fitted here, but may have been elsewhere.
        leaving = {name: clone(value, safe=False) if hasattr(value, "fit") else value for name, value in params.items()}
        needed = (*OF_EVERY_ESTIMATOR, *self._needed, *(() if "coef_" in state else self._needed_without_coef))
        leaving |= {name: state[name] for name in needed if name in state}
        return leaving | {"_left_out": sorted(state.keys() - leaving.keys() - {"_left_out"} | {*self._left_out})}

    def __getattr__(self, name: str) -> Any:
        if name not in self._left_out:
            return object.__getattribute__(self, name)  # raises the error that led here
        raise LeftOutError(
            f"this {type(self).__name__} was loaded, and files and pickles hold no privileged rows, only what prediction needs: "
            f"{name!r} was left out. Write the model with lupi.save(..., keep_privileged=True) or within lupi.keep_privileged()."
        )

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
