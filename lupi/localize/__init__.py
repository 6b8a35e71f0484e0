"""From image files to boxes: a localizer, its parameter search, evaluation, pictures and command line."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Resolved on first use, so that `lupi --help` stays quick.
_PUBLIC = {
    "Localizer": "localizer",
    "evaluate_boxes": "evaluation",
    "paper_grid": "search",
    "search_parameters": "search",
    "write_gallery": "gallery",
    "save_overlay": "pictures",
}

__all__ = [*_PUBLIC]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(f"lupi.localize.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'lupi.localize' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
