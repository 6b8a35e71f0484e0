"""Boxes, images as bags of visual words, and exact search for the best box: the public names of `boxes` and `images`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from lupi.boxes.geometry import Box, WordImage

# Public name -> module. Resolved on first use: whoever only needs boxes should not wait for a compiler or for scikit-learn.
_PUBLIC = {
    "best_box": "boxes.subwindow",
    "BagOfVisualWords": "images.bag_of_words",
    "FisherVectors": "images.fisher",
    "ImageReadError": "images.images",
    "Inpainted": "images.images",
    "inpaint": "images.images",
    "read_image": "images.images",
    "read_mask": "images.images",
    "attribute_words": "images.privileged_words",
    "join_words": "images.privileged_words",
    "mask_box": "images.privileged_words",
    "word_histograms": "images.histograms",
}

__all__ = ["Box", "WordImage", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(f"lupi.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'lupi.vision' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
