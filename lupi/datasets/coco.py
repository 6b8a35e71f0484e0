"""Annotations in the JSON format of COCO."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

from sklearn.utils import Bunch

from lupi.datasets.annotations import (
    LARGEST_EDGE,
    DataFormatError,
    FilesInside,
    checked_box,
    localization_bunch,
    malformed,
    read_text,
)
from lupi.vision.geometry import Box
from lupi.vision.images import ImageReadError, PolygonMask, RunLengthMask, check_pixels

_LISTS = ("images", "annotations", "categories")


def load_coco(
    path: str | PathLike[str],
    images: str | PathLike[str] | None = None,
    label: Any = None,
    *,
    follow_links: bool = False,
) -> Bunch:
    """Read a COCO file of instances: boxes, and masks as polygons or run lengths.

    Parameters
    ----------
    path : path
        The JSON file.
    images : path or None, default=None
        Folder of the images; None: the folder of the JSON file.
    label : str or None, default=None
        Category to read; None reads all. The box of an image is its largest object, clipped to the image; crowds are ignored.
    follow_links : bool, default=False
        Whether names may lead out of the folder of the images, by ``..``, absolute paths or symbolic links.

    Returns
    -------
    Bunch
        images, boxes, masks (or None), labels, label_names. Images without a wanted object are left out.

    Raises
    ------
    DataFormatError
        With the file, the place (such as ``annotations[17].bbox``) and what was expected.
    """
    path = Path(path)
    try:
        content = json.loads(read_text(path, "utf-8"))
    except DataFormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise DataFormatError(f"{path}: expected JSON ({error}).") from None
    if not isinstance(content, dict) or not all(isinstance(content.get(name), list) for name in _LISTS):
        raise DataFormatError(f"{path}: expected an object with the lists {', '.join(_LISTS)}.")
    records = {name: [_Record(path, f"{name}[{k}]", item) for k, item in enumerate(content[name])] for name in _LISTS}
    inside = FilesInside(path.parent if images is None else Path(images), follow_links)
    pictures = _by_id(records["images"], lambda record: _picture(record, inside))
    names = _by_id(records["categories"], lambda record: record.get("name", "a name", _is_name))
    largest: dict[Any, tuple[Any, ...]] = {}
    for record in records["annotations"]:
        if record.fields.get("iscrowd"):
            continue
        name = record.look_up("category_id", names, "categories")
        if label is not None and name != label:
            continue
        _, shape = record.look_up("image_id", pictures, "images")
        box, mask, image = _box(record, shape), _mask(record, shape), record.fields["image_id"]
        if image not in largest or largest[image][0].area < box.area:
            largest[image] = box, name, mask
    ids = [i for i in pictures if i in largest]
    boxes, labels, masks = ([largest[i][part] for i in ids] for part in range(3))
    files = [pictures[i][0] for i in ids]
    return localization_bunch(files, boxes, labels, masks=masks, descr=f"COCO, {len(ids)} images of {len(pictures)}.")


class _Record:
    """An entry of a list of the file; its errors name the file and the place, as in ``annotations[3].bbox``."""

    def __init__(self, path: Path, place: str, fields: Any) -> None:
        self.path, self.place, self.fields = path, place, fields
        if not isinstance(fields, dict):
            raise malformed(path, "an object", reprlib.repr(fields), part=place)

    def wrong(self, name: str, expected: str) -> DataFormatError:
        got = reprlib.repr(self.fields[name]) if name in self.fields else "nothing"
        return malformed(self.path, expected, got, part=f"{self.place}.{name}")

    def get(self, name: str, expected: str, is_valid: Callable[[Any], Any]) -> Any:
        if name not in self.fields or not is_valid(self.fields[name]):
            raise self.wrong(name, expected)
        return self.fields[name]

    def look_up(self, name: str, table: dict[Any, Any], list_name: str) -> Any:
        value = self.get(name, "an id", _is_id)
        if value not in table:
            raise self.wrong(name, f"one of the {len(table)} ids of the file's {list_name}")
        return table[value]


def _is_id(value: Any) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST_EDGE


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and _is_number(value) and value >= 0


def _is_polygon(value: Any) -> bool:
    return isinstance(value, list) and len(value) >= 6 and len(value) % 2 == 0 and all(map(_is_number, value))


def _by_id(records: list[_Record], make: Callable[[_Record], Any]) -> dict[Any, Any]:
    table: dict[Any, Any] = {}
    for record in records:
        key = record.get("id", "an id", _is_id)
        if key in table:
            raise record.wrong("id", "a unique id")
        table[key] = make(record)
    return table


def _picture(record: _Record, inside: FilesInside) -> tuple[str, tuple[int, int]]:
    """Path and shape of an image."""
    name = record.get("file_name", "the name of a file", _is_name)
    path = inside(name, path=record.path, part=f"{record.place}.file_name")
    height, width = (
        record.get(side, "a positive integer", lambda v: _is_count(v) and v) for side in ("height", "width")
    )
    try:
        check_pixels(height, width, "the image")
    except ImageReadError as error:
        raise record.wrong("height", f"a size that can be read ({error})") from None
    return str(path), (height, width)


def _box(record: _Record, shape: tuple[int, int]) -> Box:
    expected = (
        f"[x, y, width, height] with positive width and height, inside the image of {shape[0]} x {shape[1]} pixels"
    )
    x, y, width, height = record.get(
        "bbox", expected, lambda value: isinstance(value, list) and len(value) == 4 and all(map(_is_number, value))
    )
    try:
        return checked_box(y, x, y + height, x + width, shape)
    except ValueError:
        raise record.wrong("bbox", expected) from None


def _mask(record: _Record, shape: tuple[int, int]) -> PolygonMask | RunLengthMask | None:
    name, value = "segmentation", record.fields.get("segmentation")
    if not value:
        return None
    mask: PolygonMask | RunLengthMask
    if isinstance(value, dict):
        record, name = _Record(record.path, f"{record.place}.segmentation", value), "counts"
        size = f"[{shape[0]}, {shape[1]}], height and width of the image"
        record.get("size", size, lambda value: isinstance(value, list) and tuple(value) == shape)
        counts = record.get(
            "counts",
            "a list of run lengths, or COCO's string of them",
            lambda value: isinstance(value, str) or (isinstance(value, list) and all(map(_is_count, value))),
        )
        mask = RunLengthMask(counts if isinstance(counts, str) else tuple(counts), shape)
    else:
        expected = "polygons [x0, y0, x1, y1, ...] of at least three corners, or an object with size and counts"
        record.get(name, expected, lambda value: isinstance(value, list) and all(map(_is_polygon, value)))
        mask = PolygonMask(tuple(tuple(map(float, polygon)) for polygon in value), shape)
    try:
        mask.check()
    except ImageReadError as error:
        raise record.wrong(name, f"a mask that fits its image ({str(error).rstrip('.')})") from None
    return mask
