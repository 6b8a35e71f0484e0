"""Atomic files, strict JSON, digests, and a folder of arrays."""

from __future__ import annotations

import io
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np


def write_atomically(path: str | os.PathLike[str], content: bytes | Iterable[bytes]) -> None:
    """Write a file, and its folder if needed, so that readers see the old content or the new content, never a part.

    The content may come in parts, which need not fit in memory together.
    An existing file keeps its mode, a new one follows the umask, and a symbolic link keeps its target, which is written.
    An OSError, such as a full disk, names the path and leaves the old file unchanged.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        # Never more open than the file that it replaces.
        with open(temporary, "xb", opener=partial(os.open, mode=0o666 if mode is None else mode)) as file:
            if mode is not None:
                os.chmod(temporary, mode)
            file.writelines([content] if isinstance(content, bytes) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.errno is not None:
            raise type(error)(error.errno, error.strerror, str(path)) from None
        raise


def strict_json(value: Any, **options: Any) -> str:
    """JSON text for any reader: infinities and NaN become the strings "inf", "-inf" and "nan"; numpy values are accepted.

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


def digest_of(*parts: Any) -> str:
    """SHA-256 of JSON-like values, arrays (values, shape, type) and data frames (values, column names, types).

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


class ArrayFolder:
    """Store of results that consist of arrays: one file per result, written by the worker that computed it.

    A missing or damaged file counts as absent. Keys are digests of everything that a result depends on. `pack` converts a
    result to a dict of arrays, and `unpack` converts it back.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     store = ArrayFolder(folder)
    ...     store.add("ab12", {"overlap": np.array([0.5])})
    ...     store.get("ab12"), store.get("cd34")
    ({'overlap': array([0.5])}, None)
    """

    filled_by_workers = True

    def __init__(
        self, folder: str | os.PathLike[str], pack: Callable[..., Any] = dict, unpack: Callable[..., Any] = dict
    ) -> None:
        self.folder, self._pack, self._unpack = Path(folder), pack, unpack

    def _path(self, key: str) -> Path:
        # Subfolders: file systems slow down with very many entries in one folder.
        return self.folder / key[:2] / f"{key[2:]}.npz"

    def add(self, key: str, result: Any) -> None:
        """Write a result."""
        content = io.BytesIO()
        np.savez(content, **self._pack(result))
        write_atomically(self._path(key), content.getvalue())

    def get(self, key: str) -> Any:
        """Return a result, or None."""
        try:
            # numpy leaves a damaged file open if it opens the path itself.
            with open(self._path(key), "rb") as file, np.load(file, allow_pickle=False) as arrays:
                return self._unpack(dict(arrays))
        except (OSError, ValueError, EOFError, BadZipFile, KeyError, TypeError):
            return None
