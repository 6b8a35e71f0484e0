"""Tables full of values that occur nowhere else, and a search for them in whatever a program wrote."""

import io
import sqlite3
import zipfile
from pathlib import Path

import numpy as np

# Digits by which a printed mark is known.
SHOWN = 6


def marked_numbers(shape, seed=0):
    """Numbers between 2 and 9 with a full mantissa: each is recognized in bytes and in decimal text."""
    return np.random.default_rng(seed).uniform(2.0, 9.0, shape)


def standardized(Z):
    """What estimators may see of a column: the same numbers, centered and scaled."""
    return (Z - Z.mean(axis=0)) / Z.std(axis=0)


def marks_in(content, numbers=(), words=()):
    """Which marks some bytes contain: as float64, as float32, in decimal text, or as a word; archives are opened.

    Returns
    -------
    list
    """
    parts = [(where, part, part.decode("latin-1")) for where, part in _parts("", bytes(content))]
    found = []
    for number in np.ravel(numbers):
        exact, text = (np.float64(number).tobytes(), np.float32(number).tobytes()), repr(float(number))
        text = text[: text.index(".") + 1 + SHOWN]
        found += [(where, number) for where, raw, shown in parts if text in shown or any(b in raw for b in exact)]
    return found + [(where, word) for word in words for where, _, shown in parts if word in shown]


def marks_in_files(folder, numbers=(), words=(), but=()):
    """The same for all files under a folder, their names included.

    Returns
    -------
    list
    """
    found = []
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file() and path not in but:
            found += [(path.name, *mark) for mark in marks_in(_content(path), numbers, words)]
            found += [(path.name, *mark) for mark in marks_in(str(path).encode(), numbers, words)]
    return found


def bits_in_files(folder, rows, but=()):
    """Files under a folder that hold one of some rows of noughts and ones, as an array of any type, packed, or as text.

    Returns
    -------
    list of (name of the file, number of the row)
    """
    kinds = (np.uint8, np.int32, np.int64, np.float32, np.float64)
    found = []
    for path in sorted(Path(folder).rglob("*")):
        if not path.is_file() or path in but:
            continue
        parts = [part for _, part in _parts("", _content(path))]
        for k, row in enumerate(rows):
            forms = [np.asarray(row, kind).tobytes() for kind in kinds]
            forms += [(np.asarray(row, np.uint8) * 255).tobytes(), np.packbits(np.asarray(row, bool)).tobytes()]
            forms += [mark.join(map(str, np.asarray(row, int))).encode() for mark in (",", ", ", " ", "")]
            found += [(path.name, k) for part in parts if any(form in part for form in forms)]
    return found


def _content(path):
    """Bytes of a file; of a database also all its cells, wherever their pages lie."""
    content = path.read_bytes()
    if not content.startswith(b"SQLite format 3"):
        return content
    with sqlite3.connect(path) as database:
        cells = [content]
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in database.execute(f'SELECT * FROM "{table}"'):
                cells += [cell if isinstance(cell, bytes) else str(cell).encode() for cell in row]
    database.close()
    return b"\n".join(cells)


def _parts(where, content):
    yield where, content
    if content.startswith(b"PK") and zipfile.is_zipfile(io.BytesIO(content)):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for name in archive.namelist():
                yield from _parts(f"{where}/{name}", archive.read(name))
