"""A folder of results, named by what they were computed from; safe against interruption at any moment."""

from __future__ import annotations

import json
import os
import tempfile
from hashlib import sha256
from pathlib import Path
from zipfile import BadZipFile

import numpy as np


def digest_of(*parts) -> str:
    """Name for a computation: hash of JSON-like values, strings and arrays.

    Examples
    --------
    >>> from lupi.images.store import digest_of
    >>> digest_of("words", {"n": 3}) == digest_of("words", {"n": 3}) != digest_of("words", {"n": 4})
    True
    """
    total = sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            part = f"{part.dtype.str}{part.shape}" + sha256(np.ascontiguousarray(part).tobytes()).hexdigest()
        total.update(json.dumps(part, sort_keys=True).encode() + b"\0")
    return total.hexdigest()


class Store:
    """Results on disk, one file each.

    A file appears under its name only when it is complete, so a killed process leaves results or nothing. A file that cannot
    be read counts as absent and is written again.

    Parameters
    ----------
    folder : path or None
        None stores nothing.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from lupi.images.store import Store
    >>> with TemporaryDirectory() as folder:
    ...     store = Store(folder)
    ...     store.save_json("ab12", {"overlap": 0.5})
    ...     store.load_json("ab12"), store.load_json("cd34")
    ({'overlap': 0.5}, None)
    """

    def __init__(self, folder):
        self.folder = None if folder is None else Path(folder)

    def _path(self, key: str, suffix: str) -> Path:
        # Two letters as a folder: file systems slow down with very many entries in one place.
        return self.folder / key[:2] / f"{key[2:]}{suffix}"

    def save_arrays(self, key: str, **arrays):
        """Store named arrays."""
        if self.folder is not None:
            self._write(self._path(key, ".npz"), lambda file: np.savez(file, **arrays))

    def load_arrays(self, key: str) -> dict | None:
        """Named arrays, or None."""
        if self.folder is None:
            return None
        try:
            # Opened here: numpy leaves the file open when its content is damaged.
            with open(self._path(key, ".npz"), "rb") as file, np.load(file, allow_pickle=False) as arrays:
                return dict(arrays)
        except (OSError, ValueError, EOFError, BadZipFile, KeyError):
            return None

    def save_json(self, key: str, value):
        """Store a JSON value; floats come back bit for bit."""
        if self.folder is not None:
            self._write(self._path(key, ".json"), lambda file: file.write(json.dumps(value).encode()))

    def load_json(self, key: str):
        """JSON value, or None."""
        if self.folder is None:
            return None
        try:
            return json.loads(self._path(key, ".json").read_bytes())
        except (OSError, ValueError):
            return None

    @staticmethod
    def _write(path: Path, write):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                write(file)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
