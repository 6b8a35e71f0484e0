"""Readers of the research data: features, tables and texts in their original files, checked by SHA-256."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.io import loadmat
from sklearn.utils import Bunch

from lupi.vision import Box


def data_folder(root, name):
    """`root`, or the folder `name` inside the folder that the environment variable LUPI_DATA names."""
    if root is None and "LUPI_DATA" not in os.environ:
        raise FileNotFoundError(f"Data set {name!r} not found: pass --data DIR or set LUPI_DATA.")
    folder = Path(os.environ["LUPI_DATA"], name) if root is None else Path(root)
    if not folder.is_dir():
        raise FileNotFoundError(f"Data set {name!r} not found: there is no folder {folder}.")
    return folder


def checked(paths, sha256):
    """The paths, if the SHA-256 of all contents in this order is as expected; ``sha256=None`` skips the check."""
    total = hashlib.sha256()
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"{path.parent} has no file {path.name}.")
        total.update(path.read_bytes() if len(paths) == 1 else hashlib.sha256(path.read_bytes()).digest())
    if sha256 is not None and total.hexdigest() != sha256:
        raise ValueError(f"{paths[0]} is damaged or another version: SHA-256 {total.hexdigest()}, expected {sha256}.")
    return paths


def _file(folder, name, sha256, verify):
    return checked([folder / name], sha256 if verify else None)[0]


def load_awa(root=None, *, classes=None, verify=True):
    """Ten test classes of Animals with Attributes: 2000 SURF words that sum to 1; privileged: 85 attribute probabilities.

    The attribute probabilities are a reconstruction of the DAP model, not the file that Sharmanska et al. (2013) used.
    """
    folder = data_folder(root, "awa_surf")
    surf = "9f543417fac10317fb17e5b5aa3b833faf15d07d7257214b156f8c934f76ebe4"
    dap = "7601ad6e4bd9851eb25313c46cb36075f01068c0a94c16456bf2202b9fc08b87"
    with np.load(_file(folder, "surf_test10.npz", surf, verify), allow_pickle=False) as pictures:
        counts, labels, names = pictures["counts"], pictures["y"], [str(c) for c in pictures["classes"]]
    with np.load(_file(folder, "dap_predicted_attributes_test10.npz", dap, verify), allow_pickle=False) as file:
        attributes = file["dap_all5"].astype(np.float64)
    kept = list(names if classes is None else classes)
    if not set(kept) <= set(names) or len(set(kept)) < 2:
        raise ValueError(f"`classes` must hold at least two of {', '.join(names)}; got {classes!r}.")
    numbers = np.full(len(names), -1)
    numbers[[names.index(name) for name in kept]] = np.arange(len(kept))
    rows = np.flatnonzero(numbers[labels] >= 0)
    words = counts[rows].astype(np.float64)
    words /= np.maximum(words.sum(axis=1, keepdims=True), 1.0)
    return Bunch(data=words, privileged=attributes[rows], target=numbers[labels][rows], target_names=kept)


MNIST_PLUS = {
    "train_features.txt": "241a91db28c16ade4e07823833c8bbfc5ed9cac43595133c3c75c568fa0e6d2c",
    "train_labels.txt": "e0abd1cf1900c53a9bb41be06f90d00e12214dd1697a61a903820bca252746f7",
    "train_PFfeatures.txt": "af2fbf0a6d72edbae0d7b3c87ab7a84ebf9fb2124d2dd22a51a0b080072ba5ec",
    "val_features.txt": "12907f96ed063e41865699428dcd897dd2ef3f39f301c97c29d5e7dcf6c9e905",
    "val_labels.txt": "57f9e49a560c509fbeb26b4fd270d22bae290c06102b72073e4cae115404903c",
    "test_features.txt": "ad990ef40015499a5041d68ed52fac2722991a73ebf902545548bc06479c2bb1",
    "test_labels.txt": "47df52967cb8c18b2dacacac0bdcdebb390d26e38488c8a2e4ac94c3bd23f41f",
}


def load_mnist_plus(root=None, *, verify=True):
    """MNIST+: 100 digits of 10 x 10 pixels with 21 features of a poet's descriptions; validation and test digits without."""
    folder = data_folder(root, "mnist_plus")
    tables = {
        name.removesuffix(".txt"): np.loadtxt(_file(folder, name, sha256, verify), delimiter=",")
        for name, sha256 in MNIST_PLUS.items()
    }
    return Bunch(
        data=tables["train_features"],
        privileged=tables["train_PFfeatures"],
        target=tables["train_labels"].astype(int),
        validation_data=tables["val_features"],
        validation_target=tables["val_labels"].astype(int),
        test_data=tables["test_features"],
        test_target=tables["test_labels"].astype(int),
    )


def load_movie_rationales(root=None, *, verify=True):
    """Film reviews (Zaidan et al. 2007, ERASER's layout); privileged: the passages marked as reasons for the label.

    `part` is "train" (with ERASER's validation reviews) or "test", whose rationales are of another kind.
    """
    folder = data_folder(root, "movie_rationales")
    files = {
        "train.jsonl": "51df77ec6ed896e01f51924d5690d541a2f132b0f2cf41ece4fb85f352da712e",
        "test.jsonl": "40c0e4c095d6d1dc3bbf952515f7e68fe54ebf4d25400c9b656ee86c4f0e3a6f",
    }
    found = Bunch(data=[], privileged=[], target=[], part=[])
    documents = []
    for name, sha256 in files.items():
        for line in _file(folder, name, sha256, verify).read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            found.target.append(("NEG", "POS").index(row["classification"]))
            found.privileged.append("\n".join(span["text"] for group in row["evidences"] for span in group))
            found.part.append(name.removesuffix(".jsonl"))
            documents.append(folder / "docs" / row["annotation_id"])
    sha256 = "094f94e4c55328addc64b1944feaa2577410d8d34ff7b0b7a094d07453021bc9" if verify else None
    found.data = [path.read_text(encoding="utf-8") for path in checked(documents, sha256)]
    found.target, found.part = np.array(found.target), np.array(found.part)
    return found


# Name -> file, SHA-256, target, privileged columns, columns left out (they leak or identify), column of groups.
TABLES = {
    "support2": (
        "support2.csv", "0e1c2000cabaf927098f776ec335ea9f1ff31f37820f054ba039ad428489966d", "hospdead",
        ["slos", "charges", "totcst", "totmcst", "avtisst", "surv2m", "surv6m", "prg2m", "prg6m", "dnr", "dnrday"],
        ["Index", "death", "d.time", "sfdm2"], None,
    ),
    "parkinsons": (
        "parkinsons.data", "742c51c827d62e5d6b2dc8c092ce48fe275d932d8c651752436b681ab903341d", "status",
        ["RPDE", "DFA", "spread1", "spread2", "D2", "PPE"], ["name"], "name",
    ),
    "bank_marketing": (
        "bank-additional.csv", "e71826c3e6d8bd64097ca3ff6230bf60eec5d4b1eb157607a8d54958220854e8", "y", ["duration"], [], None,
    ),
    "student_performance": (
        "student-por.csv", "af1195377c98f0847ff8355ca49763dc2ea8045916b0ebffb154e7edfdea7ad9", "G3", ["G1", "G2"], [], None,
    ),
}  # fmt: skip
# Tables of the folder `followup`: columns x... known at the start, z... measured in between, target y.
FOLLOWUP = {
    "wagepan": "da78eef5e16c0f4fdd2a021ffcff6c1c99d4e7a421be7a7b6d066a8154b3eba0",
    "card": "46346c5d2a29d3e41cac5f4769cfdacaf8e18ae243cf876332439ba171f17db2",
    "star": "3ebc6815384eb78c8eb0c4558c7446de5e6a9027ced05a2099abb7fe8b33779c",
    "econmath": "59b6cea707ff1239f542dd15f5e1d4281fe345b42f6f43ae24db00ac9aa489c9",
    "rotterdam": "6c3c0898d0f4aa4afacfbe0a3efc7d744efe17902d17bdd602df7d496139f74a",
    "storms": "7aef311f90338fe4909addc9b984202bc8267e009b7945e8d7be51bf3f59b47f",
    "opt": "4e278c81abed14d4d565ed0d202df98c2c0117afb4e60d7f349d434581908293",
}


def load_research_table(name, root=None, *, verify=True):
    """One of eleven published tables with natural privileged columns."""
    if name not in TABLES and name not in FOLLOWUP:
        raise ValueError(f"`name` must be one of {', '.join([*TABLES, *FOLLOWUP])}; got {name!r}.")
    folder, (file, sha256, target, privileged, dropped, group) = name, TABLES.get(name, (None,) * 6)
    if name in FOLLOWUP:
        folder, file, sha256, target, dropped = "followup", f"{name}.csv", FOLLOWUP[name], "y", []
    path = _file(data_folder(root, folder), file, sha256, verify)
    table = pd.read_csv(path, sep=max(",;", key=path.read_text(encoding="utf-8").partition("\n")[0].count))
    if privileged is None:
        privileged = [column for column in table.columns if column.startswith("z")]
    ordinary = [column for column in table.columns if column not in {target, *privileged, *dropped}]
    # "phon_R01_S01_1" is the first recording of person S01.
    groups = None if group is None else table[group].str.rsplit("_", n=1).str[0].to_numpy()
    return Bunch(data=table[ordinary], privileged=table[privileged], target=table[target].to_numpy(), groups=groups)


def load_tiny_imagenet_boxes(root=None, *, verify=True):
    """Eight classes of Tiny ImageNet, 64 x 64 pixels, with one box per picture."""
    folder = data_folder(root, "tiny_imagenet_boxes")
    classes = [line.split("\t") for line in (folder / "words_subset.txt").read_text(encoding="utf-8").splitlines()]
    tables = [folder / "train" / identity / f"{identity}_boxes.txt" for identity, _ in classes]
    found = Bunch(images=[], boxes=[], labels=[], label_names=[name.split(",")[0].strip() for _, name in classes])
    sha256 = "a00d279d992515bfa10099988cbeea4a1416b8f665764a2fbc1f83d1262eee64" if verify else None
    for label, table in enumerate(checked(tables, sha256)):
        for line in table.read_text(encoding="utf-8").splitlines():
            name, *corners = line.split()
            x0, y0, x1, y1 = map(int, corners)  # both corners are inside the box
            found.boxes.append(Box(y0, x0, y1 + 1, x1 + 1))
            found.images.append(table.parent / "images" / name)
            found.labels.append(label)
    sha256 = "e0a67edfea58afc83b494613d1f01fee05a7f947e24ec672b3ce2ffe4a04f7e2" if verify else None
    found.images = [str(path) for path in checked(found.images, sha256)]
    found.labels = np.array(found.labels)
    return found


def load_wiki_image_text(root=None, *, verify=True):
    """Pictures of Wikipedia articles (Rasiwasia et al. 2010): SIFT words; privileged: topics of the text beside the picture."""
    folder = data_folder(root, "wiki_image_text")
    files = {
        "raw_features.mat": "ca628f765a69575e168ab29eb97f5ade12fadf47b31de1328c7ff631c7f225ae",
        "trainset_txt_img_cat.list": "30c1ba8afbe90da5986de9b12496b6dd2e4680d3876b79ab7aae2e437d5819a3",
        "testset_txt_img_cat.list": "ec3123ee31cc89dd95fbeb23eb73b2ecfd1d8909bba863723471aad99408c1eb",
        "categories.list": "4929f3ee00e9de9ffe11f9ab18fc8919b0f6182cc801309409df2f2d05e2b0f5",
    }
    paths = [_file(folder, name, sha256, verify) for name, sha256 in files.items()]
    tables = loadmat(paths[0], variable_names=["I_tr", "I_te", "T_tr", "T_te"])
    lines = [line for path in paths[1:3] for line in path.read_text(encoding="utf-8").splitlines()]
    return Bunch(
        data=np.vstack([tables["I_tr"], tables["I_te"]]),
        privileged=np.vstack([tables["T_tr"], tables["T_te"]]),
        target=np.array([int(line.split()[2]) - 1 for line in lines]),
        target_names=paths[3].read_text(encoding="utf-8").split(),
    )
