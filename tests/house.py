"""Walks through the code: the files that a call visits, steps into a higher folder, calls from a base class to a subclass."""

import io
import sys
import tokenize
import tomllib
from ast import AsyncFunctionDef, ClassDef, Constant, Expr, FunctionDef, Module, parse, walk
from dataclasses import dataclass, field
from pathlib import Path

import lupi

PACKAGE = Path(lupi.__file__).parent
ROOT = Path(__file__).resolve().parents[1]
CONTRACT = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
# Name of a folder or file -> its height, as in the import contract.
HEIGHT = {name: -k for k, layer in enumerate(CONTRACT["layers"]) for name in layer.split(" | ")}
LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


@dataclass
class Walk:
    """Files in the order of the first visit; calls into a higher folder; calls from a base class to a subclass."""

    files: list = field(default_factory=list)
    upward: list = field(default_factory=list)
    jumps: list = field(default_factory=list)


def trace(call, warm=True):
    """Record the walk of a call; with ``warm`` it runs once before, because the compiler visits kernels by itself.

    A file counts if one of its functions runs. Code that an import runs, and compiled code, do not count.
    """
    found = Walk()

    def record(frame, event, _):
        # Python calls `__getattr__` wherever an attribute is missing, such as an optional parameter.
        if event != "call" or not _is_ours(frame) or _is_import(frame) or frame.f_code.co_name == "__getattr__":
            return
        file = _file(frame)
        if file not in found.files:
            found.files.append(file)
        caller = frame.f_back
        while caller is not None and not _is_ours(caller):
            caller = caller.f_back
        if caller is None:
            return
        # Hooks such as `__sklearn_tags__` are called by scikit-learn.
        if _height(file) > _height(_file(caller)) and not frame.f_code.co_name.startswith("__"):
            found.upward.append((_file(caller), file))
        if _is_jump(caller, frame):
            found.jumps.append((caller.f_code.co_qualname, frame.f_code.co_qualname))

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
    file = frame.f_code.co_filename
    return file.startswith(f"{PACKAGE}/") and file != lupi.__file__


def _is_import(frame):
    while frame is not None:
        if frame.f_code.co_name == "_find_and_load" and "importlib" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def _file(frame):
    return Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix()


def _height(file):
    return HEIGHT[Path(file).parts[0].removesuffix(".py")]


def _is_jump(caller, callee):
    """Whether a method of a base class calls a method that a subclass defines, on the same object."""
    owner = callee.f_locals.get("self")
    if owner is None or owner is not caller.f_locals.get("self"):
        return False
    order = [cls.__name__ for cls in type(owner).__mro__]
    names = [frame.f_code.co_qualname.split(".")[0] for frame in (caller, callee)]
    return all(name in order for name in names) and order.index(names[1]) < order.index(names[0])


def count_lines(path):
    """Lines of a file, and lines of code: without docstrings, comments and blank lines."""
    text = path.read_text(encoding="utf-8")
    code = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in walk(parse(text)):
        if isinstance(node, Module | ClassDef | FunctionDef | AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, Expr) and isinstance(first.value, Constant) and isinstance(first.value.value, str):
                code -= set(range(first.lineno, first.end_lineno + 1))
    return text.count("\n"), len(code)
