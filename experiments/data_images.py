"""Readers of annotated images in their original layouts: CUB-200-2011, Caltech101; a converter to COCO."""

from __future__ import annotations

import json
import zipfile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
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
from lupi.vision import read_image, read_mask

N_ATTRIBUTES = 312


def load_cub(root: str | PathLike[str], *, follow_links: bool = False) -> Bunch:
    """CUB-200-2011 in its original layout: images, boxes, masks, attributes (n x 312, NaN where unknown), official split.

    Images whose file is absent are left out, so subsets work; attributes may also lie in ``attributes/*.npz`` (arrays
    ``image_id`` and ``is_present``).
    """
    root = Path(root)
    names = _id_table(root / "images.txt", "<image_id> <image_name>", str)
    boxes = _id_table(root / "bounding_boxes.txt", "<image_id> <x> <y> <width> <height>", _cub_box)
    classes = _id_table(root / "classes.txt", "<class_id> <class_name>", str)
    class_of = _id_table(root / "image_class_labels.txt", "<image_id> <class_id>", lambda v: parse_number(v, int))
    split = _id_table(root / "train_test_split.txt", "<image_id> <0 or 1>", lambda v: ("0", "1").index(v) == 1)
    inside = FilesInside(root, follow_links)

    def path_of(i: int, folder: str, name: str) -> Path:
        return inside(folder, name, path=root / "images.txt", part=f"image {i}")

    files = {i: path_of(i, "images", name) for i, name in names.items()}
    ids = [i for i in names if files[i].is_file()]
    if not ids:
        raise DataFormatError(f"{root / 'images'}: expected image files named in images.txt, found none.")
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
    masks = [path_of(i, "segmentations", str(Path(names[i]).with_suffix(".png"))) for i in ids]
    return localization_bunch(
        [str(files[i]) for i in ids],
        [boxes[i] for i in ids],
        [classes[class_of[i]] for i in ids],
        masks=[str(path) if path.is_file() else None for path in masks],
        attributes=_attributes(root / "attributes", ids),
        label_names=classes.values(),
        train=np.array([split[i] for i in ids]),
        image_ids=np.array(ids),
        descr=f"CUB-200-2011, {len(ids)} images of {len(names)}.",
    )


def _id_table(path: Path, expected: str, convert: Any) -> dict[int, Any]:
    """Dict of id to converted values, from lines `<id> <value> ...`."""
    table: dict[int, Any] = {}
    for k, line in text_lines(path):
        parts = line.split()
        try:
            if len(parts) != len(expected.split(" <")):
                raise ValueError
            key, value = parse_number(parts[0], int), convert(*parts[1:])
        except ValueError:
            raise malformed(path, expected, line, line=k) from None
        if key in table:
            raise malformed(path, "a unique id", line, line=k)
        table[key] = value
    return table


def _cub_box(*values: str) -> Any:
    x, y, width, height = map(parse_number, values)
    return checked_box(y, x, y + height, x + width)


def _attributes(folder: Path, ids: list[int]) -> np.ndarray | None:
    """Rows of 0, 1 and NaN (unknown); of bytes if all are known."""
    text, archives = folder / "image_attribute_labels.txt", sorted(folder.glob("*.npz"))
    row_of = {i: k for k, i in enumerate(ids)}
    found = np.full((len(ids), N_ATTRIBUTES), np.nan)
    if text.is_file():
        for k, line in text_lines(text):
            parts = line.split(maxsplit=4)
            try:
                image, attribute = (parse_number(part, int) for part in parts[:2])
                present = ("0", "1").index(parts[2])
                if not 1 <= attribute <= N_ATTRIBUTES or len(parts) < 4:
                    raise ValueError
            except (ValueError, IndexError):
                expected = "<image_id> <attribute_id 1 to 312> <is_present 0 or 1> <certainty> ..."
                raise malformed(text, expected, line, line=k) from None
            if image in row_of:
                found[row_of[image], attribute - 1] = present
    elif archives:
        for image, row in zip(*_attribute_arrays(archives[0])):
            if image in row_of:
                found[row_of[image]] = row
    else:
        return None
    return found if np.isnan(found).any() else found.astype(np.uint8)


def _attribute_arrays(path: Path) -> tuple[list[int], np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            images, present = arrays["image_id"], arrays["is_present"]
        right = present.shape == (len(images), N_ATTRIBUTES) and images.dtype.kind in "iu"
        if not right or not np.isin(present, (0, 1)).all():
            raise ValueError(f"got {images.dtype} {images.shape} and {present.dtype} {present.shape}")
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        expected = f"arrays of integers image_id (n) and is_present (n x {N_ATTRIBUTES}, 0 or 1)"
        raise DataFormatError(f"{path}: expected {expected}; {error}.") from None
    return images.tolist(), present


def cub_to_coco(root: str | PathLike[str], output: str | PathLike[str]) -> None:
    """Write the annotations of CUB-200-2011 as a COCO file in `root`, for `lupi localize fit OUTPUT`."""
    birds, output = load_cub(root), Path(output)
    images, annotations = [], []
    for k, (path, box, label) in enumerate(zip(birds.images, birds.boxes, birds.labels.tolist())):
        height, width = read_image(path).shape[:2]
        name = Path(path).relative_to(output.parent).as_posix()
        images.append({"id": k, "file_name": name, "height": height, "width": width})
        edges = [box.left, box.top, box.right - box.left, box.bottom - box.top]
        annotations.append({"image_id": k, "category_id": label, "bbox": edges})
        if birds.masks is not None and birds.masks[k] is not None:
            # Run lengths of 0, 1, 0, ... down the columns.
            pixels = np.concatenate([[False], read_mask(birds.masks[k], (height, width)).T.ravel()])
            ends = [*np.flatnonzero(pixels[1:] != pixels[:-1]), height * width]
            counts = np.diff(ends, prepend=0).tolist()
            annotations[-1]["segmentation"] = {"size": [height, width], "counts": counts}
    categories = [{"id": k, "name": name} for k, name in enumerate(birds.label_names)]
    output.write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))


def load_caltech101(root: str | PathLike[str]) -> Bunch:
    """Caltech101: images in one folder per class, without boxes."""
    root = Path(root)
    root = root / "101_ObjectCategories" if (root / "101_ObjectCategories").is_dir() else root
    files = sorted(path for path in root.glob("*/*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    if not files:
        raise DataFormatError(f"{root}: expected folders named after classes with JPEG or PNG images, found none.")
    return localization_bunch(
        [str(path) for path in files],
        [None] * len(files),
        [path.parent.name for path in files],
        descr=f"Caltech101, {len(files)} images.",
    )
