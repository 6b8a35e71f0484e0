"""Readers of annotated images: CSV, COCO and Pascal VOC, and their messages for malformed files."""

import json

import numpy as np
import pytest
from attack.run_lengths import pack_counts, runs_of

from lupi.datasets import DataFormatError, load_boxes_csv, load_coco, load_localization, load_voc
from lupi.vision import Box, ImageReadError, inpaint, mask_box
from lupi.vision.images import PolygonMask, RunLengthMask


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
        (
            "</annotation>",
            "\n<size><height>-1</height><width>8</width></size></annotation>",
            "line 5, size/height: expected a whole number, got '-1'",
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
    with pytest.raises(DataFormatError, match=r"instances\.json: expected JSON \(.*line 2 column"):
        load_coco(file)
    file.write_text("[]")
    with pytest.raises(DataFormatError, match="the lists images, annotations, categories"):
        load_coco(file)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataFormatError, match=r"instances\.json: expected a text file in UTF-8"):
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
        ("images", "id", 7, "images[1].id: expected a unique id, got '7'"),
        ("images", "file_name", 3, "images[1].file_name: expected the name of a file, got '3'"),
        ("images", "height", 0, "images[1].height: expected a positive integer, got '0'"),
        ("images", "width", "50", "images[1].width: expected a positive integer, got \"'50'\""),
        ("annotations", "image_id", 99, "annotations[1].image_id: expected one of the 2 ids of the file's images, got '99'"),
        ("annotations", "image_id", [1], "annotations[1].image_id: expected an id, got '[1]'"),
        ("annotations", "category_id", None, "annotations[1].category_id: expected an id, got 'nothing'"),
        ("annotations", "category_id", 4, "annotations[1].category_id: expected one of the 1 ids of the file's categories"),
        ("annotations", "bbox", [1, 2, 3], "annotations[1].bbox: expected [x, y, width, height] with positive"),
        ("annotations", "bbox", [1, 2, 0, 4], "annotations[1].bbox: expected [x, y, width, height] with positive"),
        ("annotations", "bbox", [1, 2, float("nan"), 4], "annotations[1].bbox: expected [x, y, width, height] with positive"),
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


def test_unknown_formats(tmp_path):
    with pytest.raises(DataFormatError, match=r"expected a \.csv file"):
        load_localization(tmp_path)
    with pytest.raises(DataFormatError, match="no such file"):
        load_localization(tmp_path / "none.csv")
    with pytest.raises(ValueError, match="`format` must be 'auto', 'csv', 'coco' or 'voc', got 'yolo'"):
        load_localization(tmp_path, format="yolo")
