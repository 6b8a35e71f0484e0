"""Annotations in the XML of Pascal VOC, and Oxford pets with their trimaps."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree
from xml.parsers import expat

import numpy as np
from sklearn.utils import Bunch

from lupi.datasets._localization import (
    DataFormatError,
    FilesInside,
    checked_box,
    localization_bunch,
    malformed,
    number,
    text_lines,
    whole_number,
)
from lupi.vision.images import read_mask
from lupi.vision.masks import LabelMask

if TYPE_CHECKING:
    from lupi.vision.geometry import Box

EDGES = ("xmin", "ymin", "xmax", "ymax")


def _parsed(path: Path) -> tuple[Any, dict[Any, int]]:
    """Root element, and the line on which each element begins; ElementTree's own parser does not tell lines."""
    builder, parser, lines = ElementTree.TreeBuilder(), expat.ParserCreate(), {}

    def start(tag: str, attributes: dict[str, Any]) -> None:
        lines[builder.start(tag, attributes)] = parser.CurrentLineNumber

    def refuse(name: str, *_: int | str | None) -> None:
        raise DataFormatError(
            f"{path}, line {parser.CurrentLineNumber}: expected XML of Pascal VOC, which declares no entities, got {name!r}."
        )

    parser.StartElementHandler = start
    # A few entities that contain each other can stand for terabytes of text.
    parser.EntityDeclHandler = refuse
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    try:
        with open(path, "rb") as file:
            parser.ParseFile(file)
    except expat.ExpatError as error:
        raise DataFormatError(f"{path}, line {error.lineno}: expected XML of Pascal VOC ({error}).") from None
    except DataFormatError:
        raise
    except (OSError, LookupError, ValueError) as error:  # Encodings that Python does not know, or expat cannot read.
        raise DataFormatError(f"{path}: cannot be read as XML ({error}).") from None
    return builder.close(), lines


def _image_shape(path: Path, root: Any, lines: dict[Any, int]) -> tuple[int, int] | None:
    """Height and width that the file gives for its image; None where there are none, or zeros."""
    size = root.find("size")
    parts: list[Any] = [None if size is None else size.find(name) for name in ("height", "width")]
    if None in parts:
        return None
    shape = []
    for part in parts:
        try:
            shape.append(whole_number(part.text or ""))
            if shape[-1] < 0:
                raise ValueError
        except ValueError:
            raise malformed(path, lines[part], "a whole number", part.text or "", part=f"size/{part.tag}") from None
    return (shape[0], shape[1]) if all(shape) else None


def _object_box(path: Path, item: Any, k: int, lines: dict[Any, int], shape: tuple[int, int] | None) -> Box:
    """The box of an object."""
    frame = item.find("bndbox")
    if frame is None:
        found = ", ".join(part.tag for part in item) or "nothing"
        raise malformed(path, lines[item], "an element bndbox", found, part=f"object[{k}]")
    edges = {}
    for name in EDGES:
        part = frame.find(name)
        if part is None:
            found = ", ".join(other.tag for other in frame) or "nothing"
            raise malformed(path, lines[frame], f"an element {name}", found, part=f"object[{k}]/bndbox")
        try:
            edges[name] = number(part.text or "")
        except ValueError:
            raise malformed(path, lines[part], "a number", part.text or "", part=f"object[{k}]/bndbox/{name}") from None
    try:
        return checked_box(edges["ymin"] - 1, edges["xmin"] - 1, edges["ymax"], edges["xmax"], shape)
    except ValueError:
        found = ", ".join(f"{name} {value:g}" for name, value in edges.items())
        expected = "finite numbers with xmin <= xmax and ymin <= ymax" + (
            "" if shape is None else f" in the image of {shape[0]} x {shape[1]} pixels"
        )
        raise malformed(path, lines[frame], expected, found, part=f"object[{k}]/bndbox") from None


def read_voc_objects(path: Path) -> tuple[str, list[tuple[Any, ...]]]:
    """The file name and the objects of one XML file as (label, Box); VOC counts pixels from 1 and includes the last one."""
    path = Path(path)
    root, lines = _parsed(path)
    shape = _image_shape(path, root, lines)
    found = [
        (item.findtext("name", "object").strip(), _object_box(path, item, k, lines, shape))
        for k, item in enumerate(root.iter("object"), 1)
    ]
    return root.findtext("filename", "").strip(), found


def load_voc(root: str | PathLike[str], label: Any = None, *, follow_links: bool = False) -> Bunch:
    """Read a folder with ``Annotations/*.xml`` and ``JPEGImages/``.

    Parameters
    ----------
    root : path
        The folder.
    label : str or None, default=None
        Only objects with this name. An image's box is its largest such object, cut to the size that the file gives.
    follow_links : bool, default=False
        Whether names may lead out of the folder, by ``..``, as absolute paths or by symbolic links.

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
    for file in files:
        name, objects = read_voc_objects(file)
        image = inside("JPEGImages", name or f"{file.stem}.jpg", at=(file, None, "filename"))
        wanted = [pair for pair in objects if label is None or pair[0] == label]
        if wanted:
            found_label, box = max(wanted, key=lambda pair: pair[1].area)
            images.append(str(image))
            boxes.append(box)
            labels.append(found_label)
    names = sorted(set(labels))
    return localization_bunch(
        images,
        boxes,
        labels=[names.index(found) for found in labels],
        label_names=names,
        descr=f"Pascal VOC, {len(images)} images of {len(files)}.",
    )


def load_oxford_pets(root: str | PathLike[str], *, follow_links: bool = False) -> Bunch:
    """Read Oxford-IIIT pets: ``images/`` and ``annotations/`` with ``list.txt`` and ``trimaps/``.

    The mask is pet and border of the trimap (1 and 3); the box is the smallest around it. (The XML files of the set give boxes
    of heads.)

    Parameters
    ----------
    root : path
        Folder that contains ``images`` and ``annotations``.
    follow_links : bool, default=False
        Whether names may lead out of the folder, by ``..``, as absolute paths or by symbolic links.

    Returns
    -------
    Bunch
        images, boxes, masks, labels (breeds), label_names, species (1 cat, 2 dog).

    Raises
    ------
    DataFormatError
        With the file, the line and what was expected.
    ImageReadError
        If a trimap cannot be read.

    Warns
    -----
    UserWarning
        If a trimap has no pet; the box is None.
    """
    from lupi.vision.privileged_words import mask_box

    root = Path(root)
    path, inside = root / "annotations" / "list.txt", FilesInside(root, follow_links)
    images, boxes, masks, breeds, species = [], [], [], [], []
    for k, line in text_lines(path):
        if line.startswith("#"):
            continue
        parts = line.split()
        try:
            name, breed, kind, _ = parts[0], *map(whole_number, parts[1:])
            if kind not in (1, 2):
                raise ValueError
        except ValueError:
            raise malformed(path, k, "<image> <class id> <species 1 or 2> <breed id>", line) from None
        image = inside("images", f"{name}.jpg", at=(path, k, None))
        trimap = inside("annotations", "trimaps", f"{name}.png", at=(path, k, None))
        if not (image.is_file() and trimap.is_file()):
            continue
        mask = LabelMask(str(trimap), (1, 3))
        images.append(str(image))
        boxes.append(mask_box(read_mask(mask)))
        masks.append(mask)
        breeds.append((breed, name.rpartition("_")[0]))
        species.append(kind)
    known = sorted(set(breeds))
    return localization_bunch(
        images,
        boxes,
        masks=masks or None,
        labels=[known.index(b) for b in breeds],
        label_names=[name for _, name in known],
        species=np.array(species),
        descr=f"Oxford-IIIT pets, {len(images)} images.",
    )
