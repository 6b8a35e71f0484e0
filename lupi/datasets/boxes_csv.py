"""A plain table of boxes: ``image,top,left,bottom,right[,mask][,label]``."""

from __future__ import annotations

import csv
from pathlib import Path

from lupi.datasets._localization import DataFormatError, checked_box, localization_bunch, malformed, text_lines

BOX_COLUMNS = ("image", "top", "left", "bottom", "right")
OPTIONAL = ("mask", "label")


def load_boxes_csv(path):
    r"""Read boxes from a CSV file; image and mask names count from the file's folder.

    The first line names the columns: ``image,top,left,bottom,right`` and, if there are any, ``mask`` and ``label``, in any
    order. Boxes are half-open. A line whose four numbers are empty has no box.

    Parameters
    ----------
    path : path
        The CSV file.

    Returns
    -------
    Bunch
        images, boxes, masks (or None), labels, label_names.

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
    header = [name.strip().lower() for name in next(csv.reader([lines[0][1]]))]
    if not set(BOX_COLUMNS) <= set(header) <= {*BOX_COLUMNS, *OPTIONAL} or len(set(header)) != len(header):
        raise malformed(path, lines[0][0], expected, lines[0][1])
    images, boxes, masks, labels = [], [], [], []
    for k, line in lines[1:]:
        values = next(csv.reader([line]))
        if len(values) != len(header):
            raise malformed(path, k, f"{len(header)} values ({','.join(header)})", line)
        row = {name: value.strip() for name, value in zip(header, values)}
        edges = [row[name] for name in BOX_COLUMNS[1:]]
        try:
            boxes.append(checked_box(*edges) if any(edges) else None)
        except ValueError:
            raise malformed(path, k, "numbers with top < bottom and left < right", line) from None
        if not row["image"]:
            raise malformed(path, k, "the name of an image", line)
        images.append(str(path.parent / row["image"]))
        masks.append(str(path.parent / row["mask"]) if row.get("mask") else None)
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
