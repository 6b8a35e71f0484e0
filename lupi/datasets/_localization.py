"""What the readers of annotated images share: the form of the result, and errors that name file and line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from lupi.vision.geometry import Box

# No image has a side of more pixels; beyond it numbers are damage, and whole numbers no longer fit into arrays.
LARGEST_EDGE = 2**31 - 1


class DataFormatError(ValueError):
    """A malformed file; the message gives the file, the line and what was expected."""


def malformed(path: Path, line: int | None, expected: str, got: str, part: str | None = None) -> DataFormatError:
    """The error for a line of a file, or for a part of it (such as ``annotations[3].bbox``); both may be None."""
    where = ", ".join(str(w) for w in (path, None if line is None else f"line {line}", part) if w is not None)
    shown = got if len(str(got)) <= 80 else f"{str(got)[:77]}..."
    return DataFormatError(f"{where}: expected {expected}, got {shown!r}.")


def file_text(path: Path, kind: str = "text", encoding: str = "utf-8-sig") -> str:
    """Content of a file in UTF-8."""
    try:
        return Path(path).read_text(encoding=encoding)
    except FileNotFoundError:
        raise DataFormatError(f"{path}: no such file.") from None
    except UnicodeDecodeError:
        raise DataFormatError(f"{path}: expected a {kind} file in UTF-8.") from None
    except (OSError, ValueError) as error:
        raise DataFormatError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error}).") from None


def text_lines(path: Path) -> list[tuple[int, str]]:
    """Pairs (line number, stripped line) of the lines that are not empty."""
    # Not `splitlines`, which also ends lines at letters such as U+2028 that no editor counts.
    return [(k, line.strip()) for k, line in enumerate(file_text(path).split("\n"), 1) if line.strip()]


def id_table(
    path: Path, expected: str, convert: Callable[..., Any], n_values: int, *, exact: bool = True
) -> dict[int, Any]:
    """Dict id -> converted values from lines `<id> <value> ...`."""
    table = {}
    for k, line in text_lines(path):
        parts = line.split()
        try:
            if len(parts) < n_values + 1 or (exact and len(parts) > n_values + 1):
                raise ValueError
            key, value = whole_number(parts[0]), convert(parts[1 : n_values + 1])
        except ValueError:
            raise malformed(path, k, expected, line) from None
        if key in table:
            raise malformed(path, k, "an id that no other line has", line)
        table[key] = value
    return table


def whole_number(text: str) -> int:
    """An integer from text that fits into an array."""
    value = int(_plain(text))
    if abs(value) > LARGEST_EDGE:
        raise ValueError(f"{value} is too large")
    return value


def number(text: str) -> float:
    """A number from text."""
    return float(_plain(text))


def _plain(text: str) -> str:
    """Text without what only Python takes for a part of a number: 1_0 is no ten in anybody's table."""
    if "_" in text:
        raise ValueError(f"{text!r} is no number")
    return text


def checked_box(top: float, left: float, bottom: float, right: float, shape: Any = None) -> Box:
    """A Box with positive size, cut to its image where that is known; integers where the numbers are whole."""
    top, left, bottom, right = (float(v) for v in (top, left, bottom, right))
    # NaN fails every comparison.
    if not (-LARGEST_EDGE <= top < bottom <= LARGEST_EDGE and -LARGEST_EDGE <= left < right <= LARGEST_EDGE):
        raise ValueError("a box must have finite edges with top < bottom and left < right")
    top, left = max(top, 0.0), max(left, 0.0)
    if shape is not None:
        bottom, right = min(bottom, shape[0]), min(right, shape[1])
    if not (top < bottom and left < right):
        raise ValueError("the box lies outside of its image")
    return Box(*(int(v) if v == int(v) else v for v in (top, left, bottom, right)))


class FilesInside:
    """Paths of files that an annotation names; those outside of the data set's folder are refused.

    A data set that somebody else made could otherwise name any file of this machine, by ``..``, by an absolute path or by a
    symbolic link.

    Parameters
    ----------
    root : path
        The data set's folder.
    follow_links : bool
        Whether files outside of it are welcome.
    """

    def __init__(self, root: Path | str, follow_links: bool) -> None:
        self.root, self.follow_links = Path(root), follow_links
        self.real = os.path.realpath(root)

    def __call__(self, *parts: str, at: tuple[Any, ...]) -> Path:
        """The path ``root/parts``; `at` is where the name stands: file, line and part, as for :func:`malformed`."""
        annotation, line, part = at
        path = self.root.joinpath(*parts)
        try:
            real = os.path.realpath(path)
            # Names that are too long are noticed only by a look at the disk.
            path.is_file()
        except (OSError, ValueError):
            raise malformed(annotation, line, "the name of a file", parts[-1], part=part) from None
        if not self.follow_links and not Path(real).is_relative_to(self.real):
            expected = f"a file inside the folder {self.root} (follow_links=True or --follow-links reads others)"
            raise malformed(annotation, line, expected, parts[-1], part=part)
        return path


def localization_bunch(
    images: Sequence[Any],
    boxes: Sequence[Any],
    *,
    masks: Sequence[Any] | None = None,
    attributes: np.ndarray | None = None,
    labels: Sequence[int] | None = None,
    label_names: Iterable[str] = (),
    descr: str = "",
    **extra: Any,
) -> Bunch:
    """Assemble the result of a reader.

    Returns
    -------
    Bunch
        ``images`` (paths), ``boxes`` (None where there is none), ``masks`` (sources, or None), ``attributes`` (binary array, or
        None), ``labels`` (class of each image, counted from 0) and ``label_names``; ``data``, ``target`` and ``privileged``
        are the same lists under the names that all loaders share.
    """
    numbers = np.zeros(len(images), dtype=int) if labels is None else np.asarray(labels, dtype=int)
    known = {name: value for name, value in (("masks", masks), ("attributes", attributes)) if value is not None}
    return Bunch(
        images=images,
        boxes=boxes,
        masks=masks,
        attributes=attributes,
        labels=numbers,
        label_names=list(label_names) or ["object"],
        data=images,
        target=boxes,
        privileged=known or None,
        DESCR=descr,
        **extra,
    )
