"""MNIST+: the digits 5 and 8 with descriptions by a poet."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from experiments.data_files import checked_file, data_folder
from lupi.datasets.tables import privileged_bunch

_FILES = {
    "train_features.txt": "241a91db28c16ade4e07823833c8bbfc5ed9cac43595133c3c75c568fa0e6d2c",
    "train_labels.txt": "e0abd1cf1900c53a9bb41be06f90d00e12214dd1697a61a903820bca252746f7",
    "train_PFfeatures.txt": "af2fbf0a6d72edbae0d7b3c87ab7a84ebf9fb2124d2dd22a51a0b080072ba5ec",
    "train_YYfeatures.txt": "35168c3d11fb6d61abb1562fe682d71fcfb2daa67aa8f5a5c24327f0a85359b0",
    "val_features.txt": "12907f96ed063e41865699428dcd897dd2ef3f39f301c97c29d5e7dcf6c9e905",
    "val_labels.txt": "57f9e49a560c509fbeb26b4fd270d22bae290c06102b72073e4cae115404903c",
    "test_features.txt": "ad990ef40015499a5041d68ed52fac2722991a73ebf902545548bc06479c2bb1",
    "test_labels.txt": "47df52967cb8c18b2dacacac0bdcdebb390d26e38488c8a2e4ac94c3bd23f41f",
}
_BLOCKS = {"poetic": "train_PFfeatures.txt", "yin_yang": "train_YYfeatures.txt"}
_DESCR = """\
MNIST+ (Vapnik & Vashist, Neural Networks 2009)
-----------------------------------------------
100 training digits, 5 or 8, of 10 x 10 pixels (0 to 255). Privileged: {n} "{name}" features made from a poet's
descriptions of the training digits. 4002 validation and 1866 test digits have pixels and labels only.
"""


def load_mnist_plus(
    root: str | PathLike[str] | None = None,
    *,
    privileged: Any = "poetic",
    verify: bool = True,
    return_X_y_privileged: bool = False,
) -> Any:
    """Load MNIST+ from its text files.

    Parameters
    ----------
    root : path-like, optional
        Folder with `train_features.txt` and so on; by default `mnist_plus` in the folder that LUPI_DATA names.
    privileged : {"poetic", "yin_yang"}, default="poetic"
        Which description of the training digits.
    verify : bool, default=True
        Whether the files are compared with their known SHA-256.
    return_X_y_privileged : bool, default=False
        Whether to return `(data, target, privileged)` of the training digits in place of a bunch.

    Returns
    -------
    Bunch or tuple
        The training digits; the bunch also has `validation_data`, `validation_target`, `test_data`, `test_target`.

    Examples
    --------
    >>> from experiments.data import load_mnist_plus
    >>> load_mnist_plus("/no/such/folder")
    Traceback (most recent call last):
    FileNotFoundError: there is no folder /no/such/folder, where the data 'mnist_plus' were looked for.
    """
    if privileged not in _BLOCKS:
        raise ValueError(f"`privileged` is {privileged!r}, but must be one of {', '.join(_BLOCKS)}.")
    folder = data_folder(root, "mnist_plus")

    def read(name: str) -> np.ndarray:
        return np.loadtxt(checked_file(folder, name, _FILES[name], verify), delimiter=",")

    block = read(_BLOCKS[privileged])
    return privileged_bunch(
        read("train_features.txt"),
        block,
        read("train_labels.txt").astype(np.int64),
        feature_names=[f"pixel_{row}_{column}" for row in range(10) for column in range(10)],
        privileged_names=[f"{privileged}_{k}" for k in range(block.shape[1])],
        target_names=["5", "8"],
        descr=_DESCR.format(n=block.shape[1], name=privileged),
        return_X_y_privileged=return_X_y_privileged,
        validation_data=read("val_features.txt"),
        validation_target=read("val_labels.txt").astype(np.int64),
        test_data=read("test_features.txt"),
        test_target=read("test_labels.txt").astype(np.int64),
    )
