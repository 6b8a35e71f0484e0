"""The house: rooms keep their private things private, and every public name is at home in one room only."""

import ast
from collections import defaultdict
from pathlib import Path

import lupi

ROOT = Path(lupi.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
# Functions of the command line are named after its words: `lupi compare`, `lupi fit`, `lupi localize fit`.
ALLOWED = {"app", "compare", "fit", "predict"}


def folder(path):
    """The package that a file belongs to, such as ``lupi.solvers.kernel``."""
    return ".".join(("lupi", *path.relative_to(ROOT).parent.parts))


def imports(path):
    """Absolute names that a file imports, wherever in the file: ``lupi.boxes.geometry.Box``."""
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


def test_nobody_imports_what_is_private_to_another_package():
    assert private_imports() == []


def test_every_public_name_has_one_home():
    assert {name: sorted(rooms) for name, rooms in sorted(homes().items()) if len(rooms) > 1} == {}


def test_the_tests_can_fail(tmp_path, monkeypatch):
    for name, text in {"a/x.py": "from lupi.b._y import f\nKERNELS = 1\n", "b/z.py": "def KERNELS(): pass\n"}.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    monkeypatch.setitem(globals(), "FILES", sorted(tmp_path.rglob("*.py")))
    assert len(private_imports()) == 1
    assert homes()["KERNELS"] == {"a", "b"}
