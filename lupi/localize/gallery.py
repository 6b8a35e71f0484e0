"""Pictures of boxes: overlays, and an HTML page of all evaluated images."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from itertools import pairwise
from os import PathLike
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from lupi.files import write_atomically
from lupi.vision.images import ImageLike, ImageReadError, read_image

# Distinguishable with color blindness; the true box is also dashed.
PREDICTED = (235, 120, 20)
TRUE = (40, 120, 225)


def overlay(image: ImageLike, predicted: Any = None, true: Any = None, max_size: int | None = None) -> Any:
    """PIL image with the predicted box (solid orange) and the true box (dashed blue), at most `max_size` pixels long."""
    from PIL import Image, ImageDraw

    pixels = read_image(image)
    picture = Image.fromarray(pixels if pixels.ndim == 3 else np.repeat(pixels[:, :, None], 3, axis=2))
    factor = 1.0 if max_size is None else min(1.0, max_size / max(picture.size))
    if factor < 1.0:
        picture = picture.resize([max(1, round(s * factor)) for s in picture.size])
    draw = ImageDraw.Draw(picture)
    width = max(2, round(max(picture.size) / 120))
    for box, color, dash in ((true, TRUE, 4.0 * width), (predicted, PREDICTED, np.inf)):
        if box is None:
            continue
        top, left, bottom, right = (factor * v for v in box)
        right, bottom = max(right - 1, left), max(bottom - 1, top)
        for start, end in pairwise(np.array([(left, top), (right, top), (right, bottom), (left, bottom), (left, top)])):
            length = max(*np.abs(end - start), 1.0)
            for first in np.arange(0.0, length, min(dash, length)):
                last = min(length, first + 0.625 * dash)
                ends = [tuple(start + share / length * (end - start)) for share in (first, last)]
                draw.line(ends, fill=color, width=width)
    return picture


def save_overlay(
    path: str | PathLike[str], image: Any, predicted: Any = None, true: Any = None, max_size: int | None = None
) -> None:
    """Write an image with its boxes, in the format of the file name's ending.

    Parameters
    ----------
    path : path
        The file.
    image : path, ndarray or other source
        The image.
    predicted, true : Box or None
        Solid orange, dashed blue.
    max_size : int or None, default=None
        Longest side of the picture; None keeps the size of the image.
    """
    from PIL import Image

    formats, ending, buffer = Image.registered_extensions(), Path(path).suffix.lower(), io.BytesIO()
    if ending not in formats:
        raise ValueError(f"{path}: {ending!r} is not the ending of a picture format; use .png or .jpg.")
    overlay(image, predicted, true, max_size).save(buffer, format=formats[ending])
    write_atomically(path, buffer.getvalue())


def write_gallery(
    path: str | PathLike[str],
    evaluation: dict[str, Any],
    *,
    images: Sequence[Any] | None = None,
    title: str = "Localization",
    max_size: int = 360,
) -> None:
    """Write an HTML page of all evaluated images, sortable by overlap, that loads nothing from elsewhere.

    Parameters
    ----------
    path : path
        The HTML file.
    evaluation : dict
        From :func:`~lupi.localize.evaluate_boxes`.
    images : sequence of sources or None, default=None
        The evaluated images; None reads the paths in `evaluation`.
    title : str, default="Localization"
        Heading.
    max_size : int, default=360
        Longest side of the pictures.
    """
    records, classes = evaluation["images"], evaluation["per_class"]
    sources = [record["image"] for record in records] if images is None else list(images)
    threshold = f"{evaluation['threshold']:g}"
    figures = {
        "mean overlap": f"{evaluation['mean_overlap']:.1%}",
        f"detected (overlap > {threshold})": f"{evaluation['detection_rate']:.1%}",
        "images": str(evaluation["n_images"]),
    }
    if evaluation["constant_box"] is not None:
        figures["mean overlap of a constant box"] = f"{evaluation['constant_box']['mean_overlap']:.1%}"
    table = [
        (escape(str(c["label"])), c["n_images"], f"{c['mean_overlap']:.1%}", f"{c['detection_rate']:.1%}")
        for c in classes
    ]
    page = Template(files("lupi.localize").joinpath("gallery.html").read_text(encoding="utf-8")).substitute(
        title=escape(title),
        threshold=threshold,
        figures="".join(f"<div><b>{value}</b>{escape(name)}</div>" for name, value in figures.items()),
        hidden=" hidden" if len(classes) < 2 else "",
        n_classes=len(classes),
        classes="\n".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in table),
        options="".join(f"<option>{row[0]}</option>" for row in table),
        cards="\n".join(_card(k, *pair, max_size) for k, pair in enumerate(zip(records, sources))),
    )
    write_atomically(path, page.encode())


def _card(k: int, record: dict[str, Any], source: Any, max_size: int) -> str:
    name, label, overlap = escape(Path(record["image"]).name), escape(str(record["label"])), record["overlap"]
    try:
        buffer = io.BytesIO()
        overlay(source, record["predicted"], record["true"], max_size).save(buffer, format="JPEG", quality=80)
        data = b64encode(buffer.getvalue()).decode()
        picture = f'<img loading="lazy" alt="{name} with boxes" src="data:image/jpeg;base64,{data}">'
    except ImageReadError:
        picture = "<p>This image cannot be read.</p>"
    text = f"<p><b>{overlap:.1%}</b> {label}<br>{name}</p>"
    return f'<li data-index="{k}" data-overlap="{overlap:.6f}" data-label="{label}">{picture}{text}</li>'
