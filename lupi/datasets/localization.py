"""Annotated images in any of the known formats."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from sklearn.utils import Bunch

from lupi.datasets.annotations import DataFormatError
from lupi.datasets.boxes_csv import load_boxes_csv
from lupi.datasets.coco import load_coco
from lupi.datasets.voc import load_voc

_READERS: dict[str, Any] = {"csv": load_boxes_csv, "coco": load_coco, "voc": load_voc}


def load_localization(path: str | PathLike[str], format: str = "auto", *, follow_links: bool = False) -> Bunch:
    """Read images with boxes from a CSV file, a COCO file or a Pascal VOC folder.

    Parameters
    ----------
    path : path
        A CSV file, a JSON file of COCO, or the folder of Pascal VOC.
    format : {"auto", "csv", "coco", "voc"}, default="auto"
        The format; "auto" infers it from the path.
    follow_links : bool, default=False
        Whether annotations may name files outside of the data set's folder, by ``..``, absolute paths or symbolic links.

    Returns
    -------
    Bunch
        As returned by the reader of the format.

    Raises
    ------
    DataFormatError
        With the file, the line (in JSON: the place, such as ``annotations[17].bbox``) and what was expected.
    """
    path = Path(path)
    if format not in ("auto", *_READERS):
        raise ValueError(f"`format` must be 'auto', 'csv', 'coco' or 'voc', got {format!r}.")
    return _READERS[_infer_format(path) if format == "auto" else format](path, follow_links=follow_links)


def _infer_format(path: Path) -> str:
    if not path.exists():
        raise DataFormatError(f"{path}: no such file or folder.")
    found = {".csv": "csv", ".json": "coco"}.get(path.suffix.lower())
    if found is None and not (path / "Annotations").is_dir():
        raise DataFormatError(
            f"{path}: expected a .csv file, a COCO .json file, or a folder with Annotations (Pascal VOC)."
        )
    return found or "voc"
