"""Files of research data: where they are, and whether they are whole."""

from __future__ import annotations

import hashlib
import os
import zipfile
from math import prod
from pathlib import Path
from typing import Any

import numpy as np


def data_folder(root: str | os.PathLike[str] | None, name: str) -> Path:
    """Folder of a data set.

    Parameters
    ----------
    root : path-like or None
        The folder itself; None looks for the folder `name` in the one that the environment variable LUPI_DATA names.
    name : str
        Name of the data set's folder.

    Returns
    -------
    Path

    Raises
    ------
    FileNotFoundError
        With the place that was looked at.
    """
    if root is None:
        base = os.environ.get("LUPI_DATA")
        if not base:
            raise FileNotFoundError(
                f"where are the data {name!r}? Give their folder, or let the environment variable LUPI_DATA name the folder "
                f"that contains {name}."
            )
        root = Path(base) / name
    root = Path(root)
    if not root.is_dir():
        raise FileNotFoundError(f"there is no folder {root}, where the data {name!r} were looked for.")
    return root


def checked_file(folder: Path, name: str, sha256: str, verify: bool = True) -> Path:
    """Path of a file that exists and has the content that is known to be right.

    Parameters
    ----------
    folder : Path
    name : str
    sha256 : str
        SHA-256 of the right content, in hexadecimal digits.
    verify : bool, default=True
        Whether to compare it.

    Returns
    -------
    Path
    """
    path = folder / name
    if not path.is_file():
        raise FileNotFoundError(f"{folder} has no file {name}; the data set is not complete.")
    if verify:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != sha256:
            raise ValueError(
                f"{path} is damaged or another version: its SHA-256 is {found[:16]}..., expected {sha256[:16]}... "
                "(verify=False reads it all the same)."
            )
    return path


def checked_files(paths: list[Path], sha256: str, verify: bool = True) -> list[Path]:
    """Paths of files that all exist and together have the content that is known to be right.

    Parameters
    ----------
    paths : list of Path
    sha256 : str
        SHA-256 of the SHA-256 digests of all files, in this order, in hexadecimal digits.
    verify : bool, default=True
        Whether to compare it.

    Returns
    -------
    list of Path
    """
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise FileNotFoundError(
            f"there is no file {missing[0]} ({len(missing)} of {len(paths)} are missing); the data set is not complete."
        )
    if verify:
        total = hashlib.sha256()
        for path in paths:
            total.update(hashlib.sha256(path.read_bytes()).digest())
        if total.hexdigest() != sha256:
            raise ValueError(
                f"the {len(paths)} files {paths[0].name} ... {paths[-1].name} in {paths[0].parent} are damaged or another "
                f"version: their common SHA-256 is {total.hexdigest()[:16]}..., expected {sha256[:16]}... "
                "(verify=False reads them all the same)."
            )
    return paths


def bounded_arrays(path: Path, names: tuple[str, str], max_bytes: int = 2**28) -> list[np.ndarray]:
    """Arrays of an npz file, after a look at how large they say they are.

    Parameters
    ----------
    path : Path
    names : sequence of str
        The arrays that are wanted.
    max_bytes : int, default=2**28
        What one of them may take: a few bytes of an archive can unpack to more than any memory holds.

    Returns
    -------
    list of ndarray

    Raises
    ------
    ValueError
        If the file is damaged, or has no such array, or a larger one.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return [_bounded_array(archive, name, max_bytes) for name in names]
    # Damaged archives raise nearly anything: zlib.error, NotImplementedError, struct.error, SyntaxError and more.
    except Exception as error:
        raise ValueError(f"the archive cannot be read ({type(error).__name__}: {error})") from None


def _bounded_array(archive: Any, name: str, max_bytes: int) -> np.ndarray:
    entry = archive.getinfo(f"{name}.npy")
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(file)
    if max(entry.file_size, prod(shape) * dtype.itemsize) > max_bytes or dtype.hasobject:
        raise ValueError(f"{name} says it has the shape {shape} of {dtype}; at most {max_bytes} bytes are read")
    with archive.open(entry) as file:
        return np.lib.format.read_array(file, allow_pickle=False)
