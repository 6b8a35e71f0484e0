"""Local descriptors of an image: SURF by mahotas, at interest points or on a grid, and SIFT by scikit-image."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from typing import Any, NamedTuple

import numpy as np
from scipy.ndimage import gaussian_filter

from lupi.vision.images import to_gray

# Below this size the filters of SURF and SIFT find nothing or leave the image.
_SMALLEST = 64


class Points(NamedTuple):
    """Described points.

    Attributes
    ----------
    rows, cols : ndarray of int32 of shape (n,)
        Pixels of the original image.
    descriptors : ndarray of float32 of shape (n, d)
    shape : tuple
        Height and width of the original image.
    """

    rows: np.ndarray
    cols: np.ndarray
    descriptors: np.ndarray
    shape: tuple[int, int]


def _surf(gray: np.ndarray, options: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    from mahotas.features import surf

    found = surf.surf(gray, threshold=options["threshold"], max_points=options["max_points"])
    return found[:, 0], found[:, 1], found[:, 6:]


def dense_scale(spacing: float) -> float:
    """Scale of the points of a grid: mahotas' square root of the spacing, or a little more.

    mahotas' wavelets are ``int(2 * scale + 0.5)`` pixels wide. With an odd width their halves differ by one row, so that they
    answer to brightness, and a striped and a uniform region get nearly the same descriptor.

    Examples
    --------
    >>> from lupi.vision.descriptors import dense_scale
    >>> dense_scale(4), dense_scale(6)
    (2.0, 2.75)
    """
    scale = float(np.sqrt(spacing))
    width = int(2 * scale + 0.5)
    return width / 2 + 0.25 if width % 2 else scale


def _dense_surf(gray: np.ndarray, options: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    from mahotas.features import surf

    spacing = options["spacing"]
    scale = dense_scale(spacing)
    # mahotas drops points whose patch leaves the image, about 16 scales from the border: words are wanted there, too.
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

    sift: Any = SIFT()  # its attributes are None until something was found
    try:
        sift.detect_and_extract(gray)
    except RuntimeError:  # nothing was found
        return np.empty(0), np.empty(0), np.empty((0, 128))
    rows, cols = sift.positions.T
    keep = np.arange(len(rows))
    if len(rows) > options["max_points"]:
        contrast = _contrast(gray, sift.keypoints, sift.sigmas, list(zip(sift.octaves, sift.scales)))
        keep = np.sort(np.argsort(-contrast, kind="stable")[: options["max_points"]])
    # Cells and directions in the order of Lowe's program and OpenCV, whose vocabularies may be in models.
    cells = sift.descriptors[keep].reshape(-1, 4, 4, 8).transpose(0, 2, 1, 3)[:, ::-1]
    return rows[keep], cols[keep], cells.reshape(-1, 128)


def _contrast(gray: np.ndarray, points: np.ndarray, sigmas: np.ndarray, levels: list[tuple[int, int]]) -> np.ndarray:
    """Strength of SIFT's points: what two Gaussians differ by there, one three times in an octave wider than the other."""
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


class Detector(NamedTuple):
    """A way to describe an image: function, length of its descriptors, package that it needs."""

    function: Callable[..., Any]
    n_features: int
    package: str


DETECTORS = {
    "surf": Detector(_surf, 64, "mahotas"),
    "dense": Detector(_dense_surf, 64, "mahotas"),
    "surf+dense": Detector(_surf_and_dense, 64, "mahotas"),
    "sift": Detector(_sift, 128, "scikit-image"),
}


def detector_version(detector: str) -> str:
    """Package and version that compute a detector's descriptors; raises if it is not installed."""
    package = DETECTORS[detector].package
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        raise ImportError(f"detector={detector!r} needs {package}; install lupi[vision].") from None


def describe(
    image: np.ndarray,
    detector: str,
    *,
    max_size: int | None = 1024,
    threshold: float = 0.1,
    max_points: int = 1024,
    spacing: int = 8,
) -> Points:
    """Describe an image by local features.

    Images with a longer side than ``max_size`` are shrunk for the purpose, tiny ones are padded; the points' positions always
    are pixels of the original image.

    Parameters
    ----------
    image : ndarray of uint8
        Gray or RGB.
    detector : {"surf", "dense", "surf+dense", "sift"}
        Interest points, a grid, both, or SIFT.
    max_size : int, default=1024
        Longest side that is described.
    threshold : float, default=0.1
        Least strength of an interest point (SURF).
    max_points : int, default=1024
        Most interest points.
    spacing : int, default=8
        Distance of the grid's points.

    Returns
    -------
    Points

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.vision.descriptors import describe
    >>> describe(np.zeros((100, 80), dtype=np.uint8), "dense", spacing=20).descriptors.shape
    (20, 64)
    """
    gray = to_gray(image)
    height, width = gray.shape
    gray, factor = _shrink(gray, max_size)
    small = gray.shape
    padding = [(0, max(0, _SMALLEST - size)) for size in small]
    if any(after for _, after in padding):
        gray = np.pad(gray, padding, mode="edge")
    options = {"threshold": threshold, "max_points": max_points, "spacing": spacing}
    rows, cols, descriptors = DETECTORS[detector].function(np.ascontiguousarray(gray), options)
    keep = (rows < small[0]) & (cols < small[1])
    rows, cols = rows[keep] / factor, cols[keep] / factor
    return Points(
        np.clip(rows, 0, height - 1).astype(np.int32),
        np.clip(cols, 0, width - 1).astype(np.int32),
        # A constant patch has no direction, and may be 0 / 0 after normalization: it gets the descriptor 0.
        np.nan_to_num(descriptors[keep].astype(np.float32), nan=0.0),
        (height, width),
    )


def _shrink(gray: np.ndarray, max_size: int | None) -> tuple[np.ndarray, float]:
    longest = max(gray.shape)
    if longest <= max_size:
        return gray, 1.0
    from PIL import Image

    factor = max_size / longest
    size = tuple(max(1, round(s * factor)) for s in gray.shape)
    return np.asarray(Image.fromarray(gray).resize(size[::-1], Image.Resampling.BOX)), factor
