"""No file that a command writes holds a value of a privileged column: tables are full of marks, and all files are searched."""

import json

import numpy as np
import pytest
from marks import bits_in_files, marked_numbers, marks_in_files, standardized
from typer.testing import CliRunner

from lupi.cli import app
from lupi.datasets import make_privileged

pd = pytest.importorskip("pandas")
pytest.importorskip("jinja2")

N = 60
# No letters that some files write as codes.
WORDS = tuple(f"Ladybird{k:02}" for k in range(N // 4))
NOTE = "Ubiquitous"


@pytest.fixture(scope="module")
def marked(tmp_path_factory):
    """A table with marked numbers and words in its privileged columns, and the marks."""
    made = make_privileged(N, 3, 1, random_state=0, as_frame=True).frame.rename(columns={"target": "ill"})
    made["z0"] = marked_numbers(N) + made["ill"]
    made["z1"] = [WORDS[k % len(WORDS)] for k in range(N)]
    made["z2"] = [f"{NOTE} {k}" for k in np.random.default_rng(0).integers(10**6, size=N)]
    path = tmp_path_factory.mktemp("tables") / "patients.csv"
    made.to_csv(path, index=False)
    numbers = made["z0"].to_numpy()
    return path, [*numbers, *standardized(numbers), numbers.mean(), np.median(numbers)]


def run(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output


COLUMNS = ("--target", "ill", "--privileged", "z*", "--kernel", "linear")


@pytest.mark.parametrize("method", ["surrogate", "svm+", "svm2+", "ranktransfer", "distillation"])
def test_fit_and_predict(method, marked, tmp_path):
    table, numbers = marked
    said = run("fit", table, *COLUMNS, "--method", method, "-o", tmp_path / "m.lupi")
    said += run("predict", tmp_path / "m.lupi", table, "-o", tmp_path / "p.csv")
    (tmp_path / "said.txt").write_text(said)
    assert marks_in_files(tmp_path, numbers, (*WORDS, NOTE)) == []


def test_compare(marked, tmp_path):
    table, numbers = marked
    methods = ("--methods", "svm2+,surrogate", "--baselines", "linear", "--splits", 2, "--permutations", 2)
    said = run("compare", table, *COLUMNS, *methods, "--train-size", 24, "--jobs", 1, "--out", tmp_path / "r")
    (tmp_path / "said.txt").write_text(said)
    assert {path.name for path in (tmp_path / "r").iterdir()} >= {"report.html", "results.json"}
    assert marks_in_files(tmp_path, numbers, (*WORDS, NOTE)) == []


def test_the_search_opens_what_commands_write(marked, tmp_path):
    table, _ = marked
    run("fit", table, "--target", "ill", "--privileged", "x0", "--method", "svm", "-o", tmp_path / "m.lupi")
    # Here the marked columns are ordinary ones, and models keep what they have to know of these.
    assert {mark for _, _, mark in marks_in_files(tmp_path, words=WORDS)} == set(WORDS)


N_BIRDS = 8


@pytest.fixture(scope="module")
def birds(tmp_path_factory):
    """A COCO file whose masks have rows of random bits; and these rows."""
    Image = pytest.importorskip("PIL.Image")
    pytest.importorskip("mahotas")
    from vision_data import pictures

    root, rng = tmp_path_factory.mktemp("birds"), np.random.default_rng(0)
    (root / "images").mkdir()
    content, masked = {"images": [], "annotations": [], "categories": [{"id": 1, "name": "gull"}]}, []
    for k, (image, box, mask) in enumerate(zip(*pictures(N_BIRDS)), start=1):
        Image.fromarray(image).save(root / "images" / f"{k}.png")
        for row in range(box.top + 4, box.bottom, 8):
            mask[row, box.left : box.right] = rng.random(box.right - box.left) < 0.5
            masked.append(mask[row])
        height, width = mask.shape
        content["images"].append({"id": k, "file_name": f"images/{k}.png", "height": height, "width": width})
        bits = np.concatenate([[0], mask.T.ravel().astype(int), [2]])
        starts = np.flatnonzero(np.diff(bits))
        counts = np.diff(np.concatenate([[0], starts])).tolist()
        size = [box.left, box.top, box.right - box.left, box.bottom - box.top]
        runs = {"counts": counts, "size": [height, width]}
        content["annotations"].append({"id": k, "image_id": k, "category_id": 1, "bbox": size, "segmentation": runs})
    (root / "birds.json").write_text(json.dumps(content))
    return root, masked


@pytest.mark.parametrize("method", ["ssvm+", "jkse+"])
def test_localize(method, birds, tmp_path):
    root, bits = birds
    common = ("--cache", tmp_path / "cache", "--jobs", 1)
    options = ("--words", 20, "--detector", "dense", "--grid-step", 16, "--tol", 0.1, "--method", method)
    more = ("--search", 1) if method == "ssvm+" else ()
    model = tmp_path / "m.lupi"
    said = run("localize", "fit", root / "birds.json", *options, *more, "-o", model, *common)
    assert "No privileged information" not in said
    pictures = ("-o", tmp_path / "p.json", "--overlays", tmp_path / "overlays")
    said += run("localize", "predict", model, root / "images", *pictures, *common)
    said += run("localize", "predict", model, root / "images", "-o", tmp_path / "p.csv", *common)
    said += run(
        "localize",
        "evaluate",
        model,
        root / "birds.json",
        "--html",
        tmp_path / "e.html",
        "--json",
        tmp_path / "e.json",
        *common,
    )
    (tmp_path / "said.txt").write_text(said)
    assert {"m.lupi", "p.json", "p.csv", "e.html", "e.json"} <= {path.name for path in tmp_path.iterdir()}
    assert bits_in_files(tmp_path, bits) == []


def test_the_search_finds_bits_in_every_form(birds, tmp_path):
    _, bits = birds
    np.savez_compressed(tmp_path / "a.npz", rows=np.array(bits[:2], float))
    (tmp_path / "b.json").write_text(str([list(map(int, bits[2]))]))
    (tmp_path / "c.bin").write_bytes(np.packbits(bits[3].astype(bool)).tobytes())
    assert bits_in_files(tmp_path, bits) == [("a.npz", 0), ("a.npz", 1), ("b.json", 2), ("c.bin", 3)]
