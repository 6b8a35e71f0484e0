"""From image files to boxes: a localizer, its parameter search, evaluation, pictures and command line."""

from importlib import import_module

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


def __getattr__(name):
    if name in _PUBLIC:
        return getattr(import_module(f"lupi.localize.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'lupi.localize' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_PUBLIC])
