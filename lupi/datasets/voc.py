"""Annotations in the XML of Pascal VOC, and Oxford pets with their trimaps."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree
from xml.parsers import expat

import numpy as np

from lupi.datasets._localization import DataFormatError, checked_box, localization_bunch, malformed, text_lines
from lupi.images.masks import LabelMask

EDGES = ("xmin", "ymin", "xmax", "ymax")


def _parsed(path):
    """Root element, and the line on which each element begins; ElementTree's own parser does not tell lines."""
    builder, parser, lines = ElementTree.TreeBuilder(), expat.ParserCreate(), {}

    def start(tag, attributes):
        lines[builder.start(tag, attributes)] = parser.CurrentLineNumber

    parser.StartElementHandler = start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    try:
        with open(path, "rb") as file:
            parser.ParseFile(file)
    except expat.ExpatError as error:
        raise DataFormatError(f"{path}, line {error.lineno}: expected XML of Pascal VOC ({error}).") from None
    return builder.close(), lines


def _edges(path, item, k, lines):
    """The four numbers of an object's box, by name."""
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
            edges[name] = float(part.text)
        except (TypeError, ValueError):
            raise malformed(path, lines[part], "a number", part.text or "", part=f"object[{k}]/bndbox/{name}") from None
    try:
        return checked_box(edges["ymin"] - 1, edges["xmin"] - 1, edges["ymax"], edges["xmax"])
    except ValueError:
        found = ", ".join(f"{name} {value:g}" for name, value in edges.items())
        expected = "finite numbers with xmin <= xmax and ymin <= ymax"
        raise malformed(path, lines[frame], expected, found, part=f"object[{k}]/bndbox") from None


def read_voc_objects(path):
    """The file name and the objects of one XML file as (label, Box); VOC counts pixels from 1 and includes the last one."""
    path = Path(path)
    root, lines = _parsed(path)
    found = [
        (item.findtext("name", "object").strip(), _edges(path, item, k, lines))
        for k, item in enumerate(root.iter("object"), 1)
    ]
    return root.findtext("filename"), found


def load_voc(root, label=None):
    """Read a folder with ``Annotations/*.xml`` and ``JPEGImages/``.

    Parameters
    ----------
    root : path
        The folder.
    label : str or None, default=None
        Only objects with this name. An image's box is its largest such object.

    Returns
    -------
    Bunch
        images, boxes, labels, label_names. Images without a wanted object are left out.
    """
    root = Path(root)
    files = sorted((root / "Annotations").glob("*.xml"))
    if not files:
        raise DataFormatError(f"{root / 'Annotations'}: expected XML files of Pascal VOC, found none.")
    images, boxes, labels = [], [], []
    for file in files:
        name, objects = read_voc_objects(file)
        wanted = [pair for pair in objects if label is None or pair[0] == label]
        if wanted:
            found_label, box = max(wanted, key=lambda pair: pair[1].area)
            images.append(str(root / "JPEGImages" / (name or f"{file.stem}.jpg")))
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


def load_oxford_pets(root):
    """Read Oxford-IIIT pets: ``images/`` and ``annotations/`` with ``list.txt`` and ``trimaps/``.

    The mask is pet and border of the trimap (1 and 3); the box is the smallest around it. (The XML files of the set give boxes
    of heads.)

    Parameters
    ----------
    root : path
        Folder that contains ``images`` and ``annotations``.

    Returns
    -------
    Bunch
        images, boxes, masks, labels (breeds), label_names, species (1 cat, 2 dog).
    """
    from lupi.images.privileged_words import mask_box

    root = Path(root)
    path = root / "annotations" / "list.txt"
    images, boxes, masks, breeds, species = [], [], [], [], []
    for k, line in text_lines(path):
        if line.startswith("#"):
            continue
        parts = line.split()
        try:
            name, breed, kind, _ = parts[0], *map(int, parts[1:])
        except ValueError:
            raise malformed(path, k, "<image> <class id> <species 1 or 2> <breed id>", line) from None
        image = root / "images" / f"{name}.jpg"
        trimap = root / "annotations" / "trimaps" / f"{name}.png"
        if not (image.is_file() and trimap.is_file()):
            continue
        mask = LabelMask(str(trimap), (1, 3))
        images.append(str(image))
        boxes.append(mask_box(mask.read()))
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
