"""From one source to its described points or words, by way of the store.

Workers import this module and what it needs, so it stays light: no scikit-learn, no compiler.
"""

from __future__ import annotations

import numpy as np

from lupi.boxes.geometry import WordImage
from lupi.images.descriptors import Points, describe
from lupi.images.images import read_image, source_digest
from lupi.images.store import Store, digest_of

# Part of every key: results of an older way of computing must not be taken for new ones.
_POINTS_FORMAT = "points 2"
_WORDS_FORMAT = "words 2"

# Rows that are compared with all words at once: their distances stay in the processor's cache.
_BLOCK = 256


def _points_key(digest, how):
    return digest_of(_POINTS_FORMAT, digest, how["detector"], how["options"], how["version"])


def stored_points(source, *, digest=None, **how) -> Points | None:
    """Described points of a source if the store has them, else None.

    Parameters
    ----------
    source : path, ndarray or other source
        The image.
    digest : str or None, default=None
        Name of its content, if it is known.
    **how : object
        ``detector``, ``options``, ``version`` (what the result depends on) and ``folder`` (of the store; None for no store).

    Returns
    -------
    Points or None
    """
    if how["folder"] is None:
        return None
    digest = source_digest(source) if digest is None else digest
    stored = Store(how["folder"]).load_arrays(_points_key(digest, how))
    if stored is None or set(stored) != {"rows", "cols", "descriptors", "shape"}:
        return None
    shape = tuple(stored.pop("shape").tolist())
    return Points(**stored, shape=shape)


def cached_points(source, *, digest=None, **how) -> Points:
    """Described points of a source, from the store if it has them, else computed and stored; see :func:`stored_points`."""
    if how["folder"] is None:
        return describe(read_image(source), how["detector"], **how["options"])
    digest = source_digest(source) if digest is None else digest
    points = stored_points(source, digest=digest, **how)
    if points is None:
        points = describe(read_image(source), how["detector"], **how["options"])
        arrays = points._replace(shape=np.array(points.shape))._asdict()
        Store(how["folder"]).save_arrays(_points_key(digest, how), **arrays)
    return points


def sampled_descriptors(item, *, per_image, **how) -> np.ndarray:
    """At most `per_image` descriptors of a pair (source, seed); the seed is the item's own, so the order of work is free."""
    source, seed = item
    return _sample(cached_points(source, **how), seed, per_image)


def stored_sample(item, *, per_image, **how) -> np.ndarray | None:
    """As :func:`sampled_descriptors` if the store has the points, else None."""
    source, seed = item
    points = stored_points(source, **how)
    return None if points is None else _sample(points, seed, per_image)


def _sample(points, seed, per_image):
    n = len(points.rows)
    if n <= per_image:
        return points.descriptors
    return points.descriptors[np.sort(np.random.RandomState(seed).choice(n, per_image, replace=False))]


def nearest(descriptors, vocabulary) -> np.ndarray:
    """Row of the nearest centre of each descriptor.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.images.extraction import nearest
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


def _words_key(digest, vocabulary_digest, how):
    return digest_of(_WORDS_FORMAT, digest, how["detector"], how["options"], how["version"], vocabulary_digest)


def stored_words(source, *, vocabulary_digest, digest=None, **how) -> WordImage | None:
    """Word image of a source if the store has it, else None."""
    if how["folder"] is None:
        return None
    digest = source_digest(source) if digest is None else digest
    stored = Store(how["folder"]).load_arrays(_words_key(digest, vocabulary_digest, how))
    if stored is None or set(stored) != {"points", "shape"}:
        return None
    return WordImage(*stored["points"], tuple(stored["shape"].tolist()))


def word_image(source, *, vocabulary, vocabulary_digest, **how) -> WordImage:
    """Word image of a source, from the store if it has it, else computed and stored."""
    digest = None if how["folder"] is None else source_digest(source)
    found = stored_words(source, vocabulary_digest=vocabulary_digest, digest=digest, **how)
    if found is not None:
        return found
    points = cached_points(source, digest=digest, **how)
    words = nearest(points.descriptors, vocabulary)
    if digest is not None:
        table = np.array([points.rows, points.cols, words], dtype=np.int32)
        key = _words_key(digest, vocabulary_digest, how)
        Store(how["folder"]).save_arrays(key, points=table, shape=np.array(points.shape))
    return WordImage(points.rows, points.cols, words, points.shape)
