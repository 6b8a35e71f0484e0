"""Images from files or arrays, as 8-bit arrays; masks; and names for their content.

A *source* is whatever an image can be read from: a path, an array, or an object with ``read()`` and ``digest()`` (such as
:class:`Inpainted`). Sources are read late, in the process that needs them.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from hashlib import sha256
from os import PathLike, fspath
from typing import Any, TypeAlias

import numpy as np

# A source, as above.
ImageLike: TypeAlias = Any


class ImageReadError(ValueError):
    """An image that cannot be read; the message names it and says why."""


def check_pixels(height: int, width: int, name: str) -> None:
    """Refuse a picture or mask that says it is larger than Pillow allows, before memory is asked for.

    The limit is Pillow's, ``PIL.Image.MAX_IMAGE_PIXELS``, which a program may set; None means no limit.
    """
    limit = _pixel_limit()
    if limit is not None and height * width > limit:
        raise ImageReadError(
            f"{name} says it has {height} x {width} pixels, more than the {limit} that are allowed; set "
            "PIL.Image.MAX_IMAGE_PIXELS if it is meant to be so large."
        )


def _pixel_limit() -> int | None:
    try:
        from PIL import Image
    except ImportError:  # Annotations are read without it; the value is Pillow's default.
        return 89_478_485
    return Image.MAX_IMAGE_PIXELS


def source_name(source: ImageLike) -> str:
    """What to call a source in a message."""
    if isinstance(source, (str, PathLike)):
        return fspath(source)
    if isinstance(source, np.ndarray):
        return f"array of shape {source.shape}"
    return str(source)


def source_digest(source: ImageLike) -> str:
    """Name of a source's content: equal for equal bytes, wherever they are stored."""
    if isinstance(source, (str, PathLike)):
        try:
            with open(source, "rb") as file:
                return sha256(file.read()).hexdigest()
        except OSError as error:
            raise ImageReadError(f"{fspath(source)}: {error.strerror or error}.") from None
    if isinstance(source, np.ndarray):
        head = f"{source.dtype.str}{source.shape}".encode()
        return sha256(head + np.ascontiguousarray(source).tobytes()).hexdigest()
    if hasattr(source, "digest"):
        return str(source.digest())
    raise ImageReadError(f"An image must be a path, an array or have read() and digest(), got {type(source).__name__}.")


def read_image(source: ImageLike) -> np.ndarray:
    """Read an image as an 8-bit gray (h, w) or RGB (h, w, 3) array.

    Palettes become RGB, transparency is laid over white, 16-bit and floating images are scaled to 8 bits. The orientation tag of
    a photograph is not applied: annotations count rows and columns of the stored pixels.

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
    if isinstance(source, np.ndarray):
        return _from_array(source)
    if hasattr(source, "read") and hasattr(source, "digest"):
        return np.asarray(source.read())
    try:
        path = fspath(source)
    except TypeError:
        raise ImageReadError(
            f"An image must be a path, an array or have read() and digest(), got {type(source).__name__}."
        ) from None
    return _from_array(_from_file(path))


def _from_file(path: Any) -> np.ndarray:
    """Pixels as they are stored, except that palettes and rare modes become RGB or RGBA."""
    from PIL import Image

    try:
        # Pillow warns of damaged metadata and of very many pixels; the former does not keep the pixels from being read.
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
    except Image.DecompressionBombError:
        raise ImageReadError(
            f"{path} says it has more than twice the {Image.MAX_IMAGE_PIXELS} pixels that are allowed; set "
            "PIL.Image.MAX_IMAGE_PIXELS if it is meant to be so large."
        ) from None
    # Damaged files raise nearly anything from Pillow's decoders, SyntaxError and struct.error included.
    except Exception as error:
        raise ImageReadError(f"{path}: cannot be read as an image ({type(error).__name__}: {error}).") from None


def _from_array(array: np.ndarray) -> np.ndarray:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)) or 0 in array.shape:
        raise ImageReadError(f"An image must have shape (h, w), (h, w, 3) or (h, w, 4), got {array.shape}.")
    if array.dtype == bool:
        array = array * np.uint8(255)
    elif array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise ImageReadError("A floating image must not contain NaN or infinity.")
        # In [0, 1] by convention; anything wider is stretched to its own range, as there is no other reference.
        low, high = min(array.min(), 0.0), max(array.max(), 1.0)
        array = np.rint(255.0 * (array - low) / (high - low)).astype(np.uint8)
    elif array.dtype != np.uint8:
        # 16-bit files arrive as uint16 or as int32 with values below 2**16.
        top = max(int(array.max()), 65535) if array.dtype.itemsize > 1 else 255
        array = np.rint(255.0 * np.clip(array.astype(float), 0, None) / top).astype(np.uint8)
    if array.ndim == 3 and array.shape[2] == 4:
        alpha = array[:, :, 3:].astype(np.uint16)
        array = ((array[:, :, :3] * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)
    return np.ascontiguousarray(array)


def to_gray(image: np.ndarray) -> np.ndarray:
    """Luma of an 8-bit image.

    Parameters
    ----------
    image : ndarray of shape (h, w) or (h, w, 3)

    Returns
    -------
    ndarray of uint8 of shape (h, w)
    """
    if image.ndim == 2:
        return image
    from PIL import Image

    # 0.299, 0.587 and 0.114 in units of 2**-16, rounded.
    return np.array(Image.fromarray(image).convert("L"))


def read_mask(source: ImageLike, shape: tuple[int, int] | None = None) -> np.ndarray:
    """Read a mask as a boolean array; its coding is found out from its values.

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
        A boolean array is taken as it is.
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
    if isinstance(source, np.ndarray) or not isinstance(source, (str, PathLike)):
        pixels = source if isinstance(source, np.ndarray) else read_image(source)
    else:
        pixels = _from_file(fspath(source))
    mask, values = _object_pixels(pixels)
    name = source_name(source)
    if shape is not None and mask.shape != tuple(shape[:2]):
        raise ImageReadError(f"mask {name} has shape {mask.shape}, its image has {tuple(shape[:2])}.")
    if not mask.any():
        warnings.warn(
            f"mask {name} is empty: no pixel belongs to the object ({values}). Masks are 0 and 1, 0 and 255, or trimaps of 1 "
            "(object), 2 (background) and 3 (border).",
            stacklevel=2,
        )
    return mask


def _object_pixels(pixels: np.ndarray) -> tuple[np.ndarray, str]:
    """The mask in stored pixels, and in words what values they have."""
    if pixels.dtype == bool and pixels.ndim == 2:
        return pixels, "all are False"
    whole = pixels.dtype.kind in "iu" and pixels.ndim == 2 and pixels.size > 0
    # Whole numbers are looked at as they are: scaled to 8 bits, 0 and 1 of 16 bits would both be 0.
    gray = pixels if whole else to_gray(_from_array(pixels))
    low, high = int(gray.min()), int(gray.max())
    values = f"its values are from {low} to {high}"
    if low >= 0 and high <= 1:
        return gray == 1, values
    if low >= 1 and high <= 3:
        return gray != 2, values
    return (to_gray(_from_array(pixels)) if whole else gray) >= 128, values


def inpaint(image: ImageLike, mask: ImageLike, value: Any = 255) -> np.ndarray:
    """Paint the object in one color: the privileged image of SSVM+.

    Background pixels stay as they are; the object becomes uniform, so that words on its outline and inside tell where it is.

    Parameters
    ----------
    image : path, ndarray or object with ``read()``
        An image.
    mask : path, ndarray or object with ``read()``
        In a coding that :func:`read_mask` knows.
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
        raise ValueError(f"value must be between 0 and 255, got {value!r}.")
    pixels = read_image(image).copy()
    pixels[read_mask(mask, pixels.shape)] = value
    return pixels


@dataclass(frozen=True, eq=False)
class Inpainted:
    """The source of an inpainted image: read, painted and described only when needed."""

    image: Any
    mask: Any
    value: int = 255

    def read(self) -> np.ndarray:
        """The painted image."""
        return inpaint(self.image, self.mask, self.value)

    def digest(self) -> str:
        """Name of the content."""
        parts = f"inpaint {self.value} {source_digest(self.image)} {source_digest(self.mask)}"
        return sha256(parts.encode()).hexdigest()

    def __str__(self) -> str:
        return f"{source_name(self.image)} with mask {source_name(self.mask)}"
