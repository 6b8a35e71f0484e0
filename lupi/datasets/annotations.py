"""Readers of annotated images: CSV tables, the JSON format of COCO, and the XML format of Pascal VOC."""

from __future__ import annotations

import csv
import json
import os
import reprlib
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat

import numpy as np
from sklearn.utils import Bunch

from lupi.vision.images import Box, ImageReadError, PolygonMask, RunLengthMask, check_pixels

# Larger numbers cannot be pixels, and would overflow arrays.
LARGEST_EDGE = 2**31 - 1


class DataFormatError(ValueError):
    """A malformed file; the message gives the file, the line and what was expected."""


def malformed(path: Path, expected: str, got: str, line: int | None = None, part: str | None = None) -> DataFormatError:
    """Error for a line of a file, or for a part of it such as ``annotations[3].bbox``."""
    where = ", ".join(str(w) for w in (path, line and f"line {line}", part) if w)
    shown = got if len(got) <= 80 else f"{got[:77]}..."
    return DataFormatError(f"{where}: expected {expected}, got {shown!r}.")


def read_text(path: Path, encoding: str = "utf-8-sig") -> str:
    """Content of a text file."""
    try:
        return Path(path).read_text(encoding=encoding)
    except FileNotFoundError:
        raise DataFormatError(f"{path}: no such file.") from None
    except UnicodeDecodeError:
        raise DataFormatError(f"{path}: expected a text file in UTF-8.") from None
    except (OSError, ValueError) as error:
        raise DataFormatError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error}).") from None


def text_lines(path: Path) -> list[tuple[int, str]]:
    """Pairs (line number, stripped line) of the nonempty lines."""
    # `splitlines` also splits at characters such as U+2028, which editors do not count as line ends.
    return [(k, line.strip()) for k, line in enumerate(read_text(path).split("\n"), 1) if line.strip()]


def parse_number(text: str, kind: type = float) -> Any:
    """A float, or a whole number that fits into an array."""
    # Python accepts 1_0 as ten; files do not.
    value = kind("" if "_" in text else text)
    if kind is int and not 0 <= value <= LARGEST_EDGE:
        raise ValueError(f"{value} is negative or too large")
    return value


def checked_box(top: float, left: float, bottom: float, right: float, shape: tuple[int, int] | None = None) -> Box:
    """A Box of positive size, clipped to its image where the shape is known."""
    top, left, bottom, right = (float(v) for v in (top, left, bottom, right))
    # NaN fails every comparison.
    if not (-LARGEST_EDGE <= top < bottom <= LARGEST_EDGE and -LARGEST_EDGE <= left < right <= LARGEST_EDGE):
        raise ValueError("a box must have finite edges with top < bottom and left < right")
    top, left = max(top, 0.0), max(left, 0.0)
    if shape is not None:
        bottom, right = min(bottom, shape[0]), min(right, shape[1])
    if not (top < bottom and left < right):
        raise ValueError("the box lies outside of its image")
    return Box(*(int(v) if v == int(v) else v for v in (top, left, bottom, right)))


class FilesInside:
    """Paths of annotated files; names that lead out of the folder `root` are rejected unless `follow_links`.

    Downloaded annotations could otherwise name any file of the machine, by ``..``, an absolute path or a symbolic link.
    """

    def __init__(self, root: Path, follow_links: bool) -> None:
        self.root, self.follow_links, self.real = root, follow_links, os.path.realpath(root)

    def __call__(self, *names: str, path: Path, line: int | None = None, part: str | None = None) -> Path:
        """The path ``root/names``; `path`, `line` and `part` locate the name for :func:`malformed`."""
        found = self.root.joinpath(*names)
        try:
            real = os.path.realpath(found)
            found.is_file()  # raises for names that are too long
        except (OSError, ValueError):
            raise malformed(path, "the name of a file", names[-1], line=line, part=part) from None
        if not self.follow_links and not Path(real).is_relative_to(self.real):
            expected = f"a file inside the folder {self.root} (follow_links=True or --follow-links reads others)"
            raise malformed(path, expected, names[-1], line=line, part=part)
        return found


def localization_bunch(
    images: Sequence[str],
    boxes: Sequence[Box | None],
    labels: Sequence[str],
    *,
    masks: Sequence[Any] = (),
    attributes: np.ndarray | None = None,
    label_names: Iterable[str] | None = None,
    descr: str = "",
    **extra: Any,
) -> Bunch:
    """Result of a reader; `labels` are class names, in the order of `label_names` or else sorted."""
    names = sorted(set(labels)) if label_names is None else list(label_names)
    codes = np.array([names.index(label) for label in labels], dtype=int)
    parts = {"masks": list(masks) if any(mask is not None for mask in masks) else None, "attributes": attributes}
    known = {name: value for name, value in parts.items() if value is not None}
    named = {"labels": codes, "label_names": names or ["object"], "DESCR": descr, **extra}
    return Bunch(images=images, boxes=boxes, **parts, data=images, target=boxes, privileged=known or None, **named)


def load_localization(path: str | PathLike[str], format: str = "auto", *, follow_links: bool = False) -> Bunch:
    """Read images with boxes from a CSV file, a COCO file or a Pascal VOC folder.

    Parameters
    ----------
    path : path
        A CSV file, a JSON file of COCO, or the folder of Pascal VOC.
    format : {"auto", "csv", "coco", "voc"}, default="auto"
        The format; "auto" infers it from the path.
    follow_links : bool, default=False
        Whether annotations may name files outside of the data set's folder, by ``..``, absolute paths or symbolic links.

    Returns
    -------
    Bunch
        As returned by the reader of the format.

    Raises
    ------
    DataFormatError
        With the file, the line (in JSON: the place, such as ``annotations[17].bbox``) and what was expected.
    """
    path = Path(path)
    readers: dict[str, Any] = {"csv": load_boxes_csv, "coco": load_coco, "voc": load_voc}
    if format not in ("auto", *readers):
        raise ValueError(f"`format` must be 'auto', 'csv', 'coco' or 'voc', got {format!r}.")
    if format == "auto":
        if not path.exists():
            raise DataFormatError(f"{path}: no such file or folder.")
        format = {".csv": "csv", ".json": "coco"}.get(path.suffix.lower(), "voc")
        if format == "voc" and not (path / "Annotations").is_dir():
            expected = "a .csv file, a COCO .json file, or a folder with Annotations (Pascal VOC)"
            raise DataFormatError(f"{path}: expected {expected}.")
    return readers[format](path, follow_links=follow_links)


_REQUIRED = ("image", "top", "left", "bottom", "right")
_OPTIONAL = ("mask", "label")


def load_boxes_csv(path: str | PathLike[str], *, follow_links: bool = False) -> Bunch:
    r"""Read boxes from a CSV file; image and mask names are relative to the file's folder.

    The first line names the columns ``image,top,left,bottom,right`` and optionally ``mask`` and ``label``, in any order. Boxes
    are half-open and clipped at the top and left edge of the image. A line with four empty numbers has no box. Masks are
    pictures of 0 and 1, of 0 and 255, or trimaps: see :func:`lupi.vision.read_mask`.

    Parameters
    ----------
    path : path
        The CSV file.
    follow_links : bool, default=False
        Whether names may lead out of the file's folder, by ``..``, absolute paths or symbolic links.

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
    expected = f"a header with the columns {','.join(_REQUIRED)} and optionally {', '.join(_OPTIONAL)}"
    if not lines:
        raise DataFormatError(f"{path}, line 1: expected {expected}, got an empty file.")
    header = [name.lower() for name in _fields(path, *lines[0])]
    if not set(_REQUIRED) <= set(header) <= {*_REQUIRED, *_OPTIONAL} or len(set(header)) != len(header):
        raise malformed(path, expected, lines[0][1], line=lines[0][0])
    images, boxes, masks, labels = [], [], [], []
    inside = FilesInside(path.parent, follow_links)
    for k, line in lines[1:]:
        values = _fields(path, k, line)
        if len(values) != len(header):
            raise malformed(path, f"{len(header)} values ({','.join(header)})", line, line=k)
        row = dict(zip(header, values))
        edges = [row[name] for name in _REQUIRED[1:]]
        try:
            boxes.append(checked_box(*map(parse_number, edges)) if any(edges) else None)
        except ValueError:
            raise malformed(path, "numbers with top < bottom and left < right", line, line=k) from None
        if not row["image"]:
            raise malformed(path, "the name of an image", line, line=k)
        images.append(str(inside(row["image"], path=path, line=k, part="image")))
        masks.append(str(inside(row["mask"], path=path, line=k, part="mask")) if row.get("mask") else None)
        labels.append(row.get("label") or "object")
    return localization_bunch(images, boxes, labels, masks=masks, descr=f"{len(images)} images of {path.name}.")


def _fields(path: Path, k: int, line: str) -> list[str]:
    try:
        # Not strict, an open quotation mark would swallow the commas that follow.
        return [value.strip() for value in next(csv.reader([line], strict=True))]
    except csv.Error as error:
        raise malformed(path, f"values separated by commas ({error})", line, k) from None


_LISTS = ("images", "annotations", "categories")


def load_coco(path: str | PathLike[str], images: Any = None, label: Any = None, *, follow_links: bool = False) -> Bunch:
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
    text = read_text(path, "utf-8")
    try:
        content = json.loads(text)
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


def _is_list(value: Any, is_valid: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(is_valid, value))


def _is_polygon(value: Any) -> bool:
    return _is_list(value, _is_number) and len(value) >= 6 and len(value) % 2 == 0


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

    def is_edge(value: Any) -> bool:
        return _is_count(value) and value > 0

    height, width = (record.get(side, "a positive integer", is_edge) for side in ("height", "width"))
    try:
        check_pixels(height, width, "the image")
    except ImageReadError as error:
        raise record.wrong("height", f"a size that can be read ({error})") from None
    return str(path), (height, width)


def _box(record: _Record, shape: tuple[int, int]) -> Box:
    inside = f"inside the image of {shape[0]} x {shape[1]} pixels"
    expected = f"[x, y, width, height] with positive width and height, {inside}"
    x, y, width, height = record.get("bbox", expected, lambda v: _is_list(v, _is_number) and len(v) == 4)
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
        record.get("size", f"{list(shape)}, height and width of the image", lambda size: size == list(shape))
        expected = "a list of run lengths, or COCO's string of them"
        counts = record.get("counts", expected, lambda v: isinstance(v, str) or _is_list(v, _is_count))
        mask = RunLengthMask(counts if isinstance(counts, str) else tuple(counts), shape)
    else:
        expected = "polygons [x0, y0, x1, y1, ...] of at least three corners, or an object with size and counts"
        record.get(name, expected, lambda polygons: _is_list(polygons, _is_polygon))
        mask = PolygonMask(tuple(tuple(map(float, polygon)) for polygon in value), shape)
    try:
        mask.check()
    except ImageReadError as error:
        raise record.wrong(name, f"a mask that fits its image ({str(error).rstrip('.')})") from None
    return mask


_EDGES = ("xmin", "ymin", "xmax", "ymax")


def load_voc(root: str | PathLike[str], label: Any = None, *, follow_links: bool = False) -> Bunch:
    """Read a folder with ``Annotations/*.xml`` and ``JPEGImages/``.

    Parameters
    ----------
    root : path
        The folder.
    label : str or None, default=None
        Name of the objects to read; None reads all. The box of an image is its largest object, clipped to the size in the file.
    follow_links : bool, default=False
        Whether names may lead out of the folder, by ``..``, absolute paths or symbolic links.

    Returns
    -------
    Bunch
        images, boxes, labels, label_names. Images without a wanted object are left out.

    Raises
    ------
    DataFormatError
        With the file, the line, the element and what was expected.
    """
    root = Path(root)
    files = sorted((root / "Annotations").glob("*.xml"))
    if not files:
        raise DataFormatError(f"{root / 'Annotations'}: expected XML files of Pascal VOC, found none.")
    images, boxes, labels = [], [], []
    inside = FilesInside(root, follow_links)
    for path in files:
        annotation = _Annotation(path)
        name = annotation.tree.findtext("filename", "").strip() or f"{path.stem}.jpg"
        image = inside("JPEGImages", name, path=path, part="filename")
        wanted = [(box, found) for found, box in annotation.objects() if label is None or found == label]
        if wanted:
            box, found = max(wanted, key=lambda pair: pair[0].area)
            images.append(str(image))
            boxes.append(box)
            labels.append(found)
    return localization_bunch(images, boxes, labels, descr=f"Pascal VOC, {len(images)} images of {len(files)}.")


class _Annotation:
    """The elements of a file and the lines on which they begin, which ElementTree's own parser does not report."""

    def __init__(self, path: Path) -> None:
        self.path, self.lines = path, dict[Any, int]()
        builder, parser = ElementTree.TreeBuilder(), expat.ParserCreate()

        def start(tag: str, attributes: dict[str, Any]) -> None:
            self.lines[builder.start(tag, attributes)] = parser.CurrentLineNumber

        def reject(name: str, *_: Any) -> None:
            raise malformed(path, "XML without entity declarations", name, line=parser.CurrentLineNumber)

        parser.StartElementHandler, parser.EndElementHandler = start, builder.end
        parser.CharacterDataHandler = builder.data
        # Nested entities can expand to terabytes of text.
        parser.EntityDeclHandler = reject
        try:
            with open(path, "rb") as file:
                parser.ParseFile(file)
        except expat.ExpatError as error:
            raise DataFormatError(f"{path}, line {error.lineno}: expected XML of Pascal VOC ({error}).") from None
        except DataFormatError:
            raise
        except (OSError, LookupError, ValueError) as error:  # such as an unknown encoding
            raise DataFormatError(f"{path}: cannot be read as XML ({error}).") from None
        self.tree: Any = builder.close()

    def number(self, element: Any, part: str, kind: type, expected: str) -> Any:
        try:
            return parse_number(element.text or "", kind)
        except ValueError:
            raise malformed(self.path, expected, element.text or "", line=self.lines[element], part=part) from None

    def child(self, element: Any, name: str, part: str) -> Any:
        found = element.find(name)
        if found is None:
            tags = ", ".join(other.tag for other in element) or "nothing"
            raise malformed(self.path, f"an element {name}", tags, line=self.lines[element], part=part)
        return found

    def shape(self) -> tuple[int, int] | None:
        """Height and width of the image; None if the file lacks them."""
        elements = [self.tree.find(f"size/{name}") for name in ("height", "width")]
        if None in elements:
            return None
        height, width = (self.number(e, f"size/{e.tag}", int, "a whole number") for e in elements)
        return (height, width) if height > 0 and width > 0 else None

    def objects(self) -> list[tuple[str, Box]]:
        """Names and boxes; VOC counts pixels from 1 and includes the last one."""
        found, shape = [], self.shape()
        for k, item in enumerate(self.tree.iter("object"), 1):
            frame = self.child(item, "bndbox", f"object[{k}]")
            part = f"object[{k}]/bndbox"
            left, top, right, bottom = (
                self.number(self.child(frame, name, part), f"{part}/{name}", float, "a number") for name in _EDGES
            )
            try:
                box = checked_box(top - 1, left - 1, bottom, right, shape)
            except ValueError:
                inside = "" if shape is None else f" inside the image of {shape[0]} x {shape[1]} pixels"
                expected = f"finite numbers with xmin <= xmax and ymin <= ymax{inside}"
                got = f"xmin {left:g}, ymin {top:g}, xmax {right:g}, ymax {bottom:g}"
                raise malformed(self.path, expected, got, self.lines[frame], part) from None
            found.append((item.findtext("name", "object").strip(), box))
        return found
