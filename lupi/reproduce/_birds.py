"""Boxes around birds: what the runs of Feyereisl et al. (2014) and Sun et al. (2018) share.

CUB-200-2011, its random draws, arms with right and wrong privileged information, and how boxes are scored.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from lupi.comparison.protocol import derived_seed, others_rows
from lupi.comparison.summary import mean_and_error, paired
from lupi.datasets import load_cub
from lupi.datasets.files import data_folder
from lupi.engine.store import RunStore, digest_of
from lupi.engine.units import measured, run_units
from lupi.images.images import read_mask
from lupi.localize.evaluation import evaluate_boxes

FOLDER = "cub_200_2011"
MEAN_BOX = "mean box"
MASKS_AND_ATTRIBUTES = ("masks", "attributes")


class Draw(NamedTuple):
    """Rows of one random draw: images to learn from, to choose parameters by, and to test on."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


class Arm(NamedTuple):
    """One method of the comparison.

    Attributes
    ----------
    name : str
        Shown in the table, and part of the units' names.
    method : str
        Of :class:`~lupi.localize.Localizer`; "" for the constant box.
    grid : dict
        Values of each parameter.
    privileged : tuple of str
        "masks", "attributes", both or nothing.
    shuffled : bool
        Whether every training image gets the privileged information of another one.
    paper : str
        Column of the paper's table that it stands for; "" if the paper has none.
    """

    name: str
    method: str = ""
    grid: dict = {}
    privileged: tuple[str, ...] = ()
    shuffled: bool = False
    paper: str = ""

    @property
    def n_candidates(self):
        """Combinations of parameters."""
        return int(np.prod([len(values) for values in self.grid.values()])) if self.grid else 0


def load_birds(data):
    """The images of a folder of CUB-200-2011, and the folder.

    Parameters
    ----------
    data : path or None
        Folder that contains `cub_200_2011`; None: the one that LUPI_DATA names.

    Returns
    -------
    Bunch, Path
    """
    root = data_folder(None if data is None else Path(data) / FOLDER, FOLDER)
    birds = load_cub(root)
    if birds.masks is None or birds.attributes is None:
        raise ValueError(f"{root} has no segmentations or no attributes of its images; this table needs both.")
    return birds, root


def birds_digest(birds):
    """Identity of the annotations and of the file names; pixels are part of the features' own keys."""
    names = np.array([Path(image).name for image in birds.images])
    boxes = np.array([tuple(box) for box in birds.boxes], dtype=float)
    return digest_of(names, boxes, birds.labels, birds.attributes, birds.train)


def of_classes(labels, classes):
    """Whether each label is one of some classes."""
    return np.isin(labels, np.asarray(list(classes), dtype=int))


def rows_to_test(birds, *used):
    """The official test images if there are any, otherwise all that are not used."""
    official = np.flatnonzero(~np.asarray(birds.train))
    rows = official if len(official) else np.arange(len(birds.images))
    return np.setdiff1d(rows, np.concatenate(used))


def training_pool(birds):
    """Rows of the official training images."""
    return np.flatnonzero(birds.train)


def stretched(mask, shape):
    """A mask at another size, by nearest pixels.

    Examples
    --------
    >>> stretched(np.array([[True, False]]), (2, 4)).astype(int)
    array([[1, 1, 0, 0],
           [1, 1, 0, 0]])
    """
    rows, cols = (np.arange(n) * m // n for n, m in zip(shape, mask.shape))
    return mask[np.ix_(rows, cols)]


def privileged_of(birds, train, arm, seed):
    """The privileged information of an arm's training images, or None.

    Shuffled: the mask of another training image, stretched to this one's size, and that image's attributes. No image keeps
    its own, and none is used twice.
    """
    if not arm.privileged:
        return None
    source = train[others_rows(len(train), derived_seed(seed, "shuffled"))] if arm.shuffled else train
    found = {}
    if "masks" in arm.privileged:
        found["masks"] = [birds.masks[j] for j in source]
        if arm.shuffled:
            shapes = [read_mask(birds.masks[i]).shape for i in train]
            found["masks"] = [stretched(read_mask(mask), shape) for mask, shape in zip(found["masks"], shapes)]
    if "attributes" in arm.privileged:
        found["attributes"] = birds.attributes[source]
    return found


def pick(values, rows):
    """Some entries of a list."""
    return [values[i] for i in rows]


def scored(birds, draw, predicted, **facts):
    """Result of a unit: the overlap of each test image, and facts."""
    result = evaluate_boxes(pick(birds.boxes, draw.test), predicted)
    overlaps = [record["overlap"] for record in result["images"]]
    return {"overlaps": overlaps, "n_train": len(draw.train), "n_test": len(draw.test), **facts}


def mean_box(birds, draw):
    """One box for all images, without looking at them: the mean of the training boxes, relative to the images' sizes."""
    from PIL import Image

    def scale(i):
        with Image.open(birds.images[i]) as image:  # reads the header only
            return np.array([image.height, image.width] * 2)

    mean = np.mean([np.array(birds.boxes[i]) / scale(i) for i in draw.train], axis=0)
    return scored(birds, draw, [tuple(mean * scale(i)) for i in draw.test], unconverged=0, largest_gap=0.0)


def prepare_words(birds, draw, localizer):
    """Fill the cache with the vocabulary of a draw and with the words of all its images."""
    bag = localizer.training_words(*training_data(birds, draw), vocabulary_images=vocabulary_images(birds, draw))
    localizer.bag_.transform(pick(birds.images, np.concatenate([draw.validation, draw.test])))
    return {"points": float(np.mean([len(x.rows) for x in bag.X])), "descriptors": localizer.bag_.n_descriptors_}


def training_data(birds, draw):
    """Images and boxes to learn from."""
    return pick(birds.images, draw.train), pick(birds.boxes, draw.train)


def vocabulary_images(birds, draw):
    """Vocabularies need no boxes: they are made from the training and the validation images."""
    return pick(birds.images, np.concatenate([draw.train, draw.validation]))


def run_arms(birds, draws, arms, localizer, run_arm, *, store, identity, n_jobs=1, on_progress=None):
    """Every arm on every draw.

    Parameters
    ----------
    birds : Bunch
    draws : dict of (int, int) to Draw
        For each training size and seed.
    arms : sequence of Arm
    localizer : callable
        From a seed to the unfitted localizer, whose cache every unit uses.
    run_arm : callable
        From (birds, draw, arm, seed, localizer) to the unit's result.
    store : path-like or None
        The SQLite file of finished units.
    identity : str
        A :func:`~lupi.engine.store.fingerprint`: a store of another protocol, of other data or of other code is refused.
    n_jobs, on_progress
        As in :func:`~lupi.engine.units.run_units`.

    Returns
    -------
    dict of (int, int, str) to dict
        Results for each size, seed and arm.
    """
    if len({seed for _, seed in draws}) < 2:
        raise ValueError("--splits must be at least 2: one draw has no standard error.")
    words = [
        (f"words/{n}/{seed}", measured, prepare_words, birds, draw, localizer(seed))
        for (n, seed), draw in draws.items()
    ]
    # Several workers would describe the same images at the start; the first draw is described alone, on all cores.
    words[0][-1].set_params(n_jobs=n_jobs)
    work = {}
    for (n, seed), draw in draws.items():
        for arm in arms:
            call = (run_arm, birds, draw, arm, seed, localizer(seed)) if arm.method else (mean_box, birds, draw)
            work[n, seed, arm.name] = (f"{n}/{seed}/{arm.name}", measured, *call)
    total = len(words) + len(work)

    def shifted(start):
        return None if on_progress is None else lambda done, _: on_progress(start + done, total)

    with RunStore(store, identity) as opened:
        run_units(words[:1], opened, on_progress=shifted(0))
        run_units(words[1:], opened, n_jobs=n_jobs, on_progress=shifted(1))
        found = run_units(work.values(), opened, n_jobs=n_jobs, on_progress=shifted(len(words)))
    return {name: found[unit[0]] for name, unit in work.items()}


def arm_summary(results, n, arms, baseline, threshold=0.5):
    """Mean and standard error of each arm, and of its paired differences from a baseline.

    Parameters
    ----------
    results : dict
        Of :func:`run_arms`.
    n : int
        Size of the training set.
    arms : sequence of Arm
    baseline : str
        Name of an arm.

    Returns
    -------
    list of dict
        In percent.
    """
    seeds = sorted({seed for size, seed, _ in results if size == n})
    rows = []
    for arm in arms:
        own = [results[n, seed, arm.name] for seed in seeds]
        row = {"arm": arm.name, "n_train": own[0]["n_train"], "n_test": own[0]["n_test"], "seeds": len(seeds)}
        row |= {"candidates": arm.n_candidates, "seconds": float(np.mean([unit["seconds"] for unit in own]))}
        row["largest_gap"] = max(unit["largest_gap"] for unit in own)
        row["unconverged"] = sum(unit["unconverged"] for unit in own)
        row["warnings"] = sum(sum(unit["warnings"].values()) for unit in own)
        for key, score in (("overlap", np.mean), ("detection", lambda o: np.mean(np.array(o) > threshold))):
            values = [100 * float(score(unit["overlaps"])) for unit in own]
            others = [100 * float(score(results[n, seed, baseline]["overlaps"])) for seed in seeds]
            mean, error = mean_and_error(values)
            row[key] = {"mean": mean, "error": error, "values": values}
            row[f"{key}_gain"] = paired(values, others)
        rows.append(row)
    return rows


def without_overlaps(result):
    """A table's dict without the overlaps of single images, which stay in the run store."""
    units = {
        name: {k: v for k, v in unit.items() if k != "overlaps"} | {"mean_overlap": float(np.mean(unit["overlaps"]))}
        for name, unit in result["units"].items()
    }
    return {**result, "units": units}


def class_differences(results, draws, labels, n, arm, other):
    """Mean overlap of one arm minus that of another for each class, over all draws; the best class first.

    Returns
    -------
    list of dict
        `label`, `images` (scored, over all draws), `overlap` and `detection` differences in percent.
    """
    total = {}
    for (size, seed), draw in draws.items():
        if size != n:
            continue
        ours, theirs = (np.array(results[size, seed, name]["overlaps"]) for name in (arm, other))
        for label, a, b in zip(labels[draw.test], ours, theirs):
            total.setdefault(int(label), []).append((a - b, float(a > 0.5) - float(b > 0.5)))
    rows = []
    for label, pairs in total.items():
        overlap, detection = 100 * np.mean(pairs, axis=0)
        rows.append({"label": label, "images": len(pairs), "overlap": float(overlap), "detection": float(detection)})
    return sorted(rows, key=lambda row: (-row["overlap"], row["label"]))


def beside_paper(figure, printed):
    """Ours with its standard error beside a printed number without one; a star if it lies within two of our standard errors.

    Examples
    --------
    >>> beside_paper({"mean": 41.0, "error": 0.6}, 41.9)
    '41.0 ± 0.6 / 41.9*'
    >>> beside_paper({"mean": 41.0, "error": 0.6}, None)
    '41.0 ± 0.6'
    """
    ours = f"{figure['mean']:.1f} ± {figure['error']:.1f}"
    if printed is None:
        return ours
    return f"{ours} / {printed:.1f}{'*' if abs(figure['mean'] - printed) <= 2 * figure['error'] else ' '}"
