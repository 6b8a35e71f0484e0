"""Entries of `python -m experiments` on boxes around birds, with generated pictures in CUB's layout."""

import json
import pickle
import shutil
from functools import partial

import numpy as np
import pytest
from PIL import Image
from sklearn.utils import Bunch
from typer import Typer
from typer.testing import CliRunner
from vision_data import picture

from experiments import feyereisl, sun
from experiments.__main__ import main
from experiments.birds import Arm, Draw, DrawWords, load_birds, privileged_of
from experiments.common import paper_table
from experiments.data_images import load_cub
from lupi.localize import Localizer, evaluate_boxes, search_parameters
from lupi.vision import read_mask

app = Typer()
app.command()(main)
SPECIES = [f"{row['class']}.{row['name']}" for row in paper_table("sun_2018_table2")]
CLASSES = [*SPECIES, "011.Grey_Gull", "012.Red_Vireo", "013.Downy_Woodpecker", "014.Tern", "015.Kite", "016.Dove"]
PER_CLASS = 3
SETTINGS = {"n_words": 20, "detector": "dense", "spacing": 8, "grid_step": 24, "tol": 0.05}
SMALL = {"C": [0.01, 1.0], "lam": [0.1], "rho": [2.0]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with cub_200_2011: three generated pictures of each class, all official training images."""
    data = tmp_path_factory.mktemp("data")
    root = data / "cub_200_2011"
    names, boxes = [], []
    for k in range(PER_CLASS * len(CLASSES)):
        image, box, mask = picture(k, shape=(72 + 8 * (k % 3), 96))
        name = f"{CLASSES[k // PER_CLASS]}/{k:03}.png"
        for kind, pixels in (("images", image), ("segmentations", mask * np.uint8(255))):
            (root / kind / name).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(root / kind / name)
        names.append(name)
        boxes.append(f"{box.left} {box.top} {box.right - box.left} {box.bottom - box.top}")
    tables = {
        "images": names,
        "bounding_boxes": boxes,
        "image_class_labels": [1 + k // PER_CLASS for k in range(len(names))],
        "train_test_split": [1] * len(names),
        "classes": CLASSES,
    }
    for name, values in tables.items():
        (root / f"{name}.txt").write_text("".join(f"{i} {value}\n" for i, value in enumerate(values, 1)))
    (root / "attributes").mkdir()
    present = np.random.RandomState(0).randint(0, 2, (len(names), 312))
    np.savez(root / "attributes" / "table.npz", image_id=np.arange(1, len(names) + 1), is_present=present)
    return data


@pytest.fixture(scope="module")
def birds(folder):
    return load_cub(folder / "cub_200_2011")


def classes_of(birds, rows):
    return {birds.label_names[k] for k in birds.labels[rows]}


def test_draws_are_disjoint_and_validation_has_other_classes(birds):
    seen = set()
    for seed in range(5):
        found = feyereisl.draw_birds(birds, 12, seed, n_validation=8)
        assert len(found.train) == 12
        assert sorted(np.concatenate(found)) == list(range(len(birds.images)))
        assert not classes_of(birds, found.train) & classes_of(birds, found.validation)
        np.testing.assert_array_equal(
            np.concatenate(feyereisl.draw_birds(birds, 12, seed, n_validation=8)), np.concatenate(found)
        )
        seen.add(tuple(found.train))
    assert len(seen) == 5


def test_draws_of_one_species(birds):
    seen = set()
    for seed in range(8):
        train, validation, test = sun.draw_species(birds, 3, seed, n_train=2, n_validation=6, n_test=1)
        assert sorted([*train, *test]) == list(np.flatnonzero(birds.labels == 3))
        assert len(set(validation)) == 6
        assert set(birds.labels[validation]) <= set(range(10)) - {3}
        seen.add(tuple(test))
    assert len(seen) == 3  # every image of the species is tested in some draw
    short = sun.draw_species(birds, 3, 0, n_train=4, n_validation=6, n_test=1)
    assert len(short.train) == 2  # all there are
    with pytest.raises(ValueError, match=r"3 images of 004\.Groove_billed_Ani, too few for 50"):
        sun.draw_species(birds, 3, 0)


def test_draws_of_the_two_papers(birds):
    small, large = (feyereisl.draw_birds(birds, n, 3, n_validation=8) for n in (4, 10))
    assert sorted(birds.labels[small.train]) == [11, 11, 12, 12]  # two of each class of the groups
    assert set(small.train) < set(large.train)
    np.testing.assert_array_equal(small.validation, large.validation)
    assert sum(label in (11, 12) for label in birds.labels[large.train]) == 6  # all there are; other classes fill up
    with pytest.raises(ValueError, match="48 training images, too few for 40"):
        feyereisl.draw_birds(birds, 40, 0, n_validation=8)


def test_official_test_images_are_the_test(birds):
    changed = birds.copy()
    changed["train"] = np.arange(len(birds.images)) % 3 < 2
    found = feyereisl.draw_birds(type(birds)(**changed), 4, 0, n_validation=4)
    np.testing.assert_array_equal(found.test, np.arange(2, len(birds.images), 3))
    assert changed["train"][np.concatenate([found.train, found.validation])].all()


def test_shuffled_arm_has_everybody_elses_information_once(birds):
    train = np.arange(0, 33, 3)
    right = privileged_of(birds, train, Arm("r", "ssvm+", SMALL, ("masks", "attributes")), 0)
    for seed in range(5):
        arm = Arm("w", "ssvm+", SMALL, ("masks", "attributes"), shuffled=True)
        wrong = privileged_of(birds, train, arm, seed)
        source = [int(np.flatnonzero((right["attributes"] == row).all(axis=1))[0]) for row in wrong["attributes"]]
        assert sorted(source) == list(range(len(train)))
        assert not any(i == j for i, j in enumerate(source))
        for i, j in enumerate(source):  # the same image's mask, stretched to the size of this one
            own, other = (read_mask(right["masks"][k]) for k in (i, j))
            assert wrong["masks"][i].shape == own.shape
            assert wrong["masks"][i].mean() == pytest.approx(other.mean(), abs=0.03)
    assert privileged_of(birds, train, Arm("p", "ssvm", SMALL), 0) is None
    assert set(privileged_of(birds, train, Arm("m", "ssvm+", SMALL, ("masks",)), 0)) == {"masks"}


ARMS = (
    Arm("mean box"),
    Arm("SSVM", "ssvm", {"C": SMALL["C"]}, paper="ssvm"),
    Arm("SSVM+, privileged off", "ssvm+", {"C": SMALL["C"]}),
    Arm("SSVM+", "ssvm+", SMALL, ("masks", "attributes"), paper="ssvm+"),
    Arm("SSVM+, others", "ssvm+", SMALL, ("masks", "attributes"), shuffled=True),
    Arm("SSVM + geometry", "ssvm", {"C": SMALL["C"]}, settings={"geometry": True}),
    Arm("SSVM+, alternating", "ssvm+", SMALL, ("masks", "attributes"), settings={"inference": "alternating"}),
)


def test_whole_table_of_feyereisl(folder, birds, tmp_path, monkeypatch):
    options = {"sizes": (4,), "n_splits": 2, "arms": ARMS, "settings": SETTINGS}
    options["draw"] = partial(feyereisl.draw_birds, n_validation=6)
    result = feyereisl.localization_table(folder, tmp_path / "run", **options)
    assert len(result["units"]) == 2 * len(ARMS)
    rows = {row["arm"]: row for row in result["sizes"][0]["rows"]}
    assert rows["SSVM+, privileged off"]["overlap"]["values"] == rows["SSVM"]["overlap"]["values"]
    assert rows["SSVM+"]["overlap"]["values"] != rows["SSVM"]["overlap"]["values"]
    assert rows["SSVM + geometry"]["overlap"]["values"] != rows["SSVM"]["overlap"]["values"]
    exact = [row for name, row in rows.items() if name != "SSVM+, alternating"]  # whose gap need not close
    assert all(row["largest_gap"] <= 0.05 and row["unconverged"] == 0 for row in exact)
    for row in rows.values():
        ahead = np.array(row["overlap"]["values"]) - rows["mean box"]["overlap"]["values"]
        assert row["ahead"]["mean"] == pytest.approx(ahead.mean())
    # The constant box, scored independently.
    draw = options["draw"](birds, 4, 0)
    shapes = [read_mask(mask).shape for mask in birds.masks]
    mean = np.mean([np.array(birds.boxes[i]) / (shapes[i] * 2) for i in draw.train], axis=0)
    expected = evaluate_boxes([birds.boxes[i] for i in draw.test], [tuple(mean * (shapes[i] * 2)) for i in draw.test])
    assert rows["mean box"]["overlap"]["values"][0] == pytest.approx(100 * expected["mean_overlap"])
    assert rows["mean box"]["detection"]["values"][0] == pytest.approx(100 * expected["detection_rate"])
    # A second run computes nothing.
    monkeypatch.setattr(feyereisl, "run_arm", lambda *unit: pytest.fail("computed twice"))
    assert feyereisl.localization_table(folder, tmp_path / "run", **options)["units"] == result["units"]
    text = "\n".join(feyereisl.table_lines(result, ARMS))
    assert f"{rows['SSVM']['overlap']['mean']:.1f} ± {rows['SSVM']['overlap']['error']:.1f}" in text
    assert "SSVM+ minus SSVM+, others" in text


def test_whole_table_of_sun(folder, birds, tmp_path, monkeypatch):
    grid = {"nu": [0.01, 0.02, 0.5, 0.9], "gamma": [0.001, 0.01]}
    arms = (
        Arm("mean box"),
        Arm("JKSE", "jkse", grid, paper="jkse"),
        Arm("off", "jkse+", grid),
        Arm("JKSE+", "jkse+", {**grid, "lam": [0.1, 10.0]}, ("masks", "attributes"), paper="jkse+"),
        Arm("others", "jkse+", {**grid, "lam": [0.1, 10.0]}, ("masks", "attributes"), shuffled=True),
    )
    settings = {**SETTINGS, "n_words": 8, "privileged_words": 10, "tol": 1e-4, "normalize": True}
    draw = partial(sun.draw_species, n_train=2, n_validation=4, n_test=1)
    # The command itself; its table is then read from the run store.
    small = partial(sun.species_table, arms=arms, settings=settings, draw=draw)
    monkeypatch.setattr(sun, "species_table", small)
    monkeypatch.setattr(sun, "table_lines", partial(sun.table_lines, arms=arms))
    command = ["sun-table2", "--out", tmp_path, "--data", folder, "--splits", "2", "--jobs", "1"]
    outcome = CliRunner().invoke(app, [*map(str, command)])
    assert outcome.exit_code == 0, outcome.output
    written = json.loads((tmp_path / "sun-table2" / "result.json").read_text())
    monkeypatch.setattr(sun, "run_arm", lambda *unit: pytest.fail("computed twice"))
    result = small(folder, tmp_path / "sun-table2", n_splits=2)
    assert written["rows"] == result["rows"]
    rows = {row["arm"]: row for row in result["rows"]}
    assert rows["off"]["overlap"]["values"] == rows["JKSE"]["overlap"]["values"]
    assert all(row["largest_gap"] <= 1e-4 and row["unconverged"] == 0 for row in rows.values())
    # A species' figure is the mean of its units; all species together, the mean of all test images.
    units = result["units"]
    of_ani = [units[f"3/{seed}/JKSE"]["mean_overlap"] for seed in (0, 1)]
    assert result["species"][3]["JKSE"]["mean"] == pytest.approx(100 * np.mean(of_ani))
    everyone = [units[f"{label}/1/JKSE"]["mean_overlap"] for label in range(10)]  # one test image each
    assert rows["JKSE"]["overlap"]["values"][1] == pytest.approx(100 * np.mean(everyone))
    chosen = [units[f"{label}/{seed}/JKSE"]["params"]["nu"] for label in range(10) for seed in (0, 1)]
    assert result["edges"]["JKSE"]["nu"] == [sum(nu in (0.01, 0.9) for nu in chosen), 20]
    # Cells that share the direction of their coefficients are searched once; trying all of them finds the same.
    found = draw(birds, 7, 1)
    images, boxes = ([values[i] for i in found.train] for values in (birds.images, birds.boxes))
    held_out = tuple([values[i] for i in found.validation] for values in (birds.images, birds.boxes))
    for arm in (arms[1], arms[3]):
        unit = units[f"7/1/{arm.name}"]
        best, table = search_parameters(
            Localizer(arm.method, random_state=1, **settings),
            images,
            boxes,
            privileged_of(birds, found.train, arm, 1),
            validation=held_out,
            grid=arm.grid,
            vocabulary_images=held_out[0],
        )
        assert unit["validation"] == max(row["mean_overlap"] for row in table)
        assert unit["params"] == {name: getattr(best, name) for name in arm.grid}
        predicted = best.predict([birds.images[i] for i in found.test])
        again = evaluate_boxes([birds.boxes[i] for i in found.test], predicted)
        assert unit["mean_overlap"] == pytest.approx(again["mean_overlap"])
    lines = (tmp_path / "sun-table2" / "result.txt").read_text().splitlines()
    albatross = next(line for line in lines if line.startswith("001.Black_footed_Albatross"))
    assert "/ 41.0" in albatross
    assert "/ 46.2" in albatross
    assert any("(paper: 8)" in line for line in lines)


def test_table_of_the_geometry(folder, tmp_path, monkeypatch):
    """The entry without privileged arms: no Figure 2, the constant box beside both."""
    monkeypatch.setattr(feyereisl, "SIZES", (4,))
    monkeypatch.setattr(feyereisl, "MOST_VALIDATION", 6)
    arms = tuple(arm._replace(grid={"C": [1.0]} if arm.method else {}) for arm in feyereisl.GEOMETRY_ARMS)
    assert [arm.settings for arm in arms] == [{}, {}, {"geometry": True}]
    monkeypatch.setattr(feyereisl, "GEOMETRY_ARMS", arms)
    monkeypatch.setattr(feyereisl, "SETTINGS", SETTINGS)
    command = ["feyereisl-geometry", "--out", tmp_path, "--data", folder, "--splits", "2", "--jobs", "1"]
    outcome = CliRunner().invoke(app, [*map(str, command)])
    assert outcome.exit_code == 0, outcome.output
    result = json.loads((tmp_path / "feyereisl-geometry" / "result.json").read_text())
    units, (size,) = result["units"], result["sizes"]
    for row in size["rows"]:
        own = [units[f"4/{seed}/{row['arm']}"] for seed in (0, 1)]
        assert row["overlap"]["mean"] == pytest.approx(100 * np.mean([unit["mean_overlap"] for unit in own]))
        assert row["ahead"]["mean"] == pytest.approx(100 * np.mean([unit["ahead"]["difference"] for unit in own]))
        assert f"{row['ahead']['mean']:+.1f} ± {row['ahead']['error']:.1f}" in outcome.output
    assert "Figure 2" not in outcome.output


def test_words_of_a_draw_are_made_once_and_do_not_travel(birds, monkeypatch):
    localizer = Localizer("ssvm", random_state=0, **SETTINGS)
    draws = [feyereisl.draw_birds(birds, 4, seed, n_validation=4) for seed in (0, 1)]
    first, second = (DrawWords(birds, draw, seed, localizer) for seed, draw in enumerate(draws))
    arm = Arm("a", "ssvm+", SMALL, ("masks", "attributes"))
    words = first.for_training(arm)
    assert len(words.X) == len(words.Z) == 4
    assert first.for_training(arm) is words
    assert first.of("test")[0] is first.of("test")[0]
    traveled = pickle.dumps(first)
    assert len(traveled) < len(pickle.dumps(words)) + len(pickle.dumps((birds, draws[0], localizer)))
    assert pickle.loads(traveled).for_training(arm) is words  # copies in one process share them
    other = second.for_training(arm)
    assert other is not words
    assert first.for_training(arm) is not words  # one draw's words at a time


def test_images_without_attributes_get_those_of_their_class(folder, birds, tmp_path):
    shutil.copytree(folder, tmp_path / "data")
    table = tmp_path / "data" / "cub_200_2011" / "attributes" / "table.npz"
    with np.load(table) as arrays:
        np.savez(table, image_id=arrays["image_id"][1:], is_present=arrays["is_present"][1:])
    percent = np.random.RandomState(1).uniform(0, 100, (len(CLASSES), 312))
    np.savetxt(table.parent / "class_attribute_labels_continuous.txt", percent)
    found, root = load_birds(tmp_path / "data")
    assert root.name == "cub_200_2011"
    np.testing.assert_array_equal(found.attributes, (percent > 50)[birds.labels])
    (tmp_path / "data" / "cub_200_2011").rename(tmp_path / "data" / "cub_300px")
    assert load_birds(tmp_path / "data")[1].name == "cub_300px"


def test_difference_of_classes():
    birds = Bunch(labels=np.array([0, 0, 1, 1]), label_names=["gull", "tern"])
    draws = {(2, 0): Draw(np.array([]), np.array([]), np.array([1, 2, 3])), (9, 0): None}
    results = {(2, 0, "a"): {"overlaps": [0.4, 0.9, 0.6]}, (2, 0, "b"): {"overlaps": [0.6, 0.4, 0.5]}}
    first, second = feyereisl.class_differences(results, draws, birds, 2, "a", "b")
    assert (first["label"], first["images"], second["label"]) == ("tern", 2, "gull")
    assert first["overlap"] == pytest.approx(30.0)
    assert first["detection"] == pytest.approx(100.0)
    assert second["overlap"] == pytest.approx(-20.0)
    assert second["detection"] == pytest.approx(-100.0)


def test_marks_and_printed_numbers():
    for row in paper_table("feyereisl_2014_table1"):  # the differences that the paper prints below its table
        gains = {14: (3.1, 6.7), 70: (1.9, 5.1), 140: (3.5, 7.2), 280: (2.0, 3.5), 1000: (0.9, 1.9)}[int(row["n"])]
        for key, gain in zip(("overlap", "detection"), gains):
            assert float(row[f"ssvm+_{key}"]) - float(row[f"ssvm_{key}"]) == pytest.approx(gain)
    differences = [float(r["jkse+"]) - float(r["jkse"]) for r in paper_table("sun_2018_table2")]
    assert differences == pytest.approx(
        [5.267, 8.652, -9.461, 1.375, 5.941, 3.750, 2.278, 8.647, -4.125, 3.581], abs=0.0011
    )


@pytest.mark.parametrize("name", ["feyereisl-table1", "sun-table2"])
def test_missing_data_are_named(name, tmp_path):
    result = CliRunner().invoke(app, [name, "--out", str(tmp_path), "--data", str(tmp_path / "none")])
    assert "Data set 'cub_300px' not found: there is no folder" in str(result.exception)


def test_folder_without_masks_is_refused(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "cub_200_2011" / "segmentations")
    with pytest.raises(ValueError, match="has no segmentations"):
        feyereisl.localization_table(tmp_path / "data", None, sizes=(4,), n_splits=2)


def test_one_draw_is_refused(folder):
    with pytest.raises(ValueError, match="--splits must be at least 2"):
        sun.species_table(folder, None, n_splits=1, draw=partial(sun.draw_species, n_train=2, n_validation=4, n_test=1))


def test_written_files(folder, tmp_path, monkeypatch):
    """The command: table on the terminal and in result.txt, all figures in result.json, Figure 2 as a picture."""
    monkeypatch.setattr(feyereisl, "SIZES", (4,))
    monkeypatch.setattr(feyereisl, "MOST_VALIDATION", 6)
    options = {"arms": ARMS[:4], "settings": SETTINGS}
    monkeypatch.setattr(feyereisl, "localization_table", partial(feyereisl.localization_table, **options))
    monkeypatch.setattr(feyereisl, "table_lines", partial(feyereisl.table_lines, arms=ARMS[:4]))
    command = ["feyereisl-table1", "--out", tmp_path, "--data", folder, "--splits", "2", "--tasks", "1"]
    result = CliRunner().invoke(app, [*map(str, command), "--jobs", "1"])
    assert result.exit_code == 0, result.output
    out = tmp_path / "feyereisl-table1"
    text = (out / "result.txt").read_text()
    assert "What differs from the paper" in text
    assert str(folder) in text
    content = json.loads((out / "result.json").read_text())
    assert content["sizes"][0]["rows"][1]["arm"] == "SSVM"
    assert "overlaps" not in content["units"]["4/0/SSVM"]
    for part in ("overlap", "detection"):
        assert b"<svg" in (out / f"figure2-n4-{part}.svg").read_bytes()
