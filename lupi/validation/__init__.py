"""The one door for what users pass to `fit`: decision features, targets, weights, groups and privileged features.

Everything below this layer may rely on: float64, C order or canonical CSR, labels 0..k-1, no NaN.
"""

from lupi.validation.privileged import (
    PrivilegedInput,
    check_privileged,
    check_privileged_sequence,
    check_privileged_spaces,
    column_names,
    is_frame,
)
from lupi.validation.targets import (
    ClassificationInput,
    check_classification_input,
    check_group,
    check_sample_weight,
    effective_class_weight,
)

__all__ = [
    "ClassificationInput",
    "PrivilegedInput",
    "check_classification_input",
    "check_group",
    "check_privileged",
    "check_privileged_sequence",
    "check_privileged_spaces",
    "check_sample_weight",
    "column_names",
    "effective_class_weight",
    "is_frame",
]
