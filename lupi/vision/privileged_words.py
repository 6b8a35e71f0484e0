"""Privileged word images of the papers: attributes as words inside the box, and several word images as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lupi.vision.geometry import WordImage, check_box


def attribute_words(attributes: Any, box: Any, shape: tuple[int, int]) -> WordImage:
    """One point inside the box for each attribute that is present.

    A sub-window's histogram then counts the attributes that it covers. The points are spread evenly over the box (a
    low-discrepancy sequence in the attributes' order), so that the true box is the smallest one that holds them all.

    Parameters
    ----------
    attributes : array-like of shape (n_attributes,)
        Binary; attribute k is word k. NaN: not known, which gives no point.
    box : Box
        The object's box.
    shape : tuple
        Height and width of the image.

    Returns
    -------
    WordImage

    Examples
    --------
    >>> from lupi.vision import Box, attribute_words
    >>> image = attribute_words([1, 0, 1, 1], Box(2, 3, 6, 9), shape=(10, 12))
    >>> image.histogram(Box(2, 3, 6, 9), n_words=4)
    array([1., 0., 1., 1.])
    """
    values = np.asarray(attributes)
    # NaN is the one value that differs from itself.
    if values.ndim != 1 or not (np.isin(values, (0, 1)) | (values != values)).all():
        raise ValueError("attributes must be a one-dimensional array of 0, 1 and, where not known, NaN.")
    box = check_box(box, "box")
    present = np.flatnonzero(values == 1)
    first, second = _spread(len(present))
    rows = np.floor(box.top + first * (box.bottom - box.top))
    cols = np.floor(box.left + second * (box.right - box.left))
    rows, cols = (np.clip(a, 0, size - 1) for a, size in zip((rows, cols), shape))
    return WordImage(rows, cols, present, shape)


def _spread(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of the unit square: the R2 sequence, from the plastic number."""
    g = 1.32471795724474602596
    k = np.arange(1, n + 1)
    return (0.5 + k / g) % 1.0, (0.5 + k / g**2) % 1.0


def join_words(images: Sequence[WordImage], sizes: Sequence[int]) -> WordImage:
    """Several word images of one image as one, with the vocabularies behind each other.

    Parameters
    ----------
    images : sequence of WordImage
        Of the same shape.
    sizes : sequence of int
        Size of each vocabulary.

    Returns
    -------
    WordImage
        With ``sum(sizes)`` words.

    Examples
    --------
    >>> from lupi.vision import WordImage, join_words
    >>> a, b = WordImage([0], [0], [2], (4, 4)), WordImage([1], [1], [0], (4, 4))
    >>> join_words([a, b], [3, 5]).words
    array([2, 3])
    """
    images = list(images)
    if not images or len(images) != len(sizes):
        raise ValueError(f"images and sizes must have the same positive length, got {len(images)} and {len(sizes)}.")
    shapes = {image.shape for image in images}
    if len(shapes) > 1:
        raise ValueError(f"the word images have different shapes: {sorted(shapes)}.")
    for image, size in zip(images, sizes):
        if image.n_words_used > size:
            raise ValueError(f"a word image uses word {image.n_words_used - 1}, but its size is {size}.")
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return WordImage(
        np.concatenate([image.rows for image in images]),
        np.concatenate([image.cols for image in images]),
        np.concatenate([image.words + start for image, start in zip(images, starts)]),
        images[0].shape,
    )
