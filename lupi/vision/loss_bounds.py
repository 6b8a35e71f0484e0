"""Overlap of boxes with a true box: exact values, and exact ranges over sets of boxes.

In each of its four coordinates the overlap ratio rises up to the true box's edge and falls beyond it. So over a product of
intervals it is largest at the true box clamped to the intervals, and smallest at a corner of the product. Both ends are
attained, which makes the ranges at least as tight as eq. 15 and 17 of Feyereisl et al. (2014).
"""

from numba import njit


@njit(cache=True, nogil=True, inline="always")
def edges_overlap(t, l, b, r, g0, g1, g2, g3):
    """Intersection over union of (t, l, b, r) with the true box; 0 for an empty box."""
    h = min(b, g2) - max(t, g0)
    w = min(r, g3) - max(l, g1)
    if h <= 0.0 or w <= 0.0:
        return 0.0
    common = h * w
    return common / ((b - t) * (r - l) + (g2 - g0) * (g3 - g1) - common)


@njit(cache=True, nogil=True, inline="always")
def _clamp(v, low, high):
    return low if v < low else (high if v > high else v)


@njit(cache=True, nogil=True)
def largest_overlap(t0, t1, l0, l1, b0, b1, r0, r1, g0, g1, g2, g3):
    """Largest overlap ratio over the boxes of a product of intervals."""
    t, b = _clamp(g0, t0, t1), _clamp(g2, b0, b1)
    l, r = _clamp(g1, l0, l1), _clamp(g3, r0, r1)
    if t < b and l < r:
        return edges_overlap(t, l, b, r, g0, g1, g2, g3)
    h = min(b1, g2) - max(t0, g0)
    w = min(r1, g3) - max(l0, g1)
    if h <= 0.0 or w <= 0.0:
        return 0.0
    return min(1.0, h * w / ((g2 - g0) * (g3 - g1)))


@njit(cache=True, nogil=True)
def smallest_overlap(t0, t1, l0, l1, b0, b1, r0, r1, g0, g1, g2, g3):
    """Smallest overlap ratio over the boxes of a product of intervals."""
    if t1 >= g2 or b0 <= g0 or l1 >= g3 or r0 <= g1 or t1 >= b0 or l1 >= r0:
        return 0.0
    # An interval on one side of the true edge has its minimum at the far end; one that contains the edge has two ends.
    n_t = 1 if (t0 == t1 or t1 <= g0 or t0 >= g0) else 2
    n_b = 1 if (b0 == b1 or b1 <= g2 or b0 >= g2) else 2
    n_l = 1 if (l0 == l1 or l1 <= g1 or l0 >= g1) else 2
    n_r = 1 if (r0 == r1 or r1 <= g3 or r0 >= g3) else 2
    low = 1.0
    for i in range(n_t):
        t = t0 if (i == 1 or (n_t == 1 and t1 <= g0)) else t1
        for j in range(n_b):
            b = b1 if (j == 1 or (n_b == 1 and b0 >= g2)) else b0
            for k in range(n_l):
                l = l0 if (k == 1 or (n_l == 1 and l1 <= g1)) else l1
                for m in range(n_r):
                    r = r1 if (m == 1 or (n_r == 1 and r0 >= g3)) else r0
                    low = min(low, edges_overlap(t, l, b, r, g0, g1, g2, g3))
    return low
