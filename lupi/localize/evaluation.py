"""Evaluation of boxes: overlap and detection rate, per class and relative to a constant box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lupi.vision.images import Box, source_name


def overlap_of(true: Any, predicted: Any) -> float:
    """Intersection over union; 1 if both boxes are absent, 0 if one is."""
    if true is None or predicted is None:
        return float(true is None and predicted is None)
    return float(Box(*true).iou(Box(*predicted)))


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
    """Mean overlap and detection rate, overall and per class.

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
        Baseline boxes of the same images.

    Returns
    -------
    dict
        n_images, mean_overlap, detection_rate, threshold, per_class, images, and constant_box: mean_overlap and detection_rate
        of ``constant``, the mean difference of the overlaps and its standard error over the images (None for one image);
        None without ``constant``.

    Examples
    --------
    >>> from lupi.localize import evaluate_boxes
    >>> result = evaluate_boxes([(0, 0, 2, 2), (0, 0, 2, 2)], [(0, 0, 2, 2), (1, 0, 3, 2)])
    >>> round(result["mean_overlap"], 3), result["detection_rate"]
    (0.667, 0.5)
    """
    n = len(true)
    if n != len(predicted) or not n:
        raise ValueError(f"`true` and `predicted` must have the same positive length, got {n} and {len(predicted)}.")
    labels = np.zeros(n, dtype=int) if labels is None else np.asarray(labels)
    names = label_names if label_names is not None else [str(k) for k in range(int(labels.max()) + 1)]
    overlaps = np.array([overlap_of(a, b) for a, b in zip(true, predicted)])
    records = [
        {
            "image": source_name(images[i]) if images is not None else str(i),
            "label": names[labels[i]],
            "true": _plain(true[i]),
            "predicted": _plain(predicted[i]),
            "overlap": float(overlaps[i]),
        }
        for i in range(n)
    ]
    baseline = None
    if constant is not None:
        others = np.array([overlap_of(a, b) for a, b in zip(true, constant)])
        gains = overlaps - others
        error = float(gains.std(ddof=1) / np.sqrt(n)) if n > 1 else None
        baseline = {**_summary(others, threshold), "difference": float(gains.mean()), "standard_error": error}
    return {
        **_summary(overlaps, threshold),
        "threshold": threshold,
        "per_class": [{"label": names[k], **_summary(overlaps[labels == k], threshold)} for k in np.unique(labels)],
        "images": records,
        "constant_box": baseline,
    }


def _summary(overlaps: np.ndarray, threshold: float) -> dict[str, Any]:
    return {
        "n_images": len(overlaps),
        "mean_overlap": float(overlaps.mean()),
        "detection_rate": float((overlaps > threshold).mean()),
    }


def _plain(box: Any) -> list[float] | None:
    return None if box is None else [float(v) if v != int(v) else int(v) for v in box]
