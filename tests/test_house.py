"""The house stays small: lines per folder, walks of every estimator and command, imports, one home for every name.

Raising a budget needs a line of reason in CONTRIBUTING.md.
"""

import ast
import re
from collections import Counter, defaultdict
from shutil import rmtree

import numpy as np
import pytest
from house import CONTRACT, PACKAGE, ROOT, count_lines, trace
from sklearn.linear_model import LogisticRegression

import lupi
from lupi import compare
from lupi.datasets import make_privileged
from lupi.structured import Multiclass

FILES = sorted(PACKAGE.rglob("*.py"))

# ---------------------------------------------------------------- lines

# Budgets only go down.
TOTAL, CODE, LARGEST_FILE, OUTSIDE = 25_000, 15_098, 900, 4_745
LINES = {
    "cli": 670, "comparison": 2_272, "datasets": 960, "files.py": 136, "inputs": 1_459, "interop": 406,
    "kernels": 1_160, "localize": 757, "meta": 708, "persistence.py": 271, "plot": 835, "privacy.py": 127,
    "ranking": 1_720, "run.py": 350, "solution.py": 215, "structured": 2_440, "surrogate": 2_479, "svm": 4_808,
    "tabular": 955, "vision": 1_911,
}  # fmt: skip


def lines_of_rooms():
    lines = Counter()
    for path in FILES:
        lines[path.relative_to(PACKAGE).parts[0]] += count_lines(path)[0]
    return lines


def test_the_package_stays_within_its_budget():
    counts = np.array([count_lines(path) for path in FILES]).sum(axis=0)
    assert counts[0] <= TOTAL
    assert counts[1] <= CODE


def test_every_folder_stays_within_its_budget():
    found = lines_of_rooms()
    assert {room: n for room, n in found.items() if room != "__init__.py" and n > LINES.get(room, 0)} == {}


def test_no_file_is_too_long():
    assert {path.name: n for path in FILES if (n := count_lines(path)[0]) > LARGEST_FILE} == {}


def test_experiments_and_benchmarks_stay_small():
    if not (ROOT / "experiments").is_dir():
        pytest.skip("only in a checkout")
    paths = [*(ROOT / "experiments").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    assert sum(count_lines(path)[0] for path in paths) <= OUTSIDE


# ---------------------------------------------------------------- walks

X, Y, Z = make_privileged(60, random_state=0, return_X_y_privileged=True)
LINEAR = {"kernel": "linear", "privileged_kernel": "linear"}
SPACES = [Z[:, :1], Z[:, 1:]]
CLASSES = Multiclass(2, X.shape[1]), Multiclass(2, Z.shape[1])


def chunked(*tables):
    dask = pytest.importorskip("dask.array")
    return [dask.from_array(np.repeat(table, 100, axis=0), chunks=(2000, *table.shape[1:])) for table in tables]


def fit_chunks(model):
    X_chunks, Y_chunks, Z_chunks = chunked(X, Y, Z)
    return lambda: model.fit(X_chunks, Y_chunks, privileged=Z_chunks)


# Name -> fit, most files.
WALKS = {
    "SVM2Plus": (lambda: lupi.SVM2Plus().fit(X, Y, privileged=Z), 10),
    "SVMPlus": (lambda: lupi.SVMPlus().fit(X, Y, privileged=Z), 10),
    "SVRPlus": (lambda: lupi.SVRPlus().fit(X, Y, privileged=Z), 10),
    "SVM2K": (lambda: lupi.SVM2K().fit(X, Y, privileged=Z), 12),
    "OneClassSVMPlus": (lambda: lupi.OneClassSVMPlus().fit(X, privileged=Z), 13),
    "SVM2Plus linear": (lambda: lupi.SVM2Plus(**LINEAR).fit(X, Y, privileged=Z), 12),
    "SVMPlus linear": (lambda: lupi.SVMPlus(**LINEAR).fit(X, Y, privileged=Z), 12),
    "SVRPlus linear": (lambda: lupi.SVRPlus(**LINEAR).fit(X, Y, privileged=Z), 12),
    "SVM2Plus several spaces": (lambda: lupi.SVM2Plus().fit(X, Y, privileged=SPACES), 12),
    "SVMPlus several spaces": (lambda: lupi.SVMPlus().fit(X, Y, privileged=SPACES), 12),
    "SVM2Plus Dask": (fit_chunks(lupi.SVM2Plus(**LINEAR)), 15),
    "SurrogateClassifier": (lambda: lupi.SurrogateClassifier(random_state=0).fit(X, Y, privileged=Z), 10),
    "SurrogateClassifier ridge": (lambda: lupi.SurrogateClassifier("ridge").fit(X, Y, privileged=Z), 10),
    "SurrogateRegressor": (lambda: lupi.SurrogateRegressor(random_state=0).fit(X, Y + X[:, 0], privileged=Z), 10),
    "SurrogateClassifier Dask": (fit_chunks(lupi.SurrogateClassifier("ridge")), 12),
    "RankSVM": (lambda: lupi.RankSVM().fit(X, Y), 8),
    "RankTransfer": (lambda: lupi.RankTransfer().fit(X, Y, privileged=Z), 8),
    "RankTransferCV": (lambda: lupi.RankTransferCV([1.0], [1.0], cv=2).fit(X, Y, privileged=Z), 10),
    "StructuralSVMPlus": (lambda: lupi.StructuralSVMPlus(*CLASSES).fit(X, Y, privileged=Z), 12),
    "JKSEPlus": (lambda: lupi.JKSEPlus(CLASSES[0], kernel="rbf", privileged_kernel="rbf").fit(X, Y, privileged=Z), 15),
    "Distillation": (lambda: lupi.Distillation(LogisticRegression()).fit(X, Y, privileged=Z), 6),
    "KnowledgeTransfer": (lambda: lupi.KnowledgeTransfer(LogisticRegression()).fit(X, Y, privileged=Z), 6),
}


@pytest.mark.filterwarnings("ignore:RankTransfer")  # a weak teacher
@pytest.mark.parametrize("name", WALKS)
def test_a_fit_visits_few_files_and_goes_down_only(name):
    fit, most = WALKS[name]
    walk = trace(fit)
    assert len(walk.files) <= most, walk.files
    assert walk.upward == []
    assert walk.jumps == []


def test_a_step_upward_and_a_jump_are_seen():
    def upward(A, B):
        lupi.OneClassSVMPlus().fit(X[:5])
        return A @ B.T

    assert trace(lambda: lupi.RankSVM(kernel=upward).fit(X, Y), warm=False).upward != []

    class Base:
        def run(self):
            return self.step()

    class Sub(Base):
        def step(self):
            return 1

    for function, name in ((Base.run, "Base.run"), (Sub.step, "Sub.step")):
        file = str(PACKAGE / "solution.py")
        function.__code__ = function.__code__.replace(co_filename=file, co_qualname=name)
    assert trace(Sub().run).jumps == [("Base.run", "Sub.step")]


def test_a_comparison_visits_few_files(tmp_path, monkeypatch):
    """The command with one method, its fit included; `run.py` calls the work that it is given, which is not a step upward."""
    from typer.testing import CliRunner

    from lupi.cli import app

    pytest.importorskip("jinja2")
    monkeypatch.chdir(tmp_path)
    make_privileged(60, random_state=0, as_frame=True).frame.to_csv("table.csv", index=False)
    named = {"target": "target", "privileged": "z*", "methods": "svm2+", "baselines": "none"}
    numbers = {"splits": 2, "permutations": 2, "jobs": 1}
    options = [word for name, value in (named | numbers).items() for word in (f"--{name}", str(value))]

    def run():
        rmtree("lupi-report", ignore_errors=True)  # nothing to resume
        CliRunner().invoke(app, ["compare", "table.csv", *options], catch_exceptions=False)

    walk = trace(run)
    assert (tmp_path / "lupi-report" / "report.html").exists()
    assert len(walk.files) <= 30, sorted(walk.files)
    assert {step for step in walk.upward if step[0] != "run.py"} == set()
    assert walk.jumps == []


def test_localize_fit_visits_few_files(tmp_path):
    pytest.importorskip("mahotas")
    from PIL import Image
    from typer.testing import CliRunner
    from vision_data import picture

    from lupi.cli import app

    rows = ["image,top,left,bottom,right"]
    for k in range(4):
        image, box, _ = picture(k, shape=(72, 96))
        Image.fromarray(image).save(tmp_path / f"{k}.png")
        rows.append(f"{k}.png,{box.top},{box.left},{box.bottom},{box.right}")
    (tmp_path / "boxes.csv").write_text("\n".join(rows) + "\n")
    words = ["localize", "fit", tmp_path / "boxes.csv", "-o", tmp_path / "m.lupi", "--words", "10"]
    walk = trace(lambda: CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False))
    assert (tmp_path / "m.lupi").exists()
    assert len(walk.files) <= 20, sorted(walk.files)
    assert {step for step in walk.upward if step[0] not in ("run.py", "files.py")} == set()
    assert walk.jumps == []


# ---------------------------------------------------------------- names and imports


def imports(path):
    """Absolute names that a file imports, such as ``lupi.vision.images.Box``."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def private_imports(files):
    """Imports of another package's private modules and names, or of another module's private names."""
    found = []
    for path in files:
        package = ".".join(("lupi", *path.relative_to(PACKAGE).parent.parts)) + "."
        for name in imports(path):
            parts = name.split(".")
            private = [k for k, part in enumerate(parts) if part.startswith("_") and not part.startswith("__")]
            if parts[0] == "lupi" and private and not package.startswith(".".join(parts[: private[0]]) + "."):
                found.append(f"{path.relative_to(PACKAGE)} imports {name}")
    return found


def test_private_names_are_imported_by_their_own_package_only():
    assert private_imports(FILES) == []


def test_every_public_name_is_defined_in_one_room():
    rooms = defaultdict(set)
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            # Functions of the command line are named after its words.
            named = isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")
            if named and node.name not in ("compare", "fit", "predict"):
                rooms[node.name].add(path.relative_to(PACKAGE).parts[0])
    several = {name: sorted(found) for name, found in rooms.items() if len(found) > 1}
    assert several == {}


def test_files_are_written_atomically():
    calls = re.compile(r"\.(write_text|write_bytes)\(|\bopen\([^)]*[\"'][wa]b?[\"']")
    places = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in FILES
        for line in path.read_text().splitlines()
        if calls.search(line) and not line.lstrip().startswith((">>>", "..."))
    ]
    assert [place for place in places if not place.startswith("files.py")] == []


def test_rows_in_memory_are_asked_for_in_one_place():
    """Outside `inputs/` nothing depends on the type of rows."""
    asked = re.compile(r"isinstance\([^)]*(DaskRows|ArrayRows|ChunkedRows)|\.resident\b|is_chunked\(")
    places = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in FILES
        for line in path.read_text().splitlines()
        if asked.search(line) and path.relative_to(PACKAGE).parts[0] != "inputs"
    ]
    assert places == []


# ---------------------------------------------------------------- CONTRIBUTING


def contributing():
    return (ROOT / "CONTRIBUTING.md").read_text()


def test_the_tree_of_contributing_is_that_of_the_imports():
    drawing = re.search(r"```\nlupi/\n(.*?)```", contributing(), flags=re.DOTALL).group(1)
    drawn = [name for line in drawing.splitlines() for name in re.findall(r"(\w+)(?:/|\.py)(?=  )", line)]
    layers = [name for layer in CONTRACT["layers"] for name in layer.split(" | ")]
    assert drawn == layers


def test_the_walks_of_contributing_are_true(arrays):
    told = re.findall(r"\d\. `([a-z_0-9/]+\.py)`", contributing().split("## The walk of a fit")[1].split("\n## ")[0])
    assert trace(lambda: lupi.SVM2Plus().fit(*arrays[:2], privileged=arrays[2])).files == told
    told = re.findall(r"`([a-z_0-9/]+\.py)`", contributing().split("## The walk of a comparison")[1].split("\n## ")[0])
    options = {
        "methods": ["svm2+"],
        "baselines": [],
        "n_splits": 2,
        "train_size": 30,
        "kernel": "linear",
        "permutations": 2,
    }
    called = trace(lambda: compare(*arrays, **options)).files
    assert all((PACKAGE / file).is_file() for file in told)
    by_the_command = {file for file in told if file.startswith(("cli/", "persistence", "tabular/table"))}
    assert set(told) - set(called) - by_the_command <= {"comparison/report.py"}
