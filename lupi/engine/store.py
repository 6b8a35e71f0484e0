"""The run store: every finished unit of work on disk, at once, exactly once."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path

import numpy as np

from lupi.engine.files import strict_json
from lupi.validation import is_frame


class StoreMismatchError(ValueError):
    """The store belongs to another protocol or to other data."""


class RunStore:
    """Results of units of work in one SQLite file, or in memory.

    Each result is a transaction of its own: after a crash, Ctrl-C or ``kill -9`` everything that was added is there, and
    nothing else. A store belongs to one fingerprint of protocol and data.

    Parameters
    ----------
    path : path-like or None
        The file; None keeps results in memory only.
    fingerprint : str
        Of the protocol and the data.

    Examples
    --------
    >>> store = RunStore(None, "abc")
    >>> store.add("svm/0", {"score": 0.5})
    >>> store.results()
    {'svm/0': {'score': 0.5}}
    """

    def __init__(self, path, fingerprint):
        self.path = None if path is None else Path(path)
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._open(fingerprint)
        except sqlite3.DatabaseError as problem:
            raise ValueError(
                f"{self.path} is not a run store, or is damaged ({problem}); delete it to start anew."
            ) from None

    def _open(self, fingerprint):
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

    def add(self, unit, result):
        """Keep a result; a second one for the same unit is ignored.

        Parameters
        ----------
        unit : str
            Name of the unit of work.
        result : dict
            What came out; has to fit into JSON.
        """
        # JSON writes the shortest text that reads back as the same float: no bit is lost.
        self._connection.execute("INSERT OR IGNORE INTO units VALUES (?, ?)", (unit, strict_json(result)))

    def results(self):
        """All results.

        Returns
        -------
        dict of str to dict
        """
        return {unit: json.loads(text) for unit, text in self._connection.execute("SELECT unit, result FROM units")}

    def close(self):
        """Close the file."""
        self._connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


def data_digest(*blocks):
    """SHA-256 of arrays and frames: values, shapes, column names.

    Parameters
    ----------
    *blocks : ndarray, data frame or None

    Returns
    -------
    str

    Examples
    --------
    >>> import numpy as np
    >>> data_digest(np.zeros(3)) == data_digest(np.zeros(3)) != data_digest(np.ones(3))
    True
    """
    digest = hashlib.sha256()
    for block in blocks:
        if block is None:
            digest.update(b"none")
        elif is_frame(block):
            from pandas.util import hash_pandas_object

            digest.update(repr([(str(name), str(block[name].dtype)) for name in block.columns]).encode())
            digest.update(hash_pandas_object(block, index=False).to_numpy().tobytes())
        else:
            array = np.asarray(block)
            digest.update(repr((array.shape, array.dtype.kind)).encode())
            digest.update(
                array.astype(str).tobytes() if array.dtype.kind in "OU" else np.ascontiguousarray(array).tobytes()
            )
    return digest.hexdigest()
