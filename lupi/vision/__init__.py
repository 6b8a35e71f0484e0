"""Boxes, images as bags of visual words, and exact search for the best box."""

from lupi.vision.geometry import Box, WordImage
from lupi.vision.subwindow import best_box

__all__ = ["Box", "WordImage", "best_box"]
