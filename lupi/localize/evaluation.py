"""How good boxes are: a dict that the terminal, JSON and the gallery show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lupi.comparison.summary import mean_and_error
from lupi.vision.geometry import Box
from lupi.vision.images import source_name


def overlap_of(true: Box | None, predicted: Box | None) -> float:
    """Intersection over union; 1 for two absent boxes, 0 if only one is absent."""
    if true is None or predicted is None:
        return float(true is None and predicted is None)
    return float(Box(*true).iou(Box(*predicted)))


def mean_relative_box(boxes: list[Any], shapes: list[tuple[int, int]]) -> np.ndarray | None:
    """The mean of boxes relative to their images' sizes, the one guess that looks at no image; None without any box.

    Examples
    --------
    >>> mean_relative_box([(0, 0, 2, 2), None, (2, 2, 4, 4)], [(4, 4), (9, 9), (4, 8)]).tolist()
    [0.25, 0.125, 0.75, 0.5]
    """
    found = [np.array(box) / np.array([*shape, *shape]) for box, shape in zip(boxes, shapes) if box is not None]
    return np.mean(found, axis=0) if found else None


def at_size(relative: np.ndarray, shape: tuple[int, int]) -> Box:
    """A relative box in an image of this height and width."""
    return Box(*(float(v) for v in np.asarray(relative) * [*shape, *shape]))


def evaluate_boxes(
    true: Any,
    predicted: Any,
    *,
    images: Sequence[Any] | None = None,
    labels: Any = None,
    label_names: Sequence[str] | None = None,
    threshold: float = 0.5,
    constant: Any = None,
) -> dict[str, Any]:
    """Mean overlap and detection rate, overall and for each class.

    Parameters
    ----------
    true, predicted : sequences of Box or None
        Boxes of the same images.
    images : sequence or None, default=None
        Paths or other sources, for the records.
    labels : sequence of int or None, default=None
        Class of each image.
    label_names : sequence of str or None, default=None
        Names of the classes.
    threshold : float, default=0.5
        An object counts as detected if the overlap is larger.
    constant : sequence of Box or None, default=None
        What a guess without looking would say of the same images.

    Returns
    -------
    dict
        n_images, mean_overlap, detection_rate, threshold, per_class, images, and constant_box: mean_overlap and detection_rate
        of ``constant``, the mean difference of the overlaps and its standard error over the images (None of one image). It is
        None without ``constant``.

    Examples
    --------
    >>> from lupi.localize import evaluate_boxes
    >>> result = evaluate_boxes([(0, 0, 2, 2), (0, 0, 2, 2)], [(0, 0, 2, 2), (1, 0, 3, 2)])
    >>> round(result["mean_overlap"], 3), result["detection_rate"]
    (0.667, 0.5)
    """
    if len(true) != len(predicted) or not len(true):
        raise ValueError(
            f"true and predicted must have the same positive length, got {len(true)} and {len(predicted)}."
        )
    overlaps = np.array([overlap_of(a, b) for a, b in zip(true, predicted)])
    labels = np.zeros(len(true), dtype=int) if labels is None else np.asarray(labels)
    names = label_names if label_names is not None else [str(k) for k in range(int(labels.max()) + 1)]
    records = [
        {
            "image": source_name(images[i]) if images is not None else str(i),
            "label": names[labels[i]],
            "true": _plain(true[i]),
            "predicted": _plain(predicted[i]),
            "overlap": float(overlaps[i]),
        }
        for i in range(len(true))
    ]
    per_class = [{"label": names[k], **_summary(overlaps[labels == k], threshold)} for k in np.unique(labels)]
    found = {**_summary(overlaps, threshold), "threshold": threshold, "per_class": per_class, "images": records}
    return {**found, "constant_box": None if constant is None else _beside(overlaps, true, constant, threshold)}


def _beside(overlaps: np.ndarray, true: list[Box], constant: list[Box], threshold: float) -> dict[str, float]:
    """The constant box's figures, and how far the predictions are ahead of it."""
    own = np.array([overlap_of(a, b) for a, b in zip(true, constant)])
    difference, error = mean_and_error(overlaps - own)
    return {**_summary(own, threshold), "difference": difference, "standard_error": error if len(own) > 1 else None}


def _summary(overlaps: np.ndarray, threshold: float) -> dict[str, float]:
    return {
        "n_images": len(overlaps),
        "mean_overlap": float(overlaps.mean()),
        "detection_rate": float((overlaps > threshold).mean()),
    }


def _plain(box: Box | None) -> list[float] | None:
    return None if box is None else [float(v) if v != int(v) else int(v) for v in box]
