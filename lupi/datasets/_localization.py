"""What the readers of annotated images share: the form of the result, and errors that name file and line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from lupi.boxes.geometry import Box


class DataFormatError(ValueError):
    """A malformed file; the message gives the file, the line and what was expected."""


def malformed(path, line, expected, got, part=None):
    """The error for a line of a file, or for a part of it (such as ``annotations[3].bbox``); both may be None."""
    where = ", ".join(str(w) for w in (path, None if line is None else f"line {line}", part) if w is not None)
    shown = got if len(str(got)) <= 80 else f"{str(got)[:77]}..."
    return DataFormatError(f"{where}: expected {expected}, got {shown!r}.")


def text_lines(path):
    """Pairs (line number, stripped line) of the lines that are not empty."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataFormatError(f"{path}: no such file.") from None
    except UnicodeDecodeError:
        raise DataFormatError(f"{path}: expected a text file in UTF-8.") from None
    return [(k, line.strip()) for k, line in enumerate(text.splitlines(), 1) if line.strip()]


def id_table(path, expected, convert, n_values, *, exact=True):
    """Dict id -> converted values from lines `<id> <value> ...`."""
    table = {}
    for k, line in text_lines(path):
        parts = line.split()
        try:
            if len(parts) < n_values + 1 or (exact and len(parts) > n_values + 1):
                raise ValueError
            table[int(parts[0])] = convert(parts[1 : n_values + 1])
        except ValueError:
            raise malformed(path, k, expected, line) from None
    return table


def checked_box(top, left, bottom, right):
    """A Box with positive size; integers where the numbers are whole."""
    values = [float(v) for v in (top, left, bottom, right)]
    if not np.isfinite(values).all() or not (values[0] < values[2] and values[1] < values[3]):
        raise ValueError
    return Box(*(int(v) if v == int(v) else v for v in values))


def localization_bunch(images, boxes, *, masks=None, attributes=None, labels=None, label_names=(), descr="", **extra):
    """Assemble the result of a reader.

    Returns
    -------
    Bunch
        ``images`` (paths), ``boxes`` (None where there is none), ``masks`` (sources, or None), ``attributes`` (binary array, or
        None), ``labels`` (class of each image, counted from 0) and ``label_names``; ``data``, ``target`` and ``privileged``
        are the same lists under the names that all loaders share.
    """
    labels = np.zeros(len(images), dtype=int) if labels is None else np.asarray(labels, dtype=int)
    known = {name: value for name, value in (("masks", masks), ("attributes", attributes)) if value is not None}
    return Bunch(
        images=images,
        boxes=boxes,
        masks=masks,
        attributes=attributes,
        labels=labels,
        label_names=list(label_names) or ["object"],
        data=images,
        target=boxes,
        privileged=known or None,
        DESCR=descr,
        **extra,
    )
