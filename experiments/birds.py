"""Boxes around birds (CUB-200-2011): draws, arms with right and wrong privileged information, units of work, scores."""

from __future__ import annotations

import os
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from experiments.common import run_stored, subfolder
from experiments.data import data_folder
from experiments.data_images import load_cub
from lupi.comparison.results import mean_and_error, paired
from lupi.comparison.units import derived_seed, shuffled_rows
from lupi.files import digest_of, strict_json
from lupi.localize.evaluation import evaluate_boxes
from lupi.localize.localizer import mean_relative_box, scale_box
from lupi.vision import read_mask

# The first of these that exists; the second is what the papers' authors had, or a part of it.
FOLDERS = ("cub_300px", "cub_200_2011")
MEAN_BOX = "mean box"
BOTH = ("masks", "attributes")


class Draw(NamedTuple):
    """Rows of a random draw: images for training, for choosing parameters, for the test."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


class Arm(NamedTuple):
    """A method of the comparison: a localizer's method and grid; no method is the constant box.

    `privileged` holds "masks", "attributes" or both; `shuffled` gives every training image those of another one; `paper` is the
    column of the paper's table.
    """

    name: str
    method: str = ""
    grid: dict = {}
    privileged: tuple[str, ...] = ()
    shuffled: bool = False
    settings: dict = {}
    paper: str = ""

    @property
    def n_candidates(self):
        return int(np.prod([len(values) for values in self.grid.values()])) if self.grid else 0


def load_birds(data):
    """CUB and its folder; unknown attributes are replaced by those that more than half of the images of the class have."""
    base = os.environ.get("LUPI_DATA") if data is None else data
    name = next((name for name in FOLDERS if base and (Path(base) / name).is_dir()), FOLDERS[0])
    root = data_folder(subfolder(data, name), name)
    birds = load_cub(root)
    if birds.attributes is not None and np.isnan(birds.attributes).any():
        percent = np.loadtxt(root / "attributes" / "class_attribute_labels_continuous.txt")
        birds["attributes"] = (percent > 50).astype(np.uint8)[birds.labels]
    if birds.masks is None or birds.attributes is None:
        raise ValueError(f"{root} has no segmentations or no attributes; this table needs both.")
    return birds, root


def pick(values, rows):
    """Some entries of a list."""
    return [values[i] for i in rows]


def stretched(mask, shape):
    """A mask at another size, by nearest pixels."""
    rows, cols = (np.arange(n) * m // n for n, m in zip(shape, mask.shape))
    return mask[np.ix_(rows, cols)]


def privileged_of(birds, train, arm, seed):
    """Privileged information of an arm's training images; shuffled: that of another training image, masks stretched."""
    if not arm.privileged:
        return None
    source = train[shuffled_rows(len(train), derived_seed(seed, "shuffled"))] if arm.shuffled else train
    found = {}
    if "masks" in arm.privileged:
        found["masks"] = pick(birds.masks, source)
        if arm.shuffled:
            shapes = [read_mask(birds.masks[i]).shape for i in train]
            found["masks"] = [stretched(read_mask(mask), shape) for mask, shape in zip(found["masks"], shapes)]
    if "attributes" in arm.privileged:
        found["attributes"] = birds.attributes[source]
    return found


class DrawWords:
    """Words of a draw's images for all of its arms, computed once per process; only the last draw stays in memory.

    The vocabulary comes from the validation images, so all training sizes of a seed have the same words.
    """

    _latest: dict = {}

    def __init__(self, birds, draw, seed, localizer):
        self.birds, self.draw, self.seed, self.localizer = birds, draw, seed, localizer
        options = {name: value for name, value in localizer.get_params(deep=False).items() if name != "n_jobs"}
        self._key = digest_of(list(map(str, birds.images)), *draw, seed, strict_json(options, default=str))

    def once(self, name, make):
        """``make()``, computed at the first call for a name."""
        made = DrawWords._latest.get(self._key)
        if made is None:
            DrawWords._latest.clear()
            made = DrawWords._latest[self._key] = {}
        if name not in made:
            made[name] = make()
        return made[name]

    def for_training(self, arm):
        """Training words with an arm's privileged information."""
        return self.once((arm.privileged, arm.shuffled), lambda: self._training(arm)[0])

    def _training(self, arm):
        localizer = clone(self.localizer).set_params(method=self.localizer.method.removesuffix("+") + "+")
        words = localizer.training_words(
            pick(self.birds.images, self.draw.train),
            pick(self.birds.boxes, self.draw.train),
            privileged_of(self.birds, self.draw.train, arm, self.seed),
            vocabulary_images=pick(self.birds.images, self.draw.validation),
        )
        return words, localizer.bag_

    def of(self, part):
        """Words and boxes of the "validation" or "test" images."""
        rows = getattr(self.draw, part)
        bag = self.once("bag", lambda: self._training(Arm(""))[1])
        return self.once(part, lambda: bag.transform(pick(self.birds.images, rows))), pick(self.birds.boxes, rows)

    def prepare(self, arms=()):
        """Fill the cache on disk, so that workers that share a draw do not describe the same images."""
        words = [*self.for_training(Arm("")).X, *self.of("validation")[0], *self.of("test")[0]]
        for arm in arms:
            self.for_training(arm)
        return {"points": float(np.mean([len(x) for x in words]))}

    def mean_boxes(self):
        """The mean training box, relative to the image, for every test image."""
        shapes = [x.shape for x in self.for_training(Arm("")).X]
        mean = mean_relative_box(pick(self.birds.boxes, self.draw.train), shapes)
        return [scale_box(mean, x.shape) for x in self.of("test")[0]]


def scored(words, predicted, **facts):
    """Result of a unit: overlaps of the test images, and their lead over the mean box."""
    true = pick(words.birds.boxes, words.draw.test)
    result = evaluate_boxes(true, predicted, constant=words.mean_boxes())
    overlaps = [record["overlap"] for record in result["images"]]
    ahead = {name: result["constant_box"][name] for name in ("difference", "standard_error")}
    return {"overlaps": overlaps, "ahead": ahead, "n_train": len(words.draw.train), "n_test": len(true), **facts}


def mean_box(words):
    """Unit of the constant box."""
    return scored(words, words.mean_boxes(), unconverged=0, largest_gap=0.0)


def run_arms(birds, draws, arms, localizer, run_arm, out, facts, *, n_jobs=1, on_progress=None):
    """Results of every arm on every draw: (n, seed, arm) -> unit; ``localizer(seed)`` is unfitted."""
    if len({seed for _, seed in draws}) < 2:
        raise ValueError("--splits must be at least 2: one draw has no standard error.")
    words = {(n, seed): DrawWords(birds, draw, seed, localizer(seed)) for (n, seed), draw in draws.items()}
    work = {}
    for n, seed in draws:
        work[f"{n}/{seed}"] = (words[n, seed].prepare, arms)
        for arm in arms:
            call = (run_arm, words[n, seed], arm) if arm.method else (mean_box, words[n, seed])
            work[f"{n}/{seed}/{arm.name}"] = call
    names = np.array([Path(image).name for image in birds.images])
    boxes = np.array([tuple(box) for box in birds.boxes], dtype=float)
    data = digest_of(names, boxes, birds.labels, birds.attributes, birds.train)
    facts = {**facts, "arms": [arm._asdict() for arm in arms], "data": data}
    path = None if out is None else out / "units.sqlite"
    (_, seed), draw = next(iter(draws.items()))
    DrawWords(birds, draw, seed, localizer(seed).set_params(n_jobs=n_jobs)).prepare()
    found = run_stored(work, path, facts, n_jobs=n_jobs, on_progress=on_progress)
    return {(n, seed, arm.name): found[f"{n}/{seed}/{arm.name}"] for (n, seed), arm in product(draws, arms)}


def arm_summary(results, n, arms, baseline, threshold=0.5):
    """Mean and standard error of each arm, and of its paired differences from a baseline, in percent."""
    seeds = sorted({seed for size, seed, _ in results if size == n})
    rows = []
    for arm in arms:
        units = [results[n, seed, arm.name] for seed in seeds]
        row = {"arm": arm.name, "n_train": units[0]["n_train"], "n_test": units[0]["n_test"], "seeds": len(seeds)}
        row |= {"candidates": arm.n_candidates, "seconds": float(np.mean([unit["seconds"] for unit in units]))}
        row["largest_gap"] = max(unit["largest_gap"] for unit in units)
        row["unconverged"] = sum(unit["unconverged"] for unit in units)
        row["warnings"] = sum(sum(unit["warnings"].values()) for unit in units)
        for key, score in (("overlap", np.mean), ("detection", lambda o: np.mean(np.array(o) > threshold))):
            values = [100 * float(score(unit["overlaps"])) for unit in units]
            others = [100 * float(score(results[n, seed, baseline]["overlaps"])) for seed in seeds]
            row[key] = dict(zip(("mean", "error"), mean_and_error(values))) | {"values": values}
            row[f"{key}_gain"] = asdict(paired(values, others))
        ahead = [100 * unit["ahead"]["difference"] for unit in units]
        row["ahead"] = dict(zip(("mean", "error"), mean_and_error(ahead)))
        rows.append(row)
    return rows


def unit_means(results):
    """Units without the overlaps of single images, which stay in the store."""
    means = {}
    for (n, seed, name), unit in results.items():
        overlaps = np.array(unit["overlaps"])
        kept = {key: value for key, value in unit.items() if key != "overlaps"}
        kept |= {"mean_overlap": float(overlaps.mean()), "detection_rate": float(np.mean(overlaps > 0.5))}
        means[f"{n}/{seed}/{name}"] = kept
    return means


def beside_paper(figure, printed):
    """Ours beside a printed number without an error; a star if it lies within two of our standard errors.

    Examples
    --------
    >>> beside_paper({"mean": 41.0, "error": 0.6}, 41.9)
    '41.0 ± 0.6 / 41.9*'
    """
    ours = f"{figure['mean']:.1f} ± {figure['error']:.1f}"
    if printed is None:
        return ours
    return f"{ours} / {printed:.1f}{'*' if abs(figure['mean'] - printed) <= 2 * figure['error'] else ' '}"


def gain_cells(row):
    """Cells that both papers' tables share: lead over the mean box, gain over the plain arm, candidates, gaps."""
    gains = " ".join(f"{gain['mean']:>+7.1f} ± {gain['error']:.1f}" for gain in (row["ahead"], row["overlap_gain"]))
    return f"{gains} {row['candidates']:>6} {row['largest_gap']:>10.1g} {row['unconverged']:>9}"
