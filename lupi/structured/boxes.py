"""Object localization: the output is a box of a word image, or no box at all."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit

from lupi.model_parts import model_part
from lupi.structured.box_planes import packed_boxes
from lupi.structured.checks import check_positive_int, check_positive_real, check_real_from_zero
from lupi.vision.geometry import Box, WordImage, check_box
from lupi.vision.kernel_search import CHI2, INTERSECTION, integral_histograms, kernel_branch_and_bound
from lupi.vision.placement import N_PLACEMENT, placement
from lupi.vision.subwindow import SEARCHES, check_weights, grid_edges, search_points

HISTOGRAM_KERNELS = {"chi2": CHI2, "intersection": INTERSECTION}
# Integral histograms hold one number for each cell and word.
_MOST_BYTES = 2 * 2**30


@model_part
class BoxLocalization:
    r"""Find the box of an object in a :class:`~lupi.vision.WordImage`; exact search over all boxes of a grid.

    The joint feature of a box counts the words inside it (times ``scale``), followed by a constant 1 if there is an
    offset, and with ``geometry`` by nine numbers that tell where the box lies; the feature of "no object" is zero. The
    loss is eq. 10 of [1]_: one minus intersection over union, 1 for a wrong presence or absence.

    Parameters
    ----------
    n_words : int
        Size of the vocabulary.
    grid_step : int, default=1
        The edges of searched boxes are multiples of this many pixels.
    allow_absent : bool, default=False
        Whether "no object" (``None``) is an output.
    offset : bool or None, default=None
        Add the constant feature, which learns the threshold between presence and absence; None means ``allow_absent``.
    scale : float, default=1.0
        Factor of the counts. 1 / (number of points) keeps features of order 1.
    geometry : bool, default=False
        Add where the box lies: its four sides relative to the image, their squares, and its area, all centered. Words alone
        tell little of where an object usually is and how large.
    geometry_scale : float, default=20.0
        Factor of these numbers. A structural SVM penalizes all weights alike, and counts of words are large: with factor 1
        the numbers would hardly be used. 0 leaves them out of every score. Kernels of joint features are multiplied by exp(-d),
        d the squared distance of these numbers; there 0.5 to 8 are values to try.
    method : {"auto", "branch_and_bound", "row_pairs"}, default="auto"
        Search, see :func:`~lupi.vision.best_box`.
    max_nodes : int, default=5_000_000
        Node cap of branch and bound. A search that meets it is finished by the scan with ``method="auto"``, and warns
        otherwise.

    References
    ----------
    .. [1] Feyereisl et al., Object localization based on structural SVM using privileged information, 2014.

    Examples
    --------
    >>> from lupi.structured import BoxLocalization
    >>> from lupi.vision import Box, WordImage
    >>> task = BoxLocalization(n_words=2)
    >>> image = WordImage([2, 3, 9], [4, 6, 9], [0, 0, 1], shape=(12, 12))
    >>> task.joint_feature(image, Box(0, 0, 6, 6))
    array([1., 0.])
    >>> task.loss(Box(0, 0, 6, 6), Box(0, 0, 6, 3))
    0.5
    >>> BoxLocalization(n_words=2, geometry=True, geometry_scale=4.0).joint_feature(image, Box(0, 3, 6, 9))
    array([ 2.  ,  0.  , -1.  ,  0.  , -1.  ,  0.  ,  0.25,  0.  ,  0.25,
            0.  ,  0.  ])
    """

    # Models saved before these options existed have none of them.
    geometry = False
    geometry_scale = 20.0
    same_in_sums = ("grid_step", "allow_absent", "method", "max_nodes")

    def __init__(
        self,
        n_words: int,
        *,
        grid_step: int = 1,
        allow_absent: bool = False,
        offset: Any = None,
        scale: float = 1.0,
        geometry: bool = False,
        geometry_scale: float = 20.0,
        method: str = "auto",
        max_nodes: int = 5_000_000,
    ) -> None:
        self.n_words = check_positive_int(n_words, "n_words")
        self.grid_step = check_positive_int(grid_step, "grid_step")
        self.allow_absent = bool(allow_absent)
        self.offset = self.allow_absent if offset is None else bool(offset)
        self.scale = check_positive_real(scale, "scale")
        self.geometry = bool(geometry)
        self.geometry_scale = check_real_from_zero(geometry_scale, "geometry_scale")
        if method not in SEARCHES:
            raise ValueError(f"method must be one of {sorted(SEARCHES)}, got {method!r}.")
        self.method = method
        self.max_nodes = check_positive_int(max_nodes, "max_nodes")

    @property
    def n_features(self) -> int:
        """Words, the offset, and the geometry."""
        return int(self.n_words + self.offset + self.n_geometry)

    @property
    def n_geometry(self) -> int:
        """How many of the last features are the geometry of the box."""
        return N_PLACEMENT if self.geometry else 0

    def packed(self, X: Sequence[Any], Y: Sequence[Any], features: Any) -> Any:
        """What compiled oracles read (:mod:`lupi.structured.box_planes`); None where a search needs more than boxes and scores.

        That is: absence, a capped search, a subclass with methods of its own, images that are missing.
        """
        plain = type(self) is BoxLocalization and not (self.allow_absent or self.offset) and self.method == "auto"
        if not plain or features is None or any(x is None or y is None for x, y in zip(X, Y)):
            return None
        return packed_boxes(self, X, Y, features)

    def joint_feature(self, x: Any, y: Any) -> np.ndarray:
        """Scaled word counts of the box, then the offset and the geometry; zero for no object."""
        out = np.zeros(self.n_features)
        if y is None:
            return out
        if x.n_words_used > self.n_words:
            check_weights(out[: self.n_words], x, "n_words")
        _count(x.rows, x.cols, x.words, y[0], y[1], y[2], y[3], self.scale, out)
        if self.offset:
            out[self.n_words] = 1.0
        if self.geometry:
            out[-N_PLACEMENT:] = self.geometry_scale * placement(*map(float, y), *x.shape)
        return out

    def loss(self, y_true: Any, y: Any) -> float:
        """1 - IoU of two boxes; 0 for two absences; 1 otherwise (eq. 10)."""
        if y_true is None or y is None:
            return float((y_true is None) != (y is None))
        return 1.0 - Box(*y_true).iou(y)

    def argmax(self, w: np.ndarray, x: Any, y_true: Any = None, loss_weight: float = 0.0) -> Box | None:
        """Best box, or None when absence is allowed and better."""
        return self.argmax_scored(w, x, y_true, (loss_weight,))[0][0]

    def argmax_scored(
        self, w: np.ndarray, x: Any, y_true: Any, loss_weights: Sequence[Any]
    ) -> list[tuple[Box | None, float, float]]:
        """One (output, loss, score) for each loss weight, on the same integral images."""
        return list(self.argmax_sum([(self, np.asarray(w, dtype=float), x)], y_true, loss_weights))

    @staticmethod
    def argmax_sum(
        parts: Sequence[Any], y_true: Any, loss_weights: Sequence[Any]
    ) -> list[tuple[Box | None, float, float]]:
        """One (output, loss, score) for each loss weight; scores of all (task, w, x) added up.

        The sum is one image with the points of all of them, words of different images being different words.
        """
        task, _, x = parts[0]
        weights, words, n_words, base, places = [], [], 0, 0.0, np.zeros(N_PLACEMENT)
        for one, own, image in parts:
            words.append(image.words + n_words)
            n_words += one.n_words
            weights.append(check_weights(own[: one.n_words] * one.scale, image, "w"))
            base += own[one.n_words] if one.offset else 0.0
            places += own[-N_PLACEMENT:] * one.geometry_scale if one.geometry else 0.0
        present = y_true is not None
        c = np.array(loss_weights, dtype=float)
        boxes, values, bounds, _ = search_points(
            _joined([image.rows for _, _, image in parts]),
            _joined([image.cols for _, _, image in parts]),
            _joined(words),
            _joined(weights),
            places,
            x.shape[0],
            x.shape[1],
            task.grid_step,
            np.array(y_true, dtype=float) if present else np.zeros(4),
            c if present else np.zeros(len(c)),
            SEARCHES[task.method],
            task.max_nodes,
        )
        if (bounds > values).any():
            warnings.warn(
                f"branch and bound met max_nodes={task.max_nodes}; the box may miss the maximum by "
                f"{np.max(bounds - values):.3g}. Raise max_nodes or use method='auto'.",
                RuntimeWarning,
                stacklevel=3,
            )
        found: list[tuple[Box | None, float, float]] = []
        for k in range(len(c)):
            # A missing true box means "no object" where a loss matters: every box then costs 1.
            absent = c[k] if present else -c[k]
            if task.allow_absent and absent > values[k] + base:
                found.append((None, float(present), 0.0))
                continue
            box = Box(*boxes[k].astype(int).tolist())
            loss = task.loss(y_true, box)
            found.append((box, loss, values[k] + base - (c[k] * loss if present else 0.0)))
        return found

    def argmax_kernel(
        self, x: Any, support: np.ndarray, coef: np.ndarray, kernel: str, gamma: float, normalize: bool
    ) -> Box:
        """The box whose histogram has the largest kernel expansion, by branch and bound over all boxes of the grid.

        Parameters
        ----------
        x : WordImage
        support : ndarray of shape (n_support, n_features)
            Joint features of the support vectors, their words L1-normalized if ``normalize``.
        coef : ndarray of shape (n_support,)
            Positive coefficients.
        kernel : {"chi2", "intersection"}
        gamma : float
            Coefficient of chi2.
        normalize : bool
            Whether histograms are divided by their sum.

        Returns
        -------
        Box
        """
        if kernel not in HISTOGRAM_KERNELS:
            raise ValueError(
                f"kernel must be one of {sorted(HISTOGRAM_KERNELS)} for a search over boxes, got {kernel!r}: only these have a "
                "bound over sets of boxes."
            )
        if self.offset:
            raise ValueError("kernel inference compares histograms of boxes; use BoxLocalization(..., offset=False).")
        check_weights(np.zeros(self.n_words), x, "n_words")
        cells = [-(-size // self.grid_step) + 1 for size in x.shape]
        if 4 * cells[0] * cells[1] * self.n_words > _MOST_BYTES:
            raise ValueError(
                f"kernel inference on a grid of {cells[0] - 1} x {cells[1] - 1} cells and {self.n_words} words needs more than "
                f"{_MOST_BYTES / 2**30:.0f} GB; raise grid_step (now {self.grid_step})."
            )
        # Counts stay integers, which single precision holds exactly; the scale goes into the kernel.
        scale = 1.0 if normalize else self.scale
        support, places = np.split(np.asarray(support, dtype=float), [self.n_words], axis=1)
        support = np.ascontiguousarray(support / scale)
        rows, cols = grid_edges(x.shape[0], self.grid_step), grid_edges(x.shape[1], self.grid_step)
        images = integral_histograms(x.rows, x.cols, x.words, x.shape[0], x.shape[1], self.grid_step, self.n_words)
        kind = HISTOGRAM_KERNELS[kernel]
        factor = scale if kind == INTERSECTION else 1.0
        found, value, upper, _ = kernel_branch_and_bound(
            images,
            rows,
            cols,
            np.ascontiguousarray(places),
            self.geometry_scale,
            support,
            factor * np.asarray(coef, dtype=float),
            gamma * scale,
            kind,
            bool(normalize),
            self.max_nodes,
        )
        if upper > value:
            warnings.warn(
                f"branch and bound met max_nodes={self.max_nodes}; the box may not be the best one. Raise max_nodes.",
                RuntimeWarning,
                stacklevel=2,
            )
        return Box(int(rows[found[0]]), int(cols[found[1]]), int(rows[found[2]]), int(cols[found[3]]))

    @staticmethod
    def check_sum(images: Sequence[tuple[str, WordImage]]) -> None:
        """Raise for images, given with their names, of different shapes: a box must be one box in all of them."""
        for name, image in images[1:]:
            if image.shape != images[0][1].shape:
                raise ValueError(
                    f"{name} has the shape {image.shape} and {images[0][0]} the shape {images[0][1].shape}; images of one example "
                    "in several spaces must have the same pixels."
                )

    def check(self, X: Sequence[Any], Y: Sequence[Any]) -> None:
        """Raise for inputs that are no word images, words outside the vocabulary, or impossible boxes."""
        for i, (x, y) in enumerate(zip(X, Y)):
            if not isinstance(x, WordImage):
                raise ValueError(f"X[{i}] must be a WordImage, got {type(x).__name__}.")
            if x.n_words_used > self.n_words:
                raise ValueError(
                    f"X[{i}] uses word {x.n_words_used - 1}; n_words={self.n_words} allows 0 to {self.n_words - 1}."
                )
            if y is None:
                if not self.allow_absent:
                    raise ValueError(
                        f"Y[{i}] is None (no object), which needs BoxLocalization(..., allow_absent=True)."
                    )
                continue
            box = check_box(y, f"Y[{i}]")
            if box.top < 0 or box.left < 0 or box.bottom > x.shape[0] or box.right > x.shape[1]:
                raise ValueError(f"Y[{i}] = {tuple(box)} reaches outside its image of shape {x.shape}.")

    def __repr__(self) -> str:
        return f"BoxLocalization(n_words={self.n_words}, grid_step={self.grid_step}, allow_absent={self.allow_absent})"


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


@njit(cache=True, nogil=True)
def _count(
    rows: np.ndarray,
    cols: np.ndarray,
    words: np.ndarray,
    top: float,
    left: float,
    bottom: float,
    right: float,
    scale: float,
    out: np.ndarray,
) -> None:
    for k in range(rows.shape[0]):
        if rows[k] >= top and rows[k] < bottom and cols[k] >= left and cols[k] < right:
            out[words[k]] += scale
