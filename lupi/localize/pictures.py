"""Pictures of boxes."""

from __future__ import annotations

import io
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lupi.files import write_atomically
from lupi.vision.images import ImageLike, read_image

if TYPE_CHECKING:
    from lupi.vision.geometry import Box

# Blue and orange keep apart for color-blind eyes; the true box is also dashed.
PREDICTED = (235, 120, 20)
TRUE = (40, 120, 225)


def overlay(
    image: np.ndarray | str,
    predicted: Box | list[int] | None = None,
    true: Box | list[int] | None = None,
    max_size: int | None = None,
) -> Any:
    """An image with its boxes drawn in.

    Parameters
    ----------
    image : path, ndarray or other source
        The image.
    predicted, true : Box or None
        Solid orange, dashed blue.
    max_size : int or None, default=None
        Longest side of the picture; None keeps the image's size.

    Returns
    -------
    PIL.Image.Image
    """
    from PIL import Image, ImageDraw

    pixels = read_image(image)
    picture = Image.fromarray(pixels if pixels.ndim == 3 else np.repeat(pixels[:, :, None], 3, axis=2))
    factor = 1.0 if max_size is None else min(1.0, max_size / max(picture.size))
    if factor < 1.0:
        picture = picture.resize([max(1, round(s * factor)) for s in picture.size])
    draw = ImageDraw.Draw(picture)
    width = max(2, round(max(picture.size) / 120))
    for box, color, dashed in ((true, TRUE, True), (predicted, PREDICTED, False)):
        if box is not None:
            top, left, bottom, right = (factor * v for v in box)
            _frame(draw, left, top, max(right - 1, left), max(bottom - 1, top), color, width, dashed)
    return picture


def _frame(
    draw: Any,
    left: float,
    top: float,
    right: float,
    bottom: float,
    color: tuple[int, int, int],
    width: int,
    dashed: bool,
) -> None:
    corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
    for (x0, y0), (x1, y1) in pairwise(corners):
        if not dashed:
            draw.line([(x0, y0), (x1, y1)], fill=color, width=width)
            continue
        length = max(abs(x1 - x0), abs(y1 - y0), 1.0)
        for start in np.arange(0.0, length, 8.0 * width / 2):
            a, b = start / length, min(1.0, (start + 5.0 * width / 2) / length)
            ends = [(x0 + f * (x1 - x0), y0 + f * (y1 - y0)) for f in (a, b)]
            draw.line(ends, fill=color, width=width)


def save_overlay(
    path: str | PathLike[str], image: Any, predicted: Any = None, true: Any = None, max_size: Any = None
) -> None:
    """Write a picture with boxes, in the format that the file's name says; see :func:`overlay`."""
    from PIL import Image

    picture, ending, buffer = overlay(image, predicted, true, max_size), Path(path).suffix.lower(), io.BytesIO()
    if ending not in Image.registered_extensions():
        raise ValueError(f"{path}: no format of pictures has the ending {ending!r}; use .png or .jpg.")
    picture.save(buffer, format=Image.registered_extensions()[ending])
    write_atomically(path, buffer.getvalue())


def overlay_jpeg(image: ImageLike, predicted: Any, true: Any, max_size: int) -> bytes:
    """The picture as JPEG bytes, for a page that contains its pictures."""
    buffer = io.BytesIO()
    overlay(image, predicted, true, max_size).save(buffer, format="JPEG", quality=80)
    return buffer.getvalue()
