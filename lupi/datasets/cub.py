"""Caltech-UCSD Birds-200-2011 in its original layout."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lupi.datasets._localization import (
    DataFormatError,
    checked_box,
    id_table,
    localization_bunch,
    malformed,
    text_lines,
)

N_ATTRIBUTES = 312


def load_cub(root):
    """Read CUB-200-2011: images, boxes, masks, attributes and the official split.

    Reads ``images.txt``, ``bounding_boxes.txt``, ``image_class_labels.txt``, ``classes.txt``, ``train_test_split.txt`` and, where
    they exist, ``segmentations/`` and ``attributes/image_attribute_labels.txt`` (or arrays ``image_id`` and ``is_present`` in
    ``attributes/*.npz``). Images whose file is absent are left out, so subsets work.

    Parameters
    ----------
    root : path
        Folder that contains ``images.txt``.

    Returns
    -------
    Bunch
        images, boxes, masks (or None), attributes (n x 312, or None; a row of zeros where unknown), labels, label_names, train
        (boolean: in the official training set), image_ids.
    """
    root = Path(root)
    names = id_table(root / "images.txt", "<image_id> <image_name>", lambda v: v[0], 1)
    boxes = id_table(
        root / "bounding_boxes.txt",
        "<image_id> <x> <y> <width> <height>",
        lambda v: _box(*map(float, v)),
        4,
    )
    classes = id_table(root / "classes.txt", "<class_id> <class_name>", lambda v: v[0], 1)
    class_of = id_table(root / "image_class_labels.txt", "<image_id> <class_id>", lambda v: int(v[0]), 1)
    split = id_table(root / "train_test_split.txt", "<image_id> <0 or 1>", lambda v: ("0", "1").index(v[0]) == 1, 1)
    ids = [i for i in names if (root / "images" / names[i]).is_file()]
    for table, file in ((boxes, "bounding_boxes"), (class_of, "image_class_labels"), (split, "train_test_split")):
        missing = [i for i in ids if i not in table]
        if missing:
            raise DataFormatError(
                f"{root / file}.txt: expected a line for each image of images.txt, got none for {missing[0]}."
            )
    if not ids:
        raise DataFormatError(f"{root / 'images'}: expected image files named in images.txt, found none.")
    masks = [root / "segmentations" / Path(names[i]).with_suffix(".png") for i in ids]
    masks = [str(path) if path.is_file() else None for path in masks]
    order = {c: k for k, c in enumerate(classes)}
    return localization_bunch(
        [str(root / "images" / names[i]) for i in ids],
        [boxes[i] for i in ids],
        masks=masks if any(masks) else None,
        attributes=_attributes(root / "attributes", ids),
        labels=[order[class_of[i]] for i in ids],
        label_names=classes.values(),
        train=np.array([split[i] for i in ids]),
        image_ids=np.array(ids),
        descr=f"CUB-200-2011, {len(ids)} images of {len(names)}.",
    )


def _box(x, y, width, height):
    return checked_box(y, x, y + height, x + width)


def _attributes(folder, ids):
    text = folder / "image_attribute_labels.txt"
    row_of = {i: k for k, i in enumerate(ids)}
    found = np.zeros((len(ids), N_ATTRIBUTES), dtype=np.uint8)
    if text.is_file():
        expected = "<image_id> <attribute_id 1 to 312> <is_present 0 or 1> <certainty> ..."
        for k, line in text_lines(text):
            parts = line.split(maxsplit=4)
            try:
                image, attribute, present = int(parts[0]), int(parts[1]), ("0", "1").index(parts[2])
                if not 1 <= attribute <= N_ATTRIBUTES or len(parts) < 4:
                    raise ValueError
            except (ValueError, IndexError):
                raise malformed(text, k, expected, line) from None
            if image in row_of:
                found[row_of[image], attribute - 1] = present
        return found
    tables = sorted(folder.glob("*.npz"))
    if not tables:
        return None
    with np.load(tables[0]) as table:
        if "image_id" not in table or "is_present" not in table or table["is_present"].shape[1:] != (N_ATTRIBUTES,):
            raise malformed(tables[0], None, f"arrays image_id and is_present (n x {N_ATTRIBUTES})", sorted(table))
        for image, present in zip(table["image_id"], table["is_present"]):
            if image in row_of:
                found[row_of[image]] = present
    return found
