"""Readers of CUB and Caltech101 on generated folders, and the converter from CUB to COCO."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from vision_data import pictures

from experiments.data_images import cub_to_coco, load_caltech101, load_cub
from lupi.datasets import DataFormatError, load_localization
from lupi.vision import mask_box, read_mask

IMAGES, BOXES, MASKS = pictures(3)


def save(array, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)


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
    data = load_cub(cub)
    assert data.boxes == BOXES
    assert [Path(p).name for p in data.images] == ["a.jpg", "b.jpg", "c.jpg"]
    assert data.labels.tolist() == [0, 0, 1]
    assert data.train.tolist() == [True, False, True]
    assert np.argwhere(data.attributes == 1).tolist() == [[0, 1], [0, 311], [2, 0]]
    assert np.argwhere(data.attributes == 0).tolist() == [[2, 1]]
    # Attributes that the file does not mention are unknown.
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


def test_cub_to_coco(cub):
    (cub / "segmentations/002.Tern/c.png").unlink()
    cub_to_coco(cub, cub / "cub.json")
    birds, coco = load_cub(cub), load_localization(cub / "cub.json")
    assert (coco.images, coco.boxes, coco.label_names) == (birds.images, birds.boxes, birds.label_names)
    np.testing.assert_array_equal(coco.labels, birds.labels)
    for mask, other in zip(coco.masks[:2], birds.masks):
        np.testing.assert_array_equal(read_mask(mask), read_mask(other))
    assert coco.masks[2] is None


@pytest.mark.parametrize(
    ("file", "line", "expected"),
    [
        ("images.txt", "5", "<image_id> <image_name>"),
        ("images.txt", "5 ../../a.jpg", "a file inside the folder"),
        ("bounding_boxes.txt", "5 1 2 three 4", "<image_id> <x> <y> <width> <height>"),
        ("bounding_boxes.txt", "5 1 2 0 4", "<image_id> <x> <y> <width> <height>"),
        ("train_test_split.txt", "5 2", "<image_id> <0 or 1>"),
        ("train_test_split.txt", "1 1", "a unique id"),
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
    assert Path(file).name in message
    assert expected in message
    assert repr(line.split()[-1] if "inside" in expected else line) in message
    assert "inside" in expected or f", line {count + 1}: expected" in message


def test_class_ids_without_a_name(cub):
    (cub / "image_class_labels.txt").write_text("1 7\n2 1\n3 1\n")
    with pytest.raises(DataFormatError, match=r"expected class ids of classes\.txt, got 7 for image 1"):
        load_cub(cub)


@pytest.mark.parametrize(
    "arrays",
    [
        {"image_id": [1]},
        {"image_id": [1, 2], "is_present": np.ones((1, 312), dtype=int)},
        {"image_id": [1], "is_present": np.full((1, 312), 2)},
        {"image_id": ["a"], "is_present": np.ones((1, 312), dtype=int)},
        {"image_id": np.array([None]), "is_present": np.ones((1, 312), dtype=int)},
    ],
)
def test_malformed_arrays_of_attributes(cub, arrays):
    (cub / "attributes" / "image_attribute_labels.txt").unlink()
    np.savez(cub / "attributes" / "a.npz", **arrays)
    with pytest.raises(DataFormatError, match=r"a\.npz: expected arrays of integers image_id"):
        load_cub(cub)


def test_caltech_folders(tmp_path):
    save(IMAGES[0], tmp_path / "101_ObjectCategories" / "ant" / "1.jpg")
    save(IMAGES[1], tmp_path / "101_ObjectCategories" / "bee" / "1.jpg")
    data = load_caltech101(tmp_path)
    assert data.labels.tolist() == [0, 1]
    assert data.label_names == ["ant", "bee"]
    with pytest.raises(DataFormatError, match="found none"):
        load_caltech101(tmp_path / "101_ObjectCategories" / "ant")


@pytest.mark.data
def test_original_cub(research_data):
    data = load_cub(research_data / "cub_200_2011")
    assert len(data.images) == 601
    assert data.attributes.sum() > 0
    found = [mask_box(read_mask(m)).iou(b) for m, b in zip(data.masks[:40], data.boxes[:40])]
    assert np.mean(found) > 0.85
