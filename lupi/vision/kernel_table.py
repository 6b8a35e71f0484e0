"""Kernel searches of many models on one image, by listing all boxes of the grid.

Models of one training set that differ in kernel width, coefficients or weight of the placement compare the same histograms. Their
distances are computed once; every further model costs one exponential for each box and support vector. For a single model, and for
fine grids, branch and bound (:mod:`lupi.vision.kernel_search`) is the way.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from lupi.vision.geometry import Box
from lupi.vision.kernel_search import integral_histograms
from lupi.vision.placement import placement
from lupi.vision.subwindow import grid_edges


class KernelTable:
    r"""Chi2 distances of all boxes of an image to the pairs of a training set.

    .. math::

        \hat y = \arg\max_y \sum_i a_i \exp(-\gamma \, \chi^2(h(y), h_i) - s^2 \|g(y) - g_i\|^2)

    Parameters
    ----------
    x : WordImage
    histograms : ndarray of shape (n, n_words)
        Word counts of the training boxes, or their shares if `normalize`.
    places : ndarray of shape (n, 9)
        Placements of the training boxes (:mod:`lupi.vision.placement`), not scaled.
    grid_step : int
        The edges of boxes are multiples of this many pixels.
    normalize : bool
        Whether histograms of boxes are divided by their sum.

    Examples
    --------
    >>> import numpy as np
    >>> from lupi.vision.kernel_table import KernelTable
    >>> from lupi.vision import WordImage
    >>> image = WordImage([2, 3, 9], [4, 6, 9], [0, 0, 1], shape=(12, 12))
    >>> table = KernelTable(image, np.array([[2.0, 0.0]]), np.zeros((1, 9)), grid_step=6, normalize=False)
    >>> table.argmax(np.array([0]), np.array([1.0]), gamma=1.0)
    Box(top=0, left=0, bottom=6, right=12)
    """

    def __init__(self, x, histograms, places, *, grid_step, normalize):
        rows, cols = grid_edges(x.shape[0], grid_step), grid_edges(x.shape[1], grid_step)
        images = integral_histograms(x.rows, x.cols, x.words, *x.shape, grid_step, histograms.shape[1])
        self.boxes, self.distances, self.apart = _distances(
            images, rows, cols, np.ascontiguousarray(histograms), np.ascontiguousarray(places), normalize
        )

    def argmax(self, support, coef, gamma, scale=0.0):
        """The best box of a model; of equal ones the first, counted by top, left, bottom and right edge.

        Parameters
        ----------
        support : ndarray of int
            Which training pairs have a coefficient.
        coef : ndarray
            Their coefficients, positive.
        gamma : float
            Of the chi2 kernel.
        scale : float, default=0.0
            Of the placements; 0 leaves them out.

        Returns
        -------
        Box
        """
        best, value = _largest(self.distances, self.apart, support, np.log(coef), float(gamma), float(scale) ** 2)
        if value == -np.inf:  # no points in the whole image
            return Box(0, 0, *self.boxes[:, 2:].max(axis=0).tolist())
        return Box(*self.boxes[best].tolist())


@njit(cache=True, nogil=True)
def _distances(images, row_edges, col_edges, support, places, normalize):
    """All boxes in pixels, the chi2 distance of each to each support vector, and the squared distance of the placements."""
    h, w, n_words = images.shape[0] - 1, images.shape[1] - 1, images.shape[2]
    n, m = h * (h + 1) // 2 * (w * (w + 1) // 2), support.shape[0]
    boxes = np.empty((n, 4), dtype=np.int64)
    distances, apart = np.empty((n, m)), np.empty((n, m))
    sums = support.sum(axis=1)
    histogram = np.empty(n_words)
    k = 0
    for t in range(h):
        for l in range(w):
            for b in range(t + 1, h + 1):
                for r in range(l + 1, w + 1):
                    total = 0.0
                    for j in range(n_words):
                        histogram[j] = images[b, r, j] - images[t, r, j] - images[b, l, j] + images[t, l, j]
                        total += histogram[j]
                    if normalize:
                        # No points, no shares: as far away as can be, and never chosen.
                        histogram /= total if total > 0.0 else 1.0
                        total = 1.0 if total > 0.0 else np.inf
                    sides = row_edges[t], col_edges[l], row_edges[b], col_edges[r]
                    place = placement(*sides, row_edges[-1], col_edges[-1])
                    for q in range(4):
                        boxes[k, q] = sides[q]
                    for i in range(m):
                        # (h - u)^2 / (h + u) = h + u - 4 h u / (h + u)
                        distances[k, i] = total + sums[i] - 4.0 * _shared(histogram, support[i])
                        apart[k, i] = np.sum((place - places[i]) ** 2)
                    k += 1
    return boxes, distances, apart


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "arcp", "nsz"}, error_model="numpy")
def _shared(h, u):
    s = 0.0
    for k in range(len(h)):
        s += h[k] * u[k] / (h[k] + u[k] + 1e-300)
    return s


@njit(cache=True, nogil=True)
def _largest(distances, apart, support, log_coef, gamma, weight):
    """The box with the largest expansion, and the logarithm of that."""
    n, m = distances.shape[0], len(support)
    terms = np.empty(m)
    margin = np.log(m)
    best, best_value = 0, -np.inf
    for k in range(n):
        top = -np.inf
        for q in range(m):
            i = support[q]
            terms[q] = log_coef[q] - gamma * distances[k, i] - weight * apart[k, i]
            top = max(top, terms[q])
        # A sum of m terms is at most m times the largest one.
        if top + margin <= best_value:
            continue
        total = 0.0
        for q in range(m):
            total += np.exp(terms[q] - top)
        value = top + np.log(total)
        if value > best_value:
            best, best_value = k, value
    return best, best_value
