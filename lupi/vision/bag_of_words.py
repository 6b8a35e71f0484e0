"""Images as bags of visual words."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from os import PathLike
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import MiniBatchKMeans
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from lupi import __version__
from lupi.files import ArrayFolder, digest_of
from lupi.inputs.decorators import fit_context
from lupi.inputs.types import RandomState
from lupi.model_parts import model_part
from lupi.run import progress, run_units
from lupi.vision.descriptors import DETECTORS, detector_version
from lupi.vision.extraction import SampleStore, described, key_of, sampled, word_image, words_in
from lupi.vision.images import ImageReadError, source_digest, source_name


@model_part
class BagOfVisualWords(TransformerMixin, BaseEstimator):
    """Local descriptors, quantized to the nearest of ``n_words`` centers.

    Parameters
    ----------
    n_words : int, default=3000
        Size of the vocabulary. A fit with fewer distinct descriptors than that raises.
    detector : {"surf", "dense", "surf+dense", "sift"}, default="surf"
        SURF at interest points, on a grid, or both (mahotas); SIFT (OpenCV).
    n_descriptors : int, default=200_000
        Descriptors that the vocabulary is made from, drawn evenly over the images.
    max_size, threshold, max_points, spacing
        As in :func:`~lupi.vision.descriptors.describe`.
    batch_size : int, default=4096
        Batch of mini-batch k-means.
    max_epochs : int, default=5
        Passes of mini-batch k-means over the descriptors.
    cache : path or None, default=None
        Folder for descriptors, vocabularies and words, keyed by the images' bytes and all parameters. A second run starts at
        once, an interrupted one resumes. A vocabulary is stored only if ``random_state`` is an integer.
    on_error : {"raise", "skip"}, default="raise"
        What to do with images that cannot be read, after all others are done: raise one error that names them all, or warn and
        go on; ``transform`` then returns None in their places.
    n_jobs : int or None, default=None
        Processes; -1 takes all cores. They start only if there is something to compute; what the cache has is read at once.
    verbose : bool, default=False
        Show progress and the remaining time on stderr.
    random_state : int, RandomState or None, default=None
        Choice of descriptors and of initial centers.

    Attributes
    ----------
    vocabulary_ : ndarray of float32 of shape (n_words, n_features)
        Centers.
    n_descriptors_ : int
        Descriptors that they were made from.

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
        "n_words": [Interval(Integral, 1, None, closed="left")],
        "detector": [StrOptions(set(DETECTORS))],
        "n_descriptors": [Interval(Integral, 1, None, closed="left")],
        "max_size": [Interval(Integral, 64, None, closed="left")],
        "threshold": [Interval(Real, 0, None, closed="left")],
        "max_points": [Interval(Integral, 1, None, closed="left")],
        "spacing": [Interval(Integral, 2, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "on_error": [StrOptions({"raise", "skip"})],
        "n_jobs": [Integral, None],
        "verbose": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_words: int = 3000,
        detector: str = "surf",
        random_state: RandomState = None,
        *,
        n_descriptors: int = 200_000,
        max_size: int = 1024,
        threshold: float = 0.1,
        max_points: int = 1024,
        spacing: int = 8,
        batch_size: int = 4096,
        max_epochs: int = 5,
        cache: str | PathLike[str] | None = None,
        on_error: str = "raise",
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_words = n_words
        self.detector = detector
        self.random_state = random_state
        self.n_descriptors = n_descriptors
        self.max_size = max_size
        self.threshold = threshold
        self.max_points = max_points
        self.spacing = spacing
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.cache = cache
        self.on_error = on_error
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _how(self) -> dict[str, Any]:
        options = {name: getattr(self, name) for name in ("max_size", "threshold", "max_points", "spacing")}
        version = detector_version(self.detector)
        return {"detector": self.detector, "options": options, "version": version, "folder": self.cache}

    def _run(
        self,
        description: str,
        sources: list[Any],
        unit: Callable[..., Any],
        store: ArrayFolder | SampleStore | None = None,
        key: Callable[..., Any] | None = None,
    ) -> list[Any]:
        """Results of ``unit(k, digest)``, a call for each source; None for unreadable sources if those are to be skipped.

        With a store, ``key(k, digest)`` names the result.
        """
        keys: list[Any] = []
        work: dict[Any, Any] = {}
        outcomes: dict[Any, Any] = {}
        for k, source in enumerate(sources):
            try:
                digest = None if store is None else source_digest(source)
                keys.append(k if store is None or key is None else key(k, digest))
                work.setdefault(keys[k], unit(k, digest))
            except ImageReadError as error:
                keys.append(k)
                outcomes[k] = error
        with progress(description, self.verbose) as report:
            outcomes |= run_units(
                work,
                store,
                n_jobs=self.n_jobs,
                on_progress=report,
                catch=(ImageReadError,),
                share=False,  # memory maps would keep a copy of every large image until the end
            )
        found = [outcomes[key] for key in keys]
        failed = [
            str(outcome) if source_name(source) in str(outcome) else f"{source_name(source)}: {outcome}"
            for source, outcome in zip(sources, found)
            if isinstance(outcome, ImageReadError)
        ]
        if failed:
            message = f"{len(failed)} of {len(sources)} images cannot be used:\n" + "\n".join(failed)
            if self.on_error == "raise":
                raise ImageReadError(message)
            warnings.warn(f"{message}\nThey are skipped.", UserWarning, stacklevel=4)
        return [None if isinstance(outcome, ImageReadError) else outcome for outcome in found]

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, images: Sequence[Any], y: Any = None) -> Self:
        """Make the vocabulary.

        Parameters
        ----------
        images : sequence of paths, arrays or other sources
            Training images.
        y : ignored

        Returns
        -------
        self
        """
        rng = check_random_state(self.random_state)
        descriptors, seeds = self._sample(list(images), rng)
        kept = self.cache is not None and isinstance(self.random_state, Integral)
        store, key, found = None, "", None
        if self.cache is not None and kept:
            store = ArrayFolder(self.cache)
            settings = (self.n_words, self.batch_size, self.max_epochs)
            key = digest_of("vocabulary", __version__, *settings, descriptors, seeds)
            found = store.get(key)
        self.vocabulary_ = self._cluster(descriptors, rng) if found is None else found["v"]
        if store is not None and found is None:
            store.add(key, {"v": self.vocabulary_})
        self.n_descriptors_ = len(descriptors)
        return self

    def _sample(self, images: list[Any], rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
        """Descriptors drawn evenly over the images, and the seeds of the draws."""
        if not images:
            raise ValueError("images is empty; a vocabulary needs at least one image.")
        seeds = rng.randint(0, 2**31 - 1, size=len(images))
        per_image, how, name = -(-self.n_descriptors // len(images)), self._how(), "Describing images"
        if self.cache is None:
            found = self._run(name, images, lambda k, _: (sampled, images[k], how, seeds[k], per_image))
        else:
            store = SampleStore(self.cache, per_image)
            points = lambda k, digest: (key_of("points", digest, how), int(seeds[k]))  # noqa: E731
            found = self._run(name, images, lambda k, _: (described, images[k], how), store, points)
        found = [descriptors for descriptors in found if descriptors is not None]
        descriptors = np.concatenate(found) if found else np.empty((0, 1), dtype=np.float32)
        if len(descriptors) < self.n_words:
            raise ValueError(
                f"n_words={self.n_words} is more than the {len(descriptors)} descriptors of the {len(found)} readable images; "
                "lower n_words or threshold, or use detector='dense'."
            )
        return descriptors, seeds

    def _cluster(self, descriptors: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
        means = MiniBatchKMeans(
            self.n_words,
            init="random",
            n_init=1,
            batch_size=min(self.batch_size, len(descriptors)),
            max_iter=self.max_epochs,
            compute_labels=False,
            random_state=rng,
        )
        return np.asarray(means.fit(descriptors).cluster_centers_, dtype=np.float32)

    def transform(self, images: Sequence[Any]) -> Any:
        """Word images.

        Parameters
        ----------
        images : sequence of paths, arrays or other sources

        Returns
        -------
        list of WordImage
            With None for an image that cannot be read, if ``on_error="skip"``.
        """
        check_is_fitted(self, "vocabulary_")
        images = list(images)
        how, vocabulary = self._how(), digest_of(self.vocabulary_)
        return self._run(
            "Finding words",
            images,
            lambda k, digest: (word_image, images[k], how, self.vocabulary_, digest),
            None if self.cache is None else words_in(self.cache),
            lambda k, digest: key_of("words", digest, how, vocabulary),
        )
