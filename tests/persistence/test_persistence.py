"""lupi.save and lupi.load."""

import json
import sys
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import lupi
from lupi.datasets import make_privileged
from lupi.structured import Multiclass
from lupi.tabular.model import TabularModel
from lupi.vision import FisherVectors

X, Y, Z = make_privileged(60, 4, 3, random_state=0, return_X_y_privileged=True)
# A mark that no other number of a model can have: if its bytes are in the file, a privileged row is.
MARK = 0.7390851332151607
Z[7, 1] = MARK

MODELS = {
    "SVMPlus rbf": lupi.SVMPlus(),
    "SVMPlus linear": lupi.SVMPlus(privileged_kernel="linear", kernel="linear"),
    "SVM2Plus rbf": lupi.SVM2Plus(),
    "SVM2Plus poly": lupi.SVM2Plus(kernel="poly", privileged_kernel="poly"),
    "SVM2K": lupi.SVM2K(),
    "RankTransfer linear": lupi.RankTransfer(),
    "RankTransfer rbf": lupi.RankTransfer(kernel="rbf", privileged_kernel="rbf"),
    "RankTransferCV": lupi.RankTransferCV(Cs=[0.01], Cs_privileged=[0.01, 0.1], privileged_kernel="rbf"),
    "Distillation": lupi.Distillation(LogisticRegression(), KNeighborsClassifier()),
    "Distillation of an SVC": lupi.Distillation(SVC()),
    "TabularModel": TabularModel(lupi.SVM2Plus()),
    "TabularModel, distillation": TabularModel(lupi.Distillation(lupi.SVMPlus(), KNeighborsClassifier())),
}


@pytest.mark.filterwarnings("ignore:RankTransfer. the teacher")  # shuffled or weak on purpose
@pytest.mark.parametrize("name", MODELS)
def test_models_come_back_without_privileged_rows(name, tmp_path):
    model = MODELS[name].fit(X, Y, privileged=Z)
    lupi.save(model, tmp_path / "model.lupi")
    again = lupi.load(tmp_path / "model.lupi")
    assert_allclose(again.decision_function(X), model.decision_function(X), rtol=1e-12, atol=1e-13)
    with zipfile.ZipFile(tmp_path / "model.lupi") as archive:
        content = b"".join(archive.read(part) for part in archive.namelist())
    for vector in getattr(again, "support_vectors_", ()):  # rows of X are found, so rows of Z would be
        assert np.float64(vector[0]).tobytes() in content
    for row in Z:
        for value in row:
            assert np.float64(value).tobytes() not in content
            assert repr(float(value)).encode() not in content
    if hasattr(MODELS[name], "teacher_"):  # saving changes nothing in the model itself
        assert model.teacher_ is not None


def test_correcting_function_after_loading(tmp_path):
    rows = lupi.SVMPlus().fit(X, Y, privileged=Z)
    lupi.save(rows, tmp_path / "rbf")
    assert rows.correcting_function(Z).shape == (60,)
    with pytest.raises(ValueError, match="files and pickles hold no privileged rows"):
        lupi.load(tmp_path / "rbf").correcting_function(Z)
    linear = lupi.SVMPlus(privileged_kernel="linear").fit(X, Y, privileged=Z)
    lupi.save(linear, tmp_path / "linear", keep_privileged=True)
    assert_array_equal(lupi.load(tmp_path / "linear").correcting_function(Z), linear.correcting_function(Z))


def test_a_loaded_model_can_be_fitted_again(tmp_path):
    lupi.save(lupi.SVMPlus().fit(X, Y, privileged=Z), tmp_path / "m")
    again = lupi.load(tmp_path / "m").fit(X, Y, privileged=Z)
    assert again.correcting_function(Z).shape == (60,)
    with pytest.raises(ValueError, match="was fitted without privileged features"):
        lupi.load(tmp_path / "m").fit(X, Y).correcting_function(Z)


def test_pipelines_and_columns(tmp_path):
    pipe = make_pipeline(StandardScaler(), lupi.SVM2Plus()).fit(X, Y, svm2plus__privileged=Z)
    lupi.save(pipe, tmp_path / "pipe")
    assert_array_equal(lupi.load(tmp_path / "pipe").predict(X), pipe.predict(X))
    table = np.hstack([X, Z])
    columns = lupi.PrivilegedColumns(lupi.SVM2Plus(), columns=[4, 5, 6]).fit(table, Y)
    lupi.save(columns, tmp_path / "columns")
    assert_array_equal(lupi.load(tmp_path / "columns").predict(X), columns.predict(X))


def test_structured_and_one_class_models(tmp_path):
    task, star = Multiclass(2, 4), Multiclass(2, 3)
    models = {
        "ssvm+": lupi.StructuralSVMPlus(task, star, random_state=0, tol=0.05).fit(X, Y, privileged=Z),
        "jkse+": lupi.JKSEPlus(task, kernel="rbf", privileged_kernel="rbf").fit(X, Y, privileged=Z),
        "one class": lupi.OneClassSVMPlus().fit(X, privileged=Z),
    }
    for name, model in models.items():
        lupi.save(model, tmp_path / name)
        assert_array_equal(lupi.load(tmp_path / name).predict(X), model.predict(X))
        if name != "ssvm+":
            with pytest.raises(ValueError, match="files and pickles hold no privileged rows"):
                lupi.load(tmp_path / name).correcting_function(Z)
        with zipfile.ZipFile(tmp_path / name) as archive:
            content = b"".join(archive.read(part) for part in archive.namelist())
        assert not any(np.float64(value).tobytes() in content for value in Z.ravel())
    images = [np.random.RandomState(k).randint(0, 255, (60, 80), dtype=np.uint8) for k in range(3)]
    vectors = FisherVectors(2, "dense", n_components=3, random_state=0, cache=tmp_path / "cache").fit(images)
    lupi.save(vectors, tmp_path / "fisher")
    assert_array_equal(lupi.load(tmp_path / "fisher").transform(images), vectors.transform(images))


@pytest.mark.parametrize("damage", ["empty", "cut", "text", "flipped", "foreign"])
def test_damaged_files(damage, tmp_path):
    path = tmp_path / "model.lupi"
    lupi.save(lupi.SVM2Plus().fit(X, Y, privileged=Z), path)
    content = path.read_bytes()
    if damage == "foreign":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("hello.txt", "hello")
    else:
        middle = len(content) // 3
        flipped = content[:middle] + bytes(255 - b for b in content[middle : middle + 400]) + content[middle + 400 :]
        path.write_bytes(
            {"empty": b"", "cut": content[: len(content) // 2], "text": b"hello", "flipped": flipped}[damage]
        )
    with pytest.raises(ValueError, match="damaged or is not a model"):
        lupi.load(path)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        lupi.load(tmp_path / "nothing")


def test_unknown_types_are_neither_saved_nor_loaded(tmp_path):
    class Own(lupi.SVMPlus):
        pass

    Own.__qualname__ = "Own"
    with pytest.raises(TypeError, match=r"which lupi\.load would reject"):
        lupi.save(Own().fit(X, Y), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
    import skops.io

    (tmp_path / "own").write_bytes(skops.io.dumps(Own()))
    with zipfile.ZipFile(tmp_path / "own", "a") as archive:
        archive.writestr("lupi_format", "1")
    with pytest.raises(ValueError, match="does not trust"):
        lupi.load(tmp_path / "own")


def rewritten(path, member, change):
    """Change the bytes of a member of a file."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members[member] = change(members[member])
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in members.items():
            archive.writestr(name, part)


def test_files_of_a_newer_format_are_rejected(tmp_path):
    path = tmp_path / "m"
    lupi.save(lupi.SVMPlus().fit(X, Y), path)
    seen = []
    rewritten(path, "lupi_format", lambda number: seen.append(number) or b"2")
    assert seen == [b"1"]
    with pytest.raises(ValueError, match=r"newer version of lupi \(model format 2; this version reads 1.*Update lupi"):
        lupi.load(path)
    rewritten(path, "lupi_format", lambda number: b"new")
    with pytest.raises(ValueError, match="damaged or is not a model"):
        lupi.load(path)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("this", "Zen"),  # prints when it is imported
        ("os", "system"),
        ("lupi.persistence", "save"),
        ("lupi.svm.kernel_machine", "KernelClassifier"),  # of lupi, but not registered
        ("lupi.nowhere", "SVMPlus"),
        ("lupi.files.os", "system"),
        ("lupi_evil", "SVMPlus"),
    ],
)
def test_only_registered_classes_of_lupi_are_made(module, name, tmp_path):
    path = tmp_path / "m"
    lupi.save(lupi.SVMPlus().fit(X, Y), path)
    named = {"__module__": module, "__class__": name}
    rewritten(path, "schema.json", lambda schema: json.dumps(json.loads(schema) | named).encode())
    sys.modules.pop("this", None)
    with pytest.raises(ValueError, match="does not trust") as caught:
        lupi.load(path)
    assert f"{module}.{name}" in str(caught.value)
    assert "this" not in sys.modules


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "m"
    lupi.save(lupi.SVMPlus().fit(X, Y), path)
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *a: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        lupi.save(lupi.SVM2Plus().fit(X, Y), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m"]
