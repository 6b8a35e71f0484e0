"""Tiny ImageNet: pictures of 64 x 64 pixels in class folders, each with one box."""

from __future__ import annotations

from os import PathLike

from sklearn.utils import Bunch

from experiments.data_files import checked_files, data_folder
from lupi.datasets.annotations import (
    FilesInside,
    checked_box,
    localization_bunch,
    malformed,
    parse_number,
    text_lines,
)

# Of the subset of eight classes, in the order of this reader.
_BOXES = "a00d279d992515bfa10099988cbeea4a1416b8f665764a2fbc1f83d1262eee64"
_IMAGES = "e0a67edfea58afc83b494613d1f01fee05a7f947e24ec672b3ce2ffe4a04f7e2"


def load_tiny_imagenet_boxes(
    root: str | PathLike[str] | None = None, *, verify: bool = True, follow_links: bool = False
) -> Bunch:
    """Load the classes of Tiny ImageNet that a folder holds, with their boxes.

    Parameters
    ----------
    root : path-like, optional
        Folder with `train` and `words_subset.txt` (lines of class id and name); by default `tiny_imagenet_boxes` in the
        folder that LUPI_DATA names.
    verify : bool, default=True
        Whether box files and images are compared with the SHA-256 of the known subset of eight classes.
    follow_links : bool, default=False
        Whether names may lead out of the folder, by ``..``, as absolute paths or by symbolic links.

    Returns
    -------
    Bunch
        images (paths), boxes, labels, label_names (the first name of each class). Boxes are half-open.

    Examples
    --------
    >>> from experiments.data import load_tiny_imagenet_boxes
    >>> load_tiny_imagenet_boxes("/no/such/folder")
    Traceback (most recent call last):
    FileNotFoundError: there is no folder /no/such/folder, where the data 'tiny_imagenet_boxes' were looked for.
    """
    folder = data_folder(root, "tiny_imagenet_boxes")
    words = folder / "words_subset.txt"
    classes, tables, inside = [], [], FilesInside(folder, follow_links)
    for k, line in text_lines(words):
        identity, _, name = line.partition("\t")
        if not name:
            raise malformed(words, "class id, tabulator, name", line, line=k)
        classes.append((identity, name.split(",")[0].strip()))
        tables.append(inside("train", identity, f"{identity}_boxes.txt", path=words, line=k))
    images, boxes, labels = [], [], []
    for (_, label), table in zip(classes, checked_files(tables, _BOXES, verify)):
        for k, line in text_lines(table):
            name, *edges = line.split()
            try:
                # Two corners, both inside the box.
                x0, y0, x1, y1 = (parse_number(edge, int) for edge in edges)
                boxes.append(checked_box(y0, x0, y1 + 1, x1 + 1))
            except ValueError:
                raise malformed(table, "image and two corners x0 y0 x1 y1", line, line=k) from None
            images.append(inside(str(table.parent.relative_to(folder)), "images", name, path=table, line=k))
            labels.append(label)
    images = checked_files(images, _IMAGES, verify)
    return localization_bunch(
        [str(path) for path in images],
        boxes,
        labels,
        label_names=[name for _, name in classes],
        descr=f"Tiny ImageNet, {len(images)} images of {len(classes)} classes: {', '.join(name for _, name in classes)}.",
    )
