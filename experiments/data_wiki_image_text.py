"""Wikipedia's featured articles: pictures with the text of their section, as features."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
from scipy.io import loadmat

from experiments.data_files import checked_file, data_folder
from lupi.datasets.tables import privileged_bunch

_FILES = {
    "raw_features.mat": "ca628f765a69575e168ab29eb97f5ade12fadf47b31de1328c7ff631c7f225ae",
    "trainset_txt_img_cat.list": "30c1ba8afbe90da5986de9b12496b6dd2e4680d3876b79ab7aae2e437d5819a3",
    "testset_txt_img_cat.list": "ec3123ee31cc89dd95fbeb23eb73b2ecfd1d8909bba863723471aad99408c1eb",
    "categories.list": "4929f3ee00e9de9ffe11f9ab18fc8919b0f6182cc801309409df2f2d05e2b0f5",
}
_PARTS = (("train", "trainset_txt_img_cat.list", "I_tr", "T_tr"), ("test", "testset_txt_img_cat.list", "I_te", "T_te"))
_DESCR = """\
Wikipedia pictures with text (Rasiwasia et al., ACM Multimedia 2010)
--------------------------------------------------------------------
{n} pictures of {classes} categories: {d} SIFT words (they sum to 1). Privileged: {s} topics of the text beside the picture.
"""


def load_wiki_image_text(
    root: str | PathLike[str] | None = None, *, verify: bool = True, return_X_y_privileged: bool = False
) -> Any:
    """Load pictures and texts of Wikipedia's featured articles from their original files.

    Parameters
    ----------
    root : path-like, optional
        Folder with `raw_features.mat` and the lists; by default `wiki_image_text` in the folder that LUPI_DATA names.
    verify : bool, default=True
        Whether the files are compared with their known SHA-256.
    return_X_y_privileged : bool, default=False
        Whether to return `(data, target, privileged)` in place of a bunch.

    Returns
    -------
    Bunch or tuple
        `data` are words of the pictures, `privileged` topics of the texts; the bunch also has `part` ("train" or "test" of
        the official split) of each picture.

    Examples
    --------
    >>> from experiments.data import load_wiki_image_text
    >>> load_wiki_image_text("/no/such/folder")
    Traceback (most recent call last):
    FileNotFoundError: there is no folder /no/such/folder, where the data 'wiki_image_text' were looked for.
    """
    folder = data_folder(root, "wiki_image_text")
    paths = {name: checked_file(folder, name, digest, verify) for name, digest in _FILES.items()}
    names = paths["categories.list"].read_text(encoding="utf-8").split()
    tables = loadmat(paths["raw_features.mat"], variable_names=[name for part in _PARTS for name in part[2:]])
    target, part = [], []
    for name, listed, words, topics in _PARTS:
        labels = [int(line.split()[2]) - 1 for line in paths[listed].read_text(encoding="utf-8").splitlines()]
        if not len(labels) == len(tables[words]) == len(tables[topics]):
            raise ValueError(
                f"{listed} names {len(labels)} pictures, but raw_features.mat has {len(tables[words])} rows in {words} and "
                f"{len(tables[topics])} in {topics}; they must be as many."
            )
        target += labels
        part += [name] * len(labels)
    data, privileged = (np.vstack([tables[p[k]] for p in _PARTS]) for k in (2, 3))
    return privileged_bunch(
        data,
        privileged,
        np.array(target),
        feature_names=[f"word_{k}" for k in range(data.shape[1])],
        privileged_names=[f"topic_{k}" for k in range(privileged.shape[1])],
        target_names=names,
        descr=_DESCR.format(n=len(data), classes=len(names), d=data.shape[1], s=privileged.shape[1]),
        return_X_y_privileged=return_X_y_privileged,
        part=np.array(part),
    )
