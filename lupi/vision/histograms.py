"""Word images as rows of a table, for classifiers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.preprocessing import normalize

from lupi.vision.geometry import Box, WordImage, check_box

NORMS = ("l1", "l2")


def word_histograms(
    images: Sequence[WordImage], n_words: int, *, boxes: Sequence[Any] | None = None, norm: str | None = None
) -> np.ndarray:
    """Counts of the words of each image, or of a box in it.

    With ``boxes`` they are what papers use as privileged features of an image: the same words, but of the object alone.

    Parameters
    ----------
    images : sequence of WordImage or None
        None for an image that could not be read.
    n_words : int
        Size of the vocabulary.
    boxes : sequence of Box or None, default=None
        Where to count in each image; a box may be None. Without it, in the whole image.
    norm : {"l1", "l2"} or None, default=None
        Divide each row by its sum, or by its Euclidean length. Rows without any word stay zero.

    Returns
    -------
    ndarray of shape (n_images, n_words)
        A row of NaN, which means "not available" where the features are privileged, for an image or a box that is None.

    Examples
    --------
    >>> from lupi.vision import Box, WordImage, word_histograms
    >>> images = [WordImage([1, 5, 6], [2, 7, 7], [0, 1, 1], shape=(8, 10)), None]
    >>> word_histograms(images, 2)
    array([[ 1.,  2.],
           [nan, nan]])
    >>> word_histograms(images[:1], 2, boxes=[Box(4, 0, 8, 10)], norm="l1")
    array([[0., 1.]])
    """
    images = list(images)
    if norm is not None and norm not in NORMS:
        raise ValueError(f"norm must be None or one of {', '.join(NORMS)}, got {norm!r}.")
    if boxes is not None and len(boxes) != len(images):
        raise ValueError(f"boxes must hold one box for each of the {len(images)} images, got {len(boxes)}.")
    used = max((image.n_words_used for image in images if image is not None), default=0)
    if n_words < max(used, 1):
        raise ValueError(f"n_words={n_words} is too small: the images use {used} words.")
    rows = np.full((len(images), n_words), np.nan)
    for k, image in enumerate(images):
        if image is None or (boxes is not None and boxes[k] is None):
            continue
        box = Box(0, 0, *image.shape) if boxes is None else check_box(boxes[k], f"boxes[{k}]")
        rows[k] = image.histogram(box, n_words)
    known = ~np.isnan(rows).any(axis=1)
    if norm is not None and known.any():
        rows[known] = normalize(rows[known], norm)
    return rows
