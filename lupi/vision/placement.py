r"""Where a box lies in its image and how large it is: nine numbers, and what they add to the value of a box in a search.

With :math:`s = (t/H, l/W, b/H, r/W)`, the sides relative to an image of H x W pixels, and :math:`c` those of the box in the
middle that takes half of the height and half of the width, the numbers are :math:`s - c`, :math:`(s - c)^2` and the relative
area minus 1/4: zero for the box in the middle. A linear function of them is a sum of one function of each side, and of a constant
weight of every pixel. So exact searches stay exact: a side's function joins the choice of that side, and the pixels' weight is
part of the integral image.
"""

import numpy as np
from numba import njit

N_PLACEMENT = 9
_CENTER = (0.25, 0.25, 0.75, 0.75)
_CENTER_AREA = 0.25


@njit(cache=True, nogil=True)
def placement(t, l, b, r, h, w):
    """The nine numbers of one box in an image of h x w pixels."""
    out = np.empty(N_PLACEMENT)
    sides = (t / h, l / w, b / h, r / w)
    for k in range(4):
        out[k] = sides[k] - _CENTER[k]
        out[4 + k] = out[k] * out[k]
    out[8] = (b - t) * (r - l) / (h * w) - _CENTER_AREA
    return out


@njit(cache=True, nogil=True)
def placement_range(t0, t1, l0, l1, b0, b1, r0, r1, h, w, low, high):
    """Smallest and largest value of each number over the boxes of a product of intervals."""
    starts = (t0 / h, l0 / w, b0 / h, r0 / w)
    stops = (t1 / h, l1 / w, b1 / h, r1 / w)
    for k in range(4):
        a, z = starts[k] - _CENTER[k], stops[k] - _CENTER[k]
        low[k], high[k] = a, z
        low[4 + k] = 0.0 if a <= 0.0 <= z else min(a * a, z * z)
        high[4 + k] = max(a * a, z * z)
    low[8] = max(b0 - t1, 0.0) * max(r0 - l1, 0.0) / (h * w) - _CENTER_AREA
    high[8] = (b1 - t0) * (r1 - l0) / (h * w) - _CENTER_AREA


@njit(cache=True, nogil=True)
def side_terms(row_edges, col_edges, weights):
    """What the top, left, bottom and right side add to a box's value at every grid line.

    The area's part is missing: see :func:`add_area`. Its constant is counted at the top.
    """
    out = (
        np.empty(len(row_edges)),
        np.empty(len(col_edges)),
        np.empty(len(row_edges)),
        np.empty(len(col_edges)),
    )
    for k in range(4):
        edges = row_edges if k % 2 == 0 else col_edges
        for i in range(len(edges)):
            v = edges[i] / edges[-1] - _CENTER[k]
            out[k][i] = weights[k] * v + weights[4 + k] * v * v
    out[0][:] -= weights[8] * _CENTER_AREA
    return out


@njit(cache=True, nogil=True)
def add_area(grid, row_edges, col_edges, weight):
    """Give every cell its share of the weight of the whole image's area."""
    if weight != 0.0:
        scale = weight / (row_edges[-1] * col_edges[-1])
        for i in range(grid.shape[0]):
            for j in range(grid.shape[1]):
                grid[i, j] += scale * (row_edges[i + 1] - row_edges[i]) * (col_edges[j + 1] - col_edges[j])
