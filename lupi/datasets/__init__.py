"""Data with privileged features: bundled and generated.

Every loader returns a :class:`sklearn.utils.Bunch` with `data`, `privileged`, `target`, `feature_names`,
`privileged_names`, `target_names` and `DESCR`.
"""

from lupi.datasets.breast_cancer_followup import load_breast_cancer_followup
from lupi.datasets.digits_lowres import load_digits_lowres
from lupi.datasets.synthetic import make_privileged

__all__ = ["load_breast_cancer_followup", "load_digits_lowres", "make_privileged"]
