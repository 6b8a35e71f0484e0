"""Model files of earlier versions load for ever, and predict what they predicted when they were written."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from vision_data import pictures

import lupi

FOLDERS = sorted((Path(__file__).parent / "models").glob("format_*"))
EXPECTED = {
    (folder, name): expected
    for folder in FOLDERS
    for name, expected in json.loads((folder / "expected.json").read_text())["models"].items()
}


def frame(X):
    import pandas as pd

    table = pd.DataFrame(X.round(3), columns=list("abcd"))
    table["sex"] = np.where(X[:, 0] > 0, "f", "m")
    table.loc[3, "a"] = None
    return table


@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.InconsistentVersionWarning"
)  # it may be the version before, too
@pytest.mark.parametrize(("folder", "name"), EXPECTED, ids=lambda part: getattr(part, "name", part))
def test_a_file_of_the_version_before_predicts_the_same(folder, name):
    X = np.load(folder / "input.npz")["X"]
    model = lupi.load(folder / f"{name}.lupi")
    call, values = EXPECTED[folder, name]["call"], EXPECTED[folder, name]["values"]
    if call == "boxes":
        images, _, _ = pictures(8)
        assert [list(map(int, box)) for box in model.predict(images[5:])] == values
        return
    data = {"tabular_model_frame": frame, "svm2_plus_chi2": np.abs}.get(name, np.array)(X)
    assert_allclose(getattr(model, call)(data), values, rtol=1e-10, atol=1e-12)


def test_every_registered_kind_of_model_has_a_file():
    held = {name for folder in FOLDERS for file in folder.glob("*.lupi") for name in kinds_in(file)}
    public = {name for name in lupi.__all__ if hasattr(getattr(lupi, name), "fit")}
    assert public <= held, f"no file holds {public - held}: see make_models.py"


def kinds_in(file):
    import zipfile

    with zipfile.ZipFile(file) as archive:
        waiting = [json.loads(archive.read("schema.json"))]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if "__class__" in part:
                yield part["__class__"]
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
