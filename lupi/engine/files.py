"""Files that are there as a whole or not at all, and JSON that every reader accepts."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import numpy as np


def strict_json(value, **options):
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


def _strict(value):
    if isinstance(value, dict):
        return {key: _strict(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(part) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        return _strict(value.tolist())
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def write_atomically(path, content):
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


def _write(path, content):
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
