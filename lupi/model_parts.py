"""Registry of the classes that a model file may contain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Kind = TypeVar("Kind", bound=Callable[..., Any])

MODEL_PARTS: dict[str, Any] = {}


def model_part(kind: Kind) -> Kind:
    """Class decorator: :func:`lupi.load` may create its objects. Loading only sets their attributes."""
    MODEL_PARTS[f"{kind.__module__}.{kind.__qualname__}"] = kind
    return kind
