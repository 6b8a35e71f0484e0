"""Fisher vectors of images, by scikit-image."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any, Self

import numpy as np
from sklearn.decomposition import PCA
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lupi.inputs.decorators import fit_context
from lupi.inputs.types import RandomState
from lupi.privacy import model_part
from lupi.vision.descriptors import Extraction
from lupi.vision.words import BagOfVisualWords


@model_part
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

    _parameter_constraints = {
        **BagOfVisualWords._parameter_constraints,
        "n_components": BagOfVisualWords._parameter_constraints["n_words"],
    }

    def __init__(
        self,
        n_words: int = 16,
        detector: str = "surf",
        random_state: RandomState = None,
        *,
        n_components: int = 24,
        n_descriptors: int = 20_000,
        max_size: int = 1024,
        threshold: float = 0.1,
        max_points: int = 1024,
        spacing: int = 8,
        cache: str | PathLike[str] | None = None,
        on_error: str = "raise",
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            n_words,
            detector,
            random_state,
            n_descriptors=n_descriptors,
            max_size=max_size,
            threshold=threshold,
            max_points=max_points,
            spacing=spacing,
            cache=cache,
            on_error=on_error,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.n_components = n_components

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
        found = self._map("Fisher vectors", list(images), lambda k, image: (_fisher_vector, image, *shared))
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
