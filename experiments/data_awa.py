"""Animals with Attributes: SURF words of the pictures, attributes as privileged features."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np

from experiments.data_files import checked_file, data_folder
from lupi.datasets.tables import privileged_bunch

_SURF = ("surf_test10.npz", "9f543417fac10317fb17e5b5aa3b833faf15d07d7257214b156f8c934f76ebe4")
_ATTRIBUTES = (
    "dap_predicted_attributes_test10.npz",
    "7601ad6e4bd9851eb25313c46cb36075f01068c0a94c16456bf2202b9fc08b87",
)
_DESCR = """\
Animals with Attributes, ten test classes (Lampert et al., CVPR 2009)
---------------------------------------------------------------------
{n} pictures of {classes}. Decision features: histograms of 2000 SURF words, each summing to 1. Privileged features: the
probabilities of 85 attributes ("{name}"). The histograms are the published ones; the attribute probabilities are a
reconstruction of the DAP model from the 40 training classes, not the file that Sharmanska et al. (2013) used.
"""


def load_awa(
    root: str | PathLike[str] | None = None,
    *,
    classes: Sequence[Any] | None = None,
    attributes: str = "dap_all5",
    verify: bool = True,
    return_X_y_privileged: bool = False,
) -> Any:
    """Load the ten test classes of Animals with Attributes.

    Parameters
    ----------
    root : path-like, optional
        Folder with `surf_test10.npz` and `dap_predicted_attributes_test10.npz`; by default `awa_surf` in the folder that
        LUPI_DATA names.
    classes : sequence of str, optional
        Classes to keep, e.g. `("rat", "seal")`; all ten by default. Names with two words are joined by +.
    attributes : {"dap_all5", "dap_surf"}, default="dap_all5"
        Attribute probabilities from five kinds of features, or from SURF words alone.
    verify : bool, default=True
        Whether the files are compared with their known SHA-256.
    return_X_y_privileged : bool, default=False
        Whether to return `(data, target, privileged)` in place of a bunch.

    Returns
    -------
    Bunch or tuple
        `target` numbers the kept classes in the order of `target_names`.

    Examples
    --------
    >>> from experiments.data import load_awa
    >>> load_awa("/no/such/folder")
    Traceback (most recent call last):
    FileNotFoundError: there is no folder /no/such/folder, where the data 'awa_surf' were looked for.
    """
    if attributes not in ("dap_all5", "dap_surf"):
        raise ValueError(f"`attributes` is {attributes!r}, but must be 'dap_all5' or 'dap_surf'.")
    folder = data_folder(root, "awa_surf")
    with np.load(checked_file(folder, *_SURF, verify), allow_pickle=False) as pictures:
        counts, labels, names = pictures["counts"], pictures["y"], [str(c) for c in pictures["classes"]]
    with np.load(checked_file(folder, *_ATTRIBUTES, verify), allow_pickle=False) as file:
        block = file[attributes].astype(np.float64)
    kept = list(names if classes is None else classes)
    unknown = [name for name in kept if name not in names]
    if unknown or len(set(kept)) < 2:
        raise ValueError(f"`classes` is {classes!r}, but must hold at least two of {', '.join(names)}.")
    numbers = np.full(len(names), -1)
    numbers[[names.index(name) for name in kept]] = np.arange(len(kept))
    target = numbers[labels]
    rows = np.flatnonzero(target >= 0)
    words = counts[rows].astype(np.float64)
    return privileged_bunch(
        words / np.maximum(words.sum(axis=1, keepdims=True), 1.0),
        block[rows],
        target[rows],
        feature_names=[f"surf_{k}" for k in range(words.shape[1])],
        privileged_names=[f"attribute_{k}" for k in range(block.shape[1])],
        target_names=kept,
        descr=_DESCR.format(n=len(rows), classes=", ".join(kept), name=attributes),
        return_X_y_privileged=return_X_y_privileged,
    )
