"""The classes that a model file may contain: each one registers itself, where it is defined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Kind = TypeVar("Kind", bound=Callable[..., Any])

MODEL_PARTS: dict[str, Any] = {}


def model_part(kind: Kind) -> Kind:
    """Register a class of this library, so that :func:`lupi.load` makes its objects from a file.

    Only for classes that run no code when they are made from a file: their attributes are set, nothing is called.

    Parameters
    ----------
    kind : type

    Returns
    -------
    type
        The same.
    """
    MODEL_PARTS[f"{kind.__module__}.{kind.__qualname__}"] = kind
    return kind
