"""Annotations in the JSON of COCO."""

from __future__ import annotations

import json
from pathlib import Path

from lupi.datasets._localization import DataFormatError, checked_box, localization_bunch, malformed
from lupi.vision.masks import PolygonMask, RunLengthMask


def load_coco(path, images=None, label=None):
    """Read a COCO file of instances: boxes, and masks as polygons or run lengths.

    Parameters
    ----------
    path : path
        The JSON file.
    images : path or None, default=None
        Folder of the images; None means the folder of the JSON file.
    label : str or None, default=None
        Only objects of this category. An image's box is its largest such object; crowds do not count.

    Returns
    -------
    Bunch
        images, boxes, masks (or None), labels, label_names. Images without a wanted object are left out.
    """
    path = Path(path)
    folder = path.parent if images is None else Path(images)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataFormatError(f"{path}: no such file.") from None
    except json.JSONDecodeError as error:
        raise DataFormatError(f"{path}, line {error.lineno}: expected JSON ({error.msg}).") from None
    parts = [content.get(key) if isinstance(content, dict) else None for key in ("images", "annotations", "categories")]
    if not all(isinstance(part, list) for part in parts):
        raise DataFormatError(f"{path}: expected an object with the lists images, annotations and categories.")
    try:
        pictures = {p["id"]: (p["file_name"], (int(p["height"]), int(p["width"]))) for p in parts[0]}
        names = {c["id"]: str(c["name"]) for c in parts[2]}
    except (KeyError, TypeError, ValueError) as error:
        raise DataFormatError(
            f"{path}: expected images with id, file_name, height, width and categories with id, name; {error!r}."
        ) from None
    largest: dict = {}
    for k, item in enumerate(parts[1]):
        try:
            if item.get("iscrowd") or (label is not None and names[item["category_id"]] != label):
                continue
            x, y, width, height = map(float, item["bbox"])
            box = checked_box(y, x, y + height, x + width)
            shape = pictures[item["image_id"]][1]
            entry = (box.area, box, names[item["category_id"]], _mask(item.get("segmentation"), shape))
        except (AttributeError, KeyError, TypeError, ValueError):
            expected = f"annotations[{k}] with known image_id and category_id, bbox [x, y, width, height], segmentation"
            raise malformed(path, None, expected, json.dumps(item)) from None
        if item["image_id"] not in largest or largest[item["image_id"]][0] < box.area:
            largest[item["image_id"]] = entry
    ids = [i for i in pictures if i in largest]
    labels = sorted({largest[i][2] for i in ids})
    masks = [largest[i][3] for i in ids]
    return localization_bunch(
        [str(folder / pictures[i][0]) for i in ids],
        [largest[i][1] for i in ids],
        masks=masks if any(m is not None for m in masks) else None,
        labels=[labels.index(largest[i][2]) for i in ids],
        label_names=labels,
        descr=f"COCO, {len(ids)} images of {len(pictures)}.",
    )


def _mask(segmentation, shape):
    if not segmentation:
        return None
    if isinstance(segmentation, dict):
        counts = segmentation["counts"]
        size = (int(segmentation["size"][0]), int(segmentation["size"][1]))
        return RunLengthMask(counts if isinstance(counts, str) else tuple(map(int, counts)), size)
    polygons = tuple(tuple(map(float, p)) for p in segmentation)
    if any(len(p) < 6 or len(p) % 2 for p in polygons):
        raise ValueError
    return PolygonMask(polygons, shape)
