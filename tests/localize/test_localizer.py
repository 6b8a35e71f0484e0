"""Localizer, parameter search and evaluation on generated pictures."""

import warnings
import zipfile

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from vision_data import pictures

import lupi
from lupi.localize import Localizer, evaluate_boxes, paper_grid, search_parameters
from lupi.vision import Box, ImageReadError

IMAGES, BOXES, MASKS = pictures(16)
ATTRIBUTES = np.random.RandomState(0).randint(0, 2, (16, 6))
OPTIONS = {"n_words": 30, "detector": "dense", "spacing": 6, "C": 1.0, "grid_step": 4, "random_state": 0, "tol": 0.05}


@pytest.mark.parametrize("geometry", [False, True])
@pytest.mark.parametrize("method", ["ssvm", "ssvm+", "jkse", "jkse+"])
def test_methods_find_the_object(method, geometry):
    # The kernel search of JKSE is slow on fine grids.
    step = 12 if "jkse" in method else 4
    options = {**OPTIONS, "grid_step": step, "geometry": geometry, "geometry_scale": 2.0}
    localizer = Localizer(method, **options)
    privileged = {"masks": MASKS[:10], "attributes": ATTRIBUTES[:10]} if method.endswith("+") else None
    assert localizer.fit(IMAGES[:10], BOXES[:10], privileged=privileged) is localizer
    assert localizer.model_.dual_gap_ <= 0.05
    # The stripes are easy to tell from the background, so every object is found; words see some pixels beyond an edge, by how
    # many depends on the words that k-means finds. The boxes are much nearer to the true ones of the grid than one box for all.
    on_grid = [Box(*(step * round(edge / step) for edge in box)) for box in BOXES[10:]]
    result = localizer.evaluate(IMAGES[10:], BOXES[10:])
    assert result["detection_rate"] == 1.0
    best, constant = evaluate_boxes(BOXES[10:], on_grid)["mean_overlap"], result["constant_box"]["mean_overlap"]
    assert result["mean_overlap"] > constant + 0.6 * (best - constant)
    if geometry:
        again = clone(localizer).fit(IMAGES[:10], BOXES[:10], privileged=privileged)
        assert again.predict(IMAGES[10:]) == localizer.predict(IMAGES[10:])


def test_privileged_spaces_have_the_papers_sizes():
    localizer = Localizer("ssvm+", **OPTIONS)
    images, boxes, masks, attributes = (each[:6] for each in (IMAGES, BOXES, MASKS, ATTRIBUTES))
    cases = {30: {"masks": masks}, 6: {"attributes": attributes}, 36: {"masks": masks, "attributes": attributes}}
    for size, privileged in cases.items():
        words = localizer.training_words(images, boxes, privileged)
        assert words.n_privileged_words == size
        assert max(z.n_words_used for z in words.Z) <= size
    own = clone(localizer).set_params(privileged_words=12)
    assert own.training_words(images, boxes, {"masks": masks}).n_privileged_words == 12
    # Attributes lie in the box, after the mask words; without a mask an image is its own privileged image.
    words = localizer.training_words(images, boxes, {"masks": [None, *masks[1:]], "attributes": attributes})
    np.testing.assert_array_equal(words.Z[1].histogram(boxes[1], 36)[30:], attributes[1])
    np.testing.assert_array_equal(words.Z[0].words[: len(words.X[0])], words.X[0].words)


def test_plain_method_is_the_method_without_privileged():
    plain = Localizer("ssvm", **OPTIONS).fit(IMAGES[:6], BOXES[:6])
    plus = Localizer("ssvm+", **OPTIONS).fit(IMAGES[:6], BOXES[:6])
    np.testing.assert_array_equal(plain.model_.coef_, plus.model_.coef_)
    used = Localizer("ssvm+", **OPTIONS).fit(IMAGES[:6], BOXES[:6], privileged={"masks": MASKS[:6]})
    assert not np.array_equal(plain.model_.coef_, used.model_.coef_)


def test_geometry_is_in_both_spaces_and_may_be_silent():
    privileged = {"masks": MASKS[:6]}
    placed = Localizer("ssvm+", **OPTIONS, geometry=True, geometry_scale=5.0).fit(IMAGES[:6], BOXES[:6], privileged)
    assert len(placed.model_.coef_) == len(placed.model_.privileged_coef_) == 30 + 9
    assert np.abs(placed.model_.coef_[-9:]).max() > 0
    plain, silent = (
        clone(placed).set_params(**options, tol=1e-6).fit(IMAGES[:6], BOXES[:6], privileged)
        for options in ({"geometry": False}, {"geometry_scale": 0.0})
    )
    assert silent.model_.objective_ == pytest.approx(plain.model_.objective_, rel=2e-6)
    assert not silent.model_.coef_[30:].any()


def test_inference_and_normalization_reach_the_learner():
    options = {**OPTIONS, "C": 10.0, "rho": 3.0, "tol": 0.3}
    with warnings.catch_warnings():
        # The alternation misses planes, so its gap need not close.
        warnings.simplefilter("ignore", ConvergenceWarning)
        exact, other = (
            Localizer("ssvm+", **options, inference=name).fit(IMAGES[:6], BOXES[:6], {"masks": MASKS[:6]})
            for name in ("exact", "alternating")
        )
    assert (exact.model_.inference, other.model_.inference) == ("exact", "alternating")
    assert not np.array_equal(exact.model_.coef_, other.model_.coef_)
    counts, shares = (
        Localizer("jkse+", **{**OPTIONS, "grid_step": 24}, normalize=on).fit(
            IMAGES[:4], BOXES[:4], {"masks": MASKS[:4]}
        )
        for on in (False, True)
    )
    np.testing.assert_allclose(shares.model_.support_features_.sum(axis=1), 1.0)
    assert shares.model_.privileged_normalize
    assert counts.model_.support_features_.sum() > 10


def test_search_over_the_scale_of_the_geometry():
    localizer = Localizer("ssvm", **OPTIONS, geometry=True)
    grid = {"C": [1.0], "geometry_scale": [0.0, 50.0]}
    validation = (IMAGES[10:], BOXES[10:])
    best, table = search_parameters(localizer, IMAGES[:6], BOXES[:6], validation=validation, grid=grid)
    assert [row["params"]["geometry_scale"] for row in table] == [0.0, 50.0]
    assert table[0]["mean_overlap"] != table[1]["mean_overlap"]
    assert best.geometry_scale == max(table, key=lambda row: row["mean_overlap"])["params"]["geometry_scale"]
    for method, scales in (("ssvm+", [5.0, 20.0, 80.0]), ("jkse", [0.5, 2.0, 8.0])):
        assert paper_grid(method, 2, geometry=True)["geometry_scale"] == scales


def test_evaluation_beside_the_constant_box():
    localizer = Localizer("ssvm", **OPTIONS).fit(IMAGES[:6], BOXES[:6])
    result = localizer.evaluate(IMAGES[6:9], BOXES[6:9])["constant_box"]
    size = np.array([*IMAGES[0].shape[:2]] * 2)
    mean = np.mean([np.array(b) / size for b in BOXES[:6]], axis=0) * size
    own = np.array([Box(*mean).iou(b) for b in BOXES[6:9]])
    ahead = np.array([p.iou(b) for p, b in zip(localizer.predict(IMAGES[6:9]), BOXES[6:9])]) - own
    assert result["mean_overlap"] == pytest.approx(own.mean())
    assert result["difference"] == pytest.approx(ahead.mean())
    assert result["standard_error"] == pytest.approx(ahead.std(ddof=1) / np.sqrt(3))
    assert localizer.evaluate(IMAGES[6:7], BOXES[6:7])["constant_box"]["standard_error"] is None


def test_absent_objects_and_boxes_over_the_border():
    empty = [np.full((96, 128), 60, dtype=np.uint8)] * 3
    localizer = Localizer("ssvm", **OPTIONS).fit([*IMAGES[:8], *empty], [*BOXES[:8], None, None, None])
    assert localizer.predict([empty[0], IMAGES[9]])[0] is None
    wide = [Box(-5, b.left, b.bottom, b.right + 500) for b in BOXES[:4]]
    words = Localizer("ssvm", **OPTIONS).training_words(IMAGES[:4], wide)
    assert [y.right for y in words.Y] == [128] * 4
    with pytest.raises(ValueError, match="lies outside of its image"):
        Localizer("ssvm", **OPTIONS).fit(IMAGES[:4], [*BOXES[:3], Box(0, 200, 5, 210)])


@pytest.mark.parametrize(
    ("privileged", "message"),
    [
        ({"parts": []}, "must be a dict with 'masks', 'attributes' or both"),
        ({"masks": MASKS[:3]}, "has 3 rows, but there are 16 images"),
        ({"attributes": np.full((16, 2), 3)}, "must be a binary array"),
    ],
)
def test_messages(privileged, message):
    with pytest.raises(ValueError, match=message):
        Localizer("ssvm+", **OPTIONS).fit(IMAGES, BOXES, privileged=privileged)


def test_unreadable_images(tmp_path):
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"nothing")
    with pytest.raises(ImageReadError, match=r"bad\.png"):
        Localizer("ssvm", **OPTIONS).fit([*IMAGES[:4], bad], [*BOXES[:4], BOXES[0]])
    localizer = Localizer("ssvm", **OPTIONS, on_error="skip")
    with pytest.warns(UserWarning, match=r"bad\.png"):
        localizer.fit([*IMAGES[:4], bad], [*BOXES[:4], BOXES[0]])
    with pytest.warns(UserWarning, match=r"bad\.png"):
        found = localizer.predict([bad, IMAGES[5]])
    assert found[0] is None
    assert isinstance(found[1], Box)


@pytest.mark.parametrize("own", [None, 12])
def test_unreadable_mask_leaves_the_image(tmp_path, own):
    localizer = Localizer("ssvm+", **OPTIONS, on_error="skip", privileged_words=own)
    with pytest.warns(UserWarning, match=r"lost\.png"):
        words = localizer.training_words(IMAGES[:4], BOXES[:4], {"masks": [tmp_path / "lost.png", *MASKS[1:4]]})
    assert len(words.Z) == 4
    np.testing.assert_array_equal(words.Z[0].rows, words.X[0].rows)
    if own is None:
        np.testing.assert_array_equal(words.Z[0].words, words.X[0].words)
        assert not np.array_equal(words.Z[1].words, words.X[1].words)


def arrays_in(value, seen=None):
    """All arrays that an object reaches."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from arrays_in(part, seen)
    elif hasattr(value, "__dict__"):
        yield from arrays_in(vars(value), seen)


@pytest.mark.parametrize("method", ["ssvm", "ssvm+", "jkse", "jkse+"])
def test_files_hold_what_prediction_needs_and_nothing_privileged(method, tmp_path):
    localizer = Localizer(method, **{**OPTIONS, "grid_step": 12, "privileged_words": 12}, cache=tmp_path / "cache")
    attributes = np.random.RandomState(1).randint(0, 2, (6, 40))  # so many that no row can be there by chance
    privileged = {"masks": MASKS[:6], "attributes": attributes} if method.endswith("+") else None
    words = localizer.training_words(IMAGES[:6], BOXES[:6], privileged)
    lupi.save(localizer.fit_words(words), tmp_path / "model.lupi")
    again = lupi.load(tmp_path / "model.lupi")
    assert again.predict(IMAGES[10:12]) == localizer.predict(IMAGES[10:12])
    assert again.get_params() == {**localizer.get_params(), "cache": None}
    assert localizer.cache == localizer.bag_.cache == tmp_path / "cache"
    with zipfile.ZipFile(tmp_path / "model.lupi") as archive:
        content = b"".join(archive.read(part) for part in archive.namelist())
    assert str(tmp_path).encode() not in content
    for found in (localizer.bag_.vocabulary_, getattr(localizer.model_, "coef_", None)):
        assert found is None or found.tobytes() in content  # what is there would be found
    forbidden = [] if words.Z is None else [part for z in words.Z for part in (z.rows, z.cols, z.words)]
    if words.Z is not None:
        forbidden += [z.histogram(y, words.n_privileged_words) for z, y in zip(words.Z, words.Y)]
        forbidden += [*attributes, *MASKS[:6]]
    for row in forbidden:
        assert not any(np.array_equal(row, found) for found in arrays_in(again))
        # Nor as part of a longer row.
        assert not any(
            np.asarray(row, dtype=kind).tobytes() in content for kind in (float, np.float32, np.int64, np.int32)
        )


def test_failed_save_leaves_no_file(tmp_path):
    localizer = Localizer("ssvm", **OPTIONS).fit(IMAGES[:4], BOXES[:4])
    localizer.model_.callback = lambda state: False
    with pytest.raises(TypeError, match=r"which lupi\.load would reject"):
        lupi.save(localizer, tmp_path / "model.lupi")
    assert list(tmp_path.iterdir()) == []


def test_evaluation():
    true = [Box(0, 0, 10, 10), Box(0, 0, 10, 10), None, None]
    predicted = [Box(0, 0, 10, 5), Box(0, 0, 10, 6), None, Box(0, 0, 1, 1)]
    result = evaluate_boxes(true, predicted, images=["a", "b", "c", "d"], labels=[0, 1, 1, 0], label_names=["x", "y"])
    # An overlap of exactly one half is not a detection.
    assert [r["overlap"] for r in result["images"]] == [0.5, 0.6, 1.0, 0.0]
    assert result["detection_rate"] == 0.5
    assert [(r["label"], r["n_images"], r["mean_overlap"]) for r in result["per_class"]] == [
        ("x", 2, 0.25),
        ("y", 2, 0.8),
    ]
    with pytest.raises(ValueError, match="same positive length"):
        evaluate_boxes(true, predicted[:2])


def test_grids_of_the_papers():
    assert {k: len(v) for k, v in paper_grid("ssvm+").items()} == {"C": 4, "lam": 4, "rho": 4}
    assert list(paper_grid("ssvm")) == ["C"]
    assert list(paper_grid("jkse+")) == ["nu", "lam", "gamma"]
    assert paper_grid("ssvm")["C"][0] == 2.0**-8
    assert paper_grid("ssvm")["C"][-1] == 2.0**5


def test_search_takes_the_best_and_keeps_cells(tmp_path, monkeypatch):
    localizer = Localizer("ssvm+", **OPTIONS)
    data = {
        "images": IMAGES[:6],
        "boxes": BOXES[:6],
        "privileged": {"masks": MASKS[:6]},
        "validation": (IMAGES[6:10], BOXES[6:10]),
        "grid": {"C": [1e-4, 1.0], "lam": [1.0]},
        "store": tmp_path,
    }
    best, table = search_parameters(localizer, **data)
    assert [row["params"] for row in table] == [{"C": 1e-4, "lam": 1.0}, {"C": 1.0, "lam": 1.0}]
    top = max(table, key=lambda row: row["mean_overlap"])
    assert top["params"]["C"] == best.C
    assert best.score(IMAGES[6:10], BOXES[6:10]) == top["mean_overlap"]
    assert localizer.C == 1.0
    fitted = []
    original = Localizer.fit_words
    monkeypatch.setattr(Localizer, "fit_words", lambda self, words: fitted.append(self.C) or original(self, words))
    again, same = search_parameters(localizer, **data)
    assert same == table
    assert fitted == [best.C]
    np.testing.assert_array_equal(again.model_.coef_, best.model_.coef_)
    # When the time is over, the best of what is stored is taken.
    more = {**data, "grid": {"C": [1e-4, 1.0, 30.0], "lam": [1.0]}, "max_time": 1e-9}
    with pytest.warns(ConvergenceWarning, match="reached max_time after 2 of 3 combinations; the best of these"):
        short, some = search_parameters(localizer, **more)
    assert some == table
    assert (short.C, fitted.pop()) == (best.C, best.C)
    with pytest.raises(TimeoutError, match="after 0 of 3 combinations; raise max_time"):
        search_parameters(localizer, **{**more, "store": None})
    with pytest.raises(ValueError, match="`max_time` must be a positive number of seconds"):
        search_parameters(localizer, **{**more, "max_time": -1})
    # Other data are other cells.
    search_parameters(localizer, **{**data, "boxes": BOXES[:5] + BOXES[6:7]})
    assert len(fitted) == 4
    with pytest.raises(ValueError, match=r"parameters of 'ssvm\+'"):
        search_parameters(localizer, **{**data, "grid": {"nu": [0.5]}})


def test_attributes_that_are_not_known_give_no_word():
    localizer = Localizer("ssvm+", **OPTIONS)
    absent, unknown = ATTRIBUTES[:4].astype(float), ATTRIBUTES[:4].astype(float)
    absent[0, :2], absent[1] = 0, 0
    unknown[0, :2], unknown[1] = np.nan, np.nan
    words = [localizer.training_words(IMAGES[:4], BOXES[:4], {"attributes": a}).Z for a in (absent, unknown)]
    for first, second in zip(*words):
        np.testing.assert_array_equal(first.words, second.words)
