"""Readers of annotated images: the original layouts, and what they say about malformed files."""

import json
from pathlib import Path

import numpy as np
import pytest
from attack.run_lengths import pack_counts, runs_of
from PIL import Image
from vision_data import pictures

from experiments.data import load_cub
from lupi.datasets import (
    DataFormatError,
    load_boxes_csv,
    load_caltech101,
    load_coco,
    load_localization,
    load_oxford_pets,
    load_voc,
)
from lupi.vision import Box, ImageReadError, inpaint, mask_box, read_mask
from lupi.vision.masks import PolygonMask, RunLengthMask

IMAGES, BOXES, MASKS = pictures(3)


def save(array, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)
    return path


@pytest.fixture
def cub(tmp_path):
    names = ["001.Gull/a.jpg", "001.Gull/b.jpg", "002.Tern/c.jpg", "002.Tern/absent.jpg"]
    for image, mask, name in zip(IMAGES, MASKS, names):
        save(image, tmp_path / "images" / name)
        save(mask * np.uint8(255), (tmp_path / "segmentations" / name).with_suffix(".png"))
    lines = {
        "images.txt": [f"{i} {name}" for i, name in enumerate(names, 1)],
        "classes.txt": ["1 001.Gull", "2 002.Tern"],
        "image_class_labels.txt": ["1 1", "2 1", "3 2", "4 2"],
        "train_test_split.txt": ["1 1", "2 0", "3 1", "4 0"],
        "bounding_boxes.txt": [
            f"{i} {b.left}.0 {b.top}.0 {b.right - b.left}.0 {b.bottom - b.top}.0"
            for i, b in enumerate([*BOXES, BOXES[0]], 1)
        ],
        "attributes/image_attribute_labels.txt": ["1 2 1 4 7.1", "1 312 1 3 0.2", "3 1 1 1 0 extra", "3 2 0 4 1.5"],
    }
    (tmp_path / "attributes").mkdir()
    for name, content in lines.items():
        (tmp_path / name).write_text("\n".join(content) + "\n")
    return tmp_path


def test_cub(cub):
    data = load_localization(cub)
    assert data.boxes == BOXES
    assert [Path(p).name for p in data.images] == ["a.jpg", "b.jpg", "c.jpg"]
    assert data.labels.tolist() == [0, 0, 1]
    assert data.train.tolist() == [True, False, True]
    assert np.argwhere(data.attributes == 1).tolist() == [[0, 1], [0, 311], [2, 0]]
    assert np.argwhere(data.attributes == 0).tolist() == [[2, 1]]
    # What the file does not mention is not known; of the second image it says nothing.
    assert np.isnan(data.attributes[1]).all()
    assert np.isnan(data.attributes).sum() == 3 * 312 - 4
    assert mask_box(read_mask(data.masks[1])) == BOXES[1]
    assert data.privileged["attributes"] is data.attributes
    # The same from arrays.
    (cub / "attributes" / "image_attribute_labels.txt").unlink()
    known = np.eye(2, 312, dtype=np.uint8)
    np.savez(cub / "attributes" / "table.npz", image_id=[3, 1], is_present=known)
    np.testing.assert_array_equal(load_cub(cub).attributes, [known[1], np.full(312, np.nan), known[0]])
    np.savez(cub / "attributes" / "table.npz", image_id=[3, 1, 2], is_present=known[[0, 1, 1]])
    assert load_cub(cub).attributes.dtype == np.uint8


@pytest.mark.parametrize(
    ("file", "line", "expected"),
    [
        ("images.txt", "5", "<image_id> <image_name>"),
        ("bounding_boxes.txt", "5 1 2 three 4", "<image_id> <x> <y> <width> <height>"),
        ("bounding_boxes.txt", "5 1 2 0 4", "<image_id> <x> <y> <width> <height>"),
        ("train_test_split.txt", "5 2", "<image_id> <0 or 1>"),
        ("attributes/image_attribute_labels.txt", "1 313 1 4 2", "<attribute_id 1 to 312>"),
    ],
)
def test_malformed_lines_of_cub(cub, file, line, expected):
    path = cub / file
    count = len(path.read_text().splitlines())
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(DataFormatError) as error:
        load_cub(cub)
    message = str(error.value)
    assert f"{Path(file).name}, line {count + 1}: expected" in message
    assert expected in message
    assert repr(line) in message


def test_csv(tmp_path):
    file = tmp_path / "boxes.csv"
    file.write_text("image,left,top,bottom,right,mask,label\na b.png,1,2,5.5,9,m.png,cat\n\nc.png,,,,,,\n")
    data = load_localization(file)
    assert data.boxes == [Box(2, 1, 5.5, 9), None]
    assert data.images[0] == str(tmp_path / "a b.png")
    assert data.masks == [str(tmp_path / "m.png"), None]
    assert [data.label_names[k] for k in data.labels] == ["cat", "object"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("image,top,left\n", "line 1: expected a header"),
        ("", "line 1: expected a header"),
        ("image,top,left,bottom,right\na.png,1,2,3\n", "line 2: expected 5 values"),
        ("image,top,left,bottom,right\na.png,1,2,3,4\n\nb.png,5,2,3,4\n", "line 4: expected numbers with top < bottom"),
        ("image,top,left,bottom,right\na.png,1,2,x,4\n", "line 2: expected numbers"),
        ("image,top,left,bottom,right\n,1,2,3,4\n", "line 2: expected the name of an image"),
    ],
)
def test_malformed_csv(tmp_path, text, expected):
    file = tmp_path / "boxes.csv"
    file.write_text(text)
    with pytest.raises(DataFormatError, match=expected):
        load_boxes_csv(file)


VOC = """<annotation><filename>{name}.jpg</filename>
<object><name>dog</name><bndbox><xmin>11</xmin><ymin>21</ymin><xmax>{xmax}</xmax><ymax>60</ymax></bndbox></object>
<object><name>cat</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>90</xmax><ymax>90</ymax></bndbox></object>
</annotation>"""


def test_voc(tmp_path):
    folder = tmp_path / "Annotations"
    folder.mkdir()
    (folder / "x.xml").write_text(VOC.format(name="x", xmax=50))
    assert load_voc(tmp_path, label="dog").boxes == [Box(20, 10, 60, 50)]
    data = load_localization(tmp_path)
    assert data.boxes == [Box(0, 0, 90, 90)]
    assert data.label_names == ["cat"]
    (folder / "y.xml").write_text("<annotation>\n<object>\n</annotation>")
    with pytest.raises(DataFormatError, match=r"y\.xml, line 3: expected XML"):
        load_voc(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<xmax>50</xmax>", "\n<xmax>wide</xmax>", "line 3, object[1]/bndbox/xmax: expected a number, got 'wide'"),
        ("<xmax>50</xmax>", "<xmax/>", "line 2, object[1]/bndbox/xmax: expected a number, got ''"),
        ("<xmax>50</xmax>", "", "line 2, object[1]/bndbox: expected an element xmax, got 'xmin, ymin, ymax'"),
        (
            "<ymax>90</ymax>",
            "<ymax>0</ymax>",
            "line 3, object[2]/bndbox: expected finite numbers with xmin <= xmax and ymin <= ymax, "
            "got 'xmin 1, ymin 1, xmax 90, ymax 0'",
        ),
        ("<ymax>90</ymax>", "<ymax>nan</ymax>", "line 3, object[2]/bndbox: expected finite numbers"),
        (
            "</annotation>",
            "<object>\n<name>owl</name></object></annotation>",
            "line 4, object[3]: expected an element bndbox, got 'name'",
        ),
    ],
)
def test_malformed_voc(tmp_path, old, new, message):
    folder = tmp_path / "Annotations"
    folder.mkdir()
    text = VOC.format(name="x", xmax=50)
    assert old in text
    (folder / "x.xml").write_text(text.replace(old, new))
    with pytest.raises(DataFormatError) as error:
        load_voc(tmp_path)
    assert f"x.xml, {message}" in str(error.value)


def test_run_lengths():
    rng = np.random.RandomState(0)
    for _ in range(20):
        mask = np.kron(rng.rand(5, 7) < 0.5, np.ones((rng.randint(1, 40), 9))).astype(bool)
        counts = runs_of(mask)
        np.testing.assert_array_equal(RunLengthMask(tuple(counts), mask.shape).read(), mask)
        np.testing.assert_array_equal(RunLengthMask(pack_counts(counts), mask.shape).read(), mask)
    with pytest.raises(ImageReadError, match="add up to 3"):
        RunLengthMask((1, 2), (2, 2)).read()
    with pytest.raises(ImageReadError, match="middle of a number"):
        RunLengthMask("o", (2, 2)).read()


def test_coco(tmp_path):
    square = [10, 5, 29, 5, 29, 14, 10, 14]
    content = {
        "images": [{"id": i, "file_name": f"{i}.png", "height": 40, "width": 50} for i in (7, 8, 9)],
        "categories": [{"id": 3, "name": "cat"}, {"id": 4, "name": "dog"}],
        "annotations": [
            {"image_id": 7, "category_id": 3, "bbox": [10, 5, 20, 10], "segmentation": [square]},
            {"image_id": 7, "category_id": 4, "bbox": [0, 0, 3, 3], "segmentation": []},
            {"image_id": 8, "category_id": 4, "bbox": [1, 2, 3, 4], "iscrowd": 0,
             "segmentation": {"size": [40, 50], "counts": [42, 4, 36, 4, 36, 4, 1874]}},
            {"image_id": 9, "category_id": 4, "bbox": [1, 2, 3, 4], "iscrowd": 1},
        ],
    }  # fmt: skip
    file = tmp_path / "instances.json"
    file.write_text(json.dumps(content))
    data = load_localization(file)
    assert data.boxes == [Box(5, 10, 15, 30), Box(2, 1, 6, 4)]
    assert [mask_box(mask.read()) for mask in data.masks] == data.boxes
    assert isinstance(data.masks[0], PolygonMask)
    assert load_coco(file, label="dog").boxes[0] == Box(0, 0, 3, 3)
    painted = inpaint(np.zeros((40, 50), dtype=np.uint8), data.masks[1])
    assert (painted[2:6, 1:4] == 255).all()
    file.write_text('{"images": [],\n oops}')
    with pytest.raises(DataFormatError, match=r"instances\.json, line 2: expected JSON"):
        load_coco(file)
    file.write_text("[]")
    with pytest.raises(DataFormatError, match="the lists images, annotations, categories"):
        load_coco(file)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataFormatError, match=r"instances\.json: expected a JSON file in UTF-8"):
        load_coco(file)


def coco_file(folder, part, k, field, value):
    """A file with one wrong field; None leaves the field out."""
    content = {
        "images": [{"id": i, "file_name": f"{i}.png", "height": 40, "width": 50} for i in (7, 8)],
        "categories": [{"id": 3, "name": "cat"}],
        "annotations": [{"image_id": i, "category_id": 3, "bbox": [1, 2, 3, 4], "segmentation": []} for i in (7, 8)],
    }
    if field is None:
        content[part][k] = value
    elif value is None:
        del content[part][k][field]
    else:
        content[part][k][field] = value
    path = folder / "instances.json"
    path.write_text(json.dumps(content))
    return path


RUNS = {"size": [40, 50], "counts": [2000]}


@pytest.mark.parametrize(
    ("part", "field", "value", "message"),
    [
        ("images", None, 5, "images[1]: expected an object, got '5'"),
        ("images", "id", None, "images[1].id: expected an id, got 'nothing'"),
        ("images", "id", 7, "images[1].id: expected an id that no other record has, got '7'"),
        ("images", "file_name", 3, "images[1].file_name: expected the name of a file, got '3'"),
        ("images", "height", 0, "images[1].height: expected a positive whole number, got '0'"),
        ("images", "width", "50", "images[1].width: expected a positive whole number, got '\"50\"'"),
        ("annotations", "image_id", 99, "annotations[1].image_id: expected one of the 2 ids of the file's images, got '99'"),
        ("annotations", "image_id", [1], "annotations[1].image_id: expected an id, got '[1]'"),
        ("annotations", "category_id", None, "annotations[1].category_id: expected an id, got 'nothing'"),
        ("annotations", "category_id", 4, "annotations[1].category_id: expected one of the 1 ids of the file's categories"),
        ("annotations", "bbox", [1, 2, 3], "annotations[1].bbox: expected [x, y, width, height], numbers"),
        ("annotations", "bbox", [1, 2, 0, 4], "annotations[1].bbox: expected [x, y, width, height], numbers"),
        ("annotations", "bbox", [1, 2, float("nan"), 4], "annotations[1].bbox: expected [x, y, width, height], numbers"),
        ("annotations", "segmentation", [[1, 2, 3, 4]], "annotations[1].segmentation: expected polygons"),
        ("annotations", "segmentation", 7, "annotations[1].segmentation: expected polygons"),
        ("annotations", "segmentation", {**RUNS, "size": [50, 40]}, "annotations[1].segmentation.size: expected [40, 50]"),
        ("annotations", "segmentation", {**RUNS, "counts": [-1]}, "annotations[1].segmentation.counts: expected a list of run"),
        ("annotations", "segmentation", {"size": [40, 50]}, "annotations[1].segmentation.counts: expected a list of run"),
    ],
)  # fmt: skip
def test_malformed_coco(tmp_path, part, field, value, message):
    path = coco_file(tmp_path, part, 1, field, value)
    with pytest.raises(DataFormatError) as error:
        load_coco(path)
    assert f"instances.json, {message}" in str(error.value)


def test_pets(tmp_path):
    save(IMAGES[0], tmp_path / "images" / "Big_cat_1.jpg")
    trimap = np.full(MASKS[0].shape, 2, dtype=np.uint8)
    trimap[MASKS[0]] = 3
    trimap[BOXES[0].top + 2 : BOXES[0].bottom - 2, BOXES[0].left + 2 : BOXES[0].right - 2] = 1
    save(trimap, tmp_path / "annotations" / "trimaps" / "Big_cat_1.png")
    listing = tmp_path / "annotations" / "list.txt"
    listing.write_text("# Image CLASS-ID SPECIES BREED-ID\nBig_cat_1 1 1 1\nGone_2 2 2 1\n")
    data = load_localization(tmp_path)
    assert data.boxes == [BOXES[0]]
    assert data.label_names == ["Big_cat"]
    listing.write_text("# head\nBig_cat_1 one 1 1\n")
    with pytest.raises(DataFormatError, match=r"list\.txt, line 2: expected <image>"):
        load_oxford_pets(tmp_path)


def test_caltech_folders_and_unknown_layouts(tmp_path):
    save(IMAGES[0], tmp_path / "101_ObjectCategories" / "ant" / "1.jpg")
    save(IMAGES[1], tmp_path / "101_ObjectCategories" / "bee" / "1.jpg")
    data = load_caltech101(tmp_path)
    assert data.labels.tolist() == [0, 1]
    assert data.label_names == ["ant", "bee"]
    with pytest.raises(DataFormatError, match=r"expected a \.csv file"):
        load_localization(tmp_path)
    with pytest.raises(DataFormatError, match="no such file"):
        load_localization(tmp_path / "none.csv")
    with pytest.raises(ValueError, match="format must be"):
        load_localization(tmp_path, format="yolo")
    with pytest.raises(DataFormatError, match="found none"):
        load_caltech101(tmp_path / "101_ObjectCategories" / "ant")


@pytest.mark.data
def test_original_cub(research_data):
    data = load_cub(research_data / "cub_200_2011")
    assert len(data.images) == 601
    assert data.attributes.sum() > 0
    found = [mask_box(read_mask(m)).iou(b) for m, b in zip(data.masks[:40], data.boxes[:40])]
    assert np.mean(found) > 0.85
