"""Data with privileged features: bundled, generated, and read from the original file layouts.

Every loader of a table returns a :class:`sklearn.utils.Bunch` with `data`, `privileged`, `target`, `feature_names`,
`privileged_names` and `DESCR`; `load_movie_rationales` has texts in place of features; `make_planted_boxes` returns three lists.
Loaders of annotated images (`load_cub`, `load_boxes_csv`, `load_voc`, `load_coco`, `load_oxford_pets`, `load_caltech101`,
`load_tiny_imagenet_boxes`, or `load_localization` for any of the first five) return a Bunch with `images`, `boxes`, `masks`,
`attributes`, `labels` and `label_names`. Research data are not part of this package; their readers take the folder, and those of
tables, of reviews and of Tiny ImageNet also look into the one that the environment variable LUPI_DATA names.
"""

from lupi.datasets._localization import DataFormatError
from lupi.datasets.boxes_csv import load_boxes_csv
from lupi.datasets.breast_cancer_followup import load_breast_cancer_followup
from lupi.datasets.coco import load_coco
from lupi.datasets.digits_lowres import load_digits_lowres
from lupi.datasets.localization import load_caltech101, load_localization
from lupi.datasets.planted_boxes import make_planted_boxes
from lupi.datasets.synthetic import make_privileged
from lupi.datasets.voc import load_oxford_pets, load_voc
from lupi.datasets.young_men import load_young_men

__all__ = [
    "DataFormatError",
    "load_boxes_csv",
    "load_breast_cancer_followup",
    "load_caltech101",
    "load_coco",
    "load_digits_lowres",
    "load_localization",
    "load_oxford_pets",
    "load_voc",
    "load_young_men",
    "make_planted_boxes",
    "make_privileged",
]
