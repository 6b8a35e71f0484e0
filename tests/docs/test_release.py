"""What a release promises, said in several files, is the same in all of them."""

import importlib
import inspect
import re
import tomllib
from pathlib import Path

import pytest

import lupi

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def packages(extra):
    """Names of the packages of an extra, those of the extras in it included."""
    found = set()
    for line in EXTRAS[extra]:
        name, _, inner = re.match(r"([\w-]+)(\[(.*?)\])?", line).groups()
        found |= set().union(*map(packages, inner.split(","))) if name == "lupi" else {name}
    return found


def test_one_version():
    (cited,) = re.findall(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), flags=re.MULTILINE)
    assert cited == lupi.__version__
    assert f"## {lupi.__version__} " in (ROOT / "CHANGELOG.md").read_text()


def test_the_promised_pythons_are_tested():
    promised = {c.rsplit(" ", 1)[1] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)}
    (tested,) = re.findall(r"python: \[(.*?)\]", (ROOT / ".github/workflows/tests.yml").read_text())
    assert set(re.findall(r"3\.\d+", tested)) == promised
    assert PROJECT["requires-python"] == f">={min(promised, key=lambda v: int(v[2:]))}"


def test_nobody_gets_the_gpl_unasked():
    assert "cvxopt" in packages("peers")
    for extra in EXTRAS:
        assert extra == "peers" or "cvxopt" not in packages(extra)
    assert not any(line.startswith(("cvxopt", "opencv")) for line in PROJECT["dependencies"])


def test_every_dependency_has_its_row():
    table = (ROOT / "CONTRIBUTING.md").read_text()
    rows = "\n".join(line.split("|")[1] for line in table.splitlines() if line.count("|") == 6)
    wanted = {re.match(r"[\w-]+", line).group() for line in PROJECT["dependencies"]}
    wanted |= packages("all") | packages("peers") | packages("dask") | packages("onnx")
    assert {name for name in wanted if name not in rows} == set()


def test_types_are_shipped():
    assert (Path(lupi.__file__).parent / "py.typed").exists()
    told = re.findall(r"^    from ([\w.]+) import (\w+) as \2$", Path(lupi.__file__).read_text(), flags=re.MULTILINE)
    assert {name: module for module, name in told} == lupi._PUBLIC


def without_types(function):
    """Parameters, or the return value, about which a signature says nothing."""
    signature = inspect.signature(inspect.unwrap(function))
    silent = [name for name, each in signature.parameters.items() if each.annotation is each.empty]
    return {*silent, *(["return"] if signature.return_annotation is signature.empty else [])} - {"self", "cls"}


@pytest.mark.parametrize(
    "room", ["lupi", "lupi.datasets", "lupi.localize", "lupi.plot", "lupi.structured", "lupi.vision"]
)
def test_the_public_interface_has_types(room):
    module = importlib.import_module(room)
    found = {}
    for name in set(module.__all__) - {"__version__"}:
        public = getattr(module, name)
        if inspect.isfunction(public):
            found[name] = without_types(public)
            continue
        for home in (each for each in public.__mro__ if each.__module__.startswith("lupi")):
            for method, value in vars(home).items():
                function = getattr(value, "__func__", value)
                ours = inspect.isfunction(function) and function.__module__.startswith("lupi")
                if ours and (method == "__init__" or not method.startswith("_")):
                    found[f"{name}.{method}"] = without_types(function)
    assert {name: silent for name, silent in found.items() if silent} == {}
