"""Boxes, images as bags of visual words, and exact search for the best box."""

from lupi.vision.geometry import Box, WordImage

__all__ = ["Box", "WordImage", "best_box"]


def __getattr__(name):
    # The search is compiled; whoever only needs boxes should not wait for the compiler to load.
    if name == "best_box":
        from lupi.vision.subwindow import best_box

        return best_box
    raise AttributeError(f"module 'lupi.vision' has no attribute {name!r}")
