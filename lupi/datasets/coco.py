"""Annotations in the JSON of COCO."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn.utils import Bunch

from lupi.datasets._localization import (
    LARGEST_EDGE,
    DataFormatError,
    FilesInside,
    checked_box,
    file_text,
    localization_bunch,
    malformed,
)
from lupi.vision.images import ImageReadError, check_pixels
from lupi.vision.masks import PolygonMask, RunLengthMask

if TYPE_CHECKING:
    from lupi.vision.geometry import Box

_PARTS = ("images", "annotations", "categories")
_TABLES = {"image_id": "images", "category_id": "categories"}


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
        Folder of the images; None means the folder of the JSON file.
    label : str or None, default=None
        Only objects of this category. An image's box is its largest such object, cut to the image; crowds do not count.
    follow_links : bool, default=False
        Whether names may lead out of the folder of the images, by ``..``, as absolute paths or by symbolic links.

    Returns
    -------
    Bunch
        images, boxes, masks (or None), labels, label_names. Images without a wanted object are left out.

    Raises
    ------
    DataFormatError
        With the file, the line or the place (such as ``annotations[17].bbox``) and what was expected.
    """
    path = Path(path)
    folder = path.parent if images is None else Path(images)
    content = _json(path)
    if not isinstance(content, dict) or not all(isinstance(content.get(key), list) for key in _PARTS):
        raise DataFormatError(f"{path}: expected an object with the lists {', '.join(_PARTS)}.")
    records = {key: [_Record(path, f"{key}[{k}]", item) for k, item in enumerate(content[key])] for key in _PARTS}
    inside = FilesInside(folder, follow_links)
    pictures = _by_id(records["images"], lambda record: _picture(record, inside))
    names = _by_id(records["categories"], _category)
    largest: dict[str, Any] = {}
    for item in records["annotations"]:
        if item.fields.get("iscrowd"):
            continue
        name = item.known("category_id", names)
        if label is not None and name != label:
            continue
        _, shape = item.known("image_id", pictures)
        box = _box(item, shape)
        entry = (box.area, box, name, _mask(item, shape))
        image = item.fields["image_id"]
        if image not in largest or largest[image][0] < box.area:
            largest[image] = entry
    ids = [i for i in pictures if i in largest]
    labels = sorted({largest[i][2] for i in ids})
    masks = [largest[i][3] for i in ids]
    return localization_bunch(
        [pictures[i][0] for i in ids],
        [largest[i][1] for i in ids],
        masks=masks if any(m is not None for m in masks) else None,
        labels=[labels.index(largest[i][2]) for i in ids],
        label_names=labels,
        descr=f"COCO, {len(ids)} images of {len(pictures)}.",
    )


def _json(path: Path) -> Any:
    """Content of a JSON file."""
    text = file_text(path, "JSON", encoding="utf-8")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataFormatError(f"{path}, line {error.lineno}: expected JSON ({error.msg}).") from None
    except RecursionError:
        raise DataFormatError(
            f"{path}: expected JSON of COCO, got lists within lists that are nested too deeply."
        ) from None
    except ValueError as error:  # Python refuses whole numbers of thousands of digits.
        raise DataFormatError(f"{path}: expected JSON with numbers of ordinary size ({error}).") from None


def _shown(value: Any) -> str:
    """A JSON value in a message."""
    try:
        return json.dumps(value)
    except RecursionError:
        return f"a deeply nested {type(value).__name__}"


class _Record:
    """One entry of a list of the file; its errors name the file and the place, as in ``annotations[3].bbox``."""

    def __init__(self, path: Path, place: str, fields: Any) -> None:
        self.path, self.place, self.fields = path, place, fields
        if not isinstance(fields, dict):
            raise malformed(path, None, "an object", _shown(fields), part=place)

    def wrong(self, name: str, expected: str) -> DataFormatError:
        got = _shown(self.fields[name]) if name in self.fields else "nothing"
        return malformed(self.path, None, expected, got, part=f"{self.place}.{name}")

    def get(self, name: str, expected: str, right: Callable[[Any], bool]) -> Any:
        """A field that has to be there and to satisfy `right`."""
        if name not in self.fields or not right(self.fields[name]):
            raise self.wrong(name, expected)
        return self.fields[name]

    def known(self, name: str, table: dict[Any, Any]) -> Any:
        """The entry of a table that a field names."""
        value = self.get(name, "an id", _is_id)
        if value not in table:
            raise self.wrong(name, f"one of the {len(table)} ids of the file's {_TABLES[name]}")
        return table[value]


def _is_id(value: Any) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST_EDGE


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_EDGE


def _by_id(records: Iterable[_Record], make: Callable[[_Record], Any]) -> dict[Any, Any]:
    table = {}
    for record in records:
        key = record.get("id", "an id", _is_id)
        if key in table:
            raise record.wrong("id", "an id that no other record has")
        table[key] = make(record)
    return table


def _picture(record: _Record, inside: FilesInside) -> tuple[str, tuple[int, int]]:
    name = record.get("file_name", "the name of a file", lambda value: isinstance(value, str) and bool(value))
    path = inside(name, at=(record.path, None, f"{record.place}.file_name"))
    size = [record.get(side, "a positive whole number", lambda v: _is_count(v) and v) for side in ("height", "width")]
    try:
        check_pixels(size[0], size[1], "the image")
    except ImageReadError as error:
        raise record.wrong("height", f"a size that can be read ({error})") from None
    return str(path), tuple(size)


def _category(record: _Record) -> str:
    return str(record.get("name", "a name", lambda value: isinstance(value, str) and bool(value)))


def _box(record: _Record, shape: tuple[int, int]) -> Box:
    expected = (
        f"[x, y, width, height], numbers, width and height positive, in the image of {shape[0]} x {shape[1]} pixels"
    )
    x, y, width, height = record.get(
        "bbox", expected, lambda value: isinstance(value, list) and len(value) == 4 and all(map(_is_number, value))
    )
    try:
        return checked_box(y, x, y + height, x + width, shape)
    except ValueError:
        raise record.wrong("bbox", expected) from None


def _mask(record: _Record, shape: tuple[int, int]) -> PolygonMask | RunLengthMask | None:
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
        runs = RunLengthMask(counts if isinstance(counts, str) else tuple(counts), shape)
        return _checked(runs.runs, runs, inner, "counts")
    expected = "polygons [x0, y0, x1, y1, ...] of at least three corners, or an object with size and counts"
    record.get("segmentation", expected, lambda value: isinstance(value, list) and all(map(_is_polygon, value)))
    mask = PolygonMask(tuple(tuple(map(float, polygon)) for polygon in segmentation), shape)
    return _checked(mask.check, mask, record, "segmentation")


def _checked(
    check: Callable[..., Any], mask: PolygonMask | RunLengthMask, record: _Record, name: str
) -> PolygonMask | RunLengthMask:
    """The mask, if it can be read; otherwise an error that names its place in the file."""
    try:
        check()
    except ImageReadError as error:
        raise record.wrong(name, f"a mask that fits its image ({str(error).rstrip('.')})") from None
    return mask


def _is_polygon(value: Any) -> bool:
    return isinstance(value, list) and len(value) >= 6 and len(value) % 2 == 0 and all(map(_is_number, value))
