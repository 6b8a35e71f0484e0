"""`lupi compare --metric r2` with SVR+ among the methods."""

import json

import numpy as np
import pytest
from sklearn.metrics import r2_score
from typer.testing import CliRunner

import lupi
from lupi.cli import app

pd = pytest.importorskip("pandas")
pytest.importorskip("jinja2")


def invoke(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Wages that x0 and x1 tell, but for an error whose size z0 knows."""
    rng = np.random.default_rng(0)
    X, size = rng.normal(size=(90, 3)), rng.exponential(size=90)
    wage = X[:, 0] - X[:, 1] + size * rng.normal(size=90) * 0.5
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(z0=size, z1=rng.normal(size=90), wage=wage)
    path = tmp_path_factory.mktemp("tables") / "wages.csv"
    frame.to_csv(path, index=False)
    return path


def test_a_comparison_with_svr_plus(table, tmp_path):
    common = ("--target", "wage", "--privileged", "z*", "--metric", "r2", "--kernel", "linear")
    methods = ("--methods", "svr+", "--baselines", "linear", "--splits", 2, "--train-size", 40)
    shown = invoke(
        "compare", table, *common, *methods, "--permutations", 0, "--jobs", 1, "--out", tmp_path / "out"
    ).output
    assert "SVR+" in shown
    summary = json.loads((tmp_path / "out" / "results.json").read_text())
    rows = {row["name"]: row for row in summary["sizes"][0]["methods"]}
    assert {"svr+", "svm", "linear"} <= set(rows)  # with its plain counterpart, SVR
    assert not any(row["failed"] for row in rows.values())
    scores = {name: np.array(row["scores"], dtype=float) for name, row in rows.items()}
    for name in ("svr+", "svm", "linear"):
        assert (scores[name] > 0.3).all()
        assert rows[name]["mean"] == pytest.approx(scores[name].mean())
    assert (scores["svr+"] != scores["svm"]).any()  # not the counterpart under another name
    assert rows["svr+"]["shuffled"] is not None
    model = tmp_path / "svr.lupi"
    invoke("fit", table, *common, "--method", "svr+", "-o", model)
    lines = invoke("predict", model, table).stdout.splitlines()
    assert lines[0] == "prediction"
    wage = pd.read_csv(table)["wage"]
    assert r2_score(wage, np.array(lines[1:], dtype=float)) > 0.5
    assert "SVRPlus" in repr(lupi.load(model))
