"""Generated pictures with one bright, striped object on a noisy background."""

import numpy as np

from lupi.vision import Box


def picture(seed, shape=(96, 128)):
    """An RGB picture, its object's box and mask."""
    rng = np.random.RandomState(seed)
    rows, cols = np.mgrid[: shape[0], : shape[1]]
    smooth = 60 + 20 * np.sin(rows / 9 + rng.uniform(0, 6)) * np.cos(cols / 11 + rng.uniform(0, 6))
    height, width = rng.randint(shape[0] // 3, shape[0] // 2), rng.randint(shape[1] // 3, shape[1] // 2)
    top, left = rng.randint(0, shape[0] - height), rng.randint(0, shape[1] - width)
    box = Box(int(top), int(left), int(top + height), int(left + width))
    mask = (rows >= box.top) & (rows < box.bottom) & (cols >= box.left) & (cols < box.right)
    stripes = 150 + 90 * ((rows + cols) // 5 % 2)
    gray = np.where(mask, stripes, smooth + rng.normal(scale=6, size=shape))
    return np.clip(np.stack([gray, 0.8 * gray, 0.6 * gray], axis=2), 0, 255).astype(np.uint8), box, mask


def pictures(n, first=0, shape=(96, 128)):
    """Lists of pictures, boxes and masks."""
    return tuple(map(list, zip(*(picture(seed, shape) for seed in range(first, first + n)))))
