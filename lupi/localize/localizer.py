"""Localizer: images in, boxes out, by visual words and a structured learner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from os import PathLike
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from lupi.inputs.decorators import fit_context
from lupi.inputs.training_set import read_table
from lupi.inputs.types import RandomState
from lupi.localize.evaluation import evaluate_boxes
from lupi.privacy import model_part
from lupi.structured.boxes import BoxLocalization
from lupi.structured.jkse import JKSE, JKSEPlus
from lupi.structured.structural_svm import POSITIVE, StructuralSVM, StructuralSVMPlus
from lupi.vision.images import Box, ImageLike, Inpainted, check_box, source_name
from lupi.vision.words import BagOfVisualWords, attribute_words, join_words

# Method -> class of its learner, and the parameters of the localizer that the class takes.
LEARNERS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "ssvm": (StructuralSVM, ("C", "tol", "max_iter", "random_state")),
    "ssvm+": (StructuralSVMPlus, ("C", "lam", "rho", "inference", "tol", "max_iter", "random_state")),
    "jkse": (JKSE, ("nu", "gamma", "normalize", "tol")),
    "jkse+": (JKSEPlus, ("nu", "lam", "gamma", "normalize", "tol")),
}
# Parameters of the features of boxes, which all methods share.
FEATURE_PARAMETERS = ("geometry", "geometry_scale")

_COUNT = [Interval(Integral, 1, None, closed="left")]


def uses_privileged(method: str) -> bool:
    """Whether a method learns from privileged information."""
    return method.endswith("+")


class TrainingWords(NamedTuple):
    """Input of the learners: word images, boxes, privileged word images (or None), and the sizes of both vocabularies."""

    X: list[Any]
    Y: list[Any]
    Z: list[Any] | None
    n_words: int
    n_privileged_words: int


@model_part
@dataclass(eq=False, repr=False)
class Localizer(BaseEstimator):
    """Learn to find one object in each image.

    Images become bags of visual words. A structural SVM or joint kernel support estimation scores boxes by the words inside, and
    an exact search returns the best box. Masks and attributes of the training images can be privileged information.

    Parameters
    ----------
    method : {"ssvm", "ssvm+", "jkse", "jkse+"}, default="ssvm+"
        The methods with a plus use ``privileged``; without it they equal the methods without the plus.
    n_words : int, default=1000
        Size of the vocabulary.
    detector : {"surf", "dense", "surf+dense", "sift"}, default="surf"
        Local features.
    spacing : int, default=8
        Distance between the points of a dense grid.
    privileged_words : int or None, default=None
        Size of a separate vocabulary for the inpainted images; None uses the vocabulary of the images.
    grid_step : int, default=8
        Edges of boxes are multiples of this many pixels.
    C, lam, rho : float
        Parameters of SSVM+ (C also of SSVM, lam also of JKSE+).
    inference : {"exact", "alternating"}, default="exact"
        Joint search of SSVM+; "alternating" is the paper's, see :class:`~lupi.StructuralSVMPlus`.
    nu, gamma : float
        Parameters of JKSE and JKSE+ (gamma is theta in the paper; "scale" adapts it to the data).
    normalize : bool, default=False
        Divide histograms by their sum (JKSE, JKSE+).
    geometry : bool, default=False
        Also learn from the position and size of boxes, see :class:`~lupi.structured.BoxLocalization`. On photographs with one
        object no other option improves the overlap more.
    geometry_scale : float, default=20.0
        Weight of the geometry relative to the words. Good values: about 20 for the structural SVMs, 0.5 to 8 for JKSE.
    tol : float, default=1e-2
        Relative duality gap at which training stops.
    max_iter : int, default=1000
        Passes over the training images.
    cache : path or None, default=None
        Folder for descriptors and words, see :class:`~lupi.vision.BagOfVisualWords`.
    on_error : {"raise", "skip"}, default="raise"
        Unreadable images: raise an error that names them, or skip them with a warning.
    n_jobs, verbose
        Processes for the extraction of features; progress bars.
    random_state : int, RandomState or None, default=None
        Seed of vocabulary and solver.

    Attributes
    ----------
    bag_ : BagOfVisualWords
        Fitted vocabulary.
    model_ : estimator
        Fitted learner; ``model_.dual_gap_`` is its relative duality gap.
    mean_box_ : ndarray of shape (4,) or None
        Mean of the training boxes relative to their images, the baseline of ``evaluate``.
    search_ : list of dict or None
        In models of ``lupi localize fit``: the combinations that ``--search`` tried, with their results.

    Notes
    -----
    Files of :func:`lupi.save` hold no masks, attributes, privileged words or paths.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.localize import Localizer
    >>> from lupi.vision import Box
    >>> def picture(seed):
    ...     image = np.random.RandomState(seed).randint(0, 20, (64, 96), dtype=np.uint8)
    ...     image[16:48:4, 8 * seed : 8 * seed + 40] = 250
    ...     return image, Box(16, 8 * seed, 48, 8 * seed + 40)
    >>> images, boxes = zip(*map(picture, range(6)))
    >>> localizer = Localizer("ssvm", n_words=20, detector="dense", C=10, random_state=0).fit(images[:4], boxes[:4])
    >>> localizer.score(images[4:], boxes[4:]) > 0.5
    True
    """

    __metadata_request__fit = {"privileged": True}
    _local_paths_in = ("cache",)

    _parameter_constraints = {
        **JKSE._parameter_constraints,
        **StructuralSVMPlus._parameter_constraints,
        **BagOfVisualWords._parameter_constraints,
        "method": [StrOptions(set(LEARNERS))],
        "privileged_words": [*_COUNT, None],
        "grid_step": _COUNT,
        "lam": POSITIVE,
        "nu": [Interval(Real, 0, 1, closed="right")],
        "geometry": ["boolean"],
        "geometry_scale": [Interval(Real, 0, None, closed="left")],
    }

    method: str = "ssvm+"
    _: KW_ONLY
    n_words: int = 1000
    detector: str = "surf"
    spacing: int = 8
    privileged_words: Any = None
    grid_step: int = 8
    C: float = 1.0
    lam: float = 1.0
    rho: float = 2.0
    inference: str = "exact"
    nu: float = 0.5
    gamma: float | str = "scale"
    normalize: bool = False
    geometry: bool = False
    geometry_scale: float = 20.0
    tol: float = 1e-2
    max_iter: int = 1000
    cache: str | PathLike[str] | None = None
    on_error: str = "raise"
    n_jobs: int | None = None
    verbose: bool = False
    random_state: RandomState = None

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, images: Sequence[Any], boxes: Sequence[Any], privileged: Any = None) -> Self:
        """Learn the vocabulary and the localizer.

        Parameters
        ----------
        images : sequence of paths, arrays or other sources
            Training images.
        boxes : sequence of Box or None
            Box of the object in each image; None for no object (structural SVMs only). Boxes are clipped to the image.
        privileged : dict or None, default=None
            ``"masks"``: a mask source (or None) for each image; ``"attributes"``: binary array (n_images, n_attributes); or
            both. An image without a mask is its own privileged image.

        Returns
        -------
        self
        """
        return self.fit_words(self.training_words(images, boxes, privileged))

    def training_words(
        self,
        images: Sequence[ImageLike],
        boxes: Sequence[Any],
        privileged: Any = None,
        vocabulary_images: Sequence[ImageLike] | None = None,
    ) -> TrainingWords:
        """Fit the vocabulary and convert the training data to words; a parameter search does this once.

        `vocabulary_images` need no boxes; None uses the training images.
        """
        images, boxes = list(images), list(boxes)
        if len(images) != len(boxes):
            raise ValueError(f"`images` and `boxes` must have the same length, got {len(images)} and {len(boxes)}.")
        masks, attributes = _read_privileged(privileged, len(images))
        self.bag_ = self._bag(self.n_words).fit(images if vocabulary_images is None else vocabulary_images)
        words = self.bag_.transform(images)
        kept = [i for i, found in enumerate(words) if found is not None]
        X = [words[i] for i in kept]
        Y = [_clip(boxes[i], words[i].shape, source_name(images[i])) for i in kept]
        if privileged is None or not uses_privileged(self.method):
            return TrainingWords(X, Y, None, self.n_words, 0)
        parts, sizes = [], []
        if masks is not None:
            bag = self.bag_
            painted = [images[i] if masks[i] is None else Inpainted(images[i], masks[i]) for i in kept]
            if self.privileged_words is not None:
                bag = self._bag(self.privileged_words).fit(painted)
            found = bag.transform(painted)
            # An image with an unreadable mask is its own privileged image.
            unreadable = [k for k, z in enumerate(found) if z is None]
            for k, z in zip(unreadable, bag.transform([images[kept[k]] for k in unreadable])):
                found[k] = z
            parts.append(found)
            sizes.append(bag.n_words)
        if attributes is not None:
            # Without an object no attribute is present.
            present = [(attributes[i] * (y is not None), y or Box(0, 0, *x.shape)) for i, x, y in zip(kept, X, Y)]
            parts.append([attribute_words(*pair, x.shape) for pair, x in zip(present, X)])
            sizes.append(attributes.shape[1])
        Z = [join_words(pieces, sizes) for pieces in zip(*parts)]
        return TrainingWords(X, Y, Z, self.n_words, sum(sizes))

    def fit_words(self, words: TrainingWords) -> Self:
        """Learn from the result of ``training_words``."""
        shared = {name: getattr(self, name) for name in ("grid_step", *FEATURE_PARAMETERS)}
        shared["allow_absent"] = any(y is None for y in words.Y)
        learner, names = LEARNERS[self.method]
        options = {name: getattr(self, name) for name in names}
        if self.method == "jkse+":
            # One theta for both spaces, as in Sun et al.
            options |= {f"privileged_{name}": options[name] for name in ("gamma", "normalize")}
        if uses_privileged(self.method) and words.Z is not None:
            options["privileged_task"] = BoxLocalization(words.n_privileged_words, **shared)
        self.model_ = learner(BoxLocalization(words.n_words, **shared), **options)
        self.model_.fit(words.X, words.Y, **({} if words.Z is None else {"privileged": words.Z}))
        self.mean_box_ = mean_relative_box(words.Y, [x.shape for x in words.X])
        return self

    def _bag(self, n_words: int) -> BagOfVisualWords:
        shared = ("detector", "spacing", "cache", "on_error", "n_jobs", "verbose", "random_state")
        return BagOfVisualWords(n_words, **{name: getattr(self, name) for name in shared})

    def predict(self, images: Sequence[Any]) -> list[Box | None]:
        """Find the best box of each image.

        Parameters
        ----------
        images : sequence of paths, arrays or other sources

        Returns
        -------
        list of Box or None
            None for no object, and for an unreadable image with ``on_error="skip"``.
        """
        check_is_fitted(self, "model_")
        return self._boxes(self.bag_.transform(images))

    def _boxes(self, words: list[Any]) -> list[Any]:
        found = iter(self.model_.predict([w for w in words if w is not None]))
        return [None if w is None else next(found) for w in words]

    def evaluate(
        self,
        images: Sequence[Any],
        boxes: Sequence[Any],
        *,
        labels: Any = None,
        label_names: Sequence[str] | None = None,
        threshold: float = 0.5,
    ) -> dict[str, Any]:
        """Compare predictions with true boxes, and with the mean of the training boxes as a baseline.

        Parameters
        ----------
        images : sequence of paths, arrays or other sources
        boxes, labels, label_names, threshold
            As in :func:`~lupi.localize.evaluate_boxes`.

        Returns
        -------
        dict
            As returned by :func:`~lupi.localize.evaluate_boxes`.
        """
        check_is_fitted(self, "model_")
        images = list(images)
        words = self.bag_.transform(images)
        constant = None
        if self.mean_box_ is not None:
            constant = [None if w is None else scale_box(self.mean_box_, w.shape) for w in words]
        options = {"images": images, "labels": labels, "label_names": label_names, "threshold": threshold}
        return evaluate_boxes(list(boxes), self._boxes(words), **options, constant=constant)

    def score(self, images: Sequence[Any], boxes: Sequence[Any]) -> float:
        """Mean overlap of predicted and true boxes.

        Parameters
        ----------
        images : sequence of paths, arrays or other sources
        boxes : sequence of Box or None

        Returns
        -------
        float
        """
        return float(self.evaluate(images, boxes)["mean_overlap"])


def _read_privileged(privileged: Any, n_images: int) -> tuple[list[Any] | None, np.ndarray | None]:
    """Masks, and attributes with 0 where they are unknown."""
    if privileged is None:
        return None, None
    if not hasattr(privileged, "keys") or not privileged or not set(privileged) <= {"masks", "attributes"}:
        raise ValueError("`privileged` must be a dict with 'masks', 'attributes' or both.")
    masks, attributes = privileged.get("masks"), privileged.get("attributes")
    masks = None if masks is None else list(masks)
    if attributes is not None:
        attributes = read_table(attributes, "Localizer: `privileged['attributes']`")
        attributes = np.nan_to_num(attributes.toarray() if hasattr(attributes, "toarray") else attributes, nan=0.0)
        if attributes.ndim != 2 or not np.isin(attributes, (0, 1)).all():
            raise ValueError("`privileged['attributes']` must be a binary array of shape (n_images, n_attributes).")
    for name, values in (("masks", masks), ("attributes", attributes)):
        if values is not None and len(values) != n_images:
            raise ValueError(f"`privileged[{name!r}]` has {len(values)} rows, but there are {n_images} images.")
    return masks, attributes


def _clip(box: Any, shape: tuple[int, int], name: str) -> Box | None:
    if box is None:
        return None
    box = check_box(box, f"the box of {name}")
    clipped = Box(max(box.top, 0), max(box.left, 0), min(box.bottom, shape[0]), min(box.right, shape[1]))
    if clipped.top >= clipped.bottom or clipped.left >= clipped.right:
        raise ValueError(f"the box of {name}, {tuple(box)}, lies outside of its image of shape {shape}.")
    return clipped


def mean_relative_box(boxes: Sequence[Any], shapes: Sequence[tuple[int, int]]) -> np.ndarray | None:
    """Mean of boxes relative to the sizes of their images; None without boxes."""
    found = [np.array(box) / np.array([*shape, *shape]) for box, shape in zip(boxes, shapes) if box is not None]
    return np.mean(found, axis=0) if found else None


def scale_box(relative: np.ndarray, shape: tuple[int, int]) -> Box:
    """A relative box in an image of this height and width."""
    return Box(*(float(v) for v in np.asarray(relative) * [*shape, *shape]))
