"""The house: rooms keep private things private, every public name is at home in one room, and CONTRIBUTING draws it truly."""

import ast
import re
import tomllib
from collections import defaultdict
from pathlib import Path

from house import walk

import lupi
from lupi import SVM2Plus, compare

ROOT = Path(lupi.__file__).parent
# The package may be installed, and the pages beside these tests.
PAGES = Path(__file__).resolve().parents[1]
FILES = sorted(ROOT.rglob("*.py"))
# Functions of the command line are named after its words: `lupi compare`, `lupi fit`, `lupi localize fit`.
ALLOWED = {"app", "compare", "fit", "predict"}


def folder(path):
    """The package that a file belongs to, such as ``lupi.solvers.kernel``."""
    return ".".join(("lupi", *path.relative_to(ROOT).parent.parts))


def imports(path):
    """Absolute names that a file imports, wherever in the file: ``lupi.vision.geometry.Box``."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_private(part):
    return part.startswith("_") and not part.startswith("__")


def private_imports():
    """What files import of another package's private modules and names, or of another module's private names."""
    found = []
    for path in FILES:
        for name in imports(path):
            parts = name.split(".")
            first = next((k for k, part in enumerate(parts) if is_private(part)), None)
            if parts[0] != "lupi" or first is None:
                continue
            owner = ".".join(parts[:first])  # of the private thing: a package, or a module whose name is private
            if not (folder(path) + ".").startswith(owner + "."):
                found.append(f"{path.relative_to(ROOT.parent)} imports {name}")
    return found


def public_names(path):
    """Classes, functions and constants that a file defines."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def homes():
    """Rooms that define each public name; a room is a folder of `lupi/`, or a file there."""
    rooms = defaultdict(set)
    for path in FILES:
        for name in public_names(path):
            if not name.startswith("_") and name not in ALLOWED:
                rooms[name].add(path.relative_to(ROOT).parts[0])
    return rooms


def direct_writes():
    """Places that write a file in parts, so that who is killed leaves half of it; benchmarks write what they throw away."""
    calls = re.compile(r"\.(write_text|write_bytes)\(|\bopen\([^)]*[\"'][wa]b?[\"']")
    return [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in FILES
        if path.relative_to(ROOT).parts[0] != "bench"
        for line in path.read_text().splitlines()
        if calls.search(line) and not line.lstrip().startswith((">>>", "..."))
    ]


def test_files_appear_as_a_whole():
    """Only `write_atomically` writes files."""
    assert [place for place in direct_writes() if not place.startswith("files.py")] == []


def test_nobody_imports_what_is_private_to_another_package():
    assert private_imports() == []


def test_every_public_name_has_one_home():
    assert {name: sorted(rooms) for name, rooms in sorted(homes().items()) if len(rooms) > 1} == {}


def rooms_drawn():
    """Rooms of the drawing in CONTRIBUTING, from above, with what it says about each."""
    text = (PAGES / "CONTRIBUTING.md").read_text()
    drawing = re.search(r"## The house.*?```\nlupi/\n(.*?)```", text, flags=re.DOTALL).group(1)
    return dict(re.fullmatch(r"  (\S+) +(.*)", line).groups() for line in drawing.splitlines())


def test_the_drawing_shows_the_folders_in_the_order_of_imports():
    drawn = rooms_drawn()
    there = {
        f"{path.name}/" if path.is_dir() else path.name for path in ROOT.glob("[a-z]*") if path.suffix in ("", ".py")
    }
    assert set(drawn) == there
    contract = tomllib.loads((PAGES / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    assert [re.sub(r"/|\.py", "", room) for room in drawn] == contract["layers"]
    for room, words in drawn.items():
        if families := re.match(r"\{(.*?)\}", words):
            folders = {path.parent.name for path in (ROOT / room).glob("*/__init__.py")}
            assert set(families.group(1).split(",")) == folders


def ways():
    """The files of the two ways that CONTRIBUTING tells: of a fit, and of a comparison."""
    _, fit, compare = re.split(r"\*\*The way of one ", (PAGES / "CONTRIBUTING.md").read_text().split("## To add")[0])
    return [re.findall(r"`([a-z_0-9/]+\.py)`", text) for text in (fit, compare)]


def test_the_way_of_a_fit_is_the_one_that_is_told(arrays):
    X, y, Z = arrays
    assert walk(lambda: SVM2Plus().fit(X, y, privileged=Z)).files == ways()[0]


def test_the_way_of_a_comparison_is_the_one_that_is_told(arrays):
    told = ways()[1]
    assert len(told) == len(set(told)) >= 10
    options = {"methods": ["svm2+"], "baselines": [], "n_splits": 2, "train_size": 30, "kernel": "linear"}
    called = walk(lambda: compare(*arrays, **options)).files
    by_the_command = {"cli/compare.py", "cli/shared.py", "persistence.py"}
    by_the_command |= {f"comparison/render/{name}.py" for name in ("terminal", "page")}
    beyond = by_the_command | {"comparison/schema.py"}  # which declares, and does nothing
    assert set(told) - set(called) <= beyond
    assert all((ROOT / file).is_file() for file in told)


def test_the_tests_can_fail(tmp_path, monkeypatch):
    for name, text in {"a/x.py": "from lupi.b._y import f\nKERNELS = 1\n", "b/z.py": "def KERNELS(): pass\n"}.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    monkeypatch.setitem(globals(), "FILES", sorted(tmp_path.rglob("*.py")))
    assert len(private_imports()) == 1
    assert homes()["KERNELS"] == {"a", "b"}
    (tmp_path / "a" / "x.py").write_text('path.write_text("")\nwith open(path, "w") as file:\n')
    assert len(direct_writes()) == 2
