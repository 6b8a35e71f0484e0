"""Boxes around birds: what the runs of Feyereisl et al. (2014) and Sun et al. (2018) share.

CUB-200-2011, the units of a run, and what their results say.
"""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import numpy as np

from experiments._bird_words import DrawWords, mean_box
from experiments.data import load_cub
from experiments.data_files import data_folder
from lupi.comparison.summary import mean_and_error, paired
from lupi.files import digest_of
from lupi.run import Store, measured, run_units

# The first of these that is there. The second is what the papers' authors had, or a part of it.
FOLDERS = ("cub_300px", "cub_200_2011")
FOLDER = FOLDERS[0]
MEAN_BOX = "mean box"


def load_birds(data):
    """The images of a folder of CUB-200-2011, and the folder.

    Where the files do not know the attributes of every image, all images get those of their class: the ones that more than half
    of its images have.

    Parameters
    ----------
    data : path or None
        Folder that contains one of `FOLDERS`; None: the one that LUPI_DATA names.

    Returns
    -------
    Bunch, Path
    """
    base = os.environ.get("LUPI_DATA") if data is None else data
    name = next((name for name in FOLDERS if base and (Path(base) / name).is_dir()), FOLDER)
    root = data_folder(None if data is None else Path(data) / name, name)
    birds = load_cub(root)
    if birds.attributes is not None and np.isnan(birds.attributes).any():
        percent = np.loadtxt(root / "attributes" / "class_attribute_labels_continuous.txt")
        birds["attributes"] = (percent > 50).astype(np.uint8)[birds.labels]
    if birds.masks is None or birds.attributes is None:
        raise ValueError(f"{root} has no segmentations or no attributes of its images; this table needs both.")
    return birds, root


def birds_digest(birds):
    """Identity of the annotations and of the file names; pixels are part of the features' own keys."""
    names = np.array([Path(image).name for image in birds.images])
    boxes = np.array([tuple(box) for box in birds.boxes], dtype=float)
    return digest_of(names, boxes, birds.labels, birds.attributes, birds.train)


def rows_to_test(birds, *used):
    """The official test images if there are any, otherwise all that are not used."""
    official = np.flatnonzero(~np.asarray(birds.train))
    rows = official if len(official) else np.arange(len(birds.images))
    return np.setdiff1d(rows, np.concatenate(used))


def training_pool(birds):
    """Rows of the official training images."""
    return np.flatnonzero(birds.train)


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
        From (words of the draw, arm) to the unit's result.
    store : path-like or None
        The SQLite file of finished units.
    identity : str
        Of the data and settings, see :func:`lupi.run.identity`.
    n_jobs, on_progress
        As in :func:`lupi.run.run_units`.

    Returns
    -------
    dict of (int, int, str) to dict
        Results for each size, seed and arm.
    """
    if len({seed for _, seed in draws}) < 2:
        raise ValueError("--splits must be at least 2: one draw has no standard error.")
    words = {(n, seed): DrawWords(birds, draw, seed, localizer(seed)) for (n, seed), draw in draws.items()}
    (_, seed), draw = next(iter(draws.items()))
    # Several workers would describe the same images at the start; the first draw is described alone, on all cores.
    first = DrawWords(birds, draw, seed, localizer(seed).set_params(n_jobs=n_jobs))
    work = {}
    for n in dict.fromkeys(n for n, _ in draws):
        seeds = [seed for size, seed in draws if size == n]
        # Begun before the arms, which find the words there; several workers would make those of one draw at the same time.
        work |= {(n, seed): (f"{n}/{seed}", measured, words[n, seed].prepare, arms) for seed in seeds}
        for seed, arm in product(seeds, arms):
            call = (run_arm, words[n, seed], arm) if arm.method else (mean_box, words[n, seed])
            work[n, seed, arm.name] = (f"{n}/{seed}/{arm.name}", measured, *call)
    with Store(store, identity) as opened:
        run_units({"words": (measured, first.prepare)}, opened)
        calls = {key: call for key, *call in work.values()}
        found = run_units(calls, opened, n_jobs=n_jobs, on_progress=on_progress)
    return {name: found[unit[0]] for name, unit in work.items() if len(name) == 3}


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
        ahead = [100 * unit["ahead"]["difference"] for unit in own]
        row["ahead"] = dict(zip(("mean", "error"), mean_and_error(ahead)))
        rows.append(row)
    return rows


def without_overlaps(result):
    """A table's dict without the overlaps of single images, which stay in the run store."""
    units = {
        name: {k: v for k, v in unit.items() if k != "overlaps"} | _means(unit["overlaps"])
        for name, unit in result["units"].items()
    }
    return {**result, "units": units}


def _means(overlaps):
    return {"mean_overlap": float(np.mean(overlaps)), "detection_rate": float(np.mean(np.array(overlaps) > 0.5))}


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
