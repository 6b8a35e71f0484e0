"""Generators: classes whose privileged features describe the slack, and word images with a planted object."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from lupi.datasets.tables import description, privileged_bunch
from lupi.inputs.types import RandomState
from lupi.vision.images import Box, WordImage


def make_privileged(
    n_samples: int = 200,
    n_features: int = 10,
    n_privileged: int = 3,
    *,
    informativeness: float = 0.9,
    noise: float = 0.5,
    flip_y: float = 0.05,
    missing: float = 0.0,
    as_frame: bool = False,
    return_X_y_privileged: bool = False,
    random_state: RandomState = None,
) -> Any:
    r"""Make two overlapping classes and privileged features that describe each example's slack.

    With :math:`x \sim N(0, I)`, a hidden direction :math:`u` of length 1 and hidden :math:`e \sim N(0, 1)`,

    .. math::

        y = \operatorname{sign}(u^\top x + \text{noise} \cdot e), \qquad \xi = [1 - 2 y\, u^\top x]_+, \qquad
        z_j = \pm\sqrt{q}\, \tilde\xi + \sqrt{1 - q}\, \varepsilon_j,

    where :math:`\tilde\xi` is the standardized slack after a share `flip_y` of the labels was flipped and q is
    `informativeness`. This is the assumption of SVM+'s correcting function: gains on these data show that the code works,
    not that privileged features help in general.

    Parameters
    ----------
    n_samples, n_features, n_privileged : int
        Number of examples, of decision features and of privileged features.
    informativeness : float in [0, 1], default=0.9
        Share of the variance of each privileged feature that comes from the slack; 0 makes them pure noise.
    noise : float >= 0, default=0.5
        Weight of the hidden variable, which makes the classes overlap.
    flip_y : float in [0, 1], default=0.05
        Share of flipped labels.
    missing : float in [0, 1], default=0.0
        Share of examples whose privileged row is NaN.
    as_frame : bool, default=False
        Whether to return pandas objects and the joint table `frame`.
    return_X_y_privileged : bool, default=False
        Whether to return `(data, target, privileged)` instead of a Bunch.
    random_state : int, RandomState or None, default=None
        Seed. `data` do not depend on `missing`, `flip_y`, `informativeness` and `noise`.

    Returns
    -------
    Bunch or tuple
        `target` is 0 or 1; the Bunch also has the hidden `slack` and `direction`.

    Examples
    --------
    >>> from lupi.datasets import make_privileged
    >>> made = make_privileged(100, 5, 2, missing=0.1, random_state=0)
    >>> made.data.shape, made.privileged.shape
    ((100, 5), (100, 2))
    >>> import numpy as np
    >>> int(np.isnan(made.privileged).all(axis=1).sum())
    10
    """
    for name, count in (("n_samples", n_samples), ("n_features", n_features), ("n_privileged", n_privileged)):
        if count < 1:
            raise ValueError(f"`{name}` must be at least 1, got {count}.")
    for name, share in (("informativeness", informativeness), ("flip_y", flip_y), ("missing", missing)):
        if not 0 <= share <= 1:
            raise ValueError(f"`{name}` must be between 0 and 1, got {share}.")
    if noise < 0:
        raise ValueError(f"`noise` must be at least 0, got {noise}.")
    rng = check_random_state(random_state)
    X = rng.standard_normal((n_samples, n_features))
    direction = rng.standard_normal(n_features)
    direction /= np.linalg.norm(direction)
    hidden = rng.standard_normal(n_samples)
    order = rng.permutation(n_samples)
    signs = rng.choice([-1.0, 1.0], size=n_privileged)
    epsilon = rng.standard_normal((n_samples, n_privileged))
    missing_order = rng.permutation(n_samples)

    score = X @ direction
    y = np.where(score + noise * hidden > 0, 1.0, -1.0)
    y[order[: round(flip_y * n_samples)]] *= -1
    slack = np.maximum(0.0, 1.0 - 2.0 * y * score)
    spread = slack.std()
    standardized = (slack - slack.mean()) / spread if spread > 0 else np.zeros(n_samples)
    privileged = np.sqrt(informativeness) * np.outer(standardized, signs) + np.sqrt(1 - informativeness) * epsilon
    privileged[missing_order[: round(missing * n_samples)]] = np.nan
    sizes = {"n": n_samples, "d": n_features, "s": n_privileged}
    shares = {"noise": noise, "flip": flip_y, "informativeness": informativeness, "missing": missing}
    return privileged_bunch(
        X,
        privileged,
        (y > 0).astype(np.int64),
        ([f"x{j}" for j in range(n_features)], [f"z{j}" for j in range(n_privileged)]),
        target_names=np.array(["negative", "positive"]),
        DESCR=description("make_privileged").format(**sizes, **shares),
        as_frame=as_frame,
        return_X_y_privileged=return_X_y_privileged,
        slack=slack,
        direction=direction,
    )


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
    >>> from lupi.datasets import make_planted_boxes
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
        is_object, of_object = rng.random_sample(n_points) < rate, rng.choice(n_object, n_points, p=object_words)
        words = np.where(is_object, of_object, n_object + rng.choice(n_words - n_object, n_points, p=other_words))
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
