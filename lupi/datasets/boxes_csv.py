"""A plain table of boxes: ``image,top,left,bottom,right[,mask][,label]``."""

from __future__ import annotations

import csv
from os import PathLike
from pathlib import Path

from sklearn.utils import Bunch

from lupi.datasets._localization import (
    DataFormatError,
    FilesInside,
    checked_box,
    localization_bunch,
    malformed,
    number,
    text_lines,
)

BOX_COLUMNS = ("image", "top", "left", "bottom", "right")
OPTIONAL = ("mask", "label")


def load_boxes_csv(path: str | PathLike[str], *, follow_links: bool = False) -> Bunch:
    r"""Read boxes from a CSV file; image and mask names count from the file's folder.

    The first line names the columns: ``image,top,left,bottom,right`` and, if there are any, ``mask`` and ``label``, in any
    order. Boxes are half-open; what lies above or left of the image is cut off. A line whose four numbers are empty has no box.
    Masks may be pictures of 0 and 1, of 0 and 255, or trimaps: see :func:`lupi.vision.read_mask`.

    Parameters
    ----------
    path : path
        The CSV file.
    follow_links : bool, default=False
        Whether names may lead out of the file's folder, by ``..``, as absolute paths or by symbolic links.

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
    expected = f"a header with the columns {','.join(BOX_COLUMNS)} and perhaps {', '.join(OPTIONAL)}"
    if not lines:
        raise DataFormatError(f"{path}, line 1: expected {expected}, got an empty file.")
    header = [name.lower() for name in _fields(path, *lines[0])]
    if not set(BOX_COLUMNS) <= set(header) <= {*BOX_COLUMNS, *OPTIONAL} or len(set(header)) != len(header):
        raise malformed(path, lines[0][0], expected, lines[0][1])
    images, boxes, masks, labels = [], [], [], []
    inside = FilesInside(path.parent, follow_links)
    for k, line in lines[1:]:
        values = _fields(path, k, line)
        if len(values) != len(header):
            raise malformed(path, k, f"{len(header)} values ({','.join(header)})", line)
        row = dict(zip(header, values))
        edges = [row[name] for name in BOX_COLUMNS[1:]]
        try:
            boxes.append(checked_box(*map(number, edges)) if any(edges) else None)
        except ValueError:
            raise malformed(path, k, "numbers with top < bottom and left < right", line) from None
        if not row["image"]:
            raise malformed(path, k, "the name of an image", line)
        image, mask = (
            str(inside(row[name], at=(path, k, name))) if row.get(name) else None for name in ("image", "mask")
        )
        images.append(image)
        masks.append(mask)
        labels.append(row.get("label", "") or "object")
    names = sorted(set(labels))
    return localization_bunch(
        images,
        boxes,
        masks=masks if any(masks) else None,
        labels=[names.index(label) for label in labels],
        label_names=names,
        descr=f"{len(images)} images of {path.name}.",
    )


def _fields(path: Path, k: int, line: str) -> list[str]:
    """The values of one line."""
    try:
        # Strict: a quotation mark that is never closed would otherwise swallow the commas that follow.
        return [value.strip() for value in next(csv.reader([line], strict=True))]
    except csv.Error as error:
        raise malformed(path, k, f"values separated by commas ({error})", line) from None
