"""Boxes, images as bags of visual words, and exact search for the best box: the public names of `boxes` and `images`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from lupi.vision.geometry import Box, WordImage

# Public name -> module. Resolved on first use: whoever only needs boxes should not wait for a compiler or for scikit-learn.
_PUBLIC = {
    "best_box": "subwindow",
    "BagOfVisualWords": "bag_of_words",
    "FisherVectors": "fisher",
    "ImageReadError": "images",
    "Inpainted": "images",
    "inpaint": "images",
    "read_image": "images",
    "read_mask": "images",
    "attribute_words": "privileged_words",
    "join_words": "privileged_words",
    "mask_box": "images",
    "word_histograms": "histograms",
}

__all__ = ["Box", "WordImage", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(f"lupi.vision.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'lupi.vision' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
