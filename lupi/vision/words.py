"""Local descriptors of images, bags of visual words, Fisher vectors, word histograms, and privileged word images.

Descriptors are SURF by mahotas, at interest points or on a grid, and SIFT by scikit-image.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from importlib import metadata
from numbers import Integral, Real
from os import PathLike
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from lupi import __version__
from lupi.files import ArrayFolder, digest_of
from lupi.inputs.decorators import fit_context
from lupi.inputs.types import RandomState
from lupi.privacy import model_part
from lupi.run import progress, run_units
from lupi.vision.images import (
    Box,
    ImageLike,
    ImageReadError,
    WordImage,
    check_box,
    read_image,
    source_digest,
    source_name,
    to_gray,
)

# The filters of SURF and SIFT do not fit into smaller images.
_SMALLEST = 64
# Descriptors that are compared with all words at once; their distances fit into the processor's cache.
_BLOCK = 256


class Points(NamedTuple):
    """Described points of an image."""

    rows: np.ndarray  # int32, in pixels of the original image
    cols: np.ndarray
    descriptors: np.ndarray  # float32, of shape (n, d)
    shape: tuple[int, int]  # of the original image


def _surf(gray: np.ndarray, options: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    from mahotas.features import surf

    found = surf.surf(gray, threshold=options["threshold"], max_points=options["max_points"])
    return found[:, 0], found[:, 1], found[:, 6:]


def dense_scale(spacing: float) -> float:
    """Scale of the points of a grid: mahotas' square root of the spacing, or slightly more."""
    # Wavelets are int(2 * scale + 0.5) pixels wide; with an odd width, unequal halves make them sensitive to brightness.
    scale = float(np.sqrt(spacing))
    width = int(2 * scale + 0.5)
    return width / 2 + 0.25 if width % 2 else scale


def _dense_surf(gray: np.ndarray, options: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    from mahotas.features import surf

    spacing = options["spacing"]
    scale = dense_scale(spacing)
    # mahotas drops points within about 16 scales of the border.
    margin = int(np.ceil(16 * scale)) + 1
    rows, cols = (
        a.ravel() for a in np.meshgrid(*(np.arange(spacing // 2, n, spacing) for n in gray.shape), indexing="ij")
    )
    points = np.stack([rows + margin, cols + margin, np.full(len(rows), scale), *np.ones((2, len(rows)))], axis=1)
    found = surf.descriptors(np.pad(gray, margin, mode="edge"), points)
    return found[:, 0] - margin, found[:, 1] - margin, found[:, 6:]


def _sift(gray: np.ndarray, options: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    from skimage.feature import SIFT

    sift: Any = SIFT()
    try:
        sift.detect_and_extract(gray)
    except RuntimeError:  # no point found
        return np.empty(0), np.empty(0), np.empty((0, 128))
    rows, cols = sift.positions.T
    keep = np.arange(len(rows))
    if len(rows) > options["max_points"]:
        contrast = _contrast(gray, sift.keypoints, sift.sigmas, list(zip(sift.octaves, sift.scales)))
        keep = np.sort(np.argsort(-contrast, kind="stable")[: options["max_points"]])
    # Cells and directions in the order of Lowe's program and OpenCV.
    cells = sift.descriptors[keep].reshape(-1, 4, 4, 8).transpose(0, 2, 1, 3)[:, ::-1]
    return rows[keep], cols[keep], cells.reshape(-1, 128)


def _contrast(gray: np.ndarray, points: np.ndarray, sigmas: np.ndarray, levels: list[tuple[int, int]]) -> np.ndarray:
    """Strength of SIFT's points: difference of two Gaussians whose widths differ by a third of an octave."""
    image, found = gray.astype(np.float32), np.empty(len(points))
    for level in set(levels):
        here = np.array([other == level for other in levels])
        sigma = float(np.median(sigmas[here]))
        difference = gaussian_filter(image, sigma * 2 ** (1 / 3)) - gaussian_filter(image, sigma)
        rows, cols = points[here].T
        found[here] = np.abs(difference[rows, cols])
    return found


# Detector -> functions and package.
DETECTORS: dict[str, tuple[tuple[Callable[..., Any], ...], str]] = {
    "surf": ((_surf,), "mahotas"),
    "dense": ((_dense_surf,), "mahotas"),
    "surf+dense": ((_surf, _dense_surf), "mahotas"),
    "sift": ((_sift,), "scikit-image"),
}


def describe(image: np.ndarray, detector: str, *, max_size: int = 1024, **options: Any) -> Points:
    """Local descriptors of an 8-bit image; large images are shrunk and tiny ones padded.

    The options of the detectors are `threshold`, `max_points` and `spacing`, see :class:`BagOfVisualWords`.
    """
    gray = to_gray(image)
    height, width = gray.shape
    factor = min(1.0, max_size / max(gray.shape))
    if factor < 1.0:
        from PIL import Image

        size = [max(1, round(s * factor)) for s in gray.shape]
        gray = np.asarray(Image.fromarray(gray).resize(size[::-1], Image.Resampling.BOX))
    small = gray.shape
    gray = np.pad(gray, [(0, max(0, _SMALLEST - size)) for size in small], mode="edge")
    options = {"threshold": 0.1, "max_points": 1024, "spacing": 8} | options
    found = [detect(np.ascontiguousarray(gray), options) for detect in DETECTORS[detector][0]]
    rows, cols, descriptors = (np.concatenate(parts) for parts in zip(*found))
    keep = (rows < small[0]) & (cols < small[1])
    return Points(
        np.clip(rows[keep] / factor, 0, height - 1).astype(np.int32),
        np.clip(cols[keep] / factor, 0, width - 1).astype(np.int32),
        # The normalization of a constant patch can be 0 / 0.
        np.nan_to_num(descriptors[keep].astype(np.float32), nan=0.0),
        (height, width),
    )


@dataclass
class Extraction:
    """A detector, its options for :func:`describe`, and the folder that caches its results (None: no cache)."""

    detector: str
    options: dict[str, Any]
    cache: str | PathLike[str] | None

    def __post_init__(self) -> None:
        package = DETECTORS[self.detector][1]
        try:
            self.version = f"{package} {metadata.version(package)}"
        except metadata.PackageNotFoundError:
            raise ImportError(f"detector={self.detector!r} requires {package}: pip install 'lupi[vision]'.") from None

    def key(self, kind: str, *parts: Any) -> str:
        """Key of a cached result that depends on these settings and on other parts."""
        return digest_of(kind, __version__, self.detector, self.options, self.version, *parts)

    def points(self, source: ImageLike) -> Points:
        """Described points of a source, from the cache or computed."""
        if self.cache is None:
            return describe(read_image(source), self.detector, **self.options)
        store = ArrayFolder(self.cache, Points._asdict, _unpack_points)
        key = self.key("points", source_digest(source))
        found: Points | None = store.get(key)
        if found is None:
            found = describe(read_image(source), self.detector, **self.options)
            store.add(key, found)
        return found

    def sample(self, source: ImageLike, seed: int, size: int) -> np.ndarray:
        """At most `size` descriptors of a source."""
        descriptors = self.points(source).descriptors
        if len(descriptors) <= size:
            return descriptors
        return descriptors[np.sort(np.random.RandomState(seed).choice(len(descriptors), size, replace=False))]

    def words(self, source: ImageLike, vocabulary: np.ndarray) -> WordImage:
        """Word image of a source."""
        points = self.points(source)
        return WordImage(points.rows, points.cols, nearest(points.descriptors, vocabulary), points.shape)


def _unpack_points(arrays: dict[str, Any]) -> Points:
    return Points(**arrays)._replace(shape=tuple(arrays["shape"].tolist()))


def nearest(descriptors: np.ndarray, vocabulary: np.ndarray) -> np.ndarray:
    """Index of the nearest center of each descriptor."""
    # |d - v|^2 / 2 without |d|^2 / 2, as one matrix product per block.
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


_COUNT = [Interval(Integral, 1, None, closed="left")]


@model_part
@dataclass(eq=False, repr=False)
class BagOfVisualWords(TransformerMixin, BaseEstimator):
    """Local descriptors, quantized to the nearest of ``n_words`` centers of mini-batch k-means.

    Parameters
    ----------
    n_words : int, default=3000
        Size of the vocabulary. `fit` raises if there are fewer descriptors.
    detector : {"surf", "dense", "surf+dense", "sift"}, default="surf"
        SURF at interest points, on a grid, or both (mahotas); SIFT (scikit-image).
    random_state : int, RandomState or None, default=None
        Choice of descriptors and of initial centers.
    n_descriptors : int, default=200_000
        Descriptors to cluster, sampled evenly over the images.
    max_size : int, default=1024
        Larger images are shrunk to this length of their longer side.
    threshold : float, default=0.1
        Least strength of an interest point (SURF).
    max_points : int, default=1024
        Largest number of interest points per image.
    spacing : int, default=8
        Distance between the points of a dense grid.
    cache : path or None, default=None
        Folder for descriptors, vocabularies and words, keyed by the content of the images and all parameters. Later runs reuse
        them and interrupted runs resume. Vocabularies are cached only if ``random_state`` is an integer.
    on_error : {"raise", "skip"}, default="raise"
        What to do with unreadable images after all others are done: raise one error that names them all, or warn and skip them;
        ``transform`` then returns None in their places.
    n_jobs : int or None, default=None
        Processes; -1 uses all cores. They start only if the cache lacks a result.
    verbose : bool, default=False
        Show progress and the remaining time on stderr.

    Attributes
    ----------
    vocabulary_ : ndarray of float32 of shape (n_words, n_features)
        Centers.
    n_descriptors_ : int
        Number of clustered descriptors.

    References
    ----------
    .. [1] Bay et al., Speeded-up robust features, 2008.
    .. [2] Sculley, Web-scale k-means clustering, 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.vision import BagOfVisualWords
    >>> images = [np.random.RandomState(i).randint(0, 255, (60, 80), dtype=np.uint8) for i in range(3)]
    >>> bag = BagOfVisualWords(n_words=10, detector="dense", random_state=0).fit(images)
    >>> bag.transform(images)[0]
    WordImage(70 points, shape=(60, 80))
    """

    _local_paths_in = ("cache",)
    _parameter_constraints = {
        "n_words": _COUNT,
        "detector": [StrOptions(set(DETECTORS))],
        "n_descriptors": _COUNT,
        "max_size": [Interval(Integral, 64, None, closed="left")],
        "threshold": [Interval(Real, 0, None, closed="left")],
        "max_points": _COUNT,
        "spacing": [Interval(Integral, 2, None, closed="left")],
        "on_error": [StrOptions({"raise", "skip"})],
        "n_jobs": [Integral, None],
        "verbose": ["boolean"],
        "random_state": ["random_state"],
    }

    n_words: int = 3000
    detector: str = "surf"
    random_state: RandomState = None
    _: KW_ONLY
    n_descriptors: int = 200_000
    max_size: int = 1024
    threshold: float = 0.1
    max_points: int = 1024
    spacing: int = 8
    cache: str | PathLike[str] | None = None
    on_error: str = "raise"
    n_jobs: int | None = None
    verbose: bool = False

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, images: Sequence[Any], y: Any = None) -> Self:
        """Learn the vocabulary.

        Parameters
        ----------
        images : sequence of paths, arrays or other sources
            Training images.
        y : ignored

        Returns
        -------
        self
        """
        images, rng = list(images), check_random_state(self.random_state)
        seeds = rng.randint(0, 2**31 - 1, size=len(images))
        store, key, found = None, "", None
        if self.cache is not None and isinstance(self.random_state, Integral):
            settings = [self.n_words, self.n_descriptors]
            digests = [_digest_or_none(image) for image in images]
            store, key = ArrayFolder(self.cache), self._extraction().key("vocabulary", settings, digests, seeds)
            found = store.get(key)
        if found is None:
            descriptors, n_skipped = self._sample(images, seeds)
            found = {"vocabulary": self._cluster(descriptors, rng), "n_descriptors": np.array(len(descriptors))}
            if store is not None and not n_skipped:  # the next run has to warn again
                store.add(key, found)
        self.vocabulary_, self.n_descriptors_ = found["vocabulary"], int(found["n_descriptors"])
        return self

    def transform(self, images: Sequence[Any]) -> Any:
        """Quantize the descriptors of images.

        Parameters
        ----------
        images : sequence of paths, arrays or other sources

        Returns
        -------
        list of WordImage
            With None for an unreadable image, if ``on_error="skip"``.
        """
        check_is_fitted(self, "vocabulary_")
        extraction, vocabulary = self._extraction(), digest_of(self.vocabulary_)
        store = None if self.cache is None else ArrayFolder(self.cache, _pack_words, _unpack_words)
        images = list(images)
        units = [(extraction.words, image, self.vocabulary_) for image in images]
        return self._map(
            "Finding words",
            images,
            units,
            store,
            lambda image: extraction.key("words", source_digest(image), vocabulary),
        )

    def _extraction(self) -> Extraction:
        options = {name: getattr(self, name) for name in ("max_size", "threshold", "max_points", "spacing")}
        return Extraction(self.detector, options, self.cache)

    def _map(
        self, description: str, images: list[Any], units: list[Any], store: Any = None, key: Any = None
    ) -> list[Any]:
        """Results of a unit of work for each image; None for skipped images. `key` gives the keys of the store."""
        keys: list[Any] = list(range(len(images)))
        work, results = {}, dict[Any, Any]()
        for k, image in enumerate(images):
            try:
                keys[k] = k if key is None or store is None else key(image)
                work[keys[k]] = units[k]
            except ImageReadError as error:
                results[k] = error
        with progress(description, self.verbose) as report:
            options: dict[str, Any] = {"catch": (ImageReadError,), "share": False}  # memory maps would stay on disk
            results |= run_units(work, store, n_jobs=self.n_jobs, on_progress=report, **options)
        found = [results[key] for key in keys]
        failed = [
            str(result) if source_name(image) in str(result) else f"{source_name(image)}: {result}"
            for image, result in zip(images, found)
            if isinstance(result, ImageReadError)
        ]
        if failed:
            message = f"{len(failed)} of {len(images)} images cannot be used:\n" + "\n".join(failed)
            if self.on_error == "raise":
                raise ImageReadError(message)
            warnings.warn(f"{message}\nThey are skipped.", UserWarning, stacklevel=4)
        return [None if isinstance(result, ImageReadError) else result for result in found]

    def _sample(self, images: list[Any], seeds: np.ndarray) -> tuple[np.ndarray, int]:
        """Descriptors, sampled evenly over the images, and the number of skipped images."""
        if not images:
            raise ValueError("`images` is empty; a vocabulary needs at least one image.")
        size, extraction = -(-self.n_descriptors // len(images)), self._extraction()
        units = [(extraction.sample, image, seed, size) for image, seed in zip(images, seeds)]
        found = self._map("Describing images", images, units)
        samples = [descriptors for descriptors in found if descriptors is not None]
        descriptors = np.concatenate(samples) if samples else np.empty((0, 1), dtype=np.float32)
        if len(descriptors) < self.n_words:
            raise ValueError(
                f"n_words={self.n_words} is more than the {len(descriptors)} descriptors of the {len(samples)} readable images; "
                "lower n_words or threshold, or use detector='dense'."
            )
        return descriptors, len(images) - len(samples)

    def _cluster(self, descriptors: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
        options: dict[str, Any] = {"init": "random", "n_init": 1, "max_iter": 5, "compute_labels": False}
        means = MiniBatchKMeans(self.n_words, batch_size=min(4096, len(descriptors)), random_state=rng, **options)
        return np.asarray(means.fit(descriptors).cluster_centers_, dtype=np.float32)


def _digest_or_none(image: Any) -> str | None:
    try:
        return source_digest(image)
    except ImageReadError:
        return None


def _pack_words(image: WordImage) -> dict[str, np.ndarray]:
    return {"points": np.array([image.rows, image.cols, image.words], dtype=np.int32), "shape": np.array(image.shape)}


def _unpack_words(arrays: dict[str, Any]) -> WordImage:
    rows, cols, words = arrays["points"]
    return WordImage(rows, cols, words, arrays["shape"])


@model_part
@dataclass(eq=False, repr=False)
class FisherVectors(BagOfVisualWords):
    """One vector per image: gradients of the likelihood of its local descriptors under a Gaussian mixture.

    Parameters
    ----------
    n_words : int, default=16
        Number of Gaussians.
    n_components : int, default=24
        Number of principal components of the descriptors.
    n_descriptors : int, default=20_000
        Descriptors to fit the mixture to, sampled evenly over the images.
    detector, random_state, max_size, threshold, max_points, spacing, cache, on_error, n_jobs, verbose
        As in :class:`BagOfVisualWords`; descriptors are cached, vectors are not.

    Attributes
    ----------
    projection_ : PCA
    mixture_ : GaussianMixture

    References
    ----------
    .. [1] Perronnin, Sanchez and Mensink, Improving the Fisher kernel for large-scale image classification, 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.vision import FisherVectors
    >>> images = [np.random.RandomState(i).randint(0, 255, (60, 80), dtype=np.uint8) for i in range(3)]
    >>> vectors = FisherVectors(2, "dense", n_components=3, random_state=0).fit_transform(images)
    >>> vectors.shape, bool(np.allclose(np.linalg.norm(vectors, axis=1), 1.0))
    ((3, 14), True)
    """

    _parameter_constraints = {**BagOfVisualWords._parameter_constraints, "n_components": _COUNT}

    n_words: int = 16
    _: KW_ONLY
    n_descriptors: int = 20_000
    n_components: int = 24

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, images: Sequence[Any], y: Any = None) -> Self:
        """Fit the projection and the mixture.

        Parameters
        ----------
        images : sequence of paths, arrays or other sources
        y : ignored

        Returns
        -------
        self
        """
        from skimage.feature import learn_gmm

        images, rng = list(images), check_random_state(self.random_state)
        descriptors, _ = self._sample(images, rng.randint(0, 2**31 - 1, size=len(images)))
        n_components = min(self.n_components, *descriptors.shape)
        self.projection_ = PCA(n_components, svd_solver="full").fit(descriptors)
        options = {"random_state": rng.randint(2**31 - 1), "covariance_type": "diag"}
        self.mixture_ = learn_gmm(self.projection_.transform(descriptors), n_modes=self.n_words, gm_args=options)
        return self

    def transform(self, images: Sequence[Any]) -> np.ndarray:
        """Compute Fisher vectors of unit length.

        Parameters
        ----------
        images : sequence of paths, arrays or other sources

        Returns
        -------
        ndarray of shape (n_images, n_words * (2 * n_components + 1))
            A row of NaN ("not available", if privileged) for an unreadable image, if ``on_error="skip"``.
        """
        check_is_fitted(self, "mixture_")
        shared = self._extraction(), self.projection_, self.mixture_
        images = list(images)
        found = self._map("Fisher vectors", images, [(_fisher_vector, image, *shared) for image in images])
        size = _size(self.projection_, self.mixture_)
        return np.array([np.full(size, np.nan) if v is None else v for v in found])


def _size(projection: PCA, mixture: Any) -> int:
    return int(mixture.n_components * (2 * projection.n_components_ + 1))


def _fisher_vector(source: Any, extraction: Extraction, projection: PCA, mixture: Any) -> np.ndarray:
    from skimage.feature import fisher_vector

    descriptors = extraction.points(source).descriptors
    if not len(descriptors):
        return np.zeros(_size(projection, mixture))
    # "improved": signed square root and unit length, as Perronnin et al. recommend.
    return np.asarray(fisher_vector(projection.transform(descriptors), mixture, improved=True))


def word_histograms(
    images: Sequence[WordImage], n_words: int, *, boxes: Sequence[Any] | None = None, norm: str | None = None
) -> np.ndarray:
    """Count the words of each image, or of a box in it.

    With ``boxes``, these are the papers' privileged features of an image: the words of the object alone.

    Parameters
    ----------
    images : sequence of WordImage or None
        None for an unreadable image.
    n_words : int
        Size of the vocabulary.
    boxes : sequence of Box or None, default=None
        Box of each image, or None; without ``boxes`` the whole image counts.
    norm : {"l1", "l2"} or None, default=None
        Divide each row by its sum or its Euclidean length. Rows without words stay zero.

    Returns
    -------
    ndarray of shape (n_images, n_words)
        Rows of NaN ("not available", if the features are privileged) for images and boxes that are None.

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
    if norm not in (None, "l1", "l2"):
        raise ValueError(f"`norm` must be None, 'l1' or 'l2', got {norm!r}.")
    if boxes is not None and len(boxes) != len(images):
        raise ValueError(f"`boxes` must hold one box for each of the {len(images)} images, got {len(boxes)}.")
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


def attribute_words(attributes: Any, box: Any, shape: tuple[int, int]) -> WordImage:
    """Word image with one point inside the box for each attribute that is present.

    The histogram of a smaller box counts the attributes that it covers. The points are spread evenly over the box (a
    low-discrepancy sequence in the order of the attributes), so the true box is the smallest that holds them all.

    Parameters
    ----------
    attributes : array-like of shape (n_attributes,)
        Binary; attribute k is word k. NaN means unknown and gives no point.
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
        raise ValueError("`attributes` must be a one-dimensional array of 0, 1 and NaN (unknown).")
    box = check_box(box, "box")
    present = np.flatnonzero(values == 1)
    k, g = np.arange(1, len(present) + 1), 1.32471795724474602596  # the R2 sequence, by the plastic number
    rows = np.floor(box.top + (0.5 + k / g) % 1.0 * (box.bottom - box.top))
    cols = np.floor(box.left + (0.5 + k / g**2) % 1.0 * (box.right - box.left))
    rows, cols = (np.clip(a, 0, size - 1) for a, size in zip((rows, cols), shape))
    return WordImage(rows, cols, present, shape)


def join_words(images: Sequence[WordImage], sizes: Sequence[int]) -> WordImage:
    """Join several word images of one image, with concatenated vocabularies.

    Parameters
    ----------
    images : sequence of WordImage
        All of the same shape.
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
        got = f"{len(images)} and {len(sizes)}"
        raise ValueError(f"`images` and `sizes` must have the same positive length, got {got}.")
    shapes = {image.shape for image in images}
    if len(shapes) > 1:
        raise ValueError(f"the word images have different shapes: {sorted(shapes)}.")
    for image, size in zip(images, sizes):
        if image.n_words_used > size:
            raise ValueError(f"a word image uses word {image.n_words_used - 1}, but its size is {size}.")
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    parts = [(image.rows, image.cols, image.words + start) for image, start in zip(images, starts)]
    rows, cols, words = np.hstack(parts)
    return WordImage(rows, cols, words, images[0].shape)
