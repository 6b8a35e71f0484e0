"""Caltech-UCSD Birds-200-2011 in its original layout."""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils import Bunch

from lupi.datasets._localization import (
    DataFormatError,
    FilesInside,
    checked_box,
    id_table,
    localization_bunch,
    malformed,
    number,
    text_lines,
    whole_number,
)
from lupi.datasets.files import bounded_arrays

if TYPE_CHECKING:
    from lupi.vision.geometry import Box

N_ATTRIBUTES = 312


def load_cub(root: str | PathLike[str], *, follow_links: bool = False) -> Bunch:
    """Read CUB-200-2011: images, boxes, masks, attributes and the official split.

    Reads ``images.txt``, ``bounding_boxes.txt``, ``image_class_labels.txt``, ``classes.txt``, ``train_test_split.txt`` and, where
    they exist, ``segmentations/`` and ``attributes/image_attribute_labels.txt`` (or arrays ``image_id`` and ``is_present`` in
    ``attributes/*.npz``). Images whose file is absent are left out, so subsets work.

    Parameters
    ----------
    root : path
        Folder that contains ``images.txt``.
    follow_links : bool, default=False
        Whether names may lead out of the folder, by ``..``, as absolute paths or by symbolic links.

    Returns
    -------
    Bunch
        images, boxes, masks (or None), attributes (n x 312, or None), labels, label_names, train (boolean: in the official
        training set), image_ids. Attributes that the files do not mention are NaN: a row of NaN where they say nothing of an
        image.

    Raises
    ------
    DataFormatError
        With the file, the line and what was expected.
    """
    root = Path(root)
    names = id_table(root / "images.txt", "<image_id> <image_name>", lambda v: v[0], 1)
    boxes = id_table(
        root / "bounding_boxes.txt",
        "<image_id> <x> <y> <width> <height>",
        lambda v: _box(*map(number, v)),
        4,
    )
    classes = id_table(root / "classes.txt", "<class_id> <class_name>", lambda v: v[0], 1)
    class_of = id_table(root / "image_class_labels.txt", "<image_id> <class_id>", lambda v: whole_number(v[0]), 1)
    split = id_table(root / "train_test_split.txt", "<image_id> <0 or 1>", lambda v: ("0", "1").index(v[0]) == 1, 1)
    inside = FilesInside(root, follow_links)
    files = {i: inside("images", name, at=(root / "images.txt", None, f"image {i}")) for i, name in names.items()}
    ids = [i for i in names if files[i].is_file()]
    for table, file in ((boxes, "bounding_boxes"), (class_of, "image_class_labels"), (split, "train_test_split")):
        missing = [i for i in ids if i not in table]
        if missing:
            raise DataFormatError(
                f"{root / file}.txt: expected a line for each image of images.txt, got none for {missing[0]}."
            )
    unnamed = [i for i in ids if class_of[i] not in classes]
    if unnamed:
        raise DataFormatError(
            f"{root / 'image_class_labels.txt'}: expected class ids of classes.txt, got {class_of[unnamed[0]]} for image "
            f"{unnamed[0]}."
        )
    if not ids:
        raise DataFormatError(f"{root / 'images'}: expected image files named in images.txt, found none.")
    places = [inside("segmentations", _mask_name(names[i]), at=(root / "images.txt", None, f"image {i}")) for i in ids]
    masks = [str(path) if path.is_file() else None for path in places]
    order = {c: k for k, c in enumerate(classes)}
    return localization_bunch(
        [str(files[i]) for i in ids],
        [boxes[i] for i in ids],
        masks=masks if any(masks) else None,
        attributes=_attributes(root / "attributes", ids),
        labels=[order[class_of[i]] for i in ids],
        label_names=classes.values(),
        train=np.array([split[i] for i in ids]),
        image_ids=np.array(ids),
        descr=f"CUB-200-2011, {len(ids)} images of {len(names)}.",
    )


def _box(x: float, y: float, width: float, height: float) -> Box:
    return checked_box(y, x, y + height, x + width)


def _mask_name(name: str) -> str:
    return f"{os.path.splitext(name)[0]}.png"


def _attributes(folder: Path, ids: list[int]) -> np.ndarray | None:
    """Rows of 0, 1 and NaN (not known); of bytes where all are known."""
    text, tables = folder / "image_attribute_labels.txt", sorted(folder.glob("*.npz"))
    row_of = {i: k for k, i in enumerate(ids)}
    found = np.full((len(ids), N_ATTRIBUTES), np.nan)
    if text.is_file():
        _fill_from_lines(found, text, row_of)
    elif tables:
        _fill_from_arrays(found, tables[0], row_of)
    else:
        return None
    return found if np.isnan(found).any() else found.astype(np.uint8)


def _fill_from_lines(found: np.ndarray, path: Path, row_of: dict[int, int]) -> None:
    expected = "<image_id> <attribute_id 1 to 312> <is_present 0 or 1> <certainty> ..."
    for k, line in text_lines(path):
        parts = line.split(maxsplit=4)
        try:
            image, attribute, present = whole_number(parts[0]), whole_number(parts[1]), ("0", "1").index(parts[2])
            if not 1 <= attribute <= N_ATTRIBUTES or len(parts) < 4:
                raise ValueError
        except (ValueError, IndexError):
            raise malformed(path, k, expected, line) from None
        if image in row_of:
            found[row_of[image], attribute - 1] = present


def _fill_from_arrays(found: np.ndarray, path: Path, row_of: dict[int, int]) -> None:
    expected = f"arrays of whole numbers image_id (n) and is_present (n x {N_ATTRIBUTES}, 0 or 1)"
    try:
        images, present = bounded_arrays(path, ("image_id", "is_present"))
    except ValueError as error:
        raise DataFormatError(f"{path}: expected {expected}; {error}.") from None
    shapes = f"{images.dtype} {images.shape} and {present.dtype} {present.shape}"
    if images.dtype.kind not in "iu" or images.ndim != 1 or present.shape != (len(images), N_ATTRIBUTES):
        raise malformed(path, None, expected, shapes)
    if present.dtype.kind not in "biu" or not np.isin(present, (0, 1)).all():
        raise malformed(path, None, expected, f"{shapes} with other values")
    for image, row in zip(images.tolist(), present):
        if image in row_of:
            found[row_of[image]] = row
