"""What a stored result depends on, as one name: its data, its parameters and the code that computed it."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np

import lupi
from lupi.engine.files import strict_json

# Rooms that show or measure results, but do not make them.
SILENT = ("bench", "cli", "plot")


@cache
def code_digest(*rooms) -> str:
    """SHA-256 of the source files of this library; read once a process.

    Results of other code must not be taken for results of this one, whatever the version's number says.

    Parameters
    ----------
    *rooms : str
        Only these packages or modules; by default all that can change a result.

    Returns
    -------
    str

    Examples
    --------
    >>> code_digest() == code_digest() != code_digest("images")
    True
    """
    root = Path(lupi.__file__).parent
    total = sha256()
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        room = name.parts[0].removesuffix(".py")
        if room in rooms or (not rooms and room not in SILENT):
            total.update(f"{name.as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return total.hexdigest()


def digest_of(*parts) -> str:
    """SHA-256 of JSON-like values, arrays and data frames: values, shapes, column names.

    Parameters
    ----------
    *parts : object
        None, numbers, words, lists and dicts of these; arrays; data frames.

    Returns
    -------
    str

    Examples
    --------
    >>> digest_of("words", {"n": 3}) == digest_of("words", {"n": 3}) != digest_of("words", {"n": 4})
    True
    >>> digest_of(np.zeros(3)) == digest_of(np.zeros(3)) != digest_of(np.ones(3))
    True
    """
    total = sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            values = part.astype(str) if part.dtype.kind in "OU" else np.ascontiguousarray(part)
            total.update(repr((part.shape, part.dtype.kind, part.dtype.itemsize)).encode() + values.tobytes())
        elif hasattr(part, "columns"):
            from pandas.util import hash_pandas_object

            total.update(repr([(str(name), str(part[name].dtype)) for name in part.columns]).encode())
            total.update(hash_pandas_object(part, index=False).to_numpy().tobytes())
        else:
            total.update(strict_json(part, sort_keys=True).encode())
        total.update(b"\0")
    return total.hexdigest()


def fingerprint(**facts) -> str:
    """Identity of a store's results: protocol and data as JSON-like facts, the version of lupi and its code.

    Examples
    --------
    >>> fingerprint(words=3) == fingerprint(words=3) != fingerprint(words=4)
    True
    """
    return digest_of(facts, lupi.__version__, code_digest())
