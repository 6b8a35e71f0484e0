"""Data with privileged features: bundled, generated, and read from research files.

Every loader of a table returns a :class:`sklearn.utils.Bunch` with `data`, `privileged`, `target`, `feature_names`,
`privileged_names` and `DESCR`; `make_planted_boxes` returns three lists. Research data are not part of this package; their
readers take the folder, or find it in the one that the environment variable LUPI_DATA names.
"""

from lupi.datasets.awa import load_awa
from lupi.datasets.breast_cancer_followup import load_breast_cancer_followup
from lupi.datasets.digits_lowres import load_digits_lowres
from lupi.datasets.mnist_plus import load_mnist_plus
from lupi.datasets.planted_boxes import make_planted_boxes
from lupi.datasets.research_tables import load_research_table
from lupi.datasets.synthetic import make_privileged

__all__ = [
    "load_awa",
    "load_breast_cancer_followup",
    "load_digits_lowres",
    "load_mnist_plus",
    "load_research_table",
    "make_planted_boxes",
    "make_privileged",
]
