"""Boxes, their placement in an image, and word images."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

# Of the placement features: their number, sides and area of the centered box.
N_PLACEMENT, CENTER, CENTER_AREA = 9, (0.25, 0.25, 0.75, 0.75), 0.25


class Box(NamedTuple):
    """A half-open pixel box: rows ``top <= r < bottom``, columns ``left <= c < right``.

    Examples
    --------
    >>> from lupi.vision import Box
    >>> Box(0, 0, 2, 2).iou(Box(1, 0, 3, 2))
    0.3333333333333333
    """

    top: float
    left: float
    bottom: float
    right: float

    @property
    def area(self) -> float:
        """Number of pixels."""
        return (self.bottom - self.top) * (self.right - self.left)

    def intersection(self, other: Box) -> float:
        """Number of common pixels."""
        height = min(self.bottom, other.bottom) - max(self.top, other.top)
        width = min(self.right, other.right) - max(self.left, other.left)
        return max(height, 0) * max(width, 0)

    def iou(self, other: Box) -> float:
        """Intersection over union."""
        common = self.intersection(other)
        return common / (self.area + other.area - common)


def check_box(box: Any, name: str) -> Box:
    """A Box from any four numbers with positive height and width."""
    try:
        found = Box(*(float(v) for v in box))
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a Box (top, left, bottom, right), got {box!r}.") from None
    if not (found.top < found.bottom and found.left < found.right):
        raise ValueError(f"{name} must satisfy top < bottom and left < right (half-open), got {tuple(found)}.")
    return found


class WordImage:
    """An image as points that carry visual words.

    Parameters
    ----------
    rows, cols : array-like of int
        Pixel positions of the points.
    words : array-like of int
        Visual word of each point, counted from 0.
    shape : tuple (height, width)
        Size of the image in pixels.

    Examples
    --------
    >>> from lupi.vision import Box, WordImage
    >>> image = WordImage([1, 5], [2, 7], [0, 1], shape=(8, 10))
    >>> image.histogram(Box(0, 0, 4, 10), n_words=2)
    array([1., 0.])
    """

    __slots__ = ("cols", "n_words_used", "rows", "shape", "words")

    def __init__(self, rows: Any, cols: Any, words: Any, shape: tuple[int, int]) -> None:
        self.rows, self.cols, self.words = (np.array(a, dtype=np.int64) for a in (rows, cols, words))
        self.shape = (int(shape[0]), int(shape[1]))
        if not self.rows.shape == self.cols.shape == self.words.shape or self.rows.ndim != 1:
            raise ValueError(
                "rows, cols and words must be one-dimensional and of the same length, got shapes "
                f"{self.rows.shape}, {self.cols.shape} and {self.words.shape}."
            )
        if min(self.shape) < 1:
            raise ValueError(f"shape must be (height, width) with positive sizes, got {self.shape}.")
        if len(self.rows) and (
            min(self.rows.min(), self.cols.min(), self.words.min()) < 0
            or self.rows.max() >= self.shape[0]
            or self.cols.max() >= self.shape[1]
        ):
            raise ValueError(f"every point must lie inside shape={self.shape} and have a word >= 0.")
        self.n_words_used = int(self.words.max()) + 1 if len(self.words) else 0

    def __repr__(self) -> str:
        return f"WordImage({len(self.rows)} points, shape={self.shape})"

    def __len__(self) -> int:
        return len(self.rows)

    def histogram(self, box: Box, n_words: int) -> np.ndarray:
        """Counts of the words inside a box."""
        inside = (self.rows >= box[0]) & (self.rows < box[2]) & (self.cols >= box[1]) & (self.cols < box[3])
        return np.bincount(self.words[inside], minlength=n_words).astype(float)


def placement(boxes: Any, shapes: Any) -> np.ndarray:
    r"""Placement features of boxes in images of these shapes, along the last axis: nine numbers.

    With :math:`s = (t/H, l/W, b/H, r/W)`, the sides relative to an image of H x W pixels, and :math:`c` the sides of the centered
    box of half the height and half the width, they are :math:`s - c`, :math:`(s - c)^2` and the relative area minus 1/4.
    """
    t, l, b, r = np.moveaxis(np.asarray(boxes, dtype=float), -1, 0)
    h, w = np.moveaxis(np.asarray(shapes, dtype=float), -1, 0)
    sides = np.stack([t / h, l / w, b / h, r / w], axis=-1) - CENTER
    area = (b - t) * (r - l) / (h * w) - CENTER_AREA
    return np.concatenate([sides, sides * sides, area[..., None]], axis=-1)
