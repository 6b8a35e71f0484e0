"""SSVM against SSVM+ on a folder of CUB-200-2011, after Feyereisl et al. (2014), section 4.3 and Table 1.

Run ``python -m lupi.bench.vision_cub FOLDER CACHE [per_class seeds ...]``. What differs from the paper: the vocabulary (500
words from the training images, not 3000), the grid (4 values of C, 2 of lam and rho), boxes on a grid of 16 pixels,
100 validation images, and as many images as the folder holds. The control paints the mask of another training image, stretched.
"""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lupi.datasets import load_cub
from lupi.localize import Localizer, evaluate_boxes, search_parameters
from lupi.vision import read_mask

# Vireos and woodpeckers (with the flicker): 14 classes. The paper trains on 14 classes of two groups without naming them.
GROUPS = ("Vireo", "Woodpecker", "Flicker")
WIDE = [float(v) for v in np.geomspace(2.0**-8, 2.0**5, 4)]
PLUS = {"C": WIDE, "lam": WIDE[1:3], "rho": [2.0, 32.0]}
# "16 values" gives SSVM as many candidates as SSVM+: a larger grid alone helps. The last arm has the attributes of another image,
# which still lie inside the true box.
GRIDS = {
    "ssvm": {"C": WIDE},
    "ssvm 16 values": {"C": [float(v) for v in np.geomspace(2.0**-8, 2.0**5, 16)]},
    "ssvm+ masks": PLUS,
    "ssvm+ masks and attributes": PLUS,
    "ssvm+ shuffled": PLUS,
    "ssvm+ shuffled masks and attributes": PLUS,
}


def stretched(mask, shape):
    """A mask at another size, by nearest pixels."""
    rows, cols = (np.arange(n) * m // n for n, m in zip(shape, mask.shape))
    return mask[np.ix_(rows, cols)]


def split(data, per_class, seed, n_validation=100):
    """Training images of the 14 classes, validation images of other classes, and the rest for testing."""
    rng = np.random.RandomState(seed)
    order = rng.permutation(len(data.images))
    chosen = [k for k, name in enumerate(data.label_names) if any(group in name for group in GROUPS)]
    train = np.concatenate([[i for i in order if data.labels[i] == k][:per_class] for k in chosen]).astype(int)
    others = [i for i in order if data.labels[i] not in chosen]
    validation = np.array(others[:n_validation])
    test = np.setdiff1d(order, np.concatenate([train, validation]))
    return train, validation, test


def mean_box(data, train, test):
    """The evaluation of one box for all images: the mean of the training boxes, relative to the images' sizes."""
    from PIL import Image

    def scale(i):
        with Image.open(data.images[i]) as image:
            return np.array([image.height, image.width] * 2)

    mean = np.mean([np.array(data.boxes[i]) / scale(i) for i in train], axis=0)
    return evaluate_boxes([data.boxes[i] for i in test], [tuple(mean * scale(i)) for i in test])


def privileged_of(data, train, arm, seed):
    """The privileged information of an arm of the comparison."""
    if not arm.startswith("ssvm+"):
        return None
    masks, attributes = [data.masks[i] for i in train], data.attributes[train]
    if "shuffled" in arm:
        wrong = np.roll(np.random.RandomState(seed).permutation(len(train)), 1)
        wrong = np.where(wrong == np.arange(len(train)), np.roll(wrong, 1), wrong)
        shapes = [read_mask(mask).shape for mask in masks]
        masks = [stretched(read_mask(masks[j]), shape) for j, shape in zip(wrong, shapes)]
        attributes = attributes[wrong]
    return {"masks": masks, "attributes": attributes} if "attributes" in arm else {"masks": masks}


def run(root, cache, per_class, seeds, arms=tuple(GRIDS)):
    """One dict for each seed and arm."""
    data = load_cub(root)
    rows = []
    for seed in seeds:
        train, validation, test = split(data, per_class, seed)
        base = mean_box(data, train, test)
        figures = {"overlap": base["mean_overlap"], "detection": base["detection_rate"], "largest_gap": 0.0}
        rows.append({"n": len(train), "seed": seed, "arm": "mean box", "n_test": len(test), **figures})
        print(json.dumps(rows[-1]), flush=True)
        for arm in arms:
            localizer = Localizer(arm.split()[0], n_words=500, grid_step=16, tol=0.01, cache=cache, random_state=seed)
            with warnings.catch_warnings():
                warnings.simplefilter("error", ConvergenceWarning)
                best, table = search_parameters(
                    localizer,
                    [data.images[i] for i in train],
                    [data.boxes[i] for i in train],
                    privileged_of(data, train, arm, seed),
                    validation=([data.images[i] for i in validation], [data.boxes[i] for i in validation]),
                    grid=GRIDS[arm],
                    store=f"{cache}/search",
                )
            found = best.predict([data.images[i] for i in test])
            result = evaluate_boxes([data.boxes[i] for i in test], found)
            row = {
                "n": len(train),
                "seed": seed,
                "arm": arm,
                "n_test": len(test),
                "overlap": result["mean_overlap"],
                "detection": result["detection_rate"],
                "largest_gap": max(cell["dual_gap"] for cell in table),
                **{name: best.get_params()[name] for name in GRIDS[arm]},
            }
            rows.append(row)
            print(json.dumps(row), flush=True)
    return rows


def summary(rows):
    """Mean and standard error of each arm, and of the paired differences from SSVM."""
    plain = {row["seed"]: row for row in rows if row["arm"] == "ssvm"}
    out = []
    for arm in dict.fromkeys(row["arm"] for row in rows):
        own = [row for row in rows if row["arm"] == arm and row["seed"] in plain]
        entry = {"arm": arm, "n": own[0]["n"], "seeds": len(own), "largest_gap": max(row["largest_gap"] for row in own)}
        for key in ("overlap", "detection"):
            values = 100 * np.array([row[key] for row in own])
            paired = values - 100 * np.array([plain[row["seed"]][key] for row in own])
            entry[key] = _mean_and_error(values)
            entry[f"{key}_difference"] = _mean_and_error(paired)
        out.append(entry)
    return out


def _mean_and_error(values):
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return round(float(values.mean()), 2), round(float(error), 2)


if __name__ == "__main__":
    root, cache, *plan = sys.argv[1:]
    for per_class, n_seeds in zip(*[iter(map(int, plan or ("1", "5", "3", "5")))] * 2):
        for entry in summary(run(root, cache, per_class, range(n_seeds))):
            print(json.dumps(entry), flush=True)
