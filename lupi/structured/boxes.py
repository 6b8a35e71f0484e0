"""Object localization: the output is a box of a word image, or no box at all."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from lupi.privacy import model_part
from lupi.structured.task import Examples, Searched, Slices, Task, check_integer, check_positive, in_parts
from lupi.vision.box_search import SEARCHES, Images, check_weights, grid_edges, search_images
from lupi.vision.images import N_PLACEMENT, Box, WordImage, check_box, placement
from lupi.vision.kernel_search import CHI2, INTERSECTION, Expansion, integral_histograms, kernel_branch_and_bound

if TYPE_CHECKING:
    from lupi.kernels import Kernel

HISTOGRAM_KERNELS = {"chi2": CHI2, "intersection": INTERSECTION}
# Integral histograms hold one number for each cell and word.
_MOST_BYTES = 2 * 2**30


class BoxExamples(Examples):
    """Compiled searches over the points of all images. Outputs are rows of four edges, NaN for no object.

    Several spaces are one image with the points of all of them; words of different spaces are different words.
    """

    compiled = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        first, sizes = np.cumsum([0, *(task.n_words for task in self.tasks)]), np.zeros(len(self.Y), dtype=np.int64)
        shapes, points = np.ones((len(self.Y), 2), dtype=np.int64), []
        for i, has in enumerate(zip(*self.available)):
            for x, k in [(space[i], k) for space, here, k in zip(self.inputs, has, first) if here]:
                points.append((x.rows, x.cols, x.words + k))
                shapes[i], sizes[i] = x.shape, sizes[i] + len(x)
        rows, cols, words = map(np.concatenate, zip(*points))
        boxes = np.array([(np.nan,) * 4 if y is None else tuple(map(float, y)) for y in self.Y])
        edges = grid_edges(shapes, self.tasks[0].grid_step)
        self.images = Images(rows, cols, words, np.append(0, np.cumsum(sizes)), shapes, boxes, edges)
        self.present = ~np.isnan(boxes[:, 0])
        # Columns of the words in the joint feature. Counts are exact until they are multiplied by the factors of the columns.
        self.word_columns = np.concatenate([a + np.arange(task.n_words) for task, a in zip(self.tasks, self.ends)])
        self.factors = np.ones(self.n_features)
        for task, a, scale in zip(self.tasks, self.ends, self.scales):
            self.factors[a : a + task.n_words] = scale * task.scale
            self.factors[a + task.n_words :] = scale
            self.factors[a + task.n_words + task.offset :] = scale * task.geometry_scale

    def search(self, rows: np.ndarray, w: np.ndarray, loss_weights: Sequence[float]) -> Searched:
        """Best box of each row for each loss weight."""
        task, c, present = self.tasks[0], np.asarray(loss_weights, dtype=float), self.present[rows][:, None]
        w = self.factors * w
        offset, places = np.zeros((len(rows), 1)), np.zeros((len(rows), N_PLACEMENT))
        for has, offsets, placements in self._columns(rows):
            offset += has * w[offsets].sum()
            if placements.start < placements.stop:
                places += has * w[placements]
        # A missing true box means "no object": every box costs 1.
        search_weights = np.where(present, c, 0.0)
        options: dict[str, Any] = {"step": task.grid_step, "method": task.method, "max_nodes": task.max_nodes}
        found = search_images(self.images, rows, w[self.word_columns], places, search_weights, **options)
        missed = np.max(found.bounds - found.values, initial=0.0)
        if missed > 0.0:
            warnings.warn(
                f"branch and bound reached max_nodes={task.max_nodes}; the box may miss the maximum by "
                f"{missed:.3g}. Raise max_nodes or use method='auto'.",
                RuntimeWarning,
                stacklevel=3,
            )
        boxes = found.boxes
        loss = np.where(present, 1.0 - overlaps(boxes, self.images.boxes[rows][:, None]), 1.0)
        score = found.values + offset - search_weights * loss
        if task.allow_absent:
            none = search_weights > score + c * loss
            boxes[none] = np.nan
            loss, score = np.where(none, np.where(present, 1.0, 0.0), loss), np.where(none, 0.0, score)
        true = self._placements(rows, self.images.boxes[rows])
        true_scores = found.true_scores + present[:, 0] * offset[:, 0] + (true * places).sum(axis=1)
        return boxes, loss, score - true_scores[:, None]

    def found(self, rows: np.ndarray, w: np.ndarray, loss_weight: float = 0.0) -> list[Box | None]:
        """Best box of each row, or None when absence is allowed and better."""
        boxes = self.search(rows, w, (loss_weight,))[0][:, 0]
        return [None if np.isnan(box[0]) else Box(*map(int, box)) for box in boxes]

    @staticmethod
    def predict(task: Any, w: np.ndarray, X: Any, n_jobs: int | None = None) -> list[Box | None]:
        """Best box of every image, in joblib threads."""
        images = BoxExamples([task], [X], [np.ones(len(X), dtype=bool)], [None] * len(X), [1.0])
        parts = in_parts(lambda rows: images.found(rows, w), np.arange(len(X)), n_jobs, Slices())
        return [box for part in parts for box in part]

    def _columns(self, rows: np.ndarray) -> Iterator[tuple[np.ndarray, slice, slice]]:
        """Of each space, which rows have it, and the columns of its offset and of its placement in the joint feature."""
        for task, has, a, b in zip(self.tasks, self.available, self.ends, self.ends[1:]):
            words = a + task.n_words
            yield has[rows][:, None], slice(words, words + task.offset), slice(words + task.offset, b)

    def _placements(self, rows: np.ndarray, boxes: np.ndarray) -> np.ndarray:
        """Placement features of one box of each row; 0 for no object."""
        return np.nan_to_num(placement(boxes, self.images.shapes[rows]))

    def differences(self, rows: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """Joint features of the true boxes minus those of others."""
        out = np.zeros((len(rows), self.n_features))
        _count_differences(self.images, rows, outputs, self.word_columns, out)
        change = self._placements(rows, self.images.boxes[rows]) - self._placements(rows, outputs)
        presence = self.present[rows] * 1.0 - ~np.isnan(outputs[:, 0])
        for has, offsets, placements in self._columns(rows):
            out[:, offsets] = has * presence[:, None]
            if placements.start < placements.stop:
                out[:, placements] = has * change
        return out * self.factors


@model_part
@dataclass(eq=False, repr=False)
class BoxLocalization(Task):
    r"""Find the box of an object in a :class:`~lupi.vision.WordImage`; exact search over all boxes of a grid.

    The joint feature of a box counts the words inside it (times ``scale``), followed by a constant 1 if there is an
    offset, and with ``geometry`` by nine placement features; the feature of "no object" is zero. The
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
        Add placement features: the four sides relative to the image, their squares, and the area, all centered. Words alone
        carry little information about where an object usually is and how large.
    geometry_scale : float, default=20.0
        Factor of the placement features. A structural SVM penalizes all weights alike, and counts of words are large: with
        factor 1 the placement would hardly be used. 0 leaves it out of every score. Kernels of joint features are multiplied by
        exp(-d), d the squared distance of the placements; try values from 0.5 to 8 there.
    method : {"auto", "branch_and_bound", "row_pairs"}, default="auto"
        Search, see :func:`~lupi.vision.best_box`.
    max_nodes : int, default=5_000_000
        Node limit of branch and bound. A search that reaches it is completed by the scan with ``method="auto"``, and warns
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

    examples = BoxExamples
    common = ("grid_step", "allow_absent", "method", "max_nodes")

    n_words: int
    _: KW_ONLY
    grid_step: int = 1
    allow_absent: bool = False
    offset: Any = None
    scale: float = 1.0
    geometry: bool = False
    geometry_scale: float = 20.0
    method: str = "auto"
    max_nodes: int = 5_000_000

    def __post_init__(self) -> None:
        for name in ("n_words", "grid_step", "max_nodes"):
            setattr(self, name, check_integer(getattr(self, name), name))
        self.allow_absent, self.geometry = bool(self.allow_absent), bool(self.geometry)
        self.offset = self.allow_absent if self.offset is None else bool(self.offset)
        self.scale = check_positive(self.scale, "scale")
        self.geometry_scale = check_positive(self.geometry_scale, "geometry_scale", or_zero=True)
        if self.method not in SEARCHES:
            raise ValueError(f"method must be one of {list(SEARCHES)}, got {self.method!r}.")

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """Words, the offset, and the placement."""
        return int(self.n_words + self.offset + self.n_geometry)

    @property
    def n_geometry(self) -> int:  # type: ignore[override]
        """Number of placement features."""
        return N_PLACEMENT if self.geometry else 0

    def joint_feature(self, x: Any, y: Any) -> np.ndarray:
        """Scaled word counts of the box, then the offset and the placement; zero for no object."""
        out = np.zeros(self.n_features)
        if y is None:
            return out
        check_weights(out[: self.n_words], x, "n_words")
        out[: self.n_words] = self.scale * x.histogram(y, self.n_words)
        if self.offset:
            out[self.n_words] = 1.0
        if self.geometry:
            out[-N_PLACEMENT:] = self.geometry_scale * placement(y, x.shape)
        return out

    def loss(self, y_true: Any, y: Any) -> float:
        """1 - IoU of two boxes; 0 for two absences; 1 otherwise (eq. 10)."""
        if y_true is None or y is None:
            return float((y_true is None) != (y is None))
        return 1.0 - Box(*y_true).iou(y)

    def argmax(self, w: np.ndarray, x: Any, y_true: Any = None, loss_weight: float = 0.0) -> Box | None:
        """Best box, or None when absence is allowed and better."""
        w = np.asarray(w, dtype=float)
        check_weights(w[: self.n_words], x, "w")
        one = BoxExamples([self], [[x]], [np.ones(1, dtype=bool)], [y_true], [1.0])
        return one.found(np.zeros(1, dtype=np.int64), w, loss_weight)[0]

    def argmax_kernel(self, x: Any, kernel: Kernel, support: np.ndarray, coef: np.ndarray, normalize: bool) -> Box:
        """The box with the largest kernel expansion, by branch and bound over all boxes of the grid."""
        check_weights(np.zeros(self.n_words), x, "n_words")
        rows, cols = (grid_edges(np.array([size]), self.grid_step)[0] for size in x.shape)
        if 4 * len(rows) * len(cols) * self.n_words > _MOST_BYTES:
            raise ValueError(
                f"kernel inference on a grid of {len(rows) - 1} x {len(cols) - 1} cells and {self.n_words} words needs more than "
                f"{_MOST_BYTES / 2**30:.0f} GB; raise grid_step (now {self.grid_step})."
            )
        # Counts stay integers, which single precision represents exactly; the scale is applied to the kernel.
        scale = 1.0 if normalize else self.scale
        words, places = np.split(np.asarray(support, dtype=float), [self.n_words], axis=1)
        words = np.ascontiguousarray(words / scale)
        kind = HISTOGRAM_KERNELS[str(kernel.name)]
        coef = (scale if kind == INTERSECTION else 1.0) * np.asarray(coef, dtype=float)
        support_vectors = words, words.astype(np.float32), np.ascontiguousarray(places), self.geometry_scale
        expansion = Expansion(*support_vectors, coef, np.log(coef), kernel.gamma * scale, kind, bool(normalize))
        images = integral_histograms(x.rows, x.cols, x.words, x.shape, self.grid_step, self.n_words)
        found, value, upper, _ = kernel_branch_and_bound(expansion, images, rows, cols, self.max_nodes)
        if upper > value:
            warnings.warn(
                f"branch and bound reached max_nodes={self.max_nodes}; the box may not be the best one. Raise max_nodes.",
                RuntimeWarning,
                stacklevel=2,
            )
        return Box(int(rows[found[0]]), int(cols[found[1]]), int(rows[found[2]]), int(cols[found[3]]))

    def check_kernel(self, kernel: str) -> None:
        """Raise unless the kernel has a bound over sets of boxes."""
        if kernel not in HISTOGRAM_KERNELS:
            raise ValueError(
                f"kernel must be one of {sorted(HISTOGRAM_KERNELS)} for a search over boxes, got {kernel!r}: only these have a "
                "bound over sets of boxes."
            )
        if self.offset or self.allow_absent:
            raise ValueError(
                "a search with a kernel compares histograms of boxes; use BoxLocalization(..., allow_absent=False, offset=False)."
            )

    def check_several(self, tasks: list[Any], inputs: list[Any], names: list[Any]) -> None:
        """Raise unless all tasks search the same boxes, and all images of one example have the same shape."""
        super().check_several(tasks, inputs, names)
        for i, images in enumerate(zip(*inputs)):
            given = [(f"privileged[{name!r}][{i}]", x.shape) for name, x in zip(names, images) if x is not None]
            for name, shape in given[1:]:
                if shape != given[0][1]:
                    raise ValueError(
                        f"{name} has the shape {shape} and {given[0][0]} the shape {given[0][1]}; images of one example "
                        "in several spaces must have the same pixels."
                    )

    def check(self, X: Sequence[Any], Y: Sequence[Any] | None = None) -> None:
        """Raise for inputs that are not word images, words outside the vocabulary, or impossible boxes."""
        for i, x in enumerate(X):
            if not isinstance(x, WordImage):
                raise ValueError(f"X[{i}] must be a WordImage, got {type(x).__name__}.")
            if x.n_words_used > self.n_words:
                raise ValueError(
                    f"X[{i}] uses word {x.n_words_used - 1}; n_words={self.n_words} allows 0 to {self.n_words - 1}."
                )
            if Y is None or (Y[i] is None and self.allow_absent):
                continue
            if Y[i] is None:
                raise ValueError(f"Y[{i}] is None (no object), which requires BoxLocalization(..., allow_absent=True).")
            box = check_box(Y[i], f"Y[{i}]")
            if box.top < 0 or box.left < 0 or box.bottom > x.shape[0] or box.right > x.shape[1]:
                raise ValueError(f"Y[{i}] = {tuple(box)} reaches outside its image of shape {x.shape}.")

    def __repr__(self) -> str:
        return f"BoxLocalization(n_words={self.n_words}, grid_step={self.grid_step}, allow_absent={self.allow_absent})"


def overlaps(boxes: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Intersection over union of rows of four edges."""
    height, width = np.maximum(np.minimum(boxes, true)[..., 2:] - np.maximum(boxes, true)[..., :2], 0.0).T
    areas = [((box[..., 2] - box[..., 0]) * (box[..., 3] - box[..., 1])) for box in (boxes, true)]
    common = (height * width).T
    return np.asarray(common / (areas[0] + areas[1] - common))


@njit(cache=True, nogil=True, error_model="numpy")
def _count_differences(images, index, boxes, columns, out):  # type: ignore[no-untyped-def]
    """Word counts of the true box of each image minus those of another one."""
    for q in range(len(index)):
        true, other = images.boxes[index[q]], boxes[q]
        for k in range(images.start[index[q]], images.start[index[q] + 1]):
            r, c, column = images.rows[k], images.cols[k], columns[images.words[k]]
            if true[0] <= r < true[2] and true[1] <= c < true[3]:
                out[q, column] += 1.0
            if other[0] <= r < other[2] and other[1] <= c < other[3]:
                out[q, column] -= 1.0
