"""Images in, boxes out: visual words and a structured learner behind the interface of scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from os import PathLike
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from lupi.inputs import check_privileged, check_privileged_sequence
from lupi.inputs.decorators import fit_context
from lupi.inputs.types import PrivilegedLike, RandomState
from lupi.localize.evaluation import at_size, evaluate_boxes, mean_relative_box
from lupi.localize.learners import FEATURE_PARAMETERS, LEARNERS, make_model
from lupi.model_parts import model_part
from lupi.structured import BoxLocalization
from lupi.structured.joint import INFERENCE
from lupi.vision.bag_of_words import BagOfVisualWords
from lupi.vision.descriptors import DETECTORS
from lupi.vision.geometry import Box, check_box
from lupi.vision.images import ImageLike, Inpainted, source_name
from lupi.vision.privileged_words import attribute_words, join_words

ABOVE_ZERO = [Interval(Real, 0, None, closed="neither")]
COUNT = [Interval(Integral, 1, None, closed="left")]


class TrainingWords(NamedTuple):
    """What the learners see: word images, boxes, privileged word images (or None) and the sizes of both vocabularies."""

    X: list[Any]
    Y: list[Any]
    Z: list[Any] | None
    n_words: int
    n_privileged_words: int


@model_part
class Localizer(BaseEstimator):
    """Learn to find one object in each image.

    Images become bags of visual words; a structural SVM or joint kernel support estimation scores boxes by the words inside; an
    exact search returns the best box. Masks and attributes of the training images can be given as privileged information.

    Parameters
    ----------
    method : {"ssvm", "ssvm+", "jkse", "jkse+"}, default="ssvm+"
        With plus: uses ``privileged``; without ``privileged`` it is the plain method.
    n_words : int, default=1000
        Size of the vocabulary.
    detector : {"surf", "dense", "surf+dense", "sift"}, default="surf"
        Local features.
    spacing : int, default=8
        Distance of the points of a dense grid.
    privileged_words : int or None, default=None
        Size of a vocabulary made from the inpainted images; None uses the images' own vocabulary for them, too.
    grid_step : int, default=8
        Edges of boxes are multiples of this many pixels.
    C, lam, rho : float
        Parameters of SSVM+ (C of SSVM); lam also of JKSE+.
    inference : {"exact", "alternating"}, default="exact"
        Joint search of SSVM+; the second is the paper's, see :class:`~lupi.StructuralSVMPlus`.
    nu, gamma : float
        Parameters of JKSE and JKSE+ (gamma is theta in the paper; "scale" adapts it to the data).
    normalize : bool, default=False
        Divide histograms by their sum (JKSE, JKSE+).
    geometry : bool, default=False
        Let the learner see where a box lies and how large it is, not only the words inside; see
        :class:`~lupi.structured.BoxLocalization`. On photographs with one object this is worth more than anything else here.
    geometry_scale : float, default=20.0
        Weight of the geometry beside the words. Good values: about 20 for the structural SVMs, 0.5 to 8 for JKSE.
    tol : float, default=1e-2
        Certified relative duality gap at which training stops.
    max_iter : int, default=1000
        Passes over the training images.
    cache : path or None, default=None
        Folder for descriptors and words, see :class:`~lupi.vision.BagOfVisualWords`.
    on_error : {"raise", "skip"}, default="raise"
        Unreadable images: raise an error that names them, or leave them out with a warning.
    n_jobs, verbose
        Cores for the extraction of features; progress bars.
    random_state : int, RandomState or None, default=None
        Seed of vocabulary and solver.

    Attributes
    ----------
    bag_ : BagOfVisualWords
        Fitted vocabulary.
    model_ : estimator
        Fitted learner; ``model_.dual_gap_`` certifies it.
    mean_box_ : ndarray of shape (4,) or None
        Mean of the training boxes relative to their images, which ``evaluate`` compares with.
    search_ : list of dict or None
        In models of ``lupi localize fit``: the combinations that ``--search`` tried, with their results.

    Notes
    -----
    :func:`lupi.save` and :func:`lupi.load` keep a fitted localizer in a file without pickle; the file holds no masks, attributes,
    privileged words or folders of the machine.

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
    # Models saved before these existed have none of them.
    inference, normalize, geometry, geometry_scale, mean_box_ = "exact", False, False, 20.0, None

    _parameter_constraints = {
        "method": [StrOptions(set(LEARNERS))],
        "n_words": COUNT,
        "detector": [StrOptions(set(DETECTORS))],
        "privileged_words": [*COUNT, None],
        "grid_step": COUNT,
        "C": ABOVE_ZERO,
        "lam": ABOVE_ZERO,
        "rho": ABOVE_ZERO,
        "inference": [StrOptions(set(INFERENCE))],
        "nu": [Interval(Real, 0, 1, closed="right")],
        "gamma": [*ABOVE_ZERO, StrOptions({"scale", "auto"})],
        "normalize": ["boolean"],
        "geometry": ["boolean"],
        "geometry_scale": [Interval(Real, 0, None, closed="left")],
        "tol": ABOVE_ZERO,
        "max_iter": COUNT,
        "on_error": [StrOptions({"raise", "skip"})],
        "n_jobs": [Integral, None],
        "verbose": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        method: str = "ssvm+",
        *,
        n_words: int = 1000,
        detector: str = "surf",
        spacing: int = 8,
        privileged_words: Any = None,
        grid_step: int = 8,
        C: float = 1.0,
        lam: float = 1.0,
        rho: float = 2.0,
        inference: str = "exact",
        nu: float = 0.5,
        gamma: float | str = "scale",
        normalize: bool = False,
        geometry: bool = False,
        geometry_scale: float = 20.0,
        tol: float = 1e-2,
        max_iter: int = 1000,
        cache: str | PathLike[str] | None = None,
        on_error: str = "raise",
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.method = method
        self.n_words = n_words
        self.detector = detector
        self.spacing = spacing
        self.privileged_words = privileged_words
        self.grid_step = grid_step
        self.C = C
        self.lam = lam
        self.rho = rho
        self.inference = inference
        self.nu = nu
        self.gamma = gamma
        self.normalize = normalize
        self.geometry = geometry
        self.geometry_scale = geometry_scale
        self.tol = tol
        self.max_iter = max_iter
        self.cache = cache
        self.on_error = on_error
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, images: Sequence[Any], boxes: Sequence[Any], privileged: Any = None) -> Self:
        """Make the vocabulary and learn.

        Parameters
        ----------
        images : sequence of paths, arrays or other sources
            Training images.
        boxes : sequence of Box or None
            The object's box in each image; None for no object (structural SVMs only). Parts outside the image are cut off.
        privileged : dict or None, default=None
            ``"masks"``: a mask source (or None) for each image; ``"attributes"``: binary array (n_images, n_attributes). Either
            or both. An image without a mask is its own privileged image.

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
        """Fit the vocabulary and turn the training data into words; the part of ``fit`` that no parameter search repeats.

        The vocabulary is made from ``vocabulary_images``, which need no boxes; None: from the training images.
        """
        images, boxes = list(images), list(boxes)
        if len(images) != len(boxes):
            raise ValueError(f"images and boxes must have the same length, got {len(images)} and {len(boxes)}.")
        masks, attributes = _masks_and_attributes(privileged, len(images))
        self.bag_ = self._bag(self.n_words).fit(images if vocabulary_images is None else vocabulary_images)
        words = self.bag_.transform(images)
        keep = [i for i, found in enumerate(words) if found is not None]
        X = [words[i] for i in keep]
        Y = [_inside(boxes[i], words[i].shape, source_name(images[i])) for i in keep]
        if privileged is None or not LEARNERS[self.method].uses_privileged:
            return TrainingWords(X, Y, None, self.n_words, 0)
        parts, sizes = [], []
        if masks is not None:
            painted = [images[i] if masks[i] is None else Inpainted(images[i], masks[i]) for i in keep]
            own = self.privileged_words is not None
            bag = self._bag(self.privileged_words).fit(painted) if own else self.bag_
            found = bag.transform(painted)
            # A mask that cannot be read leaves the image as its own privileged image.
            lost = [k for k, z in enumerate(found) if z is None]
            for k, z in zip(lost, bag.transform([images[keep[k]] for k in lost])):
                found[k] = z
            parts.append(found)
            sizes.append(self.privileged_words if own else self.n_words)
        if attributes is not None:
            absent = np.zeros(attributes.shape[1], dtype=int)
            whole = [Box(0, 0, *x.shape) for x in X]
            parts.append(
                [
                    attribute_words(absent if y is None else attributes[i], w if y is None else y, x.shape)
                    for i, x, y, w in zip(keep, X, Y, whole)
                ]
            )
            sizes.append(attributes.shape[1])
        Z = [join_words(pieces, sizes) for pieces in zip(*parts)]
        return TrainingWords(X, Y, Z, self.n_words, sum(sizes))

    def fit_words(self, words: TrainingWords) -> Self:
        """Learn from words that ``training_words`` has made."""
        self.model_ = self._model(words)
        self.mean_box_ = mean_relative_box(words.Y, [x.shape for x in words.X])
        if words.Z is None:
            self.model_.fit(words.X, words.Y)
        else:
            self.model_.fit(words.X, words.Y, privileged=words.Z)
        return self

    def _model(self, words: TrainingWords) -> BaseEstimator:
        shared = {name: getattr(self, name) for name in ("grid_step", *FEATURE_PARAMETERS)}
        shared["allow_absent"] = any(y is None for y in words.Y)
        task = BoxLocalization(words.n_words, **shared)
        star = None if words.Z is None else BoxLocalization(words.n_privileged_words, **shared)
        return make_model(self.method, task, star, self.get_params(deep=False))

    def _bag(self, n_words: int) -> BagOfVisualWords:
        shared = ("detector", "spacing", "cache", "on_error", "n_jobs", "verbose", "random_state")
        return BagOfVisualWords(n_words, **{name: getattr(self, name) for name in shared})

    def predict(self, images: Sequence[Any]) -> list[Box | None]:
        """The best box of each image.

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
        """Predict and compare, also with the mean of the training boxes; see :func:`~lupi.localize.evaluate_boxes`.

        Returns
        -------
        dict
        """
        check_is_fitted(self, "model_")
        images = list(images)
        words = self.bag_.transform(images)
        options = {"images": images, "labels": labels, "label_names": label_names, "threshold": threshold}
        if self.mean_box_ is not None:
            options["constant"] = [None if w is None else at_size(self.mean_box_, w.shape) for w in words]
        return evaluate_boxes(list(boxes), self._boxes(words), **options)

    def score(self, images: Sequence[Any], boxes: Sequence[Any]) -> float:
        """Mean overlap.

        Returns
        -------
        float
        """
        return float(self.evaluate(images, boxes)["mean_overlap"])


def _masks_and_attributes(privileged: PrivilegedLike, n: int) -> tuple[Any, Any]:
    if privileged is None:
        return None, None
    if not hasattr(privileged, "keys") or not privileged or not set(privileged) <= {"masks", "attributes"}:
        raise ValueError("privileged must be a dict with 'masks', 'attributes' or both.")
    masks, attributes = privileged.get("masks"), privileged.get("attributes")
    masks = check_privileged_sequence(masks, n, estimator_name="Localizer", argument="privileged['masks']")
    if isinstance(attributes, np.ndarray) and attributes.dtype.kind == "f" and attributes.ndim == 2:
        # An attribute that nobody looked for gives no word, like one that is absent; a row of NaN is an image without any.
        unknown = np.isnan(attributes)
        attributes = np.where(unknown & ~unknown.all(axis=1, keepdims=True), 0.0, attributes)
    attributes = check_privileged(
        attributes, n, estimator_name="Localizer", accept_sparse=False, argument="privileged['attributes']"
    )
    if attributes is not None and not np.isin(attributes.data, (0, 1)).all():
        raise ValueError("privileged['attributes'] must be a binary array of shape (n_images, n_attributes).")
    return masks and masks.data, attributes and attributes.data.astype(int)


def _inside(box: Box, shape: tuple[int, int], name: str) -> Box:
    if box is None:
        return None
    box = check_box(box, f"the box of {name}")
    cut = Box(max(box.top, 0), max(box.left, 0), min(box.bottom, shape[0]), min(box.right, shape[1]))
    if cut.top >= cut.bottom or cut.left >= cut.right:
        raise ValueError(f"the box of {name}, {tuple(box)}, lies outside of its image of shape {shape}.")
    return cut
