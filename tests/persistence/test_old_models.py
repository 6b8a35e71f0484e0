"""Model files of earlier versions load for ever, and predict what they predicted when they were written."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from vision_data import pictures

import lupi

FOLDER = Path(__file__).parent / "models" / "format_1"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())["models"]
X = np.load(FOLDER / "input.npz")["X"]


def frame():
    import pandas as pd

    table = pd.DataFrame(X.round(3), columns=list("abcd"))
    table["sex"] = np.where(X[:, 0] > 0, "f", "m")
    table.loc[3, "a"] = None
    return table


@pytest.mark.parametrize("name", EXPECTED)
def test_a_file_of_the_version_before_predicts_the_same(name):
    model = lupi.load(FOLDER / f"{name}.lupi")
    call, values = EXPECTED[name]["call"], EXPECTED[name]["values"]
    if call == "boxes":
        images, _, _ = pictures(8)
        assert [list(map(int, box)) for box in model.predict(images[5:])] == values
        return
    data = {"tabular_model_frame": frame, "svm2_plus_chi2": lambda: abs(X)}.get(name, lambda: X)()
    assert_allclose(getattr(model, call)(data), values, rtol=1e-10, atol=1e-12)
