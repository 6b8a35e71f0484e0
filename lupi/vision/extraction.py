"""From one source to its described points or words, by way of the store.

Workers import this module and what it needs, so it stays light: no scikit-learn, no compiler.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from lupi import __version__
from lupi.files import ArrayFolder, digest_of
from lupi.vision.descriptors import Points, describe
from lupi.vision.geometry import WordImage
from lupi.vision.images import ImageLike, read_image, source_digest

# Rows that are compared with all words at once: their distances stay in the processor's cache.
_BLOCK = 256


def key_of(what: str, digest: str, how: Any, *more: Any) -> str:
    """Key of what is computed from one source.

    Parameters
    ----------
    what : str
        "points" or "words".
    digest : str
        Name of the source's content.
    how : dict
        ``detector``, ``options`` and ``version``: what the result depends on; ``folder``: where it is kept, or None.
    *more : object
        What else it depends on.
    """
    return digest_of(what, __version__, digest, how["detector"], how["options"], how["version"], *more)


def points_in(folder: Any) -> ArrayFolder:
    """The store of described points."""
    return ArrayFolder(
        folder,
        lambda points: points._replace(shape=np.array(points.shape))._asdict(),
        lambda arrays: Points(**{**arrays, "shape": tuple(arrays["shape"].tolist())}),
    )


def _stored_words(arrays: dict[str, np.ndarray]) -> WordImage:
    rows, cols, words = arrays["points"]
    return WordImage(rows, cols, words, tuple(arrays["shape"].tolist()))


def words_in(folder: Any) -> ArrayFolder:
    """The store of word images."""
    return ArrayFolder(
        folder,
        lambda x: {"points": np.array([x.rows, x.cols, x.words], dtype=np.int32), "shape": np.array(x.shape)},
        _stored_words,
    )


class SampleStore:
    """The store of described points, seen through a sample of each; a key is the key of the points and a seed."""

    filled_by_workers = True

    def __init__(self, folder: str | os.PathLike[str], per_image: int) -> None:
        self._points, self._per_image = points_in(folder), per_image

    def add(self, key: tuple[str, int], points: Points) -> None:
        """Keep all points."""
        self._points.add(key[0], points)

    def get(self, key: tuple[str, int]) -> np.ndarray | None:
        """Descriptors of a sample, or None."""
        points = self._points.get(key[0])
        return None if points is None else sample_of(points, key[1], self._per_image)


def sample_of(points: Points, seed: Any, per_image: int) -> np.ndarray:
    """At most `per_image` descriptors; the seed is the image's own, so the order of work is free."""
    n = len(points.rows)
    if n <= per_image:
        return points.descriptors
    return points.descriptors[np.sort(np.random.RandomState(seed).choice(n, per_image, replace=False))]


def described(source: ImageLike, how: Any) -> Points:
    """Described points of a source, computed."""
    return describe(read_image(source), how["detector"], **how["options"])


def sampled(source: ImageLike, how: Any, seed: Any, per_image: int) -> np.ndarray:
    """A sample of the described points of a source, computed."""
    return sample_of(described(source, how), seed, per_image)


def cached_points(source: ImageLike, how: Any, digest: str | None = None) -> Points:
    """Described points of a source, from the store if there is one that has them, else computed and stored."""
    if how["folder"] is None:
        return described(source, how)
    store = points_in(how["folder"])
    key = key_of("points", digest or source_digest(source), how)
    points: Points | None = store.get(key)
    if points is None:
        points = described(source, how)
        store.add(key, points)
    return points


def nearest(descriptors: np.ndarray, vocabulary: np.ndarray) -> np.ndarray:
    """Row of the nearest center of each descriptor.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.vision.extraction import nearest
    >>> nearest(np.array([[0.0, 1.0], [5.0, 5.0]]), np.array([[4.0, 4.0], [0.0, 0.0]]))
    array([1, 0])
    """
    # |d - v|^2 / 2 without the part that all words share: one matrix product for each block.
    half = 0.5 * np.einsum("ij,ij->i", vocabulary, vocabulary)
    words = np.empty(len(descriptors), dtype=np.int64)
    distances = np.empty((min(_BLOCK, len(descriptors)), len(vocabulary)), dtype=half.dtype)
    for start in range(0, len(descriptors), _BLOCK):
        rows = descriptors[start : start + _BLOCK]
        block = distances[: len(rows)]
        np.matmul(rows, vocabulary.T, out=block)
        np.subtract(half, block, out=block)
        block.argmin(axis=1, out=words[start : start + _BLOCK])
    return words


def word_image(source: ImageLike, how: Any, vocabulary: np.ndarray, digest: str | None = None) -> WordImage:
    """Word image of a source: its points (see :func:`cached_points`), each with the nearest word."""
    points = cached_points(source, how, digest)
    return WordImage(points.rows, points.cols, nearest(points.descriptors, vocabulary), points.shape)
