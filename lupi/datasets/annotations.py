"""Shared parts of the readers of annotated images: errors, checked values, file names, and the result."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from lupi.vision.geometry import Box

# Larger numbers cannot be pixels, and would overflow arrays.
LARGEST_EDGE = 2**31 - 1


class DataFormatError(ValueError):
    """A malformed file; the message gives the file, the line and what was expected."""


def malformed(
    path: Path, expected: str, got: str, *, line: int | None = None, part: str | None = None
) -> DataFormatError:
    """Error for a line of a file, or for a part of it such as ``annotations[3].bbox``."""
    where = ", ".join(str(w) for w in (path, None if line is None else f"line {line}", part) if w is not None)
    shown = got if len(got) <= 80 else f"{got[:77]}..."
    return DataFormatError(f"{where}: expected {expected}, got {shown!r}.")


def read_text(path: Path, encoding: str = "utf-8-sig") -> str:
    """Content of a text file."""
    try:
        return Path(path).read_text(encoding=encoding)
    except FileNotFoundError:
        raise DataFormatError(f"{path}: no such file.") from None
    except UnicodeDecodeError:
        raise DataFormatError(f"{path}: expected a text file in UTF-8.") from None
    except (OSError, ValueError) as error:
        raise DataFormatError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error}).") from None


def text_lines(path: Path) -> list[tuple[int, str]]:
    """Pairs (line number, stripped line) of the nonempty lines."""
    # `splitlines` also splits at characters such as U+2028, which editors do not count as line ends.
    return [(k, line.strip()) for k, line in enumerate(read_text(path).split("\n"), 1) if line.strip()]


def parse_number(text: str, kind: type = float) -> Any:
    """A float, or an int that fits into an array."""
    # Python accepts 1_0 as ten; files do not.
    value = kind("" if "_" in text else text)
    if kind is int and abs(value) > LARGEST_EDGE:
        raise ValueError(f"{value} is too large")
    return value


def checked_box(top: float, left: float, bottom: float, right: float, shape: tuple[int, int] | None = None) -> Box:
    """A Box of positive size, clipped to its image where the shape is known."""
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
    """Paths of annotated files; names that lead out of the folder `root` are rejected unless `follow_links`.

    Downloaded annotations could otherwise name any file of the machine, by ``..``, an absolute path or a symbolic link.
    """

    def __init__(self, root: Path, follow_links: bool) -> None:
        self.root, self.follow_links, self.real = root, follow_links, os.path.realpath(root)

    def __call__(self, *names: str, path: Path, line: int | None = None, part: str | None = None) -> Path:
        """The path ``root/names``; `path`, `line` and `part` locate the name for :func:`malformed`."""
        found = self.root.joinpath(*names)
        try:
            real = os.path.realpath(found)
            found.is_file()  # raises for names that are too long
        except (OSError, ValueError):
            raise malformed(path, "the name of a file", names[-1], line=line, part=part) from None
        if not self.follow_links and not Path(real).is_relative_to(self.real):
            expected = f"a file inside the folder {self.root} (follow_links=True or --follow-links reads others)"
            raise malformed(path, expected, names[-1], line=line, part=part)
        return found


def localization_bunch(
    images: Sequence[str],
    boxes: Sequence[Box | None],
    labels: Sequence[str],
    *,
    masks: Sequence[Any] = (),
    attributes: np.ndarray | None = None,
    label_names: Iterable[str] | None = None,
    descr: str = "",
    **extra: Any,
) -> Bunch:
    """Result of a reader; `labels` are class names, in the order of `label_names` or else sorted."""
    names = sorted(set(labels)) if label_names is None else list(label_names)
    some = list(masks) if any(mask is not None for mask in masks) else None
    known = {name: value for name, value in (("masks", some), ("attributes", attributes)) if value is not None}
    return Bunch(
        images=images,
        boxes=boxes,
        masks=some,
        attributes=attributes,
        labels=np.array([names.index(label) for label in labels], dtype=int),
        label_names=names or ["object"],
        data=images,
        target=boxes,
        privileged=known or None,
        DESCR=descr,
        **extra,
    )
