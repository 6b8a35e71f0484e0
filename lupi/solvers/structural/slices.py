"""Long loops in short calls: what is compiled cannot be interrupted."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

# Seconds of one call below which the next one may have twice as many examples.
_SHORT = 0.05


class Slices:
    """Cuts rows into parts whose calls last about a tenth of a second, whatever one row costs.

    Parameters
    ----------
    together : int
        Rows of the first part.

    Examples
    --------
    >>> import numpy as np
    >>> [part.tolist() for part in Slices(2).cut(np.arange(5))]
    [[0, 1], [2, 3, 4]]
    """

    def __init__(self, together: int = 1):
        self.together = together

    def cut(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Part by part; the time that the caller takes for a part decides on the length of the next."""
        done = 0
        while done < len(rows):
            part = rows[done : done + self.together]
            began = time.monotonic()
            yield part
            seconds = time.monotonic() - began
            done += len(part)
            if seconds > 2.0 * _SHORT:
                self.together = max(1, self.together // 2)
            elif len(part) == self.together and seconds < _SHORT:
                self.together *= 2
