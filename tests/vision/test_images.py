"""Reading images and masks of every kind, and naming those that cannot be read."""

import numpy as np
import pytest
from PIL import Image
from vision_data import picture

from lupi.vision import ImageReadError, Inpainted, inpaint, mask_box, read_image, read_mask
from lupi.vision.images import source_digest, to_gray
from lupi.vision.words import describe

RGB = picture(0)[0]


@pytest.mark.parametrize(
    ("name", "mode", "expected"),
    [
        ("gray.png", "L", 2),
        ("rgb.png", "RGB", 3),
        ("rgba.png", "RGBA", 3),
        ("palette.gif", "P", 3),
        ("cmyk.jpg", "CMYK", 3),
    ],
)
def test_modes(tmp_path, name, mode, expected):
    path = tmp_path / name
    Image.fromarray(RGB).convert(mode).save(path)
    image = read_image(path)
    assert image.dtype == np.uint8
    assert image.ndim == expected
    # A palette of 256 colors and JPEG change values a little; the picture stays the same.
    assert np.abs(to_gray(image).astype(int) - to_gray(RGB)).mean() < 12
    if mode in ("L", "RGB", "RGBA"):
        np.testing.assert_array_equal(to_gray(image), to_gray(RGB))


def test_gray_is_the_rounded_luma():
    rgb = np.random.RandomState(0).randint(0, 256, (50, 60, 3), dtype=np.uint8)
    exact = rgb @ np.array([0.299, 0.587, 0.114])
    # Weights in units of 2**-16 sum to 1; a value within their error of one half may be rounded either way.
    assert np.abs(to_gray(rgb) - exact).max() <= 0.5 + 256 * 3 * 2.0**-17
    assert to_gray(np.full((1, 1, 3), 255, dtype=np.uint8))[0, 0] == 255


def test_sixteen_bits_and_transparency(tmp_path):
    deep = np.arange(0, 65536, 257, dtype=np.uint16).reshape(16, 16)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    np.testing.assert_array_equal(read_image(tmp_path / "deep.png"), np.arange(256).reshape(16, 16))
    clear = np.zeros((2, 2, 4), dtype=np.uint8)
    clear[0, 0] = 10, 20, 30, 255
    Image.fromarray(clear).save(tmp_path / "clear.png")
    found = read_image(tmp_path / "clear.png")
    assert found[0, 0].tolist() == [10, 20, 30]
    assert (found[1] == 255).all()


def test_arrays():
    np.testing.assert_array_equal(read_image(np.array([[0.0, 0.5, 1.0]])), [[0, 128, 255]])
    np.testing.assert_array_equal(read_image(np.array([[True, False]])), [[255, 0]])
    for bad in (np.zeros(3), np.zeros((2, 2, 7)), np.zeros((0, 4)), np.array([[np.nan]])):
        with pytest.raises(ImageReadError):
            read_image(bad)
    with pytest.raises(ImageReadError, match="got int"):
        read_image(3)


def test_unreadable_files_are_named(tmp_path):
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"\xff\xd8\xff\xe0 nothing that follows")
    cut = tmp_path / "cut.png"
    Image.fromarray(RGB).save(cut)
    cut.write_bytes(cut.read_bytes()[:900])
    empty = tmp_path / "empty.png"
    empty.touch()
    for path in (broken, cut, empty, tmp_path / "missing.png"):
        with pytest.raises(ImageReadError, match=path.name):
            read_image(path)
    with pytest.raises(ImageReadError, match=r"missing\.png"):
        source_digest(tmp_path / "missing.png")


@pytest.mark.parametrize("detector", ["surf", "dense", "surf+dense", "sift"])
@pytest.mark.parametrize("shape", [(1, 1), (5, 90), (96, 128), (60, 2300)])
def test_points_lie_inside_images_of_any_size(detector, shape):
    image = np.random.RandomState(0).randint(0, 255, shape, dtype=np.uint8)
    points = describe(image, detector, max_size=256)
    assert points.shape == shape
    assert points.descriptors.shape == (len(points.rows), 128 if detector == "sift" else 64)
    assert np.isfinite(points.descriptors).all()
    for positions, size in zip((points.rows, points.cols), shape):
        assert (positions >= 0).all()
        assert (positions < size).all()
    if detector == "dense":
        # One point in every cell of the grid, up to the border, also after shrinking.
        factor = min(1.0, 256 / max(shape))
        assert len(points.rows) == np.prod([max(0, (round(s * factor) + 3) // 8) for s in shape])
        assert points.cols.max(initial=shape[1]) >= shape[1] - 1 - 12 / factor


def test_sift_finds_the_strongest_points_again_after_a_turn():
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 255, (24, 20)).repeat(6, axis=0).repeat(6, axis=1).astype(np.uint8)
    every = describe(coarse, "sift")
    few, turned = (describe(image, "sift", max_points=40) for image in (coarse, np.rot90(coarse)))
    assert len(few.rows) == len(turned.rows) == 40 < len(every.rows)
    distances = ((few.descriptors[:, None] - turned.descriptors[None]) ** 2).sum(axis=2)
    nearest = distances.argmin(axis=1)
    positions = np.column_stack([coarse.shape[1] - 1 - few.cols, few.rows])  # where np.rot90 puts them
    found = np.column_stack([turned.rows, turned.cols])[nearest]
    assert (np.abs(found - positions).max(axis=1) <= 2).mean() > 0.8


def test_sift_has_the_layout_of_opencv():
    cv2 = pytest.importorskip("cv2")
    rng = np.random.default_rng(1)
    coarse = rng.integers(0, 255, (12, 10)).repeat(9, axis=0).repeat(9, axis=1).astype(np.uint8)
    ours = describe(coarse, "sift")
    keypoints, theirs = cv2.SIFT_create().detectAndCompute(coarse, None)
    places = np.array([point.pt[::-1] for point in keypoints])
    unit = [d / np.linalg.norm(d, axis=1, keepdims=True) for d in (ours.descriptors, theirs)]
    near = np.hypot(*(np.column_stack([ours.rows, ours.cols])[:, None] - places[None]).T).T < 1.5
    best = np.where(near, unit[0] @ unit[1].T, 0.0).max(axis=1)[near.any(axis=1)]
    assert np.median(best) > 0.9


def test_inpainting_keeps_the_background(tmp_path):
    image, box, mask = picture(3)
    Image.fromarray(image).save(tmp_path / "a.png")
    Image.fromarray(mask * np.uint8(204)).save(tmp_path / "mask.png")
    source = Inpainted(tmp_path / "a.png", tmp_path / "mask.png", value=200)
    painted = source.read()
    assert (painted[mask] == 200).all()
    np.testing.assert_array_equal(painted[~mask], image[~mask])
    np.testing.assert_array_equal(painted, inpaint(image, mask, 200))
    assert source.digest() != Inpainted(tmp_path / "a.png", tmp_path / "mask.png").digest()
    assert mask_box(read_mask(tmp_path / "mask.png")) == box
    assert mask_box(np.zeros((3, 3), dtype=bool)) is None
    with pytest.raises(ImageReadError, match="its image has shape"):
        inpaint(image, mask[1:])
    with pytest.raises(ValueError, match="`value` must be between"):
        inpaint(image, mask, 300)
