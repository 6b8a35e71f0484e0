"""Handwritten digits at low resolution, with the full resolution as privileged features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from lupi.datasets._bunch import privileged_bunch

_DESCR = """\
Low-resolution handwritten digits
---------------------------------
{n} digits of scikit-learn's bundled "Optical recognition of handwritten digits" data (8 x 8 pixels, values 0 to 16).

decision features    means of {k} x {k} pixel blocks: {r} x {r} = {d} numbers
privileged features  the 64 pixels themselves
target               the digit

The question: does a classifier that has to read coarse pictures become better when sharp ones were at hand in
training? The same picture is seen twice here; the decision features are a function of the privileged ones.
"""


def load_digits_lowres(
    *,
    resolution: int = 4,
    classes: Sequence[Any] | None = None,
    as_frame: bool = False,
    return_X_y_privileged: bool = False,
) -> Any:
    """Load scikit-learn's digits at low resolution; the sharp pictures are privileged.

    Parameters
    ----------
    resolution : {1, 2, 4}, default=4
        Side length of the low-resolution pictures, made by averaging pixel blocks of the 8 x 8 originals.
    classes : iterable of int or None, default=None
        Digits to keep, e.g. `(3, 8)`; None keeps all ten.
    as_frame : bool, default=False
        Whether to give pandas objects and the joint table `frame`.
    return_X_y_privileged : bool, default=False
        Whether to return `(data, target, privileged)` in place of a bunch.

    Returns
    -------
    Bunch or tuple
        With `data` of shape (1797, resolution ** 2), `privileged` of shape (1797, 64) and `target`, for all ten digits.

    Examples
    --------
    >>> from lupi.datasets import load_digits_lowres
    >>> digits = load_digits_lowres()
    >>> digits.data.shape, digits.privileged.shape
    ((1797, 16), (1797, 64))
    >>> X, y, privileged = load_digits_lowres(classes=(3, 8), return_X_y_privileged=True)
    >>> X.shape
    (357, 16)
    """
    if resolution not in (1, 2, 4):
        raise ValueError(f"`resolution` is {resolution!r}, but must divide 8 and be smaller: 1, 2 or 4.")
    source = load_digits()
    pixels, target = source.data, source.target
    digits = list(range(10)) if classes is None else sorted(set(classes))
    if not set(digits) <= set(range(10)) or len(digits) < 2:
        raise ValueError(f"`classes` is {classes!r}, but must hold at least two different digits from 0 to 9.")
    keep = np.isin(target, digits)
    pixels, target = pixels[keep], target[keep]
    block = 8 // resolution
    blocks = pixels.reshape(-1, resolution, block, resolution, block)
    names = [f"block_{row}_{column}" for row in range(resolution) for column in range(resolution)]
    return privileged_bunch(
        blocks.mean(axis=(2, 4)).reshape(len(pixels), -1),
        pixels,
        target,
        feature_names=names,
        privileged_names=source.feature_names,
        target_names=source.target_names[digits],
        descr=_DESCR.format(n=len(pixels), k=block, r=resolution, d=resolution**2),
        as_frame=as_frame,
        return_X_y_privileged=return_X_y_privileged,
    )
