"""scikit-learn's decorators with types; without types, decorated methods would be `Any` to type checkers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from sklearn.base import _fit_context
from sklearn.utils import metaestimators

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[Decorated], Decorated]:
    """Check the parameters before `fit`, and run it in scikit-learn's context."""
    decorator = _fit_context(prefer_skip_nested_validation=prefer_skip_nested_validation)
    return cast("Callable[[Decorated], Decorated]", decorator)


def available_if(check: Callable[[Any], bool]) -> Callable[[Decorated], Decorated]:
    """Let an object have a method only if the check of the object returns true; the check may raise AttributeError."""
    return cast("Callable[[Decorated], Decorated]", metaestimators.available_if(check))
