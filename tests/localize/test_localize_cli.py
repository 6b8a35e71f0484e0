"""`lupi localize` from files to files."""

import csv
import json
import re
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner
from vision_data import pictures

import lupi
from lupi.cli import app
from lupi.localize import paper_grid
from lupi.localize.evaluation import overlap_of
from lupi.localize.gallery import PREDICTED, TRUE, overlay, save_overlay
from lupi.vision import Box


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Twelve images with masks in a CSV, and a model that was trained on them."""
    root = tmp_path_factory.mktemp("birds")
    rows = ["image,top,left,bottom,right,mask,label"]
    for k, (image, box, mask) in enumerate(zip(*pictures(12))):
        Image.fromarray(image).save(root / f"{k:02}.png")
        Image.fromarray(mask * np.uint8(255)).save(root / f"mask{k:02}.png")
        rows.append(",".join(map(str, [f"{k:02}.png", *box, f"mask{k:02}.png", ["<gull>", "tern"][k % 2]])))
    (root / "boxes.csv").write_text("\n".join(rows) + "\n")
    run("fit", root / "boxes.csv", *OPTIONS, "-o", root / "model.lupi", "--cache", root / "cache")
    return root


OPTIONS = ("--words", 30, "--detector", "dense", "--grid-step", 8, "--tol", 0.05, "--jobs", 1)


def run(*arguments, code=0):
    # So wide that no message is broken into lines.
    wide = {"COLUMNS": "500"}
    result = CliRunner().invoke(app, ["localize", *map(str, arguments)], catch_exceptions=False, env=wide)
    assert result.exit_code == code, result.output
    return result


@pytest.mark.parametrize(
    "options",
    [
        {"method": "ssvm", "geometry": True, "geometry_scale": 5.0},
        {"method": "ssvm+", "geometry": True, "geometry_scale": 5.0, "inference": "alternating"},
        {"method": "jkse", "geometry": True, "geometry_scale": 2.0, "normalize": True},
    ],
    ids=lambda options: options["method"],
)
def test_fit_hands_its_options_to_the_learner(folder, tmp_path, options):
    given = [
        part
        for name, value in options.items()
        for part in ([f"--{name.replace('_', '-')}"] if value is True else [f"--{name.replace('_', '-')}", value])
    ]
    target = tmp_path / "model.lupi"
    run("fit", folder / "boxes.csv", *OPTIONS, *given, "--grid-step", 24, "-o", target, "--cache", folder / "cache")
    model = lupi.load(target).model_
    assert (model.task.geometry, model.task.geometry_scale) == (True, options["geometry_scale"])
    for name in {"inference", "normalize"} & set(options):
        assert getattr(model, name) == options[name]
    told = run("evaluate", target, folder / "boxes.csv", "--cache", folder / "cache", "--jobs", 1).output
    assert "constant box" in told


def test_predict_writes_boxes_and_pictures(folder, tmp_path):
    common = ("--cache", folder / "cache", "--jobs", 1)
    images = [folder / "00.png", folder / "01.png"]
    run("predict", folder / "model.lupi", *images, "-o", tmp_path / "b.json", "--overlays", tmp_path / "o", *common)
    found = json.loads((tmp_path / "b.json").read_text())
    assert [row["image"] for row in found] == [str(p) for p in images]
    printed = list(csv.DictReader(run("predict", folder / "model.lupi", *images, *common).stdout.splitlines()))
    assert [{k: int(row[k]) for k in row if k != "image"} for row in printed] == [row["box"] for row in found]
    pictures_made = sorted((tmp_path / "o").iterdir())
    assert [p.name for p in pictures_made] == ["00000_00.png", "00001_01.png"]
    box = found[0]["box"]
    assert np.asarray(Image.open(pictures_made[0]))[box["top"], box["left"]].tolist() == list(PREDICTED)


def test_evaluate_and_its_page(folder, tmp_path):
    page, figures = tmp_path / "page.html", tmp_path / "figures.json"
    common = ("--html", page, "--json", figures, "--cache", folder / "cache", "--jobs", 1)
    printed = run("evaluate", folder / "model.lupi", folder / "boxes.csv", *common).stdout
    result = json.loads(figures.read_text())
    assert result["n_images"] == 12
    assert result["mean_overlap"] > 0.4
    assert [row["n_images"] for row in result["per_class"]] == [6, 6]
    assert f"{100 * result['mean_overlap']:.1f}%" in printed
    # The constant box, from the table of boxes alone.
    with open(folder / "boxes.csv") as lines:
        boxes = [[float(row[side]) for side in ("top", "left", "bottom", "right")] for row in csv.DictReader(lines)]
    constant = [overlap_of(box, np.mean(boxes, axis=0)) for box in boxes]  # all pictures have one size
    assert result["constant_box"]["mean_overlap"] == pytest.approx(np.mean(constant))
    ahead = np.array([row["overlap"] for row in result["images"]]) - constant
    assert f"(mean training box): {100 * ahead.mean():+.1f} ± {100 * ahead.std(ddof=1) / 12**0.5:.1f} points" in printed
    html = page.read_text()
    assert f"{100 * np.mean(constant):.1f}%</b>mean overlap of a constant box" in html
    assert html.count("data:image/jpeg;base64,") == 12
    overlaps = [float(v) for v in re.findall(r'data-overlap="([^"]+)"', html)]
    np.testing.assert_allclose(overlaps, [row["overlap"] for row in result["images"]], atol=1e-6)
    # Nothing comes from elsewhere, and names are text, never markup.
    assert not re.search(r'(src|href)="(?!data:)', html)
    assert "http" not in html
    assert "<gull>" not in html
    assert "&lt;gull&gt;" in html


def test_same_seed_same_model(folder, tmp_path):
    for name in ("a", "b"):
        run(
            "fit",
            folder / "boxes.csv",
            *OPTIONS,
            "--seed",
            3,
            "-o",
            tmp_path / name,
            "--cache",
            tmp_path / f"cache{name}",
        )
    boxes = [
        run("predict", tmp_path / name, folder / "05.png", "--jobs", 1, "--cache", tmp_path / "c").stdout
        for name in "ab"
    ]
    assert boxes[0] == boxes[1]


def test_search_reports_the_best(folder, tmp_path):
    options = (*OPTIONS, "--method", "ssvm", "--search", 2, "-o", tmp_path / "m", "--cache", folder / "cache")
    first = run("fit", folder / "boxes.csv", *options).stdout
    assert [row["params"]["C"] for row in lupi.load(tmp_path / "m").search_] == paper_grid("ssvm", 2)["C"]
    assert re.search(r"Best of 2: C=[\d.e-]+; mean overlap \d+\.\d% on validation", first)
    assert run("fit", folder / "boxes.csv", *options).stdout == first


def test_plus_without_privileged_information_says_so(folder, tmp_path):
    options = (*OPTIONS, "--privileged", "none", "-o", tmp_path / "m", "--cache", folder / "cache")
    assert "No privileged information is used" in run("fit", folder / "boxes.csv", *options).stderr


def test_errors_are_one_message(folder, tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text("image,top,left,bottom,right\na.png,1,2,3\n")
    cut, other = tmp_path / "cut.lupi", tmp_path / "other.lupi"
    cut.write_bytes((folder / "model.lupi").read_bytes()[:-200])
    lupi.save(lupi.SVM2Plus().fit([[0.0], [1.0]], [0, 1]), other)
    for arguments, message in (
        (("fit", bad), r"bad\.csv, line 2: expected 5 values"),
        (("predict", tmp_path / "none", folder / "00.png"), "no such model file"),
        (("predict", bad, folder / "00.png"), r"bad\.csv is damaged or is not a model of lupi"),
        (("predict", cut, folder / "00.png"), r"cut\.lupi is damaged or is not a model of lupi"),
        (
            ("evaluate", other, folder / "boxes.csv"),
            r"other\.lupi holds a SVM2Plus, not a model of `lupi localize fit`",
        ),
        (("predict", folder / "model.lupi", tmp_path / "gone.png", "--cache", tmp_path), r"gone\.png"),
    ):
        result = run(*arguments, code=1)
        assert re.search(message, result.stderr)
        assert result.stderr.startswith("lupi: ")
    for arguments, message in (
        (("predict", folder / "model.lupi", bad, "-o", "boxes.txt"), "--output: must end in .json or .csv"),
        (("fit", bad, "-o", tmp_path / "no" / "m"), f"--output: the folder of {tmp_path / 'no' / 'm'} does not exist"),
    ):
        assert run(*arguments, code=2).stderr.startswith(f"lupi: invalid value for {message}")
    told = run("fit", bad, "--privileged", "parts", code=2).stderr
    assert re.match(
        r"lupi: invalid value for '--privileged': .*'parts' is not one of 'both', 'masks', 'attributes', 'none'", told
    )
    skipped = run("predict", folder / "model.lupi", bad, folder / "00.png", "--skip-errors", "--cache", tmp_path)
    assert skipped.stdout.splitlines()[1].endswith(",,,,")


def test_predict_for_tables_refuses_a_localizer(folder):
    result = CliRunner().invoke(app, ["predict", str(folder / "model.lupi"), str(folder / "boxes.csv")])
    assert result.exit_code == 1
    assert "model.lupi holds a Localizer, not a model of `lupi fit`" in " ".join(result.stderr.split())


def test_overlay_draws_both_boxes():
    image = np.zeros((40, 60), dtype=np.uint8)
    picture = np.asarray(overlay(image, predicted=Box(5, 5, 20, 30), true=Box(22, 32, 39, 59)))
    assert picture[5, 5].tolist() == list(PREDICTED)
    assert picture[22, 32].tolist() == list(TRUE)
    assert picture[30, 20].tolist() == [0, 0, 0]
    assert max(overlay(image, max_size=30).size) == 30


def test_a_picture_needs_an_ending_that_tells_its_format(tmp_path):
    image = np.zeros((40, 60), dtype=np.uint8)
    save_overlay(tmp_path / "new" / "a.JPG", image)
    with Image.open(tmp_path / "new" / "a.JPG") as picture:
        assert picture.format == "JPEG"
    with pytest.raises(ValueError, match=r"'\.box' is not the ending of a picture format; use \.png or \.jpg"):
        save_overlay(tmp_path / "a.box", image)


def test_help_loads_nothing_heavy():
    code = (
        "import sys, lupi.cli; print([m for m in ('numpy', 'sklearn', 'numba', 'PIL', 'mahotas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_files_elsewhere_are_read_only_if_asked_for(folder, tmp_path):
    text = re.sub(r"(mask)?00\.png", lambda name: f"{folder}/{name.group()}", (folder / "boxes.csv").read_text())
    (tmp_path / "boxes.csv").write_text("\n".join(text.splitlines()[:2]) + "\n")
    common = (folder / "model.lupi", tmp_path / "boxes.csv", "--cache", folder / "cache", "--jobs", 1)
    assert "--follow-links" in run("evaluate", *common, code=1).stderr
    assert "mean overlap" in run("evaluate", *common, "--follow-links").stdout
    fit = (tmp_path / "boxes.csv", *OPTIONS, "-o", tmp_path / "m.lupi", *common[2:4])
    assert "--follow-links" in run("fit", *fit, code=1).stderr
    run("fit", *fit, "--follow-links")
    assert (tmp_path / "m.lupi").is_file()
