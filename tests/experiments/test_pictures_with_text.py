"""Pictures with texts: the reader, the two tables on features from a file, and what is said of files that will not do."""

import json

import numpy as np
import pytest
from scipy.io import savemat
from typer.testing import CliRunner

from experiments import pictures_with_text
from experiments.data import load_wiki_image_text
from experiments.pictures_with_text import read_features
from lupi.cli import app


def invoke(*arguments, **env):
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200", **env})


def features(path, n_classes=3, per_class=16, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), per_class)
    centers = rng.normal(size=(n_classes, 8))
    X = centers[y] + rng.normal(size=(len(y), 8))
    Z = centers[y][:, :4] + 0.3 * rng.normal(size=(len(y), 4))
    np.savez(path, X=X, privileged=Z, y=np.array(["cat", "dog", "eel", "fox"])[y])
    return path


@pytest.fixture
def small(monkeypatch):
    for name, value in {
        "XU_TRAIN": 6,
        "PER_GROUP": 8,
        "XU_GRIDS": {
            name: {"C": [1.0, 100.0]} | ({"kappa": [np.inf]} if name in ("svm+", "svm2+") else {})
            for name in pictures_with_text.XU_GRIDS
        },
    }.items():
        monkeypatch.setattr(pictures_with_text, name, value)
    monkeypatch.setattr(pictures_with_text.classify, "__kwdefaults__", {"per_class": 6})
    monkeypatch.setattr(pictures_with_text.rank_two, "__kwdefaults__", {"per_group": 8})
    monkeypatch.setattr("experiments.sharmanska_substitutes.PRIVILEGED_RANGE", [0.1, 10.0])


def test_accuracies_on_features_from_a_file(small, tmp_path):
    path = features(tmp_path / "f.npz")
    result = invoke(
        "reproduce", "xu-table2", "--features", path, "--out", tmp_path, "--splits", 2, "--jobs", 1, LUPI_TRACEBACK="1"
    )
    assert result.exit_code == 0, result.output
    for words in (
        "Features from a file: 48 rows, 8 features, 4 privileged, 3 classes",
        "SVM2K 84.82",
        "SVM-2K",
        "SVM2+",
    ):
        assert words in result.output
    assert "SUBSTITUTE" not in result.output
    found = json.loads((tmp_path / "xu-table2" / "result.json").read_text())
    (size,) = found["comparison"]["sizes"]
    assert (size["n_train"], size["n_test"]) == (18, 30)
    rows = {row["name"]: row for row in size["methods"]}
    assert set(rows) == {"svm", "l2svm", "svm+", "svm2+", "svm2k", "reference"}
    assert all(rows[name]["shuffled"]["scores"] for name in ("svm+", "svm2+", "svm2k"))
    assert not found["substitute"]
    assert rows["reference"]["mean"] > 0.6


def test_pairs_on_features_from_a_file(small, tmp_path):
    path = features(tmp_path / "f.npz")
    result = invoke(
        "reproduce",
        "sharmanska-table3",
        "--features",
        path,
        "--out",
        tmp_path,
        "--splits",
        2,
        "--tasks",
        2,
        "--jobs",
        1,
    )
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "sharmanska-table3" / "result.json").read_text())
    assert list(found["comparisons"]) == ["cat / dog", "cat / eel"]
    rows = {row["name"]: row for row in found["comparisons"]["cat / dog"]["sizes"][0]["methods"]}
    assert {params["loss"] for params in rows["ranktransfer"]["params"]} == {"hinge"}
    assert "above its plain counterpart in" in result.output
    assert "nature vs religion" in result.output


def test_files_that_will_not_do(tmp_path):
    rng = np.random.default_rng(0)
    X, Z, y = rng.normal(size=(6, 2)), rng.normal(size=(6, 1)), np.arange(6) % 2
    path = tmp_path / "f.npz"
    np.savez(path, X=X, y=y)
    with pytest.raises(ValueError, match=r"lacks privileged; write it by numpy\.savez"):
        read_features(path)
    np.savez(path, X=X[:5], privileged=Z, y=y)
    with pytest.raises(ValueError, match=r"X of .* has shape \(5, 2\).*one row for each of the 6 labels"):
        read_features(path)
    np.savez(path, X=X, privileged=np.full((6, 1), np.nan), y=y)
    with pytest.raises(ValueError, match=r"privileged of .* a table of finite numbers"):
        read_features(path)
    np.savez(path, X=X, privileged=Z, y=y[:, None])
    with pytest.raises(ValueError, match=r"y of .* has shape \(6, 1\)"):
        read_features(path)
    np.savez(path, X=X, privileged=Z, y=np.array([None] * 6))
    with pytest.raises(ValueError, match=r"no file of numpy.savez"):
        read_features(path)
    np.save(tmp_path / "f.npy", X)
    with pytest.raises(ValueError, match=r"no file of numpy.savez"):
        read_features(tmp_path / "f.npy")
    path.write_text("no archive")
    with pytest.raises(ValueError, match=r"no file of numpy.savez"):
        read_features(path)
    result = invoke("reproduce", "xu-table2", "--features", features(path, per_class=4), "--out", tmp_path)
    assert "every class needs more than 10 rows; the smallest has 4" in result.output
    result = invoke("reproduce", "mnist-plus", "--features", path, "--out", tmp_path)
    assert result.exit_code == 1
    assert "mnist-plus takes no --features; the entries that do are xu-table2, sharmanska-table3" in result.output


def test_rows_are_made_one_long(tmp_path):
    np.savez(tmp_path / "f.npz", X=[[3, 4], [0, 2]], privileged=[[5.0], [0.0]], y=[7, 9])
    found = read_features(tmp_path / "f.npz")
    np.testing.assert_allclose(found.X, [[0.6, 0.8], [0.0, 1.0]])
    np.testing.assert_allclose(found.privileged, [[1.0], [0.0]])
    assert found.y.tolist() == [0, 1]
    assert found.names == ["7", "9"]


def test_layout_of_the_wikipedia_files(tmp_path):
    """The reader on small files of the same layout."""
    rng = np.random.default_rng(0)
    tables = {
        "I_tr": rng.random((3, 4)),
        "T_tr": rng.random((3, 2)),
        "I_te": rng.random((2, 4)),
        "T_te": rng.random((2, 2)),
    }
    savemat(tmp_path / "raw_features.mat", tables)
    (tmp_path / "categories.list").write_text("art\nbiology\n")
    (tmp_path / "trainset_txt_img_cat.list").write_text("a-1\tb\t2\na-2\tc\t1\na-3\td\t2\n")
    (tmp_path / "testset_txt_img_cat.list").write_text("e-1\tf\t1\ne-2\tg\t1\n")
    bunch = load_wiki_image_text(tmp_path, verify=False)
    np.testing.assert_array_equal(bunch.data, np.vstack([tables["I_tr"], tables["I_te"]]))
    np.testing.assert_array_equal(bunch.privileged, np.vstack([tables["T_tr"], tables["T_te"]]))
    assert bunch.target.tolist() == [1, 0, 1, 0, 0]
    assert bunch.part.tolist() == ["train"] * 3 + ["test"] * 2
    assert list(bunch.target_names) == ["art", "biology"]
    assert "5 pictures of 2 categories" in bunch.DESCR
    with pytest.raises(ValueError, match="damaged or another version"):
        load_wiki_image_text(tmp_path)
    (tmp_path / "testset_txt_img_cat.list").write_text("e-1\tf\t1\n")
    with pytest.raises(
        ValueError, match=r"testset_txt_img_cat.list names 1 pictures, but raw_features.mat has 2 rows in I_te"
    ):
        load_wiki_image_text(tmp_path, verify=False)


@pytest.mark.data
def test_wikipedia_files_themselves():
    bunch = load_wiki_image_text()
    assert bunch.data.shape == (2866, 128)
    assert bunch.privileged.shape == (2866, 10)
    assert np.bincount(bunch.target).tolist() == [172, 360, 340, 333, 267, 236, 237, 185, 285, 451]
    assert (bunch.part == "train").sum() == 2173
