"""Data with privileged features: bundled and generated.

Every loader of a table returns a :class:`sklearn.utils.Bunch` with `data`, `privileged`, `target`, `feature_names`,
`privileged_names`, `target_names` and `DESCR`; `make_planted_boxes` returns three lists.
"""

from lupi.datasets.breast_cancer_followup import load_breast_cancer_followup
from lupi.datasets.digits_lowres import load_digits_lowres
from lupi.datasets.planted_boxes import make_planted_boxes
from lupi.datasets.synthetic import make_privileged

__all__ = ["load_breast_cancer_followup", "load_digits_lowres", "make_planted_boxes", "make_privileged"]
