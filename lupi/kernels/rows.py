"""Rows of a kernel matrix that is too large to be held."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from lupi.kernels.space import Kernel


class KernelRows:
    """Rows of a kernel matrix, computed when needed and kept while ``cache_size`` allows: the least recently used go first.

    Parameters
    ----------
    kernel : Kernel
    X : ndarray or CSR matrix
    cache_size : float
        Megabytes.
    available : bool ndarray, optional
        Rows and columns of the others are 0.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.kernels import Kernel
    >>> rows = KernelRows(Kernel("linear"), np.array([[1.0], [2.0], [3.0]]), cache_size=1)
    >>> rows.rows(np.array([2]))
    array([[3., 6., 9.]])
    """

    def __init__(self, kernel: Kernel, X, cache_size: float = 200, available: np.ndarray | None = None):
        self.kernel, self.X, self.available = kernel, X, available
        self._known = X if available is None else X[available]
        n = X.shape[0]
        self.capacity = max(2, min(n, int(cache_size * 2**20 / (8 * n))))
        self._store: np.ndarray | None = None
        self._slot: OrderedDict[int, int] = OrderedDict()

    def __len__(self) -> int:
        return self.X.shape[0]

    def rows(self, index: np.ndarray) -> np.ndarray:
        """Full rows of the kernel matrix, from the cache where they are still there."""
        if self._store is None:
            self._store = np.empty((self.capacity, len(self)))
        out = np.empty((len(index), len(self)))
        missing = []
        for place, i in enumerate(index.tolist()):
            if i in self._slot:
                self._slot.move_to_end(i)
                out[place] = self._store[self._slot[i]]
            else:
                missing.append(place)
        if missing:
            out[missing] = self._compute(index[missing])
            for place in missing[-self.capacity :]:
                i = int(index[place])
                if i in self._slot:  # the same row was asked for twice
                    continue
                slot = len(self._slot) if len(self._slot) < self.capacity else self._slot.popitem(last=False)[1]
                self._slot[i] = slot
                self._store[slot] = out[place]
        return out

    def _compute(self, index: np.ndarray) -> np.ndarray:
        if self.available is None:
            return self.kernel(self.X[index], self.X)
        block = np.zeros((len(index), len(self)))
        rows = np.flatnonzero(self.available[index])
        if len(rows):
            block[np.ix_(rows, self.available)] = self.kernel(self.X[index[rows]], self._known)
        return block

    def product(self, coefficients: np.ndarray, chunk: int = 512) -> np.ndarray:
        """Kernel matrix times a vector, a few rows of the non-zero coefficients at a time."""
        used = np.flatnonzero(coefficients)
        out = np.zeros(len(self))
        for start in range(0, len(used), chunk):
            part = used[start : start + chunk]
            out += coefficients[part] @ self._compute(part)
        return out

    def diagonal(self, chunk: int = 64) -> np.ndarray:
        """Kernel of every example with itself."""
        parts = [self._known[start : start + chunk] for start in range(0, self._known.shape[0], chunk)]
        values = np.zeros(len(self))
        values[slice(None) if self.available is None else self.available] = np.concatenate(
            [np.diagonal(self.kernel(part, part)) for part in parts]
        )
        return values

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """A sub-matrix."""
        return self.rows(rows)[:, columns]
