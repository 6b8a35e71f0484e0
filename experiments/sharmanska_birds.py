"""Sharmanska et al. (2013), Table 2, on families of birds: the inside of boxes as privileged pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from experiments import sharmanska_substitutes
from experiments._entry import Entry, write_result
from experiments.data import load_cub
from experiments.data_files import data_folder
from experiments.sharmanska import HINGE
from experiments.sharmanska_substitutes import box_tasks

# There are some 60 pictures a species.
PER_CLASS, N_MIXTURE = 25, 8
# The pictures are larger than those of Tiny ImageNet.
FISHER = sharmanska_substitutes.FISHER | {"spacing": 8}


def families(names, suffixes=("Vireo", "Woodpecker")):
    """Classes by the last word of their names.

    Returns
    -------
    dict of str to list of str

    Examples
    --------
    >>> families(["151.Black_capped_Vireo", "152.Blue_headed_Vireo", "001.Black_footed_Albatross"], ("Vireo",))
    {'vireos': ['151.Black_capped_Vireo', '152.Blue_headed_Vireo']}
    """
    return {f"{word.lower()}s": [name for name in names if name.endswith(word)] for word in suffixes}


def _sharmanska_table2_birds(data, out, *, n_splits=10, tasks=None, n_jobs=1, on_progress=None):
    birds = load_cub(data_folder(None if data is None else Path(data) / "cub_300px", "cub_300px"))
    everyone = list(birds.label_names)
    groups = families(everyone)
    names = [name for members in groups.values() for name in members]
    place = {everyone.index(name): k for k, name in enumerate(names)}
    rows = [i for i, label in enumerate(birds.labels) if label in place]
    chosen = Bunch(
        images=[birds.images[i] for i in rows],
        boxes=[birds.boxes[i] for i in rows],
        labels=np.array([place[birds.labels[i]] for i in rows]),
        label_names=names,
    )
    summaries, lines = box_tasks(
        chosen,
        groups,
        out,
        per_class=PER_CLASS,
        n_mixture=N_MIXTURE,
        fisher=FISHER,
        n_splits=n_splits,
        tasks=tasks,
        n_jobs=n_jobs,
        on_progress=on_progress,
        loss=HINGE,
    )
    write_result(out, "sharmanska-table2-birds", substitute=True, comparisons=summaries)
    return [
        f"SUBSTITUTE: {len(rows)} birds of CUB-200-2011 (300 pixels), {len(names)} species of two families, each against the "
        "others of its family; not the paper's 17 snakes, whose pictures are not at hand. Rankers with the paper's hinge.",
        *lines,
    ]


ENTRIES = (
    Entry(
        "sharmanska-table2-birds",
        "Sharmanska et al. 2013, Table 2 (snakes, boxes), on families of birds",
        "cub_300px (a substitute); pip install 'lupi[vision]'",
        _sharmanska_table2_birds,
    ),
)
