"""Targets: the readers of annotated images, run lengths and pictures."""

import io
import json
import math
import os
import warnings
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from attack.harness import Target
from attack.mutations import damaged_bytes, damaged_json, json_bytes, pick
from PIL import Image

from lupi.datasets import DataFormatError, load_boxes_csv, load_coco, load_voc
from lupi.vision import ImageReadError, read_image, read_mask
from lupi.vision.images import Box, RunLengthMask

SHAPE = 6, 8
MASK = np.zeros(SHAPE, dtype=bool)
MASK[1:5, 2:7] = True


def picture(array, kind="PNG"):
    """Bytes of an image file."""
    file = io.BytesIO()
    Image.fromarray(array).save(file, kind)
    return file.getvalue()


GRAY = picture(np.arange(48, dtype=np.uint8).reshape(SHAPE))
STENCIL = picture(MASK * np.uint8(255))
TRIMAP = picture(np.where(MASK, 1, 2).astype(np.uint8))

COCO = {
    "images": [{"id": i, "file_name": f"{i}.png", "height": SHAPE[0], "width": SHAPE[1]} for i in (7, 8, 9)],
    "categories": [{"id": 3, "name": "cat"}, {"id": 4, "name": "dog"}],
    "annotations": [
        {"image_id": 7, "category_id": 3, "bbox": [2, 1, 4, 3], "segmentation": [[2, 1, 5, 1, 5, 3, 2, 3]]},
        {"image_id": 7, "category_id": 4, "bbox": [0, 0, 3.5, 3], "segmentation": []},
        {"image_id": 8, "category_id": 4, "bbox": [1, 2, 3, 4], "segmentation": {"size": [6, 8], "counts": [8, 4, 36]}},
        {"image_id": 9, "category_id": 4, "bbox": [1, 2, 3, 4], "iscrowd": 0, "segmentation": {"size": [6, 8], "counts": "84T1"}},
    ],
}  # fmt: skip
VOC = """<annotation><filename>{0}.jpg</filename><size><width>8</width><height>6</height><depth>3</depth></size>
<object><name>dog</name><bndbox><xmin>2</xmin><ymin>1</ymin><xmax>7</xmax><ymax>5</ymax></bndbox></object>
<object><name>cat</name><bndbox><xmin>1.5</xmin><ymin>1</ymin><xmax>3</xmax><ymax>4</ymax></bndbox></object>
</annotation>
"""
FILES = {
    "coco": {"data.json": json_bytes(COCO)},
    "voc": {f"Annotations/{name}.xml": VOC.format(name).encode() for name in "ab"},
    "csv": {
        "boxes.csv": b"image,top,left,bottom,right,mask,label\na.png,1,2,5,7,m.png,cat\n\"b, c.png\",0,0,2.5,3,,dog\nd.png,,,,,,\n",
        "m.png": STENCIL,
    },
}  # fmt: skip


def folder_target(name, load, check):
    """A target whose case is a folder with one damaged file."""
    files = FILES[name]

    def prepare(folder):
        root = folder / "data"
        for file, content in files.items():
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_bytes(content)
        return root

    def make(rng, _):
        if rng is None:
            return None, b""
        file = pick(rng, list(files))
        if file.endswith(".json") and rng.random() < 0.7:
            return file, json_bytes(damaged_json(rng, json.loads(files[file])))
        return file, damaged_bytes(rng, files[file])

    def attack(case, root):
        file, content = case
        if file is None:
            check(load(root), root)
            return
        (root / file).write_bytes(content)
        try:
            check(load(root), root)
        finally:
            (root / file).write_bytes(files[file])

    return Target(name, prepare, make, attack, (DataFormatError, ImageReadError), lambda case: 2000 + len(case[1]))


def check_bunch(found, root, sizes=None, mask_shapes=None):
    """What holds for every answer: equal lengths, known labels, files in the folder, boxes in images, masks of their shape."""
    n = len(found.images)
    assert len(found.boxes) == len(found.labels) == n
    assert ((found.labels >= 0) & (found.labels < len(found.label_names))).all()
    for k, (image, box) in enumerate(zip(found.images, found.boxes)):
        assert Path(os.path.realpath(image)).is_relative_to(os.path.realpath(root)), image
        if box is not None:
            assert isinstance(box, Box)
            assert all(math.isfinite(v) for v in box)
            assert 0 <= box.top < box.bottom <= 2**31, box
            assert 0 <= box.left < box.right <= 2**31, box
            if sizes is not None and sizes[k] is not None:
                assert box.bottom <= sizes[k][0], (box, sizes[k])
                assert box.right <= sizes[k][1], (box, sizes[k])
    if found.masks is not None:
        assert len(found.masks) == n
        for k, mask in enumerate(found.masks):
            if mask is not None:
                check_mask(mask, None if mask_shapes is None else mask_shapes[k])


def check_mask(mask, shape=None):
    """A mask that can be read is boolean, of two dimensions, and warns if it is empty."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        pixels = read_mask(mask, shape)
    assert pixels.dtype == bool
    assert pixels.ndim == 2
    assert [str(w.message).partition(" is empty")[1] for w in told] == [" is empty"] * (not pixels.any())


def check_coco(found, root):
    content = json.loads((root / "data.json").read_text())
    shapes = {str(root / i["file_name"]): (i["height"], i["width"]) for i in content["images"]}
    unique = len(shapes) == len(content["images"])
    sizes = [shapes[image] if unique else None for image in found.images]
    try:
        # Masks were checked with the file: reading them must not fail any more.
        check_bunch(found, root, sizes, sizes)
    except ImageReadError as error:
        raise AssertionError(f"a mask of a file that was read: {error}") from error


def check_voc(found, root):
    sizes = {}
    for file in sorted((root / "Annotations").glob("*.xml")):
        tree = ElementTree.parse(file).getroot()
        height, width = (int(tree.findtext(f"size/{side}", "0")) for side in ("height", "width"))
        name = tree.findtext("filename", "").strip() or f"{file.stem}.jpg"
        size = (height, width) if height and width else None
        # Two files may name one image.
        sizes.setdefault(str(root / "JPEGImages" / name), []).append(size)
    check_bunch(found, root, [s[0] if len(s := sizes[image]) == 1 else None for image in found.images])


def make_runs(rng, _):
    """Run lengths as a string or a list, valid or not, with a shape that may be anything."""
    if rng is None:
        return "84T1", SHAPE
    shape = (
        tuple(int(v) for v in rng.integers(1, 40, 2))
        if rng.random() < 0.8
        else pick(rng, [(10**9, 10**9), (1, 1), (6, 8)])
    )
    kind = int(rng.integers(5))
    if kind == 0:
        text = "".join(chr(48 + b) for b in rng.integers(0, 64, int(rng.integers(0, 200))))
    elif kind == 1:
        text = damaged_bytes(rng, b"84T1" * int(rng.integers(1, 50))).decode("latin-1")
    elif kind == 2:
        text = chr(int(rng.integers(80, 112))) * int(rng.integers(1, 3000)) + pick(rng, ["", "0", "O"])
    elif kind == 3:
        return tuple(int(v) for v in rng.integers(-1, 50, int(rng.integers(0, 30)))), shape
    else:
        cuts = np.sort(rng.integers(0, math.prod(shape) + 1, int(rng.integers(0, 30))))
        return tuple(int(v) for v in np.diff(cuts, prepend=0, append=math.prod(shape))), shape
    return text, shape


def attack_runs(case, _):
    pixels = RunLengthMask(*case).read()
    assert pixels.shape == case[1]
    assert pixels.dtype == bool


COLORS = np.random.RandomState(0).randint(0, 256, (*SHAPE, 3), dtype=np.uint8)
PICTURES = (
    GRAY,
    STENCIL,
    TRIMAP,
    *(picture(COLORS, kind) for kind in ("PNG", "JPEG", "BMP", "GIF", "TIFF", "PPM", "WEBP")),
    picture(np.dstack([COLORS, COLORS[:, :, 0]])),
    picture(COLORS[:, :, 0].astype(np.uint16) * 257),
)


def make_picture(rng, _):
    return PICTURES[0] if rng is None else damaged_bytes(rng, pick(rng, PICTURES))


def attack_picture(case, folder):
    path = folder / "picture"
    path.write_bytes(case)
    pixels = read_image(path)
    assert pixels.dtype == np.uint8
    assert pixels.ndim == 2 or pixels.shape[2:] == (3,)
    check_mask(path, pixels.shape)


TARGETS = [
    folder_target("coco", lambda root: load_coco(root / "data.json"), check_coco),
    folder_target("voc", load_voc, check_voc),
    folder_target("csv", lambda root: load_boxes_csv(root / "boxes.csv"), check_bunch),
    Target("runs", lambda folder: None, make_runs, attack_runs, (ImageReadError,), lambda case: len(case[0])),
    Target("pictures", lambda folder: folder, make_picture, attack_picture, (ImageReadError,)),
]
