"""Masks in every coding, run lengths without limit of time, and pictures that claim more pixels than there is memory."""

import numpy as np
import pytest
from attack.run_lengths import slow_counts
from PIL import Image

from lupi.vision import Box, ImageReadError, attribute_words, read_image, read_mask
from lupi.vision.images import PolygonMask, RunLengthMask, unpack_counts

OBJECT = np.zeros((6, 8), dtype=bool)
OBJECT[1:4, 2:7] = True
BORDER = np.zeros_like(OBJECT)
BORDER[1, 2:7] = True
TRIMAP = np.where(OBJECT, np.where(BORDER, 3, 1), 2)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int32, np.int64])
@pytest.mark.parametrize(
    "values", [OBJECT * 1, OBJECT * 255, TRIMAP, OBJECT * 3 + ~OBJECT * 2], ids=["01", "0255", "trimap", "border"]
)
def test_the_coding_is_found_out(tmp_path, kind, values):
    if values.max() == 255:
        # Full scale of that type: 16 bits, and integers that hold them.
        values = values * (1 if kind == np.uint8 else 257)
    pixels = values.astype(kind)
    np.testing.assert_array_equal(read_mask(pixels), OBJECT)
    if kind != np.int64:
        Image.fromarray(pixels).save(tmp_path / "mask.png" if kind != np.int32 else tmp_path / "mask.tif")
        np.testing.assert_array_equal(read_mask(next(tmp_path.iterdir())), OBJECT)


@pytest.mark.parametrize("mode", ["1", "RGB", "RGBA", "P"])
def test_the_coding_in_other_modes(tmp_path, mode):
    Image.fromarray(OBJECT * np.uint8(255)).convert(mode).save(tmp_path / "mask.png")
    np.testing.assert_array_equal(read_mask(tmp_path / "mask.png"), OBJECT)
    if mode.startswith("RGB"):
        Image.fromarray(OBJECT * np.uint8(1)).convert(mode).save(tmp_path / "mask.png")
        np.testing.assert_array_equal(read_mask(tmp_path / "mask.png"), OBJECT)


@pytest.mark.parametrize("value", [0, 2, 100])
def test_an_empty_mask_warns(tmp_path, value):
    Image.new("L", (8, 6), value).save(tmp_path / "mask.png")
    with pytest.warns(UserWarning, match=rf"mask\.png is empty.*values range from {value} to {value}"):
        assert not read_mask(tmp_path / "mask.png").any()


def test_annotators_that_agree_in_part_keep_their_threshold():
    gray = np.array([[0, 51, 102, 153, 204, 255]], dtype=np.uint8)
    np.testing.assert_array_equal(read_mask(gray), [[False] * 3 + [True] * 3])


def test_run_lengths_letter_by_letter():
    rng = np.random.RandomState(0)
    for size in [0, 1, 2, 3, 4, 5, *rng.randint(6, 400, 50)]:
        bits = rng.randint(0, 64, size)
        bits[3::4] &= 0x1F
        bits[-1:] &= 0x1F
        text = "".join(chr(48 + b) for b in bits)
        assert unpack_counts(text) == slow_counts(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("o" * 2_000_000, "middle of a number"),
        ("o" * 2_000_000 + "0", "2000001 letters"),
        ("nooooooO" * 250_000, "larger than any image|negative|letters|add up"),
        ("1" * 2_000_000, "add up to"),
        ("1\0", "letter '\\\\x00'"),
        ("1é", "letter 'é'"),
        ("1\ud800", "letter"),
    ],
)
def test_run_lengths_of_two_megabytes_end(text, message):
    with pytest.raises(ImageReadError, match=message):
        RunLengthMask(text, (40, 50)).read()


@pytest.mark.parametrize(
    "mask",
    [
        RunLengthMask((10**18,), (10**9, 10**9)),
        RunLengthMask("0", (10**9, 10**9)),
        PolygonMask(((1, 1, 3, 1, 3, 3),), (10**9, 10**9)),
        PolygonMask(((1, 1, 1e300, 1, 3, 3),), (9, 9)),
        PolygonMask(((1, 1, float("nan"), 1, 3, 3),), (9, 9)),
        PolygonMask(((1.0,) * 300_000,), (9000, 9)),
    ],
)
def test_masks_that_claim_too_much(mask):
    with pytest.raises(ImageReadError, match=r"limit of|far outside|too many"):
        mask.read()


@pytest.mark.parametrize("factor", [1.5, 3])
def test_pictures_that_claim_too_much(tmp_path, monkeypatch, factor):
    Image.new("L", (30, 10)).save(tmp_path / "bomb.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", int(300 / factor))
    for read in (read_image, read_mask):
        with pytest.raises(
            ImageReadError, match=r"bomb\.png.*(raise PIL\.Image\.MAX_IMAGE_PIXELS|exceeds limit of 200 pixels)"
        ):
            read(tmp_path / "bomb.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    assert read_image(tmp_path / "bomb.png").shape == (10, 30)


def test_attributes_that_are_not_known_have_no_point():
    box = Box(1, 1, 5, 5)
    np.testing.assert_array_equal(attribute_words([np.nan, 1, 0], box, (9, 9)).words, [1])
    assert len(attribute_words([np.nan] * 3, box, (9, 9)).words) == 0
    with pytest.raises(ValueError, match="of 0, 1 and NaN"):
        attribute_words([0.5, 1], box, (9, 9))
