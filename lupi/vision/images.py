"""Boxes and word images; reading of images and masks as 8-bit and boolean arrays.

A *source* is a path, an array, or an object with ``read()`` and ``digest()`` such as :class:`Inpainted`. Sources are read in the
process that needs the pixels.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from hashlib import sha256
from os import PathLike, fspath
from typing import Any, NamedTuple, TypeAlias

import numpy as np

# Of the placement features: their number, sides and area of the centered box.
N_PLACEMENT, CENTER, CENTER_AREA = 9, (0.25, 0.25, 0.75, 0.75), 0.25


class Box(NamedTuple):
    """A half-open pixel box: rows ``top <= r < bottom``, columns ``left <= c < right``.

    Examples
    --------
    >>> from lupi.vision import Box
    >>> Box(0, 0, 2, 2).iou(Box(1, 0, 3, 2))
    0.3333333333333333
    """

    top: float
    left: float
    bottom: float
    right: float

    @property
    def area(self) -> float:
        """Number of pixels."""
        return (self.bottom - self.top) * (self.right - self.left)

    def intersection(self, other: Box) -> float:
        """Number of common pixels."""
        height = min(self.bottom, other.bottom) - max(self.top, other.top)
        width = min(self.right, other.right) - max(self.left, other.left)
        return max(height, 0) * max(width, 0)

    def iou(self, other: Box) -> float:
        """Intersection over union."""
        common = self.intersection(other)
        return common / (self.area + other.area - common)


def check_box(box: Any, name: str) -> Box:
    """A Box from any four numbers with positive height and width."""
    try:
        found = Box(*(float(v) for v in box))
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a Box (top, left, bottom, right), got {box!r}.") from None
    if not (found.top < found.bottom and found.left < found.right):
        raise ValueError(f"{name} must satisfy top < bottom and left < right (half-open), got {tuple(found)}.")
    return found


class WordImage:
    """An image as points that carry visual words.

    Parameters
    ----------
    rows, cols : array-like of int
        Pixel positions of the points.
    words : array-like of int
        Visual word of each point, counted from 0.
    shape : tuple (height, width)
        Size of the image in pixels.

    Examples
    --------
    >>> from lupi.vision import Box, WordImage
    >>> image = WordImage([1, 5], [2, 7], [0, 1], shape=(8, 10))
    >>> image.histogram(Box(0, 0, 4, 10), n_words=2)
    array([1., 0.])
    """

    __slots__ = ("cols", "n_words_used", "rows", "shape", "words")

    def __init__(self, rows: Any, cols: Any, words: Any, shape: tuple[int, int]) -> None:
        self.rows, self.cols, self.words = (np.array(a, dtype=np.int64) for a in (rows, cols, words))
        self.shape = (int(shape[0]), int(shape[1]))
        if not self.rows.shape == self.cols.shape == self.words.shape or self.rows.ndim != 1:
            raise ValueError(
                "rows, cols and words must be one-dimensional and of the same length, got shapes "
                f"{self.rows.shape}, {self.cols.shape} and {self.words.shape}."
            )
        if min(self.shape) < 1:
            raise ValueError(f"shape must be (height, width) with positive sizes, got {self.shape}.")
        if len(self.rows) and (
            min(self.rows.min(), self.cols.min(), self.words.min()) < 0
            or self.rows.max() >= self.shape[0]
            or self.cols.max() >= self.shape[1]
        ):
            raise ValueError(f"every point must lie inside shape={self.shape} and have a word >= 0.")
        self.n_words_used = int(self.words.max()) + 1 if len(self.words) else 0

    def __repr__(self) -> str:
        return f"WordImage({len(self.rows)} points, shape={self.shape})"

    def __len__(self) -> int:
        return len(self.rows)

    def histogram(self, box: Box, n_words: int) -> np.ndarray:
        """Counts of the words inside a box."""
        inside = (self.rows >= box[0]) & (self.rows < box[2]) & (self.cols >= box[1]) & (self.cols < box[3])
        return np.bincount(self.words[inside], minlength=n_words).astype(float)


def placement(boxes: Any, shapes: Any) -> np.ndarray:
    r"""Placement features of boxes in images of these shapes, along the last axis: nine numbers.

    With :math:`s = (t/H, l/W, b/H, r/W)`, the sides relative to an image of H x W pixels, and :math:`c` the sides of the centered
    box of half the height and half the width, they are :math:`s - c`, :math:`(s - c)^2` and the relative area minus 1/4.
    """
    t, l, b, r = np.moveaxis(np.asarray(boxes, dtype=float), -1, 0)
    h, w = np.moveaxis(np.asarray(shapes, dtype=float), -1, 0)
    sides = np.stack([t / h, l / w, b / h, r / w], axis=-1) - CENTER
    area = (b - t) * (r - l) / (h * w) - CENTER_AREA
    return np.concatenate([sides, sides * sides, area[..., None]], axis=-1)


# A source, see above.
ImageLike: TypeAlias = Any


class ImageReadError(ValueError):
    """An image that cannot be read; the message gives its name and the reason."""


def check_pixels(height: int, width: int, name: str) -> None:
    """Reject sizes above Pillow's limit ``PIL.Image.MAX_IMAGE_PIXELS`` (None: no limit) before memory is allocated."""
    try:
        from PIL import Image

        limit = Image.MAX_IMAGE_PIXELS
    except ImportError:  # annotations are read without Pillow
        limit = 89_478_485
    if limit is not None and height * width > limit:
        raise ImageReadError(
            f"{name} has {height} x {width} pixels according to its header, more than the limit of {limit}; raise "
            "PIL.Image.MAX_IMAGE_PIXELS to read it."
        )


def _check_source(source: Any) -> None:
    if not (hasattr(source, "read") and hasattr(source, "digest")):
        kind = type(source).__name__
        raise ImageReadError(f"an image must be a path, an array or have read() and digest(), got {kind}.")


def source_name(source: ImageLike) -> str:
    """Name of a source for messages."""
    if isinstance(source, (str, PathLike)):
        return fspath(source)
    return f"array of shape {source.shape}" if isinstance(source, np.ndarray) else str(source)


def source_digest(source: ImageLike) -> str:
    """SHA-256 of the content of a source."""
    if isinstance(source, (str, PathLike)):
        try:
            with open(source, "rb") as file:
                return sha256(file.read()).hexdigest()
        except OSError as error:
            raise ImageReadError(f"{fspath(source)}: {error.strerror or error}.") from None
    if isinstance(source, np.ndarray):
        head = f"{source.dtype.str}{source.shape}".encode()
        return sha256(head + np.ascontiguousarray(source).tobytes()).hexdigest()
    _check_source(source)
    return str(source.digest())


def read_image(source: ImageLike) -> np.ndarray:
    """Read an image as an 8-bit gray (h, w) or RGB (h, w, 3) array.

    Palettes become RGB, transparent pixels become white, 16-bit and floating images are scaled to 8 bits. The orientation tag
    of a photograph is ignored, because annotations count rows and columns of the stored pixels.

    Parameters
    ----------
    source : path, ndarray or object with ``read()``
        Arrays may be (h, w), (h, w, 1), (h, w, 3) or (h, w, 4); boolean, 8-bit, 16-bit or floating in [0, 1].

    Returns
    -------
    ndarray of uint8

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.vision import read_image
    >>> read_image(np.array([[0, 65535]], dtype=np.uint16))
    array([[  0, 255]], dtype=uint8)
    """
    return _to_8_bits(_stored_pixels(source))


def _stored_pixels(source: ImageLike) -> np.ndarray:
    """Pixels of an array or file as stored, except that palettes and rare modes become RGB or RGBA."""
    if isinstance(source, np.ndarray):
        return source
    if not isinstance(source, (str, PathLike)):
        _check_source(source)
        return np.asarray(source.read())
    from PIL import Image

    path = fspath(source)
    try:
        # Pillow warns about damaged metadata, which does not affect the pixels.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path) as image:
                check_pixels(image.height, image.width, path)
                if image.mode.startswith(("I", "F")):
                    return np.asarray(image)
                if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
                    return np.asarray(image.convert("RGBA"))
                return np.array(image if image.mode in ("L", "RGB") else image.convert("RGB"))
    except ImageReadError:
        raise
    except FileNotFoundError:
        raise ImageReadError(f"{path}: no such file.") from None
    # Pillow's decoders raise nearly anything for damaged files, SyntaxError and struct.error included.
    except Exception as error:
        raise ImageReadError(f"{path}: cannot be read as an image ({type(error).__name__}: {error}).") from None


def _to_8_bits(array: np.ndarray) -> np.ndarray:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)) or 0 in array.shape:
        raise ImageReadError(f"an image must have shape (h, w), (h, w, 3) or (h, w, 4), got {array.shape}.")
    if array.dtype == bool:
        array = array * np.uint8(255)
    elif array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise ImageReadError("a floating image must not contain NaN or infinity.")
        # [0, 1] by convention; a wider range is scaled as a whole.
        low, high = min(array.min(), 0.0), max(array.max(), 1.0)
        array = np.rint(255.0 * (array - low) / (high - low)).astype(np.uint8)
    elif array.dtype != np.uint8:
        # Pillow returns 16-bit files as uint16 or int32.
        top = max(int(array.max()), 65535) if array.dtype.itemsize > 1 else 255
        array = np.rint(255.0 * np.clip(array.astype(float), 0, None) / top).astype(np.uint8)
    if array.ndim == 3 and array.shape[2] == 4:
        alpha = array[:, :, 3:].astype(np.uint16)
        array = ((array[:, :, :3] * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)
    return np.ascontiguousarray(array)


def to_gray(image: np.ndarray) -> np.ndarray:
    """Luma of an 8-bit gray or RGB image, of shape (h, w)."""
    if image.ndim == 2:
        return image
    from PIL import Image

    return np.array(Image.fromarray(image).convert("L"))


def read_mask(source: ImageLike, shape: tuple[int, int] | None = None) -> np.ndarray:
    """Read a mask as a boolean array; the coding is inferred from the values.

    ===================  ==================================================
    values               pixels of the object
    ===================  ==================================================
    0 and 1              1
    1, 2 and 3           1 (object) and 3 (border); the trimap of Oxford pets
    anything larger      at least half of the range: 128 of 255
    ===================  ==================================================

    Parameters
    ----------
    source : path, ndarray or object with ``read()``
        Boolean arrays are returned unchanged.
    shape : tuple or None, default=None
        Expected (height, width).

    Returns
    -------
    ndarray of bool of shape (h, w)

    Warns
    -----
    UserWarning
        If no pixel belongs to the object.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.vision import read_mask
    >>> read_mask(np.array([[2, 3, 1], [2, 2, 3]], dtype=np.uint8))
    array([[False,  True,  True],
           [False, False,  True]])
    """
    pixels = _stored_pixels(source)
    mask, name = _object_pixels(pixels), source_name(source)
    if shape is not None and mask.shape != tuple(shape[:2]):
        raise ImageReadError(f"mask {name} has shape {mask.shape}, but its image has shape {tuple(shape[:2])}.")
    if not mask.any():
        warnings.warn(
            f"mask {name} is empty: no pixel belongs to the object (its values range from {int(pixels.min())} to "
            f"{int(pixels.max())}). Masks are 0 and 1, 0 and 255, or trimaps of 1 (object), 2 (background) and 3 (border).",
            stacklevel=2,
        )
    return mask


def _object_pixels(pixels: np.ndarray) -> np.ndarray:
    if pixels.dtype == bool and pixels.ndim == 2:
        return pixels
    # Integers are read before scaling: in 16 bits, 0 and 1 would both become 0.
    integers = pixels.dtype.kind in "iu" and pixels.ndim == 2 and pixels.size > 0
    gray = pixels if integers else to_gray(_to_8_bits(pixels))
    low, high = gray.min(), gray.max()
    if low >= 0 and high <= 1:
        return np.asarray(gray == 1)
    if low >= 1 and high <= 3:
        return np.asarray(gray != 2)
    return to_gray(_to_8_bits(pixels)) >= 128


def mask_box(mask: Any) -> Box | None:
    """Smallest box around a mask; None if the mask is empty.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.vision import mask_box
    >>> mask_box(np.array([[False, False], [False, True]]))
    Box(top=1, left=1, bottom=2, right=2)
    """
    rows, cols = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        return None
    return Box(int(rows[0]), int(cols[0]), int(rows[-1]) + 1, int(cols[-1]) + 1)


def inpaint(image: ImageLike, mask: ImageLike, value: Any = 255) -> np.ndarray:
    """Paint the object in one color: the privileged image of SSVM+.

    The background stays unchanged and the object becomes uniform, so visual words inside and on its outline reveal it.

    Parameters
    ----------
    image : path, ndarray or object with ``read()``
        An image.
    mask : path, ndarray or object with ``read()``
        In a coding of :func:`read_mask`.
    value : int, default=255
        Gray value of the object.

    Returns
    -------
    ndarray of uint8

    References
    ----------
    .. [1] Feyereisl et al., Object localization based on structural SVM using privileged information, 2014, section 4.2.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.vision import inpaint
    >>> inpaint(np.full((1, 3), 7, dtype=np.uint8), np.array([[False, True, False]]))
    array([[  7, 255,   7]], dtype=uint8)
    """
    if isinstance(value, bool) or not 0 <= value <= 255:
        raise ValueError(f"`value` must be between 0 and 255, got {value!r}.")
    pixels = read_image(image).copy()
    pixels[read_mask(mask, pixels.shape)] = value
    return pixels


@dataclass(frozen=True, eq=False)
class Inpainted:
    """Source of an image whose object is painted over, see :func:`inpaint`."""

    image: Any
    mask: Any
    value: int = 255

    def read(self) -> np.ndarray:
        """Return the painted image."""
        return inpaint(self.image, self.mask, self.value)

    def digest(self) -> str:
        """Digest of the content."""
        parts = f"inpaint {self.value} {source_digest(self.image)} {source_digest(self.mask)}"
        return sha256(parts.encode()).hexdigest()

    def __str__(self) -> str:
        return f"{source_name(self.image)} with mask {source_name(self.mask)}"


# Pillow visits every edge for every row; this product takes seconds.
_MOST_EDGE_ROWS = 10**9
# A letter holds five bits. 40 bits hold any number of pixels, and their sums fit into 64.
_MOST_LETTERS = 8


@dataclass(frozen=True)
class _Mask:
    """Source of a mask: its coded content and its height and width."""

    content: Any
    shape: tuple[int, int]

    def digest(self) -> str:
        """Digest of the content."""
        return sha256(repr(self).encode()).hexdigest()


class PolygonMask(_Mask):
    """The union of polygons, a tuple of flat tuples x0, y0, x1, y1, ... as in COCO."""

    def read(self) -> np.ndarray:
        """Return the pixels whose center lies inside, and the outline."""
        from PIL import Image, ImageDraw

        self.check()
        picture = Image.new("1", self.shape[::-1])
        for polygon in self.content:
            ImageDraw.Draw(picture).polygon(list(zip(polygon[::2], polygon[1::2])), fill=1, outline=1)
        return np.array(picture)

    def check(self) -> None:
        """Reject masks that need too much memory or time, and coordinates far outside of the image."""
        height, width = self.shape
        check_pixels(height, width, "a mask of polygons")
        n_corners = sum(map(len, self.content)) // 2
        if n_corners * height > _MOST_EDGE_ROWS:
            raise ImageReadError(
                f"a mask of polygons has {n_corners} corners in {height} rows, too many to draw; use run lengths instead."
            )
        for polygon in self.content:
            far = [v for v, side in zip(polygon, (width, height) * len(polygon)) if not -side <= v <= 2 * side]
            if far:
                raise ImageReadError(
                    f"a polygon has the coordinate {far[0]!r}, far outside of its image of {height} x {width} pixels."
                )


class RunLengthMask(_Mask):
    """COCO's counts of 0, 1, 0, 1, ... down the columns, as a tuple or as its compressed string."""

    def read(self) -> np.ndarray:
        """Return the mask."""
        counts = self.check()
        return np.repeat(np.arange(len(counts)) % 2 == 1, counts).reshape(self.shape[::-1]).T.copy()

    def check(self) -> list[int]:
        """Return the run lengths; reject those that do not fill the mask."""
        check_pixels(*self.shape, "a mask of run lengths")
        counts = unpack_counts(self.content) if isinstance(self.content, str) else list(self.content)
        if min(counts, default=0) < 0:
            raise ImageReadError(f"run lengths must not be negative, got {min(counts)}.")
        if sum(counts) != self.shape[0] * self.shape[1]:
            raise ImageReadError(
                f"run lengths add up to {sum(counts)}, but the mask has {self.shape[0] * self.shape[1]} pixels."
            )
        return counts


def unpack_counts(text: str) -> list[int]:
    """Run lengths from COCO's string: five bits of value per letter, and from the fourth number on differences to two before."""
    codes = np.array([text]).view(np.uint32) if text else np.empty(0, dtype=np.uint32)
    bits = codes.astype(np.int64) - 48
    invalid = np.flatnonzero((bits < 0) | (bits >= 64))
    if len(invalid):
        raise ImageReadError(f"run lengths contain the letter {text[invalid[0]]!r}, which COCO's format does not use.")
    last = np.flatnonzero(bits & 0x20 == 0)
    if len(bits) and (not len(last) or last[-1] != len(bits) - 1):
        raise ImageReadError("run lengths end in the middle of a number.")
    first = np.concatenate([[0], last + 1])[:-1]
    lengths = last - first + 1
    if lengths.max(initial=0) > _MOST_LETTERS:
        raise ImageReadError(f"run lengths contain a number of {lengths.max()} letters, larger than any image.")
    shift = 5 * (np.arange(len(bits)) - np.repeat(first, lengths))
    values = np.add.reduceat((bits & 0x1F) << shift, first) if len(first) else np.empty(0, dtype=np.int64)
    values -= np.where(bits[last] & 0x10, np.int64(1) << 5 * lengths, 0)
    if float(np.abs(values).max(initial=0)) * len(values) >= 2.0**62:
        raise ImageReadError("run lengths contain numbers larger than any image.")
    # Differences: along the odd places, and along the even places from the third number on.
    for start in (1, 2):
        values[start::2] = np.cumsum(values[start::2])
    return values.tolist()
