"""Images from files or arrays, as 8-bit arrays; masks; and names for their content.

A *source* is whatever an image can be read from: a path, an array, or an object with ``read()`` and ``digest()`` (such as
:class:`Inpainted`). Sources are read late, in the process that needs them.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from os import PathLike, fspath
from typing import Any

import numpy as np


class ImageReadError(ValueError):
    """An image that cannot be read; the message names it and says why."""


def source_name(source) -> str:
    """What to call a source in a message."""
    if isinstance(source, (str, PathLike)):
        return fspath(source)
    if isinstance(source, np.ndarray):
        return f"array of shape {source.shape}"
    return str(source)


def source_digest(source) -> str:
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
        return source.digest()
    raise ImageReadError(f"An image must be a path, an array or have read() and digest(), got {type(source).__name__}.")


def read_image(source) -> np.ndarray:
    """Read an image as an 8-bit grey (h, w) or RGB (h, w, 3) array.

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
        return source.read()
    try:
        path = fspath(source)
    except TypeError:
        raise ImageReadError(
            f"An image must be a path, an array or have read() and digest(), got {type(source).__name__}."
        ) from None
    return _from_file(path)


def _from_file(path) -> np.ndarray:
    import warnings

    from PIL import Image

    try:
        # Pillow warns of damaged metadata and of very many pixels; neither keeps the pixels from being read.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path) as image:
                if image.mode.startswith(("I", "F")):
                    return _from_array(np.asarray(image))
                if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
                    return _from_array(np.asarray(image.convert("RGBA")))
                return np.array(image if image.mode in ("L", "RGB") else image.convert("RGB"))
    except FileNotFoundError:
        raise ImageReadError(f"{path}: no such file.") from None
    # Damaged files raise nearly anything from Pillow's decoders, SyntaxError and struct.error included.
    except Exception as error:
        raise ImageReadError(f"{path}: cannot be read as an image ({type(error).__name__}: {error}).") from None


def _from_array(array) -> np.ndarray:
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


def to_grey(image) -> np.ndarray:
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


def read_mask(source, shape=None) -> np.ndarray:
    """Read a mask as a boolean array; a picture's pixels of at least 128 belong to the object.

    Parameters
    ----------
    source : path, ndarray or object with ``read()``
        A boolean array is taken as it is.
    shape : tuple or None, default=None
        Expected (height, width).

    Returns
    -------
    ndarray of bool of shape (h, w)
    """
    if isinstance(source, np.ndarray) and source.dtype == bool and source.ndim == 2:
        mask = source
    else:
        mask = read_image(source)
        mask = mask if mask.dtype == bool else to_grey(mask) >= 128
    if shape is not None and mask.shape != tuple(shape[:2]):
        raise ImageReadError(f"mask {source_name(source)} has shape {mask.shape}, its image has {tuple(shape[:2])}.")
    return mask


def inpaint(image, mask, value=255) -> np.ndarray:
    """Paint the object in one colour: the privileged image of SSVM+.

    Background pixels stay as they are; the object becomes uniform, so that words on its outline and inside tell where it is.

    Parameters
    ----------
    image : path, ndarray or object with ``read()``
        An image.
    mask : path, ndarray or object with ``read()``
        True (or >= 128) on the object.
    value : int, default=255
        Grey value of the object.

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
