"""Annotations in a CSV table: ``image,top,left,bottom,right[,mask][,label]``."""

from __future__ import annotations

import csv
from os import PathLike
from pathlib import Path

from sklearn.utils import Bunch

from lupi.datasets.annotations import (
    DataFormatError,
    FilesInside,
    checked_box,
    localization_bunch,
    malformed,
    parse_number,
    text_lines,
)

_REQUIRED = ("image", "top", "left", "bottom", "right")
_OPTIONAL = ("mask", "label")


def load_boxes_csv(path: str | PathLike[str], *, follow_links: bool = False) -> Bunch:
    r"""Read boxes from a CSV file; image and mask names are relative to the file's folder.

    The first line names the columns ``image,top,left,bottom,right`` and optionally ``mask`` and ``label``, in any order. Boxes
    are half-open and clipped at the top and left edge of the image. A line with four empty numbers has no box. Masks are
    pictures of 0 and 1, of 0 and 255, or trimaps: see :func:`lupi.vision.read_mask`.

    Parameters
    ----------
    path : path
        The CSV file.
    follow_links : bool, default=False
        Whether names may lead out of the file's folder, by ``..``, absolute paths or symbolic links.

    Returns
    -------
    Bunch
        images, boxes, masks (or None), labels, label_names.

    Raises
    ------
    DataFormatError
        With the file, the line and what was expected.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from lupi.datasets import load_boxes_csv
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "boxes.csv")
    ...     _ = file.write_text("image,top,left,bottom,right\nbird.jpg,10,20,110,90\n")
    ...     load_boxes_csv(file).boxes
    [Box(top=10, left=20, bottom=110, right=90)]
    """
    path = Path(path)
    lines = text_lines(path)
    expected = f"a header with the columns {','.join(_REQUIRED)} and optionally {', '.join(_OPTIONAL)}"
    if not lines:
        raise DataFormatError(f"{path}, line 1: expected {expected}, got an empty file.")
    header = [name.lower() for name in _fields(path, *lines[0])]
    if not set(_REQUIRED) <= set(header) <= {*_REQUIRED, *_OPTIONAL} or len(set(header)) != len(header):
        raise malformed(path, expected, lines[0][1], line=lines[0][0])
    images, boxes, masks, labels = [], [], [], []
    inside = FilesInside(path.parent, follow_links)
    for k, line in lines[1:]:
        values = _fields(path, k, line)
        if len(values) != len(header):
            raise malformed(path, f"{len(header)} values ({','.join(header)})", line, line=k)
        row = dict(zip(header, values))
        edges = [row[name] for name in _REQUIRED[1:]]
        try:
            boxes.append(checked_box(*map(parse_number, edges)) if any(edges) else None)
        except ValueError:
            raise malformed(path, "numbers with top < bottom and left < right", line, line=k) from None
        if not row["image"]:
            raise malformed(path, "the name of an image", line, line=k)
        images.append(str(inside(row["image"], path=path, line=k, part="image")))
        masks.append(str(inside(row["mask"], path=path, line=k, part="mask")) if row.get("mask") else None)
        labels.append(row.get("label") or "object")
    return localization_bunch(images, boxes, labels, masks=masks, descr=f"{len(images)} images of {path.name}.")


def _fields(path: Path, k: int, line: str) -> list[str]:
    try:
        # Not strict, an open quotation mark would swallow the commas that follow.
        return [value.strip() for value in next(csv.reader([line], strict=True))]
    except csv.Error as error:
        raise malformed(path, f"values separated by commas ({error})", line, line=k) from None
