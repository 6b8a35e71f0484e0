"""The way of one call through the rooms of the library: files, steps into a higher room, and calls from base to subclass."""

import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import lupi

PACKAGE = Path(lupi.__file__).parent
PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"  # beside the tests, wherever the package is installed
CONTRACT = tomllib.loads(PROJECT.read_text())["tool"]["importlinter"]["contracts"][0]
# From the lowest room to the highest, as the import contract has them.
ROOMS = CONTRACT["layers"][::-1]


@dataclass
class Walk:
    """What a call runs through.

    Attributes
    ----------
    files : list of str
        In the order of the first visit.
    upward : list of (str, str)
        Calls from a file into a file of a higher room, also those that pass through other libraries.
    bounces : list of (str, str)
        Calls from a method of a base class into one of a subclass of the same object.
    """

    files: list = field(default_factory=list)
    upward: list = field(default_factory=list)
    bounces: list = field(default_factory=list)


def walk(call, warm=False):
    """Run a function of no arguments and record its way; with ``warm`` once before, as the compiler visits kernels by itself.

    A file counts if a function of it runs: one that a reader has to look into. What an import runs (modules, bodies of
    classes, decorators) is no part of it, and neither is compiled code.
    """
    found = Walk()

    def record(frame, event, _):
        if event != "call" or not _is_ours(frame) or _is_import(frame):
            return
        here = _file(frame)
        if here not in found.files:
            found.files.append(here)
        caller = frame.f_back
        while caller is not None and not _is_ours(caller):
            caller = caller.f_back
        if caller is None:
            return
        there = _file(caller)
        if _room(here) > _room(there):
            found.upward.append((there, here))
        if _is_bounce(caller, frame):
            found.bounces.append((caller.f_code.co_qualname, frame.f_code.co_qualname))

    if warm:
        call()
    before = sys.gettrace()
    sys.settrace(record)
    try:
        call()
    finally:
        sys.settrace(before)
    return found


def _is_ours(frame):
    """Whether it is a function of the library; the package's own `__init__` does nothing but import public names."""
    file = frame.f_code.co_filename
    return file.startswith(f"{PACKAGE}/") and file != lupi.__file__


def _is_import(frame):
    """Whether an import called it, at whatever depth."""
    while frame is not None:
        if frame.f_code.co_name == "_find_and_load" and "importlib" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def _file(frame):
    return Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix()


def _room(file):
    name = Path(file).parts[0].removesuffix(".py")
    return next(level for level, rooms in enumerate(ROOMS) if name in rooms.split(" | "))


def _is_bounce(caller, callee):
    """Whether a method of a base class calls a method that one of its subclasses defines, on the same object."""
    owner = callee.f_locals.get("self")
    if owner is None or owner is not caller.f_locals.get("self"):
        return False
    order = [cls.__name__ for cls in type(owner).__mro__]
    names = [frame.f_code.co_qualname.split(".")[0] for frame in (caller, callee)]
    return all(name in order for name in names) and order.index(names[1]) < order.index(names[0])
