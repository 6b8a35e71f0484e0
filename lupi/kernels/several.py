"""The kernel of several feature spaces: a weighted sum, each summand on columns of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lupi.kernels.space import Kernel
from lupi.model_parts import model_part


@model_part
@dataclass(frozen=True)
class SumKernel(Kernel):
    r"""Weighted sum of kernels on parts of the columns.

    .. math:: K(z, z') = \sum_m w_m \, o_m(z) \, o_m(z') \, K_m(z_m, z'_m)

    The columns are those of the first space, of the second one and so on, and then for each space one column :math:`o_m` with 1
    where an example has this space, and 0 where it has not: a space that is missing contributes nothing.

    Parameters
    ----------
    name : str
        "sum".
    parts : tuple of Kernel
    widths : tuple of int
        Number of columns of each space.
    weights : tuple of float

    Examples
    --------
    >>> import numpy as np
    >>> kernel = SumKernel("sum", parts=(Kernel("linear"), Kernel("linear")), widths=(1, 1), weights=(1.0, 10.0))
    >>> kernel(np.array([[1.0, 2.0, 1.0, 1.0], [3.0, 0.0, 1.0, 0.0]]))  # the second example has no second space
    array([[41.,  3.],
           [ 3.,  9.]])
    """

    parts: tuple[Kernel, ...] = ()
    widths: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()

    @property
    def unsafe(self) -> bool:
        """Whether the kernel matrix may have negative eigenvalues."""
        return any(part.unsafe for part in self.parts)

    def __call__(self, A: np.ndarray, B: np.ndarray | None = None) -> np.ndarray:
        """Kernel matrix between the rows of A and of B (of A itself by default)."""
        other = A if B is None else B
        out = np.zeros((A.shape[0], other.shape[0]))
        ends = np.cumsum((0, *self.widths))
        for m, (part, weight) in enumerate(zip(self.parts, self.weights)):
            columns, there = slice(ends[m], ends[m + 1]), ends[-1] + m
            left, right = (np.flatnonzero(block[:, there]) for block in (A, other))
            if not len(left) or not len(right):
                continue
            whole = len(left) == len(A) and len(right) == len(other)
            first = A[:, columns] if whole else A[left][:, columns]
            second = None
            if B is not None:
                second = other[:, columns] if whole else other[right][:, columns]
            values = part(first, second)
            values *= weight
            if whole:
                out += values
            else:
                out[np.ix_(left, right)] += values
        return out
