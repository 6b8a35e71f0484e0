"""Local descriptors of images: SURF by mahotas, at interest points or on a grid, and SIFT by scikit-image.

Worker processes import this module, so it imports neither scikit-learn nor numba.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import metadata
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from scipy.ndimage import gaussian_filter

from lupi import __version__
from lupi.files import ArrayFolder, digest_of
from lupi.vision.geometry import WordImage
from lupi.vision.images import ImageLike, read_image, source_digest, to_gray

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


def _surf_and_dense(gray: np.ndarray, options: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    pair = _surf(gray, options), _dense_surf(gray, options)
    first, second, third = (np.concatenate(parts) for parts in zip(*pair))
    return first, second, third


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
    image = gray.astype(np.float32)
    found = np.empty(len(points))
    names, level = np.unique(np.array(levels), axis=0, return_inverse=True)
    for k in range(len(names)):
        here = level.ravel() == k
        sigma = float(np.median(sigmas[here]))
        difference = gaussian_filter(image, sigma * 2 ** (1 / 3)) - gaussian_filter(image, sigma)
        rows, cols = points[here].T
        found[here] = np.abs(difference[rows, cols])
    return found


# Detector -> function and package.
DETECTORS = {
    "surf": (_surf, "mahotas"),
    "dense": (_dense_surf, "mahotas"),
    "surf+dense": (_surf_and_dense, "mahotas"),
    "sift": (_sift, "scikit-image"),
}


def describe(
    image: np.ndarray,
    detector: str,
    *,
    max_size: int = 1024,
    threshold: float = 0.1,
    max_points: int = 1024,
    spacing: int = 8,
) -> Points:
    """Local descriptors of an 8-bit image; large images are shrunk and tiny ones padded."""
    gray = to_gray(image)
    height, width = gray.shape
    factor = min(1.0, max_size / max(gray.shape))
    if factor < 1.0:
        from PIL import Image

        size = [max(1, round(s * factor)) for s in gray.shape]
        gray = np.asarray(Image.fromarray(gray).resize(size[::-1], Image.Resampling.BOX))
    small = gray.shape
    gray = np.pad(gray, [(0, max(0, _SMALLEST - size)) for size in small], mode="edge")
    options = {"threshold": threshold, "max_points": max_points, "spacing": spacing}
    rows, cols, descriptors = DETECTORS[detector][0](np.ascontiguousarray(gray), options)
    keep = (rows < small[0]) & (cols < small[1])
    return Points(
        np.clip(rows[keep] / factor, 0, height - 1).astype(np.int32),
        np.clip(cols[keep] / factor, 0, width - 1).astype(np.int32),
        # The normalization of a constant patch can be 0 / 0.
        np.nan_to_num(descriptors[keep].astype(np.float32), nan=0.0),
        (height, width),
    )


@dataclass(frozen=True)
class Extraction:
    """A detector, its options for :func:`describe`, and the folder that caches its results (None: no cache)."""

    detector: str
    options: dict[str, Any]
    cache: str | PathLike[str] | None
    version: str = field(init=False)

    def __post_init__(self) -> None:
        package = DETECTORS[self.detector][1]
        try:
            object.__setattr__(self, "version", f"{package} {metadata.version(package)}")
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
