"""Generated word images with a planted object, and privileged images that reveal it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from lupi.inputs.types import RandomState
from lupi.vision.images import Box, WordImage


def make_planted_boxes(
    n_samples: int = 100,
    *,
    shape: tuple[int, int] = (47, 63),
    n_words: int = 200,
    n_points: int = 400,
    n_object_words: Any = None,
    object_rate: float = 0.3,
    background_rate: float = 0.05,
    hard: float = 0.3,
    distractors: float = 0.3,
    box_noise: float = 0.0,
    absent: float = 0.0,
    n_privileged_words: int = 20,
    random_state: RandomState = None,
) -> tuple[list[Any], ...]:
    """Word images for object localization, with privileged images in which the object is painted over.

    Points are uniform. Object words are frequent inside an ellipse that fills the true box, and rare elsewhere. Hard images have
    a weak signal; others have a misleading patch of object words. In the privileged image every point of the object has one
    of a few separate words, which imitates the inpainted segmentation mask of Feyereisl et al. (2014, section 4.2).

    Parameters
    ----------
    n_samples : int, default=100
        Number of images.
    shape : tuple, default=(47, 63)
        Height and width.
    n_words, n_points : int
        Size of the vocabulary; number of points per image.
    n_object_words : int or None
        Number of object words; None: an eighth of the vocabulary.
    object_rate, background_rate : float
        Probability of an object word inside and outside of the object.
    hard, distractors : float
        Shares of images with a weak signal and with a misleading patch.
    box_noise : float, default=0.0
        Share of images whose true box is replaced by a random one.
    absent : float, default=0.0
        Share of images without an object; their box is None.
    n_privileged_words : int, default=20
        Words of the object in the privileged images, numbered from ``n_words`` on.
    random_state : int, RandomState or None

    Returns
    -------
    X : list of WordImage
    Y : list of Box or None
    privileged : list of WordImage
        With ``n_words + n_privileged_words`` words.

    Examples
    --------
    >>> from lupi.datasets.planted_boxes import make_planted_boxes
    >>> X, Y, privileged = make_planted_boxes(3, random_state=0)
    >>> X[0], len(privileged)
    (WordImage(400 points, shape=(47, 63)), 3)
    """
    rng = check_random_state(random_state)
    n_object = max(1, n_words // 8) if n_object_words is None else n_object_words
    object_words, other_words = _zipf(n_object), _zipf(n_words - n_object)
    X, Y, privileged = [], [], []
    for _ in range(n_samples):
        box = _random_box(rng, shape)
        rows, cols = rng.randint(0, shape[0], n_points), rng.randint(0, shape[1], n_points)
        present = rng.random_sample() >= absent
        inside = _ellipse(box, rows, cols) & present
        strength = 0.15 if rng.random_sample() < hard else rng.uniform(0.6, 1.2)
        rate = np.where(inside, background_rate + (object_rate - background_rate) * strength, background_rate)
        if rng.random_sample() < distractors:
            patch = _random_box(rng, shape, 0.1, 0.25)
            rate[~inside & _contains(patch, rows, cols)] = object_rate
        words = np.where(
            rng.random_sample(n_points) < rate,
            rng.choice(n_object, n_points, p=object_words),
            n_object + rng.choice(n_words - n_object, n_points, p=other_words),
        )
        painted = np.where(inside, n_words + rng.randint(0, n_privileged_words, n_points), words)
        if rng.random_sample() < box_noise:
            box = _random_box(rng, shape)
        X.append(WordImage(rows, cols, words, shape))
        Y.append(box if present else None)
        privileged.append(WordImage(rows, cols, painted, shape))
    return X, Y, privileged


def _zipf(n: int) -> np.ndarray:
    p = np.arange(1, n + 1) ** -0.7
    return np.asarray(p / p.sum())


def _random_box(rng: np.random.RandomState, shape: tuple[int, int], low: float = 0.25, high: float = 0.65) -> Box:
    height, width = (rng.randint(max(1, int(low * s)), max(2, int(high * s))) for s in shape)
    top, left = rng.randint(0, shape[0] - height + 1), rng.randint(0, shape[1] - width + 1)
    return Box(int(top), int(left), int(top + height), int(left + width))


def _contains(box: Box, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
    return (rows >= box.top) & (rows < box.bottom) & (cols >= box.left) & (cols < box.right)


def _ellipse(box: Box, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
    y = (rows + 0.5 - 0.5 * (box.top + box.bottom)) / (0.5 * (box.bottom - box.top))
    x = (cols + 0.5 - 0.5 * (box.left + box.right)) / (0.5 * (box.right - box.left))
    return x**2 + y**2 <= 1.0
