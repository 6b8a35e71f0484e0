"""Boxes, images as bags of visual words, and exact search for the best box."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from lupi.vision.images import Box, WordImage

# Public name -> module, imported on first use: boxes need neither numba nor scikit-learn.
_PUBLIC = {
    "best_box": "box_search",
    "BagOfVisualWords": "words",
    "FisherVectors": "words",
    "ImageReadError": "images",
    "Inpainted": "images",
    "inpaint": "images",
    "mask_box": "images",
    "read_image": "images",
    "read_mask": "images",
    "attribute_words": "words",
    "join_words": "words",
    "word_histograms": "words",
}

__all__ = ["Box", "WordImage", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(f"lupi.vision.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'lupi.vision' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
