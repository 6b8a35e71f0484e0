"""Readers of research data and `python -m experiments`; what needs the data themselves is skipped without LUPI_DATA."""

import re

import numpy as np
import pytest
from typer.testing import CliRunner

from experiments import data_mnist_plus as mnist_plus
from experiments._entry import Entry, paper_table
from experiments.commands import ENTRIES
from experiments.data import load_awa, load_mnist_plus, load_research_table
from experiments.data_files import checked_file, data_folder
from lupi.cli import app
from lupi.comparison import compare
from lupi.comparison.problem import Data
from lupi.comparison.protocol import Protocol, split_rows


def invoke(*arguments, **env):
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200", **env})


# ---------------------------------------------------------------- without data


def test_where_the_data_are_looked_for(tmp_path, monkeypatch):
    monkeypatch.delenv("LUPI_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="LUPI_DATA name the folder"):
        load_awa()
    monkeypatch.setenv("LUPI_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=rf"no folder {re.escape(str(tmp_path))}.mnist_plus"):
        load_mnist_plus()
    (tmp_path / "mnist_plus").mkdir()
    assert data_folder(None, "mnist_plus") == tmp_path / "mnist_plus"
    with pytest.raises(FileNotFoundError, match=r"no file train_PFfeatures\.txt"):
        load_mnist_plus()


def test_damaged_files_are_noticed(tmp_path):
    (tmp_path / "a").write_text("good")
    digest = "770e607624d689265ca6c44884d0807d9b054d23c473c106c72be9de08b7376c"
    assert checked_file(tmp_path, "a", digest) == tmp_path / "a"
    (tmp_path / "a").write_text("goad")
    with pytest.raises(ValueError, match="damaged or another version"):
        checked_file(tmp_path, "a", digest)
    assert checked_file(tmp_path, "a", digest, verify=False) == tmp_path / "a"


def test_mnist_plus_layout(tmp_path):
    """The reader on small files of the same layout."""
    rng = np.random.default_rng(0)
    shapes = {"train": 6, "val": 4, "test": 3}
    for part, n in shapes.items():
        np.savetxt(tmp_path / f"{part}_features.txt", rng.integers(0, 256, (n, 100)), fmt="%d", delimiter=",")
        np.savetxt(tmp_path / f"{part}_labels.txt", np.resize([5, 8], n), fmt="%d")
    for name, width in (("PF", 21), ("YY", 31)):
        np.savetxt(tmp_path / f"train_{name}features.txt", rng.integers(0, 5, (6, width)), fmt="%d", delimiter=",")
    bunch = load_mnist_plus(tmp_path, verify=False)
    assert bunch.data.shape == (6, 100)
    assert bunch.privileged.shape == (6, 21)
    assert bunch.test_data.shape == (3, 100)
    assert bunch.target.tolist() == [5, 8, 5, 8, 5, 8]
    assert load_mnist_plus(tmp_path, privileged="yin_yang", verify=False).privileged.shape == (6, 31)
    with pytest.raises(ValueError, match="damaged or another version"):
        load_mnist_plus(tmp_path)
    with pytest.raises(ValueError, match="must be one of poetic, yin_yang"):
        load_mnist_plus(tmp_path, privileged="prose")
    assert set(mnist_plus._FILES) == {p.name for p in tmp_path.iterdir()}


def test_awa_layout(tmp_path):
    counts = np.arange(1, 13, dtype=np.uint16).reshape(6, 2)
    classes, y = np.array(["rat", "seal", "pig"]), np.array([0, 0, 1, 1, 2, 2])
    np.savez(tmp_path / "surf_test10.npz", counts=counts, y=y, classes=classes)
    attributes = np.arange(18, dtype=np.float32).reshape(6, 3)
    np.savez(tmp_path / "dap_predicted_attributes_test10.npz", dap_all5=attributes, dap_surf=-attributes, y=y)
    bunch = load_awa(tmp_path, classes=("pig", "rat"), verify=False)
    assert bunch.target.tolist() == [1, 1, 0, 0]
    np.testing.assert_allclose(bunch.data[0], [1 / 3, 2 / 3])
    np.testing.assert_allclose(bunch.privileged, attributes[[0, 1, 4, 5]])
    with pytest.raises(ValueError, match="at least two of rat, seal, pig"):
        load_awa(tmp_path, classes=("rat", "cow"), verify=False)


def test_an_official_test_set_is_never_trained_on():
    y, test_only = np.arange(60) % 2, np.arange(60) >= 40
    data = Data.of(y[:, None], y, y[:, None], test_only=test_only)
    seen = set()
    for split in range(5):
        trains, test = split_rows(Protocol(train_sizes=(10, 30)), split, data)
        assert test.tolist() == list(range(40, 60))
        assert max(trains[30]) < 40
        seen |= set(trains[30].tolist())
    assert len(seen) > 35
    trains, _ = split_rows(Protocol(train_sizes=(40,)), 0, data)
    assert trains[40].tolist() == list(range(40))


def test_compare_with_a_test_set_without_privileged_rows():
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    X, Z = rng.standard_normal((80, 2)) + y[:, None], rng.standard_normal((80, 2))
    Z[40:] = np.nan
    grids = {"l2svm": {"C": [1.0]}, "svm2+": {"C": [1.0]}}
    options = {"methods": ["svm2+"], "baselines": [], "grids": grids, "permutations": 3, "kernel": "rbf"}
    result = compare(X, y, Z, test_only=np.arange(80) >= 40, n_splits=2, train_size=[20, 40], **options)
    assert result.summary["permutation"]["n"] == 3  # the rows without privileged values stay where they are
    last = result.summary["sizes"][-1]
    assert last["n_test"] == 40
    assert last["methods"][0]["scores"][0] == last["methods"][0]["scores"][1]  # all 40 rows, both times
    assert max(row["row"] for row in result.summary["hard_examples"]["rows"]) < 40
    with pytest.raises(ValueError, match="leave out `groups`"):
        compare(X, y, Z, test_only=np.arange(80) >= 40, groups=y)


def test_numbers_of_the_paper():
    rows = paper_table("sharmanska_2013_table1")
    assert len(rows) == 45
    assert sum(float(r["ranktransfer"]) > float(r["ranksvm"]) for r in rows) == 34  # as its text says
    assert sum(float(r["svm+"]) > float(r["svm"]) for r in rows) == 39


def test_list_of_entries():
    result = invoke("reproduce", "--list")
    assert result.exit_code == 0
    for name, entry in ENTRIES.items():
        line = next(line for line in result.stdout.splitlines() if line.startswith(name))
        assert ("needs" in line) == (entry.run is not None)
        assert entry.missing in line


def test_entries_that_cannot_run_say_why(monkeypatch, tmp_path):
    monkeypatch.setitem(ENTRIES, "lost", Entry("lost", "A table", "-", missing="its data were lost"))
    result = invoke("reproduce", "lost", "--out", tmp_path)
    assert result.exit_code == 1
    assert "A table cannot be run: its data were lost." in result.output
    result = invoke("reproduce", "unknown", "--out", tmp_path)
    assert "the entries are mnist-plus" in result.output
    result = invoke("reproduce", "mnist-plus", "--out", tmp_path, "--data", tmp_path / "none")
    assert result.exit_code == 1
    assert "there is no folder" in result.output


# ---------------------------------------------------------------- with data


@pytest.mark.data
class TestData:
    def test_shapes(self):
        assert load_awa(classes=("rat", "seal")).data.shape == (812, 2000)
        digits = load_mnist_plus()
        assert (digits.data.shape, digits.privileged.shape) == ((100, 100), (100, 21))

    @pytest.mark.parametrize(
        ("name", "rows", "privileged"),
        [
            ("support2", 9105, 11),
            ("parkinsons", 195, 6),
            ("bank_marketing", 4119, 1),
            ("student_performance", 649, 2),
            ("wagepan", 545, 10),
            ("card", 3010, 7),
            ("star", 2621, 4),
            ("econmath", 856, 5),
            ("rotterdam", 1876, 2),
            ("storms", 603, 12),
            ("opt", 809, 33),
        ],
    )
    def test_tables(self, name, rows, privileged):
        bunch = load_research_table(name)
        assert bunch.data.shape[0] == rows
        assert bunch.privileged.shape == (rows, privileged)
        assert not set(bunch.feature_names) & set(bunch.privileged_names)
        if name == "parkinsons":
            assert len(set(bunch.groups)) == 32
