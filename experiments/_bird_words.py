"""Draws of birds, arms with right and wrong privileged information, the words that arms share, and how boxes are scored."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from lupi.comparison.protocol import derived_seed, others_rows
from lupi.files import digest_of, strict_json
from lupi.localize.evaluation import evaluate_boxes, mean_relative_box, scale_box
from lupi.vision.images import read_mask

MASKS_AND_ATTRIBUTES = ("masks", "attributes")


class Draw(NamedTuple):
    """Rows of one random draw: images to learn from, to choose parameters by, and to test on."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


class Arm(NamedTuple):
    """One method of the comparison.

    Attributes
    ----------
    name : str
        Shown in the table, and part of the units' names.
    method : str
        Of :class:`~lupi.localize.Localizer`; "" for the constant box.
    grid : dict
        Values of each parameter.
    privileged : tuple of str
        "masks", "attributes", both or nothing.
    shuffled : bool
        Whether every training image gets the privileged information of another one.
    settings : dict
        Other parameters of the localizer.
    paper : str
        Column of the paper's table that it stands for; "" if the paper has none.
    """

    name: str
    method: str = ""
    grid: dict = {}
    privileged: tuple[str, ...] = ()
    shuffled: bool = False
    settings: dict = {}
    paper: str = ""

    @property
    def n_candidates(self):
        """Combinations of parameters."""
        return int(np.prod([len(values) for values in self.grid.values()])) if self.grid else 0


def of_classes(labels, classes):
    """Whether each label is one of some classes."""
    return np.isin(labels, np.asarray(list(classes), dtype=int))


def stretched(mask, shape):
    """A mask at another size, by nearest pixels.

    Examples
    --------
    >>> stretched(np.array([[True, False]]), (2, 4)).astype(int)
    array([[1, 1, 0, 0],
           [1, 1, 0, 0]])
    """
    rows, cols = (np.arange(n) * m // n for n, m in zip(shape, mask.shape))
    return mask[np.ix_(rows, cols)]


def privileged_of(birds, train, arm, seed):
    """The privileged information of an arm's training images, or None.

    Shuffled: the mask of another training image, stretched to this one's size, and that image's attributes. No image keeps
    its own, and none is used twice.
    """
    if not arm.privileged:
        return None
    source = train[others_rows(len(train), derived_seed(seed, "shuffled"))] if arm.shuffled else train
    found = {}
    if "masks" in arm.privileged:
        found["masks"] = [birds.masks[j] for j in source]
        if arm.shuffled:
            shapes = [read_mask(birds.masks[i]).shape for i in train]
            found["masks"] = [stretched(read_mask(mask), shape) for mask, shape in zip(found["masks"], shapes)]
    if "attributes" in arm.privileged:
        found["attributes"] = birds.attributes[source]
    return found


def pick(values, rows):
    """Some entries of a list."""
    return [values[i] for i in rows]


class DrawWords:
    """Words of a draw's images, for all of its arms: made when first asked for, once in a process.

    Only the last draw's words stay in memory, and none of them travel to other processes; copies of one draw share them.

    Parameters
    ----------
    birds : Bunch
    draw : Draw
    seed : int
        Of the draw.
    localizer : Localizer
        Unfitted; its vocabulary is made from the validation images, which need no boxes for that. So all training sizes of a
        seed have the same words.
    """

    _latest: dict = {}

    def __init__(self, birds, draw, seed, localizer):
        self.birds, self.draw, self.seed, self.localizer = birds, draw, seed, localizer
        self.plain = localizer.method.removesuffix("+")
        options = {name: value for name, value in localizer.get_params(deep=False).items() if name != "n_jobs"}
        self._key = digest_of(list(map(str, birds.images)), *draw, seed, strict_json(options, default=str))

    def once(self, name, make):
        """What `make` gives, made when first asked for."""
        made = DrawWords._latest.get(self._key)
        if made is None:
            DrawWords._latest.clear()
            made = DrawWords._latest[self._key] = {}
        if name not in made:
            made[name] = make()
        return made[name]

    def for_training(self, arm):
        """The training words, with an arm's privileged information."""
        return self.once((arm.privileged, arm.shuffled), lambda: self._training(arm)[0])

    def _training(self, arm):
        """Training words, and the vocabulary."""
        localizer = clone(self.localizer).set_params(method=f"{self.plain}+")
        words = localizer.training_words(
            pick(self.birds.images, self.draw.train),
            pick(self.birds.boxes, self.draw.train),
            privileged_of(self.birds, self.draw.train, arm, self.seed),
            vocabulary_images=pick(self.birds.images, self.draw.validation),
        )
        return words, localizer.bag_

    def shapes(self, part):
        """Heights and widths of the draw's "train" or "test" images."""
        images = self.for_training(Arm("")).X if part == "train" else self.of(part)[0]
        return [x.shape for x in images]

    def of(self, part):
        """Words of the draw's "validation" or "test" images, and their boxes."""
        rows = getattr(self.draw, part)
        bag = self.once("bag", lambda: self._training(Arm(""))[1])
        return self.once(part, lambda: bag.transform(pick(self.birds.images, rows))), pick(self.birds.boxes, rows)

    def prepare(self, arms=()):
        """Fill the cache with what these arms need, so that workers who share a draw need not describe the same images."""
        words = [*self.for_training(Arm("")).X, *self.of("validation")[0], *self.of("test")[0]]
        for arm in arms:
            self.for_training(arm)
        return {"points": float(np.mean([len(x) for x in words]))}


def scored(words, predicted, **facts):
    """Result of a unit: the overlap of each test image, how far it is ahead of the mean box, and facts."""
    true = pick(words.birds.boxes, words.draw.test)
    result = evaluate_boxes(true, predicted, constant=mean_boxes(words))
    overlaps = [record["overlap"] for record in result["images"]]
    ahead = {name: result["constant_box"][name] for name in ("difference", "standard_error")}
    return {"overlaps": overlaps, "ahead": ahead, "n_train": len(words.draw.train), "n_test": len(true), **facts}


def mean_boxes(words):
    """One box for all test images, without looking at them: the mean of the training boxes, relative to the images' sizes."""
    mean = mean_relative_box(pick(words.birds.boxes, words.draw.train), words.shapes("train"))
    return [scale_box(mean, shape) for shape in words.shapes("test")]


def mean_box(words):
    """The unit of the constant box."""
    return scored(words, mean_boxes(words), unconverged=0, largest_gap=0.0)
