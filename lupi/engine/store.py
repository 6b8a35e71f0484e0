"""What is kept on disk: files as a whole or not at all, names of what results depend on, and stores of results.

A store has two methods, ``store.get(key)`` (the result, or None) and ``store.add(key, result)``, and an attribute `in_workers`
that tells who adds: the workers (files, one a result), or the process that started them (one database). Every finished unit of
work is kept at once, exactly once, and survives any interruption.
"""

from __future__ import annotations

import io
import json
import os
import sqlite3
import tempfile
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Self
from zipfile import BadZipFile

import numpy as np

import lupi

# Rooms that show or measure results, but do not make them.
SILENT = ("bench", "cli", "plot")


def strict_json(value: Any, **options: Any) -> str:
    """JSON that every reader accepts: infinite numbers become the words "inf" and "-inf", NaN "nan", numpy's plain.

    Parameters
    ----------
    value : dict, list, number, str, bool or None
    **options : object
        As in :func:`json.dumps`, such as `indent`.

    Returns
    -------
    str

    Examples
    --------
    >>> strict_json({"kappa": [3.0, float("inf")], "n": np.int64(2)})
    '{"kappa": [3.0, "inf"], "n": 2}'
    """
    return json.dumps(_strict(value), allow_nan=False, **options)


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(part) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        return _strict(value.tolist())
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part.

    Parameters
    ----------
    path : path-like
        The file; its folder is made if needed.
    content : bytes
        What it shall hold.

    Raises
    ------
    OSError
        With the file and the cause, such as a full disk; the old file is still there then.
    """
    path = Path(path)
    try:
        _write(path, content)
    except OSError as problem:
        if problem.errno is None:
            raise
        # The system tells what failed, not always where.
        raise type(problem)(problem.errno, problem.strerror, str(path)) from None


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@cache
def code_digest(*rooms: str) -> str:
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


def digest_of(*parts: Any) -> str:
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


def fingerprint(**facts: Any) -> str:
    """Identity of a store's results: protocol and data as JSON-like facts, the version of lupi and its code.

    Examples
    --------
    >>> fingerprint(words=3) == fingerprint(words=3) != fingerprint(words=4)
    True
    """
    return digest_of(facts, lupi.__version__, code_digest())


class StoreMismatchError(ValueError):
    """The store belongs to another protocol, to other data or to other code."""


class MemoryStore(dict[Any, Any]):
    """Results of any type, for as long as the process lives.

    Examples
    --------
    >>> store = MemoryStore()
    >>> store.add("a", 1)
    >>> store.get("a"), store.get("b")
    (1, None)
    """

    in_workers = False
    add = dict.__setitem__


class RunStore:
    """Results of units of work in one SQLite file, or in memory.

    Each result is a transaction of its own: after a crash, Ctrl-C or ``kill -9`` everything that was added is there, and
    nothing else. A store belongs to one :func:`~lupi.engine.store.fingerprint` of protocol, data and code.

    Parameters
    ----------
    path : path-like or None
        The file; None keeps results in memory only.
    fingerprint : str
        Of the protocol, the data and the code.

    Raises
    ------
    StoreMismatchError
        If the file holds results of something else.
    ValueError
        If it is no run store, or is damaged.
    OSError
        If it cannot be opened, read or written: a full disk, missing rights, another process. Its results are safe.

    Examples
    --------
    >>> store = RunStore(None, "abc")
    >>> store.add("svm/0", {"score": 0.5})
    >>> store.get("svm/0"), store.get("svm/1")
    ({'score': 0.5}, None)
    """

    in_workers = False

    def __init__(self, path: Path | str | None, fingerprint: str) -> None:
        self.path = None if path is None else Path(path)
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._plain_errors():
            self._connection = sqlite3.connect(self.path or ":memory:", timeout=60, isolation_level=None)
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
            self._connection.execute("CREATE TABLE IF NOT EXISTS units (unit TEXT PRIMARY KEY, result TEXT NOT NULL)")
            self._connection.execute("INSERT OR IGNORE INTO facts VALUES ('fingerprint', ?)", (fingerprint,))
            (found,) = self._connection.execute("SELECT value FROM facts WHERE name = 'fingerprint'").fetchone()
        if found != fingerprint:
            self.close()
            raise StoreMismatchError(
                f"{self.path} holds results of another protocol, other data or another version of lupi (fingerprint "
                f"{found[:12]}, now {fingerprint[:12]}). Name another store, or delete that file to start anew."
            )

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        """Tell a file that is no store from one that cannot be used just now, whose results nobody should delete."""
        try:
            yield
        except sqlite3.DatabaseError as problem:
            if hasattr(self, "_connection"):
                self._connection.close()
            # The lower byte is the kind of error. SQLITE_ERROR: the file is a database, with other tables.
            code = getattr(problem, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
                raise ValueError(
                    f"{self.path} is not a run store, or is damaged ({problem}); delete it to start anew."
                ) from None
            raise OSError(
                f"{self.path} cannot be used now: {problem}. What it holds is kept; when there is room and the file may be "
                "written, the same call goes on from there."
            ) from None

    def add(self, key: Hashable, result: Any) -> None:
        """Keep a result; a second one for the same unit is ignored.

        Parameters
        ----------
        key : str
            Name of the unit of work.
        result : dict
            What came out; has to fit into JSON.
        """
        # JSON writes the shortest text that reads back as the same float: no bit is lost. A changed one is seen by the digest.
        text = strict_json(result)
        with self._plain_errors():
            self._connection.execute("INSERT OR IGNORE INTO units VALUES (?, ?)", (key, f"{text}\n{_digest(text)}"))

    def get(self, key: Hashable) -> Any:
        """The result of a unit, or None."""
        with self._plain_errors():
            found = self._connection.execute("SELECT result FROM units WHERE unit = ?", (key,)).fetchone()
        if found is None:
            return None
        text, _, digest = found[0].partition("\n")
        if digest != _digest(text):
            raise ValueError(
                f"{self.path}: the result of {key!r} is damaged: it is not what was written. Delete the file to start anew."
            )
        return json.loads(text)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


class FolderStore:
    """Results made of arrays: one file each, written by the worker that computed it.

    A file appears under its name only when it is complete, so a killed process leaves results or nothing. A file that cannot
    be read counts as absent and is written again. Keys are digests of all that a result depends on.

    Parameters
    ----------
    folder : path-like
    pack, unpack : callable
        From a result to a dict of arrays, and back.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     store = FolderStore(folder)
    ...     store.add("ab12", {"overlap": np.array([0.5])})
    ...     store.get("ab12"), store.get("cd34")
    ({'overlap': array([0.5])}, None)
    """

    in_workers = True

    def __init__(
        self, folder: str | os.PathLike[str], pack: Callable[..., Any] = dict, unpack: Callable[..., Any] = dict
    ) -> None:
        self.folder, self._pack, self._unpack = Path(folder), pack, unpack

    def _path(self, key: str) -> Path:
        # Two letters as a folder: file systems slow down with very many entries in one place.
        return self.folder / key[:2] / f"{key[2:]}.npz"

    def add(self, key: str, result: Any) -> None:
        """Keep a result."""
        content = io.BytesIO()
        np.savez(content, **self._pack(result))
        write_atomically(self._path(key), content.getvalue())

    def get(self, key: str) -> Any:
        """The result, or None."""
        try:
            # Opened here: numpy leaves the file open when its content is damaged.
            with open(self._path(key), "rb") as file, np.load(file, allow_pickle=False) as arrays:
                return self._unpack(dict(arrays))
        except (OSError, ValueError, EOFError, BadZipFile, KeyError, TypeError):
            return None
