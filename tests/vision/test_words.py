"""Bags of visual words: vocabulary, cache, failures, resuming, privileged words."""

import numpy as np
import pytest
from PIL import Image
from vision_data import pictures

from lupi import run
from lupi.vision import (
    BagOfVisualWords,
    Box,
    ImageReadError,
    Inpainted,
    WordImage,
    attribute_words,
    join_words,
    word_histograms,
)
from lupi.vision import words as module
from lupi.vision.words import dense_scale, describe

IMAGES, BOXES, MASKS = pictures(4)


def same(a, b):
    return all(np.array_equal(getattr(a, k), getattr(b, k)) for k in ("rows", "cols", "words")) and a.shape == b.shape


@pytest.mark.parametrize("detector", ["surf", "dense", "surf+dense", "sift"])
def test_words_are_the_nearest_centers(detector):
    bag = BagOfVisualWords(8, detector, random_state=0).fit(IMAGES)
    assert bag.vocabulary_.shape == (8, 128 if detector == "sift" else 64)
    words = bag.transform(IMAGES)
    for image, found in zip(IMAGES, words):
        points = describe(image, detector)
        distances = ((points.descriptors[:, None, :] - bag.vocabulary_[None]) ** 2).sum(axis=2)
        np.testing.assert_array_equal(found.words, distances.argmin(axis=1))
        assert found.shape == image.shape[:2]


def test_workers_and_cache_change_nothing(tmp_path):
    plain = BagOfVisualWords(12, "dense", random_state=1).fit(IMAGES)
    cached = BagOfVisualWords(12, "dense", random_state=1, n_jobs=2, cache=tmp_path).fit(IMAGES)
    np.testing.assert_array_equal(plain.vocabulary_, cached.vocabulary_)
    for _ in range(2):
        assert all(map(same, plain.transform(IMAGES), cached.transform(IMAGES)))
    other = BagOfVisualWords(12, "dense", random_state=2, cache=tmp_path).fit(IMAGES)
    assert not np.array_equal(plain.vocabulary_, other.vocabulary_)


def test_second_run_describes_nothing(tmp_path, monkeypatch):
    options = {"n_words": 10, "detector": "surf", "random_state": 0, "cache": tmp_path / "cache"}
    paths = [tmp_path / f"{i}.png" for i in range(4)]
    for image, path in zip(IMAGES, paths):
        Image.fromarray(image).save(path)
    first = BagOfVisualWords(**options).fit(paths)
    words = first.transform(paths)

    def never(*args, **kwargs):
        raise AssertionError("described again")

    monkeypatch.setattr(module, "describe", never)
    monkeypatch.setattr(BagOfVisualWords, "_cluster", never)
    second = BagOfVisualWords(**options).fit(paths)
    np.testing.assert_array_equal(first.vocabulary_, second.vocabulary_)
    assert first.n_descriptors_ == second.n_descriptors_
    assert all(map(same, words, second.transform(paths)))
    # The key is the content: a copy elsewhere is known, a changed pixel or parameter is not.
    moved = tmp_path / "moved.png"
    moved.write_bytes(paths[0].read_bytes())
    assert same(second.transform([moved])[0], words[0])
    changed = IMAGES[0].copy()
    changed[0, 0] += 1
    Image.fromarray(changed).save(moved)
    with pytest.raises(AssertionError, match="described again"):
        second.transform([moved])
    with pytest.raises(AssertionError, match="described again"):
        BagOfVisualWords(**options, threshold=0.2).fit(paths)


def test_unreadable_images_are_all_named_or_skipped(tmp_path):
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"no picture")
    mixed = [IMAGES[0], bad, IMAGES[1], tmp_path / "gone.png", Inpainted(IMAGES[2], MASKS[2][1:])]
    with pytest.raises(ImageReadError, match=r"(?s)3 of 5 .*bad\.jpg.*gone\.png.*its image has"):
        BagOfVisualWords(6, "dense").fit(mixed)
    bag = BagOfVisualWords(6, "dense", on_error="skip", random_state=0, cache=tmp_path / "cache")
    for _ in range(2):  # a cached vocabulary would hide the warning
        with pytest.warns(UserWarning, match=r"(?s)bad\.jpg.*skipped"):
            bag.fit(mixed)
    with pytest.warns(UserWarning, match=r"(?s)bad\.jpg.*skipped"):
        words = bag.transform(mixed)
    assert [w is None for w in words] == [False, True, False, True, True]


def test_workers_start_only_for_what_is_missing(tmp_path, monkeypatch):
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"no picture")
    options = {"n_words": 6, "detector": "dense", "on_error": "skip", "random_state": 0, "cache": tmp_path / "cache"}
    bag = BagOfVisualWords(**options, n_jobs=2).fit(IMAGES[:3])
    first = bag.transform(IMAGES[:3])
    asked = []

    class Counted(run.Parallel):
        def __call__(self, jobs):
            jobs = list(jobs)
            asked.append((self.n_jobs, len(jobs)))
            return super().__call__(jobs)

    monkeypatch.setattr(run, "Parallel", Counted)
    BagOfVisualWords(**options, n_jobs=2).fit(IMAGES[:3])
    assert all(map(same, bag.transform(IMAGES[:3]), first))
    assert asked == []
    with pytest.warns(UserWarning, match=r"(?s)2 of 5 .*bad\.jpg.*gone\.jpg"):
        mixed = bag.transform([IMAGES[2], bad, IMAGES[3], tmp_path / "gone.jpg", IMAGES[0]])
    # The missing file is found out while looking; the damaged one and the new one are work for two workers.
    assert asked == [(2, 2)]
    assert [w is None for w in mixed] == [False, True, False, True, False]
    assert same(mixed[0], first[2])
    assert same(mixed[4], first[0])
    assert same(mixed[2], BagOfVisualWords(**{**options, "cache": None}).fit(IMAGES[:3]).transform(IMAGES[3:])[0])


def test_messages():
    with pytest.raises(ValueError, match="`images` is empty"):
        BagOfVisualWords().fit([])
    with pytest.raises(ValueError, match=r"n_words=3000 is more than the \d+ descriptors of the 4"):
        BagOfVisualWords().fit(IMAGES)
    with pytest.raises(ValueError, match="detector"):
        BagOfVisualWords(detector="orb").fit(IMAGES)


def test_words_of_the_painted_object_differ_inside_only():
    images, boxes, masks = pictures(3, shape=(288, 384))
    sources = [Inpainted(image, mask) for image, mask in zip(images, masks)]
    bag = BagOfVisualWords(20, "dense", random_state=0, spacing=6).fit(images)
    # Samples lie up to 10 scales from a point along each axis of a square that is turned, wavelets reach one scale further.
    reach = int(np.ceil((10 * np.sqrt(2) + 1) * dense_scale(6))) + 1
    for source, a, b, box in zip(sources, bag.transform(images), bag.transform(sources), boxes):
        np.testing.assert_array_equal(a.rows, b.rows)
        depth = np.min([a.rows - box.top, box.bottom - 1 - a.rows, a.cols - box.left, box.right - 1 - a.cols], axis=0)
        np.testing.assert_array_equal(a.words[depth < -reach], b.words[depth < -reach])
        descriptors = [bag._extraction().points(x).descriptors for x in (source.image, source)]
        assert (descriptors[0] != descriptors[1])[depth >= 0].any(axis=1).all()
        # Where a descriptor sees nothing but paint it is zero: one word, and not the word of the stripes that were there.
        paint = depth >= reach
        assert paint.sum() >= 5
        assert not descriptors[1][paint].any()
        assert len(set(b.words[paint])) == 1
        assert (a.words[paint] != b.words[paint]).all()
        # Near the edge the outline of the object stays what it was, so the words there are often the same.
        assert (a.words[depth >= 0] != b.words[depth >= 0]).mean() > 0.5


@pytest.mark.parametrize("spacing", range(2, 17))
def test_dense_descriptors_do_not_see_brightness(spacing):
    gray = np.random.RandomState(0).randint(20, 90, (120, 150), dtype=np.uint8)
    dark, bright = (describe(image, "dense", spacing=spacing).descriptors for image in (gray, gray + np.uint8(120)))
    np.testing.assert_allclose(bright, dark, atol=1e-5)
    assert np.linalg.norm(dark, axis=1).min() > 0.99


def test_histograms_count_and_normalize():
    bag = BagOfVisualWords(12, "dense", random_state=0).fit(IMAGES)
    words = bag.transform(IMAGES)
    counts = word_histograms(words, 12)
    for row, image in zip(counts, words):
        np.testing.assert_array_equal(row, np.bincount(image.words, minlength=12))
    np.testing.assert_allclose(word_histograms(words, 12, norm="l1"), counts / counts.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(word_histograms(words, 12, norm="l2"), counts / np.linalg.norm(counts, axis=1)[:, None])
    inside = word_histograms(words, 12, boxes=BOXES)
    for row, image, box in zip(inside, words, BOXES):
        np.testing.assert_array_equal(row, image.histogram(box, 12))
    assert (inside < counts).any(axis=1).all()
    # What is missing says so; an empty box is a row of zeros, not of NaN.
    missing = word_histograms(
        [words[0], None, words[2], words[3]], 12, boxes=[*BOXES[:2], None, (0, 0, 1, 1)], norm="l1"
    )
    assert np.isnan(missing).all(axis=1).tolist() == [False, True, True, False]
    assert not missing[3].any()
    for options, message in (
        ({"norm": "max"}, "`norm` must be None, 'l1' or 'l2', got 'max'"),
        ({"boxes": BOXES[:2]}, "one box for each of the 4 images, got 2"),
        ({"boxes": [*BOXES[:3], (5, 0, 2, 9)]}, r"boxes\[3\] must satisfy top < bottom"),
        ({"n_words": 3}, "n_words=3 is too small: the images use 12 words"),
    ):
        with pytest.raises(ValueError, match=message):
            word_histograms(words, **{"n_words": 12, **options})


def test_attributes_lie_in_the_box_and_join_with_words():
    present = np.random.RandomState(0).randint(0, 2, 312)
    box = Box(10, 20, 40, 90)
    image = attribute_words(present, box, (96, 128))
    np.testing.assert_array_equal(image.histogram(box, 312), present)
    assert image.rows.min() - 10 <= 1
    assert 39 - image.rows.max() <= 1
    assert image.cols.min() - 20 <= 2
    assert 89 - image.cols.max() <= 2
    half = image.histogram(Box(10, 20, 40, 55), 312).sum() / present.sum()
    assert 0.45 < half < 0.55
    words = WordImage([1], [2], [4], (96, 128))
    joined = join_words([image, words], [312, 5])
    assert joined.words[-1] == 316
    assert len(joined) == present.sum() + 1
    with pytest.raises(ValueError, match="different shapes"):
        join_words([image, WordImage([0], [0], [0], (4, 4))], [312, 5])
    with pytest.raises(ValueError, match="uses word 4, but its size is 3"):
        join_words([image, words], [312, 3])
    with pytest.raises(ValueError, match="of 0, 1 and NaN"):
        attribute_words([2], box, (96, 128))
