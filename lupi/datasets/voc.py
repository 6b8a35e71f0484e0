"""Annotations in the XML format of Pascal VOC."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat

from sklearn.utils import Bunch

from lupi.datasets.annotations import (
    DataFormatError,
    FilesInside,
    checked_box,
    localization_bunch,
    malformed,
    parse_number,
)
from lupi.vision.geometry import Box

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
        height, width = (self.number(e, f"size/{e.tag}", int, "an integer") for e in elements)
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
                raise malformed(self.path, expected, got, line=self.lines[frame], part=part) from None
            found.append((item.findtext("name", "object").strip(), box))
        return found
