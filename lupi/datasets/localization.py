"""Images with boxes in any of the known layouts; and images in class folders."""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path

from sklearn.utils import Bunch

from experiments.data_cub import load_cub
from lupi.datasets._localization import DataFormatError, localization_bunch
from lupi.datasets.boxes_csv import load_boxes_csv
from lupi.datasets.coco import load_coco
from lupi.datasets.voc import load_oxford_pets, load_voc

FORMATS = {"csv": load_boxes_csv, "coco": load_coco, "cub": load_cub, "voc": load_voc, "pets": load_oxford_pets}


def load_localization(path: str | PathLike[str], format: str = "auto", *, follow_links: bool = False) -> Bunch:
    """Read images with boxes; the layout is found out from the path.

    Parameters
    ----------
    path : path
        A CSV file, a JSON file of COCO, or the folder of CUB-200-2011, Pascal VOC or Oxford pets.
    format : {"auto", "csv", "coco", "cub", "voc", "pets"}, default="auto"
        The layout.
    follow_links : bool, default=False
        Whether the annotations may name files outside of the data set's folder, by ``..``, by absolute paths or by symbolic links.

    Returns
    -------
    Bunch
        As of the reader of that layout.

    Raises
    ------
    DataFormatError
        With the file, the line (in JSON: the place, such as ``annotations[17].bbox``) and what was expected.
    """
    path = Path(path)
    if format not in ("auto", *FORMATS):
        raise ValueError(f"format must be auto or one of {sorted(FORMATS)}, got {format!r}.")
    return FORMATS[_layout(path) if format == "auto" else format](path, follow_links=follow_links)


def _layout(path: Path) -> str:
    if not os.path.exists(path):
        raise DataFormatError(f"{path}: no such file or folder.")
    signs = {
        "csv": path.suffix.lower() == ".csv",
        "coco": path.suffix.lower() == ".json",
        "cub": (path / "bounding_boxes.txt").is_file(),
        "voc": (path / "Annotations").is_dir(),
        "pets": (path / "annotations" / "trimaps").is_dir(),
    }
    for name, present in signs.items():
        if present:
            return name
    raise DataFormatError(
        f"{path}: expected a .csv file, a COCO .json file, or a folder with bounding_boxes.txt (CUB), Annotations (Pascal VOC) or "
        "annotations/trimaps (Oxford pets)."
    )


def load_caltech101(root: str | PathLike[str]) -> Bunch:
    """Read Caltech101: one folder of images for each class; there are no boxes.

    Parameters
    ----------
    root : path
        ``101_ObjectCategories`` or the folder that contains it.

    Returns
    -------
    Bunch
        images, labels, label_names; boxes are None.
    """
    root = Path(root)
    inner = root / "101_ObjectCategories"
    root = inner if inner.is_dir() else root
    endings = {".jpg", ".jpeg", ".png"}
    folders = sorted(f for f in root.iterdir() if f.is_dir()) if root.is_dir() else []
    files = [(k, file) for k, f in enumerate(folders) for file in sorted(f.iterdir()) if file.suffix.lower() in endings]
    if not files:
        raise DataFormatError(f"{root}: expected folders named after classes with JPEG or PNG images, found none.")
    return localization_bunch(
        [str(file) for _, file in files],
        [None] * len(files),
        labels=[k for k, _ in files],
        label_names=[f.name for f in folders],
        descr=f"Caltech101, {len(files)} images of {len(folders)} classes.",
    )
