"""Untrusted annotations: no file outside of the folder is read, memory is bounded, every error is a DataFormatError."""

import json

import pytest

from lupi.datasets import DataFormatError, load_boxes_csv, load_coco, load_localization, load_voc
from lupi.vision import Box

HEADER = "image,top,left,bottom,right,mask\n"
VOC = """<annotation><filename>{name}</filename><size><width>50</width><height>40</height></size>
<object><name>dog</name><bndbox><xmin>11</xmin><ymin>21</ymin><xmax>{xmax}</xmax><ymax>30</ymax></bndbox></object></annotation>"""


def csv_folder(root, name="a.png", mask="", box="1,2,3,4"):
    path = root / "boxes.csv"
    path.write_text(f'{HEADER}"{name}",{box},"{mask}"\n')
    return path


def coco_folder(root, name="a.png", **fields):
    image = {"id": 1, "file_name": name, "height": 40, "width": 50}
    annotation = {"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]}
    for key, value in fields.items():
        (image if key in image else annotation)[key] = value
    path = root / "instances.json"
    content = {"images": [image], "annotations": [annotation], "categories": [{"id": 1, "name": "cat"}]}
    path.write_text(json.dumps(content))
    return path


def voc_folder(root, name="a.jpg", xmax="20"):
    (root / "Annotations").mkdir(exist_ok=True)
    (root / "Annotations" / "a.xml").write_text(VOC.format(name=name, xmax=xmax))
    return root


FOLDERS = {"csv": csv_folder, "coco": coco_folder, "voc": voc_folder}


@pytest.mark.parametrize("make", FOLDERS.values(), ids=FOLDERS)
@pytest.mark.parametrize("name", ["../../elsewhere.jpg", "/etc/elsewhere.jpg", "link/elsewhere.jpg"])
def test_files_outside_of_the_folder_are_refused(tmp_path, make, name):
    root = tmp_path / "data"
    root.mkdir()
    if name.startswith("link"):
        name = "../link/elsewhere.jpg" if make is voc_folder else name
        (root / "link").symlink_to(tmp_path)
    path = make(root, name)
    with pytest.raises(
        DataFormatError, match=r"expected a file inside the folder .*follow_links=True or --follow-links reads others"
    ) as error:
        load_localization(path)
    assert path.name in str(error.value)


def test_files_elsewhere_are_read_on_demand(tmp_path):
    (tmp_path / "data").mkdir()
    path = csv_folder(tmp_path / "data", "../a.png", "/b.png")
    found = load_localization(path, follow_links=True)
    assert found.images == [str(tmp_path / "data" / ".." / "a.png")]
    assert found.masks == ["/b.png"]
    assert load_coco(coco_folder(tmp_path / "data", "../a.png"), follow_links=True).boxes == [Box(2, 1, 6, 4)]
    with pytest.raises(DataFormatError, match="line 2, mask: expected a file inside"):
        load_boxes_csv(csv_folder(tmp_path / "data", "a.png", "../b.png"))


def test_dots_that_stay_inside_are_welcome(tmp_path):
    path = csv_folder(tmp_path, "x/../a.png", str(tmp_path / "m.png"))
    assert load_boxes_csv(path).masks == [str(tmp_path / "m.png")]


@pytest.mark.parametrize("name", ["a\0b.png", "x" * 5000, "\ud800.png"])
def test_names_that_no_disk_has(tmp_path, name):
    with pytest.raises(DataFormatError, match=r"images\[0\]\.file_name: expected the name of a file"):
        load_coco(coco_folder(tmp_path, name))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"bbox": [1, 2, 10**400, 4]}, "annotations[0].bbox: expected [x, y, width, height]"),
        ({"bbox": [60, 2, 3, 4]}, "inside the image of 40 x 50 pixels"),
        ({"height": 10**9, "width": 10**9}, "images[0].height: expected a size that can be read"),
        ({"segmentation": [[1, 1, 10**400, 1, 5, 5]]}, "annotations[0].segmentation: expected polygons"),
        ({"segmentation": [[1, 1, 1e9, 1, 5, 5]]}, "annotations[0].segmentation: expected a mask that fits its image"),
        (
            {"segmentation": {"size": [40, 50], "counts": [10**400]}},
            "annotations[0].segmentation.counts: expected a list of run lengths",
        ),
        ({"segmentation": {"size": [40, 50], "counts": "o" * 2_000_000}}, "middle of a number"),
        ({"segmentation": {"size": [40, 50], "counts": "o" * 2_000_000 + "0"}}, "larger than any image"),
        (
            {"segmentation": {"size": [40, 50], "counts": [1999]}},
            "run lengths add up to 1999, but the mask has 2000 pixels",
        ),
    ],
)
def test_numbers_that_no_image_has(tmp_path, fields, message):
    with pytest.raises(DataFormatError) as error:
        load_coco(coco_folder(tmp_path, **fields))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "recursion"),
        ('{"images": [' + "1" * 5000 + "]}", "integer string conversion"),
    ],
)
def test_json_that_python_refuses(tmp_path, text, message):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(DataFormatError, match=message):
        load_coco(path)
    with pytest.raises(DataFormatError, match="cannot be read"):
        load_coco(tmp_path)


def test_a_field_without_end_and_an_open_quotation_mark(tmp_path):
    path = tmp_path / "boxes.csv"
    for line in ("x" * 200_000 + ",1,2,3,4,", '"a.png,1,2,3,4,', '"a.png"b,1,2,3,4,'):
        path.write_text(HEADER + line + "\n")
        with pytest.raises(DataFormatError, match="line 2: expected values separated by commas"):
            load_boxes_csv(path)


def test_lines_are_counted_as_editors_do(tmp_path):
    path = tmp_path / "boxes.csv"
    path.write_text(HEADER + "a\u2028b.png,1,2,3,4,\nc.png,1,2,3,x,\n")
    with pytest.raises(DataFormatError, match="line 3: expected numbers"):
        load_boxes_csv(path)


@pytest.mark.parametrize("number", ["1e400", "9" * 400, "1e30"])
def test_boxes_of_any_size_in_text(tmp_path, number):
    with pytest.raises(DataFormatError, match="line 2: expected numbers"):
        load_boxes_csv(csv_folder(tmp_path, box=f"1,2,3,{number}"))
    with pytest.raises(DataFormatError, match=r"line 2, object\[1\]/bndbox: expected finite numbers"):
        load_voc(voc_folder(tmp_path, xmax=number))


def test_boxes_are_cut_to_the_image_that_the_file_describes(tmp_path):
    assert load_voc(voc_folder(tmp_path, xmax="70")).boxes == [Box(20, 10, 30, 50)]
    assert load_coco(coco_folder(tmp_path, bbox=[-5, 30, 20, 20])).boxes == [Box(30, 0, 40, 15)]
    assert load_boxes_csv(csv_folder(tmp_path, box="-2,-1,3,4")).boxes == [Box(0, 0, 3, 4)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('<?xml version="1.0" encoding="klingon"?><annotation/>', "klingon"),
        ('<?xml version="1.0" encoding="utf-7"?><annotation/>', "a.xml"),
        (
            '<!DOCTYPE a [<!ENTITY x "xx">\n<!ENTITY y "&x;&x;">]><annotation>&y;</annotation>',
            "without entity declarations",
        ),
    ],
)
def test_xml_that_is_no_voc(tmp_path, text, message):
    voc_folder(tmp_path)
    (tmp_path / "Annotations" / "a.xml").write_text(text)
    with pytest.raises(DataFormatError, match=message):
        load_voc(tmp_path)


def test_numbers_as_only_python_writes_them(tmp_path):
    with pytest.raises(DataFormatError, match="line 2: expected numbers"):
        load_boxes_csv(csv_folder(tmp_path, box="1,2,3,1_0"))
    with pytest.raises(DataFormatError, match="expected a number, got '2_0'"):
        load_voc(voc_folder(tmp_path, xmax="2_0"))
