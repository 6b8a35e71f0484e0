"""Annotations in the JSON of COCO."""

from __future__ import annotations

import json
from math import isfinite
from pathlib import Path

from lupi.datasets._localization import DataFormatError, checked_box, localization_bunch, malformed
from lupi.images.masks import PolygonMask, RunLengthMask

_PARTS = ("images", "annotations", "categories")
_TABLES = {"image_id": "images", "category_id": "categories"}


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
    except UnicodeDecodeError:
        raise DataFormatError(f"{path}: expected a JSON file in UTF-8.") from None
    except json.JSONDecodeError as error:
        raise DataFormatError(f"{path}, line {error.lineno}: expected JSON ({error.msg}).") from None
    if not isinstance(content, dict) or not all(isinstance(content.get(key), list) for key in _PARTS):
        raise DataFormatError(f"{path}: expected an object with the lists {', '.join(_PARTS)}.")
    records = {key: [_Record(path, f"{key}[{k}]", item) for k, item in enumerate(content[key])] for key in _PARTS}
    pictures, names = _by_id(records["images"], _picture), _by_id(records["categories"], _category)
    largest: dict = {}
    for item in records["annotations"]:
        if item.fields.get("iscrowd"):
            continue
        name = item.known("category_id", names)
        if label is not None and name != label:
            continue
        _, shape = item.known("image_id", pictures)
        box = _box(item)
        entry = (box.area, box, name, _mask(item, shape))
        image = item.fields["image_id"]
        if image not in largest or largest[image][0] < box.area:
            largest[image] = entry
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


class _Record:
    """One entry of a list of the file; its errors name the file and the place, as in ``annotations[3].bbox``."""

    def __init__(self, path, place, fields):
        self.path, self.place, self.fields = path, place, fields
        if not isinstance(fields, dict):
            raise malformed(path, None, "an object", json.dumps(fields), part=place)

    def wrong(self, name, expected):
        got = json.dumps(self.fields[name]) if name in self.fields else "nothing"
        return malformed(self.path, None, expected, got, part=f"{self.place}.{name}")

    def get(self, name, expected, right):
        """A field that has to be there and to satisfy `right`."""
        if name not in self.fields or not right(self.fields[name]):
            raise self.wrong(name, expected)
        return self.fields[name]

    def known(self, name, table):
        """The entry of a table that a field names."""
        value = self.get(name, "an id", _is_id)
        if value not in table:
            raise self.wrong(name, f"one of the {len(table)} ids of the file's {_TABLES[name]}")
        return table[value]


def _is_id(value):
    return isinstance(value, int | str) and not isinstance(value, bool)


def _is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _by_id(records, make):
    table = {}
    for record in records:
        key = record.get("id", "an id", _is_id)
        if key in table:
            raise record.wrong("id", "an id that no other record has")
        table[key] = make(record)
    return table


def _picture(record):
    name = record.get("file_name", "the name of a file", lambda value: isinstance(value, str) and value)
    size = [record.get(side, "a positive whole number", lambda v: _is_count(v) and v) for side in ("height", "width")]
    return name, tuple(size)


def _category(record):
    return record.get("name", "a name", lambda value: isinstance(value, str) and value)


def _box(record):
    expected = "[x, y, width, height], numbers, width and height positive"
    x, y, width, height = record.get(
        "bbox", expected, lambda value: isinstance(value, list) and len(value) == 4 and all(map(_is_number, value))
    )
    try:
        return checked_box(y, x, y + height, x + width)
    except ValueError:
        raise record.wrong("bbox", expected) from None


def _mask(record, shape):
    segmentation = record.fields.get("segmentation")
    if not segmentation:
        return None
    if isinstance(segmentation, dict):
        inner = _Record(record.path, f"{record.place}.segmentation", segmentation)
        size = f"[{shape[0]}, {shape[1]}], height and width of the image"
        inner.get("size", size, lambda value: isinstance(value, list) and tuple(value) == shape)
        counts = inner.get(
            "counts",
            "a list of run lengths, or COCO's string of them",
            lambda value: isinstance(value, str) or (isinstance(value, list) and all(map(_is_count, value))),
        )
        return RunLengthMask(counts if isinstance(counts, str) else tuple(counts), shape)
    expected = "polygons [x0, y0, x1, y1, ...] of at least three corners, or an object with size and counts"
    record.get("segmentation", expected, lambda value: isinstance(value, list) and all(map(_is_polygon, value)))
    return PolygonMask(tuple(tuple(map(float, polygon)) for polygon in segmentation), shape)


def _is_polygon(value):
    return isinstance(value, list) and len(value) >= 6 and len(value) % 2 == 0 and all(map(_is_number, value))
