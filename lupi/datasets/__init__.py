"""Data with privileged features: bundled tables, generators, and readers of annotated images.

Tables are a :class:`sklearn.utils.Bunch` with `data`, `privileged`, `target`, `feature_names`, `privileged_names` and `DESCR`.
Readers of annotated images return a Bunch with `images`, `boxes`, `masks`, `attributes`, `labels` and `label_names`; `data`,
`target` and `privileged` are other names of its images, boxes, and masks and attributes. `make_planted_boxes` returns lists.
"""

from lupi.datasets.annotations import DataFormatError, load_boxes_csv, load_coco, load_localization, load_voc
from lupi.datasets.synthetic import make_planted_boxes, make_privileged
from lupi.datasets.tables import load_breast_cancer_followup, load_digits_lowres, load_young_men

__all__ = [
    "DataFormatError",
    "load_boxes_csv",
    "load_breast_cancer_followup",
    "load_coco",
    "load_digits_lowres",
    "load_localization",
    "load_voc",
    "load_young_men",
    "make_planted_boxes",
    "make_privileged",
]
